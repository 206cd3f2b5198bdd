//! The cache of a device that holds lines of its host's memory over CXL.cache: the host-memory
//! cache (HMC) of a Type 1 or Type 2 device.
//!
//! A line has at most one outstanding request. `GO` and data travel on different channels and may
//! arrive in either order (CXL 3.1, section 3.2.5.2). A snoop is answered at once, even while a
//! request is outstanding (section 3.2.5.14, rule 10):
//!
//! - Before the `GO`, the device has the copy that it had when it sent the request, or none.
//! - A snoop that arrives after the `GO` and before the data concerns the new copy. A clean copy is
//!   invalidated or downgraded at once, and its data are used once when they arrive. For a modified
//!   copy the response is sent at once, and the data follow when they have arrived and been used.
//! - An eviction that a snoop overtook has lost its data to the snoop: the data that the host then
//!   pulls are marked Bogus (section 3.2.5.4).
//!
//! These rules rely on guarantees of the host and the link, which the documentation of the parent
//! module lists. By table 3-28 the device requests reads and writes only where it has no copy, and
//! it upgrades a shared line with `RdOwnNoData`. Left out: several requests to one line at once
//! (section 3.2.5.9), byte enables, `GO-I` for reads, poison.
//!
//! The states are those of Tan, Donaldson and Wickerson, "Formalising CXL Cache Coherence" (arXiv
//! 2410.15908), where it has them: `IsAD` is its ISAD, `IsDI` its ISDI, `CiA` its SIAC.

use serde::{Deserialize, Serialize};

use super::cache_message::{HostResponse, Request, SnoopResponse};
use super::fields::GoState;
use super::list::List;
use super::message::Snoop;
use super::table::{cache_rows, index};

listed! {
    /// The state of a line in a device.
    ///
    /// `A` stands for a pending response of the host (`GO` or a pull), `D` for pending data.
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
        /// A load waits for `GO` and data.
        IsAD,
        /// A load waits for `GO`; the data are here.
        IsA,
        /// A load was granted Shared and waits for data.
        IsD,
        /// A load was granted Exclusive and waits for data.
        IeD,
        /// A load was granted Modified and waits for data.
        IoD,
        /// A snoop invalidated the copy that a load was granted: the data will be used once.
        IsDI,
        /// A store waits for `GO` and data.
        ImAD,
        /// A store waits for `GO`; the data are here.
        ImA,
        /// A store was granted ownership and waits for data.
        ImD,
        /// A store of a whole line waits for ownership.
        InA,
        /// A shared line waits to become the only copy (upgrade).
        SmA,
        /// As `SmA`, but a snoop invalidated the shared copy: ownership will come without data.
        ImN,
        /// A load that does not cache, or a read that has failed, waits for data.
        IcD,
        /// A write of a whole line into the host waits to be pulled (`ItoMWr`, `WrCur`).
        IwA,
        /// A strongly ordered write waits to be pulled.
        IuA,
        /// A strongly ordered write was pulled and waits for `GO`.
        IuG,
        /// A weakly ordered write waits to be pulled.
        IvA,
        /// A weakly ordered write was pulled and waits for `ExtCmp`.
        IvC,
        /// A flush waits for `GO`.
        IfA,
        /// An eviction of a modified line waits for the host's response.
        MiA,
        /// An eviction of an exclusive line, with its data, waits for the host's response.
        EiA,
        /// A clean eviction without data waits for `GO`.
        CiA,
        /// An eviction whose line a snoop has invalidated waits for the host's response.
        IiA,
        /// A read has failed, as its data show, and waits for `GO-Err`.
        IxA,
        /// A weakly ordered write has failed and waits for `ExtCmp`.
        IvX,
    }
}

impl Line {
    /// Whether no request is outstanding: I, S, E or M.
    #[inline]
    pub const fn is_stable(self) -> bool {
        (self as u8) <= Line::M as u8
    }
}

/// The state that a device stores for one line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct LineState {
    /// The copy, or the outstanding request.
    pub line: Line,
    /// The answered snoop whose data will follow when they have arrived.
    pub owes: Option<Snoop>,
}

impl LineState {
    /// A line without a request or owed data.
    pub const fn stable(line: Line) -> LineState {
        LineState { line, owes: None }
    }

