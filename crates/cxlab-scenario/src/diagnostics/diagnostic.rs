//! One mistake, and the list of them.

use std::collections::HashMap;
use std::ops::Range;

/// One mistake of the user, tied to a path in the document.
///
/// The path need not exist in the file: the nearest ancestor that does gives file and line, so
/// that a check may name a value that came from a default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Where, such as `hosts[2].workload.kind`; empty for the whole file.
    pub path: String,
    /// The mistake in one sentence, with the value found.
    pub message: String,
    /// A few words shown under the caret; may be empty.
    pub label: String,
    /// Remedy; each line is shown as a `help:` line of its own.
    pub help: Option<String>,
    /// Whether the scenario can run as it is.
    pub warning: bool,
    pub(super) anchor: Anchor,
}

/// Which text of the path's entry a diagnostic points at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Anchor {
    /// The value, such as `"rign"`.
    #[default]
    Value,
    /// The key, such as `swithces`.
    Key,
    /// Bytes of the file: a syntax error has no path.
    Bytes(Range<usize>),
    /// A `--set` that could not be carried out.
    Assignment(String),
}

impl Diagnostic {
    /// A diagnostic that points at the value at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            path: path.into(),
            message: message.into(),
            label: String::new(),
            help: None,
            warning: false,
            anchor: Anchor::Value,
        }
    }

    /// The same diagnostic as a warning: the scenario can run as it is.
    #[must_use]
    pub fn as_warning(mut self) -> Diagnostic {
        self.warning = true;
        self
    }

    /// The same diagnostic pointing at the key and not at the value.
    #[must_use]
    pub fn at_key(mut self) -> Diagnostic {
        self.anchor = Anchor::Key;
        self
    }

    /// The same diagnostic with a few words under the caret.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// The same diagnostic with one more `help:` line.
    #[must_use]
    pub fn with_help(mut self, help: impl AsRef<str>) -> Diagnostic {
        let help = help.as_ref();
        match &mut self.help {
            Some(lines) => {
                lines.push('\n');
                lines.push_str(help);
            }
            None => self.help = Some(help.to_owned()),
        }
        self
    }

    pub(super) fn anchored(mut self, anchor: Anchor) -> Diagnostic {
        self.anchor = anchor;
        self
    }
}

/// The mistakes found, in the order in which they are shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Positions in the list, by path and message of a diagnostic.
    places: HashMap<(String, String), Vec<usize>>,
}

impl Diagnostics {
    /// An empty list.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a diagnostic, unless the same message is already there for the same path.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.place(diagnostic);
    }

    /// Adds an error about the value at `path` and returns it, to set its label or help.
    pub fn error_at(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let index = self.place(Diagnostic::new(path, message));
        &mut self.list[index]
    }

    /// Adds a `help:` line to the last diagnostic.
    pub(super) fn help_last(&mut self, help: impl AsRef<str>) {
        if let Some(last) = self.list.pop() {
            self.list.push(last.with_help(help));
        }
    }

    /// Adds all diagnostics of `other`.
    pub fn extend(&mut self, other: Diagnostics) {
        for diagnostic in other.list {
            self.push(diagnostic);
        }
    }

    /// Whether no diagnostic was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many mistakes were found.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The diagnostics in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// `Ok(value)` when nothing is wrong, and these diagnostics otherwise.
    ///
    /// # Errors
    /// These diagnostics, when there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        match self.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }

    pub(super) fn sort_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&Diagnostic) -> K) {
        self.list.sort_by_cached_key(key);
        let list = std::mem::take(&mut self.list);
        self.places.clear();
        for diagnostic in list {
            self.place(diagnostic);
        }
    }

    /// The index of the diagnostic in the list, where it is put when it is not there.
    fn place(&mut self, diagnostic: Diagnostic) -> usize {
        let key = (diagnostic.path.clone(), diagnostic.message.clone());
        let places = self.places.entry(key).or_default();
        let same = |place: &&usize| self.list[**place].anchor == diagnostic.anchor;
        if let Some(place) = places.iter().find(same) {
            return *place;
        }
        places.push(self.list.len());
        self.list.push(diagnostic);
        self.list.len() - 1
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(diagnostic);
        diagnostics
    }
}
