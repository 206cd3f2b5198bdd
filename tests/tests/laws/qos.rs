//! QoS telemetry and throttling: the bandwidth of hosts that share a device, and
//! the cost if no host throttles.

use cxlab_system::report::Report;
use cxlab_tests::{THROTTLED, assert_threads, checkpoint, plan, shipped, try_run};

fn report(text: &str, set: &[&str]) -> Report {
    try_run(&plan(text, set), 1).expect("it runs")
}

/// Bandwidth of each host, in GB/s.
fn rates(report: &Report) -> Vec<f64> {
    let hosts = report.hosts.iter();
    hosts.map(|host| host.bandwidth_gb_per_s.total).collect()
}

/// Shares in 256ths, in the syntax of a scenario.
fn shares(all: &[(usize, u16, Option<u16>)]) -> String {
    let written = all.iter().map(|(host, allocated, limit)| {
        let limit = limit.map_or(String::new(), |limit| format!(", limit = {limit}"));
        format!("{{ host = \"h{host}\", allocated = {allocated}{limit} }}")
    });
    let written: Vec<String> = written.collect();
    format!("devices[0].qos.shares=[{}]", written.join(", "))
}

/// Settings without throttles of the hosts of [`THROTTLED`] and of [`COHERENT`].
const FREE: &str = "hosts[0].issue={ outstanding = 128 }";
const FREE_COHERENT: &str =
    "hosts[0].issue={ outstanding = 128, cache = { size = \"64 KiB\", ways = 4 } }";

/// 384 requests are queued for the media all the time.
#[test]
fn telemetry_alone_changes_nothing_but_what_is_told() {
    for (text, free, severe) in [(THROTTLED, FREE, 40_000), (COHERENT, FREE_COHERENT, 20_000)] {
        let with = report(text, &[free]);
        let without = text.replace("[devices.qos]\nbandwidth = \"8 GB/s\"", "");
        let without = report(&without, &[free]);
        assert!(text == THROTTLED || with.provenance.digest == without.provenance.digest);
        assert_eq!(with.latency_ns, without.latency_ns);
        assert_eq!(with.bandwidth_gb_per_s, without.bandwidth_gb_per_s);
        assert_eq!(without.devices[0].load, None);
        let load = with.devices[0].load.expect("it is told");
        assert!(load.severe > severe, "{load:?}");
        assert_eq!((load.light, load.optimal, load.moderate), (0, 0, 0));
    }
}

#[test]
fn hosts_that_throttle_alike_get_alike_and_the_device_is_not_overloaded() {
    // Parts of the bandwidth and of the latency without throttles.
    for (text, free, bandwidth, latency) in [
        (THROTTLED, FREE, 0.9, 0.2),
        (COHERENT, FREE_COHERENT, 0.8, 0.4),
    ] {
        let free = report(text, &[free]);
        let throttled = report(text, &[]);
        let all = rates(&throttled);
        let sum: f64 = all.iter().sum();
        println!(
            "{} ns and {} GB/s, {} ns and {all:?} GB/s throttled",
            free.latency_ns.mean, free.bandwidth_gb_per_s.total, throttled.latency_ns.mean
        );
        assert!(sum > bandwidth * free.bandwidth_gb_per_s.total, "{all:?}");
        for rate in &all {
            assert!((rate / sum - 1.0 / 3.0).abs() < 0.05, "{all:?}");
        }
        assert!(throttled.latency_ns.mean < latency * free.latency_ns.mean);
        for host in &throttled.hosts {
            let slower = host.throttle.as_ref().expect("it has one").slower;
            assert!(slower > 10 || text == THROTTLED, "{slower}");
        }
        let load = throttled.devices[0].load.expect("it is told");
        let told = load.light + load.optimal + load.moderate + load.severe;
        assert!(load.severe < told / 20, "{load:?}");
    }
}

/// Windows of 5 us, each as long as five sampling periods.
#[test]
fn throttles_swing_by_a_tenth_at_most() {
    let windows = (300..400).step_by(5).map(|from| {
        let measure = format!("measure={{ warmup_time = \"{from} us\", duration = \"5 us\" }}");
        rates(&report(THROTTLED, &[&measure]))
    });
    let windows: Vec<Vec<f64>> = windows.collect();
    let of_host = |host: usize| windows.iter().map(move |rates| rates[host]);
    for host in 0..3 {
        let mean = of_host(host).sum::<f64>() / windows.len() as f64;
        let swing = of_host(host).map(|rate| (rate / mean - 1.0).abs());
        let most = swing.fold(0.0, f64::max);
        assert!(most < 0.1, "host {host}: {most} of {mean}");
    }
}

