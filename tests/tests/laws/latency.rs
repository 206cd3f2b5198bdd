//! Latency: without load it is the exact sum of the configured times, in picoseconds. It rises
//! with load, and Little's law holds.

use cxlab_host::QUEUES;
use cxlab_system::report::Report;
use cxlab_system::run::RunError;
use cxlab_tests::{assert_close, plan, report, shipped, try_run};

/// Asserts that every request took exactly the sum of these stages (picoseconds), that the report
/// has these mean stages, and that no request was queued.
#[track_caller]
fn assert_stages(report: &Report, expected: [(&str, u64); 8]) {
    assert!(report.requests.completed >= 300);
    for (stage, mean) in &report.stages_ns {
        let named = expected.iter().find(|(name, _)| name == stage);
        let picos = named.map_or(0, |(_, picos)| *picos);
        let femtos = mean.as_f64().map(|mean| (mean * 1e6).round() as u64);
        assert_eq!(femtos, Some(picos * 1000), "stage `{stage}`");
    }
    assert_eq!(report.stages_ns.len(), expected.len() + QUEUES.len());
    let sum: u64 = expected.iter().map(|(_, picos)| picos).sum();
    let sum_ns = sum as f64 / 1e3;
    let latency = &report.latency_ns;
    assert_eq!([latency.min, latency.mean, latency.max], [sum_ns; 3]);
}

/// Settings for one outstanding request.
const IDLE: [&str; 2] = ["measure={ requests = 300 }", "hosts[0].issue.outstanding=1"];

fn idle(scenario: &str, more: &[&str]) -> Report {
    report(&shipped(scenario), &[&IDLE, more].concat())
}

/// One 256 B flit at 16 x 8 GB/s: 2,000 ps. Every message fits in one flit: Req 1 slot, RwD 5, NDR
/// 1, DRS 5 of 15. Only a line may wait for another.
const FLIT_256: u64 = 2_000;
/// Time in the ports at both ends, and for the error correction of a 256 B flit.
const PORTS: u64 = 2 * 12_500;
const FEC: u64 = 2_000;
const WIRE: u64 = 1_000;

/// Share of reads, completion of writes, and time of a request in the media. A write that
/// completes when it is accepted does not wait for the media (CXL 3.1 table 13-2 has 40 ns for a
/// write and 80 for a read).
const WHEN_DONE: [(&str, &str, u64); 5] = [
    ("1.0", "accepted", 46_000),
    ("1.0", "written", 46_000),
    ("0.0", "accepted", 0),
    ("0.0", "written", 46_000),
    ("0.5", "written", 46_000),
];

/// In a chain of four switches, the host is at the first and the device at the third.
#[test]
fn a_direct_path_and_one_over_three_switches_take_their_stages() {
    let chain = "fabric.topology={ kind = \"chain\", switches = 4 }";
    // Links, switches on both ways, and all but the media in nanoseconds.
    for (topology, hops, switches, least_ns) in [
        ("fabric.topology={ kind = \"direct\" }", 1, 0, 169.0),
        (chain, 4, 6, 409.0),
    ] {
        for (read_ratio, completion, media) in WHEN_DONE {
            let mix = format!("hosts[0].workload.read_ratio={read_ratio}");
            let done = format!("devices[0].controller.write_completion=\"{completion}\"");
            let report = idle("direct", &[topology, &mix, &done]);
            let found: Vec<usize> = report.by_hops.iter().map(|row| row.hops).collect();
            assert_eq!(found, [hops], "{topology}");
            let crossings = 2 * hops as u64;
            assert_stages(
                &report,
                [
                    ("process", 84_000),
                    ("cache", 0),
                    ("link", crossings * (WIRE + FLIT_256)),
                    ("port", crossings * (PORTS + FEC)),
                    ("switch", switches * 10_000),
                    ("device", 25_000),
                    ("coherence", 0),
                    ("media", media),
                ],
            );
            assert_eq!(report.latency_ns.mean, least_ns + media as f64 / 1e3);
        }
    }
}

/// Hosts with one DRAM expander of generation 5 x8 measure 214 to 285 ns (Melody, CXL-DMSim,
/// Panmnesia, Vistara). A switch adds at least 70 ns (Pond), 90 ns according to a vendor, or 100 ns
/// fitted by CXL-DMSim. Retimers add 10 ns in each direction. Requester and core differ in what
/// they do with a response, not in the distance of memory.
#[test]
fn parts_add_up_to_what_hardware_takes() {
    let chase = "hosts[0].workload={ kind = \"pointer-chase\", footprint = \"1 GiB\" }";
    for host in ["hosts[0].issue.outstanding=1", "hosts[0].core={}"] {
        let load = |more: &[&str]| {
            let link = "fabric.link={ generation = \"5\", lanes = 8 }";
            let changes = [&["measure={ requests = 300 }", chase, host, link], more].concat();
            report(&shipped("direct"), &changes).latency_ns.min
        };
        let direct = load(&[]);
        assert!((210.0..=280.0).contains(&direct), "{host}: {direct} ns");
        let switched = load(&["fabric.topology={ kind = \"chain\", switches = 1 }"]);
        let added = switched - direct;
        assert!((70.0..=100.0).contains(&added), "{host}: {added} ns");
        let retimed = load(&["fabric.link.retimers=2"]);
        assert_eq!(retimed - direct, 40.0, "{host}");
    }
}

