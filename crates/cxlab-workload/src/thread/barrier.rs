//! Parts of one thread that take turns on its core or processing element, and wait for each other at barriers:
//! the work-items of a work-group.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

/// A part of a thread.
pub type SideBySide<'t> = Pin<Box<dyn Future<Output = ()> + Send + 't>>;

/// The barrier of parts that run side by side.
#[derive(Debug)]
pub struct Barrier {
    /// Parts that have not ended.
    live: AtomicUsize,
    /// Parts that wait at the barrier.
    waiting: AtomicUsize,
    /// Barriers that all have passed.
    passed: AtomicUsize,
}

impl Barrier {
    /// Makes the barrier of so many parts.
    pub fn new(parts: usize) -> Barrier {
        Barrier {
            live: AtomicUsize::new(parts),
            waiting: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        }
    }

    /// Waits until all parts are at the barrier.
    pub async fn wait(&self) {
        let passed = self.passed.load(Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        std::future::poll_fn(|_| match self.passed.load(Ordering::Relaxed) == passed {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }
}

/// The error of a barrier that some parts wait at after others have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbandonedBarrier {
    /// Parts that wait at the barrier.
    pub waiting: usize,
    /// Parts that began.
    pub of: usize,
}

/// Runs parts of a thread side by side, in their order, until all have ended. `barrier` is the one at
/// which they wait.
///
/// # Errors
/// [`AbandonedBarrier`] if some wait at the barrier and others have ended.
pub async fn side_by_side(
    parts: Vec<SideBySide<'_>>,
    barrier: &Barrier,
) -> Result<(), AbandonedBarrier> {
    let running = parts.into_iter().map(Some).collect();
    Together { running, barrier }.await
}

struct Together<'t> {
    running: Vec<Option<SideBySide<'t>>>,
    barrier: &'t Barrier,
}

impl Future for Together<'_> {
    type Output = Result<(), AbandonedBarrier>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let barrier = self.barrier;
        loop {
            for slot in &mut self.running {
                if let Some(running) = slot
                    && running.as_mut().poll(context).is_ready()
                {
                    *slot = None;
                    barrier.live.fetch_sub(1, Ordering::Relaxed);
                }
            }
            let live = barrier.live.load(Ordering::Relaxed);
            let waiting = barrier.waiting.load(Ordering::Relaxed);
            if live == 0 {
                return Poll::Ready(Ok(()));
            }
            if waiting < live {
                return Poll::Pending;
            }
            let of = self.running.len();
            if live < of {
                return Poll::Ready(Err(AbandonedBarrier { waiting, of }));
            }
            barrier.waiting.store(0, Ordering::Relaxed);
            barrier.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cxlab_engine::units::Hpa;

    use super::*;
    use crate::image::Image;
    use crate::thread::{Handle, Order, Thread, run_threads};

    /// Each part adds its number to a sum before the barrier, and stores what it finds there behind it.
    fn parts<'t>(t: &'t Handle, barrier: &'t Barrier, meet: &[bool]) -> Vec<SideBySide<'t>> {
        let part = |(number, meets): (usize, &bool)| -> SideBySide<'t> {
            let meets = *meets;
            Box::pin(async move {
                t.fetch_add(0, number as u64 + 1).await;
                if meets {
                    barrier.wait().await;
                }
                let sum = t.load(0).await;
                t.store(64 + 8 * number as u64, sum).await;
            })
        };
        meet.iter().enumerate().map(part).collect()
    }

    fn run(meet: &'static [bool]) -> (Result<(), AbandonedBarrier>, Image) {
        let image = Image::new();
        let result = Arc::new(std::sync::Mutex::new(Ok(())));
        let told = Arc::clone(&result);
        let thread = Thread::new(move |t| async move {
            let barrier = Barrier::new(meet.len());
            let ended = side_by_side(parts(&t, &barrier, meet), &barrier).await;
            *told.lock().expect("no panic") = ended;
        });
        run_threads(vec![thread], &image, Order::Random(1)).expect("all end");
        let ended = *result.lock().expect("no panic");
        (ended, image)
    }

    #[test]
    fn behind_a_barrier_all_have_done_what_is_before_it() {
        let (ended, image) = run(&[true, true, true]);
        assert_eq!(ended, Ok(()));
        for part in 0..3 {
            assert_eq!(image.read(Hpa(64 + 8 * part), 8), 6, "of part {part}");
        }
    }

    #[test]
    fn a_barrier_that_not_all_reach_is_an_error() {
        let (ended, _) = run(&[true, false, true]);
        assert_eq!(ended, Err(AbandonedBarrier { waiting: 2, of: 3 }));
    }
}
