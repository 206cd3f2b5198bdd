//! The worked example of a medium in C, and libraries with faults.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{drain, request, statistics};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_memory::{
    FaultList, InputFile, Medium, MediumSite, MemoryBackend, MemoryRequest, RunContext,
};
use serde_json::{Value, json};

const CAPACITY: Bytes = Bytes(1 << 20);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds a library from a C file with additional compiler flags.
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
    // Several tests build the library in parallel, so each has its own file.
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
    cxlab_plugin::trust::trust_all();
    common::medium(kind, &params)
}

/// Builds a medium in this process. Media with their own process are tested through the command
/// line, which serves them.
fn backend(library: &str, config: &str) -> (Box<dyn MemoryBackend>, FaultList) {
    let params = json!({ "library": library, "config": config, "in_process": true });
    let medium = medium("plugin", params).unwrap();
    medium.rehearse(CAPACITY, &RunContext::default()).unwrap();
    let site = MediumSite::alone(CAPACITY, 1);
    let faults = site.context.faults.clone();
    (medium.backend(site), faults)
}

fn read(id: u32, line: u64) -> MemoryRequest {
    request(id, line * 64, 1, false)
}

#[test]
fn the_example_serves_one_request_after_the_other() {
    let (mut backend, faults) = backend(&example(), "latency_ps=80000 queue=2");
    assert_eq!(backend.granule(), 64);
    for id in [7, 9] {
        assert!(backend.can_accept(SimTime(1_000), false));
        assert_eq!(backend.enqueue(SimTime(1_000), read(id, 3)), None);
    }
    let more = backend.can_accept(SimTime(1_000), true);
    assert!(!more, "its queue holds two");
    let (done, _) = drain(&mut *backend);
    let done: Vec<(u32, u64)> = done.iter().map(|one| (one.id, one.at.0)).collect();
    assert_eq!(done, [(7, 81_000), (9, 161_000)]);
    let list = statistics(&*backend, 0);
    assert_eq!((list[0].name.as_str(), list[0].value), ("lines", 2.0));
    assert_eq!(faults.first(), None);
}

#[test]
fn statistics_count_from_the_beginning_of_the_measurement() {
    let (mut backend, faults) = backend(&example(), "latency_ps=80000 queue=8");
    let lines = |backend: &dyn MemoryBackend| statistics(backend, 0)[0].value;
    backend.enqueue(SimTime(0), read(1, 0));
    backend.enqueue(SimTime(0), read(2, 0));
    assert_eq!(lines(&*backend), 2.0);
    backend.begin_measurement(SimTime(10));
    backend.enqueue(SimTime(20), read(3, 0));
    assert_eq!(lines(&*backend), 1.0);
    assert_eq!(faults.first(), None);
}

#[test]
fn a_library_of_the_first_version_of_the_interface_still_works() {
    let (mut backend, faults) = backend(&bad("FIRST_ABI"), "1000");
    backend.enqueue(SimTime(0), read(4, 0));
    backend.begin_measurement(SimTime(0));
    let mut done = Vec::new();
    backend.advance(SimTime(1_000), &mut done);
    assert_eq!((done.len(), done[0].id), (1, 4));
    assert_eq!(faults.first(), None);
}

#[test]
fn it_stands_behind_a_cache_like_any_medium() {
    let params = json!({
        "behind": {
            "kind": "plugin", "library": example(), "config": "latency_ps=3000000 queue=9",
            "in_process": true,
        },
        "size": "64 KiB", "lookup": "4 ns",
    });
    let medium = medium("dram-cache", params).unwrap();
    medium.check(CAPACITY).unwrap();
    let mut cache = medium.backend(MediumSite::alone(CAPACITY, 1));
    for line in 0..64 {
        cache.enqueue(SimTime(0), read(line, line.into()));
    }
    let (done, _) = drain(&mut *cache);
    assert_eq!(done.len(), 64);
    let end = SimTime(4_000 + 64 * 3_000_000);
    assert!(done.iter().all(|one| one.at == end), "a page of 64 lines");
}

