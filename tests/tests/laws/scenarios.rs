//! Every scenario in `scenarios/` runs with the same report on one thread and on two, and
//! `docs/reference/statistics.md` has all names of its statistics.

use std::collections::BTreeSet;

use cxlab_system::report::Report;
use cxlab_tests::checkpoint::timeless;
use cxlab_tests::{plan, root, shipped, try_run};

/// Names of the shipped scenarios, in order.
fn names() -> Vec<String> {
    let folder = std::fs::read_dir(root().join("scenarios")).expect("scenarios/ is there");
    let mut names: Vec<String> = folder
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .map(|path| {
            path.file_stem()
                .expect("a file")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Whether a section of a page has a row for a name, or for its prefix, where a medium's name follows.
fn has_row(page: &str, section: &str, name: &str) -> bool {
    let mut sections = page.split("\n## ");
    let text = sections.find(|text| text.starts_with(section));
    let has = |name: &str| text.is_some_and(|text| text.contains(&format!("\n| `{name}` |")));
    let mut ends = name.match_indices('.').map(|(dot, _)| dot + 1);
    has(name) || ends.any(|end| has(&name[..end]) && has_row(page, "Media", &name[end..]))
}

/// Asserts that the page lists all statistics of a report, without the numbers of parts such as `node0`. Adds the
/// sections that list some to `found`.
fn check_statistics(page: &str, report: &Report, found: &mut BTreeSet<&str>) {
    let (hosts, accelerators) = (report.hosts.iter(), report.accelerators.iter());
    let hosts = hosts.map(|one| ("Processors", &one.processor));
    let accelerators = accelerators.map(|one| ("Accelerators", &one.accelerator));
    let media = report.devices.iter().map(|one| ("Media", &one.medium));
    for (section, values) in hosts.chain(accelerators).chain(media) {
        for name in values.keys() {
            let parts = name.split('.');
            let parts = parts.map(|part| part.trim_end_matches(char::is_numeric));
            let unnumbered = parts.collect::<Vec<_>>().join(".");
            assert!(has_row(page, section, &unnumbered), "{section}: {name}");
            found.insert(section);
        }
    }
}

#[test]
fn every_shipped_scenario_runs_and_does_not_depend_on_threads() {
    let names = names();
    assert!(names.len() >= 15, "{names:?}");
    let page = root().join("docs/reference/statistics.md");
    let page = std::fs::read_to_string(page).expect("the page on statistics");
    // The page has `N` for the number of a part.
    let page = page.replace("N.", ".");
    let mut found = BTreeSet::new();
    for name in names {
        let plan = plan(&shipped(&name), &["measure={ requests = 3000 }"]);
        assert_eq!(plan.scenario.name, name, "a scenario is called as its file");
        let description = &plan.scenario.description;
        assert!(!description.is_empty(), "{name} says what it is for");
        let reports = [1, 2].map(|threads| match try_run(&plan, threads) {
            Ok(report) => timeless(report),
            Err(error) => panic!("{name} on {threads} threads: {error}"),
        });
        let requests = &reports[0].requests;
        assert!(requests.completed >= 3000, "{name}: {requests:?}");
        assert!(!reports[0].provenance.partial, "{name}");
        // On any number of threads.
        assert!(reports[0] == reports[1], "{name}");
        check_statistics(&page, &reports[0], &mut found);
    }
    assert_eq!(found.len(), 3, "sections of the page: {found:?}");
}

/// If a trace is modified while it is replayed, it is unknown what was measured.
#[test]
fn a_trace_that_is_edited_after_the_plan_is_an_error() {
    let folder = std::env::temp_dir().join(format!("cxlab-edited-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("a.trace");
    let rows: String = (0..2_000)
        .map(|row| format!("{:x} R\n", row * 64))
        .collect();
    std::fs::write(&path, &rows).expect("a trace");
    let set = [
        "hosts[0].count=1".to_owned(),
        "measure={ requests = 1_000, warmup_requests = 0 }".to_owned(),
        format!(
            "hosts[0].workload={{ kind = \"trace\", path = \"{}\" }}",
            path.display()
        ),
    ];
    let plan = plan(&shipped("direct"), &set.each_ref().map(String::as_str));
    assert!(try_run(&plan, 1).is_ok());
    // Overwritten in place, with the same length.
    std::fs::write(&path, rows.replacen("0 R", "0 W", 1)).expect("a trace");
    // The clock of a file system may tick more slowly than this test runs.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    let file = std::fs::File::options().write(true).open(&path);
    file.and_then(|file| file.set_modified(later))
        .expect("a time");
    let error = try_run(&plan, 1).expect_err("it has changed");
    let error = error.to_string();
    let why = "changed since the run was planned";
    assert!(error.contains(why), "{error}");
    // A removed file remains valid while it is open.
    std::fs::remove_dir_all(&folder).expect("a folder");
}
