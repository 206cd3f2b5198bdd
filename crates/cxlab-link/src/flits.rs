//! The transmission of flits.

use std::sync::LazyLock;

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_protocol::Channel;
use cxlab_protocol::flit::{FlitFormat, FlitPacker, Placement};

use crate::errors::Errors;
use crate::timeline::Timeline;
use crate::transmitter::Departure;

/// What becomes of a message that is alone on an idle link.
#[derive(Clone, Copy, Debug)]
struct Alone {
    placement: Placement,
    /// Flits until nothing of it is left.
    flits: u64,
    /// A packer that was fresh before, with it alone.
    packer: FlitPacker,
}

/// Sends one message through a packer of its own. `None` where the format has no slot for the
/// class, or where the message leaves limits behind for the next flit.
fn alone(format: FlitFormat, channel: Channel) -> Option<Alone> {
    let mut packer = FlitPacker::new(format);
    let placement = packer.place(channel)?;
    let placed = packer;
    let mut flits = 0;
    while !packer.is_empty() {
        flits += u64::from(packer.close());
    }
    packer.is_fresh().then_some(Alone {
        placement,
        flits,
        packer: placed,
    })
}

/// By format and class: what becomes of a message alone.
static ALONE: LazyLock<[[Option<Alone>; Channel::COUNT]; FlitFormat::ALL.len()]> =
    LazyLock::new(|| {
        FlitFormat::ALL.map(|format| Channel::ALL.map(|channel| alone(format, channel)))
    });

/// What a transmitter of flits keeps besides the wire's timeline.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Flits {
    /// Time of a flit, in 2^-16 ps.
    flit_time: u64,
    /// When the open flit begins, if anything is in it.
    start: u64,
    bytes: u64,
    /// Parts of a flit that the receiver can use separately.
    halves: u64,
    /// The message that is alone since `start`, not yet told to the packer: where traffic is
    /// light, it never needs to know.
    alone: Option<Channel>,
    /// By class: what becomes of a message alone.
    alone_by_class: &'static [Option<Alone>; Channel::COUNT],
    /// Flits that have begun since measurement began.
    begun: u64,
    packer: FlitPacker,
}

save_state!(Flits {
    values: start, alone, begun, packer;
    built: flit_time, bytes, halves, alone_by_class;
});

impl Flits {
    /// Nothing is in the open flit.
    pub(crate) fn new(format: FlitFormat, flit_time: u64) -> Flits {
        Flits {
            flit_time,
            start: 0,
            bytes: format.bytes(),
            halves: u64::from(format.halves()),
            alone: None,
            alone_by_class: &ALONE[format as usize],
            begun: 0,
            packer: FlitPacker::new(format),
        }
    }

    /// Flits that have begun since measurement began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Measurement begins.
    pub(crate) fn reset(&mut self) {
        self.begun = 0;
    }

    /// Bytes of a flit.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time of a flit, in picoseconds.
    pub(crate) fn flit_ps(&self) -> u64 {
        Timeline::picos(self.flit_time)
    }

    /// Sends a message in the open flit, or says until when that is full.
    pub(crate) fn send(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
        channel: Channel,
    ) -> Result<Departure, SimTime> {
        self.begin_until(line, errors, now);
        let placement = match self.send_alone(line, errors, now, channel) {
            Some(placement) => placement,
            None => self.place(line, errors, now, channel)?,
        };
        let parts = u64::from(placement.last_half) + 1;
        let part = if self.halves == parts {
            self.flit_time
        } else {
            self.flit_time / 2
        };
        let before = u64::from(placement.last_flit) * self.flit_time;
        let mut end = self.start + line.elapsed(before + part);
        if let Some(errors) = errors {
            let broken = errors.among_next(u64::from(placement.last_flit) + 1);
            end += errors.delay(broken, self.flit_ps());
        }
        Ok(Departure {
            start: SimTime(self.start),
            end: SimTime(end),
        })
    }

