//! No text, assignment or path makes this module panic.

use proptest::prelude::*;

use super::super::{Diagnostics, Document, render, to_json, validate};
use super::sample::{VALID, schema};

/// Everything that can be done with a text and an assignment.
fn exercise(text: &str, assignment: &str) {
    let (mut document, mut found) = match Document::parse("s.toml", text) {
        Ok(document) => (document, Diagnostics::new()),
        Err(found) => (Document::unparsed("s.toml", text), found),
    };
    if let Err(refused) = document.set(assignment) {
        found.extend(refused);
    }
    found.extend(validate(&document, &schema()));
    found.error_at(assignment, text).label = text.to_owned();
    for color in [false, true] {
        assert!(!render(&found, &document, color).is_empty());
    }
    assert_eq!(
        to_json(&found, &document).as_array().map(Vec::len),
        Some(found.len())
    );
}

/// The valid scenario with some of its characters replaced, removed or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        0..VALID.len(),
        0..VALID.len() / 8,
        "[-=.\"'\\[\\]{},#\\\\\r\n\t 0-9a-zé漢]{0,4}",
    );
    proptest::collection::vec(edit, 1..4).prop_map(|edits| {
        let mut chars: Vec<char> = VALID.chars().collect();
        for (at, length, text) in edits {
            let start = at.min(chars.len());
            let end = (start + length / 4).min(chars.len());
            chars.splice(start..end, text.chars());
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn bytes_never_panic(bytes: Vec<u8>, assignment: String) {
        exercise(&String::from_utf8_lossy(&bytes), &assignment);
    }

    #[test]
    fn strings_never_panic(text: String, assignment in "[a-c.\\[\\]=\"'0-3 é\n\\\\]{0,16}") {
        exercise(&text, &assignment);
    }

    #[test]
    fn mutated_scenarios_never_panic(
        text in mutated(),
        path in "(hosts|fabric|mode|window)(\\[[0-3]\\]|\\.[a-z]{1,3}|\\.topology|\\.kind){0,3}",
        value in "[-0-9a-z.\"{}=\\[\\], ]{0,12}",
    ) {
        exercise(&text, &format!("{path}={value}"));
    }
}
