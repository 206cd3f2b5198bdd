//! A wire: its load by the messages that it carries, and their wait for it.
//!
//! The capacity follows from the flit packer's closed forms ([`efficiency`]) or from the sizes of packets. A message
//! that finds the wire busy waits for the end of the current flit or packet, on average half of its time.
//! [`crate::solve`] adds the wait for messages that are queued in front of it.

use cxlab_engine::units::Picos;
use cxlab_link::{Duplex, LinkParams, Transmission, Transmitter};
use cxlab_protocol::flit::{FlitFormat, efficiency};

use crate::flow::MessageClass;

/// The cost of a message of each class on a wire. Times in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Wire {
    /// The flit format, and the time of one flit; `None` for packets.
    flit: Option<(FlitFormat, f64)>,
    /// Time of a message that has the wire to itself, by class.
    alone: [f64; MessageClass::COUNT],
    /// Bytes of a packet, by class.
    packet: [f64; MessageClass::COUNT],
    /// Credits of a class that messages may hold at once, over all virtual channels.
    credits: [f64; MessageClass::COUNT],
    /// Time for which a message holds its credit if it does not wait at the receiver, by class.
    credit_round: [f64; MessageClass::COUNT],
    /// Whether both directions share the wire.
    half: bool,
    /// Half duplex: the turnaround time for each message when both directions are full.
    turnaround: f64,
    /// Expected time lost for each flit by retransmissions, which stall all later flits.
    retry: f64,
    /// Expected remaining retransmission time that an arriving message finds, for each flit per
    /// picosecond: half of the expected square of the time lost.
    retry_rest: f64,
}

/// Rates by message class, per picosecond.
pub(crate) type ClassRates = [f64; MessageClass::COUNT];

/// The load of a wire at given rates.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct WireLoad {
    /// Used part of the capacity if messages are packed into flits as well as possible. 1 is full.
    pub packed: f64,
    /// Part of the time for which the wire is busy; flits that leave half empty count whole.
    pub busy: f64,
    /// Part of the time for which flits are on the wire, each counted once: `busy` without the time lost to errors.
    pub(crate) sent: f64,
    /// Flits (or packets) per picosecond.
    pub(crate) flits: f64,
    /// Bytes of lines per picosecond.
    pub payload: f64,
    /// Bytes per picosecond, headers and empty slots included.
    pub bytes: f64,
}

impl Wire {
    /// One direction of a link, or both directions of a half-duplex link. `pipelines` is the
    /// constant time that the components at the two ends spend before and behind the wire. `vcs` is
    /// the number of virtual channels with credits of their own.
    pub fn new(params: &LinkParams, pipelines: Picos, vcs: u8) -> Wire {
        let alone =
            MessageClass::ALL.map(|class| Transmitter::alone_ps(params, class.channel()) as f64);
        let flit = (params.transmission == Transmission::Flit).then(|| {
            let format = params.flit_format();
            let time = format.bytes() as f64 * 1e12 / params.rate().0 as f64;
            (format, time)
        });
        let unit = flit.map_or(alone[MessageClass::Drs as usize], |(_, time)| time);
        let windows = params.windows(pipelines);
        // The number of broken transmissions of a flit before an intact one is geometric.
        let error = params.flit_error_rate.0;
        let broken = error / (1.0 - error);
        let repeat = params.retry_round_trip_ps() as f64 + unit;
        let retry = broken * repeat;
        let round = (2 * params.crossing_ps() + pipelines.0) as f64;
        let credits = MessageClass::ALL.map(|class| {
            let window = windows[class.channel().index()];
            // A sixteenth of the credits gathers at the receiver before they ride back.
            let at_hand = window - params.piggyback_threshold(window).min(window - 1);
            f64::from(at_hand) * f64::from(vcs)
        });
        let [short, long] = params.packet.sizes().map(|bytes| bytes as f64);
        let size = |class: MessageClass| match class.channel().carries_data() {
            true => long,
            false => short,
        };
        Wire {
            flit,
            alone,
            packet: MessageClass::ALL.map(size),
            credits,
            // The message and the flit that carries its credit back may both be sent again.
            credit_round: alone.map(|alone| (round + alone + 2.0 * retry).max(1.0)),
            half: params.duplex == Duplex::Half,
            turnaround: match params.duplex {
                Duplex::Full => 0.0,
                Duplex::Half => params.turnaround.0 as f64 / f64::from(params.turnaround_burst),
            },
            retry,
            retry_rest: error * (1.0 + error) / (1.0 - error).powi(2) * repeat * repeat / 2.0,
        }
    }

