//! Every rule, the mistake that breaks it and the words that report it.

use serde_json::json;

use super::super::{Document, nearest, to_json, validate};
use super::sample::{VALID, assert_rows, assert_shown, diagnose, schema, shown};

const HOST: &str = "[[hosts]]\nname = \"a\"\n";

#[test]
fn a_valid_scenario_has_no_diagnostics() {
    assert_eq!(shown(VALID), "");
}

#[test]
fn every_mistake_is_reported_once_with_place_value_and_what_is_allowed() {
    let rows = r#"
        cuont = 3 => error: unknown key `cuont` in `hosts[0]` // --> s.toml:3:1 // 3 | cuont = 3 // ^^^^^ unknown key
            // help: did you mean `count`?
            // help: allowed keys: `count`, `name`, `pinned`, `seed`, `share`, `workload`
        zzz = 3 => unknown key `zzz` // allowed keys: `count`
        workload = { kind = "random", file = "x" } => unknown key `file` in `hosts[0].workload` // s.toml:3:31
            // help: `file` is allowed with kind = "trace" // allowed keys: `kind`, `reads`
        latency = "1 ns" => unknown key `latency` in `hosts[0]` // help: did you mean `fabric.latency`?
            // allowed keys: `count`
        switches = 3 => help: did you mean `fabric.topology.switches`?
        reads = 0.5 => help: did you mean `hosts.workload.reads`?

        count = "three" => `hosts[0].count`: expected an integer, found the string "three" // s.toml:3:9
            // ^^^^^^^ expected an integer
        count = "3" => help: write 3 without quotes
        count = 3.0 => found the number 3.0 // help: write 3
        pinned = 1 => expected a boolean (true or false), found the integer 1
        share = true => expected a number, found the boolean true
        workload = 3 => expected a table, found the integer 3 // allowed kinds: "random"
        workload = "trase" => help: write { kind = "trace" }
        workload = [1] => expected a table, found an array of 1 value

        count = 0 => `hosts[0].count`: found 0; allowed: 1 to 64 // s.toml:3:9
        count = 65 => allowed: 1 to 64
        seed = -1 => `hosts[0].seed`: found -1; allowed: at least 0
        share = 0.0 => found 0.0; allowed: more than 0.0 and at most 1.0
        share = 2 => found 2; allowed: more than 0.0 and at most 1.0

        workload = { kind = "tarce", file = "x", what = 3 } => unknown kind "tarce" in `hosts[0].workload`
            // s.toml:3:21 // help: did you mean "trace"? // help: allowed kinds: "random", "trace"
        workload = { kind = 4 } => `hosts[0].workload.kind`: expected a string, found the
        workload = { reads = 0.5 } => missing required key `kind` in `hosts[0].workload`
            // allowed kinds: "random", "trace"
        workload = { knid = "trace", file = "x" } => unknown key `knid` // mean `kind`?
        workload = { kind = "trace" } => missing required key `file` in `hosts[0].workload` // s.toml:3:12
            // `file` is missing
        workload = { kind = "trace", fiel = "x" } => unknown key `fiel` // mean `file`?
    "#;
    assert_rows(rows, |line| format!("{HOST}{line}\n"));
}

#[test]
fn mistakes_at_the_top_of_the_file_are_reported_likewise() {
    let rows = r#"
        mode = "fats" => `mode`: found "fats"; allowed: // "exact" // s.toml:1:8
            // did you mean "fast"?
        tier = "nera" => found "nera"; allowed: "near", "far" // did you mean "near"?
        tier = 3 => `tier`: expected a string, found the integer 3 // "near", "far"
        window = [1] => `window` has 1 entry, but must have 2 entries // s.toml:1:10
        window = [1, 256] => `window[1]`: found 256; allowed: 0 to 255 // s.toml:1:14
        window = 1 => `window`: expected an array, found the integer 1
        limits = { reads = 70000 } => `limits.reads`: found 70000 // 0 to 65535
        limits = { "a b" = "x" } => `limits."a b"`: expected an integer
        hots = [] => unknown key `hots` at the top level
        topology = "ring" => unknown key `topology` at the top level // help: did you mean `fabric.topology`?
        zzz = { rows = 3, seed = 1, x = 2 } => unknown key `zzz` at the top level
            // help: for `rows`, did you mean `fabric.topology.rows`? // help: for `seed`, did you mean `hosts.seed`?
    "#;
    assert_rows(rows, |line| format!("{line}\n{HOST}"));
}

