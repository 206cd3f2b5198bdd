//! One requester against a device that responds as each test prescribes.

use cxlab_engine::units::{BytesPerSec, Picos};
use cxlab_host::{QUEUES, RequestAgent, RequesterParams, STAGE_NAMES, StallReason, ThrottleParams};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::KeptCopy;
use cxlab_protocol::coherence::requester::Line;
use cxlab_protocol::{DevLoad, LongStage, MemMeta, Message, Opcode};
use cxlab_testkit::{at, read, write};
use cxlab_workload::MemOp;

use crate::harness::{
    CACHE, HDM_H, PROCESS, Ran, Reply, Script, TRIP, cache, params, respond, run, snoop,
};

/// Time of a message on the wire: a second response at the same time waits this long.
pub const MESSAGE: u64 = 1_000;

/// A device that grants everything after `delay`, reads with `grant` and the value 5. The data come `lag`
/// after the completion, or before it if negative.
pub fn device(grant: Opcode, delay: u64, lag: i64) -> Script {
    Box::new(move |message| answers(message, grant, delay, lag))
}

pub fn answers(message: &Message, grant: Opcode, delay: u64, lag: i64) -> Vec<Reply> {
    let reply = |after, opcode, data| Reply(after, respond(message, opcode, data));
    let early = delay.saturating_add_signed(lag);
    let answers_read = |grant| vec![reply(delay, grant, 0), reply(early, Opcode::MemData, 5)];
    match message.opcode {
        Opcode::MemRdData | Opcode::MemRd if message.hpa.0 >= 64 * HDM_H => {
            vec![reply(delay, Opcode::MemData, 5)]
        }
        Opcode::MemRdData => answers_read(grant),
        Opcode::MemRd => answers_read(Opcode::CmpE),
        Opcode::MemInv => vec![reply(delay, Opcode::CmpE, 0)],
        Opcode::MemWr | Opcode::MemClnEvct => vec![reply(delay, Opcode::Cmp, 0)],
        Opcode::BiConflict => vec![reply(delay, Opcode::BiConflictAck, 0)],
        other if KeptCopy::from_opcode(other).is_some() => vec![],
        other => panic!("{other:?} was sent"),
    }
}

pub fn stage(ran: &Ran, id: u64, name: &str) -> u64 {
    let place = STAGE_NAMES.iter().position(|stage| *stage == name).unwrap();
    ran.row(id).stages[place]
}

/// Sum of the waits of an access for entries and wires.
pub fn waits(ran: &Ran, id: u64) -> u64 {
    let stages = ran.row(id).stages;
    QUEUES.iter().map(|stage| stages[*stage]).sum()
}

#[test]
fn a_miss_takes_the_way_and_the_device_and_a_hit_the_access_time() {
    // Completion and data are 1 ns apart on the wire if they are sent at once.
    for (lag, last) in [(0, 40_000 + MESSAGE), (-9_000, 40_000), (9_000, 49_000)] {
        let ops = [
            read(1),
            at(200, read(1)),
            at(300, write(1)),
            at(400, read(1)),
        ];
        let script = device(Opcode::CmpE, 40_000, lag);
        let ran = run(params(4), cache(8, 2), &ops, &[], script);
        assert_eq!(ran.latencies(), [TRIP + last, CACHE, CACHE, CACHE]);
        ran.has_sent(&[(Opcode::MemRdData, 1)]);
        assert_eq!(ran.line(1), Line::M);
        assert_eq!(stage(&ran, 0, "process"), PROCESS);
        assert_eq!(stage(&ran, 0, "cache"), CACHE);
        assert_eq!(stage(&ran, 0, "link"), 4_000);
        assert_eq!(ran.row(0).device, 0);
        assert_eq!((ran.row(1).device, ran.row(2).device), (u16::MAX, u16::MAX));
        let values = ran.observed.iter().map(|seen| (seen.write, seen.value));
        let expected = [(false, 5), (false, 5), (true, 64), (false, 64)];
        assert_eq!(values.collect::<Vec<_>>(), expected);
        let coherence = ran.host().coherence();
        assert_eq!((coherence.misses, coherence.hits), (1, 3));
        assert_eq!(ran.host().stats().cache_hits, 3);
    }
}

