//! The real command as users drive it: what it writes, and that nothing half-written looks whole.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{BASE, Folder, Output, finish, signal, until};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

/// A run that would take minutes.
const ENDLESS: &str = "--set=measure.requests=100000000000";

/// Starts a run into `out` that would take minutes, and waits until it has begun.
fn start(folder: &Folder, out: &str, more: &str) -> Child {
    let mut run = folder.command(&format!("run base.toml {ENDLESS} --out {out} {more}"));
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = run.spawn().unwrap();
    until("the run's folder", || folder.path(out).exists());
    // The handler is set right after the folder is made; then let some requests complete.
    std::thread::sleep(Duration::from_millis(1500));
    child
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
    let is_sane = |number: &f64| number.is_finite() && *number >= 0.0;
    assert!(numbers(report).iter().all(is_sane));
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap();
    let mean = number("/latency_ns/mean");
    assert!(number("/requests/completed") > 0.0);
    assert!(number("/latency_ns/min") <= mean && mean <= number("/latency_ns/max"));
    let sum: f64 = numbers(&report["stages_ns"]).iter().sum();
    let apart = (sum / mean - 1.0).abs();
    assert!(apart < 1e-9, "stages sum to {sum}, mean {mean}");
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
    let folder = Folder::with_base("run");
    let output = folder.cxlab("run base.toml --out deep/out").done();
    output.prints(&["latency, ns", "written: "]);
    assert_eq!(folder.names("deep/out"), ["report.json", "topology.svg"]);
    well_formed(&folder.text("deep/out/topology.svg"));
    let report = folder.json("deep/out/report.json");
    assert_eq!(report["partial"], false);
    expect_sane(&report);
    // Quiet means quiet, and a folder holds the results of one run.
    let logged = folder.cxlab("run base.toml --out deep/out --requests -q");
    logged.done();
    assert_eq!(folder.names("deep/out"), LOGGED);
    let output = folder.cxlab("run base.toml --out deep/out -q --seed 9");
    assert_eq!(output.done().stdout, "");
    assert_eq!(folder.names("deep/out"), ["report.json", "topology.svg"]);
    assert_eq!(folder.json("deep/out/report.json")["seed"], 9);
}

/// The files of a run with a request log.
const LOGGED: [&str; 3] = ["report.json", "requests.parquet", "topology.svg"];

#[test]
fn the_report_has_every_field_and_is_the_same_on_any_number_of_threads() {
    let folder = Folder::with_base("threads");
    let mut first = None;
    for threads in [1, 2, 3, 5, 8] {
        let run = format!("run base.toml --out {threads} -q --threads {threads}");
        folder.cxlab(&run).done();
        let report = without_wall(folder.json(&format!("{threads}/report.json")));
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
        let found = report.pointer(&format!("/{field}"));
        assert!(found.is_some(), "{field} is missing");
    }
    assert_eq!(report["scenario"], "bad-input");
    assert_eq!(report["seed"], 7);
    assert_eq!(report["hosts"].as_array().unwrap().len(), 2);
    assert!(report["requests"]["completed"].as_u64().unwrap() >= 500);
}

#[test]
fn the_request_log_has_each_completed_request_and_its_stages_sum_to_its_latency() {
    let folder = Folder::with_base("requests");
    let run = folder.cxlab("run base.toml --out out -q --requests");
    run.done();
    check_log(&folder, "out");
}

