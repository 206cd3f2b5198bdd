use super::*;
use crate::model::{Node, PoolUse};

const MACHINE: Machine = Machine {
    local_ns: 90.0,
    wait_ns: 90.0,
    here: None,
    base_ns: 0.25,
};

/// Ten blocks, each of which waits for a chain in pool 1.
fn window(chain: u32) -> WindowUse {
    let block = BlockUse {
        instructions: 256,
        nodes: (0..chain).map(|at| Node::Miss(1, at)).collect(),
        fill_time: vec![0.0, f64::from(chain) / 12.0],
        demand_fill_time: f64::from(chain) / 12.0,
        demand_misses: vec![0, chain],
        wait_shares: vec![0.0, 1.0],
    };
    WindowUse {
        instructions: 2560,
        seen: 2560,
        pools: vec![
            PoolUse::default(),
            PoolUse {
                waits: 10.0 * f64::from(chain),
                reads: 10.0 * f64::from(chain),
                writes: 0.0,
            },
        ],
        blocks: vec![block; 10],
        idle: 0,
        code: vec![(7, 2560)],
        by_instruction: BTreeMap::new(),
    }
}

/// A pointer chase with 85 steps a block.
fn chase(chance: f64) -> Estimate {
    let mut estimator = Estimator::default();
    let phase = estimator.add(window(85)).unwrap();
    estimator.estimate(phase, &MACHINE, chance).unwrap()
}

fn answer(latency_ns: f64) -> [PoolResponse; 2] {
    let stretch = 1.0;
    [90.0, latency_ns].map(|latency_ns| PoolResponse {
        latency_ns,
        stretch,
    })
}

/// A machine whose lines take these times.
fn here(miss_ns: f64, apart_ns: f64, stream_ns: f64) -> Machine {
    let here = Some(LocalLineTime {
        miss_ns,
        apart_ns,
        stream_ns,
    });
    Machine { here, ..MACHINE }
}

/// A step takes 90 ns here, which hides its computing. With 200 ns added it takes 290 ns.
#[test]
fn a_chase_is_charged_the_added_latency_of_each_step() {
    let estimate = chase(1.0);
    assert!((estimate.rates[1].waits * 90.0 - 1.0).abs() < 1e-12);
    for added in [0.0, 100.0, 200.0, 400.0, 2000.0] {
        let delay = estimate.delay(&answer(90.0 + added), &MACHINE);
        assert!((delay * 90.0 - added).abs() < 1e-9, "{added}: {delay}");
    }
}

/// One wait of 100 ns. In a block that computes for 64 ns, 36 ns of it show. In a block of 640
/// ns nothing shows, until the wait is longer.
#[test]
fn computing_hides_what_it_takes_itself() {
    let machine = Machine {
        local_ns: 30.0,
        wait_ns: 30.0,
        ..MACHINE
    };
    let of = |machine: &Machine, latency_ns| {
        let windows = [window(1)];
        let estimate = Estimate::of(windows.iter(), machine, 1.0).unwrap();
        let delay = estimate.delay(&answer(latency_ns), machine);
        (estimate.time_ns() / 10.0, delay * estimate.time_ns() / 10.0)
    };
    let (time, delay) = of(&machine, 100.0);
    assert!((time - 64.0).abs() < 1e-9 && (delay - 36.0).abs() < 1e-9);
    let slow = Machine {
        base_ns: 2.5,
        ..machine
    };
    assert_eq!(of(&slow, 600.0).1, 0.0);
    assert!((of(&slow, 700.0).1 - 60.0).abs() < 1e-9);
}

#[test]
fn more_latency_is_never_less_delay_and_none_is_none() {
    let estimate = chase(1.0);
    let mut last = 0.0;
    assert_eq!(estimate.delay(&answer(90.0), &MACHINE), 0.0);
    assert_eq!(estimate.delay(&answer(50.0), &MACHINE), 0.0);
    for latency in 91..3000 {
        let now = estimate.delay(&answer(f64::from(latency)), &MACHINE);
        assert!(now > last, "{latency}");
        last = now;
    }
}

