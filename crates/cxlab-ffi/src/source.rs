//! Operations from Python, a batch at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cxlab_engine::cannot_save;
use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, SimTime};
use cxlab_workload::{MemOp, OpKind, OpSource, SourceContext, Workload, WorkloadError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyIterator;

/// What runs and the Python code that they ask for operations know of each other.
#[derive(Clone, Default)]
pub(crate) struct SharedFailure(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The first exception that Python code raised.
    error: Mutex<Option<PyErr>>,
    /// Threads of the interpreter that are in such code.
    asking: Mutex<Vec<u64>>,
    /// Whether Ctrl-C, or an exception, has ended the run.
    stopping: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedFailure {
    pub(crate) fn set(&self, error: PyErr) {
        lock(&self.0.error).get_or_insert(error);
    }

    pub(crate) fn is_set(&self) -> bool {
        lock(&self.0.error).is_some()
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        lock(&self.0.error).take()
    }

    /// Before a run.
    pub(crate) fn begin(&self) {
        self.0.stopping.store(false, Ordering::Relaxed);
    }

    fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Relaxed)
    }

    /// Ends Python code that is asked for operations: what loops gets a KeyboardInterrupt.
    ///
    /// # Errors
    /// The interpreter lacks `ctypes`.
    pub(crate) fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.0.stopping.store(true, Ordering::Relaxed);
        let ctypes = py.import("ctypes")?;
        let raise = ctypes
            .getattr("pythonapi")?
            .getattr("PyThreadState_SetAsyncExc")?;
        let interrupt = py.get_type::<PyKeyboardInterrupt>();
        for thread in lock(&self.0.asking).iter() {
            let thread = ctypes.getattr("c_ulong")?.call1((*thread,))?;
            let interrupt = ctypes.getattr("py_object")?.call1((&interrupt,))?;
            raise.call1((thread, interrupt))?;
        }
        Ok(())
    }

    /// Calls Python code that may never return by itself.
    fn asked<T>(&self, py: Python<'_>, ask: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let thread: u64 = py
            .import("threading")?
            .getattr("get_ident")?
            .call0()?
            .extract()?;
        lock(&self.0.asking).push(thread);
        let answer = ask();
        lock(&self.0.asking).retain(|one| *one != thread);
        answer
    }
}

/// A factory of operations.
pub(crate) struct OperationFactory {
    factory: Py<PyAny>,
    failed: SharedFailure,
}

impl OperationFactory {
    pub(crate) fn new(factory: Py<PyAny>, failed: SharedFailure) -> OperationFactory {
        OperationFactory { factory, failed }
    }
}

impl Workload for OperationFactory {
    fn is_finite(&self) -> bool {
        true
    }

    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        let made = Python::attach(|py| {
            let arguments = (ctx.requester, ctx.requesters, ctx.span.0);
            let made = self.factory.bind(py).call1(arguments)?;
            Ok::<_, PyErr>(made.try_iter()?.unbind())
        });
        let batches = made.map_err(|error| {
            let message = format!("the workload's function raised {error}");
            self.failed.set(error);
            WorkloadError::Param(ParamError::new("name", message))
        })?;
        Ok(Box::new(Source {
            batches,
            span: ctx.span.0,
            failed: self.failed.clone(),
            batch: Batch::default(),
            at: 0,
            ended: false,
        }))
    }
}

/// Operations that were handed over together.
#[derive(Default)]
struct Batch {
    addresses: Vec<u64>,
    writes: Vec<u8>,
    times: Option<Vec<u64>>,
}

impl Batch {
    fn read(batch: &Bound<'_, PyAny>, span: u64) -> PyResult<Batch> {
        let (addresses, writes, times): (PyBackedBytes, PyBackedBytes, Option<PyBackedBytes>) =
            batch.extract()?;
        let batch = Batch {
            addresses: words(&addresses),
            writes: writes.to_vec(),
            times: times.map(|times| words(&times)),
        };
        let count = batch.addresses.len();
        let timed = batch.times.as_ref().map_or(count, Vec::len);
        if batch.writes.len() != count || timed != count {
            return Err(PyValueError::new_err(format!(
                "found a batch of {count} addresses, {} writes and {timed} times; allowed: as many \
                 of each",
                batch.writes.len()
            )));
        }
        if let Some(address) = batch.addresses.iter().find(|address| **address >= span) {
            return Err(PyValueError::new_err(format!(
                "found address {address:#x}; allowed: below {span:#x}, the memory that the host \
                 reaches"
            )));
        }
        Ok(batch)
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect()
}

struct Source {
    batches: Py<PyIterator>,
    span: u64,
    failed: SharedFailure,
    batch: Batch,
    at: usize,
    ended: bool,
}

cannot_save!(
    Source,
    "operations from Python come from a generator, whose place only Python knows"
);

impl Source {
    /// Asks for batches until one has operations.
    #[cold]
    fn refill(&mut self) {
        self.at = 0;
        self.batch = Batch::default();
        while self.batch.addresses.is_empty() && !self.ended {
            let next = Python::attach(|py| {
                let mut batches = self.batches.bind(py).clone();
                let ask = || batches.next().transpose();
                let batch = self.failed.asked(py, ask)?;
                batch
                    .map(|batch| Batch::read(&batch, self.span))
                    .transpose()
            });
            match next {
                _ if self.failed.is_stopping() => self.ended = true,
                Ok(Some(batch)) => self.batch = batch,
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.failed.set(error);
                    self.ended = true;
                }
            }
        }
    }
}

impl OpSource for Source {
    fn next_op(&mut self, _: &mut StreamRng) -> Option<MemOp> {
        if self.at == self.batch.addresses.len() {
            self.refill();
        }
        let hpa = Hpa(*self.batch.addresses.get(self.at)?);
        let write = self.batch.writes[self.at] != 0;
        let not_before = match &self.batch.times {
            Some(times) => SimTime(times[self.at]),
            None => SimTime::ZERO,
        };
        self.at += 1;
        Some(MemOp {
            hpa,
            kind: if write { OpKind::Write } else { OpKind::Read },
            lines: 1,
            not_before,
            dependent: false,
            write_back: false,
        })
    }
}
