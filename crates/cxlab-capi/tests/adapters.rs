//! The adapters for programs that were written for another interface.

mod common;

use std::process::Command;

use common::{GAP_PS, library_folder, output, root, run_with_trace, scenario};
use tempfile::TempDir;

/// A system with an external port that takes few requests.
const SCENARIO: &str = r#"
name = "outside"

[fabric]
topology = { kind = "direct" }

[[hosts]]
name = "outside"
kind = "external"
depth = 8

[[devices]]
name = "mem"
"#;

#[test]
fn a_program_for_dramsim3_gets_each_transaction_called_back_once() {
    let folder = TempDir::new().expect("a folder");
    let library = library_folder(folder.path());
    let scenario = folder.path().join("scenario.toml");
    std::fs::write(&scenario, SCENARIO).expect("a scenario");
    let program = folder.path().join("random");
    let mut compiler = Command::new("c++");
    compiler
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("include"))
        .arg(root().join("adapters/dramsim3/random.cpp"))
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lcxlab", "-o"])
        .arg(&program);
    output(&mut compiler);
    let mut run = Command::new(&program);
    let printed = output(run.arg(&scenario).arg(folder.path()).arg("20000"));
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert_eq!(words[1], words[3], "{printed}");
    let added: u64 = words[1].parse().expect("a number");
    // 10 us: with the port's 64 lines in flight and some hundred nanoseconds each, more than a thousand.
    assert!(added > 1000, "{printed}");
    let report = std::fs::read_to_string(folder.path().join("cxlab.json")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["requests"]["completed"], added);
}

#[test]
#[ignore = "slow, and needs SystemC"]
fn a_systemc_program_gets_what_a_run_with_a_trace_gets() {
    let folder = TempDir::new().expect("a folder");
    let has_systemc = Command::new("c++")
        .args([
            "-E",
            "-include",
            "systemc",
            "-x",
            "c++",
            "-o",
            "/dev/null",
            "/dev/null",
        ])
        .output()
        .is_ok_and(|done| done.status.success());
    if !has_systemc {
        println!("skipped: SystemC is not installed (on Debian: apt-get install libsystemc-dev)");
        return;
    }
    let library = library_folder(folder.path());
    let program = folder.path().join("check");
    let mut compiler = Command::new("c++");
    compiler
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("include"))
        .arg(root().join("adapters/systemc/check.cpp"))
        .arg("-L")
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.display()))
        .args(["-lcxlab", "-lsystemc", "-o"])
        .arg(&program);
    output(&mut compiler);
    let path = folder.path().join("scenario.toml");

    std::fs::write(&path, SCENARIO).expect("a scenario");
    let mut check = Command::new(&program);
    check.env("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1");
    assert_eq!(
        output(check.arg("lt").arg(&path)).lines().last(),
        Some("ok")
    );

    let requests = 20_000;
    std::fs::write(&path, scenario("kind = \"external\"", requests)).expect("a scenario");
    let mut check = Command::new(&program);
    check.env("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1");
    check
        .arg("at")
        .arg(&path)
        .arg(requests.to_string())
        .arg(GAP_PS.to_string());
    let expected = run_with_trace(folder.path(), requests);
    let printed = output(&mut check);
    assert_eq!(printed.lines().last(), expected.lines().last());
}
