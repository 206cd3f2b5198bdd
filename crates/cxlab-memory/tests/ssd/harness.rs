//! A drive by itself, which tests run until it is idle.

use cxlab_engine::units::{Bytes, Picos, SimTime};
use cxlab_memory::ssd::{Drive, SsdParams, WriteBufferParams};
use cxlab_memory::{Completion, MediumSite, MemoryBackend, MemoryRequest};

use crate::common;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

pub fn drive(params: &SsdParams, capacity: u64) -> Drive {
    Drive::new(params, MediumSite::alone(Bytes(capacity), 1)).unwrap()
}

/// A small drive: few dies with small blocks, so that collection begins soon.
pub fn small() -> SsdParams {
    SsdParams {
        channels: 2,
        ways: 2,
        planes: Some(2),
        pages: Some(16),
        page: Some(Bytes(16 * KIB)),
        write_buffer: WriteBufferParams {
            capacity: Bytes(256 * KIB),
            ..WriteBufferParams::default()
        },
        ..SsdParams::default()
    }
}

/// A request for lines from `line` on.
pub fn request(id: u32, line: u64, lines: u16, write: bool) -> MemoryRequest {
    common::request(id, line * 64, lines, write)
}

/// Advances the drive until it has no more events.
pub fn run_dry(drive: &mut Drive) -> Vec<Completion> {
    common::drain(drive).0
}

/// Latency of a single request that arrives at `now`.
pub fn alone(drive: &mut Drive, now: u64, request: MemoryRequest) -> Picos {
    assert!(drive.can_accept(SimTime(now), request.write));
    assert_eq!(drive.enqueue(SimTime(now), request), None);
    let done = run_dry(drive);
    assert_eq!(done.len(), 1);
    done[0].at.since(SimTime(now))
}

/// The value of a statistic, by name.
pub fn statistic(drive: &Drive, now: u64, name: &str) -> f64 {
    common::statistic(drive, now, name)
}

/// Writes whole sub-pages of 4 KiB with 64 in flight. Returns the time of the last completion.
pub fn write_all(drive: &mut Drive, from: u64, count: u64, pick: &mut impl FnMut() -> u64) -> u64 {
    let (mut now, mut flying, mut left) = (from, 0, count);
    let mut done = Vec::new();
    while left > 0 || flying > 0 {
        while left > 0 && flying < 64 && drive.can_accept(SimTime(now), true) {
            drive.enqueue(SimTime(now), request(0, pick() * 64, 64, true));
            left -= 1;
            flying += 1;
        }
        if flying == 0 {
            break;
        }
        now = drive.next_event().unwrap().0.max(now);
        drive.advance(SimTime(now), &mut done);
        flying -= done.len() as u64;
        done.clear();
    }
    now
}

/// Writes whole sub-pages of 4 KiB, eight at a time, and waits after each group until the drive is
/// idle. Collection always keeps up.
pub fn write_paced(
    drive: &mut Drive,
    from: u64,
    count: u64,
    pick: &mut impl FnMut() -> u64,
) -> u64 {
    let (mut now, mut done) = (from, Vec::new());
    for number in 0..count {
        drive.enqueue(SimTime(now), request(0, pick() * 64, 64, true));
        while let Some(at) = drive.next_event().filter(|_| number % 8 == 7) {
            now = at.0;
            drive.advance(at, &mut done);
        }
        done.clear();
    }
    now
}
