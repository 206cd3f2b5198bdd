//! The user's mistakes as an exception.

use cxlab_system::load::Mistakes;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    cxlab,
    ScenarioError,
    PyValueError,
    "A scenario with mistakes. Its text is what `cxlab check` prints; `diagnostics` is the same as \
     data, the JSON of `cxlab check --json`."
);

/// The exception for these mistakes.
pub(crate) fn raise(py: Python<'_>, mistakes: &Mistakes) -> PyErr {
    let error = ScenarioError::new_err(mistakes.render(false).trim_end().to_owned());
    match error.value(py).setattr("diagnostics", mistakes.json()) {
        Ok(()) => error,
        Err(other) => other,
    }
}
