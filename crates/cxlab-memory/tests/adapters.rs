//! The queues of `adapters/media/clocked.hpp` with a small simulator behind them. Adapters of public
//! simulators use the same header; `adapters/compare.py` needs a checkout of these.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{drain, request, statistics};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, SimTime};
use cxlab_memory::{Completion, FaultList, Medium, MediumSite, MemoryBackend, RunContext};
use proptest::prelude::*;
use serde_json::json;

const CAPACITY: Bytes = Bytes(1 << 20);

/// The library of the small simulator, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libfake.so");
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let status = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-std=c++17", "-Wall", "-Wextra"])
            .args(["-Werror", "-I"])
            .arg(root.join("include"))
            .arg("-I")
            .arg(root.join("adapters/media"))
            .arg("-o")
            .args([&library, &root.join("adapters/media/tests/fake.cpp")])
            .status();
        assert!(status.expect("a C++ compiler").success());
        library
    })
}

fn medium(config: &str) -> Box<dyn Medium> {
    cxlab_plugin::trust::trust_all();
    let params = json!({ "library": library(), "config": config, "in_process": true });
    common::medium("plugin", &params).unwrap()
}

fn backend(config: &str) -> (Box<dyn MemoryBackend>, FaultList) {
    let site = MediumSite::alone(CAPACITY, 1);
    let faults = site.context.faults.clone();
    (medium(config).backend(site), faults)
}

fn refusal(config: &str, capacity: Bytes) -> ParamError {
    medium(config)
        .rehearse(capacity, &RunContext::default())
        .unwrap_err()
}

#[test]
fn clock_edges_are_rounded_from_femtoseconds_and_do_not_drift() {
    // A period of 1/3 ns, rounded down to 333,333 fs.
    let (mut memory, faults) = backend("period_fs=333333 latency=20");
    memory.enqueue(SimTime(0), request(1, 0, 1, false));
    let (done, _) = drain(&mut *memory);
    // Served at edge 1, complete at edge 21.
    assert_eq!(done[0].at, SimTime(21 * 333_333 / 1_000));
    // After a second without a request.
    let late = 1_000_000_000;
    memory.enqueue(SimTime(late), request(2, 0, 1, false));
    let (done, _) = drain(&mut *memory);
    let edge = late * 1_000 / 333_333 + 1;
    assert_eq!(done[0].at, SimTime((edge + 20) * 333_333 / 1_000));
    assert_eq!(faults.first(), None);
}

#[test]
fn a_request_of_several_lines_completes_with_its_last_transaction() {
    let (mut memory, faults) = backend("period_fs=1000000 queue=2 service=4 latency=10");
    memory.enqueue(SimTime(0), request(7, 0, 16, false));
    assert!(!memory.can_accept(SimTime(0), false), "14 lines wait");
    let (done, _) = drain(&mut *memory);
    // Sixteen services, one each 4 clocks from clock 1, and the latency of the last.
    let at = SimTime((1 + 15 * 4 + 10) * 1_000);
    assert_eq!(done, [Completion { id: 7, at }]);
    assert_eq!(faults.first(), None);
}

#[test]
fn a_transaction_of_several_lines_serves_a_request_that_is_shorter_or_begins_within() {
    let (mut memory, _) = backend("period_fs=1000000 bytes=256 latency=10 queue=9");
    assert_eq!(memory.granule(), 256);
    // Lines 3 and 4 are in two transactions; line 9 is in one.
    memory.enqueue(SimTime(0), request(1, 3 * 64, 2, false));
    memory.enqueue(SimTime(0), request(2, 9 * 64, 1, true));
    let (done, _) = drain(&mut *memory);
    let at = [5 + 10, 9 + 10].map(|clock| SimTime(clock * 1_000));
    assert_eq!([done[0].at, done[1].at], at);
    assert_eq!(statistics(&*memory, 0)[0].value, 3.0);
}

#[test]
fn who_was_refused_is_woken_when_there_is_room() {
    let (mut memory, _) = backend("period_fs=1000000 queue=1 service=8 latency=30");
    memory.enqueue(SimTime(0), request(1, 0, 1, false));
    assert!(!memory.can_accept(SimTime(0), false));
    assert!(
        memory.can_accept(SimTime(0), true),
        "writes have a queue of their own"
    );
    let mut done = Vec::new();
    let at = memory.next_event().unwrap();
    memory.advance(at, &mut done);
    assert_eq!((at, done.len()), (SimTime(1_000), 0));
    assert!(memory.can_accept(at, false));
}

