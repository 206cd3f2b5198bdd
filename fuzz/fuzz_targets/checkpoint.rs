//! Checkpoints with altered values and a valid seal, which `inspect` accepts or refuses.
//!
//! An input is a list of edits of a checkpoint that this program writes when it starts. So the
//! corpus does not depend on the format's version.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use cxlab_engine::Monitor;
use cxlab_fuzz::{Choices, seal};
use cxlab_plan::load::{read, resolve};
use cxlab_plan::{Externals, Files, Plan};
use cxlab_system::checkpoint::{Checkpoint, CheckpointInterval, Checkpoints};
use cxlab_system::run::{RunOptions, run_with};
use libfuzzer_sys::fuzz_target;

const SEED: u64 = 1;
const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
/// Bytes before the first section: a magic number and a version.
const HEADER: usize = 12;

fuzz_target!(init: LazyLock::force(&CASES), |data: &[u8]| {
    let mut choices = Choices(data);
    let case = &CASES[usize::from(choices.byte()) % CASES.len()];
    let mut sections = case.sections.clone();
    while !choices.is_empty() && !sections.is_empty() {
        edit(&mut sections, &mut choices);
    }
    let mut bytes = case.header.clone();
    for section in &sections {
        bytes.push(section.name.len() as u8);
        bytes.extend(&section.name);
        bytes.extend((section.value.len() as u64).to_le_bytes());
        bytes.extend(&section.value);
    }
    bytes.extend(seal(&bytes));
    let checkpoint = Checkpoint::of("input", bytes).expect("its seal is right");
    if let Err(error) = checkpoint.inspect(&case.plan, SEED) {
        assert!(!error.to_string().is_empty());
    }
});

/// A value of a saved state, with its name.
#[derive(Clone)]
struct Section {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Applies one edit: of a byte or a number in a value, of a value's length,
/// or of the order of values.
fn edit(sections: &mut Vec<Section>, choices: &mut Choices<'_>) {
    let at = usize::from(choices.word()) % sections.len();
    let kind = choices.byte();
    let value = &mut sections[at].value;
    let place = usize::from(choices.word());
    match kind % 8 {
        0 | 1 if !value.is_empty() => {
            let place = place % value.len();
            value[place] = choices.byte();
        }
        // A number replaces the bytes from here on.
        2 | 3 if !value.is_empty() => {
            let place = place % value.len();
            let number = match choices.byte() % 4 {
                0 => choices.long(),
                1 => u64::MAX - u64::from(choices.byte()),
                2 => 1 << (choices.byte() % 64),
                _ => u64::from(choices.byte()),
            };
            let more = value[place..].iter().take_while(|byte| **byte >= 0x80);
            let end = (place + more.count() + 1).min(value.len());
            value.splice(place..end, varint(number));
        }
        4 => value.truncate(place % (value.len() + 1)),
        5 => {
            let place = place % (value.len() + 1);
            let count = usize::from(choices.byte());
            value.splice(place..place, choices.bytes(count).iter().copied());
        }
        6 => drop(sections.remove(at)),
        _ => {
            let other = place % sections.len();
            let value = sections[other].value.clone();
            sections[at].value = value;
        }
    }
}

/// Encodes a number as postcard does.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A system and a checkpoint of it.
struct Case {
    plan: Plan,
    header: Vec<u8>,
    sections: Vec<Section>,
}

/// Scenarios with changes that keep their state below 300 KB each.
const SYSTEMS: &[(&str, &[&str])] = &[
    ("direct", &[r#"devices[0].memory={ kind = "dram" }"#]),
    ("failures", &[]),
    ("fabric-manager", &[]),
    ("qos", &[]),
    (
        "device-coherent",
        &[
            r#"hosts[0].issue.cache={ size = "4 KiB", ways = 4 }"#,
            "devices[0].coherence.filter={ lines = 64 }",
            r#"hosts[0].workload.footprint="64 KiB""#,
        ],
    ),
    (
        "cohet-pages",
        &[
            SMALL_PROCESSOR,
            r#"hosts[0].nodes[0].capacity="2 MiB""#,
            r#"hosts[0].workload.memory="64 KiB""#,
            "hosts[0].workload.operations=2000",
        ],
    ),
    (
        "core-stream",
        &[
            r#"hosts[0].core.caches=[{ size = "4 KiB", ways = 4, access_time = "1 ns" }]"#,
            r#"hosts[0].local.capacity="1 MiB""#,
            r#"hosts[0].workload={ kind = "key-value", operations = 60 }"#,
        ],
    ),
    (
        "peer-to-peer",
        &[
            r#"hosts[0].issue.cache.size="4 KiB""#,
            r#"hosts[1].issue.cache.size="4 KiB""#,
            "devices[0].coherence.filter.lines=128",
        ],
    ),
    (
        "cached-ssd",
        &[
            r#"devices[0].memory.size="64 KiB""#,
            r#"devices[0].capacity="256 MiB""#,
            r#"hosts[0].workload.footprint="1 MiB""#,
        ],
    ),
    (
        "processor-trace",
        &[
            SMALL_PROCESSOR,
            r#"hosts[0].nodes[0].capacity="2 MiB""#,
            r#"hosts[0].workload.memory="64 KiB""#,
            "hosts[0].workload.iterations=100",
        ],
    ),
    ("trace", &[]),
    (
        "direct",
        &[
            r#"devices[0].memory={ kind = "ssd" }"#,
            r#"devices[0].capacity="256 MiB""#,
            r#"hosts[0].workload.footprint="1 MiB""#,
        ],
    ),
    ("dynamic-capacity", &[]),
    ("grant-policies", &[]),
];

const SMALL_PROCESSOR: &str = r#"hosts[0].processor={ cores = 3,
    l1 = { size = "4 KiB", ways = 4, access_time = "1 ns" },
    l2 = { size = "8 KiB", ways = 4, access_time = "4 ns" },
    llc = { size = "16 KiB", ways = 4, inclusion = "non-inclusive" } }"#;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    SYSTEMS
        .iter()
        .map(|(name, changes)| Case::new(name, changes))
        .collect()
});

