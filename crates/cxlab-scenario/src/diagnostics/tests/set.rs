//! The command line's `--set`.

use serde_json::{Value, json};

use super::super::{Document, render, validate};
use super::sample::{VALID, assert_parts, schema};

#[test]
fn a_value_is_read_as_toml_and_else_is_a_string() {
    let rows = [
        ("a=8", json!(8)),
        ("a=0x10", json!(16)),
        ("a=2.5", json!(2.5)),
        ("a=true", json!(true)),
        ("a=\"x\"", json!("x")),
        ("a = 25 ns", json!("25 ns")),
        ("a=", json!("")),
        ("a=b=c", json!("b=c")),
        ("a=[1, 2]", json!([1, 2])),
        ("a={ kind = \"ring\" }", json!({ "kind": "ring" })),
        ("a=inf", json!("inf")),
        ("a=1979-05-27", json!("1979-05-27")),
    ];
    for (assignment, expected) in rows {
        let mut document = Document::unparsed("s.toml", "");
        document.set(assignment).unwrap();
        assert_eq!(document.get("a"), Some(&expected), "{assignment}");
    }
}

#[test]
fn paths_reach_into_arrays_and_make_missing_tables() {
    let mut document = Document::parse("s.toml", VALID).unwrap();
    for assignment in [
        "hosts[1].count=7",
        "new.table.\"odd key\"=1",
        "window[0]=9",
        "mode=exact",
    ] {
        document.set(assignment).unwrap();
    }
    assert_eq!(document.get("hosts[1].count"), Some(&json!(7)));
    assert_eq!(document.get("new.table.\"odd key\""), Some(&json!(1)));
    assert_eq!(document.get("window"), Some(&json!([9, 2])));
    assert_eq!(
        document.location("new.table").file,
        "--set new.table.\"odd key\"=1"
    );
    assert_eq!(document.location("window[1]").line, Some(2));
    assert_eq!(document.location("mode").file, "--set mode=exact");
}

#[test]
fn a_mistake_in_an_assigned_value_is_placed_at_the_assignment() {
    let mut document = Document::parse("s.toml", VALID).unwrap();
    document.set("fabric.topology={ kind = \"rign\" }").unwrap();
    document.set("hosts[0].cuont=3").unwrap();
    document.set("hosts[0].count=lots").unwrap();
    let found = validate(&document, &schema());
    assert_eq!(found.len(), 3);
    assert_parts(
        &render(&found, &document, false),
        &[
            "unknown kind \"rign\" in `fabric.topology`",
            "--> --set fabric.topology={ kind = \"rign\" }",
            "--> --set hosts[0].cuont=3",
            "expected an integer, found the string \"lots\"",
        ],
    );
}

#[test]
fn what_cannot_be_assigned_is_refused_and_changes_nothing() {
    let rows = [
        (
            "hosts[5].count=1",
            "`hosts` has no entry 5: it has 2 entries, 0 to 1",
        ),
        (
            "hosts.count=1",
            "`hosts` is an array, which has no key `count`",
        ),
        ("mode.x=1", "`mode` is a single value, so it has no key `x`"),
        ("mode[0]=1", "`mode` is not an array, so it has no entry 0"),
        ("fresh[0].x=1", "`fresh` has no entry 0: it has no entries"),
        ("=1", "the path before `=` is empty"),
        ("", "the path before `=` is empty"),
        ("mode", "no `=` after `mode`"),
        ("a..b=1", "a key is missing in the path"),
        ("[0]=1", "a key is missing in the path"),
        ("hosts[x]=1", "`[x]` is not an index"),
        ("hosts[-1]=1", "`[-1]` is not an index"),
        ("hosts[0=1", "has no closing bracket"),
        ("\"a=1", "has no closing quote"),
        ("hosts[0]x=1", "unexpected `x=1` after `hosts[0]`"),
    ];
    for (assignment, message) in rows {
        let mut document = Document::parse("s.toml", VALID).unwrap();
        let before = document.value().clone();
        let found = document.set(assignment).unwrap_err();
        let shown = render(&found, &document, false);
        assert_parts(
            &shown,
            &[message, format!("--> --set {assignment}").trim_end()],
        );
        assert_eq!(document.value(), &before, "{assignment}");
    }
}

#[test]
fn a_path_too_long_is_refused() {
    let mut document = Document::unparsed("s.toml", "");
    assert!(
        document
            .set(&format!("{}=1", vec!["a"; 5_000].join(".")))
            .is_err()
    );
    assert_eq!(document.value(), &Value::Object(serde_json::Map::new()));
}
