//! Writes records and perf.data files.

use crate::attr::{Attr, BYTES, Format};
use crate::record::{HEADER, MemoryMapping, Mode, Record, Sample, Task, kind, misc};

/// A record of an event with its header, as the kernel writes it. Fields without a value in the sample are 0.
/// Only [`Format`]s from `Ip` to `Period`, `Callchain`, `Weight`, `WeightStruct` and `DataSrc` are written.
pub fn record(attr: &Attr, record: &Record<'_>, time: u64) -> Vec<u8> {
    let mut fields = Vec::new();
    let (kind, misc) = match record {
        Record::Sample(one) => {
            sample(attr, one, &mut fields);
            let mode = match one.mode {
                Mode::User => misc::USER,
                Mode::Kernel => misc::KERNEL,
                Mode::Other => 0,
            };
            return whole(kind::SAMPLE, mode, fields);
        }
        Record::Mapped(one) => {
            mapped(one, &mut fields);
            let data = u16::from(!one.executable) * misc::DATA_OR_EXEC;
            (kind::MMAP2, data | misc::USER)
        }
        Record::Executes { pid } => {
            fields.extend(pid.to_le_bytes());
            fields.extend(pid.to_le_bytes());
            fields.extend(*b"program\0");
            (kind::COMM, misc::DATA_OR_EXEC | misc::USER)
        }
        Record::Fork(one) => {
            task(one, time, &mut fields);
            (kind::FORK, 0)
        }
        Record::Exit(one) => {
            task(one, time, &mut fields);
            (kind::EXIT, 0)
        }
        Record::Lost(events) => {
            fields.extend(0u64.to_le_bytes());
            fields.extend(events.to_le_bytes());
            (kind::LOST, 0)
        }
        Record::Throttled => {
            fields.extend([0; 24]);
            (kind::THROTTLE, 0)
        }
        Record::Other(other) => (*other, 0),
    };
    let (behind, time_at) = attr.behind();
    let from = fields.len();
    fields.resize(from + behind as usize, 0);
    if let Some(time_at) = time_at {
        let at = from + time_at as usize;
        fields[at..at + 8].copy_from_slice(&time.to_le_bytes());
    }
    whole(kind, misc, fields)
}

fn whole(kind: u32, misc: u16, fields: Vec<u8>) -> Vec<u8> {
    let size = u16::try_from(HEADER + fields.len()).unwrap_or(u16::MAX);
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(misc.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(fields);
    bytes
}

fn task(one: &Task, time: u64, fields: &mut Vec<u8>) {
    for number in [one.pid, one.parent_pid, one.tid, one.parent_tid] {
        fields.extend(number.to_le_bytes());
    }
    fields.extend(time.to_le_bytes());
}

fn mapped(one: &MemoryMapping, fields: &mut Vec<u8>) {
    const READABLE: u32 = 1;
    const EXECUTABLE: u32 = 4;
    for number in [one.pid, one.pid] {
        fields.extend(number.to_le_bytes());
    }
    for word in [one.start, one.bytes, one.offset] {
        fields.extend(word.to_le_bytes());
    }
    fields.extend([0; 24]);
    let rights = READABLE | if one.executable { EXECUTABLE } else { 0 };
    fields.extend(rights.to_le_bytes());
    fields.extend(0u32.to_le_bytes());
    fields.extend(one.name.as_bytes());
    // One zero at least, and up to the next word.
    let words = one.name.len() / 8 + 1;
    fields.resize(fields.len() + 8 * words - one.name.len(), 0);
}

fn sample(attr: &Attr, one: &Sample<'_>, fields: &mut Vec<u8>) {
    let task = u64::from(one.pid as u32) | u64::from(one.tid as u32) << 32;
    let in_front = [
        (Format::Identifier, one.id.unwrap_or(0)),
        (Format::Ip, one.ip),
        (Format::Tid, task),
        (Format::Time, one.time.unwrap_or(0)),
        (Format::Addr, one.address.unwrap_or(0)),
        (Format::Id, one.id.unwrap_or(0)),
        (Format::StreamId, 0),
        (Format::Cpu, 0),
        (Format::Period, one.period.unwrap_or(0)),
    ];
    for (field, word) in in_front {
        if attr.has(field) {
            fields.extend(word.to_le_bytes());
        }
    }
    if attr.has(Format::Callchain) {
        let calls = one.calls.0;
        fields.extend((calls.len() as u64 / 8).to_le_bytes());
        fields.extend(calls);
    }
    let weight = one.weight.unwrap_or_default();
    if attr.has(Format::Weight) {
        fields.extend(u64::from(weight.cycles).to_le_bytes());
    } else if attr.has(Format::WeightStruct) {
        fields.extend(weight.cycles.to_le_bytes());
        fields.extend(0u16.to_le_bytes());
        fields.extend(weight.retire_cycles.to_le_bytes());
    }
    if attr.has(Format::DataSrc) {
        fields.extend(one.source.map_or(0, |source| source.0).to_le_bytes());
    }
}

/// An event of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Attributes of the event.
    pub attr: Attr,
    /// Event numbers in the samples of the event.
    pub ids: Vec<u64>,
    /// Name of the event, as perf writes it.
    pub name: String,
}

/// A perf.data file with these events and records.
pub fn file(events: &[Event], host: &str, records: &[u8]) -> Vec<u8> {
    const HEADER: u64 = 104;
    let entry = BYTES as u64 + 16;
    let ids_at = HEADER + entry * events.len() as u64;
    let ids: u64 = events.iter().map(|event| 8 * event.ids.len() as u64).sum();
    let data_at = ids_at + ids;
    let mut bytes = b"PERFILE2".to_vec();
    let mut put = |words: &[u64]| {
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
    };
    put(&[HEADER, entry, HEADER, entry * events.len() as u64]);
    put(&[data_at, records.len() as u64, 0, 0]);
    put(&[1 << 3 | 1 << 12, 0, 0, 0]);
    let mut at = ids_at;
    for event in events {
        bytes.extend(event.attr.write());
        let of = 8 * event.ids.len() as u64;
        bytes.extend(at.to_le_bytes());
        bytes.extend(of.to_le_bytes());
        at += of;
    }
    for id in events.iter().flat_map(|event| &event.ids) {
        bytes.extend(id.to_le_bytes());
    }
    bytes.extend(records);
    let text = |text: &str| {
        let padded = text.len() / 64 * 64 + 64;
        let mut bytes = (padded as u32).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(4 + padded, 0);
        bytes
    };
    let mut names = (events.len() as u32).to_le_bytes().to_vec();
    names.extend((BYTES as u32).to_le_bytes());
    for event in events {
        names.extend(event.attr.write());
        names.extend((event.ids.len() as u32).to_le_bytes());
        names.extend(text(&event.name));
        event
            .ids
            .iter()
            .for_each(|id| names.extend(id.to_le_bytes()));
    }
    let features = [text(host), names];
    let mut at = bytes.len() as u64 + 16 * features.len() as u64;
    for feature in &features {
        bytes.extend(at.to_le_bytes());
        bytes.extend((feature.len() as u64).to_le_bytes());
        at += feature.len() as u64;
    }
    features.iter().for_each(|feature| bytes.extend(feature));
    bytes
}
