//! A medium inside another, whose completions come by `advance` or are known at once.

use cxlab_engine::units::SimTime;

use crate::backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
use crate::finished::Finished;

/// A medium that is driven by the one around it.
pub(super) struct Nested {
    backend: Box<dyn MemoryBackend>,
    known: Finished,
}

impl Nested {
    pub(super) fn new(backend: Box<dyn MemoryBackend>) -> Self {
        Nested {
            backend,
            known: Finished::with_capacity(64),
        }
    }

    /// Gives the medium a request, if it has room.
    #[inline]
    pub(super) fn offer(&mut self, now: u64, request: MemoryRequest) -> bool {
        let now = SimTime(now);
        if !self.backend.can_accept(now, request.write) {
            return false;
        }
        if let Some(at) = self.backend.enqueue(now, request) {
            self.known.push(at.0, request.id);
        }
        true
    }

    #[inline]
    pub(super) fn next_event(&self) -> Option<u64> {
        let told = self.backend.next_event().map(|at| at.0);
        match (told, self.known.next()) {
            (Some(told), Some(known)) => Some(told.min(known)),
            (told, known) => told.or(known),
        }
    }

    #[inline]
    pub(super) fn advance(&mut self, now: u64, done: &mut Vec<Completion>) {
        self.backend.advance(SimTime(now), done);
        self.known.drain(now, done);
    }

    pub(super) fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
    }

    /// Its statistics, behind a prefix unless they have it by themselves, as those of `dram` do.
    pub(super) fn statistics(&self, now: SimTime, prefix: &str, out: &mut Vec<Statistic>) {
        let first = out.len();
        self.backend.statistics(now, out);
        for one in &mut out[first..] {
            if !one.name.starts_with(prefix) {
                one.name.insert_str(0, prefix);
            }
        }
    }
}
