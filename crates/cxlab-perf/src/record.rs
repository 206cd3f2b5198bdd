//! Records that the kernel writes (`PERF_RECORD_*`).

use crate::attr::{Attr, Format, read_format};
use crate::bytes::{Bytes, RecordError};
use crate::source::DataSource;

/// Bytes in front of a record's fields: its type, flags and size.
pub(crate) const HEADER: usize = 8;

/// Types of records.
pub(crate) mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const EXIT: u32 = 4;
    pub(crate) const THROTTLE: u32 = 5;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const LOST_SAMPLES: u32 = 13;
}

/// Flags in front of a record (`misc`).
pub(crate) mod misc {
    pub(crate) const MODE: u16 = 7;
    pub(crate) const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    /// A mapping that is not executed; a name that comes from executing a program.
    pub(crate) const DATA_OR_EXEC: u16 = 1 << 13;
}

/// Privilege level of a sampled instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Mode {
    /// Code of a process.
    User,
    /// Code of the kernel.
    Kernel,
    /// A hypervisor or a guest, or unknown.
    #[default]
    Other,
}

/// Duration of a sampled instruction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Weight {
    /// Time from issue of the load until its data arrived, in cycles.
    pub cycles: u32,
    /// Time between retirement of the previous instruction and of this one, in cycles. 0 if the processor does not
    /// report it. Intel's processors from Meteor Lake on do.
    pub retire_cycles: u16,
}

/// Addresses of calls that led to a sample, innermost first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls<'a>(pub(crate) &'a [u8]);

/// Values from this one on are no addresses but markers of the calls that follow. [`CALLS_OF_USER`] marks user space.
const CALLS_CONTEXT: u64 = -4095i64 as u64;
const CALLS_OF_USER: u64 = -512i64 as u64;

impl Calls<'_> {
    /// The calls in programs.
    pub fn of_user(self) -> impl Iterator<Item = u64> {
        let words = self.0.chunks_exact(8);
        let mut user = true;
        let calls = words.filter_map(move |word| {
            let address = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if address >= CALLS_CONTEXT {
                user = address == CALLS_OF_USER;
                return None;
            }
            user.then_some(address)
        });
        calls.fuse()
    }
}

/// A sample. A field that the event does not record is `None` or 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sample<'a> {
    /// Number of the event.
    pub id: Option<u64>,
    /// Privilege level of the instruction.
    pub mode: Mode,
    /// Address of the instruction.
    pub ip: u64,
    /// Number of the process.
    pub pid: i32,
    /// Number of the thread.
    pub tid: i32,
    /// Time in nanoseconds, by the clock of the recording.
    pub time: Option<u64>,
    /// Address of the data.
    pub address: Option<u64>,
    /// Number of events that the sample stands for.
    pub period: Option<u64>,
    /// Calls that led to the instruction.
    pub calls: Calls<'a>,
    /// Duration of the instruction.
    pub weight: Option<Weight>,
    /// Operation of the instruction, and source of its data.
    pub source: Option<DataSource>,
}

/// A mapping of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryMapping {
    /// The process; -1 is the kernel.
    pub pid: i32,
    /// Address of the first byte.
    pub start: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// Whether the memory can be executed.
    pub executable: bool,
    /// Path of its file, or a name such as `//anon` or `[heap]`.
    pub name: String,
}

/// A thread that begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Number of its process.
    pub pid: i32,
    /// The parent's process.
    pub parent_pid: i32,
    /// Number of the thread.
    pub tid: i32,
    /// The parent's number.
    pub parent_tid: i32,
}

/// A record of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// An event was sampled.
    Sample(Sample<'a>),
    /// Memory was mapped.
    Mapped(MemoryMapping),
    /// A process executes another program.
    Executes {
        /// Number of the process.
        pid: i32,
    },
    /// A thread was made. If its process is not its parent's, the process has the parent's memory.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// Number of records that did not fit into the ring.
    Lost(u64),
    /// The kernel sampled less often, because it took too much time.
    Throttled,
    /// A record of another type, which does not concern memory.
    Other(u32),
}

