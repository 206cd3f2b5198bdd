//! Poison: from unreadable lines of the media, through caches, to
//! the loads (CXL 3.1, section 12.2.3).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use cxlab_host::{Failure, RequestRow};
use cxlab_system::report::Report;
use cxlab_tests::script::{self, Script};
use cxlab_tests::{plan, problems, report, rows, try_run};
use cxlab_workload::thread::{Bases, Direction, ExecutionPlace, Handle, SCRATCH_BASE, Thread};

/// A host that reads 4,096 lines one after the other, 4 times.
const READS: &str = r#"
name = "reads"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "h"
requests = 16_384
workload = { kind = "stream", read_ratio = 1.0, footprint = "256 KiB" }
[[devices]]
name = "d"
capacity = "256 MiB"
"#;

fn poisoned(rows: &[RequestRow]) -> Vec<u64> {
    let poisoned = |row: &&RequestRow| row.failure == Some(Failure::Poisoned);
    rows.iter().filter(poisoned).map(|row| row.hpa).collect()
}

#[test]
fn a_line_that_cannot_be_read_is_poison_each_time_and_no_other_is() {
    let errors = "devices[0].media_errors={ poison = [0x40, 0x1000] }";
    let (report, found) = rows(&plan(READS, &[errors]), 1);
    let lines = poisoned(&found);
    assert_eq!(lines.len(), 8, "two lines, four times");
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 2);
    let failed = report.requests.failed.unwrap();
    assert_eq!((failed.poisoned_reads, failed.total()), (8, 8));
    let device = report.devices[0].media_errors.unwrap();
    assert_eq!((device.poisoned_reads, device.repaired), (8, 0));
    assert_eq!(report.requests.completed, 16_384);
    let served = report.requests.completed - 8;
    let gb_per_s = served as f64 * 64.0 / report.extent.window_ns;
    assert!((report.bandwidth_gb_per_s.read - gb_per_s).abs() < 1e-9 * gb_per_s);
    assert!(report.failures.is_none(), "no component has failed");
}

#[test]
fn errors_by_rate_are_as_many_as_that_and_lie_where_they_lie() {
    let errors = "devices[0].media_errors={ rate = 0.01 }";
    let (first, found) = rows(&plan(READS, &[errors]), 1);
    let lines: BTreeSet<u64> = poisoned(&found).into_iter().collect();
    // Of 4,096 draws 41 are expected, within four standard deviations of 6.4.
    assert!((15..=67).contains(&lines.len()), "{}", lines.len());
    assert_eq!(poisoned(&found).len(), 4 * lines.len());
    let (second, found) = rows(&plan(READS, &[errors]), 2);
    assert_eq!(second.provenance.digest, first.provenance.digest);
    assert_eq!(poisoned(&found).into_iter().collect::<BTreeSet<_>>(), lines);
    // The set of poisoned lines does not depend on time.
    let slower = "devices[0].controller.process_time=\"90 ns\"";
    let (_, found) = rows(&plan(READS, &[errors, slower]), 1);
    assert_eq!(poisoned(&found).into_iter().collect::<BTreeSet<_>>(), lines);
    let (_, found) = rows(&plan(READS, &[errors, "seed=9"]), 1);
    assert_ne!(poisoned(&found).into_iter().collect::<BTreeSet<_>>(), lines);
}

#[test]
fn media_without_errors_change_nothing() {
    let digest = report(READS, &[]).provenance.digest;
    let none = report(READS, &["devices[0].media_errors={}"]);
    assert_eq!(none.provenance.digest, digest);
    assert_eq!(none.requests.failed.unwrap().total(), 0);
}

