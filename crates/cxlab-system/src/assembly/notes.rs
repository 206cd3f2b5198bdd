//! Notes on the window of a run.

use cxlab_scenario::Note;

use super::{Context, WarmupEnd};
use crate::intervals;

/// Notes on a window that has not settled, or is not as precise as it was to be.
pub(super) fn unsettled(context: &Context<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    if context.warmed == WarmupEnd::NotSettled {
        notes.push(Note::new(
            "measure.warmup",
            "the warm-up ended before total bandwidth and mean latency had settled; use a longer one, by \
             [measure] warmup_time (docs/guide/error-bars.md)",
        ));
    }
    let what = match context.parts.map(intervals::drifts) {
        Some([true, true]) => "total bandwidth and mean latency",
        Some([true, false]) => "total bandwidth",
        Some([false, true]) => "mean latency",
        Some([false, false]) | None => "",
    };
    if !what.is_empty() {
        let (path, why) = match context.sampling {
            Some(_) => (
                "measure.sampling.warmup",
                "the halves of measured windows differ by more than chance explains, so requests in detail \
                 before them are too few",
            ),
            None => (
                "measure",
                "the halves of the window differ by more than chance explains; use a longer warm-up or \
                 window",
            ),
        };
        notes.push(Note::new(
            path,
            format!("{what} had not settled: {why} (docs/guide/error-bars.md)"),
        ));
    }
    if let Some(wanted) = context.plan.scenario.measure.precision {
        let reached = context.parts.and_then(intervals::relative);
        if reached.is_none_or(|reached| reached > intervals::fraction(wanted)) {
            let reached = reached.map_or("without an interval".to_owned(), |reached| {
                format!("at {:.2} %", reached * 100.0)
            });
            notes.push(Note::new(
                "measure.precision",
                format!(
                    "the precision of {wanted} was not reached: the longest window ended {reached}; \
                     [measure] requests or duration sets it"
                ),
            ));
        }
    }
    notes
}
