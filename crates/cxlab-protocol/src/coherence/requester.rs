//! The caching requester: a host, or an accelerator that is a peer, whose cache may hold lines of
//! another device's HDM-DB memory.
//!
//! A line has at most one outstanding request, as CXL 3.1, section 3.3.11.1 recommends. Data and
//! completion of a read travel on different channels and may arrive in either order, so each read
//! waits for both. A snoop finds the line in one of three situations:
//!
//! - The line is stable: the requester answers the snoop at once. Dirty data are sent first, as
//!   `MemWr`, and the response waits for their completion (figure 3-21).
//! - A request is outstanding and its completion has not arrived: the requester cannot know whether
//!   the device processed the request before or after it sent the snoop. The requester sends
//!   `BIConflict` and waits for `BIConflictAck`, which does not pass an earlier completion. If the
//!   acknowledgement comes first, the request is still pending at the device, and the snoop is
//!   answered for the copy held before (early conflict, figure 3-22). If the completion came first,
//!   the snoop is for the new copy and waits for the data (late conflict, figure 3-23).
//! - The completion has arrived but not the data, or a write-back is outstanding: no handshake is
//!   needed, and the snoop waits until the line is stable.

use serde::{Deserialize, Serialize};

use super::fields::MetaValue;
use super::list::List;
use super::message::{KeptCopy, M2s, S2m, Snoop};
use super::table::{cache_rows, index};

listed! {
    /// The state of a line in a requester.
    ///
    /// `A` stands for a pending completion (the response of the device), `D` for pending data, as in
    /// the literature on cache directories.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Line {
        /// Invalid: no copy.
        #[default]
        I,
        /// Shared: a clean copy, others may have one too.
        S,
        /// Exclusive: the only copy, clean.
        E,
        /// Modified: the only copy, memory is stale.
        M,
        /// A load waits for completion and data.
        IsAD,
        /// A load waits for its completion; the data are here.
        IsA,
        /// A load was granted Shared and waits for data.
        SD,
        /// A load was granted Exclusive and waits for data.
        ED,
        /// A store waits for completion and data.
        ImAD,
        /// A store waits for its completion; the data are here.
        ImA,
        /// A store was granted ownership and waits for data.
        MD,
        /// A shared line waits to become the only copy (upgrade).
        SmA,
        /// As `SmA`, but a snoop invalidated the shared copy: ownership will come without data.
        ImN,
        /// A load that does not cache waits for completion and data.
        IcAD,
        /// A load that does not cache waits for its completion; the data are here.
        IcA,
        /// A load that does not cache waits for data.
        IcD,
        /// A flush waits for its completion.
        IfA,
        /// A clean eviction waits for its completion.
        CiA,
        /// A write-back waits for its completion; the line will be invalid.
        MiA,
        /// A write-back waits for its completion; the line will be shared.
        MsA,
        /// A write-back waits for its completion; the line will be exclusive.
        MeA,
    }
}

impl Line {
    /// Whether no request is outstanding: I, S, E or M.
    #[inline]
    pub const fn is_stable(self) -> bool {
        (self as u8) <= Line::M as u8
    }
}

/// A snoop that the requester has accepted and not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum HeldSnoop {
    /// No snoop is pending.
    #[default]
    Nothing,
    /// `BIConflict` was sent; `BIConflictAck` has not arrived.
    AwaitAck(Snoop),
    /// The snoop will be answered when the line is stable.
    Deferred(Snoop),
}

/// The state that a requester stores for one line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct LineState {
    /// The copy, or the outstanding request.
    pub line: Line,
    /// The snoop that is pending.
    pub held: HeldSnoop,
}

impl LineState {
    /// A line without an outstanding request or snoop.
    pub const fn stable(line: Line) -> LineState {
        LineState {
            line,
            held: HeldSnoop::Nothing,
        }
    }

    /// Whether the cache array alone describes the line, so that the requester may free the line's entry.
    #[inline]
    pub const fn is_settled(self) -> bool {
        self.line.is_stable() && matches!(self.held, HeldSnoop::Nothing)
    }
}

