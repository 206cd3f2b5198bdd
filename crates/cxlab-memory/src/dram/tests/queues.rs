//! Queues: forwarding, coalescing, drain marks, caps, order, and independence of the times at which
//! the owner calls.

use super::legality::traffic;
use super::owner::{drive, memory, params, read, write};
use crate::MemoryBackend;
use crate::dram::{CommandKind, Dram, DramParams, NoObserver};
use crate::testing::{self, TimedRequest, request, statistics};
use cxlab_engine::units::{Bytes, SimTime};

fn quiet(rest: &str) -> DramParams {
    params(&format!(
        r#"{{"grade": "DDR4-3200AA", "channels": 1, "refresh": "none", {rest}}}"#
    ))
}

fn statistic(memory: &impl MemoryBackend, now: u64, name: &str) -> f64 {
    testing::statistic(memory, now, &format!("dram.{name}"))
}

const CLOCK: u64 = 625;

#[test]
fn a_read_of_a_queued_write_is_answered_from_the_queue() {
    let mut memory = memory(&quiet(r#""row_hit_cap": 4"#));
    // Reads keep the write queued. A read of another line is not served from the queue.
    let wishes = [read(0, 0), write(0, 4096), read(0, 4096), read(0, 8192)];
    let heard = drive(&mut memory, &wishes);
    assert_eq!(heard.done[2], CLOCK);
    assert!(heard.done[3] > 40 * CLOCK);
    assert_eq!(statistic(&memory, heard.done[3], "forwarded_reads"), 1.0);
    assert_eq!(statistic(&memory, heard.done[3], "reads"), 2.0);
}

#[test]
fn a_write_to_a_queued_write_is_absorbed() {
    let mut memory = memory(&quiet(r#""row_hit_cap": 4"#));
    let mut wishes = vec![write(0, 0); 10];
    wishes.push(read(0, 1 << 20));
    wishes.push(read(10_000_000, 0));
    let heard = drive(&mut memory, &wishes);
    assert!(heard.done[..10].iter().all(|at| *at == CLOCK));
    let end = heard.done[11];
    assert_eq!(statistic(&memory, end, "coalesced_writes"), 9.0);
    assert_eq!(statistic(&memory, end, "writes"), 1.0);
}

#[test]
fn writes_wait_for_the_high_mark_and_stop_at_the_low_one() {
    let mut memory = memory(&quiet(
        r#""write_queue": 20, "drain_above": 50, "drain_below": 20, "mapping": "RoBaRaCoBgCh""#,
    ));
    // Reads and writes of open rows, with a read always queued; there are ten reads for each write.
    let mut wishes = Vec::new();
    for index in 0..4_000u64 {
        wishes.push(read(index * 4 * CLOCK, index % 256 * 64));
        if index % 10 == 9 {
            wishes.push(write(index * 4 * CLOCK, (1 << 20) + index / 10 % 256 * 64));
        }
    }
    drive(&mut memory, &wishes);
    let commands = &memory.observer(0).0;
    let mut lengths = Vec::new();
    let mut run = 0;
    for command in commands {
        match command.kind {
            CommandKind::Write => run += 1,
            CommandKind::Read if run > 0 => {
                lengths.push(run);
                run = 0;
            }
            _ => {}
        }
    }
    // A drain starts with 11 queued writes and leaves 3; the opening of the row and arrivals change
    // this by one or two.
    lengths.pop();
    assert!(lengths.len() > 20, "{lengths:?}");
    let usual = lengths.iter().filter(|length| (7..=10).contains(*length));
    assert!(usual.count() * 10 >= lengths.len() * 9, "{lengths:?}");
}

#[test]
fn the_cap_ends_a_run_of_row_hits() {
    let hits_before_the_conflict = |cap: u32, after: u32, rtp: u32| {
        let mut memory = memory(&quiet(&format!(
            r#""row_hit_cap": {cap}, "yield_after": {after}, "timing": {{"rtp": {rtp}}}"#
        )));
        let other_row = 1 << 17;
        let mut wishes = vec![read(0, 0), read(0, other_row)];
        wishes.extend((1..24).map(|index| read(0, index * 64)));
        let heard = drive(&mut memory, &wishes);
        heard.done.iter().filter(|at| **at < heard.done[1]).count()
    };
    let none = 1_000_000;
    assert_eq!(hits_before_the_conflict(none, none, 12), 24);
    for cap in [1, 4, 16] {
        assert_eq!(hits_before_the_conflict(cap, none, 12), cap as usize);
    }
    // Without a cap an older request closes the row when tRAS and tRTP allow. With a tRTP of 12,
    // each hit comes before the tRTP of the last one has passed.
    assert_eq!(hits_before_the_conflict(none, 4, 12), 24);
    // With a tRTP of 6, four hits fit within tRAS.
    assert_eq!(hits_before_the_conflict(none, 0, 6), 4);
    assert_eq!(hits_before_the_conflict(none, 10, 6), 10);
}

#[test]
fn pages_close_as_the_policy_says() {
    let kinds = |rest: &str, wishes: &[TimedRequest]| -> Vec<CommandKind> {
        let mut memory = memory(&quiet(rest));
        drive(&mut memory, wishes);
        memory.advance(SimTime(50_000_000), &mut Vec::new());
        memory.observer(0).0.iter().map(|one| one.kind).collect()
    };
    use CommandKind::{Activate, Precharge, Read, ReadPrecharge};
    let two = [read(0, 0), read(0, 64), read(1_000_000, 128)];
    let open = kinds(r#""page": {"kind": "open"}"#, &two);
    assert_eq!(open, [Activate, Read, Read, Read]);
    let closed = kinds(r#""page": {"kind": "closed"}"#, &two);
    assert_eq!(
        closed,
        [Activate, Read, ReadPrecharge, Activate, ReadPrecharge]
    );
    let capped = kinds(r#""page": {"kind": "capped", "accesses": 2}"#, &two);
    assert_eq!(capped, [Activate, Read, ReadPrecharge, Activate, Read]);
    let idle = kinds(r#""page": {"kind": "capped", "idle": "200 ns"}"#, &two);
    let expected = [Activate, Read, Read, Precharge, Activate, Read, Precharge];
    assert_eq!(idle, expected);
}

#[test]
fn a_request_of_many_lines_is_done_with_its_last_burst() {
    let params = params(r#"{"grade": "DDR5-4800BN", "channels": 2, "refresh": "none"}"#);
    let mut memory = memory(&params);
    let page = (0, 4096, 64, false);
    let heard = drive(&mut memory, &[page, read(0, 4096), write(0, 1 << 20)]);
    let reads = (0..2).flat_map(|channel| &memory.observer(channel).0);
    let reads = reads.filter(|one| one.kind == CommandKind::Read);
    let last = reads.clone().map(|one| one.tick).max().unwrap();
    assert_eq!(reads.count(), 65);
    let t = *memory.timings();
    let clock = 416;
    // The single read arrives after the requests of the page, whose bursts go first.
    assert!(heard.done[0] <= heard.done[1]);
    assert_eq!(heard.done[1], (last + u64::from(t.cl + t.burst)) * clock);
}

#[test]
fn a_burst_longer_than_a_line_serves_all_its_lines() {
    let params = params(r#"{"grade": "LPDDR4-2400", "channels": 1, "refresh": "none"}"#);
    let mut memory = memory(&params);
    let pair = |dpa, lines| (0, dpa, lines, false);
    drive(&mut memory, &[pair(0, 2), pair(192, 2), pair(64, 1)]);
    let commands = &memory.observer(0).0;
    let columns: Vec<u32> = commands
        .iter()
        .filter(|one| one.kind == CommandKind::Read)
        .map(|one| one.column)
        .collect();
    assert_eq!(columns, [0, 1, 2, 0]);
    assert_eq!(memory.granule(), 128);
}

#[test]
fn a_full_rank_queue_stops_its_rank_and_no_other() {
    // Reads of consecutive rows of one bank, then a read of another bank of the rank and a read of
    // the other rank. A line is a column, 128 columns are a row; rank, group and bank follow.
    let (row, rank, group) = (1u64 << 18, 1u64 << 13, 1u64 << 14);
    let mut wishes: Vec<_> = (0..12).map(|index| read(0, index * row)).collect();
    wishes.extend([read(0, group), read(0, rank)]);
    let behind = |queue: &str| {
        let mut memory = memory(&quiet(&format!(r#""ranks": 2, "{queue}": 4"#)));
        let heard = drive(&mut memory, &wishes);
        let before = |number: usize| {
            let bank = &heard.done[..12];
            bank.iter().filter(|at| **at < heard.done[number]).count()
        };
        (before(12), before(13))
    };
    let (same, other) = behind("rank_queue");
    // Four reads of the bank are in the queue, and the rank's next place is free after eight.
    assert!((7..=9).contains(&same), "{same}");
    assert!(other <= 1, "{other}");
    let (same, other) = behind("bank_queue");
    assert!(same <= 1 && other <= 1, "{same} {other}");
}

#[test]
fn what_happens_does_not_depend_on_how_often_the_owner_looks() {
    for policy in [
        r#""ranks": 2"#,
        r#""ranks": 2, "rank_queue": 4"#,
        r#""bank_queue": 8, "page": {"kind": "capped", "idle": "100 ns"}"#,
    ] {
        let params = params(&format!(r#"{{"grade": "DDR4-2666V", {policy}}}"#));
        let capacity = params.resolve().unwrap().capacity.0;
        let wishes = traffic(11, 3_000, capacity);
        let mut seldom = memory(&params);
        let heard = drive(&mut seldom, &wishes);
        // The same arrivals with calls in between, and completions collected when they are due.
        let mut often = memory(&params);
        let mut done = Vec::new();
        let mut now = 0;
        for (index, (_, dpa, lines, write)) in wishes.iter().enumerate() {
            let at = heard.sent[index];
            while now + 1_700 < at && at - now < 3_000_000 {
                now += 1_700;
                often.can_accept(SimTime(now), now % 2 == 0);
                often.advance(SimTime(now), &mut done);
                let _ = often.next_event();
            }
            now = at;
            often.enqueue(SimTime(at), request(index as u32, *dpa, *lines, *write));
        }
        let end = heard.done.iter().max().unwrap();
        often.advance(SimTime(*end), &mut done);
        assert_eq!(done.len(), wishes.len());
        for one in &done {
            assert_eq!(heard.done[one.id as usize], one.at.0, "{policy}");
        }
    }
}

#[test]
fn an_observer_changes_nothing_and_idle_time_is_skipped() {
    for (grade, refresh) in [
        ("DDR4-3200AA", "all-bank"),
        ("DDR5-4800BN", "same-bank"),
        ("LPDDR5-6400", "per-bank"),
    ] {
        let text = format!(r#"{{"grade": "{grade}", "refresh": "{refresh}", "ranks": 2}}"#);
        let params = params(&text);
        let capacity = params.resolve().unwrap().capacity;
        // Groups of four requests, 3.3 ms apart.
        let wishes: Vec<_> = (0..40u64)
            .map(|index| {
                read(
                    index / 4 * 3_300_017_003,
                    index * 8_240 % capacity.0 / 64 * 64,
                )
            })
            .collect();
        let mut watched = memory(&params);
        let mut silent = Dram::new(&params, capacity, |_| NoObserver).unwrap();
        let (one, other) = (drive(&mut watched, &wishes), drive(&mut silent, &wishes));
        assert_eq!(one.done, other.done, "{grade}");
        let end = *one.done.last().unwrap();
        let of_both = (statistics(&watched, end), statistics(&silent, end));
        assert_eq!(of_both.0, of_both.1, "{grade}");
    }
}

#[test]
fn a_full_memory_refuses_and_wakes_its_owner_when_there_is_room() {
    let params = quiet(r#""read_queue": 2, "write_queue": 2"#);
    let mut memory = Dram::new(&params, Bytes(1 << 20), |_| NoObserver).unwrap();
    for id in 0..2 {
        assert!(memory.can_accept(SimTime(0), false));
        memory.enqueue(SimTime(0), request(id, u64::from(id) << 14, 1, false));
    }
    assert!(!memory.can_accept(SimTime(0), false));
    let at = memory.next_event().unwrap();
    memory.advance(at, &mut Vec::new());
    assert!(memory.can_accept(at, false), "at {at:?}");
    assert!(at.0 <= 2 * CLOCK);
}

/// An owner that calls at each clock is accepted no sooner than an owner that waits
/// for its wake-up.
#[test]
fn a_refused_owner_is_woken_as_soon_as_there_is_room() {
    for (seed, policy) in [
        r#""ranks": 2, "channels": 1"#,
        r#""bank_queue": 8, "channels": 1, "ranks": 2"#,
        r#""rank_queue": 8, "channels": 1, "ranks": 4"#,
        r#""page": {"kind": "closed"}, "channels": 1"#,
        r#""page": {"kind": "capped", "accesses": 2, "idle": "80 ns"}, "channels": 2"#,
        r#""read_queue": 3, "write_queue": 3, "channels": 1, "write_done": "written""#,
    ]
    .into_iter()
    .enumerate()
    {
        for grade in ["DDR4-2666V", "DDR5-4800BN", "LPDDR5-6400"] {
            let params = params(&format!(r#"{{"grade": "{grade}", {policy}}}"#));
            let resolved = params.resolve().unwrap();
            let wishes = traffic(100 + seed as u64, 1_500, resolved.capacity.0);
            let heard = drive(&mut memory(&params), &wishes);
            let config = resolved.config;
            let mut asked = memory(&params);
            let mut now = 0;
            for (index, (at, dpa, lines, write)) in wishes.into_iter().enumerate() {
                now = at.max(now);
                while !asked.can_accept(SimTime(now), write) {
                    now = config.time(config.tick(now) + 1);
                }
                assert_eq!(heard.sent[index], now, "{grade} {policy}: {index}");
                asked.enqueue(SimTime(now), request(index as u32, dpa, lines, write));
            }
        }
    }
}
