//! Closed forms of both modes, and the detailed mode against measurements of Optane DIMMs.
//! `docs/explain/pmem.md` has the table.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Dpa, SimTime};
use serde_json::{Value, json};

use super::ENTRY;
use crate::MediumSite;
use crate::backend::{Completion, MemoryBackend, MemoryRequest};

const GIB: u64 = 1 << 30;

fn pmem(params: Value) -> Box<dyn MemoryBackend> {
    let medium = (ENTRY.build)(&params).unwrap();
    medium.check(Bytes(256 * GIB)).unwrap();
    medium.backend(MediumSite::alone(Bytes(256 * GIB), 1))
}

/// The addresses of one requester, in order.
type Stream = Box<dyn FnMut() -> u64>;

fn sequential(start: u64, bytes: u64) -> Stream {
    let mut next = start;
    Box::new(move || {
        next += bytes;
        next - bytes
    })
}

fn random(seed: u64, region: u64, bytes: u64) -> Stream {
    let mut rng = StreamRng::new(seed, "addresses");
    Box::new(move || rng.below(region / bytes) * bytes)
}

struct Run {
    /// Mean latency of a request, in nanoseconds.
    latency_ns: f64,
    /// Throughput in bytes per nanosecond.
    gb_per_s: f64,
}

/// Runs with one request of `bytes` in flight for each stream until `count` are done in all. The
/// first half warms up.
fn run(
    backend: &mut dyn MemoryBackend,
    mut streams: Vec<Stream>,
    bytes: u64,
    write: bool,
    count: u64,
) -> Run {
    let mut since = vec![0; streams.len()];
    let mut done: Vec<Completion> = Vec::new();
    let mut ready: Vec<u32> = (0..streams.len() as u32).collect();
    let (mut now, mut finished, mut total) = (0, 0, 0);
    let mut began = 0;
    while finished < count {
        for id in ready.drain(..) {
            assert!(backend.can_accept(SimTime(now), write));
            since[id as usize] = now;
            let request = MemoryRequest {
                id,
                dpa: Dpa(streams[id as usize]()),
                lines: (bytes / 64) as u16,
                write,
            };
            assert_eq!(backend.enqueue(SimTime(now), request), None);
        }
        now = backend.next_event().unwrap().0;
        backend.advance(SimTime(now), &mut done);
        for one in done.drain(..) {
            assert_eq!(one.at, SimTime(now));
            finished += 1;
            if finished == count / 2 {
                backend.begin_measurement(SimTime(now));
                began = now;
            }
            if finished > count / 2 {
                total += now - since[one.id as usize];
            }
            ready.push(one.id);
        }
    }
    let measured = (count - count / 2) as f64;
    Run {
        latency_ns: total as f64 / measured / 1e3,
        gb_per_s: measured * bytes as f64 / ((now - began) as f64 / 1e3),
    }
}

fn statistic(backend: &dyn MemoryBackend, name: &str) -> f64 {
    let mut list = Vec::new();
    backend.statistics(SimTime(0), &mut list);
    list.iter().find(|one| one.name == name).unwrap().value
}

fn assert_near(what: &str, found: f64, published: f64, percent: f64) {
    let error = (found / published - 1.0) * 100.0;
    println!("{what}: {found:.2}, published {published}, {error:+.1} %");
    assert!(error.abs() <= percent, "{what}: {found} for {published}");
}

/// Completion times of single requests, each enqueued at its time.
fn times(backend: &mut dyn MemoryBackend, requests: &[(u64, u64, u16, bool)]) -> Vec<u64> {
    let mut done = Vec::new();
    for (id, (at, dpa, lines, write)) in requests.iter().enumerate() {
        while let Some(next) = backend.next_event()
            && next.0 <= *at
        {
            backend.advance(next, &mut done);
        }
        let request = MemoryRequest {
            id: id as u32,
            dpa: Dpa(*dpa),
            lines: *lines,
            write: *write,
        };
        assert!(backend.can_accept(SimTime(*at), *write));
        assert_eq!(backend.enqueue(SimTime(*at), request), None);
    }
    while let Some(next) = backend.next_event() {
        backend.advance(next, &mut done);
    }
    let mut times = vec![0; requests.len()];
    done.iter()
        .for_each(|one| times[one.id as usize] = one.at.0);
    times
}

