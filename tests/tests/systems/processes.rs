//! Several processes on a host: each has its own page tables and policies, and all
//! allocate frames from the same nodes.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::Report;
use cxlab_tests::{assert_threads, plan, report, rows};

const KIB: f64 = 1024.0;
const PAGES: f64 = 64.0;

/// Three cores that each access 64 pages, once for every line. Node 0 is the host's
/// own, and node 1 the pool.
const BASE: &str = r#"
name = "processes"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "host"
workload = { kind = "stream", footprint = "256 KiB", read_ratio = 0.5 }
span = "local"
requests = 4096
nodes = [{ capacity = "4 MiB" }]
[hosts.processor]
cores = 3
l1 = { size = "1 KiB", ways = 2, access_time = "1 ns" }
l2 = { size = "2 KiB", ways = 2, access_time = "3 ns" }
llc = { size = "8 KiB", ways = 8 }
[hosts.os]
heap = "1 MiB"
placement = { kind = "bind", nodes = [0] }
[[devices]]
name = "pool"
capacity = "256 MiB"
"#;

fn simulate(more: &str) -> Report {
    let plan = plan(&format!("{BASE}{more}"), &[]);
    let (report, rows) = rows(&plan, 1);
    assert_eq!(rows.len(), 3 * 4096);
    assert_threads(&plan, &report.provenance.digest, [2]);
    report
}

fn count(report: &Report, name: &str) -> f64 {
    let counts = &report.hosts[0].processor;
    let found = counts.get(name).and_then(serde_json::Value::as_f64);
    found.unwrap_or_else(|| panic!("{name} is none of {counts:?}"))
}

/// Bytes that a process has on a node.
fn resident(report: &Report, process: u32, node: u32) -> f64 {
    count(
        report,
        &format!("process{process}.numa{node}.resident_bytes"),
    )
}

fn process(number: usize, cores: &str, nodes: &str) -> String {
    format!(
        "[[hosts.os.processes]] # {number}\ncores = [{cores}]\nheap = \"512 KiB\"\n\
         placement = {{ kind = {nodes}] }}\n"
    )
}

#[test]
fn cores_of_one_process_share_its_pages_and_those_of_others_have_their_own() {
    let one = simulate("");
    assert_eq!(count(&one, "resident_bytes"), PAGES * 4.0 * KIB);
    let counts = &one.hosts[0].processor;
    assert!(!counts.contains_key("process1.numa0.resident_bytes"));
    let two = simulate(&process(2, "2", "\"bind\", nodes = [0"));
    assert_eq!(count(&two, "resident_bytes"), 2.0 * PAGES * 4.0 * KIB);
    let promised = count(&two, "promised_bytes") - count(&one, "promised_bytes");
    assert_eq!(promised, (512.0 + 262144.0) * KIB);
    // Another page table has four levels.
    let tables =
        |report: &Report| count(report, "numa0.cpu.used_bytes") - count(report, "resident_bytes");
    assert!(tables(&two) - tables(&one) >= 4.0 * 4.0 * KIB);
}

#[test]
fn each_process_has_a_policy_of_its_own() {
    let interleaved = process(3, "2", "\"interleave\", nodes = [0, 1");
    let report = simulate(&(process(2, "1", "\"bind\", nodes = [1") + &interleaved));
    let of = |process: u32, node: u32| resident(&report, process, node) / 4.0 / KIB;
    assert_eq!([of(1, 0), of(1, 1)], [PAGES, 0.0]);
    assert_eq!([of(2, 0), of(2, 1)], [0.0, PAGES]);
    assert_eq!([of(3, 0), of(3, 1)], [PAGES / 2.0; 2]);
    // The second misses each time, the third every other.
    let pool = &report.devices[0];
    assert!(pool.reads + pool.writes > 4096, "{pool:?}");
}

#[test]
fn what_one_process_takes_the_others_go_without() {
    // All prefer 1.5 MiB of local memory. The heap of the second process alone is larger.
    let big = process(2, "1", "\"preferred\", nodes = [0").replace("512 KiB", "3 MiB");
    let other = process(3, "2", "\"preferred\", nodes = [0");
    let text = format!("{BASE}{big}{other}")
        .replace("256 KiB", "2 MiB")
        .replace("heap = \"1 MiB\"", "heap = \"2 MiB\"")
        .replace("512 KiB", "2 MiB")
        .replace("requests = 4096", "requests = 32768");
    let text = text.replace("\"bind\", nodes = [0]", "\"preferred\", nodes = [0]");
    let (report, _) = rows(&plan(&text, &[]), 1);
    let on = |node| -> f64 {
        (1..=3)
            .map(|process| resident(&report, process, node))
            .sum()
    };
    let (own, pooled) = (on(0), on(1));
    assert_eq!(own + pooled, 3.0 * 2048.0 * KIB, "every page is somewhere");
    let free = 4096.0 * KIB - count(&report, "numa0.cpu.used_bytes");
    // The low watermark of 4 MiB: 4 sqrt(4096) KiB, and a quarter more.
    assert_eq!(free, 1.25 * 256.0 * KIB);
    assert!(pooled > 2048.0 * KIB, "what does not fit goes to the pool");
}

#[test]
fn pages_move_in_every_process() {
    let tpp = "migration = { kind = \"tpp\", scan_period = \"5 us\", scan_size = \"1 MiB\", window = \"1 ms\" }";
    let more = process(2, "1,2", "\"preferred\", nodes = [1");
    let text = format!("{BASE}{more}")
        .replace("heap = \"1 MiB\"", &format!("heap = \"1 MiB\"\n{tpp}"))
        .replace("requests = 4096", "requests = 60000");
    let (report, _) = rows(&plan(&text, &[]), 1);
    assert!(count(&report, "pages_promoted") > 0.0);
    assert!(resident(&report, 2, 0) > 0.0);
    assert_eq!(resident(&report, 1, 1), 0.0);
    let (again, _) = rows(&plan(&text, &[]), 2);
    assert_eq!(again.provenance.digest, report.provenance.digest);
}

#[test]
fn threads_and_programs_beside_them_may_be_processes() {
    let text = BASE
        .replace("kind = \"stream\", footprint = \"256 KiB\", read_ratio = 0.5", "kind = \"hot-pages\", memory = \"256 KiB\", operations = 2000")
        .replace("span = \"local\"\nrequests = 4096\n", "")
        .replace("[hosts.os]", "[hosts.beside]\nworkload = { kind = \"stream\", footprint = \"256 KiB\" }\ncores = 1\nspan = \"local\"\nrequests = 4096\n[hosts.os]");
    let text = format!("{text}{}", process(2, "2", "\"bind\", nodes = [1"));
    // The kernel checks its result, so no other process may have written to its pages.
    let report = report(&text, &["hosts[0].beside.workload.read_ratio=0.0"]);
    assert_eq!(resident(&report, 1, 0), PAGES * 4.0 * KIB);
    assert_eq!(resident(&report, 2, 1), PAGES * 4.0 * KIB);
}
