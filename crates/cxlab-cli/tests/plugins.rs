//! Media in shared libraries as users run them: in processes of their own, and not without the user's word. What a
//! library does wrong names the library and the call, ends with exit code 71 and leaves a partial report.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Folder, Output, finish, root, until};

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

const BAD: &str = "crates/cxlab-memory/tests/plugin_bad/bad.c";

/// A folder with a scenario and its library beside it.
fn folder(name: &str, macros: &[&str]) -> Folder {
    let folder = Folder::new(name);
    let source = match macros {
        [] => "examples/plugin/medium.c",
        _ => BAD,
    };
    compile(&folder.path("medium.so"), source, macros);
    folder.file("scenario.toml", SCENARIO.as_bytes());
    folder
}

/// Runs a scenario with its libraries.
fn run(folder: &Folder, more: &[&str]) -> Output {
    let mut run = folder.command("run scenario.toml --out out --trust-plugins");
    finish(run.args(more))
}

#[test]
fn a_process_of_its_own_changes_no_result() {
    let folder = folder("own-process", &[]);
    let [apart, here] = ["false", "true"].map(|here| {
        let set = format!("--set=devices[0].memory.in_process={here}");
        run(&folder, &[&set, "--quiet"]).ends(0);
        let report = folder.json("out/report.json");
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
    let folder = folder("patience", &[]);
    let check = |keys: &str| {
        let text = SCENARIO.replace("medium.so\"", &format!("medium.so\", {keys}"));
        folder.file("patient.toml", text.as_bytes());
        folder.cxlab("check patient.toml")
    };
    check(r#"patience = "600 s", config = "5 s""#).ends(0);
    let refused = check(r#"patience = "7200 s""#).ends(2);
    refused.says(&["allowed: 1 ms to 1 h"]);
}

#[test]
fn no_library_is_run_without_the_users_word() {
    let folder = Folder::new("trust");
    let mark = folder.path("loaded");
    let macros = format!("MARKS_LOADING=\"{}\"", mark.display());
    compile(&folder.path("medium.so"), BAD, &[&macros]);
    folder.file("scenario.toml", SCENARIO.replace("0.7", "1.0").as_bytes());
    let config = folder.path("config");
    let run = |words: &str| {
        let mut run = folder.command(&format!("run scenario.toml --out out {words}"));
        finish(run.env("XDG_CONFIG_HOME", &config))
    };
    let with_list = |list: &str| {
        std::fs::create_dir_all(config.join("cxlab")).unwrap();
        folder.file("config/cxlab/trusted-plugins", list.as_bytes());
        run("--quiet")
    };
    for planned in ["check", "plan"] {
        folder.cxlab(&format!("{planned} scenario.toml")).ends(0);
    }
    for form in ["events", "analytic"] {
        let refused = run(&format!("--mode {form}")).ends(2);
        refused.says(&["nobody has said that it may run", "scenario.toml:14:"]);
    }
    let refused = with_list("# nothing\n/usr/lib/other.so\nsha256:00\n").ends(2);
    assert!(!mark.exists(), "the library has been run");
    let hash = refused.stderr.split("`sha256:").nth(1).unwrap();
    let hash = hash.split('`').next().unwrap();
    let path = folder.path("medium.so").display().to_string();
    for list in [format!("sha256:{hash}\n"), format!("# ours\n  {path}\n")] {
        with_list(&list).ends(0);
    }
    assert!(mark.exists());
    let mut run = folder.command("run scenario.toml --out out --quiet");
    finish(run.env("CXLAB_TRUST_PLUGINS", "1")).ends(0);
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
        let folder = folder(&format!("wrong-{}", fault.to_lowercase()), &[fault]);
        let set = [
            "--set=devices[0].memory.config='1000'",
            "--set=devices[0].memory.patience='300 ms'",
        ];
        let done = run(&folder, &set).ends(71);
        done.says(&["the plug-in `medium.so`: ", says, "marked partial"]);
        let report = folder.json("out/report.json");
        assert_eq!(report["partial"], true, "{fault}");
        let told = report["fault"].as_str().unwrap();
        assert!(told.contains(says), "{fault}: {told}");
        let completed = report["requests"]["completed"].as_u64().unwrap();
        assert!((700..1000).contains(&completed), "{fault}: {completed}");
    }
}

/// The report is being made when that happens: it would lack the statistics without a word.
#[test]
fn a_crash_while_statistics_are_asked_for_is_told_too() {
    let folder = folder("statistic", &["CRASHES_IN_STATISTIC"]);
    let says = "`statistic` was ended by signal 11 (SIGSEGV)";
    run(&folder, &[]).ends(71).says(&[says]);
    let report = folder.json("out/report.json");
    assert_eq!(report["partial"], true);
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
        let folder = folder(&format!("none-{}", fault.to_lowercase()), &[fault]);
        let refused = run(&folder, &[]).ends(2);
        refused.says(&[says, "scenario.toml:14:"]);
        assert!(!folder.path("out").exists(), "{fault} leaves something");
    }
    let folder = folder("none-missing", &[]);
    std::fs::remove_file(folder.path("medium.so")).unwrap();
    for checked in ["check", "run"] {
        let done = folder.cxlab(&format!("{checked} scenario.toml"));
        done.ends(2).says(&["medium.so`: it cannot be read"]);
    }
}

#[test]
fn what_it_prints_and_how_it_ends_do_no_harm() {
    let printed = run(&folder("prints", &["PRINTS"]), &[]).ends(0);
    assert!(!printed.stdout.contains("a line of the library"));
    printed.says(&["a line of the library"]);
    let late = folder("hangs-late", &["HANGS_IN_DESTROY"]);
    run(&late, &["--set=devices[0].memory.patience='100 ms'"]).ends(0);
}

/// Processes whose command line has this path in it.
fn processes(path: &Path) -> Vec<String> {
    let found = Command::new("pgrep").arg("-f").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_run_that_is_killed_leaves_no_process_behind() {
    let folder = folder("orphans", &["HANGS_IN_ADVANCE"]);
    let library = folder.path("medium.so");
    let scenario = folder.path("scenario.toml");
    let run = format!("run '{}' --out out --trust-plugins", scenario.display());
    let mut command = folder.command(&run);
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until("a process", || !processes(&library).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    until("its end", || processes(&library).is_empty());
}
