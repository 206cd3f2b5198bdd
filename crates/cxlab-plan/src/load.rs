//! From a scenario's text to a plan, with every mistake located in the text.

use std::fmt::Display;
use std::str::FromStr;

use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use cxlab_scenario::diagnostics::{Diagnostic, Diagnostics, Document, render, to_json, validate};
use cxlab_scenario::{Note, Scenario, schema};

use crate::inputs::Files;
use crate::plan::Plan;
use crate::problem::Problem;
use crate::resolve::Externals;
use crate::unread;

/// Mistakes or warnings, with the document that they are about.
#[derive(Debug)]
pub struct Mistakes {
    diagnostics: Diagnostics,
    document: Box<Document>,
    /// Whether these mistakes may have kept later checks from being made.
    precludes_checks: bool,
}

impl Mistakes {
    /// Mistakes that may have kept later checks from being made.
    fn before_checks(diagnostics: Diagnostics, document: Document) -> Mistakes {
        Mistakes {
            precludes_checks: true,
            ..Mistakes::of(diagnostics, document)
        }
    }

    fn of(diagnostics: Diagnostics, document: Document) -> Mistakes {
        Mistakes {
            diagnostics,
            document: Box::new(document),
            precludes_checks: false,
        }
    }

    /// The mistakes as text for people; `color` enables terminal colours. A note says where they may have kept later
    /// checks from being made: keys and types are checked first, then the values of each table, then the whole system.
    pub fn render(&self, color: bool) -> String {
        let mut text = render(&self.diagnostics, &self.document, color);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if self.precludes_checks {
            text.push_str("\nnote: more may be checked once this is mended\n");
        }
        text
    }

    /// The same mistakes, where values outside of the file were not assigned by `--set` of the command.
    pub fn assigned_by(mut self, what: &'static str) -> Mistakes {
        self.document.assigned_by = what;
        self
    }

    /// The mistakes as JSON.
    pub fn json(&self) -> String {
        format!("{:#}\n", to_json(&self.diagnostics, &self.document))
    }
}

/// A scenario that was read and resolved.
pub struct Loaded {
    /// The resolved system.
    pub plan: Plan,
    /// The document that the user wrote.
    pub document: Document,
}

impl Loaded {
    /// Turns problems found after loading into mistakes located in the text.
    pub fn mistakes(&self, problems: Vec<Problem>) -> Mistakes {
        let diagnostics = located(problems, &self.document);
        Mistakes::of(diagnostics, self.document.clone())
    }

    /// The plan's notes as warnings in the text.
    pub fn warnings(&self) -> Mistakes {
        let mut diagnostics = Diagnostics::new();
        for note in &self.plan.notes {
            diagnostics.push(Diagnostic::new(&note.path, note.to_string()).as_warning());
        }
        Mistakes::of(diagnostics, self.document.clone())
    }

    /// The line of the file with the value that a note is about. For a default value, the line of
    /// its nearest ancestor in the file.
    pub fn line_of(&self, note: &Note) -> Option<usize> {
        match note.path.is_empty() {
            true => None,
            false => self.document.location(&note.path).line,
        }
    }

    /// A note in one line, with file and line.
    pub fn describe_note(&self, note: &Note) -> String {
        let location = self.document.location(&note.path);
        match (note.path.as_str(), location.line) {
            ("", _) => note.to_string(),
            (_, Some(line)) => format!("{}:{line}: {note}", location.file),
            (_, None) => format!("{}: {note}", location.file),
        }
    }
}

/// Locates problems found after reading. Each message names its key, also if the file does not have
/// the key and only an ancestor can be shown.
fn located(problems: Vec<Problem>, document: &Document) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    for Problem { path, message } in problems {
        let message = as_written(message, document.get(&path));
        let message = match path.as_str() {
            "" => message,
            path => format!("`{path}`: {message}"),
        };
        diagnostics.push(Diagnostic::new(path, message));
    }
    diagnostics
}

/// Rewrites a message that begins with the quantity found: the quantity appears as the user wrote
/// it, such as `64 MB` and not `62500 KiB`.
fn as_written(message: String, written: Option<&serde_json::Value>) -> String {
    let Some(written) = written.and_then(|value| value.as_str()) else {
        return message;
    };
    fn shown<Q: FromStr + Display>(written: &str) -> Option<String> {
        written.parse::<Q>().ok().map(|found| found.to_string())
    }
    let quantities = [shown::<Bytes>, shown::<Picos>, shown::<BytesPerSec>];
    let mut found = quantities.iter().filter_map(|shown| shown(written));
    let rest = found.find_map(|found| {
        let rest = message.strip_prefix("found ")?.strip_prefix(&found)?;
        (!rest.starts_with(|next: char| next.is_alphanumeric())).then(|| rest.to_owned())
    });
    match rest {
        Some(rest) => format!("found {written}{rest}"),
        None => message,
    }
}

/// Reads a scenario's text and applies changes (`path.to.key=value`) to it. `name` is the file name in messages.
///
/// # Errors
/// Syntax errors of the text, or every change that cannot be applied.
pub fn read(name: &str, text: &str, set: &[String]) -> Result<Document, Mistakes> {
    let document = Document::parse(name, text);
    let mut document = document.map_err(|diagnostics| {
        Mistakes::before_checks(diagnostics, Document::unparsed(name, text))
    })?;
    let mut refused = Diagnostics::new();
    for assignment in set {
        if let Err(diagnostics) = document.set(assignment) {
            refused.extend(diagnostics);
        }
    }
    if refused.is_empty() {
        return Ok(document);
    }
    // Mistakes that remain once the changes are corrected are reported at the same time.
    refused.extend(validate(&document, &schema()));
    Err(Mistakes::before_checks(refused, document))
}

/// Checks and resolves a document.
///
/// # Errors
/// Every mistake that was found.
pub fn resolve(
    document: Document,
    files: Files,
    externals: &Externals,
) -> Result<Loaded, Mistakes> {
    let diagnostics = validate(&document, &schema());
    if !diagnostics.is_empty() {
        return Err(Mistakes::before_checks(diagnostics, document));
    }
    let scenario = match Scenario::from_value(document.value().clone()) {
        Ok(scenario) => scenario,
        Err(error) => {
            // The schema accepts only values that the types accept (tests/fuzz_scenario.rs). For a
            // value that the schema accepts by mistake, a message without a line is better than none.
            let problem = Problem::new("", error.to_string());
            let diagnostics = located(vec![problem], &document);
            return Err(Mistakes::before_checks(diagnostics, document));
        }
    };
    match Plan::with_externals(scenario, files, externals) {
        Ok(mut plan) => {
            let unread = unread::notes(&document, &plan);
            plan.notes.extend(unread);
            Ok(Loaded { plan, document })
        }
        Err(problems) => {
            let diagnostics = located(problems, &document);
            Err(Mistakes::before_checks(diagnostics, document))
        }
    }
}
