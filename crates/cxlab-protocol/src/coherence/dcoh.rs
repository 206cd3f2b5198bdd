//! The device coherency engine (DCOH): the home of the HDM-DB lines of a device.
//!
//! For each line, the DCOH stores which requesters may hold a copy and at most one operation that
//! is in flight. The record of holders is the snoop filter, which is inclusive: it never names less
//! than what caches hold. A request to a busy line waits, which M2S Req may; write-backs, conflicts
//! and snoop responses never do (CXL 3.1, section 3.3.11 and table 3-58).
//!
//! The owner of the table decides on the number of entries and on victims, and it has the medium.

use super::fields::MetaValue;
use super::list::List;
use super::message::{Kept, M2s, S2m, Snoop};

pub use super::filter::{Filter, Others, Peer, Peers};

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

impl Operation {
    /// All operations, in the order of the enum.
    pub const ALL: [Operation; 9] = [
        Operation::Share,
        Operation::ShareOrOwn,
        Operation::Own,
        Operation::OwnNoData,
        Operation::Current,
        Operation::Flush,
        Operation::LocalRead,
        Operation::LocalWrite,
        Operation::EvictEntry,
    ];

    /// The operation that a message starts. `MemClnEvct` starts none, because it completes
    /// when it is accepted.
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

    /// Whether the requester will hold a copy, so that the line needs a filter entry before
    /// the operation begins.
    pub const fn allocates(self) -> bool {
        matches!(
            self,
            Operation::Share | Operation::ShareOrOwn | Operation::Own | Operation::OwnNoData
        )
    }
}

/// Progress of the operation on a line.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum Phase {
    /// No operation is in flight.
    #[default]
    Idle,
    /// Responses to snoops are outstanding.
    Snooping(Operation),
    /// The medium reads the line.
    Reading(Operation),
}

impl Phase {
    const COUNT: usize = 1 + 2 * Operation::ALL.len();

    const fn index(self) -> usize {
        match self {
            Phase::Idle => 0,
            Phase::Snooping(operation) => 1 + operation as usize,
            Phase::Reading(operation) => 1 + Operation::ALL.len() + operation as usize,
        }
    }
}

/// The state that the DCOH stores for one line. `filter` is the entry of the snoop filter; the rest
/// is needed only while an operation is in flight.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
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
    /// As `MediumData`, but the line was dirty in a cache in front of the medium, which evicts it
    /// without writing it: the requester must hold it modified. Only for a read for ownership, and
    /// only if the host accepts `Cmp-M`.
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
    Reply(Peer, S2m),
    /// Complete the device's own read or write.
    CompleteLocal,
}

/// The actions of one event.
pub type Actions = List<Action, 3>;

/// The conditions that the rows of the table distinguish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum On {
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

impl On {
    const COUNT: usize = 20;

    const fn begin(operation: Operation) -> On {
        match operation {
            Operation::Share => On::Share,
            Operation::ShareOrOwn => On::ShareOrOwn,
            Operation::Own => On::Own,
            Operation::OwnNoData => On::OwnNoData,
            Operation::Current => On::Current,
            Operation::Flush => On::Flush,
            Operation::LocalRead => On::LocalRead,
            Operation::LocalWrite => On::LocalWrite,
            Operation::EvictEntry => On::EvictEntry,
        }
    }
}

/// The phases that a row applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// This phase alone.
    In(Phase),
    /// Every phase in which responses to snoops are outstanding.
    Snooping,
    /// Every phase, including `Idle`.
    Always,
}

/// The change of the filter entry. "Peer" is the requester that the event concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// The entry does not change.
    Keep,
    /// No requester holds the line.
    Clear,
    /// The peer is removed from the holders.
    Remove,
    /// The peer is added to the sharers.
    AddShared,
    /// Only the peer may hold the line.
    SetOwner,
}

/// An action of a row. The step fills in the peer and the holders to snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Do {
    /// Snoop all holders except for the peer.
    Snoop(Snoop),
    /// Stands for [`Action::ReadMedium`].
    ReadMedium,
    /// Stands for [`Action::WriteMedium`].
    WriteMedium,
    /// Stands for [`Action::WriteLocal`].
    WriteLocal,
    /// Send this response to the peer.
    Reply(S2m),
    /// Stands for [`Action::CompleteLocal`].
    CompleteLocal,
}

