//! The code of a thread: a generator that yields operations and is sent their values.

use cxlab_wasm::StopReason;
use cxlab_workload::thread::{Barrier, Handle, LoadedRange, SideBySide, Value, side_by_side};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::compiled::CompiledCall;
use super::ops::{PythonOperation, Reader, YieldedOperations};
use crate::source::SharedFailure;

/// Why a barrier in a thread is refused.
const ALONE: &str = "barrier: found in a thread; allowed: in generators of cxlab.op.together";

/// An operation in flight.
enum InFlight<'t> {
    Value(Value<'t>),
    Silent(Value<'t>),
    Bytes(LoadedRange<'t>),
}

/// The value of an operation.
enum OperationValue {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
}

/// Values for a generator: of one operation, or of a list of them.
enum SentValues {
    One(OperationValue),
    List(Vec<OperationValue>),
}

/// What the generators of a thread have in common.
pub(super) struct Code {
    pub(super) reader: Reader,
    pub(super) failed: SharedFailure,
}

impl Code {
    pub(super) async fn run(self, generator: Py<PyAny>, t: Handle) {
        self.generate(&t, generator, None).await;
    }

    fn generate<'t>(
        &'t self,
        t: &'t Handle,
        generator: Py<PyAny>,
        group: Option<&'t Barrier>,
    ) -> SideBySide<'t> {
        Box::pin(async move {
            let mut sent = SentValues::One(OperationValue::Nothing);
            loop {
                let yielded = Python::attach(|py| self.step(py, &generator, sent));
                sent = match yielded {
                    Ok(None) => return,
                    Ok(Some(YieldedOperations::One(asked))) => {
                        SentValues::One(issue(t, asked).given().await)
                    }
                    Ok(Some(YieldedOperations::List(asked))) => {
                        let issued = asked.into_iter().map(|asked| issue(t, asked));
                        let in_flight: Vec<InFlight<'_>> = issued.collect();
                        let mut given = Vec::with_capacity(in_flight.len());
                        for one in in_flight {
                            given.push(one.given().await);
                        }
                        SentValues::List(given)
                    }
                    Ok(Some(YieldedOperations::Together(generators))) => {
                        let group = Barrier::new(generators.len());
                        let running = generators.into_iter();
                        let running = running.map(|one| self.generate(t, one, Some(&group)));
                        if let Err(what) = side_by_side(running.collect(), &group).await {
                            let message = format!(
                                "barrier: found {} of {} generators at a barrier after the others \
                                 have ended; allowed: a barrier that all of them reach",
                                what.waiting, what.of
                            );
                            self.failed.set(PyRuntimeError::new_err(message));
                        }
                        SentValues::One(OperationValue::Nothing)
                    }
                    Ok(Some(YieldedOperations::Barrier)) => {
                        let Some(group) = group else {
                            return self.failed.set(PyValueError::new_err(ALONE));
                        };
                        group.wait().await;
                        SentValues::One(OperationValue::Nothing)
                    }
                    Ok(Some(YieldedOperations::Call(call))) => {
                        match self.call(t, call.get(), group).await {
                            Ok(given) => SentValues::One(given),
                            Err(error) => return self.failed.set(error),
                        }
                    }
                    Err(error) => return self.failed.set(error),
                };
            }
        })
    }

    /// Runs a compiled function to its end, or to the address of a missing page.
    async fn call(
        &self,
        t: &Handle,
        call: &CompiledCall,
        group: Option<&Barrier>,
    ) -> PyResult<OperationValue> {
        loop {
            match call.run(t, &self.reader.reach).await? {
                StopReason::Ended => return Ok(OperationValue::Nothing),
                StopReason::Missing(addr) => return Ok(OperationValue::Number(addr)),
                StopReason::Barrier => match group {
                    Some(group) => group.wait().await,
                    None => return Err(PyValueError::new_err(ALONE)),
                },
            }
        }
    }

    /// Sends values to the generator, and returns what it yields. `None` says that it has ended.
    fn step(
        &self,
        py: Python<'_>,
        generator: &Py<PyAny>,
        sent: SentValues,
    ) -> PyResult<Option<YieldedOperations>> {
        let value = |given: OperationValue| match given {
            OperationValue::Nothing => Ok(py.None().into_bound(py)),
            OperationValue::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            OperationValue::Bytes(bytes) => Ok::<_, PyErr>(PyBytes::new(py, &bytes).into_any()),
        };
        let sent = match sent {
            SentValues::One(given) => value(given)?,
            SentValues::List(given) => {
                let values: PyResult<Vec<_>> = given.into_iter().map(value).collect();
                PyList::new(py, values?)?.into_any()
            }
        };
        match generator.bind(py).call_method1("send", (sent,)) {
            Ok(yielded) => Ok(Some(self.reader.read(&yielded)?)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn issue(t: &Handle, asked: PythonOperation) -> InFlight<'_> {
    match asked {
        PythonOperation::Op(op) => InFlight::Value(t.issue(op)),
        PythonOperation::Silent(op) => InFlight::Silent(t.issue(op)),
        PythonOperation::Read(addr, bytes) => InFlight::Bytes(t.read_range(addr, bytes)),
        PythonOperation::Write(addr, data) => InFlight::Silent(t.write_range(addr, &data)),
        PythonOperation::Push(addr, data) => InFlight::Silent(t.push(addr, &data)),
    }
}

impl InFlight<'_> {
    async fn given(self) -> OperationValue {
        match self {
            InFlight::Value(value) => OperationValue::Number(value.await),
            InFlight::Silent(value) => {
                value.await;
                OperationValue::Nothing
            }
            InFlight::Bytes(loaded) => OperationValue::Bytes(loaded.await),
        }
    }
}
