//! Laws of bias: which lines a Type 2 device requests from its host, by page, when it takes back
//! memory of its own, how long that takes, and that both sides progress if they want the same page.
//! And the same laws for back-invalidation, by line.
#![allow(clippy::unwrap_used)]

use cxlab_engine::units::Hpa;
use cxlab_system::report::Report;
use cxlab_tests::rows;
use cxlab_tests::script::{self, Script};
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread, ThreadOp};
use cxlab_workload::{Image, LOCAL_BASE};

/// An operation of a thread.
#[derive(Clone, Copy)]
enum Act {
    /// Waits for this many microseconds.
    Sleep(u32),
    Load(u64),
    Store(u64),
    Flush(u64),
    Prefetch(u64),
    /// Flips the page of a line by a driver: to host bias if true, otherwise to device bias.
    Flip(u64, bool),
    /// Adds to a line's counter this many times.
    Add(u64, u64),
    /// Loads this many lines of the host's own memory, all of them in flight at once.
    LoadHost(u64),
}

use Act::{Add, Flip, Flush, Load, LoadHost, Prefetch, Sleep, Store};

/// Operations of each core and of the device. Lines are those of the device's memory.
#[derive(Clone)]
struct Acts {
    cores: Vec<Vec<Act>>,
    device: Vec<Act>,
    /// Expected values of counters at the end.
    counters: Vec<(u64, u64)>,
}

impl Script for Acts {
    fn threads(&self, _: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let acts = match place {
            ExecutionPlace::Core { core } => self.cores.get(core).cloned().unwrap_or_default(),
            ExecutionPlace::Element { .. } => self.device.clone(),
        };
        vec![Thread::new(move |t| async move {
            for act in acts {
                match act {
                    // Cycles of core and device are 1 ns.
                    Sleep(micros) => drop(t.compute(1000 * micros).await),
                    Load(line) => drop(t.load(64 * line).await),
                    Store(line) => drop(t.store(64 * line, line).await),
                    Flush(line) => drop(t.flush(64 * line).await),
                    Flip(line, to_host) => drop(t.flip_bias(0, 64 * line, to_host).await),
                    Prefetch(line) => {
                        t.issue(ThreadOp::Prefetch { addr: 64 * line }).await;
                    }
                    Add(line, times) => {
                        for _ in 0..times {
                            t.fetch_add(64 * line, 1).await;
                        }
                    }
                    LoadHost(lines) => drop(t.read_range(LOCAL_BASE.0, 64 * lines).await),
                }
            }
        })]
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        for (line, expected) in &self.counters {
            let found = image.read(Hpa(64 * line), 8);
            if found != *expected {
                return Err(format!("line {line} holds {found}, not {expected}"));
            }
        }
        Ok(())
    }
}

/// The report and the latencies of the device's requests in order, with
/// memory that the host keeps coherent.
fn simulate(page: &str, acts: Acts, misses: u32, threads: usize) -> (Report, Vec<u64>) {
    let device = format!("bias_page = \"{page}\"\ncache = {{ misses = {misses} }}");
    simulate_memory("hdm-d", &device, acts, threads)
}

/// Like [`simulate`], with memory that the device keeps coherent.
fn simulate_db(acts: Acts, threads: usize) -> (Report, Vec<u64>) {
    simulate_memory("hdm-db", "", acts, threads)
}

fn simulate_memory(class: &str, device: &str, acts: Acts, threads: usize) -> (Report, Vec<u64>) {
    let text = format!(
        "name = \"bias\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n\
         link = {{ transmission = \"packet\", bandwidth = \"1 TB/s\" }}\n[[hosts]]\nname = \"host\"\n\
         workload = {{ kind = \"external\", name = \"script\" }}\nnodes = [{{ capacity = \"1 MiB\" }}]\n\
         processor = {{ cores = {}, cycle = \"1 ns\", home_interval = \"10 ns\" }}\n\
         [[accelerators]]\nname = \"xpu\"\nmemory = {{ capacity = \"256 MiB\", class = \"{class}\" }}\n\
         [accelerators.device]\ncycle = \"1 ns\"\n{device}\n",
        acts.cores.len().max(1),
    );
    let plan = script::plan(&text, acts);
    let (report, rows) = rows(&plan, threads);
    let device = rows.iter().filter(|row| row.requester == 1);
    let latencies = device.map(|row| row.completed_ps - row.issued_ps);
    (report, latencies.collect())
}

