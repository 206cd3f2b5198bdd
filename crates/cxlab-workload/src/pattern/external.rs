//! Operations supplied by the program that runs the simulation, such as a Python generator.

use cxlab_engine::catalog::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::op::OpSource;
use crate::params::entry;
use crate::workload::{SourceContext, Workload};

pub(super) const ENTRY: Entry<Box<dyn Workload>> = entry::<External>(
    External::KIND,
    "operations handed over by the program that runs the simulation (Python generators)",
);

/// Operations supplied by the program that runs the simulation. They may end.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct External {
    /// The name under which the program supplies the operations.
    pub name: String,
}

impl External {
    /// The `kind` of this workload in a scenario.
    pub const KIND: &'static str = "external";
}

impl Workload for External {
    /// Always an error: the program that supplies the operations makes their source, so this
    /// function is called only when no program does.
    fn source(&self, _: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Err(WorkloadError::param(
            "name",
            format!(
                "found {:?}, which this program does not offer; allowed: the names given as \
                 `workloads` to cxlab.run in Python",
                self.name
            ),
        ))
    }
}
