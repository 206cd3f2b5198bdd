//! Snoops of one requester by a device that responds as each test prescribes.

use cxlab_engine::units::Picos;
use cxlab_host::{CacheParams, SnoopedState};
use cxlab_protocol::coherence::fields::{MetaField, MetaValue};
use cxlab_protocol::coherence::message::{KeptCopy, Snoop};
use cxlab_protocol::coherence::requester::Line;
use cxlab_protocol::{LongStage, Opcode};
use cxlab_testkit::{at, read, write};

use crate::harness::{Ran, Reply, Script, TRIP, cache, params, respond, run, snoop};
use crate::scripted::{MESSAGE, answers, device};

/// Responses to snoops: opcode, line, number of lines.
fn answered(ran: &Ran) -> Vec<(Opcode, u64, u8)> {
    let seen = ran.seen().iter().map(|(_, message)| message);
    seen.filter(|message| !message.opcode.channel().carries_data())
        .filter(|message| message.opcode.name().starts_with("BiRsp"))
        .map(|message| (message.opcode, message.hpa.0 / 64, message.lines))
        .collect()
}

#[test]
fn dirty_data_go_first_and_the_answer_waits_for_their_completion() {
    let cases = [
        (Snoop::Inv, MetaValue::Invalid, KeptCopy::Invalid, Line::I),
        (Snoop::Data, MetaValue::Shared, KeptCopy::Shared, Line::S),
        (Snoop::Cur, MetaValue::Any, KeptCopy::Exclusive, Line::E),
    ];
    for (kind, value, kept, line) in cases {
        let (opcode, answer) = (kind.opcode(), kept.opcode());
        let script = device(Opcode::CmpE, 30_000, 0);
        let snoops = [(100, snoop(opcode, 1, 1))];
        let ran = run(params(4), cache(8, 2), &[write(1)], &snoops, script);
        ran.has_sent(&[(Opcode::MemRd, 1), (Opcode::MemWr, 1), (answer, 1)]);
        let (wrote, message) = ran.seen()[1];
        assert_eq!((message.meta.value(), message.data), (value, 64));
        assert_eq!(message.meta.field(), MetaField::Meta0State);
        // The snoop takes 2 ns, and outgoing messages pass the cache and the processing.
        assert_eq!(wrote, 100_000 + TRIP);
        assert_eq!(ran.seen()[2].0, wrote + 30_000 + TRIP);
        assert_eq!(ran.seen()[2].1.tag, 7_001, "the snoop's tag");
        assert_eq!(ran.line(1), line);
        let coherence = ran.host().coherence();
        assert_eq!(coherence.snoop_writebacks, 1);
        let modified = SnoopedState::Modified as usize;
        assert_eq!(coherence.snooped[kind as usize][modified], 1);
        assert_eq!(coherence.invalidated, u64::from(line == Line::I));
    }
}

#[test]
fn a_clean_line_answers_a_snoop_at_once() {
    let cases = [
        (Opcode::CmpE, Opcode::BiSnpInv, Opcode::BiRspI, Line::I),
        (Opcode::CmpE, Opcode::BiSnpData, Opcode::BiRspS, Line::S),
        (Opcode::CmpE, Opcode::BiSnpCur, Opcode::BiRspE, Line::E),
        (Opcode::CmpS, Opcode::BiSnpInv, Opcode::BiRspI, Line::I),
        (Opcode::CmpS, Opcode::BiSnpData, Opcode::BiRspS, Line::S),
    ];
    for (grant, opcode, answer, line) in cases {
        let snoops = [(100, snoop(opcode, 1, 1)), (200, snoop(opcode, 2, 1))];
        let script = device(grant, 10_000, 0);
        let ran = run(params(4), cache(8, 2), &[read(1)], &snoops, script);
        assert_eq!(ran.seen()[1].0, 100_000 + TRIP);
        assert_eq!(answered(&ran), [(answer, 1, 1), (Opcode::BiRspI, 2, 1)]);
        assert_eq!(ran.line(1), line);
        assert_eq!(ran.line(2), Line::I);
    }
}

