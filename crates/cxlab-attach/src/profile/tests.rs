use std::io::Cursor;

use cxlab_perf::encode::{self, Event};
use cxlab_perf::{Attr, DataSource, MemoryMapping, Record, Weight, flag};

use super::cost::{OutstandingMethod, ProfileCost, SampledMachine};
use super::*;
use crate::fabric::tests::two;
use crate::model::Overlap;
use crate::placement::Placement;

const MIB: u64 = 1 << 20;
/// The process, and two mappings of its memory.
const PID: i32 = 5;
const NEAR: u64 = 0x7000_0000_0000;
const FAR: u64 = 0x7000_0010_0000;
/// Events after which there is a sample.
const PERIOD: u64 = 1000;

/// Numbers of events in a file.
const LOADS: usize = 0;
const OUTSTANDING: usize = 1;
const CLOCK: usize = 2;
const CYCLES: usize = 3;
const STALLS: usize = 4;

fn event(number: usize, name: &str, (kind, config): (u32, u64), more: &[Format]) -> Event {
    let common = [Format::Identifier, Format::Ip, Format::Tid, Format::Time];
    Event {
        attr: Attr {
            kind,
            config,
            sample_period: PERIOD,
            sample_type: Format::bits(&common) | Format::bits(more),
            flags: flag::ID_ALL | flag::MAP_DATA,
            ..Attr::default()
        },
        ids: vec![number as u64],
        name: name.to_owned(),
    }
}

fn events() -> Vec<Event> {
    let loads = [Format::Addr, Format::WeightStruct, Format::DataSrc];
    vec![
        event(LOADS, "ibs_op//", (11, 0), &loads),
        event(
            OUTSTANDING,
            "cpu/cycle_activity.cycles_l3_miss/",
            (4, 0x0200_02a3),
            &[Format::Period],
        ),
        event(CLOCK, "task-clock", (1, 1), &[Format::Period]),
        event(CYCLES, "cycles", (0, 0), &[Format::Period]),
        event(
            STALLS,
            "memory_activity.stalls_l3_miss",
            (4, 0x0900_0947),
            &[Format::Period],
        ),
    ]
}

/// A file that is being written.
struct Perf {
    events: Vec<Event>,
    records: Vec<u8>,
    time: u64,
}

impl Perf {
    /// Two mappings of a MiB, and a program of a page.
    fn new() -> Perf {
        let mut perf = Perf {
            events: events(),
            records: Vec::new(),
            time: 1000,
        };
        perf.map(0x40_0000, 0x1000, "/usr/bin/program");
        perf.map(NEAR, MIB, "//anon");
        perf.map(FAR, MIB, "//anon");
        perf
    }

    fn push(&mut self, event: usize, record: &Record<'_>) {
        let attr = &self.events[event].attr;
        self.records.extend(encode::record(attr, record, self.time));
        self.time += 1;
    }

    fn map(&mut self, start: u64, bytes: u64, name: &str) {
        let mapped = MemoryMapping {
            pid: PID,
            start,
            bytes,
            offset: 0,
            executable: name.starts_with("/usr"),
            name: name.to_owned(),
        };
        self.push(LOADS, &Record::Mapped(mapped));
    }

    fn sample(&self, event: usize) -> Sample<'static> {
        Sample {
            id: Some(event as u64),
            mode: Mode::User,
            ip: 0x40_0100,
            pid: PID,
            tid: PID,
            time: Some(self.time),
            ..Sample::default()
        }
    }

    /// A load that took so many cycles.
    fn load(&mut self, address: u64, found: LoadOrigin, cycles: u32, retire_cycles: u16) {
        let sample = Sample {
            address: Some(address),
            weight: Some(Weight {
                cycles,
                retire_cycles,
            }),
            source: Some(DataSource::load(found)),
            ..self.sample(LOADS)
        };
        self.push(LOADS, &Record::Sample(sample));
    }

    /// A sample that stands for so many events.
    fn count(&mut self, event: usize, period: u64) {
        let sample = Sample {
            period: Some(period),
            ..self.sample(event)
        };
        self.push(event, &Record::Sample(sample));
    }

    fn read(&self) -> Result<Profile, ProfileError> {
        let bytes = encode::file(&self.events, "elsewhere", &self.records);
        Profile::read(&mut PerfData::open(Cursor::new(bytes)).unwrap(), None)
    }

    fn cost(&self) -> Result<ProfileCost, ProfileError> {
        let machine = SampledMachine {
            local_ns: 100.0,
            lookup_ns: None,
            overlap: Overlap {
                misses: 4.0,
                ..Overlap::default()
            },
            cpu_ns: None,
        };
        self.read()?.cost(&mut two(), Placement::Cxl, &machine)
    }
}