/// Only standard 256 B flits have error correction. A link may configure its time.
#[test]
fn only_a_256_byte_flit_waits_for_its_correction() {
    let port = |more: &str| {
        let report = idle("direct", &["fabric.link.lanes=16", more]);
        report.stages_ns["port"].as_f64().unwrap()
    };
    for (link, expected) in [
        ("fabric.link.flit=\"256B\"", 54.0),
        ("fabric.link.flit=\"256B-latency-optimized\"", 50.0),
        ("fabric.link.generation=\"5\"", 50.0),
        ("fabric.link.transmission=\"packet\"", 50.0),
        ("fabric.link.fec_delay=\"5 ns\"", 60.0),
        ("fabric.link.preset=\"esf\"", 100.0),
    ] {
        assert_eq!(port(link), expected, "{link}");
    }
}

/// Time in the ports at both ends in ESF.
const ESF_PORTS: u64 = 50_000;

/// Table III of the ESF paper. A generation 5 x16 link carries 16 x 4 GB/s, so a 68 B flit
/// takes 1,062.5 ps and two take 2,125. Times are whole picoseconds. Req and NDR need one flit.
/// RwD and DRS need two, because they have a header slot and four data slots, of which three
/// fit in the flit of the header.
#[test]
fn the_validation_system_of_esf_takes_its_stages() {
    // With the cache, a write that misses reads its line. Without it, the write itself is visible.
    let direct = [
        "hosts[0].issue={ preset = \"esf\", outstanding = 1 }",
        "hosts[0].workload.read_ratio=0.0",
    ];
    for (set, cache) in [(&[][..], 12_000), (&direct, 0)] {
        let report = idle("esf-table3", set);
        let requests = &report.requests;
        // The footprint dwarfs the cache.
        assert_eq!(requests.cache_hits, 0);
        assert!(cache > 0 || requests.writes == requests.completed);
        assert_stages(
            &report,
            [
                ("process", 10_000),
                ("cache", cache),
                ("link", 4 * WIRE + 2 * 1_062 + 2 * 2_125),
                ("port", 4 * ESF_PORTS),
                ("switch", 2 * 20_000),
                ("device", 40_000),
                ("coherence", 0),
                ("media", 46_000),
            ],
        );
        assert!(cache == 0 || report.latency_ns.mean == 358.374);
    }
}

#[test]
fn latency_rises_with_load_and_bandwidth_until_the_system_is_full() {
    let mut last = (0.0, 0.0);
    let idle = idle("loaded-latency", &[]).latency_ns.mean;
    for interval in [
        "100 ns", "30 ns", "10 ns", "5 ns", "4 ns", "3 ns", "2.8 ns", "2.4 ns", "2 ns", "1 ns",
    ] {
        let pace = format!("hosts[0].issue.issue_interval=\"{interval}\"");
        let set = ["measure={ requests = 20_000 }", &pace];
        let report = report(&shipped("loaded-latency"), &set);
        let now = (report.latency_ns.mean, report.bandwidth_gb_per_s.total);
        assert!(now.0 >= idle, "{interval}: {now:?} below {idle} ns idle");
        // Once the link is full, bandwidth and latency do not change.
        let rises = now.0 >= last.0 * 0.999 && now.1 >= last.1 * 0.999;
        assert!(rises, "{interval}: {now:?} after {last:?}");
        last = now;
    }
    // Then all 256 requests are in flight, on a link with the efficiency 0.8366 of 68 B flits.
    let full = 32.0 * 0.8366;
    assert_close(last.1, full, 0.01, "GB/s");
    assert_close(last.0, 256.0 * 64.0 / full, 0.01, "ns");
}

/// The form that includes the requests that cross the window's edges is exact, and
/// every run checks it. The reported form differs by these requests: at each edge at
/// most one latency of `outstanding` requests.
#[test]
fn requests_in_flight_are_rate_times_latency() {
    for scenario in [
        "direct",
        "esf-table3",
        "chain-16",
        "spine-leaf-16",
        "mesh-9",
        "noisy-neighbours",
    ] {
        let report = report(&shipped(scenario), &["measure={ requests = 60_000 }"]);
        let law = &report.littles_law;
        assert_close(law.rate_times_latency, law.in_flight, 0.02, scenario);
    }
}

/// A message can report a wait of up to 1.0995 s. Behind media that take 10 ms for a line, the
/// 110th waiting line exceeds that. The run must end with an error.
#[test]
fn a_request_that_waits_too_long_to_be_told_ends_the_run() {
    let slow = |outstanding: u32| {
        let set = [
            format!("hosts[0].issue.outstanding={outstanding}"),
            "devices[0].memory={ kind = \"fixed\", latency = \"0 ns\", bandwidth = \"6400 B/s\", queue = 200 }".to_owned(),
            "devices[0].controller.contexts=200".to_owned(),
            "measure={ requests = 300 }".to_owned(),
        ];
        let set = set.each_ref().map(String::as_str);
        try_run(&plan(&shipped("direct"), &set), 1)
    };
    assert!(slow(100).is_ok());
    let Err(RunError::Problems(problems)) = slow(120) else {
        panic!("the stages of a request were lost")
    };
    let [problem] = &problems[..] else {
        panic!("{problems:?}")
    };
    assert_eq!(problem.path, "hosts[0]");
    assert!(problem.message.contains("1.0995 s"), "{problem:?}");
}
