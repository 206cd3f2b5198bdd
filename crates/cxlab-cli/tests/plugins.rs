//! Media in shared libraries as users run them: in processes of their own, and not without the user's word. What a
//! library does wrong names the library and the call, ends with exit code 71 and leaves a partial report.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Folder, Output, command, cxlab, finish, root};
use serde_json::Value;

const SCENARIO: &str = r#"
name = "plugin"
seed = 3
measure = { requests = 2000, warmup_requests = 200 }

[[hosts]]
name = "host"
workload = { kind = "uniform", read_ratio = 0.7 }
issue = { outstanding = 4 }

[[devices]]
name = "mem"
capacity = "256 MiB"
memory = { kind = "plugin", library = "medium.so" }

[fabric]
topology = { kind = "direct" }
"#;

/// Compiles a library.
fn compile(out: &Path, source: &str, macros: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-I"])
        .arg(root().join("include"))
        .args(macros.iter().map(|name| format!("-D{name}")))
        .arg("-o")
        .arg(out)
        .arg(root().join(source))
        .status();
    assert!(status.expect("a C compiler").success());
}

/// A folder with a scenario and its library beside it.
fn folder(name: &str, macros: &[&str]) -> (Folder, PathBuf) {
    let folder = Folder::new(name);
    let source = match macros {
        [] => "examples/plugin/medium.c",
        _ => "crates/cxlab-memory/tests/plugin_bad/bad.c",
    };
    compile(&folder.path("medium.so"), source, macros);
    let scenario = folder.file("scenario.toml", SCENARIO.as_bytes());
    (folder, scenario)
}

/// Runs a scenario with its libraries.
fn run(folder: &Folder, scenario: &Path, more: &[&str]) -> Output {
    let out = folder.path("out");
    let mut run = command(&[&"run", &scenario, &"--out", &out, &"--trust-plugins"]);
    finish(run.args(more))
}

