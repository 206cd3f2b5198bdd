//! Times at which messages leave and arrive.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Bytes;
use cxlab_protocol::flit::FlitPacker;

use super::*;

use Channel::{M2sReq as Req, M2sRwd as Rwd, S2mDrs as Drs, S2mNdr as Ndr};

#[test]
fn packets_in_a_row_drift_less_than_a_picosecond_in_65536() {
    let giga = [
        33_333_333_333,
        63_015_384_615,
        7_877_000_001,
        999_999_999_989,
    ];
    for rate in giga.into_iter().chain([1_000_003]) {
        let mut link = FreeTransmitter::new(&params(rate, None));
        let mut end = 0;
        for sent in 1..=65_536u64 {
            let (_, start, arrival) = link.wait(end, Drs);
            assert_eq!(start, end, "nothing waits but for the packet before");
            end = arrival;
            let exact = u128::from(sent) * 80 * 1_000_000_000_000 / u128::from(rate);
            let drift = u128::from(end).abs_diff(exact);
            assert!(drift <= 1, "{drift} ps after {sent} packets at {rate} B/s");
        }
    }
}

#[test]
fn a_packet_without_size_takes_no_time_and_one_with_data_its_bytes() {
    let packet = PacketHeader {
        header: Bytes(0),
        data_header: Bytes(6),
        staging: Bytes(0),
    };
    let mut link = FreeTransmitter::new(&LinkParams {
        packet,
        ..params(1_000_000_000, None)
    });
    assert_eq!(link.send(5, Req), Ok((5, 5)));
    assert_eq!(link.send(5, Rwd), Ok((5, 70_005)));
    assert_eq!(link.send(6, Ndr), Err(Blocked::Until(SimTime(70_005))));
    assert_eq!(link.send(70_005, Ndr), Ok((70_005, 70_005)));
}

/// A link with 68 B flits that take 68 ns each.
fn narrow() -> FreeTransmitter {
    FreeTransmitter::new(&params(1_000_000_000, Some(FlitFormat::B68)))
}

#[test]
fn a_line_alone_spans_two_flits_of_68_bytes_and_a_request_one() {
    assert_eq!(narrow().send(0, Drs), Ok((0, 136_000)));
    assert_eq!(narrow().send(0, Rwd), Ok((0, 136_000)));
    assert_eq!(narrow().send(0, Req), Ok((0, 68_000)));
}

#[test]
fn two_responses_share_a_flit_and_one_rides_with_a_line() {
    let mut link = narrow();
    // A third response does not fit.
    for expected in [(0, 68_000), (0, 68_000), (68_000, 136_000)] {
        assert_eq!(link.send(0, Ndr), Ok(expected));
    }
    let mut link = narrow();
    assert_eq!(link.send(0, Drs), Ok((0, 136_000)));
    assert_eq!(link.send(0, Ndr), Ok((0, 68_000)), "beside the header");
}

#[test]
fn lines_in_a_row_fill_68_byte_flits_as_by_hand() {
    // Flit 0: H5 with two DRS headers, chunks 1-3 of line 1. Flit 1, all data: chunk 4 of line 1 and 1-3 of
    // line 2. Flit 2: chunk 4 of line 2, headers of lines 3 and 4, chunks 1-2 of line 3. Flit 3, all data:
    // 3-4 of line 3, 1-2 of line 4. Flit 4: 3-4 of line 4.
    let mut link = narrow();
    for (start, end) in [(0, 136), (0, 204), (136, 272), (136, 340)] {
        assert_eq!(link.send(0, Drs), Ok((start * 1_000, end * 1_000)));
    }
    assert_eq!(link.send(0, Drs), Err(Blocked::Until(SimTime(136_000))));
    assert_eq!(link.0.stats(SimTime(1_000_000)).flits, 5);
}

#[test]
fn a_message_that_comes_when_a_flit_has_begun_waits_for_the_next() {
    let mut link = FreeTransmitter::new(&params(256_000_000_000, Some(FlitFormat::B256)));
    assert_eq!(link.send(0, Req), Ok((0, 1_000)));
    assert_eq!(link.send(0, Req), Ok((0, 1_000)), "it begins only now");
    assert_eq!(link.send(1, Req), Ok((1_000, 2_000)));
    assert_eq!(link.send(1_000, Req), Ok((1_000, 2_000)));
    let at_once = Ok((9_999, 10_999));
    assert_eq!(link.send(9_999, Req), at_once, "an idle link");
    let stats = link.0.stats(SimTime(20_000));
    assert_eq!((stats.flits, stats.bytes, stats.busy_ps), (3, 768, 3_000));
}

#[test]
fn the_first_half_of_a_latency_optimised_flit_arrives_first() {
    let format = Some(FlitFormat::B256LatencyOptimized);
    let mut link = FreeTransmitter::new(&params(256_000_000_000, format));
    assert_eq!(link.send(0, Drs), Ok((0, 500)));
    assert_eq!(link.send(0, Drs), Ok((0, 1_000)), "slots 5, 6, 7 and 9");
}

