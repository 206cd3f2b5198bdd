//! What ends a run early: mistakes of the user that only the run shows.

use cxlab_device::Accelerator;
use cxlab_host::Processor;
use cxlab_plan::PlannedHost;

use super::{RunError, Runner};

impl Runner<'_, '_> {
    /// Looks for what ends a run early.
    pub(super) fn check_progress(&self) -> Result<(), RunError> {
        self.check_access()?;
        self.check_processes()?;
        self.check_stages()
    }

    /// Nobody knows where the time of a request went that waited for longer than a message can tell.
    fn check_stages(&self) -> Result<(), RunError> {
        let mut issuers = self.system.issuers();
        match issuers.position(|issuer| issuer.stats().too_long) {
            Some(number) => Err(vec![self.plan.too_long(number)].into()),
            None => Ok(()),
        }
    }

    /// Threads of a PCIe device may not load or store host memory.
    fn check_access(&self) -> Result<(), RunError> {
        let nodes = self.system.simulation.components();
        let accelerators = nodes.filter_map(|node| node.host()?.accelerator());
        let refused =
            |(number, accelerator): (usize, &Accelerator)| Some((number, accelerator.refused()?));
        match accelerators.enumerate().find_map(refused) {
            Some((number, access)) => Err(vec![self.plan.refused_access(number, &access)].into()),
            None => Ok(()),
        }
    }

    /// A process that did what no process may is the workload's mistake.
    fn check_processes(&self) -> Result<(), RunError> {
        let wrong = |host: &PlannedHost, why: &str| {
            Err(RunError::of(
                format!("hosts[{}].workload", host.group),
                format!("found a process that cannot go on: {why}"),
            ))
        };
        for (host, node) in self.plan.hosts.iter().zip(self.system.issuers()) {
            if let Some(error) = node.processor().and_then(Processor::error) {
                return wrong(host, error);
            }
        }
        let nodes = self.system.simulation.components();
        let accelerators = nodes.filter_map(|node| node.host()?.accelerator());
        for (accelerator, host) in accelerators.zip(&self.plan.accelerator_hosts) {
            if let Some(access) = accelerator.stray() {
                let host = &self.plan.hosts[*host];
                let at = access.hpa.0;
                let why = format!("a device of it asks for {at:#x}, where there is no memory");
                return wrong(host, &why);
            }
        }
        Ok(())
    }
}
