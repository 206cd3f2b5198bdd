//! A run in process, with the interpreter released.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use cxlab_engine::Monitor;
use cxlab_plan::load::Loaded;
use cxlab_plan::windows::expected_requests;
use cxlab_scenario::ThreadLimit;
use cxlab_system::checkpoint::{
    Checkpoint, CheckpointError, CheckpointInterval, Checkpoints, NotWritten,
};
use cxlab_system::picture;
use cxlab_system::report::Report;
use cxlab_system::requests::{RequestColumns, Values};
use cxlab_system::run::{RunError, RunOptions, run_with, unused_threads};
use cxlab_system::table;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raise;
use crate::source::SharedFailure;

/// How often Python is asked for signals and told about progress.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What a run measured.
#[pyclass(frozen, get_all)]
pub(crate) struct Run {
    /// The report as JSON.
    report: String,
    /// The table that the command prints.
    table: String,
    /// The system as a picture, links coloured by how busy they were.
    svg: String,
    /// The request log: name, numpy type and values of each column; None when not asked for.
    columns: Option<Vec<(String, &'static str, Py<PyBytes>)>>,
    /// What ended the run early: KeyboardInterrupt, or an exception of `progress`.
    stopped: Option<PyErr>,
    /// Why fewer threads were used than asked for.
    threads_note: Option<String>,
    /// What became of checkpoints that could not be written.
    checkpoints_note: Option<String>,
    /// What a plug-in did that ended the run early.
    fault: Option<String>,
}

/// Which checkpoints a run writes, and which one it goes on from.
pub(crate) struct Saving {
    write: Option<(CheckpointInterval, PathBuf)>,
    restore: Option<PathBuf>,
    not_written: NotWritten,
}

impl Saving {
    /// As Python says it.
    pub(crate) fn new(
        checkpoint: Option<(PathBuf, Option<String>)>,
        restore: Option<PathBuf>,
    ) -> PyResult<Saving> {
        let every = |text: Option<String>| match text {
            Some(text) => text.parse(),
            None => Ok(CheckpointInterval::default()),
        };
        let write = checkpoint.map(|(path, text)| Ok((every(text)?, path)));
        let write = write
            .transpose()
            .map_err(|error: String| PyValueError::new_err(format!("checkpoint_every: {error}")))?;
        Ok(Saving {
            write,
            restore,
            not_written: NotWritten::default(),
        })
    }

    fn checkpoints(&self) -> Result<Checkpoints<'_>, RunError> {
        let restore = self.restore.as_deref().map(Checkpoint::read).transpose();
        Ok(Checkpoints {
            write: (self.write.as_ref()).map(|(every, path)| (*every, path.as_path())),
            not_written: Some(&self.not_written),
            restore: restore.map_err(RunError::Checkpoint)?,
        })
    }
}

/// Runs on a thread of its own, while this one serves Python.
pub(crate) fn run(
    py: Python<'_>,
    loaded: &Loaded,
    failed: &SharedFailure,
    (seed, threads): (u64, ThreadLimit),
    progress: Option<Py<PyAny>>,
    requests: bool,
    saving: &Saving,
) -> PyResult<Run> {
    failed.begin();
    let monitor = Monitor::default();
    let expected = expected_requests(&loaded.plan);
    let mut columns = requests.then(RequestColumns::default);
    let mut stopped = None;
    let ask = || {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &progress {
                let simulated_ns = monitor.time().0 as f64 / 1e3;
                progress.call1(py, (monitor.work(), expected, simulated_ns))?;
            }
            Ok::<_, PyErr>(())
        })
    };
    let outcome = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel::<()>();
            let (monitor, columns) = (&monitor, &mut columns);
            let worker = scope.spawn(move || {
                // Dropped at the end, also at that of a panic.
                let _done = done;
                let mut sink = columns.as_mut().map(|columns| {
                    |rows: Vec<_>| {
                        columns.push(&rows);
                        Ok(())
                    }
                });
                let options = RunOptions {
                    seed,
                    threads: threads.into(),
                    monitor,
                    rows: sink.as_mut().map(|sink| sink as &mut dyn FnMut(_) -> _),
                };
                run_with(&loaded.plan, options, saving.checkpoints()?).map(Box::new)
            });
            while finished.recv_timeout(ASK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if stopped.is_none() {
                    stopped = ask().err();
                }
                if stopped.is_some() || failed.is_set() {
                    monitor.interrupt();
                    if let Err(error) = Python::attach(|py| failed.stop(py)) {
                        failed.set(error);
                    }
                }
            }
            worker.join()
        })
    });
    if let Some(error) = failed.take() {
        return Err(error);
    }
    match (outcome, stopped) {
        // A run that was stopped before it measured has nothing to give.
        (Ok(Err(RunError::Problems(_))), Some(stopped)) => Err(stopped),
        (Ok(Ok(report) | Err(RunError::Fault(report, _))), stopped) => {
            let note = unused_threads(threads, &monitor);
            let run = results(py, loaded, &report, columns, (stopped, note))?;
            Ok(Run {
                checkpoints_note: saving.not_written.summary(),
                ..run
            })
        }
        (Ok(Err(RunError::Problems(problems))), None) => Err(raise(py, loaded.mistakes(problems))),
        (Ok(Err(RunError::Checkpoint(error))), _) => Err(match error {
            CheckpointError::Refused(why) => PyValueError::new_err(format!("restore: {why}")),
            error @ CheckpointError::Foreign(_) => {
                PyValueError::new_err(format!("checkpoint: {error}"))
            }
            error @ CheckpointError::Unwritable(..) => {
                PyOSError::new_err(format!("checkpoint: {error}"))
            }
        }),
        (Ok(Err(error)), _) => Err(PyRuntimeError::new_err(error.to_string())),
        (Err(panic), _) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let what = text.or(panic.downcast_ref::<&str>().copied());
            Err(PyRuntimeError::new_err(format!(
                "internal error, please report it with the scenario and the seed: {}",
                what.unwrap_or("of unknown cause")
            )))
        }
    }
}

fn results(
    py: Python<'_>,
    loaded: &Loaded,
    report: &Report,
    columns: Option<RequestColumns>,
    (stopped, threads_note): (Option<PyErr>, Option<String>),
) -> PyResult<Run> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok(Run {
        report: json,
        table: table::summary(&loaded.plan, report),
        svg: picture::svg(&loaded.plan, Some(report)),
        columns: columns.map(|columns| {
            let columns = columns.into_columns().map(|(name, values)| {
                let (kind, bytes): (_, Vec<u8>) = match values {
                    Values::Int32(values) => (
                        "<i4",
                        values
                            .iter()
                            .flat_map(|value| value.to_le_bytes())
                            .collect(),
                    ),
                    Values::Int64(values) => (
                        "<i8",
                        values
                            .iter()
                            .flat_map(|value| value.to_le_bytes())
                            .collect(),
                    ),
                    Values::Bool(values) => ("?", values.into_iter().map(u8::from).collect()),
                };
                (name, kind, PyBytes::new(py, &bytes).unbind())
            });
            columns.collect()
        }),
        stopped,
        threads_note,
        checkpoints_note: None,
        fault: report.provenance.fault.clone(),
    })
}
