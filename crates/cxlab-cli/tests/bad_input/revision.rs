//! Scenarios that need a newer revision of the specification than theirs (`revision.txt`).

use crate::common::{check_all, cxlab};
use crate::table::{changed, numbered_folder, read};

/// What CXL 2.0 has, one value a line.
const BASE: &str = include_str!("revision.toml");

#[test]
fn a_feature_of_a_later_revision_is_refused_with_its_key_and_section() {
    let folder = numbered_folder();
    let check = |name: &str, text: &str| {
        let output = cxlab(&[&"check", &folder.file(name, text.as_bytes())]);
        (output.code, output.stderr)
    };
    assert_eq!(check("base.toml", BASE).0, Some(0));
    check_all(&read("revision").mistakes, |number, mistake| {
        let (name, text) = (&mistake.name, &mistake.text);
        let (since, keys) = mistake.says.split_first().unwrap();
        let (code, told) = check(&format!("old{number}.toml"), text);
        assert_eq!(code, Some(2), "{name}: {told}");
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
        let (code, told) = check(&format!("new{number}.toml"), &newer);
        assert_eq!(code, Some(0), "{name}: {told}");
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
        let output = cxlab(&[&"check", &folder.file("many.toml", text.as_bytes())]);
        assert_eq!(output.code, Some(code), "{count}: {}", output.stderr);
        assert_eq!(output.stderr.contains("found 17 devices"), code == 2);
    }
}
