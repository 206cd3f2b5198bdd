use cxlab_engine::catalog::find;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use serde_json::{Value, json};

use crate::backend::{Completion, MemoryBackend, MemoryRequest};
use crate::{CATALOG, Medium, MediumSite};

fn medium(kind: &str, params: &Value) -> Box<dyn Medium> {
    (find(CATALOG, kind).unwrap().build)(params).unwrap()
}

fn backend(kind: &str, params: &Value, capacity: u64) -> Box<dyn MemoryBackend> {
    let medium = medium(kind, params);
    medium.check(Bytes(capacity)).unwrap();
    medium.backend(MediumSite::alone(Bytes(capacity), 1))
}

/// Completion times of requests (time, address, lines, write), each offered at its time or when
/// there is room. The owner wakes up at every event, and every `step` if given.
fn times(
    memory: &mut dyn MemoryBackend,
    requests: &[(u64, u64, u16, bool)],
    step: Option<u64>,
) -> Vec<u64> {
    let mut ends = vec![u64::MAX; requests.len()];
    let (mut now, mut next) = (0, 0);
    let mut done: Vec<Completion> = Vec::new();
    loop {
        memory.advance(SimTime(now), &mut done);
        for one in done.drain(..) {
            assert_eq!(ends[one.id as usize], u64::MAX, "done twice");
            ends[one.id as usize] = one.at.0;
        }
        while let Some((at, dpa, lines, write)) = requests.get(next).copied()
            && at <= now
            && memory.can_accept(SimTime(now), write)
        {
            let request = MemoryRequest {
                id: next as u32,
                dpa: Dpa(dpa),
                lines,
                write,
            };
            if let Some(at) = memory.enqueue(SimTime(now), request) {
                ends[next] = at.0;
            }
            next += 1;
        }
        let wish = requests.get(next).map(|one| one.0).filter(|at| *at > now);
        let event = memory.next_event().map(|at| at.0.max(now));
        let Some(soonest) = wish.into_iter().chain(event).min() else {
            break;
        };
        now = step.map_or(soonest, |step| soonest.min(now + step));
    }
    assert!(
        ends.iter().all(|end| *end != u64::MAX),
        "a request was lost"
    );
    ends
}

