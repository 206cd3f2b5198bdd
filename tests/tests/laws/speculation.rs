//! `MemSpecRd`: reads of a device that overlap with the host's
//! cache lookups (CXL 3.1, section 3.5.3.1).

use cxlab_system::report::Report;
use cxlab_tests::{plan, report, rows};

/// A core that loads lines of a device, each after the one before has arrived.
const CHASE: &str = r#"
name = "chase"
[measure]
warmup_requests = 0
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "h"
requests = 500
workload = { kind = "pointer-chase", footprint = "64 KiB" }
nodes = [{ capacity = "1 MiB" }]
[hosts.processor]
cores = 1
l1 = { size = "256 B", ways = 4, access_time = "1 ns" }
l2 = { size = "512 B", ways = 8, access_time = "4 ns" }
llc = { size = "1 KiB", ways = 16, access_time = "20 ns" }
[[devices]]
name = "d"
capacity = "256 MiB"
memory = { kind = "fixed", latency = "46 ns" }
"#;

fn chase(more: &[&str]) -> Report {
    report(CHASE, more)
}

const AHEAD: &str = "hosts[0].processor.llc.speculative_reads=true";

#[test]
fn the_shorter_of_lookup_and_medium_is_saved() {
    for (lookup, medium, saved) in [(20.0, 46.0, 20.0), (20.0, 15.0, 15.0), (0.0, 46.0, 0.0)] {
        let lookup = format!("hosts[0].processor.llc.access_time=\"{lookup} ns\"");
        let medium = format!("devices[0].memory={{ kind = \"fixed\", latency = \"{medium} ns\" }}");
        let [plain, ahead] = [&[&*lookup, &medium][..], &[&lookup, &medium, AHEAD]].map(chase);
        let found = plain.latency_ns.mean - ahead.latency_ns.mean;
        // Both messages are in flits of one link.
        assert!((found - saved).abs() < 2.5, "{lookup}, {medium}: {found}");
        assert_eq!(ahead.devices[0].reads, 500);
    }
}

#[test]
fn what_the_caches_have_is_read_for_nothing() {
    let small = "hosts[0].workload.footprint=\"1 KiB\"";
    let [plain, ahead] = [&[small][..], &[small, AHEAD]].map(chase);
    let reads = |report: &Report| report.devices[0].reads;
    assert_eq!(reads(&plain), 16, "each line once");
    assert_eq!(reads(&ahead), 16);
    let sent = ahead.hosts[0].processor["speculative_reads"]
        .as_f64()
        .unwrap_or(0.0);
    let read = ahead.devices[0].speculative_reads;
    assert!(read.is_some_and(|lines| lines > 16), "{read:?}");
    // The last-level cache has what the core's own do not.
    assert!(sent > 100.0, "{sent}");
}

/// With media that report completions later, interleaved writes, and threads: the
/// requests are the same, each once.
#[test]
fn nothing_else_changes() {
    let mixed = [
        "hosts[0].workload={ kind = \"uniform\", footprint = \"16 KiB\", read_ratio = 0.6 }",
        "hosts[0].processor.cores=4",
        "hosts[0].requests=4000",
        "devices[0].memory={ kind = \"dram\" }",
        "hosts[0].processor.llc={ size = \"8 KiB\", ways = 16, speculative_reads = true }",
    ];
    let plan = plan(CHASE, &mixed);
    let (first, found) = rows(&plan, 1);
    assert_eq!(found.len() as u64, first.requests.completed);
    assert_eq!(first.requests.completed, 16_000);
    assert_eq!(rows(&plan, 2).0.provenance.digest, first.provenance.digest);
    let sent = first.hosts[0].processor["speculative_reads"].as_f64();
    assert!(sent.is_some_and(|sent| sent > 1_000.0), "{sent:?}");
}
