//! Invariants of every system, however long it runs: credits are conserved, memory is bounded, and
//! a stalled message stays in its buffer.

use cxlab_engine::Monitor;
use cxlab_engine::units::SimTime;
use cxlab_system::system::{Node, RecordOptions, System};
use cxlab_tests::swarm::may_wait;
use cxlab_tests::{plan, report, run_down, shipped};

/// Credits that were not returned after a run has drained, by link direction.
fn unreturned(text: &str, set: &[&str]) -> Vec<u32> {
    let (mut system, _) = run_down(&plan(text, set));
    for node in system.simulation.components() {
        match node {
            Node::Host(host) => assert!(host.is_done() && host.stats().completed_ever > 0),
            other => assert_eq!(other.in_flight(), 0),
        }
    }
    let directions = system.directions.iter();
    let ends = directions.flat_map(|both| [both.forward, both.backward]);
    let simulation = &mut system.simulation;
    ends.map(|(component, port)| {
        simulation
            .component_mut(component)
            .port_mut(port)
            .unreturned()
    })
    .collect()
}

/// Settings without pipelines behind the links, so that a window is the number of credits.
const MIXED: &[&str] = &[
    "hosts[0].workload.read_ratio=0.5",
    "hosts[0].requests=200",
    "hosts[0].issue.process_time=\"0 ns\"",
    "devices[0].controller.process_time=\"0 ns\"",
    "fabric.switch.switching_time=\"0 ns\"",
];

#[test]
fn every_credit_of_a_small_buffer_has_come_back_when_a_run_has_drained() {
    for name in ["spine-leaf-16", "ring-16", "torus-16", "fully-connected-16"] {
        for credits in [1, 3, 7] {
            let table = format!(
                "fabric.link.credits={{m2s_req={credits},m2s_rwd={credits},s2m_ndr={credits},\
                 s2m_drs={credits}}}"
            );
            let left = unreturned(&shipped(name), &[MIXED, &[&table]].concat());
            let is_back = left.iter().all(|left| *left == 0);
            assert!(is_back, "{name}, {credits} credits: {left:?}");
        }
    }
}

#[test]
fn no_more_than_a_quarter_of_a_large_buffer_waits_for_a_ride_when_a_run_has_drained() {
    for name in ["spine-leaf-16", "ring-16", "torus-16", "fully-connected-16"] {
        let text = shipped(name);
        let plan = plan(&text, MIXED);
        let left = unreturned(&text, MIXED);
        for (link, both) in plan.links.iter().zip(left.chunks_exact(2)) {
            let most = may_wait(&plan, link);
            let few = both.iter().all(|left| *left <= most);
            assert!(few, "{name}: {both:?} of {most}");
        }
        // Some wait for a ride.
        assert!(left.iter().any(|left| *left > 0), "{name}");
    }
}

/// Peak memory use of the process, in bytes. Memory that a run uses temporarily is released before its report exists.
#[cfg(target_os = "linux")]
fn peak_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.expect("a number of kB") * 1024
}

/// A process gives one measurement, so the test runs itself again for each length.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    const NAME: &str = "invariants::memory_does_not_grow_with_the_number_of_requests";
    if let Ok(requests) = std::env::var("CXLAB_MEMORY_REQUESTS") {
        let requests = format!("measure.requests={requests}");
        let set = ["hosts[0].workload.read_ratio=0.7", &requests];
        let report = report(&shipped("spine-leaf-16"), &set);
        let (peak, completed) = (peak_bytes(), report.requests.completed);
        println!("peak {peak} completed {completed}");
        return;
    }
    let measure = |requests: u64| {
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program)
            .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
            .env("CXLAB_MEMORY_REQUESTS", requests.to_string())
            .output()
            .expect("the test runs itself");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |key: &str| {
            let mut words = text.split_whitespace().skip_while(|word| *word != key);
            let word = words.nth(1).and_then(|word| word.parse::<u64>().ok());
            word.expect("a number follows")
        };
        assert!(number("completed") >= requests, "{text}");
        number("peak")
    };
    let (short, long) = (measure(20_000), measure(200_000));
    // The runs differ by 180,000 requests. One byte kept for each would be 176 KiB, and one row 30
    // MiB. Allocators and the histogram's buckets account for less than 1 MiB.
    assert!(long < short + (1 << 20), "{short} bytes, then {long}");
}

#[test]
fn a_chain_of_two_hundred_switches_completes_at_the_sum_of_its_parts() {
    let text = r#"
name = "long"
[fabric]
topology = { kind = "chain", switches = 200 }
link = { transmission = "packet", bandwidth = "64 GB/s", propagation = "1 ns", port_delay = "2 ns", packet = { header = "16 B", data_header = "0 B" } }
switch = { switching_time = "3 ns" }
[[hosts]]
name = "host"
requests = 50
workload = { kind = "uniform" }
issue = { outstanding = 1, process_time = "10 ns" }
[[devices]]
name = "mem"
controller = { process_time = "40 ns" }
memory = { kind = "fixed", latency = "46 ns" }
"#;
    // The host is at the first switch of the first half, and the device at the first of the second.
    let report = report(text, &[]);
    let hops = report.by_hops[0].hops as f64;
    assert_eq!(report.by_hops.len(), 1);
    assert_eq!(hops, 102.0);
    let links = 2.0 * hops * (1.0 + 2.0 * 2.0) + hops * (0.25 + 1.0);
    let expected = 10.0 + links + 2.0 * (hops - 1.0) * 3.0 + 40.0 + 46.0;
    let latency = &report.latency_ns;
    assert_eq!([latency.min, latency.max], [expected; 2]);
}

