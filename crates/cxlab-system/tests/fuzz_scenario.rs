//! Scenario texts, from nearly right to nonsense, through everything that the command does before
//! a run: parse, set, validate, deserialize, plan. Nothing panics, takes long or takes much memory,
//! and what the schema accepts the types accept.
//!
//! Bounded and seeded: the same cases in every run. `CXLAB_FUZZ_CASES` asks for more.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cxlab_engine::Monitor;
use cxlab_engine::rng::StreamRng;
use cxlab_plan::{Files, Plan, Problem};
use cxlab_scenario::Scenario;
use cxlab_scenario::diagnostics::{Document, render, validate};
use cxlab_system::run::{RunError, RunOptions, run};
use serde_json::Value;

/// Most processor time that a case may take: some times that of the largest systems in a debug build, so that only
/// what does not end is beyond it.
const LONGEST: Duration = Duration::from_secs(300);

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cases(usual: u64) -> u64 {
    let asked = std::env::var("CXLAB_FUZZ_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The shipped scenarios and the base of the table of mistakes.
fn corpus() -> Vec<String> {
    let mut texts = vec![include_str!("../../cxlab-cli/tests/common/base.toml").to_owned()];
    let entries = std::fs::read_dir(root().join("scenarios")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    texts.extend(
        paths
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap()),
    );
    texts
}

/// Time that this thread has had a processor, however busy the machine is; zero where the system does not say.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// How far a text came.
#[derive(Default, Debug)]
struct Reached {
    parsed: u64,
    valid: u64,
    planned: u64,
}

#[derive(Default)]
struct Fuzzer {
    schema: Value,
    /// Whether what can be planned is also run.
    run: bool,
    reached: Reached,
}

impl Fuzzer {
    fn new() -> Fuzzer {
        Fuzzer {
            schema: cxlab_scenario::schema(),
            ..Fuzzer::default()
        }
    }

    /// Everything up to the plan.
    fn exercise(&mut self, text: &str, set: &[String]) {
        let began = processor_time();
        self.go(text, set);
        let took = processor_time().saturating_sub(began);
        assert!(took < LONGEST, "took {took:?} with --set {set:?}:\n{text}");
    }

    fn go(&mut self, text: &str, set: &[String]) {
        let mut document = match Document::parse("s.toml", text) {
            Ok(document) => document,
            Err(found) => {
                assert!(!render(&found, &Document::unparsed("s.toml", text), false).is_empty());
                return;
            }
        };
        self.reached.parsed += 1;
        for assignment in set {
            if let Err(found) = document.set(assignment) {
                assert!(!render(&found, &document, false).is_empty());
            }
        }
        let found = validate(&document, &self.schema);
        if !found.is_empty() {
            assert!(!render(&found, &document, false).is_empty());
            return;
        }
        self.reached.valid += 1;
        let scenario = serde_json::from_value(document.value().clone());
        let scenario: Scenario = scenario.unwrap_or_else(|error| {
            panic!("the schema accepts what the types refuse: {error}\n--set {set:?}\n{text}")
        });
        let files = Files::of(root().join("scenarios"));
        match Plan::new(scenario, files) {
            Ok(plan) => {
                self.reached.planned += 1;
                if self.run {
                    run_briefly(&plan, text, set);
                }
            }
            Err(problems) => check_problems(&problems, text, set),
        }
    }
}

/// Runs a plan for a second at most. It may end with the user's mistake, and never with ours.
fn run_briefly(plan: &Plan, text: &str, set: &[String]) {
    let monitor = Monitor::default();
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while !done.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(1) {
                std::thread::sleep(Duration::from_millis(1));
            }
            monitor.interrupt();
        });
        let options = RunOptions {
            seed: plan.scenario.seed,
            threads: 1.into(),
            monitor: &monitor,
            rows: None,
        };
        let result = catch_unwind(AssertUnwindSafe(|| run(plan, options)));
        done.store(true, Ordering::Relaxed);
        result
    });
    match result {
        Ok(Ok(_) | Err(RunError::Problems(_))) => {}
        Ok(Err(error)) => panic!("{error}\n--set {set:?}\n{text}"),
        Err(_) => panic!("the run panicked\n--set {set:?}\n{text}"),
    }
}

/// Problems name a place, and none is in serde's words, which know neither line nor key.
fn check_problems(problems: &[Problem], text: &str, set: &[String]) {
    assert!(!problems.is_empty());
    let of_serde = [
        "unknown field",
        "invalid type",
        "missing field",
        "unknown variant",
    ];
    for Problem { path, message } in problems {
        let of_serde = of_serde.iter().any(|words| message.starts_with(words));
        let is_ours = !path.is_empty() && !message.is_empty() && !of_serde;
        assert!(is_ours, "{path}: {message}\n--set {set:?}\n{text}");
    }
}

fn pick<'a, T: ?Sized>(rng: &mut StreamRng, from: &[&'a T]) -> &'a T {
    from[rng.below(from.len() as u64) as usize]
}

