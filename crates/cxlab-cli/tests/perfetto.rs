//! Traces of runs for Perfetto, in both formats.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use common::{Folder, cxlab};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

const BASE: &str = include_str!("common/base.toml");

fn run(scenario: &Path, out: &Path, arguments: &[&dyn AsRef<OsStr>]) -> String {
    let mut all: Vec<&dyn AsRef<OsStr>> = vec![&"run", &scenario, &"--out", &out];
    all.extend(arguments);
    let output = cxlab(&all);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stderr
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

fn number(event: &Value, key: &str) -> u64 {
    event["args"][key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {event}"))
}

/// Events of a category, by request.
fn by_request<'e>(events: &'e [Value], category: &str) -> BTreeMap<u64, Vec<&'e Value>> {
    let mut found: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["cat"] == category) {
        found
            .entry(number(event, "request"))
            .or_default()
            .push(event);
    }
    found
}

/// Rows of a request log by requester and number: issue and completion.
fn log(path: PathBuf) -> BTreeMap<(i64, i64), (i64, i64)> {
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let columns = row
            .get_column_iter()
            .filter_map(|(name, field)| match field {
                Field::Int(value) => Some((name.clone(), i64::from(*value))),
                Field::Long(value) => Some((name.clone(), *value)),
                Field::ULong(value) => Some((name.clone(), *value as i64)),
                _ => None,
            });
        let columns: BTreeMap<String, i64> = columns.collect();
        let of = |name: &str| columns[name];
        (
            (of("host"), of("id")),
            (of("issued_ps"), of("completed_ps")),
        )
    });
    rows.collect()
}

#[test]
fn the_stages_of_every_request_of_the_window_sum_to_its_latency() {
    let folder = Folder::new("perfetto-sum");
    let base = folder.file("base.toml", BASE.as_bytes());
    let (out, trace) = (folder.path("out"), folder.path("t.json"));
    let window = "--perfetto-window=5us..6us";
    let told = run(
        &base,
        &out,
        &[&"--requests", &"--perfetto", &trace, &window],
    );
    let events = events(&trace);
    let (requests, stages) = (by_request(&events, "request"), by_request(&events, "stage"));
    let log = log(out.join("requests.parquet"));
    let inside = log
        .values()
        .filter(|(from, to)| *from >= 5_000_000 && *to <= 6_000_000);
    assert!(requests.len() > 20);
    assert_eq!(requests.len(), inside.count(), "{told}");
    for (request, whole) in &requests {
        let [whole] = whole[..] else {
            panic!("two slices of {request}")
        };
        let parts = &stages[request];
        let sum: u64 = parts.iter().map(|part| number(part, "duration_ps")).sum();
        assert_eq!(sum, number(whole, "duration_ps"), "{whole}");
        // The stages follow each other without a gap.
        let mut at = number(whole, "begin_ps");
        for part in parts {
            assert_eq!(number(part, "begin_ps"), at, "{part}");
            at += number(part, "duration_ps");
        }
        assert_eq!(whole["args"]["placed_by"], "messages", "{whole}");
    }
}

#[test]
fn places_of_requests_are_on_the_tracks_of_links_and_devices() {
    let folder = Folder::new("perfetto-places");
    let base = folder.file("base.toml", BASE.as_bytes());
    let trace = folder.path("t.json");
    run(
        &base,
        &folder.path("out"),
        &[&"--perfetto", &trace, &"--perfetto-requests=50"],
    );
    let events = events(&trace);
    assert_eq!(by_request(&events, "request").len(), 50);
    let names = |what: &str| -> Vec<String> {
        let named = events.iter().filter(|event| event["name"] == what);
        named
            .map(|event| event["args"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let processes = names("process_name");
    for expected in ["host host0", "device mem1", "link host0->sw0", "switch sw0"] {
        assert!(
            processes.iter().any(|name| name == expected),
            "{expected}: {processes:?}"
        );
    }
    for (request, places) in by_request(&events, "place") {
        let flow = events
            .iter()
            .filter(|event| event["cat"] == "flow" && event["id"] == request);
        assert_eq!(flow.count(), places.len() + 1, "request {request}");
        // There and back over two links at least, and through a device.
        assert!(places.len() >= 5, "{places:?}");
    }
    // No two slices of one track overlap, except for stages inside of their request.
    let mut tracks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events
        .iter()
        .filter(|event| event["cat"] == "place" || event["cat"] == "request")
    {
        let slices = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        slices.push((number(event, "begin_ps"), number(event, "duration_ps")));
    }
    for slices in tracks.values_mut() {
        slices.sort();
        assert!(
            slices
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0),
            "{slices:?}"
        );
    }
}

#[test]
fn a_trace_has_the_same_bytes_on_any_number_of_threads_and_does_not_change_the_run() {
    let folder = Folder::new("perfetto-threads");
    let base = folder.file(
        "base.toml",
        BASE.replace("requests = 500", "requests = 5_000")
            .as_bytes(),
    );
    let digest = |out: &Path| {
        let text = std::fs::read_to_string(out.join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        report["digest"].clone()
    };
    let plain = folder.path("plain");
    run(&base, &plain, &[]);
    let mut traces = Vec::new();
    for threads in ["1", "2", "4"] {
        let (out, trace) = (
            folder.path(threads),
            folder.path(&format!("{threads}.pftrace")),
        );
        let arguments: [&dyn AsRef<OsStr>; 5] =
            [&"--threads", &threads, &"--exactly", &"--perfetto", &trace];
        run(&base, &out, &arguments);
        assert_eq!(digest(&out), digest(&plain));
        traces.push(std::fs::read(trace).unwrap());
    }
    assert!(traces[0].len() > 100_000);
    assert!(traces.iter().all(|trace| *trace == traces[0]));
}

#[test]
fn what_is_left_out_is_said() {
    let folder = Folder::new("perfetto-left-out");
    let base = folder.file("base.toml", BASE.as_bytes());
    let (out, trace) = (folder.path("out"), folder.path("t.pftrace"));
    let told = run(
        &base,
        &out,
        &[&"--perfetto", &trace, &"--perfetto-requests=10"],
    );
    assert!(
        told.contains("10 requests from ") && told.contains("left out: "),
        "{told}"
    );
    let told = run(
        &base,
        &out,
        &[&"--perfetto", &trace, &"--perfetto-window=1s..2s"],
    );
    assert!(
        told.contains("no requests: the run ended before the window"),
        "{told}"
    );
}