/// What happens to a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// The processor loads; the device may grant Shared or Exclusive.
    Load,
    /// The processor loads and wants Shared only. For lines that are invalid; otherwise `Load`.
    LoadShared,
    /// The processor loads once and keeps no copy. For lines that are invalid; otherwise `Load`.
    LoadOnce,
    /// The processor stores.
    Store,
    /// The processor removes the line from every cache. For lines that are invalid; evict first.
    Flush,
    /// The cache evicts the line. A clean line is announced with `MemClnEvct`.
    Evict,
    /// The cache evicts the line. A clean line is dropped silently; dirty ones need `Evict`.
    EvictSilently,
    /// A response arrived.
    Response(S2m),
    /// A back-invalidation snoop arrived.
    BiSnp(Snoop),
}

impl Event {
    /// Whether the event comes from the processor or the cache and may be retried later.
    pub const fn is_local(self) -> bool {
        !matches!(self, Event::Response(_) | Event::BiSnp(_))
    }
}

/// What a requester does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Send this message. A `MemWr` takes the line's data before any later action.
    Send(M2s),
    /// Put the received data into the cache.
    Fill,
    /// Drop the copy from the cache.
    Drop,
    /// Complete the load with the value of the copy.
    CompleteLoad,
    /// Complete the load with the received data. Nothing is cached.
    CompleteLoadOnce,
    /// Complete the store: the copy has its value.
    CompleteStore,
    /// Complete the flush: no cache held the line at some time after the request.
    CompleteFlush,
}

/// The actions of one event. The longest list completes a store and then lets a deferred snoop write the line back.
pub type Actions = List<Action, 4>;

listed! {
    /// The conditions that the rows of the table distinguish: events, with acknowledgements
    /// distinguished by the snoop that the handshake is for.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    #[repr(u8)]
    #[allow(missing_docs)]
    pub enum RowCondition {
        Load,
        LoadShared,
        LoadOnce,
        Store,
        Flush,
        Evict,
        EvictSilently,
        Cmp,
        CmpS,
        CmpE,
        CmpM,
        MemData,
        SnpInv,
        SnpData,
        SnpCur,
        AckInv,
        AckData,
        AckCur,
    }
}

impl RowCondition {
    const fn snoop(snoop: Snoop) -> RowCondition {
        match snoop {
            Snoop::Inv => RowCondition::SnpInv,
            Snoop::Data => RowCondition::SnpData,
            Snoop::Cur => RowCondition::SnpCur,
        }
    }
}

/// What becomes of the snoop that an event brings or that is pending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SnoopOutcome {
    /// The event does not concern a snoop.
    Keep,
    /// The snoop is answered.
    Answered,
    /// The snoop waits for `BIConflictAck`.
    AwaitAck,
    /// The snoop waits until the line is stable.
    Defer,
}

/// One row of the transition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the row.
    pub name: &'static str,
    /// The state that the row applies to.
    pub from: Line,
    /// The conditions that the row applies to.
    pub on: &'static [RowCondition],
    /// The state after the step.
    pub to: Line,
    /// What becomes of the snoop.
    pub snoop: SnoopOutcome,
    /// The actions, in order.
    pub actions: &'static [Action],
}

const ANY_SNOOP: &[RowCondition] = &[
    RowCondition::SnpInv,
    RowCondition::SnpData,
    RowCondition::SnpCur,
];
const ANY_ACK: &[RowCondition] = &[
    RowCondition::AckInv,
    RowCondition::AckData,
    RowCondition::AckCur,
];
const INV: &[RowCondition] = &[RowCondition::SnpInv, RowCondition::AckInv];
const DATA: &[RowCondition] = &[RowCondition::SnpData, RowCondition::AckData];
const CUR: &[RowCondition] = &[RowCondition::SnpCur, RowCondition::AckCur];
const LOADED: &[Action] = &[Action::Fill, Action::CompleteLoad];
const STORED: &[Action] = &[Action::Fill, Action::CompleteStore];
const CONFLICT: &[Action] = &[Action::Send(M2s::BiConflict)];
const RSP_I: &[Action] = &[Action::Send(M2s::BiRsp(KeptCopy::Invalid))];
const RSP_S: &[Action] = &[Action::Send(M2s::BiRsp(KeptCopy::Shared))];
const RSP_E: &[Action] = &[Action::Send(M2s::BiRsp(KeptCopy::Exclusive))];
const DROP_RSP_I: &[Action] = &[Action::Drop, Action::Send(M2s::BiRsp(KeptCopy::Invalid))];
const WRITE_I: &[Action] = &[Action::Send(M2s::MemWr(MetaValue::Invalid)), Action::Drop];
const WRITE_S: &[Action] = &[Action::Send(M2s::MemWr(MetaValue::Shared))];
const WRITE_E: &[Action] = &[Action::Send(M2s::MemWr(MetaValue::Any))];

