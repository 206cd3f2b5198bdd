//! Files, lines and columns: line endings, wide characters, tabs, every way to write a table.

use super::super::{Document, render};
use super::sample::{assert_parts, assert_rows, assert_shown, diagnose};

#[test]
fn columns_count_characters_whatever_the_line_holds() {
    let rows = r##"
        hosts = [{ name = "a", count = 0 }] => s.toml:1:32
        # é\r\nhosts = [{ name = "a", count = 0 }]\r\n => s.toml:2:32
        limits = { "é漢字" = 'x' }\n[[hosts]]\nname = 'a' => s.toml:1:20
        [[hosts]]\n\tname = 'a'\n\tcount\t=\t0\n => s.toml:3:10
        hosts = [\n  { name = 'a' },\n  { name = 'b', count = 0 },\n] => s.toml:3:25
        [[hosts]]\nname = 'a'\n[[hosts]]\nname = 'b'\ncount = 0 => s.toml:5:9
        hosts = [{ name = 'a', workload.kind = 'x' }] => s.toml:1:40
        [[hosts]]\nname = 'a'\n[hosts.workload]\nkind = 'x'\n => s.toml:4:8
        fabric.topology.kind = 'x'\nfabric.latency = '1 ns'\nhosts = [{ name = 'a' }] => :1:24
    "##;
    assert_rows(rows, str::to_owned);
}

#[test]
fn carets_stand_under_the_value_after_wide_characters_and_carriage_returns() {
    let text = "limits = { \"é\" = 'x' }\r\n[[hosts]]\r\nname = 'a'\r\n";
    assert_shown(
        text,
        1,
        &[
            "1 | limits = { \"é\" = 'x' }\n",
            "  |                  ^^^ expected an integer",
        ],
    );
}

#[test]
fn spans_cover_key_and_value() {
    let text = "[a.b]\nc = { d = [1, 'é'] }\n[[e]]\nf = 1\n";
    let document = Document::parse("s.toml", text).unwrap();
    let spans = |path: &str| {
        let spans = document.spans(path).unwrap();
        (
            spans.key.clone().map(|key| &text[key]),
            &text[spans.value.clone()],
        )
    };
    assert_eq!(spans("a.b"), (Some("b"), "[a.b]"));
    assert_eq!(spans("a.b.c.d"), (Some("d"), "[1, 'é']"));
    assert_eq!(spans("a.b.c.d[1]"), (None, "'é'"));
    assert_eq!(spans("e[0]"), (None, "[[e]]"));
    assert_eq!(spans("e[0].f"), (Some("f"), "1"));
    assert_eq!(
        document.get("a.b.c.d[1]").and_then(|value| value.as_str()),
        Some("é")
    );
}

#[test]
fn syntax_errors_have_file_line_and_column() {
    let rows = r#"
        a = 1\nb = 25 ns\n => s.toml:2:5 // must be in quotes // help: write "25 ns"
        a = \n => s.toml:1:5 // a value is missing
        a = 1\r\n[b\r\n => s.toml:2:3 // not valid TOML // expected `]`
        é = 1\n => s.toml:1:1 // not valid TOML
        a = 1\na = 2\n => s.toml:2:1 // duplicate key // already given above
        a = [1,\nb = 2\n => s.toml:2:
        a = { b = 1\n[c]\n => s.toml:2:1 // help: the `{` in line 1 is not closed
        a = 1979-05-27\n => s.toml:1:5 // date or time
        a = 99999999999999999999\n => s.toml:1:5 // does not fit into 64 bits
    "#;
    assert_rows(rows, str::to_owned);
    assert_shown(
        "a = x\nb = y\n[c]\n[c]\n",
        3,
        &["s.toml:1:5", "s.toml:2:5", "s.toml:4:2"],
    );
    let parts = ["s.toml:1:5", "s.toml:2:5", "not a finite number"];
    assert_shown("a = nan\nb = inf\n", 2, &parts);
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let dotted = format!("{} = 1", vec!["a"; 100_000].join("."));
    let arrays = format!("a = {}", "[".repeat(100_000));
    let mixed = (0..79).fold("1".to_owned(), |inner, _| {
        format!("{{ a.b.c.d.e.f.g = {inner} }}")
    });
    for text in [dotted, arrays, format!("a = {mixed}")] {
        let (document, found) = diagnose(&text);
        assert_eq!(found.len(), 1);
        assert!(render(&found, &document, false).contains("s.toml:1:"));
    }
}

#[test]
fn colour_only_adds_escapes() {
    let (document, found) = diagnose("mode = 'x'\nhosts = [{ name = 'a' }]");
    assert!(render(&found, &document, true).contains("\u{1b}["));
    assert!(!render(&found, &document, false).contains('\u{1b}'));
}

#[test]
fn a_value_over_several_lines_is_shown_by_its_first() {
    let (document, found) = diagnose("mode = [\n  1,\n  2,\n]\nhosts = [{ name = 'a' }]");
    let shown = render(&found, &document, false);
    assert_parts(
        &shown,
        &["s.toml:1:8", "1 | mode = [\n", "^ expected a string"],
    );
}
