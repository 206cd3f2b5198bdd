//! The seam between a device's controller and its medium.

use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Dpa, LINE_BYTES, SimTime};
use serde::{Deserialize, Serialize};

/// A request for a line of 64 bytes, or for several in a row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct MemoryRequest {
    /// The owner's number of the request; it comes back in the completion.
    pub id: u32,
    /// Where it begins in the device.
    pub dpa: Dpa,
    /// Lines of 64 bytes from there on. A CXL.mem request is for 1; a cache that fills a page
    /// from a slow medium asks for all of it at once. 1 to 1,024 (64 KiB).
    pub lines: u16,
    /// Whether it writes.
    pub write: bool,
}

/// A request that is done.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Completion {
    /// The owner's number of the request.
    pub id: u32,
    /// When it was done.
    pub at: SimTime,
}

/// A figure that a medium kept about itself: hits, erased blocks, energy.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistic {
    /// Its name with its unit, in snake case; the parts of a medium are set apart by dots
    /// (`cache.hits`, `dram.energy_nj`).
    pub name: String,
    /// Its value since [`MemoryBackend::begin_measurement`].
    pub value: f64,
}

/// A medium: passive, driven by its owner, which wakes it at [`MemoryBackend::next_event`]. The
/// same trait wraps an external simulator.
pub trait MemoryBackend: SaveState + Send {
    /// Whether one more request can be accepted at `now`. A medium's queues are bounded; the
    /// owner holds back what does not fit, and so does the link before it.
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool;
    /// A request will come soon: it may [`prefetch`](cxlab_engine::prefetch()) what it will look at.
    #[inline]
    fn fetch(&self) {}
    /// Accepts a request. Only after [`MemoryBackend::can_accept`] said so.
    ///
    /// A medium that already knows when the request will be done, and that no later one will be
    /// done before it, answers with that time; [`MemoryBackend::advance`] is then silent about
    /// it, and its owner needs no wake-up. A medium answers so for all its requests or for none, until
    /// [`MemoryBackend::defer`].
    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime>;
    /// From now on requests are told of by [`MemoryBackend::advance`] when they are done, and not before: the owner
    /// answers others at once, which would stand behind what it has promised for later.
    fn defer(&mut self) {}
    /// When something happens next: a completion to tell of, work inside, or room after there
    /// was none. `None` when there is nothing to be woken for.
    fn next_event(&self) -> Option<SimTime>;
    /// A time before which no request is done that is accepted at `at`: an owner that looks only
    /// then misses nothing.
    fn soonest(&self, at: SimTime) -> SimTime {
        at
    }
    /// Brings the medium up to `now` and appends what is done, in order of time.
    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>);
    /// Bytes that the medium reads and writes as a whole; a shorter request costs as much, and a
    /// shorter write may cost more. A power of two.
    fn granule(&self) -> u32 {
        LINE_BYTES as u32
    }
    /// Applies a request to what the medium keeps (tags, mappings, blocks, buffers, rows) without time,
    /// as if it had come alone and all that follows from it had ended. Only while no request is inside
    /// and no event is left, in a sampled run; the request's number means nothing. Statistics do not
    /// count it. What a few hundred requests bring back by themselves, such as the open rows of DRAM,
    /// may stay as it was.
    fn warm(&mut self, _request: MemoryRequest) {}
    /// Statistics begin here; the medium's state stays.
    fn begin_measurement(&mut self, _now: SimTime) {}
    /// Appends what the medium kept about itself, always in the same order.
    fn statistics(&self, _now: SimTime, _out: &mut Vec<Statistic>) {}
}
