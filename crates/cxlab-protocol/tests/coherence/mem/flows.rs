//! The flows of CXL 3.1, section 3.5.1, message by message.

use cxlab_protocol::coherence::block::{BlockResponse, BlockSnoop};
use cxlab_protocol::coherence::dcoh::{self, Filter, Peer, Peers};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Action, Event, Line};

/// A line in a caching requester.
struct Cached(requester::LineState);

impl Cached {
    fn new(line: Line) -> Cached {
        Cached(requester::LineState::stable(line))
    }

    fn on(&mut self, event: Event) -> Vec<Action> {
        let (next, actions) = requester::step(self.0, event).unwrap();
        self.0 = next;
        actions.iter().collect()
    }

    fn response(&mut self, response: S2m) -> Vec<Action> {
        self.on(Event::Response(response))
    }

    /// Checks what the requester does on an event.
    #[track_caller]
    fn does(&mut self, event: Event, actions: &[Action]) {
        assert_eq!(self.on(event), actions, "{event:?}");
    }

    #[track_caller]
    fn takes(&mut self, response: S2m, actions: &[Action]) {
        self.does(Event::Response(response), actions);
    }

    /// Checks that nothing is in flight and that the line has this state.
    fn is(&self, line: Line) {
        assert_eq!(self.0, requester::LineState::stable(line));
    }
}

/// A line in the DCOH.
struct Home(dcoh::LineState);

impl Home {
    fn new(filter: Filter) -> Home {
        Home(dcoh::LineState::idle(filter))
    }

    fn on(&mut self, event: dcoh::Event) -> Vec<dcoh::Action> {
        let (next, actions) = dcoh::step(self.0, event).unwrap();
        self.0 = next;
        actions.iter().collect()
    }

    fn from(&mut self, peer: Peer, message: M2s) -> Vec<dcoh::Action> {
        self.on(dcoh::Event::Message(peer, message))
    }

    /// Checks what the DCOH does on an event.
    #[track_caller]
    fn does(&mut self, event: dcoh::Event, actions: &[dcoh::Action]) {
        assert_eq!(self.on(event), actions, "{event:?}");
    }

    #[track_caller]
    fn takes(&mut self, peer: Peer, message: M2s, actions: &[dcoh::Action]) {
        self.does(dcoh::Event::Message(peer, message), actions);
    }

    /// The medium has read the line: the DCOH grants it with its data.
    #[track_caller]
    fn grants(&mut self, peer: Peer, grant: S2m) {
        let granted = reply(peer, &[grant, S2m::MemData]);
        self.does(dcoh::Event::MediumData, &granted);
    }

    /// Whether the DCOH cannot accept the message now.
    fn keeps_waiting(&self, peer: Peer, message: M2s) -> bool {
        dcoh::step(self.0, dcoh::Event::Message(peer, message)).is_none()
    }

    fn is(&self, filter: Filter) {
        assert_eq!(self.0, dcoh::LineState::idle(filter));
    }
}

const A: Peer = Peer::new(0).unwrap();
const B: Peer = Peer::new(1).unwrap();
const RSP_I: Action = Action::Send(M2s::BiRsp(KeptCopy::Invalid));
const BI_CONFLICT: Action = Action::Send(M2s::BiConflict);
const WRITTEN: [dcoh::Action; 2] = [
    dcoh::Action::WriteMedium,
    dcoh::Action::Respond(A, S2m::Cmp),
];

fn snoop(kind: Snoop, peer: Peer) -> Vec<dcoh::Action> {
    vec![dcoh::Action::Snoop(kind, Peers::only(peer))]
}

fn reply(peer: Peer, replies: &[S2m]) -> Vec<dcoh::Action> {
    replies
        .iter()
        .map(|&reply| dcoh::Action::Respond(peer, reply))
        .collect()
}

#[test]
fn a_dirty_line_is_written_back_before_bisnp_completes() {
    // Figure 3-21: the filter evicts Y, which the host holds modified.
    let (mut host, mut home) = (Cached::new(Line::M), Home::new(Filter::Any(A)));
    home.does(dcoh::Event::EvictEntry, &snoop(Snoop::Inv, A));
    let write = M2s::MemWr(MetaValue::Invalid);
    let written = [Action::Send(write), Action::Drop];
    host.does(Event::BiSnp(Snoop::Inv), &written);
    home.takes(A, write, &WRITTEN);
    assert!(home.0.is_busy());
    host.takes(S2m::Cmp, &[RSP_I]);
    host.is(Line::I);
    home.takes(A, M2s::BiRsp(KeptCopy::Invalid), &[]);
    home.is(Filter::Invalid);
    assert!(!home.0.needs_entry());
}

