//! How often a pending request is overtaken in a queue: checks the bounds of
//! `docs/explain/liveness.md` for resources that are granted in order of arrival.

use serde::{Deserialize, Serialize};

/// Counts the grants of a resource, and how often a pending request was overtaken by later ones.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct OvertakingCounter {
    taken: u64,
    most_overtaken: u64,
}

/// State of the resource when a request began to wait.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct WaitTicket {
    /// Number of grants until then.
    taken: u64,
    /// Number of requests that waited before this one.
    ahead: u64,
}

impl OvertakingCounter {
    /// A request begins to wait behind `ahead` others.
    pub fn wait(&self, ahead: usize) -> WaitTicket {
        WaitTicket {
            taken: self.taken,
            ahead: ahead as u64,
        }
    }

    /// Counts a grant of the resource.
    #[inline]
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// A pending request is granted now. Each request before it has been granted once,
    /// or not at all.
    pub fn serve(&mut self, ticket: WaitTicket) {
        let passed = self.taken - ticket.taken;
        let overtaken = passed.saturating_sub(ticket.ahead);
        self.most_overtaken = self.most_overtaken.max(overtaken);
    }

    /// The largest number of times that one request was overtaken.
    pub fn most_overtaken(&self) -> u64 {
        self.most_overtaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_came_before_do_not_overtake_and_those_that_came_later_do() {
        let mut counter = OvertakingCounter::default();
        counter.take();
        let (first, second) = (counter.wait(0), counter.wait(1));
        counter.serve(first);
        counter.take();
        counter.serve(second);
        assert_eq!(counter.most_overtaken(), 0);
        let third = counter.wait(0);
        counter.take();
        counter.take();
        counter.serve(third);
        assert_eq!(counter.most_overtaken(), 2);
    }
}
