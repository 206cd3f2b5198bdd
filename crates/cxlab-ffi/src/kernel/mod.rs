//! Kernels written in Python: threads are generators that yield operations and are sent their
//! values.

use std::ops::Range;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_workload::thread::{
    AtomicKind, Bases, Direction, Handle, Loaded, Place, SCRATCH_SPAN, Thread, ThreadContext,
    ThreadOp, ThreadedKernel, Value, scratch,
};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};
use pyo3::exceptions::{PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::source::Failed;

/// Where addresses of a process end.
const USER_END: u64 = 1 << 47;

/// The memory that a kernel's threads share, before they run or after all have ended.
#[pyclass(frozen)]
pub(crate) struct Memory {
    image: Image,
    allowed: Vec<Range<u64>>,
}

impl Memory {
    fn check(&self, addr: u64, bytes: u64) -> PyResult<()> {
        inside(&self.allowed, addr, bytes)
            .map_err(|what| PyValueError::new_err(format!("memory at {addr:#x}: {what}")))
    }
}

#[pymethods]
impl Memory {
    /// Reads `count` bytes at `addr`.
    fn read(&self, py: Python<'_>, addr: u64, count: usize) -> PyResult<Py<PyBytes>> {
        self.check(addr, count as u64)?;
        let mut bytes = vec![0; count];
        self.image.read_bytes(Hpa(addr), &mut bytes);
        Ok(PyBytes::new(py, &bytes).unbind())
    }

    /// Writes some bytes.
    fn write(&self, addr: u64, data: &[u8]) -> PyResult<()> {
        self.check(addr, data.len() as u64)?;
        self.image.write_bytes(Hpa(addr), data);
        Ok(())
    }
}

/// A kernel that a program in Python offers: `cxlab._kernel.Offer`.
pub(crate) struct OfferedKernel {
    offer: Py<PyAny>,
    failed: Failed,
}

impl OfferedKernel {
    pub(crate) fn new(offer: Py<PyAny>, failed: Failed) -> OfferedKernel {
        OfferedKernel { offer, failed }
    }
}

impl Workload for OfferedKernel {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("external")
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        let bound = Python::attach(|py| {
            let arguments = (
                ctx.seed,
                (ctx.bases.cxl, ctx.span.0),
                (ctx.bases.local, ctx.local.0),
                ctx.cores,
                ctx.accelerators,
                ctx.elements,
            );
            let bound = self.offer.bind(py).call_method1("bind", arguments)?;
            let phases: Vec<(String, u64)> = bound.getattr("phases")?.extract()?;
            Ok::<_, PyErr>((bound.unbind(), phases))
        });
        let (bound, phases) = bound.map_err(|error| {
            let message = format!("the kernel raised {error}");
            self.failed.set(error);
            WorkloadError::Param(ParamError::new("name", message))
        })?;
        let phase = |(name, bytes)| Phase {
            name,
            bytes: Bytes(bytes),
        };
        Ok(Box::new(Kernel {
            bound,
            phases: phases.into_iter().map(phase).collect(),
            limits: Limits::new(ctx),
            failed: self.failed.clone(),
        }))
    }
}

struct Kernel {
    bound: Py<PyAny>,
    phases: Vec<Phase>,
    limits: Limits,
    failed: Failed,
}

impl Kernel {
    fn memory(&self, image: &Image) -> Memory {
        Memory {
            image: image.clone(),
            allowed: self.limits.memory.clone(),
        }
    }
}

impl ThreadedKernel for Kernel {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        let memory = self.memory(image);
        let done = Python::attach(|py| self.bound.call_method1(py, "prepare", (memory,)));
        if let Err(error) = done {
            self.failed.set(error);
        }
    }

    fn threads(&self, place: Place) -> Vec<Thread> {
        let (accelerator, number) = match place {
            Place::Core { core } => (None, core),
            Place::Element {
                accelerator,
                element,
            } => (Some(accelerator), element),
        };
        let made = Python::attach(|py| {
            let made = self
                .bound
                .bind(py)
                .call_method1("threads", (accelerator, number))?;
            made.extract::<Vec<Py<PyAny>>>()
        });
        let generators = made.unwrap_or_else(|error| {
            self.failed.set(error);
            Vec::new()
        });
        let thread = |generator| {
            let code = Code {
                generator,
                accelerator: accelerator.map(|number| number as u16),
                phases: self.phases.len(),
                limits: self.limits.clone(),
                failed: self.failed.clone(),
            };
            Thread::new(|t| code.run(t))
        };
        generators.into_iter().map(thread).collect()
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        let memory = self.memory(image);
        Python::attach(|py| self.bound.call_method1(py, "check", (memory,)))
            .map(drop)
            .map_err(|error| {
                let text = error.to_string();
                self.failed.set(error);
                text
            })
    }
}

