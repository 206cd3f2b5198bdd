//! Submitting, advancing and taking completions allocate nothing once all lists have grown to their largest length.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use cxlab_engine::units::SimTime;
use cxlab_plan::{Externals, Files, load};
use cxlab_system::session::{RequestKind, Session, Submission};

/// The system's allocator, which counts its calls.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all calls go to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SCENARIO: &str = r#"
name = "memory"

[fabric]
topology = { kind = "chain", switches = 1 }

[[hosts]]
name = "outside"
kind = "external"

[[devices]]
name = "mem"
count = 2
"#;

#[test]
fn the_steady_state_allocates_nothing() {
    let loaded = load::read("memory.toml", SCENARIO, &[])
        .and_then(|document| load::resolve(document, Files::of(""), &Externals::new()))
        .unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
    let mut session = Session::new(loaded, 1, false).expect("a session");
    let mut completed = 0;
    let mut rounds = |session: &mut Session, rounds: std::ops::Range<u64>| {
        for round in rounds {
            let time = SimTime(round * 40_000);
            session.advance(time).expect("a time");
            while session.take_completion().is_some() {
                completed += 1;
            }
            // Bursts, so that requests wait at the port too.
            for id in 0..3 {
                let request = Submission {
                    id,
                    address: (round * 3 + id) * 64 % (1 << 28),
                    size: 64,
                    kind: RequestKind::Read,
                    time,
                };
                session.submit(0, request).expect("room");
            }
        }
    };
    rounds(&mut session, 0..60_000);
    let before = CALLS.load(Ordering::Relaxed);
    rounds(&mut session, 60_000..70_000);
    let calls = CALLS.load(Ordering::Relaxed) - before;
    assert!(completed > 200_000, "{completed}");
    assert_eq!(calls, 0);
}
