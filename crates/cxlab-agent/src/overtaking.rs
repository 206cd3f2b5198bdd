//! How often what waits in a queue is overtaken: the law of `docs/explain/liveness.md` for places that are taken in turn.

use serde::{Deserialize, Serialize};

/// Counts how often a resource was taken, and how often something that waited for it was overtaken by what came
/// later.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct Overtaking {
    taken: u64,
    most_overtaken: u64,
}

/// When something began to wait.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Ticket {
    /// How often the resource had been taken.
    taken: u64,
    /// How many waited before.
    ahead: u64,
}

impl Overtaking {
    /// Something begins to wait behind so many others.
    pub fn wait(&self, ahead: usize) -> Ticket {
        Ticket {
            taken: self.taken,
            ahead: ahead as u64,
        }
    }

    /// The resource is taken.
    #[inline]
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// What has waited has its turn now. Those before it have taken the resource once each, or not at all.
    pub fn serve(&mut self, ticket: Ticket) {
        let passed = self.taken - ticket.taken;
        let overtaken = passed.saturating_sub(ticket.ahead);
        self.most_overtaken = self.most_overtaken.max(overtaken);
    }

    /// The most often that something was overtaken while it waited.
    pub fn most_overtaken(&self) -> u64 {
        self.most_overtaken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_came_before_do_not_overtake_and_those_that_came_later_do() {
        let mut own = Overtaking::default();
        own.take();
        let (first, second) = (own.wait(0), own.wait(1));
        own.serve(first);
        own.take();
        own.serve(second);
        assert_eq!(own.most_overtaken(), 0);
        let third = own.wait(0);
        own.take();
        own.take();
        own.serve(third);
        assert_eq!(own.most_overtaken(), 2);
    }
}
