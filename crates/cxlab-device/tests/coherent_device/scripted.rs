//! Single scenarios, checked to the picosecond.

use cxlab_cache::victim;
use cxlab_device::{
    CoherentConfig, CoherentDevice, CoherentError, DeviceParams, QosParams, SnoopFilterParams,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, MediumSite};
use cxlab_protocol::coherence::dcoh::{Filter, Peer, Peers};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, Snoop};
use cxlab_protocol::{DecoderTable, DevLoad, LongStage, Message, Opcode, PortId};

use crate::harness::{
    DEVICE, LOOKUP, MEDIUM, Node, PROCESS, React, Script, Setup, System, THERE, WAY, answer,
    message, peer_id, system,
};

pub const NS: u64 = 1_000;
/// The second message of a response leaves after the first.
const SECOND: u64 = 1_000;

pub type Plan = Vec<(u64, Message)>;

/// A message of a peer, at a time in nanoseconds.
pub fn at(ns: u64, what: M2s, line: u64) -> (u64, Message) {
    (ns * NS, message(what, line))
}

/// The rows of a chart for a read: the completion, and the data behind it.
fn granted(at: u64, peer: usize, opcode: Opcode, line: u64) -> [(u64, usize, Opcode, u64, u8); 2] {
    let data = (at + SECOND, peer, Opcode::MemData, line, 1);
    [(at, peer, opcode, line, 1), data]
}

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
    filtered(Setup::default(), |filter| filter.lines = lines)
}

/// A system with another filter.
pub fn filtered(mut setup: Setup, change: impl FnOnce(&mut SnoopFilterParams)) -> Setup {
    change(&mut setup.filter);
    setup
}

/// A system whose device reports its load, by thresholds for optimal, moderate and severe.
fn with_loads([optimal, moderate, severe]: [u32; 3]) -> Setup {
    let qos = QosParams {
        optimal: Some(optimal),
        moderate: Some(moderate),
        severe: Some(severe),
        ..QosParams::default()
    };
    Setup {
        qos: Some(qos),
        ..Setup::default()
    }
}

pub fn silent(_: &Message) -> Vec<Message> {
    vec![]
}

/// Responds to a snoop with `kept`.
pub fn keep(message: &Message, kept: KeptCopy) -> Vec<Message> {
    match Snoop::from_opcode(message.opcode) {
        Some(_) => vec![answer(message, kept)],
        None => vec![],
    }
}

pub fn obedient(message: &Message) -> Vec<Message> {
    keep(message, KeptCopy::Invalid)
}

