//! The real command as users drive it: what it writes, and that nothing half-written looks whole.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, Output, command, cxlab, finish};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

/// A run that would take minutes.
const ENDLESS: &str = "--set=measure.requests=100000000000";

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn done(output: &Output) {
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "");
}

/// Starts a run that would take minutes, and waits until it has begun.
fn start(base: &Path, out: &Path, more: &[&str]) -> Child {
    let mut command = command(&[&"run", &base, &ENDLESS, &"--out", &out]);
    let child = command
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !out.exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the run does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // The handler is set right after the folder is made; then let some requests complete.
    std::thread::sleep(Duration::from_millis(1500));
    child
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .arg(name)
        .arg(child.id().to_string())
        .status()
        .unwrap();
    assert!(status.success());
}

fn text(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    pipe.unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Every half-width of an object of confidence intervals, where a value may have none.
fn half_widths(ci95: &Value) -> Vec<f64> {
    let values = ci95.as_object().unwrap().values();
    values.filter_map(Value::as_f64).collect()
}

/// Every number of a document.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => number.as_f64().into_iter().collect(),
        Value::Array(entries) => entries.iter().flat_map(numbers).collect(),
        Value::Object(map) => (map.iter())
            .filter(|(key, _)| *key != "ci95")
            .flat_map(|(_, value)| numbers(value))
            .chain(map.get("ci95").into_iter().flat_map(half_widths))
            .collect(),
        Value::Null => panic!("a number that is none (JSON writes NaN as null)"),
        Value::Bool(_) | Value::String(_) => Vec::new(),
    }
}

fn expect_sane(report: &Value) {
    assert!(
        numbers(report)
            .iter()
            .all(|number| number.is_finite() && *number >= 0.0)
    );
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap();
    let mean = number("/latency_ns/mean");
    assert!(number("/requests/completed") > 0.0);
    assert!(number("/latency_ns/min") <= mean && mean <= number("/latency_ns/max"));
    let stages = report["stages_ns"].as_object().unwrap();
    let sum: f64 = stages.values().map(|stage| stage.as_f64().unwrap()).sum();
    assert!(
        (sum / mean - 1.0).abs() < 1e-9,
        "stages sum to {sum}, mean {mean}"
    );
    let law = number("/littles_law/in_flight") / number("/littles_law/rate_times_latency");
    assert!((law - 1.0).abs() < 0.2, "Little's law: {law}");
}

/// Without the fields that may differ between identical runs.
fn without_wall(mut report: Value) -> Value {
    for (owner, field) in [
        ("", "wall_seconds"),
        ("", "events_per_second"),
        ("/requests", "per_wall_second"),
    ] {
        let owner = report.pointer_mut(owner).unwrap().as_object_mut().unwrap();
        assert!(owner.remove(field).is_some(), "{field}");
    }
    report
}

#[test]
fn a_run_writes_report_and_picture_whole_and_nothing_else() {
    let folder = Folder::new("run");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("deep/out");
    let output = cxlab(&[&"run", &base, &"--out", &out]);
    done(&output);
    assert!(output.stdout.contains("latency, ns"), "{}", output.stdout);
    assert!(output.stdout.contains("written: "), "{}", output.stdout);
    assert_eq!(names(&out), ["report.json", "topology.svg"]);
    well_formed(&std::fs::read_to_string(out.join("topology.svg")).unwrap());
    let report = json(&out.join("report.json"));
    assert_eq!(report["partial"], false);
    expect_sane(&report);
    // Quiet means quiet, and a folder holds the results of one run.
    done(&cxlab(&[
        &"run",
        &base,
        &"--out",
        &out,
        &"--requests",
        &"-q",
    ]));
    assert_eq!(
        names(&out),
        ["report.json", "requests.parquet", "topology.svg"]
    );
    let output = cxlab(&[&"run", &base, &"--out", &out, &"-q", &"--seed", &"9"]);
    done(&output);
    assert_eq!(output.stdout, "");
    assert_eq!(names(&out), ["report.json", "topology.svg"]);
    assert_eq!(json(&out.join("report.json"))["seed"], 9);
}

