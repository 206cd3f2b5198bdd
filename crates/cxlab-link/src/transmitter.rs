//! The transmitting side of one direction of a link: what is sent when.
//!
//! Nothing here is an event. The state is brought up to date when it is looked at, and a message
//! that is sent knows its time of arrival at once, because data already promised a slot goes
//! before everything that comes later. A transmitter that cannot take a message says until when:
//! the open flit begins, or what is staged has gone.

use std::mem::offset_of;

use cxlab_engine::CACHE_LINE;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;
use cxlab_protocol::{Channel, Extent, IoPacket};

use crate::errors::Errors;
use crate::flits::Flits;
use crate::params::{LinkParams, Transmission};
use crate::timeline::Timeline;

/// Why a message cannot go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// No place is left in the receiver's buffer.
    Credits,
    /// The transmitter is full; at this time it has room for any message.
    Until(SimTime),
}

/// When a message that was sent leaves and arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// It waits until then for its flit to begin.
    pub start: SimTime,
    /// Its last byte leaves the transmitter (retries included).
    pub end: SimTime,
}

/// What a direction of a link carried, since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DirectionStats {
    /// Messages sent.
    pub messages: u64,
    /// Flits (or packets) sent, retries not counted.
    pub flits: u64,
    /// All bytes sent.
    pub bytes: u64,
    /// Bytes of 64-byte lines among them.
    pub payload_bytes: u64,
    /// Time the wire was busy, in picoseconds.
    pub busy_ps: u64,
    /// Flits (or packets) that had to be sent again.
    pub retries: u64,
}

impl DirectionStats {
    /// Adds what was carried in another window.
    pub fn merge(&mut self, other: &DirectionStats) {
        self.messages += other.messages;
        self.flits += other.flits;
        self.bytes += other.bytes;
        self.payload_bytes += other.payload_bytes;
        self.busy_ps += other.busy_ps;
        self.retries += other.retries;
    }
}

/// A departure, or that there is none: it "starts" never then, and ends when it can begin. Two numbers are handed
/// back in registers, a result is not.
struct Coded(Departure);

impl Coded {
    #[inline(always)]
    fn of(departure: Result<Departure, SimTime>) -> Coded {
        Coded(departure.unwrap_or_else(|until| Departure {
            start: SimTime::NEVER,
            end: until,
        }))
    }

    #[inline(always)]
    fn answer(self) -> Result<Departure, SimTime> {
        match self.0.start {
            SimTime::NEVER => Err(self.0.end),
            _ => Ok(self.0),
        }
    }
}

/// The transmitting side of one direction of a link. What it needs to send lies in one cache line, unless
/// there are errors, or the open flit has a packer of its own.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Transmitter {
    line: Timeline,
    /// Messages without and with data sent since measurement began.
    sent: [u64; 2],
    units: Units,
    errors: Option<Box<Errors>>,
    /// Bytes of a packet without and with data.
    bytes: [u64; 2],
    /// Packets of CXL.io.
    io: IoPackets,
    /// When the last flit with credits alone leaves.
    credits_end: SimTime,
}

/// The open flit's packer, its last eight bytes, is all that lies beyond the line.
const _: () = assert!(offset_of!(Transmitter, units) + size_of::<Units>() == CACHE_LINE + 8);

save_state!(Transmitter {
    values: sent, credits_end;
    states: line, errors, units, io;
    built: bytes;
});

/// What messages are sent in.
#[derive(Clone, Debug)]
enum Units {
    /// The time of one without and of one with data, in 2^-16 ps.
    Packets([u64; 2]),
    Flits(Flits),
}

impl SaveState for Units {
    fn save(&self, out: &mut StateWriter) {
        match self {
            Units::Packets(_) => {}
            Units::Flits(flits) => flits.save(out),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            Units::Packets(_) => Ok(()),
            Units::Flits(flits) => flits.restore(from),
        }
    }
}

