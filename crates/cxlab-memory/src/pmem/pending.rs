//! The outstanding requests of DIMMs.

use cxlab_engine::save_state;

use crate::completion_queue::CompletionQueue;
use crate::split_requests::SplitRequests;

/// The outstanding requests of all DIMMs of a memory, and their completions.
pub(super) struct PendingRequests {
    pub(super) requests: SplitRequests,
    pub(super) finished: CompletionQueue,
}

save_state!(PendingRequests {
    values: requests;
    states: finished;
});

impl PendingRequests {
    /// Records that lines of a request will be done at time `at`.
    #[inline]
    pub(super) fn done(&mut self, number: u32, lines: u32, at: u64) {
        if let Some((at, id)) = self.requests.finish(number, lines, at) {
            self.finished.push(at, id);
        }
    }
}
