//! The rows of the home agent's table.

use super::state::{CollectedData, Operation, Phase};
use crate::coherence::cache_message::HostResponse;
use crate::coherence::fields::GoState;
use crate::coherence::filter::Update;
use crate::coherence::table::views::{ALONE, ANY, HELD, NO_OWNER, NO_SHARERS, OWNER, SHARERS};
use crate::coherence::table::{HomeRow, RowPhases, home_rows, index};

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
        /// [`super::Event::CleanEvictWanted`] of a line that the directory gives to the device alone.
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

impl RowCondition {
    pub(super) const fn collected(collected: CollectedData) -> RowCondition {
        match collected {
            CollectedData::Nothing => RowCondition::Nothing,
            CollectedData::CoresClean => RowCondition::CoresClean,
            CollectedData::CoresDirty => RowCondition::CoresDirty,
            CollectedData::DeviceDirty => RowCondition::DeviceDirty,
        }
    }
}

/// An action of a row. The step fills in the peer and the holders to snoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowAction {
    /// Snoop all holders except for the peer, the cores by the host's own means.
    Snoop,
    /// `ReadLlc` if the cores may hold the line, else `ReadMemory`.
    Read,
    /// Stands for [`super::Action::WriteMemory`].
    WriteMemory,
    /// Stands for [`super::Action::WriteLlc`].
    WriteLlc,
    /// Stands for [`super::Action::FillLlc`].
    FillLlc,
    /// Respond to the peer. The cores get `Go` as `GrantCores`, and no separate `Data`.
    Respond(HostResponse),
}

/// One row of the transition table.
pub type Row = HomeRow<Phase, RowCondition, RowAction>;

const READ: &[RowAction] = &[RowAction::Read];
const SNOOP: &[RowAction] = &[RowAction::Snoop];
const GO_I: &[RowAction] = &[RowAction::Respond(HostResponse::Go(GoState::Invalid))];
const GO_E: &[RowAction] = &[RowAction::Respond(HostResponse::Go(GoState::Exclusive))];
const GO_S_DATA: &[RowAction] = &[
    RowAction::Respond(HostResponse::Go(GoState::Shared)),
    RowAction::Respond(HostResponse::Data),
];
const GO_E_DATA: &[RowAction] = &[
    RowAction::Respond(HostResponse::Go(GoState::Exclusive)),
    RowAction::Respond(HostResponse::Data),
];
const GO_M_DATA: &[RowAction] = &[
    RowAction::Respond(HostResponse::Go(GoState::Modified)),
    RowAction::Respond(HostResponse::Data),
];
const WRITE_GO_S_DATA: &[RowAction] = &[
    RowAction::WriteMemory,
    RowAction::Respond(HostResponse::Go(GoState::Shared)),
    RowAction::Respond(HostResponse::Data),
];
const WRITE_GO_E: &[RowAction] = &[
    RowAction::WriteMemory,
    RowAction::Respond(HostResponse::Go(GoState::Exclusive)),
];
const DATA: &[RowAction] = &[RowAction::Respond(HostResponse::Data)];
const WRITE: &[RowAction] = &[RowAction::WriteMemory];
const PULL: &[RowAction] = &[RowAction::Respond(HostResponse::GoWritePull)];
const PULL_FIRST: &[RowAction] = &[RowAction::Respond(HostResponse::WritePull)];
const PULL_FAST: &[RowAction] = &[RowAction::Respond(HostResponse::FastGoWritePull)];
const WRITE_PULL_FIRST: &[RowAction] = &[
    RowAction::WriteMemory,
    RowAction::Respond(HostResponse::WritePull),
];
const WRITE_PULL_FAST: &[RowAction] = &[
    RowAction::WriteMemory,
    RowAction::Respond(HostResponse::FastGoWritePull),
];
const GO_ERR: &[RowAction] = &[RowAction::Respond(HostResponse::Go(GoState::Error))];
const GO_ERR_DATA: &[RowAction] = &[
    RowAction::Respond(HostResponse::Go(GoState::Error)),
    RowAction::Respond(HostResponse::ErrorData),
];
const ERROR_DATA: &[RowAction] = &[RowAction::Respond(HostResponse::ErrorData)];
const PULL_ERR: &[RowAction] = &[RowAction::Respond(HostResponse::GoErrWritePull)];
const DROP: &[RowAction] = &[RowAction::Respond(HostResponse::GoWritePullDrop)];
const NOT_DIRTY: &[RowCondition] = &[RowCondition::Nothing, RowCondition::CoresClean];
const DIRTY: &[RowCondition] = &[RowCondition::CoresDirty, RowCondition::DeviceDirty];
const WHATEVER: &[RowCondition] = &[
    RowCondition::Nothing,
    RowCondition::CoresClean,
    RowCondition::CoresDirty,
    RowCondition::DeviceDirty,
];

