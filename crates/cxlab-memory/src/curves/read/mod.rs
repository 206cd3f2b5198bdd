//! Readers of files with bandwidth-latency curves: this project's CSV, the files of Mess, and the output
//! of Intel's Memory Latency Checker.
//!
//! The readers check each value by itself. [`CurveFamily`](super::CurveFamily) checks the curves.

pub mod csv;
pub mod mess;
pub mod mlc;

use std::fmt;

/// Least bandwidth of a point in MB/s and least latency in nanoseconds: 1 kB/s and 1 ps (*assumed*).
pub const LEAST: f64 = 1e-3;
/// Largest bandwidth of a point in MB/s: ten times a package with several stacks of HBM (*assumed*).
/// Larger numbers are bytes or kilobytes per second.
pub const MAX_MB_PER_S: f64 = 1e7;
/// Largest latency of a point: 1 s, in nanoseconds (*assumed*; the limit of times in a scenario).
pub const MAX_NS: f64 = 1e9;

/// A measured point of a file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeasuredPoint {
    /// Line of the file, from 1.
    pub line: usize,
    /// Share of reads among the lines of 64 bytes that the memory serves, 0 to 100.
    pub read_percent: f64,
    /// Bandwidth of reads and writes together, in MB/s (10^6 bytes per second).
    pub mb_per_s: f64,
    /// Latency of a read in nanoseconds.
    pub latency_ns: f64,
}

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The field, the value found, and the values allowed.
    pub message: String,
}

impl ReadError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> ReadError {
        ReadError {
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl std::error::Error for ReadError {}

/// The file as text.
fn text(content: &[u8]) -> Result<&str, ReadError> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    std::str::from_utf8(content).map_err(|error| {
        let before = &content[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        ReadError::new(line, "found bytes that are no UTF-8; allowed: text")
    })
}

/// The lines of a text with their numbers, from 1, without surrounding white space.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    lines.map(|(at, line)| (at + 1, line.trim()))
}

/// A field of a file as an error message shows it: at most 40 characters, without control characters.
pub(super) fn shown(found: &str) -> String {
    let mut text: String = found
        .chars()
        .take(40)
        .flat_map(char::escape_debug)
        .collect();
    if found.chars().nth(40).is_some() {
        text.push_str("...");
    }
    text
}

/// Reads a number from [`LEAST`] to `most`.
fn positive(line: usize, field: &str, found: &str, most: f64) -> Result<f64, ReadError> {
    match found.parse::<f64>() {
        Ok(value) if (LEAST..=most).contains(&value) => Ok(value),
        _ => {
            let found = shown(found);
            let message = format!("{field}: found `{found}`; allowed: {LEAST} to {most}");
            Err(ReadError::new(line, message))
        }
    }
}

/// Reads a share of reads in percent, 0 to 100.
fn percent(line: usize, field: &str, found: &str) -> Result<f64, ReadError> {
    match found.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => {
            let message = format!("{field}: found `{}`; allowed: 0 to 100", shown(found));
            Err(ReadError::new(line, message))
        }
    }
}