const MEMORY: LoadOrigin = LoadOrigin::Memory {
    remote: false,
    cxl: false,
};

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}

/// 100 ns local, 200 ns near, 500 ns far; a second of CPU time at 2 GHz, half of which has misses outstanding. A fourth of them is
/// for the far MiB.
fn half_waits() -> Perf {
    let mut perf = Perf::new();
    for _ in 0..30 {
        perf.load(NEAR + 64, MEMORY, 200, 0);
    }
    for _ in 0..10 {
        perf.load(FAR + 64, MEMORY, 200, 0);
    }
    perf.load(NEAR, LoadOrigin::Cache(1), 4, 0);
    perf.count(CLOCK, 1_000_000_000);
    perf.count(CYCLES, 2_000_000_000);
    for _ in 0..1_000 {
        perf.count(OUTSTANDING, 1_000_000);
    }
    perf
}

#[test]
fn waits_are_longer_by_the_part_that_latency_is() {
    let found = half_waits().cost().unwrap();
    assert_eq!(found.how, OutstandingMethod::Counted);
    near(found.outstanding_s, 0.5);
    // 3/8 s wait for 200 instead of 100 ns, and 1/8 s for 500.
    near(found.slowdown.factor, 1.0 + 0.375 + 0.5);
    near(found.slowdown.with_cxl_s, 1.875);
    let misses: Vec<f64> = found.pools.iter().map(|pool| pool.misses).collect();
    assert_eq!(misses, [0.0, 30_000.0, 10_000.0]);
    near(found.pools[2].waits, 0.125e9 / 100.0);
    // Forty loads and a thousand samples of that time.
    let open = 2.0 * (1.0_f64 / 40.0 + 1.0 / 1000.0).sqrt();
    near(found.slowdown.least, 1.0 + 0.875 * (1.0 - open));
    near(found.slowdown.most, 1.0 + 0.875 * (1.0 + open));
    assert_eq!(found.without_mapping, 0.0);
}

/// Processors count a miss from when the last level cache is known not to have the line: hits say how long that takes.
#[test]
fn a_lookup_is_not_counted_as_outstanding() {
    let mut perf = half_waits();
    for _ in 0..5 {
        perf.load(NEAR, LoadOrigin::Cache(3), 40, 0);
    }
    // 40 cycles of 0.5 ns, so that each miss is outstanding for 80 ns.
    let found = perf.cost().unwrap();
    near(found.slowdown.factor, 1.0 + 0.875 * 100.0 / 80.0);
    near(found.pools[2].waits, 0.125e9 / 80.0);
}

/// A load that takes longer counts for more of the time.
#[test]
fn loads_count_by_their_own_latency() {
    let mut perf = half_waits();
    for _ in 0..10 {
        perf.load(FAR, LoadOrigin::InFlight, 400, 0);
    }
    let found = perf.cost().unwrap();
    // 6000 of 12000 cycles are of the far MiB, and loads that merged with a fill are no misses.
    near(found.slowdown.factor, 1.0 + 0.25 + 0.25 * 4.0);
    near(found.pools[2].misses, 10_000.0);
}

/// Time in which a program stands still is a part of that in which misses are outstanding.
#[test]
fn stalls_and_late_retirement_are_the_least() {
    let perf = |retire_cycles, stalls| {
        let mut perf = Perf::new();
        for _ in 0..100 {
            perf.load(NEAR, MEMORY, 0, retire_cycles);
        }
        perf.count(CLOCK, 100_000_000);
        perf.count(CYCLES, 2_000_000_000);
        if stalls > 0 {
            perf.count(STALLS, stalls);
        }
        let found = perf.cost().unwrap();
        assert_eq!(found.how, OutstandingMethod::Between);
        found.outstanding_s
    };
    // A hundred thousand misses of 100 ns: 10 ms alone, and 2.5 ms four at a time.
    near(perf(0, 0), 0.005);
    // 5 ms at 20 GHz.
    near(perf(0, 100_000_000), (0.005_f64 * 0.01).sqrt());
    near(perf(1_000, 0), (0.005_f64 * 0.01).sqrt());
}

