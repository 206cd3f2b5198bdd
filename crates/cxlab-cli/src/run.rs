//! `cxlab run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cxlab_engine::{Monitor, Threads};
use cxlab_files::{Folder, WholeFile};
use cxlab_plan::load::Loaded;
use cxlab_plan::windows::expected_requests;
use cxlab_scenario::ThreadLimit;
use cxlab_system::analytic::{self, AnalyticReport, ErrorClass};
use cxlab_system::checkpoint::{Checkpoint, Checkpoints, NotWritten};
use cxlab_system::output::{run_id, stamped};
use cxlab_system::picture;
use cxlab_system::report::Report;
use cxlab_system::requests::RequestLog;
use cxlab_system::run::{
    RunError, RunOptions, describe_division, division, run_ranked, run_traced, run_with,
    unused_threads,
};
use cxlab_system::table;

use super::failure::Failure;
use super::load::load;
use super::perfetto;
use super::progress::{self, Progress, on_interrupt};
use super::ranks::{self, LaunchedRanks};
use super::results::{REQUESTS, RUN_FILES, file_name, json, open_folder, write_files};
use super::seeds;
use super::{Mode, RunArgs, print, tell};

/// Runs a scenario and writes what it measured.
pub(super) fn run(args: RunArgs) -> Result<(), Failure> {
    let Some(mut ranks) = ranks::start()? else {
        return run_part(args, None);
    };
    let result = run_part(args, Some(ranks.as_mut()));
    let Err(failure) = result else {
        return Ok(());
    };
    if ranks.rank() > 0 {
        // The first rank reports an error that all ranks have, and then stops this one.
        std::thread::sleep(Duration::from_secs(2));
    }
    // Other ranks may wait for messages of this one.
    ranks.abort(failure.report())
}

/// Runs all of a scenario, or one rank's part of it.
fn run_part(args: RunArgs, ranks: Option<&mut dyn LaunchedRanks>) -> Result<(), Failure> {
    let first = ranks.as_ref().is_none_or(|ranks| ranks.rank() == 0);
    check_arguments(&args, ranks.as_ref().map(|ranks| ranks.size()))?;
    seeds::check_arguments(&args, ranks.as_ref().map(|ranks| ranks.size()))?;
    let loaded = load(&args.scenario)?.map_err(Failure::from)?;
    if let Some(path) = &args.perfetto {
        perfetto::check(path)?;
    }
    let scenario = &loaded.plan.scenario;
    let dir = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new("out").join(file_name(&scenario.name)));
    // Only the first rank writes.
    let folder = match first {
        true => Some(open_folder(&dir, &RUN_FILES)?),
        false => None,
    };
    let result = run_into(&loaded, &args, &dir, folder.as_ref(), ranks);
    // Removes the folder if it is empty, as it is if the run failed before its report.
    result.inspect_err(|_| drop(std::fs::remove_dir(&dir)))
}

/// Runs a scenario, or one rank's part of it, and writes results into a folder. Ranks but the first have none.
fn run_into(
    loaded: &Loaded,
    args: &RunArgs,
    dir: &Path,
    folder: Option<&Folder>,
    ranks: Option<&mut dyn LaunchedRanks>,
) -> Result<(), Failure> {
    let scenario = &loaded.plan.scenario;
    let seed = args.seed.unwrap_or(scenario.seed);
    if let Some(seeds) = args.seeds {
        return match folder {
            Some(folder) => seeds::run_all(loaded, args, folder, (seed, seeds)),
            None => Ok(()),
        };
    }
    let [short_runs, monitor] = interruptible();
    if run_analytic(loaded, args, folder, seed, &short_runs)? {
        return Ok(());
    }
    let threads = args.threads.unwrap_or(scenario.execution.threads);
    let not_written = NotWritten::telling(|error| {
        tell(&format!("warning: --checkpoint {error}; the run goes on"));
    });
    let checkpoints = checkpoints(args, &not_written)?;
    let progress = follow(loaded, &monitor, args.quiet || folder.is_none());
    let result = match ranks {
        Some(ranks) => {
            let report = run_on(loaded, args, seed, ranks, (&monitor, checkpoints));
            report.map(|report| report.map(|report| (report, None)))
        }
        None => run_logged(loaded, args, dir, (seed, threads), &monitor, checkpoints).map(Some),
    };
    progress.stop();
    if let Some(summary) = not_written.summary() {
        tell(&format!("warning: --checkpoint: {summary}"));
    }
    let (Some((report, log)), Some(folder)) = (result?, folder) else {
        return Ok(());
    };
    write_results(loaded, &report, folder, log)?;
    if !args.quiet {
        print(&table::summary(&loaded.plan, &report))?;
        print(&describe_threads(threads, &monitor))?;
        for note in &report.provenance.notes {
            print(&format!("\n  note: {}\n", loaded.describe_note(note)))?;
        }
        print(&format!(
            "\nwritten: {}\n",
            written(dir, args.requests).join(", ")
        ))?;
    }
    outcome(args, dir, &report)
}

