//! What the documents show must work.
#![allow(clippy::unwrap_used)]

use cxlab_tests::{plan, report, root};

/// The text between a fence line that starts with `opening` and the next fence.
fn fenced(text: &str, opening: &str) -> String {
    let lines = text.lines().skip_while(|line| *line != opening).skip(1);
    lines
        .take_while(|line| *line != "```")
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn the_scenario_in_the_readme_runs() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let scenario = fenced(&readme, "```toml");
    assert!(scenario.contains("[fabric]"));
    let report = report(&scenario, &["measure.requests=2000"]);
    assert!(report.requests.completed >= 2000);
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    for page in pages {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        let folder = root().join(&page).parent().unwrap().to_owned();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{page} links to {target}");
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
