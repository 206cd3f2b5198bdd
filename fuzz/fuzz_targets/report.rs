//! Reports of runs as JSON, which the Python package reads: reports of
//! several seeds are combined and plotted.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use cxlab_engine::Monitor;
use cxlab_fuzz::{EXTREME, TextMutator};
use cxlab_plan::load::{read, resolve};
use cxlab_plan::{Externals, Files, Plan};
use cxlab_system::report::Report;
use cxlab_system::run::{RunOptions, run};
use cxlab_system::seeds::{KeptReport, SeedsReport};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");

fuzz_target!(init: LazyLock::force(&REPORTS), |data: &[u8]| {
    let Ok(report) = serde_json::from_slice::<Report>(data) else {
        return;
    };
    let first = serde_json::from_str::<Report>(&REPORTS[0]).expect("it was written just now");
    let kept = vec![KeptReport::from(&first), KeptReport::from(&report), KeptReport::from(&report)];
    let seeds = SeedsReport::new(kept.len() as u64, kept).expect("three reports");
    assert!(seeds.svg().contains("<svg"));
    assert!(serde_json::to_string(&seeds).is_ok());
    let text = serde_json::to_string(&report).expect("a report is plain values");
    let again = serde_json::from_str::<Report>(&text).expect("it was written just now");
    assert_eq!(serde_json::to_string(&again).ok(), Some(text));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let report = &REPORTS[seed as usize % REPORTS.len()];
    if size < 100 && report.len() <= max_size {
        data[..report.len()].copy_from_slice(report.as_bytes());
        return report.len();
    }
    MUTATOR.mutate(data, size, max_size, seed)
});

static MUTATOR: LazyLock<TextMutator> = LazyLock::new(|| TextMutator {
    between: b':',
    values: EXTREME.iter().map(|value| (*value).to_owned()).collect(),
    lines: REPORTS
        .iter()
        .flat_map(|text| text.lines().map(str::to_owned))
        .collect(),
});

/// Reports of short runs, with one value a line.
static REPORTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    ["direct", "device-coherent", "failures"]
        .iter()
        .map(|name| {
            let plan = plan(name, "measure={ requests = 200 }");
            let monitor = Monitor::default();
            let options = RunOptions {
                seed: 1,
                threads: 1.into(),
                monitor: &monitor,
                rows: None,
            };
            let report = run(&plan, options).expect("a shipped scenario runs");
            serde_json::to_string_pretty(&report).expect("a report is plain values")
        })
        .collect()
});

fn plan(name: &str, change: &str) -> Plan {
    let path = Path::new(SCENARIOS).join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).expect("a shipped scenario");
    let files = Files::of(SCENARIOS);
    let loaded = read(name, &text, &[change.to_owned()])
        .and_then(|document| resolve(document, files, &Externals::new()));
    match loaded {
        Ok(loaded) => loaded.plan,
        Err(mistakes) => panic!("{}", mistakes.render(false)),
    }
}
