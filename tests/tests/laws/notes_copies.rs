//! A note names hosts that cache memory without hardware coherence.

use cxlab_tests::plan;

const POOL: &str = r#"name = "pool"
description = "two hosts and two devices"
[fabric]
topology = { kind = "chain", switches = 1 }
link = { generation = "6" }
[[hosts]]
name = "a"
issue = { cache = { size = "64 KiB" } }
workload = { kind = "uniform" }
[[hosts]]
name = "b"
workload = { kind = "uniform" }
[[devices]]
name = "d"
count = 2
capacity = "1 GiB"
"#;

const PROCESSOR: [&str; 2] = [
    "hosts[1].processor={}",
    "hosts[1].nodes=[{ capacity = \"1 MiB\" }]",
];

fn notes(text: &str, set: &[&str]) -> Vec<String> {
    let notes = plan(text, set).notes;
    notes
        .into_iter()
        .map(|note| note.message)
        .filter(|note| note.contains("keep copies"))
        .collect()
}

#[test]
fn hosts_with_caches_of_the_same_memory_are_named() {
    assert!(notes(POOL, &[]).is_empty(), "one cache has no other");
    let cached = notes(POOL, &["hosts[1].issue={ cache = { size = \"64 KiB\" } }"]);
    assert_eq!(cached.len(), 1);
    for part in ["`a` and `b`", "`d0`", "1 devices more", "HDM-H", "hdm-db"] {
        assert!(cached[0].contains(part), "{part}: {}", cached[0]);
    }
    assert!(!cached[0].contains("no value"), "requesters have no values");
    let processor = notes(POOL, &PROCESSOR);
    let note = &processor[0];
    assert!(note.contains("no value of the other's"), "{note}");
    let core = notes(POOL, &["hosts[1].core={}"]);
    assert_eq!(core.len(), 1);
}

#[test]
fn memory_of_their_own_or_kept_coherent_is_not() {
    let regions = |sharing: &str| {
        format!(
            "{POOL}[[regions]]\nname = \"r\"\ncapacity = \"512 MiB\"\nsharing = \"{sharing}\"\n"
        )
    };
    assert!(notes(&regions("exclusive"), &PROCESSOR).is_empty());
    assert_eq!(notes(&regions("shared"), &PROCESSOR).len(), 1);
    let coherent = [
        "hosts[1].issue={ cache = { size = \"64 KiB\" } }",
        "devices[0].coherence={ class = \"hdm-db\" }",
    ];
    assert!(notes(POOL, &coherent).is_empty());
}
