//! A resolved scenario.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cxlab_cli::plan_summary;
use cxlab_plan::load::{self, Loaded};
use cxlab_plan::{Externals, Files};
use cxlab_scenario::ThreadLimit;
use cxlab_system::analytic;
use cxlab_system::describe::describe;
use cxlab_system::picture;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::raise;
use crate::kernel::OfferedKernel;
use crate::run::{Run, Saving, run};
use crate::source::{OperationFactory, SharedFailure};

/// A resolved scenario.
#[pyclass(frozen)]
pub(crate) struct Plan {
    loaded: Arc<Loaded>,
    failed: SharedFailure,
}

#[pymethods]
impl Plan {
    /// Reads, checks and resolves a scenario's text. `workloads` are factories of operations by
    /// name: `factory(requester, requesters, span)` gives an iterator of batches, each of them
    /// bytes of addresses (u64), of writes (u8) and, or None, of times in picoseconds (u64), all
    /// little endian. `kernels` are made of threads (`cxlab._kernel.Offer`).
    #[new]
    #[pyo3(signature = (name, text, set, folder, workloads, kernels = BTreeMap::new()))]
    fn new(
        py: Python<'_>,
        name: &str,
        text: &str,
        set: Vec<String>,
        folder: PathBuf,
        workloads: BTreeMap<String, Py<PyAny>>,
        kernels: BTreeMap<String, Py<PyAny>>,
    ) -> PyResult<Plan> {
        let failed = SharedFailure::default();
        let mut externals = Externals::new();
        for (name, factory) in workloads {
            externals.insert(
                name,
                Arc::new(OperationFactory::new(factory, failed.clone())),
            );
        }
        for (name, offer) in kernels {
            externals.insert(name, Arc::new(OfferedKernel::new(offer, failed.clone())));
        }
        let files = Files::of(folder);
        let loaded = py.detach(|| {
            let document = load::read(name, text, &set)?;
            load::resolve(document, files, &externals)
        });
        if let Some(error) = failed.take() {
            return Err(error);
        }
        Ok(Plan {
            loaded: Arc::new(loaded.map_err(|mistakes| raise(py, mistakes))?),
            failed,
        })
    }

    /// Identifies everything that can change a result but the seed.
    #[getter]
    fn hash(&self) -> &str {
        &self.loaded.plan.hash
    }

    /// The scenario's name.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.plan.scenario.name
    }

    /// The scenario's seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.loaded.plan.scenario.seed
    }

    /// The resolved system as JSON, as `cxlab plan --format json` prints it.
    fn describe(&self, py: Python<'_>) -> String {
        py.detach(|| describe(&self.loaded.plan).to_string())
    }

    /// The system as text, as `cxlab plan` prints it.
    fn summary(&self, py: Python<'_>) -> String {
        py.detach(|| plan_summary(&self.loaded))
    }

    /// The system as a picture.
    fn svg(&self, py: Python<'_>) -> String {
        py.detach(|| picture::svg(&self.loaded.plan, None))
    }

    /// What a careful user would want to know: path, line and message.
    fn notes(&self) -> Vec<(String, Option<usize>, String)> {
        let notes = self.loaded.plan.notes.iter();
        notes
            .map(|note| {
                let line = self.loaded.line_of(note);
                (note.path.clone(), line, note.message.clone())
            })
            .collect()
    }

    /// The report of the analytic form as JSON, as `cxlab run --mode analytic` writes it, with the plan's
    /// own seed where none is given. Raises ScenarioError for what the form does not cover.
    #[pyo3(signature = (seed=None))]
    fn analytic(&self, py: Python<'_>, seed: Option<u64>) -> PyResult<String> {
        let plan = &self.loaded.plan;
        let seed = seed.unwrap_or(plan.scenario.seed);
        let report = py
            .detach(|| analytic::analyze(plan, seed))
            .map_err(|problems| raise(py, self.loaded.mistakes(problems)))?;
        serde_json::to_string_pretty(&report)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Runs the plan, with its own seed and threads where none are given. `threads` is a limit, and 0 is
    /// none. `progress` is called
    /// with requests completed, requests expected (or None) and simulated nanoseconds. `checkpoint` is a
    /// file and how often it is written.
    #[pyo3(signature = (seed, threads, progress, requests, checkpoint=None, restore=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "all that Python can say of a run"
    )]
    fn run(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        threads: Option<u32>,
        progress: Option<Py<PyAny>>,
        requests: bool,
        checkpoint: Option<(PathBuf, Option<String>)>,
        restore: Option<PathBuf>,
    ) -> PyResult<Run> {
        let scenario = &self.loaded.plan.scenario;
        let seed = seed.unwrap_or(scenario.seed);
        let threads = match threads {
            None => scenario.execution.threads,
            Some(0) => ThreadLimit::AUTO,
            Some(most) => ThreadLimit::UpTo(most),
        };
        let saving = Saving::new(checkpoint, restore)?;
        let options = (seed, threads);
        run(
            py,
            &self.loaded,
            &self.failed,
            options,
            progress,
            requests,
            &saving,
        )
    }
}
