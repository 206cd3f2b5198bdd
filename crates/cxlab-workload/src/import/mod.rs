//! Traces in other formats: what they are, how they are recognised, and how they become `.cxlt`.
//!
//! A file compressed with gzip is read as what it holds. Every reader streams and reports what is
//! wrong by file, line or offset, field, value found and values allowed.

mod access;
mod champsim;
mod convert;
mod csv;
mod detect;
mod lackey;
mod lines;
mod text;

use std::io::{BufReader, Read};
use std::path::Path;

use crate::error::TraceError;

pub use access::{Access, AccessSource, LineSplitter, MAX_ACCESS_BYTES};
pub use convert::{Summary, import};
pub use lackey::Lackey;

pub(crate) use convert::{Converter, no_records};
pub(crate) use detect::{Opened, open};

/// The bytes of a trace behind any compression.
pub type Input = BufReader<Box<dyn Read + Send>>;

/// One trace format.
pub struct Format {
    /// The name users write, in kebab case.
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// File name endings (without `.gz`) that say this format when the contents do not.
    pub endings: &'static [&'static str],
    /// Whether a file that begins so is of this format.
    pub(crate) detect: fn(&[u8]) -> bool,
    /// Begins to read; `None` for `.cxlt` itself.
    pub(crate) open: Option<OpenFn>,
}

/// Begins to read a file of some format.
pub(crate) type OpenFn = fn(Input, &Path) -> Result<Box<dyn AccessSource>, TraceError>;

/// Every format, in the order in which contents are tried.
pub static FORMATS: &[Format] = &[
    Format {
        name: "cxlt",
        summary: "cxlab's own compact trace (docs/guide/traces.md)",
        endings: &["cxlt"],
        detect: crate::trace::looks_like_cxlt,
        open: None,
    },
    lackey::FORMAT,
    csv::FORMAT,
    text::FORMAT,
    champsim::FORMAT,
];
