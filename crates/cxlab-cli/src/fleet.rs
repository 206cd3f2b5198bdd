//! `cxlab fleet`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use cxlab_files::Folder;
use cxlab_fleet::Watch;
use cxlab_plan::load::Loaded;
use cxlab_scenario::ThreadLimit;
use cxlab_system::fleet::{
    Fleet, FleetReport, SweepPoint, over_seeds, seeds_csv, seeds_text, series_csv, summary, svg,
    sweep_csv, sweep_svg, sweep_text,
};
use cxlab_system::output::{run_id, stamped};

use super::failure::Failure;
use super::load::changed;
use super::print;
use super::progress::{self, Progress, on_interrupt};
use super::results::{file_name, json, open_folder, replace};

#[derive(Args)]
pub(super) struct FleetArgs {
    /// Scenario file (TOML) with a [fleet] table: one pod of the fleet
    scenario: PathBuf,
    /// Change a value of the scenario, e.g. --set fleet.days=1 (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Study every combination of these values, e.g. --grid hosts[0].count=4,8,16 (repeatable);
    /// paths joined by + take the same value
    #[arg(long = "grid", value_name = "PATH=VALUE,VALUE...")]
    grid: Vec<String>,
    /// Seed of every random stream, instead of the scenario's
    #[arg(long, value_parser = super::seed)]
    seed: Option<u64>,
    /// Study as many seeds, from the scenario's or --seed's on, and say mean and 95 % interval of each
    /// main number: 2 to 1000
    #[arg(long, value_name = "N", conflicts_with = "grid", value_parser = super::seeds::number)]
    seeds: Option<u32>,
    /// Threads at most, instead of the scenario's: 1 to 256, or "auto" for the processors' number; the
    /// result is the same for every number
    #[arg(long, value_name = "N", value_parser = str::parse::<ThreadLimit>)]
    threads: Option<ThreadLimit>,
    /// Where fleet.json, fleet.csv and fleet.svg go, or sweep.csv and sweep.svg, or seeds.json and
    /// seeds.csv [default: out/NAME-fleet]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Changed values of a point of a sweep, by path.
type Changes = Vec<(String, String)>;

/// Studies a fleet, or several.
pub(super) fn fleet(args: FleetArgs) -> Result<(), Failure> {
    let points = combinations(&args.grid)?;
    // All mistakes first, also those of the last point.
    let loaded: Vec<Loaded> = (points.iter())
        .map(|changes| read(&args, changes))
        .collect::<Result<_, _>>()?;
    let Some(first) = loaded.first() else {
        return Ok(());
    };
    let name = format!("{}-fleet", file_name(&first.plan.scenario.name).display());
    let dir = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new("out").join(name));
    let folder = open_folder(&dir, &FILES)?;
    let watch = Arc::new(Watch::default());
    let handler = Arc::clone(&watch);
    on_interrupt(move || handler.stop.store(true, Ordering::Relaxed));
    let result = match args.seeds {
        Some(count) => seeds(&args, first, count, &folder, &watch),
        None if args.grid.is_empty() => single(&args, first, &folder, &watch),
        None => sweep(&args, points, &loaded, &folder, &watch),
    };
    if result.is_err() {
        // Only an empty folder, which this run made, is removed.
        let _ = std::fs::remove_dir(&dir);
    }
    result
}

fn read(args: &FleetArgs, changes: &Changes) -> Result<Loaded, Failure> {
    let assigned = changes.iter().flat_map(|(paths, value)| {
        paths
            .split('+')
            .map(move |path| format!("{}={value}", path.trim()))
    });
    let set = args.set.iter().cloned().chain(assigned).collect();
    changed(&args.scenario, set)
}

