//! Single scenarios, checked to the picosecond.

use cxlab_device::{
    CoherentConfig, CoherentDevice, CoherentError, DeviceParams, QosParams, SnoopFilterParams,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, Picos, SimTime};
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, victim};
use cxlab_protocol::coherence::dcoh::{Filter, Peer, Peers};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{Kept, M2s, Snoop};
use cxlab_protocol::{DecoderTable, DevLoad, LongStage, Message, Opcode, PortId};

use crate::harness::{
    DEVICE, LOOKUP, MEDIUM, Node, PROCESS, React, Script, Setup, System, THERE, WAY, answer,
    message, peer_id, system,
};

pub const NS: u64 = 1_000;
/// The second message of a response leaves after the first.
const SECOND: u64 = 1_000;

pub type Plan = Vec<(u64, Message)>;

pub fn run(setup: Setup, peers: &[(Plan, React)]) -> System {
    let mut system = system(setup, peers.len(), |number, link| {
        let (plan, react) = &peers[number];
        Node::Script(Script::new(number, link, plan, *react))
    });
    system.run(SimTime::NEVER);
    assert_eq!(system.device().in_flight(), 0, "nothing is left inside");
    let stats = system.device().stats();
    assert_eq!(stats.accepted, stats.answered);
    system
}

pub fn filter_of(lines: u32) -> Setup {
    let setup = Setup::default();
    let filter = SnoopFilterParams {
        lines,
        ..setup.filter
    };
    Setup { filter, ..setup }
}

pub fn silent(_: &Message) -> Vec<Message> {
    vec![]
}

/// Responds to a snoop with `kept`.
pub fn keep(message: &Message, kept: Kept) -> Vec<Message> {
    match Snoop::from_opcode(message.opcode) {
        Some(_) => vec![answer(message, kept)],
        None => vec![],
    }
}

pub fn obedient(message: &Message) -> Vec<Message> {
    keep(message, Kept::Invalid)
}

/// Responds to a snoop of a modified line: `MemWr`, and `BIRspI` when the write is complete. The
/// snoop's tag is 0, because it is the first.
fn dirty(message: &Message) -> Vec<Message> {
    let line = message.hpa.0 / 64;
    match message.opcode {
        Opcode::BiSnpInv if line == 0 => {
            let write = crate::harness::message(M2s::MemWr(MetaValue::Invalid), line);
            vec![Message { data: 77, ..write }]
        }
        Opcode::Cmp => vec![Message {
            tag: 0,
            ..crate::harness::message(M2s::BiRsp(Kept::Invalid), line)
        }],
        _ => obedient(message),
    }
}

/// The snoops that peer 0 received: opcode, first line, number of lines.
pub fn snoops(system: &System) -> Vec<(Opcode, u64, u8)> {
    let seen = system.seen(0).iter().map(|(_, message)| message);
    let snoops = seen.filter(|message| Snoop::from_opcode(message.opcode).is_some());
    snoops.map(|m| (m.opcode, m.hpa.0 / 64, m.lines)).collect()
}

fn shared(peers: &[usize]) -> Option<Filter> {
    let all = peers.iter().fold(Peers::NONE, |all, number| {
        all.with(Peer::new(*number).unwrap())
    });
    Some(Filter::Shared(all))
}

fn owned(peer: usize) -> Option<Filter> {
    Some(Filter::Any(Peer::new(peer).unwrap()))
}

#[test]
fn an_idle_read_takes_two_ways_two_pipelines_and_the_medium() {
    let plan = vec![(5 * NS, message(M2s::MemRdData, 3))];
    let ran = run(Setup::default(), &[(plan, silent)]);
    let done = 5 * NS + THERE + MEDIUM + WAY;
    assert_eq!(
        ran.chart(),
        [
            (done, 0, Opcode::CmpE, 3, 1),
            (done + SECOND, 0, Opcode::MemData, 3, 1)
        ]
    );
    for (place, (_, response)) in ran.seen(0).iter().enumerate() {
        let stages = response.stages;
        assert_eq!(
            (stages.of(LongStage::Media), stages.of(LongStage::Coherence)),
            (MEDIUM, 0)
        );
        assert_eq!(u64::from(stages.device), PROCESS + LOOKUP);
        assert_eq!(u64::from(stages.link), 2 * WAY);
        assert_eq!(stages.queue(), SECOND * place as u64);
        assert_eq!((response.tag, response.destination), (3, peer_id(0)));
    }
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.reads_data, stats.filter_misses, stats.entries),
        (1, 1, 1)
    );
    assert_eq!(ran.device().holders(PortId(0), Hpa(3 * 64)), owned(0));
}

