//! Opening of a trace file: counting its bytes, decompression of gzip, and detection of the format.

use std::io::{BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxlab_files::input::{self, Input};

use super::{FORMATS, Format};
use crate::error::{FilePlace, TraceError};

/// Bytes at the beginning of a file from which formats are detected.
const START_BYTES: u64 = 4096;

const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Properties of an opened trace file.
pub(crate) struct OpenedTrace {
    /// The file's format.
    pub format: &'static Format,
    /// The file's size in bytes.
    pub total_bytes: u64,
    done: Arc<AtomicU64>,
}

impl OpenedTrace {
    /// Bytes of the file read so far, before decompression.
    pub fn done_bytes(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

struct CountedRead {
    file: Input,
    done: Arc<AtomicU64>,
}

impl Read for CountedRead {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Opens a file as `format`; with `None`, as the format of its contents or otherwise of its name.
pub(crate) fn open(
    path: &Path,
    format: Option<&str>,
) -> Result<(OpenedTrace, Box<dyn Read + Send>), TraceError> {
    let failed =
        |error: std::io::Error| TraceError::io(path, FilePlace::File, "open the trace", &error);
    let file = input::open(path).map_err(failed)?;
    let kind = file.kind().map_err(failed)?;
    if kind.is_dir {
        return Err(TraceError::whole(path, "", "is a folder, not a trace"));
    }
    let done = Arc::new(AtomicU64::new(0));
    let counted = CountedRead {
        file,
        done: done.clone(),
    };
    let (start, input) = peek(Box::new(BufReader::with_capacity(1 << 16, counted)), path)?;
    let (start, input) = if start.starts_with(GZIP) {
        peek(Box::new(flate2::read::MultiGzDecoder::new(input)), path)?
    } else {
        (start, input)
    };
    refuse_other_compression(&start, path)?;
    let format = match format {
        Some(name) => named(name, path)?,
        None => recognise(&start, path)?,
    };
    Ok((
        OpenedTrace {
            format,
            total_bytes: kind.bytes,
            done,
        },
        input,
    ))
}

/// Reads the first bytes, and returns them with a reader of all bytes.
fn peek(
    mut input: Box<dyn Read + Send>,
    path: &Path,
) -> Result<(Vec<u8>, Box<dyn Read + Send>), TraceError> {
    let mut start = Vec::new();
    input
        .by_ref()
        .take(START_BYTES)
        .read_to_end(&mut start)
        .map_err(|error| TraceError::io(path, FilePlace::File, "read its first bytes", &error))?;
    let all = Box::new(Cursor::new(start.clone()).chain(input));
    Ok((start, all))
}

fn refuse_other_compression(start: &[u8], path: &Path) -> Result<(), TraceError> {
    let (kind, tool) = match start {
        _ if start.starts_with(XZ) => ("xz", "xz"),
        _ if start.starts_with(ZSTD) => ("zstd", "zstd"),
        _ => return Ok(()),
    };
    let shown = path.display();
    let message = format!(
        "is compressed with {kind}; allowed: gzip or not compressed (convert it with `{tool} -dc {shown} | gzip -1 > trace.gz`)"
    );
    Err(TraceError::whole(path, "", message))
}

fn names() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ")
}

fn named(name: &str, path: &Path) -> Result<&'static Format, TraceError> {
    FORMATS
        .iter()
        .find(|format| format.name == name)
        .ok_or_else(|| {
            let message = format!("found `{name}`; allowed: {}", names());
            TraceError::whole(path, "format", message)
        })
}

fn recognise(start: &[u8], path: &Path) -> Result<&'static Format, TraceError> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let by_contents = FORMATS.iter().find(|format| (format.detect)(start));
    let by_name = || {
        FORMATS
            .iter()
            .find(|format| format.endings.contains(&ending))
    };
    by_contents.or_else(by_name).ok_or_else(|| {
        let message = format!(
            "neither contents nor name say the format; name it (cxlab trace import --format), allowed: {}",
            names()
        );
        TraceError::whole(path, "format", message)
    })
}
