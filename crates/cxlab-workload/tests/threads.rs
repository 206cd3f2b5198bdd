//! The runtime of threads, and the executor without time.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use cxlab_engine::state::{SaveState, StateReader, StateWriter};
use cxlab_engine::units::Hpa;
use cxlab_workload::Image;
use cxlab_workload::thread::{
    Direction, Handle, NextAction, Order, StuckThreads, Thread, ThreadOp, Token, Window,
    run_threads, scratch,
};

fn is_send<T: Send>(_: &T) {}

fn load(addr: u64) -> ThreadOp {
    ThreadOp::Load { addr, size: 8 }
}

fn store(addr: u64, value: u64) -> ThreadOp {
    let size = 8;
    ThreadOp::Store { addr, size, value }
}

/// A thread that waits for one load.
fn one_load() -> Thread {
    Thread::new(|t: Handle| async move {
        t.load(0).await;
    })
}

/// Operations without their tokens.
fn ops_of(asked: &[(Token, ThreadOp)]) -> Vec<ThreadOp> {
    asked.iter().map(|(_, op)| *op).collect()
}

/// The operations that a thread issues before it waits or ends.
fn asked(thread: &mut Thread) -> (Vec<(Token, ThreadOp)>, NextAction) {
    let mut ops = Vec::new();
    loop {
        match thread.next_op() {
            NextAction::Op(token, op, _) => ops.push((token, op)),
            end => return (ops, end),
        }
    }
}

#[test]
fn a_state_with_more_questions_than_the_code_answers_is_refused() {
    let thread = || {
        let mut thread = one_load();
        thread.keep_log();
        thread
    };
    let restored = |asked: u64| {
        let mut out = StateWriter::default();
        out.value("thread", &(Vec::<u8>::new(), asked));
        let bytes = out.finish().unwrap();
        thread().restore(&mut StateReader::open(&bytes).unwrap())
    };
    let mut saved = thread();
    assert_eq!(asked(&mut saved).1, NextAction::Blocked);
    let mut out = StateWriter::default();
    saved.save(&mut out);
    let bytes = out.finish().unwrap();
    let mut from = StateReader::open(&bytes).unwrap();
    assert_eq!(thread().restore(&mut from), Ok(()));
    for asked in [3, u64::MAX] {
        let error = restored(asked).unwrap_err();
        assert!(error.to_string().contains("another thread"), "{error}");
    }
}

#[test]
fn operations_overlap_until_one_is_awaited() {
    let mut thread = Thread::new(|t: Handle| async move {
        let a = t.load(0);
        let b = t.load(64);
        let sum = b.await + a.await;
        t.store(128, sum);
    });
    is_send(&thread);
    let (ops, end) = asked(&mut thread);
    assert_eq!(ops_of(&ops), [load(0), load(64)]);
    assert_eq!(end, NextAction::Blocked);
    thread.complete(ops[0].0, 3);
    assert_eq!(thread.next_op(), NextAction::Blocked);
    thread.complete(ops[1].0, 4);
    let (ops, end) = asked(&mut thread);
    assert_eq!(ops_of(&ops), [store(128, 7)]);
    assert_eq!(end, NextAction::Finished);
    thread.complete(ops[0].0, 0);
    assert_eq!(thread.next_op(), NextAction::Finished);
}

#[test]
fn a_dependent_load_is_asked_for_when_its_address_is_there() {
    let mut thread = Thread::new(|t: Handle| async move {
        let mut at = 0;
        for _ in 0..3 {
            at = t.load(at).await;
        }
        t.store(0, at).await;
    });
    for value in [640, 64, 320] {
        let (ops, end) = asked(&mut thread);
        assert_eq!((ops.len(), end), (1, NextAction::Blocked));
        thread.complete(ops[0].0, value);
    }
    let (ops, _) = asked(&mut thread);
    assert_eq!(ops[0].1, store(0, 320));
}

#[test]
fn operations_that_nobody_waits_for_leave_nothing_behind() {
    let mut thread = Thread::new(|t: Handle| async move {
        for turn in 0..1000 {
            t.store(turn * 8, turn);
            drop(t.load(0));
            t.load(8).await;
        }
    });
    let mut highest = 0;
    loop {
        let (ops, end) = asked(&mut thread);
        for (token, _) in ops {
            highest = highest.max(token.0);
            thread.complete(token, 0);
        }
        if end == NextAction::Finished {
            break;
        }
    }
    assert_eq!(highest, 2);
}

#[test]
fn operations_carry_the_phase_in_which_they_were_asked_for() {
    let mut thread = Thread::new(|t: Handle| async move {
        t.store(0, 0);
        t.mark(2);
        t.store(0, 1);
        t.count(1);
    });
    let phases: Vec<u8> = std::iter::from_fn(|| match thread.next_op() {
        NextAction::Op(_, _, phase) => Some(phase),
        _ => None,
    })
    .collect();
    assert_eq!(phases, [0, 2, 2, 2]);
}

#[test]
#[should_panic(expected = "completed while")]
fn an_operation_is_completed_once() {
    let mut thread = one_load();
    let (ops, _) = asked(&mut thread);
    thread.complete(ops[0].0, 0);
    thread.complete(ops[0].0, 0);
}

