//! The description of a standard: command bus, organizations, speed grades and currents. The tables
//! are in `standards/`, one file each.

use super::timing::Timings;

pub(crate) use super::command_bus::CommandBus;

/// A family of devices with one set of timing rules.
pub(crate) struct DramStandard {
    /// Name of the standard, as in `DDR4`.
    pub name: &'static str,
    /// Properties of the command bus.
    pub bus: CommandBus,
    /// Beats in a burst.
    pub beats: u32,
    /// Width of a channel's data bus in bits; of a pseudo channel's, if the standard has those.
    pub width: u32,
    /// Data bytes of a burst at that width. The rest of the burst is metadata (LPDDR6).
    pub payload: u32,
    /// Number of pseudo channels in a channel. They share only the command buses.
    pub pseudo_channels: u32,
    /// The refresh command for a part of the banks.
    pub refresh: FineRefresh,
    /// Whether the standard has refresh management commands (RFM).
    pub management: bool,
    /// The organizations; the first is the default.
    pub organizations: &'static [Organization],
    /// The speed grades.
    pub grades: &'static [SpeedGrade],
    /// Computes the parameters of a grade that depend on the organization.
    pub resolve: fn(&SpeedGrade, &Organization) -> Timings,
}

/// Refresh commands for a part of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FineRefresh {
    /// All-bank refresh only.
    No,
    /// A command refreshes one bank.
    PerBank,
    /// A command refreshes the same bank of every bank group.
    SameBank,
}

/// The organization of a device.
pub(crate) struct Organization {
    /// Name of the organization, as in `16Gb x8`.
    pub name: &'static str,
    /// Density of a device in megabits (of a channel for HBM).
    pub density_mb: u32,
    /// Data pins of a device.
    pub pins: u32,
    /// Number of stack IDs, each with its own bank groups (HBM); 1 for other standards.
    pub stacks: u32,
    /// Number of bank groups (in a stack ID).
    pub groups: u32,
    /// Banks in a bank group.
    pub banks: u32,
    /// Rows in a bank.
    pub rows: u32,
    /// Columns in a row, each of one beat.
    pub columns: u32,
}

impl Organization {
    /// An organization of whole gigabits whose rows and columns are numbered by so many bits.
    pub const fn new(
        name: &'static str,
        gigabits: u32,
        pins: u32,
        [stacks, groups, banks]: [u32; 3],
        [row_bits, column_bits]: [u32; 2],
    ) -> Organization {
        Organization {
            name,
            density_mb: gigabits << 10,
            pins,
            stacks,
            groups,
            banks,
            rows: 1 << row_bits,
            columns: 1 << column_bits,
        }
    }
}

/// A speed grade.
pub(crate) struct SpeedGrade {
    /// Name of the grade, as users write it.
    pub name: &'static str,
    /// Data rate in megatransfers per second.
    pub rate: u32,
    /// Clock period in picoseconds, rounded down as in the simulators of the sources.
    pub clock_ps: u32,
    /// Timing parameters; those that depend on the organization are 0 until `resolve` sets them.
    pub timings: Timings,
    /// Currents of one device.
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

impl Currents {
    /// Currents in milliamperes in the order of the fields.
    pub(crate) const fn new(
        vdd_mv: u32,
        [idd0, idd2n, idd3n, idd4r, idd4w, idd5b]: [u32; 6],
    ) -> Currents {
        Currents {
            vdd_mv,
            idd0,
            idd2n,
            idd3n,
            idd4r,
            idd4w,
            idd5b,
        }
    }
}

/// Converts a time in picoseconds to clocks, rounded up.
pub(crate) const fn clocks(time_ps: u32, clock_ps: u32) -> u32 {
    time_ps.div_ceil(clock_ps)
}