#[test]
fn a_posted_write_completes_at_the_next_edge() {
    let (mut memory, _) = backend("period_fs=1000000 posted=1 queue=1 service=8");
    memory.enqueue(SimTime(2_500), request(3, 0, 2, true));
    let (done, _) = drain(&mut *memory);
    // The first line is taken at once, and the second after the edge at 3 ns has served the first.
    let at = SimTime(4_000);
    assert_eq!(done, [Completion { id: 3, at }]);
}

#[test]
fn a_wrong_configuration_is_one_clear_error() {
    for (config, says) in [
        (
            "speed=9",
            "found the key `speed`; allowed: `bytes=N`, `channels=N`",
        ),
        ("queue", "found the word `queue`; allowed"),
        ("queue=0", "`queue`: found `0`; allowed: 1 to 64"),
        ("queue=-1", "`queue`: found `-1`; allowed: 1 to 64"),
        ("queue=99999999999999999999", "allowed: 1 to 64"),
        ("queue=1 queue=2", "found `queue` twice"),
        ("file=\"a b", "`file`: found no closing double quote"),
        (
            "channels=2",
            "`input_queue`: found 0 with 2 channels; allowed: at least 1",
        ),
    ] {
        let error = refusal(config, CAPACITY);
        assert_eq!(error.field, "config");
        assert!(error.message.contains(says), "{config}: {}", error.message);
    }
    let said = refusal("file=\"a b\"", Bytes(0)).message;
    assert_eq!(said, "the simulator refuses it: it gave up: no bytes");
}

/// Sends requests as soon as they are accepted, and returns the time of each completion. `step`
/// wakes the medium at further times, by that distance.
fn times(config: &str, sizes: &[(u64, u16, bool)], step: Option<u64>) -> Vec<(u32, SimTime)> {
    let (mut memory, faults) = backend(config);
    let mut waiting: HashMap<u32, u16> = HashMap::new();
    let (mut done, mut all) = (Vec::new(), Vec::new());
    let mut now = SimTime(0);
    let mut left = sizes.iter().zip(0u32..).peekable();
    while left.peek().is_some() || !waiting.is_empty() {
        while let Some((&(line, lines, write), id)) = left.peek().copied() {
            if !memory.can_accept(now, write) {
                break;
            }
            memory.enqueue(now, request(id, line * 64, lines, write));
            waiting.insert(id, lines);
            left.next();
        }
        let event = memory.next_event().expect("requests are in flight");
        let wake = step.map_or(event, |step| event.min(SimTime(now.0 + step)));
        memory.advance(wake, &mut done);
        now = wake;
        for one in done.drain(..) {
            assert!(waiting.remove(&one.id).is_some(), "{} is in flight", one.id);
            // Woken by its own events, the medium reports a request when it is done.
            assert!(one.at == now || step.is_some() && one.at < now);
            all.push((one.id, one.at));
        }
    }
    assert_eq!(faults.first(), None);
    assert_eq!(memory.next_event(), None);
    all
}

proptest! {
    /// No request is lost or completes twice, and times do not depend on how often the medium is
    /// woken, nor on whether the simulator knows that nothing will complete.
    #[test]
    fn every_request_completes_once_at_a_time_that_no_wake_up_changes(
        sizes in prop::collection::vec((0u64..4096, 1u16..70, any::<bool>()), 1..60),
        period in 300_000u64..2_000_000,
        queue in 1u64..8,
        channels in 1u64..5,
        input in 1u64..4,
        bytes in prop::sample::select(vec![32u64, 64, 128]),
        posted in 0u64..2,
        step in 100u64..3_000,
    ) {
        let config = |knows: u64| format!(
            "period_fs={period} queue={queue} channels={channels} input_queue={input} \
             bytes={bytes} posted={posted} knows={knows}"
        );
        let expected = times(&config(0), &sizes, None);
        prop_assert_eq!(expected.len(), sizes.len());
        prop_assert_eq!(&times(&config(1), &sizes, None), &expected);
        prop_assert_eq!(&times(&config(1), &sizes, Some(step)), &expected);
    }
}