#[test]
fn throughput_follows_the_shares() {
    for parts in [[128, 64, 64], [192, 48, 16], [32, 96, 128]] {
        let all = [0, 1, 2].map(|host| (host, parts[host], None));
        let found = rates(&report(THROTTLED, &[&shares(&all)]));
        let sum: f64 = found.iter().sum();
        assert!(sum > 0.9 * 8.0, "{found:?}");
        for (rate, part) in found.iter().zip(parts) {
            let share = f64::from(part) / 256.0;
            assert!((rate / sum - share).abs() < 0.05, "{parts:?} {found:?}");
        }
    }
}

#[test]
fn a_limit_holds_where_others_leave_room() {
    // The others have one request in flight, and leave most of the device to the first.
    let set = [
        "hosts[0]={ name = \"h0\", issue = { outstanding = 128, throttle = {} }, \
         workload = { kind = \"uniform\" } }",
        &shares(&[(0, 32, Some(64))]),
    ];
    let found = rates(&report(THROTTLED, &set));
    // The limit is a quarter of 8 GB/s.
    assert!((1.6..2.2).contains(&found[0]), "{found:?}");
    let without = rates(&report(THROTTLED, &[set[0], &shares(&[(0, 32, None)])]));
    assert!(without[0] > 6.0, "{without:?}");
}

#[test]
fn a_noisy_neighbour_that_throttles_is_less_noisy() {
    let text = shipped("qos");
    let with = report(&text, &[]);
    let without = report(&text, &["hosts[1].issue={ outstanding = 256 }"]);
    let victim = |report: &Report| report.hosts[0].latency_ns.mean;
    let noisy = |report: &Report| report.hosts[1].bandwidth_gb_per_s.total;
    let both = [&with, &without];
    println!("{:?} {:?}", both.map(victim), both.map(noisy));
    assert!(victim(&with) < 0.2 * victim(&without));
    assert!(noisy(&with) > 0.9 * noisy(&without));
}

/// Hosts at one device behind a switch. All links are wide enough for a host's part, and all hosts
/// have more requests in flight than the media serve.
struct Shared {
    gb_per_s: u32,
    hosts: u32,
    coherent: bool,
    /// Whether the last host joins when the others have found their rates.
    joins: bool,
}

impl Shared {
    fn new(gb_per_s: u32, hosts: u32) -> Shared {
        Shared {
            gb_per_s,
            hosts,
            coherent: false,
            joins: false,
        }
    }

    /// Default sampling period in nanoseconds: 1 us, or the time of 16 lines of a
    /// host's part if that is longer.
    fn period(&self) -> u32 {
        (1024 * self.hosts / self.gb_per_s).max(1000)
    }

    /// The scenario, with a measurement from period `from` on that lasts `periods`.
    fn text(&self, from: u32, periods: u32, throttle: &str) -> String {
        let Shared {
            gb_per_s, hosts, ..
        } = self;
        let period = self.period();
        let outstanding = (24 * gb_per_s / hosts).max(32);
        let (cache, coherence, pattern) = match self.coherent {
            true => (
                ", cache = { size = \"64 KiB\", ways = 4 }",
                "coherence = { class = \"hdm-db\" }",
                ", footprint = \"16 MiB\", private = true, read_ratio = 0.9",
            ),
            false => ("", "", ""),
        };
        let group = |name: &str, count: u32| {
            format!(
                "[[hosts]]\nname = \"{name}\"\ncount = {count}\n\
                 workload = {{ kind = \"uniform\"{pattern} }}\n\
                 issue = {{ outstanding = {outstanding}{cache}{throttle} }}\n"
            )
        };
        let all = match self.joins {
            false => group("h", *hosts),
            true => format!(
                "{}{}[[events]]\nkind = \"host-joins\"\nhost = \"late\"\nat = \"{} ns\"\n",
                group("h", hosts - 1),
                group("late", 1),
                JOINS * period
            ),
        };
        format!(
            r#"
name = "shared"
[measure]
warmup_time = "{} ns"
duration = "{} ns"
[fabric]
topology = {{ kind = "chain", switches = 1 }}
[fabric.link]
generation = "7"
lanes = 16
[fabric.links.wide]
generation = "7"
bandwidth = "900 GB/s"
[[fabric.overrides]]
between = ["*", "pool"]
link = "wide"
[[devices]]
name = "pool"
controller = {{ contexts = 4096 }}
memory = {{ kind = "fixed", bandwidth = "{gb_per_s} GB/s", queue = 4096 }}
{coherence}
[devices.qos]
{all}"#,
            from * period,
            periods * period
        )
    }
}

