//! Properties that every kernel made of threads has, and tests of each kernel.

use cxlab_engine::units::Hpa;
use cxlab_workload::pattern::CATALOG;
use cxlab_workload::thread::{
    AtomicKind, Direction, ExecutionPlace, NextAction, Order, SCRATCH_BASE, Thread, ThreadOp,
    ThreadedKernel, Token, run_kernel,
};
use cxlab_workload::{Image, LOCAL_BASE};
use serde_json::{Value, json};

use super::rpc::PIPELINES;
use super::{count, kernel, ran, refused, source_context, system, threads, with};

const PATTERNS: [&str; 8] = [
    "rand",
    "stride1",
    "stride-n",
    "ptr-chase",
    "central",
    "scatter",
    "gather",
    "sg",
];

/// Parameters of CircusTent on a small array, with the given further parameters.
fn tent(pattern: &str, more: Value) -> Value {
    let params = json!({"pattern": pattern, "iterations": 20, "memory": "64 KiB"});
    with(params, &more)
}

/// Small parameters of every kernel.
fn small() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for pattern in PATTERNS {
        for operation in ["add", "cas"] {
            let with = |more| {
                let params = tent(pattern, json!({"operation": operation}));
                ("circus-tent", with(params, &more))
            };
            // A small array, so that the threads access the same words.
            let crowded = json!({"pes": 3, "iterations": 8, "memory": "2 KiB"});
            let posted = json!({"interface": "pcie", "posted_writes": 4, "iterations": 8,
                "memory": "2 KiB"});
            all.extend([
                with(json!({})),
                with(json!({"pes": 5, "data": "cxl", "cycles": 3})),
                with(crowded),
                with(json!({"run_on": "cores"})),
                with(json!({"interface": "pcie", "pes": 4})),
                with(posted),
            ]);
            if pattern != "ptr-chase" {
                all.push(with(json!({"index": "local"})));
            }
        }
    }
    for tier in ["memory", "llc", "hmc", "untouched"] {
        for access in ["load", "store"] {
            for outstanding in [1, 16] {
                let params = json!({"tier": tier, "access": access, "repeats": 3,
                    "outstanding": outstanding});
                all.push(("load-store-unit", params));
            }
        }
    }
    for (direction, method) in PIPELINES {
        for more in [
            json!({"bench": 1, "repeats": 2, "ring": 3, "batch": 2}),
            json!({"bench": 2, "repeats": 2, "ring": 3, "batch": 2}),
            json!({"ring": 1, "outstanding": 1, "buffers": 3, "copies": 1}),
        ] {
            let params = json!({"direction": direction, "method": method});
            all.push(("rpc", with(params, &more)));
        }
    }
    for way in ["read", "write"] {
        for outstanding in [1, 4] {
            let params =
                json!({"way": way, "outstanding": outstanding, "messages": 40, "bytes": "200 B"});
            all.push(("dma-transfers", params));
        }
    }
    for access in ["8 B", "64 B"] {
        let params = json!({"array": "4 KiB", "access": access, "repeats": 3});
        all.push(("stream-threads", params));
    }
    let params = json!({"array": "8 KiB", "loops": ["triad", "copy", "triad"], "outstanding": 1});
    all.push(("stream-threads", params));
    for model in ["cohet", "explicit", "unified"] {
        for more in [
            json!({"elements": 5000}),
            json!({"elements": 1, "chunks": 1}),
            json!({"elements": 3000, "page": "4 KiB", "chunks": 3}),
        ] {
            all.push(("axpy", with(json!({"model": model}), &more)));
        }
    }
    all
}

#[test]
fn every_kernel_comes_to_the_right_end_in_every_order() {
    for (name, params) in small() {
        for elements in [1, 3] {
            let ctx = system(2, 1, elements);
            let kernel = || kernel(name, &params, &ctx);
            run_kernel(kernel().as_ref(), &ctx, Order::Sequential)
                .unwrap_or_else(|stuck| panic!("{name} {params}: {stuck}"));
            for seed in 0..3 {
                run_kernel(kernel().as_ref(), &ctx, Order::Random(seed))
                    .unwrap_or_else(|stuck| panic!("{name} {params} by seed {seed}: {stuck}"));
            }
        }
    }
}