#[test]
fn a_simple_read_takes_150_ns_a_write_500_and_an_open_row_less() {
    let mut simple = pmem(json!({ "mode": "simple" }));
    let us = 1_000_000;
    let ends = times(
        simple.as_mut(),
        &[
            (0, 0, 1, false),
            (us, 64, 1, false),
            (2 * us, 4096, 1, true),
            (3 * us, 4160, 1, false),
            (4 * us, 0, 1, false),
        ],
    );
    let after: Vec<u64> = ends
        .iter()
        .zip(0..)
        .map(|(end, at)| end - at * us)
        .collect();
    assert_eq!(after, [150_000, 17_500, 500_000, 17_500, 150_000]);
}

#[test]
fn simple_writes_to_one_row_are_written_together_when_the_bank_is_busy() {
    let mut simple = pmem(json!({ "mode": "simple", "banks": 1 }));
    let ends = times(
        simple.as_mut(),
        &[
            (0, 0, 1, true),
            (4, 256, 1, true),
            (8, 320, 1, true),
            (12, 512, 1, false),
        ],
    );
    assert_eq!(ends[0], 500_000);
    assert_eq!((ends[1], ends[2]), (1_000_000, 1_000_000));
    assert_eq!(ends[3], 1_150_000);
    let mut simple = pmem(json!({ "mode": "simple", "banks": 4 }));
    let streams = (0..250).map(|seed| random(seed, GIB, 256)).collect();
    let found = run(simple.as_mut(), streams, 256, true, 40_000).gb_per_s;
    assert_near(
        "four banks of 256 B in 500 ns",
        found,
        4.0 * 256.0 / 500.0,
        2.0,
    );
}

/// gem5's controller with one bank, 64 reads, and 8 writes; the marks are 4 and 6 writes.
fn controlled(rest: serde_json::Value) -> Box<dyn MemoryBackend> {
    let mut params = json!({
        "mode": "simple", "write_done": "queued", "banks": 1, "queue": 8,
        "drain_above": 75, "drain_below": 50,
    });
    for (key, value) in rest.as_object().unwrap() {
        params[key] = value.clone();
    }
    pmem(params)
}

/// Time of an access besides its bank: a burst on the bus, 17.5 ns.
const BURST: u64 = 17_500;

#[test]
fn a_queued_write_is_done_at_once_and_waits_until_more_than_the_low_mark_do() {
    let mut few = controlled(json!({}));
    let writes: Vec<_> = (0..4)
        .map(|row| (row * 1_000, row * 256, 1, true))
        .collect();
    assert_eq!(times(few.as_mut(), &writes), [0, 1_000, 2_000, 3_000]);
    assert_eq!(statistic(few.as_ref(), "row_writes"), 0.0, "the low mark");
    assert_eq!(few.next_event(), None);
    // One more write starts a drain. All five go, because the queue is never 16 below its low mark.
    let mut more = controlled(json!({}));
    let writes: Vec<_> = (0..5)
        .map(|row| (row * 1_000, row * 256, 1, true))
        .collect();
    times(more.as_mut(), &writes);
    assert_eq!(statistic(more.as_ref(), "row_writes"), 5.0);
    assert_eq!(statistic(more.as_ref(), "drains"), 1.0);
}

