//! A recorded program on the event engine.

use std::sync::Arc;

use cxlab_attach::model::Overlap;
use cxlab_engine::Monitor;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_host::{CacheLevel, CoreParams, RequesterParams};
use cxlab_plan::Plan;
use cxlab_scenario::{HostGroup, HostKind};
use cxlab_system::report::CoreThread;
use cxlab_system::run::RunError;
use serde_json::json;

use crate::external::run_external;

use super::recorded::{RecordedExecution, ReplayedWorkload};
use super::{Assumed, LLC_WAYS, VerifyError};

/// Most write-backs in flight (the default of cores).
const WRITEBACKS: u32 = 256;

/// Measurements of a run on the engine.
pub(super) struct EngineRun {
    /// Sum of the threads' times of computing and of waiting for memory.
    pub(super) time_ns: f64,
    /// Part of that time with a miss outstanding.
    pub(super) outstanding_ns: f64,
    pub(super) misses: u64,
    pub(super) prefetches: u64,
    /// Time by thread, if there are several.
    pub(super) threads: Vec<f64>,
    /// Time from the beginning of the program to its end.
    pub(super) to_end_ns: f64,
}

/// Time of a thread without its waits for other threads.
fn busy_ns(thread: &CoreThread) -> f64 {
    thread.end_ns - thread.begin_ns - thread.waited_ns
}

/// Runs the recorded execution on the plan's system.
pub(super) fn simulate(
    plan: &Plan,
    assumed: &Assumed,
    recorded: &Arc<RecordedExecution>,
    placed: bool,
) -> Result<EngineRun, VerifyError> {
    let workload = ReplayedWorkload {
        recorded: Arc::clone(recorded),
        placed,
    };
    let report = run_external(plan, workload, &Monitor::default(), |group| {
        become_program(group, assumed, recorded.bytes())
    })?;
    let core = report.hosts.first().and_then(|host| host.core.as_ref());
    let Some((core, phase)) = core.and_then(|core| Some((core, core.phases.first()?))) else {
        let text = "a run on a core without what the core measured".to_owned();
        return Err(VerifyError::Run(RunError::Law(text)));
    };
    let threads: Vec<f64> = core.threads.iter().map(busy_ns).collect();
    let to_end = core.threads.iter().map(|thread| thread.end_ns);
    Ok(EngineRun {
        time_ns: match threads.is_empty() {
            true => phase.time_ns,
            false => threads.iter().sum(),
        },
        to_end_ns: to_end.fold(phase.time_ns, f64::max),
        threads,
        outstanding_ns: core.outstanding_ns,
        misses: core.misses,
        prefetches: core.prefetches.unwrap_or(0),
    })
}

/// Turns a host into the assumed machine with the recorded program.
fn become_program(group: &mut HostGroup, assumed: &Assumed, bytes: u64) -> Result<(), RunError> {
    let Overlap {
        window,
        misses,
        stream,
    } = assumed.overlap;
    let lines = |count: f64| (count.round() as u32).max(1);
    let process_time = match &group.kind {
        HostKind::Requester(issue) => issue.process_time,
        HostKind::Core(_) | HostKind::Processor(_) => RequesterParams::default().process_time,
    };
    group.kind = HostKind::Core(CoreParams {
        cycle: Picos(assumed.base_ps),
        // The time of an instruction bounds the issue rate, not the width.
        width: 64,
        window,
        caches: vec![CacheLevel {
            size: assumed.last_level(),
            ways: LLC_WAYS,
            access_time: Picos::ZERO,
        }],
        misses: lines(misses),
        prefetch: lines(stream),
        writebacks: WRITEBACKS,
        process_time,
    });
    let way = assumed.local_ps / 4;
    let local = json!({
        "capacity": Bytes(bytes),
        "latency": Picos(way),
        "memory": {
            "kind": "fixed",
            "latency": Picos(assumed.local_ps - 2 * way),
            "queue": 65536,
        },
    })
    .to_string();
    let local = serde_json::from_str(&local)
        .map_err(|error| RunError::Law(format!("the recorded program's host: {error}")))?;
    group.local = Some(local);
    Ok(())
}