#[test]
fn a_line_that_two_share_is_owned_when_the_other_has_given_it_up() {
    let reader = vec![(100 * NS, message(M2s::MemRdShared, 0))];
    let writer = vec![
        (0, message(M2s::MemRdShared, 0)),
        (200 * NS, message(M2s::MemInvOwn, 0)),
    ];
    let ran = run(Setup::default(), &[(writer, silent), (reader, obedient)]);
    let (first, second) = (THERE + MEDIUM + WAY, 100 * NS + THERE + MEDIUM + WAY);
    let snooped = 200 * NS + THERE + WAY;
    assert_eq!(
        ran.chart(),
        [
            (first, 0, Opcode::CmpS, 0, 1),
            (first + SECOND, 0, Opcode::MemData, 0, 1),
            (second, 1, Opcode::CmpS, 0, 1),
            (second + SECOND, 1, Opcode::MemData, 0, 1),
            (snooped, 1, Opcode::BiSnpInv, 0, 1),
            (snooped + THERE + WAY, 0, Opcode::CmpE, 0, 1),
        ]
    );
    let (_, granted) = ran.seen(0)[2];
    assert_eq!(
        granted.stages.of(LongStage::Coherence),
        WAY + THERE,
        "the snoop"
    );
    assert_eq!(granted.stages.of(LongStage::Media), 0);
    assert_eq!(ran.device().holders(PortId(0), Hpa(0)), owned(0));
    let stats = ran.device().coherence_stats();
    assert_eq!((stats.filter_hits, stats.filter_misses), (2, 1));
    assert_eq!((stats.snoops, stats.invalidated), ([1, 0, 0], 1));
    assert_eq!(
        (stats.snoop_waits, stats.snoop_wait),
        (1, Picos(WAY + THERE))
    );
}

#[test]
fn a_dirty_victim_is_written_before_its_entry_is_free() {
    let owner = vec![(0, message(M2s::MemRdOwn, 0))];
    let reader = vec![
        (100 * NS, message(M2s::MemRdData, 1)),
        (900 * NS, message(M2s::MemRdData, 0)),
    ];
    let ran = run(filter_of(1), &[(owner, dirty), (reader, obedient)]);
    let snooped = 100 * NS + THERE + WAY;
    let written = snooped + THERE + WAY;
    let read = written + THERE + MEDIUM + WAY;
    let chart = ran.chart();
    assert_eq!(
        chart[2..6],
        [
            (snooped, 0, Opcode::BiSnpInv, 0, 1),
            (written, 0, Opcode::Cmp, 0, 1),
            (read, 1, Opcode::CmpE, 1, 1),
            (read + SECOND, 1, Opcode::MemData, 1, 1),
        ]
    );
    let (_, granted) = ran.seen(1)[0];
    assert_eq!(
        granted.stages.of(LongStage::Coherence),
        2 * (WAY + THERE),
        "snoop and write"
    );
    let (_, reread) = ran.seen(1).last().unwrap();
    assert_eq!((reread.opcode, reread.data), (Opcode::MemData, 77));
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.writebacks, stats.evictions, stats.entry_waits),
        (1, 2, 2)
    );
    assert_eq!(stats.entry_wait, Picos(3 * (WAY + THERE)));
    assert_eq!((stats.entries, stats.peak_entries), (1, 1));
    assert_eq!(ran.device().value(PortId(0), Hpa(0)), Some(77));
    assert_eq!(ran.device().stats().writes, 1);
}

/// A holder that has an outstanding request for the snooped line, and no copy of it.
fn conflicting(received: &Message) -> Vec<Message> {
    match received.opcode {
        Opcode::BiSnpInv => vec![message(M2s::BiConflict, 0)],
        Opcode::BiConflictAck => vec![message(M2s::BiRsp(Kept::Invalid), 0)],
        _ => vec![],
    }
}