#[test]
fn a_store_that_misses_asks_to_own_the_line() {
    for lag in [0, -5_000, 5_000] {
        let script = device(Opcode::CmpE, 20_000, lag);
        let ran = run(params(4), cache(8, 2), &[write(3)], &[], script);
        let (_, message) = ran.seen()[0];
        assert_eq!(message.opcode, Opcode::MemRd);
        assert_eq!(message.meta.value(), MetaValue::Any);
        assert_eq!(ran.line(3), Line::M);
    }
}

#[test]
fn a_store_to_a_shared_line_waits_for_ownership_alone() {
    let ops = [read(1), at(200, write(1))];
    let script = device(Opcode::CmpS, 40_000, 0);
    let ran = run(params(4), cache(8, 2), &ops, &[], script);
    ran.has_sent(&[(Opcode::MemRdData, 1), (Opcode::MemInv, 1)]);
    assert_eq!(ran.latencies()[1], TRIP + 40_000);
    assert_eq!(ran.line(1), Line::M);
    let coherence = ran.host().coherence();
    assert_eq!((coherence.upgrades, coherence.upgrades_lost), (1, 0));
}

#[test]
fn an_upgrade_that_loses_its_copy_reads_and_its_stages_cover_both_trips() {
    // The snoop arrives first; the handshake then shows that the upgrade is still outstanding.
    let mut upgrade = None;
    let script: Script = Box::new(move |message| match message.opcode {
        Opcode::MemInv => {
            upgrade = Some(*message);
            vec![Reply(0, snoop(Opcode::BiSnpInv, 1, 1))]
        }
        Opcode::BiRspI => {
            let mut grant = respond(&upgrade.unwrap(), Opcode::CmpE, 0);
            // From the arrival of the upgrade: snoop, conflict, acknowledgement and response.
            let spent = 3 * (TRIP - 4_000) - PROCESS - CACHE + 8_000;
            let before = grant.stages.of(LongStage::Coherence);
            grant.stages.add(LongStage::Coherence, spent - before);
            vec![Reply(0, grant)]
        }
        _ => answers(message, Opcode::CmpS, 0, -1),
    });
    let ops = [read(1), at(200, write(1))];
    let ran = run(params(4), cache(8, 2), &ops, &[], script);
    ran.has_sent(&[
        (Opcode::MemRdData, 1),
        (Opcode::MemInv, 1),
        (Opcode::BiConflict, 1),
        (Opcode::BiRspI, 1),
        (Opcode::MemRd, 1),
    ]);
    assert_eq!(stage(&ran, 1, "process"), 2 * PROCESS);
    assert_eq!(stage(&ran, 1, "cache"), 2 * CACHE);
    assert_eq!(ran.latencies()[1], 4 * TRIP + MESSAGE);
    assert_eq!(ran.line(1), Line::M);
    let coherence = ran.host().coherence();
    assert_eq!((coherence.upgrades, coherence.upgrades_lost), (1, 1));
    assert_eq!((coherence.conflicts, coherence.early_conflicts), (1, 1));
    assert_eq!(coherence.invalidated, 1);
}

/// Line 1 is cached, then line 2 needs its way while a snoop arrives for line 1. Checks the messages
/// after the first.
fn eviction_crossing_a_snoop(first: MemOp, expected: &[(Opcode, u64)]) -> Ran {
    let script: Script = Box::new(|message| match message.opcode {
        Opcode::MemWr | Opcode::MemClnEvct => vec![
            Reply(0, snoop(Opcode::BiSnpInv, 1, 1)),
            Reply(50_000, respond(message, Opcode::Cmp, 0)),
        ],
        _ => answers(message, Opcode::CmpE, 10_000, 0),
    });
    let ops = [first, at(100, read(2))];
    let ran = run(params(4), cache(1, 1), &ops, &[], script);
    assert_eq!(ran.sent()[1..], *expected);
    ran
}

