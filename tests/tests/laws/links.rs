//! Links with individual parameters, in the list of a custom topology and by
//! overrides. Each must have the latency and the bandwidth of its own closed form, in
//! the engine and in the analytic form.

use cxlab_link::{LinkParams, Transmitter};
use cxlab_plan::{End, Plan, PlannedLink};
use cxlab_protocol::flit::FlitFormat;
use cxlab_protocol::{Channel, flit};
use cxlab_system::analytic::analyze;
use cxlab_tests::{FAST, assert_close, plan, report, shipped, try_run};

/// Links of a host and a device on two switches. Only the link number
/// `named` has parameters of its own.
fn line(named: usize, outstanding: u32) -> String {
    let pairs = [("host", "a"), ("a", "b"), ("b", "mem")];
    let links = pairs
        .iter()
        .enumerate()
        .map(|(at, (a, b))| match at == named {
            true => format!("[\"{a}\", \"{b}\", \"odd\"]"),
            false => format!("[\"{a}\", \"{b}\"]"),
        });
    format!(
        r#"
name = "line"
measure = {{ requests = 20_000 }}
[fabric]
kind = "single-vcs"
topology = {{ kind = "custom", switches = ["a", "b"], links = [{}] }}
link = {{ port_delay = "11 ns" }}
[fabric.links.odd]
generation = "5"
lanes = 4
propagation = "70 ns"
[[hosts]]
name = "host"
issue = {{ outstanding = {outstanding} }}
workload = {{ kind = "uniform" }}
[[devices]]
name = "mem"
controller = {{ contexts = 8192 }}
memory = {{ kind = "fixed", latency = "10 ns", queue = 8192 }}
"#,
        links.collect::<Vec<_>>().join(", ")
    )
}

/// Latency of an unloaded read, in picoseconds.
fn unloaded(plan: &Plan) -> u64 {
    let of_link = |params: &LinkParams| {
        let alone = |channel| Transmitter::alone_ps(params, channel);
        alone(Channel::M2sReq) + alone(Channel::S2mDrs) + 2 * params.crossing_ps()
    };
    let links = plan.links.iter().map(|link| of_link(&link.params));
    let switches = plan.graph.switches.len() as u64;
    let requester = plan.scenario.hosts[0].requester();
    requester.expect("a requester").process_time.0
        + links.sum::<u64>()
        + 2 * switches * plan.scenario.fabric.switch.switching_time.0
        + plan.scenario.devices[0].controller.process_time.0
        + 10_000
}

/// Bandwidth of a full link with reads, in GB/s.
fn closed_form(params: &LinkParams) -> f64 {
    let form = flit::efficiency(params.flit_format(), 1.0);
    params.rate().as_gb_per_s() * form.s2m.packed
}

#[test]
fn a_request_alone_takes_the_time_of_each_link_on_its_way() {
    for named in 0..4 {
        let plan = plan(&line(named, 1), &[]);
        let expected = unloaded(&plan);
        let found = try_run(&plan, 1).expect("the run ends");
        let latency = found.latency_ns;
        let both = [latency.min, latency.max].map(|time| (time * 1e3).round() as u64);
        assert_eq!(both, [expected; 2], "link {named}");
        let analytic = analyze(&plan, 1).expect("the form covers it");
        let form = (analytic.pairs[0].unloaded_ns * 1e3).round() as u64;
        assert_eq!(form, expected, "link {named}");
    }
}

#[test]
fn a_full_system_carries_what_its_slowest_link_does() {
    for named in 0..4 {
        let plan = plan(&line(named, 4096), &[]);
        let each = plan.links.iter().map(|link| closed_form(&link.params));
        let slowest = each.fold(f64::MAX, f64::min);
        let found = try_run(&plan, 1).expect("the run ends");
        let what = format!("GB/s, link {named}");
        assert_close(found.bandwidth_gb_per_s.total, slowest, 0.015, what);
        let classes = found.links.iter().map(|link| link.link_class.as_deref());
        let odd = classes.filter(|class| *class == Some("odd")).count();
        assert_eq!(odd, if named < 3 { 2 } else { 0 }, "link {named}");
    }
}

const SLOW: &str = "fabric.links={ slow = { bandwidth = \"2 GB/s\" } }";

