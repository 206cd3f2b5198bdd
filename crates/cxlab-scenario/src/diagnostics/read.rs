//! From TOML text to values and the places where they are written.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};
use toml_parser::parser::EventReceiver;
use toml_parser::{ErrorSink, ParseError, Span};

use super::diagnostic::{Anchor, Diagnostic, Diagnostics};
use super::path::Path;
use super::source::{Spans, ValueSpan};

/// Most keys in one dotted key or header. Scenarios need about six; without a bound a long dotted
/// key would exhaust the stack when its tables are dropped.
pub(super) const MOST_KEYS: usize = 32;
const MOST_DEPTH: usize = 64;

/// A document's values and where each is written.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) value: Value,
    pub(super) places: BTreeMap<Path, ValueSpan>,
}

pub(super) fn read_document(text: &str) -> Result<Reading, Diagnostics> {
    if let Some(span) = overlong_key(text, toml_parser::parser::parse_document) {
        return Err(too_deep(span).into());
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(syntax_errors(text, errors));
    }
    let mut reader = Reader::default();
    let value = reader.table(table.get_ref(), &Path::default());
    reader.found.into_result(Reading {
        value,
        places: reader.places,
    })
}

/// Reads one value, or nothing when the text is not TOML or not a value of a scenario.
pub(super) fn read_value(text: &str) -> Option<Value> {
    if overlong_key(text, toml_parser::parser::parse_value).is_some() {
        return None;
    }
    let value = DeValue::parse(text).ok()?;
    let mut reader = Reader::default();
    let value = reader.value(&value, &Path::default());
    reader.found.is_empty().then_some(value)
}

#[derive(Default)]
struct Reader {
    places: BTreeMap<Path, ValueSpan>,
    found: Diagnostics,
}

impl Reader {
    fn table(&mut self, table: &DeTable<'_>, path: &Path) -> Value {
        let mut map = Map::new();
        for (key, value) in table {
            let path = path.key(key.get_ref());
            self.place(&path, Some(key.span()), value.span());
            map.insert(key.get_ref().to_string(), self.value(value, &path));
        }
        Value::Object(map)
    }

