//! Closed forms of both modes, and the detailed mode against measurements of Optane DIMMs.
//! `docs/explain/pmem.md` has the table.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::SimTime;
use serde_json::{Value, json};

use crate::MemoryBackend;
use crate::testing::{self, backend, json_rows, prompt_times, refusal, request, with};

const GIB: u64 = 1 << 30;

fn pmem(params: &Value) -> Box<dyn MemoryBackend> {
    backend("pmem", params, 256 * GIB)
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
    let mut done = Vec::new();
    let mut ready: Vec<u32> = (0..streams.len() as u32).collect();
    let (mut now, mut finished, mut total) = (0, 0, 0);
    let mut began = 0;
    while finished < count {
        for id in ready.drain(..) {
            assert!(backend.can_accept(SimTime(now), write));
            since[id as usize] = now;
            let request = request(id, streams[id as usize](), (bytes / 64) as u16, write);
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
    testing::statistic(backend, 0, name)
}

fn assert_near(what: &str, found: f64, published: f64, percent: f64) {
    let error = (found / published - 1.0) * 100.0;
    println!("{what}: {found:.2}, published {published}, {error:+.1} %");
    assert!(error.abs() <= percent, "{what}: {found} for {published}");
}

/// How long each of some requests (address, whether it writes) takes, which come a microsecond apart.
fn lone_times(backend: &mut dyn MemoryBackend, requests: &[(u64, bool)]) -> Vec<u64> {
    let at = |(number, (dpa, write)): (u64, &(u64, bool))| (number * 1_000_000, *dpa, 1, *write);
    let requests: Vec<_> = (0..).zip(requests).map(at).collect();
    let ends = prompt_times(backend, &requests);
    ends.iter()
        .zip(requests)
        .map(|(end, one)| end - one.0)
        .collect()
}

#[test]
fn a_simple_read_takes_150_ns_a_write_500_and_an_open_row_less() {
    let mut simple = pmem(&json!({ "mode": "simple" }));
    let requests = [
        (0, false),
        (64, false),
        (4096, true),
        (4160, false),
        (0, false),
    ];
    let after = lone_times(simple.as_mut(), &requests);
    assert_eq!(after, [150_000, 17_500, 500_000, 17_500, 150_000]);
}

#[test]
fn simple_writes_to_one_row_are_written_together_when_the_bank_is_busy() {
    let mut simple = pmem(&json!({ "mode": "simple", "banks": 1 }));
    let requests = [
        (0, 0, 1, true),
        (4, 256, 1, true),
        (8, 320, 1, true),
        (12, 512, 1, false),
    ];
    let ends = prompt_times(simple.as_mut(), &requests);
    assert_eq!(ends[0], 500_000);
    assert_eq!((ends[1], ends[2]), (1_000_000, 1_000_000));
    assert_eq!(ends[3], 1_150_000);
    let mut simple = pmem(&json!({ "mode": "simple", "banks": 4 }));
    let streams = (0..250).map(|seed| random(seed, GIB, 256)).collect();
    let found = run(simple.as_mut(), streams, 256, true, 40_000).gb_per_s;
    let expected = 4.0 * 256.0 / 500.0;
    assert_near("four banks of 256 B in 500 ns", found, expected, 2.0);
}

/// gem5's controller with one bank, 64 reads, and 8 writes; the marks are 4 and 6 writes.
fn controlled(rest: &Value) -> Box<dyn MemoryBackend> {
    let params = json!({
        "mode": "simple", "write_done": "queued", "banks": 1, "queue": 8,
        "drain_above": 75, "drain_below": 50,
    });
    pmem(&with(params, rest))
}

/// Time of an access besides its bank: a burst on the bus, 17.5 ns.
const BURST: u64 = 17_500;

#[test]
fn a_queued_write_is_done_at_once_and_waits_until_more_than_the_low_mark_do() {
    let writes: Vec<_> = (0..5)
        .map(|row| (row * 1_000, row * 256, 1, true))
        .collect();
    let mut few = controlled(&json!({}));
    let ends = prompt_times(few.as_mut(), &writes[..4]);
    assert_eq!(ends, [0, 1_000, 2_000, 3_000]);
    assert_eq!(statistic(few.as_ref(), "row_writes"), 0.0, "the low mark");
    assert_eq!(few.next_event(), None);
    // One more write starts a drain. All five go, because the queue is never 16 below its low mark.
    let mut more = controlled(&json!({}));
    prompt_times(more.as_mut(), &writes);
    assert_eq!(statistic(more.as_ref(), "row_writes"), 5.0);
    assert_eq!(statistic(more.as_ref(), "drains"), 1.0);
}

#[test]
fn reads_go_before_queued_writes_up_to_the_high_mark_and_are_answered_from_the_queue() {
    let mut memory = controlled(&json!({}));
    let requests = [
        (0, 0, 1, true),
        (0, 256, 1, true),
        (1_000, 512, 1, false),
        (1_000, 576, 1, false),
        (2_000, 256, 1, false),
    ];
    let ends = prompt_times(memory.as_mut(), &requests);
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
    let mut memory = controlled(&params);
    let read = |at, line| (at, line % 4 * 64, 1, false);
    let mut requests: Vec<_> = (0..20).map(|line| read(line, line)).collect();
    // All writes are in another bank. Reads come a little faster than the bus serves them, so that
    // some always wait.
    requests.extend((0..120).map(|row| (100, (16 * row + 1) * 256, 1, true)));
    requests.extend((0..3_000).map(|line| read(200_000 + line * 3_300, line)));
    prompt_times(memory.as_mut(), &requests);
    // A batch of 16 leaves 104, not more than the mark. When the reads end, writes go until the
    // queue is 16 below the low mark of 64.
    assert_eq!(statistic(memory.as_ref(), "drains"), 2.0);
    assert_eq!(statistic(memory.as_ref(), "row_writes"), 120.0 - 47.0);
}

#[test]
fn a_write_takes_its_bank_after_those_before_it_and_a_row_once_if_they_combine() {
    let row_writes = |combine: bool| {
        let mut memory = controlled(&json!({ "combine": combine }));
        // Four lines of each of two rows of one bank, and then a read of another row.
        let mut requests: Vec<_> = (0..8).map(|line| (0, line * 64, 1, true)).collect();
        requests.push((1_000_000, 4096, 1, false));
        let ends = prompt_times(memory.as_mut(), &requests);
        (statistic(memory.as_ref(), "row_writes"), ends[8])
    };
    // gem5: eight lines one after the other, so that the read waits for 4 us.
    let read = 2 * BURST + 150_000;
    assert_eq!(row_writes(false), (8.0, 8 * 500_000 + read));
    // The first line goes alone. The three after it wait for the bank together, as do those of
    // the second row.
    assert_eq!(row_writes(true), (3.0, 3 * 500_000 + read));
}

#[test]
fn queued_writes_of_banks_have_the_bandwidth_of_the_medium() {
    for (combine, expected) in [(true, 2.048), (false, 0.512)] {
        let params = json!({
            "mode": "simple", "banks": 4, "write_done": "queued", "combine": combine,
            "pending_writes": 256,
        });
        let mut queued = pmem(&params);
        let mut addresses = random(3, GIB, 256);
        let (mut now, mut done, count) = (0, Vec::new(), 20_000);
        for id in 0..count {
            while !queued.can_accept(SimTime(now), true) {
                now = queued.next_event().unwrap().0;
                queued.advance(SimTime(now), &mut done);
            }
            let request = request(id, addresses(), 4, true);
            assert_eq!(queued.enqueue(SimTime(now), request), None);
        }
        let rate = f64::from(count) * 256.0 / (now as f64 / 1e3);
        // The four lines of a row arrive together, and are written together or one after the other.
        assert_near("queued, four banks", rate, expected, 5.0);
    }
}

#[test]
fn an_idle_detailed_access_is_the_sum_of_its_parts() {
    let mut one = pmem(&json!({ "dimms": 1 }));
    let (hit, table, media) = (127_000 + 3_001, 31_500, 155_000);
    let rows = [
        ((0, false), hit + table + media, "everything is cold"),
        ((128, false), hit, "the granule is in the buffer"),
        ((256, false), hit + media, "the block's address is at hand"),
        ((8192, true), 90_000, "accepted by the write-pending queue"),
        ((8192, false), hit, "the line itself is in the buffer"),
        (
            (8192 + 64, false),
            hit + table + media,
            "its neighbour is not",
        ),
    ];
    let after = lone_times(one.as_mut(), &rows.map(|row| row.0));
    for ((_, expected, why), found) in rows.into_iter().zip(after) {
        assert_eq!(found, expected, "{why}");
    }
    assert_eq!(statistic(one.as_ref(), "media_reads"), 3.0);
}

#[test]
fn a_request_over_several_dimms_is_done_with_its_last_line() {
    let mut six = pmem(&json!({}));
    let mut lone = pmem(&json!({}));
    let whole = prompt_times(six.as_mut(), &[(0, 0, 1024, false)])[0];
    let parts: Vec<_> = (0..16).map(|block| (0, block * 4096, 64, false)).collect();
    let last = prompt_times(lone.as_mut(), &parts)
        .into_iter()
        .max()
        .unwrap();
    assert_eq!(whole, last);
}

#[test]
fn read_latencies_are_those_of_fast20_and_lens() {
    let lone = |region: u64, stream: Stream, count| {
        let mut one = pmem(&json!({ "dimms": 1 }));
        // Lines accessed before are warm, as far as they fit.
        let warm = (region / 64).min(1 << 20);
        let all = vec![sequential(0, 64)];
        run(one.as_mut(), all, 64, false, warm.max(2));
        run(one.as_mut(), vec![stream], 64, false, count).latency_ns
    };
    let found = lone(64, sequential(GIB, 64), 100_000);
    assert_near("sequential load", found, 169.4, 15.0);
    let found = lone(GIB, random(1, GIB, 64), 100_000);
    assert_near("random load of 1 GiB", found, 305.0, 15.0);
    let abstract_of_2019 = "random load, abstract of Izraelevitz 2019";
    assert_near(abstract_of_2019, found, 346.0, 15.0);
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
    let mut six = pmem(&json!({}));
    let found = run(six.as_mut(), vec![sequential(0, 64)], 64, true, 20_000).latency_ns;
    assert_near("sequential store", found, 90.4, 15.0);
}

#[test]
fn bandwidths_of_one_dimm_and_of_six_are_those_published() {
    let measured = |dimms: u64, threads: u64, bytes: u64, random_lines: bool, write: bool| {
        let mut backend = pmem(&json!({ "dimms": dimms }));
        let stream = |one| match random_lines {
            true => random(one, 16 * GIB, bytes),
            false => sequential(one * GIB, bytes),
        };
        let streams = (0..threads).map(stream).collect();
        run(backend.as_mut(), streams, bytes, write, 200_000).gb_per_s
    };
    // Sequential rows of 256 B: Izraelevitz et al. 2019. Random ones: FAST'20, published data of Fig. 5
    // with 4 and 1 threads.
    for (dimms, threads, bytes, random_lines, write, published) in [
        (1, 16, 256, false, false, 6.6),
        (1, 16, 256, false, true, 2.3),
        (6, 128, 256, false, false, 39.4),
        (6, 128, 256, false, true, 13.9),
        (1, 16, 64, true, false, 1.675),
        (1, 16, 128, true, false, 3.344),
        (1, 16, 256, true, false, 6.505),
        (1, 16, 64, true, true, 0.5547),
        (1, 16, 128, true, true, 1.098),
        (1, 16, 256, true, true, 2.207),
        (6, 128, 64, true, false, 9.67),
        (6, 128, 64, true, true, 3.166),
    ] {
        let found = measured(dimms, threads, bytes, random_lines, write);
        let what = format!("{dimms} DIMMs, {bytes} B, random {random_lines}, writes {write}");
        assert_near(&what, found, published, 15.0);
    }
}

#[test]
fn bandwidth_is_what_the_media_can_do() {
    let found = |accesses: u64, write| {
        let mut backend = pmem(&json!({ "dimms": 1, "media_accesses": accesses }));
        let streams = (0..64).map(|seed| random(seed, GIB, 256)).collect();
        run(backend.as_mut(), streams, 256, write, 100_000).gb_per_s
    };
    for accesses in [1, 2, 4, 8] {
        let each = accesses as f64 * 256.0;
        assert_near("reads", found(accesses, false), each / 155.0, 2.0);
        assert_near("writes", found(accesses, true), each / 455.0, 2.0);
    }
}

#[test]
fn write_amplification_is_that_of_fast20() {
    let amplification = |bytes: u64| {
        let mut one = pmem(&json!({ "dimms": 1 }));
        let writes = vec![random(3, 16 * GIB, bytes)];
        run(one.as_mut(), writes, bytes, true, 200_000);
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
        let mut one = pmem(&json!({ "dimms": 1 }));
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
        let mut backend = pmem(&params);
        let mut rng = StreamRng::new(5, "mix");
        let mut done = Vec::new();
        let (mut now, mut inside) = (0, 0);
        for id in 0..20_000 {
            while !backend.can_accept(SimTime(now), true) || (inside > 0 && rng.chance(0.4)) {
                let next = backend.next_event().expect("something is under way");
                now = next.0.max(now);
                backend.advance(SimTime(now), &mut done);
                inside -= done.drain(..).count();
            }
            let lines = match rng.chance(0.02) {
                true => 200,
                false => 1 + rng.below(6) as u16,
            };
            let request = request(id, rng.below(4096) * 64, lines, rng.chance(0.5));
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
    for (field, params) in json_rows(
        r#"
        read => {"read": "100 ns"}
        dimms => {"mode": "simple", "dimms": 2}
        dimms => {"dimms": 0}
        queue => {"queue": 0}
        bus => {"bus": "0 B/s"}
        banks => {"mode": "simple", "banks": 0}
        row_hit => {"mode": "simple", "row_hit": "200 ns"}
        combine => {"mode": "simple", "combine": false}
        read_queue => {"read_queue": 4}
        drain_below => {"mode": "simple", "write_done": "queued", "drain_above": 40}
        interleave => {"interleave": "3000 B"}
        wpq_lines => {"wpq_lines": 0}
        buffer_lines => {"buffer_lines": 1}
        ait_blocks => {"ait_blocks": 17}
        media_accesses => {"media_accesses": 0}
        media_read => {"media_read": "0 ps"}
        "#,
    ) {
        let error = refusal("pmem", &params, 256 * GIB);
        assert_eq!(error.field, field, "{params}");
        assert!(error.message.contains("allowed"), "{error}");
    }
    assert_eq!(refusal("pmem", &json!({}), 4096).field, "dimms");
}