/// Adaptive routing weighs outputs by the time that their links take, if these differ.
#[test]
fn adaptive_routing_and_the_analytic_form_see_that_one_uplink_is_slow() {
    let text = shipped("spine-leaf-16");
    let set = [
        "fabric.topology={ kind = \"spine-leaf\", leaves = 8, spines = 2 }",
        "fabric.routing=\"adaptive\"",
        SLOW,
        "fabric.overrides=[{ between = [\"leaf*\", \"spine0\"], link = \"slow\" }]",
    ];
    let plan = plan(&text, &set);
    let slow = |a: &str, b: &str| a.starts_with("leaf") && b == "spine0";
    for link in &plan.links {
        let (a, b) = (plan.end_name(link.a), plan.end_name(link.b));
        let name = plan.link_classes[link.class].name.as_deref();
        assert_eq!(name == Some("slow"), slow(a, b) || slow(b, a), "{a}--{b}");
    }
    let found = try_run(&plan, 1).expect("the run ends");
    let analytic = analyze(&plan, 1).expect("the form covers it");
    let sums = |spine: &str| {
        let own = found.links.iter().filter(|link| link.name.contains(spine));
        own.map(|link| link.payload_bytes).sum::<u64>()
    };
    assert!(sums("spine0") * 4 < sums("spine1"), "most go by the others");
    let formed = |spine: &str| {
        let own = analytic
            .links
            .iter()
            .filter(|link| link.name.contains(spine));
        own.map(|link| link.utilization * link.rate_gb_per_s)
            .sum::<f64>()
    };
    assert!(formed("spine0") * 4.0 < formed("spine1"));
}