fn count(report: &Report, name: &str) -> u64 {
    report.accelerators[0].accelerator[name].as_f64().unwrap() as u64
}

const PAGES: [(&str, u64); 3] = [("64 B", 1), ("256 B", 4), ("4 KiB", 64)];

/// The host stores to a line, and then the device loads lines.
fn handed_over(device: &[u64]) -> Acts {
    let loads = device.iter().map(|line| Load(*line));
    Acts {
        cores: vec![vec![Store(5)]],
        device: [Sleep(10)].into_iter().chain(loads).collect(),
        counters: Vec::new(),
    }
}

#[test]
fn the_device_asks_for_every_line_of_a_page_once() {
    for (page, lines) in PAGES {
        let (report, latencies) = simulate(page, handed_over(&[5, 5, 5]), 512, 1);
        assert_eq!(count(&report, "bias_to_host"), 1, "{page}");
        assert_eq!(count(&report, "bias_flips"), 1, "{page}");
        assert_eq!(count(&report, "bias_lines"), lines, "{page}");
        assert_eq!(count(&report, "bias_lost"), 0, "{page}");
        // The host counts them as requests for ownership.
        let host = &report.hosts[0].processor;
        assert_eq!(host["bias_requests"].as_f64(), Some(lines as f64), "{page}");
        assert!(latencies[0] > 2 * latencies[1], "one way to the host");
        assert_eq!(latencies[1], latencies[2]);
    }
}

#[test]
fn an_access_waits_for_its_own_line_and_the_page_for_the_home_agent() {
    // The host holds no line any more. The device knows that only if it tracks each line.
    let acts = Acts {
        cores: vec![vec![Store(5), Flush(5)]],
        device: vec![Sleep(10), Load(5), Sleep(10), Load(5)],
        counters: Vec::new(),
    };
    let flips = PAGES.map(|(page, _)| {
        let (report, latencies) = simulate(page, acts.clone(), 512, 1);
        let time = &report.accelerators[0].accelerator["bias_flip_ns"];
        let time_ps = (time.as_f64().unwrap() * 1e3).round() as u64;
        (count(&report, "bias_lines"), time_ps, latencies)
    });
    let [line, few, many] = flips;
    assert_eq!((line.0, few.0, many.0), (0, 4, 64));
    // The device requests its own line first, and the home agent accepts a request each 10 ns.
    assert_eq!(few.2, many.2);
    assert_eq!(many.1, few.1 + 10_000 * 60);
    let way = few.2[0] - line.2[0];
    // One way to the host, and three lines behind.
    assert_eq!(few.1, way + 10_000 * 3);
}

#[test]
fn other_lines_of_a_page_in_device_bias_cost_no_way_to_the_host() {
    // The page flips while the device sleeps. With bias by line, only lines that the
    // host held would need a request.
    let acts = |line: u64| Acts {
        cores: vec![vec![Store(5), Store(6)]],
        device: vec![Sleep(10), Load(5), Sleep(10), Load(line)],
        counters: Vec::new(),
    };
    for (page, lines) in PAGES {
        let (report, latencies) = simulate(page, acts(6), 512, 1);
        let local = latencies[1] < latencies[0] / 2;
        assert_eq!(local, lines > 1, "{page}: {latencies:?}");
        assert_eq!(count(&report, "bias_lines"), lines.max(2), "{page}");
    }
    // An access of the host brings the whole page back to host bias, touched or not.
    for (page, lines) in PAGES {
        let acts = Acts {
            cores: vec![vec![Store(5), Sleep(20), Load(6)]],
            device: vec![Sleep(10), Load(5), Load(7), Sleep(30), Load(7)],
            counters: Vec::new(),
        };
        let (report, latencies) = simulate(page, acts, 512, 1);
        let again = latencies[2] > 2 * latencies[1];
        assert_eq!(again, lines > 1, "{page}: {latencies:?}");
        let flips = if lines > 1 { 2 } else { 1 };
        assert_eq!(count(&report, "bias_lines"), flips * lines, "{page}");
        assert_eq!(count(&report, "bias_to_host"), 2, "{page}");
    }
}

