//! The position of a run, which a checkpoint contains.

use cxlab_engine::units::SimTime;
use cxlab_plan::windows::WindowEnd;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum WarmupEnd {
    /// The warm-up has the length that the scenario gives, or is not long enough yet to be judged.
    AsConfigured,
    /// The warm-up ended because rate and latency had settled, at this time at the latest.
    Settled(SimTime),
    /// Rate and latency had not settled at the last sampling point of the warm-up, or at its maximum length.
    NotSettled,
}

/// Position of a run in its warm-up and measurement.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct RunPosition {
    /// How the warm-up ends, or ended.
    pub(crate) warmup: WindowEnd,
    /// When measurement began.
    pub(crate) measured_since: Option<SimTime>,
    /// Simulated time up to now.
    pub(crate) now: SimTime,
    /// Beginning of the current window, and number of requests that had completed then.
    pub(crate) since: SimTime,
    pub(crate) completed: u64,
    /// The last sampling point, and number of requests that had completed then.
    pub(crate) sampled_at: SimTime,
    pub(crate) completed_at_sample: u64,
    /// Whether the window has ended at the last sampling point.
    pub(crate) has_window_ended: bool,
    pub(crate) warmed: WarmupEnd,
}