/// Of several overrides that match a link, the last applies. It takes precedence over the list.
#[test]
fn an_override_holds_over_those_before_and_over_the_list() {
    let set = [
        "fabric.links.slow={ bandwidth = \"2 GB/s\" }",
        "fabric.overrides=[{ between = [\"*\", \"*\"], link = \"odd\" }, \
         { between = [\"b\", \"a\"], link = \"slow\" }]",
    ];
    let plan = plan(&line(1, 1), &set);
    let names = plan.links.iter().map(|link| {
        let class = plan.link_classes[link.class].name.as_deref();
        let ends = [plan.end_name(link.a), plan.end_name(link.b)];
        (ends.contains(&"a") && ends.contains(&"b"), class)
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    let odd = (false, Some("odd"));
    assert_eq!(names, [odd, odd, (true, Some("slow"))]);
}

#[test]
fn a_link_between_a_root_port_and_a_device_may_be_a_named_one() {
    let topology = "fabric.topology={ kind = \"custom\", links = [[\"mem\", \"host\", \"slow\"]] }";
    let found = report(&shipped("direct"), &[SLOW, topology]);
    assert!(found.links.iter().all(|link| link.rate_gb_per_s == 2.0));
}

/// A device says what differs in its links from those of endpoints; a named link comes before that.
#[test]
fn a_device_says_what_its_own_link_is() {
    let rates = |set: &[&str]| {
        let found = report(&shipped("chain-16"), set);
        let of = |name: &str| {
            let mut links = found.links.iter();
            let link = links.find(|link| link.name == name)?;
            Some(link.rate_gb_per_s)
        };
        (of("mem0--sw4"), of("host0--sw0"), of("sw0--sw1"))
    };
    let own = "devices[0].link={ lanes = 4 }";
    let named = "fabric.overrides=[{ between = [\"mem0\", \"*\"], link = \"slow\" }]";
    let edge = "fabric.edge_link={ lanes = 8 }";
    for (set, expected) in [
        (vec![], [128.0, 128.0, 128.0]),
        (vec![own], [32.0, 128.0, 128.0]),
        (vec![own, edge], [32.0, 64.0, 128.0]),
        (vec![own, SLOW, named], [2.0, 128.0, 128.0]),
    ] {
        let [device, host, inner] = expected.map(Some);
        assert_eq!(rates(&set), (device, host, inner), "{set:?}");
    }
}

/// Messages that a user gets for mistakes in these settings.
fn mistakes(set: &[&str]) -> String {
    mistakes_of(&line(1, 1), set)
}

/// Messages that a user gets for mistakes in a scenario.
fn mistakes_of(text: &str, set: &[&str]) -> String {
    let told = std::panic::catch_unwind(|| drop(plan(text, set)));
    let told = told.expect_err("there is a mistake");
    told.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn mistakes_in_names_of_links_and_of_their_ends_are_told_with_a_near_name() {
    let links = |third: &str| {
        format!(
            "fabric.topology.links=[[\"host\", \"a\"], [\"a\", \"b\", \"{third}\"], [\"b\", \"mem\"]]"
        )
    };
    let over = |a: &str, b: &str, link: &str| {
        format!("fabric.overrides=[{{ between = [\"{a}\", \"{b}\"], link = \"{link}\" }}]")
    };
    let cases: [(String, &[&str]); 7] = [
        (
            links("ood"),
            &[
                "fabric.topology.links[1][2]",
                "`ood`",
                "did you mean `odd`?",
            ],
        ),
        (
            over("a", "b", "dod"),
            &["fabric.overrides[0].link", "`dod`", "did you mean `odd`?"],
        ),
        (
            over("a", "men", "odd"),
            &[
                "fabric.overrides[0].between",
                "`men`",
                "did you mean `mem`?",
            ],
        ),
        (
            over("host", "mem", "odd"),
            &["fabric.overrides[0].between", "no link joins them"],
        ),
        (
            over("h*", "m*", "odd"),
            &["fabric.overrides[0].between", "no link joins them"],
        ),
        (
            "fabric.overrides=[{ between = [\"a\", \"b\"], link = \"odd\" }, \
             { between = [\"*\", \"*\"], link = \"odd\" }]"
                .to_owned(),
            &["fabric.overrides[0].between", "later overrides"],
        ),
        (
            "fabric.links.odd.lanse=4".to_owned(),
            &["fabric.links.odd", "did you mean `lanes`?"],
        ),
    ];
    for (set, words) in cases {
        let told = mistakes(&[&set]);
        for word in words {
            assert!(told.contains(word), "{set}: {word} in {told}");
        }
    }
    let wrong = mistakes(&["fabric.links.odd.bandwidth=\"1 B/s\""]);
    assert!(wrong.contains("fabric.links.odd.bandwidth"), "{wrong}");
    let wrong = mistakes(&["fabric.link.sync_header_bypass=true"]);
    for word in ["fabric.link.sync_header_bypass", "generation 3, 4 or 5"] {
        assert!(wrong.contains(word), "{wrong}");
    }
}

#[test]
fn a_named_link_that_nothing_has_is_noted() {
    let unused = plan(&line(3, 1), &[]).notes;
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert_eq!(unused[0].path, "fabric.links.odd");
    assert_eq!(plan(&line(0, 1), &[]).notes, []);
}

/// With eight lanes of generation 5, reads alone and writes alone carry as much as a vendor's model
/// of an expander: 26.759 and 24.084 GB/s (Micron's model in the curves of Esmaili-Dokht et al., "A
/// Mess of Memory System Benchmarking, Simulation and Application Profiling", MICRO 2024). With
/// sync headers a link would carry 1.5 % less.
#[test]
fn links_up_to_generation_5_go_without_sync_headers() {
    let text = shipped("direct");
    let link = |set: &str| format!("fabric.link={{ generation = \"5\", lanes = 8{set} }}");
    for (read_ratio, vendor) in [("1.0", 26.759), ("0.0", 24.084)] {
        let full = |set: &str| {
            let mix = format!("hosts[0].workload.read_ratio={read_ratio}");
            let report = report(&text, &[&FAST[..], &[&link(set), &mix]].concat());
            report.bandwidth_gb_per_s.total / vendor - 1.0
        };
        let (without, with) = (full(""), full(", sync_header_bypass = false"));
        assert!(without.abs() < 0.003, "{read_ratio} reads: {without}");
        let less = (with + 2.0 / 130.0).abs();
        assert!(less < 0.003, "{read_ratio} reads: {with}");
    }
}

/// The link of a PCIe device is no CXL link, so it carries sync headers.
#[test]
fn links_of_pcie_devices_carry_sync_headers() {
    let text = shipped("cohet-fpga");
    let rate = |set: &[&str]| {
        let plan = plan(&text, set);
        let is_device = |end| matches!(end, End::Device(..));
        let mut links = plan.links.iter();
        let link = links.find(|link| is_device(link.a) || is_device(link.b));
        link.map(|link| link.params.rate().0)
    };
    assert_eq!(rate(&[]), Some(64_000_000_000));
    let set = [
        "accelerators[0].device.kind=\"pcie\"",
        "hosts[0].workload={ kind = \"circus-tent\", pattern = \"rand\", interface = \"pcie\" }",
    ];
    assert_eq!(rate(&set), Some(4_000_000_000 * 128 / 130 * 16));
}

/// PBR flits are standard flits of 256 B, so links between switches of a PBR fabric must have
/// these. Links of hosts and devices, and links of a virtual CXL switch, may have any flits.
#[test]
fn links_between_pbr_switches_have_standard_flits() {
    let text = shipped("spine-leaf-16");
    for link in [
        "{ generation = \"5\" }",
        "{ generation = \"4\", flit = \"68B\" }",
        "{ flit = \"256B-latency-optimized\" }",
    ] {
        let told = mistakes_of(&text, &[&format!("fabric.link={link}")]);
        for word in ["fabric.link.flit", "table 6-13", "fabric.edge_link"] {
            assert!(told.contains(word), "{link}: {word} in {told}");
        }
        plan(&text, &[&format!("fabric.edge_link={link}")]);
        plan(&shipped("single-vcs"), &[&format!("fabric.link={link}")]);
        plan(&shipped("qos"), &[&format!("fabric.link={link}")]);
    }
    plan(
        &text,
        &["fabric.link={ generation = \"5\", flit = \"256B\" }"],
    );
    // One such link is enough for the error.
    let set = [
        "fabric.links.far={ flit = \"256B-latency-optimized\" }",
        "fabric.overrides=[{ between = [\"leaf0\", \"spine0\"], link = \"far\" }]",
    ];
    assert!(mistakes_of(&text, &set).contains("fabric.links.far.flit"));
}

/// The link of a G-FAM device is a PBR link (CXL 3.1, section 7.7.6.9). Links of
/// hosts and other devices are not.
#[test]
fn the_link_of_a_g_fam_device_has_pbr_flits() {
    let text = shipped("spine-leaf-16");
    let gfd = "devices[0].g_fam=true";
    let formats = |set: &[&str], of: fn(&PlannedLink) -> bool| {
        let plan = plan(&text, set);
        let links = plan.links.iter().filter(|link| of(link));
        let mut found: Vec<FlitFormat> = links.map(|link| link.params.flit_format()).collect();
        found.dedup();
        found
    };
    let of_device = |link: &PlannedLink| matches!(link.a, End::Device(..));
    let of_host = |link: &PlannedLink| matches!(link.a, End::Host(..));
    assert_eq!(formats(&[gfd], of_device), [FlitFormat::B256Pbr]);
    assert_eq!(formats(&[], of_device), [FlitFormat::B256]);
    assert_eq!(formats(&[gfd], of_host), [FlitFormat::B256]);
    for link in [
        "{ generation = \"5\" }",
        "{ flit = \"256B-latency-optimized\" }",
    ] {
        let edge = format!("fabric.edge_link={link}");
        let told = mistakes_of(&text, &[gfd, &edge]);
        for word in [
            "fabric.edge_link.flit",
            "G-FAM device `mem",
            "7.7.6.9",
            "table 6-13",
        ] {
            assert!(told.contains(word), "{link}: {word} in {told}");
        }
        plan(&text, &[&edge]);
    }
    // Packets have no flits.
    plan(
        &text,
        &[gfd, "fabric.edge_link={ transmission = \"packet\" }"],
    );
    let told = mistakes_of(&shipped("direct"), &[gfd]);
    for part in ["devices[0].g_fam", "link to a host"] {
        assert!(told.contains(part), "{told}");
    }
    let told = mistakes_of(&shipped("single-vcs"), &[gfd]);
    for part in ["devices[0].g_fam", "7.7.6.8"] {
        assert!(told.contains(part), "{told}");
    }
    let told = mistakes_of(&shipped("qos"), &[gfd]);
    for part in ["devices[0].g_fam", "logical_devices"] {
        assert!(told.contains(part), "{told}");
    }
}

/// With several caching devices behind a switch, a message names its device by CacheID,
/// which only 256 B flits have.
#[test]
fn several_caching_devices_behind_a_switch_need_flits_with_cache_ids() {
    let text = shipped("processor-trace");
    let two = "accelerators[0].count=2";
    let wide = "fabric.link={ generation = \"5\", lanes = 8, flit = \"256B\" }";
    let told = mistakes_of(&text, &[two]);
    for word in ["fabric.link.flit", "68 B flits", "2 devices", "CacheID"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    plan(&text, &[two, wide]);
    plan(&text, &[]);
    // The host's link decides.
    plan(
        &text,
        &[
            two,
            wide,
            "fabric.links={ old = { flit = \"68B\" } }",
            "fabric.overrides=[{ between = [\"*\", \"xpu*\"], link = \"old\" }]",
        ],
    );
}
