//! A wire: how busy messages make it, and how long one waits for it.
//!
//! Capacity is that of the flit packer's closed forms ([`efficiency`]) or of the packets' sizes.
//! A message that finds the wire at work waits for the end of the flit (or packet) in front, half
//! of one on average; what waits besides is [`crate::solve`]'s.

use cxlab_engine::units::Picos;
use cxlab_link::{Duplex, LinkParams, Transmission, Transmitter};
use cxlab_protocol::flit::{FlitFormat, efficiency};

use crate::flow::Class;

/// What a wire does with messages of each class. Times in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Wire {
    /// The flits' format and the time of one; `None` for packets.
    flit: Option<(FlitFormat, f64)>,
    /// Time of a message alone, by class.
    alone: [f64; Class::COUNT],
    /// Bytes of a packet, by class.
    packet: [f64; Class::COUNT],
    /// Most messages of a class in a picosecond that credits allow.
    credit_rate: [f64; Class::COUNT],
    /// Half duplex: what turning round costs a message when both directions are full.
    turnaround: f64,
    /// Expected time lost by a flit to errors: it is sent again, and all behind it waits.
    retry: f64,
}

/// Rates of messages by class, per picosecond.
pub(crate) type Rates = [f64; Class::COUNT];

/// How a wire is used at some rates.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct WireLoad {
    /// The part of its capacity in use, of messages that are packed as well as they can be: 1 is
    /// full.
    pub packed: f64,
    /// The part of time that it is busy: flits that leave half empty count whole.
    pub busy: f64,
    /// Bytes of lines in a picosecond.
    pub payload: f64,
    /// Bytes in a picosecond, headers and empty slots included.
    pub bytes: f64,
}

impl Wire {
    /// One direction of a link, or both when it is half duplex. `pipelines` is the constant time that
    /// the components at both ends spend before and behind it; `vcs` is how many virtual channels have
    /// credits of their own.
    pub fn new(params: &LinkParams, pipelines: Picos, vcs: u8) -> Wire {
        let alone = Class::ALL.map(|class| Transmitter::alone_ps(params, class.channel()) as f64);
        let flit = (params.transmission == Transmission::Flit).then(|| {
            let format = params.flit_format();
            let time = format.bytes() as f64 * 1e12 / params.rate().0 as f64;
            (format, time)
        });
        let unit = flit.map_or(alone[Class::Drs as usize], |(_, time)| time);
        let windows = params.windows(pipelines);
        let credit_round = (2 * params.crossing_ps() + pipelines.0) as f64;
        let credit_rate = Class::ALL.map(|class| {
            let window = windows[class.channel().index()];
            // A sixteenth gathers before it takes a ride back.
            let at_hand = window - params.rides_at(window).min(window - 1);
            let round = credit_round + alone[class as usize];
            f64::from(at_hand) * f64::from(vcs) / round.max(1.0)
        });
        // Transmissions of a flit that break before one that does not.
        let broken = params.flit_error_rate.0 / (1.0 - params.flit_error_rate.0);
        let [short, long] = params.packet.sizes().map(|bytes| bytes as f64);
        let size = |class: Class| match class.channel().carries_data() {
            true => long,
            false => short,
        };
        Wire {
            flit,
            alone,
            packet: Class::ALL.map(size),
            credit_rate,
            turnaround: match params.duplex {
                Duplex::Full => 0.0,
                Duplex::Half => params.turnaround.0 as f64 / f64::from(params.turnaround_burst),
            },
            retry: broken * (params.retry_round_trip_ps() as f64 + unit),
        }
    }

    /// How busy these rates make it.
    pub fn load(&self, rates: &Rates) -> WireLoad {
        let [req, rwd, ndr, drs] = *rates;
        let lines = rwd + drs;
        match self.flit {
            Some((format, time)) => {
                let packed = flits(format, req, rwd, true) + flits(format, drs, ndr, false);
                let cost = time + self.retry;
                let sent = self.flit_rate(rates, packed);
                WireLoad {
                    packed: packed * cost,
                    busy: sent * cost,
                    payload: lines * 64.0,
                    bytes: sent * format.bytes() as f64,
                }
            }
            None => {
                let busy = self.work(rates);
                let sizes = rates.iter().zip(self.packet);
                WireLoad {
                    packed: busy,
                    busy,
                    payload: lines * 64.0,
                    bytes: sizes.map(|(rate, size)| rate * size).sum(),
                }
            }
        }
    }

