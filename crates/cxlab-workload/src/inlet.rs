//! The workload of external ports: operations that another program hands over while the simulation runs.

use crate::error::WorkloadError;
use crate::op::{Inlet, OpSource};
use crate::workload::{SourceContext, Workload};

/// The workload of a host of kind `external`: an [`Inlet`] for each host.
pub struct InletWorkload {
    /// Most operations in the queue of each inlet.
    pub depth: u32,
}

impl Workload for InletWorkload {
    fn is_finite(&self) -> bool {
        true
    }

    fn source(&self, ctx: &SourceContext) -> Result<Box<dyn OpSource>, WorkloadError> {
        Ok(Box::new(Inlet::new(self.depth as usize, ctx.span)))
    }
}