#[test]
fn every_kernel_made_of_threads_says_so_and_the_others_refuse() {
    let ctx = system(1, 1, 1);
    let lines = source_context(0, 1);
    for entry in CATALOG {
        let workload = (entry.build)(&json!({})).unwrap();
        if workload.needs_threads() {
            assert!(workload.threads(&ctx).is_ok(), "{}", entry.name);
            let error = workload.source(&lines).err().unwrap().to_string();
            assert!(error.contains("threads share memory"), "{error}");
            assert!(workload.program(&lines).is_err());
        } else {
            let error = workload.threads(&ctx).err().unwrap().to_string();
            assert!(error.contains("kernels made of threads"), "{error}");
        }
    }
}

#[test]
fn a_lost_update_is_found() {
    for pattern in PATTERNS.iter().filter(|pattern| **pattern != "ptr-chase") {
        let more = json!({"pes": 4, "iterations": 8, "memory": "4 KiB"});
        let ctx = system(0, 1, 4);
        let kernel = kernel("circus-tent", &tent(pattern, more), &ctx);
        let image = ran(kernel.as_ref(), &ctx, Order::Random(1));
        let mut words = (0..512).map(|word| Hpa(LOCAL_BASE.0 + 8 * word));
        let reached = words.find(|word| image.read(*word, 8) != 0).unwrap();
        image.fetch_add(reached, 8, u64::MAX);
        let error = kernel.check(&image).unwrap_err();
        assert!(error.contains("word"), "{pattern}: {error}");
    }
}

#[test]
fn an_executor_that_loses_updates_is_found() {
    let ctx = system(0, 1, 2);
    for pattern in PATTERNS.iter().filter(|pattern| **pattern != "ptr-chase") {
        let kernel = kernel("circus-tent", &tent(pattern, json!({})), &ctx);
        let image = Image::new();
        kernel.prepare(&image);
        let mut atomics = 0;
        for mut thread in threads(kernel.as_ref(), &ctx) {
            while let Some((token, op)) = only(&mut thread) {
                let ThreadOp::Atomic { addr, .. } = op else {
                    thread.complete(token, 0);
                    continue;
                };
                atomics += 1;
                let old = image.read(Hpa(addr), 8);
                if atomics % 7 != 0 {
                    op.perform(&image, Hpa(addr));
                }
                thread.complete(token, old);
            }
        }
        assert!(kernel.check(&image).is_err(), "{pattern}");
    }
}

/// The next operation of a thread without an operation in flight; `None` at its end.
fn only(thread: &mut Thread) -> Option<(Token, ThreadOp)> {
    match thread.next_op() {
        NextAction::Op(token, op, _) => Some((token, op)),
        NextAction::Blocked => panic!("it waits for nothing"),
        NextAction::Finished => None,
    }
}

/// The operations of the only thread of a place, executed one after the other.
fn operations(kernel: &dyn ThreadedKernel, place: ExecutionPlace) -> Vec<ThreadOp> {
    let image = Image::new();
    kernel.prepare(&image);
    let mut threads = kernel.threads(place);
    assert_eq!(threads.len(), 1);
    let (mut ops, mut under_way) = (Vec::new(), std::collections::VecDeque::new());
    loop {
        match threads[0].next_op() {
            NextAction::Op(token, op, _) => {
                ops.push(op);
                under_way.push_back((token, op));
            }
            NextAction::Blocked => {
                let (token, op) = under_way.pop_front().unwrap();
                threads[0].complete(token, perform(&image, op));
            }
            NextAction::Finished => return ops,
        }
    }
}

