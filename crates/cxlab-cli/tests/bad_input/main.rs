//! Mistakes of users, through the real command. Each ends with exit code 2 and one report on standard
//! error that says where the mistake is, what was found and what is allowed. Nothing is written.
//!
//! Most mistakes are rows of the tables `*.txt` in this folder:
//!
//! ```text
//! # A comment.
//! base: ../common/base.toml
//! lanes = 16 -> lanes = 3 | fabric.link.lanes | 3 | 1, 2, 4, 8, 16
//! with: ++ [[regions]] / name = "own" / capacity = "1 GiB"
//! ++ hosts = ["host0"] | ! [[hosts]] | no region for host `host1`
//! ```
//!
//! A row is `CHANGE | SAYS | SAYS ...`: the change of the base that makes the mistake, and texts that the
//! report has. To add a mistake, add a row to the table of its topic.
//!
//! - `OLD -> NEW` replaces the first OLD of the base; an empty NEW removes it. `OLD ++ NEW` adds NEW as
//!   lines after OLD, and `++ NEW` adds NEW at the end.
//! - ` / ` breaks a line, and ` && ` joins changes.
//! - The report must name the line where the first NEW begins, if `!` marks no other: `! ` before a line
//!   of a NEW, or a column `! TEXT` for the first line of the scenario with TEXT.
//! - `base: FILE` is the scenario that the rows below change. `with: CHANGE` changes the base for the rows
//!   below, until the next `base:`. Every base must pass `cxlab check`.
//! - A line that begins with spaces continues the row above.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod failures;
mod qos;
mod revision;
mod table;
mod traces;

use common::{BASE, complaints};
use table::{changed, numbered_folder};

#[test]
fn each_mistake_of_the_tables_is_one_report_at_its_line() {
    let mut tables = table::names();
    // These have tests of their own.
    tables.retain(|table| !["arguments", "revision"].contains(&table.as_str()));
    assert!(tables.len() > 10, "{tables:?}");
    tables.iter().for_each(|table| table::check(table));
}

#[test]
fn all_mistakes_of_a_scenario_are_reported_at_once() {
    let folder = numbered_folder();
    let check = |file: &str, text: &str, says: &[&str], reports| {
        folder.file(file, text.as_bytes());
        let output = folder.cxlab(&format!("check {file}"));
        assert_eq!(complaints(file, &output, reports, says), None);
    };
    let schema = changed(
        BASE,
        r#"lanes = 16 -> lanes = 3 && "ring" -> "rign" && read_ratio -> read_ratios && "16 GiB" -> 16"#,
    );
    let says = [
        "fabric.link.lanes",
        "did you mean \"ring\"?",
        "`read_ratios`",
        "devices[0].capacity",
    ];
    check("schema.toml", &schema, &says, 4);
    let values = changed(
        BASE,
        r#"lanes = 16 -> duplex = "half" && "16 GiB" -> "16 MiB" && "256 B" -> "100 B" && read_ratio = 0.5 -> offset = "100 B"
            && requests = 500 -> duration = "0 ns" && name = "host" -> name = "h h""#,
    );
    let says = [
        "fabric.link.duplex",
        "devices[0].capacity",
        "address_map.granularity",
        "hosts[0].workload.offset",
        "measure.duration",
        "hosts[0].name",
    ];
    check("values.toml", &values, &says, 6);
    let says = ["`name`", "`fabric`", "`hosts`", "empty.toml:1:1"];
    check("empty.toml", "", &says, 3);
    folder.file("base.toml", BASE.as_bytes());
    let output = folder.cxlab("check base.toml --set seed --set hosts[7].count=1 --set sede=1");
    let says = ["no `=`", "hosts` has no entry 7", "did you mean `seed`?"];
    assert_eq!(complaints("--set", &output, 3, &says), None);
}

#[test]
fn check_json_names_every_mistake_for_programs() {
    let folder = numbered_folder();
    let text = changed(BASE, "lanes = 16 -> lanes = 3 && seed = 7 -> sede = 7");
    folder.file("bad.toml", text.as_bytes());
    let output = folder.cxlab("check --format=json bad.toml").ends(2);
    assert_eq!(output.stderr, "");
    let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let found = found.as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["path"], "sede");
    assert_eq!(found[0]["line"], 2);
    assert_eq!(found[1]["path"], "fabric.link.lanes");
    assert_eq!(found[1]["value"], 3);
}

/// Reports take linear time, and more than a hundred are counted only.
#[test]
fn of_a_hundred_thousand_mistakes_a_hundred_are_told() {
    let folder = numbered_folder();
    let unknown: String = (0..100_000).map(|key| format!("k{key} = 1\n")).collect();
    folder.file("many.toml", (unknown + BASE).as_bytes());
    let output = folder.cxlab("check many.toml").ends(2);
    let output = output.says(&["99900 more are not shown"]);
    let found = output.stderr.matches("error: unknown key").count();
    assert_eq!(found, 100, "{:.2000}", output.stderr);
    let output = folder.cxlab("check --format=json many.toml");
    let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(told.as_array().unwrap().len(), 101);
}

/// Control characters of a scenario reach a terminal neither in messages nor in tables.
#[test]
fn a_terminal_obeys_nothing_of_a_scenario() {
    let folder = numbered_folder();
    let evil = "\\u001b[2J\\u0007\\u009b31m";
    let named = BASE
        .replace("name = \"bad-input\"", &format!("name = \"{evil}\""))
        .replace("name = \"host\"", &format!("name = \"h{evil}\""));
    let wrong = BASE.replace("kind = \"ring\"", &format!("kind = \"{evil}\""));
    for (number, text) in [named, wrong].iter().enumerate() {
        folder.file(&format!("{number}.toml"), text.as_bytes());
        for words in ["check", "plan", "run --out out"] {
            let output = folder.cxlab(&format!("{words} {number}.toml"));
            for said in [output.stdout, output.stderr] {
                assert!(
                    !said.contains(['\u{1b}', '\u{7}', '\u{9b}']),
                    "{words}: {said}"
                );
            }
        }
    }
}

/// In each table of a link, a rate takes the place of lanes.
#[test]
fn lanes_beside_a_rate_are_noted() {
    let folder = numbered_folder();
    let text = "name = \"lanes\"\n\
                [fabric]\ntopology = { kind = \"chain\", switches = 1 }\n\
                link = { lanes = 4, bandwidth = \"8 GB/s\" }\n\
                edge_link = { lanes = 8 }\n\
                links.slow = { lanes = 2, bandwidth = \"4 GB/s\" }\n\
                [[hosts]]\nname = \"host\"\nworkload = { kind = \"uniform\" }\n\
                [[devices]]\nname = \"mem\"\nlink = { lanes = 2, bandwidth = \"4 GB/s\" }\n";
    folder.file("lanes.toml", text.as_bytes());
    let checked = folder.cxlab("check lanes.toml").ends(0);
    let links = ["fabric.link", "fabric.links.slow", "devices[0].link"];
    let noted = links.map(|link| format!("`{link}.lanes`"));
    let said = checked.prints(&noted.each_ref().map(String::as_str)).stdout;
    assert!(!said.contains("`fabric.edge_link.lanes`"), "{said}");
}
