//! Guests that share memory: a hash table and a mailbox.

use std::path::PathBuf;

use super::common::Folder;
use super::refused::check_rows;
use super::{attempt, guest, root, run};
use serde_json::Value;

fn scenario() -> PathBuf {
    root().join("scenarios/vm-shared.toml")
}

/// Options that make the device a plain one (HDM-H), which keeps no cache coherent.
const PLAIN: [&str; 2] = ["--set", "devices[0].coherence.class=hdm-h"];

/// The numbers in the line of a guest's program that begins with a word.
fn said(report: &Value, guest: usize, word: &str) -> [u64; 2] {
    let lines = report["guests"][guest]["runs"][0]["output"]
        .as_array()
        .unwrap();
    let mut line = lines.iter().filter_map(Value::as_str);
    let line = line.rfind(|line| line.starts_with(word));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    [words[1].parse().unwrap(), words[3].parse().unwrap()]
}

fn shared(report: &Value, guest: usize, field: &str) -> u64 {
    let run = &report["guests"][guest]["runs"][0];
    run["shared"][field].as_u64().unwrap()
}

/// The report of `program`, whose device is coherent or not.
fn ran(name: &str, program: &[&str], options: &[&str]) -> Option<Value> {
    let folder = Folder::new(name);
    let options = [&["--memory", "local"], options].concat();
    let report = run(&folder, &scenario(), program, &options)?;
    assert_eq!(report["late_events"], 0, "{report:#}");
    Some(report)
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_hash_table_of_two_guests_loses_no_update_unless_nobody_keeps_it_coherent() {
    let Some(report) = ran("vm-table", &["table", "coherent", "100"], &[]) else {
        return;
    };
    for guest in 0..2 {
        assert_eq!(said(&report, guest, "table "), [200, 200], "{report:#}");
        assert!(shared(&report, guest, "invalidated") > 20, "{report:#}");
        assert_eq!(shared(&report, guest, "stale_loads"), 0, "{report:#}");
    }
    let report = ran("vm-table", &["table", "software", "100"], &PLAIN).unwrap();
    for guest in 0..2 {
        assert_eq!(said(&report, guest, "table "), [200, 200], "{report:#}");
        assert!(shared(&report, guest, "flushes") > 200, "{report:#}");
        assert_eq!(shared(&report, guest, "snoops"), 0, "{report:#}");
    }
    // Without flushes, and with atomic instructions on memory that is not coherent.
    for protocol in ["none", "coherent"] {
        let report = ran("vm-table", &["table", protocol, "100"], &PLAIN).unwrap();
        let [found, all] = said(&report, 0, "table ");
        assert!(found < all, "{report:#}");
        assert!(shared(&report, 0, "stale_loads") > 0, "{report:#}");
    }
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_mailbox_of_two_guests_delivers_all_messages_unless_nobody_keeps_it_coherent() {
    let Some(report) = ran("vm-mailbox", &["mailbox", "coherent", "10"], &[]) else {
        return;
    };
    assert_eq!(said(&report, 1, "mailbox "), [10, 10], "{report:#}");
    let report = ran("vm-mailbox", &["mailbox", "software", "10"], &PLAIN).unwrap();
    assert_eq!(said(&report, 1, "mailbox "), [10, 10], "{report:#}");
    let report = ran("vm-mailbox", &["mailbox", "none", "10"], &PLAIN).unwrap();
    assert_eq!(said(&report, 1, "mailbox "), [0, 10], "{report:#}");
}

/// Rows: scenario | options | texts that the message has.
const REFUSED: &str = "
shared | --window=1_us | --window: found 1 us | share memory | allowed: 0 ns
shared | --pmem /nowhere | --pmem: found `/nowhere` | share memory | sharing = \"shared\"
shared | --cpus 2 | found 2 processors | allowed: 1 in guests that share memory
shared | --memory board | --memory: found `board` | allowed: all, any, local
shared | --host node0 | devices[0].coherence.class | found \"hdm-db\", of which guest `node0` | sharing = \"shared\"
";

#[test]
fn what_guests_that_share_memory_cannot_be_asked_for_is_refused() {
    check_rows(REFUSED, |_| scenario(), "table");
}

/// With one guest the memory is its own.
#[test]
#[ignore = "minutes: make test-all"]
fn a_region_that_one_guest_alone_has_is_ordinary_memory() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-unshared");
    let options = [&PLAIN[..], &["--host", "node0", "--memory", "board"]].concat();
    let chase = ["chase", "1024", "1000"];
    attempt(dir, &folder, &scenario(), &chase, &options).ends(0);
}
