//! Observers of the commands that a channel sends to its devices.

use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

/// The kind of a command.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum CommandKind {
    /// Opens a row.
    Activate,
    /// The second half of an activate (LPDDR5, LPDDR6).
    ActivateSecond,
    /// Closes the row of a bank.
    Precharge,
    /// Closes every row of a rank.
    PrechargeAll,
    /// Closes the row of the same bank in every bank group.
    PrechargeSame,
    /// Reads a burst.
    Read,
    /// Reads a burst and closes the row.
    ReadPrecharge,
    /// Writes a burst.
    Write,
    /// Writes a burst and closes the row.
    WritePrecharge,
    /// Refreshes all banks of a rank.
    RefreshAll,
    /// Refreshes one bank.
    RefreshBank,
    /// Refreshes the same bank in every bank group.
    RefreshSame,
    /// Refresh management of all banks of a rank (RFMab).
    ManageAll,
    /// Refresh management of one bank (RFMpb).
    ManageBank,
    /// Refresh management of the same bank in every bank group (RFMsb).
    ManageSame,
    /// Synchronizes the write clock before an access (LPDDR5, LPDDR6).
    Cas,
}

/// A command as an observer sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Kind of the command.
    pub kind: CommandKind,
    /// Index of the channel.
    pub channel: u32,
    /// The rank in its channel. Pseudo channels count as ranks; those of the first one come first.
    pub rank: u32,
    /// The bank group in its rank, those of stack ID 0 first; 0 for commands to a whole rank.
    pub group: u32,
    /// The bank in its bank group; 0 for commands to a whole rank.
    pub bank: u32,
    /// The row that is opened, read or written; 0 for other commands.
    pub row: u32,
    /// The burst in the row that is read or written; 0 for other commands.
    pub column: u32,
    /// The tick (a clock, or half of one) at which the command begins.
    pub tick: u64,
    /// The time at which the command begins.
    pub at: SimTime,
}

/// An observer of every command, channel by channel in order of time.
pub trait CommandObserver: Send {
    /// Whether the observer is active. If not, no call is made and no time is spent.
    const ON: bool;
    /// Called for each command.
    fn command(&mut self, command: &Command);
}

/// An observer that is not active.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoObserver;

impl CommandObserver for NoObserver {
    const ON: bool = false;
    fn command(&mut self, _: &Command) {}
}
