//! The default of a key: from the schema, and from the sentence of the description that begins with
//! "Default".

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
        let (words, text) = divided(&description).unzip();
        let text = text.unwrap_or_else(|| description.trim().to_owned());
        let default = match words {
            Some(words) => Some(KeyDefault::of(words, value)),
            None => value.map(shown).map(|short| KeyDefault {
                whole: short.clone(),
                short,
            }),
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
    /// The default that the description gives in `words`, and the schema perhaps as a `value`.
    fn of(words: &str, value: Option<&Value>) -> KeyDefault {
        let text = value.and_then(Value::as_str);
        let is_name = |text: &&str| !text.starts_with(|c: char| c.is_ascii_digit());
        let quoted = |text: &str| format!("\"{text}\"");
        if let Some(name) = text.filter(is_name) {
            // Of a name from a list, the words say what it does, but cannot be written.
            let whole = match words.contains(name) {
                true => words.to_owned(),
                false => format!("{}: {words}", quoted(name)),
            };
            let short = quoted(name);
            return KeyDefault { whole, short };
        }
        match text.and_then(|text| Some((quoted(text), words.strip_prefix(text)?))) {
            Some((short, rest)) => KeyDefault {
                whole: format!("{short}{rest}"),
                short,
            },
            None => KeyDefault {
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

    /// A description, the value of the schema, and then the default as a whole, alone, and the other text.
    const ROWS: &str = r#"
Time. Default 10 ns. Of the 70 ns, 50 are ports'. | "10 ns" => "10 ns" | "10 ns" | Time. Of the 70 ns, 50 are ports'.
A cycle. Default 2.5 ns: 400 MHz (Yang et al. 2023, part 2. A). | "2500 ps" => 2.5 ns: 400 MHz (Yang et al. 2023, part 2. A) | 2.5 ns | A cycle.
Requests. Default 10,000 (*assumed*). | 10000 => 10,000 (*assumed*) | 10,000 | Requests.
Whether. Default: no, and its link carries messages. | false => no, and its link carries messages | no | Whether.
Which. Default `z-nand`, as in Yang et al. (ATC). | "z-nand" => `z-nand`, as in Yang et al. (ATC) | "z-nand" | Which.
When. Default when it is taken: no waits. | "accepted" => "accepted": when it is taken: no waits | "accepted" | When.
Latency. Default: as a read. | null => as a read | as a read | Latency.
Step. Default: a 12th (*assumed*) of it: it grows. 1 or more. | null => a 12th (*assumed*) of it: it grows | a 12th of it | Step. 1 or more.
Number of rings; by default one for each pair. | null => one for each pair | one for each pair | Number of rings.
Bits. Default: DDR4 64, DDR5 32. | null => DDR4 64, DDR5 32 | DDR4 64, DDR5 32 | Bits.
The medium. Default: `{ kind = "fixed" }`. | {} => { kind = "fixed" } | { kind = "fixed" } | The medium.
Seed. | 3 => 3 | 3 | Seed.
Nodes. | [] => none | none | Nodes.
A name. | null => - | - | A name.
"#;

    #[test]
    fn the_default_is_the_sentence_about_it() {
        for row in ROWS.lines().filter(|row| !row.is_empty()) {
            let (given, expected) = row.split_once(" => ").unwrap();
            let (description, value) = given.split_once(" | ").unwrap();
            let value: Value = serde_json::from_str(value).unwrap();
            let key = FoundKey {
                schema: &json!({ "description": description, "default": value }),
                kinds: Vec::new(),
                required: false,
            };
            let found = Described::of(&key);
            let nothing = || KeyDefault {
                whole: "-".to_owned(),
                short: "-".to_owned(),
            };
            let KeyDefault { whole, short } = found.default.unwrap_or_else(nothing);
            assert_eq!(format!("{whole} | {short} | {}", found.text), expected);
        }
    }
}
