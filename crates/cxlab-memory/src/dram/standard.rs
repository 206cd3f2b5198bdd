//! What a standard is: its command bus, organizations, speed grades and currents. The tables are
//! in `standards/`, one file each.

use super::timing::Timings;

/// A family of devices with one set of rules.
pub(crate) struct Standard {
    /// Its name, as in `DDR4`.
    pub name: &'static str,
    /// How commands travel.
    pub bus: CommandBus,
    /// Beats of a burst.
    pub beats: u32,
    /// Width of a channel's data bus (of a pseudo channel's where it has some), in bits.
    pub width: u32,
    /// Bytes of data of a burst at that width; what else it moves is metadata (LPDDR6).
    pub payload: u32,
    /// Pseudo channels of a channel: they share the command buses and nothing else.
    pub pseudo_channels: u32,
    /// Which refresh commands it has beside that of all banks.
    pub refresh: FineRefresh,
    /// Whether it has refresh management commands (RFM).
    pub management: bool,
    /// Its organizations; the first is the default.
    pub organizations: &'static [Organization],
    /// Its speed grades.
    pub grades: &'static [Grade],
    /// The parameters of a grade that follow from the organization.
    pub resolve: fn(&Grade, &Organization) -> Timings,
}

/// Refresh commands of a part of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FineRefresh {
    /// None.
    No,
    /// One bank at a time.
    PerBank,
    /// The same bank of every bank group at a time.
    SameBank,
}

/// How commands travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandBus {
    /// Ticks of the model in a clock: 2 where commands of half a clock exist.
    pub ticks_per_clock: u32,
    /// Ticks of an activate.
    pub act: u32,
    /// Ticks of a read or write.
    pub column: u32,
    /// Ticks of a precharge or refresh.
    pub row: u32,
    /// Ticks of the CAS command that synchronizes the write clock; 0: there is none.
    pub cas: u32,
    /// Whether row and column commands have a bus each.
    pub dual: bool,
    /// Ticks after the first half of an activate within which its second half follows, where it
    /// has two; other commands may come between. 0: it has one.
    pub second_within: u32,
    /// Whether distances count from the last tick of a command that lasts several.
    pub from_last: bool,
}

/// How a device is divided.
pub(crate) struct Organization {
    /// Its name, as in `16Gb x8`.
    pub name: &'static str,
    /// Megabits of a device (of a channel for HBM).
    pub density_mb: u32,
    /// Data pins of a device.
    pub pins: u32,
    /// Stack IDs, each with bank groups of its own (HBM); 1 elsewhere.
    pub stacks: u32,
    /// Bank groups (of a stack ID).
    pub groups: u32,
    /// Banks in a bank group.
    pub banks: u32,
    /// Rows in a bank.
    pub rows: u32,
    /// Columns in a row, each of one beat.
    pub columns: u32,
}

/// A speed grade.
pub(crate) struct Grade {
    /// Its name, as users write it.
    pub name: &'static str,
    /// Data rate in megatransfers per second.
    pub rate: u32,
    /// A clock, in picoseconds, rounded down as the simulators of the sources do.
    pub clock_ps: u32,
    /// Its parameters; those that depend on the organization are 0 and filled by `resolve`.
    pub timings: Timings,
    /// Currents of a device.
    pub currents: Currents,
}

/// Supply voltage and currents of one device, as data sheets name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Currents {
    /// Supply voltage, in millivolts.
    pub vdd_mv: u32,
    /// One bank activated and precharged each tRC (IDD0), in milliamperes.
    pub idd0: u32,
    /// Standby, all banks precharged (IDD2N), in milliamperes.
    pub idd2n: u32,
    /// Standby, a bank active (IDD3N), in milliamperes.
    pub idd3n: u32,
    /// Reading in bursts without gap (IDD4R), in milliamperes.
    pub idd4r: u32,
    /// Writing in bursts without gap (IDD4W), in milliamperes.
    pub idd4w: u32,
    /// Refreshing all banks without gap (IDD5B), in milliamperes.
    pub idd5b: u32,
}

/// Clocks of a time in picoseconds, rounded up.
pub(crate) const fn clocks(time_ps: u32, clock_ps: u32) -> u32 {
    time_ps.div_ceil(clock_ps)
}
