//! Threads that access addresses without memory. Every request gets a response, and the run ends
//! with an error that names such an address.
#![allow(clippy::unwrap_used)]

use cxlab_tests::script::{self, Script};
use cxlab_tests::try_run;
use cxlab_workload::thread::{Bases, Direction, ExecutionPlace, Thread, ThreadOp, scratch};
use cxlab_workload::{Image, LOCAL_BASE};

/// Operation of a thread at the address.
#[derive(Clone, Copy, Debug)]
enum Act {
    Load,
    LoadToStore,
    Store,
    StoreLine,
    Add,
    Push,
    Flush,
    WriteBack,
    Prefetch,
    DmaToHost,
    DmaToDevice,
}

use Act::*;

/// Operations that need memory. A core has no DMA.
const NEEDS: [Act; 9] = [
    Load,
    LoadToStore,
    Store,
    StoreLine,
    Add,
    Push,
    Flush,
    DmaToHost,
    DmaToDevice,
];

/// Operations that have no effect without memory.
const HINTS: [Act; 2] = [WriteBack, Prefetch];

#[derive(Clone)]
struct Strays {
    act: Act,
    addr: u64,
    on_core: bool,
}

impl Script for Strays {
    fn threads(&self, _: Bases, place: ExecutionPlace) -> Vec<Thread> {
        let on_core = matches!(place, ExecutionPlace::Core { .. });
        let Strays { act, addr, .. } = *self;
        let acts = on_core == self.on_core;
        vec![Thread::new(move |t| async move {
            if !acts {
                return;
            }
            // Several operations at once, and one more after them.
            for _ in 0..2 {
                match act {
                    Load => {
                        let loads = (0..4).map(|word| t.load(addr + 8 * word));
                        for load in loads.collect::<Vec<_>>() {
                            load.await;
                        }
                    }
                    LoadToStore => drop(t.read_range_to_store(addr, 8).await),
                    Store => drop(t.store(addr, 1).await),
                    StoreLine => drop(t.write_range(addr, &[1; 128]).await),
                    Add => drop(t.fetch_add(addr, 1).await),
                    Push => drop(t.push(addr, &[1; 64]).await),
                    Flush => drop(t.flush(addr).await),
                    WriteBack => drop(t.issue(ThreadOp::WriteBack { addr }).await),
                    Prefetch => drop(t.issue(ThreadOp::Prefetch { addr }).await),
                    DmaToHost => drop(t.dma(Direction::ToHost, addr, scratch(0), 200).await),
                    DmaToDevice => drop(t.dma(Direction::ToDevice, addr, scratch(0), 200).await),
                }
            }
        })]
    }

    fn check(&self, _: &Image) -> Result<(), String> {
        Ok(())
    }
}

/// Results of the run on one thread and on two.
fn simulate(act: Act, addr: u64, on_core: bool, cache: &str) -> [Result<(), String>; 2] {
    let text = format!(
        "name = \"stray\"\n[fabric]\ntopology = {{ kind = \"direct\" }}\n[[hosts]]\nname = \"host\"\n\
         workload = {{ kind = \"external\", name = \"script\" }}\nnodes = [{{ capacity = \"1 MiB\" }}]\n\
         processor = {{ cores = 1 }}\n[[accelerators]]\nname = \"xpu\"\nmemory = {{ capacity = \"256 MiB\" }}\n\
         device = {{ cache = {{ {cache} }} }}\n",
    );
    let plan = script::plan(&text, Strays { act, addr, on_core });
    [1, 2].map(|threads: usize| {
        let ended = try_run(&plan, threads);
        ended.map(|_| ()).map_err(|error| format!("{error:?}"))
    })
}

/// Addresses after the host's memory, and between that and the device's.
const NOWHERE: [u64; 2] = [LOCAL_BASE.0 + (1 << 30), 1 << 45];

fn says_where(act: Act, on_core: bool, cache: &str) {
    for addr in NOWHERE {
        for ended in simulate(act, addr, on_core, cache) {
            let what = format!("{act:?} at {addr:#x} with {cache}: {ended:?}");
            let error = ended.expect_err(&what);
            let expected = "where there is no memory";
            assert!(error.contains(expected), "{what}");
            assert!(error.contains(&format!("{addr:#x}")), "{what}");
        }
    }
}

#[test]
fn whatever_a_device_asks_where_there_is_no_memory_is_answered_by_an_error() {
    for act in NEEDS {
        says_where(act, false, "");
    }
    for request in ["RdShared", "RdCurr"] {
        says_where(Load, false, &format!("load_request = \"{request}\""));
    }
    for request in ["ItoMWr", "WrCur", "WrInv", "WOWrInv"] {
        for act in [Store, StoreLine, Push] {
            says_where(act, false, &format!("store_request = \"{request}\""));
        }
    }
}

#[test]
fn whatever_a_core_asks_where_there_is_no_memory_ends_the_run() {
    for act in [Load, LoadToStore, Store, StoreLine, Add] {
        says_where(act, true, "");
    }
}

#[test]
fn hints_are_no_mistake() {
    for act in HINTS {
        for addr in NOWHERE {
            for on_core in [false, true] {
                let ended = simulate(act, addr, on_core, "");
                let what = format!("{act:?} at {addr:#x}, core {on_core}");
                assert_eq!(ended, [Ok(()), Ok(())], "{what}");
            }
        }
    }
}

#[test]
fn memory_that_there_is_is_no_error() {
    for addr in [0, LOCAL_BASE.0] {
        for act in NEEDS.into_iter().chain(HINTS) {
            let ended = simulate(act, addr, false, "");
            assert_eq!(ended, [Ok(()), Ok(())], "{act:?} at {addr:#x}");
        }
    }
}
