//! Operations as a kernel's generators yield them: a name and its arguments (`cxlab.op`).

use cxlab_workload::thread::{AtomicKind, Direction, ThreadOp};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::compiled::CompiledCall;
use super::limits::Reach;

/// What a generator has yielded.
pub(super) enum YieldedOperations {
    One(PythonOperation),
    List(Vec<PythonOperation>),
    /// Generators that run side by side until all have ended.
    Together(Vec<Py<PyAny>>),
    /// A wait for all generators that run side by side.
    Barrier,
    /// A call of a compiled function.
    Call(Py<CompiledCall>),
}

/// An operation of `cxlab.op` with its arguments.
pub(super) enum PythonOperation {
    Op(ThreadOp),
    /// An operation whose value means nothing.
    Silent(ThreadOp),
    Read(u64, u64),
    Write(u64, Vec<u8>),
    Push(u64, Vec<u8>),
}

/// Reads what the generators of one place yield.
pub(super) struct Reader {
    pub(super) reach: Reach,
}

impl Reader {
    pub(super) fn read(&self, yielded: &Bound<'_, PyAny>) -> PyResult<YieldedOperations> {
        if let Ok(list) = yielded.cast::<PyList>() {
            let asked: PyResult<Vec<PythonOperation>> =
                list.iter().map(|op| self.one(&op)).collect();
            return Ok(YieldedOperations::List(asked?));
        }
        let (name, tuple) = named(yielded)?;
        match name.as_str() {
            "together" => Ok(YieldedOperations::Together(tuple.get_item(1)?.extract()?)),
            "barrier" => Ok(YieldedOperations::Barrier),
            "call" if self.reach.accelerator.is_none() => {
                let message = "call: found on a core; allowed: on elements of accelerators";
                Err(PyValueError::new_err(message))
            }
            "call" => Ok(YieldedOperations::Call(tuple.get_item(1)?.extract()?)),
            _ => Ok(YieldedOperations::One(self.one(yielded)?)),
        }
    }

    fn one(&self, op: &Bound<'_, PyAny>) -> PyResult<PythonOperation> {
        let (name, tuple) = named(op)?;
        if matches!(name.as_str(), "together" | "barrier" | "call") {
            let message = format!("{name}: found in a list; allowed: alone");
            return Err(PyValueError::new_err(message));
        }
        let asked = self.operation(&name, tuple)?;
        let checked = match &asked {
            PythonOperation::Op(op) | PythonOperation::Silent(op) => self.reach.allowed(*op),
            PythonOperation::Read(addr, bytes) => self.reach.reaches(*addr, *bytes),
            PythonOperation::Write(addr, data) | PythonOperation::Push(addr, data) => {
                self.reach.reaches(*addr, data.len() as u64)
            }
        };
        match checked {
            Ok(()) => Ok(asked),
            Err(what) => Err(PyValueError::new_err(format!("{name}: {what}"))),
        }
    }

