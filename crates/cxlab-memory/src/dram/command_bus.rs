//! The command bus of a channel.

/// Properties of the command bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandBus {
    /// Ticks of the model in a clock: 2 if some commands take half a clock.
    pub ticks_per_clock: u32,
    /// Ticks of an activate command.
    pub act: u32,
    /// Ticks of a read or write command.
    pub column: u32,
    /// Ticks of a precharge or refresh command.
    pub row: u32,
    /// Ticks of the CAS command that synchronizes the write clock; 0 if there is none.
    pub cas: u32,
    /// Whether row and column commands have separate buses.
    pub dual: bool,
    /// Ticks within which the second half of a two-part activate must follow the first; other
    /// commands may come between. 0 if an activate has one part.
    pub second_within: u32,
    /// Whether distances count from the last tick of a command that takes several.
    pub from_last: bool,
}

impl CommandBus {
    /// One bus, on which every command takes a clock.
    pub const PLAIN: CommandBus = CommandBus {
        ticks_per_clock: 1,
        act: 1,
        column: 1,
        row: 1,
        cas: 0,
        dual: false,
        second_within: 0,
        from_last: false,
    };
}