impl<'a> Record<'a> {
    /// Parses a record of an event from the fields behind its header. `misc` are the header's flags.
    ///
    /// # Errors
    /// [`RecordError`] if the record is shorter than its fields.
    pub fn parse(attr: &Attr, kind: u32, misc: u16, fields: &'a [u8]) -> Result<Self, RecordError> {
        let mut rest = Bytes(fields);
        let record = match kind {
            kind::SAMPLE => Record::Sample(sample(attr, misc, rest)?),
            kind::MMAP | kind::MMAP2 => Record::Mapped(mapped(attr, kind, misc, rest)?),
            kind::COMM if misc & misc::DATA_OR_EXEC != 0 => Record::Executes { pid: rest.i32()? },
            kind::FORK => Record::Fork(task(rest)?),
            kind::EXIT => Record::Exit(task(rest)?),
            kind::LOST => {
                rest.u64()?;
                Record::Lost(rest.u64()?)
            }
            kind::LOST_SAMPLES => Record::Lost(rest.u64()?),
            kind::THROTTLE => Record::Throttled,
            other => Record::Other(other),
        };
        Ok(record)
    }
}

/// Time of a record, in nanoseconds. `None` if its event does not record the time.
pub(crate) fn time_of(attr: &Attr, kind: u32, fields: &[u8]) -> Option<u64> {
    let from = match kind {
        kind::SAMPLE => {
            let before = [Format::Identifier, Format::Ip, Format::Tid];
            let before = before.into_iter().filter(|field| attr.has(*field));
            attr.has(Format::Time).then(|| 8 * before.count())?
        }
        _ => {
            let (behind, time_at) = attr.behind();
            fields.len().checked_sub(behind as usize)? + time_at? as usize
        }
    };
    let mut rest = Bytes(fields.get(from..)?);
    rest.u64().ok()
}

fn task(mut rest: Bytes<'_>) -> Result<Task, RecordError> {
    Ok(Task {
        pid: rest.i32()?,
        parent_pid: rest.i32()?,
        tid: rest.i32()?,
        parent_tid: rest.i32()?,
    })
}

fn mapped(
    attr: &Attr,
    kind: u32,
    misc: u16,
    mut rest: Bytes<'_>,
) -> Result<MemoryMapping, RecordError> {
    const EXECUTABLE: u32 = 4;
    let pid = rest.i32()?;
    rest.i32()?;
    let (start, bytes, offset) = (rest.u64()?, rest.u64()?, rest.u64()?);
    let mut executable = misc & misc::DATA_OR_EXEC == 0;
    if kind == kind::MMAP2 {
        // A device and an inode, or the identity of a build.
        rest.take(24)?;
        executable = rest.u32()? & EXECUTABLE != 0;
        rest.u32()?;
    }
    let (behind, _) = attr.behind();
    let name = (rest.0.len() as u64).saturating_sub(behind);
    let name = Bytes(rest.take(name)?).text();
    if start.checked_add(bytes).is_none() {
        return Err(RecordError::new(format!(
            "found a mapping of {bytes} bytes at {start:#x}, which ends behind the last address"
        )));
    }
    Ok(MemoryMapping {
        pid,
        start,
        bytes,
        offset,
        executable,
        name,
    })
}