/// Four media of 10 ns and 6.4 GB/s.
fn four(given: Value) -> Value {
    let one = json!({ "kind": "fixed", "latency": "10 ns", "bandwidth": "6.4 GB/s" });
    let mut all = json!({ "media": [one], "copies": 4 });
    for (key, value) in given.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn traffic(count: usize, capacity: u64, most: u64) -> Vec<(u64, u64, u16, bool)> {
    let mut rng = StreamRng::new(7, "traffic");
    let mut at = 0;
    (0..count)
        .map(|_| {
            at += rng.below(4_000);
            let lines = 1 + rng.below(most);
            let line = rng.below(capacity / 64 - lines);
            (at, line * 64, lines as u16, rng.chance(0.3))
        })
        .collect()
}

#[test]
fn a_line_takes_the_time_of_its_medium_and_channels_add_up() {
    let mut memory = backend("interleaved", &four(json!({})), 1 << 20);
    let ends = times(memory.as_mut(), &[(0, 0, 1, false)], None);
    assert_eq!(ends, [10_000]);
    // 256 lines, 10 ns each on one bus: four buses take a quarter of the time.
    let stream: Vec<_> = (0..256).map(|line| (0, line * 64, 1, false)).collect();
    let mut memory = backend("interleaved", &four(json!({ "queue": 256 })), 1 << 20);
    let ends = times(memory.as_mut(), &stream, None);
    assert_eq!(ends.iter().max(), Some(&(63 * 10_000 + 10_000)));
}

#[test]
fn a_request_is_done_with_its_last_piece() {
    let media = json!([
        { "kind": "fixed", "latency": "10 ns" },
        { "kind": "fixed", "latency": "70 ns" },
        { "kind": "fixed", "latency": "30 ns" },
    ]);
    let params = json!({ "media": media });
    let mut memory = backend("interleaved", &params, 3 << 20);
    let requests = [
        // The second half of a granule of the first medium and the first half of one of the second.
        (0, 128, 4, false),
        // A request to all three media, and one to the first medium alone.
        (0, 512, 16, true),
        (0, 768, 4, false),
    ];
    assert_eq!(
        times(memory.as_mut(), &requests, None),
        [70_000, 70_000, 10_000]
    );
    let ranges =
        json!({ "media": media, "spread": "ranges", "capacities": ["1 KiB", "2 KiB", "1 KiB"] });
    let mut memory = backend("interleaved", &ranges, 4 << 10);
    let requests = [
        (0, 0, 16, false),
        (0, 1024, 1, false),
        (0, 3072 - 64, 2, false),
        (0, 3072, 1, false),
    ];
    assert_eq!(
        times(memory.as_mut(), &requests, None),
        [10_000, 70_000, 70_000, 30_000]
    );
}

#[test]
fn one_medium_by_itself_is_that_medium() {
    let dram = json!({ "grade": "DDR4-3200AA", "channels": 1 });
    let mut inner = dram.clone();
    inner["kind"] = json!("dram");
    let requests = traffic(3_000, 1 << 30, 4);
    let alone = times(backend("dram", &dram, 1 << 30).as_mut(), &requests, None);
    let params = json!({ "media": [inner], "granularity": "1 GiB" });
    let inside = times(
        backend("interleaved", &params, 1 << 30).as_mut(),
        &requests,
        None,
    );
    assert_eq!(alone, inside);
}

#[test]
fn it_does_not_matter_when_the_owner_looks() {
    let media = json!([
        { "kind": "dram", "grade": "DDR5-4800BN", "channels": 1 },
        { "kind": "pmem" },
        { "kind": "fixed", "latency": "55 ns", "bandwidth": "10 GB/s", "queue": 4 },
    ]);
    let params = json!({ "media": media, "queue": 6 });
    let capacity = 3 << 28;
    let requests = traffic(2_000, capacity, 20);
    let lazy = times(
        backend("interleaved", &params, capacity).as_mut(),
        &requests,
        None,
    );
    let eager = times(
        backend("interleaved", &params, capacity).as_mut(),
        &requests,
        Some(1_700),
    );
    assert_eq!(lazy, eager);
}

#[test]
fn statistics_are_told_by_channel_and_add_up() {
    let mut media = four(json!({}));
    media["media"][0] = json!({ "kind": "dram", "channels": 1, "write_done": "written" });
    let mut memory = backend("interleaved", &media, 4 << 30);
    let requests = traffic(500, 4 << 30, 8);
    times(memory.as_mut(), &requests, None);
    let mut list = Vec::new();
    memory.statistics(SimTime(1_000_000_000), &mut list);
    let sum = |name: &str| -> f64 {
        let found = (0..4).map(|channel| format!("channel{channel}.{name}"));
        found
            .map(|name| list.iter().find(|one| one.name == name).unwrap().value)
            .sum()
    };
    let lines: u64 = requests.iter().map(|one| u64::from(one.2)).sum();
    assert_eq!(sum("lines"), lines as f64);
    let bursts = sum("dram.reads") + sum("dram.writes");
    let merged = sum("dram.forwarded_reads") + sum("dram.coalesced_writes");
    assert_eq!(bursts + merged, lines as f64);
    let pieces = sum("reads") + sum("writes");
    assert!((500.0..=500.0 * 3.0).contains(&pieces), "{pieces} pieces");
}

#[test]
fn a_full_queue_holds_requests_back_and_time_spent_in_it_is_told() {
    let params = four(
        json!({ "copies": 1, "queue": 2, "media": [{ "kind": "fixed", "latency": "10 ns", "queue": 1 }] }),
    );
    let mut memory = backend("interleaved", &params, 1 << 20);
    for id in 0..3 {
        assert!(memory.can_accept(SimTime(0), false));
        let request = MemoryRequest {
            id,
            dpa: Dpa(0),
            lines: 1,
            write: false,
        };
        assert_eq!(memory.enqueue(SimTime(0), request), None);
    }
    assert!(!memory.can_accept(SimTime(0), false), "two wait");
    assert!(memory.can_accept(SimTime(10_000), false), "one went on");
    let mut done = Vec::new();
    memory.advance(SimTime(30_000), &mut done);
    let ends: Vec<_> = done.iter().map(|one| (one.id, one.at.0)).collect();
    assert_eq!(ends, [(0, 10_000), (1, 20_000), (2, 30_000)]);
    let mut list = Vec::new();
    memory.statistics(SimTime(30_000), &mut list);
    let wait = list
        .iter()
        .find(|one| one.name == "channel0.wait_ns")
        .unwrap();
    assert_eq!(wait.value, 30.0);
}

#[test]
fn wrong_parameters_name_the_field_and_what_is_allowed() {
    let fixed = || json!({ "kind": "fixed" });
    let refused = |params: &Value, capacity: u64| {
        let entry = find(CATALOG, "interleaved").unwrap();
        match (entry.build)(params) {
            Ok(medium) => medium.check(Bytes(capacity)).unwrap_err(),
            Err(error) => error,
        }
    };
    for (field, params) in [
        ("media", json!({})),
        ("media", json!({ "media": [] })),
        (
            "media[1].kind",
            json!({ "media": [fixed(), { "kind": "tape" }] }),
        ),
        (
            "media[0].kind",
            json!({ "media": [{ "kind": "interleaved", "media": [fixed()] }] }),
        ),
        (
            "media[0].banks",
            json!({ "media": [{ "kind": "fixed", "banks": 0 }], "copies": 2 }),
        ),
        ("copies", json!({ "media": [fixed()], "copies": 0 })),
        (
            "copies",
            json!({ "media": [fixed(), fixed()], "copies": 33 }),
        ),
        (
            "granularity",
            json!({ "media": [fixed()], "granularity": "96 B" }),
        ),
        (
            "granularity",
            json!({ "media": [fixed()], "granularity": "32 B" }),
        ),
        (
            "granularity",
            json!({ "media": [fixed()], "granularity": "2 GiB" }),
        ),
        ("granularity", json!({ "media": [fixed()], "copies": 3 })),
        (
            "spread",
            json!({ "media": [fixed()], "copies": 3, "spread": "xor" }),
        ),
        (
            "capacities",
            json!({ "media": [fixed()], "capacities": ["1 MiB"] }),
        ),
        (
            "capacities",
            json!({ "media": [fixed(), fixed()], "spread": "ranges", "capacities": ["1 MiB"] }),
        ),
        (
            "capacities",
            json!({ "media": [fixed(), fixed()], "spread": "ranges", "capacities": ["512 KiB", "256 KiB"] }),
        ),
        (
            "capacities",
            json!({ "media": [fixed(), fixed()], "spread": "ranges", "capacities": ["1048448 B", "128 B"] }),
        ),
        ("queue", json!({ "media": [fixed()], "queue": 0 })),
        (
            "media[0].channels",
            json!({ "media": [{ "kind": "dram", "grade": "HBM2-2000", "channels": 1 }] }),
        ),
    ] {
        let capacity = if field == "media[0].channels" {
            1 << 40
        } else {
            1 << 20
        };
        let error = refused(&params, capacity);
        assert_eq!(error.field, field, "{params}: {}", error.message);
        assert!(!error.message.is_empty());
    }
}
