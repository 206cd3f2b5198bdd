//! The seam between a device's controller and its medium.

use cxlab_engine::units::{Dpa, SimTime};

/// A request for one 64-byte line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryRequest {
    /// The owner's number of the request; it comes back in the completion.
    pub id: u32,
    /// The line's address in the device.
    pub dpa: Dpa,
    /// Whether it writes.
    pub write: bool,
}

/// A request that is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The owner's number of the request.
    pub id: u32,
    /// When it was done.
    pub at: SimTime,
}

/// A medium: passive, driven by its owner, which wakes it at [`MemoryBackend::next_event`]. The
/// same trait wraps an external simulator.
pub trait MemoryBackend: Send {
    /// Whether one more request can be accepted at `now`. A medium's queues are bounded; the
    /// owner holds back what does not fit, and so does the link before it.
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool;
    /// Accepts a request. Only after [`MemoryBackend::can_accept`] said so.
    ///
    /// A medium that already knows when the request will be done, and that no later one will be
    /// done before it, answers with that time; [`MemoryBackend::advance`] is then silent about
    /// it, and its owner needs no wake-up. A medium answers so for all its requests or for none.
    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime>;
    /// When something happens next: a completion to tell of, work inside, or room after there
    /// was none. `None` when there is nothing to be woken for.
    fn next_event(&self) -> Option<SimTime>;
    /// Brings the medium up to `now` and appends what is done, in order of time.
    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>);
}