cache_rows! {
    load_miss: I, &[RowCondition::Load] => IsAD (Keep), &[Action::Send(M2s::MemRdData)];
    load_shared_miss: I, &[RowCondition::LoadShared] => IsAD (Keep), &[Action::Send(M2s::MemRdShared)];
    load_once: I, &[RowCondition::LoadOnce] => IcAD (Keep), &[Action::Send(M2s::MemRdCur)];
    store_miss: I, &[RowCondition::Store] => ImAD (Keep), &[Action::Send(M2s::MemRdOwn)];
    flush: I, &[RowCondition::Flush] => IfA (Keep), &[Action::Send(M2s::MemInvFlush)];
    load_hit_shared: S, &[RowCondition::Load] => S (Keep), &[Action::CompleteLoad];
    load_hit_exclusive: E, &[RowCondition::Load] => E (Keep), &[Action::CompleteLoad];
    load_hit_modified: M, &[RowCondition::Load] => M (Keep), &[Action::CompleteLoad];
    store_upgrade: S, &[RowCondition::Store] => SmA (Keep), &[Action::Send(M2s::MemInvOwn)];
    store_hit_exclusive: E, &[RowCondition::Store] => M (Keep), &[Action::CompleteStore];
    store_hit_modified: M, &[RowCondition::Store] => M (Keep), &[Action::CompleteStore];
    evict_shared: S, &[RowCondition::Evict] => CiA (Keep), &[Action::Drop, Action::Send(M2s::MemClnEvct)];
    evict_exclusive: E, &[RowCondition::Evict] => CiA (Keep), &[Action::Drop, Action::Send(M2s::MemClnEvct)];
    evict_modified: M, &[RowCondition::Evict] => MiA (Keep), WRITE_I;
    drop_shared: S, &[RowCondition::EvictSilently] => I (Keep), &[Action::Drop];
    drop_exclusive: E, &[RowCondition::EvictSilently] => I (Keep), &[Action::Drop];

    load_data_first: IsAD, &[RowCondition::MemData] => IsA (Keep), &[];
    load_granted_shared: IsAD, &[RowCondition::CmpS] => SD (Keep), &[];
    load_granted_exclusive: IsAD, &[RowCondition::CmpE] => ED (Keep), &[];
    load_done_shared: SD, &[RowCondition::MemData] => S (Keep), LOADED;
    load_done_exclusive: ED, &[RowCondition::MemData] => E (Keep), LOADED;
    load_done_shared_by_completion: IsA, &[RowCondition::CmpS] => S (Keep), LOADED;
    load_done_exclusive_by_completion: IsA, &[RowCondition::CmpE] => E (Keep), LOADED;
    store_data_first: ImAD, &[RowCondition::MemData] => ImA (Keep), &[];
    store_granted: ImAD, &[RowCondition::CmpE] => MD (Keep), &[];
    store_granted_modified: ImAD, &[RowCondition::CmpM] => MD (Keep), &[];
    store_done: MD, &[RowCondition::MemData] => M (Keep), STORED;
    store_done_by_completion: ImA, &[RowCondition::CmpE] => M (Keep), STORED;
    store_done_by_completion_modified: ImA, &[RowCondition::CmpM] => M (Keep), STORED;
    upgrade_done: SmA, &[RowCondition::CmpE] => M (Keep), &[Action::CompleteStore];
    upgrade_without_data: ImN, &[RowCondition::CmpE] => ImAD (Keep), &[Action::Send(M2s::MemRdOwn)];
    once_data_first: IcAD, &[RowCondition::MemData] => IcA (Keep), &[];
    once_completed: IcAD, &[RowCondition::Cmp] => IcD (Keep), &[];
    once_done: IcD, &[RowCondition::MemData] => I (Keep), &[Action::CompleteLoadOnce];
    once_done_by_completion: IcA, &[RowCondition::Cmp] => I (Keep), &[Action::CompleteLoadOnce];
    flush_done: IfA, &[RowCondition::Cmp] => I (Keep), &[Action::CompleteFlush];
    clean_eviction_done: CiA, &[RowCondition::Cmp] => I (Keep), &[];
    write_back_done_invalid: MiA, &[RowCondition::Cmp] => I (Keep), &[];
    write_back_done_shared: MsA, &[RowCondition::Cmp] => S (Keep), &[];
    write_back_done_exclusive: MeA, &[RowCondition::Cmp] => E (Keep), &[];

    invalid_inv: I, INV => I (Answered), RSP_I;
    invalid_data: I, DATA => I (Answered), RSP_I;
    invalid_cur: I, CUR => I (Answered), RSP_I;
    shared_inv: S, INV => I (Answered), DROP_RSP_I;
    shared_data: S, &[RowCondition::SnpData] => S (Answered), RSP_S;
    exclusive_inv: E, INV => I (Answered), DROP_RSP_I;
    exclusive_data: E, DATA => S (Answered), RSP_S;
    exclusive_cur: E, CUR => E (Answered), RSP_E;
    modified_inv: M, INV => MiA (Defer), WRITE_I;
    modified_data: M, DATA => MsA (Defer), WRITE_S;
    modified_cur: M, CUR => MeA (Defer), WRITE_E;

    load_conflict: IsAD, ANY_SNOOP => IsAD (AwaitAck), CONFLICT;
    load_data_first_conflict: IsA, ANY_SNOOP => IsA (AwaitAck), CONFLICT;
    store_conflict: ImAD, ANY_SNOOP => ImAD (AwaitAck), CONFLICT;
    store_data_first_conflict: ImA, ANY_SNOOP => ImA (AwaitAck), CONFLICT;
    upgrade_conflict: SmA, ANY_SNOOP => SmA (AwaitAck), CONFLICT;
    upgrade_lost_conflict: ImN, ANY_SNOOP => ImN (AwaitAck), CONFLICT;
    once_conflict: IcAD, ANY_SNOOP => IcAD (AwaitAck), CONFLICT;
    once_data_first_conflict: IcA, ANY_SNOOP => IcA (AwaitAck), CONFLICT;
    flush_conflict: IfA, ANY_SNOOP => IfA (AwaitAck), CONFLICT;
    clean_eviction_conflict: CiA, ANY_SNOOP => CiA (AwaitAck), CONFLICT;

    load_early: IsAD, ANY_ACK => IsAD (Answered), RSP_I;
    store_early: ImAD, ANY_ACK => ImAD (Answered), RSP_I;
    upgrade_early_inv: SmA, &[RowCondition::AckInv] => ImN (Answered), DROP_RSP_I;
    once_early: IcAD, ANY_ACK => IcAD (Answered), RSP_I;
    flush_early: IfA, ANY_ACK => IfA (Answered), RSP_I;
    clean_eviction_early: CiA, ANY_ACK => CiA (Answered), RSP_I;

    shared_late: SD, &[RowCondition::AckInv] => SD (Defer), &[];
    exclusive_late: ED, ANY_ACK => ED (Defer), &[];
    modified_late: MD, ANY_ACK => MD (Defer), &[];
    once_late: IcD, ANY_ACK => IcD (Defer), &[];

    shared_snooped_before_data: SD, &[RowCondition::SnpInv] => SD (Defer), &[];
    exclusive_snooped_before_data: ED, ANY_SNOOP => ED (Defer), &[];
    modified_snooped_before_data: MD, ANY_SNOOP => MD (Defer), &[];
    once_snooped_before_data: IcD, ANY_SNOOP => IcD (Defer), &[];
    snooped_during_write_back: MiA, ANY_SNOOP => MiA (Defer), &[];
}