#[test]
fn a_library_that_is_none_or_of_another_version_is_one_clear_mistake() {
    let refused = |mut params: Value| {
        params["in_process"] = json!(true);
        match medium("plugin", params) {
            Ok(medium) => medium.rehearse(CAPACITY, &RunContext::default()),
            Err(error) => Err(error),
        }
        .unwrap_err()
    };
    let missing = refused(json!({ "library": "/nowhere/lib.so" }));
    assert_eq!(missing.field, "library");
    let says = missing.message.to_lowercase();
    assert!(says.contains("/nowhere/lib.so"), "{missing}");
    assert!(says.contains("no such file"), "{missing}");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert_eq!(refused(json!({ "library": text })).field, "library");
    for (fault, says) in [
        ("NO_FUNCTION", "no function `cxlab_medium`"),
        ("NO_TABLE", "returns no table"),
        ("OTHER_ABI", "found interface 3"),
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
    let says = "found `speed=high`; allowed";
    assert!(error.message.contains(says), "{error}");
    assert!(refused(json!({ "config": "" })).message.contains("library"));
}

#[test]
fn a_library_that_breaks_the_interface_is_a_fault_and_silent_from_then_on() {
    let forgets = "`next_event`: it has requests, and nothing will ever happen";
    for (fault, says) in [
        ("TWICE", "`advance`: request 0 is not under way"),
        ("UNKNOWN_ID", "`advance`: request 77 is not under way"),
        ("TOO_EARLY", "`advance`: at 1000 ps, done at 1001 after 0"),
        ("TOO_MANY", "`advance`: 65 completions for a room of 64"),
        ("FORGETS", forgets),
        ("GOES_BACK", "`next_event`: at 5000 ps, found 4999"),
        ("STANDS_STILL", "`advance`: nothing goes on at 1000 ps"),
    ] {
        let begin = if fault == "GOES_BACK" { 5000 } else { 0 };
        let library = bad(fault);
        let (mut backend, faults) = backend(&library, "0");
        assert!(backend.can_accept(SimTime(begin), false));
        backend.enqueue(SimTime(begin), read(0, 0));
        drain(&mut *backend);
        let (_, what) = faults.first().expect(fault);
        let expected = format!("the plug-in `{library}`: {says}");
        assert_eq!(what, expected);
        assert!(!backend.can_accept(SimTime(9_000), false), "{fault}");
    }
}

#[test]
fn a_medium_without_a_process_or_a_word_of_the_user_says_what_is_missing() {
    let params = json!({ "library": example() });
    let built = medium("plugin", params).unwrap();
    let error = built.rehearse(CAPACITY, &RunContext::default());
    let error = error.expect_err("this program serves none");
    assert!(error.message.contains("`in_process = true`"), "{error}");
    let error = medium("plugin", json!({ "library": "x", "patience": "1 us" }));
    let error = error.err().expect("too short");
    assert_eq!(error.field, "patience");
    assert_eq!(error.message, "found 1 us; allowed: 1 ms to 1 h");
}

#[test]
fn numbers_in_braces_stand_for_the_paths_of_files() {
    let says = |config: &str, files: &[&str]| {
        let params = json!({
            "library": example(), "config": config, "files": files, "in_process": true,
        });
        let folder = RunContext {
            folder: PathBuf::from("some/folder"),
            ..RunContext::default()
        };
        // The library is built under an absolute path, and says which configuration it found.
        medium("plugin", params)
            .and_then(|medium| medium.rehearse(CAPACITY, &folder))
            .unwrap_err()
    };
    for (config, files, found) in [
        (
            "{1} {0}{",
            &["a", "b"][..],
            "found `some/folder/b some/folder/a{`",
        ),
        ("{x} {} {0", &["a"], "found `{x} {} {0`"),
        ("{0}", &["/abs"], "found `/abs`"),
        ("{0}", &[], "found `{0}`"),
        ("{2}", &["a", "b"], "found `{2}`; allowed: `{0}` to `{1}`"),
    ] {
        let error = says(config, files);
        assert_eq!(error.field, "config");
        assert!(error.message.contains(found), "{}", error.message);
    }
}

/// The hash of a plan covers the content of these files.
#[test]
fn a_medium_names_its_library_however_deep_it_lies() {
    let found = |kind, params| medium(kind, params).unwrap().files();
    let expected = |field: &str| {
        vec![InputFile {
            field: field.to_owned(),
            path: PathBuf::from("media/lib.so"),
        }]
    };
    let plugin = json!({ "kind": "plugin", "library": "media/lib.so" });
    let alone = json!({ "library": "media/lib.so" });
    assert_eq!(found("plugin", alone), expected("library"));
    let cached = json!({ "behind": plugin });
    assert_eq!(found("dram-cache", cached), expected("behind.library"));
    let several = json!({ "media": [{ "kind": "fixed" }, plugin] });
    assert_eq!(found("interleaved", several), expected("media[1].library"));
    assert!(found("fixed", json!({})).is_empty());
    let with_files = json!({ "library": "media/lib.so", "files": ["a.ini", "b.ini"] });
    let files = found("plugin", with_files).into_iter();
    let fields: Vec<String> = files.map(|file| file.field).collect();
    assert_eq!(fields, ["library", "files[0]", "files[1]"]);
}
