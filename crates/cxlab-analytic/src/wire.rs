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
    /// Credits of a class that messages may hold at once.
    credits: [f64; Class::COUNT],
    /// For how long a message holds one that never waits at the receiver.
    credit_round: [f64; Class::COUNT],
    /// Whether both directions share it.
    half: bool,
    /// Half duplex: what turning round costs a message when both directions are full.
    turnaround: f64,
    /// Expected time lost by a flit to errors: it is sent again, and all behind it waits.
    retry: f64,
    /// The rest of such a time that a message finds, for each flit that is sent in a picosecond: half of the
    /// expected square.
    retry_rest: f64,
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
    /// The part of time that flits take on the wire, those that are sent again once: what is left of `busy` without errors.
    pub(crate) sent: f64,
    /// Flits (or packets) in a picosecond.
    pub(crate) flits: f64,
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
        // Transmissions of a flit that break before one that does not are geometric.
        let error = params.flit_error_rate.0;
        let broken = error / (1.0 - error);
        let repeat = params.retry_round_trip_ps() as f64 + unit;
        let retry = broken * repeat;
        let round = (2 * params.crossing_ps() + pipelines.0) as f64;
        let credits = Class::ALL.map(|class| {
            let window = windows[class.channel().index()];
            // A sixteenth gathers before it takes a ride back.
            let at_hand = window - params.rides_at(window).min(window - 1);
            f64::from(at_hand) * f64::from(vcs)
        });
        let [short, long] = params.packet.sizes().map(|bytes| bytes as f64);
        let size = |class: Class| match class.channel().carries_data() {
            true => long,
            false => short,
        };
        Wire {
            flit,
            alone,
            packet: Class::ALL.map(size),
            credits,
            // The message and its credit's ride back both may be repeated.
            credit_round: Class::ALL
                .map(|class| (round + alone[class as usize] + 2.0 * retry).max(1.0)),
            half: params.duplex == Duplex::Half,
            turnaround: match params.duplex {
                Duplex::Full => 0.0,
                Duplex::Half => params.turnaround.0 as f64 / f64::from(params.turnaround_burst),
            },
            retry,
            retry_rest: error * (1.0 + error) / (1.0 - error).powi(2) * repeat * repeat / 2.0,
        }
    }

    /// Whether both directions share it, in turn.
    pub(crate) fn is_shared(&self) -> bool {
        self.half
    }

    /// Whether what it carries may have to be sent again.
    pub(crate) fn has_errors(&self) -> bool {
        self.retry > 0.0
    }

    /// Time of a flit; of packets, none.
    pub(crate) fn flit_time(&self) -> f64 {
        self.flit.map_or(0.0, |(_, time)| time)
    }

    /// Messages of a class that credits allow under way.
    pub(crate) fn credits(&self, class: Class) -> f64 {
        self.credits[class as usize]
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
                    sent: (sent * time).min(1.0),
                    flits: sent,
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
                    sent: busy,
                    flits: rates.iter().sum(),
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

    /// How much of a class's credits is held, where its messages wait so long in the receiver, summed over
    /// those that come in a picosecond: 1 is all.
    pub(crate) fn held(&self, rates: &Rates, class: Class, waiting: f64) -> f64 {
        let class = class as usize;
        (rates[class] * self.credit_round[class] + waiting) / self.credits[class]
    }

    /// Mean time until what is on the wire is sent, seen by a message that comes at any time,
    /// where others come at these rates; and for being sent again itself. `flits` are those of all messages in a
    /// picosecond: what is sent again stops what comes behind it, whosever it is.
    pub(crate) fn residual(&self, others: &Rates, flits: f64) -> f64 {
        let front = match self.flit {
            Some((_, time)) => self.load(others).sent * time / 2.0,
            None => (0..Class::COUNT)
                .map(|class| others[class] * self.alone[class] * self.alone[class] / 2.0)
                .sum(),
        };
        front + self.retry + flits * self.retry_rest
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
