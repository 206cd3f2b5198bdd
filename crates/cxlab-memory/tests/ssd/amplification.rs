//! Write amplification by over-provisioning, against published models.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Bytes;
use cxlab_memory::MemoryBackend;
use cxlab_memory::ssd::{CollectionParams, Drive, GcPolicyName, SsdParams, WriteBufferParams};

use crate::harness::{KIB, drive, statistic, write_paced};
use crate::theory;

const BLOCKS: u32 = 512;
const PAGES: u32 = 64;
const FREE: u32 = 3;

/// One plane of 512 blocks of 64 pages of one sub-page.
pub fn plane(policy: &str, separate: bool) -> SsdParams {
    SsdParams {
        channels: 1,
        ways: 1,
        planes: Some(1),
        blocks: Some(BLOCKS),
        pages: Some(PAGES),
        page: Some(Bytes(4 * KIB)),
        write_buffer: WriteBufferParams {
            capacity: Bytes(32 * KIB),
            ..WriteBufferParams::default()
        },
        collection: CollectionParams {
            policy: GcPolicyName::find(policy).unwrap(),
            separate,
            start: FREE,
            wear_static: 0,
            ..CollectionParams::default()
        },
        fill: 1.0,
        overwrite: 5.0,
        ..SsdParams::default()
    }
}

/// Number of logical pages at a ratio `alpha` of physical pages to them. The physical pages exclude
/// the free blocks and, on average, half of each open block.
fn logical(alpha: f64, params: &SsdParams) -> u64 {
    let open = if params.collection.separate { 2.0 } else { 1.0 };
    let used = f64::from(BLOCKS) - f64::from(FREE) - open / 2.0;
    (used * f64::from(PAGES) / alpha) as u64
}

/// Write amplification in the steady state if the fraction `rate` of the writes goes to the
/// fraction `hot` of the data. The drive starts with uniform overwrites.
fn measure(params: &SsdParams, alpha: f64, hot: f64, rate: f64) -> f64 {
    let count = logical(alpha, params);
    let mut drive: Drive = drive(params, count * 4 * KIB);
    let mut rng = StreamRng::new(3, "writes");
    let rounds = if hot == rate { 1 } else { 6 };
    let border = (count as f64 * hot) as u64;
    let mut pick = || {
        if rng.chance(rate) {
            rng.below(border)
        } else {
            border + rng.below(count - border)
        }
    };
    let now = write_paced(&mut drive, 0, rounds * count, &mut pick);
    drive.begin_measurement(cxlab_engine::units::SimTime(now));
    let now = write_paced(&mut drive, now, 3 * count, &mut pick);
    drive.audit();
    statistic(&drive, now, "ftl.write_amplification")
}

fn near(found: f64, model: f64, tolerance: f64, what: &str) {
    let is_near = (found / model - 1.0).abs() < tolerance;
    assert!(is_near, "{what}: {found:.3} beside {model:.3}");
}

#[test]
fn uniform_writes_follow_the_models_within_3_percent() {
    for alpha in [1.07, 1.15, 1.28, 1.5] {
        let run = |policy, choices| {
            let params = SsdParams {
                collection: CollectionParams {
                    choices,
                    ..plane(policy, false).collection
                },
                ..plane(policy, false)
            };
            measure(&params, alpha, 0.5, 0.5)
        };
        for (policy, choices, model) in [
            ("greedy", 1, theory::greedy(alpha, PAGES)),
            ("fifo", 1, theory::fifo(alpha)),
            ("d-choice", 10, theory::choice(alpha, PAGES, 10.0)),
        ] {
            near(
                run(policy, choices),
                model,
                0.03,
                &format!("{policy} at {alpha}"),
            );
        }
    }
}

#[test]
fn blocks_of_their_own_for_moved_data_change_nothing_for_uniform_writes() {
    let found = measure(&plane("greedy", true), 1.15, 0.5, 0.5);
    near(found, theory::greedy(1.15, PAGES), 0.03, "greedy");
}

#[test]
fn hot_and_cold_writes_follow_the_model_of_fifo_within_3_percent() {
    for (hot, rate) in [(0.2, 0.8), (0.1, 0.9), (0.5, 0.9)] {
        let found = measure(&plane("fifo", false), 1.15, hot, rate);
        let model = theory::fifo_hot_cold(1.15, hot, rate);
        near(found, model, 0.03, &format!("{rate} to {hot}"));
    }
}

#[test]
fn separating_moved_data_helps_where_there_are_hot_and_cold_ones() {
    let (alpha, hot, rate) = (1.15, 0.2, 0.8);
    let run = |policy, separate| measure(&plane(policy, separate), alpha, hot, rate);
    let bound = theory::separated(alpha, hot, rate, PAGES);
    let mixed = run("greedy", false);
    let greedy = run("greedy", true);
    let benefit = run("cost-benefit", true);
    assert!(bound < benefit, "{bound} {benefit}");
    assert!(benefit < greedy, "{benefit} {greedy}");
    assert!(greedy < mixed, "{greedy} {mixed}");
}

#[test]
fn the_state_after_overwrites_in_no_time_is_that_after_writes() {
    let found = |overwrite, rounds| {
        let params = SsdParams {
            overwrite,
            ..plane("greedy", false)
        };
        let count = logical(1.15, &params);
        let mut drive = drive(&params, count * 4 * KIB);
        drive.audit();
        assert_eq!(drive.next_event(), None, "no time has passed");
        let mut rng = StreamRng::new(3, "writes");
        let mut pick = || rng.below(count);
        let now = write_paced(&mut drive, 0, rounds * count, &mut pick);
        drive.begin_measurement(cxlab_engine::units::SimTime(now));
        let now = write_paced(&mut drive, now, count, &mut pick);
        statistic(&drive, now, "ftl.write_amplification")
    };
    near(found(5.0, 0), found(0.0, 6), 0.02, "at once");
}
