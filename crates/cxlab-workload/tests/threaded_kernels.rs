//! Properties that every kernel made of threads has, and tests of each kernel.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

use std::collections::BTreeMap;
use std::path::Path;

use cxlab_engine::catalog::find;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_workload::pattern::CATALOG;
use cxlab_workload::thread::{
    AtomicKind, Bases, Direction, Next, Order, Place, SCRATCH_BASE, Thread, ThreadContext,
    ThreadOp, ThreadedKernel, Token, run_kernel, run_threads,
};
use cxlab_workload::{Image, LOCAL_BASE, SourceContext, Workload, WorkloadError};
use serde_json::{Value, json};

fn context(cores: usize, accelerators: usize, elements: usize) -> ThreadContext {
    ThreadContext {
        seed: 7,
        draws: 7,
        span: Bytes(1 << 30),
        bases: Bases::PHYSICAL,
        local: Bytes(1 << 28),
        cores,
        accelerators,
        elements,
    }
}

fn build(name: &str, params: &Value) -> Box<dyn Workload> {
    (find(CATALOG, name).unwrap().build)(params).unwrap()
}

fn kernel(name: &str, params: &Value, ctx: &ThreadContext) -> Box<dyn ThreadedKernel> {
    build(name, params).threads(ctx).unwrap()
}

fn message(name: &str, params: &Value, ctx: &ThreadContext) -> String {
    let built = (find(CATALOG, name).unwrap().build)(params).map_err(WorkloadError::from);
    built
        .and_then(|workload| workload.threads(ctx))
        .err()
        .unwrap()
        .to_string()
}

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

const PIPELINES: [(&str, &str); 5] = [
    ("deserialize", "rpc-nic"),
    ("deserialize", "nc-p"),
    ("serialize", "rpc-nic"),
    ("serialize", "cxl-mem"),
    ("serialize", "cxl-cache"),
];

/// Parameters of CircusTent on a small array, with the given further parameters.
fn tent(pattern: &str, more: Value) -> Value {
    let mut params = json!({"pattern": pattern, "iterations": 20, "memory": "64 KiB"});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    params
}

/// Small parameters of every kernel.
fn small() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for pattern in PATTERNS {
        for operation in ["add", "cas"] {
            let with = |more: Value| {
                let mut params = tent(pattern, json!({"operation": operation}));
                params
                    .as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                ("circus-tent", params)
            };
            all.push(with(json!({})));
            all.push(with(json!({"pes": 5, "data": "cxl", "cycles": 3})));
            // A small array, so that the threads access the same words.
            all.push(with(json!({"pes": 3, "iterations": 8, "memory": "2 KiB"})));
            all.push(with(json!({"run_on": "cores"})));
            all.push(with(json!({"interface": "pcie", "pes": 4})));
            all.push(with(json!({"interface": "pcie", "posted_writes": 4, "iterations": 8, "memory": "2 KiB"})));
            if pattern != "ptr-chase" {
                all.push(with(json!({"index": "local"})));
            }
        }
    }
    for tier in ["memory", "llc", "hmc", "untouched"] {
        for access in ["load", "store"] {
            let params = json!({"tier": tier, "access": access, "repeats": 3});
            all.push(("load-store-unit", params.clone()));
            let mut wide = params;
            wide["outstanding"] = json!(16);
            all.push(("load-store-unit", wide));
        }
    }
    for (direction, method) in PIPELINES {
        for bench in [1, 2] {
            let params = json!({"direction": direction, "method": method, "bench": bench, "repeats": 2, "ring": 3, "batch": 2});
            all.push(("rpc", params));
        }
        let params = json!({"direction": direction, "method": method, "ring": 1, "outstanding": 1, "buffers": 3, "copies": 1});
        all.push(("rpc", params));
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
        all.push(("axpy", json!({"model": model, "elements": 5000})));
        all.push(("axpy", json!({"model": model, "elements": 1, "chunks": 1})));
        all.push((
            "axpy",
            json!({"model": model, "elements": 3000, "page": "4 KiB", "chunks": 3}),
        ));
    }
    all
}