/// All combinations of a grid, the last path changing fastest; one without changes without a grid.
fn combinations(grid: &[String]) -> Result<Vec<Changes>, Failure> {
    let mut points: Vec<Changes> = vec![Vec::new()];
    for axis in grid {
        let Some((path, values)) = axis.split_once('=') else {
            return Err(Failure::mistake(format!(
                "--grid {axis}: found no `=`; allowed: PATH=VALUE,VALUE..."
            )));
        };
        let values = split_values(values);
        if values.iter().any(String::is_empty) {
            return Err(Failure::mistake(format!(
                "--grid {axis}: a value is missing; allowed: PATH=VALUE,VALUE..."
            )));
        }
        let with = |point: &Changes| -> Vec<Changes> {
            let more = |value: &String| {
                let mut point = point.clone();
                point.push((path.to_owned(), value.clone()));
                point
            };
            values.iter().map(more).collect()
        };
        points = points.iter().flat_map(with).collect();
    }
    Ok(points)
}

/// Splits at commas outside of quotes and brackets.
fn split_values(text: &str) -> Vec<String> {
    let (mut values, mut depth, mut quoted) = (vec![String::new()], 0, false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                values.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = values.last_mut() {
            last.push(letter);
        }
    }
    values.iter().map(|value| value.trim().to_owned()).collect()
}

/// Threads that a study may have.
fn threads(args: &FleetArgs, loaded: &Loaded) -> usize {
    let own = loaded.plan.scenario.execution.threads;
    args.threads.unwrap_or(own).number()
}