#[test]
fn reads_go_before_queued_writes_up_to_the_high_mark_and_are_answered_from_the_queue() {
    let mut memory = controlled(json!({}));
    let ends = times(
        memory.as_mut(),
        &[
            (0, 0, 1, true),
            (0, 256, 1, true),
            (1_000, 512, 1, false),
            (1_000, 576, 1, false),
            (2_000, 256, 1, false),
        ],
    );
    // The bank is free, as no write was drained. The second line of the row only needs the bus.
    let read = 1_000 + 150_000 + BURST;
    assert_eq!(ends[2..4], [read, read + 3_334]);
    assert_eq!(ends[4], 2_000, "served from the queue");
    assert_eq!(statistic(memory.as_ref(), "row_writes"), 0.0);
    assert_eq!(statistic(memory.as_ref(), "forwarded_reads"), 1.0);
}

#[test]
fn a_drain_under_reads_is_a_batch_of_sixteen() {
    // 120 writes wait, more than the high mark of 108, under a stream of reads of an open row.
    let params = json!({ "banks": 16, "queue": 128, "drain_above": 85, "combine": false });
    let mut memory = controlled(params);
    let mut requests: Vec<_> = (0..20)
        .map(|line| (line, line % 4 * 64, 1, false))
        .collect();
    // All writes are in another bank. Reads come a little faster than the bus serves them, so that
    // some always wait.
    requests.extend((0..120).map(|row| (100, (16 * row + 1) * 256, 1, true)));
    requests.extend((0..3_000).map(|line| (200_000 + line * 3_300, line % 4 * 64, 1, false)));
    times(memory.as_mut(), &requests);
    // A batch of 16 leaves 104, not more than the mark. When the reads end, writes go until the
    // queue is 16 below the low mark of 64.
    assert_eq!(statistic(memory.as_ref(), "drains"), 2.0);
    assert_eq!(statistic(memory.as_ref(), "row_writes"), 120.0 - 47.0);
}

#[test]
fn a_write_takes_its_bank_after_those_before_it_and_a_row_once_if_they_combine() {
    let row_writes = |combine: bool| {
        let mut memory = controlled(json!({ "combine": combine }));
        // Four lines of each of two rows of one bank, and then a read of another row.
        let mut requests: Vec<_> = (0..8).map(|line| (0, line * 64, 1, true)).collect();
        requests.push((1_000_000, 4096, 1, false));
        let ends = times(memory.as_mut(), &requests);
        (statistic(memory.as_ref(), "row_writes"), ends[8])
    };
    // gem5: eight lines one after the other, so that the read waits for 4 us.
    let bus = BURST;
    assert_eq!(
        row_writes(false),
        (8.0, bus + 8 * 500_000 + 150_000 + BURST)
    );
    // The first line goes alone. The three after it wait for the bank together, as do those of
    // the second row.
    assert_eq!(row_writes(true), (3.0, bus + 3 * 500_000 + 150_000 + BURST));
}

#[test]
fn queued_writes_of_banks_have_the_bandwidth_of_the_medium() {
    for (combine, expected) in [(true, 2.048), (false, 0.512)] {
        let params = json!({
            "mode": "simple", "banks": 4, "write_done": "queued", "combine": combine,
            "pending_writes": 256,
        });
        let mut queued = pmem(params);
        let mut addresses = random(3, GIB, 256);
        let (mut now, mut done, count) = (0, Vec::new(), 20_000);
        for id in 0..count {
            while !queued.can_accept(SimTime(now), true) {
                now = queued.next_event().unwrap().0;
                queued.advance(SimTime(now), &mut done);
            }
            let request = MemoryRequest {
                id,
                dpa: Dpa(addresses()),
                lines: 4,
                write: true,
            };
            assert_eq!(queued.enqueue(SimTime(now), request), None);
        }
        let rate = f64::from(count) * 256.0 / (now as f64 / 1e3);
        // The four lines of a row arrive together, and are written together or one after the other.
        assert_near("queued, four banks", rate, expected, 5.0);
    }
}