    /// Makes all that is in the open flit go, or says until when that is not yet possible.
    pub(crate) fn flush(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
    ) -> Result<(), SimTime> {
        self.begin_until(line, errors, now);
        if let Some(first) = self.alone.take() {
            self.tell(first);
        }
        if !self.packer.is_empty() && self.start > now {
            return Err(SimTime(self.start));
        }
        while !self.packer.is_empty() {
            self.close(line, errors);
        }
        Ok(())
    }

    /// Bytes on the wire of a packet of CXL.io: of a 68 B flit it has 64 (CXL 3.1, section 4.2.2),
    /// of a 256 B flit 236 (PCIe 6.0, section 4.2.3.1).
    pub(crate) fn io_bytes(&self, [small, large]: [u64; 2]) -> u64 {
        let (bytes, inside) = if self.bytes == 68 {
            (small, 64)
        } else {
            (large, 236)
        };
        (bytes * self.bytes).div_ceil(inside)
    }

    /// Sends a message on an idle link without the packer.
    #[inline]
    fn send_alone(
        &mut self,
        line: &mut Timeline,
        errors: &Option<Box<Errors>>,
        now: u64,
        channel: Channel,
    ) -> Option<Placement> {
        if self.alone.is_some() || errors.is_some() || !self.packer.is_fresh() {
            return None;
        }
        let placement = self.alone_by_class[channel.index()].as_ref()?.placement;
        self.alone = Some(channel);
        line.idle_until(now);
        self.start = line.free();
        Some(placement)
    }

    /// Places a message in the open flit.
    fn place(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
        channel: Channel,
    ) -> Result<Placement, SimTime> {
        if let Some(first) = self.alone.take() {
            self.tell(first);
        }
        loop {
            let was_empty = self.packer.is_empty();
            if let Some(placement) = self.packer.place(channel) {
                if was_empty {
                    line.idle_until(now);
                    self.start = line.free();
                }
                return Ok(placement);
            }
            assert!(
                !self.packer.is_empty(),
                "the link's flits cannot carry {}",
                channel.name()
            );
            if self.start > now {
                return Err(SimTime(self.start));
            }
            self.close(line, errors);
        }
    }

    /// Tells the packer, which is fresh, of the message that was alone.
    #[inline]
    fn tell(&mut self, alone: Channel) {
        // No other is left alone.
        if let Some(known) = &self.alone_by_class[alone.index()] {
            self.packer.place_as(&known.packer);
        }
    }

    /// Lets every flit begin whose time has come before `now`.
    #[inline]
    pub(crate) fn begin_until(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
    ) {
        if self.alone.is_some() {
            self.finish_alone(line, now);
        }
        while !self.packer.is_empty() && self.start < now {
            self.close(line, errors);
        }
    }

    /// A message that is alone is gone when its last flit began before `now`; else the packer is
    /// told of it, when the first of its flits has begun.
    #[inline]
    fn finish_alone(&mut self, line: &mut Timeline, now: u64) {
        let Some(channel) = self.alone else { return };
        let Some(known) = &self.alone_by_class[channel.index()] else {
            return;
        };
        if self.start + line.elapsed((known.flits - 1) * self.flit_time) < now {
            line.spend(known.flits * self.flit_time);
            self.begun += known.flits;
            self.alone = None;
        } else if self.start < now {
            self.alone = None;
            self.tell(channel);
        }
    }

    /// Lets all flits begin, whenever their time is.
    pub(crate) fn drain(&mut self, line: &mut Timeline, errors: &mut Option<Box<Errors>>) {
        if let Some(first) = self.alone.take() {
            self.tell(first);
        }
        while !self.packer.is_empty() {
            self.close(line, errors);
        }
    }

    /// The open flit begins.
    fn close(&mut self, line: &mut Timeline, errors: &mut Option<Box<Errors>>) {
        let flits = u64::from(self.packer.close());
        line.spend(flits * self.flit_time);
        self.begun += flits;
        if let Some(errors) = errors {
            let broken = errors.begin(flits);
            line.hold(errors.delay(broken, self.flit_ps()));
        }
        self.start = line.free();
    }
}
