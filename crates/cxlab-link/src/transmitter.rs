//! The transmitting side of one direction of a link: what is sent when.
//!
//! Nothing here is an event. The state is brought up to date when it is looked at, and a message
//! that is sent knows its time of arrival at once, because data already promised a slot goes
//! before everything that comes later. A transmitter that cannot take a message says until when
//! (the open flit begins, or the packet before ends), or that credits are missing.

use std::collections::VecDeque;
use std::sync::LazyLock;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::SimTime;
use cxlab_protocol::flit::{FlitFormat, FlitPacker, Placement};
use cxlab_protocol::{Channel, Message};

use crate::credit::{BUFFERS, Buffer};
use crate::params::{LinkParams, Transmission};

/// Times within a transmitter are kept to 2^-16 ps so that rates are exact in the long run.
const FRACTION: u32 = 16;

/// Why a message cannot go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// No place is left in the receiver's buffer.
    Credits,
    /// The transmitter has no room before this time.
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

#[derive(Clone, Debug)]
enum Mode {
    Flit {
        packer: FlitPacker,
        /// Time of a flit, in 2^-16 ps.
        flit_time: u64,
        /// When the open flit begins, if anything is in it.
        start: u64,
        flit_bytes: u64,
        /// Parts of a flit that the receiver can use separately.
        halves: u64,
        /// The message that is alone since [`Mode::Flit::start`], not yet told to the packer:
        /// where traffic is light, it never needs to know.
        alone: Option<Channel>,
        /// By class: what becomes of a message alone.
        alone_by_class: &'static [Option<Alone>; Channel::COUNT],
    },
    Packet {
        /// Time of a message by class, in 2^-16 ps.
        time: [u64; Channel::COUNT],
        bytes: [u64; Channel::COUNT],
    },
}

/// What becomes of a message that is alone on an idle link.
#[derive(Clone, Copy, Debug)]
struct Alone {
    placement: Placement,
    /// Flits until nothing of it is left.
    flits: u64,
}

/// Sends one message through a packer of its own. `None` where the format has no slot for the
/// class, or where the message leaves limits behind for the next flit.
fn alone(format: FlitFormat, channel: Channel) -> Option<Alone> {
    let mut packer = FlitPacker::new(format);
    let placement = packer.place(channel)?;
    let mut flits = 0;
    while !packer.is_empty() {
        flits += u64::from(packer.close());
    }
    packer.is_fresh().then_some(Alone { placement, flits })
}

/// By format and class: what becomes of a message alone.
static ALONE: LazyLock<[[Option<Alone>; Channel::COUNT]; FlitFormat::ALL.len()]> =
    LazyLock::new(|| {
        FlitFormat::ALL.map(|format| Channel::ALL.map(|channel| alone(format, channel)))
    });

/// Error injection: which flits (or packets) arrive broken. Each is sent a second time, which
/// succeeds; everything behind it waits, as the receiver discards it (go-back-N).
#[derive(Clone, Debug)]
struct Errors {
    rng: StreamRng,
    probability: f64,
    /// Flits that have begun.
    begun: u64,
    /// Numbers of the broken flits to come, in order: as many as were asked for.
    broken: VecDeque<u64>,
    /// The number from which on none has been drawn.
    drawn: u64,
    /// From the end of a broken flit to the start of its second transmission.
    round_trip: u64,
}

impl Errors {
    /// How many of the next `flits` flits arrive broken.
    fn among_next(&mut self, flits: u64) -> u64 {
        let end = self.begun + flits;
        while self.drawn < end {
            // Not the platform's logarithm: every machine draws the same distances.
            let distance = libm::log(self.rng.unit()) / libm::log1p(-self.probability);
            let distance = if distance < 1e18 {
                distance as u64
            } else {
                u64::MAX / 4
            };
            self.broken.push_back(self.drawn.saturating_add(distance));
            self.drawn = self.drawn.saturating_add(distance).saturating_add(1);
        }
        self.broken
            .iter()
            .take_while(|number| **number < end)
            .count() as u64
    }

