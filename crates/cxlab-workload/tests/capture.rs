//! Capture of real programs. Where a recorder is not installed, the test checks the
//! error that says so.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cxlab_workload::{
    CaptureError, CaptureOptions, CaptureSummary, OpKind, Recorder, Sampling, capture, info,
};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cxlab-test-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a capture. Returns `None` where the recorder is absent, which must then be the error.
fn run(options: &CaptureOptions) -> Option<Result<CaptureSummary, CaptureError>> {
    let result = capture(options, &mut |_, _| {});
    match &result {
        Err(error @ CaptureError::NoValgrind) => {
            let message = error.to_string();
            assert!(message.contains("apt-get install valgrind"), "{message}");
            None
        }
        Err(CaptureError::NoQemu(why)) if why.contains("apt-get install") => None,
        Err(CaptureError::NoQemu(why)) if why.contains("allowed: 7.2") => None,
        _ => Some(result),
    }
}

/// Options for a capture of every access of a program.
fn unfiltered(folder: &Path, program: &Path, recorder: Recorder) -> CaptureOptions {
    CaptureOptions {
        recorder,
        filter: None,
        ..options(folder, &[program.to_str().unwrap()])
    }
}

const RECORDERS: [Recorder; 2] = [Recorder::Qemu, Recorder::Valgrind];

/// Two threads, each with 4,096 lines of its own at fixed addresses: each stores to every line in
/// order, then loads every seventh line, with wrap-around.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
#define LINES 4096
static void *work(void *at) {
    volatile long *line = at;
    for (int i = 0; i < LINES; i++) line[8 * i] = i;
    for (int i = 0; i < LINES; i++) (void)line[8 * (i * 7 % LINES)];
    return 0;
}
int main(void) {
    pthread_t thread;
    char *at = mmap((void *)0x200000000, 2 * 64 * LINES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED || pthread_create(&thread, 0, work, at + 64 * LINES)) return 9;
    work(at);
    return pthread_join(thread, 0) ? 9 : 0;
}
"#;
const LINES: u64 = 4096;
const FIRST: u64 = 0x2_0000_0000 / 64;

/// Compiles the program and returns its path.
fn program(folder: &Path) -> PathBuf {
    let source = folder.join("program.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = folder.join("program");
    let mut compiler = std::process::Command::new("cc");
    let done = compiler
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(done.unwrap().success());
    program
}

/// The records of the program's lines.
fn lines(path: &Path) -> Vec<(u64, OpKind)> {
    let mut records = cxlab_workload::import::Records::open(path, None).unwrap();
    let mut lines = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        if (FIRST..FIRST + 2 * LINES).contains(&record.line.0) {
            lines.push((record.line.0 - FIRST, record.kind));
        }
    }
    lines
}

