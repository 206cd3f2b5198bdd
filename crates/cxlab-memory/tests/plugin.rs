//! The worked example of a medium in C, and libraries that are not what they should be.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use cxlab_engine::catalog::{ParamError, find};
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_memory::{CATALOG, Completion, Medium, MemoryBackend, MemoryRequest, Site};
use serde_json::{Value, json};

const CAPACITY: Bytes = Bytes(1 << 20);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds a library from a C file, with more flags.
fn library(name: &str, source: &Path, flags: &[&str]) -> String {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-std=c11", "-I"])
        .arg(root().join("include"))
        .args(flags)
        .arg("-o")
        .args([library.as_path(), source])
        .status();
    assert!(status.expect("a C compiler").success());
    library.to_str().unwrap().to_owned()
}

fn example() -> String {
    // Built by several tests at once: each has its own file.
    let name = format!("medium-{:?}", std::thread::current().id());
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let source = root().join("examples/plugin/medium.c");
    library(&name, &source, &["-Wall", "-Wextra", "-Werror"])
}

fn bad(fault: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugin_bad/bad.c");
    library(&format!("bad_{fault}"), &source, &[&format!("-D{fault}")])
}

fn medium(kind: &str, params: Value) -> Result<Box<dyn Medium>, ParamError> {
    (find(CATALOG, kind).unwrap().build)(&params)
}

fn backend(library: &str, config: &str) -> Box<dyn MemoryBackend> {
    let medium = medium("plugin", json!({ "library": library, "config": config })).unwrap();
    medium.check(CAPACITY).unwrap();
    medium.backend(Site::alone(CAPACITY, 1))
}

fn read(id: u32, line: u64) -> MemoryRequest {
    MemoryRequest {
        id,
        dpa: Dpa(line * 64),
        lines: 1,
        write: false,
    }
}

#[test]
fn the_example_serves_one_request_after_the_other() {
    let mut backend = backend(&example(), "latency_ps=80000 queue=2");
    assert_eq!(backend.granule(), 64);
    for id in [7, 9] {
        assert!(backend.can_accept(SimTime(1_000), false));
        assert_eq!(backend.enqueue(SimTime(1_000), read(id, 3)), None);
    }
    assert!(
        !backend.can_accept(SimTime(1_000), true),
        "its queue holds two"
    );
    let mut done = Vec::new();
    while let Some(at) = backend.next_event() {
        backend.advance(at, &mut done);
    }
    let at = |id, at| Completion {
        id,
        at: SimTime(at),
    };
    assert_eq!(done, [at(7, 81_000), at(9, 161_000)]);
    let mut list = Vec::new();
    backend.statistics(SimTime(0), &mut list);
    assert_eq!((list[0].name.as_str(), list[0].value), ("lines", 2.0));
}

#[test]
fn it_stands_behind_a_cache_like_any_medium() {
    let params = json!({
        "behind": { "kind": "plugin", "library": example(), "config": "latency_ps=3000000 queue=9" },
        "size": "64 KiB", "lookup": "4 ns",
    });
    let medium = medium("dram-cache", params).unwrap();
    medium.check(CAPACITY).unwrap();
    let mut cache = medium.backend(Site::alone(CAPACITY, 1));
    for line in 0..64 {
        cache.enqueue(SimTime(0), read(line, line.into()));
    }
    let mut done = Vec::new();
    while let Some(at) = cache.next_event() {
        cache.advance(at, &mut done);
    }
    assert_eq!(done.len(), 64);
    let end = SimTime(4_000 + 64 * 3_000_000);
    assert!(done.iter().all(|one| one.at == end), "a page of 64 lines");
}

#[test]
fn a_library_that_is_none_or_of_another_version_is_one_clear_mistake() {
    let refused = |params: Value| match medium("plugin", params) {
        Ok(medium) => medium.check(CAPACITY).unwrap_err(),
        Err(error) => error,
    };
    let missing = refused(json!({ "library": "/nowhere/lib.so" }));
    assert_eq!(missing.field, "library");
    let says = missing.message.to_lowercase();
    assert!(
        says.contains("/nowhere/lib.so") && says.contains("no such file"),
        "{missing}"
    );
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert_eq!(refused(json!({ "library": text })).field, "library");
    for (fault, says) in [
        ("NO_FUNCTION", "no function `cxlab_medium`"),
        ("NO_TABLE", "returns no table"),
        ("OTHER_ABI", "found interface 2"),
        ("OTHER_SIZE", "with a table of 8 bytes"),
        ("NO_ADVANCE", "the table has no `advance`"),
        ("BAD_GRANULE", "reads and writes 48 bytes"),
    ] {
        let error = refused(json!({ "library": bad(fault) }));
        assert_eq!(error.field, "library");
        assert!(error.message.contains(says), "{error}");
    }
    let error = refused(json!({ "library": bad("SILENT_REFUSAL") }));
    assert_eq!(error.field, "config");
    let error = refused(json!({ "library": example(), "config": "speed=high" }));
    assert_eq!(error.field, "config");
    assert!(
        error.message.contains("found `speed=high`; allowed"),
        "{error}"
    );
    assert!(refused(json!({ "config": "" })).message.contains("library"));
}

#[test]
fn a_library_that_breaks_the_interface_ends_the_run_with_a_message() {
    for (fault, says) in [
        ("TWICE", "request 0 is not under way"),
        ("UNKNOWN_ID", "request 77 is not under way"),
        ("TOO_EARLY", "done at"),
        ("TOO_MANY", "completions for a room of"),
        ("FORGETS", "nothing will ever happen"),
        ("STANDS_STILL", "nothing goes on"),
    ] {
        let mut backend = backend(&bad(fault), "");
        let run = move || {
            backend.enqueue(SimTime(0), read(0, 0));
            let mut done = Vec::new();
            for _ in 0..(1 << 21) {
                match backend.next_event() {
                    Some(at) => backend.advance(at, &mut done),
                    None => return,
                }
            }
        };
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let said = end.expect_err(fault);
        let said = said.downcast_ref::<String>().unwrap();
        assert!(said.contains(says), "{said}");
    }
}

/// A plan's hash is of the content of these.
#[test]
fn a_medium_names_the_library_that_it_was_loaded_from_however_deep_it_lies() {
    let library = example();
    let expected = [Path::new(&library).canonicalize().unwrap()];
    let found = |kind, params| -> Vec<PathBuf> {
        let files = medium(kind, params).unwrap().files();
        files
            .iter()
            .map(|file| file.canonicalize().unwrap())
            .collect()
    };
    let plugin = json!({ "kind": "plugin", "library": library });
    assert_eq!(found("plugin", json!({ "library": library })), expected);
    let cached = json!({ "behind": plugin });
    assert_eq!(found("dram-cache", cached), expected);
    let several = json!({ "media": [plugin, { "kind": "fixed" }] });
    assert_eq!(found("interleaved", several), expected);
    assert!(found("fixed", json!({})).is_empty());
}
