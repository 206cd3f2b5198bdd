//! What moves where: for tests that follow data, since media have none.

/// A movement of lines of 64 bytes, each counted from the beginning of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Movement {
    /// A request reads them from the cache or from what was just fetched for it.
    Read {
        /// The owner's number of the request.
        id: u32,
    },
    /// A request reads them from the write-back buffer.
    ReadWriteBuffer {
        /// The owner's number of the request.
        id: u32,
    },
    /// A request writes them into the cache.
    Write {
        /// The owner's number of the request.
        id: u32,
    },
    /// A read of them was given to the slow medium.
    Asked,
    /// They came from the slow medium and are in the cache.
    Installed,
    /// They were copied from the cache into the write-back buffer.
    Buffered,
    /// They left the cache.
    Dropped,
    /// A write of them was given to the slow medium.
    Writing,
    /// The slow medium has written them.
    Written,
}

/// What hears of movements.
pub trait Observer: Send {
    /// Lines move.
    fn moved(&mut self, movement: Movement, line: u64, lines: u64);
}

/// Hears nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Silent;

impl Observer for Silent {
    #[inline]
    fn moved(&mut self, _: Movement, _: u64, _: u64) {}
}
