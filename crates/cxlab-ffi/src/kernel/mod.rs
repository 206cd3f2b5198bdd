//! Kernels written in Python: threads are generators that yield operations and are sent their
//! values.

mod code;
mod compiled;
mod limits;
mod ops;

use std::ops::Range;

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_workload::thread::{ExecutionPlace, Thread, ThreadContext, ThreadedKernel};
use cxlab_workload::{Image, Phase, Workload, WorkloadError, WorkloadForm};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use self::code::Code;
pub(crate) use self::compiled::{CompiledCall, CompiledProgram};
use self::limits::{Limits, Reach, inside};
use self::ops::Reader;
use crate::source::SharedFailure;

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
    failed: SharedFailure,
}

impl OfferedKernel {
    pub(crate) fn new(offer: Py<PyAny>, failed: SharedFailure) -> OfferedKernel {
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
    failed: SharedFailure,
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

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let (accelerator, number) = match place {
            ExecutionPlace::Core { core } => (None, core),
            ExecutionPlace::Element {
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
            let reach = Reach {
                accelerator: accelerator.map(|number| number as u16),
                phases: self.phases.len(),
                limits: self.limits.clone(),
            };
            let code = Code {
                reader: Reader { reach },
                failed: self.failed.clone(),
            };
            Thread::new(|t| code.run(generator, t))
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
