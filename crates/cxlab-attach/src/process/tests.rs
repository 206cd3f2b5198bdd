use super::*;
use crate::calibrate::Lines;
use crate::density::tests::number;
use crate::fabric::tests::Fixed;
use crate::locality::FIRST_WINDOWS;
use crate::model::Step;
use crate::progress::GENERAL_REGISTERS;
use crate::reuse_time::WatchId;
use crate::sys;

/// Pages that the program touches, and instructions of a step of its walk.
const PAGES: u64 = 16_384;
const STEP: u64 = 4;
const MISS_NS: f64 = 160.0;

/// A machine with a latency of `miss_ns`. A line takes so long in a working set of so many MiB.
pub(crate) fn machine(miss_ns: f64, apart_ns: f64, alone_ns: &[(usize, f64)]) -> Facts {
    let lines = |&(mib, alone_ns): &(usize, f64)| Lines {
        bytes: mib << 20,
        alone_ns,
        apart_ns,
        stream_ns: 5.0,
    };
    let curve = Curve(alone_ns.iter().map(lines).collect());
    Facts {
        small: curve.clone(),
        large: curve,
        mark_ns: 0.0,
        watched_fault_ns: 0.0,
        memory_ns: miss_ns,
        local_ns: miss_ns,
        llc_bytes: 8 << 20,
        overlap: Overlap::default(),
        own: false,
    }
}

fn facts(own: bool) -> Facts {
    let alone_ns = [(4, 40.0), (64, MISS_NS), (256, MISS_NS)];
    Facts {
        own,
        ..machine(MISS_NS, 20.0, &alone_ns)
    }
}

/// Local memory alone.
const ONE: Fixed = Fixed(&[MISS_NS], 1.0);

/// A walk without order, counted by the first register.
struct Walk {
    process: Process,
    state: u64,
    executed: u64,
    /// Lines that are used of each page.
    used: u64,
}

impl Walk {
    fn new(used: u64) -> Walk {
        let mut process = Process::new(sys::own(), Placement::Cxl);
        process.sampled = true;
        process.locality.add_sample(PAGES * 4096, 0.0, 8 << 20);
        Walk {
            process,
            state: 7,
            executed: 0,
            used,
        }
    }

    fn place(&self) -> ThreadPlace {
        let mut values = [0; GENERAL_REGISTERS];
        values[0] = self.executed / STEP;
        let code = 0x1000 + self.executed % STEP;
        ThreadPlace { code, values }
    }

    /// A window of 100 steps, and 10 before.
    fn window(&mut self) -> PhaseId {
        let (mut steps, mut places) = (Vec::new(), Vec::new());
        for at in 0..110 * STEP {
            let code = 0x1000 + at % STEP;
            let step = match at % STEP {
                0 => {
                    let page = number(&mut self.state) % PAGES;
                    let line = (page * 7 + number(&mut self.state) % self.used) % 64;
                    Step::load((page * 64 + line) * 64, &[1], &[1])
                }
                _ => Step::default(),
            };
            steps.push(Step { code, ..step });
            places.push(self.place());
            self.executed += 1;
        }
        let trace = WindowTrace::new(steps, 10 * STEP as usize, &mut |_| Some(0));
        self.process
            .add(trace, &places, &facts(true), &ONE)
            .unwrap()
    }

    /// Samples of the walk, a step of which takes so long natively.
    fn run(&mut self, phase: PhaseId, step_ns: f64) {
        for _ in 0..20 {
            let from = self.place();
            self.executed += STEP * 100_000;
            let to = self.place();
            let progress = self.process.progress(phase).unwrap();
            let _ = progress.count(&from, &to, 1e5 * step_ns, true);
        }
    }

    /// What decides, and the misses of a step.
    fn judged(&mut self, phase: PhaseId, facts: &Facts) -> (MissRule, f64) {
        let known = self.process.estimate(phase, facts, &ONE).unwrap();
        let reads = known.estimate.rates[0].reads * known.estimate.instruction_ns();
        (known.judged, reads * STEP as f64)
    }
}

