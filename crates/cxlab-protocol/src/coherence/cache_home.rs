//! The home agent of a host: which caches may hold a line of the host's memory, and what the
//! home does about it.
//!
//! The holders are the devices that cache over CXL.cache and the host's own cores. The cores, with
//! their private caches and the last-level cache, count as one more holder, [`CORES`]. The host
//! snoops its cores by its own means: the table only requires the snoop ([`Action::SnoopCores`])
//! and receives the response as an event ([`Event::CoresAnswered`]). The directory is stored in the
//! home and never names less than what caches hold (CXL 3.1, section 3.2.5).
//!
//! A line has at most one operation in flight. The rules between messages of one line follow from
//! that: no `GO` while a snoop is outstanding, no snoop while data are pulled, one snoop per line
//! and device at a time (sections 3.2.5.2 to 3.2.5.5).
//!
//! An eviction of a line that the directory does not give to the device any more was overtaken by a
//! snoop: the home pulls its data, which are marked Bogus, and drops them.

use serde::{Deserialize, Serialize};

use super::cache_message::{Answer, Reply, Request};
use super::fields::GoState;
use super::list::List;
use super::message::Snoop;

use super::table::views::{ALONE, ANY, HELD, NO_OWNER, NO_SHARERS, OWNER, SHARERS};
use super::table::{HomeRow, home_rows, index, listed, phases};

pub use super::filter::{CORES, Filter, Others, Peer, Peers, Update};
pub use super::table::When;

listed! {
    /// An operation on a line.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
    #[repr(u8)]
    pub enum Operation {
        /// `RdShared`.
        Share,
        /// `RdAny`, and a core's load.
        ShareOrOwn,
        /// `RdOwn`, and a core's store.
        Own,
        /// `RdOwnNoData`.
        OwnNoData,
        /// `RdCurr`.
        Current,
        /// `CLFlush`.
        Flush,
        /// `ItoMWr`, and `WrCur` of a line that the cores had: into the last-level cache.
        WriteLlc,
        /// `WrCur`, into memory if the cores do not have the line.
        WriteCurrent,
        /// `WrInv`.
        WriteThrough,
        /// `WOWrInv` and `WOWrInvF`.
        WriteWeakly,
        /// `DirtyEvict`.
        EvictDirty,
        /// `DirtyEvict` of a push: into the last-level cache.
        EvictPush,
        /// `CleanEvict` whose data the last-level cache takes.
        EvictClean,
        /// An eviction that a snoop overtook.
        EvictStale,
        /// The directory evicts its entry of the line.
        EvictEntry,
        /// A write to an address without memory.
        WriteMissing,
        /// A weakly ordered write to an address without memory.
        WriteMissingWeakly,
    }
}

impl Operation {
    /// The snoop that the operation sends to the other holders.
    #[inline]
    const fn snoop(self) -> Snoop {
        match self {
            Operation::Share | Operation::ShareOrOwn => Snoop::Data,
            Operation::Current => Snoop::Cur,
            _ => Snoop::Inv,
        }
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
    /// Memory, or the last-level cache, reads the line.
    Reading(Operation),
    /// The home waits for the requester's data.
    Pulling(Operation),
    /// Memory writes the line.
    Writing(Operation),
}

phases! { Snooping Reading Pulling Writing }

/// The data that snoops have brought into the home's buffer.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
#[repr(u8)]
pub enum Collected {
    /// Snoops have brought no data.
    #[default]
    Nothing,
    /// The line from the cores, equal to memory.
    CoresClean,
    /// The line from the cores; memory has an older value.
    CoresDirty,
    /// The line from a device; memory has an older value.
    DeviceDirty,
}

/// Which part of a device's response to a snoop, the message or its data, is outstanding.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum Forward {
    /// Neither, or both have arrived.
    #[default]
    Nothing,
    /// The response has arrived, the data have not.
    AwaitData,
    /// The data have arrived, the response has not.
    AwaitAnswer,
}

