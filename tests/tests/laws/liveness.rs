//! Laws of waiting: the number of other requests that a request waits for is bounded by the system,
//! not by how long the others go on. Each test has one requester that sends requests all the time,
//! and another that sends some now and then and must not wait until the first has finished.
//! docs/explain/liveness.md has the table of which requests wait for which.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use cxlab_host::RequestRow;
use cxlab_plan::Plan;
use cxlab_protocol::coherence::line_arbitration::LineArbitration;
use cxlab_tests::script::{self, Script};
use cxlab_tests::{plan, rows, scenario};
use cxlab_workload::thread::{Bases, Direction, ExecutionPlace, Handle, Thread, Window};

/// First address of the host's own memory. Memory of devices begins at 0.
const LOCAL: u64 = 1 << 51;

/// An operation of a thread.
#[derive(Clone, Copy)]
enum Act {
    /// Waits for this many cycles of 1 ns.
    Sleep(u32),
    /// Additions to a word: address, number, and number in flight.
    Adds(u64, u64, usize),
    /// Loads of lines `stride` bytes apart, repeated from the first: first address, stride, number
    /// of lines, number of loads, and number in flight.
    Loads(u64, u64, u64, u64, usize),
    /// Stores with the same parameters as loads.
    Stores(u64, u64, u64, u64, usize),
    /// A DMA write: address and number of bytes.
    Writes(u64, u64),
}

use Act::{Adds, Loads, Sleep, Stores, Writes};

/// Operations of the threads of each core, and of each accelerator's processing elements.
#[derive(Clone, Default)]
struct Acts {
    cores: Vec<Vec<Vec<Act>>>,
    accelerators: Vec<Vec<Vec<Act>>>,
}

impl Script for Acts {
    fn threads(&self, _: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let threads = match place {
            ExecutionPlace::Core { core } => self.cores.get(core).cloned().unwrap_or_default(),
            ExecutionPlace::Element {
                accelerator,
                element,
            } => {
                let elements = self.accelerators.get(accelerator);
                let acts = elements.and_then(|elements| elements.get(element));
                acts.cloned().into_iter().collect()
            }
        };
        let thread = |acts: Vec<Act>| Thread::new(move |t| act(t, acts));
        threads.into_iter().map(thread).collect()
    }
}

async fn act(t: Handle, acts: Vec<Act>) {
    for act in acts {
        match act {
            Sleep(cycles) => drop(t.compute(cycles).await),
            Adds(word, times, outstanding) => {
                let mut window = Window::new(outstanding);
                for _ in 0..times {
                    window.room().await;
                    window.add(t.fetch_add(word, 1));
                }
                window.drain().await;
            }
            Loads(first, stride, lines, times, outstanding) => {
                let mut window = Window::new(outstanding);
                for number in 0..times {
                    window.room().await;
                    window.add(t.load(first + number % lines * stride));
                }
                window.drain().await;
            }
            Stores(first, stride, lines, times, outstanding) => {
                let mut window = Window::new(outstanding);
                for number in 0..times {
                    window.room().await;
                    window.add(t.store(first + number % lines * stride, number));
                }
                window.drain().await;
            }
            Writes(first, bytes) => drop(t.dma(Direction::ToHost, first, 0, bytes).await),
        }
    }
}

/// A host and its accelerators. `node` is the memory of each, and the other fields are further parameters.
struct Machine {
    node: &'static str,
    processor: &'static str,
    device: &'static str,
    cache: &'static str,
    arbitration: LineArbitration,
}

const PLAIN: Machine = Machine {
    node: "{ kind = \"dram\" }",
    processor: "",
    device: "",
    cache: "",
    arbitration: LineArbitration::HostFirst,
};

impl Machine {
    fn plan(&self, acts: Acts) -> Plan {
        let elements = acts.accelerators.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = format!(
            "name = \"waits\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n\
             link = {{ transmission = \"packet\", bandwidth = \"1 TB/s\" }}\n\
             [[hosts]]\nname = \"host\"\nworkload = {{ kind = \"external\", name = \"script\" }}\n\
             nodes = [{{ capacity = \"16 MiB\", memory = {} }}]\n\
             [hosts.processor]\ncores = {}\ncycle = \"1 ns\"\n{}\n",
            self.node,
            acts.cores.len().max(1),
            self.processor
        );
        for number in 0..acts.accelerators.len().max(1) {
            text += &format!(
                "[[accelerators]]\nname = \"xpu{number}\"\n\
                 memory = {{ capacity = \"256 MiB\", memory = {} }}\n\
                 [accelerators.device]\ncycle = \"1 ns\"\nelements = {elements}\n{}\n\
                 [accelerators.device.cache]\n{}\n",
                self.node, self.device, self.cache
            );
        }
        let mut scenario = scenario(&text, &[]);
        for accelerator in &mut scenario.accelerators {
            accelerator.device.arbitration = self.arbitration;
        }
        script::plan_of(scenario, acts)
    }

