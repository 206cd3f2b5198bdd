//! Transmission in flits: which flit carries a message, and when it begins.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_protocol::Channel;
use cxlab_protocol::flit::{FlitFormat, FlitPosition, OpenFlit};

use crate::errors::FlitErrors;
use crate::timeline::{Departure, WireTimeline};

/// The state of a flit transmitter besides the wire's timeline.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FlitTransmitter {
    /// Time of a flit on the wire, in 2^-16 ps.
    flit_time: u64,
    /// Number of flits that have begun since measurement began.
    begun: u64,
    /// The flit that messages are being packed into. If it has messages, the wire is reserved until it begins.
    open: OpenFlit,
}

save_state!(FlitTransmitter {
    values: begun, open;
    built: flit_time;
});

impl FlitTransmitter {
    /// A transmitter with an empty open flit.
    pub(crate) fn new(format: FlitFormat, flit_time: u64) -> FlitTransmitter {
        FlitTransmitter {
            flit_time,
            begun: 0,
            open: OpenFlit::new(format),
        }
    }

    /// Number of flits that have begun since measurement began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// Resets the statistics at the start of measurement.
    pub(crate) fn reset(&mut self) {
        self.begun = 0;
    }

    /// Bytes of a flit.
    pub(crate) fn bytes(&self) -> u64 {
        self.open.format().bytes()
    }

    /// Time of a flit on the wire, in picoseconds.
    pub(crate) fn flit_ps(&self) -> u64 {
        WireTimeline::picos(self.flit_time)
    }

    /// Packs a message into the open flit, with byte enables after its line if `trailer`. The error is the
    /// time until which the flit is full.
    pub(crate) fn send(
        &mut self,
        wire: &mut WireTimeline,
        errors: &mut Option<Box<FlitErrors>>,
        now: u64,
        channel: Channel,
        trailer: bool,
    ) -> Result<Departure, SimTime> {
        self.begin_until(wire, errors, now);
        let placement = self.place(wire, errors, now, channel, trailer)?;
        let parts = u64::from(placement.last_half) + 1;
        let halves = u64::from(self.open.format().halves());
        let part = if halves == parts {
            self.flit_time
        } else {
            self.flit_time / 2
        };
        let before = u64::from(placement.last_flit) * self.flit_time;
        let mut end = wire.free() + wire.elapsed(before + part);
        if !wire.faultless
            && let Some(errors) = errors
        {
            let broken = errors.among_next(u64::from(placement.last_flit) + 1, halves == parts);
            end += errors.delay(broken, self.flit_ps());
        }
        Ok(Departure {
            start: SimTime(wire.free()),
            end: SimTime(end),
        })
    }

    /// Begins the open flit and all that its messages span. The error is the time until which this is not possible.
    pub(crate) fn flush(
        &mut self,
        wire: &mut WireTimeline,
        errors: &mut Option<Box<FlitErrors>>,
        now: u64,
    ) -> Result<(), SimTime> {
        self.begin_until(wire, errors, now);
        if !self.open.is_empty() && wire.free() > now {
            return Err(SimTime(wire.free()));
        }
        while !self.open.is_empty() {
            self.close(wire, errors);
        }
        Ok(())
    }

    /// Bytes on the wire of a CXL.io packet, given its bytes in small and in large flits. A 68 B flit
    /// carries 64 of them (CXL 3.1, section 4.2.2), and a 256 B flit 236 (PCIe 6.0, section 4.2.3.1).
    pub(crate) fn io_bytes(&self, [small, large]: [u64; 2]) -> u64 {
        let (bytes, inside) = if self.bytes() == 68 {
            (small, 64)
        } else {
            (large, 236)
        };
        (bytes * self.bytes()).div_ceil(inside)
    }

    /// Whether control messages have flits of their own, as they have in the 68 B format.
    pub(crate) fn has_control_flits(&self) -> bool {
        self.open.format() == FlitFormat::B68
    }

    /// Whether the open flit has no messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins a control flit. The open flit must be empty.
    pub(crate) fn send_control(&mut self, wire: &mut WireTimeline) {
        wire.occupy(self.flit_time);
        self.begun += 1;
    }

    /// Packs a message into the open flit, or into the next one if the open flit is full and may begin.
    fn place(
        &mut self,
        wire: &mut WireTimeline,
        errors: &mut Option<Box<FlitErrors>>,
        now: u64,
        channel: Channel,
        trailer: bool,
    ) -> Result<FlitPosition, SimTime> {
        loop {
            let was_empty = self.open.is_empty();
            let placed = match trailer {
                true => self.open.place_with_trailer(channel),
                false => self.open.place(channel),
            };
            if let Some(placement) = placed {
                if was_empty {
                    wire.idle_until(now);
                }
                return Ok(placement);
            }
            assert!(
                !self.open.is_empty(),
                "the link's flits cannot carry {}",
                channel.name()
            );
            if wire.free() > now {
                return Err(SimTime(wire.free()));
            }
            self.close(wire, errors);
        }
    }

    /// Begins every flit whose time has come before `now`.
    #[inline]
    pub(crate) fn begin_until(
        &mut self,
        wire: &mut WireTimeline,
        errors: &mut Option<Box<FlitErrors>>,
        now: u64,
    ) {
        while !self.open.is_empty() && wire.free() < now {
            self.close(wire, errors);
        }
    }

    /// Begins all flits that have messages, whatever the time.
    pub(crate) fn drain(&mut self, wire: &mut WireTimeline, errors: &mut Option<Box<FlitErrors>>) {
        while !self.open.is_empty() {
            self.close(wire, errors);
        }
    }

    /// Begins the open flit.
    fn close(&mut self, wire: &mut WireTimeline, errors: &mut Option<Box<FlitErrors>>) {
        let flits = u64::from(self.open.close());
        wire.occupy(flits * self.flit_time);
        self.begun += flits;
        if !wire.faultless
            && let Some(errors) = errors
        {
            let broken = errors.begin(flits);
            wire.extend_for_retries(errors.delay(broken, self.flit_ps()));
        }
    }
}