/// The state that the home stores for one line. `filter` is the entry of the directory; the rest is
/// needed only while an operation is in flight.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct LineState {
    /// The holders that may have a copy.
    pub filter: Filter,
    /// Holders whose responses are outstanding.
    pub waiting: Peers,
    /// Progress of the operation.
    pub phase: Phase,
    /// Requester of the operation; without meaning for `EvictEntry`.
    pub requester: Peer,
    /// The data that snoops have brought.
    pub collected: Collected,
    /// Response or data still outstanding from a device that had the line modified.
    pub forward: Forward,
}

impl LineState {
    /// A line without an operation.
    pub const fn idle(filter: Filter) -> LineState {
        LineState {
            filter,
            waiting: Peers::NONE,
            phase: Phase::Idle,
            requester: Peer(0),
            collected: Collected::Nothing,
            forward: Forward::Nothing,
        }
    }

    /// Whether an operation is in flight.
    #[inline]
    pub const fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }
}

/// The result of a snoop of the cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum Found {
    /// The cores do not have the line, or do not have it any more.
    Nothing,
    /// The line, equal to memory.
    Clean,
    /// The line; memory has an older value.
    Dirty,
}

/// What happens to a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// A request arrived.
    Request(Peer, Request),
    /// A request arrived for an address without memory. The home responds with an error and changes
    /// nothing. Evictions have no row, because no device is ever given such a line.
    Missing(Peer, Request),
    /// As a request `CleanEvict`, to a home that wants the data in its last-level cache.
    CleanEvictWanted(Peer),
    /// The device sent `CacheFlushed`: one event for each line that the directory gives to the
    /// device. When all are done, the owner of the table sends the `GO-I`.
    CacheFlushed(Peer),
    /// A device answered a snoop.
    Answer(Peer, Answer),
    /// Data of a snooped device arrived.
    SnoopData,
    /// Pulled data arrived; the value says whether they are marked Bogus.
    PulledData(bool),
    /// A core misses and wants to load the line.
    CoreRead,
    /// A core wants to store and does not have the only copy.
    CoreOwn,
    /// The last-level cache writes a modified line back and drops it.
    CoreWriteBack,
    /// The cores have executed `SnoopCores`; the value says what they had.
    CoresAnswered(Found),
    /// Memory, or the last-level cache, has read the line.
    ReadDone,
    /// Memory has written the line, and the write is visible to all.
    Written,
    /// The directory needs the entry of this line for another line.
    EvictEntry,
}

/// What the home does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Snoop these devices.
    Snoop(Snoop, Peers),
    /// Make the cores, and the last-level cache, execute this snoop.
    SnoopCores(Snoop),
    /// Make memory read the line; `ReadDone` follows. The read returns the value of the earlier
    /// `WriteMemory` of the line.
    ReadMemory,
    /// As `ReadMemory`, but the last-level cache may have the line, which is then equal to memory.
    ReadLlc,
    /// Make memory write the home's buffer. `Written` is reported only if the phase is then `Writing`.
    WriteMemory,
    /// Put the home's buffer into the last-level cache, modified.
    WriteLlc,
    /// Put the home's buffer into the last-level cache, exclusive and clean.
    FillLlc,
    /// Send this reply to a device. `Data` carries the home's buffer.
    Reply(Peer, Reply),
    /// Give the cores the line in this state, with the data in the home's buffer.
    GrantCores(GoState),
}

/// The actions of one event.
pub type Actions = List<Action, 3>;

listed! {
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
        WriteLlc,
        WriteCurrent,
        WriteThrough,
        WriteWeakly,
        /// `DirtyEvict` of a line that the directory gives to the device alone.
        EvictDirty,
        /// `DirtyEvict` of a push, of a line that the directory gives to the device alone.
        EvictPush,
        /// `CleanEvict` of a line that the directory gives to the device alone.
        EvictClean,
        /// [`Event::CleanEvictWanted`] of a line that the directory gives to the device alone.
        EvictCleanWanted,
        /// `DirtyEvict` of a line that the directory does not give to the device alone.
        EvictDirtyStale,
        /// `CleanEvict` of a line that the directory does not give to the device alone.
        EvictCleanStale,
        EvictCleanStaleWanted,
        EvictNoData,
        CacheFlushed,
        EvictEntry,
        CoreWriteBack,
        RspGone,
        RspShared,
        RspKept,
        /// All responses and data have arrived. This condition and the next three say what they brought.
        Nothing,
        CoresClean,
        CoresDirty,
        DeviceDirty,
        ReadDone,
        Data,
        BogusData,
        Written,
        MissingRead,
        MissingCurrent,
        MissingOwn,
        MissingWrite,
        MissingWriteWeakly,
    }
}