/// Responds to a snoop of a modified line: `MemWr`, and `BIRspI` when the write is complete. The
/// snoop's tag is 0, because it is the first.
fn dirty(message: &Message) -> Vec<Message> {
    let line = message.hpa.0 / 64;
    match message.opcode {
        Opcode::BiSnpInv if line == 0 => {
            let (_, write) = at(0, M2s::MemWr(MetaValue::Invalid), line);
            vec![Message { data: 77, ..write }]
        }
        Opcode::Cmp => {
            let (_, response) = at(0, M2s::BiRsp(KeptCopy::Invalid), line);
            vec![Message { tag: 0, ..response }]
        }
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
    let plan = vec![at(5, M2s::MemRdData, 3)];
    let ran = run(Setup::default(), &[(plan, silent)]);
    let done = 5 * NS + THERE + MEDIUM + WAY;
    assert_eq!(ran.chart(), granted(done, 0, Opcode::CmpE, 3));
    for (place, (_, response)) in ran.seen(0).iter().enumerate() {
        let stages = response.stages;
        assert_eq!(stages.of(LongStage::Media), MEDIUM);
        assert_eq!(stages.of(LongStage::Coherence), 0);
        assert_eq!(u64::from(stages.device), PROCESS + LOOKUP);
        assert_eq!(u64::from(stages.link), 2 * WAY);
        assert_eq!(stages.queue(), SECOND * place as u64);
        assert_eq!((response.tag, response.destination), (3, peer_id(0)));
    }
    let stats = ran.device().coherence_stats();
    assert_eq!(stats.reads_data, 1);
    assert_eq!(stats.filter_misses, 1);
    assert_eq!(stats.entries, 1);
    assert_eq!(ran.holders(3), owned(0));
}

#[test]
fn a_line_that_two_share_is_owned_when_the_other_has_given_it_up() {
    let reader = vec![at(100, M2s::MemRdShared, 0)];
    let writer = vec![at(0, M2s::MemRdShared, 0), at(200, M2s::MemInvOwn, 0)];
    let ran = run(Setup::default(), &[(writer, silent), (reader, obedient)]);
    let (first, second) = (THERE + MEDIUM + WAY, 100 * NS + THERE + MEDIUM + WAY);
    let snooped = 200 * NS + THERE + WAY;
    assert_eq!(
        ran.chart(),
        [
            &granted(first, 0, Opcode::CmpS, 0)[..],
            &granted(second, 1, Opcode::CmpS, 0),
            &[(snooped, 1, Opcode::BiSnpInv, 0, 1)],
            &[(snooped + THERE + WAY, 0, Opcode::CmpE, 0, 1)],
        ]
        .concat()
    );
    let (_, granted) = ran.seen(0)[2];
    assert_eq!(
        granted.stages.of(LongStage::Coherence),
        WAY + THERE,
        "the snoop"
    );
    assert_eq!(granted.stages.of(LongStage::Media), 0);
    assert_eq!(ran.holders(0), owned(0));
    let stats = ran.device().coherence_stats();
    assert_eq!((stats.filter_hits, stats.filter_misses), (2, 1));
    assert_eq!((stats.snoops, stats.invalidated), ([1, 0, 0], 1));
    assert_eq!(stats.snoop_waits, 1);
    assert_eq!(stats.snoop_wait, Picos(WAY + THERE));
}

#[test]
fn a_dirty_victim_is_written_before_its_entry_is_free() {
    let owner = vec![at(0, M2s::MemRdOwn, 0)];
    let reader = vec![at(100, M2s::MemRdData, 1), at(900, M2s::MemRdData, 0)];
    let ran = run(filter_of(1), &[(owner, dirty), (reader, obedient)]);
    let snooped = 100 * NS + THERE + WAY;
    let written = snooped + THERE + WAY;
    let read = written + THERE + MEDIUM + WAY;
    let chart = ran.chart();
    let freed = [(snooped, Opcode::BiSnpInv), (written, Opcode::Cmp)];
    let freed = freed.map(|(at, opcode)| (at, 0, opcode, 0, 1));
    assert_eq!(
        chart[2..6],
        [freed, granted(read, 1, Opcode::CmpE, 1)].concat()
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
    assert_eq!(stats.writebacks, 1);
    assert_eq!(stats.evictions, 2);
    assert_eq!(stats.entry_waits, 2);
    assert_eq!(stats.entry_wait, Picos(3 * (WAY + THERE)));
    assert_eq!((stats.entries, stats.peak_entries), (1, 1));
    assert_eq!(ran.device().value(PortId(0), Hpa(0)), Some(77));
    assert_eq!(ran.device().stats().writes, 1);
}

/// A holder that has an outstanding request for the snooped line, and no copy of it.
fn conflicting(received: &Message) -> Vec<Message> {
    match received.opcode {
        Opcode::BiSnpInv => vec![message(M2s::BiConflict, 0)],
        Opcode::BiConflictAck => vec![message(M2s::BiRsp(KeptCopy::Invalid), 0)],
        _ => vec![],
    }
}

#[test]
fn a_conflict_is_acknowledged_while_the_request_waits_for_its_line() {
    let upgrade = |share, own| vec![at(share, M2s::MemRdShared, 0), at(own, M2s::MemInvOwn, 0)];
    let peers = [
        (upgrade(0, 200), obedient as React),
        (upgrade(100, 201), conflicting),
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
    assert_eq!(stats.conflicts, 1);
    assert_eq!(stats.line_waits, 1);
    assert_eq!(stats.snoop_waits, 2);
    let arrived = 201 * NS + THERE;
    assert_eq!(stats.line_wait, Picos(first - arrived));
    assert_eq!(ran.holders(0), owned(1));
}

#[test]
fn an_entry_is_free_when_all_holders_have_given_the_line_up() {
    let read = |ns| vec![at(ns, M2s::MemRdShared, 0)];
    let mut slow = [read(100), vec![at(500, M2s::BiRsp(KeptCopy::Invalid), 0)]].concat();
    slow[1].1.tag = 1;
    let other = vec![at(200, M2s::MemRdData, 1)];
    let peers = [
        (read(0), obedient as React),
        (slow, silent),
        (other, silent),
    ];
    let ran = run(filter_of(1), &peers);
    let snooped = 200 * NS + THERE + WAY;
    let read = 500 * NS + THERE + MEDIUM + WAY;
    let snoops = [0, 1].map(|peer| (snooped, peer, Opcode::BiSnpInv, 0, 1));
    let expected = [snoops, granted(read, 2, Opcode::CmpE, 1)].concat();
    assert_eq!(ran.chart()[4..], expected);
    let stats = ran.device().coherence_stats();
    assert_eq!(stats.snoops[0], 2);
    assert_eq!(stats.evictions, 1);
    assert_eq!(stats.invalidated, 2);
    assert_eq!(ran.holders(0), Some(Filter::Invalid));
}

#[test]
fn requests_wait_for_a_busy_line_in_the_order_of_their_arrival() {
    fn share(message: &Message) -> Vec<Message> {
        keep(message, KeptCopy::Shared)
    }
    let read = |ns| (vec![at(ns, M2s::MemRdShared, 0)], silent as React);
    let owner = (vec![at(0, M2s::MemRdOwn, 0)], share as React);
    let peers = [owner, read(200), read(202), read(201)];
    let ran = run(Setup::default(), &peers);
    let first = 200 * NS + THERE + WAY + THERE + MEDIUM;
    for (place, peer) in [1, 3, 2].into_iter().enumerate() {
        let (at, granted) = ran.seen(peer)[0];
        let place = place as u64;
        assert_eq!(at, first + place * MEDIUM + WAY);
        assert_eq!(granted.opcode, Opcode::CmpS);
        let waited = first + place * MEDIUM - MEDIUM - (granted.issued_ps + THERE);
        assert_eq!(granted.stages.of(LongStage::Coherence), waited);
        assert_eq!(granted.stages.of(LongStage::Media), MEDIUM);
    }
    let stats = ran.device().coherence_stats();
    assert_eq!(stats.line_waits, 2);
    assert_eq!(stats.snoop_waits, 1);
    assert_eq!(stats.snoops, [0, 1, 0]);
    assert_eq!(ran.holders(0), shared(&[0, 1, 2, 3]));
}

#[test]
fn writes_and_snoop_answers_are_taken_while_no_context_is_free() {
    let owner = vec![at(0, M2s::MemRdOwn, 0)];
    let reader = vec![at(100, M2s::MemRdData, 0)];
    let other = vec![at(101, M2s::MemRdCur, 5)];
    fn downgrade(received: &Message) -> Vec<Message> {
        match received.opcode {
            Opcode::BiSnpData => vec![message(M2s::MemWr(MetaValue::Shared), 0)],
            Opcode::Cmp => vec![message(M2s::BiRsp(KeptCopy::Shared), 0)],
            _ => vec![],
        }
    }
    let mut setup = Setup::default();
    setup.params.contexts = 1;
    setup.credits = 1;
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
    let write = |place| at(place, M2s::MemWr(MetaValue::Invalid), place);
    let mut setup = filtered(Setup::default(), |filter| filter.writes = 1);
    setup.medium.queue = 1;
    let ran = run(setup, &[((0..4).map(write).collect(), silent)]);
    // The first write is in the medium, the second waits for it, and the others wait for the second.
    let placed = [THERE, THERE + NS, THERE + MEDIUM, THERE + 2 * MEDIUM];
    for ((at, completed), (place, expected)) in ran.seen(0).iter().zip((0..).zip(placed)) {
        assert_eq!((*at, completed.opcode), (expected + WAY, Opcode::Cmp));
        assert_eq!(completed.stages.queue(), expected - (place * NS + THERE));
    }
    assert_eq!(ran.seen(0).len(), 4);
}

#[test]
fn a_full_set_of_busy_lines_gives_the_first_that_is_idle() {
    let read = |ns, line| (vec![at(ns, M2s::MemRdData, line)], obedient as React);
    let ran = run(filter_of(1), &[read(0, 0), read(1, 1)]);
    let evicted = THERE + MEDIUM;
    // The snoop leaves after completion and data.
    let second = evicted + 2 * SECOND + WAY + THERE + MEDIUM + WAY;
    assert_eq!(ran.seen(1)[0].0, second);
    let stats = ran.device().coherence_stats();
    assert_eq!((stats.evictions, stats.entry_waits), (1, 1));
}

#[test]
fn a_line_with_a_queue_gives_its_entry_to_one_that_waits() {
    let read = |ns, line| (vec![at(ns, M2s::MemRdShared, line)], obedient as React);
    let peers = [read(0, 0), read(1, 1), read(2, 0), read(3, 0)];
    let ran = run(filter_of(1), &peers);
    let mut order = ran.chart();
    order.retain(|(_, _, opcode, ..)| *opcode == Opcode::CmpS);
    let peers: Vec<usize> = order.iter().map(|(_, peer, ..)| *peer).collect();
    assert_eq!(peers, [0, 1, 2, 3]);
    assert_eq!(ran.holders(0), shared(&[2, 3]));
}

#[test]
fn the_policy_hears_of_requests_that_find_their_entry() {
    let read = |ns, line| at(ns, M2s::MemRdShared, line);
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
    let holder = vec![at(0, M2s::MemRdOwn, 0)];
    let other = vec![at(100, M2s::MemRdOwn, 0)];
    run(Setup::default(), &[(holder, twice), (other, silent)]);
}

#[test]
fn a_clean_eviction_and_a_flush_free_entries() {
    let evicting = vec![
        at(0, M2s::MemRdData, 0),
        at(100, M2s::MemClnEvct, 0),
        at(200, M2s::MemRdData, 1),
    ];
    let flushing = vec![at(300, M2s::MemInvFlush, 1)];
    let ran = run(filter_of(1), &[(evicting, obedient), (flushing, silent)]);
    assert_eq!(snoops(&ran), [(Opcode::BiSnpInv, 1, 1)]);
    let (at, flushed) = ran.seen(1)[0];
    assert_eq!(flushed.opcode, Opcode::Cmp);
    assert_eq!(at, 300 * NS + 2 * (THERE + WAY));
    let stats = ran.device().coherence_stats();
    assert_eq!(stats.clean_evictions, 1);
    assert_eq!(stats.flushes, 1);
    assert_eq!(stats.entries, 0);
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
    let reads = (0..4).map(|line| at(10 * line, M2s::MemRdOwn, line));
    let mut plan: Plan = reads.collect();
    // A write is in the device until its data are in the medium, and waits for its response.
    plan.push(at(500, M2s::MemWr(MetaValue::Invalid), 0));
    plan.push(at(600, M2s::MemClnEvct, 1));
    let ran = run(with_loads([2, 3, 4]), &[(plan, silent)]);
    let read = |line, load| [(Opcode::CmpE, line, load), (Opcode::MemData, line, load)];
    let expected = [
        read(0, Severe),
        read(1, Moderate),
        read(2, Optimal),
        read(3, Light),
        [(Opcode::Cmp, 0, Optimal), (Opcode::Cmp, 1, Light)],
    ];
    assert_eq!(loads(&ran, 0), expected.concat());
    assert_eq!(ran.device().reported_loads(), Some([2, 2, 1, 1]));
}

#[test]
fn a_conflict_is_acknowledged_under_light_load_and_counts_as_no_response() {
    let holder = vec![at(0, M2s::MemRdShared, 0)];
    let other = vec![at(200, M2s::MemRdOwn, 0)];
    let peers = [(holder, conflicting as React), (other, silent)];
    let ran = run(with_loads([1, 2, 3]), &peers);
    let acknowledged = (Opcode::BiConflictAck, 0, DevLoad::Light);
    assert_eq!(loads(&ran, 0).last(), Some(&acknowledged));
    assert_eq!(ran.device().reported_loads(), Some([0, 2, 0, 0]));
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
            backend: FixedParams::default().backend(MediumSite::alone(Bytes(1 << 30), 1)),
            decoders: DecoderTable::default(),
            port_id: DEVICE,
            peers: (0..peers).map(peer_id).collect(),
            qos: None,
            shares: vec![],
            observe: false,
        };
        CoherentDevice::new(config).err()
    };
    let mut filter = SnoopFilterParams::default();
    assert_eq!(build(filter.clone(), 64), None);
    assert_eq!(build(filter.clone(), 65), Some(CoherentError::Peers(65)));
    filter.block = 5;
    assert_eq!(build(filter.clone(), 1), Some(CoherentError::Block(5)));
    (filter.block, filter.lines, filter.ways) = (1, 10, Some(4));
    assert!(matches!(build(filter, 1), Some(CoherentError::Filter(_))));
}
