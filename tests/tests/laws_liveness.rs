//! Laws of waiting: a request waits for a number of others that the system bounds, however long those
//! others go on. Each test has somebody who asks all the time, and somebody who asks now and then and
//! may not wait until the first has finished. docs/liveness.md has the table of who waits for whom.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use cxlab_engine::Monitor;
use cxlab_host::RequestRow;
use cxlab_protocol::coherence::hold::Turns;
use cxlab_system::diagnostics::{Document, validate};
use cxlab_system::plan::{Files, Plan};
use cxlab_system::run::{RunOptions, run};
use cxlab_system::scenario::{self, Scenario};
use cxlab_tests::script::{Script, externals};
use cxlab_workload::thread::{Bases, Handle, Place, Thread, Window};

/// First address of the host's own memory; that of devices begins at 0.
const LOCAL: u64 = 1 << 51;

/// What a thread does.
#[derive(Clone, Copy)]
enum Act {
    /// Nothing, for so many cycles of 1 ns.
    Sleep(u32),
    /// Additions to a word: how many, and how many at once.
    Adds(u64, u64, usize),
    /// Loads of lines, `stride` bytes apart, from the first over and over: first address, stride, lines, how
    /// many loads, and how many at once.
    Loads(u64, u64, u64, u64, usize),
    /// Stores likewise.
    Stores(u64, u64, u64, u64, usize),
}

use Act::{Adds, Loads, Sleep, Stores};

/// What the threads of each core do, and those of each accelerator's elements.
#[derive(Clone, Default)]
struct Acts {
    cores: Vec<Vec<Vec<Act>>>,
    accelerators: Vec<Vec<Vec<Act>>>,
}

impl Script for Acts {
    fn threads(&self, _: Bases, place: Place) -> Vec<Thread> {
        let threads = match place {
            Place::Core { core } => self.cores.get(core).cloned().unwrap_or_default(),
            Place::Element {
                accelerator,
                element,
            } => {
                let elements = &self.accelerators[accelerator];
                elements.get(element).cloned().into_iter().collect()
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
        }
    }
}

/// A host and its accelerators. `processor`, `device` and `cache` are further parameters.
struct Machine {
    processor: &'static str,
    device: &'static str,
    cache: &'static str,
    turns: Turns,
}

const PLAIN: Machine = Machine {
    processor: "",
    device: "",
    cache: "",
    turns: Turns::HostFirst,
};

impl Machine {
    fn plan(&self, acts: Acts) -> Plan {
        let elements = acts.accelerators.iter().map(Vec::len).max().unwrap_or(1);
        let mut text = format!(
            "name = \"waits\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n\
             link = {{ transmission = \"packet\", bandwidth = \"1 TB/s\" }}\n\
             [[hosts]]\nname = \"host\"\nworkload = {{ kind = \"external\", name = \"script\" }}\n\
             nodes = [{{ capacity = \"16 MiB\" }}]\n\
             [hosts.processor]\ncores = {}\ncycle = \"1 ns\"\n{}\n",
            acts.cores.len().max(1),
            self.processor
        );
        for number in 0..acts.accelerators.len() {
            text += &format!(
                "[[accelerators]]\nname = \"xpu{number}\"\nmemory = {{ capacity = \"256 MiB\" }}\n\
                 [accelerators.device]\ncycle = \"1 ns\"\nelements = {elements}\n{}\n\
                 [accelerators.device.cache]\n{}\n",
                self.device, self.cache
            );
        }
        let document = Document::parse("waits.toml", &text).unwrap();
        let wrong = validate(&document, &scenario::schema());
        assert!(wrong.is_empty(), "{wrong:?}\n{text}");
        let mut scenario: Scenario = serde_json::from_value(document.value().clone()).unwrap();
        for accelerator in &mut scenario.accelerators {
            accelerator.device.turns = self.turns;
        }
        Plan::with_externals(scenario, Files::default(), &externals(acts))
            .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
    }

    /// The longest request of the host, and of each accelerator, in nanoseconds.
    fn longest(&self, acts: Acts) -> BTreeMap<u16, u64> {
        let plan = self.plan(acts);
        let mut longest = BTreeMap::new();
        let mut rows = |rows: Vec<RequestRow>| {
            for row in rows {
                let time = (row.completed_ps - row.issued_ps) / 1000;
                let most: &mut u64 = longest.entry(row.requester).or_default();
                *most = time.max(*most);
            }
            Ok(())
        };
        let options = RunOptions {
            seed: 1,
            threads: 1,
            monitor: &Monitor::default(),
            rows: Some(&mut rows),
        };
        run(&plan, options).unwrap();
        longest
    }
}

/// Accelerators that add to one word, each with so many additions at once.
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
            // A turn is a way to the home agent and back, and a snoop and back: less than 1 us. An addition
            // waits for those of its own element before it, a turn of each accelerator for each.
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
