//! Snoops of several lines: blocks that an eviction clears, and snoops for requests that are joined.

use cxlab_cache::{VictimPolicy, victim};
use cxlab_engine::catalog;
use cxlab_engine::units::Picos;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, Snoop};
use cxlab_protocol::{Message, Opcode};
use serde_json::json;

use crate::harness::{MEDIUM, React, Setup, System, THERE, WAY, message};
use crate::scripted::{NS, Plan, at, filter_of, filtered, keep, obedient, run, silent, snoops};

fn block_length(params: serde_json::Value) -> Box<dyn VictimPolicy> {
    let entry = catalog::find(victim::CATALOG, "block-length").unwrap();
    (entry.build)(&params).unwrap()
}

/// Peer 0 reads `lines`, which fill the filter, and peer 1 then reads `other`.
fn blocks(
    lines: &[u64],
    other: u64,
    block: u8,
    aligned: bool,
    targets: u32,
    react: React,
) -> System {
    let setup = Setup {
        policy: block_length(json!({ "aligned": aligned })),
        targets,
        ..filter_of(lines.len() as u32)
    };
    let read = |ns, line| at(ns, M2s::MemRdData, line);
    let holder = (0..).zip(lines).map(|(ns, line)| read(ns * 100, *line));
    let peers = [
        (holder.collect(), react),
        (vec![read(900, other)], silent as React),
    ];
    run(filtered(setup, |filter| filter.block = block), &peers)
}

#[test]
fn one_snoop_clears_as_many_entries_as_a_block_may_have() {
    for (block, aligned, expected) in [
        (1, true, (Opcode::BiSnpInv, 3, 1)),
        (2, true, (Opcode::BiSnpInvBlk, 2, 2)),
        (3, false, (Opcode::BiSnpInvBlk, 1, 3)),
        (4, true, (Opcode::BiSnpInvBlk, 0, 4)),
        (4, false, (Opcode::BiSnpInvBlk, 0, 4)),
    ] {
        let ran = blocks(&[0, 1, 2, 3], 8, block, aligned, 1, obedient);
        assert_eq!(snoops(&ran), [expected], "{block} {aligned}");
        let stats = ran.device().coherence_stats();
        assert_eq!(stats.evictions, u64::from(expected.2));
        assert_eq!(stats.invalidated, stats.evictions);
        assert_eq!(stats.entries, 4 - u32::from(expected.2) + 1);
        assert_eq!(stats.block_snoops, u64::from(block > 1));
    }
}

#[test]
fn an_eager_filter_snoops_for_every_request_that_waits() {
    for (eager, snooped, evicted) in [(false, vec![2], 2), (true, vec![2, 0], 4)] {
        let mut setup = filtered(filter_of(4), |filter| filter.eager = eager);
        setup.policy = block_length(json!({ "max_lines": 2 }));
        let read = |ns, line| at(ns, M2s::MemRdData, line);
        let holder: Plan = (0..4).map(|line| read(100 * line, line)).collect();
        let other = |ns, line| (vec![read(ns, line)], silent as React);
        let peers = [
            (holder, obedient as React),
            other(900, 8),
            other(901, 10),
            other(2_000, 12),
        ];
        let ran = run(setup, &peers);
        let count = snooped.len();
        let expected = snooped
            .into_iter()
            .map(|first| (Opcode::BiSnpInvBlk, first, 2));
        assert_eq!(
            snoops(&ran)[..count],
            expected.collect::<Vec<_>>(),
            "{eager}"
        );
        let stats = ran.device().coherence_stats();
        // The last request finds an entry that was freed earlier, or causes the eviction
        // of the other block.
        assert_eq!(stats.entry_waits, if eager { 2 } else { 3 });
        assert_eq!(stats.evictions, if eager { evicted } else { evicted + 2 });
    }
}

#[test]
fn a_block_may_be_answered_line_by_line() {
    fn singly(snoop: &Message) -> Vec<Message> {
        if Snoop::from_opcode(snoop.opcode).is_none() {
            return vec![];
        }
        let one = |place| Message {
            tag: snoop.tag,
            ..message(M2s::BiRsp(KeptCopy::Invalid), snoop.hpa.0 / 64 + place)
        };
        [2, 0, 3, 1].map(one).to_vec()
    }
    let ran = blocks(&[0, 1, 2, 3], 8, 4, true, 1, singly);
    assert_eq!(snoops(&ran), [(Opcode::BiSnpInvBlk, 0, 4)]);
    let (at, _) = ran.seen(1)[0];
    // The first response frees an entry.
    assert_eq!(at, 900 * NS + 2 * (THERE + WAY) + MEDIUM);
    assert_eq!(ran.device().coherence_stats().entries, 1);
}