    /// Whether the cache array alone describes the line, so that the device may free the line's entry.
    #[inline]
    pub const fn is_settled(self) -> bool {
        self.line.is_stable()
    }
}

/// What happens to a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// The device loads and accepts any state.
    Load,
    /// The device loads and wants Shared only. For lines that are invalid; otherwise `Load`.
    LoadShared,
    /// The device loads once and keeps no copy. For lines that are invalid; otherwise `Load`.
    LoadOnce,
    /// The device stores a part of the line.
    Store,
    /// The device stores the whole line.
    StoreLine,
    /// The device writes a whole line that the host is to own (`ItoMWr`). For lines that are
    /// invalid; otherwise `StoreLine`.
    WriteOwn,
    /// The device writes a whole line wherever it is (`WrCur`). For lines that are invalid.
    WriteCurrent,
    /// The device writes through to memory, strongly ordered (`WrInv`). For lines that are invalid.
    WriteThrough,
    /// The device writes a part of a line, weakly ordered (`WOWrInv`). For lines that are invalid.
    WriteWeaklyPart,
    /// The device writes a whole line, weakly ordered (`WOWrInvF`). For lines that are invalid.
    WriteWeakly,
    /// Non-cacheable push (NC-P): the device stores the whole line and evicts it, and the host
    /// keeps it modified in its last-level cache.
    Push,
    /// The device removes the line from every cache. For lines that are invalid; evict first.
    Flush,
    /// The cache evicts the line. The host is told of clean lines.
    Evict,
    /// As `Evict` of an exclusive line, but the data are offered to the host.
    EvictWithData,
    /// The cache evicts the line. A clean line is dropped silently; dirty ones need `Evict`.
    EvictSilently,
    /// A response or data arrived.
    HostResponse(HostResponse),
    /// A snoop arrived.
    Snp(Snoop),
}

impl Event {
    /// Whether the event comes from the device itself and may be retried later.
    pub const fn is_local(self) -> bool {
        !matches!(self, Event::HostResponse(_) | Event::Snp(_))
    }
}

/// What a device does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Send this request.
    Send(Request),
    /// Send this response to the snoop.
    SnoopResponse(SnoopResponse),
    /// Send the copy's data to the snoop's UQID.
    SnoopData,
    /// Send the data of the write to the pull's UQID.
    WriteData,
    /// Send the copy's data to the pull's UQID.
    EvictData,
    /// Send any data to the pull's UQID, marked Bogus.
    BogusData,
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
    /// Complete the write: the host has its data.
    CompleteWrite,
    /// Complete the flush: no cache held the line at some time after the request.
    CompleteFlush,
    /// Fail the operation: there is no memory at its address. Nothing is cached.
    Fail,
}

/// The actions of one event. The longest list completes a store and then forwards its data to a snoop.
pub type Actions = List<Action, 4>;

listed! {
    /// The conditions that the rows of the table distinguish. `Owe*` follows in the same step when a
    /// line that owes data to a snoop becomes stable.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    #[repr(u8)]
    #[allow(missing_docs)]
    pub enum RowCondition {
        Load,
        LoadShared,
        LoadOnce,
        Store,
        StoreLine,
        WriteOwn,
        WriteCurrent,
        WriteThrough,
        WriteWeaklyPart,
        WriteWeakly,
        Push,
        Flush,
        Evict,
        EvictWithData,
        EvictSilently,
        GoI,
        GoS,
        GoE,
        GoM,
        GoErr,
        WritePull,
        GoWritePull,
        GoWritePullDrop,
        FastGoWritePull,
        GoErrWritePull,
        ExtCmp,
        Data,
        ErrorData,
        SnpInv,
        SnpData,
        SnpCur,
        OweInv,
        OweData,
        OweCur,
    }
}

impl RowCondition {
    const fn owed(snoop: Snoop) -> RowCondition {
        match snoop {
            Snoop::Inv => RowCondition::OweInv,
            Snoop::Data => RowCondition::OweData,
            Snoop::Cur => RowCondition::OweCur,
        }
    }
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
    /// The actions, in order. A response that forwards without `SnoopData` leaves the data owed.
    pub actions: &'static [Action],
}

