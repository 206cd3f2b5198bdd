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
mod output;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod summary;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use linux::attach;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use cxlab_attach::estimate::BASE_NS;
    use cxlab_attach::model::Overlap;
    use cxlab_attach::placement::{Placement, bytes};
    use cxlab_attach::report::{AttachReport, End, PoolReport};
    use cxlab_attach::{AttachError, Options, Target, doctor};
    use cxlab_engine::units::Picos;
    use serde_json::{Value, json};

    use super::super::load::load;
    use super::super::results::json as as_text;
    use super::super::{ScenarioArgs, print};
    use super::output::{Folder, Page};
    use super::summary::{comparison, summary};
    use super::{AttachArgs, Failure};
    use crate::program_fabric::ProgramFabric;
    use crate::verify::{self, Assumed, NativeRun, UnderQemu, Verified, VerifyError, verify};
    use cxlab_plan::Plan;
    use cxlab_plan::load::Loaded;
    use cxlab_system::analytic::PlanFabric;
    use cxlab_system::layout::cells;
    use cxlab_system::output::run_id;

    /// Attaches to a program and writes what was found.
    pub(in super::super) fn attach(args: AttachArgs) -> Result<(), Failure> {
        if args.doctor {
            return examine();
        }
        let options = options(&args)?;
        let Some(scenario) = args.scenario else {
            return Err(Failure::mistake("no scenario was given"));
        };
        let loaded = load(&ScenarioArgs {
            scenario,
            set: args.set,
            trust_plugins: false,
            trace_file: None,
        })?
        .map_err(Failure::from)?;
        let plan = &loaded.plan;
        if args.verify {
            verify::check(plan).map_err(|error| verify_failure(error, &loaded))?;
            cxlab_workload::capture::can_follow(&args.command)
                .map_err(|error| Failure::mistake(format!("--verify: {error}")))?;
        }
        let folder = args.out.as_deref().map(Folder::open).transpose()?;
        let page = Page::open(args.report.as_deref(), args.quiet)?;
        let seed = plan.scenario.seed;
        let fabric = PlanFabric::new(plan, seed).map_err(|problems| loaded.mistakes(problems))?;
        let unloaded = fabric.unloaded_ns();
        let pools: Vec<(String, f64)> = fabric.pools().into_iter().zip(unloaded).collect();
        let mut fabric = ProgramFabric(fabric);
        let report = cxlab_attach::attach(&options, &mut fabric).map_err(|error| match error {
            AttachError::Start(_) | AttachError::Trace(_) => Failure::mistake(error),
            AttachError::System(text) => Failure::Output(text),
        })?;
        let verified = match args.verify {
            true => {
                let (processes, threads) = (report.processes, report.threads);
                if threads > 1 {
                    return Err(Failure::mistake(format!(
                        "--verify: found {processes} processes with {threads} threads; allowed: programs \
                         of one thread"
                    )));
                }
                let assumed = Assumed {
                    local_ps: (report.local_latency_ns * 1e3).round() as u64,
                    base_ps: (BASE_NS * 1e3) as u64,
                    llc_bytes: report.llc_bytes,
                    overlap: report.overlap,
                };
                let found = verify(plan, options.placement, assumed, UnderQemu(&args.command));
                let found = found.map_err(|error| verify_failure(error, &loaded))?;
                Some(found.with_run(native(&report)))
            }
            false => None,
        };
        let ProgramFabric(fabric) = fabric;
        let mut text = summary(&plan.scenario.name, &pools, &fabric, &report);
        if let Some(verified) = &verified {
            text.push_str(&comparison(verified));
        }
        let written = match &folder {
            Some(folder) => {
                let json = whole(plan, &pools, &fabric, &report, verified.as_ref())?;
                let written = folder.write("report.json", &json);
                let path = folder.path("report.json");
                text.push_str(&format!("\nwritten: {}\n", path.display()));
                written
            }
            None => Ok(()),
        };
        let written = written.and(page.write(&text));
        let ended = match (report.end, &options.target) {
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

    fn options(args: &AttachArgs) -> Result<Options, Failure> {
        let target = match (args.pid, args.command.is_empty()) {
            (Some(pid), _) => Target::Pid(pid),
            (None, false) => Target::Command(args.command.clone()),
            (None, true) => {
                return Err(Failure::mistake(
                    "no program was given; allowed: -- COMMAND [ARGUMENTS], or --pid PID",
                ));
            }
        };
        let placement: Placement = args
            .placement
            .parse()
            .map_err(|error| Failure::mistake(format!("--placement: {error}")))?;
        let local_ns = args.local_latency.as_deref().map(|text| {
            let picos: Result<Picos, _> = text.parse();
            match picos {
                Ok(picos) if picos.0 > 0 => Ok(picos.0 as f64 / 1e3),
                _ => Err(Failure::mistake(format!(
                    "--local-latency: found `{text}`; allowed: a time such as \"90 ns\""
                ))),
            }
        });
        let llc_bytes = args.llc.as_deref().map(|text| {
            bytes(text).ok_or_else(|| {
                Failure::mistake(format!(
                    "--llc: found `{text}`; allowed: a size such as 32MiB"
                ))
            })
        });
        let overlap = args.overlap.as_deref().map(overlap);
        Ok(Options {
            overlap: overlap.transpose()?,
            recalibrate: args.recalibrate,
            target,
            placement,
            local_ns: local_ns.transpose()?,
            llc_bytes: llc_bytes.transpose()?,
        })
    }

    /// What `--overlap` says.
    fn overlap(text: &str) -> Result<Overlap, Failure> {
        let count = |text: &str| -> Option<f64> {
            let count: f64 = text.parse().ok()?;
            (1.0..=1024.0).contains(&count).then_some(count)
        };
        let parts: Vec<&str> = text.split(':').collect();
        let found = match parts[..] {
            [ahead, misses, stream] => ahead
                .parse::<u32>()
                .ok()
                .filter(|ahead| (1..=65536).contains(ahead))
                .zip(count(misses).zip(count(stream))),
            _ => None,
        };
        match found {
            Some((window, (misses, stream))) if stream >= misses => Ok(Overlap {
                window,
                misses,
                stream,
            }),
            _ => Err(Failure::mistake(format!(
                "--overlap: found `{text}`; allowed: AHEAD:MISSES:STREAM, 1 to 65536 instructions, and \
                 1 to 1024 of each of the others, the last at least the second"
            ))),
        }
    }

    fn verify_failure(error: VerifyError, loaded: &Loaded) -> Failure {
        match error {
            VerifyError::Mistake(text) => Failure::mistake(text),
            VerifyError::Problems(problems) => loaded.mistakes(problems).into(),
            VerifyError::Run(error) => Failure::Internal(error.to_string()),
        }
    }

    /// What the run is compared by.
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

    /// The report, with what it is a report of.
    fn whole(
        plan: &Plan,
        pools: &[(String, f64)],
        fabric: &PlanFabric<'_>,
        report: &AttachReport,
        verified: Option<&Verified>,
    ) -> Result<String, Failure> {
        let internal = |error| Failure::Internal(format!("the report: {error}"));
        let mut value = serde_json::to_value(report).map_err(internal)?;
        let unloaded: Vec<Value> = pools
            .iter()
            .skip(1)
            .map(|(name, latency)| json!({ "name": name, "unloaded_ns": latency }))
            .collect();
        if let Some(object) = value.as_object_mut() {
            object.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
            object.insert("scenario".to_owned(), plan.scenario.name.clone().into());
            object.insert("plan_hash".to_owned(), plan.hash.clone().into());
            object.insert("devices".to_owned(), unloaded.into());
            let (classes, worst) = fabric.error_classes();
            let classes: Vec<Value> = classes
                .into_iter()
                .map(|(class, part)| json!({ "class": class, "lines": part }))
                .collect();
            object.insert(
                "fabric_error".to_owned(),
                json!({ "latency": classes, "worst": worst }),
            );
            if let Some(verified) = verified {
                let verified = serde_json::to_value(verified).map_err(internal)?;
                object.insert("verified".to_owned(), verified);
            }
        }
        let run = run_id(&[&value.to_string()]);
        value["run"] = run.into();
        as_text(&value)
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