#[test]
fn a_value_in_another_form_is_only_proposed_where_it_is_allowed() {
    let proposes = |line: &str| shown(&format!("{HOST}{line}\n")).contains("help: write");
    for (line, expected) in [
        ("count = \"64\"", true),
        ("count = \"65\"", false),
        ("count = 64.0", true),
        ("count = 65.0", false),
    ] {
        assert_eq!(proposes(line), expected, "{line}");
    }
    // In quotation marks the number has not the form of a name.
    assert!(!shown("[[hosts]]\nname = 3\n").contains("help: write"));
    let schema = json!({ "properties": {
        "warmup": { "oneOf": [{ "type": "string", "const": "auto" }] },
        "label": { "type": "string" },
    } });
    let help = |text: &str| {
        let found = validate(&Document::parse("s.toml", text).unwrap(), &schema);
        found.iter().next().unwrap().help.clone().unwrap()
    };
    assert_eq!(help("warmup = -1"), "allowed values: \"auto\"");
    assert_eq!(help("label = -1"), "write \"-1\"");
}

#[test]
fn a_value_of_another_key_of_its_table_is_proposed_there() {
    let schema = json!({
        "type": "object",
        "properties": {
            "warmup": { "enum": ["auto"] },
            "warmup_requests": { "type": "integer", "minimum": 0 },
            "warmup_time": { "type": "string", "format": "Picos" },
            "read": { "anyOf": [{ "$ref": "#/$defs/Picos" }, { "type": "null" }] },
            "read_queue": { "type": "integer" },
        },
        "$defs": { "Picos": { "type": "string", "format": "Picos" } },
    });
    let help = |text: &str| {
        let found = validate(&Document::parse("s.toml", text).unwrap(), &schema);
        assert_eq!(found.len(), 1, "{text}");
        found
            .iter()
            .next()
            .unwrap()
            .help
            .clone()
            .unwrap_or_default()
    };
    assert_eq!(help("warmup = '5 us'"), "write warmup_time = \"5 us\"");
    assert!(help("warmup = 5").ends_with("write warmup_requests = 5"));
    for text in [
        "warmup = -1",
        "warmup = 'soon'",
        "warmup = '5 us'\nwarmup_time = '1 us'",
        "read = 5",
    ] {
        let help = help(text);
        assert!(
            !help.contains("write warmup") && !help.contains("read_queue"),
            "{text}: {help}"
        );
    }
}

#[test]
fn quantities_are_read_by_the_engine_and_not_by_their_pattern() {
    let rows = r#"
        latency = "25" => `25` is not a time such as "25 ns" // s.toml:2:11
        latency = "1.5 ps" => `1.5 ps` is not a whole number of ps
        latency = "99999999999 s" => `99999999999 s` is not at most 18446744 s
        latency = "-46 ns" => `-46 ns` is not 0 or more: a time such as "25 ns"
        latency = "4_6 NS" => `4_6 NS` is not a time such as // did you mean "46 ns"?
        latency = 25 => `fabric.latency`: expected a time such as "25 ns" // found the integer 25
            // help: a quantity is a string with its unit
        latency = "25 ns"\nrate = "3 G" => `3 G` is not a rate such as // s.toml:3:8
        latency = "25 ns"\nbuffer = "3 Kib" => `3 Kib` is not a size such as // did you mean "3 KiB"?
    "#;
    assert_rows(rows, |lines| {
        format!("[fabric]\n{lines}\ntopology = {{ kind = \"star\" }}\n{HOST}")
    });
}

#[test]
fn a_missing_key_is_named_with_what_it_is_and_shown_at_its_table() {
    assert_shown(
        "",
        1,
        &[
            "missing required key `hosts` at the top level",
            "--> s.toml:1:1",
            "`hosts`: The machines that issue requests.",
        ],
    );
    assert_shown(
        &format!("[fabric]\ntopology.kind = \"star\"\n{HOST}"),
        1,
        &[
            "missing required key `latency` in `fabric`",
            "--> s.toml:1:1",
            "1 | [fabric]",
            "`latency`: The time one hop takes.",
        ],
    );
    assert_shown(
        "[[hosts]]\nname = \"a\"\n[[hosts]]\ncount = 1\n",
        1,
        &[
            "missing required key `name` in `hosts[1]`",
            "--> s.toml:3:1",
        ],
    );
}

#[test]
fn lengths_and_patterns_are_checked() {
    assert_shown(
        "hosts = []",
        1,
        &["`hosts` has 0 entries, but must have 1 to 3 entries"],
    );
    assert_shown(
        "hosts = [{ name = \"A b\" }]",
        1,
        &["does not have the form `^[a-z]", ":1:19"],
    );
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_the_order_of_the_file() {
    let text = "mode = 1\nfoo = 2\n[fabric]\nlatency = \"x\"\ntopology = { kind = \"rign\" }\n\
                [[hosts]]\nname = 3\ncount = 99\n[[hosts]]\nname = \"b\"\nsede = 1\n";
    let (document, found) = diagnose(text);
    let lines: Vec<_> = found
        .iter()
        .map(|one| document.location_of(one).line)
        .collect();
    let paths: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "mode",
            "foo",
            "fabric.latency",
            "fabric.topology.kind",
            "hosts[0].name",
            "hosts[0].count",
            "hosts[1].sede"
        ]
    );
    assert_eq!(lines, [1, 2, 4, 5, 7, 8, 11].map(Some));
}