    /// Whether both directions share the wire (half duplex).
    pub(crate) fn is_shared(&self) -> bool {
        self.half
    }

    /// Whether flits may be corrupted and sent again.
    pub(crate) fn has_errors(&self) -> bool {
        self.retry > 0.0
    }

    /// Time of a flit in picoseconds; 0 for packets.
    pub(crate) fn flit_time(&self) -> f64 {
        self.flit.map_or(0.0, |(_, time)| time)
    }

    /// Credits of a class that messages may hold at once.
    pub(crate) fn credits(&self, class: MessageClass) -> f64 {
        self.credits[class as usize]
    }

    /// The load of the wire at these rates.
    pub fn load(&self, rates: &ClassRates) -> WireLoad {
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

    /// Part of the time that packets at these rates take.
    fn work(&self, rates: &ClassRates) -> f64 {
        let [req, rwd, ndr, drs] = *rates;
        let both = (req + rwd).min(ndr + drs) > 0.0;
        let turn = if both { self.turnaround } else { 0.0 };
        let times = rates.iter().zip(self.alone);
        times
            .map(|(rate, alone)| rate * (alone + self.retry + turn))
            .sum()
    }

    /// Flits per picosecond if messages do not wait to share a flit. A flit starts when the wire is
    /// free, and carries the messages that arrived meanwhile. The next flit follows at once unless
    /// a Poisson stream of these rates brings no message in the time of the flit; then the wire
    /// idles until one arrives. The result is never below the rate of `packed` flits.
    fn flit_rate(&self, rates: &ClassRates, packed: f64) -> f64 {
        let Some((_, time)) = self.flit else {
            return 0.0;
        };
        let all: f64 = rates.iter().sum();
        if all <= 0.0 {
            return 0.0;
        }
        // Mean time of a message that has the wire to itself.
        let times = rates.iter().zip(self.alone);
        let alone = times.map(|(rate, alone)| rate * alone).sum::<f64>() / all;
        let flits_alone = (alone / time).max(1.0);
        let busy = alone.max(time);
        let cycles = 1.0 / (busy + libm::exp(-all * busy) / all);
        (cycles * flits_alone).max(packed)
    }

    /// Used part of the credits of a class: 1 is all. `waiting` is the rate of the class times the
    /// mean wait of its messages at the receiver.
    pub(crate) fn held(&self, rates: &ClassRates, class: MessageClass, waiting: f64) -> f64 {
        let class = class as usize;
        (rates[class] * self.credit_round[class] + waiting) / self.credits[class]
    }

    /// Mean time until the current flit or packet is sent, as a message finds it that arrives at any time while others
    /// come at the rates `others`. The message's own retransmissions are included. `flits` is the flit rate of all
    /// messages, the host's own too: a retransmission stalls every flit behind it.
    pub(crate) fn residual(&self, others: &ClassRates, flits: f64) -> f64 {
        let front = match self.flit {
            Some((_, time)) => self.load(others).sent * time / 2.0,
            None => {
                let times = others.iter().zip(self.alone);
                times.map(|(rate, alone)| rate * alone * alone / 2.0).sum()
            }
        };
        front + self.retry + flits * self.retry_rest
    }
}

/// Flits that reads (Req or DRS) and writes (RwD or NDR) of one direction fill.
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

    /// A wire is full at the rate of the closed form, in both directions and all formats.
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

    /// At light traffic messages do not share flits: each takes one, or two if its data do not fit.
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
        // 16 B and 80 B at 128 GB/s, and for each a sixteenth of a turnaround of 1 ns.
        let expected = rate * (125.0 + 625.0 + 2.0 * 62.5);
        assert!((load.busy / expected - 1.0).abs() < 1e-9, "{load:?}");
        assert!((load.bytes / rate - 96.0).abs() < 1e-9);
    }
}
