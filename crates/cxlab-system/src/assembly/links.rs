//! The reports on links.

use cxlab_scenario::Note;

use super::measures::mean_ns;
use super::{Context, limited};
use crate::intervals::Intervals;
use crate::report::{LinkReport, Wait};

/// The reports on both directions of all links, forward and backward of each in turn. Adds a note where credits
/// limited a direction.
pub(super) fn all(
    intervals: &Intervals<'_>,
    context: &Context<'_>,
    notes: &mut Vec<Note>,
) -> Vec<LinkReport> {
    let window_ps = context.readings.window.0.max(1) as f64;
    let directions = context.readings.links.as_chunks().0;
    let mut reports = Vec::with_capacity(2 * directions.len());
    for (link, [forward, backward]) in context.plan.links.iter().zip(directions) {
        let (a, b) = (context.plan.end_name(link.a), context.plan.end_name(link.b));
        for (read, from, to) in [(forward, a, b), (backward, b, a)] {
            let (stats, waits) = (&read.stats, &read.waits);
            let report = LinkReport {
                name: format!("{a}--{b}"),
                direction: format!("{from}->{to}"),
                transmitter: from.to_owned(),
                receiver: to.to_owned(),
                link_class: context.plan.link_classes[link.class].name.clone(),
                utilization: (stats.busy_ps as f64 / window_ps).min(1.0),
                efficiency: match stats.bytes {
                    0 => 0.0,
                    bytes => stats.payload_bytes as f64 / bytes as f64,
                },
                bytes: stats.bytes,
                payload_bytes: stats.payload_bytes,
                payload_gb_per_s: stats.payload_bytes as f64 / context.window_ns().max(1e-3),
                flits: stats.flits,
                retries: stats.retries,
                rate_gb_per_s: link.params.rate().as_gb_per_s(),
                messages: stats.messages,
                wait_ns: Wait::of(&waits.all, stats.messages),
                credit_wait_ns: mean_ns(waits.credits_ps, stats.messages),
                ci95: intervals.of_link(reports.len()),
            };
            let plan = context.plan;
            notes.extend(limited::by_credits(plan, link, read, &report, window_ps));
            reports.push(report);
        }
    }
    reports
}