#[test]
fn a_block_lies_together_for_the_requester_too() {
    // The second of two targets has lines 4 to 7, 12 to 15 and so on.
    let ran = blocks(&[4, 5, 6, 7], 12, 4, true, 2, obedient);
    assert_eq!(snoops(&ran), [(Opcode::BiSnpInvBlk, 4, 4)]);
    let ran = blocks(&[7, 12], 15, 4, false, 2, obedient);
    assert_eq!(snoops(&ran), [(Opcode::BiSnpInv, 12, 1)]);
}

/// Peer 0 owns lines 0 to 3; peer 1 requests the lines `asked`, a nanosecond apart.
fn joined(join: Option<u64>, block: u8, asked: &[(M2s, u64)], react: React) -> System {
    let setup = filtered(Setup::default(), |filter| {
        (filter.join, filter.block) = (join.map(Picos), block);
    });
    let owner = (0..4).map(|line| at(10 * line, M2s::MemRdOwn, line));
    let other = (900..).zip(asked);
    let other = other.map(|(ns, (what, line))| at(ns, *what, *line));
    let peers = [(owner.collect(), react), (other.collect(), silent as React)];
    run(setup, &peers)
}

/// The snoops that peer 0 received, and when they left the device.
fn snooped_at(system: &System) -> Vec<(u64, Opcode, u64, u8)> {
    let seen = system.seen(0).iter();
    let snoops = seen.filter(|(_, message)| Snoop::from_opcode(message.opcode).is_some());
    let left = snoops.map(|(at, m)| (at - WAY, m.opcode, m.hpa.0 / 64, m.lines));
    left.collect()
}

#[test]
fn snoops_for_requests_to_neighbours_leave_as_one_block() {
    let keeps: [(M2s, React, Opcode, [u64; 3]); 3] = [
        (
            M2s::MemRdShared,
            |message| keep(message, KeptCopy::Shared),
            Opcode::BiSnpDataBlk,
            [0, 1, 0],
        ),
        (
            M2s::MemRdCur,
            |message| keep(message, KeptCopy::Exclusive),
            Opcode::BiSnpCurBlk,
            [0, 0, 1],
        ),
        (M2s::MemRdOwn, obedient, Opcode::BiSnpInvBlk, [1, 0, 0]),
    ];
    for (what, react, opcode, answers) in keeps {
        let asked = [0, 1, 2, 3].map(|line| (what, line));
        let ran = joined(Some(5 * NS), 4, &asked, react);
        // The block is complete with the fourth request.
        assert_eq!(snooped_at(&ran), [(903 * NS + THERE, opcode, 0, 4)]);
        let stats = ran.device().coherence_stats();
        assert_eq!(stats.snoops.iter().sum::<u64>(), 1);
        assert_eq!(stats.joined_snoops, 1);
        assert_eq!(stats.block_answers, answers);
        let alone = joined(None, 4, &asked, react).device().coherence_stats();
        assert_eq!(alone.snoops.iter().sum::<u64>(), 4);
        assert_eq!(alone.joined_snoops, 0);
        assert_eq!(alone.block_answers, [0; 3]);
    }
}

#[test]
fn a_snoop_waits_for_its_block_no_longer_than_it_may() {
    let (data, inv) = (M2s::MemRdShared, M2s::MemRdOwn);
    let shared: React = |message| match message.opcode {
        Opcode::BiSnpInv => obedient(message),
        _ => keep(message, KeptCopy::Shared),
    };
    let first = 900 * NS + THERE;
    let one = |at, line| (at, Opcode::BiSnpData, line, 1);
    // Three lines form a block and a single line.
    let three = joined(Some(5 * NS), 4, &[(data, 2), (data, 0), (data, 1)], shared);
    let due = first + 5 * NS;
    assert_eq!(
        snooped_at(&three),
        [(due, Opcode::BiSnpDataBlk, 0, 2), one(due + NS, 2)]
    );
    // Lines 1 and 2 are neighbours, but no aligned block.
    let apart = joined(Some(5 * NS), 4, &[(data, 1), (data, 2)], shared);
    assert_eq!(snooped_at(&apart), [one(due, 1), one(due + NS, 2)]);
    // Snoops of two kinds are not joined.
    let kinds = joined(Some(5 * NS), 4, &[(data, 0), (inv, 1)], shared);
    let inv = (due + NS, Opcode::BiSnpInv, 1, 1);
    assert_eq!(snooped_at(&kinds), [one(due, 0), inv]);
    // A snoop after the end of the wait finds no block.
    let brief = joined(Some(NS / 2), 4, &[(data, 0), (data, 1)], shared);
    let due = first + NS / 2;
    assert_eq!(snooped_at(&brief), [one(due, 0), one(due + NS, 1)]);
    // Blocks of two are complete with two lines.
    let two = [0, 1, 2, 3].map(|line| (data, line));
    let pairs = joined(Some(5 * NS), 2, &two, shared);
    let pair = |at, line| (at, Opcode::BiSnpDataBlk, line, 2);
    assert_eq!(
        snooped_at(&pairs),
        [pair(first + NS, 0), pair(first + 3 * NS, 2)]
    );
}