/// Time at which a late host joins, in periods.
const JOINS: u32 = 100;
const THROTTLE: &str = ", throttle = {}";

/// Used share of the media's bandwidth, and largest deviation of a host from the mean of all.
fn use_and_spread(shared: &Shared, report: &Report) -> (f64, f64) {
    let all = rates(report);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let spread = all.iter().map(|rate| (rate / mean - 1.0).abs());
    let device = report.devices[0].bandwidth_gb_per_s.total;
    let used = device / f64::from(shared.gb_per_s);
    (used, spread.fold(0.0, f64::max))
}

/// At least 90 % of the bandwidth is used, and each host is within 5 %
/// of the mean, over 200 periods.
fn a_medium_is_used_in_equal_parts(shared: &Shared) {
    let free = report(&shared.text(20, 20, ""), &[]);
    let (full, _) = use_and_spread(shared, &free);
    let throttled = report(&shared.text(150, 200, THROTTLE), &[]);
    let (used, spread) = use_and_spread(shared, &throttled);
    println!(
        "| {} | {} | {:.1} | {:.1} | {:.0} | {:.0} |",
        shared.gb_per_s,
        shared.hosts,
        100.0 * used,
        100.0 * spread,
        throttled.latency_ns.mean,
        free.latency_ns.mean
    );
    assert!(full > 0.97, "{full} without throttles");
    assert!(used >= 0.9, "{used}");
    assert!(spread <= 0.05, "{spread}: {:?}", rates(&throttled));
    assert_eq!(throttled.provenance.notes, [], "nothing is left unused");
}

/// From 100 to 200 periods after it has joined, a late host has the mean
/// bandwidth of all, within 5 %.
fn a_late_host_has_its_part(shared: Shared) {
    let shared = Shared {
        joins: true,
        ..shared
    };
    let report = report(&shared.text(JOINS + 100, 100, THROTTLE), &[]);
    let all = rates(&report);
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let late = all[all.len() - 1] / mean;
    let (used, _) = use_and_spread(&shared, &report);
    let (gb_per_s, hosts, percent) = (shared.gb_per_s, shared.hosts, 100.0 * used);
    println!("| {gb_per_s} | {hosts} | {late:.3} | {percent:.1} |");
    assert!((late - 1.0).abs() < 0.05, "{all:?}");
    assert!(used >= 0.9, "{used}");
}

/// Bandwidths of media in GB/s, and numbers of hosts.
const ALL: [(u32, u32); 10] = [
    (4, 4),
    (4, 16),
    (16, 4),
    (16, 16),
    (40, 4),
    (40, 16),
    (100, 4),
    (100, 16),
    (400, 4),
    (400, 16),
];

