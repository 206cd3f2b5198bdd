//! The home agent of a host: which caches may hold a line of the host's memory, and what the home does about it.
//!
//! The holders are the devices that cache over CXL.cache and the host's own cores. The cores, with their private caches
//! and the last-level cache, count as one more holder, [`CORES`]. The host snoops its cores by its own means: the table
//! only requires the snoop ([`Action::SnoopCores`]) and receives the response as an event ([`Event::CoresResponded`]).
//! The directory is stored in the home and never names less than what caches hold (CXL 3.1, section 3.2.5).
//!
//! A line has at most one operation in flight. The rules between messages of one line follow from
//! that: no `GO` while a snoop is outstanding, no snoop while data are pulled, one snoop per line
//! and device at a time (sections 3.2.5.2 to 3.2.5.5).
//!
//! An eviction of a line that the directory does not give to the device any more was overtaken by a
//! snoop: the home pulls its data, which are marked Bogus, and drops them.

mod rows;
mod state;

use serde::{Deserialize, Serialize};

use self::rows::row_of;
use super::cache_message::{HostResponse, Request, SnoopResponse};
use super::fields::GoState;
use super::list::List;
use super::message::Snoop;

pub use self::rows::{ROWS, Row, RowAction, RowCondition};
pub use self::state::{CollectedData, Forward, LineState, Operation, Phase};
pub use super::filter::{CORES, Filter, Others, Peer, Peers, Update};
pub use super::table::RowPhases;

/// The result of a snoop of the cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub enum CoreSnoopResult {
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
    SnoopResponse(Peer, SnoopResponse),
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
    CoresResponded(CoreSnoopResult),
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
    /// Send this response to a device. `Data` carries the home's buffer.
    Respond(Peer, HostResponse),
    /// Give the cores the line in this state, with the data in the home's buffer.
    GrantCores(GoState),
}

/// The actions of one event.
pub type Actions = List<Action, 3>;

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
    table: impl Fn(usize, RowCondition, Others) -> Option<&'t Row>,
) -> Option<(LineState, Actions)> {
    let mut next = state;
    let mut actions = Actions::new();
    if let Event::SnoopData = event {
        take_data(&mut next)?;
    } else {
        let (on, peer) = on(&state, event)?;
        apply(&mut next, on, peer, &table, &mut actions)?;
        match (event, peer) {
            (Event::SnoopResponse(_, rsp), Some(peer)) => take_response(&mut next, peer, rsp)?,
            (Event::CoresResponded(found), _) => {
                next.waiting = next.waiting.without(CORES);
                next.collected = match found {
                    CoreSnoopResult::Nothing => next.collected,
                    CoreSnoopResult::Clean => CollectedData::CoresClean,
                    CoreSnoopResult::Dirty => CollectedData::CoresDirty,
                };
            }
            _ => return Some((next, actions)),
        }
    }
    if next.waiting.is_empty() && next.forward == Forward::Nothing {
        let on = RowCondition::collected(next.collected);
        let peer = asker(&next);
        apply(&mut next, on, peer, &table, &mut actions)?;
        next.collected = CollectedData::Nothing;
    }
    Some((next, actions))
}

/// Takes the data of a snooped device, which arrive before or after its response.
#[inline]
fn take_data(state: &mut LineState) -> Option<()> {
    match (state.phase, state.forward) {
        (Phase::Snooping(_), Forward::Nothing) if !state.waiting.is_empty() => {
            state.forward = Forward::AwaitResponse;
        }
        (Phase::Snooping(_), Forward::AwaitData) => {
            state.forward = Forward::Nothing;
            state.collected = CollectedData::DeviceDirty;
        }
        _ => return None,
    }
    Some(())
}

/// Takes the response of a snooped device, which arrives before or after its data, if there are any.
#[inline]
fn take_response(state: &mut LineState, peer: Peer, response: SnoopResponse) -> Option<()> {
    state.waiting = state.waiting.without(peer);
    match (response.forwards(), state.forward) {
        (false, _) => {}
        (true, Forward::Nothing) => state.forward = Forward::AwaitData,
        (true, Forward::AwaitResponse) => {
            state.forward = Forward::Nothing;
            state.collected = CollectedData::DeviceDirty;
        }
        (true, Forward::AwaitData) => return None,
    }
    Some(())
}

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
fn on(state: &LineState, event: Event) -> Option<(RowCondition, Option<Peer>)> {
    Some(match event {
        Event::Request(peer, request) => (asked(state, peer, request), Some(peer)),
        Event::Missing(peer, request) => (missed(request)?, Some(peer)),
        Event::CleanEvictWanted(peer) if owns(state, peer) => {
            (RowCondition::EvictCleanWanted, Some(peer))
        }
        Event::CleanEvictWanted(peer) => (RowCondition::EvictCleanStaleWanted, Some(peer)),
        Event::CacheFlushed(peer) => (RowCondition::CacheFlushed, Some(peer)),
        Event::SnoopResponse(peer, rsp) => (rsp_condition(state, peer, rsp)?, Some(peer)),
        Event::SnoopData => return None,
        Event::PulledData(bogus) => {
            let on = if bogus {
                RowCondition::BogusData
            } else {
                RowCondition::Data
            };
            (on, asker(state))
        }
        Event::CoreRead => (RowCondition::ShareOrOwn, Some(CORES)),
        Event::CoreOwn => (RowCondition::Own, Some(CORES)),
        Event::CoreWriteBack => (RowCondition::CoreWriteBack, Some(CORES)),
        Event::CoresResponded(found) => (cores_condition(state, found)?, Some(CORES)),
        Event::ReadDone => (RowCondition::ReadDone, asker(state)),
        Event::Written => (RowCondition::Written, asker(state)),
        Event::EvictEntry => (RowCondition::EvictEntry, None),
    })
}

