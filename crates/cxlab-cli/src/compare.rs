//! `cxlab compare`.

use std::path::{Path, PathBuf};

use clap::Args;
use cxlab_engine::Threads;

use super::failure::Failure;
use super::load::load;
use super::results::{file_name, json, open_folder, replace};
use super::run::{compute, follow, interruptible};
use super::{ScenarioArgs, print, seed};
use cxlab_system::analytic::compare::compare;
use cxlab_system::run::{RunOptions, run};

#[derive(Args)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// A second scenario, which is refused with the page that compares runs
    #[arg(hide = true)]
    second: Option<PathBuf>,
    /// Seed of every random stream, instead of the scenario's
    #[arg(long, value_parser = seed)]
    seed: Option<u64>,
    /// Where compare.json goes [default: out/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Correct the analytic form by two short event runs first, of which the first measures N requests
    /// [default N: 20 for each request in flight, at least 5,000]
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u64).range(1..))]
    calibrate: Option<Option<u64>>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Files that the command writes. Files of a run in the same folder are kept.
const FILES: [&str; 1] = ["compare.json"];

/// Runs a scenario in both forms, and prints the differences of their results.
pub(super) fn show(args: &CompareArgs) -> Result<(), Failure> {
    if let Some(second) = &args.second {
        return Err(Failure::mistake(format!(
            "found a second scenario, `{}`; `cxlab compare` sets one scenario's two forms side by side: events \
             and analytic. For two runs see docs/guide/why-is-it-slow.md",
            second.display()
        )));
    }
    let loaded = load(&args.scenario)?.map_err(Failure::from)?;
    let scenario = &loaded.plan.scenario;
    let seed = args.seed.unwrap_or(scenario.seed);
    let [of_short, monitor] = interruptible();
    let form = compute(&loaded, seed, args.calibrate, &of_short)?;
    let dir = args.out.clone();
    let dir = dir.unwrap_or_else(|| Path::new("out").join(file_name(&scenario.name)));
    let folder = open_folder(&dir, &FILES)?;
    let progress = follow(&loaded, &monitor, args.quiet);
    let options = RunOptions {
        seed,
        threads: Threads::UpTo(1),
        monitor: &monitor,
        rows: None,
    };
    let engine = run(&loaded.plan, options);
    progress.stop();
    let engine = match engine {
        Ok(engine) if engine.provenance.partial => {
            return Err(Failure::Interrupted(
                "interrupted: nothing is compared with a part of a run".to_owned(),
            ));
        }
        Ok(engine) => engine,
        Err(error) => return Err(Failure::of_run(&loaded, error)),
    };
    let comparison = compare(&form, &engine);
    let [name] = FILES;
    replace(&folder, &[(name, json(&comparison)?)], None, &FILES)?;
    if !args.quiet {
        print(&comparison.summary())?;
        print(&format!("\nwritten: {}\n", dir.join(name).display()))?;
    }
    Ok(())
}