    /// Duration of the run, in nanoseconds.
    fn time(&self, acts: Acts) -> f64 {
        rows(&self.plan(acts), 1).0.extent.window_ns
    }

    /// Longest request of the host and of each accelerator, in nanoseconds.
    fn longest(&self, acts: Acts) -> BTreeMap<u16, u64> {
        let mut longest = BTreeMap::new();
        for row in rows(&self.plan(acts), 1).1 {
            let time = (row.completed_ps - row.issued_ps) / 1000;
            let most: &mut u64 = longest.entry(row.requester).or_default();
            *most = time.max(*most);
        }
        longest
    }
}

/// Accelerators that add to one word, each with this many additions in flight.
fn one_word(accelerators: usize, outstanding: usize) -> Acts {
    Acts {
        cores: Vec::new(),
        accelerators: vec![vec![vec![Adds(LOCAL, 1000, outstanding)]]; accelerators],
    }
}

#[test]
fn accelerators_that_add_to_one_word_take_turns() {
    for accelerators in [2, 4] {
        for outstanding in [1, 16] {
            let longest = PLAIN.longest(one_word(accelerators, outstanding));
            // A turn is a round trip to the home agent and a snoop round trip: less than 1 us. An addition waits for
            // the earlier ones of its own processing element, and for each of these a turn of every accelerator.
            let bound = 1_000 * accelerators as u64 * outstanding as u64;
            for (requester, time) in &longest {
                assert!(*time < bound, "{requester}: {time} ns, not below {bound}");
            }
        }
    }
}

#[test]
fn the_host_waits_for_one_addition_and_not_for_all() {
    // A word of the host's memory, and one of the device's.
    for word in [LOCAL, 0] {
        let acts = Acts {
            cores: vec![vec![vec![Sleep(5_000), Loads(word, 0, 1, 50, 1)]]],
            accelerators: vec![vec![vec![Adds(word, 2_000, 16)]]],
        };
        let longest = PLAIN.longest(acts);
        assert!(longest[&0] < 2_500, "{word:#x}: {} ns", longest[&0]);
    }
}
#[test]
fn a_device_that_adds_to_its_own_memory_is_not_starved_by_a_host_that_reads_it() {
    for cores in [1, 4] {
        let acts = Acts {
            cores: vec![vec![vec![Loads(0, 0, 1, 3_000, 1)]]; cores],
            accelerators: vec![vec![vec![Sleep(5_000), Adds(0, 20, 1)]]],
        };
        let longest = PLAIN.longest(acts);
        assert!(longest[&1] < 4_000, "{cores} cores: {} ns", longest[&1]);
    }
}

#[test]
fn elements_share_the_port_of_their_cache() {
    // The first processing element loads cached lines all the time, and the others load a line now and then.
    let busy = vec![Loads(LOCAL, 64, 8, 20_000, 200)];
    let calm = vec![Sleep(5_000), Loads(LOCAL, 64, 8, 20, 1)];
    let acts = Acts {
        cores: Vec::new(),
        accelerators: vec![vec![busy, calm.clone(), calm]],
    };
    let last = PLAIN.longest(Acts {
        cores: Vec::new(),
        accelerators: vec![vec![acts.accelerators[0][0].clone()]],
    });
    let longest = PLAIN.longest(acts);
    let (beside, alone) = (longest[&1], last[&1]);
    assert!(beside < alone + 1_000, "{beside} ns, alone {alone}");
}

