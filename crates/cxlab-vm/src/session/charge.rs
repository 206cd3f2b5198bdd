//! The model beside QEMU: takes what the plugins tell, in the order of the processors' times, and
//! charges for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::MOST_RUNS;
use crate::memory::{Memory, Stuck};
use crate::model::PoolCounts;
use crate::pace::{BEGIN, END, Late, Moment, Pace};
use crate::ring::Counters;

/// Between two marks.
#[derive(Clone, Default)]
pub(super) struct Phase {
    pub(super) busy_ps: u64,
    pub(super) idle_ns: u64,
    pub(super) wall_s: f64,
    pub(super) counters: Counters,
    pub(super) pools: Vec<PoolCounts>,
}

/// What was charged.
#[derive(Default)]
pub(super) struct Charged {
    /// By guest.
    pub(super) phases: Vec<Vec<Phase>>,
    pub(super) late: Late,
}

/// The phases of a guest.
#[derive(Default)]
struct Book {
    open: Option<(f64, Moment)>,
    phases: Vec<Phase>,
}

/// Charges what plugins tell, until all guests have ended. `ended` is told by others.
pub(super) fn consume<M: Memory>(
    mut pace: Pace<'_, M>,
    ended: &[AtomicBool],
) -> Result<Charged, Stuck> {
    let began = Instant::now();
    let mut books: Vec<Book> = ended.iter().map(|_| Book::default()).collect();
    let mut gone = vec![false; ended.len()];
    let mut quiet = 0u32;
    loop {
        let mut on_mark = |guest: usize, number, now| {
            books[guest].mark(began.elapsed().as_secs_f64(), number, now);
        };
        if pace.step(&mut on_mark)? {
            quiet = 0;
            continue;
        }
        for (guest, ended) in ended.iter().enumerate() {
            if !gone[guest] && ended.load(Ordering::Acquire) {
                gone[guest] = true;
                pace.end(guest);
                quiet = 0;
            }
        }
        if gone.iter().all(|gone| *gone) {
            return Ok(Charged {
                phases: books.into_iter().map(|book| book.phases).collect(),
                late: pace.late(),
            });
        }
        rest(&mut quiet);
    }
}

/// Nothing to do: first a look again at once, then with ever more time between.
fn rest(quiet: &mut u32) {
    *quiet = quiet.saturating_add(1);
    match *quiet {
        0..500 => std::hint::spin_loop(),
        500..2000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(100)),
    }
}

impl Book {
    /// The guest is at a mark: a phase begins or ends.
    fn mark(&mut self, wall_s: f64, number: u64, now: Moment) {
        match (number, self.open.take()) {
            (BEGIN, _) => self.open = Some((wall_s, now)),
            (END, Some((from_s, from))) if self.phases.len() < MOST_RUNS => {
                let pools = now.pools.iter().zip(&from.pools);
                self.phases.push(Phase {
                    busy_ps: now.busy_ps.saturating_sub(from.busy_ps),
                    idle_ns: now.idle_ns.saturating_sub(from.idle_ns),
                    wall_s: wall_s - from_s,
                    counters: now.counters.since(&from.counters),
                    pools: pools.map(|(now, from)| now.since(from)).collect(),
                });
            }
            (_, from) => self.open = from,
        }
    }
}