fn perform(image: &Image, op: ThreadOp) -> u64 {
    match op {
        ThreadOp::Dma {
            direction,
            host_addr,
            device_addr,
            bytes,
        } => {
            let (from, to) = match direction {
                Direction::ToDevice => (host_addr, device_addr),
                _ => (device_addr, host_addr),
            };
            image.copy(Hpa(from), Hpa(to), bytes);
            image.read(Hpa(to), 8)
        }
        ThreadOp::Load { addr, .. }
        | ThreadOp::Store { addr, .. }
        | ThreadOp::Atomic { addr, .. } => op.perform(image, Hpa(addr)),
        _ => 0,
    }
}

const fn processing_element(element: usize) -> ExecutionPlace {
    let accelerator = 0;
    ExecutionPlace::Element {
        accelerator,
        element,
    }
}

#[test]
fn a_pattern_makes_the_operations_of_the_benchmark() {
    let ctx = system(0, 1, 1);
    let index = LOCAL_BASE.0 + (64 << 10);
    let array = |op: &ThreadOp| matches!(op, ThreadOp::Atomic { addr, .. } if *addr < index);
    let indices = |op: &ThreadOp| matches!(op, ThreadOp::Atomic { addr, .. } if *addr >= index);
    let loads = |op: &ThreadOp| matches!(op, ThreadOp::Load { .. });
    let counted = |op: &ThreadOp| match op {
        ThreadOp::Count { operations } => *operations as usize,
        _ => 0,
    };
    // Atomic operations on the array and on indices, and loads, of one iteration.
    let table = [
        ("rand", [1, 0, 0], [1, 0, 1]),
        ("stride1", [1, 0, 0], [1, 0, 1]),
        ("stride-n", [1, 0, 0], [1, 0, 1]),
        ("ptr-chase", [0, 1, 0], [0, 1, 1]),
        ("central", [1, 0, 0], [1, 0, 1]),
        ("scatter", [2, 1, 0], [2, 1, 3]),
        ("gather", [2, 1, 0], [2, 1, 3]),
        ("sg", [2, 2, 0], [2, 2, 4]),
    ];
    for (pattern, add, cas) in table {
        for (operation, expected) in [("add", add), ("cas", cas)] {
            let params = tent(pattern, json!({"operation": operation}));
            let kernel = kernel("circus-tent", &params, &ctx);
            let ops = operations(kernel.as_ref(), processing_element(0));
            let found = [count(&ops, array), count(&ops, indices), count(&ops, loads)];
            assert_eq!(found, expected.map(|one| 20 * one), "{pattern} {operation}");
            let counted: usize = ops.iter().map(counted).sum();
            assert_eq!(counted, found[0] + found[1], "{pattern} {operation}");
        }
    }
}

#[test]
fn strides_and_the_central_word_are_where_the_benchmark_has_them() {
    let addresses = |pattern, elements, element| -> Vec<u64> {
        let ctx = system(0, 1, elements);
        let kernel = kernel("circus-tent", &tent(pattern, json!({"stride": 9})), &ctx);
        let ops = operations(kernel.as_ref(), processing_element(element));
        let atomic = |op: &ThreadOp| match op {
            ThreadOp::Atomic {
                addr,
                kind: AtomicKind::FetchAdd,
                ..
            } => Some(addr - LOCAL_BASE.0),
            _ => None,
        };
        ops.iter().filter_map(atomic).collect()
    };
    assert_eq!(addresses("stride1", 1, 0)[..3], [0, 8, 16]);
    assert_eq!(addresses("stride1", 2, 1)[..3], [160, 168, 176]);
    assert_eq!(addresses("stride-n", 2, 1)[..2], [20 * 72, 21 * 72]);
    assert_eq!(addresses("central", 2, 1), [0; 20]);
}