/// Values that a careless or hostile hand might write.
const VALUES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "7",
    "16",
    "64",
    "255",
    "256",
    "4095",
    "4096",
    "65535",
    "65536",
    "1048576",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-1",
    "-9223372036854775808",
    "0.0",
    "0.5",
    "1.0",
    "1.5",
    "-0.5",
    "1e300",
    "1e-300",
    "true",
    "false",
    "\"\"",
    "\"x\"",
    "\"0 ns\"",
    "\"1 ps\"",
    "\"1 ns\"",
    "\"1 ms\"",
    "\"5000000 s\"",
    "\"18446744073709551615 ps\"",
    "\"0 B\"",
    "\"1 B\"",
    "\"64 B\"",
    "\"256 B\"",
    "\"300 B\"",
    "\"16 KiB\"",
    "\"256 MiB\"",
    "\"1 TiB\"",
    "\"1024 TiB\"",
    "\"16777215 TiB\"",
    "\"0 B/s\"",
    "\"1 B/s\"",
    "\"1 MB/s\"",
    "\"1000 TB/s\"",
    "[]",
    "{}",
    "[[]]",
    "[0]",
    "{ kind = \"ring\" }",
    "{ kind = \"fully-connected\" }",
    "{ kind = \"mesh\" }",
    "{ kind = \"torus\" }",
    "{ kind = \"dragonfly\" }",
    "{ kind = \"spine-leaf\" }",
    "{ kind = \"tree\" }",
    "{ kind = \"chain\" }",
    "{ kind = \"direct\" }",
    "{ kind = \"custom\", links = [] }",
    "{ kind = \"custom\", switches = [\"a\", \"a\"], links = [[\"a\", \"a\"], [\"host0\", \"a\"], [\"x\"]] }",
    "{ kind = \"uniform\" }",
    "{ kind = \"stream\" }",
    "{ kind = \"stride\", stride = \"0 B\" }",
    "{ kind = \"hot-cold\" }",
    "{ kind = \"zipf\", exponent = 1.2, scramble = true }",
    "{ kind = \"pointer-chase\" }",
    "{ kind = \"trace\" }",
    "{ kind = \"trace\", path = \"../traces/sqlite-index.cxlt\" }",
    "{ kind = \"trace\", path = \"/dev/null\" }",
    "{ kind = \"fixed\", banks = 65536 }",
    "\"adaptive\"",
    "\"oblivious\"",
    "\"shortest\"",
    "\"pbr\"",
    "\"single-vcs\"",
    "\"multiple-vcs\"",
    "\"half\"",
    "\"packet\"",
    "\"flit\"",
    "\"68B\"",
    "\"256B\"",
    "\"3\"",
    "\"6\"",
    "\"7\"",
    "\"timestamps\"",
    "\"exact\"",
    "\"age\"",
];

/// Paths of the schema, so that assignments reach every field.
fn paths(schema: &Value) -> Vec<String> {
    let mut all = Vec::new();
    collect(schema, schema, "", 0, &mut all);
    all.sort();
    all.dedup();
    all
}

fn collect(root: &Value, at: &Value, prefix: &str, depth: usize, all: &mut Vec<String>) {
    if depth > 8 {
        return;
    }
    let name = at.get("$ref").and_then(Value::as_str);
    let target = name.and_then(|name| root.pointer(&name[1..]));
    let parts = ["oneOf", "anyOf", "allOf"].into_iter();
    let parts = parts.filter_map(|key| at.get(key)?.as_array()).flatten();
    for part in parts.chain(target) {
        collect(root, part, prefix, depth + 1, all);
    }
    if let Some(items) = at.get("items") {
        collect(root, items, &format!("{prefix}[0]"), depth + 1, all);
    }
    let properties = at.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let path = match prefix {
            "" => name.clone(),
            _ => format!("{prefix}.{name}"),
        };
        all.push(path.clone());
        collect(root, property, &path, depth + 1, all);
    }
}

/// A text with a few characters, words or lines changed.
fn mutated(rng: &mut StreamRng, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(lines.len() as u64) as usize;
        match rng.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let with = rng.below(lines.len() as u64) as usize;
                lines.swap(at, with);
            }
            3 => {
                if let Some((key, _)) = lines[at].split_once('=') {
                    lines[at] = format!("{key}= {}", pick(rng, VALUES));
                }
            }
            _ => {
                let mut chars: Vec<char> = lines[at].chars().collect();
                if !chars.is_empty() {
                    let at = rng.below(chars.len() as u64) as usize;
                    let with = [
                        "", "\"", "[", "]", "}", "=", ".", "#", "9", "e", "é", "\u{0}",
                    ];
                    chars.splice(at..at + 1, pick(rng, &with).chars());
                }
                lines[at] = chars.into_iter().collect();
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    lines.join("\n")
}

