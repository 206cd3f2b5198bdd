//! Entries of the catalog of workloads, and their parameters.

use std::fmt::Display;

use cxlab_engine::catalog::{self, Entry, ParamError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::workload::Workload;

/// The entry of the workloads with parameters `P` in the catalog.
pub(crate) const fn entry<P>(name: &'static str, summary: &'static str) -> Entry<Box<dyn Workload>>
where
    P: Workload + DeserializeOwned + JsonSchema + 'static,
{
    Entry {
        name,
        summary,
        schema: P::json_schema,
        build: |params| {
            let params: P = read(params)?;
            params.check()?;
            Ok(Box::new(params))
        },
    }
}

/// Reads a parameter structure. In case of an error, finds the faulty field, which serde's message
/// does not name: every field has a default, so the faulty key fails also alone.
pub(crate) fn read<P: DeserializeOwned>(params: &serde_json::Value) -> Result<P, ParamError> {
    let whole = catalog::read_params::<P>(params);
    let (Err(_), Some(object)) = (&whole, params.as_object()) else {
        return whole;
    };
    for (key, value) in object {
        let alone = serde_json::Map::from_iter([(key.clone(), value.clone())]);
        if let Err(error) = catalog::read_params::<P>(&serde_json::Value::Object(alone)) {
            return Err(ParamError::new(
                key.clone(),
                format!("{}, found {value}", error.message),
            ));
        }
    }
    whole
}

/// Returns an error about a parameter unless a condition holds: what was found, and what is allowed.
pub(crate) fn require(
    holds: bool,
    field: &str,
    found: impl Display,
    allowed: impl Display,
) -> Result<(), ParamError> {
    if holds {
        return Ok(());
    }
    let message = format!("found {found}; allowed: {allowed}");
    Err(ParamError::new(field, message))
}