    fn operation(&self, name: &str, tuple: &Bound<'_, PyTuple>) -> PyResult<PythonOperation> {
        let number = |at: usize| tuple.get_item(at)?.extract::<u64>();
        let small = |at: usize| tuple.get_item(at)?.extract::<u32>();
        let short = |at: usize| tuple.get_item(at)?.extract::<u16>();
        let size = |at: usize| tuple.get_item(at)?.extract::<u8>();
        let bytes = |at: usize| tuple.get_item(at)?.extract::<Vec<u8>>();
        // A minimum or maximum says whether its numbers are signed.
        let either = |signed, unsigned| {
            let is_signed = tuple.get_item(4)?.extract()?;
            Ok::<_, PyErr>(if is_signed { signed } else { unsigned })
        };
        let own = self.reach.accelerator.unwrap_or_default();
        let dma = |direction| {
            Ok::<_, PyErr>(PythonOperation::Silent(ThreadOp::Dma {
                direction,
                host_addr: number(1)?,
                device_addr: number(2)?,
                bytes: number(3)?,
            }))
        };
        let atomic = |kind, compare| {
            Ok::<_, PyErr>(PythonOperation::Op(ThreadOp::Atomic {
                addr: number(1)?,
                size: size(2)?,
                kind,
                operand: number(3)?,
                compare,
            }))
        };
        Ok(match name {
            "load" => PythonOperation::Op(ThreadOp::Load {
                addr: number(1)?,
                size: size(2)?,
            }),
            "store" => PythonOperation::Silent(ThreadOp::Store {
                addr: number(1)?,
                size: size(2)?,
                value: number(3)?,
            }),
            "fetch_add" => atomic(AtomicKind::FetchAdd, 0)?,
            "swap" => atomic(AtomicKind::Swap, 0)?,
            "compare_exchange" => atomic(AtomicKind::CompareExchange, number(4)?)?,
            "fetch_and" => atomic(AtomicKind::And, 0)?,
            "fetch_or" => atomic(AtomicKind::Or, 0)?,
            "fetch_xor" => atomic(AtomicKind::Xor, 0)?,
            "fetch_min" => atomic(either(AtomicKind::MinSigned, AtomicKind::Min)?, 0)?,
            "fetch_max" => atomic(either(AtomicKind::MaxSigned, AtomicKind::Max)?, 0)?,
            "await_change" => PythonOperation::Op(ThreadOp::Await {
                addr: number(1)?,
                size: size(2)?,
                value: number(3)?,
            }),
            "read" => PythonOperation::Read(number(1)?, number(2)?),
            "write" => PythonOperation::Write(number(1)?, bytes(2)?),
            "push" => PythonOperation::Push(number(1)?, bytes(2)?),
            "flush" => PythonOperation::Silent(ThreadOp::Flush { addr: number(1)? }),
            "write_back" => PythonOperation::Silent(ThreadOp::WriteBack { addr: number(1)? }),
            "demote" => PythonOperation::Silent(ThreadOp::Demote { addr: number(1)? }),
            "prefetch" => PythonOperation::Silent(ThreadOp::Prefetch { addr: number(1)? }),
            "compute" => PythonOperation::Silent(ThreadOp::Compute { cycles: small(1)? }),
            "fence" => PythonOperation::Silent(ThreadOp::Fence),
            "dma_to_device" => dma(Direction::ToDevice)?,
            "dma_to_host" => dma(Direction::ToHost)?,
            "mmio_read" => PythonOperation::Op(ThreadOp::MmioRead {
                device: short(1)?,
                register: small(2)?,
            }),
            "mmio_write" => PythonOperation::Silent(ThreadOp::MmioWrite {
                device: short(1)?,
                register: small(2)?,
                value: number(3)?,
            }),
            "mmio_await" => PythonOperation::Op(ThreadOp::MmioAwait {
                device: own,
                register: small(1)?,
                value: number(2)?,
            }),
            "interrupt" => PythonOperation::Silent(ThreadOp::Interrupt { vector: short(1)? }),
            "wait_interrupt" => {
                PythonOperation::Silent(ThreadOp::WaitInterrupt { vector: short(1)? })
            }
            "mmap" => PythonOperation::Op(ThreadOp::Map {
                bytes: number(1)?,
                policy: short(2)?,
            }),
            "munmap" => PythonOperation::Silent(ThreadOp::Unmap {
                addr: number(1)?,
                bytes: number(2)?,
            }),
            "time" => PythonOperation::Op(ThreadOp::Time),
            "mark" => PythonOperation::Silent(ThreadOp::Mark { phase: size(1)? }),
            "count" => PythonOperation::Silent(ThreadOp::Count {
                operations: small(1)?,
            }),
            other => {
                let message = format!("found an operation `{other}`; allowed: those of cxlab.op");
                return Err(PyTypeError::new_err(message));
            }
        })
    }
}

/// The name of an operation, and the tuple that it begins.
fn named<'a, 'py>(op: &'a Bound<'py, PyAny>) -> PyResult<(String, &'a Bound<'py, PyTuple>)> {
    let wrong = || {
        PyTypeError::new_err(format!(
            "found {} yielded by a kernel's thread; allowed: operations of cxlab.op, or a list \
             of them",
            op.get_type()
        ))
    };
    let tuple = op.cast::<PyTuple>().map_err(|_| wrong())?;
    let name = tuple.get_item(0).and_then(|name| name.extract());
    Ok((name.map_err(|_| wrong())?, tuple))
}