#[test]
fn a_write_repairs_a_line() {
    let errors = "devices[0].media_errors={ rate = 0.5 }";
    let mixed = [
        "hosts[0].workload.read_ratio=0.5",
        "hosts[0].workload.mix=\"regular\"",
        errors,
    ];
    // Every second request writes. The number of lines is odd, so the
    // next round writes the other half.
    let odd = "hosts[0].workload.footprint=\"4032 B\"";
    let report = report(READS, &[&mixed[..], &[odd]].concat());
    let device = report.devices[0].media_errors.unwrap();
    assert!((20..=43).contains(&device.repaired), "{}", device.repaired);
    let failed = report.requests.failed.unwrap();
    // Each once at most, before it is written.
    assert!(failed.poisoned_reads <= 43, "{failed:?}");
    assert_eq!(failed.poisoned_writes, 0);
}

/// What a thread does. The argument is the first address of the device's memory.
type Code = Arc<dyn Fn(u64) -> Thread + Send + Sync>;

fn code<F>(code: impl Fn(Handle, u64) -> F + Copy + Send + Sync + 'static) -> Code
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |base| Thread::new(|t| code(t, base)))
}

/// Operations of a core, and of an accelerator's processing element.
#[derive(Clone)]
struct Acts {
    core: Code,
    element: Option<Code>,
}

impl Script for Acts {
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        match (place, &self.element) {
            (ExecutionPlace::Core { core: 0 }, _) => vec![(self.core)(bases.cxl)],
            (ExecutionPlace::Element { .. }, Some(element)) => vec![element(bases.cxl)],
            _ => Vec::new(),
        }
    }
}

