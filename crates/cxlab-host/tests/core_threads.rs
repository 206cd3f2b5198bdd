//! A core that runs a program of several threads, by closed forms.

#![allow(clippy::unwrap_used)]

mod alone;

use alone::{CYCLE, MEDIUM, Script, WAY, medium};
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_host::{CacheLevel, CoreStats, RequestAgent, ThreadTimes};
use cxlab_memory::fixed::FixedParams;
use cxlab_workload::{Action, LOCAL_BASE, Step, StepDependency, SyncPoint, ThreadStep};

/// The cache takes no time.
const MISS: u64 = 2 * WAY + MEDIUM;

struct Ran {
    core: CoreStats,
    threads: Vec<ThreadTimes>,
    done: bool,
}

impl Ran {
    fn busy(&self) -> Vec<u64> {
        self.threads.iter().map(|thread| thread.busy().0).collect()
    }
}

fn run_on(threads: Vec<Vec<ThreadStep>>, medium: FixedParams) -> Ran {
    let params = alone::params(vec![CacheLevel {
        size: Bytes(64 << 10),
        ways: 16,
        access_time: Picos(0),
    }]);
    let program = Script::new(threads, &["all"], Ok(()));
    let mut simulation = alone::alone(params, medium, Box::new(program), None);
    simulation.run(1, SimTime::NEVER, &Default::default());
    let core = &simulation.component(0).0;
    Ran {
        core: core.core_stats().clone(),
        threads: core.thread_times(),
        done: core.is_done(),
    }
}

fn run(threads: Vec<Vec<ThreadStep>>) -> Ran {
    let ran = run_on(threads, medium(0));
    assert!(ran.done);
    ran
}

fn load(line: u64, after: StepDependency) -> ThreadStep {
    ThreadStep::Step(Step {
        after,
        ..Step::new(Hpa(LOCAL_BASE.0 + 64 * line), Action::Load)
    })
}

/// Loads of consecutive lines, each of which needs the one before.
fn chain(first: u64, steps: u64) -> Vec<ThreadStep> {
    let load = |at| load(first + at, StepDependency::Previous);
    (0..steps).map(load).collect()
}

fn sync(cycles: u64, after: Option<(u16, u64)>) -> ThreadStep {
    ThreadStep::Sync(SyncPoint {
        cycles,
        instructions: cycles,
        after,
    })
}

#[test]
fn chains_of_two_threads_run_beside_each_other() {
    let ran = run(vec![chain(0, 100), chain(1000, 60)]);
    assert_eq!(ran.busy(), [100 * MISS, 60 * MISS]);
    assert_eq!(ran.core.misses, 160);
    // Each thread waits for memory all the time.
    assert_eq!(ran.core.outstanding_ps, 160 * MISS);
}

#[test]
fn each_thread_has_misses_of_its_own() {
    let lines = |first| (first..first + 64).map(|line| load(line, StepDependency::Nothing));
    let ran = run(vec![lines(0).collect(), lines(1000).collect()]);
    // Eight at a time, as in a core with one thread.
    assert_eq!(ran.busy(), [8 * MISS + 3 * CYCLE; 2]);
}

#[test]
fn a_line_of_one_thread_is_cached_for_the_other() {
    let again = [vec![sync(0, Some((1, 1)))], chain(0, 50)].concat();
    let first = [chain(0, 50), vec![sync(0, None)]].concat();
    let ran = run(vec![again, first]);
    assert_eq!((ran.core.misses, ran.core.hits[0]), (50, 50));
    // Two loads are issued in a cycle.
    assert_eq!(ran.busy(), [24 * CYCLE, 50 * MISS]);
    // A line that is outstanding already is requested once.
    let ran = run(vec![chain(0, 50), chain(0, 50)]);
    assert_eq!((ran.core.misses, ran.core.merged), (50, 50));
    assert_eq!(ran.busy(), [50 * MISS; 2]);
}

#[test]
fn a_thread_that_waits_ends_after_the_one_it_waits_for() {
    let waits = [chain(0, 10), vec![sync(4, Some((1, 1)))], chain(100, 20)].concat();
    let other = [chain(1000, 50), vec![sync(6, None)], chain(2000, 5)].concat();
    let ran = run(vec![waits, other]);
    let point = 50 * MISS + 6 * CYCLE;
    assert_eq!(ran.threads[0].end, SimTime(point + 20 * MISS));
    assert_eq!(ran.threads[1].end, SimTime(point + 5 * MISS));
    let own = 10 * MISS + 4 * CYCLE;
    assert_eq!(ran.threads[0].waited, Picos(point - own));
    assert_eq!(ran.busy(), [own + 20 * MISS, 55 * MISS + 6 * CYCLE]);
}

#[test]
fn a_thread_begins_when_another_has_made_it() {
    let maker = [chain(0, 30), vec![sync(0, None)], chain(100, 1)].concat();
    let made = [vec![sync(0, Some((0, 1)))], chain(1000, 7)].concat();
    let ran = run(vec![maker, made]);
    assert_eq!(ran.threads[1].begin, SimTime(30 * MISS));
    assert_eq!(ran.threads[1].end, SimTime(37 * MISS));
    assert_eq!(ran.busy(), [31 * MISS, 7 * MISS]);
}

#[test]
fn threads_share_a_medium_and_take_twice_as_long() {
    let medium = || medium(200_000);
    let lines = |first| -> Vec<ThreadStep> {
        let lines = first..first + 200;
        lines
            .map(|line| load(line, StepDependency::Nothing))
            .collect()
    };
    let alone = run_on(vec![lines(0)], medium());
    assert_eq!(alone.threads[0].end, SimTime(199 * 200_000 + MISS));
    let both = run_on(vec![lines(0), lines(1000)], medium());
    assert!(both.done);
    let last = both.threads.iter().map(|thread| thread.end).max().unwrap();
    assert_eq!(last, SimTime(399 * 200_000 + MISS));
    let most = 8 * 200_000;
    for thread in &both.threads {
        assert!(thread.end.0 + most >= last.0, "{:?}", both.threads);
    }
}

#[test]
fn threads_that_wait_for_each_other_are_never_done() {
    let ran = run_on(
        vec![
            vec![sync(0, Some((1, 2))), sync(0, None)],
            vec![sync(0, Some((0, 2))), sync(0, None)],
        ],
        FixedParams::default(),
    );
    assert!(!ran.done);
}
