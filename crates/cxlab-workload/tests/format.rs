//! The `.cxlt` format: golden bytes, round trips, and damage of every kind.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::path::Path;

use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_workload::trace::{Header, Record, TraceReader, TraceWriter};
use cxlab_workload::{OpKind, TraceError};
use proptest::prelude::*;

fn header(has_time: bool) -> Header {
    Header {
        has_time,
        provenance: "a test".to_owned(),
    }
}

fn write(has_time: bool, records: &[Record]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header(has_time)).unwrap();
    for record in records {
        writer.push(*record).unwrap();
    }
    let (bytes, totals) = writer.finish().unwrap();
    assert_eq!(totals.bytes, bytes.len() as u64);
    assert_eq!(totals.records, records.len() as u64);
    bytes
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    TraceReader::new(bytes, Path::new("t.cxlt"))?.collect()
}

fn record(line: u64, write: bool, time: u64) -> Record {
    let kind = if write { OpKind::Write } else { OpKind::Read };
    Record {
        line: LineAddr(line),
        kind,
        time: SimTime(time),
    }
}

fn some_records(count: u64) -> Vec<Record> {
    (0..count)
        .map(|i| record(i * 7919 % 1000, i % 3 == 0, i * 1000))
        .collect()
}

#[test]
fn the_header_and_an_empty_trace_are_these_bytes_for_ever() {
    let mut golden = b"\x89CXLT\r\n\x1a\x01\x00\x01\x00\x17\x00\x00\x00".to_vec();
    golden.extend(br#"{"provenance":"a test"}"#);
    golden.extend([0x4c, 0x85, 0x04, 0x34]);
    golden.extend(b"F\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    golden.extend([0xbc, 0x8d, 0xd8, 0x43]);
    assert_eq!(write(true, &[]), golden);
    assert_eq!(read(&golden).unwrap(), []);
}

#[test]
fn a_trace_of_several_blocks_comes_back_and_can_be_skipped_through() {
    let records = some_records(150_000);
    let bytes = write(true, &records);
    assert_eq!(read(&bytes).unwrap(), records);
    for skip in [0, 1, 65_535, 65_536, 65_537, 140_000, 150_000, 150_001] {
        let mut reader = TraceReader::new(&bytes[..], Path::new("t")).unwrap();
        reader.next_record().unwrap();
        let skipped = reader.skip_records(skip).unwrap();
        assert_eq!(skipped, skip.min(149_999));
        let rest = reader.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(rest, records[1 + skipped as usize..]);
    }
}

#[test]
fn a_trace_cut_off_anywhere_is_an_error() {
    for bytes in [write(true, &some_records(50)), write(false, &[])] {
        for length in 0..bytes.len() {
            let error = read(&bytes[..length]).unwrap_err().to_string();
            let placed = error.starts_with("t.cxlt: ") && error.contains("byte");
            assert!(placed, "{error}");
        }
    }
}

#[test]
fn a_trace_cut_off_between_blocks_is_an_error() {
    let bytes = write(false, &some_records(70_000));
    // The footer takes 25 bytes; without it the last block ends the file.
    let error = read(&bytes[..bytes.len() - 25]).unwrap_err();
    assert!(error.message.contains("truncated"), "{error}");
}

#[test]
fn any_changed_or_added_byte_is_an_error() {
    let bytes = write(true, &some_records(50));
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(read(&damaged).is_err(), "byte {at} ^ {flip:#x}");
        }
    }
    let mut longer = bytes;
    longer.push(0);
    let error = read(&longer).unwrap_err();
    assert!(error.message.contains("behind its footer"), "{error}");
}

#[test]
fn an_error_is_given_again_and_never_turns_into_an_end() {
    let mut bytes = write(true, &some_records(50));
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    let mut reader = TraceReader::new(&bytes[..], Path::new("t")).unwrap();
    let first = reader.next_record().unwrap_err();
    assert_eq!(reader.next_record().unwrap_err(), first);
    assert_eq!(reader.skip_records(5).unwrap_err(), first);
}

#[test]
fn another_version_is_refused_by_name() {
    let mut bytes = write(true, &[]);
    bytes[8] = 9;
    let error = read(&bytes).unwrap_err().to_string();
    assert_eq!(error, "t.cxlt: at byte 8: `version`: found 9; allowed: 1");
}

fn any_record() -> impl Strategy<Value = Record> {
    (0..=u64::MAX / 64, any::<bool>(), any::<u64>()).prop_map(|(l, w, t)| record(l, w, t))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_records_come_back(records in prop::collection::vec(any_record(), 0..200)) {
        prop_assert_eq!(read(&write(true, &records)).unwrap(), records.clone());
        let untimed: Vec<_> = records.iter().map(|r| Record { time: SimTime::ZERO, ..*r }).collect();
        prop_assert_eq!(read(&write(false, &records)).unwrap(), untimed);
    }

    #[test]
    fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn arbitrary_bytes_behind_a_header_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut file = write(true, &[]);
        file.truncate(file.len() - 25);
        file.extend(bytes);
        prop_assert!(read(&file).is_err());
    }

    /// With a correct checksum, a block of any content is read or is an error; it never panics.
    #[test]
    fn a_signed_block_of_arbitrary_content_does_no_harm(
        columns in prop::collection::vec(any::<u8>(), 1..200),
        records in 1u32..60,
        address_bytes in 1u32..200,
    ) {
        let mut file = write(true, &[]);
        file.truncate(file.len() - 25);
        let stored = zstd::bulk::compress(&columns, 1).unwrap();
        let mut block = vec![b'B'];
        let time_bytes = (columns.len() as u32).saturating_sub(address_bytes);
        for word in [records, address_bytes, time_bytes, stored.len() as u32] {
            block.extend(word.to_le_bytes());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&block);
        hasher.update(&stored);
        block.extend(hasher.finalize().to_le_bytes());
        block.extend(stored);
        file.extend(block);
        prop_assert!(read(&file).is_err(), "there is no footer");
    }
}