#[test]
fn in_an_early_conflict_the_snoop_is_answered_before_the_request_completes() {
    let mut request = None;
    let script: Script = Box::new(move |message| match message.opcode {
        Opcode::MemRdData => {
            request = Some(*message);
            vec![Reply(0, snoop(Opcode::BiSnpInv, 1, 1))]
        }
        Opcode::BiRspI => {
            let mut request = request.unwrap();
            request.stages.add(LongStage::Coherence, 2 * TRIP);
            vec![
                Reply(0, respond(&request, Opcode::CmpE, 0)),
                Reply(0, respond(&request, Opcode::MemData, 5)),
            ]
        }
        _ => answers(message, Opcode::CmpE, 0, 0),
    });
    let ran = run(params(4), cache(8, 2), &[read(1)], &[], script);
    ran.has_sent(&[
        (Opcode::MemRdData, 1),
        (Opcode::BiConflict, 1),
        (Opcode::BiRspI, 1),
    ]);
    let tags: Vec<u32> = ran.seen().iter().map(|(_, message)| message.tag).collect();
    assert_eq!(tags[0], tags[1], "the conflict has the request's tag");
    assert_eq!(ran.latencies(), [3 * TRIP + MESSAGE]);
    assert_eq!(ran.line(1), Line::E);
    assert_eq!(ran.host().coherence().early_conflicts, 1);
}

#[test]
fn in_a_late_conflict_the_access_completes_before_the_snoop_is_answered() {
    let cases = [30_000, -1].map(|lag| [(read(1), lag), (write(1), lag)]);
    for (op, lag) in cases.concat() {
        // The completion comes just before the acknowledgement, and the data with the completion or later.
        let script: Script = Box::new(move |message| match message.opcode {
            Opcode::MemRdData | Opcode::MemRd => {
                let mut all = answers(message, Opcode::CmpE, TRIP, lag);
                all.push(Reply(0, snoop(Opcode::BiSnpInv, 1, 1)));
                all
            }
            Opcode::MemWr => vec![Reply(0, respond(message, Opcode::Cmp, 0))],
            _ => answers(message, Opcode::CmpE, 2 * MESSAGE, 0),
        });
        let ran = run(params(4), cache(8, 2), &[op], &[], script);
        let coherence = ran.host().coherence();
        assert_eq!((coherence.conflicts, coherence.early_conflicts), (1, 0));
        assert_eq!(ran.line(1), Line::I);
        let completed = ran.row(0).completed_ps;
        assert!(ran.time_of(Opcode::BiRspI) > completed);
        let wrote = ran.sent().contains(&(Opcode::MemWr, 1));
        assert_eq!(wrote, ran.row(0).write, "a store is not lost");
    }
}

#[test]
fn a_block_of_lines_that_answer_alike_gets_one_answer() {
    let opcode = Opcode::BiRspIBlk;
    for lines in [2, 3, 4] {
        // One line is exclusive, one modified, and the others are absent.
        let ops = [read(4), write(5)];
        let snoops = [(100, snoop(Opcode::BiSnpInvBlk, 4, lines))];
        let script = device(Opcode::CmpE, 10_000, 0);
        let ran = run(params(4), cache(8, 2), &ops, &snoops, script);
        assert_eq!(answered(&ran), [(opcode, 4, lines)]);
        let written = ran.time_of(Opcode::MemWr) + 10_000;
        assert_eq!(ran.time_of(opcode), written + TRIP);
        assert_eq!((ran.line(4), ran.line(5)), (Line::I, Line::I));
        let coherence = ran.host().coherence();
        assert_eq!((coherence.block_snoops, coherence.invalidated), (1, 2));
        let inv = coherence.snooped[Snoop::Inv as usize];
        assert_eq!(inv, [u64::from(lines) - 2, 0, 1, 1, 0]);
    }
}

