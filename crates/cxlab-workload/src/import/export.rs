//! Traces in the forms of other programs: the records of a trace of any known format, written as text or as gem5's
//! packets. Each record is an access of one line, at the line's first byte.

use std::io::{BufWriter, Write};
use std::path::Path;

use cxlab_engine::units::{LINE_BYTES, Picos};
use cxlab_files::WholeFile;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::convert::{PROGRESS_EVERY, no_records};
use super::{FORMATS, Format, Records};
use crate::error::TraceError;
use crate::op::OpKind;
use crate::trace::{Record, write_error};

/// A form in which a trace can be written.
pub(crate) struct Form {
    /// What stands before the first record.
    pub begin: fn(&mut Vec<u8>, &ExportTimes),
    /// Appends a record.
    pub row: fn(&mut Vec<u8>, &Record, &ExportTimes),
    /// What stands behind the last record.
    pub end: &'static [u8],
    /// Whether times are numbers of clock cycles.
    pub has_cycles: bool,
}

/// What a form knows of times.
pub(crate) struct ExportTimes {
    /// Whether the records have times. Without, forms that need a time write 0.
    pub has_time: bool,
    /// Picoseconds of a clock cycle, in forms that count cycles.
    pub cycle_ps: u64,
}

/// Options of an export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Format of the trace, a name in [`FORMATS`]. `None`: it is detected.
    pub from: Option<String>,
    /// Clock period, for formats that count cycles.
    pub clock: Option<Picos>,
}

/// Formats that can be written.
pub fn writable() -> impl Iterator<Item = &'static Format> + Clone {
    FORMATS.iter().filter(|format| format.form.is_some())
}

/// Writes the records of a trace in another format, compressed with gzip where the name of `out` ends with `.gz`,
/// and returns their number. `out` appears only when it is whole. `progress` is called at intervals with the bytes
/// read so far and the size of the trace.
///
/// # Errors
/// The first error found in the trace, a format that cannot be written, a clock that is missing or has no meaning,
/// or an error of writing.
pub fn export(
    path: &Path,
    options: &ExportOptions,
    to: &str,
    out: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, TraceError> {
    let wrong = |field, message| TraceError::whole(out, field, message);
    let form = writable().find(|format| format.name == to);
    let form = form
        .and_then(|format| format.form.as_ref())
        .ok_or_else(|| {
            let names: Vec<&str> = writable().map(|format| format.name).collect();
            wrong(
                "format",
                format!("found `{to}`; allowed: {}", names.join(", ")),
            )
        })?;
    let mut records = Records::open(path, options.from.as_deref())?;
    let times = ExportTimes {
        has_time: records.has_time(),
        cycle_ps: match (options.clock, form.has_cycles) {
            (Some(Picos(0)), _) => {
                let message = "found 0 ps; allowed: 1 ps and more".to_owned();
                return Err(wrong("clock", message));
            }
            (Some(_), false) => {
                let message = format!("found a clock; allowed: none, `{to}` has no clock cycles");
                return Err(wrong("clock", message));
            }
            (None, true) if records.has_time() => {
                let message =
                    format!("found none; allowed: a period, as `{to}` counts clock cycles");
                return Err(wrong("clock", message));
            }
            (clock, _) => clock.map_or(1, |clock| clock.0),
        },
    };
    let failed = |error| write_error(out, &error);
    let file = BufWriter::new(WholeFile::create(out).map_err(failed)?);
    let mut sink = match out.extension().is_some_and(|ending| ending == "gz") {
        true => Sink::Gzip(GzEncoder::new(file, Compression::default())),
        false => Sink::Plain(file),
    };
    let mut bytes = Vec::new();
    (form.begin)(&mut bytes, &times);
    let mut count = 0u64;
    while let Some(record) = records.next_record()? {
        (form.row)(&mut bytes, &record, &times);
        count += 1;
        if count.is_multiple_of(PROGRESS_EVERY) {
            sink.write(&bytes).map_err(failed)?;
            bytes.clear();
            progress(records.done_bytes(), records.total_bytes());
        }
    }
    if count == 0 {
        return Err(no_records(path));
    }
    bytes.extend(form.end);
    sink.write(&bytes).map_err(failed)?;
    sink.finish().map_err(failed)?;
    progress(records.total_bytes(), records.total_bytes());
    Ok(count)
}

enum Sink {
    Plain(BufWriter<WholeFile>),
    Gzip(GzEncoder<BufWriter<WholeFile>>),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Gzip(file) => file.write_all(bytes),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        let file = match self {
            Sink::Plain(file) => file,
            Sink::Gzip(file) => file.finish()?,
        };
        let whole = file
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        whole.publish()
    }
}

pub(super) fn address(record: &Record) -> u64 {
    record.line.0 * LINE_BYTES
}

fn letter(record: &Record) -> char {
    match record.kind {
        OpKind::Read => 'R',
        OpKind::Write => 'W',
    }
}

/// Appends formatted text.
macro_rules! put {
    ($bytes:expr, $($text:tt)*) => {
        $bytes.extend_from_slice(format!($($text)*).as_bytes())
    };
}

pub(super) const TEXT: Form = Form {
    begin: |_, _| {},
    row: |bytes, record, times| {
        put!(bytes, "{:#x} {}", address(record), letter(record));
        if times.has_time {
            let (ns, ps) = (record.time.0 / 1000, record.time.0 % 1000);
            put!(bytes, " {ns}.{ps:03}");
        }
        bytes.push(b'\n');
    },
    end: b"",
    has_cycles: false,
};

pub(super) const CSV: Form = Form {
    begin: |bytes, times| {
        let time = if times.has_time { "time_ps," } else { "" };
        put!(bytes, "{time}address,op,size_bytes\n");
    },
    row: |bytes, record, times| {
        if times.has_time {
            put!(bytes, "{},", record.time.0);
        }
        let (address, kind) = (address(record), letter(record));
        put!(bytes, "{address:#x},{kind},{LINE_BYTES}\n");
    },
    end: b"",
    has_cycles: false,
};

/// The instruction pointer is unknown, and 0.
pub(super) const PIN: Form = Form {
    begin: |_, _| {},
    row: |bytes, record, _| {
        let (address, kind) = (address(record), letter(record));
        put!(bytes, "0x0: {kind} {address:#x} {LINE_BYTES}\n");
    },
    end: b"#eof\n",
    has_cycles: false,
};

pub(super) const DRAMSIM3: Form = Form {
    begin: |_, _| {},
    row: |bytes, record, times| {
        let kind = match record.kind {
            OpKind::Read => "READ",
            OpKind::Write => "WRITE",
        };
        let cycle = record.time.0 / times.cycle_ps;
        put!(bytes, "{:#x} {kind} {cycle}\n", address(record));
    },
    end: b"",
    has_cycles: true,
};

pub(super) const RAMULATOR: Form = Form {
    begin: |_, _| {},
    row: |bytes, record, _| {
        let kind = match record.kind {
            OpKind::Read => "LD",
            OpKind::Write => "ST",
        };
        put!(bytes, "{kind} {:#x}\n", address(record));
    },
    end: b"",
    has_cycles: false,
};
