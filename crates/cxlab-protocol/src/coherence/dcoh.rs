//! The device coherency engine (DCOH): the home of the HDM-DB lines of a device.
//!
//! For each line, the DCOH stores which requesters may hold a copy and at most one operation that
//! is in flight. The record of holders is the snoop filter, which is inclusive: it never names less
//! than what caches hold. A request to a busy line waits, which M2S Req may; write-backs, conflicts
//! and snoop responses never do (CXL 3.1, section 3.3.11 and table 3-58).
//!
//! The owner of the table decides on the number of entries and on victims, and it has the medium.

use serde::{Deserialize, Serialize};

use super::fields::MetaValue;
use super::list::List;
use super::message::{KeptCopy, M2s, S2m, Snoop};

use super::table::views::{ALONE, ANY, HELD, NO_OWNER, NO_SHARERS, OWNER, SHARERS};
use super::table::{HomeRow, home_rows, index, phases};

pub use super::filter::{Filter, Others, Peer, Peers, Update};
pub use super::table::RowPhases;

listed! {
    /// An operation on a line.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Operation {
        /// `MemRd`, Shared.
        Share,
        /// `MemRdData`.
        ShareOrOwn,
        /// `MemRd`, Any.
        Own,
        /// `MemInv`, Any.
        OwnNoData,
        /// `MemRd`, Invalid, SnpCur.
        Current,
        /// `MemInv`, Invalid.
        Flush,
        /// The device's own agent reads the line without caching it.
        LocalRead,
        /// The device's own agent writes the line without caching it.
        LocalWrite,
        /// The filter evicts the entry of the line.
        EvictEntry,
    }
}

impl Operation {
    /// The operation that a message starts. `MemClnEvct` starts none, because it completes when it is accepted.
    pub const fn of(request: M2s) -> Option<Operation> {
        match request {
            M2s::MemRdShared => Some(Operation::Share),
            M2s::MemRdData => Some(Operation::ShareOrOwn),
            M2s::MemRdOwn => Some(Operation::Own),
            M2s::MemInvOwn => Some(Operation::OwnNoData),
            M2s::MemRdCur => Some(Operation::Current),
            M2s::MemInvFlush => Some(Operation::Flush),
            M2s::MemClnEvct | M2s::MemWr(_) | M2s::BiConflict | M2s::BiRsp(_) => None,
        }
    }

    /// Whether the requester will hold a copy, so that the line needs a filter entry before the operation begins.
    pub const fn allocates(self) -> bool {
        matches!(
            self,
            Operation::Share | Operation::ShareOrOwn | Operation::Own | Operation::OwnNoData
        )
    }
}

/// Progress of the operation on a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub enum Phase {
    /// No operation is in flight.
    #[default]
    Idle,
    /// Responses to snoops are outstanding.
    Snooping(Operation),
    /// The medium reads the line.
    Reading(Operation),
}

phases! { Snooping Reading }

/// The state that the DCOH stores for one line. `filter` is the entry of the snoop filter; the rest
/// is needed only while an operation is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct LineState {
    /// The requesters that may hold a copy.
    pub filter: Filter,
    /// Holders whose snoop responses are outstanding.
    pub waiting: Peers,
    /// Progress of the operation.
    pub phase: Phase,
    /// Requester of the operation; without meaning for the device's own operations.
    pub requester: Peer,
}

impl LineState {
    /// A line without an operation.
    pub const fn idle(filter: Filter) -> LineState {
        LineState {
            filter,
            waiting: Peers::NONE,
            phase: Phase::Idle,
            requester: Peer(0),
        }
    }

    /// Whether an operation is in flight.
    #[inline]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Whether the line occupies a filter entry, because it has holders or will have some.
    #[inline]
    pub const fn needs_entry(&self) -> bool {
        !matches!(self.filter, Filter::Invalid)
            || match self.phase {
                Phase::Idle => false,
                Phase::Snooping(operation) | Phase::Reading(operation) => operation.allocates(),
            }
    }
}

