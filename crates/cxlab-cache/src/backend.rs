//! The interface between a device's controller and its medium.

use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Dpa, LINE_BYTES, SimTime};
use serde::{Deserialize, Serialize};

/// A read or write of one line of 64 bytes, or of several consecutive lines.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct MemoryRequest {
    /// The owner's number of the request; the completion carries the same number.
    pub id: u32,
    /// Device physical address of the first byte.
    pub dpa: Dpa,
    /// Number of lines of 64 bytes. A CXL.mem request has 1; a cache that fills a page from a slow
    /// medium requests the whole page at once. 1 to 1,024 (64 KiB).
    pub lines: u16,
    /// `true` for a write.
    pub write: bool,
}

/// The completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Completion {
    /// The owner's number of the request.
    pub id: u32,
    /// Time of completion.
    pub at: SimTime,
}

/// A statistic of a medium, such as hits, erased blocks or energy.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistic {
    /// Name with unit, in snake case. Dots separate the parts of a medium: `cache.hits`, `dram.energy_nj`.
    pub name: String,
    /// Value since [`MemoryBackend::begin_measurement`].
    pub value: f64,
}

impl Statistic {
    /// Appends values by their names, which begin with `prefix`.
    pub fn append(out: &mut Vec<Statistic>, prefix: &str, values: &[(&str, f64)]) {
        out.extend(values.iter().map(|(name, value)| Statistic {
            name: format!("{prefix}{name}"),
            value: *value,
        }));
    }
}

/// A medium. It is passive: the owner drives it, and wakes it at [`MemoryBackend::next_event`].
/// External simulators are wrapped by this trait too.
pub trait MemoryBackend: SaveState + Send {
    /// Whether the medium can accept one more request at `now`. Its queues are bounded: the owner
    /// stalls requests that do not fit, which stalls the link before it.
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool;
    /// Announces a request, so that the medium can [`prefetch`](cxlab_engine::prefetch()) its own state.
    #[inline]
    fn prefetch(&self) {}
    /// Accepts a request. Callers must have asked [`MemoryBackend::can_accept`] before.
    ///
    /// A medium may return the completion time at once, if it knows the time and no later request completes before this
    /// one. [`MemoryBackend::advance`] then does not report the request, and the owner needs no wake-up. A medium
    /// returns a time for all its requests or for none, until [`MemoryBackend::defer`].
    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime>;
    /// From now on [`MemoryBackend::advance`] reports every request when it is done, and `enqueue`
    /// returns `None`. An owner needs this if it completes other requests at once, because those
    /// would have to wait behind completions promised for later.
    fn defer(&mut self) {}
    /// Time of the next event: a completion to report, internal work, or room in a full queue.
    /// `None` if the medium needs no wake-up.
    fn next_event(&self) -> Option<SimTime>;
    /// A lower bound on the completion time of requests accepted at `at`. An owner that wakes up
    /// only then misses no completion.
    fn soonest(&self, at: SimTime) -> SimTime {
        at
    }
    /// Advances the medium to `now`, and appends completed requests to `done` in order of time.
    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>);
    /// Bytes that the medium reads and writes as a whole, a power of two. A shorter request costs
    /// as much, and a shorter write may cost more.
    fn granule(&self) -> u32 {
        LINE_BYTES as u32
    }
    /// Applies a request to the medium's state (tags, mappings, blocks, buffers, rows) without time, as if the request
    /// had come alone and all its consequences had ended. Used in sampled runs, only while the medium has no request
    /// and no event. The request's number has no meaning, and statistics do not count the request. State that a few
    /// hundred requests restore by themselves, such as the open rows of DRAM, may stay unchanged.
    fn warm(&mut self, _request: MemoryRequest) {}
    /// Resets the statistics; the medium's state stays.
    fn begin_measurement(&mut self, _now: SimTime) {}
    /// Appends the medium's statistics, always in the same order.
    fn statistics(&self, _now: SimTime, _out: &mut Vec<Statistic>) {}
}
