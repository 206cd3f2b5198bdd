//! The model of `cxlab attach`, told of every miss of an execution.

use cxlab_attach::estimate::{Estimate, Machine};
use cxlab_attach::fabric::{Demand, Fabric, PoolResponse, in_flight};
use cxlab_attach::model::{PoolUse, WindowUse};

use super::{Assumed, ModelSide};

/// Time between two requests to the fabric, in nanoseconds of the program's time.
const FABRIC_INTERVAL_NS: f64 = 1e6;
/// Iterations of the fixed point of load and delay.
const ROUNDS: usize = 8;

/// Memory use of a thread in a window, with begin and end by the program's estimated clock, in nanoseconds.
#[derive(Debug)]
pub(super) struct ThreadWindow {
    pub(super) thread: usize,
    pub(super) begun_ns: f64,
    pub(super) ended_ns: f64,
    pub(super) used: WindowUse,
}

/// The model's result for each thread if all misses are known. The fabric gets the demand of all threads that run at once.
pub(super) fn exact(
    windows: &[ThreadWindow],
    threads: usize,
    assumed: &Assumed,
    fabric: &mut dyn Fabric,
) -> Vec<ModelSide> {
    let machine = assumed.machine();
    let mut sides = vec![ModelSide::default(); threads];
    let mut from = 0;
    let mut times = vec![0.0; threads];
    for (at, window) in windows.iter().enumerate() {
        let own = Estimate::of([&window.used].into_iter(), &machine, 1.0);
        let time: &mut f64 = &mut times[window.thread];
        *time += own.map_or(0.0, |own| own.time_ns());
        if *time < FABRIC_INTERVAL_NS && at + 1 < windows.len() {
            continue;
        }
        together(&windows[from..=at], &mut sides, assumed, fabric);
        from = at + 1;
        times.fill(0.0);
    }
    sides
}

/// Adds the delay of windows that threads execute at the same time.
fn together(
    windows: &[ThreadWindow],
    sides: &mut [ModelSide],
    assumed: &Assumed,
    fabric: &mut dyn Fabric,
) {
    let machine = assumed.machine();
    let mut running: Vec<(usize, Estimate)> = Vec::new();
    for thread in 0..sides.len() {
        let own = windows.iter().filter(|window| window.thread == thread);
        let part = joined(own.map(|window| &window.used));
        let estimate = Estimate::of([&part].into_iter(), &machine, 1.0);
        running.extend(estimate.map(|estimate| (thread, estimate)));
    }
    if running.is_empty() {
        return;
    }
    let times = running.iter().map(|(_, estimate)| estimate.time_ns());
    let mut whole_ns = times.fold(0.0, f64::max);
    if sides.len() > 1 {
        // Threads may have waited for one another in between.
        let begun = windows.iter().map(|window| window.begun_ns);
        let ended = windows.iter().map(|window| window.ended_ns);
        let begun = begun.fold(f64::INFINITY, f64::min);
        whole_ns = whole_ns.max(ended.fold(0.0, f64::max) - begun);
    }
    let parts: Vec<(f64, &Estimate)> = running
        .iter()
        .map(|(_, estimate)| (estimate.time_ns() / whole_ns, estimate))
        .collect();
    let answers = settled(&parts, assumed, fabric);
    for (thread, estimate) in &running {
        let time_ns = estimate.time_ns();
        sides[*thread].local_ns += time_ns;
        add(&mut sides[*thread], estimate, time_ns, &answers, &machine);
    }
}

/// Joins consecutive windows into one, so that streams continue from each window to the next.
fn joined<'a>(windows: impl Iterator<Item = &'a WindowUse>) -> WindowUse {
    let mut whole = WindowUse::default();
    for window in windows {
        whole.instructions += window.instructions;
        whole.seen += window.seen;
        whole.idle += window.idle;
        whole.blocks.extend_from_slice(&window.blocks);
        whole.pools.resize(window.pools.len(), PoolUse::default());
        for (sum, pool) in whole.pools.iter_mut().zip(&window.pools) {
            sum.waits += pool.waits;
            sum.reads += pool.reads;
            sum.writes += pool.writes;
        }
    }
    whole
}

/// Adds the memory use and delay of CPU time.
pub(super) fn add(
    side: &mut ModelSide,
    estimate: &Estimate,
    cpu_ns: f64,
    answers: &[PoolResponse],
    machine: &Machine,
) {
    side.delay_ns += cpu_ns * estimate.delay(answers, machine);
    for rate in &estimate.rates {
        side.lines += cpu_ns * rate.reads;
        side.waits += cpu_ns * rate.waits;
    }
}

/// Responses of the fabric at the load of threads slowed down by these responses. Each thread has its part of the time.
pub(super) fn settled(
    running: &[(f64, &Estimate)],
    assumed: &Assumed,
    fabric: &mut dyn Fabric,
) -> Vec<PoolResponse> {
    let machine = assumed.machine();
    let pools = fabric.pools().len();
    let demand = |real_ns: f64| -> Vec<Demand> {
        let mut sum = vec![Demand::default(); pools];
        for (part, estimate) in running {
            let own = cxlab_attach::estimate::demand(&estimate.rates, *part, real_ns);
            for (sum, own) in sum.iter_mut().zip(own) {
                sum.reads_per_ns += own.reads_per_ns;
                sum.writes_per_ns += own.writes_per_ns;
            }
        }
        sum
    };
    let reads = assumed.overlap.stream * running.len() as f64;
    let lines = in_flight(&demand(1.0), reads);
    let undelayed = fabric.answer(&demand(1.0), lines);
    let mut answers = undelayed.clone();
    for _ in 0..ROUNDS {
        let slower = running
            .iter()
            .map(|(part, estimate)| part * (1.0 + estimate.delay(&answers, &machine)));
        let real_ns = slower.fold(0.0, f64::max).max(1.0);
        answers = fabric.answer(&demand(real_ns), lines);
        for (answer, undelayed) in answers.iter_mut().zip(&undelayed) {
            answer.stretch = undelayed.stretch;
        }
    }
    answers
}
