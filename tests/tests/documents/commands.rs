//! Commands and scenarios that the documents show must work.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use cxlab_system::table;
use cxlab_tests::{plan, report, root};

/// The text between a fence line that starts with `opening` and the next fence.
fn fenced(text: &str, opening: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != opening).skip(1);
    lines
        .take_while(|line| *line != "```")
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Lines of `...` stand for those that the README leaves out.
#[test]
fn the_scenario_in_the_readme_prints_what_the_readme_shows() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let scenario = fenced(&readme, "```toml");
    let (_, after) = readme.split_once("\ncxlab run pool.toml\n```\n").unwrap();
    let printed = table::summary(&plan(&scenario, &[]), &report(&scenario, &[]));
    let shown = fenced(after, "```");
    let mut lines = shown.lines().filter(|line| line.trim() != "...");
    assert!(lines.clone().count() > 10, "{shown}");
    assert!(
        lines.all(|line| printed.lines().any(|own| own == line)),
        "{printed}"
    );
}

/// Every page of the root and of `docs`.
fn pages() -> impl Iterator<Item = PathBuf> {
    let names = [
        "",
        "docs",
        "docs/guide",
        "docs/reference",
        "docs/explain",
        "docs/notebook",
    ];
    names.into_iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "md"))
    })
}

#[test]
fn every_code_block_in_the_documents_ends_where_prose_begins() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut opened_at = None;
        for (number, line) in (1..).zip(text.lines()) {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            let place = format!("{}:{number}", page.display());
            opened_at = match opened_at {
                None => Some(place),
                Some(opened) => {
                    assert!(info.is_empty(), "{opened} is not closed before {place}");
                    None
                }
            };
        }
        assert!(opened_at.is_none(), "{} is not closed", opened_at.unwrap());
    }
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let shown = page.display();
            assert!(folder.join(path).exists(), "{shown} links to {target}");
        }
    }
}

#[test]
fn the_plan_of_every_size_in_the_documents_is_possible() {
    let text = "name = \"big\"\n[fabric]\ntopology = { kind = \"spine-leaf\", leaves = 64, spines = 4 }\n\
                [[hosts]]\nname = \"h\"\ncount = 2048\nworkload = { kind = \"uniform\" }\n\
                [[devices]]\nname = \"m\"\ncount = 2048\n";
    assert_eq!(plan(text, &[]).hosts.len(), 2048);
}
