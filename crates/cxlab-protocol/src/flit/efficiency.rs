//! How full saturated flits are, by counting slots: the derivation is in `docs/flit-packing.md`.
//!
//! A fraction of the transactions are reads (M2S Req, S2M DRS), the others writes (M2S RwD, S2M
//! NDR). Nothing here runs the packer; a test holds the packer against it.

use super::FlitFormat;

/// How one direction of a link is used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DirectionEfficiency {
    /// Transactions whose messages of this direction fit in a flit, when only this direction
    /// limits.
    pub transactions_per_flit: f64,
    /// Payload bytes over raw flit bytes when only this direction limits.
    pub packed: f64,
    /// Payload bytes over raw flit bytes when the direction with fewer transactions a flit is
    /// saturated and limits both; both directions have the same raw rate.
    pub delivered: f64,
}

/// The efficiency of a saturated link in both directions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// Host to device: read requests and write data.
    pub m2s: DirectionEfficiency,
    /// Device to host: read data and write completions.
    pub s2m: DirectionEfficiency,
    /// Whether the numbers are those of an in-order transmitter, derived flit by flit; so for
    /// read fractions 1, 2/3, 1/2 and 0. Else they are the slot count alone, an
    /// estimate: an in-order transmitter reaches 87 to 104 % of it (tested in six more mixes).
    pub exact: bool,
}

impl Efficiency {
    /// Whether the host-to-device direction is the one that saturates.
    pub fn m2s_limits(&self) -> bool {
        self.m2s.transactions_per_flit <= self.s2m.transactions_per_flit
    }
}

/// The long-run efficiency of a link saturated with reads and writes, messages offered in order.
///
/// # Panics
/// If `read_fraction` is not between 0 and 1.
pub fn efficiency(format: FlitFormat, read_fraction: f64) -> Efficiency {
    assert!(
        (0.0..=1.0).contains(&read_fraction),
        "read fraction {read_fraction}"
    );
    let mix = MIXES
        .iter()
        .position(|mix| (mix - read_fraction).abs() < 1e-9);
    let m2s = m2s_slot_count(format, read_fraction);
    let s2m = match mix.and_then(|mix| in_order_s2m(format, mix)) {
        Some((transactions, flits)) => transactions / flits,
        None => s2m_slot_count(format, read_fraction),
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
        exact: mix.is_some(),
    }
}

/// The read fractions for which the flits of an in-order transmitter are written down.
const MIXES: [f64; 4] = [1.0, 2.0 / 3.0, 0.5, 0.0];

/// S2M in 256-byte flits: transactions and flits of one period of the layouts in
/// `docs/flit-packing.md`. DRS and NDR share no slot there, so the order of messages and the limit
/// of three DRS in neighbouring groups leave header slots less than full.
fn in_order_s2m(format: FlitFormat, mix: usize) -> Option<(f64, f64)> {
    match format {
        FlitFormat::B68 => None,
        FlitFormat::B256 => [Some((10.0, 3.0)), Some((24.0, 5.0)), Some((6.0, 1.0)), None][mix],
        FlitFormat::B256LatencyOptimized => {
            [Some((26.0, 8.0)), Some((9.0, 2.0)), Some((18.0, 3.0)), None][mix]
        }
    }
}

/// Transactions a flit, M2S: a read is one slot (Req), a write five (RwD and four data slots). A
/// header never shares its slot, and every format has a header for the slots that take no data,
/// so no slot is lost; the most requests in a flit are the other limit.
fn m2s_slot_count(format: FlitFormat, read_fraction: f64) -> f64 {
    let slots = f64::from(format.slots());
    let most_requests = match format {
        FlitFormat::B68 => 2.0,
        FlitFormat::B256 | FlitFormat::B256LatencyOptimized => 8.0,
    };
    (slots / (read_fraction + 5.0 * (1.0 - read_fraction))).min(most_requests / read_fraction)
}