impl On {
    const fn collected(collected: Collected) -> On {
        match collected {
            Collected::Nothing => On::Nothing,
            Collected::CoresClean => On::CoresClean,
            Collected::CoresDirty => On::CoresDirty,
            Collected::DeviceDirty => On::DeviceDirty,
        }
    }
}

/// An action of a row. The step fills in the peer and the holders to snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Do {
    /// Snoop all holders except for the peer, the cores by the host's own means.
    Snoop,
    /// `ReadLlc` if the cores may hold the line, else `ReadMemory`.
    Read,
    /// Stands for [`Action::WriteMemory`].
    WriteMemory,
    /// Stands for [`Action::WriteLlc`].
    WriteLlc,
    /// Stands for [`Action::FillLlc`].
    FillLlc,
    /// Reply to the peer. The cores get `Go` as `GrantCores`, and no separate `Data`.
    Reply(Reply),
}

/// One row of the transition table.
pub type Row = HomeRow<Phase, On, Do>;

const READ: &[Do] = &[Do::Read];
const SNOOP: &[Do] = &[Do::Snoop];
const GO_I: &[Do] = &[Do::Reply(Reply::Go(GoState::Invalid))];
const GO_E: &[Do] = &[Do::Reply(Reply::Go(GoState::Exclusive))];
const GO_S_DATA: &[Do] = &[
    Do::Reply(Reply::Go(GoState::Shared)),
    Do::Reply(Reply::Data),
];
const GO_E_DATA: &[Do] = &[
    Do::Reply(Reply::Go(GoState::Exclusive)),
    Do::Reply(Reply::Data),
];
const GO_M_DATA: &[Do] = &[
    Do::Reply(Reply::Go(GoState::Modified)),
    Do::Reply(Reply::Data),
];
const WRITE_GO_S_DATA: &[Do] = &[
    Do::WriteMemory,
    Do::Reply(Reply::Go(GoState::Shared)),
    Do::Reply(Reply::Data),
];
const WRITE_GO_E: &[Do] = &[Do::WriteMemory, Do::Reply(Reply::Go(GoState::Exclusive))];
const DATA: &[Do] = &[Do::Reply(Reply::Data)];
const WRITE: &[Do] = &[Do::WriteMemory];
const PULL: &[Do] = &[Do::Reply(Reply::GoWritePull)];
const PULL_FIRST: &[Do] = &[Do::Reply(Reply::WritePull)];
const PULL_FAST: &[Do] = &[Do::Reply(Reply::FastGoWritePull)];
const WRITE_PULL_FIRST: &[Do] = &[Do::WriteMemory, Do::Reply(Reply::WritePull)];
const WRITE_PULL_FAST: &[Do] = &[Do::WriteMemory, Do::Reply(Reply::FastGoWritePull)];
const GO_ERR: &[Do] = &[Do::Reply(Reply::Go(GoState::Error))];
const GO_ERR_DATA: &[Do] = &[
    Do::Reply(Reply::Go(GoState::Error)),
    Do::Reply(Reply::ErrorData),
];
const ERROR_DATA: &[Do] = &[Do::Reply(Reply::ErrorData)];
const PULL_ERR: &[Do] = &[Do::Reply(Reply::GoErrWritePull)];
const DROP: &[Do] = &[Do::Reply(Reply::GoWritePullDrop)];
const NOT_DIRTY: &[On] = &[On::Nothing, On::CoresClean];
const DIRTY: &[On] = &[On::CoresDirty, On::DeviceDirty];
const WHATEVER: &[On] = &[On::Nothing, On::CoresClean, On::CoresDirty, On::DeviceDirty];