impl Row {
    /// Whether the row leaves data owed to the snoop.
    const fn owes(&self) -> bool {
        let mut owes = false;
        let mut i = 0;
        while i < self.actions.len() {
            match self.actions[i] {
                Action::SnoopResponse(response) if response.forwards() => owes = true,
                Action::SnoopData => return false,
                _ => {}
            }
            i += 1;
        }
        owes
    }
}

use Action::{
    BogusData, CompleteFlush, CompleteLoad, CompleteLoadOnce, CompleteStore, CompleteWrite, Drop,
    EvictData, Fail, Fill, SnoopData, WriteData,
};
const ANY_SNOOP: &[RowCondition] = &[
    RowCondition::SnpInv,
    RowCondition::SnpData,
    RowCondition::SnpCur,
];
const STORES: &[RowCondition] = &[RowCondition::Store, RowCondition::StoreLine];
const GO_OWN: &[RowCondition] = &[RowCondition::GoE, RowCondition::GoM];
const LOADED: &[Action] = &[Fill, CompleteLoad];
const STORED: &[Action] = &[Fill, CompleteStore];
const WRITTEN: &[Action] = &[WriteData, CompleteWrite];
const PUSH: &[Action] = &[CompleteStore, Action::Send(Request::DirtyEvictPush)];
const HIT_I: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspIHitI)];
const DROP_HIT_I: &[Action] = &[Drop, Action::SnoopResponse(SnoopResponse::RspIHitI)];
const HIT_SE_I: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspIHitSE)];
const DROP_HIT_SE_I: &[Action] = &[Drop, Action::SnoopResponse(SnoopResponse::RspIHitSE)];
const HIT_SE_S: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspSHitSE)];
const HIT_V: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspVHitV)];
const FWD_I: &[Action] = &[
    Action::SnoopResponse(SnoopResponse::RspIFwdM),
    SnoopData,
    Drop,
];
const FWD_S: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspSFwdM), SnoopData];
const FWD_V: &[Action] = &[Action::SnoopResponse(SnoopResponse::RspVFwdV), SnoopData];

