//! Traces in any known format: parsers, detection, the stream of records, its summary, and the conversion to
//! `.cxlt`.
//!
//! Files compressed with gzip are decompressed. Every reader streams, and reports errors with file,
//! line or offset, field, value found and values allowed.

mod access;
mod ahead;
mod binary;
mod blocks;
mod champsim;
mod convert;
mod csv;
mod detect;
mod drmemtrace;
mod export;
mod footprint;
mod gem5;
mod info;
mod lackey;
mod lines;
mod programs;
mod records;
mod rows;
mod simulators;
mod text;

use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::TraceError;

pub use access::{Access, AccessSource, LineSplitter, MAX_ACCESS_BYTES};
pub use convert::{Summary, import};
pub use export::{ExportOptions, export, writable};
pub use footprint::Footprint;
pub use info::{TraceInfo, head, info};
pub use lackey::Lackey;
pub use records::Records;

pub(crate) use ahead::RecordsAhead;
#[cfg(unix)]
pub(crate) use convert::Converter;
pub(crate) use convert::no_records;
pub(crate) use detect::{OpenedTrace, open};

/// A buffered reader of a trace's bytes after decompression.
pub type Input = BufReader<Box<dyn Read + Send>>;

/// A trace format, with its detection and its reader.
pub struct Format {
    /// The name that users write, in kebab case.
    pub name: &'static str,
    /// A description of one line for lists.
    pub summary: &'static str,
    /// File name endings, without `.gz`, that identify this format if the contents do not.
    pub endings: &'static [&'static str],
    /// Whether a file that begins with these bytes has this format.
    pub(crate) detect: fn(&[u8]) -> bool,
    /// Opens a reader of this format; `None` for `.cxlt` itself.
    pub(crate) open: Option<OpenFn>,
    /// How traces are written in this format, if they can be.
    pub(crate) form: Option<export::Form>,
}

/// Opens a reader for a file of a format.
pub(crate) type OpenFn = fn(Input, &Path) -> Result<Box<dyn AccessSource>, TraceError>;

/// Every format, in the order in which contents are checked against them.
pub static FORMATS: &[Format] = &[
    Format {
        name: "cxlt",
        summary: "cxlab's own compact trace (docs/guide/traces.md)",
        endings: &["cxlt"],
        detect: crate::trace::looks_like_cxlt,
        open: None,
        form: None,
    },
    gem5::FORMAT,
    drmemtrace::FORMAT,
    lackey::FORMAT,
    csv::FORMAT,
    blocks::MSR,
    blocks::MQSIM,
    programs::PERF_SCRIPT,
    programs::PIN,
    simulators::DRAMSIM3,
    simulators::RAMULATOR,
    text::FORMAT,
    champsim::FORMAT,
];
