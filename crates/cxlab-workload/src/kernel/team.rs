//! The threads of a kernel as a team, with barriers, sums, and loops with dynamic
//! schedule: what OpenMP does for the benchmarks. The team's variables are in simulated
//! memory, as is all other data.

use std::ops::Range;

use cxlab_engine::units::LINE_BYTES;

use crate::thread::{Handle, Value};

/// Lines of the team's variables: the barrier's counter, the tickets, then two lines
/// for each core's sums.
const BARRIER: u64 = 0;
const TICKETS: u64 = 1;
const SUMS: u64 = 2;

/// Bytes of a team's variables.
pub(super) fn control_bytes(cores: u64) -> u64 {
    (SUMS + 2 * cores) * LINE_BYTES
}

/// A thread's view of its team.
pub(super) struct Team<'a> {
    pub(super) t: &'a Handle,
    pub(super) core: u64,
    pub(super) cores: u64,
    control: u64,
    /// The number of barriers passed.
    barriers: u64,
    /// The number of gatherings done.
    sums: u64,
    /// The number of tickets used by all earlier loops.
    tickets: u64,
}

/// A loop whose parts are assigned to threads on request (OpenMP's dynamic schedule).
pub(super) struct Shares {
    tickets: u64,
    first_ticket: u64,
    items: u64,
    chunk: u64,
}

impl<'a> Team<'a> {
    /// Makes the view of thread `core` in a team of `cores` threads, whose variables
    /// begin at address `control`.
    pub(super) fn new(t: &'a Handle, core: u64, cores: u64, control: u64) -> Team<'a> {
        Team {
            t,
            core,
            cores,
            control,
            barriers: 0,
            sums: 0,
            tickets: 0,
        }
    }

    fn line(&self, line: u64) -> u64 {
        self.control + line * LINE_BYTES
    }

    /// Waits until every thread has reached the barrier and completed its earlier operations.
    pub(super) async fn barrier(&mut self) {
        self.barriers += 1;
        let (count, all) = (self.line(BARRIER), self.barriers * self.cores);
        self.t.fence().await;
        let mut seen = self.t.fetch_add(count, 1).await + 1;
        while seen < all {
            seen = self.t.await_change(count, seen).await;
        }
    }

    /// Collects a number from every thread and returns all numbers, in the order of
    /// the threads. A barrier.
    pub(super) async fn gather(&mut self, number: u64) -> Vec<u64> {
        // Two sets of lines alternate: a set is used again only after the barrier of
        // the gathering in between.
        let first = SUMS + (self.sums % 2) * self.cores;
        self.sums += 1;
        self.t.store(self.line(first + self.core), number).await;
        self.barrier().await;
        let loads = (0..self.cores).map(|core| self.t.load(self.line(first + core)));
        in_order(loads).await
    }

    /// The sum of a number from every thread. A barrier.
    pub(super) async fn sum(&mut self, number: u64) -> u64 {
        self.gather(number).await.into_iter().sum()
    }

    /// The sum of a double from every thread, added in the order of the threads. A barrier.
    pub(super) async fn sum_f64(&mut self, number: f64) -> f64 {
        let numbers = self.gather(number.to_bits()).await;
        numbers
            .into_iter()
            .map(f64::from_bits)
            .fold(0.0, |a, b| a + b)
    }

    /// Begins a loop over `items`, assigned `chunk` at a time. A barrier must follow before
    /// the next such loop.
    pub(super) fn share(&mut self, items: u64, chunk: u64) -> Shares {
        let first_ticket = self.tickets;
        // Each thread draws one ticket after the last part.
        self.tickets += items.div_ceil(chunk) + self.cores;
        Shares {
            tickets: self.line(TICKETS),
            first_ticket,
            items,
            chunk,
        }
    }

    /// This thread's part of `items` in equal parts (OpenMP's static schedule).
    pub(super) fn part(&self, items: u64) -> Range<u64> {
        part(items, self.core, self.cores)
    }
}

/// The part of `items` that belongs to one of `cores` threads in equal parts.
pub(super) fn part(items: u64, core: u64, cores: u64) -> Range<u64> {
    items * core / cores..items * (core + 1) / cores
}

impl Shares {
    /// Takes the next part of the loop; `None` when all parts are taken.
    pub(super) async fn next(&self, t: &Handle) -> Option<Range<u64>> {
        let ticket = t.fetch_add(self.tickets, 1).await - self.first_ticket;
        let first = ticket * self.chunk;
        (first < self.items).then(|| first..(first + self.chunk).min(self.items))
    }
}

/// Issues several operations together, waits for all, and returns their values in order.
pub(super) async fn in_order<'t>(loads: impl Iterator<Item = Value<'t>>) -> Vec<u64> {
    let loads: Vec<Value<'t>> = loads.collect();
    let mut values = Vec::with_capacity(loads.len());
    for load in loads {
        values.push(load.await);
    }
    values
}
