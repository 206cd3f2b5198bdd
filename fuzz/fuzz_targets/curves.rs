//! Files with bandwidth-latency curves. The first byte selects the reader. Curves that are accepted must
//! make a medium that serves requests in order, and no faster than their peak.
#![no_main]

use cxlab_engine::units::{Bytes, Dpa, SimTime};
use cxlab_fuzz::{Choices, folder};
use cxlab_memory::curves::read::{MAX_MB_PER_S, MAX_NS, csv, mess, mlc};
use cxlab_memory::curves::{CurveFamily, CurveSource};
use cxlab_memory::{CATALOG, MediumSite, MemoryRequest};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let kind = choices.byte() % 4;
    let content = choices.0;
    let points = match kind {
        0 => csv::read(content),
        1 => mess::read(content, 50.0, 1.0),
        2 => mlc::read(content, None),
        _ => mlc::read(content, Some(75.0)),
    };
    let points = match points {
        Ok(points) => points,
        Err(error) => return assert!(error.line > 0 && !error.message.is_empty()),
    };
    for point in &points {
        assert!((0.0..=100.0).contains(&point.read_percent));
        assert!(point.mb_per_s > 0.0 && point.mb_per_s <= MAX_MB_PER_S);
        assert!(point.latency_ns > 0.0 && point.latency_ns <= MAX_NS);
    }
    let name = "file".to_owned();
    let family = match CurveFamily::new(&[CurveSource { name, points }], 0.05) {
        Ok(family) => family,
        Err(error) => return assert!(error.line > 0 && !error.message.is_empty()),
    };
    for curve in family.curves() {
        let points = &curve.points;
        assert!(points.len() > 1);
        assert!(
            points.is_sorted_by(|a, b| a.mb_per_s < b.mb_per_s && a.latency_ns <= b.latency_ns)
        );
    }
    if kind == 0 {
        serve(content, &family);
    }
});

/// Serves a burst through the catalog's medium.
fn serve(content: &[u8], family: &CurveFamily) {
    std::fs::write(folder().join("curves.csv"), content).expect("a temporary file");
    let params = json!({ "file": "curves.csv", "measured_at": "device" });
    let entry = CATALOG
        .iter()
        .find(|entry| entry.name == "curves")
        .expect("it is in the catalog");
    let mut medium = (entry.build)(&params).expect("these parameters are allowed");
    if let Err(error) = medium.load(&folder()) {
        return assert!(error.to_string().contains("Little's law"), "{error}");
    }
    let mut memory = medium.backend(MediumSite::alone(Bytes(1 << 30), 1));
    let peaks = family.curves().iter().map(|curve| curve.peak().mb_per_s);
    let line_ps = 64e6 / peaks.fold(0.0, f64::max);
    let (mut now, mut last) = (SimTime(0), None);
    for id in 0..200 {
        let write = id % 3 == 0;
        while !memory.can_accept(now, write) {
            now = memory.next_event().expect("it is full");
        }
        let request = MemoryRequest {
            id,
            dpa: Dpa(0),
            lines: 1,
            write,
        };
        let done = memory.enqueue(now, request).expect("it is known at once");
        assert!(done >= now);
        if let Some(SimTime(last)) = last {
            assert!((done.0 - last) as f64 >= line_ps - 1.0);
        }
        last = Some(done);
    }
}
