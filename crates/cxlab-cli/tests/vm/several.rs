//! Several guests of one scenario, and programs that mark or keep what they do.

use std::path::PathBuf;

use super::*;

/// A scenario that is shipped.
fn shipped(name: &str) -> PathBuf {
    root().join("scenarios").join(name)
}

#[test]
#[ignore = "minutes: make test-all"]
fn two_guests_slow_one_another_where_they_meet_and_only_there() {
    let folder = Folder::new("vm-hosts");
    let scenario = shipped("vm-hosts.toml");
    let pool = ["--memory", "pool"];
    let stream = ["stream", "2730", "2"];
    let alone = ["--memory", "pool", "--host", "node0"];
    let Some(report) = run(&folder, &scenario, &stream, &alone) else {
        return;
    };
    let total = |guest: &Value| -> f64 {
        let kernels = ["copy", "scale", "add", "triad"].into_iter();
        let rates = kernels.map(|kernel| numbers(guest, &format!("stream {kernel} "))[0]);
        rates.sum()
    };
    let one = total(&report);
    let report = run(&folder, &scenario, &stream, &pool).unwrap();
    let guests = report["guests"].as_array().unwrap();
    assert_eq!(guests.len(), 2, "{report:#}");
    assert_eq!(report["late_events"], 0);
    assert_eq!(report["most_late_ns"], 0.0);
    // The link is nearly full with one, so that each gets half of it and a little more.
    for (guest, name) in guests.iter().zip(["node0", "node1"]) {
        assert_eq!(guest["host"], name);
        assert_eq!(guest["regions"].as_array().unwrap().len(), 1);
        let share = total(guest) / one;
        assert!((0.5..0.7).contains(&share), "{share}: {report:#}");
        let times = ["guest_s", "simulated_s"].map(|name| guest["runs"][0][name].as_f64());
        let [guest, simulated] = times.map(Option::unwrap);
        assert_near(guest, simulated, 0.02);
    }
    let chase = ["chase", "8192", "20000"];
    let report = run(&folder, &scenario, &chase, &alone).unwrap();
    let quiet = numbers(&report, "chase ")[0];
    let beside = |more: &[&str]| {
        let options = [&pool[..], &["--program", "node1=stream 2730 12"], more].concat();
        let report = run(&folder, &scenario, &chase, &options).unwrap();
        let [one, other] = &report["guests"].as_array().unwrap()[..] else {
            panic!("{report:#}")
        };
        // All of the chase has company.
        let seconds = |guest: &Value| guest["runs"][0]["simulated_s"].as_f64().unwrap();
        let has_company = seconds(one) < seconds(other);
        assert!(!more.is_empty() || has_company, "{report:#}");
        numbers(one, "chase ")[0]
    };
    let crowded = beside(&[]);
    assert!(crowded > 1.3 * quiet, "{crowded} {quiet}");
    assert_near(beside(&["--memory", "node1=local"]), quiet, 0.02);
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_guest_that_sleeps_or_dies_stops_no_other() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-dies");
    let scenario = shipped("vm-hosts.toml");
    let chase = ["chase", "2048", "20000"];
    let sleeps = ["--memory", "pool", "--program", "node1=sleep 0.05"];
    let report = run(&folder, &scenario, &chase, &sleeps).unwrap();
    let [one, other] = [0, 1].map(|guest| &report["guests"][guest]["runs"][0]);
    assert!(one["guest_s"].as_f64().unwrap() < 0.05, "{report:#}");
    let slept = other["guest_s"].as_f64().unwrap();
    assert!((0.05..0.08).contains(&slept), "{report:#}");
    assert!(other["idle_s"].as_f64().unwrap() > 0.9 * 0.05, "{report:#}");
    // The second goes in the middle of its program.
    let die = folder.file("die", b"chase 64 1000\nsync\npoweroff -f\nsleep 100\n");
    let die = format!("{}:/in/die", die.display());
    let die = ["--file", &die, "--program", "node1=sh /in/die"];
    let options = [&["--memory", "pool"], &die[..]].concat();
    let output = attempt(dir, &folder, &scenario, &chase, &options);
    output.ends(1).says(&["`node1`: QEMU ended early"]);
    let report = written(&folder);
    let [one, other] = &report["guests"].as_array().unwrap()[..] else {
        panic!("{report:#}")
    };
    assert!(numbers(one, "chase ")[0] > 100.0, "{report:#}");
    let error = other["error"].as_str().unwrap();
    let why = "before its programs had ended";
    assert!(error.contains(why), "{report:#}");
}