/// What happens to a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// A message arrived from a requester.
    Message(Peer, M2s),
    /// The device's own agent wants to read the line.
    LocalRead,
    /// The device's own agent wants to write the line.
    LocalWrite,
    /// The filter needs the entry of this line for another line.
    EvictEntry,
    /// The medium has read the line.
    MediumData,
    /// As `MediumData`, but the line was dirty in a cache in front of the medium, which evicts it without writing it:
    /// the requester must hold it modified. Only for a read for ownership, and only if the host accepts `Cmp-M`.
    MediumDirty,
}

/// What the DCOH does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Snoop these holders.
    Snoop(Snoop, Peers),
    /// Make the medium read the line; `MediumData` follows. The read returns the value of the
    /// earlier `WriteMedium` of the line.
    ReadMedium,
    /// Make the medium write the data of the `MemWr` that is the event.
    WriteMedium,
    /// Make the medium write the data of the device's own agent.
    WriteLocal,
    /// Send this response to a requester. `MemData` carries the data that the medium read.
    Respond(Peer, S2m),
    /// Complete the device's own read or write.
    CompleteLocal,
}

/// The actions of one event.
pub type Actions = List<Action, 3>;

listed! {
    /// The conditions that the rows of the table distinguish.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    #[repr(u8)]
    #[allow(missing_docs)]
    pub enum RowCondition {
        Share,
        ShareOrOwn,
        Own,
        OwnNoData,
        Current,
        Flush,
        LocalRead,
        LocalWrite,
        EvictEntry,
        CleanEvict,
        WriteInvalid,
        WriteShared,
        WriteAny,
        Conflict,
        RspInvalid,
        RspShared,
        RspExclusive,
        /// The last outstanding snoop response has arrived.
        SnoopsDone,
        MediumData,
        MediumDirty,
    }
}

impl RowCondition {
    const fn begin(operation: Operation) -> RowCondition {
        match operation {
            Operation::Share => RowCondition::Share,
            Operation::ShareOrOwn => RowCondition::ShareOrOwn,
            Operation::Own => RowCondition::Own,
            Operation::OwnNoData => RowCondition::OwnNoData,
            Operation::Current => RowCondition::Current,
            Operation::Flush => RowCondition::Flush,
            Operation::LocalRead => RowCondition::LocalRead,
            Operation::LocalWrite => RowCondition::LocalWrite,
            Operation::EvictEntry => RowCondition::EvictEntry,
        }
    }
}

/// An action of a row. The step fills in the peer and the holders to snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowAction {
    /// Snoop all holders except for the peer.
    Snoop(Snoop),
    /// Stands for [`Action::ReadMedium`].
    ReadMedium,
    /// Stands for [`Action::WriteMedium`].
    WriteMedium,
    /// Stands for [`Action::WriteLocal`].
    WriteLocal,
    /// Send this response to the peer.
    Respond(S2m),
    /// Stands for [`Action::CompleteLocal`].
    CompleteLocal,
}

/// One row of the transition table.
pub type Row = HomeRow<Phase, RowCondition, RowAction>;

const READ: &[RowAction] = &[RowAction::ReadMedium];
const SNOOP_INV: &[RowAction] = &[RowAction::Snoop(Snoop::Inv)];
const SNOOP_DATA: &[RowAction] = &[RowAction::Snoop(Snoop::Data)];
const SNOOP_CUR: &[RowAction] = &[RowAction::Snoop(Snoop::Cur)];
const CMP: &[RowAction] = &[RowAction::Respond(S2m::Cmp)];
const CMP_E: &[RowAction] = &[RowAction::Respond(S2m::CmpE)];
const WRITE: &[RowAction] = &[RowAction::WriteMedium, RowAction::Respond(S2m::Cmp)];
const WRITE_LOCAL: &[RowAction] = &[RowAction::WriteLocal, RowAction::CompleteLocal];