home_rows! {
    share: Idle, &[On::Share], NO_OWNER => (Reading Share), Keep, READ;
    share_owned: Idle, &[On::Share], OWNER => (Snooping Share), Keep, SNOOP;
    share_or_own: Idle, &[On::ShareOrOwn], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_owned: Idle, &[On::ShareOrOwn], OWNER => (Snooping ShareOrOwn), Keep, SNOOP;
    own: Idle, &[On::Own], ALONE => (Reading Own), Keep, READ;
    own_held: Idle, &[On::Own], HELD => (Snooping Own), Keep, SNOOP;
    own_no_data: Idle, &[On::OwnNoData], ALONE => Idle, SetOwner, GO_E;
    own_no_data_held: Idle, &[On::OwnNoData], HELD => (Snooping OwnNoData), Keep, SNOOP;
    current: Idle, &[On::Current], NO_OWNER => (Reading Current), Keep, READ;
    current_owned: Idle, &[On::Current], OWNER => (Snooping Current), Keep, SNOOP;
    flush: Idle, &[On::Flush], ALONE => Idle, Clear, GO_I;
    flush_held: Idle, &[On::Flush], HELD => (Snooping Flush), Keep, SNOOP;
    write_llc: Idle, &[On::WriteLlc], ALONE => (Pulling WriteLlc), Keep, PULL;
    write_llc_held: Idle, &[On::WriteLlc], HELD => (Snooping WriteLlc), Keep, SNOOP;
    write_current: Idle, &[On::WriteCurrent], ALONE => (Pulling WriteCurrent), Keep, PULL;
    write_current_held: Idle, &[On::WriteCurrent], HELD => (Snooping WriteCurrent), Keep, SNOOP;
    write_through: Idle, &[On::WriteThrough], ALONE => (Pulling WriteThrough), Keep, PULL_FIRST;
    write_through_held: Idle, &[On::WriteThrough], HELD => (Snooping WriteThrough), Keep, SNOOP;
    write_weakly: Idle, &[On::WriteWeakly], ALONE => (Pulling WriteWeakly), Keep, PULL_FAST;
    write_weakly_held: Idle, &[On::WriteWeakly], HELD => (Snooping WriteWeakly), Keep, SNOOP;
    evict_dirty: Idle, &[On::EvictDirty], ALONE => (Pulling EvictDirty), Keep, PULL;
    evict_push: Idle, &[On::EvictPush], ALONE => (Pulling EvictPush), Keep, PULL;
    evict_clean: Idle, &[On::EvictClean], ALONE => Idle, Remove, DROP;
    evict_clean_wanted: Idle, &[On::EvictCleanWanted], ALONE => (Pulling EvictClean), Keep, PULL;
    evict_dirty_stale: Idle, &[On::EvictDirtyStale, On::EvictCleanStaleWanted], ANY => (Pulling EvictStale), Keep, PULL;
    evict_clean_stale: Idle, &[On::EvictCleanStale], ANY => Idle, Keep, DROP;
    evict_no_data: Idle, &[On::EvictNoData], ANY => Idle, Remove, GO_I;
    cache_flushed: Idle, &[On::CacheFlushed], ANY => Idle, Remove, &[];
    evict_entry: Idle, &[On::EvictEntry], HELD => (Snooping EvictEntry), Keep, SNOOP;
    missing_read: Idle, &[On::MissingRead], ALONE => Idle, Keep, GO_ERR_DATA;
    missing_current: Idle, &[On::MissingCurrent], ALONE => Idle, Keep, ERROR_DATA;
    missing_own: Idle, &[On::MissingOwn], ALONE => Idle, Keep, GO_ERR;
    missing_write: Idle, &[On::MissingWrite], ALONE => (Pulling WriteMissing), Keep, PULL_ERR;
    missing_write_weakly: Idle, &[On::MissingWriteWeakly], ALONE => (Pulling WriteMissingWeakly), Keep, PULL_ERR;
    core_write_back: Idle, &[On::CoreWriteBack], ALONE => Idle, Remove, WRITE;

    answer_gone: Snooping, &[On::RspGone], NO_OWNER => Same, Remove, &[];
    answer_shared: Snooping, &[On::RspShared], ALONE => Same, AddShared, &[];
    answer_kept: Snooping, &[On::RspKept], ALONE => Same, Keep, &[];

    share_missed: (Snooping Share), &[On::Nothing], NO_OWNER => (Reading Share), Keep, READ;
    share_snooped: (Snooping Share), &[On::CoresClean], SHARERS => Idle, AddShared, GO_S_DATA;
    share_snooped_dirty: (Snooping Share), DIRTY, SHARERS => Idle, AddShared, WRITE_GO_S_DATA;
    share_given_up: (Snooping Share), &[On::DeviceDirty], ALONE => Idle, AddShared, WRITE_GO_S_DATA;
    share_or_own_missed: (Snooping ShareOrOwn), &[On::Nothing], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_snooped: (Snooping ShareOrOwn), &[On::CoresClean], SHARERS => Idle, AddShared, GO_S_DATA;
    share_or_own_snooped_dirty: (Snooping ShareOrOwn), DIRTY, SHARERS => Idle, AddShared, WRITE_GO_S_DATA;
    share_or_own_given_up: (Snooping ShareOrOwn), &[On::DeviceDirty], ALONE => Idle, SetOwner, GO_M_DATA;
    own_missed: (Snooping Own), &[On::Nothing], ALONE => (Reading Own), Keep, READ;
    own_snooped: (Snooping Own), &[On::CoresClean], ALONE => Idle, SetOwner, GO_E_DATA;
    own_snooped_dirty: (Snooping Own), DIRTY, ALONE => Idle, SetOwner, GO_M_DATA;
    own_no_data_snooped: (Snooping OwnNoData), NOT_DIRTY, ALONE => Idle, SetOwner, GO_E;
    own_no_data_snooped_dirty: (Snooping OwnNoData), DIRTY, ALONE => Idle, SetOwner, WRITE_GO_E;
    current_missed: (Snooping Current), &[On::Nothing], NO_SHARERS => (Reading Current), Keep, READ;
    current_snooped: (Snooping Current), &[On::CoresClean, On::CoresDirty, On::DeviceDirty], OWNER => Idle, Keep, DATA;
    flush_snooped: (Snooping Flush), NOT_DIRTY, ALONE => Idle, Clear, GO_I;
    flush_snooped_dirty: (Snooping Flush), DIRTY, ALONE => (Writing Flush), Keep, WRITE;
    write_llc_snooped: (Snooping WriteLlc), WHATEVER, ALONE => (Pulling WriteLlc), Keep, PULL;
    write_current_missed: (Snooping WriteCurrent), &[On::Nothing, On::DeviceDirty], ALONE => (Pulling WriteCurrent), Keep, PULL;
    write_current_hit: (Snooping WriteCurrent), &[On::CoresClean, On::CoresDirty], ALONE => (Pulling WriteLlc), Keep, PULL;
    write_through_snooped: (Snooping WriteThrough), NOT_DIRTY, ALONE => (Pulling WriteThrough), Keep, PULL_FIRST;
    write_through_snooped_dirty: (Snooping WriteThrough), DIRTY, ALONE => (Pulling WriteThrough), Keep, WRITE_PULL_FIRST;
    write_weakly_snooped: (Snooping WriteWeakly), NOT_DIRTY, ALONE => (Pulling WriteWeakly), Keep, PULL_FAST;
    write_weakly_snooped_dirty: (Snooping WriteWeakly), DIRTY, ALONE => (Pulling WriteWeakly), Keep, WRITE_PULL_FAST;
    entry_evicted: (Snooping EvictEntry), NOT_DIRTY, ALONE => Idle, Keep, &[];
    entry_evicted_dirty: (Snooping EvictEntry), DIRTY, ALONE => Idle, Keep, WRITE;

    share_read: (Reading Share), &[On::ReadDone], NO_OWNER => Idle, AddShared, GO_S_DATA;
    share_or_own_read_alone: (Reading ShareOrOwn), &[On::ReadDone], ALONE => Idle, SetOwner, GO_E_DATA;
    share_or_own_read_shared: (Reading ShareOrOwn), &[On::ReadDone], SHARERS => Idle, AddShared, GO_S_DATA;
    own_read: (Reading Own), &[On::ReadDone], ALONE => Idle, SetOwner, GO_E_DATA;
    current_read: (Reading Current), &[On::ReadDone], ANY => Idle, Keep, DATA;

    write_llc_data: (Pulling WriteLlc), &[On::Data], ALONE => Idle, SetCores, &[Do::WriteLlc];
    write_current_data: (Pulling WriteCurrent), &[On::Data], ALONE => Idle, Clear, WRITE;
    write_through_data: (Pulling WriteThrough), &[On::Data], ALONE => (Writing WriteThrough), Clear, WRITE;
    write_weakly_data: (Pulling WriteWeakly), &[On::Data], ALONE => (Writing WriteWeakly), Clear, WRITE;
    evict_dirty_data: (Pulling EvictDirty), &[On::Data], ALONE => Idle, Remove, WRITE;
    evict_push_data: (Pulling EvictPush), &[On::Data], ALONE => Idle, SetCores, &[Do::WriteLlc];
    evict_clean_data: (Pulling EvictClean), &[On::Data], ALONE => Idle, SetCores, &[Do::FillLlc];
    evict_stale_data: (Pulling EvictStale), &[On::BogusData], ANY => Idle, Keep, &[];
    missing_write_dropped: (Pulling WriteMissing), &[On::Data], ALONE => Idle, Keep, &[];
    missing_write_weakly_dropped: (Pulling WriteMissingWeakly), &[On::Data], ALONE => Idle, Keep, &[Do::Reply(Reply::ExtCmp)];
    flush_written: (Writing Flush), &[On::Written], ALONE => Idle, Keep, GO_I;
    write_through_written: (Writing WriteThrough), &[On::Written], ALONE => Idle, Keep, GO_I;
    write_weakly_written: (Writing WriteWeakly), &[On::Written], ALONE => Idle, Keep, &[Do::Reply(Reply::ExtCmp)];
}

