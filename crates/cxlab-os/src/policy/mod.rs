//! Where pages go, and when they move: two catalogs.

pub mod migration;
pub mod placement;

use cxlab_engine::catalog::{ParamError, read_params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No parameters.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NoParams {}

impl NoParams {
    fn check(params: &serde_json::Value) -> Result<(), ParamError> {
        read_params::<NoParams>(params).map(|NoParams {}| ())
    }
}