#[test]
fn mutated_scenarios_are_refused_or_planned() {
    let corpus = corpus();
    let mut fuzzer = Fuzzer::new();
    let mut rng = StreamRng::new(1, "mutated-scenarios");
    for _ in 0..cases(3000) {
        let text = &corpus[rng.below(corpus.len() as u64) as usize];
        let text = mutated(&mut rng, text);
        fuzzer.exercise(&text, &[]);
    }
    let Reached {
        parsed,
        valid,
        planned,
    } = fuzzer.reached;
    let some = parsed > planned && valid > planned && planned > 0;
    assert!(some, "{:?}", fuzzer.reached);
}

/// Paths by how deep they lie. The deepest are the parameters of catalogs, far more than all
/// others, and most belong to an entry that a scenario does not have.
fn by_depth(paths: &[String]) -> Vec<Vec<&str>> {
    let mut levels: Vec<Vec<&str>> = Vec::new();
    for path in paths {
        let depth = path.matches('.').count();
        if levels.len() <= depth {
            levels.resize(depth + 1, Vec::new());
        }
        levels[depth].push(path);
    }
    levels.retain(|level| !level.is_empty());
    levels
}

/// One to three assignments, each depth as likely. The window is short, for those that are run.
fn assignments(rng: &mut StreamRng, levels: &[Vec<&str>]) -> Vec<String> {
    let mut set = vec!["measure={ requests = 300 }".to_owned()];
    for _ in 0..1 + rng.below(3) {
        let level = &levels[rng.below(levels.len() as u64) as usize];
        let path = pick(rng, level);
        set.push(format!("{path}={}", pick(rng, VALUES)));
    }
    set
}

#[test]
fn any_value_at_any_path_is_refused_or_planned() {
    let corpus = corpus();
    let mut fuzzer = Fuzzer::new();
    let paths = paths(&fuzzer.schema);
    for known in [
        "fabric.link.credits.m2s_req",
        "hosts[0].workload.read_ratio",
    ] {
        assert!(
            paths.iter().any(|path| path == known),
            "{known} in {paths:?}"
        );
    }
    let levels = by_depth(&paths);
    let mut rng = StreamRng::new(1, "any-value");
    for _ in 0..cases(3000) {
        let text = &corpus[rng.below(corpus.len() as u64) as usize];
        fuzzer.exercise(text, &assignments(&mut rng, &levels));
    }
    let Reached { valid, planned, .. } = fuzzer.reached;
    assert!(valid > planned && planned > 50, "{:?}", fuzzer.reached);
}

#[test]
fn each_path_takes_each_value_without_harm() {
    let mut fuzzer = Fuzzer::new();
    let text = include_str!("../../cxlab-cli/tests/common/base.toml");
    // Every path with a rotating part of the values, so that a run of the tests stays short.
    for (number, path) in paths(&fuzzer.schema).iter().enumerate() {
        for value in VALUES.iter().skip(number % 4).step_by(4) {
            fuzzer.exercise(text, &[format!("{path}={value}")]);
        }
    }
    assert!(fuzzer.reached.planned > 100, "{:?}", fuzzer.reached);
}

#[test]
#[ignore = "slow: runs what can be planned"]
fn whatever_can_be_planned_runs_without_a_mistake_of_ours() {
    let mut fuzzer = Fuzzer::new();
    fuzzer.run = true;
    let text = include_str!("../../cxlab-cli/tests/common/base.toml");
    let paths = paths(&fuzzer.schema);
    for path in &paths {
        for value in VALUES {
            fuzzer.exercise(text, &[format!("{path}={value}")]);
        }
    }
    let corpus = corpus();
    let levels = by_depth(&paths);
    let mut rng = StreamRng::new(2, "any-run");
    for _ in 0..cases(3000) {
        let text = &corpus[rng.below(corpus.len() as u64) as usize];
        fuzzer.exercise(text, &assignments(&mut rng, &levels));
    }
    assert!(fuzzer.reached.planned > 500, "{:?}", fuzzer.reached);
    eprintln!("{:?}", fuzzer.reached);
}

// Two tests, so that they run in parallel.
#[test]
fn the_most_hosts_are_refused_or_planned_quickly_with_every_topology() {
    exercise_largest(4095, 1);
}

#[test]
fn the_most_devices_are_refused_or_planned_quickly_with_every_topology() {
    exercise_largest(1, 4095);
}

fn exercise_largest(hosts: u32, devices: u32) {
    let mut fuzzer = Fuzzer::new();
    let text = include_str!("../../cxlab-cli/tests/common/base.toml");
    // Without switches there is nothing to plan, and custom ones are as large as their text.
    let kinds = cxlab_fabric::topology::CATALOG
        .iter()
        .map(|entry| entry.name);
    for kind in kinds.filter(|name| !["direct", "custom"].contains(name)) {
        let set = [
            format!("fabric.topology={{ kind = \"{kind}\" }}"),
            format!("hosts[0].count={hosts}"),
            format!("devices[0].count={devices}"),
        ];
        fuzzer.exercise(text, &set);
    }
}