    /// The next `flits` flits begin; returns how many of them arrive broken.
    fn begin(&mut self, flits: u64) -> u64 {
        let count = self.among_next(flits);
        self.broken.drain(..count as usize);
        self.begun += flits;
        count
    }
}

/// The transmitting side of one direction of a link.
#[derive(Clone, Debug)]
pub struct Transmitter {
    mode: Mode,
    /// The wire is promised until then, in picoseconds, and a fraction of 2^-16 ps.
    free: u64,
    fraction: u64,
    /// By buffer: credits at hand, and how many there are in all.
    credits: [(u8, u8); BUFFERS],
    /// Messages sent whose credit has not come back.
    unreturned: u32,
    errors: Option<Box<Errors>>,
    stats: DirectionStats,
}

impl Transmitter {
    /// A transmitter of a link with these parameters, to a receiver with `capacity` buffers.
    /// `name` keys the random stream of error injection.
    pub(crate) fn new(
        params: &LinkParams,
        capacity: [u8; BUFFERS],
        seed: u64,
        name: &str,
    ) -> Transmitter {
        let rate = u128::from(params.rate().0.max(1));
        let fixed = |bytes: u64| {
            let time = (u128::from(bytes) * 1_000_000_000_000) << FRACTION;
            u64::try_from(time.div_ceil(rate)).unwrap_or(u64::MAX >> 1)
        };
        let mode = match params.transmission {
            Transmission::Flit => {
                let format = params.flit_format();
                Mode::Flit {
                    packer: FlitPacker::new(format),
                    flit_time: fixed(format.bytes()),
                    start: 0,
                    flit_bytes: format.bytes(),
                    halves: u64::from(format.halves()),
                    alone: None,
                    alone_by_class: &ALONE[format as usize],
                }
            }
            Transmission::Packet => {
                let bytes = Channel::ALL.map(|channel| {
                    if channel.carries_data() {
                        params.packet.data_header.0 + 64
                    } else {
                        params.packet.header.0
                    }
                });
                Mode::Packet {
                    time: bytes.map(fixed),
                    bytes,
                }
            }
        };
        let probability = params.flit_error_rate.0;
        let errors = (probability > 0.0).then(|| {
            Box::new(Errors {
                rng: StreamRng::new(seed, name),
                probability,
                begun: 0,
                broken: VecDeque::new(),
                drawn: 0,
                round_trip: params.retry_round_trip_ps(),
            })
        });
        Transmitter {
            mode,
            free: 0,
            fraction: 0,
            credits: capacity.map(|all| (all, all)),
            unreturned: 0,
            errors,
            stats: DirectionStats::default(),
        }
    }

    /// Sends a message of class `channel` to buffer `buffer`, if it can go now.
    ///
    /// # Errors
    /// [`Blocked`] says what it waits for; nothing has changed then.
    #[inline]
    pub fn send(
        &mut self,
        now: SimTime,
        channel: Channel,
        buffer: Buffer,
    ) -> Result<Departure, Blocked> {
        if self.credits[buffer.0 as usize].0 == 0 {
            return Err(Blocked::Credits);
        }
        let departure = match &self.mode {
            Mode::Flit { .. } => self.send_flit(now.0, channel)?,
            Mode::Packet { .. } => self.send_packet(now.0, channel)?,
        };
        self.credits[buffer.0 as usize].0 -= 1;
        self.unreturned += 1;
        self.stats.messages += 1;
        if channel.carries_data() {
            self.stats.payload_bytes += 64;
        }
        Ok(departure)
    }

