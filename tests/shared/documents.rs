//! Generated parts of documents, between `<!-- begin NAME -->` and `<!-- end NAME -->`. The tests
//! of a crate include this file by its path.

use std::fs;
use std::path::Path;

/// Compares parts of a document in `docs/` with the expected text. With
/// `CXLAB_UPDATE_DOCS=1` it writes that text instead.
///
/// # Panics
/// If a part is missing, or differs and is not to be written.
pub fn compare(document: &str, parts: &[(&str, String)]) {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let docs = folders.find_map(|folder| folder.join("docs").canonicalize().ok());
    let path = docs.unwrap().join(document);
    let mut text = fs::read_to_string(&path).unwrap();
    let mut stale = Vec::new();
    for (name, part) in parts {
        let begin = format!("<!-- begin {name} -->\n");
        let from = text.find(&begin).unwrap() + begin.len();
        let to = from + text[from..].find(&format!("<!-- end {name} -->")).unwrap();
        if text[from..to] != **part {
            stale.push(*name);
            text.replace_range(from..to, part);
        }
    }
    if stale.is_empty() {
        return;
    }
    assert!(
        std::env::var_os("CXLAB_UPDATE_DOCS").is_some(),
        "docs/{document}, parts {stale:?}, are not up to date: run with CXLAB_UPDATE_DOCS=1"
    );
    fs::write(path, text).unwrap();
}
