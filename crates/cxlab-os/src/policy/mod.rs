//! Policies for the placement and the migration of pages: two catalogs.

pub mod migration;
pub mod placement;

use cxlab_engine::catalog::{ParamError, read_params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of a policy that has none.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NoParams {}

impl NoParams {
    fn check(params: &serde_json::Value) -> Result<(), ParamError> {
        read_params::<NoParams>(params).map(|NoParams {}| ())
    }
}
