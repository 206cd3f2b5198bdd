//! Shared regions of class HDM-H with values: software determines which host sees whose stores.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Hpa;
use cxlab_system::report::Report;
use cxlab_system::run::RunError;
use cxlab_tests::script::{self, Script};
use cxlab_tests::{plan, shipped, try_run};
use cxlab_workload::Image;
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread};

/// The shared lines in the writer's addresses. The reader has 256 MiB before them.
const FIRST: u64 = 0;
const BEFORE: u64 = 256 << 20;
/// Address at which the reader records the values that it has seen.
const SEEN: u64 = 1 << 20;

/// Whether the writer flushes after a store, and the reader before a load.
#[derive(Clone, Copy, Debug)]
struct Care {
    writer_flushes: bool,
    reader_flushes: bool,
}

/// Stores 1 to a line, and later 2.
#[derive(Clone)]
struct Writer(Care);

/// Loads the line before the first store, between both stores, and after the second.
#[derive(Clone)]
struct Reader(Care);

/// Cycles between the steps: longer than any step takes.
const STEP: u32 = 100_000;

impl Script for Writer {
    fn threads(&self, _: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let care = self.0;
        let thread = Thread::new(move |t| async move {
            for number in 1..3 {
                t.compute(STEP).await;
                t.store(FIRST, number).await;
                if care.writer_flushes {
                    t.flush(FIRST).await;
                }
                t.compute(STEP).await;
            }
        });
        match place {
            ExecutionPlace::Core { core: 0 } => vec![thread],
            _ => Vec::new(),
        }
    }
}

impl Script for Reader {
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let care = self.0;
        let thread = Thread::new(move |t| async move {
            t.compute(STEP / 2).await;
            for look in 0..3 {
                if care.reader_flushes {
                    t.flush(BEFORE + FIRST).await;
                }
                let seen = t.load(BEFORE + FIRST).await;
                t.store(bases.local + SEEN + 8 * look, seen).await;
                t.compute(2 * STEP).await;
            }
        });
        match place {
            ExecutionPlace::Core { core: 0 } => vec![thread],
            _ => Vec::new(),
        }
    }

    fn prepare(&self, _: Bases, image: &Image) {
        // Two other words: one in the reader's own region, and one in the
        // next line of the shared region.
        image.write(Hpa(0), 8, 77);
        image.write(Hpa(BEFORE + FIRST + 64), 8, 78);
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        let local = cxlab_workload::LOCAL_BASE.0;
        let seen = [0, 1, 2].map(|look| image.read(Hpa(local + SEEN + 8 * look), 8));
        let expected = match (self.0.writer_flushes, self.0.reader_flushes) {
            (true, true) => [0, 1, 2],
            // The reader's own copy is from the beginning.
            (true, false) => [0, 0, 0],
            // The writer's stores stay in its cache.
            (false, _) => [0, 0, 0],
        };
        match seen == expected && image.read(Hpa(0), 8) == 77 {
            true => Ok(()),
            false => Err(format!("{:?}: saw {seen:?}, not {expected:?}", self.0)),
        }
    }
}

fn simulate(care: Care, devices: u32, threads: usize) -> Result<Report, RunError> {
    let host = |name: &str| {
        format!(
            "[[hosts]]\nname = \"{name}\"\nworkload = {{ kind = \"external\", name = \"{name}\" }}\n\
             nodes = [{{ capacity = \"2 MiB\" }}]\nprocessor = {{ cores = 2 }}\n"
        )
    };
    let text = format!(
        "name = \"shared\"\n[fabric]\ntopology = {{ kind = \"chain\", switches = 1 }}\n\
         link = {{ generation = \"6\" }}\n{}{}\
         [[devices]]\nname = \"memory\"\ncount = {devices}\ncapacity = \"1 GiB\"\n\
         [[regions]]\nname = \"own\"\ncapacity = \"256 MiB\"\nhosts = [\"reader\"]\ndevices = [\"memory{}\"]\n\
         [[regions]]\nname = \"common\"\ncapacity = \"512 MiB\"\nsharing = \"shared\"\n",
        host("writer"),
        host("reader"),
        if devices > 1 { "0" } else { "" },
    );
    let workloads = [
        ("writer", script::workload(Writer(care))),
        ("reader", script::workload(Reader(care))),
    ];
    let plan = cxlab_tests::plan_with(cxlab_tests::scenario(&text, &[]), workloads);
    try_run(&plan, threads)
}

#[test]
fn a_store_is_seen_where_both_hosts_flush_and_nowhere_else() {
    for writer_flushes in [false, true] {
        for reader_flushes in [false, true] {
            let care = Care {
                writer_flushes,
                reader_flushes,
            };
            for devices in [1, 2] {
                let reports = [1, 2, 3].map(|threads| {
                    simulate(care, devices, threads).unwrap_or_else(|error| panic!("{error}"))
                });
                for report in &reports {
                    assert_eq!(
                        report.provenance.digest, reports[0].provenance.digest,
                        "{care:?}"
                    );
                }
            }
        }
    }
}

/// The shipped scenario on a small graph.
const SMALL: [&str; 6] = [
    "hosts[0].workload.scale=6",
    "hosts[1].workload.scale=6",
    "hosts[2].workload.scale=6",
    "hosts[3].workload.scale=6",
    "hosts[4].workload.scale=6",
    "hosts[5].workload.scale=6",
];

#[test]
fn six_hosts_compute_on_the_graph_that_one_has_written_whatever_the_threads() {
    let text = shipped("graph-sharing");
    let run = |threads| match try_run(&plan(&text, &SMALL), threads) {
        Ok(report) => report,
        Err(error) => panic!("{error}"),
    };
    let reports = [1, 2, 3, 5].map(run);
    for report in &reports {
        assert_eq!(report.provenance.digest, reports[0].provenance.digest);
        assert_eq!(report.extent.window_ns, reports[0].extent.window_ns);
    }
    // All hosts read the graph from the device, and only the first one writes there.
    for host in &reports[0].hosts {
        let run = host
            .phases
            .iter()
            .find(|phase| phase.name == "run")
            .unwrap();
        let is_part = run.on_cxl > 0 && run.on_cxl < run.on_memory;
        assert!(is_part, "{}", host.name);
        assert!(run.from_cxl > 0, "{}", host.name);
    }
}

#[test]
fn a_reader_whose_graph_nobody_writes_is_wrong_in_the_end() {
    let text = shipped("graph-sharing");
    let mut set: Vec<&str> = SMALL.to_vec();
    set.push("hosts[0].workload.loading=\"reader\"");
    for host in 0..6 {
        let poll = ["hosts[", &host.to_string(), "].workload.poll_cycles=0"].concat();
        set.push(Box::leak(poll.into_boxed_str()));
    }
    let error = try_run(&plan(&text, &set), 2).err().unwrap().to_string();
    assert!(error.contains("bfs"), "{error}");
}

#[test]
fn the_plan_says_who_sees_whose_stores() {
    let notes = plan(&shipped("graph-sharing"), &[]).notes;
    let messages = notes.iter().map(|note| &note.message);
    let copies: Vec<&String> = messages.filter(|one| one.contains("copies")).collect();
    assert_eq!(copies.len(), 1);
    let first = &copies[0];
    assert!(first.contains("when that has flushed the line"), "{first}");
}