index!(Line::ALL.len(), 1, |row, _on| {
    states: (row.from as usize, row.from as usize),
    views: [0],
    most: 2,
});

/// The number of the row for a state and a condition.
#[inline]
pub fn find(line: Line, on: RowCondition) -> Option<usize> {
    row_of(line as usize, on, 0)
}

/// The condition that the rows distinguish for an event in a state. `None` for an acknowledgement
/// that the line does not wait for, a second snoop, and a local event while a snoop is pending.
#[inline]
pub fn on(state: LineState, event: Event) -> Option<RowCondition> {
    let idle = matches!(state.held, HeldSnoop::Nothing);
    let local = |on| idle.then_some(on);
    match event {
        Event::Load => local(RowCondition::Load),
        Event::LoadShared => local(RowCondition::LoadShared),
        Event::LoadOnce => local(RowCondition::LoadOnce),
        Event::Store => local(RowCondition::Store),
        Event::Flush => local(RowCondition::Flush),
        Event::Evict => local(RowCondition::Evict),
        Event::EvictSilently => local(RowCondition::EvictSilently),
        Event::BiSnp(snoop) => local(RowCondition::snoop(snoop)),
        Event::Response(S2m::Cmp) => Some(RowCondition::Cmp),
        Event::Response(S2m::CmpS) => Some(RowCondition::CmpS),
        Event::Response(S2m::CmpE) => Some(RowCondition::CmpE),
        Event::Response(S2m::CmpM) => Some(RowCondition::CmpM),
        Event::Response(S2m::MemData) => Some(RowCondition::MemData),
        Event::Response(S2m::BiConflictAck) => match state.held {
            HeldSnoop::AwaitAck(Snoop::Inv) => Some(RowCondition::AckInv),
            HeldSnoop::AwaitAck(Snoop::Data) => Some(RowCondition::AckData),
            HeldSnoop::AwaitAck(Snoop::Cur) => Some(RowCondition::AckCur),
            _ => None,
        },
    }
}

