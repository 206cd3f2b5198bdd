//! The device coherency engine (DCOH): the home of the HDM-DB lines of a device.
//!
//! For each line it knows who may hold a copy (the snoop filter, inclusive: never less than what
//! caches hold) and at most one operation that is under way. A request that meets a busy line
//! waits, which M2S Req may; write-backs, conflicts and snoop responses never do (CXL 3.1, section
//! 3.3.11 and table 3-58).
//!
//! The number of entries, which line to evict and the medium belong to the owner of the table.

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
    /// The device's own agent reads without caching.
    LocalRead,
    /// The device's own agent writes without caching.
    LocalWrite,
    /// The filter gives up the entry of the line.
    EvictEntry,
}

impl Operation {
    /// Every operation, in the order of their numbers.
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

    /// The operation that a request on M2S Req starts. `MemClnEvct` starts none: it is done when
    /// it is accepted.
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

    /// Whether the requester will hold a copy, so that the line needs an entry of the filter
    /// before the operation begins.
    pub const fn allocates(self) -> bool {
        matches!(
            self,
            Operation::Share | Operation::ShareOrOwn | Operation::Own | Operation::OwnNoData
        )
    }
}

/// How far the operation is.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum Phase {
    /// No operation.
    #[default]
    Idle,
    /// Snoops are out.
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

/// All that the DCOH keeps of one line. `filter` is the entry of the snoop filter; the rest is
/// needed only while an operation is under way.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct LineState {
    /// Who may hold a copy.
    pub filter: Filter,
    /// Holders whose snoop responses are missing.
    pub waiting: Peers,
    /// The operation.
    pub phase: Phase,
    /// Who asked for it; of no meaning for the device's own operations.
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

    /// Whether an operation is under way.
    #[inline]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// Whether the line occupies an entry of the filter: it has holders, or will have.
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
    /// The device's own agent wants to read.
    LocalRead,
    /// The device's own agent wants to write.
    LocalWrite,
    /// The filter needs the entry of this line.
    EvictEntry,
    /// The medium has read the line.
    MediumData,
    /// As `MediumData`, but the line was dirty in a cache in front of the medium, which gives it
    /// up unwritten: the requester must hold it modified. Only for a line that is read to be
    /// owned, and only where the host accepts `Cmp-M`.
    MediumDirty,
}

/// What the DCOH does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Snoop these holders.
    Snoop(Snoop, Peers),
    /// Have the medium read the line; it answers with `MediumData`. It returns what the earlier
    /// `WriteMedium` of the line left.
    ReadMedium,
    /// Have the medium write the data of the `MemWr` that was the event.
    WriteMedium,
    /// Have the medium write the data of the device's own agent.
    WriteLocal,
    /// Send this response. `MemData` carries what the medium read.
    Reply(Peer, S2m),
    /// The device's own read or write is done.
    CompleteLocal,
}

/// As many actions as one event can cause.
pub type Actions = List<Action, 3>;

/// What the rows of the table distinguish.
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
    /// The last of the snoop responses has been counted.
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

/// The phases a row applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// This one.
    In(Phase),
    /// Any in which snoops are out.
    Snooping,
    /// All.
    Always,
}

/// What becomes of the filter. "Peer" is the requester that the event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// Nothing.
    Keep,
    /// No holders.
    Clear,
    /// The peer is no holder.
    Remove,
    /// The peer shares the line.
    AddShared,
    /// The peer alone may hold it.
    SetOwner,
}

/// What a row has done, of which the peer and the snooped are filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Do {
    /// Snoop all holders but the peer.
    Snoop(Snoop),
    /// As the actions of the same name.
    ReadMedium,
    /// As the actions of the same name.
    WriteMedium,
    /// As the actions of the same name.
    WriteLocal,
    /// Respond to the peer.
    Reply(S2m),
    /// As the actions of the same name.
    CompleteLocal,
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The phases it applies to.
    pub when: When,
    /// The event it applies to.
    pub on: On,
    /// The others it applies to.
    pub others: &'static [Others],
    /// The phase afterwards; `None` leaves it.
    pub to: Option<Phase>,
    /// What becomes of the filter.
    pub update: Update,
    /// What is done, in order.
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
        /// Every row, in the order of `docs/explain/coherence.md`.
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

/// The row for each phase, event and view of the others, found when the crate is compiled, and
/// proof that no two rows claim the same place and that the actions fit.
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

/// What happens to a line, by the table. `None`: there is no row. A request, a local access or an
/// eviction must then wait until the line is idle; any other message breaks the protocol.
#[inline]
pub fn step(state: LineState, event: Event) -> Option<(LineState, Actions)> {
    step_with(state, event, |row, _| Some(&ROWS[row]))
}

/// As [`step`], with rows looked up through `table`, by number and by which of the row's views of
/// the others it is: what the mutation test alters.
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

/// The requester that the operation under way is for.
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

/// What the rows distinguish about an event, and the requester it is about.
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

/// Whether a holder may give this answer to the snoop that is out.
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