/// What there is for threads to use.
#[derive(Clone)]
struct Limits {
    memory: Vec<Range<u64>>,
    accelerators: u16,
}

impl Limits {
    fn new(ctx: &ThreadContext) -> Limits {
        let Bases { cxl, local } = ctx.bases;
        let memory = match ctx.bases == Bases::PHYSICAL {
            true => vec![cxl..cxl + ctx.span.0, local..local + ctx.local.0],
            // An operating system says what is mapped.
            false => std::iter::once(0..USER_END).collect(),
        };
        Limits {
            memory,
            accelerators: ctx.accelerators as u16,
        }
    }
}

fn inside(allowed: &[Range<u64>], addr: u64, bytes: u64) -> Result<(), String> {
    let end = addr.checked_add(bytes);
    let fits = |range: &Range<u64>| addr >= range.start && end.is_some_and(|end| end <= range.end);
    if allowed.iter().any(fits) {
        return Ok(());
    }
    let list: Vec<String> = allowed
        .iter()
        .filter(|range| !range.is_empty())
        .map(|range| format!("{:#x} to {:#x}", range.start, range.end))
        .collect();
    Err(format!(
        "found {bytes} B from {addr:#x}; allowed: within {}",
        list.join(", ")
    ))
}

/// What a generator has yielded, as an operation.
enum Asked {
    Op(ThreadOp),
    /// An operation whose value means nothing.
    Silent(ThreadOp),
    Read(u64, u64),
    Write(u64, Vec<u8>),
    Push(u64, Vec<u8>),
}

