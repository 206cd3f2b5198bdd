//! Scenarios that ask for what their revision of the specification has not.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Folder, cxlab};

/// What CXL 2.0 has, one value a line.
const BASE: &str = r#"name = "old"
[fabric]
revision = "2.0"
kind = "single-vcs"
topology = { kind = "chain", switches = 1 }
[fabric.link]
generation = "5"
[[hosts]]
name = "host"
requests = 100
workload = { kind = "uniform" }
[[devices]]
name = "mem"
count = 6
capacity = "4 GiB"
[address_map]
ways = 2
"#;

/// What is changed in the base, the keys that are refused, and the first revision that has all of it.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static str,
);

const NEWER: &[Case] = &[
    (
        &[("generation = \"5\"", "generation = \"6\"")],
        &["fabric.link.generation", "fabric.link.flit"],
        "3.0",
    ),
    (
        &[("generation = \"5\"", "generation = \"7\"")],
        &["fabric.link.generation", "fabric.link.flit"],
        "4.0",
    ),
    (
        &[("generation = \"5\"", "generation = \"5\"\nflit = \"256B\"")],
        &["fabric.link.flit"],
        "3.0",
    ),
    (&[("\"single-vcs\"", "\"pbr\"")], &["fabric.kind"], "3.0"),
    (
        &[("switches = 1", "switches = 2")],
        &["fabric.topology"],
        "3.0",
    ),
    (&[("ways = 2", "ways = 3")], &["address_map.ways"], "3.0"),
    (
        &[("ways = 2", "ways = 2\narithmetic = \"xor\"")],
        &["address_map.arithmetic"],
        "3.0",
    ),
    (
        &[
            ("generation = \"5\"", "generation = \"6\""),
            (
                "requests = 100",
                "issue = { cache = { size = \"32 KiB\" } }",
            ),
            ("count = 6", "count = 4\ncoherence = { class = \"hdm-db\" }"),
            ("ways = 2", ""),
        ],
        &[
            "fabric.link.generation",
            "fabric.link.flit",
            "devices[0].coherence.class",
        ],
        "3.0",
    ),
    (
        &[
            ("\"single-vcs\"", "\"multiple-vcs\""),
            (
                "ways = 2",
                "ways = 2\n[[regions]]\nname = \"both\"\ncapacity = \"6 GiB\"\nsharing = \"shared\"",
            ),
        ],
        &["regions[0].sharing"],
        "3.0",
    ),
    (
        &[
            ("count = 6", "count = 4"),
            ("generation = \"5\"", "transmission = \"packet\""),
            (
                "requests = 100",
                "processor = {}\nnodes = [{ capacity = \"1 GiB\" }]",
            ),
            (
                "[address_map]\nways = 2",
                "[[accelerators]]\nname = \"npu\"\ncount = 2",
            ),
        ],
        &["fabric.link.generation", "accelerators"],
        "3.0",
    ),
];

fn changed(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(BASE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the base has {from:?}");
        text.replacen(from, to, 1)
    })
}

#[test]
fn what_a_revision_has_not_is_refused_with_its_key_and_section() {
    let folder = Folder::new("bad-revision");
    let check = |name: &str, text: &str| {
        let output = cxlab(&[&"check", &folder.file(name, text.as_bytes())]);
        (output.code, output.stderr)
    };
    assert_eq!(check("base.toml", BASE).0, Some(0));
    for (number, (edits, keys, since)) in NEWER.iter().enumerate() {
        let text = changed(edits);
        let (code, told) = check(&format!("old{number}.toml"), &text);
        assert_eq!(code, Some(2), "{edits:?}: {told}");
        let reports = told.lines().filter(|line| line.starts_with("error"));
        assert_eq!(reports.count(), keys.len(), "{edits:?}: {told}");
        for key in *keys {
            assert!(told.contains(&format!("`{key}`: found ")), "{key}: {told}");
        }
        assert!(told.contains("with `fabric.revision` = \"2.0\""), "{told}");
        assert!(
            told.contains(&format!("revision \"{since}\" or later")),
            "{told}"
        );
        let newer = text.replace("revision = \"2.0\"", &format!("revision = \"{since}\""));
        let (code, told) = check(&format!("new{number}.toml"), &newer);
        assert_eq!(code, Some(0), "{edits:?}: {told}");
    }
}

/// A CacheID has four bits (CXL 3.1 section 4.3.3).
#[test]
fn a_host_has_at_most_16_caching_devices_behind_switches() {
    let folder = Folder::new("bad-cache-ids");
    for (count, code) in [(16, 0), (17, 2)] {
        let text = changed(&[
            ("revision = \"2.0\"\n", ""),
            ("generation = \"5\"", "generation = \"6\""),
            (
                "requests = 100",
                "processor = {}\nnodes = [{ capacity = \"1 GiB\" }]",
            ),
        ]);
        let text = format!("{text}[[accelerators]]\nname = \"npu\"\ncount = {count}\n");
        let output = cxlab(&[&"check", &folder.file("many.toml", text.as_bytes())]);
        assert_eq!(output.code, Some(code), "{count}: {}", output.stderr);
        assert_eq!(output.stderr.contains("found 17 devices"), code == 2);
    }
}