cache_rows! {
    load_miss: I, &[RowCondition::Load] => IsAD, &[Action::Send(Request::RdAny)];
    load_shared_miss: I, &[RowCondition::LoadShared] => IsAD, &[Action::Send(Request::RdShared)];
    load_once: I, &[RowCondition::LoadOnce] => IcD, &[Action::Send(Request::RdCurr)];
    store_miss: I, &[RowCondition::Store] => ImAD, &[Action::Send(Request::RdOwn)];
    store_line_miss: I, &[RowCondition::StoreLine] => InA, &[Action::Send(Request::RdOwnNoData)];
    write_own: I, &[RowCondition::WriteOwn] => IwA, &[Action::Send(Request::ItoMWr)];
    write_current: I, &[RowCondition::WriteCurrent] => IwA, &[Action::Send(Request::WrCur)];
    write_through: I, &[RowCondition::WriteThrough] => IuA, &[Action::Send(Request::WrInv)];
    write_weakly_part: I, &[RowCondition::WriteWeaklyPart] => IvA, &[Action::Send(Request::WoWrInv)];
    write_weakly: I, &[RowCondition::WriteWeakly] => IvA, &[Action::Send(Request::WoWrInvF)];
    push_invalid: I, &[RowCondition::Push] => IwA, &[Action::Send(Request::ItoMWr)];
    push_shared: S, &[RowCondition::Push] => IwA, &[Drop, Action::Send(Request::ItoMWr)];
    push_exclusive: E, &[RowCondition::Push] => MiA, PUSH;
    push_modified: M, &[RowCondition::Push] => MiA, PUSH;
    flush: I, &[RowCondition::Flush] => IfA, &[Action::Send(Request::ClFlush)];
    load_hit_shared: S, &[RowCondition::Load] => S, &[CompleteLoad];
    load_hit_exclusive: E, &[RowCondition::Load] => E, &[CompleteLoad];
    load_hit_modified: M, &[RowCondition::Load] => M, &[CompleteLoad];
    store_upgrade: S, &[RowCondition::Store] => SmA, &[Action::Send(Request::RdOwnNoData)];
    store_line_upgrade: S, &[RowCondition::StoreLine] => InA, &[Drop, Action::Send(Request::RdOwnNoData)];
    store_hit_exclusive: E, STORES => M, &[CompleteStore];
    store_hit_modified: M, STORES => M, &[CompleteStore];
    evict_shared: S, &[RowCondition::Evict] => CiA, &[Drop, Action::Send(Request::CleanEvictNoData)];
    evict_exclusive: E, &[RowCondition::Evict] => CiA, &[Drop, Action::Send(Request::CleanEvictNoData)];
    evict_exclusive_with_data: E, &[RowCondition::EvictWithData] => EiA, &[Action::Send(Request::CleanEvict)];
    evict_modified: M, &[RowCondition::Evict] => MiA, &[Action::Send(Request::DirtyEvict)];
    drop_shared: S, &[RowCondition::EvictSilently] => I, &[Drop];
    drop_exclusive: E, &[RowCondition::EvictSilently] => I, &[Drop];

    load_data_first: IsAD, &[RowCondition::Data] => IsA, &[];
    load_granted_shared: IsAD, &[RowCondition::GoS] => IsD, &[];
    load_granted_exclusive: IsAD, &[RowCondition::GoE] => IeD, &[];
    load_granted_modified: IsAD, &[RowCondition::GoM] => IoD, &[];
    load_done_shared: IsD, &[RowCondition::Data] => S, LOADED;
    load_done_exclusive: IeD, &[RowCondition::Data] => E, LOADED;
    load_done_modified: IoD, &[RowCondition::Data] => M, LOADED;
    load_done_shared_by_go: IsA, &[RowCondition::GoS] => S, LOADED;
    load_done_exclusive_by_go: IsA, &[RowCondition::GoE] => E, LOADED;
    load_done_modified_by_go: IsA, &[RowCondition::GoM] => M, LOADED;
    load_done_snooped: IsDI, &[RowCondition::Data] => I, &[CompleteLoadOnce];
    store_data_first: ImAD, &[RowCondition::Data] => ImA, &[];
    store_granted: ImAD, GO_OWN => ImD, &[];
    store_done: ImD, &[RowCondition::Data] => M, STORED;
    store_done_by_go: ImA, GO_OWN => M, STORED;
    store_line_done: InA, &[RowCondition::GoE] => M, &[CompleteStore];
    upgrade_done: SmA, &[RowCondition::GoE] => M, &[CompleteStore];
    upgrade_without_data: ImN, &[RowCondition::GoE] => ImAD, &[Action::Send(Request::RdOwn)];
    once_done: IcD, &[RowCondition::Data] => I, &[CompleteLoadOnce];
    write_pulled: IwA, &[RowCondition::GoWritePull] => I, WRITTEN;
    write_through_pulled: IuA, &[RowCondition::WritePull] => IuG, &[WriteData];
    write_through_done: IuG, &[RowCondition::GoI] => I, &[CompleteWrite];
    write_weakly_pulled: IvA, &[RowCondition::FastGoWritePull] => IvC, &[WriteData];
    write_weakly_done: IvC, &[RowCondition::ExtCmp] => I, &[CompleteWrite];
    flush_done: IfA, &[RowCondition::GoI] => I, &[CompleteFlush];
    load_failed: IsAD, &[RowCondition::GoErr] => IcD, &[];
    load_failed_by_data: IsAD, &[RowCondition::ErrorData] => IxA, &[];
    store_failed: ImAD, &[RowCondition::GoErr] => IcD, &[];
    store_failed_by_data: ImAD, &[RowCondition::ErrorData] => IxA, &[];
    read_failed: IcD, &[RowCondition::ErrorData] => I, &[Fail];
    read_failed_by_go: IxA, &[RowCondition::GoErr] => I, &[Fail];
    store_line_failed: InA, &[RowCondition::GoErr] => I, &[Fail];
    write_failed: IwA, &[RowCondition::GoErrWritePull] => I, &[WriteData, Fail];
    write_through_failed: IuA, &[RowCondition::GoErr] => I, &[Fail];
    write_weakly_failed: IvA, &[RowCondition::GoErrWritePull] => IvX, &[WriteData];
    write_weakly_failed_done: IvX, &[RowCondition::ExtCmp] => I, &[Fail];
    flush_failed: IfA, &[RowCondition::GoErr] => I, &[Fail];
    eviction_pulled: MiA, &[RowCondition::GoWritePull] => I, &[EvictData, Drop];
    clean_eviction_pulled: EiA, &[RowCondition::GoWritePull] => I, &[EvictData, Drop];
    clean_eviction_dropped: EiA, &[RowCondition::GoWritePullDrop] => I, &[Drop];
    clean_eviction_done: CiA, &[RowCondition::GoI] => I, &[];
    stale_eviction_pulled: IiA, &[RowCondition::GoWritePull] => I, &[BogusData];
    stale_eviction_dropped: IiA, &[RowCondition::GoWritePullDrop] => I, &[];

    invalid_snooped: I, ANY_SNOOP => I, HIT_I;
    shared_inv: S, &[RowCondition::SnpInv] => I, DROP_HIT_SE_I;
    exclusive_inv: E, &[RowCondition::SnpInv] => I, DROP_HIT_SE_I;
    exclusive_data: E, &[RowCondition::SnpData] => S, HIT_SE_S;
    exclusive_cur: E, &[RowCondition::SnpCur] => E, HIT_V;
    modified_inv: M, &[RowCondition::SnpInv] => I, FWD_I;
    modified_data: M, &[RowCondition::SnpData] => S, FWD_S;
    modified_cur: M, &[RowCondition::SnpCur] => M, FWD_V;

    load_snooped: IsAD, ANY_SNOOP => IsAD, HIT_I;
    store_snooped: ImAD, ANY_SNOOP => ImAD, HIT_I;
    store_line_snooped: InA, ANY_SNOOP => InA, HIT_I;
    upgrade_lost: SmA, &[RowCondition::SnpInv] => ImN, DROP_HIT_SE_I;
    once_snooped: IcD, ANY_SNOOP => IcD, HIT_I;
    write_snooped: IwA, ANY_SNOOP => IwA, HIT_I;
    write_through_snooped: IuA, ANY_SNOOP => IuA, HIT_I;
    write_weakly_snooped: IvA, ANY_SNOOP => IvA, HIT_I;
    flush_snooped: IfA, ANY_SNOOP => IfA, HIT_I;

    granted_shared_inv: IsD, &[RowCondition::SnpInv] => IsDI, HIT_SE_I;
    granted_exclusive_inv: IeD, &[RowCondition::SnpInv] => IsDI, HIT_SE_I;
    granted_exclusive_data: IeD, &[RowCondition::SnpData] => IsD, HIT_SE_S;
    granted_exclusive_cur: IeD, &[RowCondition::SnpCur] => IeD, HIT_V;
    granted_modified_inv: IoD, &[RowCondition::SnpInv] => IoD, &[Action::SnoopResponse(SnoopResponse::RspIFwdM)];
    granted_modified_data: IoD, &[RowCondition::SnpData] => IoD, &[Action::SnoopResponse(SnoopResponse::RspSFwdM)];
    granted_modified_cur: IoD, &[RowCondition::SnpCur] => IoD, &[Action::SnoopResponse(SnoopResponse::RspVFwdV)];
    granted_store_inv: ImD, &[RowCondition::SnpInv] => ImD, &[Action::SnoopResponse(SnoopResponse::RspIFwdM)];
    granted_store_data: ImD, &[RowCondition::SnpData] => ImD, &[Action::SnoopResponse(SnoopResponse::RspSFwdM)];
    granted_store_cur: ImD, &[RowCondition::SnpCur] => ImD, &[Action::SnoopResponse(SnoopResponse::RspVFwdV)];
    owed_inv: M, &[RowCondition::OweInv] => I, &[SnoopData, Drop];
    owed_data: M, &[RowCondition::OweData] => S, &[SnoopData];
    owed_cur: M, &[RowCondition::OweCur] => M, &[SnoopData];

    eviction_inv: MiA, &[RowCondition::SnpInv, RowCondition::SnpData] => IiA, FWD_I;
    eviction_cur: MiA, &[RowCondition::SnpCur] => MiA, FWD_V;
    clean_eviction_inv: EiA, &[RowCondition::SnpInv] => IiA, DROP_HIT_SE_I;
    clean_eviction_data: EiA, &[RowCondition::SnpData] => IiA, DROP_HIT_I;
    clean_eviction_cur: EiA, &[RowCondition::SnpCur] => EiA, HIT_V;
    clean_eviction_snooped: CiA, ANY_SNOOP => CiA, HIT_I;
}