/// Parses the fields of a sample in their order, up to the data source.
fn sample<'a>(attr: &Attr, misc: u16, mut rest: Bytes<'a>) -> Result<Sample<'a>, RecordError> {
    let mut sample = Sample {
        mode: match misc & misc::MODE {
            misc::USER => Mode::User,
            misc::KERNEL => Mode::Kernel,
            _ => Mode::Other,
        },
        ..Sample::default()
    };
    sample.id = word(attr, Format::Identifier, &mut rest)?;
    sample.ip = word(attr, Format::Ip, &mut rest)?.unwrap_or(0);
    if attr.has(Format::Tid) {
        (sample.pid, sample.tid) = (rest.i32()?, rest.i32()?);
    }
    sample.time = word(attr, Format::Time, &mut rest)?;
    sample.address = word(attr, Format::Addr, &mut rest)?;
    sample.id = word(attr, Format::Id, &mut rest)?.or(sample.id);
    word(attr, Format::StreamId, &mut rest)?;
    word(attr, Format::Cpu, &mut rest)?;
    sample.period = word(attr, Format::Period, &mut rest)?;
    if attr.has(Format::Read) {
        skip_values(attr, &mut rest)?;
    }
    if attr.has(Format::Callchain) {
        let calls = rest.u64()?;
        sample.calls = Calls(rest.take(calls.saturating_mul(8))?);
    }
    if attr.has(Format::Raw) {
        let bytes = rest.u32()?;
        rest.take(u64::from(bytes))?;
    }
    if attr.has(Format::BranchStack) {
        skip_branches(attr, &mut rest)?;
    }
    if attr.has(Format::RegsUser) {
        let registers = u64::from(attr.sample_regs_user.count_ones());
        if rest.u64()? != 0 {
            rest.take(8 * registers)?;
        }
    }
    if attr.has(Format::StackUser) {
        let bytes = rest.u64()?;
        rest.take(bytes)?;
        if bytes > 0 {
            rest.u64()?;
        }
    }
    if attr.has(Format::Weight) {
        let cycles = rest.u64()?;
        sample.weight = Some(Weight {
            cycles: u32::try_from(cycles).unwrap_or(u32::MAX),
            retire_cycles: 0,
        });
    } else if attr.has(Format::WeightStruct) {
        let cycles = rest.u32()?;
        // The time since the instruction was issued.
        rest.u16()?;
        sample.weight = Some(Weight {
            cycles,
            retire_cycles: rest.u16()?,
        });
    }
    sample.source = word(attr, Format::DataSrc, &mut rest)?.map(DataSource);
    Ok(sample)
}

/// The next word, if samples have that field.
fn word(attr: &Attr, field: Format, rest: &mut Bytes<'_>) -> Result<Option<u64>, RecordError> {
    attr.has(field).then(|| rest.u64()).transpose()
}

/// Values of the event, or of its whole group.
fn skip_values(attr: &Attr, rest: &mut Bytes<'_>) -> Result<(), RecordError> {
    let times = u64::from((attr.read_format & read_format::TIMES).count_ones());
    let each =
        1 + u64::from((attr.read_format & (read_format::ID | read_format::LOST)).count_ones());
    let events = match attr.read_format & read_format::GROUP {
        0 => 1,
        _ => rest.u64()?,
    };
    let words = events.saturating_mul(each).saturating_add(times);
    rest.take(words.saturating_mul(8)).map(drop)
}

