//! Scenarios that need a newer revision of the specification than theirs (`revision.txt`).

use crate::common::check_all;
use crate::table::{changed, numbered_folder, read};

/// What CXL 2.0 has, one value a line.
const BASE: &str = include_str!("revision.toml");

#[test]
fn a_feature_of_a_later_revision_is_refused_with_its_key_and_section() {
    let folder = numbered_folder();
    let check = |name: &str, text: &str| {
        folder.file(name, text.as_bytes());
        folder.cxlab(&format!("check {name}"))
    };
    check("base.toml", BASE).ends(0);
    check_all(&read("revision").mistakes, |number, mistake| {
        let (name, text) = (&mistake.name, &mistake.text);
        let (since, keys) = mistake.says.split_first().unwrap();
        let told = check(&format!("old{number}.toml"), text).ends(2).stderr;
        let reports = told.lines().filter(|line| line.starts_with("error"));
        assert_eq!(reports.count(), keys.len(), "{name}: {told}");
        let found = keys.iter().map(|key| format!("`{key}`: found "));
        let revisions = [
            "with `fabric.revision` = \"2.0\"".to_owned(),
            format!("revision \"{since}\" or later"),
        ];
        for part in found.chain(revisions) {
            assert!(told.contains(&part), "{name} says {part:?}: {told}");
        }
        let newer = text.replace("revision = \"2.0\"", &format!("revision = \"{since}\""));
        check(&format!("new{number}.toml"), &newer).ends(0);
        None
    });
}

/// A CacheID has four bits (CXL 3.1 section 4.3.3).
#[test]
fn a_host_has_at_most_16_caching_devices_behind_switches() {
    let folder = numbered_folder();
    for (count, code) in [(16, 0), (17, 2)] {
        let change = "revision = \"2.0\" -> && generation = \"5\" -> generation = \"6\" \
            && requests = 100 -> processor = {} / nodes = [{ capacity = \"1 GiB\" }]";
        let text = changed(BASE, change);
        let text = format!("{text}[[accelerators]]\nname = \"npu\"\ncount = {count}\n");
        folder.file("many.toml", text.as_bytes());
        let output = folder.cxlab("check many.toml").ends(code);
        assert_eq!(output.stderr.contains("found 17 devices"), code == 2);
    }
}
