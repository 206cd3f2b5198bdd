//! A requester whose operations another program hands over while the simulation runs.

use cxlab_workload::Inlet;

use super::Requester;
use crate::issuer::DueWake;

impl Requester {
    /// The inlet of the source, if another program hands over the operations.
    pub fn inlet(&mut self) -> Option<&mut Inlet> {
        self.issuer.inlet()
    }

    /// To be called after operations were added to the inlet, or after it was closed. Returns a wake-up that
    /// the caller must pass to the simulation.
    pub fn handed_over(&mut self) -> Option<DueWake> {
        self.issuer.handed_over()
    }
}
