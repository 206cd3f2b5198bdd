//! A wrapper that reports all completions of a medium through `advance`.
//!
//! Some media return the completion time of a request at once, and their owner may then act ahead
//! of time. An owner that completes some requests without the medium must not: those completions
//! would have to wait behind completions promised for later.

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;

use crate::nested::InnerMedium;

/// A medium whose completions are all deferred; their times are those of the inner medium.
pub struct DeferredMedium(InnerMedium);

impl SaveState for DeferredMedium {
    fn save(&self, out: &mut StateWriter) {
        self.0.save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.0.restore(from)
    }
}

impl DeferredMedium {
    /// Wraps a medium.
    pub fn new(backend: Box<dyn MemoryBackend>) -> Self {
        DeferredMedium(InnerMedium::new(backend))
    }
}

impl MemoryBackend for DeferredMedium {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.0.can_accept(now, write)
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.0.enqueue(now, request);
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        self.0.next_event().map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.0.advance(now.0, done);
    }

    fn soonest(&self, at: SimTime) -> SimTime {
        self.0.soonest(at)
    }

    fn granule(&self) -> u32 {
        self.0.granule()
    }

    fn warm(&mut self, request: MemoryRequest) {
        self.0.warm(request);
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.0.begin_measurement(now);
    }

    fn statistics(&self, now: SimTime, out: &mut Vec<Statistic>) {
        self.0.statistics(now, "", out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backend, drive};
    use serde_json::json;

    #[test]
    fn a_deferred_medium_is_done_when_the_medium_is() {
        // 200 requests that are offered every 3 ns, or as soon as there is room.
        let request = |id: u64| (id * 3_000, id * id % 97 * 64, 1, id.is_multiple_of(3));
        let requests: Vec<_> = (0..200).map(request).collect();
        for params in [
            json!({}),
            json!({ "bandwidth": "10 GB/s", "queue": 5 }),
            json!({ "write_latency": "900 ns", "banks": 2, "bank_cycle": "45 ns" }),
        ] {
            let fixed = || backend("fixed", &params, 1 << 28);
            let plain = drive(&mut *fixed(), &requests, None);
            assert!(!plain.done.contains(&u64::MAX), "{params}");
            let deferred = drive(&mut DeferredMedium::new(fixed()), &requests, None);
            assert_eq!(deferred.known, 0, "{params}");
            assert_eq!(
                (deferred.sent, deferred.done),
                (plain.sent, plain.done),
                "{params}"
            );
        }
    }
}