/// Number of actions that a row may have. The row for the last response to a snoop is applied in the
/// same step as the row for what the snoops have brought.
const fn most_actions(when: When<Phase>) -> usize {
    match when {
        When::Snooping => 0,
        _ => 3,
    }
}

index!(Phase::COUNT, 3, |row, _on| {
    states: Phase::range(row.when),
    views: row.others,
    most: most_actions(row.when),
});

/// Applies the table to an event. `None` if there is no row: a request, an access of a core or an
/// eviction must then wait until the line is idle; any other message violates the protocol.
#[inline]
pub fn step(state: LineState, event: Event) -> Option<(LineState, Actions)> {
    step_with(state, event, |row, _, _| Some(&ROWS[row]))
}

/// As [`step`], with rows looked up through `table`, by the number of the row and the condition and
/// view of the other holders that selected it. The mutation test alters rows in this way.
#[inline]
pub fn step_with<'t>(
    state: LineState,
    event: Event,
    table: impl Fn(usize, On, Others) -> Option<&'t Row>,
) -> Option<(LineState, Actions)> {
    let mut next = state;
    let mut actions = Actions::new();
    if let Event::SnoopData = event {
        take_data(&mut next)?;
    } else {
        let (on, peer) = on(&state, event)?;
        apply(&mut next, on, peer, &table, &mut actions)?;
        match (event, peer) {
            (Event::Answer(_, answer), Some(peer)) => take_answer(&mut next, peer, answer)?,
            (Event::CoresAnswered(found), _) => {
                next.waiting = next.waiting.without(CORES);
                next.collected = match found {
                    Found::Nothing => next.collected,
                    Found::Clean => Collected::CoresClean,
                    Found::Dirty => Collected::CoresDirty,
                };
            }
            _ => return Some((next, actions)),
        }
    }
    if next.waiting.is_empty() && next.forward == Forward::Nothing {
        let on = On::collected(next.collected);
        let peer = asker(&next);
        apply(&mut next, on, peer, &table, &mut actions)?;
        next.collected = Collected::Nothing;
    }
    Some((next, actions))
}