    #[inline]
    fn send_packet(&mut self, now: u64, channel: Channel) -> Result<Departure, Blocked> {
        let Mode::Packet { time, bytes } = &self.mode else {
            unreachable!("a packet link")
        };
        if self.free > now {
            return Err(Blocked::Until(SimTime(self.free)));
        }
        let (time, bytes) = (time[channel.index()], bytes[channel.index()]);
        if self.free < now {
            self.free = now;
            self.fraction = 0;
        }
        let mut retry = 0;
        if let Some(errors) = &mut self.errors {
            let broken = errors.begin(1);
            retry = broken * (errors.round_trip + (time >> FRACTION));
            self.stats.retries += broken;
        }
        self.fraction += time;
        let busy = self.fraction >> FRACTION;
        self.free += busy + retry;
        self.fraction &= (1 << FRACTION) - 1;
        self.stats.flits += 1;
        self.stats.bytes += bytes;
        self.stats.busy_ps += busy;
        Ok(Departure {
            start: SimTime(now),
            end: SimTime(self.free),
        })
    }

    fn send_flit(&mut self, now: u64, channel: Channel) -> Result<Departure, Blocked> {
        self.begin_flits(now);
        let placement = match self.send_alone(now, channel) {
            Some(placement) => placement,
            None => self.place(now, channel)?,
        };
        let Mode::Flit {
            flit_time,
            start,
            halves,
            ..
        } = &self.mode
        else {
            unreachable!("a flit link")
        };
        let parts = u64::from(placement.last_half) + 1;
        let part = if *halves == parts {
            *flit_time
        } else {
            flit_time / 2
        };
        let elapsed = self.fraction + u64::from(placement.last_flit) * flit_time + part;
        let end = start + (elapsed >> FRACTION);
        let start = *start;
        let mut retry = 0;
        if let Some(errors) = &mut self.errors {
            let broken = errors.among_next(u64::from(placement.last_flit) + 1);
            retry = broken * (errors.round_trip + (flit_time >> FRACTION));
        }
        Ok(Departure {
            start: SimTime(start),
            end: SimTime(end + retry),
        })
    }

    /// Sends a message on an idle link without the packer.
    #[inline]
    fn send_alone(&mut self, now: u64, channel: Channel) -> Option<Placement> {
        let Mode::Flit {
            packer,
            start,
            alone,
            alone_by_class,
            ..
        } = &mut self.mode
        else {
            return None;
        };
        if alone.is_some() || self.errors.is_some() || !packer.is_fresh() {
            return None;
        }
        let placement = alone_by_class[channel.index()]?.placement;
        *alone = Some(channel);
        *start = self.free.max(now);
        if self.free < now {
            self.fraction = 0;
        }
        Some(placement)
    }

    /// Places a message in the open flit.
    fn place(&mut self, now: u64, channel: Channel) -> Result<Placement, Blocked> {
        loop {
            let Mode::Flit {
                packer,
                start,
                alone,
                ..
            } = &mut self.mode
            else {
                unreachable!("a flit link")
            };
            if let Some(first) = alone.take() {
                let placed = packer.place(first);
                debug_assert!(
                    placed.is_some(),
                    "an empty flit takes any message it can carry"
                );
            }
            let was_empty = packer.is_empty();
            if let Some(placement) = packer.place(channel) {
                if was_empty {
                    *start = self.free.max(now);
                    if self.free < now {
                        self.fraction = 0;
                    }
                }
                return Ok(placement);
            }
            assert!(
                !packer.is_empty(),
                "the link's flits cannot carry {}",
                channel.name()
            );
            let start = *start;
            if start > now {
                return Err(Blocked::Until(SimTime(start)));
            }
            self.close();
        }
    }

    /// Lets every flit begin whose time has come before `now`.
    #[inline]
    fn begin_flits(&mut self, now: u64) {
        self.finish_alone(now);
        while let Mode::Flit { packer, start, .. } = &self.mode {
            if packer.is_empty() || *start >= now {
                break;
            }
            self.close();
        }
    }

