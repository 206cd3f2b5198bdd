//! Runs the model beside QEMU: processes the plugins' records in the order of the
//! processors' times, and charges the processors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{MOST_RUNS, Span};
use crate::memory::{Memory, StuckBackend};
use crate::pace::{BEGIN, END, GuestMark, GuestSkew, INTEREST, Pace};

/// Most regions of interest of a program. Later regions count only as part of the program.
const MOST_INTEREST: usize = 1024;

/// Measurements of a program.
#[derive(Clone, Default)]
pub(super) struct Phase {
    pub(super) span: Span,
    pub(super) interest: Vec<Span>,
}

/// Result of charging all guests.
#[derive(Default)]
pub(super) struct ChargeResult {
    /// Programs by guest.
    pub(super) phases: Vec<Vec<Phase>>,
    pub(super) skew: GuestSkew,
}

/// Start of a program or region: time on this machine in seconds, and state of the guest.
type From = (f64, GuestMark);

/// Open and finished programs of a guest.
#[derive(Default)]
struct ProgramLog {
    program: Option<From>,
    interest: Option<From>,
    /// Regions of interest of the current program.
    regions: Vec<Span>,
    phases: Vec<Phase>,
}

/// Charges the plugins' records until all guests have ended. Other threads set `ended`.
pub(super) fn consume<M: Memory>(
    mut pace: Pace<'_, M>,
    ended: &[AtomicBool],
) -> Result<ChargeResult, StuckBackend> {
    let began = Instant::now();
    let mut logs: Vec<ProgramLog> = ended.iter().map(|_| ProgramLog::default()).collect();
    let mut gone = vec![false; ended.len()];
    let mut quiet = 0u32;
    loop {
        let mut on_mark = |guest: usize, number, now| {
            logs[guest].mark(began.elapsed().as_secs_f64(), number, now);
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
            return Ok(ChargeResult {
                phases: logs.into_iter().map(|log| log.phases).collect(),
                skew: pace.skew(),
            });
        }
        rest(&mut quiet);
    }
}

/// Waits while there is nothing to do: first by spinning, then with growing pauses.
fn rest(quiet: &mut u32) {
    *quiet = quiet.saturating_add(1);
    match *quiet {
        0..500 => std::hint::spin_loop(),
        500..2000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(100)),
    }
}

impl ProgramLog {
    /// Handles a mark: a program or a region of interest begins or ends.
    fn mark(&mut self, wall_s: f64, number: u64, now: GuestMark) {
        let [begin, end] = INTEREST;
        if number == BEGIN {
            *self = ProgramLog {
                program: Some((wall_s, now)),
                phases: std::mem::take(&mut self.phases),
                ..ProgramLog::default()
            };
        } else if number == begin {
            // Nothing is counted before the first mark, which may be this one.
            self.program.get_or_insert_with(|| (wall_s, now.clone()));
            self.interest = Some((wall_s, now));
        } else if number == end || number == END {
            let region = self.interest.take();
            if let Some(from) = region.filter(|_| self.regions.len() < MOST_INTEREST) {
                self.regions.push(span(&from, wall_s, &now));
            }
            let program = self.program.take_if(|_| number == END);
            if let Some(from) = program.filter(|_| self.phases.len() < MOST_RUNS) {
                self.phases.push(Phase {
                    span: span(&from, wall_s, &now),
                    interest: std::mem::take(&mut self.regions),
                });
            }
        }
    }
}

fn span((from_s, from): &From, wall_s: f64, now: &GuestMark) -> Span {
    let pools = now.pools.iter().zip(&from.pools);
    Span {
        busy_s: now.busy_ps.saturating_sub(from.busy_ps) as f64 / 1e12,
        idle_s: now.idle_ns.saturating_sub(from.idle_ns) as f64 / 1e9,
        wall_s: wall_s - from_s,
        counters: now.counters.since(&from.counters),
        pools: pools.map(|(now, from)| now.since(from)).collect(),
        shared: now.shared.since(&from.shared),
        device: now.device.since(&from.device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> GuestMark {
        GuestMark {
            busy_ps: ps,
            ..GuestMark::default()
        }
    }

    /// Processes marks with their times. Returns for each program its time and those of
    /// its regions of interest, in picoseconds.
    fn marked(marks: &[(u64, u64)]) -> Vec<(u64, Vec<u64>)> {
        let mut log = ProgramLog::default();
        for (number, ps) in marks {
            log.mark(0.0, *number, at(*ps));
        }
        let ps = |span: &Span| (span.busy_s * 1e12).round() as u64;
        let of = |phase: &Phase| (ps(&phase.span), phase.interest.iter().map(ps).collect());
        log.phases.iter().map(of).collect()
    }

    #[test]
    fn regions_of_interest_are_of_the_program_in_which_they_are() {
        let marks = [
            (1, 10),
            (3, 20),
            (4, 25),
            (3, 30),
            (4, 37),
            (2, 40),
            (1, 50),
            (2, 51),
        ];
        assert_eq!(marked(&marks), [(30, vec![5, 7]), (1, vec![])]);
    }

    #[test]
    fn a_region_without_an_end_ends_with_its_program_and_an_end_alone_is_none() {
        assert_eq!(marked(&[(1, 0), (4, 3), (3, 5), (2, 9)]), [(9, vec![4])]);
    }

    #[test]
    fn where_nothing_is_counted_before_a_region_the_program_begins_with_it() {
        assert_eq!(marked(&[(3, 5), (4, 8), (2, 9)]), [(4, vec![3])]);
    }
}
