//! The user's mistakes as an exception.

use cxlab_plan::load::Mistakes;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    cxlab,
    ScenarioError,
    PyValueError,
    "A scenario with mistakes. Its text is what `cxlab check` prints; `diagnostics` is the same as \
     data, what `cxlab check --format json` prints."
);

/// The exception for these mistakes.
pub(crate) fn raise(py: Python<'_>, mistakes: Mistakes) -> PyErr {
    let mistakes = mistakes.assigned_by("set");
    let error = ScenarioError::new_err(mistakes.render(false).trim_end().to_owned());
    let diagnostics = py
        .import("json")
        .and_then(|json| json.call_method1("loads", (mistakes.json(),)));
    match diagnostics.and_then(|list| error.value(py).setattr("diagnostics", list)) {
        Ok(()) => error,
        Err(other) => other,
    }
}