/// One line of each page fits the cache.
#[test]
fn lines_decide_where_few_of_a_page_are_used() {
    let mut walk = Walk::new(1);
    let phase = walk.window();
    // At first too few lines were seen twice: time waits, and misses are bounded by it.
    assert!(walk.process.is_undecided(phase));
    assert_eq!(walk.process.wants_windows(), (true, false));
    walk.run(phase, 45.0);
    // A walk of 45 ns a step uses 5 MiB here.
    let (judged, misses) = walk.judged(phase, &facts(true));
    assert_eq!((judged, misses), (MissRule::Time, 0.0));
    assert_eq!(walk.process.wants_windows(), (true, true));
    for _ in 1..FIRST_WINDOWS {
        assert_eq!(walk.window(), phase);
    }
    assert!(!walk.process.is_undecided(phase));
    for own in [true, false] {
        walk.process.estimates.clear();
        let (judged, misses) = walk.judged(phase, &facts(own));
        assert_eq!((judged, misses), (MissRule::Lines, 0.0));
    }
}

/// All lines of the pages are used, but not all pages at a time.
#[test]
fn misses_are_bounded_by_time_where_all_lines_are_used() {
    let mut walk = Walk::new(64);
    let phase = walk.window();
    for _ in 1..FIRST_WINDOWS {
        walk.window();
    }
    walk.run(phase, 135.0);
    let (judged, misses) = walk.judged(phase, &facts(true));
    assert_eq!((judged, misses > 0.8), (MissRule::Pages, true));
    // A walk of 100 ns a step uses 16 MiB and more here, half of which a cache of 8 MiB holds.
    walk.run(phase, 100.0);
    let (judged, misses) = walk.judged(phase, &facts(true));
    assert_eq!(judged, MissRule::Time);
    assert!(misses > 0.5 && misses < 1.1 * 100.0 / MISS_NS, "{misses}");
    // On a machine that the user described, the program's time says nothing.
    walk.process.estimates.clear();
    let (judged, misses) = walk.judged(phase, &facts(false));
    assert_eq!(judged, MissRule::Pages);
    assert!((misses / 0.875 - 1.0).abs() < 0.05, "{misses}");
}

/// Lines of two windows are watched. Whether pages are used in full does not matter then.
#[test]
fn watched_lines_decide_how_many_miss() {
    let mut walk = Walk::new(64);
    let phase = walk.window();
    walk.window();
    walk.run(phase, 170.0);
    for again in [true, false] {
        let times = &mut walk.process.locality.times;
        let ids: Vec<WatchId> = (0..16).map(|one| times.begin(1 + one / 8)).collect();
        (1..=2).for_each(|window| times.is_of(window, phase));
        assert!(walk.process.is_undecided(phase));
        for id in ids {
            walk.process.locality.times.record(id, 1e9, false);
        }
        if again {
            // Touched again before the cache is full, which takes 131,072 steps.
            let told = |id| walk.process.locality.times.record(id, 1e6, true);
            assert!((0..16).all(told));
        }
        walk.process.estimates.clear();
        let (judged, misses) = walk.judged(phase, &facts(true));
        assert!(!walk.process.is_undecided(phase));
        let expected = if again { 0.0 } else { 1.0 };
        assert_eq!(judged, MissRule::Reuse);
        assert!((misses - expected).abs() < 0.05, "{again}: {misses}");
        walk.process.locality.times = Default::default();
    }
}

#[test]
fn pages_decide_where_all_lines_are_used_and_there_is_time() {
    let mut walk = Walk::new(64);
    let phase = walk.window();
    for _ in 1..FIRST_WINDOWS {
        walk.window();
    }
    walk.run(phase, 170.0);
    let (judged, misses) = walk.judged(phase, &facts(true));
    assert_eq!(judged, MissRule::Pages);
    assert!((misses / 0.875 - 1.0).abs() < 0.05, "{misses}");
    assert!(!walk.process.wants_windows().1);
}
