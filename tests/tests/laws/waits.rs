//! Waits of requests: each picosecond belongs to one place and one cause, places and requests
//! agree, and the report's bottleneck is the component that was built to be one.

use cxlab_host::{RequestRow, STAGE_NAMES};
use cxlab_system::report::{Bottleneck, Limit, Report};
use cxlab_tests::{assert_close, plan, report, rows, shipped, stage};

/// Hosts and devices on one switch.
const STAR: &str = r#"
name = "star"

[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "host"
workload = { kind = "uniform" }
issue = { outstanding = 64 }
requests = 4000
[[devices]]
name = "mem"
capacity = "4 GiB"
"#;

fn stage_ps(rows: &[RequestRow], name: &str) -> u64 {
    rows.iter().map(|row| row.stages[stage(name)]).sum()
}

fn stage_ns(report: &Report, name: &str) -> f64 {
    report.stages_ns[name].as_f64().unwrap_or(f64::NAN)
}

fn bottleneck(set: &[&str]) -> (Report, Bottleneck) {
    let report = report(STAR, set);
    let found = report.bottleneck.clone().expect("requests completed");
    (report, found)
}

const FEW_CREDITS: &str =
    "fabric.link.credits={ m2s_req = 4, m2s_rwd = 4, s2m_ndr = 4, s2m_drs = 4 }";
const SLOW_MEDIUM: &str = "devices[0].memory={ kind = \"fixed\", latency = \"46 ns\", bandwidth = \"2 GB/s\", queue = 8 }";

#[test]
fn what_requests_wait_for_credits_is_what_outputs_wait_for_credits() {
    for set in [
        &[FEW_CREDITS, "hosts[0].workload.read_ratio=0.5"][..],
        &[SLOW_MEDIUM, "hosts[0].count=3"],
        &["hosts[0].count=3", "fabric.switch.arbitration=\"age\""],
    ] {
        let (report, rows) = rows(&plan(STAR, set), 1);
        let links = report.links.iter();
        let links: f64 = links
            .map(|link| link.credit_wait_ns * link.messages as f64)
            .sum();
        let devices = report.devices.iter();
        let media: f64 = devices
            .map(|one| one.medium_wait_ns * one.taken() as f64)
            .sum();
        for (stage, places) in [("credits", links), ("media_queue", media)] {
            let requests = stage_ps(&rows, stage) as f64 / 1e3;
            let apart = (places - requests).abs();
            assert!(apart <= 1e-6 * requests, "{stage}: {places} {requests}");
        }
    }
}

#[test]
fn a_link_with_few_credits_waits_for_them_and_not_for_its_wire() {
    let (report, found) = bottleneck(&[FEW_CREDITS]);
    assert_eq!(found.limit, Limit::Credits, "{found:?}");
    assert!(found.busy.is_some_and(|busy| busy < 0.5), "{found:?}");
    assert!(stage_ns(&report, "credits") > 0.5 * report.latency_ns.mean);
    let other = ["host_queue", "switch_queue", "device_queue", "media_queue"];
    let other: f64 = other.iter().map(|stage| stage_ns(&report, stage)).sum();
    assert!(other < 0.02 * report.latency_ns.mean, "{other}");
}

#[test]
fn a_slow_medium_is_found_behind_the_credits_that_it_takes_from_others() {
    // 3 hosts with 64 requests each fill all buffers on the path, so most of the
    // time is spent waiting for credits.
    let (report, found) = bottleneck(&[
        SLOW_MEDIUM,
        "hosts[0].count=3",
        "fabric.link.credits={ m2s_req = 16 }",
        "devices[0].controller.contexts=64",
    ]);
    let links = report.links.iter().map(|link| link.credit_wait_ns);
    let most = links.fold(0.0, f64::max);
    assert!(most > report.devices[0].medium_wait_ns, "{most}");
    let limit = (found.name.as_str(), found.limit);
    assert_eq!(limit, ("mem", Limit::Medium), "{found:?}");
}

/// 4,096 requests wait in front of a device for buffers, which the wire on its other
/// side does not free fast enough.
#[test]
fn a_wire_that_is_always_busy_is_found_behind_the_credits_that_it_takes() {
    let text = "name = \"g\"\n[fabric]\ntopology = { kind = \"direct\" }\nlink = { generation = \"7\" }\n\
                [[hosts]]\nname = \"host\"\nworkload = { kind = \"uniform\" }\nissue = { outstanding = 4096 }\n\
                [[devices]]\nname = \"mem\"\nmemory = { kind = \"fixed\", bandwidth = \"1 TB/s\" }\n";
    let report = report(text, &[]);
    let found = report.bottleneck.expect("requests completed");
    let limit = (found.name.as_str(), found.limit);
    assert_eq!(limit, ("mem->host", Limit::Wire), "{found:?}");
    assert!(found.busy.is_some_and(|busy| busy > 0.99), "{found:?}");
}

#[test]
fn the_wire_to_which_several_hosts_send_is_busy() {
    let (report, found) = bottleneck(&[
        "hosts[0].count=4",
        "hosts[0].workload.read_ratio=0.0",
        "fabric.link.lanes=4",
    ]);
    assert_eq!(found.limit, Limit::Wire, "{found:?}");
    assert_eq!(found.name, "sw0->mem");
    assert!(found.busy.is_some_and(|busy| busy > 0.95), "{found:?}");
    assert!(stage_ns(&report, "switch_queue") > stage_ns(&report, "host_queue"));
}

/// In a symmetric system no place alone has a tenth of all latency.
#[test]
fn waits_of_places_that_are_alike_count_together() {
    let symmetric = |set: &[&str]| {
        let same = [
            "fabric.topology={ kind = \"spine-leaf\", leaves = 4, spines = 2 }",
            "fabric.routing=\"adaptive\"",
            "hosts[0].count=8",
            "hosts[0].issue.outstanding=512",
            "devices[0].count=8",
        ];
        let (report, found) = bottleneck(&[&same[..], set].concat());
        let sums = report.links.iter();
        let sums = sums.map(|link| link.wait_ns.mean * link.messages as f64);
        let all = report.latency_ns.mean * report.requests.completed as f64;
        (found, sums.fold(0.0, f64::max) / all)
    };
    let fast = "devices[0].memory={ kind = \"fixed\", latency = \"46 ns\" }";
    let (found, alone) = symmetric(&[fast]);
    assert_eq!(found.limit, Limit::Wire, "{found:?}");
    assert!(alone < 0.1 && found.share > 0.1, "{alone} {found:?}");
    assert!(found.alike > 0, "{found:?}");
    let slow = "devices[0].memory={ kind = \"fixed\", bandwidth = \"4 GB/s\", queue = 8 }";
    let (found, _) = symmetric(&[slow, "devices[0].controller.contexts=512"]);
    assert_eq!(found.limit, Limit::Medium, "{found:?}");
    assert!(found.alike > 0 && found.share > 0.1, "{found:?}");
    // A medium with a long queue of its own takes all requests at once.
    let long = "devices[0].memory={ kind = \"fixed\", bandwidth = \"4 GB/s\", queue = 4096 }";
    let (found, _) = symmetric(&[long, "hosts[0].issue.outstanding=128"]);
    assert_eq!((found.limit, found.alike), (Limit::Medium, 7), "{found:?}");
}

#[test]
fn hosts_limit_themselves_where_nothing_is_busy() {
    let (_, found) = bottleneck(&["hosts[0].issue.outstanding=1"]);
    assert_eq!(found.limit, Limit::Outstanding);
    let (_, found) = bottleneck(&["hosts[0].issue.issue_interval=\"200 ns\""]);
    assert_eq!(found.limit, Limit::Pace);
}

/// The victim sends one request after the other, and the throttle of the other host holds it back.
#[test]
fn a_throttle_is_told_where_it_holds_most_requests_back() {
    // The device is faster than it says.
    let fast = "devices[0].memory={ kind = \"fixed\", bandwidth = \"40 GB/s\" }";
    let report = report(&shipped("qos"), &[fast]);
    let found = report.bottleneck.expect("requests completed");
    assert_eq!(found.limit, Limit::Throttle, "{found:?}");
    let advice = |path: &str| path == "hosts[0].issue.outstanding";
    assert!(
        report
            .provenance
            .notes
            .iter()
            .all(|note| !advice(&note.path))
    );
}

/// Without the throttle the noisy host fills the medium of 8 GB/s.
#[test]
fn a_medium_is_told_where_its_rate_is_used_up() {
    let set = ["hosts[1].issue={ outstanding = 256 }"];
    let report = report(&shipped("qos"), &set);
    let found = report.bottleneck.expect("requests completed");
    let place = (found.name.as_str(), found.limit);
    assert_eq!(place, ("pool", Limit::Medium), "{found:?}");
    assert!(report.bandwidth_gb_per_s.total > 7.9);
}

/// Of a link that carries 106.7 GB/s of lines, at a latency of 217 ns: 360 requests fill it, and hardly wait.
#[test]
fn a_wire_full_of_lines_is_the_bottleneck_although_requests_hardly_wait() {
    let direct = "fabric.topology={ kind = \"direct\" }";
    let with = |outstanding| {
        let issue = format!("hosts[0].issue.outstanding={outstanding}");
        let (requests, all) = ("measure.requests=40000", "hosts[0].requests=1000000");
        bottleneck(&[direct, all, requests, &issue])
    };
    let (_, found) = with(360);
    let wire = ("mem->host", Limit::Wire);
    assert_eq!((found.name.as_str(), found.limit), wire);
    assert!(found.share < 0.01, "{found:?}");
    // The wire is always busy with 320, too, but with flits that are not full.
    let (_, found) = with(320);
    assert_eq!(found.limit, Limit::Outstanding, "{found:?}");
}

/// Requests in flight fill neither link nor medium, or just the medium.
#[test]
fn more_requests_in_flight_are_advised_only_where_they_are_the_limit() {
    let advised = |outstanding| {
        let (report, found) = bottleneck(&[
            "fabric.topology={ kind = \"direct\" }",
            "devices[0].memory={ kind = \"fixed\", bandwidth = \"20 GB/s\", queue = 16 }",
            "hosts[0].requests=1000000",
            "measure.requests=20000",
            &format!("hosts[0].issue.outstanding={outstanding}"),
        ]);
        let is_advice = |path: &str| path == "hosts[0].issue.outstanding";
        let advice = report
            .provenance
            .notes
            .iter()
            .any(|note| is_advice(&note.path));
        (advice, found.limit)
    };
    assert_eq!(advised(32), (true, Limit::Outstanding));
    assert_eq!(advised(84), (false, Limit::Medium));
}

/// The medium takes all requests into its own queue, and carries 20 GB/s.
#[test]
fn requests_that_wait_inside_of_a_full_medium_wait_for_it() {
    let (report, found) = bottleneck(&[
        "fabric.topology={ kind = \"direct\" }",
        "devices[0].memory={ kind = \"fixed\", latency = \"46 ns\", bandwidth = \"20 GB/s\", queue = 1024 }",
        "hosts[0].requests=1000000",
        "measure.requests=20000",
        "hosts[0].issue.outstanding=256",
    ]);
    let place = (found.name.as_str(), found.limit);
    assert_eq!(place, ("mem", Limit::Medium), "{found:?}");
    let bus = report.devices[0].medium["fixed.bus_wait_ns"].as_f64();
    assert!(
        (found.wait_ns - bus.unwrap_or(f64::NAN)).abs() < 1e-6 * found.wait_ns,
        "{found:?} {bus:?}"
    );
    assert!((found.share - found.wait_ns / report.latency_ns.mean).abs() < 1e-9);
    assert!(
        report
            .provenance
            .notes
            .iter()
            .all(|note| !note.path.ends_with("outstanding"))
    );
}

/// No time of an idle read is known of the medium, a single bank whose rows conflict.
#[test]
fn advice_says_where_a_medium_that_queues_requests_may_carry_no_more() {
    let (report, found) = bottleneck(&[
        "fabric.topology={ kind = \"direct\" }",
        "devices[0].memory={ kind = \"dram\", read_queue = 1024 }",
        "hosts[0].requests=1000000",
        "measure.requests=20000",
        "hosts[0].issue.outstanding=256",
    ]);
    assert_eq!(found.limit, Limit::Outstanding, "{found:?}");
    assert!(found.text.contains("longest stage is media"), "{found:?}");
    let mut notes = report.provenance.notes.iter();
    let advice = notes.find(|note| note.path == "hosts[0].issue.outstanding");
    let message = advice.map_or("", |note| &note.message);
    let end = "in the medium, which may carry no more)";
    assert!(message.ends_with(end), "{message}");
}

/// Requests wait for the wire of a device, and longer for its banks.
#[test]
fn media_are_told_beside_a_place_where_requests_wait_less() {
    let text = shipped("loaded-latency");
    let set = [
        "devices[0].count=1",
        "hosts[0].count=2",
        "hosts[0].issue.issue_interval=\"4.8 ns\"",
        "measure.requests=40000",
    ];
    let report = report(&text, &set);
    let found = report.bottleneck.clone().expect("requests completed");
    assert_eq!(found.limit, Limit::Wire, "{found:?}");
    assert!(found.text.contains("longest stage is media"), "{found:?}");
}

#[test]
fn time_in_a_fixed_medium_is_its_latency_and_its_waits_for_bank_and_bus() {
    let (report, _) = bottleneck(&[
        "hosts[0].count=2",
        "devices[0].memory={ kind = \"fixed\", banks = 16, bank_cycle = \"48 ns\", bandwidth = \"20 GB/s\" }",
    ]);
    let of = |name: &str| report.devices[0].medium[name].as_f64().unwrap_or(f64::NAN);
    let (bank, bus) = (of("fixed.bank_wait_ns"), of("fixed.bus_wait_ns"));
    assert!(bank > 1.0 && bus > 1.0, "{bank} {bus}");
    assert_eq!(of("fixed.requests"), report.requests.completed as f64);
    let media = stage_ns(&report, "media");
    assert_close(46.0 + bank + bus, media, 1e-6, "media");
}

/// One host has all its requests in flight, and the other hardly any.
#[test]
fn requests_in_flight_are_judged_by_host() {
    let group = |name: &str, interval: &str| {
        format!(
            "{{ name = \"{name}\", workload = {{ kind = \"uniform\" }}, requests = 1000000, \
             issue = {{ outstanding = 64, issue_interval = \"{interval}\" }} }}"
        )
    };
    let (fast, slow) = (group("fast", "0 ns"), group("slow", "300 ns"));
    let (_, found) = bottleneck(&[&format!("hosts=[{fast}, {slow}]"), "measure.requests=4000"]);
    assert_eq!(found.limit, Limit::Outstanding, "{found:?}");
}

#[test]
fn where_nothing_is_served_no_stage_is_the_longest() {
    let set = [
        "failures={ completion_timeout = \"1 us\" }",
        "events=[{ kind = \"device-removed\", at = \"1 ns\", device = \"mem\" }]",
        "hosts[0].requests=100",
    ];
    let (report, found) = bottleneck(&set);
    assert_eq!(report.latency_ns.mean, 0.0, "nothing is served");
    assert!(!found.text.contains("longest stage"), "{found:?}");
}

#[test]
fn the_stages_of_a_host_sum_to_its_latency_and_those_of_hosts_to_all() {
    let report = report(STAR, &["hosts[0].count=3", FEW_CREDITS]);
    let of = |stages: &serde_json::Map<String, serde_json::Value>, name: &str| {
        stages[name].as_f64().unwrap_or(f64::NAN)
    };
    for host in &report.hosts {
        let stages = STAGE_NAMES.iter().map(|name| of(&host.stages_ns, name));
        assert_close(host.latency_ns.mean, stages.sum(), 1e-6, &host.name);
    }
    for name in STAGE_NAMES {
        let hosts = report.hosts.iter();
        let times = hosts.map(|host| of(&host.stages_ns, name) * host.completed as f64);
        let all = stage_ns(&report, name) * report.requests.completed as f64;
        assert!((times.sum::<f64>() - all).abs() <= 1e-6 * all, "{name}");
    }
    assert!(stage_ns(&report, "credits") > 0.0);
}

/// "My p99 has doubled since a host was added": one table says where.
#[test]
fn the_place_whose_wait_grew_with_a_host_is_in_the_report() {
    let wait = |hosts: &str| {
        let writes = "hosts[0].workload.read_ratio=0.0";
        let report = report(STAR, &[hosts, writes, "fabric.link.lanes=4"]);
        let mut links = report.links.into_iter();
        let found = links.find(|link| link.direction == "sw0->mem");
        found.expect("the link is there").wait_ns
    };
    let (one, three) = (wait("hosts[0].count=1"), wait("hosts[0].count=3"));
    assert!(three.p99 > 2.0 * one.p99 && three.mean > 2.0 * one.mean);
    assert!(three.mean <= three.p99 && three.p99 <= three.max * 1.125);
}