home_rows! {
    share: Idle, &[RowCondition::Share], NO_OWNER => (Reading Share), Keep, READ;
    share_owned: Idle, &[RowCondition::Share], OWNER => (Snooping Share), Keep, SNOOP;
    share_or_own: Idle, &[RowCondition::ShareOrOwn], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_owned: Idle, &[RowCondition::ShareOrOwn], OWNER => (Snooping ShareOrOwn), Keep, SNOOP;
    own: Idle, &[RowCondition::Own], ALONE => (Reading Own), Keep, READ;
    own_held: Idle, &[RowCondition::Own], HELD => (Snooping Own), Keep, SNOOP;
    own_no_data: Idle, &[RowCondition::OwnNoData], ALONE => Idle, SetOwner, GO_E;
    own_no_data_held: Idle, &[RowCondition::OwnNoData], HELD => (Snooping OwnNoData), Keep, SNOOP;
    current: Idle, &[RowCondition::Current], NO_OWNER => (Reading Current), Keep, READ;
    current_owned: Idle, &[RowCondition::Current], OWNER => (Snooping Current), Keep, SNOOP;
    flush: Idle, &[RowCondition::Flush], ALONE => Idle, Clear, GO_I;
    flush_held: Idle, &[RowCondition::Flush], HELD => (Snooping Flush), Keep, SNOOP;
    write_llc: Idle, &[RowCondition::WriteLlc], ALONE => (Pulling WriteLlc), Keep, PULL;
    write_llc_held: Idle, &[RowCondition::WriteLlc], HELD => (Snooping WriteLlc), Keep, SNOOP;
    write_current: Idle, &[RowCondition::WriteCurrent], ALONE => (Pulling WriteCurrent), Keep, PULL;
    write_current_held: Idle, &[RowCondition::WriteCurrent], HELD => (Snooping WriteCurrent), Keep, SNOOP;
    write_through: Idle, &[RowCondition::WriteThrough], ALONE => (Pulling WriteThrough), Keep, PULL_FIRST;
    write_through_held: Idle, &[RowCondition::WriteThrough], HELD => (Snooping WriteThrough), Keep, SNOOP;
    write_weakly: Idle, &[RowCondition::WriteWeakly], ALONE => (Pulling WriteWeakly), Keep, PULL_FAST;
    write_weakly_held: Idle, &[RowCondition::WriteWeakly], HELD => (Snooping WriteWeakly), Keep, SNOOP;
    evict_dirty: Idle, &[RowCondition::EvictDirty], ALONE => (Pulling EvictDirty), Keep, PULL;
    evict_push: Idle, &[RowCondition::EvictPush], ALONE => (Pulling EvictPush), Keep, PULL;
    evict_clean: Idle, &[RowCondition::EvictClean], ALONE => Idle, Remove, DROP;
    evict_clean_wanted: Idle, &[RowCondition::EvictCleanWanted], ALONE => (Pulling EvictClean), Keep, PULL;
    evict_dirty_stale: Idle, &[RowCondition::EvictDirtyStale, RowCondition::EvictCleanStaleWanted], ANY => (Pulling EvictStale), Keep, PULL;
    evict_clean_stale: Idle, &[RowCondition::EvictCleanStale], ANY => Idle, Keep, DROP;
    evict_no_data: Idle, &[RowCondition::EvictNoData], ANY => Idle, Remove, GO_I;
    cache_flushed: Idle, &[RowCondition::CacheFlushed], ANY => Idle, Remove, &[];
    evict_entry: Idle, &[RowCondition::EvictEntry], HELD => (Snooping EvictEntry), Keep, SNOOP;
    missing_read: Idle, &[RowCondition::MissingRead], ALONE => Idle, Keep, GO_ERR_DATA;
    missing_current: Idle, &[RowCondition::MissingCurrent], ALONE => Idle, Keep, ERROR_DATA;
    missing_own: Idle, &[RowCondition::MissingOwn], ALONE => Idle, Keep, GO_ERR;
    missing_write: Idle, &[RowCondition::MissingWrite], ALONE => (Pulling WriteMissing), Keep, PULL_ERR;
    missing_write_weakly: Idle, &[RowCondition::MissingWriteWeakly], ALONE => (Pulling WriteMissingWeakly), Keep, PULL_ERR;
    core_write_back: Idle, &[RowCondition::CoreWriteBack], ALONE => Idle, Remove, WRITE;

    answer_gone: Snooping, &[RowCondition::RspGone], NO_OWNER => Same, Remove, &[];
    answer_shared: Snooping, &[RowCondition::RspShared], ALONE => Same, AddShared, &[];
    answer_kept: Snooping, &[RowCondition::RspKept], ALONE => Same, Keep, &[];

    share_missed: (Snooping Share), &[RowCondition::Nothing], NO_OWNER => (Reading Share), Keep, READ;
    share_snooped: (Snooping Share), &[RowCondition::CoresClean], SHARERS => Idle, AddShared, GO_S_DATA;
    share_snooped_dirty: (Snooping Share), DIRTY, SHARERS => Idle, AddShared, WRITE_GO_S_DATA;
    share_given_up: (Snooping Share), &[RowCondition::DeviceDirty], ALONE => Idle, AddShared, WRITE_GO_S_DATA;
    share_or_own_missed: (Snooping ShareOrOwn), &[RowCondition::Nothing], NO_OWNER => (Reading ShareOrOwn), Keep, READ;
    share_or_own_snooped: (Snooping ShareOrOwn), &[RowCondition::CoresClean], SHARERS => Idle, AddShared, GO_S_DATA;
    share_or_own_snooped_dirty: (Snooping ShareOrOwn), DIRTY, SHARERS => Idle, AddShared, WRITE_GO_S_DATA;
    share_or_own_given_up: (Snooping ShareOrOwn), &[RowCondition::DeviceDirty], ALONE => Idle, SetOwner, GO_M_DATA;
    own_missed: (Snooping Own), &[RowCondition::Nothing], ALONE => (Reading Own), Keep, READ;
    own_snooped: (Snooping Own), &[RowCondition::CoresClean], ALONE => Idle, SetOwner, GO_E_DATA;
    own_snooped_dirty: (Snooping Own), DIRTY, ALONE => Idle, SetOwner, GO_M_DATA;
    own_no_data_snooped: (Snooping OwnNoData), NOT_DIRTY, ALONE => Idle, SetOwner, GO_E;
    own_no_data_snooped_dirty: (Snooping OwnNoData), DIRTY, ALONE => Idle, SetOwner, WRITE_GO_E;
    current_missed: (Snooping Current), &[RowCondition::Nothing], NO_SHARERS => (Reading Current), Keep, READ;
    current_snooped: (Snooping Current), &[RowCondition::CoresClean, RowCondition::CoresDirty, RowCondition::DeviceDirty], OWNER => Idle, Keep, DATA;
    flush_snooped: (Snooping Flush), NOT_DIRTY, ALONE => Idle, Clear, GO_I;
    flush_snooped_dirty: (Snooping Flush), DIRTY, ALONE => (Writing Flush), Keep, WRITE;
    write_llc_snooped: (Snooping WriteLlc), WHATEVER, ALONE => (Pulling WriteLlc), Keep, PULL;
    write_current_missed: (Snooping WriteCurrent), &[RowCondition::Nothing, RowCondition::DeviceDirty], ALONE => (Pulling WriteCurrent), Keep, PULL;
    write_current_hit: (Snooping WriteCurrent), &[RowCondition::CoresClean, RowCondition::CoresDirty], ALONE => (Pulling WriteLlc), Keep, PULL;
    write_through_snooped: (Snooping WriteThrough), NOT_DIRTY, ALONE => (Pulling WriteThrough), Keep, PULL_FIRST;
    write_through_snooped_dirty: (Snooping WriteThrough), DIRTY, ALONE => (Pulling WriteThrough), Keep, WRITE_PULL_FIRST;
    write_weakly_snooped: (Snooping WriteWeakly), NOT_DIRTY, ALONE => (Pulling WriteWeakly), Keep, PULL_FAST;
    write_weakly_snooped_dirty: (Snooping WriteWeakly), DIRTY, ALONE => (Pulling WriteWeakly), Keep, WRITE_PULL_FAST;
    entry_evicted: (Snooping EvictEntry), NOT_DIRTY, ALONE => Idle, Keep, &[];
    entry_evicted_dirty: (Snooping EvictEntry), DIRTY, ALONE => Idle, Keep, WRITE;

    share_read: (Reading Share), &[RowCondition::ReadDone], NO_OWNER => Idle, AddShared, GO_S_DATA;
    share_or_own_read_alone: (Reading ShareOrOwn), &[RowCondition::ReadDone], ALONE => Idle, SetOwner, GO_E_DATA;
    share_or_own_read_shared: (Reading ShareOrOwn), &[RowCondition::ReadDone], SHARERS => Idle, AddShared, GO_S_DATA;
    own_read: (Reading Own), &[RowCondition::ReadDone], ALONE => Idle, SetOwner, GO_E_DATA;
    current_read: (Reading Current), &[RowCondition::ReadDone], ANY => Idle, Keep, DATA;

    write_llc_data: (Pulling WriteLlc), &[RowCondition::Data], ALONE => Idle, SetCores, &[RowAction::WriteLlc];
    write_current_data: (Pulling WriteCurrent), &[RowCondition::Data], ALONE => Idle, Clear, WRITE;
    write_through_data: (Pulling WriteThrough), &[RowCondition::Data], ALONE => (Writing WriteThrough), Clear, WRITE;
    write_weakly_data: (Pulling WriteWeakly), &[RowCondition::Data], ALONE => (Writing WriteWeakly), Clear, WRITE;
    evict_dirty_data: (Pulling EvictDirty), &[RowCondition::Data], ALONE => Idle, Remove, WRITE;
    evict_push_data: (Pulling EvictPush), &[RowCondition::Data], ALONE => Idle, SetCores, &[RowAction::WriteLlc];
    evict_clean_data: (Pulling EvictClean), &[RowCondition::Data], ALONE => Idle, SetCores, &[RowAction::FillLlc];
    evict_stale_data: (Pulling EvictStale), &[RowCondition::BogusData], ANY => Idle, Keep, &[];
    missing_write_dropped: (Pulling WriteMissing), &[RowCondition::Data], ALONE => Idle, Keep, &[];
    missing_write_weakly_dropped: (Pulling WriteMissingWeakly), &[RowCondition::Data], ALONE => Idle, Keep, &[RowAction::Respond(HostResponse::ExtCmp)];
    flush_written: (Writing Flush), &[RowCondition::Written], ALONE => Idle, Keep, GO_I;
    write_through_written: (Writing WriteThrough), &[RowCondition::Written], ALONE => Idle, Keep, GO_I;
    write_weakly_written: (Writing WriteWeakly), &[RowCondition::Written], ALONE => Idle, Keep, &[RowAction::Respond(HostResponse::ExtCmp)];
}

/// Number of actions that a row may have. The row for the last response to a snoop is applied in the
/// same step as the row for what the snoops have brought.
const fn most_actions(when: RowPhases<Phase>) -> usize {
    match when {
        RowPhases::Snooping => 0,
        _ => 3,
    }
}

index!(Phase::COUNT, 3, |row, _on| {
    states: Phase::range(row.when),
    views: row.others,
    most: most_actions(row.when),
});
