//! Viral: which components enter it and when, and which writes are then
//! dropped (CXL 3.1, section 12.4; `docs/explain/failures.md`).
#![allow(clippy::unwrap_used)]

use cxlab_system::report::{DeviceReport, DeviceViral, Report};
use cxlab_tests::checkpoint::{self, timeless};
use cxlab_tests::{plan, report, try_run};

/// Two hosts and two devices of persistent memory on one switch. Both hosts use `shared`, and the
/// first host uses `own`. A flit takes 2.56 ns, and a crossing 31 ns.
fn text(events: &str, memory: &str) -> String {
    format!(
        r#"
name = "viral"
seed = 3
[measure]
warmup_requests = 0
[fabric]
topology = {{ kind = "custom", switches = ["switch"], links = [
    ["a", "switch"], ["b", "switch"], ["shared", "switch"], ["own", "switch"],
] }}
link = {{ bandwidth = "100 GB/s", port_delay = "14 ns", propagation = "3 ns", fec_delay = "0 ns" }}
switch = {{ switching_time = "20 ns" }}
[[hosts]]
name = "a"
requests = 400
workload = {{ kind = "uniform", read_ratio = 0.5 }}
[[hosts]]
name = "b"
requests = 400
workload = {{ kind = "uniform", read_ratio = 0.5 }}
[[devices]]
name = "shared"
memory = {memory}
[[devices]]
name = "own"
memory = {memory}
[[regions]]
name = "of-both"
capacity = "1 GiB"
devices = ["shared"]
[[regions]]
name = "of-a"
capacity = "1 GiB"
hosts = ["a"]
devices = ["own"]
{events}
"#
    )
}

const PMEM: &str = "{ kind = \"pmem\" }";

fn event(at: &str, component: &str) -> String {
    format!("[[events]]\nat = \"{at}\"\nkind = \"viral\"\ncomponent = \"{component}\"\n")
}

fn device<'a>(report: &'a Report, name: &str) -> &'a DeviceReport {
    let found = report.devices.iter().find(|device| device.name == name);
    found.unwrap()
}

fn viral(report: &Report, name: &str) -> Option<DeviceViral> {
    device(report, name).viral
}

/// Time of an indication on a link, and from a host through the switch to a device, in nanoseconds.
const LINK: f64 = 2.56 + 31.0;
const PATH: f64 = 2.0 * LINK + 20.0;

#[test]
fn an_indication_reaches_all_devices_of_a_host_and_no_other_hosts_part() {
    let whole = report(&text(&event("0 ns", "b"), PMEM), &[]);
    assert_eq!(viral(&whole, "own"), None);
    let shared = viral(&whole, "shared").unwrap();
    assert_eq!(shared.since_ns, PATH);
    // The indication arrives before the first write, so all writes of `b`
    // are dropped, and none of `a`.
    let writes_of_b = whole.hosts[1].writes;
    assert!(writes_of_b > 100);
    assert_eq!(shared.dropped_writes, writes_of_b);
    assert_eq!(whole.requests.completed, 800);
}

#[test]
fn viral_of_a_device_comes_to_all_devices_of_its_hosts() {
    let whole = report(&text(&event("1 us", "own"), PMEM), &[]);
    // Up to `a`, and down again to the part of `shared` that `a` uses.
    assert_eq!(viral(&whole, "own").unwrap().since_ns, 1000.0);
    let shared = viral(&whole, "shared").unwrap();
    assert_eq!(shared.since_ns, 1000.0 + 2.0 * PATH);
    let [own, shared] = ["own", "shared"].map(|name| device(&whole, name));
    let dropped = |device: &DeviceReport| device.viral.unwrap().dropped_writes;
    assert!(dropped(own) > 0 && dropped(own) < own.writes);
    assert!(dropped(shared) > 0 && dropped(shared) < shared.writes - dropped(shared));
    // Both hosts enter viral when their shared device does, and with them
    // at once their parts of it.
    let both = report(&text(&event("0 ns", "shared"), PMEM), &[]);
    let shared = device(&both, "shared");
    let entered = shared.viral.unwrap();
    assert_eq!(
        (entered.since_ns, entered.dropped_writes),
        (0.0, shared.writes)
    );
    let own = device(&both, "own");
    assert_eq!(own.viral.unwrap().since_ns, 2.0 * PATH);
}

#[test]
fn dropped_writes_do_not_reach_the_medium_and_are_answered_without_it() {
    let events = event("0 ns", "a") + &event("0 ns", "b");
    let [dropped, kept] = [events.as_str(), ""].map(|events| report(&text(events, PMEM), &[]));
    for name in ["shared", "own"] {
        let [dropped, kept] = [&dropped, &kept].map(|report| device(report, name));
        assert_eq!((dropped.reads, dropped.writes), (kept.reads, kept.writes));
        assert_eq!(dropped.viral.unwrap().dropped_writes, dropped.writes);
        assert_eq!(kept.viral, None);
        let written = |device: &DeviceReport| {
            let medium = serde_json::to_value(&device.medium).unwrap();
            medium["written_lines"].as_f64().unwrap()
        };
        assert_eq!(written(dropped), 0.0, "{:?}", dropped.medium);
        assert_eq!(written(kept), kept.writes as f64);
    }
}

#[test]
fn volatile_memory_serves_on_as_before() {
    let events = event("100 ns", "a") + &event("200 ns", "shared");
    for memory in ["{ kind = \"dram\" }", "{ kind = \"fixed\" }"] {
        let [with, without] =
            [events.as_str(), ""].map(|events| report(&text(events, memory), &[]));
        for name in ["shared", "own"] {
            let of = |report: &Report| {
                let device = device(report, name);
                (device.reads, device.writes, device.medium.clone())
            };
            assert_eq!(of(&with), of(&without), "{memory}");
            assert_eq!(viral(&with, name).unwrap().dropped_writes, 0);
        }
        assert_eq!(with.requests.completed, without.requests.completed);
        assert_eq!(with.latency_ns.mean, without.latency_ns.mean, "{memory}");
    }
    // Writes to a DRAM cache count as writes to the media below it, which are persistent here.
    let cached = "{ kind = \"dram-cache\", behind = { kind = \"ssd\" } }";
    let report = report(&text(&event("0 ns", "b"), cached), &[]);
    let dropped = viral(&report, "shared").unwrap().dropped_writes;
    assert_eq!(dropped, report.hosts[1].writes);
}

#[test]
fn runs_with_viral_are_the_same_on_any_threads_and_when_taken_up_again() {
    let plan = plan(
        &text(&(event("1 us", "own") + &event("2 us", "b")), PMEM),
        &[],
    );
    let [one, two] = [1, 2].map(|threads| try_run(&plan, threads).unwrap());
    assert_eq!(
        (&one.provenance.digest, one.extent.events),
        (&two.provenance.digest, two.extent.events)
    );
    assert_eq!(viral(&one, "shared"), viral(&two, "shared"));
    checkpoint::check(&plan, &timeless(one.clone()), one.extent.events);
}
