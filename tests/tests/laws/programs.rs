//! Laws of programs on a processor's cores: the cost of an access follows from the parameters, a
//! core's window or its misses limit its bandwidth, and every workload without threads runs.
#![allow(clippy::unwrap_used)]

use cxlab_system::report::Report;
use cxlab_tests::{assert_close, plan, report, root, shipped, try_run};
use cxlab_workload::pattern::CATALOG;
use serde_json::{Value, json};

/// Cache hits of 1 and 5 ns, 7 ns to the home agent, 11 ns there, and 13 ns to memory of 100 ns.
const BASE: &str = r#"name = "programs"
description = "programs"
[fabric]
topology = { kind = "direct" }
link = { transmission = "packet" }
[[hosts]]
name = "host"
workload = { kind = "pointer-chase", footprint = "1 MiB" }
nodes = [{ capacity = "64 MiB", latency = "13 ns", memory = { kind = "fixed", latency = "100 ns" } }]
[hosts.processor]
cores = 1
cycle = "1 ns"
mesh_time = "7 ns"
root_port_time = "3 ns"
l1 = { size = "512 B", ways = 8, access_time = "1 ns" }
l2 = { size = "1 KiB", ways = 16, access_time = "4 ns" }
llc = { size = "8 KiB", ways = 16, access_time = "11 ns" }
[[devices]]
name = "memory"
memory = { kind = "fixed", latency = "100 ns" }
"#;

/// The same memory below a requester that adds no latency.
const PLAIN: &str = r#"name = "plain"
description = "plain"
[fabric]
topology = { kind = "direct" }
link = { transmission = "packet" }
[[hosts]]
name = "host"
issue = { process_time = "0 ns", outstanding = 1 }
requests = 2000
workload = { kind = "uniform" }
[[devices]]
name = "memory"
memory = { kind = "fixed", latency = "100 ns" }
"#;

const ON_DIE: f64 = 5.0 + 2.0 * 7.0 + 11.0;
const LOCAL: f64 = ON_DIE + 2.0 * 13.0 + 100.0;

fn run(set: &[&str]) -> Report {
    let requests = [
        "hosts[0].requests=2000",
        "measure={ warmup_time = \"0 ns\" }",
    ];
    report(BASE, &[&requests, set].concat())
}

#[test]
fn a_pointer_chase_takes_what_lies_on_its_way() {
    let local = run(&["hosts[0].span=\"local\""]);
    let found = &local.hosts[0].latency_ns;
    assert_eq!((found.min, found.max), (LOCAL, LOCAL));
    let plain = report(PLAIN, &[]).hosts[0].latency_ns.max;
    let cxl = run(&[]);
    let found = &cxl.hosts[0].latency_ns;
    let way = ON_DIE + 2.0 * 3.0 + plain;
    assert_eq!((found.min, found.max), (way, way));
    // With one outstanding access, the total time is the sum of all latencies.
    assert_eq!(local.extent.sim_time_ns, 2000.0 * LOCAL);
    // With consecutive memories, a fifth of 320 MiB is the host's own.
    let both = run(&[
        "hosts[0].span=\"all\"",
        "devices[0].capacity=\"256 MiB\"",
        "hosts[0].workload={ kind = \"uniform\" }",
        "hosts[0].processor.reorder=1",
    ]);
    let found = &both.hosts[0].latency_ns;
    assert_eq!((found.min, found.max), (LOCAL, way));
    let own = (way - found.mean) / (way - LOCAL);
    assert!((0.15..0.25).contains(&own), "{own}");
}

/// Time of `steps` loads that miss, with at most `window` of them in flight. A load issues each
/// cycle, and the next round starts when the limiting resource has been occupied for `held`.
fn rounds(steps: u64, window: u64, held: f64) -> f64 {
    let last = steps - 1;
    (last / window) as f64 * held + (last % window) as f64 + LOCAL
}

#[test]
fn bandwidth_is_the_window_over_the_latency_whatever_limits_it() {
    let stream = [
        "hosts[0].span=\"local\"",
        "hosts[0].workload={ kind = \"stream\", footprint = \"1 MiB\" }",
    ];
    for (reorder, misses) in [(1, 48), (2, 48), (7, 48), (48, 48), (192, 5), (192, 48)] {
        let (window, lines) = (
            format!("hosts[0].processor.reorder={reorder}"),
            format!("hosts[0].processor.misses={misses}"),
        );
        let found = run(&[&stream[..], &[&window, &lines]].concat());
        let window = reorder.min(misses);
        // An MSHR is occupied until the home agent responds, and a step until its line arrives.
        let held = if misses < reorder { LOCAL - 7.0 } else { LOCAL };
        let expected = rounds(2000, window, held);
        assert_eq!(
            found.extent.sim_time_ns, expected,
            "{reorder} steps, {misses} misses"
        );
        // Over many rounds that is window * 64 B / latency.
        let limit = (window * 64) as f64 / held;
        let bandwidth = found.hosts[0].bandwidth_gb_per_s.total;
        assert_close(bandwidth, limit, 0.03, "GB/s");
    }
}

