//! Outstanding requests, and known completions that are not reported yet.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::Completion;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct OutstandingRequest {
    id: u32,
    /// Bursts that are not done.
    left: u32,
    /// The latest completion among its finished bursts, in picoseconds.
    last: u64,
}

/// Outstanding requests of one or more bursts. A request is done when its last burst is.
pub(super) struct OutstandingRequests {
    open: Vec<OutstandingRequest>,
    free: Vec<u32>,
    /// Completions to report, in order of time.
    known: VecDeque<Completion>,
}

save_state!(OutstandingRequests {
    values: open, free, known;
});

impl OutstandingRequests {
    pub(super) fn new(capacity: usize) -> OutstandingRequests {
        OutstandingRequests {
            open: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            known: VecDeque::with_capacity(capacity),
        }
    }

    /// Adds a request, and returns its index.
    #[inline]
    pub(super) fn open(&mut self, id: u32, bursts: u32) -> u32 {
        let request = OutstandingRequest {
            id,
            left: bursts,
            last: 0,
        };
        match self.free.pop() {
            Some(number) => {
                self.open[number as usize] = request;
                number
            }
            None => {
                self.open.push(request);
                self.open.len() as u32 - 1
            }
        }
    }

    /// Records that a burst of the request is done at `at`.
    #[inline]
    pub(super) fn done(&mut self, number: u32, at: u64) {
        let request = &mut self.open[number as usize];
        request.left -= 1;
        request.last = request.last.max(at);
        if request.left > 0 {
            return;
        }
        let completion = Completion {
            id: request.id,
            at: SimTime(request.last),
        };
        self.free.push(number);
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

    /// Reports all completions up to `now`.
    #[inline]
    pub(super) fn tell(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        while self.known.front().is_some_and(|first| first.at <= now) {
            done.extend(self.known.pop_front());
        }
    }
}
