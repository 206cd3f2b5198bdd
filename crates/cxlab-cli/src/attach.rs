//! `cxlab attach`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;

#[derive(Args)]
pub(super) struct AttachArgs {
    /// Scenario file (TOML): its first host is the program, its other hosts run beside it
    #[arg(required_unless_present = "doctor")]
    scenario: Option<PathBuf>,
    /// Change a value of the scenario, e.g. --set fabric.link.lanes=8 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Which memory of the program is CXL memory: cxl (all), local-first:SIZE,
    /// interleave:LOCAL:CXL (pages), above:SIZE (mappings of that size and more)
    #[arg(long, default_value = "cxl", value_name = "POLICY")]
    placement: String,
    /// Attach to a process that runs already
    #[arg(long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Latency of this machine's memory, e.g. "90 ns", instead of measuring it
    #[arg(long, value_name = "TIME")]
    local_latency: Option<String>,
    /// Last level cache that the program is taken to have, e.g. 32MiB
    #[arg(long, value_name = "SIZE")]
    llc: Option<String>,
    /// What overlaps, e.g. 256:12:16, instead of measuring it: instructions that the processor looks
    /// ahead, and independent misses and lines of a stream in flight at once
    #[arg(long, value_name = "AHEAD:MISSES:STREAM")]
    overlap: Option<String>,
    /// Measure this machine again (about 2 s), instead of what an earlier run kept in the user's cache
    /// folder
    #[arg(long)]
    recalibrate: bool,
    /// Run the program once more, under QEMU's user mode, and compare with the event engine
    #[arg(long, conflicts_with_all = ["pid", "doctor"])]
    verify: bool,
    /// Say where in the program the delay is from: functions, lines and memory; with --out also as a flame
    /// graph. A library that tells allocations is loaded into the program (LD_PRELOAD)
    #[arg(long = "where", conflicts_with_all = ["doctor", "recorded"])]
    located: bool,
    /// Say what the program would have cost with its memory elsewhere, least first
    #[arg(long, conflicts_with = "doctor")]
    advise: bool,
    /// With --advise: also on the fabric of this scenario (repeatable)
    #[arg(long, value_name = "SCENARIO", conflicts_with = "doctor")]
    against: Vec<PathBuf>,
    /// Keep what --advise needs in this file, so that other scenarios can be tried without running again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["doctor", "recorded"])]
    record: Option<PathBuf>,
    /// Instead of running a program: what the one of an earlier --record would have cost on this scenario
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "command", "doctor", "verify"])]
    recorded: Option<PathBuf>,
    /// Know misses by events of the processor instead of windows (tier 1): auto, or MISSES[:PERIOD],OUTSTANDING of
    /// raw events (r20d1), page-faults and task-clock
    #[arg(long, value_name = "EVENTS", conflicts_with_all = ["doctor", "verify", "record", "recorded", "advise", "perf"])]
    events: Option<String>,
    /// Instead of running a program: what the one that `perf record` wrote this file of would have cost; with
    /// --pid of that process alone
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "doctor", "verify", "record", "recorded"])]
    perf: Option<PathBuf>,
    /// With --perf: CPU time that the program used, e.g. "12.5 s", instead of what the file says
    #[arg(long, value_name = "TIME")]
    cpu_time: Option<String>,
    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Where report.json goes; without it there is none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
    /// Say what this machine can do, and why not more
    #[arg(long, conflicts_with_all = ["pid", "command", "scenario"])]
    doctor: bool,
    /// The program and its arguments
    #[arg(last = true)]
    command: Vec<OsString>,
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(super) fn attach(_args: AttachArgs) -> Result<(), Failure> {
    Err(Failure::mistake(
        "`cxlab attach` is not supported on this system; it needs Linux on x86-64",
    ))
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod advice;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod located;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod options;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod output;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod profile;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod summary;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use linux::attach;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::io::Read;
    use std::path::Path;

    use cxlab_attach::estimate::BASE_NS;
    use cxlab_attach::fabric::Fabric;
    use cxlab_attach::located::{LocatedPhase, locate};
    use cxlab_attach::report::{AttachReport, End};
    use cxlab_attach::slowdown::PoolReport;
    use cxlab_attach::{AttachError, AttachOutcome, Options, Target, doctor};
    use serde_json::{Value, json};

    use super::super::load::changed;
    use super::super::print;
    use super::super::results::json as as_text;
    use super::advice::{Advice, Run, Sampling, TriedFabric, advise, advise_sampled};
    use super::located::CostByPlace;
    use super::options::{local_latency, options, overlap, placement, time};
    use super::output::{Folder, Page};
    use super::profile::{self, GivenMachine};
    use super::summary::{comparison, summary};
    use super::{AttachArgs, Failure};
    use crate::program_fabric::ProgramFabric;
    use crate::verify::{self, Assumed, NativeRun, UnderQemu, Verification, VerifyError, verify};
    use cxlab_plan::Plan;
    use cxlab_plan::load::Loaded;
    use cxlab_system::analytic::PlanFabric;
    use cxlab_system::layout::cells;
    use cxlab_system::output::{run_id, stamped};

    /// Most bytes of a recording that is read.
    const MOST_RECORDED: u64 = 1 << 30;

    /// Attaches to a program and writes the report, or prices a recorded run on the scenario.
    pub(in super::super) fn attach(args: AttachArgs) -> Result<(), Failure> {
        if args.doctor {
            return examine();
        }
        if !args.against.is_empty() && !args.advise && args.recorded.is_none() {
            return Err(Failure::mistake(
                "--against: allowed with --advise or --recorded",
            ));
        }
        if args.cpu_time.is_some() && args.perf.is_none() {
            return Err(Failure::mistake("--cpu-time: allowed with --perf"));
        }
        let scenarios = Scenarios::load(&args)?;
        match (&args.recorded, &args.perf) {
            (Some(path), _) => replay(&args, &scenarios, path),
            (None, Some(path)) => sampled(&args, &scenarios, path),
            (None, None) => follow(&args, &scenarios),
        }
    }

    /// The scenario whose first host is the program, and those to compare it with.
    struct Scenarios {
        own: Loaded,
        others: Vec<Loaded>,
    }

    impl Scenarios {
        fn load(args: &AttachArgs) -> Result<Scenarios, Failure> {
            let Some(own) = &args.scenario else {
                return Err(Failure::mistake("no scenario was given"));
            };
            let others = args.against.iter().map(|path| changed(path, Vec::new()));
            Ok(Scenarios {
                own: changed(own, args.set.clone())?,
                others: others.collect::<Result<_, _>>()?,
            })
        }

        /// The fabric of each scenario, the program's own first.
        fn fabrics(&self) -> Result<Vec<ProgramFabric<'_>>, Failure> {
            let all = std::iter::once(&self.own).chain(&self.others);
            all.map(|loaded| {
                let fabric = PlanFabric::new(&loaded.plan, loaded.plan.scenario.seed);
                let fabric = fabric.map_err(|problems| loaded.mistakes(problems))?;
                Ok(ProgramFabric(fabric))
            })
            .collect()
        }

        /// The fabrics with the names of their scenarios.
        fn tried<'a>(&self, fabrics: &'a mut [ProgramFabric<'_>]) -> Vec<TriedFabric<'a>> {
            let all = std::iter::once(&self.own).chain(&self.others);
            let named = all.zip(fabrics);
            named
                .map(|(loaded, fabric)| TriedFabric {
                    name: loaded.plan.scenario.name.clone(),
                    fabric,
                })
                .collect()
        }
    }

    /// Prices a recorded run on the scenarios.
    fn replay(args: &AttachArgs, scenarios: &Scenarios, path: &Path) -> Result<(), Failure> {
        let folder = args.out.as_deref();
        let folder = folder.map(|dir| Folder::open(dir, &["report.json"]));
        let folder = folder.transpose()?;
        let page = Page::open(args.report.as_deref(), args.quiet)?;
        let followed = recorded(path)?;
        let mut fabrics = scenarios.fabrics()?;
        let advice = advice(&followed, None, scenarios.tried(&mut fabrics))
            .map_err(|why| Failure::mistake(format!("--recorded {}: {why}", path.display())))?;
        let report = json!({
            "mode": "recorded",
            "version": env!("CARGO_PKG_VERSION"),
            "scenario": scenarios.own.plan.scenario.name,
            "advice": advice,
        });
        let written = match &folder {
            Some(folder) => folder.write("report.json", &as_text(&report)?),
            None => Ok(()),
        };
        written.and(page.write(&advice.text()))
    }

    /// Prices a program that `perf record` sampled.
    fn sampled(args: &AttachArgs, scenarios: &Scenarios, path: &Path) -> Result<(), Failure> {
        let given = GivenMachine {
            local_ns: local_latency(args)?,
            overlap: args.overlap.as_deref().map(overlap).transpose()?,
            cpu_ns: time("--cpu-time", args.cpu_time.as_deref(), "12.5 s")?,
        };
        let folder = folder(args)?;
        let page = Page::open(args.report.as_deref(), args.quiet)?;
        let mut fabrics = scenarios.fabrics()?;
        let fabric = &mut fabrics[0];
        let pools = pools(fabric);
        let priced = profile::price(args, path, given, placement(args)?, fabric)?;
        let plan = &scenarios.own.plan;
        let mut text = priced.text(&plan.scenario.name, &pools, &fabric.0);
        let mut found = AttachFindings::default();
        if args.located {
            let located = CostByPlace::new(&priced.cost.recording, &priced.cost.located);
            text.push_str(&located.text(&priced.cost.located));
            found.located = Some(located);
        }
        if args.advise {
            let run = Sampling {
                profile: &priced.profile,
                machine: &priced.machine,
                placement: priced.placement,
                cost: &priced.cost,
            };
            let advice = advise_sampled(&run, scenarios.tried(&mut fabrics));
            let advice = advice.map_err(|why| Failure::mistake(format!("--advise: {why}")))?;
            text.push_str(&advice.text());
            found.advice = Some(advice);
        }
        let report = with_devices(&pools, &priced.report())?;
        let written = write_all(&folder, plan, &fabrics[0].0, report, &found, &mut text);
        written.and(page.write(&text))
    }

    /// The pools of a fabric, with their latency without load.
    fn pools(fabric: &ProgramFabric<'_>) -> Vec<(String, f64)> {
        let names = fabric.pools().into_iter();
        names.zip(fabric.0.unloaded_ns()).collect()
    }

    /// The folder of the report and its pictures.
    fn folder(args: &AttachArgs) -> Result<Option<Folder>, Failure> {
        let names = ["report.json", "folded.txt", "flame.svg"];
        let names = &names[..if args.located { 3 } else { 1 }];
        let folder = args.out.as_deref();
        folder.map(|dir| Folder::open(dir, names)).transpose()
    }

    /// Follows a program and writes the report.
    fn follow(args: &AttachArgs, scenarios: &Scenarios) -> Result<(), Failure> {
        let options = options(args)?;
        let (loaded, plan) = (&scenarios.own, &scenarios.own.plan);
        if args.verify {
            verify::check(plan).map_err(|error| verify_failure(error, loaded))?;
            cxlab_workload::capture::can_follow(&args.command)
                .map_err(|error| Failure::mistake(format!("--verify: {error}")))?;
        }
        let folder = folder(args)?;
        let page = Page::open(args.report.as_deref(), args.quiet)?;
        let record = args.record.as_deref();
        let record = record
            .map(|path| Page::open(Some(path), true))
            .transpose()?;
        let mut fabrics = scenarios.fabrics()?;
        let pools = pools(&fabrics[0]);
        let followed = cxlab_attach::attach(&options, &mut fabrics[0]);
        let followed = followed.map_err(|error| match error {
            AttachError::Start(_) | AttachError::Trace(_) => Failure::mistake(error),
            AttachError::System(text) => Failure::Output(text),
        })?;
        let verified = match args.verify {
            true => Some(verified(args, &options, loaded, &followed.report)?),
            false => None,
        };
        let mut text = summary(&plan.scenario.name, &pools, &fabrics[0].0, &followed.report);
        if let Some(verified) = &verified {
            text.push_str(&comparison(verified));
        }
        let found = AttachFindings {
            verified,
            ..findings(args, scenarios, &followed, &mut fabrics, &pools, &mut text)
        };
        let report = with_devices(&pools, &followed.report)?;
        let mut written = write_all(&folder, plan, &fabrics[0].0, report, &found, &mut text);
        if let Some(page) = record {
            let whole = followed.to_json();
            let whole = whole.map_err(|error| Failure::Internal(format!("the recording: {error}")));
            written = written.and(whole.and_then(|whole| page.write(&whole)));
        }
        let written = written.and(page.write(&text));
        ended(&followed.report, &options.target, written)
    }

    /// Delay by place and advice from the recording of a run, as far as the options request them.
    fn findings(
        args: &AttachArgs,
        scenarios: &Scenarios,
        followed: &AttachOutcome,
        fabrics: &mut [ProgramFabric<'_>],
        pools: &[(String, f64)],
        text: &mut String,
    ) -> AttachFindings {
        let mut found = AttachFindings::default();
        let AttachOutcome {
            report,
            recording,
            profile,
        } = followed;
        if let (Some(cost), true) = (profile, args.located) {
            let located = CostByPlace::new(&cost.recording, &cost.located);
            text.push_str(&located.text(&cost.located));
            found.located = Some(located);
        }
        let (Some(recording), Ok(placement)) = (recording, report.placement.parse()) else {
            return found;
        };
        let mut latency_ns = vec![report.local_latency_ns];
        for (pool, (_, unloaded)) in report.pools.iter().zip(pools).skip(1) {
            latency_ns.push(pool.latency_ns.unwrap_or(*unloaded));
        }
        let phases = locate(recording, &fabrics[0], placement, &latency_ns);
        if args.located {
            let located = CostByPlace::new(recording, &phases);
            text.push_str(&located.text(&phases));
            found.located = Some(located);
        }
        if args.advise {
            match advice(followed, Some(&phases), scenarios.tried(fabrics)) {
                Ok(advice) => {
                    text.push_str(&advice.text());
                    found.advice = Some(advice);
                }
                Err(why) => text.push_str(&format!("\nno advice: {why}\n")),
            }
        }
        found
    }

    /// Results besides the report.
    #[derive(Default)]
    struct AttachFindings {
        verified: Option<Verification>,
        located: Option<CostByPlace>,
        advice: Option<Advice>,
    }

    /// Runs the program once more under QEMU, where every miss is known.
    fn verified(
        args: &AttachArgs,
        options: &Options,
        loaded: &Loaded,
        report: &AttachReport,
    ) -> Result<Verification, Failure> {
        if report.processes > 1 {
            return Err(Failure::mistake(format!(
                "--verify: found a program of {} processes; allowed: 1, with threads",
                report.processes
            )));
        }
        let assumed = Assumed {
            local_ps: (report.local_latency_ns * 1e3).round() as u64,
            base_ps: (BASE_NS * 1e3) as u64,
            llc_bytes: report.llc_bytes,
            overlap: report.overlap,
        };
        let found = verify(
            &loaded.plan,
            options.placement,
            assumed,
            UnderQemu(&args.command),
        );
        let found = found.map_err(|error| verify_failure(error, loaded))?;
        Ok(found.with_run(native(report)))
    }

    /// Costs of a run with other placements and fabrics. `phases` has the delay by place, if the run was on the first fabric.
    fn advice(
        followed: &AttachOutcome,
        phases: Option<&[LocatedPhase]>,
        tried: Vec<TriedFabric<'_>>,
    ) -> Result<Advice, String> {
        let AttachOutcome {
            report, recording, ..
        } = followed;
        let recording = recording.as_ref().ok_or("nothing was recorded")?;
        let Some(slowdown) = &report.slowdown else {
            let why = report.no_slowdown.as_deref().unwrap_or("it is not known");
            return Err(format!("the run has no slowdown: {why}"));
        };
        let run = Run {
            recording,
            placement: report.placement.parse()?,
            native_s: slowdown.native_s,
            asked: phases.map(|phases| (report.delay.asked_ns as f64 / 1e9, phases)),
        };
        Ok(advise(&run, tried))
    }

    /// Reads the recording of an earlier run.
    fn recorded(path: &Path) -> Result<AttachOutcome, Failure> {
        let wrong = |why: String| {
            Failure::mistake(format!(
                "--recorded {}: {why}; allowed: a file that --record wrote",
                path.display()
            ))
        };
        let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(wrong("is no file".to_owned()));
        }
        let mut text = String::new();
        file.take(MOST_RECORDED)
            .read_to_string(&mut text)
            .map_err(|error| wrong(error.to_string()))?;
        let followed = AttachOutcome::from_json(&text).map_err(|error| wrong(error.to_string()))?;
        match &followed.recording {
            Some(recording) => recording.check().map_err(wrong)?,
            None => return Err(wrong("has no recording".to_owned())),
        }
        Ok(followed)
    }

    /// Writes the report and its pictures to the folder, if there is one, and adds its path to `text`.
    fn write_all(
        folder: &Option<Folder>,
        plan: &Plan,
        fabric: &PlanFabric<'_>,
        report: Value,
        found: &AttachFindings,
        text: &mut String,
    ) -> Result<(), Failure> {
        let Some(folder) = folder else {
            return Ok(());
        };
        let path = folder.path("report.json");
        text.push_str(&format!("\nwritten: {}\n", path.display()));
        let (json, run) = whole(plan, fabric, report, found)?;
        folder.write("report.json", &json)?;
        let Some(located) = &found.located else {
            return Ok(());
        };
        folder.write("folded.txt", &located.folded())?;
        match located.flame_graph(&plan.scenario.name) {
            Some(picture) => {
                let picture = String::from_utf8_lossy(&picture);
                folder.write("flame.svg", &stamped(&picture, &run))
            }
            None => Ok(()),
        }
    }

    /// Result of the command: that of the program.
    fn ended(
        report: &AttachReport,
        target: &Target,
        written: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ended = match (report.end, target) {
            (End::Exited(0) | End::Detached, _) => return written,
            (End::Exited(code), _) => Failure::Program(u8::try_from(code).unwrap_or(1)),
            (End::Killed(signal), Target::Command(_)) => Failure::Killed(signal),
            (End::Killed(signal), Target::Pid(_)) => {
                Failure::Program(u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
        };
        if let Err(failure) = written {
            failure.report();
        }
        Err(ended)
    }

    fn verify_failure(error: VerifyError, loaded: &Loaded) -> Failure {
        match error {
            VerifyError::Mistake(text) => Failure::mistake(text),
            VerifyError::Problems(problems) => loaded.mistakes(problems).into(),
            VerifyError::Run(error) => Failure::Internal(error.to_string()),
        }
    }

    /// Measurements of the run for the comparison with the event engine.
    fn native(report: &AttachReport) -> NativeRun {
        let all = |value: fn(&PoolReport) -> f64| report.pools.iter().map(value).sum::<f64>();
        NativeRun {
            lines: all(|pool| pool.misses),
            waits: all(|pool| pool.waits),
            cpu_ns: report.cpu_s * 1e9,
            modelled_ns: report.parts.modelled_s * 1e9,
            delay_ns: report.delay.asked_ns as f64,
        }
    }

    /// A report with its devices.
    fn with_devices(
        pools: &[(String, f64)],
        report: &impl serde::Serialize,
    ) -> Result<Value, Failure> {
        let mut value = serde_json::to_value(report).map_err(internal)?;
        let unloaded: Vec<Value> = pools
            .iter()
            .skip(1)
            .map(|(name, latency)| json!({ "name": name, "unloaded_ns": latency }))
            .collect();
        value["devices"] = unloaded.into();
        Ok(value)
    }

    fn internal(error: serde_json::Error) -> Failure {
        Failure::Internal(format!("the report: {error}"))
    }

    /// The report as JSON, with its scenario and results, and the ID of the run.
    fn whole(
        plan: &Plan,
        fabric: &PlanFabric<'_>,
        mut value: Value,
        found: &AttachFindings,
    ) -> Result<(String, String), Failure> {
        let (classes, worst) = fabric.error_classes();
        let classes = classes.into_iter();
        let classes: Vec<Value> = classes
            .map(|(class, part)| json!({ "class": class, "lines": part }))
            .collect();
        value["version"] = env!("CARGO_PKG_VERSION").into();
        value["scenario"] = plan.scenario.name.clone().into();
        value["plan_hash"] = plan.hash.clone().into();
        value["fabric_error"] = json!({ "latency": classes, "worst": worst });
        for (name, part) in [
            (
                "verified",
                found.verified.as_ref().map(serde_json::to_value),
            ),
            ("where", found.located.as_ref().map(serde_json::to_value)),
            ("advice", found.advice.as_ref().map(serde_json::to_value)),
        ] {
            if let Some(part) = part.transpose().map_err(internal)? {
                value[name] = part;
            }
        }
        let run = run_id(&[&value.to_string()]);
        value["run"] = run.clone().into();
        Ok((as_text(&value)?, run))
    }

    fn examine() -> Result<(), Failure> {
        let checks = doctor::examine();
        let mut rows = vec![cells(["facility", "works", "found"])];
        for check in &checks {
            let works = if check.works { "yes" } else { "no" };
            rows.push(vec![
                check.name.to_owned(),
                works.to_owned(),
                check.found.clone(),
            ]);
        }
        let mut text = left(&rows);
        text.push('\n');
        let mut rows = vec![cells(["tier", "usable", "why"])];
        for tier in doctor::tiers(&checks) {
            let usable = if tier.usable { "yes" } else { "no" };
            rows.push(vec![
                format!("{} {}", tier.number, tier.name),
                usable.to_owned(),
                tier.why,
            ]);
        }
        text.push_str(&left(&rows));
        print(&text)
    }

    /// A table of words: all columns are left-aligned.
    fn left(rows: &[Vec<String>]) -> String {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths = [width(0), width(1)];
        let lines = rows.iter().map(|row| {
            let [first, second] = widths;
            format!("  {:<first$}  {:<second$}  {}\n", row[0], row[1], row[2])
        });
        lines.collect()
    }
}
