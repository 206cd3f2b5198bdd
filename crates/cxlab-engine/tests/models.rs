//! The models of the examples, with assertions.

#[path = "../examples/models/mm1.rs"]
mod mm1;
#[path = "../examples/models/token_ring.rs"]
mod token_ring;

use cxlab_engine::Stop;
use cxlab_engine::units::SimTime;

#[test]
fn an_mm1_queue_agrees_with_its_formulas_within_the_statistical_error() {
    for load in [0.3, 0.6, 0.9] {
        let found = mm1::simulate(load, 1);
        assert!(found.agrees(), "{found:?}");
        // An interval that says anything: within a tenth.
        let (number, time) = (found.number_in_system, found.time_in_system);
        assert!(number.error < 0.1 * found.expected_number(), "{found:?}");
        assert!(time.error < 0.1 * found.expected_time(), "{found:?}");
    }
}

#[test]
fn littles_law_holds_for_the_mm1_queue() {
    let found = mm1::simulate(0.5, 2);
    // Number in system = arrival rate (0.5 per microsecond) times time in system. Jobs that cross the end
    // of a batch and the random number of arrivals leave a small difference.
    let product = 0.5 * found.time_in_system.mean;
    let number = found.number_in_system.mean;
    assert!((product / number - 1.0).abs() < 0.01, "{found:?}");
}

#[test]
fn a_token_ring_is_the_same_on_any_number_of_threads_and_as_fast_as_its_formula() {
    // 5 ms: some 3,000 frames.
    let until = SimTime(5_000_000_000);
    let expected = token_ring::simulate(1, until, 1);
    assert!(expected.agrees(until), "{expected:?}");
    assert_eq!(expected.outcome.stop, Stop::TimeLimit);
    let (least, most) = (expected.frames.iter().min(), expected.frames.iter().max());
    assert!(
        least
            .zip(most)
            .is_some_and(|(least, most)| most - least <= 1)
    );
    for threads in [2, 4] {
        let found = token_ring::simulate(threads, until, 1);
        assert_eq!(found.outcome.partitions, threads);
        let same = |one: &token_ring::Found| (one.outcome.digest, one.outcome.events);
        assert_eq!(same(&found), same(&expected));
        assert_eq!(found.frames, expected.frames);
    }
    let other_seed = token_ring::simulate(1, until, 2);
    assert_ne!(other_seed.outcome.digest, expected.outcome.digest);
}