/// Number of actions that a row may have. The row for owed data is applied in the same step as the
/// row that receives the data.
const fn most_actions(from: Line, on: RowCondition) -> usize {
    let owed = matches!(
        on,
        RowCondition::OweInv | RowCondition::OweData | RowCondition::OweCur
    );
    let may_owe = matches!(from, Line::IoD | Line::ImD);
    if owed || may_owe { 2 } else { 4 }
}

index!(Line::ALL.len(), 1, |row, on| {
    states: (row.from as usize, row.from as usize),
    views: [0],
    most: most_actions(row.from, on),
});

/// The number of the row for a state and a condition.
#[inline]
pub fn find(line: Line, on: RowCondition) -> Option<usize> {
    row_of(line as usize, on, 0)
}

/// The condition that the rows distinguish for an event.
#[inline]
pub fn on(event: Event) -> RowCondition {
    match event {
        Event::Load => RowCondition::Load,
        Event::LoadShared => RowCondition::LoadShared,
        Event::LoadOnce => RowCondition::LoadOnce,
        Event::Store => RowCondition::Store,
        Event::StoreLine => RowCondition::StoreLine,
        Event::WriteOwn => RowCondition::WriteOwn,
        Event::WriteCurrent => RowCondition::WriteCurrent,
        Event::WriteThrough => RowCondition::WriteThrough,
        Event::WriteWeaklyPart => RowCondition::WriteWeaklyPart,
        Event::WriteWeakly => RowCondition::WriteWeakly,
        Event::Push => RowCondition::Push,
        Event::Flush => RowCondition::Flush,
        Event::Evict => RowCondition::Evict,
        Event::EvictWithData => RowCondition::EvictWithData,
        Event::EvictSilently => RowCondition::EvictSilently,
        Event::Snp(Snoop::Inv) => RowCondition::SnpInv,
        Event::Snp(Snoop::Data) => RowCondition::SnpData,
        Event::Snp(Snoop::Cur) => RowCondition::SnpCur,
        Event::HostResponse(response) => match response {
            HostResponse::Go(GoState::Invalid) => RowCondition::GoI,
            HostResponse::Go(GoState::Shared) => RowCondition::GoS,
            HostResponse::Go(GoState::Exclusive) => RowCondition::GoE,
            HostResponse::Go(GoState::Modified) => RowCondition::GoM,
            HostResponse::Go(GoState::Error) => RowCondition::GoErr,
            HostResponse::WritePull => RowCondition::WritePull,
            HostResponse::GoWritePull => RowCondition::GoWritePull,
            HostResponse::GoWritePullDrop => RowCondition::GoWritePullDrop,
            HostResponse::FastGoWritePull => RowCondition::FastGoWritePull,
            HostResponse::GoErrWritePull => RowCondition::GoErrWritePull,
            HostResponse::ExtCmp => RowCondition::ExtCmp,
            HostResponse::Data => RowCondition::Data,
            HostResponse::ErrorData => RowCondition::ErrorData,
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
    let on = on(event);
    let row = table(find(state.line, on)?, on)?;
    let mut actions = Actions::new();
    row.actions.iter().for_each(|&action| actions.push(action));
    let owes = match event {
        Event::Snp(snoop) if row.owes() => match state.owes {
            None => Some(snoop),
            Some(_) => return None,
        },
        _ => state.owes,
    };
    let mut next = LineState { line: row.to, owes };
    if let (true, Some(snoop)) = (next.line.is_stable(), next.owes) {
        let on = RowCondition::owed(snoop);
        let row = table(find(next.line, on)?, on)?;
        row.actions.iter().for_each(|&action| actions.push(action));
        next = LineState::stable(row.to);
    }
    Some((next, actions))
}
