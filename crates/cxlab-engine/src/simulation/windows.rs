//! Counts of the windows of a run on several threads, and the speed-up that follows from them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the [windows](crate::Simulation#windows-of-the-threaded-executor) of runs on several threads.
///
/// With [`Threads::Exactly`](crate::Threads::Exactly) they follow from the model and the division, and
/// are the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Windows {
    /// Number of windows.
    pub count: u64,
    /// Events of all partitions in the windows.
    pub events: u64,
    /// Events of the busiest partition of each window, summed over the windows: the critical path.
    pub busiest: u64,
}

impl Windows {
    /// Upper bound of the speed-up over one thread, with a core for each partition, if all events take
    /// the same time and barriers take none.
    pub fn bound(&self) -> f64 {
        self.events as f64 / self.busiest.max(1) as f64
    }

    /// Speed-up over one thread, with a core for each partition, where every event takes `event` and the
    /// end of a window takes `barrier`, in the same unit.
    pub fn speed_up(&self, event: f64, barrier: f64) -> f64 {
        let together = self.busiest as f64 * event + self.count as f64 * barrier;
        self.events as f64 * event / together.max(f64::MIN_POSITIVE)
    }
}

/// A [`Windows`] that a run adds to while other threads read it.
#[derive(Default, Debug)]
pub(super) struct WindowCounters {
    count: AtomicU64,
    events: AtomicU64,
    busiest: AtomicU64,
}

impl WindowCounters {
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