/// Transactions a flit, S2M: four data slots a read, and header slots as full as they can be.
fn s2m_slot_count(format: FlitFormat, read_fraction: f64) -> f64 {
    let data = 4.0 * read_fraction;
    let writes = 1.0 - read_fraction;
    match format {
        // All headers in slot 0, two messages each (H3, H4, H5); two NDR a flit at most.
        FlitFormat::B68 => (4.0 / (data + 0.5)).min(2.0 / writes),
        FlitFormat::B256 | FlitFormat::B256LatencyOptimized => {
            // `h` slots take headers only, two messages each; other headers three to a slot. At
            // most six NDR in neighbouring groups are twelve a flit.
            let h = if format == FlitFormat::B256 { 1.0 } else { 2.0 };
            let all_headers_in_h = (15.0 - h) / data;
            let count = if all_headers_in_h <= 2.0 * h {
                all_headers_in_h
            } else {
                (15.0 - h + 2.0 * h / 3.0) / (data + 1.0 / 3.0)
            };
            count.min(12.0 / writes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FlitFormat, FlitPacker};
    use super::*;
    use crate::opcode::Channel;

    /// A saturated link: the messages of `reads` reads and `writes` writes in turn, each offered
    /// until a flit has room for it.
    fn packed(format: FlitFormat, reads: u32, writes: u32, m2s: bool) -> (f64, f64) {
        let (read, write) = if m2s {
            (Channel::M2sReq, Channel::M2sRwd)
        } else {
            (Channel::S2mDrs, Channel::S2mNdr)
        };
        let mut packer = FlitPacker::new(format);
        for transaction in 0..60_000 {
            let channel = if transaction % (reads + writes) < reads {
                read
            } else {
                write
            };
            let mut tries = 0;
            while packer.place(channel).is_none() {
                packer.close();
                tries += 1;
                assert!(tries < 4, "{format:?} has no place for {channel:?}");
            }
        }
        let counters = packer.counters();
        let flits = counters.flits as f64;
        let raw = flits * format.bytes() as f64;
        (
            counters.messages as f64 / flits,
            counters.payload_bytes as f64 / raw,
        )
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 0.01 * expected
    }

    #[test]
    fn a_saturated_packer_reaches_the_closed_form() {
        for format in FlitFormat::ALL {
            for (reads, writes) in [(1, 0), (2, 1), (1, 1), (0, 1)] {
                let form = efficiency(format, f64::from(reads) / f64::from(reads + writes));
                assert!(form.exact);
                for (m2s, direction) in [(true, form.m2s), (false, form.s2m)] {
                    let (transactions, payload) = packed(format, reads, writes, m2s);
                    let what =
                        format!("{format:?} {reads}:{writes} m2s {m2s} {payload} {direction:?}");
                    assert!(
                        near(transactions, direction.transactions_per_flit),
                        "{what}"
                    );
                    assert!(near(payload, direction.packed), "{what}");
                }
            }
        }
    }

    /// The slot count does not know in which order messages come: in 256-byte flits it is an
    /// upper bound.
    #[test]
    fn no_layout_beats_the_slot_count_and_none_is_far_below() {
        for format in FlitFormat::ALL {
            for (mix, read_fraction) in MIXES.into_iter().enumerate() {
                let bound = s2m_slot_count(format, read_fraction);
                if let Some((transactions, flits)) = in_order_s2m(format, mix) {
                    let share = transactions / flits / bound;
                    assert!(
                        (0.93..=1.0).contains(&share),
                        "{format:?} {read_fraction} {share}"
                    );
                }
            }
        }
    }

    #[test]
    fn other_mixes_stay_within_the_stated_distance_of_the_slot_count() {
        for format in FlitFormat::ALL {
            for (reads, writes) in [(9, 1), (4, 1), (3, 1), (3, 2), (2, 3), (1, 2)] {
                let form = efficiency(format, f64::from(reads) / f64::from(reads + writes));
                for (m2s, direction) in [(true, form.m2s), (false, form.s2m)] {
                    let (found, _) = packed(format, reads, writes, m2s);
                    let share = found / direction.transactions_per_flit;
                    let what = format!("{format:?} {reads}:{writes} m2s {m2s} {share}");
                    assert!(!form.exact && (0.87..1.04).contains(&share), "{what}");
                }
            }
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
}
