//! The adapters for programs that were written for another interface.

mod common;

use std::path::Path;
use std::process::Command;

use common::{GAP_PS, compile, library_folder, output, plan, root, run_with_trace, scenario};
use cxlab_engine::units::SimTime;
use cxlab_system::session::{RequestKind, Session, Submission};
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
    let flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"];
    let source = root().join("adapters/dramsim3/random.cpp");
    compile("c++", &flags, &source, &library, &program);
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

/// The latency of a request of `bytes` from line 0 on, alone in the system.
fn alone_ps(folder: &Path, bytes: u64, kind: RequestKind) -> u64 {
    let loaded = plan(folder, SCENARIO);
    let seed = loaded.plan.scenario.seed;
    let mut session = Session::new(loaded, seed, false).expect("a session");
    let port = session.find_port("outside").expect("the port");
    let request = Submission {
        id: 1,
        address: 0,
        size: bytes,
        kind,
        time: SimTime(0),
    };
    session.submit(port, request).expect("a request");
    session.close(port).expect("a port");
    session.drain().expect("no event is left");
    let done = session.take_completion().expect("a completion");
    done.completed.0 - done.issued.0
}

#[test]
#[ignore = "needs a checkout of SimBricks"]
fn a_host_of_simbricks_reads_what_it_wrote_after_the_time_of_the_system() {
    let Ok(checkout) = std::env::var("CXLAB_SIMBRICKS") else {
        println!("skipped: CXLAB_SIMBRICKS names no checkout of github.com/simbricks/simbricks");
        return;
    };
    let folder = TempDir::new().expect("a folder");
    let library = library_folder(folder.path());
    std::os::unix::fs::symlink(root().join("include"), folder.path().join("include"))
        .expect("a link");
    let mut make = Command::new("make");
    make.arg("-C").arg(root().join("adapters/simbricks"));
    make.arg(format!("SIMBRICKS={checkout}"));
    make.arg(format!("CXLAB={}", library.with_file_name("").display()));
    make.arg(format!("OUT={}", folder.path().display()));
    output(&mut make);
    let scenario = folder.path().join("scenario.toml");
    std::fs::write(&scenario, SCENARIO).expect("a scenario");
    let [socket, memory] = ["socket", "memory"].map(|name| folder.path().join(name));
    // Requests of two lines: a write, then a read, each after the one before.
    let (link_ps, requests) = (200_000, 2_000);
    let mut simulator = Command::new(folder.path().join("cxlab-simbricks"))
        .args([&*scenario, Path::new("outside"), &*socket, &*memory])
        .args(["2", &link_ps.to_string(), &link_ps.to_string()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the memory simulator");
    while !socket.exists() {
        let ended = simulator.try_wait().expect("a process");
        assert!(ended.is_none(), "it ended before it listened");
        std::thread::yield_now();
    }
    let mut host = Command::new(folder.path().join("peer"));
    host.arg(&socket)
        .args([requests, link_ps].map(|number: u64| number.to_string()));
    let printed = output(&mut host);
    let done = simulator.wait_with_output().expect("its end");
    assert!(done.status.success());
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).expect("a report");
    assert_eq!(report["requests"]["completed"], 2 * requests);
    let pair =
        [RequestKind::Write, RequestKind::Read].map(|kind| alone_ps(folder.path(), 128, kind));
    let sum = requests / 2 * (pair[0] + pair[1]);
    assert_eq!(printed, format!("ok {requests} requests, {sum} ps\n"));
}
