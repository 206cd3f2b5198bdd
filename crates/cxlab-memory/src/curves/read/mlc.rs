//! The output of `mlc --loaded_latency` (Intel Memory Latency Checker v3): a table with the columns
//! `Inject Delay`, `Latency (ns)` and `Bandwidth MB/sec` (10^6 bytes per second, as the tool prints).
//!
//! The mix is in the line `Command line parameters:` if that has `-R` or `-Wn`, or in `Using Read-only
//! traffic type`. Other output does not say the mix, so the caller must.

use super::{MAX_MB_PER_S, MAX_NS, MeasuredPoint, ReadError, lines, positive, shown, text};

/// Reads and writes of `-Wn` at the memory controller, from the usage text of MLC v3.
const MIXES: [(&str, [u32; 2]); 16] = [
    ("2", [2, 1]),
    ("3", [3, 1]),
    ("4", [3, 2]),
    ("5", [1, 1]),
    ("6", [0, 1]),
    ("7", [2, 1]),
    ("8", [1, 1]),
    ("9", [3, 1]),
    ("10", [2, 1]),
    ("11", [3, 1]),
    ("12", [4, 1]),
    ("13", [5, 1]),
    ("14", [6, 1]),
    ("15", [7, 1]),
    ("16", [8, 1]),
    ("17", [9, 1]),
];

/// The largest difference between the mix of the caller and that of the file, in percentage points: a
/// caller may round 66.67.
const ROUNDING: f64 = 0.5;

/// Reads the points of a file. `given` is the read percent, if the caller knows it.
///
/// # Errors
/// The first line that is wrong, several tables or none, and a mix that nothing says or that differs
/// from `given`.
pub fn read(content: &[u8], given: Option<f64>) -> Result<Vec<MeasuredPoint>, ReadError> {
    let text = text(content)?;
    let mut stated: Option<(usize, f64)> = None;
    let mut table: Option<(usize, f64)> = None;
    let mut points = Vec::new();
    let mut all = lines(text).peekable();
    while let Some((line, row)) = all.next() {
        if let Some(percent) = mix(line, row)? {
            stated = Some((line, percent));
            continue;
        }
        if !is_header(row) {
            continue;
        }
        if let Some((first, _)) = table {
            let message = format!(
                "table: found a second one, the first is in line {first}; allowed: one a file"
            );
            return Err(ReadError::new(line, message));
        }
        let read_percent = agreed(line, stated, given)?;
        table = Some((line, read_percent));
        let units = all.next().map_or("", |(_, units)| units);
        if !(units.contains("(ns)") && units.contains("MB/sec")) {
            let message = format!("units: found `{}`; allowed: (ns) and MB/sec", shown(units));
            return Err(ReadError::new(line + 1, message));
        }
        let is_row =
            |row: &str| row.starts_with('=') || row.starts_with(|c: char| c.is_ascii_digit());
        while let Some((line, row)) = all.next_if(|(_, row)| is_row(row)) {
            if !row.starts_with('=') {
                points.push(point(line, row, read_percent)?);
            }
        }
    }
    match table {
        Some(_) => Ok(points),
        None => Err(ReadError::new(
            1,
            "table: found none; allowed: the output of `mlc --loaded_latency`, with the line \
             `Inject Latency Bandwidth`",
        )),
    }
}

fn is_header(row: &str) -> bool {
    row.split_whitespace()
        .eq(["Inject", "Latency", "Bandwidth"])
}

/// The mix that the file states and the one that the caller gives, if they agree.
fn agreed(line: usize, stated: Option<(usize, f64)>, given: Option<f64>) -> Result<f64, ReadError> {
    match (stated, given) {
        (Some((line, stated)), Some(given)) if (stated - given).abs() > ROUNDING => {
            let message = format!("mix: found {stated:.2} % reads; allowed: {given} %, as given");
            Err(ReadError::new(line, message))
        }
        (Some((_, stated)), _) => Ok(stated),
        (None, Some(given)) => Ok(given),
        (None, None) => Err(ReadError::new(
            line,
            "mix: the text above the table does not say it; allowed: `-R` or `-Wn` in a line \
             `Command line parameters:`, `Using Read-only traffic type`, or the key `read_percents`",
        )),
    }
}

/// The read percent that a line of text says.
fn mix(line: usize, row: &str) -> Result<Option<f64>, ReadError> {
    if row.starts_with("Using Read-only traffic type") {
        return Ok(Some(100.0));
    }
    let Some(arguments) = row.strip_prefix("Command line parameters:") else {
        return Ok(None);
    };
    let mut found = None;
    for argument in arguments.split_whitespace() {
        if argument == "-R" {
            found = Some(100.0);
        } else if let Some(number) = argument.strip_prefix("-W") {
            let known = MIXES.iter().find(|(name, _)| *name == number);
            let Some((_, [reads, writes])) = known else {
                let message = format!(
                    "mix: found `{}`; allowed: -W2 to -W17, whose ratio of reads and writes MLC \
                     documents",
                    shown(argument)
                );
                return Err(ReadError::new(line, message));
            };
            found = Some(100.0 * f64::from(*reads) / f64::from(reads + writes));
        }
    }
    Ok(found)
}

fn point(line: usize, row: &str, read_percent: f64) -> Result<MeasuredPoint, ReadError> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let [_, latency, bandwidth] = fields[..] else {
        let message = format!(
            "row: found {} values; allowed: 3, delay, latency and bandwidth",
            fields.len()
        );
        return Err(ReadError::new(line, message));
    };
    Ok(MeasuredPoint {
        line,
        read_percent,
        mb_per_s: positive(line, "Bandwidth", bandwidth, MAX_MB_PER_S)?,
        latency_ns: positive(line, "Latency", latency, MAX_NS)?,
    })
}