#[test]
fn every_kernel_comes_to_the_right_end_in_every_order() {
    for (name, params) in small() {
        for elements in [1, 3] {
            let ctx = context(2, 1, elements);
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
    let ctx = context(1, 1, 1);
    let lines = SourceContext {
        span: ctx.span,
        local: ctx.local,
        requester: 0,
        requesters: 1,
        scenario_dir: Path::new("."),
        trace_override: None,
    };
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

/// Runs a kernel and returns it with its memory.
fn ran(name: &str, params: &Value, ctx: &ThreadContext) -> (Box<dyn ThreadedKernel>, Image) {
    let (kernel, image) = (kernel(name, params, ctx), Image::new());
    kernel.prepare(&image);
    let threads = ctx
        .places()
        .flat_map(|place| kernel.threads(place))
        .collect();
    run_threads(threads, &image, Order::Random(1)).unwrap();
    kernel.check(&image).unwrap();
    (kernel, image)
}

#[test]
fn a_lost_update_is_found() {
    for pattern in PATTERNS.iter().filter(|pattern| **pattern != "ptr-chase") {
        let params = tent(
            pattern,
            json!({"pes": 4, "iterations": 8, "memory": "4 KiB"}),
        );
        let (kernel, image) = ran("circus-tent", &params, &context(0, 1, 4));
        let mut words = (0..512).map(|word| Hpa(LOCAL_BASE.0 + 8 * word));
        let reached = words.find(|word| image.read(*word, 8) != 0).unwrap();
        image.fetch_add(reached, 8, u64::MAX);
        let error = kernel.check(&image).unwrap_err();
        assert!(error.contains("word"), "{pattern}: {error}");
    }
}

#[test]
fn an_executor_that_loses_updates_is_found() {
    let ctx = context(0, 1, 2);
    for pattern in PATTERNS.iter().filter(|pattern| **pattern != "ptr-chase") {
        let (kernel, image) = (
            kernel("circus-tent", &tent(pattern, json!({})), &ctx),
            Image::new(),
        );
        kernel.prepare(&image);
        let mut atomics = 0;
        for mut thread in ctx.places().flat_map(|place| kernel.threads(place)) {
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
        Next::Op(token, op, _) => Some((token, op)),
        Next::Blocked => panic!("it waits for nothing"),
        Next::Finished => None,
    }
}

/// The operations of the only thread of a place, executed one after the other.
fn operations(kernel: &dyn ThreadedKernel, place: Place) -> Vec<ThreadOp> {
    let image = Image::new();
    kernel.prepare(&image);
    let mut threads = kernel.threads(place);
    assert_eq!(threads.len(), 1);
    let (mut ops, mut under_way) = (Vec::new(), std::collections::VecDeque::new());
    loop {
        match threads[0].next_op() {
            Next::Op(token, op, _) => {
                ops.push(op);
                under_way.push_back((token, op));
            }
            Next::Blocked => {
                let (token, op) = under_way.pop_front().unwrap();
                threads[0].complete(token, perform(&image, op));
            }
            Next::Finished => return ops,
        }
    }
}

fn perform(image: &Image, op: ThreadOp) -> u64 {
    match op {
        ThreadOp::Dma {
            direction: Direction::ToDevice,
            host_addr,
            device_addr,
            bytes,
        } => {
            image.copy(Hpa(host_addr), Hpa(device_addr), bytes);
            image.read(Hpa(device_addr), 8)
        }
        ThreadOp::Dma {
            host_addr,
            device_addr,
            bytes,
            ..
        } => {
            image.copy(Hpa(device_addr), Hpa(host_addr), bytes);
            0
        }
        ThreadOp::Load { addr, .. }
        | ThreadOp::Store { addr, .. }
        | ThreadOp::Atomic { addr, .. } => op.perform(image, Hpa(addr)),
        _ => 0,
    }
}

const ELEMENT: Place = Place::Element {
    accelerator: 0,
    element: 0,
};

#[test]
fn a_pattern_makes_the_operations_of_the_benchmark() {
    let ctx = context(0, 1, 1);
    // Atomic operations on the array and on indices, and loads, of one iteration.
    let table = [
        ("rand", (1, 0), (1, 0, 1)),
        ("stride1", (1, 0), (1, 0, 1)),
        ("stride-n", (1, 0), (1, 0, 1)),
        ("ptr-chase", (0, 1), (0, 1, 1)),
        ("central", (1, 0), (1, 0, 1)),
        ("scatter", (2, 1), (2, 1, 3)),
        ("gather", (2, 1), (2, 1, 3)),
        ("sg", (2, 2), (2, 2, 4)),
    ];
    for (pattern, add, cas) in table {
        for (operation, expected) in [("add", (add.0, add.1, 0)), ("cas", cas)] {
            let params = tent(pattern, json!({"operation": operation}));
            let ops = operations(kernel("circus-tent", &params, &ctx).as_ref(), ELEMENT);
            let index = LOCAL_BASE.0 + (64 << 10);
            let count =
                |wanted: &dyn Fn(&ThreadOp) -> bool| ops.iter().filter(|op| wanted(op)).count();
            let array =
                |op: &ThreadOp| matches!(op, ThreadOp::Atomic { addr, .. } if *addr < index);
            let indices =
                |op: &ThreadOp| matches!(op, ThreadOp::Atomic { addr, .. } if *addr >= index);
            let loads = |op: &ThreadOp| matches!(op, ThreadOp::Load { .. });
            let found = (count(&array), count(&indices), count(&loads));
            assert_eq!(
                found,
                (20 * expected.0, 20 * expected.1, 20 * expected.2),
                "{pattern} {operation}"
            );
            let counted: u32 = ops
                .iter()
                .map(|op| match op {
                    ThreadOp::Count { operations } => *operations,
                    _ => 0,
                })
                .sum();
            assert_eq!(counted as usize, found.0 + found.1, "{pattern} {operation}");
        }
    }
}

#[test]
fn strides_and_the_central_word_are_where_the_benchmark_has_them() {
    let addresses = |pattern, elements, element| -> Vec<u64> {
        let ctx = context(0, 1, elements);
        let kernel = kernel("circus-tent", &tent(pattern, json!({"stride": 9})), &ctx);
        let ops = operations(
            kernel.as_ref(),
            Place::Element {
                accelerator: 0,
                element,
            },
        );
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
    let params = tent(
        pattern,
        json!({"interface": "pcie", "posted_writes": posted}),
    );
    let kernel = kernel("circus-tent", &params, &context(0, 1, 1));
    let mut thread = kernel.threads(ELEMENT).pop().unwrap();
    let image = Image::new();
    kernel.prepare(&image);
    let (mut beside, mut same) = (0, 0);
    let mut transfers = Vec::new();
    let mut open: Vec<(Token, ThreadOp)> = Vec::new();
    loop {
        match thread.next_op() {
            Next::Op(token, op, _) => {
                if let ThreadOp::Dma {
                    direction,
                    host_addr,
                    bytes: 8,
                    ..
                } = op
                {
                    let writes = |other: &&(Token, ThreadOp)| {
                        matches!(
                            other.1,
                            ThreadOp::Dma {
                                direction: Direction::ToHost,
                                ..
                            }
                        )
                    };
                    let to_word = |other: &(Token, ThreadOp)| matches!(other.1, ThreadOp::Dma { host_addr: word, .. } if word == host_addr);
                    let read = direction == Direction::ToDevice;
                    beside += usize::from(read && open.iter().any(|other| writes(&other)));
                    same += usize::from(open.iter().filter(writes).any(to_word));
                    transfers.push(direction);
                }
                open.push((token, op));
            }
            // The writes are completed last.
            Next::Blocked => {
                let other = |(_, op): &(Token, ThreadOp)| {
                    !matches!(
                        op,
                        ThreadOp::Dma {
                            direction: Direction::ToHost,
                            ..
                        }
                    )
                };
                let at = open.iter().position(other).unwrap_or(0);
                let (token, op) = open.remove(at);
                thread.complete(token, perform(&image, op));
            }
            Next::Finished => break,
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
        let ctx = context(1, 1, 2);
        let params = json!({"model": model, "elements": 4096, "page": "4 KiB"});
        let kernel = kernel("axpy", &params, &ctx);
        let watched = Image::new();
        let threads: Vec<Thread> = ctx
            .places()
            .flat_map(|place| kernel.threads(place))
            .collect();
        run_threads(threads, &watched, Order::Sequential).unwrap();
        kernel.check(&watched).unwrap();
        // Data in the accelerator's own memory have been copied there.
        let here =
            (0..2 * 4096).filter(|at| watched.read(Hpa(SCRATCH_BASE + (1 << 30) + at * 8), 8) != 0);
        here.count()
    };
    assert_eq!(moved("cohet"), 0);
    assert_eq!(moved("explicit"), 8192);
    assert_eq!(moved("unified"), 8192);
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let ctx = context(1, 1, 1);
    let cases: BTreeMap<&str, (&str, Value, ThreadContext)> = BTreeMap::from([
        (
            "`index`: found `local`",
            (
                "circus-tent",
                tent("ptr-chase", json!({"index": "local"})),
                ctx,
            ),
        ),
        (
            "allowed: more than 19",
            (
                "circus-tent",
                json!({"pattern": "stride1", "iterations": 20, "memory": "128 B"}),
                ctx,
            ),
        ),
        (
            "of which this host has none; allowed: `",
            ("circus-tent", json!({}), context(4, 0, 0)),
        ),
        (
            "several accelerators",
            (
                "circus-tent",
                json!({"interface": "pcie"}),
                context(0, 2, 1),
            ),
        ),
        (
            "cores have no DMA",
            (
                "circus-tent",
                json!({"interface": "pcie", "run_on": "cores"}),
                ctx,
            ),
        ),
        (
            "`memory`: found data of",
            ("circus-tent", json!({"memory": "1 GiB"}), ctx),
        ),
        (
            "without a core",
            ("load-store-unit", json!({"tier": "llc"}), context(0, 1, 1)),
        ),
        (
            "`lines`: found 0",
            ("load-store-unit", json!({"lines": 0}), ctx),
        ),
        ("without both", ("axpy", json!({}), context(0, 1, 1))),
        (
            "`array`: found 4100 B",
            ("stream-threads", json!({"array": "4100 B"}), ctx),
        ),
        (
            "`array`: found data of",
            ("stream-threads", json!({"array": "1 GiB"}), ctx),
        ),
        (
            "`loops`: found 0",
            ("stream-threads", json!({"loops": []}), ctx),
        ),
        (
            "`page`: found 5 kB",
            ("axpy", json!({"page": "5000 B"}), ctx),
        ),
    ]);
    for (expected, (name, params, ctx)) in cases {
        let found = message(name, &params, &ctx);
        assert!(
            found.contains(expected),
            "{found} does not contain {expected}"
        );
    }
}
