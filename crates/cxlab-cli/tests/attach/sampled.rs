//! Programs whose misses events tell, with page faults in the place of misses: how many there are, and where, is known
//! exactly, and CPU time is in the place of the time with misses outstanding.

use super::*;
use cxlab_perf::encode::{self, Event};
use cxlab_perf::{
    Attr, DataSource, Format, LoadOrigin, MemoryMapping, Mode, Record, Sample, Weight, flag,
};

/// A program touches 600 pages of a large mapping, and 200 of a small one. A thread touches 400 of a large one of its
/// own, and a child 300 further ones of its parent's. It rests in between, so that no ring is full. Then it computes.
const TOUCHES: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static char *map(unsigned long bytes) {
    char *start = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(start, bytes, MADV_NOHUGEPAGE);
    return start;
}
static void touch(char *start, int pages) {
    for (int page = 0; page < pages; page++) {
        start[4096l * page] = 1;
        if (page % 100 == 99) usleep(30000);
    }
}
static void *thread(void *nothing) {
    touch(map(64 << 20), 400);
    return nothing;
}
int main(void) {
    pthread_t other;
    char *large = map(64 << 20);
    touch(large, 600);
    touch(map(16 << 20), 200);
    pthread_create(&other, 0, thread, 0);
    pthread_join(other, 0);
    if (fork() == 0) {
        touch(large + (32 << 20), 300);
        _exit(0);
    }
    wait(0);
    volatile unsigned long sum = 0;
    for (long round = 0; round < 400000000; round++) sum += round;
    return 0;
}
"#;

const EVENTS: &str = "--events=page-faults,task-clock";

/// Runs that program with memory of twice the local latency. `None` where the system refuses.
fn touched(name: &str, placement: &str) -> Option<(Value, Output)> {
    let folder = Folder::new(name);
    let program = compiled(&folder, TOUCHES, &["-pthread"]);
    let mut command = attach(&folder, 200, &[EVENTS, placement, "--where", "--"]);
    let output = finish(command.arg(&program).stdin(Stdio::null()));
    if refused(&output) {
        return None;
    }
    if output.stderr.contains("--events: page-faults") {
        println!("skipped: this system refuses events: {}", output.stderr);
        return None;
    }
    Some((report(&folder), output.ends(0)))
}

/// Samples of all threads and processes, from their first instruction, are in the pools that their addresses are in.
#[test]
fn every_touch_of_threads_and_children_is_in_its_pool() {
    let Some((report, output)) = touched("attach-touches", "--placement=above:64MiB") else {
        return;
    };
    assert_eq!(number(&report, "/processes"), 2.0);
    assert_eq!(number(&report, "/threads"), 3.0);
    assert_eq!(number(&report, "/tier/number"), 1.0);
    assert_eq!(number(&report, "/profile/lost"), 0.0, "{report:#}");
    assert_eq!(number(&report, "/pools/1/misses"), 1300.0, "{report:#}");
    // What programs and libraries touch themselves is local.
    let local = number(&report, "/pools/0/misses");
    assert!((200.0..600.0).contains(&local), "{report:#}");
    let functions = report["where"]["functions"].as_array().unwrap();
    let mut all = functions.iter();
    let of_touch = all.find(|function| function["name"] == "touch");
    let misses = of_touch.and_then(|function| function["misses"].as_f64());
    assert_eq!(misses, Some(1500.0), "{functions:#?}");
    // Their delay is what was asked for.
    let delays = functions.iter().map(|one| number(one, "/delay_ns"));
    near(&report, "/delay/asked_ns", delays.sum(), 0.001);
    assert!(output.stderr.contains("tier 1, hardware address sampling"));
}

/// If misses of CXL memory are outstanding all the time, the program takes longer by what that memory adds.
#[test]
fn time_with_misses_outstanding_is_longer_by_the_part_that_latency_is() {
    let Some((report, _)) = touched("attach-outstanding", "--placement=cxl") else {
        return;
    };
    let cpu_s = number(&report, "/cpu_s");
    near(&report, "/outstanding_s", cpu_s, 0.05);
    let outstanding_s = number(&report, "/outstanding_s");
    let added = number(&report, "/pools/1/latency_ns") / 202.0 - 1.0;
    assert!(added > 0.5, "{report:#}");
    let asked_ns = added * outstanding_s * 1e9;
    near(&report, "/delay/asked_ns", asked_ns, 0.05);
    near(&report, "/slowdown/factor", 1.0 + added, 0.05);
    // A busy system ends a delay late, and the last one is not made up for. None ends early.
    let charged_ns = number(&report, "/delay/charged_ns");
    let asked_ns = number(&report, "/delay/asked_ns");
    assert!(charged_ns > 0.99 * asked_ns, "{report:#}");
    let error = number(&report, "/delay_error_percent");
    assert!(
        (error - 100.0 * (charged_ns / asked_ns - 1.0)).abs() < 1e-6,
        "{report:#}"
    );
}

/// Where an event counts lines, windows say what they cost, and as many are charged as were counted.
#[test]
fn as_many_misses_are_charged_as_an_event_counts() {
    const FRESH: &str = r#"
#include <sys/mman.h>
int main(void) {
    const unsigned long bytes = 16 << 20;
    char *start = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(start, bytes, MADV_NOHUGEPAGE);
    for (int round = 0; round < 200; round++) {
        for (unsigned long at = 0; at < bytes; at += 4096) start[at] = 1;
        madvise(start, bytes, MADV_DONTNEED);
    }
    return 0;
}
"#;
    let folder = Folder::new("attach-counted");
    let program = compiled(&folder, FRESH, &[]);
    let mut command = attach(&folder, 200, &["--events=page-faults", "--"]);
    let output = finish(command.arg(&program).stdin(Stdio::null()));
    if refused(&output) || output.stderr.contains("--events: page-faults") {
        println!("skipped: {}", output.stderr);
        return;
    }
    output.ends(0);
    let report = report(&folder);
    assert_eq!(number(&report, "/tier/number"), 2.0);
    near(&report, "/pools/1/misses", 200.0 * 4096.0, 0.01);
}

