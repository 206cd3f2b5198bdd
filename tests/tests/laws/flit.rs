//! Link efficiency follows from flit packing: a saturated link agrees within one percent with the
//! closed forms of `cxlab_protocol::flit` (derived in `docs/explain/flit-packing.md`).

use cxlab_protocol::flit::{self, FlitFormat};
use cxlab_system::report::{LinkReport, Report};
use cxlab_tests::{assert_close, report, shipped};

/// A direct link that is the only bottleneck: a narrow link, many requests, and fast memory.
fn saturated(generation: u8, format: &str, read_ratio: f64) -> Report {
    report(
        &shipped("direct"),
        &[
            "measure={ requests = 30_000 }",
            &format!(
                "fabric.link={{ generation = \"{generation}\", lanes = 4, flit = \"{format}\" }}"
            ),
            "hosts[0].issue.outstanding=2048",
            "hosts[0].workload.mix=\"regular\"",
            &format!("hosts[0].workload.read_ratio={read_ratio}"),
            "devices[0].controller.contexts=4096",
            "devices[0].memory={ kind = \"fixed\", latency = \"10 ns\", queue = 4096 }",
        ],
    )
}

fn direction<'a>(report: &'a Report, name: &str) -> &'a LinkReport {
    let found = report.links.iter().find(|link| link.direction == name);
    found.expect("the direction is reported")
}

/// Parts of reads.
const MIXES: [(&str, f64); 4] = [
    ("reads", 1.0),
    ("writes", 0.0),
    ("2:1", 2.0 / 3.0),
    ("1:1", 0.5),
];

fn assert_packing(generation: u8, format: FlitFormat, name: &str) {
    for (mix, read_ratio) in MIXES {
        let law = flit::efficiency(format, read_ratio);
        let report = saturated(generation, name, read_ratio);
        // The full direction, and its share of the lines.
        let (name_of_full, packed, share) = match law.m2s_limits() {
            true => ("host->mem", law.m2s.packed, 1.0 - read_ratio),
            false => ("mem->host", law.s2m.packed, read_ratio),
        };
        let full = direction(&report, name_of_full);
        assert!(full.utilization > 0.995, "{name} {mix}: {full:?}");
        let what = format!("{name} {mix}");
        assert_close(full.efficiency, packed, 0.01, &what);
        let expected = full.rate_gb_per_s * packed / share;
        let found = report.bandwidth_gb_per_s.total;
        assert_close(found, expected, 0.015, format!("GB/s, {what}"));
    }
}

#[test]
fn a_68_byte_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(5, FlitFormat::B68, "68B");
}

#[test]
fn a_256_byte_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(6, FlitFormat::B256, "256B");
}

#[test]
fn a_latency_optimised_link_is_as_efficient_as_its_slots_allow() {
    assert_packing(
        6,
        FlitFormat::B256LatencyOptimized,
        "256B-latency-optimized",
    );
}

/// A device behind a PBR switch on a narrow link, and a host on a wide one.
fn behind_a_switch(g_fam: bool, read_ratio: f64) -> Report {
    let text = format!(
        r#"
name = "behind"
measure = {{ requests = 30_000 }}
[fabric]
topology = {{ kind = "custom", switches = ["switch"], links = [
    ["host", "switch"], ["mem", "switch", "narrow"],
] }}
link = {{ generation = "6", lanes = 16 }}
links = {{ narrow = {{ lanes = 4 }} }}
[[hosts]]
name = "host"
issue = {{ outstanding = 2048 }}
workload = {{ kind = "uniform", mix = "regular", read_ratio = {read_ratio} }}
[[devices]]
name = "mem"
g_fam = {g_fam}
controller = {{ contexts = 4096 }}
memory = {{ kind = "fixed", latency = "10 ns", queue = 4096 }}
"#
    );
    report(&text, &[])
}

