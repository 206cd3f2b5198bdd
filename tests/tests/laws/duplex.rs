//! Benefit of full duplex: the laws of Figs. 16 and 17 of the ESF paper (An et al.).
//!
//! One requester, four devices, a bus with packets. A message without data is a header of h bytes;
//! a message with data is a line of 64 bytes and a header of d bytes before it.

use cxlab_system::report::{LinkReport, Report};
use cxlab_tests::{assert_close, report, shipped};

/// Rate of the bus in the scenario `duplex`, in GB/s.
const BUS: f64 = 16.0;

fn run(header: u32, data_header: u32, read_ratio: f64, duplex: &str) -> Report {
    let packet = format!("header = \"{header} B\", data_header = \"{data_header} B\"");
    let set = [
        "measure={ requests = 20_000 }",
        &format!("fabric.link.packet={{ {packet} }}"),
        &format!("fabric.link.duplex=\"{duplex}\""),
        &format!("hosts[0].workload.read_ratio={read_ratio}"),
    ];
    report(&shipped("duplex"), &set)
}

/// Both directions of the bus: the link between the requester and the switch.
fn bus(report: &Report) -> [&LinkReport; 2] {
    let mut directions = report
        .links
        .iter()
        .filter(|link| link.name.starts_with("host--"));
    [(); 2].map(|()| directions.next().expect("a link has two directions"))
}

/// Share of time in which the bus is busy: the mean of the directions of a full-duplex bus, or
/// their sum if they share the wire.
fn utility(report: &Report, duplex: &str) -> f64 {
    let sum: f64 = bus(report).iter().map(|link| link.utilization).sum();
    if duplex == "full" { sum / 2.0 } else { sum }
}

/// Share of payload among all bytes on the bus.
fn transmission_efficiency(report: &Report) -> f64 {
    let sum = |bytes: fn(&LinkReport) -> u64| {
        bus(report).iter().map(|link| bytes(link)).sum::<u64>() as f64
    };
    sum(|link| link.payload_bytes) / sum(|link| link.bytes)
}

/// Lines use one direction, and headers the other. Reads alone fill one direction with
/// lines, as long as headers are not longer than lines. A 1:1 mix puts (64 + h) / 2
/// bytes a request on each direction.
#[test]
fn an_even_mix_doubles_bandwidth_without_headers_and_gains_nothing_when_they_equal_the_payload() {
    for header in [0, 16, 32, 64] {
        let [reads, even, writes] =
            [1.0, 0.5, 0.0].map(|ratio| run(header, 0, ratio, "full").bandwidth_gb_per_s.total);
        let gain = 128.0 / (64.0 + f64::from(header));
        assert_close(reads, BUS, 0.005, "reads alone");
        assert_close(writes, BUS, 0.005, "writes alone");
        let what = format!("1:1 over reads, header {header} B");
        assert_close(even / reads, gain, 0.01, what);
    }
}

/// Public Xerxes also puts the header before lines. Reads alone then move 64 bytes in 64 + h, and
/// 1:1 puts (64 + 2h) / 2 on each direction. At h = 64 the gain is 4/3, and Xerxes measures 1.32.
#[test]
fn with_a_header_before_lines_too_the_gain_of_an_even_mix_falls_to_four_thirds() {
    for header in [16, 32, 64] {
        let h = f64::from(header);
        let [reads, even] =
            [1.0, 0.5].map(|ratio| run(header, header, ratio, "full").bandwidth_gb_per_s.total);
        assert_close(reads, BUS * 64.0 / (64.0 + h), 0.005, "reads alone");
        let gain = 2.0 * (64.0 + h) / (64.0 + 2.0 * h);
        assert_close(even / reads, gain, 0.01, format!("header {header} B"));
    }
}

/// Every request moves one line and one header, with any mix.
#[test]
fn full_duplex_utility_rises_with_mixing_and_transmission_efficiency_does_not_change() {
    for header in [0, 16, 32, 64] {
        let h = f64::from(header);
        for read_ratio in [1.0, 0.75, 0.5, 0.25, 0.0] {
            let report = run(header, 0, read_ratio, "full");
            let what = format!("header {header} B, read ratio {read_ratio}");
            let efficiency = transmission_efficiency(&report);
            assert_close(efficiency, 64.0 / (64.0 + h), 0.005, &what);
            // Bytes a request on the fuller direction, which is always busy.
            let major = f64::max(read_ratio, 1.0 - read_ratio);
            let fuller = major * 64.0 + (1.0 - major) * h;
            let law = (64.0 + h) / 2.0 / fuller;
            assert_close(utility(&report, "full"), law, 0.01, &what);
        }
    }
}

/// A direction may send 16 messages before it yields, and a turnaround takes 1 ns. A cycle of 32
/// messages (16 each way, so 16 lines and 16 headers with any mix) has two turnarounds.
#[test]
fn half_duplex_is_flat_over_the_mix() {
    for header in [0, 16, 32, 64] {
        let busy = 16.0 * (64.0 + f64::from(header)) / BUS;
        let bandwidth = 16.0 * 64.0 / (busy + 2.0);
        for read_ratio in [1.0, 0.75, 0.5, 0.25, 0.0] {
            let report = run(header, 0, read_ratio, "half");
            let what = format!("header {header} B, read ratio {read_ratio}");
            assert_close(report.bandwidth_gb_per_s.total, bandwidth, 0.01, &what);
            assert_close(utility(&report, "half"), busy / (busy + 2.0), 0.01, &what);
            let payload = 64.0 / (64.0 + f64::from(header));
            assert_close(transmission_efficiency(&report), payload, 0.005, &what);
        }
    }
}
