//! The transmission of flits.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_protocol::Channel;
use cxlab_protocol::flit::{FlitFormat, OpenFlit, Placement};

use crate::errors::Errors;
use crate::timeline::Timeline;
use crate::transmitter::Departure;

/// What a transmitter of flits keeps besides the wire's timeline.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Flits {
    /// Time of a flit, in 2^-16 ps.
    flit_time: u64,
    /// Flits that have begun since measurement began.
    begun: u64,
    /// If anything is in it, the wire is promised until it begins.
    open: OpenFlit,
}

save_state!(Flits {
    values: begun, open;
    built: flit_time;
});

impl Flits {
    /// Nothing is in the open flit.
    pub(crate) fn new(format: FlitFormat, flit_time: u64) -> Flits {
        Flits {
            flit_time,
            begun: 0,
            open: OpenFlit::new(format),
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
        self.open.format().bytes()
    }

    /// Time of a flit, in picoseconds.
    pub(crate) fn flit_ps(&self) -> u64 {
        Timeline::picos(self.flit_time)
    }

    /// Sends a message in the open flit, with byte enables behind it if `trailer`, or says until when that is full.
    pub(crate) fn send(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
        channel: Channel,
        trailer: bool,
    ) -> Result<Departure, SimTime> {
        self.begin_until(line, errors, now);
        let placement = self.place(line, errors, now, channel, trailer)?;
        let parts = u64::from(placement.last_half) + 1;
        let halves = u64::from(self.open.format().halves());
        let part = if halves == parts {
            self.flit_time
        } else {
            self.flit_time / 2
        };
        let before = u64::from(placement.last_flit) * self.flit_time;
        let mut end = line.free() + line.elapsed(before + part);
        if !line.faultless
            && let Some(errors) = errors
        {
            let broken = errors.among_next(u64::from(placement.last_flit) + 1, halves == parts);
            end += errors.delay(broken, self.flit_ps());
        }
        Ok(Departure {
            start: SimTime(line.free()),
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
        if !self.open.is_empty() && line.free() > now {
            return Err(SimTime(line.free()));
        }
        while !self.open.is_empty() {
            self.close(line, errors);
        }
        Ok(())
    }

    /// Bytes on the wire of a packet of CXL.io: of a 68 B flit it has 64 (CXL 3.1, section 4.2.2),
    /// of a 256 B flit 236 (PCIe 6.0, section 4.2.3.1).
    pub(crate) fn io_bytes(&self, [small, large]: [u64; 2]) -> u64 {
        let (bytes, inside) = if self.bytes() == 68 {
            (small, 64)
        } else {
            (large, 236)
        };
        (bytes * self.bytes()).div_ceil(inside)
    }

    /// Whether control messages have flits of their own: those of 68 B.
    pub(crate) fn has_control_flits(&self) -> bool {
        self.open.format() == FlitFormat::B68
    }

    /// Whether nothing is in the open flit.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A control flit begins, where the open flit is empty.
    pub(crate) fn send_control(&mut self, line: &mut Timeline) {
        line.spend(self.flit_time);
        self.begun += 1;
    }

    /// Places a message in the open flit.
    fn place(
        &mut self,
        line: &mut Timeline,
        errors: &mut Option<Box<Errors>>,
        now: u64,
        channel: Channel,
        trailer: bool,
    ) -> Result<Placement, SimTime> {
        loop {
            let was_empty = self.open.is_empty();
            let placed = match trailer {
                true => self.open.place_with_trailer(channel),
                false => self.open.place(channel),
            };
            if let Some(placement) = placed {
                if was_empty {
                    line.idle_until(now);
                }
                return Ok(placement);
            }
            assert!(
                !self.open.is_empty(),
                "the link's flits cannot carry {}",
                channel.name()
            );
            if line.free() > now {
                return Err(SimTime(line.free()));
            }
            self.close(line, errors);
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
        while !self.open.is_empty() && line.free() < now {
            self.close(line, errors);
        }
    }

    /// Lets all flits begin, whenever their time is.
    pub(crate) fn drain(&mut self, line: &mut Timeline, errors: &mut Option<Box<Errors>>) {
        while !self.open.is_empty() {
            self.close(line, errors);
        }
    }

    /// The open flit begins.
    fn close(&mut self, line: &mut Timeline, errors: &mut Option<Box<Errors>>) {
        let flits = u64::from(self.open.close());
        line.spend(flits * self.flit_time);
        self.begun += flits;
        if !line.faultless
            && let Some(errors) = errors
        {
            let broken = errors.begin(flits);
            line.hold(errors.delay(broken, self.flit_ps()));
        }
    }
}
