//! How full saturated flits are, by counting slots. The derivation is in `docs/explain/flit-packing.md`.
//!
//! A fraction of the transactions are reads (M2S Req, S2M DRS), the others writes (M2S RwD, S2M
//! NDR). Messages of both classes are always queued, and the transmitter may send either. Every
//! number comes from the slot formats and the message limits of CXL 3.1, chapter 4; none comes from
//! running the packer. Tests check the packer against these numbers.

use super::FlitFormat;

/// How one direction of a link is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DirectionEfficiency {
    /// Transactions whose messages of this direction fit in a flit, if only this direction limits.
    pub transactions_per_flit: f64,
    /// Payload bytes over raw flit bytes, if only this direction limits.
    pub packed: f64,
    /// Payload bytes over raw flit bytes, if the direction with fewer transactions per flit is
    /// saturated and limits both directions. Both have the same raw rate.
    pub delivered: f64,
}

/// The efficiency of a saturated link in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// Host to device: read requests and write data.
    pub m2s: DirectionEfficiency,
    /// Device to host: read data and write completions.
    pub s2m: DirectionEfficiency,
}

impl Efficiency {
    /// Whether the host-to-device direction is the one that saturates.
    pub fn m2s_limits(&self) -> bool {
        self.m2s.transactions_per_flit <= self.s2m.transactions_per_flit
    }
}

/// The long-run efficiency of a link saturated with reads and writes.
///
/// Consider a transmitter that sends the oldest message and, if that does not fit, the oldest of
/// the other class. It is within 1 % of this efficiency for writes alone and for read fractions
/// from 1/2 on, with three exceptions:
///
/// - S2M in 256-byte flits at 1/2: 4.5 % (standard) and 2.3 % (latency-optimised) below.
/// - M2S in 256-byte flits between 4/5 and 1: up to 9 % below.
/// - S2M in PBR flits between 1/2 and 1: up to 3.4 % below.
///
/// In the first two cases the other direction limits, so `delivered` is correct. In the third case
/// S2M may limit. With fewer reads than writes, the S2M number is an estimate that the transmitter
/// can miss by a quarter; M2S limits there.
///
/// # Panics
/// If `read_fraction` is not between 0 and 1.
pub fn efficiency(format: FlitFormat, read_fraction: f64) -> Efficiency {
    assert!(
        (0.0..=1.0).contains(&read_fraction),
        "read fraction {read_fraction}"
    );
    let m2s = m2s_transactions(format, read_fraction);
    let s2m = match format {
        FlitFormat::B68 => s2m_transactions_68(read_fraction),
        FlitFormat::B256 | FlitFormat::B256Pbr | FlitFormat::B256LatencyOptimized => {
            s2m_transactions_256(format, read_fraction)
        }
    };
    let both = m2s.min(s2m);
    let direction = |own: f64, lines: f64| DirectionEfficiency {
        transactions_per_flit: own,
        packed: own * lines * 64.0 / format.bytes() as f64,
        delivered: both * lines * 64.0 / format.bytes() as f64,
    };
    Efficiency {
        m2s: direction(m2s, 1.0 - read_fraction),
        s2m: direction(s2m, read_fraction),
    }
}

/// Transactions per flit, M2S. A read takes one slot (Req), a write five (RwD and four data slots). No slot
/// is lost: a header never shares its slot, and every format has a header for the slots that take no data.
///
/// The other limit is the number of requests. 68-byte flits hold two (CXL 3.1, section 4.2.5). If
/// an RwD joins them, its data leave room for at most one message in the next flit, so two messages
/// per flit is the maximum. In 256-byte flits, neighbouring groups hold four requests (table 4-18).
/// A flit thus has 16 places, of which a request takes two. A line takes at least one, because its
/// five slots leave at most three of some two groups free: `2 r m + (1 - r) m <= 16`.
fn m2s_transactions(format: FlitFormat, read_fraction: f64) -> f64 {
    let slots = f64::from(format.slots());
    let by_requests = match format {
        FlitFormat::B68 => 2.0,
        FlitFormat::B256 | FlitFormat::B256Pbr | FlitFormat::B256LatencyOptimized => {
            16.0 / (1.0 + read_fraction)
        }
    };
    (slots / (5.0 - 4.0 * read_fraction)).min(by_requests)
}

