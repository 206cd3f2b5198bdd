//! Checks during a run, for mistakes of the user that only the run shows.

use cxlab_device::Accelerator;
use cxlab_host::Processor;
use cxlab_plan::PlannedHost;

use super::{RunError, Runner};

impl Runner<'_, '_> {
    /// Fails if a mistake of the user has to end the run.
    pub(super) fn check_progress(&self) -> Result<(), RunError> {
        self.check_access()?;
        self.check_processes()?;
        self.check_stages()
    }

    /// Fails if a request spent longer in one stage than a message can record, because its stages are lost.
    fn check_stages(&self) -> Result<(), RunError> {
        let mut issuers = self.system.issuers();
        match issuers.position(|issuer| issuer.stats().has_lost_stages) {
            Some(number) => Err(vec![self.plan.too_long(number)].into()),
            None => Ok(()),
        }
    }

    /// Fails if a thread of a PCIe device has loaded or stored host memory.
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

    /// Fails if a process cannot continue, because of an access that is not allowed or because no memory is left, which
    /// is a mistake of the workload.
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
