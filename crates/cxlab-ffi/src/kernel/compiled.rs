//! Compiled functions on processing elements: each access to simulated memory is an operation.

use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::units::LINE_BYTES;
use cxlab_wasm::{AtomicOp, Call, Program, Request, Step, WorkItem};
use cxlab_workload::thread::{AtomicKind, Handle, ThreadOp, Value, Window};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::limits::Reach;

/// Stores of a work-item that may be in flight (*assumed*: a small store buffer).
const STORES: usize = 8;

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
            running: Mutex::new(Some(Running {
                call: call.map_err(PyValueError::new_err)?,
                value: 0,
                faulted: None,
            })),
            pages,
        })
    }
}

/// A call of a compiled function.
#[pyclass(frozen)]
pub(crate) struct CompiledCall {
    /// `None` while the call runs.
    running: Mutex<Option<Running>>,
    pages: Option<Py<PyAny>>,
}

struct Running {
    call: Call,
    /// The value of the last request.
    value: u64,
    /// The request whose page was missing.
    faulted: Option<Request>,
}

/// Why a call stopped.
pub(super) enum Stopped {
    /// The function returned.
    Ended,
    /// All generators that run side by side must reach a barrier.
    Barrier,
    /// The page of this address is missing.
    Missing(u64),
}

/// The processing element that a call runs on.
struct Element<'a> {
    t: &'a Handle,
    reach: &'a Reach,
    pages: Option<&'a Py<PyAny>>,
}