#[test]
fn an_idle_detailed_access_is_the_sum_of_its_parts() {
    let mut one = pmem(json!({ "dimms": 1 }));
    let us = 1_000_000;
    let ends = times(
        one.as_mut(),
        &[
            (0, 0, 1, false),
            (us, 128, 1, false),
            (2 * us, 256, 1, false),
            (3 * us, 8192, 1, true),
            (4 * us, 8192, 1, false),
            (5 * us, 8192 + 64, 1, false),
        ],
    );
    let after: Vec<u64> = ends
        .iter()
        .zip(0..)
        .map(|(end, at)| end - at * us)
        .collect();
    let (interface, line, table, media) = (127_000, 3_001, 31_500, 155_000);
    assert_eq!(
        after[0],
        interface + line + table + media,
        "everything is cold"
    );
    assert_eq!(after[1], interface + line, "the granule is in the buffer");
    assert_eq!(
        after[2],
        interface + line + media,
        "the block's address is at hand"
    );
    assert_eq!(after[3], 90_000, "accepted by the write-pending queue");
    assert_eq!(
        after[4],
        interface + line,
        "the line itself is in the buffer"
    );
    assert_eq!(
        after[5],
        interface + line + table + media,
        "its neighbour is not"
    );
    assert_eq!(statistic(one.as_ref(), "media_reads"), 3.0);
}

#[test]
fn a_request_over_several_dimms_is_done_with_its_last_line() {
    let mut six = pmem(json!({}));
    let mut lone = pmem(json!({}));
    let whole = times(six.as_mut(), &[(0, 0, 1024, false)])[0];
    let parts: Vec<_> = (0..16).map(|block| (0, block * 4096, 64, false)).collect();
    let last = times(lone.as_mut(), &parts).into_iter().max().unwrap();
    assert_eq!(whole, last);
}

#[test]
fn read_latencies_are_those_of_fast20_and_lens() {
    let lone = |region: u64, stream: Stream, count| {
        let mut one = pmem(json!({ "dimms": 1 }));
        // Lines accessed before are warm, as far as they fit.
        let warm = (region / 64).min(1 << 20);
        run(
            one.as_mut(),
            vec![sequential(0, 64)],
            64,
            false,
            warm.max(2),
        );
        run(one.as_mut(), vec![stream], 64, false, count).latency_ns
    };
    let found = lone(64, sequential(GIB, 64), 100_000);
    assert_near("sequential load", found, 169.4, 15.0);
    let found = lone(GIB, random(1, GIB, 64), 100_000);
    assert_near("random load of 1 GiB", found, 305.0, 15.0);
    assert_near(
        "random load, abstract of Izraelevitz 2019",
        found,
        346.0,
        15.0,
    );
    let found = lone(8192, random(1, 8192, 64), 100_000);
    assert_near("load that hits the buffer", found, 264.0 / 2.2, 15.0);
    // Chains of lines: 256 B granules in random order, so that one line in four is
    // its granule's first.
    let chain = |region: u64| -> Stream {
        let mut granules = random(1, region, 256);
        let (mut at, mut line) = (0, 4);
        Box::new(move || {
            if line == 4 {
                (at, line) = (granules(), 0);
            }
            line += 1;
            at + (line - 1) * 64
        })
    };
    let found = lone(8 << 20, chain(8 << 20), 100_000);
    assert_near("chain through 8 MiB", found, 371.8 / 2.2, 15.0);
    let found = lone(256 << 20, chain(256 << 20), 100_000);
    assert_near("chain through 256 MiB", found, 437.4 / 2.2, 15.0);
}

#[test]
fn write_latency_is_that_of_the_write_pending_queue() {
    let mut six = pmem(json!({}));
    let found = run(six.as_mut(), vec![sequential(0, 64)], 64, true, 20_000).latency_ns;
    assert_near("sequential store", found, 90.4, 15.0);
}