#[test]
fn stores_are_counted_and_lines_that_are_held_cost_no_more_than_the_cache() {
    // Eight lines: each misses once, and then stays in the first-level cache.
    let set = [
        "hosts[0].span=\"local\"",
        "hosts[0].processor.reorder=1",
        "hosts[0].workload={ kind = \"stream\", footprint = \"512 B\", read_ratio = 0.5, mix = \"regular\" }",
    ];
    let found = run(&set);
    let host = &found.hosts[0];
    assert_eq!((host.reads, host.writes), (1000, 1000));
    assert_eq!(host.processor["l1_hits"], json!(1992.0));
    assert_eq!(host.phases[0].operations, 2000);
    assert_eq!(host.phases[0].bytes, 2000 * 64);
}

#[test]
fn every_workload_that_is_no_thread_runs_on_every_core() {
    let mut ran = 0;
    for entry in CATALOG {
        let params = match entry.name {
            "external" | "script" => continue,
            "trace" => json!({ "path": root().join("traces/sqlite-index.cxlt") }),
            _ => json!({}),
        };
        let Ok(workload) = (entry.build)(&params) else {
            panic!("{} has no defaults", entry.name)
        };
        if workload.needs_threads() {
            continue;
        }
        let mut table = params;
        table["kind"] = entry.name.into();
        let set = [
            format!("hosts[0].workload={}", inline(&table)),
            "hosts[0].processor.cores=2".to_owned(),
            "hosts[0].processor.llc.inclusion=\"non-inclusive\"".to_owned(),
            "hosts[0].requests=1500".to_owned(),
            "hosts[0].nodes=[{ capacity = \"4 GiB\" }]".to_owned(),
        ];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let plan = plan(BASE, &set);
        // Every run checks conservation, Little's law and sums of stages.
        let [one, two] = [1, 2].map(|threads| try_run(&plan, threads).unwrap());
        assert_eq!(one.hosts[0].completed, 3000, "{}", entry.name);
        assert_eq!(
            one.provenance.digest, two.provenance.digest,
            "{}",
            entry.name
        );
        ran += 1;
    }
    assert!(ran >= 9, "{ran} kinds ran");
}

#[test]
fn a_trace_is_replayed_whole_beside_the_kernel_of_an_accelerator() {
    let path = root().join("traces/sqlite-index.cxlt");
    let trace = cxlab_workload::info(&path).unwrap();
    let found = report(&shipped("processor-trace"), &[]);
    let (host, device) = (&found.hosts[0], &found.accelerators[0]);
    assert_eq!((host.reads, host.writes), (trace.reads, trace.writes));
    assert_eq!(host.phases[0].operations, trace.accesses);
    assert_eq!(host.phases[0].bytes, trace.accesses * 64);
    // At its end the run checks the kernel's result.
    assert_eq!(device.phases[0].operations, 4 * 1250);
    // In the processor's own memory, the trace has the shorter
    // path and competes with the accelerator.
    let set = ["hosts[0].beside.span=\"local\""];
    let near = report(&shipped("processor-trace"), &set);
    assert!(near.hosts[0].latency_ns.mean < host.latency_ns.mean);
    assert!(near.accelerators[0].latency_ns.mean > device.latency_ns.mean);
}

/// Formats an inline table of TOML.
fn inline(table: &Value) -> String {
    let fields = table.as_object().unwrap().iter();
    let fields: Vec<String> = fields
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    format!("{{ {} }}", fields.join(", "))
}

#[test]
fn translation_gives_programs_their_pages() {
    let set = [
        "hosts[0].os={}",
        "hosts[0].workload={ kind = \"uniform\", footprint = \"1 MiB\" }",
    ];
    for span in ["hosts[0].span=\"local\"", "hosts[0].span=\"cxl\""] {
        let found = run(&[&set[..], &[span]].concat());
        let count = |name: &str| found.hosts[0].processor[name].as_f64().unwrap();
        assert!(count("page_faults") > 200.0, "256 pages are touched");
        assert!(count("tlb_misses") >= count("page_faults"));
    }
}