/// One row of the transition table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the row.
    pub name: &'static str,
    /// The phases that the row applies to.
    pub when: When,
    /// The condition that the row applies to.
    pub on: On,
    /// The views of the other holders that the row applies to.
    pub others: &'static [Others],
    /// The phase after the step; `None` if it does not change.
    pub to: Option<Phase>,
    /// The change of the filter entry.
    pub update: Update,
    /// The actions, in order.
    pub actions: &'static [Do],
}

use Others::{Owner, Sharers};
use serde::{Deserialize, Serialize};
const ALONE: &[Others] = &[Others::None];
const NO_OWNER: &[Others] = &[Others::None, Sharers];
const NO_SHARERS: &[Others] = &[Others::None, Owner];
const OWNER: &[Others] = &[Owner];
const SHARERS: &[Others] = &[Sharers];
const HELD: &[Others] = &[Sharers, Owner];
const ANY: &[Others] = &[Others::None, Sharers, Owner];
const READ: &[Do] = &[Do::ReadMedium];
const SNOOP_INV: &[Do] = &[Do::Snoop(Snoop::Inv)];
const SNOOP_DATA: &[Do] = &[Do::Snoop(Snoop::Data)];
const SNOOP_CUR: &[Do] = &[Do::Snoop(Snoop::Cur)];
const CMP: &[Do] = &[Do::Reply(S2m::Cmp)];
const CMP_E: &[Do] = &[Do::Reply(S2m::CmpE)];
const WRITE: &[Do] = &[Do::WriteMedium, Do::Reply(S2m::Cmp)];
const WRITE_LOCAL: &[Do] = &[Do::WriteLocal, Do::CompleteLocal];

macro_rules! when {
    (Idle) => {
        When::In(Phase::Idle)
    };
    (Snooping) => {
        When::Snooping
    };
    (Always) => {
        When::Always
    };
    ((Snooping $operation:ident)) => {
        When::In(Phase::Snooping(Operation::$operation))
    };
    ((Reading $operation:ident)) => {
        When::In(Phase::Reading(Operation::$operation))
    };
}

macro_rules! to {
    (Same) => {
        None
    };
    (Idle) => {
        Some(Phase::Idle)
    };
    ((Snooping $operation:ident)) => {
        Some(Phase::Snooping(Operation::$operation))
    };
    ((Reading $operation:ident)) => {
        Some(Phase::Reading(Operation::$operation))
    };
}

macro_rules! rows {
    ($($name:ident: $when:tt, $on:ident, $others:expr => $to:tt, $update:ident, $actions:expr;)*) => {
        /// All rows, in the order of `docs/reference/coherence-tables.md`.
        pub const ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            when: when!($when),
            on: On::$on,
            others: $others,
            to: to!($to),
            update: Update::$update,
            actions: $actions,
        },)*];
    };
}

