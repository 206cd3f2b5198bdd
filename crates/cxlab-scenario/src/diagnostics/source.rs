//! The text of a file, by lines, and where values are written in it. Lines and columns count from 1, columns in characters.

use std::ops::Range;

/// A file's name and text.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    text: String,
    line_starts: Vec<usize>,
}

/// Where a value is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ValueSpan {
    File(Spans),
    /// In the command line's `--set` with this assignment.
    Set(String),
}

/// The bytes of the file in which a key and its value are written.
///
/// The value of a table with a header is the header, `[fabric.topology]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spans {
    /// The key; an entry of an array has none.
    pub key: Option<Range<usize>>,
    /// Byte range of the value.
    pub value: Range<usize>,
}

/// One line of a file with a range of bytes marked in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MarkedLine<'a> {
    /// The line without its line ending.
    pub(super) text: &'a str,
    pub(super) line: usize,
    /// The column of the first marked character.
    pub(super) column: usize,
    pub(super) mark: Range<usize>,
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Source {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Source {
            name: name.to_owned(),
            text: text.to_owned(),
            line_starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The line in which `span` begins, with the part of `span` in that line marked.
    pub(super) fn mark(&self, span: &Range<usize>) -> MarkedLine<'_> {
        let start = floor_boundary(&self.text, span.start);
        let end = floor_boundary(&self.text, span.end.max(start));
        let lines = self.line_starts.partition_point(|first| *first <= start);
        let line = lines.max(1);
        let first = self.line_starts[line - 1];
        let rest = &self.text[first..];
        let text = rest.split('\n').next().unwrap_or(rest);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let mark = (start - first).min(text.len())..(end - first).min(text.len());
        MarkedLine {
            text,
            line,
            column: text[..mark.start].chars().count() + 1,
            mark,
        }
    }
}

/// The largest character boundary of `text` that is not after `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut places = (0..=at.min(text.len())).rev();
    places.find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