#[test]
fn every_access_of_every_thread_is_recorded_in_its_order() {
    let folder = folder("threads");
    let program = program(&folder);
    for recorder in RECORDERS {
        let options = unfiltered(&folder, &program, recorder);
        let Some(result) = run(&options) else {
            continue;
        };
        let summary = result.unwrap();
        assert_eq!(summary.exit.code(), Some(0), "{recorder:?}");
        assert!(summary.instructions > 4 * LINES, "{recorder:?}");
        let all = lines(&options.out);
        for thread in 0..2 {
            let own = all.iter().filter(|(line, _)| line / LINES == thread);
            let own: Vec<_> = own.map(|(line, kind)| (line % LINES, *kind)).collect();
            let stores = (0..LINES).map(|line| (line, OpKind::Write));
            let loads = (0..LINES).map(|at| (at * 7 % LINES, OpKind::Read));
            let (wanted, found): (Vec<_>, _) = (stores.chain(loads).collect(), own.len());
            assert!(own == wanted, "{recorder:?}, thread {thread}: {found}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The caches also see accesses between windows: a line brought in there is a hit
/// in the next window.
#[test]
fn windows_are_recorded_and_the_caches_see_everything() {
    let folder = folder("windows");
    let program = program(&folder);
    for recorder in RECORDERS {
        let mut options = unfiltered(&folder, &program, recorder);
        let Some(result) = run(&options) else {
            continue;
        };
        let all = result.unwrap().trace;
        options.sampling = Some(Sampling {
            recorded: 100,
            every: 1000,
        });
        let part = run(&options).unwrap().unwrap().trace;
        let share = part.records() as f64 / part.accesses as f64;
        assert!((share - 0.1).abs() < 0.01, "{recorder:?}: {part:?}");
        let apart = part.accesses as f64 / all.accesses as f64;
        assert!((apart - 1.0).abs() < 0.01, "{recorder:?}: {all:?} {part:?}");
        // Both halves of the work fit into the caches: no load is recorded,
        // with windows or without.
        options.filter = Some("1 MiB/16".parse().unwrap());
        run(&options).unwrap().unwrap();
        let found = lines(&options.out);
        let misses = found.len();
        assert!((1..=LINES / 2).contains(&(misses as u64)), "{misses}");
        let once: BTreeSet<u64> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(once.len(), misses, "{recorder:?}: a line missed twice");
        let provenance = info(&options.out).unwrap().provenance;
        let windows = "; 100 of each 1000 accesses";
        assert!(provenance.ends_with(windows), "{provenance}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn scripts_are_recorded_by_their_interpreter_and_what_is_forked_is_left_out() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("script");
    let script = folder.join("script");
    std::fs::write(&script, "#!/usr/bin/env sh\n(exit 0)\n/bin/true\nexit 5\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut counts = Vec::new();
    for recorder in RECORDERS {
        let options = unfiltered(&folder, &script, recorder);
        let Some(result) = run(&options) else {
            continue;
        };
        let summary = result.unwrap();
        assert_eq!(summary.exit.code(), Some(5), "{recorder:?}");
        counts.push(summary.trace.accesses as f64);
    }
    // Valgrind records only `env`, which becomes another program.
    if let [shell, env] = counts[..] {
        assert!(shell > 20_000.0 && env > 20_000.0, "{shell} {env}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn options(folder: &Path, command: &[&str]) -> CaptureOptions {
    let command = command.iter().map(OsString::from).collect();
    CaptureOptions::new(command, folder.join("out.cxlt"))
}

#[test]
fn a_real_program_is_recorded_with_its_exit_status() {
    let folder = folder("capture");
    let Some(result) = run(&options(&folder, &["sh", "-c", "exit 3"])) else {
        return;
    };
    let summary = result.unwrap();
    assert_eq!(summary.exit.code(), Some(3));
    assert!(!summary.stopped);
    assert!(summary.trace.accesses > 10_000, "{summary:?}");
    let info = info(&folder.join("out.cxlt")).unwrap();
    let counts = (summary.trace.reads, summary.trace.writes);
    assert_eq!((info.reads, info.writes), counts);
    let how = ": sh -c exit 3; through caches of 32 KiB/8";
    assert!(info.provenance.contains(how));
    assert_eq!(info.time_range, None);
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 1, "no partial file is left");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_bound_on_accesses_stops_the_program() {
    let folder = folder("bound");
    let mut options = options(&folder, &["sh", "-c", "while :; do :; done"]);
    options.max_accesses = Some(5_000);
    options.filter = None;
    options.per_instruction = "500 ps".parse().unwrap();
    let Some(result) = run(&options) else { return };
    let summary = result.unwrap();
    assert!(summary.stopped && summary.exit.code().is_none());
    let info = info(&folder.join("out.cxlt")).unwrap();
    assert_eq!(info.accesses, summary.trace.accesses);
    let few = (5_000..6_000).contains(&info.accesses);
    assert!(few, "lines of 5,000 accesses: {info:?}");
    assert!(info.time_range.unwrap().1.0 > 500 * 5_000);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_command_that_cannot_run_leaves_an_error_and_no_file() {
    let folder = folder("absent");
    let Some(result) = run(&options(&folder, &["/no/such/program"])) else {
        return;
    };
    let nothing = matches!(result, Err(CaptureError::NothingRecorded { .. }));
    assert!(nothing, "{result:?}");
    let empty = run(&options(&folder, &[]));
    assert!(matches!(empty, Some(Err(CaptureError::NoCommand))));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}