#[test]
fn each_line_of_a_snoop_keeps_the_cache_from_accesses() {
    // The snoop is sent at 100 ns and arrives 2 ns later; the access could be issued at 103 ns.
    for (time, lines, issued) in [(0, 4, 103_000), (12_000, 1, 114_000), (12_000, 4, 150_000)] {
        let ops = [read(4), at(103, read(4))];
        let snoops = [(100, snoop(Opcode::BiSnpInvBlk, 4, lines))];
        let script = device(Opcode::CmpE, 10_000, 0);
        let cache = CacheParams {
            snoop_time: Picos(time),
            ..cache(8, 2)
        };
        let ran = run(params(4), cache, &ops, &snoops, script);
        assert_eq!(ran.row(1).issued_ps, issued, "{lines} lines");
        assert_eq!(ran.host().coherence().misses, 2);
    }
}

#[test]
fn a_block_of_lines_that_answer_differently_is_answered_line_by_line() {
    let snoops = [(100, snoop(Opcode::BiSnpDataBlk, 4, 2))];
    let script = device(Opcode::CmpE, 10_000, 0);
    let ran = run(params(4), cache(8, 2), &[write(5)], &snoops, script);
    let singly = [(Opcode::BiRspI, 4, 1), (Opcode::BiRspS, 5, 1)];
    assert_eq!(answered(&ran), singly);
}

#[test]
fn a_block_with_a_conflict_is_answered_line_by_line_as_soon_as_can_be() {
    // Lines 4 and 7 are cached, line 5 is requested when the snoop arrives, and line 6 is absent.
    let ops = [read(4), write(7), at(100, read(5))];
    let snoops = [(105, snoop(Opcode::BiSnpInvBlk, 4, 4))];
    let script = device(Opcode::CmpE, 40_000, 0);
    let ran = run(params(4), cache(8, 2), &ops, &snoops, script);
    let lines: Vec<u64> = answered(&ran).iter().map(|(_, line, _)| *line).collect();
    assert_eq!(lines[..2], [4, 6], "without anything under way: at once");
    assert_eq!(lines.len(), 4);
    assert!(answered(&ran).iter().all(|answer| answer.2 == 1));
    assert_eq!(ran.host().coherence().conflicts, 1);
}

#[test]
fn snoops_of_modified_lines_wait_for_write_backs_and_never_for_requests() {
    // 40 modified lines, all snooped. The requests after them get no response for a long time.
    let lines = 40;
    let mut ops: Vec<_> = (0..lines).map(write).collect();
    ops.extend((lines..lines + 8).map(|line| at(1_000, read(line))));
    let snoops: Vec<_> = (0..lines)
        .map(|line| (2_000, snoop(Opcode::BiSnpInv, line, 1)))
        .collect();
    let script: Script = Box::new(|message| match message.opcode {
        Opcode::MemRdData => answers(message, Opcode::CmpE, 100_000_000, 0),
        Opcode::MemWr => answers(message, Opcode::CmpE, 5_000_000, 0),
        _ => answers(message, Opcode::CmpE, 0, 0),
    });
    let mut cache = cache(64, 64);
    cache.mshrs = Some(8);
    let ran = run(params(64), cache, &ops, &snoops, script);
    assert_eq!(answered(&ran).len(), lines as usize);
    let coherence = ran.host().coherence();
    assert_eq!(coherence.snoops_delayed, 8);
    let seen = ran.seen().iter();
    let written = seen.filter(|(_, message)| message.opcode == Opcode::MemWr);
    let times: Vec<u64> = written.map(|(time, _)| *time).collect();
    assert_eq!(times.len(), lines as usize);
    assert!(times[31] < 3_000_000 && times[32] > 7_000_000);
    assert!(ran.time_of(Opcode::BiRspI) < 100_000_000);
}