/// Takes the data of a snooped device, which arrive before or after its response.
#[inline]
fn take_data(state: &mut LineState) -> Option<()> {
    match (state.phase, state.forward) {
        (Phase::Snooping(_), Forward::Nothing) if !state.waiting.is_empty() => {
            state.forward = Forward::AwaitAnswer;
        }
        (Phase::Snooping(_), Forward::AwaitData) => {
            state.forward = Forward::Nothing;
            state.collected = Collected::DeviceDirty;
        }
        _ => return None,
    }
    Some(())
}

/// Takes the response of a snooped device, which arrives before or after its data, if there are any.
#[inline]
fn take_answer(state: &mut LineState, peer: Peer, answer: Answer) -> Option<()> {
    state.waiting = state.waiting.without(peer);
    match (answer.forwards(), state.forward) {
        (false, _) => {}
        (true, Forward::Nothing) => state.forward = Forward::AwaitData,
        (true, Forward::AwaitAnswer) => {
            state.forward = Forward::Nothing;
            state.collected = Collected::DeviceDirty;
        }
        (true, Forward::AwaitData) => return None,
    }
    Some(())
}

/// The requester of the operation in flight.
#[inline]
fn asker(state: &LineState) -> Option<Peer> {
    match state.phase {
        Phase::Idle => None,
        Phase::Snooping(operation)
        | Phase::Reading(operation)
        | Phase::Pulling(operation)
        | Phase::Writing(operation) => {
            (operation as u8 != Operation::EvictEntry as u8).then_some(state.requester)
        }
    }
}

