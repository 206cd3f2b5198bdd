//! Mutated scenario text, which is read, checked, planned, described and plotted. A line that
//! begins with `#set ` is also a change, as `--set` takes it.
#![no_main]

use std::sync::LazyLock;

use cxlab_fuzz::{EXTREME, QUANTITIES, TextMutator};
use cxlab_plan::load::{read, resolve};
use cxlab_plan::{Externals, Files};
use cxlab_system::describe::describe;
use cxlab_system::picture;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

/// Most endpoints of a system that is described and plotted. A
/// description grows with hosts times devices.
const MOST_SHOWN: usize = 64;
/// Most endpoints of a system that is planned.
const MOST_PLANNED: u64 = 256;
/// Endpoints above which every system is refused: 4,095 hosts and 4,096 devices fit.
const MOST_ALLOWED: u64 = 3 * 4096;
const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");

fuzz_target!(|data: &[u8]| {
    // The command refuses text that is not UTF-8 before it parses it.
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let changes = text.lines().filter_map(|line| line.strip_prefix("#set "));
    let changes: Vec<String> = changes.map(str::to_owned).collect();
    let mistakes = match read("scenario.toml", text, &changes) {
        Err(mistakes) => mistakes,
        Ok(document) if is_slow(document.value()) => return,
        Ok(document) => {
            let files = Files::of(SCENARIOS);
            match resolve(document, files, &Externals::new()) {
                Err(mistakes) => mistakes,
                Ok(loaded) => {
                    let plan = &loaded.plan;
                    if plan.hosts.len() + plan.devices.len() <= MOST_SHOWN {
                        assert!(describe(plan).is_object());
                        assert!(picture::svg(plan, None).contains("<svg"));
                        assert!(picture::dot(plan).contains('{'));
                    }
                    for note in &plan.notes {
                        assert!(!loaded.describe_note(note).is_empty());
                    }
                    loaded.warnings()
                }
            }
        }
    };
    mistakes.render(true);
    assert!(serde_json::from_str::<Value>(&mistakes.json()).is_ok());
});

/// Whether the number of endpoints is so large that a scenario may take more than 10 s with
/// instrumentation, but not so large that it is refused at once.
fn is_slow(scenario: &Value) -> bool {
    let groups = ["hosts", "devices", "accelerators"].map(|key| scenario[key].as_array());
    let counts = groups.into_iter().flatten().flatten();
    let counts = counts.filter_map(|group| group["count"].as_u64());
    let sum = counts.fold(0, u64::saturating_add);
    (MOST_PLANNED..=MOST_ALLOWED).contains(&sum)
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    MUTATOR.mutate(data, size, max_size, seed)
});

/// A dictionary from the JSON Schema of scenarios and the shipped scenarios.
static MUTATOR: LazyLock<TextMutator> = LazyLock::new(|| {
    let extreme = EXTREME.iter().chain(QUANTITIES);
    let mut mutator = TextMutator {
        between: b'=',
        values: extreme.map(|value| (*value).to_owned()).collect(),
        lines: Vec::new(),
    };
    collect(&cxlab_scenario::schema(), &mut mutator);
    let files = std::fs::read_dir(SCENARIOS).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    for line in texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()) {
        if let Some((_, value)) = line.split_once('=') {
            mutator.values.push(value.trim().to_owned());
        }
        if !line.trim().is_empty() && !line.starts_with('#') {
            mutator.lines.push(line);
        }
    }
    for list in [&mut mutator.values, &mut mutator.lines] {
        list.sort();
        list.dedup();
    }
    mutator
});

/// Collects the schema's words as values and the names of its keys as lines.
fn collect(schema: &Value, into: &mut TextMutator) {
    match schema {
        Value::Object(keys) => {
            for (key, inside) in keys {
                match (key.as_str(), inside) {
                    ("const", Value::String(word)) => into.values.push(format!("{word:?}")),
                    ("enum", Value::Array(words)) => {
                        into.values.extend(words.iter().map(Value::to_string));
                    }
                    ("properties", Value::Object(names)) => {
                        for name in names.keys() {
                            into.lines.push(format!("{name} = 1"));
                            into.lines.push(format!("{name} = {{ kind = \"\" }}"));
                            into.values.push(format!("{{ {name} = 1 }}"));
                        }
                    }
                    _ => {}
                }
                collect(inside, into);
            }
        }
        Value::Array(all) => all.iter().for_each(|inside| collect(inside, into)),
        _ => {}
    }
}