/// Transactions per flit, S2M in 68-byte flits. A read takes four data slots, and each message half
/// a header slot: slot 0 is filled first and holds two headers (H3, H4, H5), and a data header in
/// slot 0 fills slots 1 to 3 with data. A flit holds at most two NDR (CXL 3.1, section 4.2.5).
fn s2m_transactions_68(read_fraction: f64) -> f64 {
    let by_slots = 4.0 / (4.0 * read_fraction + 0.5);
    by_slots.min(2.0 / (1.0 - read_fraction))
}

/// Transactions per flit, S2M in 256-byte flits: the linear programme "most messages such that
/// lines and headers fit". A slot that takes headers only (H and HS) holds two messages. Any other
/// slot (G) holds three, and two in PBR flits.
fn s2m_transactions_256(format: FlitFormat, read_fraction: f64) -> f64 {
    let slots = f64::from(format.slots());
    // Slots that take headers only: slot 0, and slot 8 of latency-optimised flits.
    let h = f64::from(format.halves());
    let data = 4.0 * read_fraction;
    let in_slot = match format {
        FlitFormat::B256Pbr => 2.0,
        _ => 3.0,
    };
    // Data fill all G slots. The 2h messages of the H slots take none of them, and each further
    // message takes its part of a G slot.
    let data_alone = (slots - h) / data;
    let with_headers = (slots - h + 2.0 * h / in_slot) / (data + 1.0 / in_slot);
    // Six NDR in neighbouring groups are twelve per flit (CXL 3.1, table 4-18).
    let completions = 12.0 / (1.0 - read_fraction);
    let lines = most_lines(format) / read_fraction;
    data_alone.min(with_headers).min(completions).min(lines)
}

