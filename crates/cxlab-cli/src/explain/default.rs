//! The default of a key: from the schema, and from the sentence of the description that begins with
//! "Default".

use std::str::FromStr;

use cxlab_engine::units::{Bytes, BytesPerSec, Percent, Picos};
use cxlab_scenario::keys::FoundKey;
use serde_json::Value;

/// How a description says that a key is required where the schema cannot.
const MUST_BE_GIVEN: &str = "Must be given.";

/// Most words before the comma at which a short default ends.
const MOST_WORDS: usize = 3;

/// The description of a key, divided into its default and everything else.
pub(super) struct Described {
    /// What the key is when it is left out; `None` where neither schema nor description says it.
    pub(super) default: Option<KeyDefault>,
    /// The description without the sentence about the default, in one line.
    pub(super) text: String,
    /// Whether the key must be given: by the schema, or by the description.
    pub(super) is_required: bool,
}

/// A default, in words.
pub(super) struct KeyDefault {
    /// The default with its reason and source: `"25 ns" (*assumed*)`.
    pub(super) whole: String,
    /// The default alone: `"25 ns"`.
    pub(super) short: String,
}

impl Described {
    pub(super) fn of(key: &FoundKey<'_>) -> Described {
        let description = key.schema.get("description").and_then(Value::as_str);
        let description = description.unwrap_or_default().replace('\n', " ");
        let value = key.schema.get("default");
        let value = value.filter(|value| !value.is_null() && !value.is_object());
        let shown = |value: &Value| match value.as_array().is_some_and(Vec::is_empty) {
            true => "none".to_owned(),
            false => value.to_string(),
        };
        let (words, text) = match divided(&description) {
            Some((words, text)) => (Some(words), text),
            None => (None, description.trim().to_owned()),
        };
        let default = match (words, value) {
            (None, None) => None,
            (None, Some(value)) => Some(KeyDefault {
                whole: shown(value),
                short: shown(value),
            }),
            (Some(words), value) => Some(KeyDefault::of(words, value)),
        };
        let is_required = key.required || text.contains(MUST_BE_GIVEN);
        Described {
            default,
            text,
            is_required,
        }
    }
}

impl KeyDefault {
    /// The default that the description gives in `words`. The value of the schema is written as in a
    /// scenario where the words begin with it.
    fn of(words: &str, value: Option<&Value>) -> KeyDefault {
        if let Some((value, rest)) = value.and_then(|value| begins_with(words, value)) {
            return KeyDefault {
                whole: format!("{value}{rest}"),
                short: value,
            };
        }
        match value {
            // A name from a list says less than the words, but the words cannot be written.
            Some(Value::String(name)) if !name.starts_with(|c: char| c.is_ascii_digit()) => {
                KeyDefault {
                    whole: format!("\"{name}\": {words}"),
                    short: format!("\"{name}\""),
                }
            }
            _ => KeyDefault {
                whole: without_code(words).to_owned(),
                short: shortened(words),
            },
        }
    }
}

/// Divides a description into the words about the default, without "Default", and the other text. `None`
/// where no sentence begins so, and no clause with "by default".
fn divided(description: &str) -> Option<(&str, String)> {
    for (beginning, keeps_stop) in [
        ("Default ", false),
        ("Default: ", false),
        ("By default ", false),
        ("; by default ", true),
    ] {
        for (at, _) in description.match_indices(beginning) {
            let before = &description[..at];
            let begins = keeps_stop || before.is_empty() || before.ends_with(". ");
            let words = &description[at + beginning.len()..];
            if !begins || words.starts_with("of ") {
                continue;
            }
            let end = sentence_end(words);
            let rest = words[end..].trim_start_matches('.');
            let stop = if keeps_stop { "." } else { "" };
            let text = format!("{}{stop}{rest}", before.trim_end());
            return Some((words[..end].trim(), text.trim().to_owned()));
        }
    }
    None
}

