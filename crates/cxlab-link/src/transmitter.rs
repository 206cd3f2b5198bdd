//! The transmitting side of one direction of a link: what is sent when.
//!
//! The transmitter has no events of its own. Its state is brought up to date when it is read. The time of
//! arrival of a message is known as soon as it is sent, because a message with a reserved place on the wire
//! goes before every later one. A transmitter that cannot accept a message returns the time until which it
//! is blocked: until the open flit begins, or the staged packets have gone.

use std::mem::offset_of;

use cxlab_engine::CACHE_LINE;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;
use cxlab_protocol::{Channel, IoPacket, WireSpace};

use crate::errors::FlitErrors;
use crate::flits::FlitTransmitter;
use crate::params::{LinkParams, Transmission};
use crate::timeline::{Departure, WireTimeline};

/// Why a message cannot be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// No credit: the receiver's buffer has no free place for the message.
    Credits,
    /// The transmitter is full until this time, when it has room for any message.
    Until(SimTime),
}

/// Traffic of one direction of a link since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DirectionStats {
    /// Number of messages of all classes sent.
    pub messages: u64,
    /// Flits (or packets) sent, retries not counted.
    pub flits: u64,
    /// All bytes sent, headers and padding included.
    pub bytes: u64,
    /// Bytes of 64-byte cache lines, and of CXL.io payloads, among them.
    pub payload_bytes: u64,
    /// Time that the wire was busy, in picoseconds.
    pub busy_ps: u64,
    /// Flits (or packets) that had to be sent again.
    pub retries: u64,
}

impl DirectionStats {
    /// Adds the traffic of another measurement window.
    pub fn merge(&mut self, other: &DirectionStats) {
        self.messages += other.messages;
        self.flits += other.flits;
        self.bytes += other.bytes;
        self.payload_bytes += other.payload_bytes;
        self.busy_ps += other.busy_ps;
        self.retries += other.retries;
    }
}

/// A departure, or its absence: then `start` is `SimTime::NEVER`, and `end` is the time until which the
/// transmitter is full. Two numbers are returned in registers, but a `Result` is not.
struct CodedDeparture(Departure);

impl CodedDeparture {
    #[inline(always)]
    fn of(departure: Result<Departure, SimTime>) -> CodedDeparture {
        CodedDeparture(departure.unwrap_or_else(|until| Departure {
            start: SimTime::NEVER,
            end: until,
        }))
    }

    #[inline(always)]
    fn decoded(self) -> Result<Departure, SimTime> {
        match self.0.start {
            SimTime::NEVER => Err(self.0.end),
            _ => Ok(self.0),
        }
    }
}

/// The transmitting side of one direction of a link. The state that a send needs is stored in one cache
/// line, unless the link injects errors or sends flits, whose packer adds eight bytes.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Transmitter {
    /// Until when the wire is reserved, and how long it was busy.
    wire: WireTimeline,
    /// Messages without and with data sent since measurement began.
    sent: [u64; 2],
    units: SendUnits,
    errors: Option<Box<FlitErrors>>,
    /// Bytes of a packet without data, and of one with data.
    bytes: [u64; 2],
    /// Statistics of CXL.io packets.
    io: IoPackets,
    /// When the last flit that carries only credits leaves.
    credits_end: SimTime,
}

/// Only the open flit's packer, the last eight bytes of `units`, is stored beyond the first cache line.
const _: () = assert!(offset_of!(Transmitter, units) + size_of::<SendUnits>() == CACHE_LINE + 8);

save_state!(Transmitter {
    values: sent, credits_end;
    states: wire, errors, units, io;
    built: bytes;
});

/// The units in which messages are sent.
#[derive(Clone, Debug)]
enum SendUnits {
    /// Time of a packet without data and of one with data, in 2^-16 ps.
    Packets([u64; 2]),
    Flits(FlitTransmitter),
}

