//! The command line's `--set path=value`.

use serde_json::{Map, Value};

use super::diagnostic::{Anchor, Diagnostic, Diagnostics};
use super::document::Document;
use super::path::{Path, Segment};
use super::read;
use super::source::ValueSpan;

impl Document {
    /// Carries out one `path.to.key=value` of the command line.
    ///
    /// The value is read as TOML (`8`, `true`, `"25 ns"`, `{ kind = "ring" }`) and is a string
    /// when that fails, so that `--set link.latency=25 ns` needs no inner quotes. Missing tables
    /// are made; an array only takes an index that it has.
    ///
    /// # Errors
    /// One diagnostic when the assignment cannot be carried out; the document is then unchanged.
    pub fn set(&mut self, assignment: &str) -> Result<(), Diagnostics> {
        let (path, value) = split(assignment).map_err(|error| refusal(assignment, error))?;
        let missing = self.reach(&path);
        let missing = missing.map_err(|error| refusal(assignment, error))?;
        store(&mut self.value, &path.0, value);
        self.places.retain(|known, _| !known.starts_with(&path));
        for length in missing..=path.0.len() {
            let made = Path(path.0[..length].to_vec());
            self.places
                .insert(made, ValueSpan::Set(assignment.to_owned()));
        }
        Ok(())
    }

    /// Walks to `path` without changing anything and returns the number of segments of the
    /// shortest part of it that has to be made (all of it when only the value changes).
    fn reach(&self, path: &Path) -> Result<usize, Refusal> {
        let mut value = &self.value;
        for (done, segment) in path.0.iter().enumerate() {
            let here = Path(path.0[..done].to_vec());
            let next = match (segment, value) {
                (Segment::Key(key), Value::Object(map)) => map.get(key),
                (Segment::Index(index), Value::Array(array)) => match array.get(*index) {
                    None => return Err(no_entry(&here, *index, array.len())),
                    entry => entry,
                },
                (Segment::Key(key), Value::Array(_)) => return Err(needs_index(&here, key)),
                (Segment::Key(key), _) => return Err(not_a_table(&here, key)),
                (Segment::Index(index), _) => return Err(not_an_array(&here, *index)),
            };
            match next {
                Some(next) => value = next,
                None => return creatable(path, done),
            }
        }
        Ok(path.0.len())
    }
}

struct Refusal {
    message: String,
    help: Option<String>,
}

impl Refusal {
    fn new(message: String) -> Refusal {
        Refusal {
            message,
            help: None,
        }
    }

    fn with_help(self, help: String) -> Refusal {
        Refusal {
            help: Some(help),
            ..self
        }
    }
}

fn refusal(assignment: &str, refusal: Refusal) -> Diagnostics {
    let mut diagnostic = Diagnostic::new("", refusal.message);
    diagnostic.help = refusal.help;
    diagnostic.anchor = Anchor::Assignment(assignment.to_owned());
    diagnostic.into()
}

fn split(assignment: &str) -> Result<(Path, Value), Refusal> {
    let form = "an assignment is written path=value, such as hosts[0].count=4";
    let misformed = |message: String| Refusal::new(message).with_help(form.to_owned());
    if assignment.trim_start().starts_with('=') || assignment.trim().is_empty() {
        return Err(misformed("the path before `=` is empty".to_owned()));
    }
    let (path, rest) = Path::parse_prefix(assignment).map_err(misformed)?;
    let value = match rest.strip_prefix('=') {
        Some(value) => value.trim(),
        None if rest.is_empty() => return Err(misformed(format!("no `=` after `{path}`"))),
        None => return Err(misformed(format!("unexpected `{rest}` after `{path}`"))),
    };
    if path.0.len() > read::MOST_KEYS {
        let message = format!("the path has more than {} parts", read::MOST_KEYS);
        return Err(Refusal::new(message));
    }
    let value = read::read_value(value).unwrap_or_else(|| Value::String(value.to_owned()));
    Ok((path, value))
}

/// From segment `done` on everything is missing: tables can be made, entries of arrays cannot.
fn creatable(path: &Path, done: usize) -> Result<usize, Refusal> {
    for (at, segment) in path.0.iter().enumerate().skip(done) {
        if let Segment::Index(index) = segment {
            return Err(no_entry(&Path(path.0[..at].to_vec()), *index, 0));
        }
    }
    Ok(done + 1)
}

fn no_entry(array: &Path, index: usize, length: usize) -> Refusal {
    let refusal = Refusal::new(match length {
        0 => format!("`{array}` has no entry {index}: it has no entries"),
        1 => format!("`{array}` has no entry {index}: it has 1 entry, with the index 0"),
        _ => format!(
            "`{array}` has no entry {index}: it has {length} entries, 0 to {}",
            length - 1
        ),
    });
    refusal.with_help("entries are added in the file, or by assigning the whole array".to_owned())
}

fn needs_index(array: &Path, key: &str) -> Refusal {
    Refusal::new(format!("`{array}` is an array, which has no key `{key}`"))
        .with_help(format!("name an entry, such as {array}[0].{key}"))
}

fn not_a_table(here: &Path, key: &str) -> Refusal {
    let message = format!("`{here}` is a single value, so it has no key `{key}`");
    Refusal::new(message).with_help(format!("to replace it, assign {here}={{ {key} = ... }}"))
}

fn not_an_array(here: &Path, index: usize) -> Refusal {
    let message = format!("`{here}` is not an array, so it has no entry {index}");
    Refusal::new(message)
}

/// Puts the value where [`Document::reach`] found room for it.
fn store(target: &mut Value, path: &[Segment], value: Value) {
    match (path.split_first(), target) {
        (None, target) => *target = value,
        (Some((Segment::Key(key), rest)), Value::Object(map)) => {
            let empty = || Value::Object(Map::new());
            store(map.entry(key.clone()).or_insert_with(empty), rest, value);
        }
        (Some((Segment::Index(index), rest)), Value::Array(array)) => {
            if let Some(entry) = array.get_mut(*index) {
                store(entry, rest, value);
            }
        }
        (Some(_), _) => {}
    }
}