#[test]
fn a_kernel_takes_a_page_ahead_by_a_prefetch() {
    let acts = |ahead: Vec<Act>| Acts {
        cores: vec![vec![Store(5)]],
        device: [Sleep(10)].into_iter().chain(ahead).collect(),
        counters: Vec::new(),
    };
    for (page, lines) in PAGES {
        let ahead = vec![Prefetch(5), Sleep(10), Load(5), Load(5)];
        let (report, latencies) = simulate(page, acts(ahead), 512, 1);
        assert_eq!(count(&report, "bias_flips"), 1, "{page}");
        assert_eq!(count(&report, "bias_lines"), lines, "{page}");
        // The loads take as long as in a page that was always in device bias.
        let (_, own) = simulate(page, acts(vec![Load(200), Load(200)]), 512, 1);
        assert_eq!(latencies[latencies.len() - 2..], own, "{page}");
    }
}

#[test]
fn a_flip_goes_on_with_two_cqids() {
    let (many, _) = simulate("4 KiB", handed_over(&[5]), 512, 1);
    let (few, _) = simulate("4 KiB", handed_over(&[5]), 1, 1);
    for report in [&many, &few] {
        assert_eq!(count(report, "bias_flips"), 1);
        assert_eq!(count(report, "bias_lines"), 64);
    }
    let time = |report: &Report| report.accelerators[0].accelerator["bias_flip_ns"].as_f64();
    assert!(time(&few) > time(&many));
}

#[test]
fn a_flip_goes_on_while_accesses_take_every_cqid() {
    let acts = Acts {
        cores: vec![vec![Store(5)]],
        device: vec![Sleep(10), Load(5), LoadHost(8000)],
        counters: Vec::new(),
    };
    let (report, _) = simulate("4 KiB", acts, 2, 1);
    assert_eq!(count(&report, "bias_flips"), 1);
    assert_eq!(count(&report, "bias_lines"), 64);
    // At most one load gets a CQID between two of the 64 lines.
    let flip_ns = report.accelerators[0].accelerator["bias_flip_ns"].as_f64();
    let part = flip_ns.unwrap() / report.extent.window_ns;
    assert!(part < 2.0 * 64.0 / 8000.0, "{part}");
}

#[test]
fn hosts_and_device_that_add_to_different_lines_of_a_page_all_get_on() {
    let acts = Acts {
        cores: vec![vec![Add(1, 300)], vec![Add(2, 300)], vec![Add(1, 300)]],
        device: vec![Add(3, 300), Add(2, 300)],
        counters: vec![(1, 600), (2, 600), (3, 300)],
    };
    for (page, _) in PAGES {
        let (report, _) = simulate(page, acts.clone(), 512, 1);
        let (other, _) = simulate(page, acts.clone(), 512, 2);
        assert_eq!(report.provenance.digest, other.provenance.digest, "{page}");
    }
    let (report, _) = simulate("4 KiB", acts, 512, 1);
    // Hosts come back during flips.
    assert!(count(&report, "bias_lost") > 0);
}

