//! Programs of several threads that are known instruction by instruction.

use super::*;

/// A script of several threads.
struct Threads<F>(F);

impl<F: FnOnce(&mut dyn Listener)> Execution for Threads<F> {
    fn run(self, listener: &mut dyn Listener) -> Result<String, VerifyError> {
        listener.map(DATA, DATA + BYTES);
        (self.0)(listener);
        Ok("a script of threads".to_owned())
    }
}

fn threads(
    plan: &Plan,
    placement: &str,
    script: impl FnOnce(&mut dyn Listener),
) -> Result<Verification, VerifyError> {
    verify(plan, placement.parse().unwrap(), ASSUMED, Threads(script))
}

/// The first thread makes a second one before it does anything.
fn two_begin(listener: &mut dyn Listener) {
    listener.point(0, 1);
    assert!(listener.thread());
    listener.behind(1, 1);
}

/// Tells a thread's instructions.
fn tell(listener: &mut dyn Listener, thread: usize, script: impl FnOnce(&mut dyn FnMut(Step))) {
    script(&mut |step| assert!(listener.instruction(thread, &step)));
}

/// A part of a program that may be told again.
type Part<'a> = &'a dyn Fn(&mut dyn FnMut(Step));

/// Tells the first two threads' instructions in turns, as QEMU does.
fn tell_both(listener: &mut dyn Listener, scripts: [Part<'_>; 2]) {
    let [first, second] = scripts.map(|script| {
        let mut steps = Vec::new();
        script(&mut |step| steps.push(step));
        steps
    });
    let (mut first, mut second) = (first.chunks(1000), second.chunks(1000));
    loop {
        let turns = [first.next(), second.next()];
        for (thread, steps) in turns.iter().enumerate() {
            for step in steps.unwrap_or_default() {
                assert!(listener.instruction(thread, step));
            }
        }
        if turns == [None, None] {
            return;
        }
    }
}

/// A walk around so many lines, from a first one, of which no two are neighbours.
fn around(first: u64, lines: u64, steps: u64) -> impl Fn(&mut dyn FnMut(Step)) {
    move |tell| {
        for at in 0..steps {
            let line = first + at * 7919 % lines;
            tell(Step::load(DATA + line * 64, &[1], &[1]));
            compute(2, tell);
        }
    }
}

/// A walk without order through so many lines, a power of two, from a first one.
fn walk_through(first: u64, lines: u64, steps: u64) -> impl FnOnce(&mut dyn FnMut(Step)) {
    move |tell| {
        let mut line = 0;
        for _ in 0..steps {
            tell(Step::load(DATA + (first + line) * 64, &[1], &[1]));
            compute(2, tell);
            line = (line * 1_664_525 + 1_013_904_223) % lines;
        }
    }
}

const HALF: u64 = LINES / 2;

/// Chains in two pools have nothing in common, so each thread takes as long as a program that does the same alone,
/// to the picosecond.
#[test]
fn threads_in_two_pools_are_slowed_down_as_each_alone() {
    let plan = plan(DIRECT);
    let steps = 100_000;
    let (near, far) = (around(0, HALF, steps), around(HALF, HALF, steps));
    let both = threads(&plan, LOCAL_HALF, |listener| {
        two_begin(listener);
        tell_both(listener, [&near, &far]);
    })
    .unwrap();
    let [own, other] = both.threads[..] else {
        panic!("two threads: {both:#?}");
    };
    assert_eq!((own.delay_ns, own.slowdown), (0.0, 1.0), "{both:#?}");
    let alone = verified(&plan, LOCAL_HALF, far);
    assert!(alone.threads.is_empty() && alone.to_end.is_none());
    // A program of one thread is measured from its first access on, and a thread from its first instruction on.
    let first_ns = ASSUMED.base_ns();
    assert_eq!(other.local_ns, alone.engine.local_ns + first_ns);
    assert_eq!(other.placed_ns, alone.engine.placed_ns + first_ns);
    assert!(other.slowdown > 2.0, "{other:?}");
    // The sum of both, and the longer of both.
    assert_eq!(both.engine.placed_ns, own.placed_ns + other.placed_ns);
    let to_end = both.to_end.unwrap();
    assert_eq!(to_end.placed_ns, other.placed_ns);
    assert_eq!(own.exact.delay_ns, 0.0);
    hold_addresses("threads in two pools", LOCAL_HALF, &both);
    for error in [percent(&other.exact), percent(&both.exact)] {
        assert!(error.abs() < 1.0, "{both:#?}");
    }
}

/// Random reads that fill a link alone take twice as long where two threads do them.
#[test]
fn threads_that_fill_a_link_take_twice_as_long() {
    let plan = plan_with(DIRECT, "{ preset = \"esf\", bandwidth = \"500 MB/s\" }");
    // No read needs another one's data.
    let reads = |thread: u64| {
        move |tell: &mut dyn FnMut(Step)| {
            around(thread * HALF, HALF, 100_000)(&mut |step| match step.touches.first() {
                Some(touch) => tell(Step::load(touch.address, &[2], &[3])),
                None => tell(step),
            });
        }
    };
    let alone = verified(&plan, "cxl", reads(0));
    let both = threads(&plan, "cxl", |listener| {
        two_begin(listener);
        tell_both(listener, [&reads(0), &reads(1)]);
    })
    .unwrap();
    assert_eq!(both.misses, 2 * alone.misses);
    assert!(
        alone.engine.slowdown > 10.0,
        "the link is not full: {alone:#?}"
    );
    // A flit has a little more where more is in flight.
    let is_double = |found: f64, alone: f64| (found / alone / 2.0 - 1.0).abs() < 0.05;
    for thread in &both.threads {
        assert!(
            is_double(thread.placed_ns, alone.engine.placed_ns),
            "{alone:#?} {both:#?}"
        );
        assert!(
            is_double(thread.exact.delay_ns, alone.exact.delay_ns),
            "{alone:#?} {both:#?}"
        );
        assert!(thread.local_ns < 1.01 * alone.engine.local_ns, "{both:#?}");
    }
}

/// A thread that waits for another ends after the other's time and its own, and its wait is not its time.
#[test]
fn a_thread_that_waits_ends_after_the_other_and_its_own_time() {
    let plan = plan(DIRECT);
    let (first, second) = (60_000, 40_000);
    let found = threads(&plan, "cxl", |listener| {
        two_begin(listener);
        listener.away(0, true);
        tell(listener, 1, walk_through(HALF, HALF, first));
        listener.point(1, 2);
        listener.end(1, 0);
        listener.away(0, false);
        listener.behind(0, 2);
        tell(listener, 0, walk_through(0, HALF, second));
    })
    .unwrap();
    let [waits, other] = found.threads[..] else {
        panic!("two threads: {found:#?}");
    };
    let to_end = found.to_end.unwrap();
    for (whole, parts) in [
        (to_end.local_ns, waits.local_ns + other.local_ns),
        (to_end.placed_ns, waits.placed_ns + other.placed_ns),
    ] {
        assert!((whole - parts).abs() < 1.0, "{found:#?}");
    }
    let latency = PlanFabric::new(&plan, 1).unwrap().unloaded_ns()[1];
    for (time, steps) in [(waits.placed_ns, second), (other.placed_ns, first)] {
        assert!(
            (time / (steps as f64 * latency) - 1.0).abs() < 0.001,
            "{found:#?}"
        );
    }
}

/// Lines that one thread has read are in the last level cache for the next one.
#[test]
fn lines_of_one_thread_are_cached_for_another() {
    let lines = 8192;
    let found = threads(&plan(DIRECT), "cxl", |listener| {
        two_begin(listener);
        listener.away(1, true);
        tell(listener, 0, walk_through(0, lines, lines));
        listener.point(0, 2);
        listener.away(1, false);
        listener.behind(1, 2);
        tell(listener, 1, walk_through(0, lines, lines));
    })
    .unwrap();
    let [first, next] = found.threads[..] else {
        panic!("two threads: {found:#?}");
    };
    assert_eq!(found.misses, lines);
    assert_eq!(found.engine.misses + found.engine.prefetches, lines);
    assert_eq!((next.delay_ns, next.exact.lines), (0.0, 0.0), "{found:#?}");
    assert!(first.exact.lines > 0.99 * lines as f64, "{found:#?}");
}

/// Threads are heard in the order of their clocks, however they were told: two walks that fit the cache one by
/// one miss always where they run at once.
#[test]
fn threads_meet_in_the_last_level_cache_in_the_order_of_their_clocks() {
    let (lines, passes) = (12_000, 3);
    let steps = lines * passes;
    let around = |first: u64| around(first, lines, steps);
    let plan = plan(DIRECT);
    assert_eq!(verified(&plan, "cxl", around(0)).misses, lines);
    let found = threads(&plan, "cxl", |listener| {
        two_begin(listener);
        tell(listener, 0, around(0));
        tell(listener, 1, around(HALF));
    })
    .unwrap();
    assert!(found.misses > 2 * steps * 95 / 100, "{found:#?}");
    assert!(found.engine.misses > 2 * steps * 95 / 100, "{found:#?}");
    assert!(percent(&found.exact).abs() < 5.0, "{found:#?}");
}

/// A thread that tells more than is queued is heard before the other one, and nothing is lost.
#[test]
fn more_instructions_than_are_queued_are_all_heard() {
    let steps = 100_000;
    let found = threads(&plan(DIRECT), "cxl", |listener| {
        two_begin(listener);
        tell(listener, 0, around(0, HALF, steps));
        tell(listener, 1, around(HALF, HALF, steps));
    })
    .unwrap();
    assert_eq!(found.instructions, 2 * 3 * steps);
    assert_eq!((found.misses, found.engine.misses), (2 * steps, 2 * steps));
    let [first, second] = found.threads[..] else {
        panic!("two threads: {found:#?}");
    };
    assert_eq!(
        (first.instructions, second.instructions),
        (3 * steps, 3 * steps)
    );
    let apart = first.placed_ns / second.placed_ns - 1.0;
    assert!(apart.abs() < 0.001, "{found:#?}");
}

/// A thread that reads that another has ended, without a system call, goes on behind its end.
#[test]
fn a_thread_that_has_ended_is_joined_without_a_wait() {
    let word = DATA + BYTES - 64;
    let found = threads(&plan(DIRECT), "cxl", |listener| {
        two_begin(listener);
        tell(listener, 1, walk_through(HALF, HALF, 10_000));
        listener.point(1, 2);
        listener.end(1, word);
        tell(listener, 0, |tell| tell(Step::load(word, &[], &[1])));
        tell(listener, 0, walk_through(0, HALF, 5_000));
    })
    .unwrap();
    let to_end = found.to_end.unwrap();
    assert!(
        (to_end.placed_ns - found.engine.placed_ns).abs() < 1000.0,
        "{found:#?}"
    );
}

#[test]
fn more_threads_than_a_core_runs_are_refused() {
    let found = threads(&plan(DIRECT), "cxl", |listener| {
        for thread in 1..256 {
            listener.point(0, thread);
            assert!(listener.thread());
            listener.behind(thread as usize, thread);
        }
        assert!(!listener.thread());
    });
    let Err(VerifyError::Mistake(why)) = found else {
        panic!("257 threads: {found:?}");
    };
    assert!(why.contains("257") && why.contains("allowed: 256"), "{why}");
}
