//! Outstanding requests, and known completions that are not reported yet.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;

use crate::Completion;
use crate::split_requests::SplitRequests;

/// Outstanding requests of one or more bursts. A request is done when its last burst is.
pub(super) struct OutstandingRequests {
    open: SplitRequests,
    /// Completions to report, in order of time.
    known: VecDeque<Completion>,
}

save_state!(OutstandingRequests {
    values: open, known;
});

impl OutstandingRequests {
    pub(super) fn new(capacity: usize) -> OutstandingRequests {
        OutstandingRequests {
            open: SplitRequests::with_capacity(capacity),
            known: VecDeque::with_capacity(capacity),
        }
    }

    /// Adds a request, and returns its index.
    #[inline]
    pub(super) fn open(&mut self, id: u32, bursts: u32) -> u32 {
        self.open.begin(id, bursts)
    }

    /// Records that a burst of the request is done at `at`.
    #[inline]
    pub(super) fn done(&mut self, number: u32, at: u64) {
        let Some((last, id)) = self.open.finish(number, 1, at) else {
            return;
        };
        let completion = Completion {
            id,
            at: SimTime(last),
        };
        match self.known.back() {
            Some(last) if last.at > completion.at => {
                let place = self
                    .known
                    .partition_point(|other| other.at <= completion.at);
                self.known.insert(place, completion);
            }
            _ => self.known.push_back(completion),
        }
    }

    /// Time of the first completion.
    #[inline]
    pub(super) fn next(&self) -> Option<SimTime> {
        self.known.front().map(|first| first.at)
    }

    /// Moves all completions up to `now` to the end of `done`.
    #[inline]
    pub(super) fn take_completed(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        while self.known.front().is_some_and(|first| first.at <= now) {
            done.extend(self.known.pop_front());
        }
    }
}
