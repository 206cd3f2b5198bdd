//! A core on its host's own memory, by closed forms: the time of each step, and the requests to memory.

#![allow(clippy::unwrap_used)]

mod alone;

use alone::{Alone, CYCLE, MEDIUM, Script, WAY, medium};
use cxlab_engine::Simulation;
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_host::{CacheLevel, CoreParams, CoreStats, QUEUES, RequestAgent, RequesterStats};
use cxlab_memory::fixed::FixedParams;
use cxlab_workload::{Action, LOCAL_BASE, Step, StepDependency, ThreadStep};

const L1: u64 = 1_000;
const L2: u64 = 4_000;
/// A miss: a lookup in both caches, the path to the controller, the memory, and the path back.
const MISS: u64 = L1 + L2 + 2 * WAY + MEDIUM;

fn params() -> CoreParams {
    let level = |lines: u64, access_time| CacheLevel {
        size: Bytes(64 * lines),
        ways: 2,
        access_time: Picos(access_time),
    };
    alone::params(vec![level(4, L1), level(16, L2)])
}

struct Ran {
    core: CoreStats,
    memory: RequesterStats,
    end: u64,
}

fn run(params: CoreParams, steps: Vec<Step>) -> Ran {
    run_on(params, steps, medium(0))
}

/// A core on memory of its own that runs these steps, at most `limit` of them. `result`
/// is the program's check.
fn alone(
    params: CoreParams,
    steps: Vec<Step>,
    medium: FixedParams,
    result: Result<(), String>,
    limit: Option<u64>,
) -> Simulation<Alone> {
    let steps = steps.into_iter().map(ThreadStep::Step).collect();
    let program = Script::new(vec![steps], &["first", "second"], result);
    alone::alone(params, medium, Box::new(program), limit)
}

fn run_on(params: CoreParams, steps: Vec<Step>, medium: FixedParams) -> Ran {
    let mut simulation = alone(params, steps, medium, Ok(()), None);
    let outcome = simulation.run(1, SimTime::NEVER, &Default::default());
    let core = &simulation.component(0).0;
    assert!(core.is_done());
    let memory = core.stats().clone();
    assert_eq!(memory.issued_ever, memory.completed_ever);
    let stages: u128 = memory.stages_ps.iter().copied().map(u128::from).sum();
    assert_eq!(
        stages,
        memory.read_latency.sum_ps() + memory.write_latency.sum_ps()
    );
    Ran {
        core: core.core_stats().clone(),
        memory,
        end: outcome.end.0,
    }
}

fn step(line: u64, action: Action) -> Step {
    Step {
        ends: true,
        ..Step::new(Hpa(LOCAL_BASE.0 + 64 * line), action)
    }
}

fn load(line: u64) -> Step {
    step(line, Action::Load)
}

fn after(after: StepDependency, step: Step) -> Step {
    Step { after, ..step }
}

#[test]
fn a_chain_of_misses_takes_their_sum() {
    let chain = (0..100).map(|at| after(StepDependency::Previous, load(at)));
    let ran = run(params(), chain.collect());
    assert_eq!(ran.core.misses, 100);
    assert_eq!(ran.core.phases[0].time(), Picos(100 * MISS));
    assert_eq!(ran.core.phases[0].load_ps, u128::from(100 * MISS));
    assert_eq!(ran.memory.reads, 100);
}

#[test]
fn each_cache_answers_in_its_time() {
    // Lines 0, 2, 4 are in the first set of two ways of the first cache; the second cache keeps all.
    let lines = [0, 0, 2, 4, 0, 4];
    let chain = lines.map(|line| after(StepDependency::Previous, load(line)));
    let ran = run(params(), chain.to_vec());
    assert_eq!(ran.core.misses, 3);
    assert_eq!(
        ran.core.hits,
        [2, 1],
        "line 0 from the second, 0 and 4 from the first"
    );
    let expected = 3 * MISS + 2 * L1 + (L1 + L2);
    assert_eq!(ran.core.phases[0].time(), Picos(expected));
}

#[test]
fn a_line_is_asked_for_once_and_answers_all_who_wait() {
    let ran = run(params(), (0..8).map(|_| load(3)).collect());
    assert_eq!((ran.core.misses, ran.core.merged), (1, 7));
    assert_eq!(ran.memory.reads, 1);
    assert_eq!(ran.core.phases[0].time(), Picos(MISS));
    // Two loads are issued per cycle, and all complete when the line arrives.
    let waited: u64 = (0..8).map(|at| MISS - at / 2 * CYCLE).sum();
    assert_eq!(ran.core.phases[0].load_ps, u128::from(waited));
}

#[test]
fn misses_overlap_up_to_their_number() {
    let count = 800;
    let ran = run(params(), (0..count).map(load).collect());
    assert_eq!(ran.core.misses, count);
    // Eight at a time, four cycles apart from first to last. Each waits for the one eight before.
    let rounds = count / 8;
    assert_eq!(ran.core.phases[0].time(), Picos(rounds * MISS + 3 * CYCLE));
    let one = CoreParams {
        window: 1,
        ..params()
    };
    let ran = run(one, (0..count).map(load).collect());
    assert_eq!(ran.core.phases[0].time(), Picos(count * MISS));
}

