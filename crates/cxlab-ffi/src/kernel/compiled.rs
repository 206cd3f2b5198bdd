//! Compiled functions on processing elements, as Python calls them.

use std::sync::{Arc, Mutex, PoisonError};

use cxlab_wasm::{BytePlace, Call, Program, Reach, RunningCall, StopReason, WorkItem};
use cxlab_workload::thread::Handle;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::limits::Reach as Limit;

/// A module of compiled functions.
#[pyclass(frozen)]
pub(crate) struct CompiledProgram {
    program: Arc<Program>,
}

/// A work-item as Python has it: dimensions, then the global, local and group numbers, the sizes of
/// the NDRange and of a group, and the offset.
type Item = (
    u32,
    [u64; 3],
    [u64; 3],
    [u64; 3],
    [u64; 3],
    [u64; 3],
    [u64; 3],
);

#[pymethods]
impl CompiledProgram {
    /// Checks a module in WebAssembly's binary format.
    #[new]
    fn new(module: &[u8]) -> PyResult<CompiledProgram> {
        let program = Program::new(module).map_err(PyValueError::new_err)?;
        Ok(CompiledProgram {
            program: Arc::new(program),
        })
    }

    /// Exported functions: name, types of parameters, and whether the function returns nothing.
    fn functions(&self) -> Vec<(String, Vec<String>, bool)> {
        let functions = self.program.functions().iter();
        let types = functions.map(|one| {
            let types = one.parameters.iter().map(ToString::to_string);
            (one.name.clone(), types.collect(), one.is_void)
        });
        types.collect()
    }

    /// A call of a function, for `cxlab.op.call`. `pages` says where the pages of shared allocations
    /// are; without it there are none.
    #[pyo3(signature = (name, arguments, item, pages=None))]
    fn call(
        &self,
        name: &str,
        arguments: Vec<u64>,
        item: Item,
        pages: Option<Py<PyAny>>,
    ) -> PyResult<CompiledCall> {
        let (dimensions, global_id, local_id, group_id, global_size, local_size, global_offset) =
            item;
        let item = WorkItem {
            dimensions,
            global_id,
            local_id,
            group_id,
            global_size,
            local_size,
            global_offset,
        };
        let call = Call::new(&self.program, name, &arguments, item);
        Ok(CompiledCall {
            running: Mutex::new(Some(RunningCall::new(call.map_err(PyValueError::new_err)?))),
            pages,
        })
    }
}

/// A call of a compiled function.
#[pyclass(frozen)]
pub(crate) struct CompiledCall {
    /// `None` while the call runs.
    running: Mutex<Option<RunningCall>>,
    pages: Option<Py<PyAny>>,
}

/// What a call on a processing element may access.
struct Pages<'a> {
    reach: &'a Limit,
    pages: Option<&'a Py<PyAny>>,
}

impl CompiledCall {
    /// Runs the call until it stops. All of its accesses are complete then.
    pub(super) async fn run(&self, t: &Handle, reach: &Limit) -> PyResult<StopReason> {
        let taken = self.lock().take();
        let Some(mut running) = taken else {
            let message = "call: found a call that runs already; allowed: each call once";
            return Err(PyRuntimeError::new_err(message));
        };
        let pages = Pages {
            reach,
            pages: self.pages.as_ref(),
        };
        let stopped = running.run(t, &pages).await;
        *self.lock() = Some(running);
        stopped
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<RunningCall>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reach for Pages<'_> {
    type Error = PyErr;

    /// The address itself, or one in the device's memory for bytes of a shared allocation.
    fn place(&self, name: &str, addr: u64, bytes: u64) -> PyResult<BytePlace> {
        if let Err(what) = self.reach.reaches(addr, bytes) {
            return Err(PyValueError::new_err(format!("`{name}`: {what}")));
        }
        let Some(pages) = self.pages else {
            return Ok(BytePlace::At(addr, bytes));
        };
        Python::attach(|py| {
            let translated = pages.call_method1(py, "translated", (addr, bytes))?;
            match translated.extract::<Option<u64>>(py)? {
                Some(at) => Ok(BytePlace::At(at, bytes)),
                None => {
                    let missing = pages.call_method1(py, "missing", (addr, bytes))?;
                    Ok(BytePlace::Missing(missing.extract(py)?))
                }
            }
        })
    }

    fn fault(&self, what: String) -> PyErr {
        PyRuntimeError::new_err(what)
    }
}