#[test]
fn a_conflict_is_acknowledged_while_the_request_waits_for_its_line() {
    let upgrade = |share, own| {
        vec![
            (share, message(M2s::MemRdShared, 0)),
            (own, message(M2s::MemInvOwn, 0)),
        ]
    };
    let peers = [
        (upgrade(0, 200 * NS), obedient as React),
        (upgrade(100 * NS, 201 * NS), conflicting),
    ];
    let ran = run(Setup::default(), &peers);
    let snooped = 200 * NS + THERE + WAY;
    let acknowledged = snooped + THERE + WAY;
    let first = acknowledged + THERE;
    let second = first + WAY + SECOND + THERE;
    assert_eq!(
        ran.chart()[4..],
        [
            (snooped, 1, Opcode::BiSnpInv, 0, 1),
            (acknowledged, 1, Opcode::BiConflictAck, 0, 1),
            (first + WAY, 0, Opcode::CmpE, 0, 1),
            (first + WAY + SECOND, 0, Opcode::BiSnpInv, 0, 1),
            (second + WAY, 1, Opcode::CmpE, 0, 1),
        ]
    );
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.conflicts, stats.line_waits, stats.snoop_waits),
        (1, 1, 2)
    );
    let arrived = 201 * NS + THERE;
    assert_eq!(stats.line_wait, Picos(first - arrived));
    assert_eq!(ran.device().holders(PortId(0), Hpa(0)), owned(1));
}

#[test]
fn an_entry_is_free_when_all_holders_have_given_the_line_up() {
    let read = |at| vec![(at, message(M2s::MemRdShared, 0))];
    let mut slow = read(100 * NS);
    let late = Message {
        tag: 1,
        ..message(M2s::BiRsp(Kept::Invalid), 0)
    };
    slow.push((500 * NS, late));
    let other = vec![(200 * NS, message(M2s::MemRdData, 1))];
    let peers = [
        (read(0), obedient as React),
        (slow, silent),
        (other, silent),
    ];
    let ran = run(filter_of(1), &peers);
    let snooped = 200 * NS + THERE + WAY;
    let read = 500 * NS + THERE + MEDIUM + WAY;
    assert_eq!(
        ran.chart()[4..],
        [
            (snooped, 0, Opcode::BiSnpInv, 0, 1),
            (snooped, 1, Opcode::BiSnpInv, 0, 1),
            (read, 2, Opcode::CmpE, 1, 1),
            (read + SECOND, 2, Opcode::MemData, 1, 1),
        ]
    );
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.snoops[0], stats.evictions, stats.invalidated),
        (2, 1, 2)
    );
    assert_eq!(
        ran.device().holders(PortId(0), Hpa(0)),
        Some(Filter::Invalid)
    );
}

#[test]
fn requests_wait_for_a_busy_line_in_the_order_of_their_arrival() {
    fn share(message: &Message) -> Vec<Message> {
        keep(message, Kept::Shared)
    }
    let read = |at| (vec![(at, message(M2s::MemRdShared, 0))], silent as React);
    let owner = (vec![(0, message(M2s::MemRdOwn, 0))], share as React);
    let peers = [owner, read(200 * NS), read(202 * NS), read(201 * NS)];
    let ran = run(Setup::default(), &peers);
    let first = 200 * NS + THERE + WAY + THERE + MEDIUM;
    for (place, peer) in [1, 3, 2].into_iter().enumerate() {
        let (at, granted) = ran.seen(peer)[0];
        let place = place as u64;
        assert_eq!(
            (at, granted.opcode),
            (first + place * MEDIUM + WAY, Opcode::CmpS)
        );
        let waited = first + place * MEDIUM - MEDIUM - (granted.issued_ps + THERE);
        assert_eq!(
            (
                granted.stages.of(LongStage::Coherence),
                granted.stages.of(LongStage::Media)
            ),
            (waited, MEDIUM)
        );
    }
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.line_waits, stats.snoop_waits, stats.snoops),
        (2, 1, [0, 1, 0])
    );
    assert_eq!(
        ran.device().holders(PortId(0), Hpa(0)),
        shared(&[0, 1, 2, 3])
    );
}

#[test]
fn writes_and_snoop_answers_are_taken_while_no_context_is_free() {
    let owner = vec![(0, message(M2s::MemRdOwn, 0))];
    let reader = vec![(100 * NS, message(M2s::MemRdData, 0))];
    let other = vec![(101 * NS, message(M2s::MemRdCur, 5))];
    fn downgrade(received: &Message) -> Vec<Message> {
        match received.opcode {
            Opcode::BiSnpData => vec![message(M2s::MemWr(MetaValue::Shared), 0)],
            Opcode::Cmp => vec![message(M2s::BiRsp(Kept::Shared), 0)],
            _ => vec![],
        }
    }
    let setup = Setup {
        params: DeviceParams {
            process_time: Picos(PROCESS),
            contexts: 1,
            ..DeviceParams::default()
        },
        credits: 1,
        ..Setup::default()
    };
    let peers = [
        (owner, downgrade as React),
        (reader, silent),
        (other, silent),
    ];
    let ran = run(setup, &peers);
    let read = 100 * NS + THERE + 2 * (WAY + THERE) + MEDIUM;
    assert_eq!(ran.seen(1)[0].0, read + WAY);
    // The context is free when the data are given to the link, after the completion.
    let began = read + SECOND;
    let (at, current) = ran.seen(2)[0];
    assert_eq!((at, current.opcode), (began + MEDIUM + WAY, Opcode::Cmp));
    assert_eq!(current.stages.queue(), began - (101 * NS + THERE));
    assert_eq!(current.stages.of(LongStage::Coherence), 0);
}

