use std::collections::BTreeSet;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::SimTime;
use serde_json::{Value, json};

use crate::testing::{
    TimedRequest, backend, json_rows, refusal, request, statistic, statistics, times, with,
};

/// Four media of 10 ns and 6.4 GB/s.
fn four(given: &Value) -> Value {
    let one = json!({ "kind": "fixed", "latency": "10 ns", "bandwidth": "6.4 GB/s" });
    with(json!({ "media": [one], "copies": 4 }), given)
}

fn traffic(count: usize, capacity: u64, most: u64) -> Vec<TimedRequest> {
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
    let mut memory = backend("interleaved", &four(&json!({})), 1 << 20);
    let ends = times(memory.as_mut(), &[(0, 0, 1, false)], None);
    assert_eq!(ends, [10_000]);
    // 256 lines, 10 ns each on one bus: four buses take a quarter of the time.
    let stream: Vec<_> = (0..256).map(|line| (0, line * 64, 1, false)).collect();
    let mut memory = backend("interleaved", &four(&json!({ "queue": 256 })), 1 << 20);
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
    let mut media = four(&json!({}));
    media["media"][0] = json!({ "kind": "dram", "channels": 1, "write_done": "written" });
    let mut memory = backend("interleaved", &media, 4 << 30);
    let requests = traffic(500, 4 << 30, 8);
    times(memory.as_mut(), &requests, None);
    let list = statistics(memory.as_ref(), 1_000_000_000);
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
fn media_within_media_have_statistics_of_their_own() {
    let inner = with(four(&json!({})), &json!({ "kind": "interleaved" }));
    let path = json!({ "kind": "data-path", "read_bandwidth": "10 GB/s", "medium": inner });
    let memory = backend(
        "interleaved",
        &json!({ "media": [path], "copies": 2 }),
        1 << 20,
    );
    let list = statistics(memory.as_ref(), 1_000);
    let names: BTreeSet<&str> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), list.len());
    assert!(names.contains("channel1.channel1.reads"), "{names:?}");
}

#[test]
fn a_full_queue_holds_requests_back_and_time_spent_in_it_is_told() {
    let medium = json!({ "kind": "fixed", "latency": "10 ns", "queue": 1 });
    let params = json!({ "queue": 2, "media": [medium] });
    let mut memory = backend("interleaved", &params, 1 << 20);
    for id in 0..3 {
        assert!(memory.can_accept(SimTime(0), false));
        assert_eq!(memory.enqueue(SimTime(0), request(id, 0, 1, false)), None);
    }
    assert!(!memory.can_accept(SimTime(0), false), "two wait");
    assert!(memory.can_accept(SimTime(10_000), false), "one went on");
    let mut done = Vec::new();
    memory.advance(SimTime(30_000), &mut done);
    let ends: Vec<_> = done.iter().map(|one| (one.id, one.at.0)).collect();
    assert_eq!(ends, [(0, 10_000), (1, 20_000), (2, 30_000)]);
    assert_eq!(statistic(memory.as_ref(), 30_000, "channel0.wait_ns"), 30.0);
}

#[test]
fn wrong_parameters_name_the_field_and_what_is_allowed() {
    for (field, params) in json_rows(
        r#"
        media => {}
        media => {"media": []}
        media[1].kind => {"media": [{"kind": "fixed"}, {"kind": "tape"}]}
        media[0].kind => {"media": [{"kind": "interleaved", "media": [{"kind": "fixed"}]}]}
        media[0].banks => {"media": [{"kind": "fixed", "banks": 0}], "copies": 2}
        copies => {"copies": 0}
        copies => {"media": [{"kind": "fixed"}, {"kind": "fixed"}], "copies": 33}
        granularity => {"granularity": "96 B"}
        granularity => {"granularity": "32 B"}
        granularity => {"granularity": "2 GiB"}
        granularity => {"copies": 3}
        spread => {"copies": 3, "spread": "xor"}
        capacities => {"capacities": ["1 MiB"]}
        capacities => {"copies": 2, "spread": "ranges", "capacities": ["1 MiB"]}
        capacities => {"copies": 2, "spread": "ranges", "capacities": ["512 KiB", "256 KiB"]}
        capacities => {"copies": 2, "spread": "ranges", "capacities": ["1048448 B", "128 B"]}
        queue => {"queue": 0}
        media[0].channels => {"media": [{"kind": "dram", "grade": "HBM2-2000", "channels": 1}]}
        "#,
    ) {
        let capacity = match field {
            "media[0].channels" => 1 << 40,
            _ => 1 << 20,
        };
        let params = match field {
            "media" => params,
            _ => with(json!({ "media": [{ "kind": "fixed" }] }), &params),
        };
        let error = refusal("interleaved", &params, capacity);
        assert_eq!(error.field, field, "{params}: {}", error.message);
        assert!(!error.message.is_empty(), "{params}");
    }
}