/// Computes the analytic form if `--mode` asks for it, and writes its report. Returns whether it did: otherwise the
/// events have to be run.
fn run_analytic(
    loaded: &Loaded,
    args: &RunArgs,
    folder: Option<&Folder>,
    seed: u64,
    monitor: &Arc<Monitor>,
) -> Result<bool, Failure> {
    if args.mode == Mode::Events {
        return Ok(false);
    }
    let computed = compute(loaded, seed, args.calibrate, monitor);
    let weak = match &computed {
        Err(Failure::Mistake(text)) => text.lines().next().map(str::to_owned),
        Err(_) => None,
        Ok(report) => is_weak(report),
    };
    let Some(why) = weak.filter(|_| args.mode == Mode::Auto) else {
        write_analytic(loaded, args, folder, computed?)?;
        return Ok(true);
    };
    if !args.quiet {
        print(&format!(
            "the analytic form is not good enough ({why}): running events\n\n"
        ))?;
    }
    Ok(false)
}

/// Returns a failure if the report, which is written, is of a part of the run only.
fn outcome(args: &RunArgs, dir: &Path, report: &Report) -> Result<(), Failure> {
    if let Some(fault) = &report.provenance.fault {
        return Err(Failure::Plugin(format!(
            "{fault}; {} holds what was measured until then, marked partial",
            dir.join("report.json").display()
        )));
    }
    if report.provenance.partial {
        let goes_on = args.checkpoint.as_ref().filter(|path| path.exists());
        return Err(Failure::Interrupted(format!(
            "interrupted at {:.1} us of simulated time: {} holds what was measured, marked partial{}",
            report.extent.sim_time_ns / 1e3,
            dir.join("report.json").display(),
            goes_on.map_or_else(String::new, |path| format!(
                "; --restore {} goes on from the last checkpoint",
                path.display()
            ))
        )));
    }
    Ok(())
}

/// Two monitors that an interrupt stops: for the short runs that correct the analytic form, and for the run itself.
pub(super) fn interruptible() -> [Arc<Monitor>; 2] {
    let monitors = [(); 2].map(|()| Arc::new(Monitor::default()));
    let handler = monitors.clone();
    on_interrupt(move || handler.iter().for_each(|monitor| monitor.interrupt()));
    monitors
}

/// Whether a limit allows more than one thread.
fn allows_several(threads: ThreadLimit) -> bool {
    matches!(threads, ThreadLimit::UpTo(2..))
}

/// How well several threads shared a run, and why fewer were used than the number given. Empty for a run on one thread,
/// unless a larger number was given.
fn describe_threads(limit: ThreadLimit, monitor: &Monitor) -> String {
    let unused = unused_threads(limit, monitor);
    let unused = unused.map_or_else(String::new, |note| format!("\n  note: --threads: {note}\n"));
    let windows = monitor.windows();
    if windows.count == 0 || monitor.threads() < 2 {
        return unused;
    }
    format!(
        "\n  threads: {}, at most {:.2} times as fast as one: the busiest handled {:.0} % of the events between the \
         {} barriers\n{unused}",
        monitor.threads(),
        windows.bound(),
        100.0 * windows.busiest as f64 / windows.events.max(1) as f64,
        windows.count,
    )
}