    fn array(&mut self, array: &[Spanned<DeValue<'_>>], path: &Path) -> Value {
        let entries = array.iter().enumerate().map(|(index, value)| {
            let path = path.index(index);
            self.place(&path, None, value.span());
            self.value(value, &path)
        });
        Value::Array(entries.collect())
    }

    fn place(&mut self, path: &Path, key: Option<Range<usize>>, value: Range<usize>) {
        let place = ValueSpan::File(Spans { key, value });
        self.places.insert(path.clone(), place);
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &Path) -> Value {
        if path.0.len() > MOST_DEPTH {
            self.found.push(too_deep(value.span()));
            return Value::Null;
        }
        let (message, label) = match value.get_ref() {
            DeValue::String(text) => return Value::String(text.to_string()),
            DeValue::Boolean(flag) => return Value::Bool(*flag),
            DeValue::Array(array) => return self.array(array, path),
            DeValue::Table(table) => return self.table(table, path),
            DeValue::Integer(integer) => match read_integer(integer) {
                Some(number) => return Value::Number(number),
                None => (
                    format!("`{path}`: the integer {integer} does not fit into 64 bits"),
                    "too large",
                ),
            },
            DeValue::Float(float) => match read_float(float) {
                Some(number) => return Value::Number(number),
                None => (
                    format!("`{path}`: {float} is not a finite number"),
                    "not finite",
                ),
            },
            DeValue::Datetime(date) => (
                format!(
                    "`{path}`: found the date or time {date}, which no key of a scenario takes"
                ),
                "write a string in quotes, or a number",
            ),
        };
        let diagnostic = Diagnostic::new(path, message).with_label(label);
        let anchor = Anchor::Bytes(value.span());
        self.found.push(diagnostic.anchored(anchor));
        Value::Null
    }
}

fn read_integer(integer: &DeInteger<'_>) -> Option<Number> {
    let (text, radix) = (integer.as_str(), integer.radix());
    let signed = i64::from_str_radix(text, radix).ok().map(Number::from);
    signed.or_else(|| u64::from_str_radix(text, radix).ok().map(Number::from))
}

fn read_float(float: &DeFloat<'_>) -> Option<Number> {
    float.as_str().parse().ok().and_then(Number::from_f64)
}

fn too_deep(span: Range<usize>) -> Diagnostic {
    let label = format!("more than {MOST_KEYS} keys in a row or {MOST_DEPTH} levels");
    let diagnostic = Diagnostic::new("", "the document is nested too deeply");
    diagnostic.with_label(label).anchored(Anchor::Bytes(span))
}

/// Turns the parser's errors into diagnostics.
///
/// The parser carries on after an error and then complains about the consequences. An unquoted
/// string and a duplicate key have none, so they are reported up to and with the first error of
/// any other sort, one a line.
fn syntax_errors(text: &str, mut errors: Vec<toml::de::Error>) -> Diagnostics {
    errors.sort_by_key(|error| error.span().map_or(text.len(), |span| span.start));
    let mut found = Diagnostics::new();
    let mut seen_to = None;
    for error in errors {
        let span = error.span().unwrap_or(text.len()..text.len());
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count();
        if seen_to.replace(line) == Some(line) {
            continue;
        }
        let value = text.get(span.clone()).unwrap_or("");
        // The parser takes a word that begins as `true` or `false` does for a boolean.
        let boolean = error.message().starts_with("invalid boolean");
        let mut words = ["true", "false"].into_iter();
        let word = words.find(|word| value.eq_ignore_ascii_case(word));
        let unquoted = boolean && word.is_none()
            || error.message().starts_with("string values must be quoted");
        let repeated = error.message() == "duplicate key";
        let mut diagnostic = Diagnostic::new("", format!("not valid TOML: {}", error.message()));
        if unquoted {
            diagnostic = unquoted_string(value);
        } else if repeated {
            diagnostic.label = "already given above".to_owned();
        } else if boolean && let Some(word) = word {
            diagnostic = diagnostic.with_help(format!("write {word}"));
        } else if let Some(open) = unclosed(before) {
            diagnostic = diagnostic.with_help(format!("the `{{` in line {open} is not closed"));
        }
        found.push(diagnostic.anchored(Anchor::Bytes(span)));
        if !unquoted && !repeated {
            break;
        }
    }
    found
}

/// Line of a `{` that is not closed in that line, nor behind it.
fn unclosed(text: &str) -> Option<usize> {
    let (before, behind) = text.split_at(text.rfind('{')?);
    let is_open = behind.contains('\n') && !behind.contains('}');
    is_open.then(|| before.matches('\n').count() + 1)
}

fn unquoted_string(value: &str) -> Diagnostic {
    let invalid = |what: &str| Diagnostic::new("", format!("not valid TOML: {what}"));
    if value.trim().is_empty() {
        return invalid("a value is missing").with_label("expected a value");
    }
    let diagnostic = invalid("a string must be in quotes").with_label("a string without quotes");
    if value.contains(['"', '\'', '\\', '\n']) {
        diagnostic
    } else {
        diagnostic.with_help(format!("write \"{value}\""))
    }
}

/// Where a dotted key or header of too many keys ends, if there is one.
fn overlong_key(
    text: &str,
    parse: fn(&[toml_parser::lexer::Token], &mut dyn EventReceiver, &mut dyn ErrorSink),
) -> Option<Range<usize>> {
    let tokens = toml_parser::Source::new(text).lex().into_vec();
    let mut counter = KeyCounter::default();
    let mut guarded = toml_parser::parser::RecursionGuard::new(&mut counter, MOST_DEPTH as u32);
    parse(&tokens, &mut guarded, &mut IgnoreErrors);
    counter.overlong
}

/// Counts the keys in a row while the parser runs, before any table is built.
#[derive(Default)]
struct KeyCounter {
    keys: usize,
    overlong: Option<Range<usize>>,
}

impl EventReceiver for KeyCounter {
    fn simple_key(
        &mut self,
        span: Span,
        _: Option<toml_parser::decoder::Encoding>,
        _: &mut dyn ErrorSink,
    ) {
        self.keys += 1;
        if self.keys > MOST_KEYS {
            self.overlong.get_or_insert(span.start()..span.end());
        }
    }

    fn key_val_sep(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.keys = 0;
    }

    fn newline(&mut self, _: Span, _: &mut dyn ErrorSink) {
        self.keys = 0;
    }
}

/// The real parse reports the errors; this one only counts.
struct IgnoreErrors;

impl ErrorSink for IgnoreErrors {
    fn report_error(&mut self, _: ParseError) {}
}