/// Whether the directory gives the line to this holder alone.
#[inline]
fn owns(state: &LineState, peer: Peer) -> bool {
    state.filter == Filter::Any(peer)
}

#[inline]
fn asked(state: &LineState, peer: Peer, request: Request) -> RowCondition {
    match request {
        Request::RdShared => RowCondition::Share,
        Request::RdAny => RowCondition::ShareOrOwn,
        Request::RdOwn => RowCondition::Own,
        Request::RdOwnNoData => RowCondition::OwnNoData,
        Request::RdCurr => RowCondition::Current,
        Request::ClFlush => RowCondition::Flush,
        Request::ItoMWr => RowCondition::WriteLlc,
        Request::WrCur => RowCondition::WriteCurrent,
        Request::WrInv => RowCondition::WriteThrough,
        Request::WoWrInv | Request::WoWrInvF => RowCondition::WriteWeakly,
        Request::CleanEvictNoData => RowCondition::EvictNoData,
        Request::DirtyEvict if owns(state, peer) => RowCondition::EvictDirty,
        Request::DirtyEvictPush if owns(state, peer) => RowCondition::EvictPush,
        Request::CleanEvict if owns(state, peer) => RowCondition::EvictClean,
        Request::DirtyEvict | Request::DirtyEvictPush => RowCondition::EvictDirtyStale,
        Request::CleanEvict => RowCondition::EvictCleanStale,
    }
}

/// The condition for a request to an address without memory (tables 3-23 and 3-24).
#[inline]
fn missed(request: Request) -> Option<RowCondition> {
    Some(match request {
        Request::RdShared | Request::RdAny | Request::RdOwn => RowCondition::MissingRead,
        Request::RdCurr => RowCondition::MissingCurrent,
        Request::RdOwnNoData | Request::ClFlush | Request::WrInv => RowCondition::MissingOwn,
        Request::ItoMWr | Request::WrCur => RowCondition::MissingWrite,
        Request::WoWrInv | Request::WoWrInvF => RowCondition::MissingWriteWeakly,
        Request::CleanEvict
        | Request::CleanEvictNoData
        | Request::DirtyEvict
        | Request::DirtyEvictPush => return None,
    })
}

/// The condition for a device's response to a snoop: what the device keeps. `None` if the response is not allowed.
#[inline]
fn rsp_condition(state: &LineState, peer: Peer, rsp: SnoopResponse) -> Option<RowCondition> {
    let Phase::Snooping(operation) = state.phase else {
        return None;
    };
    if !state.waiting.contains(peer) || !rsp.is_valid_for(operation.snoop()) {
        return None;
    }
    Some(match rsp {
        SnoopResponse::RspIHitI | SnoopResponse::RspIHitSE | SnoopResponse::RspIFwdM => {
            RowCondition::RspGone
        }
        SnoopResponse::RspSHitSE | SnoopResponse::RspSFwdM => RowCondition::RspShared,
        SnoopResponse::RspVHitV | SnoopResponse::RspVFwdV => RowCondition::RspKept,
    })
}

/// The condition for the cores' response to a snoop: what the cores keep.
#[inline]
fn cores_condition(state: &LineState, found: CoreSnoopResult) -> Option<RowCondition> {
    let Phase::Snooping(operation) = state.phase else {
        return None;
    };
    if !state.waiting.contains(CORES) {
        return None;
    }
    Some(match (found, operation.snoop()) {
        (CoreSnoopResult::Nothing, _) | (_, Snoop::Inv) => RowCondition::RspGone,
        (_, Snoop::Data) => RowCondition::RspShared,
        (_, Snoop::Cur) => RowCondition::RspKept,
    })
}

#[inline]
fn apply<'t>(
    line: &mut LineState,
    on: RowCondition,
    peer: Option<Peer>,
    table: &impl Fn(usize, RowCondition, Others) -> Option<&'t Row>,
    actions: &mut Actions,
) -> Option<()> {
    let filter = line.filter;
    let others = filter.others(peer);
    let found = row_of(line.phase.index(), on, others as usize)?;
    let row = table(found, on, others)?;
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
    action: RowAction,
    peer: Option<Peer>,
    actions: &mut Actions,
) -> Option<()> {
    match action {
        RowAction::Snoop => {
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
        RowAction::Read if filter.holders().contains(CORES) => actions.push(Action::ReadLlc),
        RowAction::Read => actions.push(Action::ReadMemory),
        RowAction::WriteMemory => actions.push(Action::WriteMemory),
        RowAction::WriteLlc => actions.push(Action::WriteLlc),
        RowAction::FillLlc => actions.push(Action::FillLlc),
        RowAction::Respond(response) => match (peer?, response) {
            (CORES, HostResponse::Go(state)) => actions.push(Action::GrantCores(state)),
            (CORES, _) => {}
            (device, response) => actions.push(Action::Respond(device, response)),
        },
    }
    Some(())
}
