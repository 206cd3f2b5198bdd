//! Scenario text with changes: read, checked, planned, described and drawn. A line that begins with
//! `#set ` is also a change, as `--set` takes it.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use cxlab_fuzz::{EXTREME, QUANTITIES, TextMutator};
use cxlab_system::load::{read, resolve};
use cxlab_system::plan::{Externals, Files};
use cxlab_system::{picture, scenario};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

/// Endpoints of a system that is still drawn.
const MOST_DRAWN: usize = 64;
const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");

fuzz_target!(|data: &[u8]| {
    // The command refuses what is no UTF-8 before it reads the text.
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let changes = text.lines().filter_map(|line| line.strip_prefix("#set "));
    let changes: Vec<String> = changes.map(str::to_owned).collect();
    let mistakes = match read("scenario.toml", text, &changes) {
        Err(mistakes) => mistakes,
        Ok(document) => {
            let files = Files {
                scenario_dir: Path::new(SCENARIOS).to_owned(),
                trace_override: None,
            };
            match resolve(document, files, &Externals::new()) {
                Err(mistakes) => mistakes,
                Ok(loaded) => {
                    let plan = &loaded.plan;
                    assert!(plan.describe().is_object());
                    if plan.hosts.len() + plan.devices.len() <= MOST_DRAWN {
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

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    MUTATOR.mutate(data, size, max_size, seed)
});

/// A dictionary from the JSON Schema of scenarios and from the shipped scenarios.
static MUTATOR: LazyLock<TextMutator> = LazyLock::new(|| {
    let extreme = EXTREME.iter().chain(QUANTITIES);
    let mut mutator = TextMutator {
        between: b'=',
        values: extreme.map(|value| (*value).to_owned()).collect(),
        lines: Vec::new(),
    };
    collect(&scenario::schema(), &mut mutator);
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

/// Takes words as values and names of keys as lines.
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
