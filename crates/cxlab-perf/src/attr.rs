//! What an event counts, and which fields its samples have (`struct perf_event_attr`).

use crate::bytes::{Bytes, RecordError};

/// Bits of [`Attr::flags`].
pub mod flag {
    /// Threads and processes that the program starts are sampled too.
    pub const INHERIT: u64 = 1 << 1;
    /// The event does not count yet.
    pub const DISABLED: u64 = 1 << 0;
    /// The event begins to count when the thread executes another program.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Mappings, names of programs, and threads that begin and end are recorded.
    pub const RECORDS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 23 | 1 << 24;
    /// The event counts neither in the kernel nor in a hypervisor.
    pub const USER_SPACE: u64 = 1 << 5 | 1 << 6;
    /// The period is a frequency ([`super::Period::PerSecond`]).
    pub const FREQUENCY: u64 = 1 << 10;
    /// Mappings of memory that is not executed are recorded.
    pub const MAP_DATA: u64 = 1 << 17;
    /// Records other than samples end with fields that identify their thread and event.
    pub const ID_ALL: u64 = 1 << 18;
    /// The event ends when the thread executes another program, and [`SIGTRAP`] needs that.
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    /// The thread gets a signal at each sample.
    pub const SIGTRAP: u64 = 1 << 37;
    /// First bit of how exact the address of the instruction is, from 0 to 3.
    pub const PRECISE_SHIFT: u32 = 15;
}

/// Bits of [`Attr::read_format`].
pub mod read_format {
    /// Time in which the event was open, and in which it counted.
    pub const TIMES: u64 = 1 << 0 | 1 << 1;
    /// The event's number.
    pub const ID: u64 = 1 << 2;
    /// All events of a group.
    pub const GROUP: u64 = 1 << 3;
    /// Number of samples that were lost.
    pub const LOST: u64 = 1 << 4;
}

/// Fields of a sample: bits of [`Attr::sample_type`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
#[allow(missing_docs)]
pub enum Format {
    Ip = 1 << 0,
    Tid = 1 << 1,
    Time = 1 << 2,
    Addr = 1 << 3,
    Read = 1 << 4,
    Callchain = 1 << 5,
    Id = 1 << 6,
    Cpu = 1 << 7,
    Period = 1 << 8,
    StreamId = 1 << 9,
    Raw = 1 << 10,
    BranchStack = 1 << 11,
    RegsUser = 1 << 12,
    StackUser = 1 << 13,
    Weight = 1 << 14,
    DataSrc = 1 << 15,
    Identifier = 1 << 16,
    WeightStruct = 1 << 24,
}

impl Format {
    /// The bits of several fields.
    pub fn bits(fields: &[Format]) -> u64 {
        fields.iter().fold(0, |all, field| all | *field as u64)
    }
}

/// Kinds of events: values of [`Attr::kind`]. Other numbers are those of devices.
pub mod kind {
    /// Events that every processor has, by a number of the kernel.
    pub const HARDWARE: u32 = 0;
    /// Events of the kernel.
    pub const SOFTWARE: u32 = 1;
    /// Hits and misses of caches.
    pub const CACHES: u32 = 3;
    /// Events by the processor's own number.
    pub const RAW: u32 = 4;
}

/// Sampling period in events, or frequency of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// One sample per this number of events.
    Events(u64),
    /// The kernel adapts the period to this number of samples per second.
    PerSecond(u64),
}

/// Attributes of an event (`perf_event_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Attr {
    /// Kind of the event ([`kind`]).
    pub kind: u32,
    /// The event, by the numbers of its kind.
    pub config: u64,
    /// Events or frequency, as [`Attr::period`] says.
    pub sample_period: u64,
    /// Fields of samples ([`Format`]).
    pub sample_type: u64,
    /// Values of a read event ([`read_format`]).
    pub read_format: u64,
    /// Flags of the event ([`flag`]).
    pub flags: u64,
    /// Further configuration of the event. For loads above a latency threshold, that threshold in cycles.
    pub config1: u64,
    /// Content of branch stacks.
    pub branch_sample_type: u64,
    /// Registers of user space in a sample.
    pub sample_regs_user: u64,
}

/// Bytes of the first published `perf_event_attr`.
const MIN_BYTES: u64 = 64;
/// Bytes that [`Attr::write`] writes (`PERF_ATTR_SIZE_VER7`).
pub(crate) const BYTES: usize = 128;

impl Attr {
    /// An event of programs, which is not sampled.
    pub fn of_user(kind: u32, config: u64) -> Attr {
        Attr {
            kind,
            config,
            flags: flag::USER_SPACE,
            ..Attr::default()
        }
    }