    /// Time that packets at these rates take, of each picosecond.
    fn work(&self, rates: &Rates) -> f64 {
        let [req, rwd, ndr, drs] = *rates;
        let both = (req + rwd).min(ndr + drs) > 0.0;
        let turn = if both { self.turnaround } else { 0.0 };
        (0..Class::COUNT)
            .map(|class| rates[class] * (self.alone[class] + self.retry + turn))
            .sum()
    }

    /// Flits in a picosecond, where messages that come at these rates do not wait to share one: a
    /// flit begins when the wire is free, and takes along what came meanwhile. Between flits that
    /// follow each other and the first message after an idle time, of a Poisson stream. Never
    /// fewer than packed ones.
    fn flit_rate(&self, rates: &Rates, packed: f64) -> f64 {
        let Some((_, time)) = self.flit else {
            return 0.0;
        };
        let all: f64 = rates.iter().sum();
        if all <= 0.0 {
            return 0.0;
        }
        // Flits that a message alone takes, on average.
        let alone: f64 = (0..Class::COUNT)
            .map(|class| rates[class] * self.alone[class])
            .sum::<f64>()
            / all;
        let flits_alone = (alone / time).max(1.0);
        let busy = alone.max(time);
        let cycles = 1.0 / (busy + libm::exp(-all * busy) / all);
        (cycles * flits_alone).max(packed)
    }

    /// How much of what any class may use is used, with its credits: 1 is full.
    pub(crate) fn used(&self, load: &WireLoad, rates: &Rates, class: Class) -> f64 {
        let credits = rates[class as usize] / self.credit_rate[class as usize];
        load.packed.max(credits)
    }

    /// Mean time until what is on the wire is sent, seen by a message that comes at any time,
    /// where others come at these rates; and for being sent again itself.
    pub(crate) fn residual(&self, others: &Rates) -> f64 {
        let front = match self.flit {
            Some((_, time)) => self.load(others).busy.min(1.0) * time / 2.0,
            None => (0..Class::COUNT)
                .map(|class| others[class] * self.alone[class] * self.alone[class] / 2.0)
                .sum(),
        };
        front + self.retry
    }
}

/// Flits that the messages of reads (Req or DRS) and writes (RwD or NDR) of one direction fill.
fn flits(format: FlitFormat, reads: f64, writes: f64, m2s: bool) -> f64 {
    let all = reads + writes;
    if all <= 0.0 {
        return 0.0;
    }
    let form = efficiency(format, (reads / all).clamp(0.0, 1.0));
    let direction = if m2s { form.m2s } else { form.s2m };
    all / direction.transactions_per_flit
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::Bytes;
    use cxlab_link::{PacketHeader, PcieGeneration};

    use super::*;

    /// The closed form is what the wire is full at, in both directions and all formats.
    #[test]
    fn a_wire_is_full_at_the_rate_of_the_closed_form() {
        for generation in [PcieGeneration::Gen5, PcieGeneration::Gen6] {
            let params = LinkParams {
                generation,
                ..LinkParams::default()
            };
            let wire = Wire::new(&params, Picos(0), 1);
            let form = efficiency(params.flit_format(), 1.0);
            let rate = params.rate().0 as f64 * form.s2m.packed / 64.0 / 1e12;
            let load = wire.load(&[0.0, 0.0, 0.0, rate]);
            assert!((load.packed - 1.0).abs() < 1e-9, "{load:?}");
            assert!((load.payload / load.bytes - form.s2m.packed).abs() < 1e-9);
        }
    }

    /// Light traffic does not share flits: each message takes one, two where its data do not fit.
    #[test]
    fn messages_that_come_alone_take_their_own_flits() {
        let params = LinkParams::default();
        let wire = Wire::new(&params, Picos(0), 1);
        let rate = 1e-9;
        let load = wire.load(&[rate, 0.0, 0.0, 0.0]);
        assert!((load.bytes / rate - 256.0).abs() < 0.1, "{load:?}");
        assert!(load.busy > 5.0 * load.packed);
    }

    #[test]
    fn packets_take_their_bytes_and_a_bus_its_turns() {
        let params = LinkParams {
            transmission: Transmission::Packet,
            duplex: Duplex::Half,
            packet: PacketHeader {
                header: Bytes(16),
                ..PacketHeader::default()
            },
            ..LinkParams::default()
        };
        let wire = Wire::new(&params, Picos(0), 1);
        let rate = 1e-6;
        let load = wire.load(&[rate, 0.0, 0.0, rate]);
        // 16 B and 80 B at 128 GB/s, and a sixteenth of a turn of 1 ns each.
        let expected = rate * (125.0 + 625.0 + 2.0 * 62.5);
        assert!((load.busy / expected - 1.0).abs() < 1e-9, "{load:?}");
        assert!((load.bytes / rate - 96.0).abs() < 1e-9);
    }
}
