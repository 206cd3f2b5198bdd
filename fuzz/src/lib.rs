//! Helpers that the fuzz targets share: a memory limit, a source of choices, temporary files and a
//! mutator for structured text.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// Largest single allocation, in bytes. libFuzzer's `-malloc_limit_mb` needs a sanitizer, so the
/// allocator enforces this limit.
const LARGEST_ALLOCATION: usize = 1 << 30;

/// The system's allocator, which ends the process at an allocation above the limit.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// Reports an allocation that is too large and ends the process, so that libFuzzer keeps the input.
#[cold]
fn refuse(bytes: usize) -> ! {
    eprintln!(
        "found an allocation of {bytes} bytes; allowed: up to {LARGEST_ALLOCATION}\n{}",
        std::backtrace::Backtrace::force_capture()
    );
    std::process::abort()
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST_ALLOCATION {
            refuse(layout.size());
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST_ALLOCATION {
            refuse(layout.size());
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > LARGEST_ALLOCATION {
            refuse(size);
        }
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The bytes that end a saved state, computed from all bytes before them.
pub fn seal(body: &[u8]) -> Vec<u8> {
    Sha256::digest(body).to_vec()
}

/// An input that is read as a sequence of choices. After its end, it yields zeros.
pub struct Choices<'a>(pub &'a [u8]);

impl<'a> Choices<'a> {
    /// Whether all bytes of the input have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// The next two bytes as a number.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next eight bytes as a number.
    pub fn long(&mut self) -> u64 {
        (0..8).fold(0, |all, at| all | u64::from(self.byte()) << (8 * at))
    }

    /// The next bytes: `count`, or as many as are left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A folder for this process's temporary files.
pub fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("cxlab-fuzz-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&folder) {
        panic!("{}: {error}", folder.display());
    }
    folder
}

/// Mutates text that consists of keys and values, such as TOML and JSON.
pub struct TextMutator {
    /// The character between a key and its value.
    pub between: u8,
    /// Values that replace other values.
    pub values: Vec<String>,
    /// Lines that are inserted.
    pub lines: Vec<String>,
}

/// Values at and beyond the limits of what a scenario or a report may have.
pub const EXTREME: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "255",
    "4095",
    "4096",
    "65536",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.0",
    "-0.0",
    "1e-300",
    "0.5",
    "1.0",
    "1e308",
    "1e999",
    "true",
    "false",
    "\"\"",
    "[]",
    "{}",
    "null",
];

/// Quantities at and beyond the limits of what a scenario may have.
pub const QUANTITIES: &[&str] = &[
    "\"0 ns\"",
    "\"1 ps\"",
    "\"1 us\"",
    "\"1 s\"",
    "\"3600 s\"",
    "\"18446744 s\"",
    "\"0 B\"",
    "\"64 B\"",
    "\"4 KiB\"",
    "\"1 MiB\"",
    "\"256 MiB\"",
    "\"1 GiB\"",
    "\"16 TiB\"",
    "\"16777215 TiB\"",
    "\"0 B/s\"",
    "\"1 B/s\"",
    "\"1 GB/s\"",
    "\"18446744 TB/s\"",
    "\"0 %\"",
    "\"1 ppm\"",
    "\"100 %\"",
];

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Random {
        Random(u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) as usize).checked_rem(end).unwrap_or(0)
    }

    fn one<'a>(&mut self, of: &'a [String]) -> &'a [u8] {
        of.get(self.below(of.len()))
            .map_or(b"", |one| one.as_bytes())
    }
}

impl TextMutator {
    /// Changes `data[..size]` in place, to at most `limit` bytes; returns the new length. One call in four is
    /// libFuzzer's own mutation of bytes.
    pub fn mutate(&self, data: &mut [u8], size: usize, limit: usize, seed: u32) -> usize {
        let mut random = Random::new(seed);
        let mut text = data[..size].to_vec();
        for _ in 0..=random.below(3) {
            match random.below(8) {
                0 | 1 => return libfuzzer_sys::fuzzer_mutate(data, size, limit),
                2..=4 => self.replace_value(&mut text, &mut random),
                5 => splice(&mut text, &mut random, self),
                6 => remove_line(&mut text, &mut random),
                _ => repeat_line(&mut text, &mut random),
            }
        }
        let size = text.len().min(limit).min(data.len());
        data[..size].copy_from_slice(&text[..size]);
        size
    }

    fn replace_value(&self, text: &mut Vec<u8>, random: &mut Random) {
        let places: Vec<usize> = (0..text.len())
            .filter(|at| text[*at] == self.between)
            .collect();
        let Some(at) = places.get(random.below(places.len())) else {
            return;
        };
        let from = at + 1;
        let mut quoted = false;
        let length = text[from..].iter().position(|byte| {
            quoted ^= *byte == b'"';
            *byte == b'\n' || !quoted && matches!(byte, b',' | b'}' | b']')
        });
        let to = length.map_or(text.len(), |length| from + length);
        let mut value = b" ".to_vec();
        value.extend_from_slice(random.one(&self.values));
        text.splice(from..to, value);
    }
}

/// Inserts a line.
fn splice(text: &mut Vec<u8>, random: &mut Random, from: &TextMutator) {
    let at = line_starts(text);
    let at = at[random.below(at.len())];
    let mut line = random.one(&from.lines).to_vec();
    line.push(b'\n');
    text.splice(at..at, line);
}

fn remove_line(text: &mut Vec<u8>, random: &mut Random) {
    let starts = line_starts(text);
    let from = random.below(starts.len());
    let to = starts.get(from + 1).copied().unwrap_or(text.len());
    text.drain(starts[from]..to);
}

fn repeat_line(text: &mut Vec<u8>, random: &mut Random) {
    let starts = line_starts(text);
    let from = random.below(starts.len());
    let to = starts.get(from + 1).copied().unwrap_or(text.len());
    let line = text[starts[from]..to].to_vec();
    let at = starts[random.below(starts.len())];
    text.splice(at..at, line);
}

/// Where lines begin; the first begins at 0.
fn line_starts(text: &[u8]) -> Vec<usize> {
    let ends = (0..text.len()).filter(|at| text[*at] == b'\n');
    std::iter::once(0)
        .chain(ends.map(|at| at + 1))
        .filter(|at| *at < text.len().max(1))
        .collect()
}