#[test]
fn steps_retire_in_order_so_a_miss_holds_the_window() {
    let four = CoreParams {
        window: 4,
        ..params()
    };
    // The line of the hits is fetched first, then each miss is followed by hits.
    let mut steps = vec![load(1), after(StepDependency::All, load(100))];
    steps.extend((0..6).map(|_| load(1)));
    let ran = run(four, steps);
    assert_eq!(ran.core.hits, [6, 0]);
    // Three hits fit in the window with the miss; the others wait for the miss.
    let end = MISS + MISS + 2 * CYCLE + L1;
    assert!(ran.end >= 2 * MISS);
    let phase = &ran.core.phases[0];
    assert!(
        phase.time() <= Picos(end) && phase.time() > Picos(2 * MISS),
        "{:?}",
        phase.time()
    );
}

#[test]
fn modified_lines_that_make_room_reach_memory_once() {
    // 64 lines are written. The caches keep 16 and 4 lines, some of them in both.
    let mut steps: Vec<Step> = (0..64).map(|line| step(line, Action::Store)).collect();
    let ran = run(params(), steps.clone());
    let held = 64 - ran.memory.writebacks;
    assert!((16..=20).contains(&held), "{held} lines are still held");
    assert_eq!((ran.memory.reads, ran.memory.writes), (64, 0));
    // Flushing everything afterwards writes exactly the lines that the caches held.
    steps.push(after(StepDependency::All, load(0)));
    let before = run(params(), steps.clone()).memory.writebacks;
    steps.extend((0..64).map(|line| after(StepDependency::Previous, step(line, Action::Flush))));
    let ran = run(params(), steps);
    assert_eq!(ran.memory.writebacks, before);
    assert_eq!(ran.core.flushes_dirty + ran.memory.writebacks, 64);
    assert_eq!(ran.memory.writes, ran.core.flushes_dirty);
}

#[test]
fn a_flush_writes_a_modified_line_once_and_a_fence_waits_for_it() {
    let steps = vec![
        step(7, Action::Store),
        after(StepDependency::All, step(7, Action::Flush)),
        after(StepDependency::All, load(7)),
        after(StepDependency::All, step(7, Action::Flush)),
        after(StepDependency::All, load(7)),
    ];
    let ran = run(params(), steps);
    assert_eq!((ran.core.flushes, ran.core.flushes_dirty), (2, 1));
    assert_eq!((ran.memory.reads, ran.memory.writes), (1, 1));
    // A miss, a write, a hit, a lookup of a line that is clean, and a hit.
    let expected = MISS + MISS + L1 + (L1 + L2) + L1;
    assert_eq!(ran.core.phases[0].time(), Picos(expected));
}

#[test]
fn computing_begins_when_its_data_are_there() {
    let steps = vec![
        load(1),
        Step {
            cycles: 10,
            ..after(StepDependency::Previous, load(2))
        },
        Step {
            cycles: 4,
            ..after(StepDependency::Nothing, load(2))
        },
    ];
    let ran = run(params(), steps);
    // The third step is issued after its four cycles, long before the second has its data, and
    // fetches the line for it.
    let second = MISS + 10 * CYCLE;
    assert_eq!(ran.core.phases[0].time(), Picos(second + L1));
    assert_eq!(ran.core.phases[0].load_ps, u128::from(2 * MISS + L1));
}

#[test]
fn a_step_that_waits_for_its_data_holds_up_nobody() {
    // A copy: each store needs the load before it, and all four pairs of a load and a store overlap.
    let steps = (0..4).flat_map(|line| {
        [
            load(line),
            after(StepDependency::Previous, step(100 + line, Action::Store)),
        ]
    });
    let ran = run(params(), steps.collect());
    assert_eq!(ran.core.misses, 8);
    // The last load is issued three cycles after the first.
    assert_eq!(ran.core.phases[0].time(), Picos(3 * CYCLE + 2 * MISS));
    assert_eq!(ran.core.phases[0].load_ps, u128::from(4 * MISS));
}

#[test]
fn two_chains_in_turn_take_the_time_of_one() {
    // The steps of two chains alternate: each needs the step two before it.
    let chains = (0..100).map(|at| after(StepDependency::Back(2), load(at)));
    let ran = run(params(), chains.collect());
    assert_eq!(ran.core.misses, 100);
    assert_eq!(ran.core.phases[0].time(), Picos(50 * MISS));
    // A step that needs one which has left the window, or never existed, needs nothing.
    let far = (0..8).map(|at| after(StepDependency::Back(100), load(at)));
    let ran = run(params(), far.collect());
    assert_eq!(ran.core.phases[0].time(), Picos(MISS + 3 * CYCLE));
}

#[test]
fn several_may_need_the_data_of_one() {
    let steps = (0..4).map(|at| match at {
        0 => load(0),
        at => after(StepDependency::Back(at), load(u64::from(at))),
    });
    let ran = run(params(), steps.collect());
    assert_eq!(ran.core.phases[0].time(), Picos(2 * MISS));
}