/// A reference transmitter without credits, errors or shortcuts. Every message goes through the packer, and
/// times are kept in picoseconds times the rate, so nothing is rounded.
struct ReferenceTransmitter {
    packer: FlitPacker,
    rate: u128,
    flit: u128,
    halves: u128,
    start: u128,
    free: u128,
}

impl ReferenceTransmitter {
    fn send(&mut self, now: u64, channel: Channel, trailer: bool) -> Result<(u64, u64), u64> {
        let now = u128::from(now) * self.rate;
        while !self.packer.is_empty() && self.start < now {
            self.close();
        }
        loop {
            let fresh = self.packer.is_empty();
            let placed = match trailer {
                true => self.packer.place_with_trailer(channel),
                false => self.packer.place(channel),
            };
            if let Some(placement) = placed {
                if fresh {
                    self.start = self.free.max(now);
                }
                let half = (u128::from(placement.last_half) + 1) * self.flit / self.halves;
                let end = self.start + u128::from(placement.last_flit) * self.flit + half;
                return Ok(((self.start / self.rate) as u64, (end / self.rate) as u64));
            }
            if self.start > now {
                return Err((self.start / self.rate) as u64);
            }
            self.close();
        }
    }

    fn close(&mut self) {
        self.free = self.start + u128::from(self.packer.close()) * self.flit;
        self.start = self.free;
    }
}

#[test]
fn every_schedule_is_that_of_the_packer_alone() {
    for format in FlitFormat::ALL {
        for (seed, gap) in [(1, 1), (2, 900), (3, 5_000), (4, 40_000)] {
            // A flit takes a whole number of picoseconds, so that both models round alike.
            let rate = format.bytes() * 1_000_000_000 / 2;
            let mut link = FreeTransmitter::new(&params(rate, Some(format)));
            let mut reference = ReferenceTransmitter {
                packer: FlitPacker::new(format),
                rate: u128::from(rate),
                flit: u128::from(format.bytes()) * 1_000_000_000_000,
                halves: u128::from(format.halves()),
                start: 0,
                free: 0,
            };
            let mut rng = StreamRng::new(seed, "schedule");
            let mut now = 0;
            for number in 0..20_000 {
                let channel = [Req, Rwd, Ndr, Drs][rng.below(4) as usize];
                let trailer = channel == Rwd && rng.chance(0.3);
                let found = link.send_with(now, channel, trailer);
                let expected = reference.send(now, channel, trailer);
                let as_blocked = expected.map_err(|time| Blocked::Until(SimTime(time)));
                assert_eq!(
                    found, as_blocked,
                    "{format:?} message {number} {channel:?} at {now}"
                );
                now = match expected {
                    Err(until) if rng.chance(0.7) => until,
                    _ if rng.chance(0.5) => now,
                    _ => now + rng.below(gap * 2),
                };
            }
            now += 1_000_000;
            let _ = reference.send(now, Req, false);
            let _ = link.send(now, Req);
            let flits = reference.packer.counters().flits;
            assert_eq!(link.0.stats(SimTime(now)).flits, flits, "{format:?}");
        }
    }
}

#[test]
fn blocked_until_is_honest() {
    for format in [None, Some(FlitFormat::B68), Some(FlitFormat::B256)] {
        let mut params = params(63_015_384_615, format);
        params.packet.staging = Bytes(0);
        let mut link = FreeTransmitter::new(&params);
        let mut rng = StreamRng::new(5, "honest");
        let (mut now, mut blocked) = (0, 0);
        for _ in 0..20_000 {
            let channel = [Req, Rwd, Ndr, Drs][rng.below(4) as usize];
            if let Err(found) = link.send(now, channel) {
                blocked += 1;
                let Blocked::Until(until) = found else {
                    panic!("credits are at hand")
                };
                assert!(until.0 > now);
                let before = now + rng.below(until.0 - now);
                assert_eq!(link.send(before, channel), Err(found), "asked again sooner");
                match link.send(until.0, channel) {
                    Ok((start, _)) => assert!(start >= until.0),
                    Err(later) => assert!(matches!(later, Blocked::Until(t) if t > until)),
                }
                now = until.0;
            }
            now += rng.below(2_000) * rng.below(2);
        }
        assert!(blocked > 1_000, "{blocked} were blocked");
    }
}

#[test]
fn packets_join_while_less_than_the_staging_is_promised() {
    // 80 ns a line, 16 ns a request: 256 bytes of staging accept four lines at once.
    let mut link = FreeTransmitter::new(&params(1_000_000_000, None));
    for line in 0..4 {
        assert_eq!(link.send(0, Drs), Ok((line * 80_000, (line + 1) * 80_000)));
    }
    let full = Err(Blocked::Until(SimTime(320_000)));
    assert_eq!(link.send(0, Ndr), full, "it is woken when all has gone");
    assert_eq!(link.send(64_000, Ndr), full);
    assert_eq!(link.send(64_001, Ndr), Ok((320_000, 336_000)));
}