impl Case {
    fn new(name: &str, changes: &[&str]) -> Case {
        let path = Path::new(SCENARIOS).join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).expect("a shipped scenario");
        let files = Files::of(SCENARIOS);
        let measure = "measure={ requests = 400 }";
        let changes = changes.iter().copied().chain([measure]).map(str::to_owned);
        let changes: Vec<String> = changes.collect();
        let loaded = read(name, &text, &changes)
            .and_then(|document| resolve(document, files, &Externals::new()));
        let plan = match loaded {
            Ok(loaded) => loaded.plan,
            Err(mistakes) => panic!("{}", mistakes.render(false)),
        };
        let path = cxlab_fuzz::folder().join("checkpoint");
        let monitor = Monitor::default();
        let options = RunOptions {
            seed: SEED,
            threads: 1.into(),
            monitor: &monitor,
            rows: None,
        };
        let checkpoints = Checkpoints {
            write: Some((CheckpointInterval::Requests(100), &path)),
            ..Checkpoints::default()
        };
        if let Err(error) = run_with(&plan, options, checkpoints) {
            panic!("{name}: {error}");
        }
        let bytes = std::fs::read(&path).expect("a checkpoint");
        eprintln!("{name}: a checkpoint of {} bytes", bytes.len());
        let body = &bytes[..bytes.len() - seal(&[]).len()];
        assert_eq!(bytes[body.len()..], seal(body), "the seal is another one");
        Case {
            plan,
            header: body[..HEADER].to_vec(),
            sections: sections(&body[HEADER..]),
        }
    }
}

fn sections(bytes: &[u8]) -> Vec<Section> {
    let mut all = Vec::new();
    let mut rest = Choices(bytes);
    while !rest.is_empty() {
        let length = usize::from(rest.byte());
        let name = rest.bytes(length).to_vec();
        let length = rest.long() as usize;
        let value = rest.bytes(length).to_vec();
        all.push(Section { name, value });
    }
    all
}
