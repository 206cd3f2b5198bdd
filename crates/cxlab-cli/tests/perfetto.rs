//! Traces of runs for Perfetto, in both formats.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::Folder;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

/// Runs the base scenario, and returns what it says.
fn run(folder: &Folder, more: &str) -> String {
    let run = folder.cxlab(&format!("run base.toml {more}"));
    run.ends(0).stderr
}

fn events(folder: &Folder) -> Vec<Value> {
    let trace = folder.json("t.json");
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
    let folder = Folder::with_base("perfetto-sum");
    let window = "--perfetto t.json --perfetto-window=5us..6us";
    let told = run(&folder, &format!("--out out --requests {window}"));
    let events = events(&folder);
    let (requests, stages) = (by_request(&events, "request"), by_request(&events, "stage"));
    let log = log(folder.path("out/requests.parquet"));
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
    let folder = Folder::with_base("perfetto-places");
    run(
        &folder,
        "--out out --perfetto t.json --perfetto-requests=50",
    );
    let events = events(&folder);
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
        let mut pairs = slices.windows(2);
        let is_apart = pairs.all(|pair| pair[0].0 + pair[0].1 <= pair[1].0);
        assert!(is_apart, "{slices:?}");
    }
}

#[test]
fn a_trace_has_the_same_bytes_on_any_number_of_threads_and_does_not_change_the_run() {
    let folder = Folder::with_base("perfetto-threads");
    let digest = |more: &str| {
        run(
            &folder,
            &format!("--set=measure.requests=5000 --out out {more}"),
        );
        folder.json("out/report.json")["digest"].clone()
    };
    let plain = digest("");
    let traces = [1, 2, 4].map(|threads| {
        let trace = format!("{threads}.pftrace");
        let found = digest(&format!("--threads {threads} --exactly --perfetto {trace}"));
        assert_eq!(found, plain, "{threads} threads");
        std::fs::read(folder.path(&trace)).unwrap()
    });
    assert!(traces[0].len() > 100_000);
    assert!(traces.iter().all(|trace| *trace == traces[0]));
}

#[test]
fn what_is_left_out_is_said() {
    let folder = Folder::with_base("perfetto-left-out");
    for (limit, says) in [
        ("requests=10", &["10 requests from ", "left out: "][..]),
        (
            "window=1s..2s",
            &["no requests: the run ended before the window"],
        ),
    ] {
        let run = format!("run base.toml --out out --perfetto t.pftrace --perfetto-{limit}");
        folder.cxlab(&run).ends(0).says(says);
    }
}
