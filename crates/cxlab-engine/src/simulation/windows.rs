//! What the windows of a run on several threads were, and what speed-up they let one expect.

use std::sync::atomic::{AtomicU64, Ordering};

/// The windows of runs on several threads. They follow from the division alone: they are the same on any
/// machine, whatever its number of cores.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Windows {
    /// How many there were.
    pub count: u64,
    /// Events in them, of all parts.
    pub events: u64,
    /// Events of the part that had most in each window, summed: what cannot be done side by side.
    pub busiest: u64,
}

impl Windows {
    /// How many times as fast as one thread such a run can be if all events cost the same: with a core
    /// for each part, and barriers that take no time.
    pub fn bound(&self) -> f64 {
        self.events as f64 / self.busiest.max(1) as f64
    }

    /// How many times as fast as one thread it is, with a core for each part, where an event takes
    /// `event` and the end of a window `barrier`, in the same unit. Events are taken to cost the same,
    /// wherever they run.
    pub fn speed_up(&self, event: f64, barrier: f64) -> f64 {
        let together = self.busiest as f64 * event + self.count as f64 * barrier;
        self.events as f64 * event / together.max(f64::MIN_POSITIVE)
    }
}

/// The same, while a run counts them.
#[derive(Default, Debug)]
pub(super) struct Counted {
    count: AtomicU64,
    events: AtomicU64,
    busiest: AtomicU64,
}

impl Counted {
    pub(super) fn add(&self, windows: Windows) {
        self.count.fetch_add(windows.count, Ordering::Relaxed);
        self.events.fetch_add(windows.events, Ordering::Relaxed);
        self.busiest.fetch_add(windows.busiest, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Windows {
        Windows {
            count: self.count.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            busiest: self.busiest.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_and_imbalance_take_from_the_number_of_parts() {
        let balanced = Windows {
            count: 10,
            events: 4000,
            busiest: 1000,
        };
        assert_eq!(balanced.bound(), 4.0);
        assert_eq!(balanced.speed_up(50.0, 0.0), 4.0);
        // 100 events of a part between barriers of 100 events' time each.
        assert_eq!(balanced.speed_up(50.0, 5000.0), 2.0);
        assert_eq!(Windows::default().bound(), 0.0);
    }
}