/// A driver flushes a page and flips it, so the device gets the page without a request.
#[test]
fn software_flips_a_page_by_a_register() {
    for (page, lines) in PAGES {
        let first = 64;
        let own = first..first + lines;
        let stores = own.clone().map(Store);
        let flushes = own.clone().map(Flush);
        let acts = |flip: bool| Acts {
            cores: vec![
                (stores.clone())
                    .chain(flushes.clone())
                    .chain(flip.then_some(Flip(first, false)))
                    .collect(),
            ],
            device: [Sleep(1_000)]
                .into_iter()
                .chain(own.clone().map(Load))
                .collect(),
            counters: own.clone().map(|line| (line, line)).collect(),
        };
        let (asked, slow) = simulate(page, acts(false), 512, 1);
        let (told, fast) = simulate(page, acts(true), 512, 1);
        assert_eq!(count(&told, "bias_by_software"), 1, "{page}");
        assert_eq!(count(&told, "bias_lines"), 0, "{page}");
        assert_eq!(host_count(&told, "bias_requests"), 0, "{page}");
        // A device that tracks each line knows of the flush.
        let expected = if lines == 1 { 0 } else { lines };
        assert_eq!(count(&asked, "bias_lines"), expected, "{page}");
        let (slow, fast) = (slow[0], fast[0]);
        assert!(lines == 1 || slow > 2 * fast, "{page}: {slow} and {fast}");
    }
}

#[test]
fn a_page_that_software_gives_to_the_host_is_asked_for_and_others_stay() {
    let acts = Acts {
        cores: vec![vec![Flip(64, true), Flip(1 << 30, true)]],
        device: vec![Sleep(1_000), Load(64), Load(128)],
        counters: Vec::new(),
    };
    let (report, latencies) = simulate("4 KiB", acts, 512, 1);
    assert_eq!(count(&report, "bias_by_software"), 1);
    assert_eq!(count(&report, "bias_refused"), 1, "it is not the device's");
    assert_eq!(count(&report, "bias_lines"), 64);
    assert!(latencies[0] > 2 * latencies[1]);
}

/// The device's weakly ordered stores are marked as such. `MemWrFwd` answers them,
/// and no data cross the link.
#[test]
fn the_host_gives_leave_for_weakly_ordered_stores() {
    let acts = Acts {
        cores: vec![vec![Store(5), Load(6)]],
        device: vec![Sleep(10), Store(5), Load(6), Store(6)],
        counters: vec![(5, 5), (6, 6)],
    };
    let page = "bias_page = \"64 B\"";
    let weakly = format!("{page}\ncache = {{ store_request = \"WOWrInv\" }}");
    let (owned, _) = simulate_memory("hdm-d", page, acts.clone(), 1);
    let (written, _) = simulate_memory("hdm-d", &weakly, acts, 1);
    for (report, writes) in [(&owned, 0), (&written, 1)] {
        assert_eq!(host_count(report, "bias_requests"), 2);
        assert_eq!(host_count(report, "bias_writes"), writes);
        assert_eq!(count(report, "hmc_writes"), 0, "nothing is pulled");
        // What the host had modified.
        assert_eq!(count(report, "host_writes"), 1);
    }
}

fn host_count(report: &Report, name: &str) -> u64 {
    report.hosts[0].processor[name].as_f64().unwrap() as u64
}

#[test]
fn a_device_that_keeps_its_memory_coherent_snoops_each_line_that_the_host_has_taken_once() {
    let (report, latencies) = simulate_db(handed_over(&[5, 5, 6]), 1);
    for name in ["bi_snoops", "bi_conflicts"] {
        let expected = u64::from(name == "bi_snoops");
        assert_eq!(count(&report, name), expected, "{name}");
        assert_eq!(host_count(&report, name), expected, "{name}");
    }
    // No request uses CXL.cache, and bias by page would have taken line 6 too.
    assert_eq!(host_count(&report, "device_requests"), 0);
    assert_eq!(host_count(&report, "bias_requests"), 0);
    assert!(latencies[0] > 2 * latencies[1], "one way to the host");
    let (_, own) = simulate_db(
        Acts {
            cores: Vec::new(),
            device: vec![Load(6)],
            counters: Vec::new(),
        },
        1,
    );
    assert_eq!(latencies[2], own[0], "the host has never had it");
}