rows! {
    share: Idle, Share, NO_OWNER => (Reading Share), Keep, READ;
    share_owned: Idle, Share, OWNER => (Snooping Share), Keep, SNOOP_DATA;
    share_or_own: Idle, ShareOrOwn, NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_owned: Idle, ShareOrOwn, OWNER => (Snooping ShareOrOwn), Keep, SNOOP_DATA;
    own: Idle, Own, ALONE => (Reading Own), Keep, READ;
    own_held: Idle, Own, HELD => (Snooping Own), Keep, SNOOP_INV;
    own_no_data: Idle, OwnNoData, ALONE => Idle, SetOwner, CMP_E;
    own_no_data_held: Idle, OwnNoData, HELD => (Snooping OwnNoData), Keep, SNOOP_INV;
    current: Idle, Current, NO_OWNER => (Reading Current), Keep, READ;
    current_owned: Idle, Current, OWNER => (Snooping Current), Keep, SNOOP_CUR;
    flush: Idle, Flush, ALONE => Idle, Clear, CMP;
    flush_held: Idle, Flush, HELD => (Snooping Flush), Keep, SNOOP_INV;
    local_read: Idle, LocalRead, NO_OWNER => (Reading LocalRead), Keep, READ;
    local_read_owned: Idle, LocalRead, OWNER => (Snooping LocalRead), Keep, SNOOP_CUR;
    local_write: Idle, LocalWrite, ALONE => Idle, Keep, WRITE_LOCAL;
    local_write_held: Idle, LocalWrite, HELD => (Snooping LocalWrite), Keep, SNOOP_INV;
    evict_entry: Idle, EvictEntry, HELD => (Snooping EvictEntry), Keep, SNOOP_INV;
    clean_evict: Idle, CleanEvict, ANY => Same, Remove, CMP;

    write_invalid: Always, WriteInvalid, ALONE => Same, Remove, WRITE;
    write_shared: Always, WriteShared, ALONE => Same, AddShared, WRITE;
    write_any: Always, WriteAny, ALONE => Same, Keep, WRITE;
    conflict: Always, Conflict, NO_OWNER => Same, Keep, &[Do::Reply(S2m::BiConflictAck)];

    response_invalid: Snooping, RspInvalid, NO_OWNER => Same, Remove, &[];
    response_shared: Snooping, RspShared, ALONE => Same, AddShared, &[];
    response_exclusive: Snooping, RspExclusive, ALONE => Same, Keep, &[];

    share_snooped: (Snooping Share), SnoopsDone, NO_OWNER => (Reading Share), Keep, READ;
    share_or_own_snooped: (Snooping ShareOrOwn), SnoopsDone, NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    own_snooped: (Snooping Own), SnoopsDone, ALONE => (Reading Own), Keep, READ;
    own_no_data_snooped: (Snooping OwnNoData), SnoopsDone, ALONE => Idle, SetOwner, CMP_E;
    current_snooped: (Snooping Current), SnoopsDone, NO_SHARERS => (Reading Current), Keep, READ;
    flush_snooped: (Snooping Flush), SnoopsDone, ALONE => Idle, Clear, CMP;
    local_read_snooped: (Snooping LocalRead), SnoopsDone, NO_SHARERS => (Reading LocalRead), Keep, READ;
    local_write_snooped: (Snooping LocalWrite), SnoopsDone, ALONE => Idle, Keep, WRITE_LOCAL;
    entry_evicted: (Snooping EvictEntry), SnoopsDone, ALONE => Idle, Keep, &[];

    share_read: (Reading Share), MediumData, NO_OWNER => Idle, AddShared, &[Do::Reply(S2m::CmpS), Do::Reply(S2m::MemData)];
    share_or_own_read_alone: (Reading ShareOrOwn), MediumData, ALONE => Idle, SetOwner, &[Do::Reply(S2m::CmpE), Do::Reply(S2m::MemData)];
    share_or_own_read_shared: (Reading ShareOrOwn), MediumData, SHARERS => Idle, AddShared, &[Do::Reply(S2m::CmpS), Do::Reply(S2m::MemData)];
    own_read: (Reading Own), MediumData, ALONE => Idle, SetOwner, &[Do::Reply(S2m::CmpE), Do::Reply(S2m::MemData)];
    own_read_dirty: (Reading Own), MediumDirty, ALONE => Idle, SetOwner, &[Do::Reply(S2m::CmpM), Do::Reply(S2m::MemData)];
    current_read: (Reading Current), MediumData, ANY => Idle, Keep, &[Do::Reply(S2m::Cmp), Do::Reply(S2m::MemData)];
    local_read_read: (Reading LocalRead), MediumData, ANY => Idle, Keep, &[Do::CompleteLocal];
}

const NO_ROW: u8 = u8::MAX;
type Index = [[[u8; 3]; On::COUNT]; Phase::COUNT];

/// The row for each phase, condition and view of the other holders, computed at compile time. The
/// computation also proves that no two rows claim the same combination and that the actions fit.
static INDEX: Index = {
    let mut index = [[[NO_ROW; 3]; On::COUNT]; Phase::COUNT];
    let mut r = 0;
    while r < ROWS.len() {
        let row = &ROWS[r];
        let follows = matches!(row.on, On::RspInvalid | On::RspShared | On::RspExclusive);
        assert!(row.actions.len() <= if follows { 1 } else { 2 });
        let (first, last) = match row.when {
            When::In(phase) => (phase.index(), phase.index()),
            When::Snooping => (1, Operation::ALL.len()),
            When::Always => (0, Phase::COUNT - 1),
        };
        let mut phase = first;
        while phase <= last {
            let mut i = 0;
            while i < row.others.len() {
                let cell = &mut index[phase][row.on as usize][row.others[i] as usize];
                assert!(*cell == NO_ROW);
                *cell = r as u8;
                i += 1;
            }
            phase += 1;
        }
        r += 1;
    }
    index
};

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
    let response = matches!(on, On::RspInvalid | On::RspShared | On::RspExclusive);
    if let (true, Some(peer)) = (response, peer) {
        next.waiting = next.waiting.without(peer);
        if next.waiting.is_empty() {
            let peer = asker(&next);
            apply(&mut next, On::SnoopsDone, peer, &table, &mut actions)?;
        }
    }
    Some((next, actions))
}

