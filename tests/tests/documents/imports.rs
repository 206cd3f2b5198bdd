//! The imports between crates and between their modules: the manifests must agree with ARCHITECTURE.md, and no
//! modules import each other in a circle.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cxlab_tests::modules::Modules;
use cxlab_tests::root;
use serde_json::Value;

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    let done = cargo
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root());
    let done = done.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    String::from_utf8(done.stdout).expect("UTF-8")
}

/// By crate, in the table's order: the crates that the table says are imported.
fn told() -> Vec<(String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a document");
    let mut crates: Vec<(String, BTreeSet<String>)> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| `cxlab")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (name, imports) = (cells[0].trim_matches('`'), cells[cells.len() - 1]);
        let names = |list: &str| -> BTreeSet<String> {
            // A cell may name the imported items after the crate.
            let names = list
                .split(',')
                .map(|one| one.split('(').next().unwrap_or_default().trim());
            let names =
                names.filter(|name| !name.is_empty() && !name.ends_with(')') && *name != "-");
            let full = |name: &str| match name {
                "cxlab" => name.to_owned(),
                name => format!("cxlab-{name}"),
            };
            names.map(full).collect()
        };
        let above: BTreeSet<String> = crates.iter().map(|(name, _)| name.clone()).collect();
        let imports = match imports.strip_prefix("all above") {
            Some(rest) => {
                let but = names(rest.trim().strip_prefix("but ").unwrap_or_default());
                assert!(but.is_subset(&above), "{name}: {but:?}");
                &above - &but
            }
            None => names(imports),
        };
        assert!(
            imports.is_subset(&above),
            "{name} imports what does not stand above it: {imports:?}"
        );
        crates.push((name.to_owned(), imports));
    }
    crates
}

#[test]
fn crates_import_what_the_table_says_and_that_stands_above_them() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let beside = ["cxlab-tests", "cxlab-benches"];
    let mut found: Vec<(String, BTreeSet<String>)> = packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list").iter();
            let normal = dependencies.filter(|one| one["kind"].is_null());
            let names = normal.filter_map(|one| one["name"].as_str());
            let ours = names
                .filter(|name| name.starts_with("cxlab"))
                .map(str::to_owned);
            let name = package["name"].as_str().expect("a name");
            (name.to_owned(), ours.collect())
        })
        .filter(|(name, _)| !beside.contains(&name.as_str()))
        .collect();
    found.sort();
    let mut told = told();
    told.sort();
    assert_eq!(told, found);
}

#[test]
fn the_library_brings_nothing_of_a_command() {
    let tree = cargo(&[
        "tree",
        "--package",
        "cxlab-system",
        "--edges",
        "normal",
        "--prefix",
        "none",
    ]);
    let names: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.contains("cxlab-engine"), "{tree}");
    for name in [
        "clap",
        "ctrlc",
        "indicatif",
        "mimalloc",
        "mpi",
        "cxlab-attach",
        "cxlab-vm",
        "cxlab-cli",
    ] {
        assert!(!names.contains(name), "cxlab-system needs {name}");
    }
}

#[test]
fn modules_of_a_crate_do_not_import_each_other_in_a_circle() {
    for entry in std::fs::read_dir(root().join("crates")).expect("a folder") {
        let crate_path = entry.expect("an entry").path();
        let modules = Modules::read(&crate_path.join("src"));
        let (circles, folders) = (modules.circles(), modules.mutual_folders());
        let path = crate_path.display();
        assert!(circles.is_empty(), "{path}: {circles:?}");
        // Two folders are a circle too where they are deeper than the root.
        assert!(folders.is_empty(), "{path}: {folders:?}");
    }
}

#[test]
fn circles_of_modules_are_found_and_tests_do_not_count() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; mod d;\npub use c::{Third, inner};",
        ),
        (
            "a/mod.rs",
            "// use crate::d;\nuse crate::{b::{self, B}, e as _};",
        ),
        (
            "a/inside.rs",
            "const TEXT: &str = r#\"\" crate::d\"#; const QUOTE: char = '\"';",
        ),
        (
            "b.rs",
            "fn b() { crate::Third::new(); }\n#[cfg(test)]\nmod tests { use crate::d::D; }",
        ),
        (
            "c/mod.rs",
            "#[cfg(test)]\nmod model;\nuse super::a::inside::TEXT;",
        ),
        ("c/model.rs", "use crate::d::D;"),
        ("c/x/mod.rs", "mod inside;"),
        ("c/x/inside.rs", "use super::super::y::Y;"),
        ("c/y/mod.rs", "mod inside;"),
        ("c/y/inside.rs", "use crate::c::x::X;"),
        ("d.rs", "use crate::b::B;"),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("it is written");
    }
    let modules = Modules::read(&folder);
    assert_eq!(modules.circles(), [["a", "b", "c"]]);
    let mutual = ("c::x".to_owned(), "c::y".to_owned());
    assert_eq!(modules.mutual_folders(), [mutual]);
}