home_rows! {
    share: Idle, &[RowCondition::Share], NO_OWNER => (Reading Share), Keep, READ;
    share_owned: Idle, &[RowCondition::Share], OWNER => (Snooping Share), Keep, SNOOP_DATA;
    share_or_own: Idle, &[RowCondition::ShareOrOwn], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_owned: Idle, &[RowCondition::ShareOrOwn], OWNER => (Snooping ShareOrOwn), Keep, SNOOP_DATA;
    own: Idle, &[RowCondition::Own], ALONE => (Reading Own), Keep, READ;
    own_held: Idle, &[RowCondition::Own], HELD => (Snooping Own), Keep, SNOOP_INV;
    own_no_data: Idle, &[RowCondition::OwnNoData], ALONE => Idle, SetOwner, CMP_E;
    own_no_data_held: Idle, &[RowCondition::OwnNoData], HELD => (Snooping OwnNoData), Keep, SNOOP_INV;
    current: Idle, &[RowCondition::Current], NO_OWNER => (Reading Current), Keep, READ;
    current_owned: Idle, &[RowCondition::Current], OWNER => (Snooping Current), Keep, SNOOP_CUR;
    flush: Idle, &[RowCondition::Flush], ALONE => Idle, Clear, CMP;
    flush_held: Idle, &[RowCondition::Flush], HELD => (Snooping Flush), Keep, SNOOP_INV;
    local_read: Idle, &[RowCondition::LocalRead], NO_OWNER => (Reading LocalRead), Keep, READ;
    local_read_owned: Idle, &[RowCondition::LocalRead], OWNER => (Snooping LocalRead), Keep, SNOOP_CUR;
    local_write: Idle, &[RowCondition::LocalWrite], ALONE => Idle, Keep, WRITE_LOCAL;
    local_write_held: Idle, &[RowCondition::LocalWrite], HELD => (Snooping LocalWrite), Keep, SNOOP_INV;
    evict_entry: Idle, &[RowCondition::EvictEntry], HELD => (Snooping EvictEntry), Keep, SNOOP_INV;
    clean_evict: Idle, &[RowCondition::CleanEvict], ANY => Same, Remove, CMP;

    write_invalid: Always, &[RowCondition::WriteInvalid], ALONE => Same, Remove, WRITE;
    write_shared: Always, &[RowCondition::WriteShared], ALONE => Same, AddShared, WRITE;
    write_any: Always, &[RowCondition::WriteAny], ALONE => Same, Keep, WRITE;
    conflict: Always, &[RowCondition::Conflict], NO_OWNER => Same, Keep, &[RowAction::Respond(S2m::BiConflictAck)];

    response_invalid: Snooping, &[RowCondition::RspInvalid], NO_OWNER => Same, Remove, &[];
    response_shared: Snooping, &[RowCondition::RspShared], ALONE => Same, AddShared, &[];
    response_exclusive: Snooping, &[RowCondition::RspExclusive], ALONE => Same, Keep, &[];

    share_snooped: (Snooping Share), &[RowCondition::SnoopsDone], NO_OWNER => (Reading Share), Keep, READ;
    share_or_own_snooped: (Snooping ShareOrOwn), &[RowCondition::SnoopsDone], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    own_snooped: (Snooping Own), &[RowCondition::SnoopsDone], ALONE => (Reading Own), Keep, READ;
    own_no_data_snooped: (Snooping OwnNoData), &[RowCondition::SnoopsDone], ALONE => Idle, SetOwner, CMP_E;
    current_snooped: (Snooping Current), &[RowCondition::SnoopsDone], NO_SHARERS => (Reading Current), Keep, READ;
    flush_snooped: (Snooping Flush), &[RowCondition::SnoopsDone], ALONE => Idle, Clear, CMP;
    local_read_snooped: (Snooping LocalRead), &[RowCondition::SnoopsDone], NO_SHARERS => (Reading LocalRead), Keep, READ;
    local_write_snooped: (Snooping LocalWrite), &[RowCondition::SnoopsDone], ALONE => Idle, Keep, WRITE_LOCAL;
    entry_evicted: (Snooping EvictEntry), &[RowCondition::SnoopsDone], ALONE => Idle, Keep, &[];

    share_read: (Reading Share), &[RowCondition::MediumData], NO_OWNER => Idle, AddShared, &[RowAction::Respond(S2m::CmpS), RowAction::Respond(S2m::MemData)];
    share_or_own_read_alone: (Reading ShareOrOwn), &[RowCondition::MediumData], ALONE => Idle, SetOwner, &[RowAction::Respond(S2m::CmpE), RowAction::Respond(S2m::MemData)];
    share_or_own_read_shared: (Reading ShareOrOwn), &[RowCondition::MediumData], SHARERS => Idle, AddShared, &[RowAction::Respond(S2m::CmpS), RowAction::Respond(S2m::MemData)];
    own_read: (Reading Own), &[RowCondition::MediumData], ALONE => Idle, SetOwner, &[RowAction::Respond(S2m::CmpE), RowAction::Respond(S2m::MemData)];
    own_read_dirty: (Reading Own), &[RowCondition::MediumDirty], ALONE => Idle, SetOwner, &[RowAction::Respond(S2m::CmpM), RowAction::Respond(S2m::MemData)];
    current_read: (Reading Current), &[RowCondition::MediumData], ANY => Idle, Keep, &[RowAction::Respond(S2m::Cmp), RowAction::Respond(S2m::MemData)];
    local_read_read: (Reading LocalRead), &[RowCondition::MediumData], ANY => Idle, Keep, &[RowAction::CompleteLocal];
}