#[test]
fn bandwidths_of_one_dimm_and_of_six_are_those_published() {
    let found = |dimms: u64, bytes: u64, write: bool, threads: u64| {
        let mut backend = pmem(json!({ "dimms": dimms }));
        let streams = (0..threads)
            .map(|seed| random(seed, 16 * GIB, bytes))
            .collect();
        run(backend.as_mut(), streams, bytes, write, 200_000).gb_per_s
    };
    let streams = |dimms: u64, write: bool, threads: u64| {
        let mut backend = pmem(json!({ "dimms": dimms }));
        let streams = (0..threads).map(|one| sequential(one * GIB, 256)).collect();
        run(backend.as_mut(), streams, 256, write, 200_000).gb_per_s
    };
    let rows = [
        // Izraelevitz et al. 2019.
        ("one DIMM, sequential reads", streams(1, false, 16), 6.6),
        ("one DIMM, sequential writes", streams(1, true, 16), 2.3),
        ("six DIMMs, sequential reads", streams(6, false, 128), 39.4),
        ("six DIMMs, sequential writes", streams(6, true, 128), 13.9),
        // FAST'20, published data of Fig. 5: 4 and 1 threads, random.
        (
            "one DIMM, random 64 B reads",
            found(1, 64, false, 16),
            1.675,
        ),
        (
            "one DIMM, random 128 B reads",
            found(1, 128, false, 16),
            3.344,
        ),
        (
            "one DIMM, random 256 B reads",
            found(1, 256, false, 16),
            6.505,
        ),
        (
            "one DIMM, random 64 B writes",
            found(1, 64, true, 16),
            0.5547,
        ),
        (
            "one DIMM, random 128 B writes",
            found(1, 128, true, 16),
            1.098,
        ),
        (
            "one DIMM, random 256 B writes",
            found(1, 256, true, 16),
            2.207,
        ),
        (
            "six DIMMs, random 64 B reads",
            found(6, 64, false, 128),
            9.67,
        ),
        (
            "six DIMMs, random 64 B writes",
            found(6, 64, true, 128),
            3.166,
        ),
    ];
    for (what, found, published) in rows {
        assert_near(what, found, published, 15.0);
    }
}

#[test]
fn bandwidth_is_what_the_media_can_do() {
    let found = |params: Value, write| {
        let mut backend = pmem(params);
        let streams = (0..64).map(|seed| random(seed, GIB, 256)).collect();
        run(backend.as_mut(), streams, 256, write, 100_000).gb_per_s
    };
    let params = |accesses: u64| json!({ "dimms": 1, "media_accesses": accesses });
    for accesses in [1, 2, 4, 8] {
        let each = accesses as f64 * 256.0;
        assert_near("reads", found(params(accesses), false), each / 155.0, 2.0);
        assert_near("writes", found(params(accesses), true), each / 455.0, 2.0);
    }
}

#[test]
fn write_amplification_is_that_of_fast20() {
    let amplification = |bytes: u64| {
        let mut one = pmem(json!({ "dimms": 1 }));
        run(
            one.as_mut(),
            vec![random(3, 16 * GIB, bytes)],
            bytes,
            true,
            200_000,
        );
        statistic(one.as_ref(), "write_amplification")
    };
    // Effective write ratios of the sweep's data: 0.245 and 0.98 for one thread.
    assert_near("random 64 B", amplification(64), 1.0 / 0.2455, 15.0);
    assert_near("random 256 B", amplification(256), 1.0 / 0.98, 15.0);
}

/// FAST'20, Fig. 10: halves of granules are written in a region again and again, first all first
/// halves, then all second halves. They meet in the buffer if the region fits. Otherwise a granule
/// was evicted before its next half arrives with a probability m = 1 - exp(-N m / 64) (N granules,
/// random choice). Two consecutive halves make one write of a granule unless it was evicted in
/// between, so there are 1 / (2 - m) writes for each half.
#[test]
fn the_buffer_is_found_as_in_fast20() {
    for (region, published) in [
        (8192, 1.036),
        (16384, 1.036),
        (20480, 1.359),
        (24576, 1.608),
        (32768, 1.820),
        (40960, 1.918),
        (65536, 2.043),
        (1 << 20, 2.075),
    ] {
        let mut one = pmem(json!({ "dimms": 1 }));
        let granules = region / 256;
        let mut at = 0;
        let halves: Stream = Box::new(move || {
            let (round, granule) = (at / granules, at % granules);
            at += 1;
            granule * 256 + (round % 2) * 128
        });
        run(one.as_mut(), vec![halves], 128, true, granules * 400);
        let found = statistic(one.as_ref(), "write_amplification");
        let mut gone = 1.0;
        for _ in 0..200 {
            gone = 1.0 - exp(-(granules as f64) * gone / 64.0);
        }
        assert_near("formula", found, 2.0 / (2.0 - gone), 3.0);
        assert_near(&format!("region of {region} B"), found, published, 15.0);
    }
}