/// Refuses arguments that exclude each other.
fn check_arguments(args: &RunArgs, ranks: Option<usize>) -> Result<(), Failure> {
    let checkpoint = args.checkpoint.is_some();
    let restore = args.restore.is_some();
    let without_events = match args.mode {
        Mode::Events => None,
        Mode::Analytic => Some("--mode analytic"),
        Mode::Auto => Some("--mode auto"),
    };
    let needs_events = match args {
        _ if checkpoint => Some(("--checkpoint", "has no state")),
        _ if restore => Some(("--restore", "has no state")),
        _ if args.requests => Some(("--requests", "runs no requests")),
        _ if args.perfetto.is_some() => Some(("--perfetto", "runs no requests")),
        _ => None,
    };
    if args.calibrate.is_some() && without_events.is_none() {
        return Err(Failure::mistake(
            "--calibrate: found with --mode events, which has nothing to correct; allowed: with --mode analytic \
             or auto",
        ));
    }
    if let (Some(mode), Some((found, lacks))) = (without_events, needs_events) {
        return Err(Failure::mistake(format!(
            "{found}: found with {mode}, which {lacks}; allowed: with --mode events"
        )));
    }
    if let Some(ranks) = ranks {
        let found = match args {
            _ if args.requests => Some("--requests"),
            _ if args.perfetto.is_some() => Some("--perfetto"),
            _ if without_events.is_some() => without_events,
            _ if args.threads.is_some_and(allows_several) => Some("--threads"),
            _ => None,
        };
        if let Some(found) = found {
            return Err(Failure::mistake(format!(
                "{found}: found in a run on {ranks} ranks, of which each is one thread; allowed: in one \
                 process"
            )));
        }
    }
    if args.perfetto.is_some() && (checkpoint || restore) {
        let found = if checkpoint {
            "--checkpoint"
        } else {
            "--restore"
        };
        return Err(Failure::mistake(format!(
            "--perfetto: found with {found}, whose files do not hold what a trace has collected; allowed: without it"
        )));
    }
    if args.requests && restore {
        return Err(Failure::mistake(
            "--requests: found with --restore, where the log would lack what completed before; \
             allowed: in a run from its beginning",
        ));
    }
    Ok(())
}

/// The analytic form's report, corrected by event runs where that is asked for.
///
/// # Errors
/// What the form does not cover, and what stops the runs; an interrupt too.
pub(super) fn compute(
    loaded: &Loaded,
    seed: u64,
    calibrate: Option<Option<u64>>,
    monitor: &Monitor,
) -> Result<AnalyticReport, Failure> {
    let Some(requests) = calibrate else {
        let computed = analytic::analyze(&loaded.plan, seed);
        return computed.map_err(|problems| loaded.mistakes(problems).into());
    };
    match analytic::calibrate(&loaded.plan, seed, requests, monitor) {
        Ok(Some(report)) => Ok(report),
        Ok(None) => Err(Failure::Interrupted(
            "interrupted: nothing is corrected by a part of a run".to_owned(),
        )),
        Err(error) => Err(Failure::of_run(loaded, error)),
    }
}

/// Why the numbers of a report cannot be used for a figure; `None` where all of them can.
fn is_weak(report: &AnalyticReport) -> Option<String> {
    let of_hosts = report.hosts.iter().map(|host| &host.error_class);
    let worst = std::iter::once(&report.error_class)
        .chain(of_hosts)
        .max_by_key(|classes| classes.worst())?;
    (worst.worst() > ErrorClass::TenPercent).then(|| format!("{}: {}", worst.worst(), worst.why))
}

/// Writes the analytic report and its picture, and removes files of an earlier run of events.
fn write_analytic(
    loaded: &Loaded,
    args: &RunArgs,
    folder: Option<&Folder>,
    mut report: AnalyticReport,
) -> Result<(), Failure> {
    let Some(folder) = folder else {
        return Ok(());
    };
    report.run = run_id(&[&json(&report)?]);
    let picture = stamped(&picture::svg(&loaded.plan, None), &report.run);
    let report = &report;
    let files = [("topology.svg", picture), ("report.json", json(report)?)];
    write_files(folder, &files, None)?;
    let dir = folder.path();
    if !args.quiet {
        print(&analytic::summary(&loaded.plan, report))?;
        for note in &report.notes {
            print(&format!("\n  note: {}\n", loaded.describe_note(note)))?;
        }
        print(&format!("\nwritten: {}\n", written(dir, false).join(", ")))?;
    }
    Ok(())
}