/// A core whose caches hold 4, 8 and 16 lines, and a device whose second line is poisoned.
fn run<F>(core: impl Fn(Handle, u64) -> F + Copy + Send + Sync + 'static) -> Report
where
    F: Future<Output = ()> + Send + 'static,
{
    run_with(code(core), None, "")
}

/// Like [`run`], with an accelerator whose cache holds four lines.
fn run_beside(core: Code, element: Code, cache: &str) -> Report {
    let device = format!(
        "[[accelerators]]\nname = \"x\"\n[accelerators.device.cache]\nsize = \"256 B\"\n{cache}\n"
    );
    run_with(core, Some(element), &device)
}

fn run_with(core: Code, element: Option<Code>, more: &str) -> Report {
    let text = r#"
name = "poison"
[fabric]
topology = { kind = "direct" }
[[hosts]]
name = "h"
workload = { kind = "external", name = "script" }
nodes = [{ capacity = "1 MiB" }]
[hosts.processor]
cores = 1
l1 = { size = "256 B", ways = 4, access_time = "1 ns" }
l2 = { size = "512 B", ways = 8, access_time = "4 ns" }
llc = { size = "1 KiB", ways = 16, access_time = "11 ns" }
[[devices]]
name = "d"
capacity = "256 MiB"
media_errors = { poison = [0x40] }
"#;
    let plan = script::plan(&format!("{text}{more}"), Acts { core, element });
    try_run(&plan, 1).unwrap()
}

/// Numbers of machine checks, of poisoned reads and writes at the device, and of repaired lines.
fn counts(report: &Report) -> (u64, u64, u64, u64) {
    let checks = &report.hosts[0].processor["machine_checks"];
    let device = report.devices[0].media_errors.unwrap();
    (
        checks.as_f64().unwrap() as u64,
        device.poisoned_reads,
        device.poisoned_writes,
        device.repaired,
    )
}

#[test]
fn a_load_of_poison_is_a_machine_check_and_ends_the_threads() {
    let report = run(|t, base| async move {
        t.load(base).await;
        t.load(base + 64).await;
        panic!("it goes on without its data")
    });
    assert_eq!(counts(&report), (1, 1, 0, 0));
    let failed = report.requests.failed.unwrap();
    assert_eq!(failed.poisoned_reads, 1);
    assert!(report.hosts[0].processor.contains_key("threads_ended_ns"));
}

#[test]
fn poison_that_nobody_loads_harms_nobody() {
    // Stores to a part of the line, and then loads lines that evict it from all caches.
    let report = run(|t, base| async move {
        t.store(base + 64, 1).await;
        for line in 2..64 {
            t.load(base + 64 * line).await;
        }
    });
    // It is written back as poison.
    assert_eq!(counts(&report), (0, 1, 1, 0));
    assert!(!report.hosts[0].processor.contains_key("threads_ended_ns"));
}

#[test]
fn poison_in_a_cache_waits_for_who_loads_it() {
    let report = run(|t, base| async move {
        t.store(base + 64, 1).await;
        t.compute(1_000_000).await;
        t.load(base + 72).await;
        panic!("it goes on without its data")
    });
    assert_eq!(counts(&report), (1, 1, 0, 0), "a hit in the cache");
}

#[test]
fn poison_that_was_written_back_comes_again() {
    let report = run(|t, base| async move {
        t.store(base + 64, 1).await;
        for line in 2..64 {
            t.load(base + 64 * line).await;
        }
        t.fetch_add(base + 64, 1).await;
        panic!("it goes on without its data")
    });
    assert_eq!(counts(&report), (1, 2, 1, 0));
    assert_eq!(report.requests.failed.unwrap().poisoned_writes, 1);
}

#[test]
fn a_store_of_the_whole_line_repairs_it() {
    let report = run(|t, base| async move {
        t.write_range(base + 64, &[7; 64]).await;
        assert_eq!(t.load_sized(base + 100, 1).await, 7);
        for line in 2..64 {
            t.load(base + 64 * line).await;
        }
        assert_eq!(t.load_sized(base + 64, 1).await, 7);
    });
    let (checks, _, written, repaired) = counts(&report);
    assert_eq!((checks, written, repaired), (0, 0, 1));
}

/// Patterns compute on no values, so they continue.
#[test]
fn programs_meet_poison_again_and_again() {
    let set = [
        "hosts[0].processor={ cores = 2, llc = { size = \"8 KiB\", ways = 8, inclusion = \"non-inclusive\" } }",
        "hosts[0].nodes=[{ capacity = \"1 MiB\" }]",
        "devices[0].media_errors={ rate = 0.02 }",
        "hosts[0].workload.read_ratio=0.7",
    ];
    let plan = plan(READS, &set);
    let (first, found) = rows(&plan, 1);
    assert_eq!(found.len() as u64, first.requests.completed);
    let checks = first.hosts[0].processor["machine_checks"].as_f64().unwrap();
    assert!(checks > 50.0, "{checks}");
    assert_eq!(poisoned(&found).len() as f64, checks);
    assert_eq!(rows(&plan, 2).0.provenance.digest, first.provenance.digest);
}

#[test]
fn who_does_not_know_what_to_do_about_poison_is_refused() {
    let some = "devices[0].media_errors={ rate = 0.1 }";
    for (errors, more, path) in [
        (
            "devices[0].media_errors={ poison = [64, 65] }",
            &[][..],
            "devices[0].media_errors.poison[1]",
        ),
        (
            "devices[0].media_errors={ poison = [0x1000_0000] }",
            &[],
            "devices[0].media_errors.poison[0]",
        ),
        (
            some,
            &["hosts[0].issue.cache={ size = \"64 KiB\" }"],
            "hosts[0].issue.cache",
        ),
        (
            some,
            &[
                "hosts[0].issue.cache={ size = \"64 KiB\" }",
                "devices[0].coherence={ class = \"hdm-db\" }",
            ],
            "devices[0].media_errors",
        ),
    ] {
        let found = problems(READS, &[&[errors], more].concat());
        let is_told = found.iter().any(|one| one.path == path);
        assert!(is_told, "{errors}: {found:?}");
    }
}

fn device_checks(report: &Report) -> f64 {
    let checks = &report.accelerators[0].accelerator["machine_checks"];
    checks.as_f64().unwrap()
}

/// Waits for a word that no thread writes.
fn waits() -> Code {
    code(|t, base| async move {
        t.await_change(base + 64 * 32, 0).await;
    })
}

#[test]
fn poison_at_a_device_ends_its_threads_and_those_of_its_host() {
    for cache in [
        "",
        "load_request = \"RdShared\"",
        "load_request = \"RdCurr\"",
    ] {
        let loads = code(|t, base| async move {
            t.load(base).await;
            t.load(base + 64).await;
            panic!("it goes on without its data")
        });
        let report = run_beside(waits(), loads, cache);
        assert_eq!(device_checks(&report), 1.0, "{cache}");
        let host = &report.hosts[0].processor;
        assert!(host.contains_key("threads_ended_ns"), "{cache}");
        assert_eq!(host["machine_checks"].as_f64(), Some(0.0), "{cache}");
    }
}

#[test]
fn poison_that_a_device_reads_by_dma_is_a_machine_check() {
    let report = run_beside(
        waits(),
        code(|t, base| async move {
            t.dma(Direction::ToDevice, base, SCRATCH_BASE, 256).await;
            t.compute(1_000_000).await;
            panic!("it goes on without its data")
        }),
        "",
    );
    assert_eq!((counts(&report).1, device_checks(&report)), (1, 1.0));
}

#[test]
fn poison_at_a_host_ends_the_threads_of_its_devices() {
    let report = run_beside(
        code(|t, base| async move {
            t.compute(10_000).await;
            t.load(base + 64).await;
            panic!("it goes on without its data")
        }),
        waits(),
        "",
    );
    assert_eq!((counts(&report).0, device_checks(&report)), (1, 0.0));
}

#[test]
fn poison_goes_from_a_cache_of_a_device_to_a_core() {
    let report = run_beside(
        code(|t, base| async move {
            t.compute(1_000_000).await;
            t.load(base + 72).await;
            panic!("it goes on without its data")
        }),
        code(|t, base| async move {
            t.store(base + 64, 1).await;
        }),
        "",
    );
    let (checks, read, ..) = counts(&report);
    // The device reads it once, for the store.
    assert_eq!((checks, read), (1, 1));
    assert_eq!(device_checks(&report), 0.0);
}

#[test]
fn a_device_writes_poison_back_and_repairs_it() {
    let report = run_beside(
        code(|_, _| async {}),
        code(|t, base| async move {
            t.store(base + 64, 1).await;
            for line in 2..64 {
                t.load(base + 64 * line).await;
            }
            t.write_range(base + 64, &[7; 64]).await;
            for line in 2..64 {
                t.load(base + 64 * line).await;
            }
            assert_eq!(t.load_sized(base + 64, 1).await, 7);
        }),
        "",
    );
    let (checks, _, written, repaired) = counts(&report);
    assert_eq!((checks, written, repaired), (0, 1, 1));
    assert_eq!(device_checks(&report), 0.0);
}

#[test]
fn a_part_of_a_line_that_a_device_writes_through_repairs_nothing() {
    for request in ["WrInv", "WOWrInv"] {
        let report = run_beside(
            code(|_, _| async {}),
            code(|t, base| async move {
                t.store(base + 64, 1).await;
                t.load(base + 72).await;
                panic!("it goes on without its data")
            }),
            &format!("store_request = \"{request}\""),
        );
        let (_, read, written, repaired) = counts(&report);
        assert_eq!((read, written, repaired), (1, 1, 0), "{request}");
        assert_eq!(device_checks(&report), 1.0, "{request}");
        let report = run_beside(
            code(|_, _| async {}),
            code(|t, base| async move {
                t.write_range(base + 64, &[7; 64]).await;
                assert_eq!(t.load_sized(base + 72, 1).await, 7);
            }),
            &format!("store_request = \"{request}\""),
        );
        assert_eq!(counts(&report).3, 1, "{request}");
        assert_eq!(device_checks(&report), 0.0, "{request}");
    }
}
