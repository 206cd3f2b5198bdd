//! Every catalog is listed by `cxlab list`, and so in Python.

use std::collections::BTreeSet;
use std::path::Path;

use cxlab_tests::root;

use crate::sizes::sources;

#[test]
fn every_catalog_is_listed() {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    let declares = |text: &str| text.contains(" CATALOG: &[Entry<");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a source");
    let declared: Vec<_> = all.iter().filter(|path| declares(&read(path))).collect();
    let list = read(&root().join("crates/cxlab-cli/src/list.rs"));
    let words = list.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let listed: BTreeSet<&str> = words.filter(|word| word.ends_with("::CATALOG")).collect();
    assert!(declared.len() > 9, "{declared:?}");
    assert_eq!(listed.len(), declared.len(), "{listed:?} of {declared:?}");
}