/// Chains, independent misses and streams in random order, in two pools. A higher latency never
/// gives less delay, and no added latency gives none.
#[test]
fn more_latency_is_never_less_delay_for_blocks_of_any_kind() {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let mut seen = window(1);
        for block in &mut seen.blocks {
            let chain = next(4) as u32;
            let (apart, streamed) = (next(40) as f64 / 12.0, next(80) as f64 / 16.0);
            let far = next(5) as f64 / 4.0;
            *block = BlockUse {
                instructions: 1 + next(256) as u32,
                nodes: (0..chain)
                    .map(|at| Node::Miss(next(2) as u16, at))
                    .collect(),
                fill_time: vec![(apart + streamed) * (1.0 - far), (apart + streamed) * far],
                demand_fill_time: apart,
                demand_misses: vec![0, chain],
                wait_shares: vec![0.5, 0.5],
            };
        }
        let chance = next(5) as f64 / 4.0;
        let estimate = Estimate::of([seen].iter(), &MACHINE, chance).unwrap();
        let mut last = estimate.delay(&answer(90.0), &MACHINE);
        assert!(last.abs() < 1e-9, "{last}");
        for latency in (91..2000).step_by(7) {
            let now = estimate.delay(&answer(f64::from(latency)), &MACHINE);
            assert!(now > last - 1e-9, "{latency}: {now} after {last}");
            last = now;
        }
    }
}

#[test]
fn a_fabric_that_carries_half_doubles_the_time() {
    let estimate = chase(1.0);
    let mut answers = answer(90.0);
    answers[1].stretch = 2.0;
    assert!((estimate.delay(&answers, &MACHINE) - 1.0).abs() < 1e-12);
    // The fabric does not carry local lines.
    answers[0].stretch = 5.0;
    assert!((estimate.delay(&answers, &MACHINE) - 1.0).abs() < 1e-12);
}

/// With half of the lines of a chain in the cache, half of the waits take half of the time. Of 86 steps, one
/// that hits is between two blocks, where nothing hides computing.
#[test]
fn what_the_cache_holds_is_not_waited_for() {
    assert_eq!(chase(0.0).rates[1], Rate::default());
    assert_eq!(chase(0.0).time_ns(), 640.0);
    let half = chase(0.5);
    assert!((half.rates[1].waits * half.time_ns() - 425.0).abs() < 1e-9);
    let expected = 0.5 * chase(1.0).time_ns() + 640.0 / 86.0;
    assert!((half.time_ns() - expected).abs() < 1e-9);
}

/// If page table walks are serial, independent misses take as long as a chain. The same CPU
/// time then holds fewer misses, and each takes as much longer as before.
#[test]
fn cpu_time_holds_as_many_misses_as_this_machine_makes() {
    let apart = |apart_ns| {
        let mut seen = window(24);
        for block in &mut seen.blocks {
            block.nodes = vec![Node::Miss(1, 0); 24];
        }
        let machine = here(90.0, apart_ns, 90.0);
        let estimate = Estimate::of([seen].iter(), &machine, 1.0).unwrap();
        let delay = estimate.delay(&answer(290.0), &machine);
        (estimate.time_ns(), delay * estimate.time_ns())
    };
    let (time, delay) = apart(90.0);
    let (longer, same) = apart(1080.0);
    assert!((time - 10.0 * 180.0).abs() < 1e-9 && (longer - 12.0 * time).abs() < 1e-6);
    assert!((delay - 10.0 * 400.0).abs() < 1e-6 && (delay - same).abs() < 1e-6);
}

/// The cache here holds all lines, the model's cache a fourth. Steps take a tenth of the time
/// here, so there are ten times as many, and three of four miss.
#[test]
fn a_cache_that_is_larger_here_hides_nothing() {
    let machine = here(9.0, 9.0, 9.0);
    let estimate = Estimate::of([window(85)].iter(), &machine, 0.75).unwrap();
    let steps = 1.0 / 9.0;
    assert!((estimate.rates[1].waits - 0.75 * steps).abs() < 1e-12);
    let delay = estimate.delay(&answer(290.0), &machine);
    assert!((delay - 0.75 * steps * 200.0).abs() < 1e-9, "{delay}");
}

#[test]
fn what_fits_the_cache_never_misses() {
    assert_eq!(chance(1 << 20, 4 << 20), 0.0);
    assert_eq!(chance(4 << 20, 4 << 20), 0.0);
    assert_eq!(chance(16 << 20, 4 << 20), 0.75);
}

#[test]
fn without_a_window_there_is_no_estimate() {
    let mut estimator = Estimator::default();
    assert_eq!(estimator.estimate(0, &MACHINE, 1.0), None);
    assert_eq!(estimator.add(WindowUse::default()), None);
    assert_eq!(estimator.estimate(0, &MACHINE, 1.0), None);
}

