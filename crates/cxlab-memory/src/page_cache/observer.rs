//! Movements of data, observed by tests that follow data. The media themselves hold none.

/// A movement of lines of 64 bytes, which are counted from the beginning of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Movement {
    /// A request reads the lines from the cache or from data just fetched for it.
    Read {
        /// The owner's number of the request.
        id: u32,
    },
    /// A request reads the lines from the write-back buffer.
    ReadWriteBuffer {
        /// The owner's number of the request.
        id: u32,
    },
    /// A request writes the lines into the cache.
    Write {
        /// The owner's number of the request.
        id: u32,
    },
    /// A read of the lines was queued for the slow medium.
    Asked,
    /// The lines came from the slow medium and are in the cache.
    Installed,
    /// The lines were copied from the cache into the write-back buffer.
    Buffered,
    /// The lines left the cache.
    Dropped,
    /// A write of the lines was queued for the slow medium.
    Writing,
    /// The slow medium has written the lines.
    Written,
}

/// An observer of movements.
pub trait MovementObserver: Send {
    /// Called for each movement of `lines` lines from `line` on.
    fn moved(&mut self, movement: Movement, line: u64, lines: u64);
}

/// The observer outside tests: ignores all movements.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoObserver;

impl MovementObserver for NoObserver {
    #[inline]
    fn moved(&mut self, _: Movement, _: u64, _: u64) {}
}
