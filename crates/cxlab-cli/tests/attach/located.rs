//! Where in a program its delay is from, and what other places would have cost.

use super::*;

fn rows<'a>(report: &'a Value, pointer: &str) -> &'a [Value] {
    report.pointer(pointer).and_then(Value::as_array).unwrap()
}

fn sum(rows: &[Value], name: &str) -> f64 {
    rows.iter().map(|row| row[name].as_f64().unwrap()).sum()
}

/// The walk is `walk`, inlined or not, in memory that `lines` allocates.
#[test]
fn a_walk_is_told_by_function_memory_and_calls() {
    let folder = Folder::new("attach-where");
    let Some((report, output)) = walk_with(&folder, 400, &["--where", "--advise"]) else {
        return;
    };
    let asked = number(&report, "/delay/asked_ns");
    assert!(asked > 1e8, "{report:#}");
    for part in ["functions", "memory"] {
        let all = sum(rows(&report, &format!("/where/{part}")), "delay_ns");
        let all = all + number(&report, "/where/unlocated_ns");
        assert!((all / asked - 1.0).abs() < 1e-6, "{part}: {all} of {asked}");
    }
    let [top, memory] = ["functions", "memory"].map(|part| &report["where"][part][0]);
    assert!(top["name"].to_string().contains("walk"), "{top}");
    for most in [top, memory] {
        assert!(number(most, "/delay_ns") > 0.9 * asked, "{most}");
    }
    let name = memory["name"].to_string();
    if !output.stderr.contains("allocation sites are not told") {
        assert!(name.contains("allocated for"), "{name}");
        near(memory, "/bytes", f64::from(64 << 20), 0.05);
    }
    let folded = folder.text("out/folded.txt");
    let times = folded.lines().filter_map(|line| line.rsplit(' ').next());
    let ns: f64 = times.map(|time| time.parse::<f64>().unwrap()).sum();
    assert!((ns / asked - 1.0).abs() < 0.01, "{ns} of {asked}");
    let is_walk = |line: &str| line.contains(";") && line.contains("walk");
    assert!(folded.lines().any(is_walk), "{folded}");
    let picture = folder.text("out/flame.svg");
    assert!(picture.contains("<svg") && picture.contains("walk"));
    // The same folder takes the next run.
    assert!(walk_with(&folder, 400, &["--where"]).is_some());
}

#[test]
fn other_places_and_fabrics_are_ranked_and_a_recording_says_the_same() {
    let folder = Folder::new("attach-advise");
    let far = SCENARIO.replace("kind = \"direct\"", "kind = \"chain\", switches = 1");
    let far = folder.file("far.toml", far.as_bytes());
    let kept = folder.path("kept.json");
    let more = [
        "--advise",
        "--against",
        far.to_str().unwrap(),
        "--record",
        kept.to_str().unwrap(),
    ];
    let Some((report, _)) = walk_with(&folder, 400, &more) else {
        return;
    };
    let cases = rows(&report, "/advice/cases");
    let slowdown = |case: &Value| number(case, "/slowdown");
    let slowdowns: Vec<f64> = cases.iter().map(slowdown).collect();
    assert!(slowdowns.is_sorted(), "{slowdowns:?}");
    let own = cases.iter().find(|case| case["as_recorded"] == true);
    // The replay has a sample of the windows, and the run the last ones at each time.
    let asked = number(&report, "/advice/asked_s");
    near(own.unwrap(), "/delay_s", asked, 0.1);
    let all_local = cases.iter().find(|case| {
        let change = case["change"].as_str().unwrap();
        change.starts_with("local: ") && change.contains("64 MiB")
    });
    if let Some(case) = all_local {
        assert!(slowdown(case) < 1.05, "{case}");
    }
    let again = cxlab(&[&"attach", &far, &"--recorded", &kept]);
    again.ends(0).says(&["as it was, on one"]);
    let text = folder.text("kept.json");
    let text = text.replacen("\"format\":2", "\"format\":9", 1);
    let damaged = folder.file("damaged.json", text.as_bytes());
    let refused = cxlab(&[&"attach", &far, &"--recorded", &damaged]);
    refused.ends(2).says(&["found format 9; allowed: 2"]);
}