/// The condition that the rows distinguish for an event, and the holder that the event concerns.
#[inline]
fn on(state: &LineState, event: Event) -> Option<(On, Option<Peer>)> {
    Some(match event {
        Event::Request(peer, request) => (asked(state, peer, request), Some(peer)),
        Event::Missing(peer, request) => (missed(request)?, Some(peer)),
        Event::CleanEvictWanted(peer) if owns(state, peer) => (On::EvictCleanWanted, Some(peer)),
        Event::CleanEvictWanted(peer) => (On::EvictCleanStaleWanted, Some(peer)),
        Event::CacheFlushed(peer) => (On::CacheFlushed, Some(peer)),
        Event::Answer(peer, answer) => (answered(state, peer, answer)?, Some(peer)),
        Event::SnoopData => return None,
        Event::PulledData(bogus) => {
            let on = if bogus { On::BogusData } else { On::Data };
            (on, asker(state))
        }
        Event::CoreRead => (On::ShareOrOwn, Some(CORES)),
        Event::CoreOwn => (On::Own, Some(CORES)),
        Event::CoreWriteBack => (On::CoreWriteBack, Some(CORES)),
        Event::CoresAnswered(found) => (cores_answered(state, found)?, Some(CORES)),
        Event::ReadDone => (On::ReadDone, asker(state)),
        Event::Written => (On::Written, asker(state)),
        Event::EvictEntry => (On::EvictEntry, None),
    })
}

/// Whether the directory gives the line to this holder alone.
#[inline]
fn owns(state: &LineState, peer: Peer) -> bool {
    state.filter == Filter::Any(peer)
}

/// The condition for a request.
#[inline]
fn asked(state: &LineState, peer: Peer, request: Request) -> On {
    match request {
        Request::RdShared => On::Share,
        Request::RdAny => On::ShareOrOwn,
        Request::RdOwn => On::Own,
        Request::RdOwnNoData => On::OwnNoData,
        Request::RdCurr => On::Current,
        Request::ClFlush => On::Flush,
        Request::ItoMWr => On::WriteLlc,
        Request::WrCur => On::WriteCurrent,
        Request::WrInv => On::WriteThrough,
        Request::WoWrInv | Request::WoWrInvF => On::WriteWeakly,
        Request::CleanEvictNoData => On::EvictNoData,
        Request::DirtyEvict if owns(state, peer) => On::EvictDirty,
        Request::DirtyEvictPush if owns(state, peer) => On::EvictPush,
        Request::CleanEvict if owns(state, peer) => On::EvictClean,
        Request::DirtyEvict | Request::DirtyEvictPush => On::EvictDirtyStale,
        Request::CleanEvict => On::EvictCleanStale,
    }
}