    /// A message that is alone is gone when its last flit began before `now`; else the packer is
    /// told of it, when the first of its flits has begun.
    #[inline]
    fn finish_alone(&mut self, now: u64) {
        let Mode::Flit {
            packer,
            flit_time,
            start,
            flit_bytes,
            alone,
            alone_by_class,
            ..
        } = &mut self.mode
        else {
            return;
        };
        let Some(channel) = *alone else { return };
        let Some(known) = alone_by_class[channel.index()] else {
            return;
        };
        let last = self.fraction + (known.flits - 1) * *flit_time;
        if *start + (last >> FRACTION) < now {
            let elapsed = last + *flit_time;
            self.free = *start + (elapsed >> FRACTION);
            self.fraction = elapsed & ((1 << FRACTION) - 1);
            self.stats.flits += known.flits;
            self.stats.bytes += known.flits * *flit_bytes;
            self.stats.busy_ps += elapsed >> FRACTION;
            *alone = None;
        } else if *start < now {
            let placed = packer.place(channel);
            debug_assert!(
                placed.is_some(),
                "an empty flit takes any message it can carry"
            );
            *alone = None;
        }
    }

    /// The open flit begins.
    fn close(&mut self) {
        let Mode::Flit {
            packer,
            flit_time,
            start,
            flit_bytes,
            ..
        } = &mut self.mode
        else {
            unreachable!("a flit link")
        };
        let flits = u64::from(packer.close());
        let elapsed = self.fraction + flits * *flit_time;
        let busy = elapsed >> FRACTION;
        self.free = *start + busy;
        self.fraction = elapsed & ((1 << FRACTION) - 1);
        self.stats.flits += flits;
        self.stats.bytes += flits * *flit_bytes;
        self.stats.busy_ps += busy;
        if let Some(errors) = &mut self.errors {
            let broken = errors.begin(flits);
            self.free += broken * (errors.round_trip + (*flit_time >> FRACTION));
            self.stats.retries += broken;
        }
        *start = self.free;
    }

    /// Takes credits that came back.
    ///
    /// # Panics
    /// If more come back than were used: credits are conserved.
    #[inline]
    pub(crate) fn credit(&mut self, buffer: u8, count: u8) {
        let (credits, capacity) = &mut self.credits[buffer as usize];
        assert!(count <= *capacity - *credits, "more credits than buffers");
        *credits += count;
        self.unreturned -= u32::from(count);
    }

    /// Credits at hand for a buffer.
    pub fn credits(&self, buffer: Buffer) -> u8 {
        self.credits[buffer.0 as usize].0
    }

    /// Messages sent whose credits have not come back: what waits at the far end or is on its
    /// way.
    #[inline]
    pub fn unreturned(&self) -> u32 {
        self.unreturned
    }

    /// Until when nothing at all can be sent; `None` when some class may have room. A packet link
    /// takes the next message when the one before has left, whatever it is.
    #[inline]
    pub fn closed_until(&self, now: SimTime) -> Option<SimTime> {
        match &self.mode {
            Mode::Packet { .. } if self.free > now.0 => Some(SimTime(self.free)),
            _ => None,
        }
    }

    /// How far the wire is promised beyond `now`, in picoseconds.
    #[inline]
    pub fn backlog_ps(&self, now: SimTime) -> u64 {
        self.free.saturating_sub(now.0)
    }

    /// Time a line with its header roughly takes, in picoseconds: for congestion estimates.
    pub fn line_time_ps(&self) -> u64 {
        match &self.mode {
            Mode::Flit {
                flit_time,
                flit_bytes,
                ..
            } => ((flit_time >> FRACTION) * 80 / flit_bytes).max(1),
            Mode::Packet { time, .. } => (time[Channel::S2mDrs.index()] >> FRACTION).max(1),
        }
    }

    /// Brings the statistics up to `now` and returns them.
    pub fn stats(&mut self, now: SimTime) -> DirectionStats {
        self.begin_flits(now.0);
        self.stats
    }

    /// Forgets what was carried so far: measurement begins.
    pub fn reset_stats(&mut self, now: SimTime) {
        self.begin_flits(now.0);
        self.stats = DirectionStats::default();
    }

    /// Notes where a departing message's time goes.
    #[inline]
    pub(crate) fn charge(message: &mut Message, now: SimTime, departure: Departure) {
        message.stages.queue += departure.start.0 - now.0;
        message.stages.link += (departure.end.0 - departure.start.0) as u32;
    }
}