fn at(code: &[(u64, u32)]) -> WindowUse {
    WindowUse {
        code: code.to_vec(),
        ..window(10)
    }
}

#[test]
fn windows_that_have_half_of_their_code_in_common_are_of_one_phase() {
    let mut estimator = Estimator::default();
    let first = estimator.add(at(&[(1, 500), (2, 500)]));
    assert_eq!(estimator.add(at(&[(1, 900), (3, 100)])), first);
    let other = estimator.add(at(&[(3, 600), (4, 400)]));
    assert_ne!(other, first);
    assert_eq!(estimator.add(at(&[(1, 700), (9, 300)])), first);
    assert_eq!(estimator.last(), first);
    assert_eq!(estimator.add(at(&[(4, 10), (3, 15)])), other);
    assert_eq!(estimator.last(), other);
    // Many other pieces of code evict the least recently seen ones.
    for code in 100..100 + MAX_PHASES as u64 - 1 {
        estimator.add(at(&[(code, 1)]));
    }
    assert_eq!(estimator.phases.len(), MAX_PHASES);
    assert_eq!(estimator.add(at(&[(3, 600), (4, 400)])), other);
    assert_ne!(estimator.add(at(&[(1, 500), (2, 500)])), first);
}

/// A program chases, computes for as long, and chases again. Each part has its own price,
/// regardless of what came before. A time that spans a change is split between both windows.
#[test]
fn cpu_time_has_the_price_of_the_window_that_is_nearest() {
    let mut estimator = Estimator::default();
    let computing = WindowUse {
        instructions: 1000,
        seen: 1000,
        idle: 1000,
        pools: vec![PoolUse::default(); 2],
        code: vec![(1, 1000)],
        ..WindowUse::default()
    };
    let chasing = WindowUse {
        code: vec![(2, 2560)],
        ..window(85)
    };
    let mut waiting = UnpricedTime::default();
    let mut by_phase: BTreeMap<PhaseId, f64> = BTreeMap::new();
    let mut delay = 0.0;
    // A window each 100 ns of CPU time, sampled each 10 ns.
    for part in 0..9 {
        let seen = match part / 3 {
            1 => &computing,
            _ => &chasing,
        };
        let phase = estimator.add(seen.clone()).unwrap();
        let mut due = vec![waiting.seen(phase)];
        due.extend((0..10).filter_map(|_| waiting.pass(10.0)));
        due.extend((part == 8).then(|| waiting.end(None).unwrap()));
        for (phase, ns) in due {
            let estimate = estimator.estimate(phase, &MACHINE, 1.0).unwrap();
            delay += ns * estimate.delay(&answer(290.0), &MACHINE);
            *by_phase.entry(phase).or_default() += ns;
        }
    }
    assert_eq!(waiting.ns(), 0.0);
    // Six windows chase and three compute. The last one also covers the time after it.
    let found: Vec<f64> = by_phase.into_values().collect();
    assert_eq!(found, [600.0, 300.0]);
    assert!((delay - 600.0 * 200.0 / 90.0).abs() < 1e-9, "{delay}");
}

#[test]
fn an_instruction_belongs_to_the_code_that_has_most_of_its_own_there() {
    let mut estimator = Estimator::default();
    assert_eq!(estimator.at(64), None);
    let one = estimator.add(at(&[(1, 900), (2, 100)]));
    let other = estimator.add(at(&[(2, 300), (3, 700)]));
    assert_eq!(estimator.at(64), one);
    assert_eq!(estimator.at(2 * 64 + 63), other);
    assert_eq!(estimator.at(3 * 64), other);
    assert_eq!(estimator.at(4 * 64), None);
}

#[test]
fn what_no_window_was_seen_of_waits_for_one() {
    let mut waiting = UnpricedTime::default();
    assert_eq!(waiting.pass(30.0), None);
    assert_eq!(waiting.end(None), None);
    assert_eq!(waiting.ns(), 30.0);
    assert_eq!(waiting.end(Some(4)), Some((4, 30.0)));
    waiting.pass(5.0);
    assert_eq!(waiting.seen(2), (2, 5.0));
    // A sample is in new code, whose window comes later. Half of the time before that sample is known.
    assert_eq!(waiting.pass(6.0), Some((2, 3.0)));
    waiting.elsewhere();
    assert_eq!(waiting.pass(10.0), None);
    assert_eq!(waiting.seen(5), (5, 13.0));
}