impl SaveState for SendUnits {
    fn save(&self, out: &mut StateWriter) {
        match self {
            SendUnits::Packets(_) => {}
            SendUnits::Flits(flits) => flits.save(out),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            SendUnits::Packets(_) => Ok(()),
            SendUnits::Flits(flits) => flits.restore(from),
        }
    }
}

/// State of a transmitter for CXL.io packets.
#[derive(Clone, Copy, Default, Debug)]
struct IoPackets {
    /// Rate of the wire, bytes per second.
    rate: u64,
    sent: u64,
    bytes: u64,
    payload: u64,
}

save_state!(IoPackets {
    values: sent, bytes, payload;
    built: rate;
});

impl Transmitter {
    /// The transmitter of a link with these parameters. `name` keys the random stream of error injection.
    pub(crate) fn new(params: &LinkParams, seed: u64, name: &str) -> Transmitter {
        let rate = params.rate().0;
        let bytes = params.packet.sizes();
        let units = match params.transmission {
            Transmission::Flit => {
                let format = params.flit_format();
                SendUnits::Flits(FlitTransmitter::new(
                    format,
                    WireTimeline::time_of(format.bytes(), rate),
                ))
            }
            Transmission::Packet => {
                SendUnits::Packets(bytes.map(|bytes| WireTimeline::time_of(bytes, rate)))
            }
        };
        let staging = WireTimeline::picos(WireTimeline::time_of(params.packet.staging.0, rate));
        let staging = u32::try_from(staging).unwrap_or(u32::MAX);
        let errors = FlitErrors::of(params, seed, name).map(Box::new);
        Transmitter {
            wire: WireTimeline::new(staging, errors.is_none()),
            sent: [0, 0],
            units,
            errors,
            bytes,
            io: IoPackets {
                rate,
                ..IoPackets::default()
            },
            credits_end: SimTime::ZERO,
        }
    }

    /// The state of flit transmission; `None` in packet transmission.
    #[inline]
    fn flits(&self) -> Option<&FlitTransmitter> {
        match &self.units {
            SendUnits::Packets(_) => None,
            SendUnits::Flits(flits) => Some(flits),
        }
    }

    /// The state of flit transmission, the wire's timeline, and the error injection.
    #[inline]
    fn flits_mut(
        &mut self,
    ) -> Option<(
        &mut FlitTransmitter,
        &mut WireTimeline,
        &mut Option<Box<FlitErrors>>,
    )> {
        match &mut self.units {
            SendUnits::Packets(_) => None,
            SendUnits::Flits(flits) => Some((flits, &mut self.wire, &mut self.errors)),
        }
    }

    /// Time from the start to the last byte of a message that is alone on an idle link without errors, in
    /// picoseconds. The link must carry the class `channel`.
    pub fn alone_ps(params: &LinkParams, channel: Channel) -> u64 {
        let faultless = LinkParams {
            flit_error_rate: Default::default(),
            ..params.clone()
        };
        let mut alone = Transmitter::new(&faultless, 0, "");
        match alone
            .send_elaborate(SimTime::ZERO, channel, false)
            .decoded()
        {
            Ok(departure) => departure.end.0 - departure.start.0,
            Err(_) => unreachable!("nothing was sent before"),
        }
    }

