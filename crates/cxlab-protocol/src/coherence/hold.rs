//! Who has a line next when the atomic operation that kept it is over.
//!
//! A device keeps a line during a read-modify-write: neither the host nor its own accesses come
//! between. The host has its turn first, so a snoop waits for one operation, however many
//! accesses of the device wait for the line.

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The host's: a snoop, or a read of the device's own memory.
    Host,
    /// The device's: the access that has waited longest.
    Device,
}

/// The rule of the turns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Turns {
    /// The host first.
    #[default]
    HostFirst,
    /// The host when no access of the device waits. The host may wait for ever then: tests break the
    /// rule in this way.
    HostLast,
}

impl Turns {
    /// Whose turn it is when the line is free; `None` if nobody waits.
    pub const fn next(self, host_waits: bool, device_waits: bool) -> Option<Turn> {
        match (self, host_waits, device_waits) {
            (_, false, false) => None,
            (Turns::HostFirst, true, _) | (Turns::HostLast, true, false) => Some(Turn::Host),
            (_, _, true) => Some(Turn::Device),
        }
    }
}