/// The condition for a request to an address without memory (tables 3-23 and 3-24).
#[inline]
fn missed(request: Request) -> Option<On> {
    Some(match request {
        Request::RdShared | Request::RdAny | Request::RdOwn => On::MissingRead,
        Request::RdCurr => On::MissingCurrent,
        Request::RdOwnNoData | Request::ClFlush | Request::WrInv => On::MissingOwn,
        Request::ItoMWr | Request::WrCur => On::MissingWrite,
        Request::WoWrInv | Request::WoWrInvF => On::MissingWriteWeakly,
        Request::CleanEvict
        | Request::CleanEvictNoData
        | Request::DirtyEvict
        | Request::DirtyEvictPush => return None,
    })
}

/// The condition for a device's response to a snoop: what the device keeps. `None` if the
/// response is not allowed.
#[inline]
fn answered(state: &LineState, peer: Peer, answer: Answer) -> Option<On> {
    let Phase::Snooping(operation) = state.phase else {
        return None;
    };
    if !state.waiting.contains(peer) || !answer.answers(operation.snoop()) {
        return None;
    }
    Some(match answer {
        Answer::RspIHitI | Answer::RspIHitSE | Answer::RspIFwdM => On::RspGone,
        Answer::RspSHitSE | Answer::RspSFwdM => On::RspShared,
        Answer::RspVHitV | Answer::RspVFwdV => On::RspKept,
    })
}

/// The condition for the cores' response to a snoop: what the cores keep.
#[inline]
fn cores_answered(state: &LineState, found: Found) -> Option<On> {
    let Phase::Snooping(operation) = state.phase else {
        return None;
    };
    if !state.waiting.contains(CORES) {
        return None;
    }
    Some(match (found, operation.snoop()) {
        (Found::Nothing, _) | (_, Snoop::Inv) => On::RspGone,
        (_, Snoop::Data) => On::RspShared,
        (_, Snoop::Cur) => On::RspKept,
    })
}

#[inline]
fn apply<'t>(
    line: &mut LineState,
    on: On,
    peer: Option<Peer>,
    table: &impl Fn(usize, On, Others) -> Option<&'t Row>,
    actions: &mut Actions,
) -> Option<()> {
    let filter = line.filter;
    let others = filter.others(peer);
    let found = INDEX[line.phase.index()][on as usize][others as usize];
    if found == NO_ROW {
        return None;
    }
    let row = table(usize::from(found), on, others)?;
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
        act(line, filter, *action, peer, actions)?;
    }
    Some(())
}

/// Executes one action of a row; `filter` is the directory entry before the row.
#[inline]
fn act(
    line: &mut LineState,
    filter: Filter,
    action: Do,
    peer: Option<Peer>,
    actions: &mut Actions,
) -> Option<()> {
    match action {
        Do::Snoop => {
            let Phase::Snooping(operation) = line.phase else {
                return None;
            };
            let holders = filter.holders();
            line.waiting = peer.map_or(holders, |peer| holders.without(peer));
            let devices = line.waiting.without(CORES);
            if !devices.is_empty() {
                actions.push(Action::Snoop(operation.snoop(), devices));
            }
            if line.waiting.contains(CORES) {
                actions.push(Action::SnoopCores(operation.snoop()));
            }
        }
        Do::Read if filter.holders().contains(CORES) => actions.push(Action::ReadLlc),
        Do::Read => actions.push(Action::ReadMemory),
        Do::WriteMemory => actions.push(Action::WriteMemory),
        Do::WriteLlc => actions.push(Action::WriteLlc),
        Do::FillLlc => actions.push(Action::FillLlc),
        Do::Reply(reply) => match (peer?, reply) {
            (CORES, Reply::Go(state)) => actions.push(Action::GrantCores(state)),
            (CORES, _) => {}
            (device, reply) => actions.push(Action::Reply(device, reply)),
        },
    }
    Some(())
}