/// The requester of the operation in flight; `None` for the device's own operations.
#[inline]
fn asker(state: &LineState) -> Option<Peer> {
    match state.phase {
        Phase::Snooping(operation) | Phase::Reading(operation) => match operation {
            Operation::LocalRead | Operation::LocalWrite | Operation::EvictEntry => None,
            Operation::Share
            | Operation::ShareOrOwn
            | Operation::Own
            | Operation::OwnNoData
            | Operation::Current
            | Operation::Flush => Some(state.requester),
        },
        Phase::Idle => None,
    }
}

/// The condition that the rows distinguish for an event, and the requester that the event concerns.
#[inline]
fn on(state: &LineState, event: Event) -> Option<(On, Option<Peer>)> {
    Some(match event {
        Event::Message(peer, message) => {
            let on = match message {
                M2s::MemWr(value) => match value {
                    MetaValue::Invalid => On::WriteInvalid,
                    MetaValue::Shared => On::WriteShared,
                    MetaValue::Any => On::WriteAny,
                },
                M2s::BiConflict => On::Conflict,
                M2s::BiRsp(kept) => {
                    if !state.waiting.contains(peer) || !may_answer(state.phase, kept) {
                        return None;
                    }
                    match kept {
                        Kept::Invalid => On::RspInvalid,
                        Kept::Shared => On::RspShared,
                        Kept::Exclusive => On::RspExclusive,
                    }
                }
                M2s::MemClnEvct => On::CleanEvict,
                request => On::begin(Operation::of(request)?),
            };
            (on, Some(peer))
        }
        Event::LocalRead => (On::LocalRead, None),
        Event::LocalWrite => (On::LocalWrite, None),
        Event::EvictEntry => (On::EvictEntry, None),
        Event::MediumData => (On::MediumData, asker(state)),
        Event::MediumDirty => (On::MediumDirty, asker(state)),
    })
}

/// Whether a holder may give this response to the outstanding snoop.
#[inline]
fn may_answer(phase: Phase, kept: Kept) -> bool {
    let Phase::Snooping(operation) = phase else {
        return false;
    };
    kept.answers(match operation {
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
    on: On,
    peer: Option<Peer>,
    table: &impl Fn(usize, Others) -> Option<&'t Row>,
    actions: &mut Actions,
) -> Option<()> {
    let filter = line.filter;
    let others = filter.others(peer);
    let found = INDEX[line.phase.index()][on as usize][others as usize];
    if found == NO_ROW {
        return None;
    }
    let row = table(usize::from(found), others)?;
    if let Some(phase) = row.to {
        line.requester = match (line.is_busy(), phase) {
            (_, Phase::Idle) => Peer::default(),
            (true, _) => line.requester,
            (false, _) => peer.unwrap_or_default(),
        };
        line.phase = phase;
    }
    line.filter = match (row.update, peer) {
        (Update::Clear, _) => Filter::Invalid,
        (Update::Remove, Some(peer)) => filter.without(peer),
        (Update::AddShared, Some(peer)) => filter.shared_with(peer),
        (Update::SetOwner, Some(peer)) => Filter::Any(peer),
        _ => filter,
    };
    for action in row.actions {
        actions.push(match (*action, peer) {
            (Do::Snoop(snoop), peer) => {
                let holders = filter.holders();
                line.waiting = peer.map_or(holders, |peer| holders.without(peer));
                Action::Snoop(snoop, line.waiting)
            }
            (Do::ReadMedium, _) => Action::ReadMedium,
            (Do::WriteMedium, _) => Action::WriteMedium,
            (Do::WriteLocal, _) => Action::WriteLocal,
            (Do::CompleteLocal, _) => Action::CompleteLocal,
            (Do::Reply(reply), Some(peer)) => Action::Reply(peer, reply),
            (Do::Reply(_), None) => return None,
        });
    }
    Some(())
}