#[test]
fn a_chain_of_two_hundred_switches_under_load_with_one_credit_everywhere_completes() {
    let text = r#"
name = "long"
[fabric]
topology = { kind = "chain", switches = 200, placement = "paired" }
link = { credits = { m2s_req = 1, m2s_rwd = 1, s2m_ndr = 1, s2m_drs = 1 } }
[[hosts]]
name = "host"
count = 8
requests = 40
workload = { kind = "uniform", read_ratio = 0.5 }
[[devices]]
name = "mem"
count = 8
"#;
    let report = report(text, &[]);
    let requests = &report.requests;
    assert_eq!([requests.issued, requests.completed], [320; 2]);
}

/// One host, one switch, and one slow device, with one buffer of each kind.
const SLOW: &str = r#"
name = "slow"
[measure]
duration = "400 us"
[fabric]
topology = { kind = "chain", switches = 1 }
switch = { switching_time = "0 ns" }
link = { credits = { m2s_req = 2, m2s_rwd = 2, s2m_ndr = 2, s2m_drs = 2 } }
[[hosts]]
name = "host"
workload = { kind = "uniform", read_ratio = 1.0 }
issue = { outstanding = 500, process_time = "0 ns" }
[[devices]]
name = "mem"
controller = { contexts = 1, process_time = "0 ns" }
memory = { kind = "fixed", latency = "1 us", queue = 1 }
"#;

#[test]
fn backpressure_reaches_the_requester_and_requests_wait_there() {
    let plan = plan(SLOW, &[]);
    let mut system = System::build(&plan, 1, RecordOptions::default()).expect("the system builds");
    let (simulation, monitor) = (&mut system.simulation, Monitor::default());
    simulation.run(1, SimTime(400_000_000), &monitor);
    let holds: Vec<u64> = simulation.components().map(Node::in_flight).collect();
    // Hosts, devices and switches hold at most as many messages as they have buffers for.
    assert_eq!(holds[0], 500, "the host has as many in flight as it may");
    // A context and two buffers in the device, two buffers of each class in the switch.
    assert!(holds[1] <= 1 + 2 && holds[2] <= 2 * 2, "{holds:?}");
}

#[test]
fn a_requester_with_a_short_queue_issues_no_more_than_the_system_holds() {
    let free = report(SLOW, &[]);
    assert_eq!(free.requests.in_flight_at_end, 500);
    let held = report(SLOW, &["hosts[0].issue.queue=3"]);
    // Three in the queue, two buffers each in switch and device, one context, and at most two on each wire.
    let in_flight = held.requests.in_flight_at_end;
    assert!(in_flight <= 3 + 2 + 2 + 1, "{in_flight}");
    // The device sets the pace.
    assert_eq!(held.requests.completed, free.requests.completed);
}

/// Sixteen combinations of seed and number of contexts. In some of them the device wakes its DRAM
/// only after an event was due there.
#[test]
fn requests_to_dram_that_is_overloaded_all_end() {
    let text = r#"
name = "overloaded"
[measure]
warmup_requests = 0
[fabric]
topology = { kind = "chain", switches = 1 }
link = { generation = "6" }
[[hosts]]
name = "h"
count = 4
requests = 1000
issue = { outstanding = 256 }
workload = { kind = "stride", stride = "1 MiB", read_ratio = 0.6, mix = "random" }
[[devices]]
name = "d"
capacity = "8 GiB"
memory = { kind = "dram", grade = "DDR4-2400R", channels = 4 }
"#;
    for seed in 1..=4 {
        for contexts in [16, 64, 128, 192] {
            let seed = format!("seed={seed}");
            let contexts = format!("devices[0].controller.contexts={contexts}");
            let report = report(text, &[&seed, &contexts]);
            assert_eq!(report.requests.completed, 4000, "{seed} {contexts}");
        }
    }
}

#[test]
fn a_stride_reaches_one_device_by_modulo_and_all_by_xor() {
    let text = r#"
        name = "stride"
        measure = { warmup_requests = 0, requests = 8192 }
        [fabric]
        topology = { kind = "chain", switches = 1 }
        [[hosts]]
        name = "host"
        workload = { kind = "stride", stride = "16 KiB", read_ratio = 1.0 }
        [[devices]]
        name = "mem"
        count = 4
        memory = { kind = "fixed", bandwidth = "4 GB/s" }
    "#;
    let reads = |set: &[&str]| {
        let report = report(text, set);
        let reads: Vec<u64> = report.devices.iter().map(|device| device.reads).collect();
        (reads, report.bandwidth_gb_per_s.total)
    };
    let (modulo, slow) = reads(&[]);
    assert_eq!(modulo[1..], [0; 3], "{modulo:?}");
    let xor = "address_map.arithmetic=\"xor\"";
    let maps = "address_map.xor_maps=[0x404100, 0x808200]";
    for set in [&[xor][..], &[xor, maps]] {
        let (xor, fast) = reads(set);
        let least = xor.iter().min().unwrap();
        let most = xor.iter().max().unwrap();
        assert!(*least > 0 && most - least <= most / 50, "{xor:?}");
        assert!(fast > 2.0 * slow, "{fast} {slow}");
    }
}