/// Applies the table to an event. `None` if there is no row: a local event must then be retried
/// when the line has changed; a message violates the protocol.
#[inline]
pub fn step(state: LineState, event: Event) -> Option<(LineState, Actions)> {
    step_with(state, event, |row, _| Some(&ROWS[row]))
}

/// As [`step`], with rows looked up through `table`, by the number of the row and the condition
/// that selected it. The mutation test alters rows in this way.
#[inline]
pub fn step_with<'t>(
    state: LineState,
    event: Event,
    table: impl Fn(usize, RowCondition) -> Option<&'t Row>,
) -> Option<(LineState, Actions)> {
    let on = on(state, event)?;
    let row = table(find(state.line, on)?, on)?;
    let mut actions = Actions::new();
    let snoop = match (event, state.held) {
        (Event::BiSnp(snoop), _) => Some(snoop),
        (_, HeldSnoop::AwaitAck(snoop) | HeldSnoop::Deferred(snoop)) => Some(snoop),
        _ => None,
    };
    let mut next = apply(state, snoop, row, &mut actions);
    if let (true, HeldSnoop::Deferred(snoop)) = (next.line.is_stable(), next.held) {
        let on = RowCondition::snoop(snoop);
        let row = table(find(next.line, on)?, on)?;
        next = apply(next, Some(snoop), row, &mut actions);
    }
    Some((next, actions))
}

#[inline]
fn apply(state: LineState, snoop: Option<Snoop>, row: &Row, actions: &mut Actions) -> LineState {
    for &action in row.actions {
        actions.push(action);
    }
    let held = match (row.snoop, snoop) {
        (SnoopOutcome::AwaitAck, Some(snoop)) => HeldSnoop::AwaitAck(snoop),
        (SnoopOutcome::Defer, Some(snoop)) => HeldSnoop::Deferred(snoop),
        (SnoopOutcome::Keep, _) => state.held,
        _ => HeldSnoop::Nothing,
    };
    LineState { line: row.to, held }
}
