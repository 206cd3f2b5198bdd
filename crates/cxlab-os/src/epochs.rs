//! Which accesses an invalidation has to wait for: all that began before it.
//!
//! Accesses are not counted by page. Each access belongs to an epoch. An invalidation that finds
//! accesses in flight ends the current epoch, and is complete when that epoch and all earlier ones
//! have no access left.

use std::collections::VecDeque;

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// Accesses that began between two invalidations.
#[derive(Default, Serialize, Deserialize)]
struct Epoch {
    under_way: u64,
    /// Tags of the invalidations that are complete when this epoch and all earlier ones are.
    tags: Vec<u32>,
}

/// Accesses in flight, by epoch.
pub struct Epochs {
    epochs: VecDeque<Epoch>,
    /// Number of the first of `epochs`.
    first: u64,
}

save_state!(Epochs {
    values: epochs, first;
});

impl Default for Epochs {
    fn default() -> Self {
        Epochs {
            epochs: VecDeque::from([Epoch::default()]),
            first: 0,
        }
    }
}

impl Epochs {
    /// Begins an access and returns its epoch.
    #[inline]
    pub fn begin(&mut self) -> u64 {
        if let Some(epoch) = self.epochs.back_mut() {
            epoch.under_way += 1;
        }
        self.first + self.epochs.len() as u64 - 1
    }

    /// Begins an invalidation. True if no access is in flight; otherwise [`Epochs::done`]
    /// returns its tag later.
    pub fn invalidate(&mut self, tag: u32) -> bool {
        if self.epochs.iter().all(|epoch| epoch.under_way == 0) {
            return true;
        }
        if let Some(epoch) = self.epochs.back_mut() {
            epoch.tags.push(tag);
        }
        self.epochs.push_back(Epoch::default());
        false
    }

    /// Ends an access of an epoch, and returns the tags of the invalidations that
    /// are complete with it.
    ///
    /// # Panics
    /// If no access of that epoch is in flight.
    #[inline]
    pub fn done(&mut self, epoch: u64) -> Vec<u32> {
        let place = epoch.checked_sub(self.first);
        let found = place.and_then(|place| self.epochs.get_mut(place as usize));
        let Some(found) = found.filter(|epoch| epoch.under_way > 0) else {
            panic!("no access of epoch {epoch} is under way")
        };
        found.under_way -= 1;
        let mut tags = Vec::new();
        while self.epochs.len() > 1 && self.epochs[0].under_way == 0 {
            let ended = self.epochs.pop_front();
            tags.extend(ended.map(|epoch| epoch.tags).unwrap_or_default());
            self.first += 1;
        }
        tags
    }
}

#[cfg(test)]
mod tests {
    use super::Epochs;

    #[test]
    fn an_invalidation_waits_for_what_began_before_it_and_for_nothing_else() {
        let mut epochs = Epochs::default();
        assert!(epochs.invalidate(1), "nothing is under way");
        let (old, older) = (epochs.begin(), epochs.begin());
        assert!(!epochs.invalidate(2));
        let new = epochs.begin();
        assert!(!epochs.invalidate(3));
        assert!(epochs.done(old).is_empty());
        assert_eq!(epochs.done(older), [2]);
        assert_eq!(epochs.done(new), [3]);
        assert!(epochs.invalidate(4));
    }

    #[test]
    fn a_later_invalidation_waits_for_earlier_epochs_too() {
        let mut epochs = Epochs::default();
        let old = epochs.begin();
        assert!(!epochs.invalidate(1));
        let new = epochs.begin();
        assert!(!epochs.invalidate(2));
        assert!(epochs.done(new).is_empty());
        assert_eq!(epochs.done(old), [1, 2]);
    }
}
