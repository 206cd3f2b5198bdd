//! Sizes of files and types (clippy has those of functions).

use std::path::{Path, PathBuf};

use cxlab_tests::root;

const MOST_LINES: usize = 700;
const MOST_FIELDS: usize = 25;

/// All sources below a folder.
pub(crate) fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    for entry in entries.map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, all);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            all.push(entry);
        }
    }
}

/// The types with named fields at the top level of a source, with the number of their fields.
fn types(text: &str) -> Vec<(&str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        let words = line
            .strip_suffix(" {")
            .and_then(|line| line.split_once("struct "));
        match (is_inside, words) {
            (false, Some((before, name))) if before.is_empty() || before.starts_with("pub") => {
                found.push((name.split(['<', ' ']).next().unwrap_or(name), 0));
                is_inside = true;
            }
            (true, _) if line == "}" => is_inside = false,
            (true, _) => {
                let field = line
                    .strip_prefix("    ")
                    .filter(|field| field.starts_with(char::is_alphabetic));
                let (_, fields) = found.last_mut().expect("a type");
                *fields += usize::from(field.is_some_and(|field| field.contains(": ")));
            }
            (false, _) => {}
        }
    }
    found
}

#[test]
fn fields_of_a_type_are_counted() {
    let text = "pub struct One<T> {\n    /// A thing: it is.\n    #[serde(default)]\n    pub(crate) a: T,\n    b: Vec<\n        \
                u8,\n    >,\n}\n\nfn f() {\n    let x: u8 = 1;\n}\nstruct Two {\n    c: u8,\n}\n";
    assert_eq!(types(text), [("One", 2), ("Two", 1)]);
}

#[test]
fn files_and_types_stay_small() {
    let mut files = Vec::new();
    let crates = std::fs::read_dir(root().join("crates")).expect("the crates");
    for one in crates {
        sources(&one.expect("a crate").path().join("src"), &mut files);
    }
    let mut large = Vec::new();
    for path in &files {
        let text = std::fs::read_to_string(path).expect("a source");
        let lines = text.lines().count();
        if lines > MOST_LINES {
            large.push(format!("{}: {lines} lines", path.display()));
        }
        for (name, fields) in types(&text) {
            if fields > MOST_FIELDS {
                large.push(format!("{}: {name} has {fields} fields", path.display()));
            }
        }
    }
    assert!(large.is_empty(), "{large:#?}");
}