#[test]
fn writes_are_completed_when_they_have_their_place_and_wait_for_one_in_the_link() {
    let write = |place: u64| (place * NS, message(M2s::MemWr(MetaValue::Invalid), place));
    let setup = Setup {
        medium: FixedParams {
            latency: Picos(MEDIUM),
            queue: 1,
            ..FixedParams::default()
        },
        ..Setup::default()
    };
    let filter = SnoopFilterParams {
        writes: 1,
        ..setup.filter
    };
    let plan: Plan = (0..4).map(write).collect();
    let ran = run(Setup { filter, ..setup }, &[(plan, silent)]);
    // The first write is in the medium, the second waits for it, and the others
    // wait for the second.
    let placed = [THERE, THERE + NS, THERE + MEDIUM, THERE + 2 * MEDIUM];
    for ((at, completed), (place, expected)) in ran.seen(0).iter().zip((0..).zip(placed)) {
        assert_eq!((*at, completed.opcode), (expected + WAY, Opcode::Cmp));
        assert_eq!(completed.stages.queue(), expected - (place * NS + THERE));
    }
    assert_eq!(ran.seen(0).len(), 4);
}

#[test]
fn a_full_set_of_busy_lines_gives_the_first_that_is_idle() {
    let read = |at, line| (vec![(at, message(M2s::MemRdData, line))], obedient as React);
    let ran = run(filter_of(1), &[read(0, 0), read(NS, 1)]);
    let evicted = THERE + MEDIUM;
    // The snoop leaves after completion and data.
    let second = evicted + 2 * SECOND + WAY + THERE + MEDIUM + WAY;
    assert_eq!(ran.seen(1)[0].0, second);
    let stats = ran.device().coherence_stats();
    assert_eq!((stats.evictions, stats.entry_waits), (1, 1));
}

#[test]
fn a_line_with_a_queue_gives_its_entry_to_one_that_waits() {
    let read = |at, line| {
        (
            vec![(at, message(M2s::MemRdShared, line))],
            obedient as React,
        )
    };
    let peers = [read(0, 0), read(NS, 1), read(2 * NS, 0), read(3 * NS, 0)];
    let ran = run(filter_of(1), &peers);
    let order = ran.chart();
    let grants = order
        .iter()
        .filter(|(_, _, opcode, ..)| *opcode == Opcode::CmpS);
    let peers: Vec<usize> = grants.map(|(_, peer, ..)| *peer).collect();
    assert_eq!(peers, [0, 1, 2, 3]);
    assert_eq!(ran.device().holders(PortId(0), Hpa(0)), shared(&[2, 3]));
}

#[test]
fn the_policy_hears_of_requests_that_find_their_entry() {
    let read = |at, line| (at * NS, message(M2s::MemRdShared, line));
    for (policy, victim) in [("fifo", 0), ("lru", 1)] {
        let setup = Setup {
            policy: victim::build(policy).unwrap(),
            ..filter_of(2)
        };
        let holder = vec![read(0, 0), read(100, 1)];
        let other = vec![read(200, 0), read(300, 2)];
        let ran = run(setup, &[(holder, obedient), (other, obedient)]);
        assert_eq!(snoops(&ran), [(Opcode::BiSnpInv, victim, 1)], "{policy}");
    }
}

#[test]
#[should_panic(expected = "which asked for none")]
fn an_answer_that_no_snoop_asked_for_is_not_taken() {
    fn twice(snoop: &Message) -> Vec<Message> {
        let once = obedient(snoop);
        [once.clone(), once].concat()
    }
    let holder = vec![(0, message(M2s::MemRdOwn, 0))];
    let other = vec![(100 * NS, message(M2s::MemRdOwn, 0))];
    run(Setup::default(), &[(holder, twice), (other, silent)]);
}