#[test]
fn threads_of_a_core_share_its_requests() {
    // The first thread misses all the time, with more loads in flight than the core may request.
    let busy = vec![Loads(LOCAL, 64, 100_000, 3_000, 16)];
    let calm = vec![Sleep(2_000), Loads(LOCAL + (8 << 20), 64, 1_000, 20, 1)];
    let machine = Machine {
        processor: "misses = 2",
        ..PLAIN
    };
    for threads in [vec![busy.clone(), calm.clone()], vec![calm, busy]] {
        let acts = Acts {
            cores: vec![threads],
            accelerators: Vec::new(),
        };
        let longest = machine.longest(acts);
        assert!(longest[&0] < 5_000, "{} ns", longest[&0]);
    }
}

#[test]
fn a_line_without_an_entry_of_the_directory_gets_one_while_others_pass_theirs_on() {
    // One entry, which three accelerators need for one line, and a core for other lines.
    let machine = Machine {
        processor: "llc = { size = \"64 B\", ways = 1, inclusion = \"non-inclusive\", \
                    directory = { entries = 1, ways = 1 } }",
        ..PLAIN
    };
    let acts = Acts {
        cores: vec![vec![vec![Sleep(5_000), Loads(LOCAL + 64, 64, 50, 50, 1)]]],
        accelerators: vec![vec![vec![Adds(LOCAL, 1_000, 4)]]; 3],
    };
    let longest = machine.longest(acts);
    assert!(longest[&0] < 10_000, "{} ns", longest[&0]);
}

#[test]
fn a_request_that_needs_two_cqids_gets_them() {
    // Lines of the first set are modified, so another line of that set takes two CQIDs, one of them for the victim. The
    // first processing element takes each free CQID for lines of the second set, whose victims need none.
    let machine = Machine {
        cache: "size = \"256 B\"\nways = 2\nmisses = 2\nclean_evict = false",
        ..PLAIN
    };
    let second = LOCAL + 64;
    let busy = vec![Sleep(2_000), Loads(second, 128, 1_000, 4_000, 16)];
    let calm = vec![
        Stores(LOCAL, 128, 2, 2, 1),
        Sleep(5_000),
        Stores(LOCAL, 128, 20, 20, 1),
    ];
    for elements in [vec![busy.clone(), calm.clone()], vec![calm, busy]] {
        let acts = Acts {
            cores: Vec::new(),
            accelerators: vec![elements],
        };
        let longest = machine.longest(acts);
        assert!(longest[&1] < 20_000, "{} ns", longest[&1]);
    }
}

/// Memory that is slower than the evictions that devices may send to it: a line each 16 ns.
const SLOW: &str = "{ kind = \"fixed\", latency = \"50 ns\", bandwidth = \"4 GB/s\", queue = 4 }";

/// A device takes modified lines from the last-level cache and evicts them to memory. A core
/// loads other lines now and then.
fn evictions() -> Acts {
    let core = vec![
        Stores(LOCAL, 64, 5_000, 5_000, 16),
        Sleep(40_000),
        Loads(LOCAL + (12 << 20), 64, 1_000, 200, 1),
    ];
    let device = vec![Sleep(110_000), Stores(LOCAL, 64, 5_000, 5_000, 64)];
    Acts {
        cores: vec![vec![core]],
        accelerators: vec![vec![device]],
    }
}

#[test]
fn a_load_waits_for_a_write_buffer_of_evictions_and_not_for_all() {
    let with = |processor| Machine {
        node: SLOW,
        processor,
        cache: "size = \"4 KiB\"\nmisses = 64",
        ..PLAIN
    };
    let few = with("llc = { write_buffer = 32 }").longest(evictions())[&0];
    let many = with("llc = { write_buffer = 65536 }").longest(evictions())[&0];
    println!("{few} ns with few places, {many} ns with many");
    // 32 lines of 16 ns, and less than 300 ns to memory and back. The core's own 16 stores take less.
    assert!(few < 32 * 16 + 300, "{few} ns");
    assert!(
        many > 10 * few,
        "{few} ns with few places, {many} with many"
    );
}

#[test]
fn a_fill_whose_victim_is_modified_gets_a_place_while_a_device_evicts() {
    // Each line that enters this cache evicts a modified one, for the core as well as for the device.
    let machine = Machine {
        node: SLOW,
        processor: "l1 = { size = \"512 B\", ways = 2, access_time = \"2 ns\" }\n\
                    l2 = { size = \"2 KiB\", ways = 4, access_time = \"5 ns\" }\n\
                    llc = { size = \"16 KiB\", ways = 4, write_buffer = 4 }",
        cache: "size = \"4 KiB\"\nmisses = 64",
        ..PLAIN
    };
    let longest = machine.longest(Acts {
        cores: vec![vec![vec![Stores(LOCAL + (8 << 20), 64, 4_000, 400, 1)]]],
        accelerators: vec![vec![vec![Stores(LOCAL, 64, 100_000, 5_000, 64)]]],
    });
    println!("{longest:?}");
    // The fill waits for an entry and for memory, each time behind 64 requests of the device: a
    // read, the device's eviction, and that of the last-level cache.
    assert!(longest[&0] < 2 * 64 * 3 * 16, "{} ns", longest[&0]);
}

