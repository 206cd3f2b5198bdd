//! Arbitration for a line when the atomic operation that locked it is over.
//!
//! A device locks a line during a read-modify-write: no access of the host or of the device itself
//! comes between. The host gets the line first. A snoop therefore waits for one operation,
//! regardless of how many accesses of the device are queued for the line.

/// The side that gets the line next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineWinner {
    /// The host: a snoop, or a read of the device's own memory.
    Host,
    /// The device: its oldest queued access.
    Device,
}

/// The arbitration rule for the line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LineArbitration {
    /// The host has priority over the device.
    #[default]
    HostFirst,
    /// The host gets the line only if no access of the device is queued. The host may then wait for
    /// ever: tests break the rule in this way.
    HostLast,
}

impl LineArbitration {
    /// The side that gets the free line; `None` if nothing is queued for it.
    pub const fn next(self, host_waits: bool, device_waits: bool) -> Option<LineWinner> {
        match (self, host_waits, device_waits) {
            (_, false, false) => None,
            (Self::HostFirst, true, _) | (Self::HostLast, true, false) => Some(LineWinner::Host),
            (_, _, true) => Some(LineWinner::Device),
        }
    }
}
