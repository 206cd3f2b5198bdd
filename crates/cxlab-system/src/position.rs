//! The position of a run, which a checkpoint contains.

use cxlab_engine::units::SimTime;
use cxlab_plan::windows::WindowEnd;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) enum WarmupEnd {
    /// It lasted as long as the scenario says, or is not over.
    AsConfigured,
    /// The transient had ended at this time, at the latest.
    Settled(SimTime),
    /// The longest allowed was over.
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
    pub(crate) look: SimTime,
    pub(crate) seen: u64,
    /// Whether the window has ended at that sampling point.
    pub(crate) over: bool,
    pub(crate) warmed: WarmupEnd,
}
