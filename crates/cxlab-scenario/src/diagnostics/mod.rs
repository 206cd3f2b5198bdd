//! The user's mistakes: reading scenario files, checking them against a JSON Schema and showing
//! what is wrong, where, and what would have been right.
//!
//! A [`Document`] is the text of a scenario with its values and where each value was written, in
//! the file or in a `--set` of the command line. [`validate`] compares it with a JSON Schema and
//! reports every mistake at once; later checks add theirs with [`Diagnostics::error_at`], naming
//! only a path. [`render`] and [`to_json`] look the path up and show file, line and column.
//!
//! Left out: dates, infinities and NaN, which no scenario needs, and the parts of JSON Schema
//! that schemars does not generate from serde structures (`not`, `if`, `multipleOf`,
//! `propertyNames`, references outside the schema); they are ignored.
//!
//! Invariants: one mistake is one diagnostic; no text makes this module panic; nesting is bounded,
//! so no text exhausts the stack.

mod assign;
mod diagnostic;
mod document;
mod path;
mod read;
mod render;
mod source;
mod suggest;
mod validate;

#[cfg(test)]
mod tests;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use document::{Document, Location};
pub use render::{render, to_json};
pub use source::Spans;
pub use suggest::nearest;
pub use validate::validate;