#[test]
fn the_json_form_has_place_value_and_help() {
    let (document, found) = diagnose("mode = \"fats\"\n[[hosts]]\nname = \"a\"\n");
    let entry = &to_json(&found, &document)[0];
    assert_eq!(
        (&entry["file"], &entry["line"], &entry["column"]),
        (&json!("s.toml"), &json!(1), &json!(8))
    );
    assert_eq!(
        (&entry["path"], &entry["value"]),
        (&json!("mode"), &json!("fats"))
    );
    assert_eq!(entry["help"], "did you mean \"fast\"?");
    let message = entry["message"].as_str().unwrap();
    assert!(message.contains("found \"fats\"; allowed: \""), "{entry}");
}

#[test]
fn a_flattened_choice_and_a_choice_by_reference_know_their_keys_together() {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "unevaluatedProperties": false,
        "oneOf": [
            { "type": "object", "properties": { "kind": { "const": "a" } }, "$ref": "#/$defs/A",
              "required": ["kind"] },
            { "type": "object", "properties": { "kind": { "const": "b" } }, "required": ["kind"] },
        ],
        "$defs": { "A": { "type": "object", "properties": { "x": { "type": "integer" } },
                          "additionalProperties": false, "required": ["x"] } },
    });
    let paths = |text: &str| {
        let found = validate(&Document::parse("s.toml", text).unwrap(), &schema);
        found.iter().map(|one| one.path.clone()).collect::<Vec<_>>()
    };
    assert!(paths("kind = 'a'\nx = 1\nname = 'n'").is_empty());
    assert_eq!(paths("kind = 'a'\nname = 'n'"), ["x"]);
    assert_eq!(paths("kind = 'b'\nx = 1"), ["x"]);
    assert_eq!(paths("kind = 'c'\nx = 1\nname = 1"), ["kind", "name"]);
}

#[test]
fn untagged_alternatives_report_the_nearest_one_and_a_looping_schema_ends() {
    let schema = json!({ "properties": {
        "to": { "anyOf": [
            { "type": "integer", "minimum": 1 },
            { "type": "array", "items": { "type": "integer" } },
        ] },
        "self": { "$ref": "#/properties/self" },
        "loop": { "anyOf": [{ "$ref": "#/properties/loop" }, { "$ref": "#" }] },
    } });
    let check = |text: &str| validate(&Document::parse("s.toml", text).unwrap(), &schema);
    assert!(check("to = 3\nself = 1\nloop = { to = 1 }").is_empty());
    let found = check("to = [1, 'x', 'y']");
    assert_eq!(
        found
            .iter()
            .map(|one| one.path.as_str())
            .collect::<Vec<_>>(),
        ["to[1]", "to[2]"]
    );
    let found = check("to = 'x'");
    let message = &found.iter().next().unwrap().message;
    assert_eq!(
        message,
        "`to`: expected an integer or an array, found the string \"x\""
    );
}

#[test]
fn later_checks_point_at_the_nearest_ancestor_that_is_in_the_file() {
    let mut document = Document::parse("s.toml", VALID).unwrap();
    assert!(validate(&document, &schema()).is_empty());
    assert_eq!(document.location("hosts[1].workload.file").line, Some(20));
    assert_eq!(
        document.location("hosts[1].workload.depth.none").line,
        Some(19)
    );
    assert_eq!(document.location("hosts[0].seed").line, Some(11));
    assert_eq!(document.location("execution.threads").line, Some(1));
    assert_eq!(document.location("not [ a path").line, Some(1));
    document.set("hosts[0].seed=3").unwrap();
    assert_eq!(
        document.location("hosts[0].seed").file,
        "--set hosts[0].seed=3"
    );
}

#[test]
fn near_names_are_found_and_far_names_are_not() {
    let names = ["latency", "switches", "kind", "ring", "read-only"];
    for (found, meant) in [
        ("latncy", Some("latency")),
        ("lat", Some("latency")),
        ("Switches", Some("switches")),
        ("read_only", Some("read-only")),
        ("rign", Some("ring")),
        ("only", Some("read-only")),
        ("bandwidth", None),
        ("", None),
    ] {
        assert_eq!(nearest(found, names), meant, "{found}");
    }
}