#[test]
fn a_snoop_that_crosses_a_write_back_waits_for_its_completion() {
    let expected = [
        (Opcode::MemRdData, 2),
        (Opcode::MemWr, 1),
        (Opcode::BiRspI, 1),
    ];
    let ran = eviction_crossing_a_snoop(write(1), &expected);
    let answer = ran.time_of(Opcode::BiRspI);
    assert_eq!(answer, ran.time_of(Opcode::MemWr) + 50_000 + TRIP);
    assert_eq!((ran.line(1), ran.line(2)), (Line::I, Line::E));
    assert_eq!(ran.host().coherence().dirty_evictions, 1);
    assert_eq!(ran.host().stats().writebacks, 1);
}

#[test]
fn a_snoop_that_crosses_a_clean_eviction_is_a_conflict() {
    let expected = [
        (Opcode::MemRdData, 2),
        (Opcode::MemClnEvct, 1),
        (Opcode::BiConflict, 1),
        (Opcode::BiRspI, 1),
    ];
    let ran = eviction_crossing_a_snoop(read(1), &expected);
    assert_eq!(ran.host().coherence().clean_evictions, 1);
    assert_eq!(ran.host().coherence().early_conflicts, 1);
}

#[test]
fn clean_lines_can_leave_silently() {
    let mut cache = cache(1, 1);
    cache.clean_evict = false;
    let ops = [
        read(1),
        at(100, read(2)),
        at(200, write(2)),
        at(300, read(1)),
    ];
    let ran = run(params(4), cache, &ops, &[], device(Opcode::CmpE, 0, 0));
    ran.has_sent(&[
        (Opcode::MemRdData, 1),
        (Opcode::MemRdData, 2),
        (Opcode::MemRdData, 1),
        (Opcode::MemWr, 2),
    ]);
    let coherence = ran.host().coherence();
    assert_eq!(coherence.silent_evictions, 1);
    assert_eq!(coherence.dirty_evictions, 1);
}

#[test]
fn accesses_to_a_line_under_way_wait_for_it_and_complete_in_order() {
    let ops = [read(1), at(1, read(1)), at(2, write(1)), at(3, read(1))];
    let last = TRIP + 40_000 + MESSAGE;
    let script = device(Opcode::CmpE, 40_000, 0);
    let ran = run(params(4), cache(8, 2), &ops, &[], script);
    ran.has_sent(&[(Opcode::MemRdData, 1)]);
    assert_eq!(
        ran.latencies(),
        [last, last - 1_000, last - 2_000, last - 3_000]
    );
    let ids: Vec<u64> = ran.rows.iter().map(|row| row.id).collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    assert_eq!(waits(&ran, 2), last - 2_000);
    assert_eq!(ran.host().coherence().merged, 3);

    // A store that finds the line shared sends the upgrade then, and its earlier wait is queueing.
    let script = device(Opcode::CmpS, 40_000, 0);
    let ran = run(params(4), cache(8, 2), &ops, &[], script);
    ran.has_sent(&[(Opcode::MemRdData, 1), (Opcode::MemInv, 1)]);
    let upgraded = last + TRIP + 40_000;
    assert_eq!(
        ran.latencies(),
        [last, last - 1_000, upgraded - 2_000, upgraded - 3_000]
    );
    assert_eq!(waits(&ran, 2), last - 2_000);
    assert_eq!(stage(&ran, 2, "process"), PROCESS);
    assert_eq!(waits(&ran, 3), upgraded - 3_000);
}

#[test]
fn a_miss_without_a_free_mshr_or_way_waits_in_front_of_the_cache() {
    let last = TRIP + 40_000 + MESSAGE;
    let both = |cache, stall, stalls| {
        let script = device(Opcode::CmpE, 40_000, 0);
        let ran = run(params(8), cache, &[read(1), read(2), read(1)], &[], script);
        assert_eq!(ran.latencies()[..2], [last, 2 * last]);
        assert_eq!(waits(&ran, 1), last + MESSAGE);
        assert_eq!(ran.host().coherence().stalls[stall as usize], stalls);
        ran
    };
    let mut one = cache(8, 8);
    one.mshrs = Some(1);
    let ran = both(one, StallReason::Mshrs, 1);
    // The third operation is issued when the second continues.
    assert_eq!(ran.row(2).issued_ps, last);
    assert_eq!(ran.latencies()[2], CACHE);
    // With one way, the third operation waits as well, for the second.
    both(cache(1, 1), StallReason::Set, 2);
}

