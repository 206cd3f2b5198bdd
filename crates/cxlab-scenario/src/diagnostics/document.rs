//! A scenario's text, values, and where each value is written.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::diagnostic::{Anchor, Diagnostic, Diagnostics};
use super::path::Path;
use super::read;
use super::source::{MarkedLine, Source, Spans, ValueSpan};

/// A scenario file with its values and the place where each is written.
#[derive(Clone, Debug)]
pub struct Document {
    pub(super) source: Source,
    pub(super) value: Value,
    pub(super) places: BTreeMap<Path, ValueSpan>,
    /// Origin of the values that are not in the file: an option of the command, unless a caller names another.
    pub assigned_by: &'static str,
}

/// The option of the command that assigns values.
const SET: &str = "--set";

/// A place to show to the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The file's name, or `--set path=value` for what the command line assigned.
    pub file: String,
    /// The line from 1, in a file.
    pub line: Option<usize>,
    /// The column from 1 in characters, in a file.
    pub column: Option<usize>,
}

/// A resolved place, with the line to show when there is one.
pub(super) enum Spot<'a> {
    Line(MarkedLine<'a>),
    File,
    /// An option `--set` of the command.
    Set(&'a str),
}

impl Document {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// The syntax errors. To show them, pass [`Document::unparsed`] of the same text to [`render`](super::render).
    pub fn parse(file_name: &str, text: &str) -> Result<Document, Diagnostics> {
        let reading = read::read_document(text)?;
        let source = Source::new(file_name, text);
        Ok(Document {
            source,
            value: reading.value,
            places: reading.places,
            assigned_by: SET,
        })
    }

    /// A document without any value, to show the errors of a text that does not parse, or to
    /// build a scenario from `--set` alone.
    pub fn unparsed(file_name: &str, text: &str) -> Document {
        Document {
            source: Source::new(file_name, text),
            value: Value::Object(Map::new()),
            places: BTreeMap::new(),
            assigned_by: SET,
        }
    }

    /// The file's name.
    pub fn file_name(&self) -> &str {
        &self.source.name
    }

    /// The text of the file, without what `--set` changed.
    pub fn text(&self) -> &str {
        self.source.text()
    }

    /// All values, with those of `--set`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value at `path`, if the path is in the document.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.get_at(&Path::parse(path).ok()?)
    }

    /// Where key and value at `path` are written, if they are in the file.
    pub fn spans(&self, path: &str) -> Option<&Spans> {
        match self.places.get(&Path::parse(path).ok()?)? {
            ValueSpan::File(spans) => Some(spans),
            ValueSpan::Set(_) => None,
        }
    }

    /// Where the value at `path`, or its nearest ancestor in the document, is written.
    pub fn location(&self, path: &str) -> Location {
        self.location_of(&Diagnostic::new(path, ""))
    }

    /// Where a diagnostic points.
    pub fn location_of(&self, diagnostic: &Diagnostic) -> Location {
        let (file, line, column) = match self.spot(diagnostic) {
            Spot::Line(marked) => (
                self.source.name.clone(),
                Some(marked.line),
                Some(marked.column),
            ),
            Spot::File => (self.source.name.clone(), Some(1), Some(1)),
            Spot::Set(assignment) => (format!("{} {assignment}", self.assigned_by), None, None),
        };
        Location { file, line, column }
    }

    pub(super) fn get_at(&self, path: &Path) -> Option<&Value> {
        use super::path::Segment;
        path.0
            .iter()
            .try_fold(&self.value, |value, segment| match segment {
                Segment::Key(key) => value.get(key),
                Segment::Index(index) => value.get(index),
            })
    }

    pub(super) fn spot<'a>(&'a self, diagnostic: &'a Diagnostic) -> Spot<'a> {
        let prefer_key = match &diagnostic.anchor {
            Anchor::Bytes(span) => return Spot::Line(self.source.mark(span)),
            Anchor::Assignment(assignment) => return Spot::Set(assignment),
            Anchor::Key => true,
            Anchor::Value => false,
        };
        let path = Path::parse(&diagnostic.path).unwrap_or_default();
        let lookup = |path: &Path| self.places.get(path);
        let exact = lookup(&path);
        let ancestors = std::iter::successors(path.parent(), Path::parent);
        match exact.or_else(|| ancestors.into_iter().find_map(|path| lookup(&path))) {
            None => Spot::File,
            Some(ValueSpan::Set(assignment)) => Spot::Set(assignment),
            Some(ValueSpan::File(spans)) => {
                let key = spans.key.as_ref().filter(|_| prefer_key && exact.is_some());
                Spot::Line(self.source.mark(key.unwrap_or(&spans.value)))
            }
        }
    }
}
