//! `.cxlt` traces with valid checksums, so that the checks after them are reached. Traces that are
//! read whole are written again, and must have the same records.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use cxlab_fuzz::Choices;
use cxlab_workload::trace::{Header, MAGIC, Record, TraceReader, TraceWriter};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 16;
const BLOCK: usize = 21;
const FOOTER: usize = 25;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let bytes = match choices.byte() % 2 {
        0 => resealed(choices.0.to_vec()),
        _ => built(&mut choices),
    };
    let Some((header, records)) = read(&bytes, 0) else {
        return;
    };
    let skipped = records.len() as u64 / 3;
    let (_, rest) = read(&bytes, skipped).expect("it was read before");
    assert_eq!(rest, records[skipped as usize..]);
    let mut writer = TraceWriter::new(Vec::new(), &header).expect("a vector takes all");
    for record in &records {
        writer.push(*record).expect("it was read before");
    }
    let (bytes, totals) = writer.finish().expect("a vector takes all");
    assert_eq!(totals.bytes, bytes.len() as u64);
    assert_eq!(read(&bytes, 0), Some((header, records)));
});

/// The header and the records after the first `skipped` ones. `None` if the trace is refused.
fn read(bytes: &[u8], skipped: u64) -> Option<(Header, Vec<Record>)> {
    let mut reader = TraceReader::new(Cursor::new(bytes), Path::new("input")).ok()?;
    assert_eq!(reader.skip_records(skipped).ok()?, skipped);
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().ok()? {
        records.push(record);
    }
    Some((reader.header().clone(), records))
}

fn word(bytes: &[u8], at: usize) -> usize {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_le_bytes(word.unwrap_or_default()) as usize
}

/// Replaces the checksums of a file by valid ones.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let put = |bytes: &mut Vec<u8>, at: usize, sum: u32| {
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    };
    let mut at = HEADER + word(&bytes, 12);
    if at + 4 > bytes.len() {
        return bytes;
    }
    let sum = crc32fast::hash(&bytes[..at]);
    put(&mut bytes, at, sum);
    at += 4;
    let (mut chain, mut blocks, mut records) = (crc32fast::Hasher::new(), 0u64, 0u64);
    while at < bytes.len() {
        let next = at + BLOCK + word(&bytes, at + 13);
        if bytes[at] != b'B' || next > bytes.len() {
            break;
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[at..at + 17]);
        hasher.update(&bytes[at + BLOCK..next]);
        let sum = hasher.finalize();
        put(&mut bytes, at + 17, sum);
        chain.update(&sum.to_le_bytes());
        blocks += 1;
        records += word(&bytes, at + 1) as u64;
        at = next;
    }
    if bytes.get(at) == Some(&b'F') {
        bytes.resize(at + FOOTER, 0);
        bytes[at + 1..at + 9].copy_from_slice(&records.to_le_bytes());
        bytes[at + 9..at + 17].copy_from_slice(&blocks.to_le_bytes());
        put(&mut bytes, at + 17, chain.finalize());
        let sum = crc32fast::hash(&bytes[at..at + 21]);
        put(&mut bytes, at + 21, sum);
    }
    bytes
}

/// Builds a file of blocks with the input's bytes as columns, and counts that may be wrong.
fn built(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(1u16.to_le_bytes());
    bytes.extend(u16::from(choices.byte()).to_le_bytes());
    let json = br#"{"provenance":""}"#;
    bytes.extend((json.len() as u32).to_le_bytes());
    bytes.extend(json);
    bytes.extend([0; 4]);
    while !choices.is_empty() {
        let records = u32::from(choices.word());
        let (addresses, times) = (usize::from(choices.word()), usize::from(choices.word()));
        let repeats = 1 + usize::from(choices.byte());
        let length = usize::from(choices.word());
        let columns = choices.bytes(length).repeat(repeats);
        let Ok(stored) = zstd::bulk::compress(&columns, 1) else {
            continue;
        };
        // Three blocks in four have a valid sum of columns.
        let times = match choices.byte() % 4 {
            0 => times,
            _ => columns.len().saturating_sub(addresses),
        };
        bytes.push(b'B');
        for word in [
            records,
            addresses as u32,
            times as u32,
            stored.len() as u32,
            0,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(stored);
    }
    bytes.push(b'F');
    resealed(bytes)
}