/// Largest number of lines per 256-byte flit, if every slot that takes a DRS is filled with DRS.
///
/// Standard flits: three DRS in neighbouring groups (CXL 3.1, table 4-18) bar slot 0 after three
/// DRS in slots 12 to 14. With `k` data slots rolled over, two DRS in slot 0 give `k + 8`. Of
/// these, 14 fit, or a slot after them takes three DRS more. From any start this ends in 3 -> 10
/// (five lines, three of them in slot 12), 10 -> 9 (slot 0 barred; three lines in slot 11), 9 -> 3
/// (two lines): ten lines in three flits.
///
/// PBR flits: two DRS per slot, and one in slot 0 after two in slots 12 to 14. From any start this
/// ends in 5 -> 8 (four lines, two of them in slot 14), 8 -> 7, 7 -> 6 and 6 -> 5 (three lines
/// each, one of them in slot 0): thirteen lines in four flits.
///
/// Latency-optimised flits: four DRS in slots 0 and 8 are more than the 13/4 that data slots allow.
fn most_lines(format: FlitFormat) -> f64 {
    match format {
        FlitFormat::B256 => 10.0 / 3.0,
        FlitFormat::B256Pbr => 13.0 / 4.0,
        FlitFormat::B68 | FlitFormat::B256LatencyOptimized => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::{FlitFormat, FlitPacker};
    use super::*;
    use crate::opcode::Channel;

    /// Which of two queued classes the transmitter offers first.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Choice {
        /// The older message.
        Oldest,
        /// The class whose header was placed last, so that slots are filled once opened.
        FillSlot,
    }

    /// How far a message may overtake the oldest queued message, in transactions.
    const WINDOW: u32 = 8;

    /// Transactions per flit and payload share of a saturated link. Reads and writes are evenly
    /// mixed, and the transmitter offers the next message of either class until neither fits.
    fn packed(format: FlitFormat, mix: (u32, u32), m2s: bool, choice: Choice) -> (f64, f64) {
        let channels = if m2s {
            [Channel::M2sReq, Channel::M2sRwd]
        } else {
            [Channel::S2mDrs, Channel::S2mNdr]
        };
        let (reads, writes) = mix;
        let mut waiting = [VecDeque::new(), VecDeque::new()];
        for transaction in 0..60_000 {
            let at = transaction % (reads + writes);
            let written = |count: u32| count * writes / (reads + writes);
            waiting[usize::from(written(at + 1) > written(at))].push_back(transaction);
        }
        let mut packer = FlitPacker::new(format);
        while waiting.iter().any(|class| !class.is_empty()) {
            fill_flit(&mut packer, &mut waiting, channels, choice);
            packer.close();
        }
        let counters = packer.counters();
        let flits = counters.flits as f64;
        (
            counters.messages as f64 / flits,
            counters.payload_bytes as f64 / (flits * format.bytes() as f64),
        )
    }

    fn fill_flit(
        packer: &mut FlitPacker,
        waiting: &mut [VecDeque<u32>; 2],
        channels: [Channel; 2],
        choice: Choice,
    ) {
        let mut open = [true; 2];
        let mut last = None;
        loop {
            let oldest = waiting.iter().filter_map(|class| class.front()).min();
            let Some(reach) = oldest.map(|oldest| oldest + WINDOW) else {
                return;
            };
            let offered = (0..2)
                .filter(|&class| open[class])
                .filter_map(|class| Some((*waiting[class].front()?, class)))
                .filter(|&(age, _)| age <= reach)
                .min_by_key(|&(age, class)| {
                    let goes_on = choice == Choice::FillSlot && last == Some(class);
                    (!goes_on, age)
                });
            let Some((_, class)) = offered else {
                return;
            };
            if packer.place(channels[class]).is_some() {
                waiting[class].pop_front();
                last = Some(class);
            } else {
                open[class] = false;
            }
        }
    }

    const MIXES: [(u32, u32); 4] = [(1, 0), (2, 1), (1, 1), (0, 1)];

    fn form(format: FlitFormat, (reads, writes): (u32, u32)) -> Efficiency {
        efficiency(format, f64::from(reads) / f64::from(reads + writes))
    }

    /// Transactions per flit that the packer reaches, over those of the closed form. The payload
    /// has the same ratio.
    fn share(format: FlitFormat, mix: (u32, u32), m2s: bool, choice: Choice) -> f64 {
        let form = form(format, mix);
        let direction = if m2s { form.m2s } else { form.s2m };
        let (transactions, payload) = packed(format, mix, m2s, choice);
        let share = transactions / direction.transactions_per_flit;
        assert!((payload - share * direction.packed).abs() < 1e-3);
        share
    }

    fn assert_near(share: f64, what: impl std::fmt::Debug) {
        assert!((0.99..=1.01).contains(&share), "{what:?}: {share}");
    }

    /// Opened slots are filled, so only the count of slots limits. The one exception, 68-byte flits
    /// at 2 : 1, has its own test below. M2S headers share no slot, so there is nothing to fill.
    #[test]
    fn a_transmitter_that_fills_the_slots_it_opens_reaches_the_slot_count() {
        for format in FlitFormat::ALL {
            for mix in MIXES {
                if (format, mix) != (FlitFormat::B68, (2, 1)) {
                    assert_near(share(format, mix, false, Choice::FillSlot), (format, mix));
                }
            }
        }
    }

    /// The components of the simulator send in this order.
    #[test]
    fn a_transmitter_that_sends_the_oldest_first_reaches_it_wherever_it_limits() {
        for format in FlitFormat::ALL {
            for mix in MIXES {
                for m2s in [true, false] {
                    let share = share(format, mix, m2s, Choice::Oldest);
                    match (format, mix, m2s) {
                        // The transmitter opens a slot for the first NDR, and a DRS cannot go back
                        // to slot 0: six transactions per flit instead of 44/7 and 43/7.
                        (FlitFormat::B256, (1, 1), false) => {
                            assert_near(share * 44.0 / 42.0, (format, mix));
                        }
                        (FlitFormat::B256Pbr, (2, 1), false) => {
                            assert!((0.98..=1.0).contains(&share), "{share}");
                        }
                        (FlitFormat::B256LatencyOptimized, (1, 1), false) => {
                            assert_near(share * 43.0 / 42.0, (format, mix));
                        }
                        _ => assert_near(share, (format, mix, m2s)),
                    }
                }
            }
            assert!(form(format, (1, 1)).m2s_limits());
        }
    }

    /// Two NDR in slot 0 and three DRS in one G slot (2.5 messages per header slot), alternating
    /// with two DRS in slot 0, would be 48/37 transactions per flit, 2.7 % above the closed form.
    #[test]
    fn completions_in_slot_0_and_data_headers_behind_gain_in_68_byte_flits() {
        let share = share(FlitFormat::B68, (2, 1), false, Choice::FillSlot);
        let most = (4.0 / (8.0 / 3.0 + 1.0 / 2.4))
            / form(FlitFormat::B68, (2, 1)).s2m.transactions_per_flit;
        assert!((1.026..1.028).contains(&most), "{most}");
        assert!((1.01..=most).contains(&share), "{share}");
    }

    #[test]
    fn other_mixes_stay_within_the_stated_distance() {
        let mixes = [
            (19, 1),
            (9, 1),
            (5, 1),
            (4, 1),
            (3, 1),
            (3, 2),
            (2, 3),
            (1, 2),
            (1, 3),
            (1, 4),
            (1, 9),
        ];
        for format in FlitFormat::ALL {
            for mix in mixes {
                let m2s = share(format, mix, true, Choice::Oldest);
                if format != FlitFormat::B68 && mix.0 > 4 * mix.1 {
                    assert!((0.91..=1.0).contains(&m2s), "{format:?} {mix:?} {m2s}");
                    assert!(!form(format, mix).m2s_limits());
                } else {
                    assert_near(m2s, (format, mix));
                }
                let s2m = share(format, mix, false, Choice::Oldest);
                if mix.0 > mix.1 && format == FlitFormat::B256Pbr {
                    assert!((0.96..=1.01).contains(&s2m), "{mix:?} {s2m}");
                } else if mix.0 > mix.1 {
                    assert_near(s2m, (format, mix));
                } else {
                    assert!((0.74..=1.01).contains(&s2m), "{format:?} {mix:?} {s2m}");
                    assert!(form(format, mix).m2s_limits());
                }
            }
        }
    }

    /// The lines of `flits` flits of reads alone after ten per cent as many, computed from the rules and
    /// not with the packer. `start` data slots are rolled over at first; a slot has room for `in_slot` DRS.
    fn lines_by_the_rules(start: u32, in_slot: u32, flits: u32) -> u32 {
        let (mut rolled, mut in_d, mut lines) = (start, 0, 0);
        for flit in 0..flits / 10 + flits {
            if flit == flits / 10 {
                lines = 0;
            }
            let in_slot_0 = 2.min(3 - in_d);
            lines += in_slot_0;
            rolled += 4 * in_slot_0;
            in_d = 0;
            if rolled < 14 {
                // DRS after the data: not in group B, which counts with slot 0.
                let slot = rolled + 1;
                assert!(slot >= 8);
                in_d = if slot >= 12 { in_slot } else { 0 };
                lines += in_slot;
                rolled = slot + 4 * in_slot - 14;
            } else {
                rolled -= 14;
            }
        }
        lines
    }

    #[test]
    fn lines_per_flit_are_most_lines_whatever_the_start() {
        for start in 0..=16 {
            let standard = lines_by_the_rules(start, 3, 300);
            assert_eq!(standard, 1000, "ten in three standard flits, from {start}");
            let pbr = lines_by_the_rules(start, 2, 400);
            assert_eq!(pbr, 1300, "thirteen in four PBR flits, from {start}");
        }
    }

    #[test]
    fn reads_alone_in_68_byte_flits_take_nine_half_slots_a_line() {
        let form = efficiency(FlitFormat::B68, 1.0);
        assert!((form.s2m.packed - 64.0 / (4.5 * 17.0)).abs() < 1e-12);
        assert!(!form.m2s_limits());
        let writes = efficiency(FlitFormat::B68, 0.0);
        assert!((writes.m2s.delivered - 64.0 / (5.0 * 17.0)).abs() < 1e-12);
        assert!(writes.m2s_limits());
    }

    #[test]
    fn mixed_reads_in_256_byte_flits_are_what_counting_by_hand_gives() {
        for (format, mix, by_hand) in [
            (FlitFormat::B256, (2, 1), 44.0 / 54.0),
            (FlitFormat::B256, (1, 1), 11.0 / 14.0),
            (FlitFormat::B256Pbr, (2, 1), 15.0 / 19.0),
            (FlitFormat::B256Pbr, (1, 1), 3.0 / 4.0),
            (FlitFormat::B256LatencyOptimized, (2, 1), 43.0 / 54.0),
            (FlitFormat::B256LatencyOptimized, (1, 1), 43.0 / 56.0),
        ] {
            assert!((form(format, mix).s2m.packed - by_hand).abs() < 1e-12);
        }
    }
}