impl CompiledCall {
    /// Runs the call until it stops. All of its accesses are complete then.
    pub(super) async fn run(&self, t: &Handle, reach: &Reach) -> PyResult<Stopped> {
        let taken = self.lock().take();
        let Some(mut running) = taken else {
            let message = "call: found a call that runs already; allowed: each call once";
            return Err(PyRuntimeError::new_err(message));
        };
        let element = Element {
            t,
            reach,
            pages: self.pages.as_ref(),
        };
        let mut stores = Window::new(STORES);
        let stopped = element.run(&mut running, &mut stores).await;
        stores.drain().await;
        *self.lock() = Some(running);
        stopped
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Element<'a> {
    async fn run(
        &self,
        running: &mut Running,
        stores: &mut Window<Value<'a>>,
    ) -> PyResult<Stopped> {
        loop {
            let step = match running.faulted.take() {
                Some(request) => Step::Request(request, 0),
                None => {
                    let step = running.call.resume(running.value);
                    step.map_err(PyRuntimeError::new_err)?
                }
            };
            running.value = 0;
            let (Step::Request(_, cycles) | Step::Ended(cycles)) = step;
            if cycles > 0 {
                let cycles = u32::try_from(cycles).unwrap_or(u32::MAX);
                self.t.compute(cycles).await;
            }
            let Step::Request(request, _) = step else {
                return Ok(Stopped::Ended);
            };
            match request {
                Request::Barrier => return Ok(Stopped::Barrier),
                Request::Fence => stores.drain().await,
                Request::Time => {}
                _ => {
                    if let Some(missing) = self.access(running, request, stores).await? {
                        running.faulted = Some(request);
                        return Ok(Stopped::Missing(missing));
                    }
                }
            }
        }
    }

    /// Carries out an access. Returns an address whose page is missing, where there is one.
    async fn access(
        &self,
        running: &mut Running,
        request: Request,
        stores: &mut Window<Value<'a>>,
    ) -> PyResult<Option<u64>> {
        let (addr, bytes) = match request {
            Request::Load { addr, size, .. }
            | Request::Store { addr, size, .. }
            | Request::Atomic { addr, size, .. } => (addr, u64::from(size)),
            Request::Fill { to, bytes, .. } => (to, bytes),
            Request::Copy { to, from, bytes } => {
                return self
                    .copy(&mut running.call, (to, from, bytes), stores)
                    .await;
            }
            Request::Fence | Request::Barrier | Request::Time => return Ok(None),
        };
        let addr = match self.place(&running.call, addr, bytes)? {
            Ok(at) => at,
            Err(missing) => return Ok(Some(missing)),
        };
        match request {
            Request::Load { size, atomic, .. } => {
                if atomic {
                    stores.drain().await;
                }
                running.value = self.load(addr, size).await;
            }
            Request::Store {
                size,
                value,
                atomic,
                ..
            } => {
                if atomic {
                    stores.drain().await;
                }
                stores.room().await;
                stores.add(self.store(addr, size, value));
                if atomic {
                    stores.drain().await;
                }
            }
            Request::Atomic {
                size,
                op,
                operand,
                compare,
                ..
            } => {
                stores.drain().await;
                let (kind, operand) = atomic(op, operand);
                let op = ThreadOp::Atomic {
                    addr,
                    size,
                    kind,
                    operand,
                    compare,
                };
                running.value = self.t.issue(op).await;
            }
            Request::Fill { value, .. } => {
                stores.room().await;
                stores.add(self.t.write_range(addr, &vec![value; bytes as usize]));
            }
            _ => {}
        }
        Ok(None)
    }

    async fn copy(
        &self,
        call: &mut Call,
        (to, from, bytes): (u64, u64, u64),
        stores: &mut Window<Value<'a>>,
    ) -> PyResult<Option<u64>> {
        let there = match call.is_private(to) {
            true => to,
            false => match self.place(call, to, bytes)? {
                Ok(there) => there,
                Err(missing) => return Ok(Some(missing)),
            },
        };
        let data = match call.is_private(from) {
            true => call
                .private(from, bytes)
                .map_err(PyRuntimeError::new_err)?
                .to_vec(),
            false => match self.place(call, from, bytes)? {
                Ok(at) => self.t.read_range(at, bytes).await,
                Err(missing) => return Ok(Some(missing)),
            },
        };
        if call.is_private(to) {
            let private = call.private_mut(to, bytes);
            private
                .map_err(PyRuntimeError::new_err)?
                .copy_from_slice(&data);
        } else {
            stores.room().await;
            stores.add(self.t.write_range(there, &data));
        }
        Ok(None)
    }

    /// Where bytes are: the address itself, or one in the device's memory for bytes of a shared
    /// allocation; the address of a missing page of them, where one is missing.
    fn place(&self, call: &Call, addr: u64, bytes: u64) -> PyResult<Result<u64, u64>> {
        if let Err(what) = self.reach.reaches(addr, bytes) {
            let name = call.name();
            return Err(PyValueError::new_err(format!("`{name}`: {what}")));
        }
        let Some(pages) = self.pages else {
            return Ok(Ok(addr));
        };
        Python::attach(|py| {
            let translated = pages.call_method1(py, "translated", (addr, bytes))?;
            match translated.extract::<Option<u64>>(py)? {
                Some(at) => Ok(Ok(at)),
                None => {
                    let missing = pages.call_method1(py, "missing", (addr, bytes))?;
                    Ok(Err(missing.extract(py)?))
                }
            }
        })
    }

    async fn load(&self, addr: u64, size: u8) -> u64 {
        if in_a_line(addr, size) {
            return self.t.load_sized(addr, size).await;
        }
        let bytes = self.t.read_range(addr, size.into()).await;
        bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn store(&self, addr: u64, size: u8, value: u64) -> Value<'a> {
        match in_a_line(addr, size) {
            true => self.t.store_sized(addr, size, value),
            false => self
                .t
                .write_range(addr, &value.to_le_bytes()[..size.into()]),
        }
    }
}

fn in_a_line(addr: u64, size: u8) -> bool {
    addr % LINE_BYTES + u64::from(size) <= LINE_BYTES
}

fn atomic(op: AtomicOp, operand: u64) -> (AtomicKind, u64) {
    match op {
        AtomicOp::Add => (AtomicKind::FetchAdd, operand),
        AtomicOp::Sub => (AtomicKind::FetchAdd, operand.wrapping_neg()),
        AtomicOp::And => (AtomicKind::And, operand),
        AtomicOp::Or => (AtomicKind::Or, operand),
        AtomicOp::Xor => (AtomicKind::Xor, operand),
        AtomicOp::Exchange => (AtomicKind::Swap, operand),
        AtomicOp::CompareExchange => (AtomicKind::CompareExchange, operand),
    }
}