#[test]
fn the_report_has_every_field_and_is_the_same_on_any_number_of_threads() {
    let folder = Folder::new("threads");
    let base = folder.file("base.toml", BASE.as_bytes());
    let mut first = None;
    for threads in ["1", "2", "3", "5", "8"] {
        let out = folder.path(threads);
        let args: [&dyn AsRef<std::ffi::OsStr>; 7] =
            [&"run", &base, &"--out", &out, &"-q", &"--threads", &threads];
        done(&cxlab(&args));
        let report = without_wall(json(&out.join("report.json")));
        match &first {
            None => first = Some(report),
            Some(first) => assert_eq!(*first, report, "{threads} threads"),
        }
    }
    let report = first.unwrap();
    let fields = "version scenario plan_hash seed digest sim_time_ns events partial hosts devices \
        requests/issued requests/completed requests/reads requests/writes \
        bandwidth_gb_per_s/total bandwidth_gb_per_s/read bandwidth_gb_per_s/write \
        latency_ns/mean latency_ns/p50 latency_ns/p90 latency_ns/p99 latency_ns/p999 latency_ns/max \
        stages_ns/host_queue stages_ns/credits stages_ns/switch_queue stages_ns/device_queue \
        stages_ns/media_queue bottleneck/name bottleneck/limit links/0/wait_ns/p99 devices/0/wait_ns/p99 by_hops/0/hops by_hops/0/count by_hops/0/mean_ns by_hops/0/queue_ns \
        hosts/0/name devices/0/name links/0/name links/0/direction links/0/utilization \
        links/0/efficiency links/0/bytes";
    for field in fields.split_whitespace() {
        assert!(
            report.pointer(&format!("/{field}")).is_some(),
            "{field} is missing"
        );
    }
    assert_eq!(report["scenario"], "bad-input");
    assert_eq!(report["seed"], 7);
    assert_eq!(report["hosts"].as_array().unwrap().len(), 2);
    assert!(report["requests"]["completed"].as_u64().unwrap() >= 500);
}

#[test]
fn the_request_log_has_each_completed_request_and_its_stages_sum_to_its_latency() {
    let folder = Folder::new("requests");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    done(&cxlab(&[
        &"run",
        &base,
        &"--out",
        &out,
        &"-q",
        &"--requests",
    ]));
    let report = json(&out.join("report.json"));
    assert_eq!(
        check_log(&out, &report),
        report["requests"]["completed"].as_u64().unwrap()
    );
}

/// Checks every row of a request log and returns how many were completed in the report's window.
fn check_log(out: &Path, report: &Value) -> u64 {
    let window_ps = (report["warmup_ns"].as_f64().unwrap() * 1e3).round() as i64;
    let path = out.join("requests.parquet");
    let file = std::fs::File::open(path).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let (mut rows, mut measured) = (0, 0);
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let mut stages = 0;
        let (mut issued, mut completed) = (0, 0);
        for (name, field) in row.get_column_iter() {
            let value = match field {
                Field::Long(value) => *value,
                Field::ULong(value) => *value as i64,
                _ => continue,
            };
            match name.as_str() {
                "issued_ps" => issued = value,
                "completed_ps" => completed = value,
                name if name.ends_with("_ps") => stages += value,
                _ => {}
            }
        }
        assert!(completed > issued, "{row}");
        assert_eq!(stages, completed - issued, "{row}");
        rows += 1;
        measured += u64::from(completed > window_ps);
    }
    assert_eq!(rows, reader.metadata().file_metadata().num_rows());
    measured
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_says_that_it_is_partial() {
    let folder = Folder::new("interrupt");
    let base = folder.file("base.toml", BASE.as_bytes());
    for (name, threads) in [("-INT", "1"), ("-INT", "2"), ("-TERM", "1")] {
        let out = folder.path(&format!("out{name}{threads}"));
        let mut child = start(&base, &out, &["--requests", "--threads", threads]);
        signal(&child, name);
        let status = child.wait().unwrap();
        let said = text(child.stderr.take());
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(
            said.contains("interrupted at") && said.contains("partial"),
            "{said}"
        );
        assert!(text(child.stdout.take()).contains("(PARTIAL)"));
        assert_eq!(
            names(&out),
            ["report.json", "requests.parquet", "topology.svg"]
        );
        let report = json(&out.join("report.json"));
        assert_eq!(report["partial"], true);
        expect_sane(&report);
        let completed = report["requests"]["completed"].as_u64().unwrap();
        assert_eq!(check_log(&out, &report), completed);
    }
}

