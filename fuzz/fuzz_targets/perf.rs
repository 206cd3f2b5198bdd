//! perf.data files, whole and cut from records, through to what they would have cost; and rings of records.
#![no_main]

use std::io::Cursor;

use cxlab_attach::fabric::{Demand, Fabric, PoolResponse};
use cxlab_attach::model::Overlap;
use cxlab_attach::placement::Placement;
use cxlab_attach::profile::Profile;
use cxlab_attach::profile::cost::SampledMachine;
use cxlab_fuzz::Choices;
use cxlab_perf::encode::{self, Event};
use cxlab_perf::file::PerfData;
use cxlab_perf::{Attr, Format, flag, ring};
use libfuzzer_sys::fuzz_target;

struct Two;

impl Fabric for Two {
    fn pools(&self) -> Vec<String> {
        vec!["local".to_owned(), "far".to_owned()]
    }

    fn pool_of(&self, _offset: u64) -> usize {
        1
    }

    fn answer(&mut self, _demand: &[Demand], _under_way: f64) -> Vec<PoolResponse> {
        let answer = |latency_ns| PoolResponse {
            latency_ns,
            stretch: 1.0,
        };
        vec![answer(90.0), answer(290.0)]
    }
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    match choices.byte() % 3 {
        0 => price(choices.0),
        1 => {
            let events = events(&mut choices);
            price(&encode::file(&events, "machine", choices.0));
        }
        _ => {
            let attr = events(&mut choices)[0].attr;
            let (tail, more) = (u64::from(choices.word()), u64::from(choices.word()));
            let mut records = 0;
            let _ = ring::read(choices.0, (tail, tail + more), &attr, &mut |_| records += 1);
            assert!(records <= choices.0.len());
        }
    }
});

/// Events that are known, with fields as the input says.
fn events(choices: &mut Choices<'_>) -> Vec<Event> {
    let known = [
        (4, 0x20d1),
        (4, 0x1cd),
        (4, 0x0200_02a3),
        (0, 0),
        (1, 1),
        (1, 2),
    ];
    let count = 1 + usize::from(choices.byte() % 4);
    let event = |number: usize| {
        let (kind, config) = known[usize::from(choices.byte()) % known.len()];
        let fields = u64::from(choices.word()) | u64::from(choices.byte() & 1) << 24;
        let attr = Attr {
            kind,
            config,
            sample_period: 1 + u64::from(choices.byte()),
            sample_type: fields | Format::Identifier as u64,
            flags: flag::ID_ALL,
            ..Attr::default()
        };
        Event {
            attr,
            ids: vec![number as u64],
            name: format!("event {number}"),
        }
    };
    (0..count).map(event).collect()
}

fn price(bytes: &[u8]) {
    let Ok(mut file) = PerfData::open(Cursor::new(bytes)) else {
        return;
    };
    let Ok(profile) = Profile::read(&mut file, None) else {
        return;
    };
    let machine = SampledMachine {
        local_ns: 90.0,
        lookup_ns: None,
        overlap: Overlap::default(),
        cpu_ns: None,
    };
    for placement in [
        Placement::Cxl,
        Placement::LocalFirst(1 << 20),
        Placement::Interleave(1, 3),
    ] {
        let Ok(found) = profile.cost(&mut Two, placement, &machine) else {
            continue;
        };
        let slowdown = found.slowdown;
        assert!(slowdown.least <= slowdown.factor, "{slowdown:?}");
        assert!(slowdown.factor <= slowdown.most, "{slowdown:?}");
        assert!(
            slowdown.least >= 1.0 && slowdown.most.is_finite(),
            "{slowdown:?}"
        );
    }
}
