//! The running medium: latencies that follow the curves, and a bus that is never faster than their peak.

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::units::SimTime;
use cxlab_engine::{prefetch, save_state};

use super::table::LatencyTable;

/// Fractions of a picosecond in which the bus is paced.
const FRACTION_BITS: u32 = 16;
/// Completed requests are removed once this many are pending.
const REMOVAL_SIZE: usize = 8;
/// Distance of the mix from the family beyond which lines count as outside, as a share of reads
/// (*assumed*: a random mix fluctuates by 0.01 in a window of 2,000 lines).
const OUTSIDE: f64 = 0.05;

/// A medium that follows a family of curves.
pub(super) struct CurveMemory {
    table: Arc<LatencyTable>,
    /// Lines of the averages.
    window: f64,
    capacity: usize,
    /// Lines since the beginning, up to `window`.
    seen: f64,
    /// Average share of reads among lines.
    reads: f64,
    /// Average time in picoseconds that requests wait for the bus beyond their target.
    wait_ps: f64,
    /// Average of the lines in flight, over the time of `window` lines at the peak.
    in_flight: f64,
    /// Time of the last request.
    last: u64,
    /// Time from which the bus is free, in picoseconds times 2^`FRACTION_BITS`.
    free: u128,
    /// Whether `enqueue` returns completion times, until `defer`.
    returns_times: bool,
    /// Number of completions at the front of `pending` that `enqueue` returned before `defer`.
    returned: usize,
    /// Completions in order of time.
    pending: VecDeque<Completion>,
    counts: LineCounts,
}

/// Lines since the beginning of measurement.
#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
struct LineCounts {
    reads: u64,
    writes: u64,
    outside: u64,
    saturated: u64,
}

save_state!(CurveMemory {
    values: seen, reads, wait_ps, in_flight, last, free, returns_times, returned, pending, counts;
    built: table, window, capacity;
});

impl CurveMemory {
    pub(super) fn new(table: Arc<LatencyTable>, window: u32, queue: u32) -> CurveMemory {
        CurveMemory {
            window: f64::from(window),
            table,
            capacity: queue as usize,
            seen: 0.0,
            reads: 0.0,
            wait_ps: 0.0,
            in_flight: 0.0,
            last: 0,
            free: 0,
            returns_times: true,
            returned: 0,
            pending: VecDeque::with_capacity(queue as usize),
            counts: LineCounts::default(),
        }
    }

    /// Removes requests whose completion time `enqueue` returned, once they are done.
    fn forget(&mut self, now: SimTime) {
        while self.pending.front().is_some_and(|first| first.at <= now) {
            self.pending.pop_front();
        }
    }

    /// The completion time of a request that arrives now: see `curves/mod.rs`.
    fn serve(&mut self, now: u64, lines: u16, write: bool) -> u64 {
        let count = f64::from(lines);
        self.seen = (self.seen + count).min(self.window);
        let weight = (count / self.seen).min(1.0);
        let read = if write { 0.0 } else { 1.0 };
        self.reads += weight * (read - self.reads);
        let mix = self.table.mix(self.reads);

        let elapsed = now.saturating_sub(self.last) as f64;
        self.last = self.last.max(now);
        let window_ps = self.window * mix.line_ps();
        self.in_flight *= window_ps / (window_ps + elapsed);
        let in_flight = self.in_flight;
        let target = (mix.latency_ps(in_flight) - self.wait_ps).max(mix.unloaded_ps());

        // Rounded up, so that the bus is never faster than the peak.
        let line = (mix.line_ps() * f64::from(1 << FRACTION_BITS)).ceil() as u128;
        let wished = now + (target + 0.5) as u64;
        let first = (u128::from(wished) << FRACTION_BITS).max(self.free);
        let end = first + line * u128::from(lines - 1);
        self.free = end + line;
        let (first, end) = (first >> FRACTION_BITS, end >> FRACTION_BITS);
        let (first, end) = (first as u64, end as u64);

        let waited = (first - wished) as f64;
        self.wait_ps += weight * (waited - self.wait_ps);
        // The lines of a request are done one after another.
        let inside = count * ((first - now) as f64 + 0.5 * (end - first) as f64);
        self.in_flight += inside / window_ps;

        let lines = u64::from(lines);
        let counts = &mut self.counts;
        *(if write {
            &mut counts.writes
        } else {
            &mut counts.reads
        }) += lines;
        counts.outside += if mix.outside > OUTSIDE { lines } else { 0 };
        counts.saturated += if in_flight > mix.full() { lines } else { 0 };
        end
    }
}

impl MemoryBackend for CurveMemory {
    fn can_accept(&mut self, now: SimTime, _write: bool) -> bool {
        // Several are removed at once: see `fixed`.
        if self.returns_times && self.pending.len() + 1 >= self.capacity.min(REMOVAL_SIZE) {
            self.forget(now);
        }
        self.pending.len() < self.capacity
    }

    fn prefetch(&self) {
        for done in [self.pending.front(), self.pending.back()]
            .into_iter()
            .flatten()
        {
            prefetch(done);
        }
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let at = SimTime(self.serve(now.0, request.lines, request.write));
        self.pending.push_back(Completion { id: request.id, at });
        self.returns_times.then_some(at)
    }

    fn defer(&mut self) {
        if std::mem::take(&mut self.returns_times) {
            self.returned = self.pending.len();
        }
    }

    fn next_event(&self) -> Option<SimTime> {
        if self.returns_times && self.pending.len() < self.capacity {
            return None;
        }
        self.pending.front().map(|first| first.at)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        if self.returns_times {
            self.forget(now);
            return;
        }
        while let Some(first) = self.pending.front().copied()
            && first.at <= now
        {
            self.pending.pop_front();
            match self.returned {
                0 => done.push(first),
                _ => self.returned -= 1,
            }
        }
    }

    fn begin_measurement(&mut self, _now: SimTime) {
        self.counts = LineCounts::default();
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let counts = &self.counts;
        let all = counts.reads + counts.writes;
        let percent = 100.0 * counts.reads as f64 / all.max(1) as f64;
        let values = [
            ("read_percent", percent),
            ("lines", all as f64),
            ("lines_outside_mixes", counts.outside as f64),
            ("lines_saturated", counts.saturated as f64),
        ];
        Statistic::append(out, "curves.", &values);
    }
}
