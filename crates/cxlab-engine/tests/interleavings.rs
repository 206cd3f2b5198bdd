//! Loom explores every order in which threads meet at the barrier and exchange events, up to three
//! preemptions. The tests run the engine's own source with loom's types instead of the standard
//! library's. Loom models weak memory.

mod sync {
    pub(super) use loom::hint::spin_loop;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Condvar, Mutex};
    pub(super) use std::sync::PoisonError;
}

#[allow(dead_code)]
#[path = "../src/simulation/barrier.rs"]
mod barrier;

#[path = "../src/simulation/exchange.rs"]
mod exchange;

use std::sync::Arc;

use exchange::{Exchange, PartitionReport, WindowAction};

fn explore(
    threads: usize,
    spins: u32,
    preemptions: usize,
    thread: impl Fn(usize, &Exchange<Event>) + Copy + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let exchange = Arc::new(Exchange::new(threads, spins));
        let others: Vec<_> = (1..threads)
            .map(|me| {
                let exchange = Arc::clone(&exchange);
                loom::thread::spawn(move || thread(me, &exchange))
            })
            .collect();
        thread(0, &exchange);
        for other in others {
            assert!(other.join().is_ok());
        }
    });
}

/// An event: sending partition, receiving partition, window, number.
type Event = (usize, usize, usize, usize);

/// The report of a partition in a window: different for every partition and window.
fn report(part: usize, window: usize) -> PartitionReport {
    let next = (10 * window + part) as u64;
    PartitionReport {
        next,
        handled: next + 1_000,
        work: next + 2_000,
    }
}

/// The windows of the executor: a partition reads what all partitions have written in this window, and
/// nothing that was written in another window.
fn windows(parts: usize, count: usize) -> impl Fn(usize, &Exchange<Event>) + Copy {
    move |me, exchange| {
        for window in 0..count {
            let buffer = window % 2;
            for to in (0..parts).filter(|&to| to != me) {
                let mut events = vec![(me, to, window, 0), (me, to, window, 1)];
                exchange.post(buffer, me, to, &mut events);
                assert!(events.is_empty());
            }
            exchange.report(buffer, me, report(me, window));
            let ends = window + 1 == count;
            if me == 0 {
                exchange.set_action(
                    buffer,
                    if ends {
                        WindowAction::Pause
                    } else {
                        WindowAction::GoOn
                    },
                );
            }
            assert!(exchange.barrier().wait());
            let mut taken = Vec::new();
            exchange.take(buffer, me, |events| taken.extend_from_slice(events));
            let others = (0..parts).filter(|&from| from != me);
            let sent: Vec<Event> = others
                .flat_map(|from| [(from, me, window, 0), (from, me, window, 1)])
                .collect();
            assert_eq!(taken, sent);
            assert!(
                exchange
                    .reports(buffer)
                    .eq((0..parts).map(|part| report(part, window)))
            );
            assert_eq!(exchange.action(buffer) == WindowAction::Pause, ends);
        }
    }
}

#[test]
fn two_threads_exchange_what_each_window_wrote() {
    explore(2, 0, 3, windows(2, 3));
}

#[test]
fn threads_that_look_before_they_sleep_exchange_the_same() {
    explore(2, 1, 3, windows(2, 3));
}

#[test]
fn three_threads_exchange_what_each_window_wrote() {
    explore(3, 0, 2, windows(3, 2));
}

/// No thread waits for a thread that panics, before the first window or between two.
#[test]
fn a_panic_lets_all_others_go() {
    for before in 0..2 {
        for spins in 0..2 {
            explore(3, spins, 2, move |me, exchange| {
                if me == 1 {
                    for _ in 0..before {
                        assert!(exchange.barrier().wait());
                    }
                    exchange.barrier().break_open();
                    return;
                }
                let passed = (0..3).take_while(|_| exchange.barrier().wait()).count();
                assert!(passed <= before);
            });
        }
    }
}