    /// Sends a CXL.mem message of class `channel` if it can go at `now`. `wire_space` returns the space that
    /// the message takes beyond its class.
    ///
    /// # Errors
    /// The time until which the transmitter is full; its state is unchanged then.
    #[inline(always)]
    pub(crate) fn send_mem(
        &mut self,
        now: SimTime,
        channel: Channel,
        wire_space: impl FnOnce() -> WireSpace,
    ) -> Result<Departure, SimTime> {
        let (SendUnits::Packets(time), true) = (&self.units, self.wire.faultless) else {
            let trailer = channel == Channel::M2sRwd && has_trailer(wire_space());
            return self.send_elaborate(now, channel, trailer).decoded();
        };
        if self.wire.is_full(now.0) {
            return Err(SimTime(self.wire.free()));
        }
        let class = usize::from(channel.carries_data());
        let start = self.wire.reserve(now.0, time[class]);
        self.sent[class] += 1;
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.wire.free()),
        })
    }

    /// Sends a message of another protocol than CXL.mem. `wire_space` returns the space that the message
    /// takes beyond its class.
    ///
    /// # Errors
    /// The time until which the transmitter is full; its state is unchanged then.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: SimTime,
        channel: Channel,
        wire_space: impl FnOnce() -> WireSpace,
    ) -> Result<Departure, SimTime> {
        let trailer = match (channel.is_io(), channel) {
            (true, _) => match wire_space() {
                WireSpace::Packet(packet) => return self.send_io(now, packet),
                WireSpace::Slots { .. } => unreachable!("CXL.io has packets"),
            },
            (false, Channel::D2hData) => has_trailer(wire_space()),
            (false, _) => false,
        };
        self.send_elaborate(now, channel, trailer).decoded()
    }

    /// Sends a message of a class other than CXL.io, in flits or packets, with or without errors. Packets
    /// have no byte enables: a partial write is as long as the write of a whole line.
    #[inline(never)]
    fn send_elaborate(&mut self, now: SimTime, channel: Channel, trailer: bool) -> CodedDeparture {
        let class = usize::from(channel.carries_data());
        let departure = match &mut self.units {
            SendUnits::Flits(flits) => {
                let (wire, errors) = (&mut self.wire, &mut self.errors);
                flits.send(wire, errors, now.0, channel, trailer)
            }
            SendUnits::Packets(time) => {
                let time = time[class];
                self.send_packet(now.0, time)
            }
        };
        self.sent[class] += u64::from(departure.is_ok());
        CodedDeparture::of(departure)
    }

    /// Sends a CXL.io packet. CXL.io has flits of its own, so the messages in the open flit leave before the packet.
    ///
    /// # Errors
    /// The time until which the packet cannot go. The packet has not been sent then.
    fn send_io(&mut self, now: SimTime, packet: IoPacket) -> Result<Departure, SimTime> {
        let mut bytes = packet.bytes[0];
        if let Some((flits, wire, errors)) = self.flits_mut() {
            flits.flush(wire, errors, now.0)?;
            bytes = flits.io_bytes(packet.bytes);
        }
        if self.wire.is_full(now.0) {
            return Err(SimTime(self.wire.free()));
        }
        let start = self
            .wire
            .reserve(now.0, WireTimeline::time_of(bytes, self.io.rate));
        self.io.sent += 1;
        self.io.bytes += bytes;
        self.io.payload += packet.payload;
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.wire.free()),
        })
    }

    /// Sends a packet that takes `time`, in 2^-16 ps.
    fn send_packet(&mut self, now: u64, time: u64) -> Result<Departure, SimTime> {
        if self.wire.is_full(now) {
            return Err(SimTime(self.wire.free()));
        }
        let start = self.wire.reserve(now, time);
        if let Some(errors) = &mut self.errors {
            let broken = errors.begin(1);
            self.wire
                .extend_for_retries(errors.delay(broken, WireTimeline::picos(time)));
        }
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.wire.free()),
        })
    }

    /// Number of the open flit; 0 in packet transmission.
    #[inline]
    pub(crate) fn flit(&self) -> u64 {
        self.flits().map_or(0, FlitTransmitter::begun)
    }

    /// Time of a flit that carries only credits, in picoseconds; 0 in packet transmission, where credits take no bytes.
    pub(crate) fn credits_ps(&self) -> u64 {
        self.flits().map_or(0, FlitTransmitter::flit_ps)
    }

    /// Sends credits without a message and returns when they have left: with the open flit, or in a flit of their own.
    /// A 256 B flit of credits has all its slots free for messages that come in time (CXL 3.1, section 4.3.8.1), so the
    /// credits delay no message. LLCRD takes a 68 B flit for itself (section 4.2.8.2).
    #[cold]
    pub(crate) fn send_credits(&mut self, now: SimTime) -> SimTime {
        self.begin_flits(now);
        let Some((flits, wire, _)) = self.flits_mut() else {
            return now;
        };
        let start = wire.free().max(now.0);
        if wire.free() <= now.0 && flits.has_control_flits() && flits.is_empty() {
            wire.idle_until(now.0);
            flits.send_control(wire);
        }
        let end = SimTime(start + flits.flit_ps());
        self.sends_credits_until(end);
        end
    }

    /// Records that flits with credits alone leave until `end`.
    pub(crate) fn sends_credits_until(&mut self, end: SimTime) {
        self.credits_end = self.credits_end.max(end);
    }

    /// The time until which nothing at all can be sent, or `None` if some class may have room. A packet
    /// link accepts a message of any class while few enough bytes are staged.
    #[inline]
    pub fn closed_until(&self, now: SimTime) -> Option<SimTime> {
        let closed = self.wire.is_full(now.0) && self.flits().is_none();
        closed.then_some(SimTime(self.wire.free()))
    }

    /// How far beyond `now` the wire is reserved, in picoseconds. A flit whose time has come counts, even
    /// if nothing has read the transmitter's state since.
    #[inline]
    pub fn backlog_ps(&mut self, now: SimTime) -> u64 {
        self.begin_flits(now);
        self.wire.backlog(now.0)
    }

    /// Approximate time of a cache line with its header, in picoseconds, for congestion estimates.
    pub fn line_time_ps(&self) -> u64 {
        match &self.units {
            SendUnits::Flits(flits) => (flits.flit_ps() * 80 / flits.bytes()).max(1),
            SendUnits::Packets(time) => WireTimeline::picos(time[1]).max(1),
        }
    }

    /// Begins every flit whose start is before `now`.
    fn begin_flits(&mut self, now: SimTime) {
        if let Some((flits, wire, errors)) = self.flits_mut() {
            flits.begin_until(wire, errors, now.0);
        }
    }

    /// When the last byte of everything sent so far leaves, including flits that carry only credits.
    pub(crate) fn last_end(&mut self) -> SimTime {
        if let Some((flits, wire, errors)) = self.flits_mut() {
            flits.drain(wire, errors);
        }
        SimTime(self.wire.free()).max(self.credits_end)
    }

    /// Brings the statistics up to `now` and returns them.
    pub fn stats(&mut self, now: SimTime) -> DirectionStats {
        self.begin_flits(now);
        let [short, long] = self.sent;
        let (flits, bytes) = match self.flits() {
            Some(flits) => (flits.begun(), flits.begun() * flits.bytes()),
            None => (short + long, short * self.bytes[0] + long * self.bytes[1]),
        };
        DirectionStats {
            messages: short + long + self.io.sent,
            flits: flits + self.io.sent,
            bytes: bytes + self.io.bytes,
            payload_bytes: 64 * long + self.io.payload,
            busy_ps: self.wire.busy(),
            retries: self.errors.as_deref().map_or(0, FlitErrors::retries),
        }
    }

    /// Resets the statistics at the start of measurement.
    pub(crate) fn reset_stats(&mut self, now: SimTime) {
        self.begin_flits(now);
        self.wire.reset();
        self.sent = [0, 0];
        (self.io.sent, self.io.bytes, self.io.payload) = (0, 0, 0);
        if let SendUnits::Flits(flits) = &mut self.units {
            flits.reset();
        }
        if let Some(errors) = &mut self.errors {
            errors.reset();
        }
    }
}

/// Whether byte enables follow a line.
#[inline(always)]
fn has_trailer(wire_space: WireSpace) -> bool {
    matches!(wire_space, WireSpace::Slots { trailer: true })
}