/// Checks every row of a request log, and that those completed in the report's window are its requests.
fn check_log(folder: &Folder, out: &str) {
    let report = folder.json(&format!("{out}/report.json"));
    let window_ps = (report["warmup_ns"].as_f64().unwrap() * 1e3).round() as i64;
    let path = folder.path(out).join("requests.parquet");
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
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
    assert_eq!(report["requests"]["completed"], measured);
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_says_that_it_is_partial() {
    let folder = Folder::with_base("interrupt");
    for (name, threads) in [("-INT", 1), ("-INT", 2), ("-TERM", 1)] {
        let out = format!("out{name}{threads}");
        let child = start(&folder, &out, &format!("--requests --threads {threads}"));
        signal(&child, name);
        let output = Output::of(&out, &child.wait_with_output().unwrap()).ends(130);
        let output = output.says(&["interrupted at", "partial"]);
        output.prints(&["(PARTIAL)"]);
        assert_eq!(folder.names(&out), LOGGED);
        let report = folder.json(&format!("{out}/report.json"));
        assert_eq!(report["partial"], true);
        expect_sane(&report);
        check_log(&folder, &out);
    }
}

#[test]
fn a_killed_run_leaves_nothing_that_looks_whole() {
    let folder = Folder::with_base("kill");
    let mut child = start(&folder, "out", "--requests");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = folder.names("out");
    let is_partial = |name: &String| name.contains(".partial-");
    assert!(left.iter().all(is_partial), "{left:?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error_before_the_run() {
    let folder = Folder::with_base("unwritable");
    let began = Instant::now();
    for (out, code) in [
        ("base.toml/out", 1),
        // A name that is a file's is a mistake.
        ("base.toml", 2),
        ("/proc/cxlab", 1),
        ("/dev/full", 1),
    ] {
        let output = folder.cxlab(&format!("run base.toml {ENDLESS} --out {out}"));
        let output = output.ends(code).says(&[out]);
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    folder.file("t.trace", b"0x40 R 0\n");
    for command in [
        "trace import t.trace -o base.toml/out",
        "plan base.toml --out base.toml/out",
        "plan base.toml --out /dev/full",
    ] {
        folder.cxlab(command).ends(1);
    }
}

/// Runs the command with files bounded to some blocks of 1 KiB, as on a disk that fills up.
fn bounded(folder: &Folder, blocks: u32, words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_cxlab");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec '{program}' {words}");
    let mut shell = Command::new("bash");
    finish(shell.args(["-c", &script]).current_dir(folder.path("")))
}

#[test]
fn a_disk_that_fills_up_is_an_error_and_leaves_no_file_of_a_final_name() {
    let folder = Folder::with_base("full");
    // Full from the beginning: the run does not begin.
    let run = format!("run base.toml {ENDLESS} --out before");
    bounded(&folder, 1, &run).ends(1);
    assert_eq!(folder.names("before"), [""; 0]);
    // Full at the write of the request log, of which 200,000 rows take more.
    let run = "run base.toml --set=measure.requests=200000 --out log --requests";
    let output = bounded(&folder, 100, run).ends(1);
    assert_eq!(output.says(&["requests.parquet"]).stdout, "");
    assert!(!folder.path("log").exists());
    // Full at the write of the report, of which 200 hosts make 200 KiB.
    let run = "run base.toml --set=hosts[0].count=200 --out report";
    bounded(&folder, 100, run).ends(1);
    assert!(!folder.path("report").exists());
    // A trace.
    let scattered = |row: u64| row.wrapping_mul(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let text: String = (0..50_000)
        .map(|row| format!("{:x} R\n", scattered(row)))
        .collect();
    folder.file("t.trace", text.as_bytes());
    bounded(&folder, 8, "trace import t.trace -o t.cxlt").ends(1);
    assert_eq!(folder.names(""), ["base.toml", "before", "t.trace"]);
}

#[test]
fn a_full_standard_output_is_an_error_and_a_closed_one_is_not() {
    let folder = Folder::new("standard-output");
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = finish(folder.command("list").stdout(full.unwrap()));
    output.ends(1).says(&["standard output"]);
    for words in ["list", "schema", "--help"] {
        let mut command = folder.command(words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        Output::of(words, &child.wait_with_output().unwrap()).done();
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
    let folder = Folder::with_base("subcommands");
    let said = |words: &str| folder.cxlab(words).done().stdout;
    assert!(said("check base.toml").ends_with("base.toml: ok\n"));
    assert_eq!(said("check base.toml --format=json"), "[]\n");
    let plan: Value = serde_json::from_str(&said("plan base.toml --format json")).unwrap();
    assert_eq!(plan["hosts"], serde_json::json!(["host0", "host1"]));
    assert_eq!(plan["switches"].as_array().unwrap().len(), 4);
    assert_eq!(plan["links"].as_array().unwrap().len(), 8);
    assert!(said("plan base.toml").contains("no cycle"));
    let dot = said("plan base.toml --format dot");
    let is_closed = dot.matches('{').count() == dot.matches('}').count();
    assert!(dot.contains("graph") && is_closed, "{dot}");
    well_formed(&said("plan base.toml --format svg"));
    let picture = folder.cxlab("plan base.toml --format terminal").done();
    picture.prints(&["[host0]", "(sw0)", "(sw3)"]);
    assert_eq!(said("plan base.toml --format svg --out plan.svg"), "");
    well_formed(&folder.text("plan.svg"));
    assert_eq!(said("plan base.toml --format dot --out /dev/stdout"), dot);
    let names = ["spine-leaf", "adaptive", "pointer-chase", "fixed", "lackey"];
    folder.cxlab("list").done().prints(&names);
    assert!(!said("list workloads").contains("spine-leaf"));
    let schema: Value = serde_json::from_str(&said("schema")).unwrap();
    assert!(schema["properties"]["fabric"].is_object());
}

#[test]
fn the_seed_the_plan_and_the_name_of_a_run_are_in_its_report() {
    let folder = Folder::with_base("identity");
    let run = |name: &str, more: &str| {
        let run = format!("run base.toml --out {name} -q {more}");
        folder.cxlab(&run).done();
        folder.json(&format!("{name}/report.json"))
    };
    let first = run("a", "");
    let again = run("b", "--set execution.threads=2");
    assert_eq!(without_wall(first.clone()), without_wall(again));
    let seeded = run("c", "--seed 8");
    assert_eq!(seeded["plan_hash"], first["plan_hash"]);
    assert_ne!(seeded["digest"], first["digest"]);
    let narrow = run("d", "--set fabric.link.lanes=8");
    assert_ne!(narrow["plan_hash"], first["plan_hash"]);
}

#[test]
fn the_analytic_mode_writes_its_report_and_says_what_it_cannot_do() {
    let folder = Folder::with_base("analytic");
    let output = folder.cxlab("run base.toml --mode analytic --out out");
    output.done().prints(&["(analytic)"]);
    assert_eq!(folder.names("out"), ["report.json", "topology.svg"]);
    let report = folder.json("out/report.json");
    assert_eq!(report["mode"], "analytic");
    assert!(report["bandwidth_gb_per_s"]["total"].as_f64().unwrap() > 0.0);
    assert!(report.get("digest").is_none());
    for (more, said) in [
        ("--requests", "--requests"),
        ("--set=hosts[0].core={}", "core"),
    ] {
        let run = format!("run base.toml --mode analytic {more} --out refused");
        folder.cxlab(&run).ends(2).says(&[said]);
        assert!(!folder.path("refused").exists(), "{more}");
    }
}

#[test]
fn a_host_of_another_program_is_planned_and_not_run() {
    let folder = Folder::new("another-program");
    let workload = "[hosts.workload]\nkind = \"uniform\"\nread_ratio = 0.5\n";
    let kind = "name = \"host\"\nkind = \"external\"\n";
    let outside = BASE
        .replace(workload, "")
        .replace("name = \"host\"\n", kind);
    folder.file("outside.toml", outside.as_bytes());
    folder.cxlab("check outside.toml").done();
    for mode in ["events", "analytic"] {
        let run = folder.cxlab(&format!("run outside.toml --mode {mode} --out {mode}"));
        let says = ["`hosts[0].kind`", "none is attached", "include/cxlab.h"];
        run.ends(2).says(&says);
    }
}