#[test]
fn a_clean_eviction_and_a_flush_free_entries() {
    let evicting = vec![
        (0, message(M2s::MemRdData, 0)),
        (100 * NS, message(M2s::MemClnEvct, 0)),
        (200 * NS, message(M2s::MemRdData, 1)),
    ];
    let flushing = vec![(300 * NS, message(M2s::MemInvFlush, 1))];
    let ran = run(filter_of(1), &[(evicting, obedient), (flushing, silent)]);
    assert_eq!(snoops(&ran), [(Opcode::BiSnpInv, 1, 1)]);
    let (at, flushed) = ran.seen(1)[0];
    assert_eq!(flushed.opcode, Opcode::Cmp);
    assert_eq!(at, 300 * NS + 2 * (THERE + WAY));
    let stats = ran.device().coherence_stats();
    assert_eq!(
        (stats.clean_evictions, stats.flushes, stats.entries),
        (1, 1, 0)
    );
    assert_eq!((stats.evictions, stats.entry_waits), (0, 0));
}

/// Load reported in each response: opcode, line, DevLoad.
fn loads(system: &System, peer: usize) -> Vec<(Opcode, u64, DevLoad)> {
    let seen = system.seen(peer).iter().map(|(_, message)| message);
    let all = seen.map(|m| (m.opcode, m.hpa.0 / 64, DevLoad::of(m)));
    all.collect()
}

#[test]
fn completions_and_data_say_how_many_requests_are_inside() {
    use DevLoad::{Light, Moderate, Optimal, Severe};
    let mut plan: Plan = (0..4)
        .map(|line| (10 * NS * line, message(M2s::MemRdOwn, line)))
        .collect();
    // A write is in the device until its data are in the medium, and waits for its response.
    plan.push((500 * NS, message(M2s::MemWr(MetaValue::Invalid), 0)));
    plan.push((600 * NS, message(M2s::MemClnEvct, 1)));
    let qos = QosParams {
        optimal: Some(2),
        moderate: Some(3),
        severe: Some(4),
        ..QosParams::default()
    };
    let setup = Setup {
        qos: Some(qos),
        ..Setup::default()
    };
    let ran = run(setup, &[(plan, silent)]);
    let read = |line, load| [(Opcode::CmpE, line, load), (Opcode::MemData, line, load)];
    let expected = [
        read(0, Severe),
        read(1, Moderate),
        read(2, Optimal),
        read(3, Light),
        [(Opcode::Cmp, 0, Optimal), (Opcode::Cmp, 1, Light)],
    ];
    assert_eq!(loads(&ran, 0), expected.concat());
    assert_eq!(ran.device().told(), Some([2, 2, 1, 1]));
}

#[test]
fn a_conflict_is_acknowledged_under_light_load_and_counts_as_no_response() {
    let setup = Setup {
        qos: Some(QosParams {
            optimal: Some(1),
            moderate: Some(2),
            severe: Some(3),
            ..QosParams::default()
        }),
        ..Setup::default()
    };
    let holder = vec![(0, message(M2s::MemRdShared, 0))];
    let other = vec![(200 * NS, message(M2s::MemRdOwn, 0))];
    let ran = run(setup, &[(holder, conflicting), (other, silent)]);
    let acknowledged = (Opcode::BiConflictAck, 0, DevLoad::Light);
    assert_eq!(loads(&ran, 0).last(), Some(&acknowledged));
    assert_eq!(ran.device().told(), Some([0, 2, 0, 0]));
}

#[test]
fn what_cannot_be_built_is_told() {
    let build = |filter: SnoopFilterParams, peers: usize| {
        let setup = Setup::default();
        let config = CoherentConfig {
            params: DeviceParams::default(),
            filter,
            policy: setup.policy,
            policy_rng: StreamRng::new(1, "policy"),
            ports: vec![],
            backend: FixedParams::default().backend(cxlab_memory::MediumSite::alone(
                cxlab_engine::units::Bytes(1 << 30),
                1,
            )),
            decoders: DecoderTable::default(),
            port_id: DEVICE,
            peers: (0..peers).map(peer_id).collect(),
            qos: None,
            shares: vec![],
            observe: false,
        };
        CoherentDevice::new(config).err()
    };
    let filter = SnoopFilterParams::default();
    assert_eq!(build(filter.clone(), 64), None);
    assert_eq!(build(filter.clone(), 65), Some(CoherentError::Peers(65)));
    let long = SnoopFilterParams {
        block: 5,
        ..filter.clone()
    };
    assert_eq!(build(long, 1), Some(CoherentError::Block(5)));
    let odd = SnoopFilterParams {
        lines: 10,
        ways: Some(4),
        ..filter
    };
    assert!(matches!(build(odd, 1), Some(CoherentError::Filter(_))));
}