/// An operation in flight.
enum UnderWay<'t> {
    Value(Value<'t>),
    Silent(Value<'t>),
    Bytes(Loaded<'t>),
}

/// What it gave.
enum Given {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
}

/// The code of a thread.
struct Code {
    generator: Py<PyAny>,
    /// The accelerator that it runs on; none for a core.
    accelerator: Option<u16>,
    phases: usize,
    limits: Limits,
    failed: Failed,
}

impl Code {
    async fn run(self, t: Handle) {
        let mut given = vec![Given::Nothing];
        let mut many = false;
        loop {
            let asked = Python::attach(|py| self.step(py, given, many));
            let asked = match asked {
                Ok(Some((asked, list))) => {
                    many = list;
                    asked
                }
                Ok(None) => return,
                Err(error) => {
                    self.failed.set(error);
                    return;
                }
            };
            let begin = |asked| match asked {
                Asked::Op(op) => UnderWay::Value(t.issue(op)),
                Asked::Silent(op) => UnderWay::Silent(t.issue(op)),
                Asked::Read(addr, bytes) => UnderWay::Bytes(t.read_range(addr, bytes)),
                Asked::Write(addr, data) => UnderWay::Silent(t.write_range(addr, &data)),
                Asked::Push(addr, data) => UnderWay::Silent(t.push(addr, &data)),
            };
            let under_way: Vec<UnderWay<'_>> = asked.into_iter().map(begin).collect();
            given = Vec::with_capacity(under_way.len());
            for one in under_way {
                given.push(match one {
                    UnderWay::Value(value) => Given::Number(value.await),
                    UnderWay::Silent(value) => {
                        value.await;
                        Given::Nothing
                    }
                    UnderWay::Bytes(loaded) => Given::Bytes(loaded.await),
                });
            }
        }
    }

    /// Sends values to the generator, and returns what it yields and whether that is a list; `None` when the
    /// generator has ended.
    fn step(
        &self,
        py: Python<'_>,
        given: Vec<Given>,
        many: bool,
    ) -> PyResult<Option<(Vec<Asked>, bool)>> {
        let value = |given: Given| match given {
            Given::Nothing => Ok(py.None().into_bound(py)),
            Given::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            Given::Bytes(bytes) => Ok::<_, PyErr>(PyBytes::new(py, &bytes).into_any()),
        };
        let mut values: Vec<Bound<'_, PyAny>> =
            given.into_iter().map(value).collect::<PyResult<_>>()?;
        let sent = match (many, values.pop()) {
            (false, Some(only)) => only,
            (_, last) => {
                values.extend(last);
                PyList::new(py, values)?.into_any()
            }
        };
        let yielded = match self.generator.bind(py).call_method1("send", (sent,)) {
            Ok(yielded) => yielded,
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Ok(list) = yielded.cast::<PyList>() {
            let asked: PyResult<Vec<Asked>> = list.iter().map(|op| self.read(&op)).collect();
            return Ok(Some((asked?, true)));
        }
        Ok(Some((vec![self.read(&yielded)?], false)))
    }

    /// An operation as Python has it: a name and its arguments (`cxlab.op`).
    fn read(&self, op: &Bound<'_, PyAny>) -> PyResult<Asked> {
        let wrong = || {
            PyTypeError::new_err(format!(
                "found {} yielded by a kernel's thread; allowed: operations of cxlab.op, or a list \
                 of them",
                op.get_type()
            ))
        };
        let tuple = op.cast::<PyTuple>().map_err(|_| wrong())?;
        let name: String = tuple
            .get_item(0)
            .and_then(|name| name.extract())
            .map_err(|_| wrong())?;
        let asked = self.operation(&name, tuple)?;
        let checked = match &asked {
            Asked::Op(op) | Asked::Silent(op) => self.allowed(*op),
            Asked::Read(addr, bytes) => self.reaches(*addr, *bytes),
            Asked::Write(addr, data) | Asked::Push(addr, data) => {
                self.reaches(*addr, data.len() as u64)
            }
        };
        match checked {
            Ok(()) => Ok(asked),
            Err(what) => Err(PyValueError::new_err(format!("{name}: {what}"))),
        }
    }

    fn operation(&self, name: &str, tuple: &Bound<'_, PyTuple>) -> PyResult<Asked> {
        let number = |at: usize| tuple.get_item(at)?.extract::<u64>();
        let small = |at: usize| tuple.get_item(at)?.extract::<u32>();
        let short = |at: usize| tuple.get_item(at)?.extract::<u16>();
        let size = |at: usize| tuple.get_item(at)?.extract::<u8>();
        let bytes = |at: usize| tuple.get_item(at)?.extract::<Vec<u8>>();
        let own = self.accelerator.unwrap_or_default();
        let dma = |direction| {
            Ok::<_, PyErr>(Asked::Silent(ThreadOp::Dma {
                direction,
                host_addr: number(1)?,
                device_addr: number(2)?,
                bytes: number(3)?,
            }))
        };
        let atomic = |kind, compare| {
            Ok::<_, PyErr>(Asked::Op(ThreadOp::Atomic {
                addr: number(1)?,
                size: size(2)?,
                kind,
                operand: number(3)?,
                compare,
            }))
        };
        Ok(match name {
            "load" => Asked::Op(ThreadOp::Load {
                addr: number(1)?,
                size: size(2)?,
            }),
            "store" => Asked::Silent(ThreadOp::Store {
                addr: number(1)?,
                size: size(2)?,
                value: number(3)?,
            }),
            "fetch_add" => atomic(AtomicKind::FetchAdd, 0)?,
            "swap" => atomic(AtomicKind::Swap, 0)?,
            "compare_exchange" => atomic(AtomicKind::CompareExchange, number(4)?)?,
            "await_change" => Asked::Op(ThreadOp::Await {
                addr: number(1)?,
                size: size(2)?,
                value: number(3)?,
            }),
            "read" => Asked::Read(number(1)?, number(2)?),
            "write" => Asked::Write(number(1)?, bytes(2)?),
            "push" => Asked::Push(number(1)?, bytes(2)?),
            "flush" => Asked::Silent(ThreadOp::Flush { addr: number(1)? }),
            "write_back" => Asked::Silent(ThreadOp::WriteBack { addr: number(1)? }),
            "demote" => Asked::Silent(ThreadOp::Demote { addr: number(1)? }),
            "prefetch" => Asked::Silent(ThreadOp::Prefetch { addr: number(1)? }),
            "compute" => Asked::Silent(ThreadOp::Compute { cycles: small(1)? }),
            "fence" => Asked::Silent(ThreadOp::Fence),
            "dma_to_device" => dma(Direction::ToDevice)?,
            "dma_to_host" => dma(Direction::ToHost)?,
            "mmio_read" => Asked::Op(ThreadOp::MmioRead {
                device: short(1)?,
                register: small(2)?,
            }),
            "mmio_write" => Asked::Silent(ThreadOp::MmioWrite {
                device: short(1)?,
                register: small(2)?,
                value: number(3)?,
            }),
            "mmio_await" => Asked::Op(ThreadOp::MmioAwait {
                device: own,
                register: small(1)?,
                value: number(2)?,
            }),
            "interrupt" => Asked::Silent(ThreadOp::Interrupt { vector: short(1)? }),
            "wait_interrupt" => Asked::Silent(ThreadOp::WaitInterrupt { vector: short(1)? }),
            "mmap" => Asked::Op(ThreadOp::Map {
                bytes: number(1)?,
                policy: short(2)?,
            }),
            "munmap" => Asked::Silent(ThreadOp::Unmap {
                addr: number(1)?,
                bytes: number(2)?,
            }),
            "mark" => Asked::Silent(ThreadOp::Mark { phase: size(1)? }),
            "count" => Asked::Silent(ThreadOp::Count {
                operations: small(1)?,
            }),
            other => {
                let message = format!("found an operation `{other}`; allowed: those of cxlab.op");
                return Err(PyTypeError::new_err(message));
            }
        })
    }

    /// Whether a range can be reached from here.
    fn reaches(&self, addr: u64, bytes: u64) -> Result<(), String> {
        if bytes == 0 {
            return Err("found 0 bytes; allowed: 1 and more".to_owned());
        }
        let mut allowed = self.limits.memory.clone();
        allowed.extend(self.own());
        inside(&allowed, addr, bytes)
    }

    /// The buffers of the accelerator.
    fn own(&self) -> Option<Range<u64>> {
        let first = scratch(self.accelerator?);
        Some(first..first + SCRATCH_SPAN)
    }

    fn allowed(&self, op: ThreadOp) -> Result<(), String> {
        use ThreadOp as Op;
        if let Some(fault) = op.fault() {
            return Err(format!("found {fault}"));
        }
        match op {
            Op::Load { addr, size }
            | Op::Store { addr, size, .. }
            | Op::Atomic { addr, size, .. }
            | Op::Await { addr, size, .. } => self.reaches(addr, size.into()),
            Op::Flush { addr }
            | Op::WriteBack { addr }
            | Op::Demote { addr }
            | Op::Prefetch { addr } => inside(&self.limits.memory, addr, 1),
            Op::Dma {
                host_addr,
                device_addr,
                bytes,
                ..
            } => {
                let Some(own) = self.own() else {
                    return Err("found on a core; allowed: on elements of accelerators".to_owned());
                };
                inside(&self.limits.memory, host_addr, bytes)?;
                inside(&[own], device_addr, bytes)
            }
            Op::MmioAwait { .. } | Op::Interrupt { .. } if self.accelerator.is_none() => {
                Err("found on a core; allowed: on elements of accelerators".to_owned())
            }
            Op::WaitInterrupt { .. } | Op::Map { .. } | Op::Unmap { .. }
                if self.accelerator.is_some() =>
            {
                Err("found on an accelerator; allowed: on cores".to_owned())
            }
            Op::MmioRead { device, .. } | Op::MmioWrite { device, .. } => {
                let there = match self.accelerator {
                    Some(own) => device == own,
                    None => device < self.limits.accelerators,
                };
                match there {
                    true => Ok(()),
                    false => Err(format!(
                        "found accelerator {device}; allowed: one of the host's, and an element's \
                         own"
                    )),
                }
            }
            Op::Mark { phase } if usize::from(phase) >= self.phases => Err(format!(
                "found phase {phase}; allowed: below {}, as many as the kernel names",
                self.phases
            )),
            _ => Ok(()),
        }
    }
}
