//! The files of Mess (Esmaili-Dokht et al., MICRO 2024, arXiv 2405.10170; `Standalone/data` of
//! github.com/bsc-mem/Mess-simulator): one file for each mix, named `bwlat_R.txt` by its read percent R. A
//! line has a bandwidth in MB/s and a latency, which is in clocks of the measured processor in older
//! files and in nanoseconds in newer ones. Nothing in the file says which.

use super::{MAX_MB_PER_S, MAX_NS, MeasuredPoint, ReadError, lines, positive, text};

/// The form of a file's name.
pub const NAME: &str = "bwlat_R.txt with the read percent R from 0 to 100";

/// Whether a file belongs to a family: its name begins with `bwlat_` and ends with `.txt`.
pub fn is_curve(name: &str) -> bool {
    name.starts_with("bwlat_") && name.ends_with(".txt")
}

/// The read percent in a file's name.
pub fn read_percent(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("bwlat_")?.strip_suffix(".txt")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let percent = is_number.then(|| digits.parse().ok()).flatten();
    percent.filter(|percent| *percent <= 100)
}

/// Reads the points of a file whose latencies are in units of `unit_ns` nanoseconds.
///
/// # Errors
/// The first line that is wrong. A file without points is not an error here.
pub fn read(
    content: &[u8],
    read_percent: f64,
    unit_ns: f64,
) -> Result<Vec<MeasuredPoint>, ReadError> {
    let rows = lines(text(content)?).filter(|(_, row)| !row.is_empty());
    let point = |(line, row): (usize, &str)| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let [bandwidth, latency] = fields[..] else {
            let message = format!(
                "row: found {} values; allowed: 2, bandwidth in MB/s and latency",
                fields.len()
            );
            return Err(ReadError::new(line, message));
        };
        Ok(MeasuredPoint {
            line,
            read_percent,
            mb_per_s: positive(line, "bandwidth", bandwidth, MAX_MB_PER_S)?,
            latency_ns: unit_ns * positive(line, "latency", latency, MAX_NS)?,
        })
    };
    rows.map(point).collect()
}