#[test]
fn in_an_early_conflict_the_request_is_served_after_the_snoop() {
    // Figure 3-22: the filter still names A, which dropped the line silently and loads it again.
    let (mut host, mut home) = (Cached::new(Line::I), Home::new(Filter::Any(A)));
    home.takes(B, M2s::MemRdOwn, &snoop(Snoop::Inv, A));
    host.does(Event::Load, &[Action::Send(M2s::MemRdData)]);
    host.does(Event::BiSnp(Snoop::Inv), &[BI_CONFLICT]);
    assert!(home.keeps_waiting(A, M2s::MemRdData));
    home.takes(A, M2s::BiConflict, &reply(A, &[S2m::BiConflictAck]));
    host.takes(S2m::BiConflictAck, &[RSP_I]);
    home.takes(
        A,
        M2s::BiRsp(KeptCopy::Invalid),
        &[dcoh::Action::ReadMedium],
    );
    home.grants(B, S2m::CmpE);
    home.is(Filter::Any(B));
    home.takes(A, M2s::MemRdData, &snoop(Snoop::Data, B));
}

#[test]
fn in_a_late_conflict_the_new_copy_is_used_once_and_then_snooped() {
    // Figure 3-23: the response to A is in flight when B's request makes the DCOH snoop.
    let (mut host, mut home) = (Cached::new(Line::I), Home::new(Filter::Invalid));
    host.on(Event::Store);
    home.takes(A, M2s::MemRdOwn, &[dcoh::Action::ReadMedium]);
    home.grants(A, S2m::CmpE);
    home.takes(B, M2s::MemRdShared, &snoop(Snoop::Data, A));
    host.does(Event::BiSnp(Snoop::Data), &[BI_CONFLICT]);
    home.takes(A, M2s::BiConflict, &reply(A, &[S2m::BiConflictAck]));
    host.takes(S2m::CmpE, &[]);
    host.takes(S2m::BiConflictAck, &[]);
    let write = M2s::MemWr(MetaValue::Shared);
    let stored = [Action::Fill, Action::CompleteStore, Action::Send(write)];
    host.takes(S2m::MemData, &stored);
    home.from(A, write);
    host.takes(S2m::Cmp, &[Action::Send(M2s::BiRsp(KeptCopy::Shared))]);
    host.is(Line::S);
    home.takes(A, M2s::BiRsp(KeptCopy::Shared), &[dcoh::Action::ReadMedium]);
    home.grants(B, S2m::CmpS);
    home.is(Filter::Shared(Peers::only(A).with(B)));
}

#[test]
fn of_two_upgrades_the_loser_gets_ownership_without_data_and_reads_again() {
    let both = Filter::Shared(Peers::only(A).with(B));
    let (mut a, mut b, mut home) = (Cached::new(Line::S), Cached::new(Line::S), Home::new(both));
    a.does(Event::Store, &[Action::Send(M2s::MemInvOwn)]);
    b.does(Event::Store, &[Action::Send(M2s::MemInvOwn)]);
    home.takes(A, M2s::MemInvOwn, &snoop(Snoop::Inv, B));
    b.does(Event::BiSnp(Snoop::Inv), &[BI_CONFLICT]);
    home.from(B, M2s::BiConflict);
    b.takes(S2m::BiConflictAck, &[Action::Drop, RSP_I]);
    home.takes(B, M2s::BiRsp(KeptCopy::Invalid), &reply(A, &[S2m::CmpE]));
    a.takes(S2m::CmpE, &[Action::CompleteStore]);
    a.is(Line::M);
    home.takes(B, M2s::MemInvOwn, &snoop(Snoop::Inv, A));
    a.on(Event::BiSnp(Snoop::Inv));
    home.from(A, M2s::MemWr(MetaValue::Invalid));
    a.response(S2m::Cmp);
    home.takes(A, M2s::BiRsp(KeptCopy::Invalid), &reply(B, &[S2m::CmpE]));
    b.takes(S2m::CmpE, &[Action::Send(M2s::MemRdOwn)]);
    home.takes(B, M2s::MemRdOwn, &[dcoh::Action::ReadMedium]);
    home.on(dcoh::Event::MediumData);
    b.takes(S2m::MemData, &[]);
    b.takes(S2m::CmpE, &[Action::Fill, Action::CompleteStore]);
    b.is(Line::M);
}

#[test]
fn a_snoop_that_meets_a_write_back_needs_no_conflict_and_is_answered_after_it() {
    let (mut host, mut home) = (Cached::new(Line::M), Home::new(Filter::Any(A)));
    let write = M2s::MemWr(MetaValue::Invalid);
    host.does(Event::Evict, &[Action::Send(write), Action::Drop]);
    home.takes(B, M2s::MemRdData, &snoop(Snoop::Data, A));
    host.does(Event::BiSnp(Snoop::Data), &[]);
    home.takes(A, write, &WRITTEN);
    host.takes(S2m::Cmp, &[RSP_I]);
    home.takes(
        A,
        M2s::BiRsp(KeptCopy::Invalid),
        &[dcoh::Action::ReadMedium],
    );
    home.grants(B, S2m::CmpE);
}

