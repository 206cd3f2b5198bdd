use std::io::Cursor;

use super::*;
use crate::attr::{Format, flag};
use crate::encode;
use crate::record::{Calls, MemoryMapping, Mode, Sample, Task, Weight};
use crate::source::{DataSource, LoadOrigin};
use proptest::prelude::*;

/// Loads with their addresses, as on a processor of Intel, and cycles.
fn two_events() -> Vec<Event> {
    use Format::*;
    let common = Format::bits(&[Identifier, Ip, Tid, Time]);
    let loads = Attr {
        kind: 4,
        config: 0x20d1,
        sample_period: 10_007,
        sample_type: common | Format::bits(&[Addr, Callchain, WeightStruct, DataSrc]),
        flags: flag::ID_ALL | flag::MAP_DATA,
        ..Attr::default()
    };
    let cycles = Attr {
        sample_period: 4000,
        sample_type: common | Format::bits(&[Period]),
        flags: flag::ID_ALL | flag::FREQUENCY,
        ..Attr::default()
    };
    vec![
        Event {
            attr: loads,
            ids: vec![11, 12],
            name: "mem_load_retired.l3_miss:P".to_owned(),
        },
        Event {
            attr: cycles,
            ids: vec![21],
            name: "cycles".to_owned(),
        },
    ]
}

fn sample(id: u64, time: u64, calls: &[u8]) -> Sample<'_> {
    Sample {
        id: Some(id),
        mode: Mode::User,
        ip: 0x40_1000 + id,
        pid: 5,
        tid: 6,
        time: Some(time),
        calls: Calls(calls),
        ..Sample::default()
    }
}

fn written() -> (Vec<u8>, Vec<(usize, u64, Record<'static>)>) {
    let events = two_events();
    const CALLS: [u8; 16] = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let memory = LoadOrigin::Memory {
        remote: false,
        cxl: false,
    };
    let mapped = MemoryMapping {
        pid: 5,
        start: 0x40_0000,
        bytes: 0x1000,
        offset: 0,
        executable: true,
        name: "/usr/bin/program".to_owned(),
    };
    let task = Task {
        pid: 6,
        parent_pid: 5,
        tid: 6,
        parent_tid: 5,
    };
    let load = Sample {
        address: Some(0x7fff_1000),
        weight: Some(Weight {
            cycles: 300,
            retire_cycles: 7,
        }),
        source: Some(DataSource::load(memory)),
        ..sample(12, 4, &CALLS)
    };
    let cycles = Sample {
        period: Some(2_000_000),
        ..sample(21, 5, &[])
    };
    let records = vec![
        (0, 1, Record::Executes { pid: 5 }),
        (0, 2, Record::Mapped(mapped)),
        (0, 3, Record::Fork(task)),
        (0, 4, Record::Sample(load)),
        (1, 5, Record::Sample(cycles)),
        (0, 6, Record::Lost(17)),
        (0, 7, Record::Throttled),
    ];
    let mut bytes = Vec::new();
    for (event, time, record) in &records {
        bytes.extend(encode::record(&events[*event].attr, record, *time));
    }
    (encode::file(&events, "machine", &bytes), records)
}

type Heard = Vec<(usize, Option<u64>, String)>;

fn read(bytes: &[u8]) -> Result<Heard, FileError> {
    let mut file = PerfData::open(Cursor::new(bytes))?;
    let mut heard = Vec::new();
    file.records(&mut |event, time, record| {
        heard.push((event, time, format!("{record:?}")));
        true
    })?;
    Ok(heard)
}

#[test]
fn what_is_written_is_read() {
    let (bytes, records) = written();
    let file = PerfData::open(Cursor::new(&bytes)).unwrap();
    assert_eq!(file.events, two_events());
    assert_eq!(file.host.as_deref(), Some("machine"));
    let heard = read(&bytes).unwrap();
    assert_eq!(heard.len(), records.len());
    for ((event, time, record), (expected, at, written)) in heard.iter().zip(&records) {
        assert_eq!((event, *time), (expected, Some(*at)));
        assert_eq!(*record, format!("{written:?}"));
    }
}

/// Every shorter file is refused, with what is in front of its end told where that is whole.
#[test]
fn a_file_that_was_cut_is_refused() {
    let (bytes, _) = written();
    for end in 0..bytes.len() {
        let found = read(&bytes[..end]);
        assert!(found.is_err(), "{end} of {}", bytes.len());
    }
}

#[test]
fn files_of_other_kinds_are_named() {
    let (bytes, _) = written();
    let changed = |at: usize, with: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + with.len()].copy_from_slice(with);
        read(&changed).unwrap_err().to_string()
    };
    let is = |found: String, part: &str| assert!(found.contains(part), "{found}");
    is(changed(0, b"ELF"), "no perf.data file");
    is(changed(0, b"2ELIFREP"), "byte order");
    is(changed(8, &16u64.to_le_bytes()), "pipe");
    is(changed(8, &60u64.to_le_bytes()), "60 bytes");
    // The size of the list of events, and of its entries.
    is(changed(16, &7u64.to_le_bytes()), "events of 7 bytes");
    is(changed(32, &u64::MAX.to_le_bytes()), "events of");
    is(changed(32, &0u64.to_le_bytes()), "0 events");
    // The records.
    is(changed(48, &u64::MAX.to_le_bytes()), "last byte");
    let data = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    is(
        changed(data + 6, &4u16.to_le_bytes()),
        "a record of 4 bytes",
    );
    is(changed(data, &81u32.to_le_bytes()), "without -z");
    is(changed(data, &71u32.to_le_bytes()), "behind a record");
}

proptest! {
    /// A file with some bytes changed is read or refused.
    #[test]
    fn damage_is_refused_or_read(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let (mut bytes, records) = written();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(heard) = read(&bytes) {
            prop_assert!(heard.len() <= 8 * records.len());
        }
    }
}