/// Writes what `perf record` would of loads in two mappings, a fourth of them in the second one.
fn profile(folder: &Folder) -> PathBuf {
    let event = |name: &str, kind, config, fields: &[Format]| Event {
        attr: Attr {
            kind,
            config,
            sample_period: 1000,
            sample_type: Format::bits(fields),
            flags: flag::ID_ALL,
            ..Attr::default()
        },
        ids: vec![u64::from(kind)],
        name: name.to_owned(),
    };
    let common = [Format::Identifier, Format::Ip, Format::Tid, Format::Time];
    let loads = [Format::Addr, Format::Weight, Format::DataSrc];
    let counts = [&common[..], &[Format::Period]].concat();
    let events = [
        event(
            "mem_load_retired.l3_miss:P",
            4,
            0x20d1,
            &[&common[..], &loads].concat(),
        ),
        event("task-clock", 1, 1, &counts),
        event("cycles", 0, 0, &counts),
        event("cpu_core/cycle_activity.cycles_l3_miss/", 9, 7, &counts),
    ];
    let mut records = Vec::new();
    let mut time = 0;
    let mut push = |event: usize, record: &Record<'_>| {
        records.extend(encode::record(&events[event].attr, record, time));
        time += 500_000;
        time
    };
    let sample = |event: usize, time: u64| Sample {
        id: Some(u64::from(events[event].attr.kind)),
        mode: Mode::User,
        ip: 0x40_1000,
        pid: 7,
        tid: 7,
        time: Some(time),
        ..Sample::default()
    };
    const MAPPINGS: [u64; 2] = [0x7000_0000_0000, 0x7100_0000_0000];
    let mut now = 0;
    for start in MAPPINGS {
        let mapped = MemoryMapping {
            pid: 7,
            start,
            bytes: 64 << 20,
            offset: 0,
            executable: false,
            name: "//anon".to_owned(),
        };
        now = push(0, &Record::Mapped(mapped));
    }
    let memory = DataSource::load(LoadOrigin::Memory {
        remote: false,
        cxl: false,
    });
    for number in 0..4000 {
        let load = Sample {
            address: Some(MAPPINGS[usize::from(number % 4 == 0)] + 64 * number),
            weight: Some(Weight {
                cycles: 300,
                retire_cycles: 0,
            }),
            source: Some(memory),
            ..sample(0, now)
        };
        now = push(0, &Record::Sample(load));
        // 2 ms of CPU time at 2 GHz, with misses outstanding for half of it.
        for (event, period) in [(1, 2_000_000), (2, 4_000_000), (3, 2_000_000)] {
            let count = Sample {
                period: Some(period),
                ..sample(event, now)
            };
            now = push(event, &Record::Sample(count));
        }
    }
    folder.file("perf.data", &encode::file(&events, "elsewhere", &records))
}

/// A profile of another machine: 8 s of CPU time, 4 s of it with misses outstanding, a fourth of them in memory that is
/// twice as slow.
#[test]
fn a_profile_of_perf_is_priced() {
    let folder = Folder::new("attach-profile");
    let path = profile(&folder);
    let path = path.to_str().unwrap();
    let priced = |more: &str| {
        let words = ["--placement=local-first:64MiB", "--perf", path, more];
        let output = finish(&mut attach(&folder, 200, &words)).ends(0);
        (report(&folder), output)
    };
    let (report, output) = priced("--where");
    let added = number(&report, "/pools/1/latency_ns") / 202.0 - 1.0;
    for (pointer, expected) in [
        ("/slowdown/native_s", 8.0),
        ("/outstanding_s", 4.0),
        ("/pools/1/misses", 1_000_000.0),
        ("/slowdown/factor", 1.0 + added / 8.0),
    ] {
        near(&report, pointer, expected, 1e-6);
    }
    output.says(&["(perf): slowdown"]);
    // Its memory elsewhere.
    let (advised, output) = priced("--advise");
    let cases = advised["advice"]["cases"].as_array().unwrap();
    let of = |change: &str| {
        let case = cases.iter().find(|case| case["change"] == change);
        number(
            case.unwrap_or_else(|| panic!("{change}: {cases:#?}")),
            "/slowdown",
        )
    };
    assert_eq!(of("as it was"), number(&report, "/slowdown/factor"));
    // All waits are for CXL memory, and none if its mapping is local.
    let far = of("--placement cxl") / (1.0 + added / 2.0);
    assert!((far - 1.0).abs() < 0.01, "{cases:#?}");
    assert_eq!(of("local: 64 MiB memory without a file"), 1.0, "{cases:#?}");
    output.says(&["what if, by the samples"]);
    // The same without the latency of the machine that it is of.
    let scenario = folder.path("one.toml");
    let refused = cxlab(&[&"attach", &scenario, &"--perf", &path]);
    refused.ends(2).says(&["--local-latency"]);
    // Nothing of another process is in it.
    let words = ["--perf", path, "--pid", "8"];
    finish(&mut attach(&folder, 200, &words)).says(&["of process 8"]);
}
