//! Request accounting of a requester: requests in flight and their age, completed requests, and a row for each.

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_protocol::LatencyStages;

use crate::stats::{RequestRow, RequesterStats, StageTimes};

/// Counts of requests in flight and completed, and the request log.
#[repr(C)]
pub struct RequestLedger {
    in_flight: u64,
    /// Number of requests issued since the start of the run.
    issued: u64,
    /// Sum of the issue times of the requests in flight, in picoseconds.
    issue_times_ps: u128,
    /// Rows of completed requests; `None` if they are not logged.
    rows: Option<Vec<RequestRow>>,
    /// Number of the requester.
    number: u16,
    /// Statistics of the measurement.
    pub stats: RequesterStats,
}

// The log's rows are taken by the caller of `take_rows` before a state is saved.
save_state!(RequestLedger {
    values: in_flight, issue_times_ps, issued, stats;
    built: number, rows;
});

impl RequestLedger {
    /// An empty ledger of the requester `number`; `log` keeps a row for each request.
    pub fn new(number: u16, log: bool) -> Self {
        RequestLedger {
            number,
            in_flight: 0,
            issue_times_ps: 0,
            issued: 0,
            stats: RequesterStats::default(),
            rows: log.then(Vec::new),
        }
    }

    /// Number of requests in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Number of requests issued since the start, which is also the number of the next request.
    #[inline]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Sum of the ages, at `now`, of the requests in flight, in picoseconds.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        u128::from(now.0) * u128::from(self.in_flight) - self.issue_times_ps
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.rows.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Moves the rows logged since the last call to the end of `out`. Neither list loses its memory.
    pub fn drain_rows(&mut self, out: &mut Vec<RequestRow>) {
        if let Some(rows) = &mut self.rows {
            out.append(rows);
        }
    }

    /// Resets the statistics and the log at the beginning of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.stats.begin(now.0, self.in_flight, self.issue_times_ps);
        if let Some(rows) = &mut self.rows {
            rows.clear();
        }
    }

    /// Counts a request that is issued at `now`.
    #[inline]
    pub fn enter(&mut self, now: SimTime) {
        self.in_flight += 1;
        self.issue_times_ps += u128::from(now.0);
        self.stats.in_flight.set(now.0, self.in_flight);
        self.stats.issued += 1;
        self.stats.issued_ever += 1;
        self.issued += 1;
    }

    /// Removes a request that was issued at `issued_ps` from those in flight.
    #[inline]
    pub fn leave(&mut self, now: SimTime, issued_ps: u64) {
        self.in_flight -= 1;
        self.issue_times_ps -= u128::from(issued_ps);
        self.stats.in_flight.set(now.0, self.in_flight);
    }

    /// Checks that the stages of a request sum to its latency, in picoseconds.
    ///
    /// # Panics
    /// If they do not, unless a stage exceeded [`LatencyStages::LONGEST`] and its time was lost.
    #[inline]
    pub fn check_stages(&mut self, stages: &StageTimes, latency: u64) {
        let sum: u64 = stages.iter().sum();
        if sum != latency {
            let longest = stages.iter().max();
            assert!(
                longest >= Some(&LatencyStages::LONGEST.0),
                "latency stages sum to {sum} ps, the latency is {latency} ps"
            );
            self.stats.has_lost_stages = true;
        }
    }

    /// Counts a completed request. The ledger fills in the row's `requester`.
    #[inline(always)]
    pub fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, row: RequestRow, hit: bool) {
        let row = RequestRow {
            requester: self.number,
            ..row
        };
        self.stats.complete(&row, hit);
        ctx.count_work(1);
        if let Some(rows) = &mut self.rows {
            rows.push(row);
        }
    }
}
