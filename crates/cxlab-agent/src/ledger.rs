//! The books of a requester: what is in flight and since when, what completed, and rows of it.

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_protocol::LatencyStages;

use crate::stats::{RequestRow, RequesterStats, Stages};

/// Requests in flight and completed.
#[repr(C)]
pub struct Ledger {
    in_flight: u64,
    issued: u64,
    issued_sum: u128,
    rows: Option<Vec<RequestRow>>,
    number: u16,
    /// What was measured.
    pub stats: RequesterStats,
}

// Rows belong to whoever takes them, before a state is saved.
save_state!(Ledger {
    values: in_flight, issued_sum, issued, stats;
    built: number, rows;
});

impl Ledger {
    /// Empty books of the requester of that number; `log` keeps a row for each request.
    pub fn new(number: u16, log: bool) -> Self {
        Ledger {
            number,
            in_flight: 0,
            issued_sum: 0,
            issued: 0,
            stats: RequesterStats::default(),
            rows: log.then(Vec::new),
        }
    }

    /// Requests in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Requests issued, ever: the number of the next one.
    #[inline]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Summed age, at `now`, of the requests in flight.
    pub fn age_ps(&self, now: SimTime) -> u128 {
        u128::from(now.0) * u128::from(self.in_flight) - self.issued_sum
    }

    /// Takes the rows logged since the last call.
    pub fn take_rows(&mut self) -> Vec<RequestRow> {
        self.rows.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Measurement begins.
    pub fn begin_measurement(&mut self, now: SimTime) {
        self.stats.begin(now.0, self.in_flight, self.issued_sum);
        if let Some(rows) = &mut self.rows {
            rows.clear();
        }
    }

    /// A request begins.
    #[inline]
    pub fn enter(&mut self, now: SimTime) {
        self.in_flight += 1;
        self.issued_sum += u128::from(now.0);
        self.stats.in_flight.set(now.0, self.in_flight);
        self.stats.issued += 1;
        self.stats.issued_ever += 1;
        self.issued += 1;
    }

    /// A request that was issued then is no longer in flight.
    #[inline]
    pub fn leave(&mut self, now: SimTime, issued: u64) {
        self.in_flight -= 1;
        self.issued_sum -= u128::from(issued);
        self.stats.in_flight.set(now.0, self.in_flight);
    }

    /// Checks that the stages of a request sum to its latency, in picoseconds.
    ///
    /// # Panics
    /// If they do not, and none was too long to be held.
    #[inline]
    pub fn check_stages(&mut self, stages: &Stages, latency: u64) {
        let sum: u64 = stages.iter().sum();
        if sum != latency {
            let longest = stages.iter().max();
            assert!(
                longest >= Some(&LatencyStages::LONGEST.0),
                "latency stages sum to {sum} ps, the latency is {latency} ps"
            );
            self.stats.too_long = true;
        }
    }

    /// A request has completed; the row's requester is filled in here.
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