/// Runs one rank's part. The first rank returns the report.
fn run_on(
    loaded: &Loaded,
    args: &RunArgs,
    seed: u64,
    ranks: &mut dyn LaunchedRanks,
    (monitor, checkpoints): (&Monitor, Checkpoints<'_>),
) -> Result<Option<Report>, Failure> {
    let options = RunOptions {
        seed,
        threads: Threads::Exactly(1),
        monitor,
        rows: None,
    };
    let division = division(&loaded.plan, seed, ranks.size());
    let division = division.map_err(|error| Failure::of_run(loaded, error))?;
    if ranks.rank() == 0 && !args.quiet {
        tell(&describe_division(&division));
    }
    let report = run_ranked(&loaded.plan, options, checkpoints, ranks, division);
    report.map_err(|error| Failure::of_run(loaded, error))
}

/// The checkpoint to restore, and where to write checkpoints.
fn checkpoints<'a>(
    args: &'a RunArgs,
    not_written: &'a NotWritten,
) -> Result<Checkpoints<'a>, Failure> {
    let restore = args.restore.as_deref().map(Checkpoint::read).transpose();
    Ok(Checkpoints {
        write: (args.checkpoint.as_deref())
            .map(|path| (args.checkpoint_every.unwrap_or_default(), path)),
        not_written: Some(not_written),
        restore: restore.map_err(|error| Failure::mistake(format!("--restore {error}")))?,
    })
}

/// Runs a scenario in this process, with its request log and trace.
fn run_logged(
    loaded: &Loaded,
    args: &RunArgs,
    dir: &Path,
    (seed, threads): (u64, ThreadLimit),
    monitor: &Monitor,
    checkpoints: Checkpoints<'_>,
) -> Result<(Report, Option<WholeFile>), Failure> {
    let path = dir.join(REQUESTS);
    let unwritable = |error| Failure::Output(format!("{}: {error}", path.display()));
    let mut log = match args.requests {
        true => Some(RequestLog::create(&path).map_err(unwritable)?),
        false => None,
    };
    let mut sink = log.as_mut().map(|log| |rows| log.write(rows));
    let options = RunOptions {
        seed,
        threads: match (threads, args.exactly) {
            (ThreadLimit::UpTo(threads), true) => Threads::Exactly(threads as usize),
            (limit, _) => limit.into(),
        },
        monitor,
        rows: sink.as_mut().map(|sink| sink as &mut dyn FnMut(_) -> _),
    };
    let mut tracer = perfetto::tracer(args);
    let result = match &mut tracer {
        Some(tracer) => run_traced(&loaded.plan, options, tracer),
        None => run_with(&loaded.plan, options, checkpoints),
    };
    let report = match result {
        Ok(report) => report,
        Err(RunError::Fault(report, _)) => *report,
        Err(RunError::Rows(error)) => return Err(unwritable(error)),
        Err(error) => return Err(Failure::of_run(loaded, error)),
    };
    if let (Some(path), Some(tracer)) = (&args.perfetto, tracer) {
        perfetto::write(
            path,
            tracer,
            &loaded.plan,
            report.extent.sim_time_ns,
            args.quiet,
        )?;
    }
    let log = log
        .map(|log| log.finish(&report.provenance.run))
        .transpose();
    Ok((report, log.map_err(unwritable)?))
}

fn write_results(
    loaded: &Loaded,
    report: &Report,
    folder: &Folder,
    log: Option<WholeFile>,
) -> Result<(), Failure> {
    let picture = stamped(
        &picture::svg(&loaded.plan, Some(report)),
        &report.provenance.run,
    );
    let files = [("topology.svg", picture), ("report.json", json(report)?)];
    write_files(folder, &files, log)
}

fn written(dir: &Path, requests: bool) -> Vec<String> {
    let mut names = vec!["report.json", "topology.svg"];
    if requests {
        names.push(REQUESTS);
    }
    names
        .iter()
        .map(|name| dir.join(name).display().to_string())
        .collect()
}

/// Shows the progress of a run.
pub(super) fn follow(loaded: &Loaded, monitor: &Arc<Monitor>, quiet: bool) -> Progress {
    let expected = expected_requests(&loaded.plan);
    let template = progress::REQUESTS[usize::from(expected.is_some())];
    let (monitor, mut before) = (Arc::clone(monitor), 0);
    Progress::start(progress::bar(template, expected, quiet), move |bar| {
        if monitor.untimed_work() > before {
            // Requests completed before the checkpoint do not count for the speed of this run.
            before = monitor.untimed_work();
            bar.set_position(before);
            bar.reset_eta();
        }
        bar.set_position(monitor.work());
        let simulated_us = monitor.time().0 as f64 / 1e6;
        bar.set_message(format!("({simulated_us:.1} us simulated)"));
    })
}