#[test]
#[ignore = "minutes: make test-all"]
fn regions_of_interest_are_counted_alone_and_what_is_before_them_can_be_skipped() {
    let folder = Folder::new("vm-roi");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let script = b"chase 4096 1000\nroi begin\nchase 2048 20000\nroi end\nroi begin\nroi end\n";
    let work = format!("{}:/in/work", folder.file("work", script).display());
    let near = ["--memory", "near", "--file", &work];
    let program = ["sh", "/in/work"];
    let Some(report) = run(&folder, &scenario, &program, &near) else {
        return;
    };
    let whole = &report["runs"][0];
    let regions = whole["regions_of_interest"].as_array().unwrap();
    assert_eq!(regions.len(), 2, "{report:#}");
    let loads = |span: &Value| span["pools"][1]["loads"].as_f64().unwrap();
    let seconds = |span: &Value| span["simulated_s"].as_f64().unwrap();
    // Lines of the cycle are made in the region, then 20,000 of 32,768 are read.
    let (first, second) = (&regions[0], &regions[1]);
    let right = 30_000.0..loads(whole) / 2.0;
    assert!(right.contains(&loads(first)), "{report:#}");
    assert!(loads(second) < 0.1 * loads(first), "{report:#}");
    let both = seconds(first) + seconds(second);
    assert!(both < 0.6 * seconds(whole), "{report:#}");
    let options = [&near[..], &["--from-roi"]].concat();
    let skipped = run(&folder, &scenario, &program, &options).unwrap();
    let run = &skipped["runs"][0];
    assert_eq!(run["guest_s"], Value::Null);
    let one = &run["regions_of_interest"][0];
    assert_near(loads(one), loads(first), 0.05);
    assert_near(seconds(one), seconds(first), 0.05);
    assert!(seconds(run) < 0.7 * seconds(whole), "{skipped:#}");
}

/// A shell's variable and file are there after `save`, in the run that saved the guest and in one that restored it,
/// with another latency. What is before runs once.
#[test]
#[ignore = "minutes: make test-all"]
fn a_program_continues_where_it_was_saved() {
    let folder = Folder::new("vm-saved");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let script =
        b"kept=$(cat /proc/sys/kernel/random/uuid); echo before > /tmp/kept\nsave\nroi begin\n\
                   chase 4096 20000\nroi end\necho $kept $(cat /tmp/kept) $1\n";
    let work = format!("{}:/in/work", folder.file("work", script).display());
    let ran = |word: &str, options: &[&str]| {
        let near = ["--memory", "near", "--file", &work, "--from-save"];
        let program = ["sh", "/in/work", word];
        run(&folder, &scenario, &program, &[&near[..], options].concat())
    };
    let said = |report: &Value| {
        let lines = report["runs"][0]["output"].as_array().unwrap();
        lines.last().unwrap().as_str().unwrap().to_owned()
    };
    let chased = |report: &Value| numbers(report, "chase ")[0];
    let Some(first) = ran("one", &[]) else { return };
    assert!(said(&first).ends_with(" before one"), "{first:#}");
    let set = ["--set", "devices[0].controller.process_time=100ns"];
    let later = ran("one", &set).unwrap();
    assert_eq!(said(&first), said(&later));
    let apart = chased(&later) - chased(&first);
    assert!((apart - 100.0).abs() < 20.0, "{first:#} {later:#}");
    // Another word is another program.
    let other = ran("two", &[]).unwrap();
    assert!(said(&other) != said(&first) && said(&other).ends_with(" before two"));
    // A program that does not say it fails.
    let (dir, options) = (guest().unwrap(), ["--memory", "near", "--from-save"]);
    let output = attempt(dir, &folder, &scenario, &["chase", "64", "10"], &options);
    output.ends(1).says(&["without `save`"]);
}

#[test]
#[ignore = "minutes: make test-all"]
fn persistent_memory_keeps_its_files_from_run_to_run() {
    let Some(dir) = guest() else { return };
    let folder = Folder::new("vm-pmem");
    let scenario = folder.file("s.toml", SCENARIO.as_bytes());
    let pmem = folder.path("pmem").display().to_string();
    let options = ["--memory", "near", "--pmem", &pmem];
    let write = "grep /pmem /proc/mounts; head -c 3000000 /dev/zero | tr '\\0' x > /pmem/file; echo $CXLAB_PMEM";
    let report = run(&folder, &scenario, &["sh", "-c", write], &options).unwrap();
    let output = report["runs"][0]["output"].to_string();
    let has_dax = output.contains("dax=always") && output.contains("/dev/pmem");
    assert!(has_dax, "{output}");
    let stored = |report: &Value| {
        let pool = &report["runs"][0]["pools"][1];
        ["bytes_read", "bytes_written"].map(|key| pool[key].as_u64().unwrap())
    };
    assert!(stored(&report)[1] > 2_000_000, "{report:#}");
    let read = "md5sum < /pmem/file; ls /pmem";
    let report = run(&folder, &scenario, &["sh", "-c", read], &options).unwrap();
    let wanted = std::process::Command::new("sh")
        .args(["-c", "head -c 3000000 /dev/zero | tr '\\0' x | md5sum"])
        .output()
        .unwrap();
    let wanted = String::from_utf8_lossy(&wanted.stdout).trim().to_owned();
    assert_eq!(report["runs"][0]["output"][0], wanted, "{report:#}");
    assert!(stored(&report)[0] >= 3_000_000, "{report:#}");
    // Another window's contents are not taken for this one's.
    let larger = ["--set", "devices[0].capacity=\"512 MiB\""];
    let options = [&options[..], &larger].concat();
    let output = attempt(dir, &folder, &scenario, &["sh", "-c", "true"], &options);
    output.ends(2).says(&[
        "--pmem",
        "host-near.pmem",
        "found 268435456 bytes",
        "allowed: 536870912",
    ]);
}