/// Where nothing says how many misses wait at once, the interval has all that is possible.
#[test]
fn without_that_time_the_interval_is_from_all_at_once_to_one_by_one() {
    let mut perf = Perf::new();
    for _ in 0..400 {
        perf.load(NEAR, MEMORY, 0, 0);
    }
    perf.count(CLOCK, 100_000_000);
    let found = perf.cost().unwrap();
    assert_eq!(found.how, OutstandingMethod::Between);
    // 400,000 misses of 100 ns: 40 ms alone, and 10 ms four at a time. Each waits for 100 ns more.
    near(found.slowdown.least, 1.0 + 0.1 * 0.9);
    near(found.slowdown.most, 1.0 + 0.4 * 1.1);
    near(found.slowdown.factor, 1.2);
}

#[test]
fn what_lacks_something_is_refused() {
    let refused = |perf: &Perf, part: &str| {
        let why = perf.cost().map(drop).unwrap_err().to_string();
        assert!(why.contains(part), "{why}");
    };
    // No CPU time.
    let mut perf = Perf::new();
    perf.load(NEAR, MEMORY, 0, 0);
    refused(&perf, "--cpu-time");
    // No cycles, so that nothing says how long one is.
    perf.count(CLOCK, 100);
    perf.count(OUTSTANDING, 1000);
    refused(&perf, "how long a cycle is");
    // More waiting than time.
    perf.count(CYCLES, 10);
    refused(&perf, "more than its CPU time");
    // No load that says where the misses are, and none at all.
    let mut perf = Perf::new();
    perf.count(CLOCK, 1_000_000);
    perf.count(CYCLES, 1_000_000);
    perf.count(OUTSTANDING, 500_000);
    refused(&perf, "found no sample of ibs_op//");
    perf.load(NEAR, LoadOrigin::Cache(1), 4, 0);
    refused(&perf, "no load was sampled that says where they are");
    // No addresses.
    let mut without = half_waits();
    without.events.remove(LOADS);
    without.records.clear();
    refused(&without, "perf mem record");
    // Nothing says where loads found their data.
    let mut perf = half_waits();
    perf.events[LOADS].attr.sample_type &= !(Format::DataSrc as u64);
    perf.events[LOADS].name = "mem-loads".to_owned();
    perf.records.clear();
    refused(&perf, "record with -d");
    // A frequency without the number of events.
    let mut perf = half_waits();
    perf.events[LOADS].attr.flags |= flag::FREQUENCY;
    refused(&perf, "-c 10007");
}

#[test]
fn delay_is_told_by_place_and_memory_and_adds_up() {
    let found = half_waits().cost().unwrap();
    assert_eq!(found.recording.images, ["/usr/bin/program"]);
    let delay = |used: &BTreeMap<u32, crate::located::MissCost>| -> f64 {
        used.values().map(|used| used.delay_ns).sum()
    };
    let phases = &found.located;
    near(
        phases.iter().map(|phase| delay(&phase.instructions)).sum(),
        0.875e9,
    );
    near(
        phases.iter().map(|phase| delay(&phase.objects)).sum(),
        0.875e9,
    );
}

/// Numbers and names of real events.
#[test]
fn events_are_known_by_number_or_name() {
    let with = |name: &str, kind, config| {
        let loads = [Format::Addr, Format::DataSrc];
        role(&event(0, name, (kind, config), &loads))
    };
    assert_eq!(with("cpu/mem-loads,ldlat=30/P", 4, 0x1cd), SOME_LOADS);
    assert_eq!(with("cpu_core/mem-loads,ldlat=30/P", 9, 0x1cd), SOME_LOADS);
    assert_eq!(with("cpu/mem-loads-aux/", 4, 0x8203), LOADS_OF_ANY);
    assert_eq!(with("mem_load_retired.l3_miss:pp", 4, 0x20d1), MISSES);
    assert_eq!(with("ibs_op//", 11, 0), LOADS_OF_ANY);
    assert_eq!(with("page-faults:u", 1, 2), MISSES);
    assert_eq!(with("task-clock:u", 1, 1), Role::Clock);
    assert_eq!(with("LLC-load-misses", 3, 0x10002), Role::Lines);
    assert_eq!(with("cpu_core/cycles/", 0, 0x4_0000_0000), Role::Cycles);
    assert_eq!(with("dummy:HG", 1, 9), Role::Unused);
    for (name, config, is) in [
        ("cycle_activity.stalls_l3_miss", 0x0600_06a3, Role::Stalls),
        (
            "cycle_activity.cycles_l3_miss",
            0x0200_02a3,
            Role::Outstanding,
        ),
        ("memory_activity.stalls_l3_miss", 0x0900_0947, Role::Stalls),
        ("mem-loads", 0x1cd, Role::Unused),
    ] {
        assert_eq!(role(&event(0, name, (4, config), &[])), is, "{name}");
    }
}

const LOADS_OF_ANY: Role = super::LOADS;