fn skip_branches(attr: &Attr, rest: &mut Bytes<'_>) -> Result<(), RecordError> {
    const INDEX: u64 = 1 << 17;
    const COUNTERS: u64 = 1 << 19;
    let branches = rest.u64()?;
    if attr.branch_sample_type & INDEX != 0 {
        rest.u64()?;
    }
    let counters = u64::from(attr.branch_sample_type & COUNTERS != 0);
    rest.take(branches.saturating_mul(8 * (3 + counters)))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::flag;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn attr(fields: &[Format]) -> Attr {
        Attr {
            sample_type: Format::bits(fields),
            ..Attr::default()
        }
    }

    /// All fields that come before what is known of the data, each with another length than its neighbours.
    #[test]
    fn fields_in_front_are_skipped_by_their_own_lengths() {
        use Format::*;
        let all = [
            Identifier,
            Ip,
            Tid,
            Time,
            Addr,
            StreamId,
            Cpu,
            Period,
            Read,
            Callchain,
            Raw,
            BranchStack,
            RegsUser,
            StackUser,
            WeightStruct,
            DataSrc,
        ];
        let attr = Attr {
            read_format: read_format::TIMES | read_format::ID | read_format::GROUP,
            branch_sample_type: 1 << 17 | 1 << 19,
            sample_regs_user: 0b101,
            ..attr(&all)
        };
        let mut bytes = words(&[77, 0x40_1000, 5 | 6 << 32, 123, 0x7000, 1, 2, 10_007]);
        // Two events of a group.
        bytes.extend(words(&[2, 10, 10, 1, 11, 2, 12]));
        bytes.extend(words(&[3, CALLS_OF_USER, 0x40_1000, 0x40_2000]));
        // Twelve raw bytes behind four of their number.
        bytes.extend(12u32.to_le_bytes());
        bytes.extend([9; 12]);
        // One branch, with an index and a counter.
        bytes.extend(words(&[1, 0, 1, 2, 3, 4]));
        bytes.extend(words(&[2, 21, 22]));
        bytes.extend(words(&[16, 0, 0, 8]));
        bytes.extend(words(&[225 | 5 << 32 | 40 << 48, 0x118_6810_0242]));
        let record = Record::parse(&attr, kind::SAMPLE, misc::USER, &bytes).unwrap();
        let Record::Sample(sample) = record else {
            panic!("{record:?}");
        };
        assert_eq!((sample.id, sample.ip), (Some(77), 0x40_1000));
        assert_eq!((sample.pid, sample.tid), (5, 6));
        assert_eq!((sample.time, sample.address), (Some(123), Some(0x7000)));
        assert_eq!(sample.period, Some(10_007));
        let calls: Vec<u64> = sample.calls.of_user().collect();
        assert_eq!(calls, [0x40_1000, 0x40_2000]);
        let weight = super::Weight {
            cycles: 225,
            retire_cycles: 40,
        };
        assert_eq!(sample.weight, Some(weight));
        assert_eq!(sample.source, Some(DataSource(0x118_6810_0242)));
        // Each shorter one is refused.
        for end in 0..bytes.len() {
            let cut = Record::parse(&attr, kind::SAMPLE, misc::USER, &bytes[..end]);
            assert!(cut.is_err(), "{end}");
        }
    }

    #[test]
    fn calls_of_the_kernel_are_left_out() {
        let kernel = -128i64 as u64;
        let bytes = words(&[kernel, 1, 2, CALLS_OF_USER, 3, 4]);
        let calls: Vec<u64> = Calls(&bytes).of_user().collect();
        assert_eq!(calls, [3, 4]);
    }

    #[test]
    fn a_mapping_has_its_name_without_what_is_behind() {
        let attr = Attr {
            flags: flag::ID_ALL,
            ..attr(&[Format::Tid, Format::Time])
        };
        let mut bytes = words(&[7 | 8 << 32, 0x1000, 0x2000, 0x3000, 0, 0, 0, 5]);
        bytes.extend(b"/bin/true\0\0\0\0\0\0\0");
        bytes.extend(words(&[7 | 8 << 32, 99]));
        let record = Record::parse(&attr, kind::MMAP2, 0, &bytes).unwrap();
        let Record::Mapped(mapped) = record else {
            panic!("{record:?}");
        };
        assert_eq!(
            (mapped.pid, mapped.start, mapped.bytes),
            (7, 0x1000, 0x2000)
        );
        assert_eq!((mapped.offset, mapped.executable), (0x3000, true));
        assert_eq!(mapped.name, "/bin/true");
        assert_eq!(time_of(&attr, kind::MMAP2, &bytes), Some(99));
        bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let why = Record::parse(&attr, kind::MMAP2, 0, &bytes).unwrap_err();
        assert!(why.to_string().contains("last address"), "{why}");
    }
}
