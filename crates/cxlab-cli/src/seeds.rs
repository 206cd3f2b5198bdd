//! `cxlab run --seeds`: runs of one plan side by side.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cxlab_engine::{Monitor, Threads};
use cxlab_files::Folder;
use cxlab_plan::load::Loaded;
use cxlab_plan::windows::expected_requests;
use cxlab_scenario::ThreadLimit;
use cxlab_system::output::stamped;
use cxlab_system::run::{RunError, RunOptions, run};
use cxlab_system::seeds::{KeptReport, SEEDS, SeedsReport};

use super::failure::Failure;
use super::progress::{self, on_interrupt};
use super::results::{json, write_files};
use super::{Mode, RunArgs, print};

/// Notes that are printed at most; `seeds.json` has them all.
const NOTES: usize = 10;

/// The value of `--seeds`.
pub(super) fn number(text: &str) -> Result<u32, String> {
    let (least, most) = (SEEDS.start(), SEEDS.end());
    let found = text.parse().ok().filter(|number| SEEDS.contains(number));
    found.ok_or_else(|| format!("allowed: a whole number from {least} to {most}"))
}

/// Arguments that do not go with `--seeds`.
pub(super) fn check_arguments(args: &RunArgs, ranks: Option<usize>) -> Result<(), Failure> {
    let found = match args {
        _ if args.seeds.is_none() => return Ok(()),
        _ if args.mode != Mode::Events => "a --mode other than events",
        _ if args.checkpoint.is_some() => "--checkpoint, which is of one run",
        _ if args.restore.is_some() => "--restore, which is of one run",
        _ if args.requests => "--requests, which are of one run",
        _ if args.perfetto.is_some() => "--perfetto, which is of one run",
        _ if args.exactly => "--exactly, which measures one run",
        _ if ranks.is_some() => "mpirun, which divides one run",
        _ => return Ok(()),
    };
    Err(Failure::mistake(format!(
        "--seeds: found with {found}; allowed: without it"
    )))
}

/// Number of concurrent runs, and most threads of each.
fn shares(threads: ThreadLimit, of_scenario: ThreadLimit, runs: usize) -> (usize, Threads) {
    let all = threads.number();
    let side_by_side = all.min(runs);
    let share = ThreadLimit::UpTo((all / side_by_side) as u32);
    let most = share.number().min(of_scenario.number());
    (side_by_side, ThreadLimit::UpTo(most as u32).into())
}

/// Shared state of the runs: the next run, and all results.
struct Runs<'a> {
    loaded: &'a Loaded,
    first: u64,
    threads: Threads,
    monitors: &'a [Monitor],
    interrupted: &'a AtomicBool,
    next: AtomicUsize,
    /// Runs from this number on are not started: the number of runs, or that of the first run that failed.
    end: AtomicUsize,
    finished: AtomicUsize,
    results: Mutex<Vec<Option<Result<KeptReport, RunError>>>>,
}

impl Runs<'_> {
    /// Runs one after the other until none is left.
    fn work(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let stopped = self.interrupted.load(Ordering::Relaxed);
            if stopped || number >= self.end.load(Ordering::Relaxed) {
                return;
            }
            let options = RunOptions {
                seed: self.first + number as u64,
                threads: self.threads,
                monitor: &self.monitors[number],
                rows: None,
            };
            let result = run(&self.loaded.plan, options).map(|report| KeptReport::from(&report));
            if result.is_err() {
                // The failure of the smallest seed is reported, so only runs of larger seeds stop.
                self.end.fetch_min(number, Ordering::Relaxed);
                self.monitors[number..].iter().for_each(Monitor::interrupt);
            }
            self.finished.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut results) = self.results.lock() {
                results[number] = Some(result);
            }
        }
    }
}

