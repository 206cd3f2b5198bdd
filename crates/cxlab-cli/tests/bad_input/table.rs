//! Reads the tables of mistakes. `main.rs` describes their form.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Folder, Mistake, check_all, check_mistakes};

/// Marks the line that the report names while a scenario is changed.
const HERE: char = '\u{1}';

/// A scenario without a mistake, and the line of the table that makes it.
pub struct Base {
    pub name: String,
    pub text: String,
}

/// The contents of a table.
#[derive(Default)]
pub struct Table {
    pub bases: Vec<Base>,
    pub mistakes: Vec<Mistake>,
}

/// The folder of the tables.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad_input")
}

/// The names of all tables.
pub fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    files
        .filter_map(|file| Some(file.strip_suffix(".txt")?.to_owned()))
        .collect()
}

/// The rows of a table without comments, each with its `file:line`. A line that begins with spaces
/// continues the line above.
pub fn rows(table: &str) -> Vec<(String, String)> {
    let file = format!("{table}.txt");
    let text = std::fs::read_to_string(folder().join(&file)).unwrap();
    let mut rows = Vec::<(String, String)>::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match rows.last_mut() {
            Some((_, row)) if line.starts_with(' ') => *row += line,
            _ => rows.push((format!("{file}:{}", number + 1), line.to_owned())),
        }
    }
    rows
}

/// The columns of a row.
pub fn columns(row: &str) -> Vec<&str> {
    row.split(" | ").map(str::trim).collect()
}

/// The scenario after `change`, with [`HERE`] at the line that `!` marks, else at the first change.
fn marked(base: &str, change: &str) -> String {
    let mut text = base.to_owned();
    for (number, part) in change.split(" && ").enumerate() {
        let part = format!(" {part} ");
        let lines = |text: &str| -> String {
            let lines: Vec<&str> = text.split(" / ").map(str::trim).collect();
            lines.join("\n")
        };
        let (old, new, inserts) = if let Some((old, new)) = part.split_once(" -> ") {
            (lines(old), lines(new), false)
        } else if let Some((old, new)) = part.split_once(" ++ ") {
            (lines(old), lines(new), true)
        } else {
            panic!("`{change}` has `->` or `++` in each part");
        };
        let mut new = match new.strip_prefix("! ") {
            Some(line) => format!("{HERE}{line}"),
            None => new.replacen("\n! ", &format!("\n{HERE}"), 1),
        };
        if number == 0 && !change.contains("! ") {
            new.insert(0, HERE);
        }
        if old.is_empty() {
            text += &new;
            text.push('\n');
            continue;
        }
        let start = text
            .find(&old)
            .unwrap_or_else(|| panic!("the base has `{old}`"));
        let mut end = start + old.len();
        if inserts {
            new = format!("{old}\n{new}");
        } else if new.trim_matches(HERE).is_empty() && text[end..].starts_with('\n') {
            end += 1;
        }
        text.replace_range(start..end, &new);
    }
    text
}

/// The scenario after `change`.
pub fn changed(base: &str, change: &str) -> String {
    marked(base, change).replace(HERE, "")
}

/// A row `change | ! line | says | says`.
fn mistake(name: String, base: &str, row: &str) -> Mistake {
    let columns = columns(row);
    let (change, mut says) = (columns[0], &columns[1..]);
    let mut text = marked(base, change);
    let mut place = text.find(HERE).unwrap();
    text.retain(|c| c != HERE);
    if let Some(line) = says.first().and_then(|says| says.strip_prefix("! ")) {
        place = text
            .find(line)
            .unwrap_or_else(|| panic!("{name}: the scenario has `{line}`"));
        says = &says[1..];
    }
    assert!(!says.is_empty(), "{name} does not say what is reported");
    Mistake {
        name,
        line: text[..place].matches('\n').count() + 1,
        text,
        says: says.iter().map(|&text| text.to_owned()).collect(),
    }
}

/// An empty folder. Reports name its path, so the path has no word of a table.
pub fn numbered_folder() -> Folder {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    Folder::new(&format!("bad{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Reads a table.
pub fn read(table: &str) -> Table {
    let mut read = Table::default();
    for (name, row) in rows(table) {
        if let Some(file) = row.strip_prefix("base: ") {
            let text = std::fs::read_to_string(folder().join(file)).unwrap();
            read.bases.push(Base { name, text });
            continue;
        }
        let base = &read.bases.last().unwrap().text;
        if let Some(change) = row.strip_prefix("with: ") {
            let text = changed(base, change);
            read.bases.push(Base { name, text });
        } else {
            let mistake = mistake(name, base, &row);
            read.mistakes.push(mistake);
        }
    }
    read
}

/// Checks that the bases of a table have no mistake, and that each mistake is one report at its line.
pub fn check(table: &str) {
    let Table { bases, mistakes } = read(table);
    assert!(!mistakes.is_empty(), "{table}");
    let folder = numbered_folder();
    check_all(&bases, |number, base| {
        let file = format!("base{number}.toml");
        folder.file(&file, base.text.as_bytes());
        let output = folder.cxlab(&format!("check {file}"));
        let right = output.code == Some(0) && output.stderr.is_empty();
        (!right).then(|| format!("{}: {}", base.name, output.stderr))
    });
    check_mistakes(&folder, &mistakes);
}