#[test]
fn a_killed_run_leaves_nothing_that_looks_whole() {
    let folder = Folder::new("kill");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let mut child = start(&base, &out, &["--requests"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let left = names(&out);
    assert!(
        left.iter().all(|name| name.contains(".partial-")),
        "{left:?}"
    );
}

#[test]
fn output_that_cannot_be_written_is_an_error_before_the_run() {
    let folder = Folder::new("unwritable");
    let base = folder.file("base.toml", BASE.as_bytes());
    let began = Instant::now();
    let below_a_file = base.join("out");
    for (out, code) in [
        (below_a_file.as_path(), 1),
        // A name that is a file's is a mistake.
        (base.as_path(), 2),
        (Path::new("/proc/cxlab"), 1),
        (Path::new("/dev/full"), 1),
    ] {
        let output = cxlab(&[&"run", &base, &ENDLESS, &"--out", &out]);
        assert_eq!(output.code, Some(code), "{}", output.stderr);
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
        assert!(
            output.stderr.contains(&*out.to_string_lossy()),
            "{}",
            output.stderr
        );
        assert_eq!(output.stdout, "");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    let trace = folder.file("t.trace", b"0x40 R 0\n");
    let output = cxlab(&[&"trace", &"import", &trace, &"-o", &below_a_file]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let output = cxlab(&[&"plan", &base, &"--out", &below_a_file]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let output = cxlab(&[&"plan", &base, &"--out", &"/dev/full"]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
}

/// Runs the command with files bounded to some blocks of 1 KiB, as on a disk that fills up.
fn bounded(blocks: u32, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""))
        .arg("bash");
    shell.arg(env!("CARGO_BIN_EXE_cxlab"));
    finish(shell.args(args.iter().map(|arg| arg.as_ref())))
}

#[test]
fn a_disk_that_fills_up_is_an_error_and_leaves_no_file_of_a_final_name() {
    let folder = Folder::new("full");
    let base = folder.file("base.toml", BASE.as_bytes());
    // Full from the beginning: the run does not begin.
    let out = folder.path("before");
    let output = bounded(1, &[&"run", &base, &ENDLESS, &"--out", &out]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert_eq!(names(&out), [""; 0]);
    // Full at the write of the request log, of which 200,000 rows take more.
    let out = folder.path("log");
    let rows = "--set=measure.requests=200000";
    let output = bounded(100, &[&"run", &base, &rows, &"--out", &out, &"--requests"]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(
        output.stderr.contains("requests.parquet"),
        "{}",
        output.stderr
    );
    assert_eq!(output.stdout, "");
    assert!(!out.exists(), "{:?}", names(&out));
    // Full at the write of the report, of which 200 hosts make 200 KiB.
    let out = folder.path("report");
    let hosts = "--set=hosts[0].count=200";
    let output = bounded(100, &[&"run", &base, &hosts, &"--out", &out]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert_eq!(names(&out), [""; 0]);
    // A trace.
    let scattered = |row: u64| row.wrapping_mul(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let text: String = (0..50_000)
        .map(|row| format!("{:x} R\n", scattered(row)))
        .collect();
    let trace = folder.file("t.trace", text.as_bytes());
    let out = folder.path("t.cxlt");
    let output = bounded(8, &[&"trace", &"import", &trace, &"-o", &out]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert_eq!(
        names(&folder.path("")),
        ["base.toml", "before", "report", "t.trace"]
    );
}

#[test]
fn a_full_standard_output_is_an_error_and_a_closed_one_is_not() {
    let full = |args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = command(args).stdout(full).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = full(&[&"list"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("standard output"), "{said}");
    for args in ["list", "schema", "--help"] {
        let mut child = command(&[&args])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let said = text(child.stderr.take());
        assert!(child.wait().unwrap().success(), "{args}: {said}");
        assert_eq!(said, "", "{args}");
    }
}

/// Tags are closed in order, and text has no bare `<` or `&`.
fn well_formed(svg: &str) {
    assert!(
        svg.starts_with("<svg") || svg.starts_with("<?xml"),
        "{}",
        &svg[..40]
    );
    let mut open: Vec<&str> = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(
            text.split('&').skip(1).all(|entity| entity.contains(';')),
            "{text}"
        );
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/', '\n'])
            .next()
            .unwrap();
        match (
            tag.starts_with('/'),
            tag.ends_with('/'),
            tag.starts_with(['?', '!']),
        ) {
            (true, ..) => assert_eq!(open.pop(), Some(name)),
            (_, false, false) => open.push(name),
            _ => {}
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn check_plan_list_and_schema_say_what_they_should() {
    let folder = Folder::new("subcommands");
    let base = folder.file("base.toml", BASE.as_bytes());
    let said = |args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let output = cxlab(args);
        done(&output);
        output.stdout
    };
    assert!(said(&[&"check", &base]).ends_with("base.toml: ok\n"));
    assert_eq!(said(&[&"check", &base, &"--format=json"]), "[]\n");
    let plan: Value = serde_json::from_str(&said(&[&"plan", &base, &"--format", &"json"])).unwrap();
    assert_eq!(plan["hosts"], serde_json::json!(["host0", "host1"]));
    assert_eq!(plan["switches"].as_array().unwrap().len(), 4);
    assert_eq!(plan["links"].as_array().unwrap().len(), 8);
    assert!(said(&[&"plan", &base]).contains("no cycle"));
    let dot = said(&[&"plan", &base, &"--format", &"dot"]);
    assert!(
        dot.contains("graph") && dot.matches('{').count() == dot.matches('}').count(),
        "{dot}"
    );
    well_formed(&said(&[&"plan", &base, &"--format", &"svg"]));
    let picture = said(&[&"plan", &base, &"--format", &"terminal"]);
    for name in ["[host0]", "(sw0)", "(sw3)"] {
        assert!(picture.contains(name), "{picture}");
    }
    let out = folder.path("plan.svg");
    assert_eq!(
        said(&[&"plan", &base, &"--format", &"svg", &"--out", &out]),
        ""
    );
    well_formed(&std::fs::read_to_string(out).unwrap());
    assert_eq!(
        said(&[
            &"plan",
            &base,
            &"--format",
            &"dot",
            &"--out",
            &"/dev/stdout"
        ]),
        dot
    );
    let list = said(&[&"list"]);
    for name in ["spine-leaf", "adaptive", "pointer-chase", "fixed", "lackey"] {
        assert!(list.contains(name), "{list}");
    }
    assert!(!said(&[&"list", &"workloads"]).contains("spine-leaf"));
    let schema: Value = serde_json::from_str(&said(&[&"schema"])).unwrap();
    assert!(schema["properties"]["fabric"].is_object());
}

#[test]
fn the_seed_the_plan_and_the_name_of_a_run_are_in_its_report() {
    let folder = Folder::new("identity");
    let base = folder.file("base.toml", BASE.as_bytes());
    let run = |name: &str, more: &[&str]| {
        let out = folder.path(name);
        let output = finish(command(&[&"run", &base, &"--out", &out, &"-q"]).args(more));
        done(&output);
        json(&out.join("report.json"))
    };
    let first = run("a", &[]);
    assert_eq!(
        without_wall(first.clone()),
        without_wall(run("b", &["--set", "execution.threads=2"]))
    );
    let seeded = run("c", &["--seed", "8"]);
    assert_eq!(seeded["plan_hash"], first["plan_hash"]);
    assert_ne!(seeded["digest"], first["digest"]);
    assert_ne!(
        run("d", &["--set", "fabric.link.lanes=8"])["plan_hash"],
        first["plan_hash"]
    );
}

#[test]
fn the_analytic_mode_writes_its_report_and_says_what_it_cannot_do() {
    let folder = Folder::new("analytic");
    let base = folder.file("base.toml", BASE.as_bytes());
    let out = folder.path("out");
    let output = cxlab(&[&"run", &base, &"--mode", &"analytic", &"--out", &out]);
    done(&output);
    assert!(output.stdout.contains("(analytic)"), "{}", output.stdout);
    assert_eq!(names(&out), ["report.json", "topology.svg"]);
    let report = json(&out.join("report.json"));
    assert_eq!(report["mode"], "analytic");
    assert!(report["bandwidth_gb_per_s"]["total"].as_f64().unwrap() > 0.0);
    assert!(report.get("digest").is_none());

    let refused = folder.path("refused");
    let output = cxlab(&[
        &"run",
        &base,
        &"--mode",
        &"analytic",
        &"--requests",
        &"--out",
        &refused,
    ]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--requests"), "{}", output.stderr);
    assert!(!refused.exists());

    let core = "--set=hosts[0].core={}";
    let output = cxlab(&[
        &"run",
        &base,
        &"--mode",
        &"analytic",
        &core,
        &"--out",
        &refused,
    ]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("core"), "{}", output.stderr);
    assert!(!refused.exists());
}

#[test]
fn a_host_of_another_program_is_planned_and_not_run() {
    let folder = Folder::new("another-program");
    let workload = "[hosts.workload]\nkind = \"uniform\"\nread_ratio = 0.5\n";
    let outside = BASE.replace(workload, "");
    let outside = outside.replace(
        "name = \"host\"\n",
        "name = \"host\"\nkind = \"external\"\n",
    );
    let path = folder.file("outside.toml", outside.as_bytes());
    done(&cxlab(&[&"check", &path]));
    for mode in ["events", "analytic"] {
        let run = cxlab(&[
            &"run",
            &path,
            &"--mode",
            &mode,
            &"--out",
            &folder.path(mode),
        ]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        for words in ["`hosts[0].kind`", "none is attached", "include/cxlab.h"] {
            assert!(run.stderr.contains(words), "{mode}: {}", run.stderr);
        }
    }
}