#[test]
fn a_window_never_holds_more_than_its_limit() {
    let mut thread = Thread::new(|t: Handle| async move {
        let mut window = Window::new(4);
        for line in 0..10 {
            window.room().await;
            window.add(t.load(64 * line));
        }
        window.drain().await;
        t.store(0, 1);
    });
    let (mut ops, end) = asked(&mut thread);
    assert_eq!((ops.len(), end), (4, NextAction::Blocked));
    let mut loads = 4;
    while loads < 10 {
        let (token, _) = ops.remove(0);
        thread.complete(token, 0);
        let (more, _) = asked(&mut thread);
        assert_eq!(more.len(), 1);
        loads += more.len();
        ops.extend(more);
    }
    for (token, _) in ops {
        assert_eq!(thread.next_op(), NextAction::Blocked);
        thread.complete(token, 0);
    }
    let next = thread.next_op();
    assert!(matches!(next, NextAction::Op(_, ThreadOp::Store { .. }, _)));
}

#[test]
fn what_was_written_before_a_flag_is_read_after_it() {
    for seed in 0..200 {
        let image = Image::new();
        let producer = Thread::new(|t: Handle| async move {
            for line in 0..8 {
                t.store(1024 + 64 * line, line + 1);
            }
            t.fence().await;
            t.store(0, 1).await;
        });
        let consumer = Thread::new(|t: Handle| async move {
            t.await_change(0, 0).await;
            let mut sum = 0;
            for line in 0..8 {
                sum += t.load(1024 + 64 * line).await;
            }
            t.store(64, sum).await;
        });
        run_threads(vec![consumer, producer], &image, Order::Random(seed)).unwrap();
        assert_eq!(image.read(Hpa(64), 8), 36);
    }
}

#[test]
fn an_unordered_flag_shows_that_random_order_finds_races() {
    let outcome = |seed| {
        let image = Image::new();
        let producer = Thread::new(|t: Handle| async move {
            t.store(1024, 1);
            t.store(0, 1);
        });
        let consumer = Thread::new(|t: Handle| async move {
            t.await_change(0, 0).await;
            let seen = t.load(1024).await;
            t.store(64, seen + 1).await;
        });
        run_threads(vec![consumer, producer], &image, Order::Random(seed)).unwrap();
        image.read(Hpa(64), 8)
    };
    let mut seen: Vec<u64> = (0..100).map(outcome).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 2]);
}

#[test]
fn a_device_and_a_host_meet_by_doorbell_dma_and_interrupt() {
    let image = Image::new();
    let host = Thread::new(|t: Handle| async move {
        t.write_range(4090, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).await;
        t.mmio_write(0, 3, 4090).await;
        t.wait_interrupt(5).await;
        let bytes = t.read_range(8192, 10).await;
        t.store(0, bytes.iter().map(|byte| u64::from(*byte)).sum())
            .await;
    });
    let device = Thread::new(|t: Handle| async move {
        let from = t.mmio_await(0, 3, 0).await;
        let first = t.dma(Direction::ToDevice, from, scratch(0), 10).await;
        t.store_sized(scratch(0) + 9, 1, first & 0xff).await;
        t.dma(Direction::ToHost, 8192, scratch(0), 10).await;
        t.interrupt(5).await;
    });
    run_threads(vec![host, device], &image, Order::Random(9)).unwrap();
    assert_eq!(image.read(Hpa(0), 8), 46);
}

#[test]
fn threads_that_wait_for_one_another_are_reported() {
    let wait = || {
        Thread::new(|t: Handle| async move {
            t.await_change(0, 0).await;
        })
    };
    let stuck = run_threads(vec![wait(), wait()], &Image::new(), Order::Random(0)).unwrap_err();
    let op = Some(ThreadOp::Await {
        addr: 0,
        size: 8,
        value: 0,
    });
    let waiting = vec![(0, op), (1, op)];
    assert_eq!(stuck, StuckThreads::Deadlock { waiting });
}

#[test]
fn a_number_across_two_lines_is_refused() {
    let thread = Thread::new(|t: Handle| async move {
        t.load(60).await;
    });
    let stuck = run_threads(vec![thread], &Image::new(), Order::Sequential).unwrap_err();
    assert!(
        matches!(stuck, StuckThreads::Fault { thread: 0, .. }),
        "{stuck}"
    );
}

#[test]
fn threads_that_run_by_turns_or_are_dropped_keep_to_themselves() {
    let thread = |base| {
        Thread::new(move |t: Handle| async move {
            let first = t.load(base);
            let second = t.load(base + 8);
            t.store(base, first.await + second.await);
        })
    };
    let (mut one, mut two, mut third) = (thread(0), thread(64), thread(128));
    let (ops_one, _) = asked(&mut one);
    let (ops_two, _) = asked(&mut two);
    asked(&mut third);
    drop(third);
    assert_eq!(ops_of(&ops_one), [load(0), load(8)]);
    assert_eq!(ops_of(&ops_two), [load(64), load(72)]);
    for (token, _) in &ops_two {
        two.complete(*token, 5);
    }
    assert_eq!(one.next_op(), NextAction::Blocked);
    assert_eq!(ops_of(&asked(&mut two).0), [store(64, 10)]);
}

#[test]
#[should_panic(expected = "outside of the code of its thread")]
fn a_handle_of_another_thread_is_refused() {
    let mut taken = None;
    let _donor = Thread::new(|t: Handle| {
        taken = Some(t);
        async {}
    });
    let stolen = taken.unwrap();
    let mut thief = Thread::new(|_| async move {
        stolen.load(0).await;
    });
    thief.next_op();
}