    /// The event with further flags ([`flag`]).
    #[must_use]
    pub fn with(self, flags: u64) -> Attr {
        Attr {
            flags: self.flags | flags,
            ..self
        }
    }

    /// Parses a `perf_event_attr` of any version. Fields beyond the end of `bytes` are zero.
    ///
    /// # Errors
    /// [`RecordError`] if there are fewer bytes than the first version had.
    pub fn parse(bytes: &[u8]) -> Result<Attr, RecordError> {
        if (bytes.len() as u64) < MIN_BYTES {
            return Err(RecordError::new(format!(
                "found an event of {} bytes; allowed: at least {MIN_BYTES}",
                bytes.len()
            )));
        }
        let at = |from: usize| {
            let mut rest = Bytes(bytes.get(from..).unwrap_or_default());
            rest.u64().unwrap_or(0)
        };
        Ok(Attr {
            kind: at(0) as u32,
            config: at(8),
            sample_period: at(16),
            sample_type: at(24),
            read_format: at(32),
            flags: at(40),
            config1: at(56),
            branch_sample_type: at(72),
            sample_regs_user: at(80),
        })
    }

    /// The `perf_event_attr`, in 128 bytes.
    pub fn write(&self) -> [u8; BYTES] {
        let mut words = [0u64; BYTES / 8];
        words[0] = u64::from(self.kind) | (BYTES as u64) << 32;
        words[1] = self.config;
        words[2] = self.sample_period;
        words[3] = self.sample_type;
        words[4] = self.read_format;
        words[5] = self.flags;
        words[7] = self.config1;
        words[9] = self.branch_sample_type;
        words[10] = self.sample_regs_user;
        let mut bytes = [0; BYTES];
        for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
            eight.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Whether samples of the event have a field.
    pub fn has(&self, field: Format) -> bool {
        self.sample_type & field as u64 != 0
    }

    /// Whether a flag of the event is set.
    pub fn is(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Sampling period of the event.
    pub fn period(&self) -> Period {
        match self.is(flag::FREQUENCY) {
            true => Period::PerSecond(self.sample_period),
            false => Period::Events(self.sample_period),
        }
    }

    /// Offset of the event's number in a sample, in bytes. `None` if samples have no such number.
    pub(crate) fn id_at(&self) -> Option<u64> {
        if self.has(Format::Identifier) {
            return Some(0);
        }
        let before = [Format::Ip, Format::Tid, Format::Time, Format::Addr];
        self.has(Format::Id).then(|| self.bytes_of(&before))
    }

    /// Bytes from the event's number to the end of a record other than a sample.
    pub(crate) fn id_from_end(&self) -> Option<u64> {
        if !self.is(flag::ID_ALL) {
            return None;
        }
        if self.has(Format::Identifier) {
            return Some(8);
        }
        let from = [Format::Id, Format::StreamId, Format::Cpu];
        self.has(Format::Id).then(|| self.bytes_of(&from))
    }

    /// Bytes of the identifying fields at the end of a record other than a sample, and the offset of the time in them.
    pub(crate) fn behind(&self) -> (u64, Option<u64>) {
        if !self.is(flag::ID_ALL) {
            return (0, None);
        }
        use Format::{Cpu, Id, Identifier, StreamId, Tid, Time};
        let bytes = self.bytes_of(&[Tid, Time, Id, StreamId, Cpu, Identifier]);
        (bytes, self.has(Time).then(|| self.bytes_of(&[Tid])))
    }

    /// Number of bytes of those of `fields` that samples have, 8 bytes each.
    fn bytes_of(&self, fields: &[Format]) -> u64 {
        8 * fields.iter().filter(|field| self.has(**field)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let attr = Attr {
            kind: 4,
            config: 0x1cd,
            sample_period: 10_007,
            sample_type: Format::Ip as u64 | Format::Identifier as u64,
            read_format: read_format::TIMES,
            flags: flag::USER_SPACE | 2 << flag::PRECISE_SHIFT,
            config1: 64,
            branch_sample_type: 7,
            sample_regs_user: 9,
        };
        assert_eq!(Attr::parse(&attr.write()), Ok(attr));
        // An older one has no registers.
        let old = Attr::parse(&attr.write()[..64]).unwrap();
        assert_eq!((old.config1, old.sample_regs_user), (64, 0));
        let why = Attr::parse(&[0; 63]).unwrap_err().to_string();
        assert!(why.contains("63 bytes"), "{why}");
    }
}