fn report(folder: &Folder) -> Value {
    let text = std::fs::read_to_string(folder.path("out/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_process_of_its_own_changes_no_result() {
    let (folder, scenario) = folder("own-process", &[]);
    let [apart, here] = ["false", "true"].map(|here| {
        let set = format!("--set=devices[0].memory.in_process={here}");
        let done = run(&folder, &scenario, &[&set, "--quiet"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let report = report(&folder);
        (report["digest"].clone(), report["devices"].clone())
    });
    assert_eq!(apart, here);
    // Lines of the measurement, without the warm-up. Four requests may be in flight at each end.
    let device = &apart.1[0];
    let lines = device["medium"]["lines"].as_f64().unwrap();
    let served = device["reads"].as_f64().unwrap() + device["writes"].as_f64().unwrap();
    assert!((lines - served).abs() <= 4.0, "{lines}, {served}");
}

/// `patience` is real time, and `config` is the library's text, whatever it looks like.
#[test]
fn the_limit_on_times_of_media_is_not_for_libraries() {
    let (folder, _) = folder("patience", &[]);
    let text = r#"library = "medium.so", patience = "600 s", config = "5 s" }"#;
    let text = SCENARIO.replace(r#"library = "medium.so" }"#, text);
    let done = cxlab(&[&"check", &folder.file("long.toml", text.as_bytes())]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let text = SCENARIO.replace(r#"medium.so" }"#, r#"medium.so", patience = "7200 s" }"#);
    let done = cxlab(&[&"check", &folder.file("longer.toml", text.as_bytes())]);
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("allowed: 1 ms to 1 h"),
        "{}",
        done.stderr
    );
}

#[test]
fn no_library_is_run_without_the_users_word() {
    let folder = Folder::new("trust");
    let mark = folder.path("loaded");
    let macros = format!("MARKS_LOADING=\"{}\"", mark.display());
    compile(
        &folder.path("medium.so"),
        "crates/cxlab-memory/tests/plugin_bad/bad.c",
        &[&macros],
    );
    let scenario = folder.file("scenario.toml", SCENARIO.replace("0.7", "1.0").as_bytes());
    let config = folder.path("config");
    let out = folder.path("out");
    let with_list = |list: &str| {
        std::fs::create_dir_all(config.join("cxlab")).unwrap();
        std::fs::write(config.join("cxlab/trusted-plugins"), list).unwrap();
        let mut run = command(&[&"run", &scenario, &"--out", &out, &"--quiet"]);
        finish(run.env("XDG_CONFIG_HOME", &config))
    };
    for planned in ["check", "plan"] {
        let done = cxlab(&[&planned, &scenario]);
        assert_eq!(done.code, Some(0), "{planned}: {}", done.stderr);
    }
    for form in ["events", "analytic"] {
        let mut run = command(&[&"run", &scenario, &"--out", &out, &"--mode", &form]);
        let refused = finish(run.env("XDG_CONFIG_HOME", &config));
        assert_eq!(refused.code, Some(2), "{form}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("nobody has said that it may run"),
            "{form}: {}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("scenario.toml:14:"),
            "{form}: {}",
            refused.stderr
        );
    }
    let refused = with_list("# nothing\n/usr/lib/other.so\nsha256:00\n");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(!mark.exists(), "the library has been run");
    let hash = refused.stderr.split("`sha256:").nth(1).unwrap();
    let hash = hash.split('`').next().unwrap();
    let path = folder.path("medium.so").display().to_string();
    for list in [format!("sha256:{hash}\n"), format!("# ours\n  {path}\n")] {
        let done = with_list(&list);
        assert_eq!(done.code, Some(0), "{list}: {}", done.stderr);
    }
    assert!(mark.exists());
    let mut run = command(&[&"run", &scenario, &"--out", &out, &"--quiet"]);
    let done = finish(run.env("CXLAB_TRUST_PLUGINS", "1"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[test]
fn what_a_library_does_wrong_names_it_and_the_call_and_leaves_a_partial_report() {
    for (fault, says) in [
        (
            "CRASHES_IN_ADVANCE",
            "`advance` was ended by signal 11 (SIGSEGV)",
        ),
        (
            "ABORTS_IN_CAN_ACCEPT",
            "`can_accept` was ended by signal 6 (SIGABRT)",
        ),
        (
            "EXITS_IN_ENQUEUE",
            "`enqueue` ended its process with exit code 0",
        ),
        ("HANGS_IN_ADVANCE", "`advance` did not return within 300ms"),
        (
            "FORGETS",
            "`next_event`: it has requests, and nothing will ever happen",
        ),
        ("GOES_BACK", "`next_event`: at "),
        ("TWICE", "is not under way"),
        ("STANDS_STILL", "`advance`: nothing goes on at "),
    ] {
        let name = format!("wrong-{}", fault.to_lowercase());
        let (folder, scenario) = folder(&name, &[fault]);
        let done = run(
            &folder,
            &scenario,
            &[
                "--set=devices[0].memory.config='1000'",
                "--set=devices[0].memory.patience='300 ms'",
            ],
        );
        let said = done.stderr;
        assert_eq!(done.code, Some(71), "{fault}: {said}");
        assert!(
            said.contains("the plug-in `medium.so`: "),
            "{fault}: {said}"
        );
        assert!(said.contains(says), "{fault}: {said}");
        assert!(said.contains("marked partial"), "{fault}: {said}");
        let report = report(&folder);
        assert_eq!(report["partial"], Value::Bool(true), "{fault}");
        let told = report["fault"].as_str().unwrap();
        assert!(told.contains(says), "{fault}: {told}");
        let completed = report["requests"]["completed"].as_u64().unwrap();
        assert!((700..1000).contains(&completed), "{fault}: {completed}");
    }
}

/// The report is being made when that happens: it would lack the statistics without a word.
#[test]
fn a_crash_while_statistics_are_asked_for_is_told_too() {
    let (folder, scenario) = folder("statistic", &["CRASHES_IN_STATISTIC"]);
    let done = run(&folder, &scenario, &[]);
    assert_eq!(done.code, Some(71), "{}", done.stderr);
    let says = "`statistic` was ended by signal 11 (SIGSEGV)";
    assert!(done.stderr.contains(says), "{}", done.stderr);
    let report = report(&folder);
    assert_eq!(report["partial"], Value::Bool(true));
    assert!(report["fault"].as_str().unwrap().contains(says));
}

#[test]
fn a_library_that_cannot_be_had_is_a_mistake_before_the_run() {
    for (fault, says) in [
        (
            "CRASHES_IN_CREATE",
            "`create` was ended by signal 11 (SIGSEGV)",
        ),
        ("SILENT_REFUSAL", "refuses it without saying why"),
        ("BAD_GRANULE", "reads and writes 48 bytes"),
        ("OTHER_ABI", "found interface 3"),
    ] {
        let name = format!("none-{}", fault.to_lowercase());
        let (folder, scenario) = folder(&name, &[fault]);
        let done = run(&folder, &scenario, &[]);
        assert_eq!(done.code, Some(2), "{fault}: {}", done.stderr);
        assert!(done.stderr.contains(says), "{fault}: {}", done.stderr);
        assert!(
            done.stderr.contains("scenario.toml:14:"),
            "{fault}: {}",
            done.stderr
        );
        assert!(!folder.path("out").exists(), "{fault} leaves something");
    }
    let (folder, scenario) = folder("none-missing", &[]);
    std::fs::remove_file(folder.path("medium.so")).unwrap();
    for checked in ["check", "run"] {
        let done = cxlab(&[&checked, &scenario]);
        assert_eq!(done.code, Some(2), "{checked}: {}", done.stderr);
        assert!(
            done.stderr.contains("medium.so`: it cannot be read"),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn what_it_prints_and_how_it_ends_do_no_harm() {
    let (first, scenario) = folder("prints", &["PRINTS"]);
    let done = run(&first, &scenario, &[]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        !done.stdout.contains("a line of the library"),
        "{}",
        done.stdout
    );
    assert!(
        done.stderr.contains("a line of the library"),
        "{}",
        done.stderr
    );
    let (second, scenario) = folder("hangs-late", &["HANGS_IN_DESTROY"]);
    let done = run(
        &second,
        &scenario,
        &["--set=devices[0].memory.patience='100 ms'"],
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

/// Processes whose command line has this path in it.
fn processes(path: &Path) -> Vec<String> {
    let found = Command::new("pgrep").arg("-f").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_run_that_is_killed_leaves_no_process_behind() {
    let (folder, scenario) = folder("orphans", &["HANGS_IN_ADVANCE"]);
    let library = folder.path("medium.so");
    let out = folder.path("out");
    let mut child = command(&[&"run", &scenario, &"--out", &out, &"--trust-plugins"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let wait = |until: &dyn Fn() -> bool| {
        for _ in 0..1000 {
            if until() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not come to that: {:?}", processes(&library));
    };
    wait(&|| !processes(&library).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    wait(&|| processes(&library).is_empty());
}