#[test]
fn a_modified_line_is_written_before_the_host_answers() {
    let acts = |host: Act| Acts {
        cores: vec![vec![host]],
        device: vec![Sleep(10), Load(5)],
        counters: Vec::new(),
    };
    let (modified, slow) = simulate_db(acts(Store(5)), 1);
    let (clean, fast) = simulate_db(acts(Load(5)), 1);
    for (report, writes) in [(&modified, 1), (&clean, 0)] {
        assert_eq!(count(report, "bi_snoops"), 1);
        assert_eq!(count(report, "host_writes"), writes);
    }
    assert!(slow[0] > fast[0], "{slow:?} and {fast:?}");
}

#[test]
fn a_flush_of_the_host_tells_the_device_that_nobody_holds_the_line() {
    let acts = |flush: bool| Acts {
        cores: vec![
            [Store(5)]
                .into_iter()
                .chain(flush.then_some(Flush(5)))
                .collect(),
        ],
        device: vec![Sleep(10), Load(5)],
        counters: Vec::new(),
    };
    let (flushed, _) = simulate_db(acts(true), 1);
    let (held, _) = simulate_db(acts(false), 1);
    // The read, and `MemInv` of the flush.
    assert_eq!(count(&flushed, "host_reads"), 2);
    assert_eq!(count(&held, "host_reads"), 1);
    assert_eq!(count(&flushed, "bi_snoops"), 0);
    assert_eq!(count(&held, "bi_snoops"), 1);
}

#[test]
fn a_line_that_the_device_has_modified_goes_to_the_host_unwritten() {
    let acts = Acts {
        cores: vec![vec![Sleep(10), Add(5, 1)]],
        device: vec![Add(5, 1)],
        counters: vec![(5, 2)],
    };
    let (report, _) = simulate_db(acts, 1);
    assert_eq!(count(&report, "passed_modified"), 1);
    let medium = report.accelerators[0].accelerator.get("memory.writes");
    assert!(medium.is_none_or(|writes| writes.as_f64() == Some(0.0)));
    // The host holds the line modified, and writes it when it evicts the line.
    let acts = Acts {
        cores: vec![vec![Sleep(10), Load(5), Flush(5)]],
        device: vec![Store(5)],
        counters: vec![(5, 5)],
    };
    let (report, _) = simulate_db(acts, 1);
    assert_eq!(count(&report, "passed_modified"), 1);
    assert_eq!(count(&report, "host_writes"), 1);
}

#[test]
fn host_and_device_that_add_to_the_same_lines_all_get_on() {
    let acts = Acts {
        cores: vec![vec![Add(1, 300)], vec![Add(2, 300)], vec![Add(1, 300)]],
        device: vec![Add(3, 300), Add(2, 300), Add(1, 300)],
        counters: vec![(1, 900), (2, 600), (3, 300)],
    };
    let (report, _) = simulate_db(acts.clone(), 1);
    let (other, _) = simulate_db(acts, 2);
    assert_eq!(report.provenance.digest, other.provenance.digest);
    let snoops = count(&report, "bi_snoops");
    assert_eq!(host_count(&report, "bi_snoops"), snoops);
    assert!(snoops > 0);
}

#[test]
fn memory_without_bias_refuses_flips_of_it_by_software() {
    let acts = Acts {
        cores: vec![vec![Store(64), Flip(64, false)]],
        device: vec![Sleep(1_000), Load(64)],
        counters: vec![(64, 64)],
    };
    let (report, _) = simulate_db(acts, 1);
    assert_eq!(count(&report, "bias_refused"), 1);
    // The line is asked for all the same.
    assert_eq!(count(&report, "bi_snoops"), 1);
}
