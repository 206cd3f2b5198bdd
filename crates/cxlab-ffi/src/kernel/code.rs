//! The code of a thread: a generator that yields operations and is sent their values.

use cxlab_wasm::Stopped;
use cxlab_workload::thread::{Barrier, Handle, Loaded, SideBySide, Value, side_by_side};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::compiled::CompiledCall;
use super::ops::{Asked, Reader, Yielded};
use crate::source::Failed;

/// Why a barrier in a thread is refused.
const ALONE: &str = "barrier: found in a thread; allowed: in generators of cxlab.op.together";

/// An operation in flight.
enum UnderWay<'t> {
    Value(Value<'t>),
    Silent(Value<'t>),
    Bytes(Loaded<'t>),
}

/// The value of an operation.
enum Given {
    Nothing,
    Number(u64),
    Bytes(Vec<u8>),
}

/// Values for a generator: of one operation, or of a list of them.
enum Sent {
    One(Given),
    List(Vec<Given>),
}

/// What the generators of a thread have in common.
pub(super) struct Code {
    pub(super) reader: Reader,
    pub(super) failed: Failed,
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
            let mut sent = Sent::One(Given::Nothing);
            loop {
                let yielded = Python::attach(|py| self.step(py, &generator, sent));
                sent = match yielded {
                    Ok(None) => return,
                    Ok(Some(Yielded::One(asked))) => Sent::One(issue(t, asked).given().await),
                    Ok(Some(Yielded::List(asked))) => {
                        let issued = asked.into_iter().map(|asked| issue(t, asked));
                        let under_way: Vec<UnderWay<'_>> = issued.collect();
                        let mut given = Vec::with_capacity(under_way.len());
                        for one in under_way {
                            given.push(one.given().await);
                        }
                        Sent::List(given)
                    }
                    Ok(Some(Yielded::Together(generators))) => {
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
                        Sent::One(Given::Nothing)
                    }
                    Ok(Some(Yielded::Barrier)) => {
                        let Some(group) = group else {
                            return self.failed.set(PyValueError::new_err(ALONE));
                        };
                        group.wait().await;
                        Sent::One(Given::Nothing)
                    }
                    Ok(Some(Yielded::Call(call))) => match self.call(t, call.get(), group).await {
                        Ok(given) => Sent::One(given),
                        Err(error) => return self.failed.set(error),
                    },
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
    ) -> PyResult<Given> {
        loop {
            match call.run(t, &self.reader.reach).await? {
                Stopped::Ended => return Ok(Given::Nothing),
                Stopped::Missing(addr) => return Ok(Given::Number(addr)),
                Stopped::Barrier => match group {
                    Some(group) => group.wait().await,
                    None => return Err(PyValueError::new_err(ALONE)),
                },
            }
        }
    }

    /// Sends values to the generator, and returns what it yields. `None` says that it has ended.
    fn step(&self, py: Python<'_>, generator: &Py<PyAny>, sent: Sent) -> PyResult<Option<Yielded>> {
        let value = |given: Given| match given {
            Given::Nothing => Ok(py.None().into_bound(py)),
            Given::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            Given::Bytes(bytes) => Ok::<_, PyErr>(PyBytes::new(py, &bytes).into_any()),
        };
        let sent = match sent {
            Sent::One(given) => value(given)?,
            Sent::List(given) => {
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

fn issue(t: &Handle, asked: Asked) -> UnderWay<'_> {
    match asked {
        Asked::Op(op) => UnderWay::Value(t.issue(op)),
        Asked::Silent(op) => UnderWay::Silent(t.issue(op)),
        Asked::Read(addr, bytes) => UnderWay::Bytes(t.read_range(addr, bytes)),
        Asked::Write(addr, data) => UnderWay::Silent(t.write_range(addr, &data)),
        Asked::Push(addr, data) => UnderWay::Silent(t.push(addr, &data)),
    }
}

impl UnderWay<'_> {
    async fn given(self) -> Given {
        match self {
            UnderWay::Value(value) => Given::Number(value.await),
            UnderWay::Silent(value) => {
                value.await;
                Given::Nothing
            }
            UnderWay::Bytes(loaded) => Given::Bytes(loaded.await),
        }
    }
}
