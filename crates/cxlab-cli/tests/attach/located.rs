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
    let top = &rows(&report, "/where/functions")[0];
    assert!(top["name"].to_string().contains("walk"), "{top}");
    assert!(top["delay_ns"].as_f64().unwrap() > 0.9 * asked, "{top}");
    let memory = &rows(&report, "/where/memory")[0];
    assert!(
        memory["delay_ns"].as_f64().unwrap() > 0.9 * asked,
        "{memory}"
    );
    let name = memory["name"].to_string();
    if !output.stderr.contains("allocation sites are not told") {
        assert!(name.contains("allocated for"), "{name}");
        let bytes = memory["bytes"].as_f64().unwrap();
        assert!((bytes / f64::from(64 << 20) - 1.0).abs() < 0.05, "{memory}");
    }
    let folded = std::fs::read_to_string(folder.path("out").join("folded.txt")).unwrap();
    let ns: f64 = folded
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((ns / asked - 1.0).abs() < 0.01, "{ns} of {asked}");
    assert!(
        folded
            .lines()
            .any(|line| line.contains(";") && line.contains("walk")),
        "{folded}"
    );
    let picture = std::fs::read_to_string(folder.path("out").join("flame.svg")).unwrap();
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
    let slowdowns: Vec<f64> = cases
        .iter()
        .map(|case| case["slowdown"].as_f64().unwrap())
        .collect();
    assert!(slowdowns.is_sorted(), "{slowdowns:?}");
    let own = cases
        .iter()
        .find(|case| case["as_recorded"] == true)
        .unwrap();
    let (asked, own) = (
        number(&report, "/advice/asked_s"),
        own["delay_s"].as_f64().unwrap(),
    );
    // The replay has a sample of the windows, and the run the last ones at each time.
    assert!((own / asked - 1.0).abs() < 0.1, "{own} of {asked}");
    let all_local = cases.iter().find(|case| {
        let change = case["change"].as_str().unwrap();
        change.starts_with("local: ") && change.contains("64 MiB")
    });
    if let Some(case) = all_local {
        assert!(case["slowdown"].as_f64().unwrap() < 1.05, "{case}");
    }
    let again = finish(&mut command(&[&"attach", &far, &"--recorded", &kept]));
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(
        again.stderr.contains("as it was, on one"),
        "{}",
        again.stderr
    );
    let text = std::fs::read_to_string(&kept).unwrap();
    let damaged = folder.file(
        "damaged.json",
        text.replacen("\"format\":2", "\"format\":9", 1).as_bytes(),
    );
    let refused = finish(&mut command(&[&"attach", &far, &"--recorded", &damaged]));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("found format 9; allowed: 2"),
        "{}",
        refused.stderr
    );
}
