//! Constant times before and after the links of a plan, and the rate of a host's links.

use cxlab_engine::units::Picos;

use crate::endpoints::DeviceKind;
use crate::links::{End, PlannedLink};
use crate::plan::Plan;

impl Plan {
    /// Constant time that a component spends before the link that leaves at this end.
    pub fn egress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].egress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => self.scenario.accelerators[group].device.egress(),
                DeviceKind::Memory(_) => Picos::ZERO,
            },
            End::Switch(..) => Picos::ZERO,
        }
    }

    /// Constant time that a component spends after the link that arrives at this end.
    pub fn ingress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].ingress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => {
                    self.scenario.accelerators[group].device.ingress()
                }
                DeviceKind::Memory(group) => match &self.scenario.devices[group] {
                    group if group.is_hdm_db() => group.coherence.filter.ingress(&group.controller),
                    group => group.controller.process_time,
                },
            },
            End::Switch(..) => self.scenario.fabric.switch.switching_time,
        }
    }

    /// The path of a link's parameters in the scenario.
    pub fn link_path(&self, link: &PlannedLink) -> &str {
        &self.link_classes[link.class].path
    }

    /// Most bandwidth of a host's links in one direction, in GB/s of line data.
    pub fn host_gb_per_s(&self, host: usize) -> f64 {
        let own = |link: &&PlannedLink| matches!(link.a, End::Host(number, _) if number == host);
        let links = self.links.iter().filter(own);
        links.map(|link| 64_000.0 / link.params.line_ps()).sum()
    }

    /// Constant time that the components at both ends of a link spend before and after it,
    /// summed over both directions.
    pub fn pipelines(&self, link: &PlannedLink) -> Picos {
        let of = |end| self.egress(end) + self.ingress(end);
        of(link.a) + of(link.b)
    }
}