/// What a transmitter keeps for packets of CXL.io.
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
    /// A transmitter of a link with these parameters. `name` keys the random stream of error
    /// injection.
    pub(crate) fn new(params: &LinkParams, seed: u64, name: &str) -> Transmitter {
        let rate = params.rate().0;
        let bytes = params.packet.sizes();
        let units = match params.transmission {
            Transmission::Flit => {
                let format = params.flit_format();
                Units::Flits(Flits::new(format, Timeline::of(format.bytes(), rate)))
            }
            Transmission::Packet => Units::Packets(bytes.map(|bytes| Timeline::of(bytes, rate))),
        };
        let staging = Timeline::picos(Timeline::of(params.packet.staging.0, rate));
        let staging = u32::try_from(staging).unwrap_or(u32::MAX);
        let errors = Errors::of(params, seed, name).map(Box::new);
        Transmitter {
            line: Timeline::new(staging, errors.is_none()),
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

    /// What there is of flits.
    #[inline]
    fn flits(&self) -> Option<&Flits> {
        match &self.units {
            Units::Packets(_) => None,
            Units::Flits(flits) => Some(flits),
        }
    }

    /// That, the wire's timeline, and errors.
    #[inline]
    fn flits_mut(&mut self) -> Option<(&mut Flits, &mut Timeline, &mut Option<Box<Errors>>)> {
        match &mut self.units {
            Units::Packets(_) => None,
            Units::Flits(flits) => Some((flits, &mut self.line, &mut self.errors)),
        }
    }

    /// From the start to the last byte of a message that is alone on an idle link without errors,
    /// in picoseconds. The link must carry that class.
    pub fn alone_ps(params: &LinkParams, channel: Channel) -> u64 {
        let faultless = LinkParams {
            flit_error_rate: Default::default(),
            ..params.clone()
        };
        let mut alone = Transmitter::new(&faultless, 0, "");
        match alone.send_elaborate(SimTime::ZERO, channel, false).answer() {
            Ok(departure) => departure.end.0 - departure.start.0,
            Err(_) => unreachable!("nothing was sent before"),
        }
    }

    /// Sends a message of CXL.mem, of class `channel`, if it can go at `now`. `extent` tells what else it takes.
    ///
    /// # Errors
    /// Until when it cannot; nothing has changed then.
    #[inline(always)]
    pub(crate) fn send_mem(
        &mut self,
        now: SimTime,
        channel: Channel,
        extent: impl FnOnce() -> Extent,
    ) -> Result<Departure, SimTime> {
        let (Units::Packets(time), true) = (&self.units, self.line.faultless) else {
            let trailer = channel == Channel::M2sRwd && has_trailer(extent());
            return self.send_elaborate(now, channel, trailer).answer();
        };
        if self.line.is_full(now.0) {
            return Err(SimTime(self.line.free()));
        }
        let class = usize::from(channel.carries_data());
        let start = self.line.promise(now.0, time[class]);
        self.sent[class] += 1;
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.line.free()),
        })
    }

    /// Sends a message that is not of CXL.mem; `extent` tells what else it takes.
    ///
    /// # Errors
    /// Until when it cannot; nothing has changed then.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: SimTime,
        channel: Channel,
        extent: impl FnOnce() -> Extent,
    ) -> Result<Departure, SimTime> {
        let trailer = match (channel.is_io(), channel) {
            (true, _) => match extent() {
                Extent::Packet(packet) => return self.send_io(now, packet),
                Extent::Slots { .. } => unreachable!("CXL.io has packets"),
            },
            (false, Channel::D2hData) => has_trailer(extent()),
            (false, _) => false,
        };
        self.send_elaborate(now, channel, trailer).answer()
    }

    /// Sends a message of a class that is not of CXL.io, in flits or packets, with or without errors. Packets have
    /// no byte enables: they are as long as those of whole lines.
    #[inline(never)]
    fn send_elaborate(&mut self, now: SimTime, channel: Channel, trailer: bool) -> Coded {
        let class = usize::from(channel.carries_data());
        let departure = match &mut self.units {
            Units::Flits(flits) => {
                let (line, errors) = (&mut self.line, &mut self.errors);
                flits.send(line, errors, now.0, channel, trailer)
            }
            Units::Packets(time) => {
                let time = time[class];
                self.send_packet(now.0, time)
            }
        };
        self.sent[class] += u64::from(departure.is_ok());
        Coded::of(departure)
    }

    /// Sends a packet of CXL.io. Flits of CXL.io are its own: what is
    /// in the open flit goes before it.
    ///
    /// # Errors
    /// Until when it cannot go; nothing has changed then.
    fn send_io(&mut self, now: SimTime, packet: IoPacket) -> Result<Departure, SimTime> {
        let mut bytes = packet.bytes[0];
        if let Some((flits, line, errors)) = self.flits_mut() {
            flits.flush(line, errors, now.0)?;
            bytes = flits.io_bytes(packet.bytes);
        }
        if self.line.is_full(now.0) {
            return Err(SimTime(self.line.free()));
        }
        let start = self.line.promise(now.0, Timeline::of(bytes, self.io.rate));
        self.io.sent += 1;
        self.io.bytes += bytes;
        self.io.payload += packet.payload;
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.line.free()),
        })
    }

    /// Sends a packet of so much time, in 2^-16 ps.
    fn send_packet(&mut self, now: u64, time: u64) -> Result<Departure, SimTime> {
        if self.line.is_full(now) {
            return Err(SimTime(self.line.free()));
        }
        let start = self.line.promise(now, time);
        if let Some(errors) = &mut self.errors {
            let broken = errors.begin(1);
            self.line.hold(errors.delay(broken, Timeline::picos(time)));
        }
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(self.line.free()),
        })
    }

    /// The number of the flit that messages are put in; 0 in packet transmission.
    #[inline]
    pub(crate) fn flit(&self) -> u64 {
        self.flits().map_or(0, Flits::begun)
    }

    /// Time of a flit with credits alone, in picoseconds. Packets have none: their credits take no bytes.
    pub(crate) fn credits_ps(&self) -> u64 {
        self.flits().map_or(0, Flits::flit_ps)
    }

    /// Sends credits without a message and returns when they have left: with the open flit, or in one of their own. A 256 B
    /// flit of credits has all its slots for messages that come in time (CXL 3.1, section 4.3.8.1), so it takes nothing
    /// from them; LLCRD takes a 68 B flit for itself (section 4.2.8.2).
    #[cold]
    pub(crate) fn send_credits(&mut self, now: SimTime) -> SimTime {
        self.begin_flits(now);
        let Some((flits, line, _)) = self.flits_mut() else {
            return now;
        };
        let start = line.free().max(now.0);
        if line.free() <= now.0 && flits.has_control_flits() && flits.is_empty() {
            line.idle_until(now.0);
            flits.send_control(line);
        }
        let end = SimTime(start + flits.flit_ps());
        self.sends_credits_until(end);
        end
    }

    /// Flits with credits alone leave up to then.
    pub(crate) fn sends_credits_until(&mut self, end: SimTime) {
        self.credits_end = self.credits_end.max(end);
    }

    /// Until when nothing at all can be sent; `None` when some class may have room. A packet link
    /// takes the next message while few enough are staged, whatever it is.
    #[inline]
    pub fn closed_until(&self, now: SimTime) -> Option<SimTime> {
        let closed = self.line.is_full(now.0) && self.flits().is_none();
        closed.then_some(SimTime(self.line.free()))
    }

    /// How far the wire is promised beyond `now`, in picoseconds. A flit whose time has come counts, whether
    /// anything has looked at the wire since or not.
    #[inline]
    pub fn backlog_ps(&mut self, now: SimTime) -> u64 {
        self.begin_flits(now);
        self.line.backlog(now.0)
    }

    /// Time a line with its header roughly takes, in picoseconds: for congestion estimates.
    pub fn line_time_ps(&self) -> u64 {
        match &self.units {
            Units::Flits(flits) => (flits.flit_ps() * 80 / flits.bytes()).max(1),
            Units::Packets(time) => Timeline::picos(time[1]).max(1),
        }
    }

    /// Lets every flit begin whose time has come before `now`.
    fn begin_flits(&mut self, now: SimTime) {
        if let Some((flits, line, errors)) = self.flits_mut() {
            flits.begin_until(line, errors, now.0);
        }
    }

    /// When the last byte of all that was sent leaves, flits with credits alone included.
    pub(crate) fn last_end(&mut self) -> SimTime {
        if let Some((flits, line, errors)) = self.flits_mut() {
            flits.drain(line, errors);
        }
        SimTime(self.line.free()).max(self.credits_end)
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
            busy_ps: self.line.busy(),
            retries: self.errors.as_deref().map_or(0, Errors::retries),
        }
    }

    /// Forgets what was carried so far: measurement begins.
    pub(crate) fn reset_stats(&mut self, now: SimTime) {
        self.begin_flits(now);
        self.line.reset();
        self.sent = [0, 0];
        (self.io.sent, self.io.bytes, self.io.payload) = (0, 0, 0);
        if let Units::Flits(flits) = &mut self.units {
            flits.reset();
        }
        if let Some(errors) = &mut self.errors {
            errors.reset();
        }
    }
}
/// Whether byte enables follow a line.
#[inline(always)]
fn has_trailer(extent: Extent) -> bool {
    matches!(extent, Extent::Slots { trailer: true })
}
