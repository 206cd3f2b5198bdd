//! Errors and link-level retry.

use super::*;

/// Sends lines back to back until 300,000 flits (or packets) have gone. The rate of retries and the time
/// must agree with the error rate to four standard deviations.
fn goodput(format: Option<FlitFormat>, channel: Channel, probability: f64) {
    const UNITS: u64 = 300_000;
    let params = LinkParams {
        flit_error_rate: FlitErrorRate(probability),
        propagation: Picos(2_000),
        port_delay: Picos(1_000),
        fec_delay: Some(Picos::ZERO),
        ..params(64_000_000_000, format)
    };
    let mut link = FreeTransmitter::new(&params);
    let (mut now, mut last) = (0, 0);
    while link.0.stats(SimTime(now)).flits < UNITS {
        let (sent, start, end) = link.wait(now, channel);
        assert!(start >= sent && end > start);
        now = sent;
        last = end;
    }
    let stats = link.0.stats(SimTime(last));
    let (flits, retries) = (stats.flits as f64, stats.retries as f64);
    // Failed transmissions before a successful one are geometric, with mean q = p / (1 - p)
    // and variance q / (1 - p).
    let mean = flits * probability / (1.0 - probability);
    let deviation = (mean / (1.0 - probability)).sqrt();
    assert!(
        (retries - mean).abs() < 4.0 * deviation,
        "{format:?} {channel:?}: {retries} retries of {flits} at {probability}, {:+.1} deviations",
        (retries - mean) / deviation
    );
    // Efficiency is 1 / (1 + q (round trip + flit) / flit), here with the retries that occurred.
    let flit = stats.busy_ps as f64 / flits;
    let control = match format {
        Some(FlitFormat::B68) => 12.0 * flit,
        _ => 0.0,
    };
    let round_trip = 2.0 * (2_000.0 + 2.0 * 1_000.0) + control;
    let expected = flits * flit + retries * (round_trip + flit);
    let off = (last as f64 - expected).abs() / (round_trip + flit);
    assert!(off < 4.0, "{format:?}: {last} ps, expected {expected}");
}

#[test]
fn the_goodput_of_packets_and_flits_is_that_of_their_error_rate() {
    for (format, channel, probability) in [
        (None, Channel::S2mDrs, 0.01),
        (None, Channel::M2sReq, 0.1),
        (Some(FlitFormat::B256), Channel::M2sReq, 0.01),
        (Some(FlitFormat::B256), Channel::S2mDrs, 0.1),
        (Some(FlitFormat::B68), Channel::M2sReq, 0.1),
        (Some(FlitFormat::B68), Channel::S2mDrs, 0.01),
        (Some(FlitFormat::B68), Channel::S2mDrs, 0.1),
    ] {
        goodput(format, channel, probability);
    }
}

/// The first half of a latency-optimised flit is used once it has arrived whole, even if
/// the second half breaks.
#[test]
fn a_half_flit_waits_for_its_own_retries() {
    const SENT: u64 = 100_000;
    let probability = 0.1;
    for (format, breaks) in [
        (FlitFormat::B256, probability),
        (FlitFormat::B256LatencyOptimized, probability / 2.0),
    ] {
        let params = LinkParams {
            flit_error_rate: FlitErrorRate(probability),
            ..params(64_000_000_000, Some(format))
        };
        let alone = Transmitter::alone_ps(&params, Channel::M2sReq);
        let flit = format.bytes() * 1_000_000 / 64_000;
        let retry = params.retry_round_trip_ps() + flit;
        let mut link = FreeTransmitter::new(&params);
        // The messages are far apart, so each is alone in its flit.
        let late = |number: u64| {
            let now = number * 100_000_000;
            let (_, start, end) = link.wait(now, Channel::M2sReq);
            assert_eq!((end - start - alone) % retry, 0);
            (end - start - alone) / retry
        };
        let found = (0..SENT).map(late).sum::<u64>() as f64;
        let mean = SENT as f64 * breaks / (1.0 - breaks);
        let deviation = (mean / (1.0 - breaks)).sqrt();
        assert!(
            (found - mean).abs() < 4.0 * deviation,
            "{format:?}: {found} retries, expected {mean}"
        );
    }
}