#[test]
fn so_many_accesses_wait_for_a_line_and_the_next_in_front_of_the_cache() {
    let ops = [read(1); 30];
    let script = device(Opcode::CmpE, 40_000, 0);
    let ran = run(params(64), cache(8, 2), &ops, &[], script);
    let last = TRIP + 40_000 + MESSAGE;
    let mut latencies = vec![last; 20];
    latencies.push(last + CACHE);
    latencies.resize(30, CACHE);
    assert_eq!(ran.latencies(), latencies);
    assert_eq!(waits(&ran, 20), last);
    let coherence = ran.host().coherence();
    assert_eq!(coherence.stalls[StallReason::Targets as usize], 1);
    assert_eq!((coherence.merged, coherence.hits), (19, 10));
}

#[test]
fn memory_that_the_host_keeps_coherent_needs_neither_completions_nor_announcements() {
    let ops = [
        read(HDM_H),
        at(100, write(HDM_H)),
        at(200, read(HDM_H + 1)),
        at(300, read(HDM_H + 2)),
        at(400, write(HDM_H)),
    ];
    let script = device(Opcode::CmpE, 20_000, 0);
    let ran = run(params(4), cache(1, 1), &ops, &[], script);
    ran.has_sent(&[
        (Opcode::MemRd, HDM_H),
        (Opcode::MemRd, HDM_H + 1),
        (Opcode::MemWr, HDM_H),
        (Opcode::MemRd, HDM_H + 2),
        (Opcode::MemRd, HDM_H),
    ]);
    let mut seen = ran.seen().iter();
    assert!(seen.all(|(_, message)| message.meta == MemMeta::NONE));
    let miss = TRIP + 20_000;
    assert_eq!(ran.latencies(), [miss, CACHE, miss, miss, miss]);
    assert_eq!(ran.line(HDM_H), Line::M);
    assert_eq!(ran.row(0).device, 1);
    assert_eq!(ran.host().coherence().silent_evictions, 2);
}

#[test]
fn an_access_to_a_line_that_a_snoop_has_written_back_waits_and_goes_on() {
    // The line is snooped to shared while a load and a store wait: the load hits, and the store upgrades.
    let script = device(Opcode::CmpE, 30_000, 0);
    let ops = [write(1), at(110, read(1)), at(111, write(1))];
    let snoops = [(100, snoop(Opcode::BiSnpData, 1, 1))];
    let ran = run(params(4), cache(8, 2), &ops, &snoops, script);
    ran.has_sent(&[
        (Opcode::MemRd, 1),
        (Opcode::MemWr, 1),
        (Opcode::BiRspS, 1),
        (Opcode::MemInv, 1),
    ]);
    let settled = ran.time_of(Opcode::MemWr) + 30_000 + 2_000;
    assert_eq!(ran.row(1).completed_ps, settled);
    assert_eq!(ran.line(1), Line::M);
}

/// Line 3 takes the way of line 1, which is accessed again during its write-back. `answer` gives the
/// device's messages when the write arrives.
fn wanted_again(answer: fn(&Message) -> Vec<Reply>) -> Ran {
    let script: Script = Box::new(move |message| match message.opcode {
        Opcode::MemWr => answer(message),
        _ => answers(message, Opcode::CmpE, 0, 0),
    });
    let ops = [
        write(1),
        at(40, read(2)),
        at(60, read(5)),
        at(100, read(3)),
        at(101, read(1)),
        at(102, read(4)),
        at(103, write(1)),
    ];
    let ran = run(params(8), cache(3, 3), &ops, &[], script);
    assert_eq!(ran.line(1), Line::M);
    assert_eq!(ran.host().coherence().after_evictions, 1);
    ran
}

