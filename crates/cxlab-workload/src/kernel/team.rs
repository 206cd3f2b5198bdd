//! The threads of a kernel as a team: barriers, sums, and loops whose parts are handed out. What OpenMP
//! does for the benchmarks; its variables lie in simulated memory like all else.

use std::ops::Range;

use cxlab_engine::units::LINE_BYTES;

use crate::thread::{Handle, Value};

/// Lines of control: the barrier, the tickets; then two for each core's sums.
const BARRIER: u64 = 0;
const TICKETS: u64 = 1;
const SUMS: u64 = 2;

/// Bytes of control of a team.
pub(super) fn control_bytes(cores: u64) -> u64 {
    (SUMS + 2 * cores) * LINE_BYTES
}

/// A thread's place in its team.
pub(super) struct Team<'a> {
    pub(super) t: &'a Handle,
    pub(super) core: u64,
    pub(super) cores: u64,
    control: u64,
    /// Barriers passed.
    barriers: u64,
    /// Sums made.
    sums: u64,
    /// Tickets that all loops before have used up.
    tickets: u64,
}

/// A loop whose parts go to whoever comes first (OpenMP's dynamic schedule).
pub(super) struct Shares {
    tickets: u64,
    first_ticket: u64,
    items: u64,
    chunk: u64,
}

impl<'a> Team<'a> {
    /// A thread of a team of `cores` threads, with its control at an address.
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

    /// Waits until every thread has come so far, with all that it has stored.
    pub(super) async fn barrier(&mut self) {
        self.barriers += 1;
        let (count, all) = (self.line(BARRIER), self.barriers * self.cores);
        self.t.fence().await;
        let mut seen = self.t.fetch_add(count, 1).await + 1;
        while seen < all {
            seen = self.t.await_change(count, seen).await;
        }
    }

    /// The numbers of all threads, which all get; a barrier.
    pub(super) async fn gather(&mut self, number: u64) -> Vec<u64> {
        // The next gathering uses other lines, and the one after that comes behind its barrier.
        let first = SUMS + (self.sums % 2) * self.cores;
        self.sums += 1;
        self.t.store(self.line(first + self.core), number).await;
        self.barrier().await;
        let loads = (0..self.cores).map(|core| self.t.load(self.line(first + core)));
        in_order(loads).await
    }

    /// The sum of the numbers of all threads; a barrier.
    pub(super) async fn sum(&mut self, number: u64) -> u64 {
        self.gather(number).await.into_iter().sum()
    }

    /// The same of doubles, added in the order of the threads.
    pub(super) async fn sum_f64(&mut self, number: f64) -> f64 {
        let numbers = self.gather(number.to_bits()).await;
        numbers
            .into_iter()
            .map(f64::from_bits)
            .fold(0.0, |a, b| a + b)
    }

    /// Begins a loop over `items`, handed out `chunk` at a time. A barrier must follow it before the next.
    pub(super) fn share(&mut self, items: u64, chunk: u64) -> Shares {
        let first_ticket = self.tickets;
        // Each thread draws one ticket too many.
        self.tickets += items.div_ceil(chunk) + self.cores;
        Shares {
            tickets: self.line(TICKETS),
            first_ticket,
            items,
            chunk,
        }
    }

    /// The part of `items` that falls to this thread in equal parts (OpenMP's static schedule).
    pub(super) fn part(&self, items: u64) -> Range<u64> {
        part(items, self.core, self.cores)
    }
}

/// The part of `items` that falls to one of `cores` threads in equal parts.
pub(super) fn part(items: u64, core: u64, cores: u64) -> Range<u64> {
    items * core / cores..items * (core + 1) / cores
}

impl Shares {
    /// The next part; `None` when all are taken.
    pub(super) async fn next(&self, t: &Handle) -> Option<Range<u64>> {
        let ticket = t.fetch_add(self.tickets, 1).await - self.first_ticket;
        let first = ticket * self.chunk;
        (first < self.items).then(|| first..(first + self.chunk).min(self.items))
    }
}

/// Asks for some values together, and waits for all.
pub(super) async fn in_order<'t>(loads: impl Iterator<Item = Value<'t>>) -> Vec<u64> {
    let loads: Vec<Value<'t>> = loads.collect();
    let mut values = Vec::with_capacity(loads.len());
    for load in loads {
        values.push(load.await);
    }
    values
}
