//! Curves as a CSV file with the columns of [`HEADER`]. Empty lines and lines that begin with `#` are
//! skipped. Rows of different mixes may come in any order.

use super::{
    MAX_MB_PER_S, MAX_NS, MeasuredPoint, ReadError, lines, percent, positive, shown, text,
};

/// The header that the file must have.
pub const HEADER: &str = "read_percent,bandwidth_mb_per_s,latency_ns";

/// Reads the points of a file.
///
/// # Errors
/// The first line that is wrong. A file without points is not an error here.
pub fn read(content: &[u8]) -> Result<Vec<MeasuredPoint>, ReadError> {
    let mut rows =
        lines(text(content)?).filter(|(_, row)| !row.is_empty() && !row.starts_with('#'));
    match rows.next() {
        Some((_, HEADER)) => {}
        Some((line, found)) => {
            let message = format!("header: found `{}`; allowed: `{HEADER}`", shown(found));
            return Err(ReadError::new(line, message));
        }
        None => {
            let message = format!("header: found none; allowed: `{HEADER}`");
            return Err(ReadError::new(1, message));
        }
    }
    rows.map(|(line, row)| point(line, row)).collect()
}

fn point(line: usize, row: &str) -> Result<MeasuredPoint, ReadError> {
    let fields: Vec<&str> = row.split(',').map(str::trim).collect();
    let [read_percent, mb_per_s, latency_ns] = fields[..] else {
        let message = format!("row: found {} values; allowed: 3, {HEADER}", fields.len());
        return Err(ReadError::new(line, message));
    };
    Ok(MeasuredPoint {
        line,
        read_percent: percent(line, "read_percent", read_percent)?,
        mb_per_s: positive(line, "bandwidth_mb_per_s", mb_per_s, MAX_MB_PER_S)?,
        latency_ns: positive(line, "latency_ns", latency_ns, MAX_NS)?,
    })
}