#[test]
fn a_line_on_its_way_out_is_asked_for_when_it_has_left() {
    let ran = wanted_again(|message| answers(message, Opcode::CmpE, 30_000, 0));
    let left = ran.time_of(Opcode::MemWr) + 30_000 + 2_000;
    let mut seen = ran.seen().iter();
    let again =
        seen.rfind(|(_, message)| (message.opcode, message.hpa.0) == (Opcode::MemRdData, 64));
    assert_eq!(again.unwrap().0, left + TRIP - 2_000);
    assert_eq!(ran.row(4).completed_ps, left + TRIP + MESSAGE);
    assert_eq!(waits(&ran, 4), left - 101_000 + MESSAGE);
    assert_eq!(ran.row(6).completed_ps, ran.row(4).completed_ps);
    assert!(ran.row(5).completed_ps < left, "others go on meanwhile");
}

#[test]
fn a_snoop_of_a_line_that_leaves_and_is_wanted_again_is_about_the_copy_that_leaves() {
    let ran = wanted_again(|message| {
        vec![
            Reply(0, snoop(Opcode::BiSnpInv, 1, 1)),
            Reply(30_000, respond(message, Opcode::Cmp, 0)),
        ]
    });
    let answer = ran.time_of(Opcode::BiRspI);
    assert_eq!(answer, ran.time_of(Opcode::MemWr) + 30_000 + TRIP);
    assert_eq!(ran.host().coherence().conflicts, 0);
}

#[test]
fn a_store_that_waits_for_a_snooped_line_leaves_the_entry_to_other_snoops() {
    // 32 lines, one for each snoop entry, are snooped and accessed again. The upgrades that follow take
    // long, and snoops of four more modified lines do not wait for them.
    let mut ops: Vec<_> = (0..36).map(write).collect();
    ops.extend((0..32).map(|line| at(3_000, write(line))));
    let shared = (0..32).map(|line| (2_000, snoop(Opcode::BiSnpData, line, 1)));
    let taken = (32..36).map(|line| (20_000, snoop(Opcode::BiSnpInv, line, 1)));
    let snoops: Vec<_> = shared.chain(taken).collect();
    let script: Script = Box::new(|message| match message.opcode {
        Opcode::MemInv => answers(message, Opcode::CmpE, 100_000_000, 0),
        Opcode::MemWr => answers(message, Opcode::CmpE, 5_000_000, 0),
        _ => answers(message, Opcode::CmpE, 0, 0),
    });
    let ran = run(params(64), cache(64, 64), &ops, &snoops, script);
    let coherence = ran.host().coherence();
    assert_eq!((coherence.upgrades, coherence.snoops_delayed), (32, 0));
    let last = ran.seen().iter().map(|(time, _)| *time).max();
    assert!(
        last < Some(30_000_000),
        "snoops were answered before upgrades"
    );
}

/// Ten reads under optimal load at 128 MB/s, one each 500 ns, and ten under severe overload, which halves
/// the rate a single time.
#[test]
fn overload_halves_the_rate_and_a_read_of_two_responses_counts_once() {
    for first in [0, HDM_H] {
        let ops: Vec<_> = (first..first + 20).map(read).collect();
        let script = move |message: &Message| {
            let load = match message.hpa.0 / 64 - first {
                0..10 => DevLoad::Optimal,
                _ => DevLoad::Severe,
            };
            let mut all = answers(message, Opcode::CmpE, 100_000, 0);
            for Reply(_, answer) in &mut all {
                answer.lines = load.lines();
            }
            all
        };
        let throttle = ThrottleParams {
            period: Some(Picos(1_000_000_000)),
            step: Some(BytesPerSec(128_000_000)),
            least: Some(BytesPerSec(1_000_000)),
            severe_cut: 128,
            ..ThrottleParams::default()
        };
        let params = RequesterParams {
            throttle: Some(throttle),
            ..params(1)
        };
        let ran = run(params, cache(64, 4), &ops, &[], Box::new(script));
        let stats = ran.host().throttle().unwrap();
        assert_eq!((stats.faster, stats.slower), (0, 1));
        assert_eq!(stats.rate, Some(BytesPerSec(64_000_000)));
        let issued: Vec<u64> = ran.seen().iter().map(|(at, _)| *at).collect();
        assert_eq!(issued[10] - issued[0], 10 * 500_000);
        assert_eq!(issued[19] - issued[18], 1_000_000);
    }
}