/// Number of actions that a row may have. The row for the last response to a snoop is applied in the
/// same step as the row for `SnoopsDone`.
const fn most_actions(on: RowCondition) -> usize {
    match on {
        RowCondition::RspInvalid | RowCondition::RspShared | RowCondition::RspExclusive => 1,
        _ => 2,
    }
}

index!(Phase::COUNT, 3, |row, on| {
    states: Phase::range(row.when),
    views: row.others,
    most: most_actions(on),
});

/// Applies the table to an event. `None` if there is no row: a request, a local access or an
/// eviction must then wait until the line is idle; any other message violates the protocol.
#[inline]
pub fn step(state: LineState, event: Event) -> Option<(LineState, Actions)> {
    step_with(state, event, |row, _| Some(&ROWS[row]))
}

/// As [`step`], with rows looked up through `table`, by the number of the row and the view of the
/// other holders that selected it. The mutation test alters rows in this way.
#[inline]
pub fn step_with<'t>(
    state: LineState,
    event: Event,
    table: impl Fn(usize, Others) -> Option<&'t Row>,
) -> Option<(LineState, Actions)> {
    let (on, peer) = on(&state, event)?;
    let mut actions = Actions::new();
    let mut next = state;
    apply(&mut next, on, peer, &table, &mut actions)?;
    let response = matches!(
        on,
        RowCondition::RspInvalid | RowCondition::RspShared | RowCondition::RspExclusive
    );
    if let (true, Some(peer)) = (response, peer) {
        next.waiting = next.waiting.without(peer);
        if next.waiting.is_empty() {
            let peer = asker(&next);
            apply(
                &mut next,
                RowCondition::SnoopsDone,
                peer,
                &table,
                &mut actions,
            )?;
        }
    }
    Some((next, actions))
}

