//! The windows of warm-up and measurement, and the sampling points at which they end.

use cxlab_engine::units::SimTime;
use cxlab_plan::windows::WindowEnd;

use super::{RunError, Runner};
use crate::host::Host;
use crate::intervals::{self, Parts};
use crate::position::{RunPosition, WarmupEnd};
use crate::series::Series;

/// Simulated time to the first sampling point: 1 us.
const FIRST_STEP: u64 = 1_000_000;
/// Fewest batches at which a run stops because it is precise enough.
const FEWEST_BATCHES: usize = 32;

impl Runner<'_, '_> {
    pub(super) fn enter_window(&mut self) {
        let completed = self.completed();
        self.position = RunPosition {
            now: self.now,
            since: self.now,
            completed,
            sampled_at: self.now,
            completed_at_sample: completed,
            ..self.position
        };
    }

    /// Checks that windows differ from a checkpoint's only where the run has not passed them.
    pub(super) fn check_windows(
        &mut self,
        warmup: WindowEnd,
        window: WindowEnd,
    ) -> Result<(), RunError> {
        let position = self.position;
        let warm = position.measured_since.is_some() || position.has_window_ended;
        let wrong = |message: &str| {
            let message = format!("found in a run that goes on from a checkpoint: {message}");
            Err(RunError::of("measure", message))
        };
        if warm && position.warmup != warmup {
            return wrong(
                "another warm-up than the one that has ended in it; allowed: the same one",
            );
        }
        let within = match position.measured_since {
            Some(_) => window,
            None => warmup,
        };
        if !position.has_window_ended
            && (self.has_ended(within) || self.next_sampling_point(within) <= self.now)
        {
            return wrong("a window that had ended before it; allowed: one that ends after it");
        }
        self.position.warmup = warmup;
        Ok(())
    }

    /// End of a window by time; `SimTime::NEVER` for other windows.
    pub(super) fn limit(&self, window: WindowEnd) -> SimTime {
        match window {
            WindowEnd::Time(span) | WindowEnd::SettledTime(span) => {
                SimTime(self.position.since.0.saturating_add(span.0))
            }
            WindowEnd::Requests(_) | WindowEnd::SettledRequests(_) | WindowEnd::End => {
                SimTime::NEVER
            }
        }
    }

    pub(super) fn next_sampling_point(&self, window: WindowEnd) -> SimTime {
        let last = self.position.sampled_at;
        let step = FIRST_STEP.max((last.0 - self.begun.0) / 16);
        SimTime(last.0.saturating_add(step)).min(self.limit(window))
    }

    /// Whether a window has ended at the last sampling point.
    fn is_over(&self, window: WindowEnd) -> bool {
        let position = &self.position;
        let completed = position.completed_at_sample - position.completed;
        match window {
            WindowEnd::Requests(most) | WindowEnd::SettledRequests(most) => completed >= most,
            WindowEnd::Time(_) | WindowEnd::SettledTime(_) => {
                position.sampled_at >= self.limit(window)
            }
            WindowEnd::End => false,
        }
    }

    /// Whether a window has ended at the last sampling point, and is as long as it must be.
    pub(super) fn has_ended(&mut self, window: WindowEnd) -> bool {
        self.is_over(window) && self.may_end()
    }

    /// Whether a warm-up that ends by itself has ended at the last sampling point. Records the end of the transient.
    pub(super) fn has_settled(&mut self, window: WindowEnd) -> bool {
        let position = &self.position;
        let completed = position.completed_at_sample - position.completed;
        let least = match window {
            WindowEnd::SettledRequests(most) => completed >= most / 10,
            WindowEnd::SettledTime(most) => position.sampled_at.0 - position.since.0 >= most.0 / 10,
            WindowEnd::Requests(_) | WindowEnd::Time(_) | WindowEnd::End => return false,
        };
        if !least {
            return false;
        }
        let profile = self.series().map(|all| all.profile(self.now));
        let settled = profile.and_then(|profile| profile.settled());
        self.position.warmed = settled.map_or(WarmupEnd::NotSettled, WarmupEnd::Settled);
        settled.is_some()
    }

    /// Sum of the time series of all hosts.
    fn series(&mut self) -> Option<Series> {
        let own = Series::merged(self.own_hosts().map(Host::series));
        Series::merged(self.shared(own).into_iter().flatten())
    }

    /// Whether the measurement is as precise as the scenario wants.
    pub(super) fn is_precise(&mut self) -> bool {
        let (Some(wanted), Some(batches)) = (self.plan.scenario.measure.precision, &self.batches)
        else {
            return false;
        };
        if batches.count() < FEWEST_BATCHES {
            return false;
        }
        let totals = batches.totals();
        let mut all = self.shared(totals).into_iter();
        let Some(mut totals) = all.next() else {
            return false;
        };
        all.for_each(|other| totals.merge(&other));
        intervals::is_precise(Parts::Batches(&totals), wanted)
    }
}