/// The exponential function, accurate down to x of a few tens below 0.
fn exp(x: f64) -> f64 {
    let half = (1..60).fold((1.0, 1.0), |(sum, term), n| {
        let term = term * (-x / 64.0) / f64::from(n);
        (sum + term, term)
    });
    half.0.powi(-64)
}

#[test]
fn mixed_requests_of_all_sizes_are_all_done_and_the_medium_always_knows_what_comes_next() {
    for params in [
        json!({}),
        json!({ "dimms": 1, "buffer_lines": 2, "wpq_lines": 1, "media_accesses": 1 }),
        json!({ "dimms": 2, "ait_blocks": 16, "interleave": "256 B" }),
        json!({ "mode": "simple" }),
    ] {
        let mut backend = pmem(params.clone());
        let mut rng = StreamRng::new(5, "mix");
        let mut done = Vec::new();
        let (mut now, mut inside) = (0, 0);
        for id in 0..20_000 {
            while !backend.can_accept(SimTime(now), true) || (inside > 0 && rng.chance(0.4)) {
                now = backend
                    .next_event()
                    .expect("something is under way")
                    .0
                    .max(now);
                backend.advance(SimTime(now), &mut done);
                inside -= done.drain(..).count();
            }
            let lines = if rng.chance(0.02) {
                200
            } else {
                1 + rng.below(6) as u16
            };
            let request = MemoryRequest {
                id,
                dpa: Dpa(rng.below(4096) * 64),
                lines,
                write: rng.chance(0.5),
            };
            backend.enqueue(SimTime(now), request);
            inside += 1;
        }
        while inside > 0 {
            let next = backend.next_event().expect("something is under way");
            assert!(next.0 >= now, "{params}");
            now = next.0;
            backend.advance(next, &mut done);
            inside -= done.drain(..).count();
        }
        assert_eq!(backend.next_event().filter(|next| next.0 <= now), None);
    }
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    for (field, params) in [
        ("read", json!({ "read": "100 ns" })),
        ("dimms", json!({ "mode": "simple", "dimms": 2 })),
        ("dimms", json!({ "dimms": 0 })),
        ("queue", json!({ "queue": 0 })),
        ("bus", json!({ "bus": "0 B/s" })),
        ("banks", json!({ "mode": "simple", "banks": 0 })),
        ("row_hit", json!({ "mode": "simple", "row_hit": "200 ns" })),
        ("combine", json!({ "mode": "simple", "combine": false })),
        ("read_queue", json!({ "read_queue": 4 })),
        (
            "drain_below",
            json!({ "mode": "simple", "write_done": "queued", "drain_above": 40 }),
        ),
        ("interleave", json!({ "interleave": "3000 B" })),
        ("wpq_lines", json!({ "wpq_lines": 0 })),
        ("buffer_lines", json!({ "buffer_lines": 1 })),
        ("ait_blocks", json!({ "ait_blocks": 17 })),
        ("media_accesses", json!({ "media_accesses": 0 })),
        ("media_read", json!({ "media_read": "0 ps" })),
    ] {
        let error = (ENTRY.build)(&params).err().unwrap();
        assert_eq!(error.field, field);
        assert!(error.message.contains("allowed"), "{error}");
    }
    let medium = (ENTRY.build)(&json!({})).unwrap();
    assert_eq!(medium.check(Bytes(4096)).unwrap_err().field, "dimms");
}
