//! Numbers in their range, strings of their format, arrays of their length.

use serde_json::{Number, Value};

use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::path::Path;
use super::{Walker, schema, words};

/// A string's format, pattern and length.
pub(super) fn check_string(text: &str, all: &[&Value], path: &Path) -> Diagnostics {
    let mut found = Diagnostics::new();
    for schema in all {
        if words::is_quantity(schema) {
            if let Some(error) = words::quantity_error(schema, text) {
                let label = format!("expected {}", words::short_expected(schema));
                let label = label.trim_end_matches(" in quotes");
                let message = format!("`{path}`: {error}");
                found.error_at(path, message).label = label.into();
            }
        } else if let Some(pattern) = unmatched_pattern(text, schema) {
            let value = words::found(&Value::from(text));
            let message = format!("`{path}`: {value} does not have the form `{pattern}`");
            found.error_at(path, message).label = "not of the form expected".into();
        }
    }
    let length = text.chars().count();
    let keywords = ["minLength", "maxLength"];
    found.extend(check_length(length, "character", keywords, all, path));
    found
}

/// The schema's pattern when the text does not match it. A pattern that is no regular expression
/// is not the user's mistake and refuses nothing.
fn unmatched_pattern<'s>(text: &str, schema: &'s Value) -> Option<&'s str> {
    let pattern = schema.get("pattern")?.as_str()?;
    let expression = regex_lite::Regex::new(pattern).ok()?;
    (!expression.is_match(text)).then_some(pattern)
}

impl<'s> Walker<'s> {
    pub(super) fn check_array(&mut self, entries: &[Value], all: &[&'s Value], path: &Path) {
        let keywords = ["minItems", "maxItems"];
        self.found
            .extend(check_length(entries.len(), "entry", keywords, all, path));
        for schema in all.iter().copied() {
            let leading = schema::list(schema, "prefixItems");
            for (index, entry) in entries.iter().enumerate() {
                let items = schema.get("items").filter(|items| !items.is_boolean());
                if let Some(schema) = leading.get(index).or(items) {
                    self.check_child(entry, schema, &path.index(index));
                }
            }
        }
    }
}

/// A length within the bounds of two keywords.
fn check_length(
    length: usize,
    noun: &str,
    [least, most]: [&str; 2],
    all: &[&Value],
    path: &Path,
) -> Diagnostics {
    let bound = |keyword| {
        let of_schema = move |schema: &&Value| schema.get(keyword)?.as_u64();
        let bounds = all.iter().filter_map(of_schema);
        bounds.map(|bound| usize::try_from(bound).unwrap_or(usize::MAX))
    };
    let least = bound(least).max().unwrap_or(0);
    let most = bound(most).min().unwrap_or(usize::MAX);
    let needs = match (least, most) {
        (least, most) if (least..=most).contains(&length) => return Diagnostics::new(),
        (least, most) if least == most => words::count(least, noun),
        (least, usize::MAX) => format!("at least {}", words::count(least, noun)),
        (0, most) => format!("at most {}", words::count(most, noun)),
        (least, most) => format!("{least} to {}", words::count(most, noun)),
    };
    let found = words::count(length, noun);
    let message = format!("`{path}` has {found}, but must have {needs}");
    let label = format!("must have {needs}");
    Diagnostic::new(path, message).with_label(label).into()
}

/// One end of a range of numbers.
#[derive(Clone)]
struct RangeEnd {
    number: Number,
    exclusive: bool,
}

/// A number within its schema's range, which the width of its Rust type may narrow.
pub(super) fn check_number(number: &Number, all: &[&Value], path: &Path) -> Diagnostics {
    let least = tightest(all, ["minimum", "exclusiveMinimum"], 0, |a, b| less(b, a));
    let most = tightest(all, ["maximum", "exclusiveMaximum"], 1, less);
    let below = |bound: &RangeEnd| {
        less(number, &bound.number) || bound.exclusive && !less(&bound.number, number)
    };
    let above = |bound: &RangeEnd| {
        less(&bound.number, number) || bound.exclusive && !less(number, &bound.number)
    };
    if !least.as_ref().is_some_and(below) && !most.as_ref().is_some_and(above) {
        return Diagnostics::new();
    }
    let range = range_words(least.as_ref(), most.as_ref());
    let message = format!("`{path}`: found {number}; allowed: {range}");
    let diagnostic = Diagnostic::new(path, message);
    diagnostic.with_label("out of range").into()
}

/// The narrowest bound that the schemas set, by their keywords or by an integer format.
fn tightest(
    all: &[&Value],
    [inclusive, exclusive]: [&str; 2],
    end: usize,
    tighter: fn(&Number, &Number) -> bool,
) -> Option<RangeEnd> {
    let mut best: Option<RangeEnd> = None;
    for schema in all {
        let bound = |keyword: &str, exclusive| {
            let number = schema.get(keyword)?.as_number()?.clone();
            Some(RangeEnd { number, exclusive })
        };
        let format = format_range(schema).map(|range| RangeEnd {
            number: range[end].clone(),
            exclusive: false,
        });
        let bounds = [bound(inclusive, false), bound(exclusive, true), format];
        for next in bounds.into_iter().flatten() {
            let is_tighter = |best: &RangeEnd| tighter(&next.number, &best.number);
            if best.as_ref().is_none_or(is_tighter) {
                best = Some(next);
            }
        }
    }
    best
}

/// The range of an integer format; schemars writes no maximum for 32 bits and more. The widest
/// formats bound nothing that TOML can write but the sign.
fn format_range(schema: &Value) -> Option<[Number; 2]> {
    let range = |least: i64, most: u64| Some([Number::from(least), Number::from(most)]);
    match schema.get("format")?.as_str()? {
        "uint8" => range(0, u8::MAX.into()),
        "uint16" => range(0, u16::MAX.into()),
        "uint32" => range(0, u32::MAX.into()),
        "uint64" | "uint" => range(0, u64::MAX),
        "int8" => range(i8::MIN.into(), i8::MAX as u64),
        "int16" => range(i16::MIN.into(), i16::MAX as u64),
        "int32" => range(i32::MIN.into(), i32::MAX as u64),
        "int64" | "int" => range(i64::MIN, i64::MAX as u64),
        _ => None,
    }
}

fn range_words(least: Option<&RangeEnd>, most: Option<&RangeEnd>) -> String {
    let above = |bound: &RangeEnd| match bound.exclusive {
        true => format!("more than {}", bound.number),
        false => format!("at least {}", bound.number),
    };
    let below = |bound: &RangeEnd| match bound.exclusive {
        true => format!("less than {}", bound.number),
        false => format!("at most {}", bound.number),
    };
    match (least, most) {
        (Some(least), Some(most)) if is_widest(most) => above(least),
        (Some(least), Some(most)) if !least.exclusive && !most.exclusive => {
            format!("{} to {}", least.number, most.number)
        }
        (Some(least), Some(most)) => format!("{} and {}", above(least), below(most)),
        (Some(least), None) => above(least),
        (None, Some(most)) => below(most),
        (None, None) => "in range".to_owned(),
    }
}

/// Whether a bound is 2^63 - 1 or larger, which messages leave out.
fn is_widest(bound: &RangeEnd) -> bool {
    let number = bound.number.as_u64();
    number.is_some_and(|number| number >= i64::MAX as u64)
}

/// Exact for integers; a float compares as a float.
fn less(a: &Number, b: &Number) -> bool {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a < b,
        _ => (a.as_f64().zip(b.as_f64())).is_some_and(|(a, b)| a < b),
    }
}
