//! Threads that a test defines, as a workload of a processor and its accelerators.

use std::sync::Arc;

use cxlab_engine::units::Bytes;
use cxlab_plan::Plan;
use cxlab_scenario::Scenario;
use cxlab_workload::thread::{Bases, ExecutionPlace, Thread, ThreadContext, ThreadedKernel};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};

/// Threads of a test, in one phase.
pub trait Script: Clone + Send + Sync + 'static {
    /// The threads of one processor or accelerator. Memory begins at `bases`.
    fn threads(&self, bases: Bases, place: ExecutionPlace) -> Vec<Thread>;

    /// Writes the initial memory before the threads run.
    fn prepare(&self, bases: Bases, image: &Image) {
        let _ = (bases, image);
    }

    /// Checks the memory after the threads have run.
    ///
    /// # Errors
    /// A description of what is wrong.
    fn check(&self, image: &Image) -> Result<(), String> {
        let _ = image;
        Ok(())
    }
}

/// The plan of a scenario that uses `script` as its workload of that name.
///
/// # Panics
/// If the scenario has a mistake.
pub fn plan(text: &str, script: impl Script) -> Plan {
    plan_of(crate::scenario(text, &[]), script)
}

/// Like [`plan`], of a scenario that is parsed.
///
/// # Panics
/// If the scenario has a mistake.
pub fn plan_of(scenario: Scenario, script: impl Script) -> Plan {
    crate::plan_with(scenario, [("script", workload(script))])
}

/// A script as an external workload.
pub fn workload(script: impl Script) -> Arc<dyn Workload> {
    Arc::new(Scripted(script))
}

struct Scripted<S>(S);

impl<S: Script> Workload for Scripted<S> {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("external")
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        Ok(Box::new(Kernel {
            script: self.0.clone(),
            bases: ctx.bases,
            phases: [Phase {
                name: "script".to_owned(),
                bytes: Bytes(8),
            }],
        }))
    }
}

struct Kernel<S> {
    script: S,
    bases: Bases,
    phases: [Phase; 1],
}

impl<S: Script> ThreadedKernel for Kernel<S> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        self.script.prepare(self.bases, image);
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        self.script.threads(self.bases, place)
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        self.script.check(image)
    }
}