/// The requester of the operation in flight; `None` for the device's own operations.
#[inline]
fn asker(state: &LineState) -> Option<Peer> {
    let (Phase::Snooping(operation) | Phase::Reading(operation)) = state.phase else {
        return None;
    };
    match operation {
        Operation::LocalRead | Operation::LocalWrite | Operation::EvictEntry => None,
        Operation::Share
        | Operation::ShareOrOwn
        | Operation::Own
        | Operation::OwnNoData
        | Operation::Current
        | Operation::Flush => Some(state.requester),
    }
}

/// The condition that the rows distinguish for an event, and the requester that the event concerns.
#[inline]
fn on(state: &LineState, event: Event) -> Option<(RowCondition, Option<Peer>)> {
    Some(match event {
        Event::Message(peer, message) => {
            let on = match message {
                M2s::MemWr(value) => match value {
                    MetaValue::Invalid => RowCondition::WriteInvalid,
                    MetaValue::Shared => RowCondition::WriteShared,
                    MetaValue::Any => RowCondition::WriteAny,
                },
                M2s::BiConflict => RowCondition::Conflict,
                M2s::BiRsp(kept) => {
                    if !state.waiting.contains(peer) || !may_answer(state.phase, kept) {
                        return None;
                    }
                    match kept {
                        KeptCopy::Invalid => RowCondition::RspInvalid,
                        KeptCopy::Shared => RowCondition::RspShared,
                        KeptCopy::Exclusive => RowCondition::RspExclusive,
                    }
                }
                M2s::MemClnEvct => RowCondition::CleanEvict,
                request => RowCondition::begin(Operation::of(request)?),
            };
            (on, Some(peer))
        }
        Event::LocalRead => (RowCondition::LocalRead, None),
        Event::LocalWrite => (RowCondition::LocalWrite, None),
        Event::EvictEntry => (RowCondition::EvictEntry, None),
        Event::MediumData => (RowCondition::MediumData, asker(state)),
        Event::MediumDirty => (RowCondition::MediumDirty, asker(state)),
    })
}

/// Whether a holder may give this response to the outstanding snoop.
#[inline]
fn may_answer(phase: Phase, kept: KeptCopy) -> bool {
    let Phase::Snooping(operation) = phase else {
        return false;
    };
    kept.is_valid_for(match operation {
        Operation::Share | Operation::ShareOrOwn => Snoop::Data,
        Operation::Current | Operation::LocalRead => Snoop::Cur,
        Operation::Own
        | Operation::OwnNoData
        | Operation::Flush
        | Operation::LocalWrite
        | Operation::EvictEntry => Snoop::Inv,
    })
}

#[inline]
fn apply<'t>(
    line: &mut LineState,
    on: RowCondition,
    peer: Option<Peer>,
    table: &impl Fn(usize, Others) -> Option<&'t Row>,
    actions: &mut Actions,
) -> Option<()> {
    let filter = line.filter;
    let others = filter.others(peer);
    let found = row_of(line.phase.index(), on, others as usize)?;
    let row = table(found, others)?;
    if let Some(phase) = row.to {
        line.requester = match (line.is_busy(), phase) {
            (_, Phase::Idle) => Peer::default(),
            (true, _) => line.requester,
            (false, _) => peer.unwrap_or_default(),
        };
        line.phase = phase;
    }
    line.filter = row.update.of(filter, peer);
    for action in row.actions {
        actions.push(match (*action, peer) {
            (RowAction::Snoop(snoop), peer) => {
                let holders = filter.holders();
                line.waiting = peer.map_or(holders, |peer| holders.without(peer));
                Action::Snoop(snoop, line.waiting)
            }
            (RowAction::ReadMedium, _) => Action::ReadMedium,
            (RowAction::WriteMedium, _) => Action::WriteMedium,
            (RowAction::WriteLocal, _) => Action::WriteLocal,
            (RowAction::CompleteLocal, _) => Action::CompleteLocal,
            (RowAction::Respond(response), Some(peer)) => Action::Respond(peer, response),
            (RowAction::Respond(_), None) => return None,
        });
    }
    Some(())
}