/// Where the first sentence ends: at its full stop, or at the end of the text. A full stop in brackets or
/// in code ends no sentence.
fn sentence_end(text: &str) -> usize {
    let (mut depth, mut in_code) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            '`' => in_code = !in_code,
            '(' if !in_code => depth += 1,
            ')' if !in_code => depth -= 1,
            '.' if !in_code && depth <= 0 => {
                let mut after = text[at + 1..].chars();
                let ends = match (after.next(), after.next()) {
                    (None, _) => true,
                    (Some(' '), Some(next)) => {
                        let starts = next.is_uppercase() || next.is_ascii_digit();
                        (starts || "`\"*".contains(next)) && !text[..at].ends_with("et al")
                    }
                    _ => false,
                };
                if ends {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len()
}

/// The value at the beginning of the words as it is written in a scenario, and the words after it. `None`
/// where the words begin otherwise. The words may have the value in another unit: `2.5 ns` for `2500 ps`.
fn begins_with<'w>(words: &'w str, value: &Value) -> Option<(String, &'w str)> {
    let (shown, rest) = match value {
        Value::String(text) => {
            let code = words.strip_prefix('`');
            let code = code.and_then(|words| words.strip_prefix(text.as_str())?.strip_prefix('`'));
            if let Some(rest) = code.or_else(|| words.strip_prefix(text.as_str())) {
                (value.to_string(), rest)
            } else {
                let quantity = &words[..quantity_end(words)];
                let same = is_same::<Picos>(quantity, text)
                    || is_same::<Bytes>(quantity, text)
                    || is_same::<BytesPerSec>(quantity, text)
                    || is_same::<Percent>(quantity, text);
                let rest = words.strip_prefix(quantity).filter(|_| same)?;
                (format!("\"{quantity}\""), rest)
            }
        }
        Value::Number(number) => {
            let end = words.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
            let digits = words[..end.unwrap_or(words.len())].trim_end_matches([',', '.']);
            let plain = digits.replace(',', "");
            let same = plain.parse::<f64>().ok() == number.as_f64();
            (plain, words.strip_prefix(digits).filter(|_| same)?)
        }
        Value::Bool(flag) => {
            let text = flag.to_string();
            let rest = words.strip_prefix(text.as_str())?;
            (text, rest)
        }
        _ => return None,
    };
    let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
    ends.then_some((shown, rest))
}

/// The end of a number and its unit at the beginning of a text.
fn quantity_end(text: &str) -> usize {
    let number = text.find(' ').unwrap_or(text.len());
    let unit = text[number..].trim_start();
    let end = unit.find(|c: char| !(c.is_ascii_alphabetic() || c == '/' || c == '%'));
    text.len() - unit.len() + end.unwrap_or(unit.len())
}

/// Whether two texts are one quantity.
fn is_same<Q: FromStr + PartialEq>(one: &str, other: &str) -> bool {
    match (one.parse::<Q>(), other.parse::<Q>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Words up to the reason that follows the default: without brackets, up to a colon, a semicolon, or a comma
/// after a few words.
fn shortened(words: &str) -> String {
    let (mut kept, mut depth) = (String::new(), 0);
    for character in words.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            other if depth == 0 => kept.push(other),
            _ => {}
        }
    }
    let kept = kept.replace("  ", " ").replace(" ,", ",");
    let mut short = kept.split([':', ';']).next().unwrap_or_default();
    if let Some((before, after)) = short.split_once(", ") {
        let is_list = after.starts_with(|c: char| c.is_ascii_digit() || c.is_uppercase());
        if !is_list && before.split_whitespace().count() <= MOST_WORDS {
            short = before;
        }
    }
    without_code(short.trim()).to_owned()
}

/// The code of words that are one piece of code, in backticks.
fn without_code(words: &str) -> &str {
    let code = words
        .strip_prefix('`')
        .and_then(|words| words.strip_suffix('`'));
    code.filter(|code| !code.contains('`')).unwrap_or(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The default as a whole, alone, and the other text.
    fn described(description: &str, value: Value) -> [String; 3] {
        let schema = json!({ "description": description, "default": value });
        let key = FoundKey {
            schema: &schema,
            kinds: Vec::new(),
            required: false,
        };
        let found = Described::of(&key);
        let (whole, short) = found.default.map_or_else(
            || (String::new(), String::new()),
            |default| (default.whole, default.short),
        );
        [whole, short, found.text]
    }

    #[test]
    fn the_default_is_the_sentence_about_it_with_the_value_as_it_is_written() {
        for (description, value, expected) in [
            (
                "Time. Default 10 ns. Of the 70 ns, 50 are\nports'.",
                json!("10 ns"),
                [
                    "\"10 ns\"",
                    "\"10 ns\"",
                    "Time. Of the 70 ns, 50 are ports'.",
                ],
            ),
            (
                "A cycle. Default 2.5 ns: 400 MHz (Yang et al. 2023, section 2. Table 1).",
                json!("2500 ps"),
                [
                    "\"2.5 ns\": 400 MHz (Yang et al. 2023, section 2. Table 1)",
                    "\"2.5 ns\"",
                    "A cycle.",
                ],
            ),
            (
                "Requests. Default 10,000 (*assumed*).",
                json!(10_000),
                ["10000 (*assumed*)", "10000", "Requests."],
            ),
            ("Share. Default 1.", json!(1.0), ["1", "1", "Share."]),
            (
                "Whether. Default: no, and its link carries messages.",
                json!(false),
                ["no, and its link carries messages", "no", "Whether."],
            ),
            (
                "Which. Default `z-nand`, as in Yang et al. (ATC).",
                json!("z-nand"),
                [
                    "\"z-nand\", as in Yang et al. (ATC)",
                    "\"z-nand\"",
                    "Which.",
                ],
            ),
            (
                "When. Default when it is accepted: the device does not wait.",
                json!("accepted"),
                [
                    "\"accepted\": when it is accepted: the device does not wait",
                    "\"accepted\"",
                    "When.",
                ],
            ),
            (
                "Latency. Default: as a read.",
                Value::Null,
                ["as a read", "as a read", "Latency."],
            ),
            (
                "Step. Default: a 12th (*assumed*) of the host's share: it grows. 1 or more.",
                Value::Null,
                [
                    "a 12th (*assumed*) of the host's share: it grows",
                    "a 12th of the host's share",
                    "Step. 1 or more.",
                ],
            ),
            (
                "Number of rings; by default one for each pair.",
                Value::Null,
                ["one for each pair", "one for each pair", "Number of rings."],
            ),
            (
                "Bits. Default: DDR4 64, DDR5 32.",
                Value::Null,
                ["DDR4 64, DDR5 32", "DDR4 64, DDR5 32", "Bits."],
            ),
            (
                "The medium. Default: `{ kind = \"fixed\" }`.",
                json!({ "kind": "fixed" }),
                [
                    "{ kind = \"fixed\" }",
                    "{ kind = \"fixed\" }",
                    "The medium.",
                ],
            ),
            ("Seed.", json!(3), ["3", "3", "Seed."]),
            ("Nodes.", json!([]), ["none", "none", "Nodes."]),
            ("A name.", Value::Null, ["", "", "A name."]),
        ] {
            assert_eq!(described(description, value), expected, "{description}");
        }
    }
}
