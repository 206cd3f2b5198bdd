//! Threads that a test defines, as a workload of a processor and its accelerators.

use std::sync::Arc;

use cxlab_engine::units::Bytes;
use cxlab_plan::{Externals, Files, Plan};
use cxlab_workload::thread::{Bases, Place, Thread, ThreadContext, ThreadedKernel};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};

/// Threads of a test, in one phase.
pub trait Script: Clone + Send + Sync + 'static {
    /// The threads of one processor or accelerator. Memory begins at `bases`.
    fn threads(&self, bases: Bases, place: Place) -> Vec<Thread>;

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

/// A script as the external workload `script` of a scenario.
pub fn externals(script: impl Script) -> Externals {
    let workload: Arc<dyn Workload> = Arc::new(Scripted(script));
    Externals::from([("script".to_owned(), workload)])
}

/// The plan of a scenario that uses `script` as its workload of that name.
///
/// # Panics
/// If the scenario has a mistake.
pub fn plan(text: &str, script: impl Script) -> Plan {
    let scenario = crate::scenario(text, &[]);
    match Plan::with_externals(scenario, Files::default(), &externals(script)) {
        Ok(plan) => plan,
        Err(problems) => panic!("{problems:?}\n{text}"),
    }
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

    fn threads(&self, place: Place) -> Vec<Thread> {
        self.script.threads(self.bases, place)
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        self.script.check(image)
    }
}