/// Time of a thousand misses, in nanoseconds, on a core with a window of 64. Each miss comes with a number
/// of instructions and cycles.
fn sparse(instructions: u32, cycles: u32) -> u64 {
    let steps = (0..1000).map(|line| Step {
        cycles,
        instructions,
        ..load(line)
    });
    let core = CoreParams {
        cycle: Picos(1000),
        ..params()
    };
    run(core, steps.collect()).core.phases[0].time().0 / 1000
}

#[test]
fn a_window_of_instructions_holds_what_lies_between_misses() {
    let miss = MISS / 1000;
    // Four misses fit in the window at once.
    assert_eq!(sparse(16, 8), 3 * 8 + 250 * miss);
    // The computation determines the time.
    assert_eq!(sparse(16, 40), 999 * 40 + miss);
    // One at a time: the window is full before the line of the miss arrives.
    assert_eq!(sparse(64, 32), 1000 * miss);
    // The instructions that do not fit in the window execute after the miss.
    assert_eq!(sparse(128, 64), 999 * (miss + 32) + miss);
    assert_eq!(sparse(320, 160), 999 * (miss + 128) + miss);
}

#[test]
fn a_stream_is_as_fast_as_its_prefetcher_has_lines_under_way() {
    // One load in the window, so all overlap comes from prefetching. Pages have 64 lines.
    let ahead = |prefetch| CoreParams {
        window: 1,
        misses: 1,
        prefetch,
        caches: vec![CacheLevel {
            size: Bytes(64 * 1024),
            ways: 16,
            access_time: Picos(L1),
        }],
        ..params()
    };
    let miss = MISS - L2;
    let time = |prefetch| {
        let ran = run(ahead(prefetch), (0..64).map(load).collect());
        assert_eq!(ran.core.misses + ran.core.prefetches, 64, "each line once");
        (ran.core.phases[0].time().0, ran.core.prefetches)
    };
    assert_eq!(time(0), (64 * miss, 0));
    // Two lines miss, then the prefetcher fetches sixty-two, several at a time.
    let (four, lines) = time(4);
    assert_eq!(lines, 62);
    let rounds = 62u64.div_ceil(3);
    assert!(four >= 64 / 4 * miss, "{four}");
    assert!(four <= (2 + rounds) * miss + 64 * L1, "{four}");
    // Lines without order cause no prefetches.
    let order = (0..64).map(|at| load(at * 37 % 64 * 64)).collect();
    let ran = run(ahead(8), order);
    assert_eq!((ran.core.misses, ran.core.prefetches), (64, 0));
}

#[test]
fn a_flush_follows_the_stores_before_it() {
    let steps = vec![
        load(1),
        after(StepDependency::Previous, step(2, Action::Store)),
        step(2, Action::Flush),
    ];
    let ran = run(params(), steps);
    assert_eq!((ran.core.flushes_dirty, ran.memory.writes), (1, 1));
    assert_eq!(ran.core.phases[0].time(), Picos(3 * MISS));
}

#[test]
fn a_slow_medium_holds_the_core_back_and_its_time_is_told() {
    // One bank of 200 ns and room for two requests: the others wait at the controller.
    let medium = FixedParams {
        queue: 2,
        ..medium(200_000)
    };
    let ran = run_on(params(), (0..40).map(load).collect(), medium);
    assert_eq!(ran.core.misses, 40);
    let last = 39 * 200_000 + MISS;
    assert_eq!(ran.core.phases[0].time(), Picos(last));
    let queue: u64 = QUEUES.iter().map(|at| ran.memory.stages_ps[*at]).sum();
    assert!(queue > 0, "requests waited until the medium had room");
}

#[test]
fn phases_are_measured_apart() {
    let second = |line| Step {
        phase: 1,
        ..after(StepDependency::All, load(line))
    };
    let ran = run(params(), vec![load(1), load(1), second(1), second(2)]);
    let [first, second] = ran.core.phases[..] else {
        panic!("two phases")
    };
    assert_eq!((first.operations, second.operations), (2, 2));
    assert_eq!(first.end, SimTime(MISS));
    assert_eq!(second.begin, SimTime(MISS));
    assert_eq!(second.time(), Picos(L1 + MISS));
}

/// The result of a core's check of a program with a wrong result, cut off after `limit` steps.
fn checked(limit: Option<u64>) -> Result<(), String> {
    let steps = vec![load(1), load(2)];
    let wrong = Err("wrong".to_owned());
    let mut simulation = alone(params(), steps, FixedParams::default(), wrong, limit);
    assert_eq!(simulation.component(0).0.check(), Ok(()));
    simulation.run(1, SimTime::NEVER, &Default::default());
    simulation.component(0).0.check()
}

#[test]
fn only_a_program_that_came_to_its_end_is_checked() {
    assert_eq!(checked(None), Err("wrong".to_owned()));
    assert_eq!(checked(Some(3)), Err("wrong".to_owned()));
    assert_eq!(checked(Some(1)), Ok(()));
}
