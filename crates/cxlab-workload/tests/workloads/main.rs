//! Patterns, replayed traces and kernels, bound to systems and run without time.
#![allow(clippy::unwrap_used)] // helpers outside test functions unwrap too

mod graphs_and_nas;
mod kernels;
mod patterns;
mod replay;
mod rpc;
mod threaded_kernels;

use std::path::Path;

use cxlab_engine::catalog::{ParamError, find};
use cxlab_engine::units::Bytes;
use cxlab_workload::pattern::CATALOG;
use cxlab_workload::thread::{
    Bases, Order, Thread, ThreadContext, ThreadOp, ThreadedKernel, run_threads,
};
use cxlab_workload::{Image, SourceContext, Workload, WorkloadError};
use serde_json::Value;

/// A requester or core of so many, with 1 GiB of CXL memory and 256 MiB of its own.
fn source_context(requester: usize, requesters: usize) -> SourceContext<'static> {
    SourceContext {
        span: Bytes(1 << 30),
        local: Bytes(1 << 28),
        requester,
        requesters,
        scenario_dir: Path::new("."),
        trace_override: None,
    }
}

/// A coherent system with the same memories.
fn system(cores: usize, accelerators: usize, elements: usize) -> ThreadContext {
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

fn build(name: &str, params: &Value) -> Result<Box<dyn Workload>, ParamError> {
    (find(CATALOG, name).unwrap().build)(params)
}

/// The kernel of threads with these parameters.
fn kernel(name: &str, params: &Value, ctx: &ThreadContext) -> Box<dyn ThreadedKernel> {
    build(name, params).unwrap().threads(ctx).unwrap()
}

/// All threads of a kernel in a system.
fn threads(kernel: &dyn ThreadedKernel, ctx: &ThreadContext) -> Vec<Thread> {
    let places = ctx.places();
    places.flat_map(|place| kernel.threads(place)).collect()
}

/// Runs a kernel, whose own check must then pass, and returns the final memory.
fn ran(kernel: &dyn ThreadedKernel, ctx: &ThreadContext, order: Order) -> Image {
    let image = Image::new();
    kernel.prepare(&image);
    run_threads(threads(kernel, ctx), &image, order).unwrap();
    kernel.check(&image).unwrap();
    image
}

fn count(ops: &[ThreadOp], wanted: impl Fn(&ThreadOp) -> bool) -> usize {
    ops.iter().filter(|op| wanted(op)).count()
}

/// A table of parameters with more in it.
fn with(mut params: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(more);
    params
}

/// Checks that parameters are refused by a message that begins with the field's name, has the words
/// that are given, and says what is allowed. A row is `WORKLOAD PARAMETERS => FIELD: WORDS`.
fn refused(rows: &[&str], bind: impl Fn(&dyn Workload) -> Result<(), WorkloadError>) {
    for row in rows {
        let (case, error) = row.split_once(" => ").unwrap();
        let (name, params) = case.split_once(' ').unwrap();
        let (field, words) = error.split_once(": ").unwrap();
        let built = build(name, &serde_json::from_str(params).unwrap());
        let bound = built
            .map_err(WorkloadError::from)
            .and_then(|one| bind(&*one));
        let message = bound.unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("`{field}`: ")),
            "{row}: {message}"
        );
        assert!(message.contains(words), "{row}: {message}");
        assert!(message.contains("allowed"), "{row}: {message}");
    }
}
