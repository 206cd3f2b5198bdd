//! What the lab's worker calls, without a browser.
#![allow(clippy::unwrap_used)]

use std::cell::Cell;

use cxlab_engine::Monitor;
use cxlab_web::lab::{Settings, check, draw, progress, simulate};
use serde_json::Value;

const SMALL: &str = "name = \"small\"\nmeasure = { requests = 3000 }\n\
    fabric = { topology = { kind = \"ring\", switches = 3 } }\n\
    hosts = [{ name = \"host\", workload = { kind = \"uniform\" } }]\ndevices = [{ name = \"mem\" }]\n";

fn checked(text: &str) -> Value {
    serde_json::from_str(&check(text)).unwrap()
}

fn run(settings: &str) -> Value {
    let settings = Settings::read(settings).unwrap();
    let text = simulate(SMALL, &settings, &Monitor::default(), |_| ()).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn mistakes_have_their_place_and_a_good_scenario_has_none() {
    let found = checked(&SMALL.replace("switches", "switchs"));
    assert_eq!(found["mistakes"][0]["line"], 3);
    assert_eq!(found["mistakes"].as_array().unwrap().len(), 1);
    assert_eq!(checked(SMALL)["mistakes"].as_array().unwrap().len(), 0);
    assert!(draw(SMALL, None).unwrap().starts_with("<svg"));
    let failed = draw(SMALL, Some("{}")).unwrap_err();
    assert!(failed.0.contains("the report cannot be read"));
}

#[test]
fn the_slowest_requests_are_of_the_window_and_their_stages_sum_to_their_latency() {
    let found = run("{}");
    let slowest = found["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 100);
    let latency = |one: &Value| one["latency_ps"].as_u64().unwrap();
    assert!(slowest.is_sorted_by(|a, b| latency(a) >= latency(b)));
    let largest = found["report"]["latency_ns"]["max"].as_f64().unwrap();
    assert_eq!(latency(&slowest[0]) as f64 / 1e3, largest);
    for one in slowest {
        let stages = one["stages_ps"].as_object().unwrap();
        let sum: u64 = stages.values().map(|time| time.as_u64().unwrap()).sum();
        assert_eq!(sum, latency(one));
    }
}

#[test]
fn settings_change_a_run_and_unknown_ones_are_refused() {
    let digest = |settings: &str| run(settings)["report"]["digest"].clone();
    assert_eq!(digest("{}"), digest("{}"));
    assert_ne!(digest("{}"), digest("{\"seed\": 9}"));
    let two = "{\"set\": [\"hosts[0].issue.outstanding=2\"]}";
    assert_ne!(digest("{}"), digest(two));
    assert!(Settings::read("{\"sed\": 9}").unwrap_err().contains("sed"));
}

#[test]
fn a_run_shows_how_far_it_is_and_ends_when_it_is_asked_to() {
    thread_local! {
        static SHOWN: Cell<u32> = const { Cell::new(0) };
    }
    let monitor = Monitor::watched(|monitor| {
        SHOWN.set(SHOWN.get() + 1);
        let found: Value = serde_json::from_str(&progress(monitor, Some(50_000_000))).unwrap();
        assert!(found["fraction"].as_f64().unwrap() < 1.0);
        if SHOWN.get() == 50 {
            monitor.interrupt();
        }
    });
    let long = SMALL.replace("3000", "50_000_000");
    let text = simulate(&long, &Settings::default(), &monitor, |all| {
        assert!(all.is_some())
    });
    let found: Value = serde_json::from_str(&text.unwrap()).unwrap();
    assert_eq!(found["report"]["partial"], true);
    assert!(SHOWN.get() >= 50);
}