/// The link of a G-FAM device carries PBR flits, which hold fewer messages than the
/// HBR flits of other devices' links.
#[test]
fn the_link_of_a_g_fam_device_is_as_efficient_as_pbr_slots_allow() {
    for (mix, read_ratio) in MIXES {
        let formats = [(true, FlitFormat::B256Pbr), (false, FlitFormat::B256)];
        let rates = formats.map(|(g_fam, format)| {
            let law = flit::efficiency(format, read_ratio);
            let report = behind_a_switch(g_fam, read_ratio);
            let (full, packed) = match law.m2s_limits() {
                true => (direction(&report, "switch->mem"), law.m2s.packed),
                false => (direction(&report, "mem->switch"), law.s2m.packed),
            };
            assert!(full.utilization > 0.995, "{format:?} {mix}: {full:?}");
            // S2M of PBR flits at 2 : 1 is 1.5 % below the closed form
            // (docs/explain/flit-packing.md).
            let what = format!("{format:?} {mix}");
            assert_close(full.efficiency, packed, 0.016, what);
            report.bandwidth_gb_per_s.total
        });
        println!("{mix}: {:.3} and {:.3} GB/s", rates[0], rates[1]);
        // M2S limits writes and the even mix, and both formats have as many M2S slots.
        let fewer = rates[0] / rates[1] - 1.0;
        match read_ratio > 0.5 {
            true => assert!((-0.05..-0.015).contains(&fewer), "{mix}: {fewer}"),
            false => assert!(fewer.abs() < 0.005, "{mix}: {fewer}"),
        }
    }
}

/// Writes of 32 B use a header, four data slots, and one slot of byte enables. Or the line is read
/// first, by a message of five slots whose data are ignored.
#[test]
fn writes_of_less_than_a_line_take_the_slots_that_they_take() {
    // Slots of a flit that a write takes, and slots of a flit: 60 B of 68 and 236 of 256 are slots.
    for (generation, format, partial, slots, flit) in [
        (6, "256B", "MemWrPtl", 6.0, 15.0),
        (6, "256B", "MemRdFill", 10.0, 15.0),
        // Six slots a write, so two writes fill three flits.
        (5, "68B", "MemWrPtl", 6.0, 4.0),
    ] {
        let link = format!(
            "fabric.link={{ generation = \"{generation}\", lanes = 4, flit = \"{format}\" }}"
        );
        let report = report(
            &shipped("direct"),
            &[
                // Fills and merged writes alternate in runs as long as the requests in flight.
                "measure={ requests = 150_000 }",
                &link,
                "hosts[0].issue.outstanding=1024",
                "hosts[0].workload.read_ratio=0.0",
                "hosts[0].workload.request=\"32 B\"",
                &format!("hosts[0].issue.partial_write=\"{partial}\""),
                "devices[0].controller.contexts=4096",
                "devices[0].memory={ kind = \"fixed\", latency = \"10 ns\", queue = 4096 }",
            ],
        );
        let full = direction(&report, "host->mem");
        assert!(full.utilization > 0.99, "{format} {partial}: {full:?}");
        let bytes = if format == "68B" { 68.0 } else { 256.0 };
        let expected = full.rate_gb_per_s / bytes * flit / slots * 64.0;
        let what = format!("GB/s, {format} {partial}");
        assert_close(report.bandwidth_gb_per_s.write, expected, 0.015, what);
    }
}

/// Without load, a merged write takes the time of a read and of a write.
#[test]
fn a_write_that_reads_first_takes_both_ways() {
    let latency = |more: &[&str]| {
        let set = [
            "measure={ requests = 100, warmup_requests = 0 }",
            "hosts[0].issue.outstanding=1",
            "fabric.link={ generation = \"6\", flit = \"256B\" }",
        ];
        report(&shipped("direct"), &[&set[..], more].concat())
            .latency_ns
            .mean
    };
    let read = latency(&["hosts[0].workload.read_ratio=1.0"]);
    let write = latency(&["hosts[0].workload.read_ratio=0.0"]);
    let part = "hosts[0].workload.request=\"32 B\"";
    let fill = "hosts[0].issue.partial_write=\"MemRdFill\"";
    let merged = latency(&["hosts[0].workload.read_ratio=0.0", part, fill]);
    // A read's request is in slot 0, and a line's last byte is a slot of 16 B
    // later, but in the same flit.
    let both = read + write;
    assert!((merged - both).abs() < 0.1, "{merged}, {both}");
    let masked = latency(&["hosts[0].workload.read_ratio=0.0", part]);
    assert!((masked - write).abs() < 0.1, "{masked} and {write}");
}
