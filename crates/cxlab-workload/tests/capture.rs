//! Capture of real programs. Where Valgrind is not installed, the test is that we say so.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::ffi::OsString;
use std::path::PathBuf;

use cxlab_workload::{CaptureError, CaptureOptions, CaptureSummary, capture, info};

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("cxlab-test-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a capture; `None` where Valgrind is absent, which must then be the error.
fn run(options: &CaptureOptions) -> Option<Result<CaptureSummary, CaptureError>> {
    let result = capture(options, &mut |_, _| {});
    if let Err(CaptureError::NoValgrind) = &result {
        let message = CaptureError::NoValgrind.to_string();
        assert!(message.contains("apt-get install valgrind"), "{message}");
        return None;
    }
    Some(result)
}

fn options(folder: &std::path::Path, command: &[&str]) -> CaptureOptions {
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
    assert_eq!(
        (info.reads, info.writes),
        (summary.trace.reads, summary.trace.writes)
    );
    assert!(
        info.provenance
            .contains("lackey: sh -c exit 3; through caches of 32 KiB/8")
    );
    assert_eq!(info.time_range, None);
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        1,
        "no partial file is left"
    );
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
    assert!(
        (5_000..6_000).contains(&info.accesses),
        "lines of 5,000 accesses: {info:?}"
    );
    assert!(info.time_range.unwrap().1.0 > 500 * 5_000);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_command_that_cannot_run_leaves_an_error_and_no_file() {
    let folder = folder("absent");
    let Some(result) = run(&options(&folder, &["/no/such/program"])) else {
        return;
    };
    assert!(
        matches!(result, Err(CaptureError::NothingRecorded { .. })),
        "{result:?}"
    );
    assert!(matches!(
        run(&options(&folder, &[])),
        Some(Err(CaptureError::NoCommand))
    ));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}