#[test]
fn hosts_use_media_of_several_bandwidths_in_equal_parts() {
    for (gb_per_s, hosts) in [(4, 4), (16, 16), (40, 4)] {
        a_medium_is_used_in_equal_parts(&Shared::new(gb_per_s, hosts));
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn hosts_use_media_from_4_to_400_gb_per_s_in_equal_parts() {
    for (gb_per_s, hosts) in ALL {
        a_medium_is_used_in_equal_parts(&Shared::new(gb_per_s, hosts));
    }
}

#[test]
fn a_late_host_has_its_part_within_a_hundred_periods() {
    for (gb_per_s, hosts) in [(4, 4), (16, 16)] {
        a_late_host_has_its_part(Shared::new(gb_per_s, hosts));
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn a_late_host_has_its_part_of_media_from_4_to_400_gb_per_s() {
    for (gb_per_s, hosts) in ALL {
        a_late_host_has_its_part(Shared::new(gb_per_s, hosts));
    }
}

#[test]
#[ignore = "slow: make test-all"]
fn hosts_with_coherent_caches_use_media_in_equal_parts() {
    for (gb_per_s, hosts) in [(4, 4), (16, 4), (16, 16), (40, 4), (40, 16), (100, 4)] {
        let shared = Shared {
            coherent: true,
            ..Shared::new(gb_per_s, hosts)
        };
        a_medium_is_used_in_equal_parts(&shared);
    }
}

/// A DRAM stops for its refresh, while requests gather. Random addresses wait for banks.
#[test]
fn a_dram_is_used_though_it_refreshes() {
    let dram = ["devices[0].memory={ kind = \"dram\" }"];
    let shared = Shared::new(20, 4);
    let full = report(&shared.text(20, 40, ""), &dram);
    let throttled = report(&shared.text(150, 200, THROTTLE), &dram);
    let [all, left] = [&full, &throttled].map(|report| report.bandwidth_gb_per_s.total);
    println!(
        "{left} of {all} GB/s, {} of {} ns",
        throttled.latency_ns.mean, full.latency_ns.mean
    );
    assert!(left >= 0.9 * all, "{left} of {all}");
    let (_, spread) = use_and_spread(&shared, &throttled);
    assert!(spread < 0.05, "{spread}");
    assert!(throttled.latency_ns.mean < 0.5 * full.latency_ns.mean);
}

/// The first host has one request in flight and leaves most of its allocation unused, or not all is
/// allocated. Hosts with more requests share the rest in proportion to their allocations.
#[test]
fn leftovers_are_shared_by_allocation() {
    let group = |host: usize, outstanding: u32| {
        format!(
            "[[hosts]]\nname = \"h{host}\"\nworkload = {{ kind = \"uniform\" }}\n\
             issue = {{ outstanding = {outstanding}, throttle = {{}} }}\n"
        )
    };
    for (parts, first) in [
        ([128, 96, 32], 1),
        ([64, 32, 64], 1),
        ([32, 64, 32], 128),
        ([8, 8, 32], 128),
    ] {
        let (before, rest) = THROTTLED.split_once("[[hosts]]").expect("it has hosts");
        let (_, devices) = rest.split_once("[[devices]]").expect("it has a device");
        let hosts: String = [(0, first), (1, 128), (2, 128)]
            .map(|(host, outstanding)| group(host, outstanding))
            .concat();
        let text = format!("{before}{hosts}[[devices]]{devices}");
        let all = [0, 1, 2].map(|host| (host, parts[host], None));
        let found = rates(&report(&text, &[&shares(&all)]));
        println!("{parts:?}: {found:?}");
        assert!(found.iter().sum::<f64>() > 0.9 * 8.0, "{found:?}");
        // The hosts with more requests to send.
        let full = usize::from(first == 1)..3;
        let (left, allocated) = (&found[full.clone()], &parts[full]);
        let (sum, of) = (
            left.iter().sum::<f64>(),
            f64::from(allocated.iter().sum::<u16>()),
        );
        for (rate, part) in left.iter().zip(allocated) {
            let share = f64::from(*part) / of;
            assert!((rate / sum - share).abs() < 0.05, "{parts:?} {found:?}");
        }
    }
}

/// Thresholds so low that the device is never full leave bandwidth
/// unused, and the report notes that.
#[test]
fn a_medium_that_throttled_hosts_leave_unused_is_noted() {
    let low = "devices[0].qos={ bandwidth = \"8 GB/s\", optimal = 1, moderate = 2, severe = 3 }";
    let found = report(THROTTLED, &[low]);
    let left = 8.0 - found.bandwidth_gb_per_s.total;
    assert!(left > 0.8, "{left}");
    let notes: Vec<_> = found
        .provenance
        .notes
        .iter()
        .map(ToString::to_string)
        .collect();
    let said = format!(
        "`devices[0].qos`: the throttles of h0 and 2 more left {left:.1} of the 8.0 GB/s of pool unused"
    );
    let is_told = notes.iter().any(|note| note.starts_with(&said));
    assert!(is_told, "{notes:?}");
    assert_eq!(report(THROTTLED, &[]).provenance.notes, []);
}

/// Shares change at 30 us, and with them the steps. The state is saved before and after.
#[test]
fn a_run_with_throttles_goes_on_from_a_random_time() {
    let changed = "events=[{ kind = \"set-qos\", at = \"30 us\", device = \"pool\", host = \"h0\", allocated = 128 }]";
    let first = shares(&[(0, 32, None), (1, 32, None), (2, 32, None)]);
    let short = "measure={ warmup_time = \"10 us\", duration = \"50 us\" }";
    for text in [THROTTLED, COHERENT] {
        let plan = plan(text, &[&first, changed, short]);
        let expected = checkpoint::timeless(try_run(&plan, 1).expect("it runs"));
        for seed in 0..4 {
            checkpoint::check(&plan, &expected, seed);
        }
    }
}

#[test]
fn throttles_do_not_depend_on_threads() {
    for text in [THROTTLED, COHERENT] {
        let plan = plan(text, &["measure={ duration = \"50 us\" }"]);
        let one = try_run(&plan, 1).expect("it runs").provenance.digest;
        assert_threads(&plan, &one, 2..4);
    }
}

/// Four fast devices below a switch, with one narrow link to their host. Only the return path is
/// loaded, which each device notices by responses that wait for credits (CXL 3.1 section
/// 3.3.4.3.4). The sampling period is about as long as one of 2,048 requests takes.
const OVERSUBSCRIBED: &str = r#"
name = "oversubscribed"
[measure]
warmup_time = "100 us"
duration = "100 us"
[fabric]
topology = { kind = "chain", switches = 1 }
[fabric.links.narrow]
generation = "5"
lanes = 4
[[fabric.overrides]]
between = ["h", "*"]
link = "narrow"
[[hosts]]
name = "h"
issue = { outstanding = 2048, throttle = { period = "8 us" } }
workload = { kind = "uniform" }
[[devices]]
name = "pool"
count = 4
[devices.qos]
optimal = 60_000
moderate = 60_001
severe = 60_002
"#;

#[test]
fn a_device_whose_answers_wait_for_credits_tells_overload_and_its_host_heeds_it() {
    let sampled = "devices[0].qos.backpressure_sample_interval=\"8 ns\"";
    let blind = report(OVERSUBSCRIBED, &[]);
    let told = report(OVERSUBSCRIBED, &[sampled]);
    for device in &blind.devices {
        let load = device.load.expect("it is told");
        assert_eq!((load.optimal, load.moderate, load.severe), (0, 0, 0));
    }
    let loads = told.devices.iter().filter_map(|device| device.load);
    let overloads = loads.map(|load| load.moderate + load.severe).sum::<u64>();
    assert!(overloads > 100, "{overloads}");
    // The queues on the return path are short then. The host's cuts leave
    // a sixth of the link unused.
    let (blind_ns, told_ns) = (blind.latency_ns.mean, told.latency_ns.mean);
    assert!(told_ns < 0.5 * blind_ns, "{told_ns} ns, {blind_ns} without");
    let [all, left] = [&blind, &told].map(|report| report.bandwidth_gb_per_s.total);
    assert!(left > 0.8 * all, "{left} of {all} GB/s");
}

/// Hosts with caches at a coherent device of 8 GB/s. Each reads and writes a part of its own,
/// which is larger than its cache.
const COHERENT: &str = r#"
name = "coherent"
[measure]
warmup_time = "300 us"
duration = "200 us"
[fabric]
topology = { kind = "chain", switches = 1 }
[[hosts]]
name = "h"
count = 3
issue = { outstanding = 128, cache = { size = "64 KiB", ways = 4 }, throttle = {} }
workload = { kind = "uniform", footprint = "48 MiB", private = true, read_ratio = 0.9 }
[[devices]]
name = "pool"
memory = { kind = "fixed", bandwidth = "8 GB/s" }
coherence = { class = "hdm-db" }
[devices.qos]
bandwidth = "8 GB/s"
"#;

/// From the beginning of the measurement on, the first host has half of the bandwidth that all use.
#[test]
fn shares_of_a_coherent_device_hold_and_change() {
    let event = |host: usize, allocated: u16| {
        format!(
            "{{ kind = \"set-qos\", at = \"200 us\", device = \"pool\", host = \"h{host}\", allocated = {allocated} }}"
        )
    };
    let events: Vec<String> = [(0, 128), (1, 64), (2, 64)]
        .map(|(host, allocated)| event(host, allocated))
        .into();
    let changed = format!("events=[{}]", events.join(", "));
    let first = shares(&[(0, 32, None), (1, 32, None), (2, 32, None)]);
    let kept = rates(&report(COHERENT, &[&first]));
    let found = rates(&report(COHERENT, &[&first, &changed]));
    println!("{kept:?}, {found:?} with other shares");
    let part = |rates: &[f64]| rates[0] / rates.iter().sum::<f64>();
    assert!((part(&kept) - 1.0 / 3.0).abs() < 0.05, "{kept:?}");
    assert!((part(&found) - 0.5).abs() < 0.05, "{found:?}");
}
