//! One scenario and one seed give one report: for any number of threads, in repeated runs, in any
//! build on any machine (golden digests), and whatever the names of unrelated components.
#![allow(clippy::unwrap_used)]

use cxlab_engine::rng::StreamRng;
use cxlab_engine::{Monitor, Windows};
use cxlab_host::RequestRow;
use cxlab_plan::Plan;
use cxlab_system::report::Report;
use cxlab_tests::checkpoint::timeless;

/// A system under test: the name of a shipped scenario and the changes to it.
type Case = (&'static str, &'static [&'static str]);

/// Shipped systems with every kind of routing, errors, half duplex, packets, and
/// each condition that ends a window.
const CASES: &[Case] = &[
    ("spine-leaf-16", &[]),
    (
        "spine-leaf-16",
        &[
            "fabric.routing=adaptive",
            "hosts[0].workload.read_ratio=0.6",
        ],
    ),
    (
        "ring-16",
        &[
            "fabric.link.flit_error_rate=0.01",
            "fabric.link.replay_buffer_flits=65535",
        ],
    ),
    (
        "fully-connected-16",
        &["fabric.link.credits={m2s_req=1,m2s_rwd=1,s2m_ndr=1,s2m_drs=1}"],
    ),
    ("torus-16", &["fabric.routing=adaptive"]),
    (
        "torus-16",
        &[
            "fabric.routing=random",
            "fabric.edge_link={ flit = \"256B-latency-optimized\" }",
        ],
    ),
    (
        "tree-16",
        &["fabric.link.transmission=packet", "fabric.link.duplex=half"],
    ),
    (
        "mesh-9",
        &["fabric.routing=oblivious", "fabric.switch.arbitration=age"],
    ),
    (
        "dragonfly-12",
        &[
            "fabric.link={ generation = \"5\", flit = \"256B\" }",
            "fabric.edge_link={ generation = \"5\" }",
            "fabric.link.flit_error_rate=0.05",
        ],
    ),
];

fn plan_of(case: &Case, seed: u64, window: &[&str]) -> Plan {
    let seed = format!("seed={seed}");
    let set = [case.1, window, &[&seed]].concat();
    cxlab_tests::plan(&cxlab_tests::shipped(case.0), &set)
}

fn report(plan: &Plan, threads: usize) -> Report {
    timeless(cxlab_tests::try_run(plan, threads).unwrap())
}

const SHORT: &[&str] = &["measure={ requests=800, warmup_requests=200 }"];

#[test]
fn a_report_does_not_depend_on_threads_or_on_the_run() {
    for case in CASES {
        let plan = plan_of(case, 1, SHORT);
        let expected = report(&plan, 1);
        assert!(expected.requests.completed >= 800, "{case:?}");
        for threads in [1, 2, 3, 5, 8] {
            let found = report(&plan, threads);
            assert_eq!(found, expected, "{case:?} on {threads} threads");
        }
        let other = report(&plan_of(case, 2, SHORT), 1);
        assert_ne!(
            other.provenance.digest, expected.provenance.digest,
            "{case:?}: seed"
        );
    }
}

/// Systems of 640 endpoints, which run block by block on one thread, but not on three. In the
/// second, a port accepts only two messages of a class, so most of them wait.
const LARGE: &[(&str, &str, &str)] = &[
    (
        "kind = \"spine-leaf\", leaves = 80, spines = 4",
        "oblivious",
        "",
    ),
    (
        "kind = \"torus\", dimensions = [10, 8]",
        "adaptive",
        "link = { credits = { m2s_req = 2, m2s_rwd = 2, s2m_ndr = 2, s2m_drs = 2 } }",
    ),
    (
        "kind = \"dragonfly\", groups = 10, routers_per_group = 8, global_links = 4",
        "shortest",
        "link = { flit_error_rate = 0.01, replay_buffer_flits = 65535 }",
    ),
];

#[test]
fn blocks_that_take_turns_change_no_report() {
    for (topology, routing, link) in LARGE {
        let text = format!(
            r#"
            name = "large"
            [measure]
            warmup_requests = 3_000
            [fabric]
            topology = {{ {topology}, placement = "paired" }}
            routing = "{routing}"
            {link}
            [[hosts]]
            name = "host"
            count = 320
            requests = 60
            issue = {{ outstanding = 16 }}
            workload = {{ kind = "uniform", read_ratio = 0.6 }}
            [[devices]]
            name = "mem"
            count = 320
            "#
        );
        let plan = cxlab_tests::plan(&text, &[]);
        let report = |threads| {
            let monitor = Monitor::default();
            let report = cxlab_tests::watched_run(&plan, threads, &monitor).expect("a report");
            (timeless(report), monitor.blocks())
        };
        let (expected, blocks) = report(3);
        assert!(blocks < 2, "{topology}: {blocks} blocks on three threads");
        assert!(expected.requests.completed > 5_000, "{topology}");
        let (found, blocks) = report(1);
        assert!(blocks >= 16, "{topology}: {blocks} blocks");
        assert_eq!(found, expected, "{topology}");
    }
}

#[test]
fn a_window_by_time_ends_where_it_says_on_any_number_of_threads() {
    let window = &["measure={ warmup_time=\"700 ns\", duration=\"5300 ns\" }"];
    for case in &CASES[..5] {
        let plan = plan_of(case, 1, window);
        let expected = report(&plan, 1);
        let times = (expected.extent.warmup_ns, expected.extent.sim_time_ns);
        assert_eq!(times, (700.0, 6000.0), "{case:?}");
        assert!(expected.requests.completed > 0);
        for threads in [2, 5] {
            let found = report(&plan, threads);
            assert_eq!(found, expected, "{case:?} on {threads} threads");
        }
    }
}

#[test]
fn a_warm_up_changes_what_is_measured_and_not_what_happens() {
    for case in &CASES[..5] {
        let whole = ["measure={ warmup_requests=0, duration=\"6 us\" }"];
        let halves = ["measure={ warmup_time=\"3 us\", duration=\"3 us\" }"];
        let whole = report(&plan_of(case, 1, &whole), 1);
        let half = report(&plan_of(case, 1, &halves), 2);
        assert_eq!(half.provenance.digest, whole.provenance.digest, "{case:?}");
        assert_eq!(half.extent.events, whole.extent.events, "{case:?}");
        assert!(half.requests.completed < whole.requests.completed);
    }
}

/// Path of the digests that every build on every machine must give.
fn golden() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/digests.txt")
}

#[test]
fn digests_are_those_of_every_other_build_and_machine() {
    let mut found = String::from(
        "# Digest, events, and mean latency in picoseconds of the systems of `determinism.rs`.\n",
    );
    for case in CASES {
        let report = report(&plan_of(case, 1, SHORT), 1);
        found += &format!(
            "{} {} {:.0} {} {}\n",
            report.provenance.digest,
            report.extent.events,
            report.latency_ns.mean * 1e3,
            case.0,
            case.1.join(" ")
        );
    }
    if std::env::var_os("CXLAB_UPDATE_GOLDEN").is_some() {
        std::fs::write(golden(), &found).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(golden()).unwrap_or_default();
    assert!(
        found == expected,
        "digests have moved. If results were meant to change, run\n    CXLAB_UPDATE_GOLDEN=1 cargo \
         test -p cxlab-tests --test determinism\nand say in CHANGELOG.md, in a sentence, what \
         changed and why; if they were not, find out what did.\n\nexpected:\n{expected}\nfound:\n\
         {found}"
    );
}

/// All requests of a run, by requester.
fn rows(text: &str) -> Vec<Vec<RequestRow>> {
    let plan = cxlab_tests::plan(text, &[]);
    let mut rows = vec![Vec::new(); plan.hosts.len()];
    for row in cxlab_tests::try_rows(&plan, 7, 1).unwrap().1 {
        rows[row.requester as usize].push(row);
    }
    rows
}

/// Operation and address of each request of a host, in the order of issue.
fn stream(rows: &[RequestRow]) -> Vec<(u64, u64, bool)> {
    let stream = rows.iter().map(|row| (row.id, row.hpa, row.write));
    let mut stream: Vec<_> = stream.collect();
    stream.sort_unstable();
    stream
}

/// Hosts on one switch with one device.
fn hosts(names: &[&str]) -> String {
    let hosts = names.iter().map(|name| {
        format!(
            "[[hosts]]\nname = \"{name}\"\nrequests = 300\n\
             workload = {{ kind = \"uniform\", read_ratio = 0.5 }}\n"
        )
    });
    format!(
        "name = \"streams\"\n[fabric]\ntopology = {{ kind = \"chain\", switches = 1 }}\n{}\n\
         [[devices]]\nname = \"mem\"\n",
        hosts.collect::<String>()
    )
}

#[test]
fn a_further_or_renamed_host_does_not_disturb_the_streams_of_the_others() {
    let two = rows(&hosts(&["anna", "bert"]));
    let three = rows(&hosts(&["anna", "carl", "bert"]));
    let renamed = rows(&hosts(&["anna", "dora"]));
    let (anna, bert) = (stream(&two[0]), stream(&two[1]));
    assert_eq!(anna.len(), 300);
    assert_ne!(anna, bert, "each has a stream of its own");
    assert_eq!(stream(&three[0]), anna);
    assert_eq!(stream(&three[2]), bert);
    assert_eq!(stream(&renamed[0]), anna);
    assert_ne!(stream(&renamed[1]), bert, "a name is the key of a stream");
}

#[test]
fn errors_on_a_link_do_not_disturb_what_hosts_ask_for() {
    let quiet = rows(&hosts(&["anna", "bert"]));
    let noisy = hosts(&["anna", "bert"])
        .replace("[fabric]\n", "[fabric]\nlink = { flit_error_rate = 0.1 }\n");
    let noisy = rows(&noisy);
    for host in 0..2 {
        assert_eq!(stream(&noisy[host]), stream(&quiet[host]));
        let last = |rows: &[RequestRow]| rows.iter().map(|row| row.completed_ps).max();
        assert!(last(&noisy[host]) > last(&quiet[host]), "retries take time");
    }
}

#[test]
fn a_stream_is_the_same_on_every_machine() {
    let mut rng = StreamRng::new(1, "host0");
    let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
    let expected = stream_by_hand(1, "host0");
    assert_eq!(first, expected);
}

/// FNV-1a of the name, SplitMix64 and Xoshiro256++, as their papers define them.
fn stream_by_hand(seed: u64, name: &str) -> Vec<u64> {
    fn split_mix(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let key = name.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    let mut state = seed;
    let mut mixed = key ^ split_mix(&mut state);
    let mut key = split_mix(&mut mixed);
    let mut s: [u64; 4] = std::array::from_fn(|_| split_mix(&mut key));
    let step = |_| {
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    };
    (0..3).map(step).collect()
}

#[test]
fn windows_of_a_run_are_the_same_each_time_and_hold_all_its_events() {
    let text = cxlab_tests::shipped("spine-leaf-16");
    let whole = "measure={ requests = 20000, warmup_requests = 0 }";
    let plan = cxlab_tests::plan(&text, &[whole]);
    let windows = |threads| {
        let monitor = Monitor::default();
        let report = cxlab_tests::watched_run(&plan, threads, &monitor).expect("a report");
        (monitor.windows(), report.extent.events)
    };
    assert_eq!(windows(1).0, Windows::default(), "one thread has none");
    for threads in [2, 3, 8] {
        let (first, events) = windows(threads);
        assert_eq!(windows(threads).0, first);
        assert_eq!(first.events, events, "each event is in a window");
        assert!(first.busiest >= first.events.div_ceil(threads as u64));
        assert!(first.busiest < first.events && first.count > 100);
        let bound = first.bound();
        assert!(bound > 1.2 && bound <= threads as f64, "{first:?}");
    }
}