/// Number of DMA reads over PCIe that began while any write was in flight, and while a write to the
/// same word was in flight.
fn reads_beside_writes(pattern: &str, posted: u64) -> (usize, usize) {
    let more = json!({"interface": "pcie", "posted_writes": posted});
    let kernel = kernel("circus-tent", &tent(pattern, more), &system(0, 1, 1));
    let mut thread = kernel.threads(processing_element(0)).pop().unwrap();
    let image = Image::new();
    kernel.prepare(&image);
    // The word that a DMA write goes to.
    let written = |(_, op): &(Token, ThreadOp)| match op {
        ThreadOp::Dma {
            direction: Direction::ToHost,
            host_addr,
            ..
        } => Some(*host_addr),
        _ => None,
    };
    let (mut beside, mut same) = (0, 0);
    let mut transfers = Vec::new();
    let mut open: Vec<(Token, ThreadOp)> = Vec::new();
    loop {
        match thread.next_op() {
            NextAction::Op(token, op, _) => {
                if let ThreadOp::Dma {
                    direction,
                    host_addr,
                    bytes: 8,
                    ..
                } = op
                {
                    let writes: Vec<u64> = open.iter().filter_map(written).collect();
                    let read = direction == Direction::ToDevice;
                    beside += usize::from(read && !writes.is_empty());
                    same += usize::from(writes.contains(&host_addr));
                    transfers.push(direction);
                }
                open.push((token, op));
            }
            // The writes are completed last.
            NextAction::Blocked => {
                let other = open.iter().position(|one| written(one).is_none());
                let (token, op) = open.remove(other.unwrap_or(0));
                thread.complete(token, perform(&image, op));
            }
            NextAction::Finished => break,
        }
    }
    let pair = [Direction::ToDevice, Direction::ToHost];
    assert_eq!(transfers, pair.repeat(20));
    kernel.check(&image).unwrap();
    (beside, same)
}

#[test]
fn an_operation_over_pcie_is_two_transfers_and_the_next_on_its_word_waits_for_the_second() {
    assert_eq!(reads_beside_writes("stride1", 0), (0, 0));
    assert_eq!(reads_beside_writes("central", 0), (0, 0));
    assert_eq!(reads_beside_writes("stride1", 4), (19, 0));
    assert_eq!(reads_beside_writes("central", 4), (0, 0));
}

#[test]
fn the_three_models_of_axpy_differ_in_what_crosses_by_dma() {
    let moved = |model: &str| {
        let ctx = system(1, 1, 2);
        let params = json!({"model": model, "elements": 4096, "page": "4 KiB"});
        let kernel = kernel("axpy", &params, &ctx);
        let watched = ran(kernel.as_ref(), &ctx, Order::Sequential);
        // Data in the accelerator's own memory have been copied there.
        let own = SCRATCH_BASE + (1 << 30);
        let is_here = |at: &u64| watched.read(Hpa(own + at * 8), 8) != 0;
        (0..2 * 4096).filter(is_here).count()
    };
    assert_eq!(moved("cohet"), 0);
    assert_eq!(moved("explicit"), 8192);
    assert_eq!(moved("unified"), 8192);
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let refused = |ctx, rows: &[&str]| refused(rows, |one| one.threads(&ctx).map(drop));
    let rows = [
        r#"circus-tent {"pattern": "ptr-chase", "index": "local"} => index: found `local`"#,
        r#"circus-tent {"pattern": "stride1", "iterations": 20, "memory": "128 B"} => memory: more than 19"#,
        r#"circus-tent {"interface": "pcie", "run_on": "cores"} => interface: cores have no DMA"#,
        r#"circus-tent {"memory": "1 GiB"} => memory: found data of"#,
        r#"load-store-unit {"lines": 0} => lines: found 0"#,
        r#"stream-threads {"array": "4100 B"} => array: found 4100 B"#,
        r#"stream-threads {"array": "1 GiB"} => array: found data of"#,
        r#"stream-threads {"loops": []} => loops: found 0"#,
        r#"axpy {"page": "5000 B"} => page: found 5 kB"#,
    ];
    refused(system(1, 1, 1), &rows);
    let tier = r#"load-store-unit {"tier": "llc"} => tier: without a core"#;
    refused(system(0, 1, 1), &[tier, "axpy {} => kind: without both"]);
    let none = "circus-tent {} => run_on: found `accelerators`, of which this host has none; allowed: `cores`";
    refused(system(4, 0, 0), &[none]);
    let several = r#"circus-tent {"interface": "pcie"} => interface: several accelerators"#;
    refused(system(0, 2, 1), &[several]);
}