/// Runs the scenario with consecutive seeds, and writes the report of all runs.
pub(super) fn run_all(
    loaded: &Loaded,
    args: &RunArgs,
    folder: &Folder,
    (first, seeds): (u64, u32),
) -> Result<(), Failure> {
    let count = seeds as usize;
    if first.checked_add(u64::from(seeds) - 1).is_none() {
        return Err(Failure::mistake(format!(
            "--seeds: found {seeds} seeds from {first} on; allowed: the last of them at most {}",
            u64::MAX
        )));
    }
    let limit = args.threads.unwrap_or(ThreadLimit::AUTO);
    let of_scenario = loaded.plan.scenario.execution.threads;
    let (side_by_side, threads) = shares(limit, of_scenario, count);
    let monitors: Arc<[Monitor]> = (0..count).map(|_| Monitor::default()).collect();
    let interrupted = Arc::new(AtomicBool::new(false));
    let handler = (Arc::clone(&monitors), Arc::clone(&interrupted));
    on_interrupt(move || {
        handler.1.store(true, Ordering::Relaxed);
        handler.0.iter().for_each(Monitor::interrupt);
    });
    let runs = Runs {
        loaded,
        first,
        threads,
        monitors: &monitors,
        interrupted: &interrupted,
        next: AtomicUsize::new(0),
        end: AtomicUsize::new(count),
        finished: AtomicUsize::new(0),
        results: Mutex::new((0..count).map(|_| None).collect()),
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..side_by_side)
            .map(|_| scope.spawn(|| runs.work()))
            .collect();
        scope.spawn(|| show_progress(&runs, &done, args.quiet));
        for worker in workers {
            // A panic has ended the process.
            let _ = worker.join();
        }
        done.store(true, Ordering::Relaxed);
    });
    let results = runs.results.into_inner().unwrap_or_default();
    let results: Result<Vec<KeptReport>, RunError> = results.into_iter().flatten().collect();
    let kept = results.map_err(|error| Failure::of_run(loaded, error))?;
    match SeedsReport::new(u64::from(seeds), kept) {
        Some(report) => finish(loaded, args, folder, &report),
        None => Err(Failure::Interrupted(
            "interrupted before a run began".to_owned(),
        )),
    }
}

/// Writes and prints a report.
fn finish(
    loaded: &Loaded,
    args: &RunArgs,
    folder: &Folder,
    report: &SeedsReport,
) -> Result<(), Failure> {
    let files = [
        ("seeds.svg", stamped(&report.svg(), &report.run)),
        ("seeds.json", json(report)?),
    ];
    write_files(folder, &files, None)?;
    let dir = folder.path();
    let written = files.map(|(name, _)| dir.join(name).display().to_string());
    if !args.quiet {
        let plan = &loaded.plan;
        let hosts = plan.hosts.iter().map(|host| host.name.as_str());
        let names: Vec<&str> = hosts
            .chain(plan.accelerators().iter().map(|one| one.name.as_str()))
            .collect();
        print(&report.text(&names))?;
        let notes = report.notes();
        for (note, count) in notes.iter().take(NOTES) {
            let of = match *count == report.runs.len() {
                true => String::new(),
                false => format!(" ({count} of {} runs)", report.runs.len()),
            };
            print(&format!("\n  note{of}: {}\n", loaded.describe_note(note)))?;
        }
        if notes.len() > NOTES {
            let more = notes.len() - NOTES;
            print(&format!("\n  {more} more notes are in seeds.json\n"))?;
        }
        print(&format!("\nwritten: {}\n", written.join(", ")))?;
    }
    if report.partial {
        return Err(Failure::Interrupted(format!(
            "interrupted: {} of {} runs are whole; {} holds what was measured, marked partial",
            report.whole(),
            report.asked,
            dir.join("seeds.json").display()
        )));
    }
    Ok(())
}

/// A progress bar of all runs.
fn show_progress(runs: &Runs<'_>, done: &AtomicBool, quiet: bool) {
    let count = runs.monitors.len();
    let expected = expected_requests(&runs.loaded.plan).map(|one| one * count as u64);
    let template = progress::REQUESTS[usize::from(expected.is_some())];
    progress::follow(&progress::bar(template, expected, quiet), done, |bar| {
        bar.set_position(runs.monitors.iter().map(Monitor::work).sum());
        let finished = runs.finished.load(Ordering::Relaxed);
        bar.set_message(format!("({finished} of {count} runs)"));
    });
}
