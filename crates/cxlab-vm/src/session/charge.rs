//! The model beside QEMU: takes what the plugin tells, in the order of the processors' times, and
//! charges for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::MOST_RUNS;
use crate::memory::{Memory, Stuck};
use crate::model::{Model, PoolCounts};
use crate::ring::{Counters, Kind, LANES, Shared};

/// Records that are charged at once, unless the plugin waits.
const BATCH: u64 = 64;

/// Between two marks.
#[derive(Clone, Default)]
pub(super) struct Phase {
    pub(super) busy_ps: u64,
    pub(super) idle_ns: u64,
    pub(super) wall_s: f64,
    pub(super) counters: Counters,
    pub(super) pools: Vec<PoolCounts>,
}

/// Charges what the plugin tells, until `stop`.
pub(super) fn consume<M: Memory>(
    mut model: Model<M>,
    shared: Shared<'_>,
    stop: &AtomicBool,
) -> Result<Vec<Phase>, Stuck> {
    let began = Instant::now();
    let mut tails = [0u64; LANES];
    let mut heads = [0u64; LANES];
    let mut told = [0u64; LANES];
    let lanes = model.processors();
    let mut phases: Vec<Phase> = Vec::new();
    let mut open: Option<Phase> = None;
    let mut quiet = 0u32;
    loop {
        // The processor that is behind goes first, unless it waits for what others may still ask
        // before.
        let mut ready: Option<(u64, usize)> = None;
        let mut waiting: Option<(u64, usize)> = None;
        for lane in 0..lanes {
            if let Some(from) = model.waits_from(lane) {
                waiting = least(waiting, (from, lane));
                continue;
            }
            if heads[lane] == tails[lane] {
                heads[lane] = shared.lane(lane).head();
            }
            if heads[lane] != tails[lane] {
                let record = shared.lane(lane).record(tails[lane]);
                ready = least(ready, (record.at_ps + model.charged_ps(lane), lane));
            }
        }
        let bound = waiting.map_or(u64::MAX, |(from, _)| from + model.least_ps());
        let lane = match (ready, waiting) {
            (Some((at, lane)), _) if at < bound => {
                let record = shared.lane(lane).record(tails[lane]);
                if record.kind() == Kind::Mark {
                    let now = state(&model, shared, at, began);
                    mark(now, record.mark(), &mut open, &mut phases);
                }
                model.record(lane, record)?;
                lane
            }
            (_, Some((_, lane))) => {
                model.resume(lane)?;
                lane
            }
            _ => {
                if stop.load(Ordering::Acquire) {
                    return Ok(phases);
                }
                rest(&mut quiet);
                continue;
            }
        };
        quiet = 0;
        if model.waits_from(lane).is_none() {
            tails[lane] += 1;
            if tails[lane] == heads[lane] || tails[lane] - told[lane] >= BATCH {
                told[lane] = tails[lane];
                shared
                    .lane(lane)
                    .charge(model.charged_ps(lane), tails[lane]);
            }
        }
    }
}

fn least(one: Option<(u64, usize)>, other: (u64, usize)) -> Option<(u64, usize)> {
    Some(one.map_or(other, |one| one.min(other)))
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

/// How it stands at a simulated time.
fn state<M: Memory>(model: &Model<M>, shared: Shared<'_>, busy_ps: u64, began: Instant) -> Phase {
    let counters = (0..model.processors())
        .map(|lane| shared.lane(lane).counters())
        .fold(Counters::default(), |sum, one| sum.plus(&one));
    Phase {
        busy_ps,
        idle_ns: shared.idle_ns(),
        wall_s: began.elapsed().as_secs_f64(),
        counters,
        pools: model.counts().to_vec(),
    }
}

/// The guest is at a mark: a phase begins (1) or ends (2).
fn mark(now: Phase, number: u64, open: &mut Option<Phase>, phases: &mut Vec<Phase>) {
    match (number, open.take()) {
        (1, _) => *open = Some(now),
        (2, Some(from)) if phases.len() < MOST_RUNS => {
            let pools = now.pools.iter().zip(&from.pools);
            phases.push(Phase {
                busy_ps: now.busy_ps.saturating_sub(from.busy_ps),
                idle_ns: now.idle_ns.saturating_sub(from.idle_ns),
                wall_s: now.wall_s - from.wall_s,
                counters: now.counters.since(&from.counters),
                pools: pools.map(|(now, from)| now.since(from)).collect(),
            });
        }
        (_, from) => *open = from,
    }
}