#[test]
fn a_clean_eviction_that_crosses_a_snoop_is_completed_after_it() {
    let (mut host, mut home) = (Cached::new(Line::E), Home::new(Filter::Any(A)));
    host.does(Event::Evict, &[Action::Drop, Action::Send(M2s::MemClnEvct)]);
    home.does(dcoh::Event::EvictEntry, &snoop(Snoop::Inv, A));
    host.does(Event::BiSnp(Snoop::Inv), &[BI_CONFLICT]);
    assert!(home.keeps_waiting(A, M2s::MemClnEvct));
    home.from(A, M2s::BiConflict);
    host.takes(S2m::BiConflictAck, &[RSP_I]);
    home.from(A, M2s::BiRsp(KeptCopy::Invalid));
    home.takes(A, M2s::MemClnEvct, &reply(A, &[S2m::Cmp]));
    host.takes(S2m::Cmp, &[]);
    host.is(Line::I);
    home.is(Filter::Invalid);
}

#[test]
fn a_store_to_an_exclusive_line_is_silent_and_the_next_reader_sees_it() {
    let mut host = Cached::new(Line::E);
    host.does(Event::Store, &[Action::CompleteStore]);
    host.is(Line::M);
    let written = [Action::Send(M2s::MemWr(MetaValue::Any))];
    host.does(Event::BiSnp(Snoop::Cur), &written);
    host.takes(S2m::Cmp, &[Action::Send(M2s::BiRsp(KeptCopy::Exclusive))]);
    host.is(Line::E);
}

#[test]
fn the_devices_own_agent_reads_what_the_host_wrote_and_leaves_it_the_line() {
    let mut home = Home::new(Filter::Any(A));
    home.does(dcoh::Event::LocalRead, &snoop(Snoop::Cur, A));
    home.from(A, M2s::MemWr(MetaValue::Any));
    home.takes(
        A,
        M2s::BiRsp(KeptCopy::Exclusive),
        &[dcoh::Action::ReadMedium],
    );
    home.does(dcoh::Event::MediumData, &[dcoh::Action::CompleteLocal]);
    home.is(Filter::Any(A));
}

#[test]
fn a_line_in_conflict_makes_its_block_answer_line_by_line() {
    // Figures 3-24 and 3-25.
    let mut lines = [
        Cached::new(Line::S),
        Cached::new(Line::I),
        Cached::new(Line::M),
        Cached::new(Line::I),
    ];
    lines[3].on(Event::Load);
    let mut block = BlockSnoop::new(Snoop::Inv, 4).unwrap();
    let mut sent = Vec::new();
    for place in 0..4_u8 {
        for action in lines[usize::from(place)].on(Event::BiSnp(Snoop::Inv)) {
            match action {
                Action::Send(M2s::BiRsp(kept)) => sent.extend(block.respond(place, kept).iter()),
                Action::Send(M2s::BiConflict) => sent.extend(block.conflict().iter()),
                _ => {}
            }
        }
    }
    assert_eq!(
        sent,
        [
            BlockResponse::Line(0, KeptCopy::Invalid),
            BlockResponse::Line(1, KeptCopy::Invalid)
        ]
    );
    lines[2].takes(S2m::Cmp, &[RSP_I]);
    lines[3].takes(S2m::BiConflictAck, &[RSP_I]);
    for place in [2, 3] {
        let answers: Vec<BlockResponse> = block.respond(place, KeptCopy::Invalid).iter().collect();
        assert_eq!(answers, [BlockResponse::Line(place, KeptCopy::Invalid)]);
    }
    assert!(block.is_done());
}

#[test]
fn what_the_protocol_does_not_have_has_no_row() {
    let shared = dcoh::LineState::idle(Filter::Shared(Peers::only(A)));
    let wrong = [
        // Only the owner writes, and only a snooped requester responds.
        dcoh::Event::Message(B, M2s::MemWr(MetaValue::Invalid)),
        dcoh::Event::Message(A, M2s::BiRsp(KeptCopy::Invalid)),
        dcoh::Event::MediumData,
    ];
    for event in wrong {
        let owned = dcoh::LineState::idle(Filter::Any(A));
        assert_eq!(dcoh::step(owned, event), None, "{event:?}");
    }
    // A sharer cannot answer an invalidating snoop with a copy.
    let (snooped, _) = dcoh::step(shared, dcoh::Event::EvictEntry).unwrap();
    let kept = dcoh::Event::Message(A, M2s::BiRsp(KeptCopy::Shared));
    assert_eq!(dcoh::step(snooped, kept), None);
    // A completion that the line does not wait for.
    let idle = requester::LineState::stable(Line::S);
    assert_eq!(requester::step(idle, Event::Response(S2m::CmpE)), None);
    assert_eq!(
        requester::step(idle, Event::Response(S2m::BiConflictAck)),
        None
    );
}

#[test]
fn states_are_small_and_there_are_64_requesters() {
    assert!(size_of::<requester::LineState>() <= 3);
    assert!(size_of::<Filter>() <= 16);
    assert!(size_of::<dcoh::LineState>() <= 32);
    assert_eq!(Peer::new(63).map(Peer::index), Some(63));
    assert_eq!(Peer::new(64), None);
    let all = (0..64).filter_map(Peer::new).fold(Peers::NONE, Peers::with);
    assert_eq!(all, Peers(u64::MAX));
    assert!(all.iter().map(Peer::index).eq(0..64));
}
