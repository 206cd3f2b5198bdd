//! Showing diagnostics: annotated source lines for people, JSON for programs.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Document, Spot};

/// The diagnostics as text: message, `file:line:column`, the line with carets, help.
pub fn render(diagnostics: &Diagnostics, document: &Document, color: bool) -> String {
    let renderer = match color {
        true => Renderer::styled(),
        false => Renderer::plain(),
    };
    let shown = diagnostics.iter().take(MOST);
    let shown = shown.map(|one| render_one(one, document, &renderer));
    let mut shown: Vec<String> = shown.collect();
    shown.extend(more(diagnostics).map(|text| format!("error: {text}\n")));
    shown.join("\n")
}

/// Most diagnostics that are printed. A text with more is no scenario.
const MOST: usize = 100;

/// The line that counts diagnostics beyond [`MOST`], if there are any.
fn more(diagnostics: &Diagnostics) -> Option<String> {
    let left = diagnostics.len().saturating_sub(MOST);
    (left > 0).then(|| format!("{left} more are not shown"))
}

fn render_one(diagnostic: &Diagnostic, document: &Document, renderer: &Renderer) -> String {
    let level = match diagnostic.warning {
        true => Level::WARNING,
        false => Level::ERROR,
    };
    let group = Group::with_title(level.primary_title(one_line(&diagnostic.message)));
    let group = match document.spot(diagnostic) {
        Spot::Line(marked) => {
            // One byte for one byte, so that the marked range stays right.
            let text: String = (marked.text.chars())
                .map(|character| match character {
                    '\t' => '\t',
                    _ if character.is_ascii_control() => ' ',
                    _ => character,
                })
                .collect();
            let mut caret = AnnotationKind::Primary.span(marked.mark);
            if !diagnostic.label.is_empty() {
                caret = caret.label(one_line(&diagnostic.label));
            }
            let snippet = Snippet::source(text).line_start(marked.line);
            group.element(snippet.path(document.file_name()).annotation(caret))
        }
        Spot::File => group.element(Origin::path(document.file_name()).line(1).char_column(1)),
        Spot::Set(assignment) => {
            let origin = format!("{} {}", document.assigned_by, one_line(assignment));
            group.element(Origin::path(origin))
        }
    };
    let help = diagnostic.help.iter().flat_map(|help| help.lines());
    let group = help.fold(group, |group, line| {
        group.element(Level::HELP.message(line.to_owned()))
    });
    let mut text = renderer.render(&[group]);
    text.push('\n');
    text
}

/// Line breaks in a value found must not break the layout, and what a terminal obeys must not reach it.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line
}

/// The diagnostics for programs: an array of objects with `file`, `line`, `column`, `path`,
/// `value`, `level` (`error` or `warning`), `message` and `help`; what does not apply is `null`.
pub fn to_json(diagnostics: &Diagnostics, document: &Document) -> Value {
    let entries = diagnostics.iter().take(MOST).map(|diagnostic| {
        let location = document.location_of(diagnostic);
        json!({
            "file": location.file,
            "line": location.line,
            "column": location.column,
            "path": diagnostic.path,
            "value": document.get(&diagnostic.path).filter(|_| !diagnostic.path.is_empty()),
            "level": if diagnostic.warning { "warning" } else { "error" },
            "message": diagnostic.message,
            "help": diagnostic.help,
        })
    });
    let last = more(diagnostics).map(|message| {
        json!({ "file": document.file_name(), "line": null, "column": null, "path": "", "value": null,
                "level": "error", "message": message, "help": null })
    });
    Value::Array(entries.chain(last).collect())
}