/// Runs one study of a fleet and returns its report.
fn study(
    loaded: &Loaded,
    seed: u64,
    threads: usize,
    watch: &Watch,
) -> Result<FleetReport, Failure> {
    let begun = Instant::now();
    let fleet = Fleet::new(&loaded.plan, seed)
        .map_err(|problems| Failure::from(loaded.mistakes(problems)))?;
    let report = fleet.run(seed, threads, watch);
    let mut report = report.ok_or_else(|| Failure::Internal("the fleet is gone".to_owned()))?;
    report.wall_seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

/// Runs one study for each of several seeds, concurrently on all threads.
fn seeds(
    args: &FleetArgs,
    loaded: &Loaded,
    count: u32,
    folder: &Folder,
    watch: &Arc<Watch>,
) -> Result<(), Failure> {
    let first = args.seed.unwrap_or(loaded.plan.scenario.seed);
    if first.checked_add(u64::from(count) - 1).is_none() {
        return Err(Failure::mistake(format!(
            "--seeds {count}: the seeds from {first} on end before; allowed: a smaller --seed"
        )));
    }
    let begun = Instant::now();
    let count = count as usize;
    let threads = threads(args, loaded);
    let workers = threads.min(count);
    let each = (threads / workers).max(1);
    let progress = follow(watch, args.quiet);
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<FleetReport, Failure>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    let work = || {
        while !watch.stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = done.get(at) else {
                return;
            };
            let report = study(loaded, first + at as u64, each, watch);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    progress.stop();
    let mut reports = Vec::new();
    for place in done {
        let found = place.into_inner().unwrap_or_else(PoisonError::into_inner);
        match found.transpose()? {
            // An interrupted study has too little to be averaged.
            Some(report) if !report.partial => reports.push(report),
            _ => {}
        }
    }
    let partial = reports.len() < count;
    let Some(mut report) = over_seeds(&reports, partial) else {
        return Err(Failure::Interrupted(
            "interrupted before the study of a seed ended".to_owned(),
        ));
    };
    report.wall_seconds = begun.elapsed().as_secs_f64();
    let csv = seeds_csv(&report);
    report.run = run_id(&[&report.plan, &csv]);
    let files = [("seeds.json", json(&report)?), ("seeds.csv", csv)];
    let holds = partial.then(|| MEASURED.to_owned());
    finish(args, folder, files, &seeds_text(&report), holds)
}

fn single(
    args: &FleetArgs,
    loaded: &Loaded,
    folder: &Folder,
    watch: &Arc<Watch>,
) -> Result<(), Failure> {
    let progress = follow(watch, args.quiet);
    let seed = args.seed.unwrap_or(loaded.plan.scenario.seed);
    let report = study(loaded, seed, threads(args, loaded), watch);
    progress.stop();
    let mut report = report?;
    let params = loaded.plan.scenario.fleet.clone().unwrap_or_default();
    let csv = series_csv(&params, &report);
    report.run = run_id(&[&report.plan, &report.seed.to_string(), &csv]);
    let picture = stamped(&svg(&params, &report), &report.run);
    let files = [
        ("fleet.json", json(&report)?),
        ("fleet.csv", csv),
        ("fleet.svg", picture),
    ];
    let holds = report.partial.then(|| MEASURED.to_owned());
    finish(args, folder, files, &summary(&report), holds)
}

/// Studies all points of a sweep one after the other, and writes their table and chart.
fn sweep(
    args: &FleetArgs,
    points: Vec<Changes>,
    loaded: &[Loaded],
    folder: &Folder,
    watch: &Arc<Watch>,
) -> Result<(), Failure> {
    let progress = follow(watch, args.quiet);
    show(&progress, 1, points.len());
    let of = points.len();
    let mut found = Vec::new();
    let mut failed = Ok(());
    for (changes, loaded) in points.into_iter().zip(loaded) {
        watch.done.store(0, Ordering::Relaxed);
        watch.expected.store(0, Ordering::Relaxed);
        let seed = args.seed.unwrap_or(loaded.plan.scenario.seed);
        match study(loaded, seed, threads(args, loaded), watch) {
            // An interrupted point has too little to be compared.
            Ok(report) if report.partial => break,
            Ok(report) => found.push(SweepPoint { changes, report }),
            Err(failure) => {
                failed = Err(failure);
                break;
            }
        }
        show(&progress, found.len() + 1, of);
    }
    progress.stop();
    failed?;
    if found.is_empty() {
        return Err(Failure::Interrupted(
            "interrupted before the first study ended".to_owned(),
        ));
    }
    let partial = found.len() < of;
    let all: Vec<&FleetReport> = found.iter().map(|point| &point.report).collect();
    let csv = sweep_csv(&found);
    let plans: Vec<&str> = all.iter().map(|report| report.plan.as_str()).collect();
    let run = run_id(&[&plans.concat(), &csv]);
    let all = serde_json::json!({ "asked": of, "partial": partial, "points": all, "run": run });
    let files = [
        ("sweep.csv", csv),
        ("sweep.json", json(&all)?),
        ("sweep.svg", stamped(&sweep_svg(&found), &run)),
    ];
    let holds = partial.then(|| format!("holds {} of {of} points", found.len()));
    finish(args, folder, files, &sweep_text(&found), holds)
}

/// Description of the first file of an interrupted study.
const MEASURED: &str = "holds what was measured";

/// Files that a fleet may write.
const FILES: [&str; 8] = [
    "fleet.json",
    "fleet.csv",
    "fleet.svg",
    "seeds.json",
    "seeds.csv",
    "sweep.json",
    "sweep.csv",
    "sweep.svg",
];

/// Writes files, the last one first, and prints their paths. `interrupted` describes the first file of an interrupted study.
fn finish<const N: usize>(
    args: &FleetArgs,
    folder: &Folder,
    mut files: [(&str, String); N],
    text: &str,
    interrupted: Option<String>,
) -> Result<(), Failure> {
    let shown = |(name, _): &(&str, String)| folder.path().join(name).display().to_string();
    let written: Vec<String> = files.iter().map(shown).collect();
    files.reverse();
    replace(folder, &files, None, &FILES)?;
    if !args.quiet {
        print(&format!("{text}\nwritten: {}\n", written.join(", ")))?;
    }
    match interrupted {
        Some(holds) => Err(Failure::Interrupted(format!(
            "interrupted: {} {holds}",
            written[0]
        ))),
        None => Ok(()),
    }
}

/// Shows the progress of the studies.
fn follow(watch: &Arc<Watch>, quiet: bool) -> Progress {
    let template = "{elapsed_precise} [{bar:30}] {pos} of about {len} clusters {msg}";
    let watch = Arc::clone(watch);
    Progress::start(progress::bar(template, None, quiet), move |bar| {
        let now = watch.done.load(Ordering::Relaxed);
        // Searches may take more steps than was thought.
        bar.set_length(watch.expected.load(Ordering::Relaxed).max(now));
        bar.set_position(now);
    })
}

/// Shows on the progress bar which study of a sweep is running.
fn show(progress: &Progress, study: usize, of: usize) {
    progress.bar.set_message(format!("(study {study} of {of})"));
}
