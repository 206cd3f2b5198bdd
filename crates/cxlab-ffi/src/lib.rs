//! The extension module `cxlab._native`: a scenario's text in, JSON and column bytes out.
//!
//! No logic and no defaults live here: it calls `cxlab-system` with the interpreter released,
//! turns mistakes into exceptions, and lets Python be asked for signals, progress and operations.
//! The Python package `cxlab` (python/cxlab) gives these values their types.

mod error;
mod files;
mod kernel;
mod plan;
mod run;
mod source;

use pyo3::prelude::*;

/// That of the command. What Python allocates is its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _native {
    use std::borrow::Cow;
    use std::ffi::OsString;
    use std::path::PathBuf;

    use cxlab_system::report::{Report, with_current_names};
    use cxlab_system::seeds::{KeptReport, SEEDS, SeedsReport};
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::error::ScenarioError;
    #[pymodule_export]
    use crate::files::{ResultFolder, WholeFile, sweep};
    #[pymodule_export]
    use crate::kernel::{CompiledCall, CompiledProgram, Memory};
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::run::Run;

    /// The version of cxlab.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Runs the `cxlab` command and returns its exit code. It handles signals and ends the process
    /// when an assertion of its own fails, so it is for a process that is the command.
    #[pyfunction]
    fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| cxlab_cli::main(arguments))
    }

    /// Says which program serves media in shared libraries, each in a process of its own.
    #[pyfunction]
    fn plugin_host(program: PathBuf, arguments: Vec<OsString>) {
        cxlab_plugin::host(cxlab_plugin::Host { program, arguments });
    }

    /// Serves one medium to a run until that is done with it; returns the exit code.
    #[pyfunction]
    fn serve_plugin(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| cxlab_plugin::serve(&arguments))
    }

    /// From now on this process runs every shared library that a scenario names.
    #[pyfunction]
    fn trust_plugins() {
        cxlab_plugin::trust::trust_all();
    }

    /// From now on this process opens no file of a scenario outside of a folder.
    #[pyfunction]
    fn confine(folder: PathBuf) -> PyResult<()> {
        Ok(cxlab_files::input::confine(&folder)?)
    }

    /// The JSON Schema of scenario files.
    #[pyfunction]
    fn schema() -> String {
        cxlab_scenario::schema().to_string()
    }

    /// Names and summaries of the entries of each catalog, as `cxlab list` prints them.
    #[pyfunction]
    fn catalogs() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
        cxlab_cli::catalogs()
    }

    /// The processors that this process may use, by its affinity and its control group's quota.
    #[pyfunction]
    fn processors() -> usize {
        cxlab_engine::processors()
    }

    /// Fewest and most seeds of a command.
    #[pyfunction]
    fn seeds() -> (u32, u32) {
        (*SEEDS.start(), *SEEDS.end())
    }

    /// Mean of independent values, and half of its 95 % confidence interval by Student's t; None below two values.
    #[pyfunction]
    fn interval(values: Vec<f64>) -> (f64, Option<f64>) {
        cxlab_system::seeds::interval(&values)
    }

    /// The contents of `seeds.json` and its picture, from the reports (JSON) of one plan's runs with several seeds.
    #[pyfunction]
    fn seeds_report(reports: Vec<String>) -> PyResult<(String, String)> {
        let wrong = |why: &dyn std::fmt::Display| PyValueError::new_err(format!("reports: {why}"));
        let mut kept = Vec::with_capacity(reports.len());
        for text in &reports {
            let report: Report = serde_json::from_str(text).map_err(|error| wrong(&error))?;
            kept.push(KeptReport::from(&report));
        }
        let report = SeedsReport::new(kept.len() as u64, kept);
        let report = report.ok_or_else(|| wrong(&"found none"))?;
        let json = serde_json::to_string_pretty(&report).map_err(|error| wrong(&error))?;
        Ok((json, report.svg()))
    }

    /// The text of a run's report, with the names of this version. A text that is no report is refused, with the reason.
    #[pyfunction]
    fn read_report(text: &str) -> PyResult<Cow<'_, str>> {
        let wrong = |why: String| Err(PyValueError::new_err(why));
        let text = with_current_names(text);
        let report: Report = match serde_json::from_str(&text) {
            Ok(report) => report,
            Err(error) => return wrong(format!("no report: {error}")),
        };
        let media = report.devices.iter().flat_map(|device| &device.medium);
        let numbers = report.stages_ns.iter().chain(media);
        match numbers.into_iter().find(|(_, value)| !value.is_number()) {
            Some((name, value)) => wrong(format!("{value} as `{name}`, which is no number")),
            None => Ok(text),
        }
    }

    /// The values of a scenario's text after changes, as JSON. They are not checked.
    #[pyfunction]
    fn merge(py: Python<'_>, name: &str, text: &str, set: Vec<String>) -> PyResult<String> {
        cxlab_plan::load::read(name, text, &set)
            .map(|document| document.value().to_string())
            .map_err(|mistakes| crate::error::raise(py, mistakes))
    }

    /// Turns a trace in any known format into a `.cxlt` file; returns reads and writes.
    #[pyfunction]
    fn import_trace(
        py: Python<'_>,
        source: PathBuf,
        destination: PathBuf,
        format: Option<&str>,
    ) -> PyResult<(u64, u64)> {
        py.detach(|| {
            cxlab_workload::import(&source, format, None, &destination, &mut |_, _| {})
                .map(|summary| (summary.reads, summary.writes))
        })
        .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