#[test]
fn a_load_of_a_devices_memory_waits_for_a_write_buffer_of_its_own_evictions() {
    // The device stores to its own memory all the time, and its cache is small.
    let longest = |device| {
        let machine = Machine {
            node: SLOW,
            device,
            ..PLAIN
        };
        let core = vec![Sleep(20_000), Loads(128 << 20, 64, 1_000, 50, 1)];
        let acts = Acts {
            cores: vec![vec![core]],
            accelerators: vec![vec![vec![Stores(0, 64, 1_000_000, 10_000, 64)]]],
        };
        machine.longest(acts)[&0]
    };
    let few = longest("dmc = { size = \"16 KiB\", write_buffer = 2 }");
    let many = longest("dmc = { size = \"16 KiB\", write_buffer = 65536 }");
    println!("{few} ns with few places, {many} ns with many");
    // 64 fills and 2 lines of 16 ns, and less than 500 ns to the device and back.
    assert!(few < 66 * 16 + 500, "{few} ns");
    assert!(many > 2 * few, "{few} ns with few places, {many} with many");
}

#[test]
fn dma_writes_beyond_their_buffer_wait_before_the_host() {
    // 2,048 lines, of which `lines` are in the host at once, each for at least the root complex's 100 ns.
    for (lines, processor) in [(4, "io_writes = 4"), (64, "io_writes = 64")] {
        let acts = Acts {
            cores: Vec::new(),
            accelerators: vec![vec![vec![Writes(LOCAL, 2_048 * 64)]]],
        };
        let time = Machine { processor, ..PLAIN }.time(acts);
        let bound = 2_048.0 / f64::from(lines) * 100.0;
        assert!(time > bound, "{lines}: {time} ns, not above {bound}");
        assert!(time < 2.0 * bound + 5_000.0, "{lines}: {time} ns");
    }
}

#[test]
fn a_host_at_the_end_of_a_chain_is_not_starved_by_those_before_it() {
    // One credit of each class, one device at the other end, and three hosts nearer to it that send requests all the
    // time. At each switch the far host's request waits for one message of each other input.
    for arbitration in ["round-robin", "age"] {
        let near =
            "issue = { outstanding = 64 }\nrequests = 4000\nworkload = { kind = \"uniform\" }\n";
        let far =
            "issue = { outstanding = 1 }\nrequests = 100\nworkload = { kind = \"uniform\" }\n";
        let mut text = format!(
            "name = \"chain\"\n[measure]\nwarmup_requests = 0\n[fabric]\ntopology = {{ kind = \"chain\", switches = 4, placement = \"paired\" }}\n\
             link = {{ credits = {{ m2s_req = 1, m2s_rwd = 1, s2m_ndr = 1, s2m_drs = 1 }} }}\n\
             [fabric.switch]\narbitration = \"{arbitration}\"\n"
        );
        for number in 0..4 {
            let what = if number == 3 { far } else { near };
            text += &format!("[[hosts]]\nname = \"h{number}\"\n{what}");
        }
        text += "[[devices]]\nname = \"memory\"\n";
        let (_, rows) = rows(&plan(&text, &[]), 1);
        let others: Vec<_> = rows.iter().filter(|row| row.requester < 3).collect();
        let far = rows.iter().filter(|row| row.requester == 3);
        let overtaken = far.map(|far| {
            let begins = |row: &&&RequestRow| row.issued_ps > far.issued_ps;
            let ends = |row: &&&RequestRow| row.completed_ps < far.completed_ps;
            others.iter().filter(begins).filter(ends).count()
        });
        // Each of the others has 64 requests in flight, and takes one turn for each turn of
        // the far host at each switch.
        let most = overtaken.max().unwrap();
        assert!(most <= 3 * 64, "{arbitration}: {most}");
    }
}
