//! Constant times that components spend before and after their links.
//!
//! These times are parts of the wires: the egress time of the sender and the ingress time of the receiver are
//! added to the latency of each wire, so they cost no event.
//!
//! A memory device has no egress time. Its `process_time` is one number for a request and its response, and all of
//! it is spent on the request, before the medium. Without load a request takes as long as with any other division.
//! A component sees a message at the end of its ingress time, and returns the message's credit no earlier. So the
//! credits of requests come back later by the whole `process_time`. [`LinkParams::windows`] makes up for it: a
//! window has the credits and the messages that pass in the time of [`Plan::pipelines`], in which both ends and
//! both directions count.
//!
//! [`LinkParams::windows`]: cxlab_link::LinkParams::windows

use cxlab_engine::units::Picos;

use crate::endpoints::DeviceKind;
use crate::links::{End, PlannedLink};
use crate::plan::Plan;

impl Plan {
    /// Constant time that a component spends before the link that leaves at this end. Memory devices and switches
    /// have none: theirs is [`Plan::ingress`] alone.
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

    /// Constant time that a component spends after the link that arrives at this end. A message keeps its place in
    /// the receive buffer for this time.
    pub fn ingress(&self, end: End) -> Picos {
        match end {
            End::Host(number, _) => self.scenario.hosts[self.hosts[number].group].ingress(),
            End::Device(number, _) => match self.devices[number].group {
                DeviceKind::Accelerator(group) => {
                    self.scenario.accelerators[group].device.ingress()
                }
                DeviceKind::Memory(group) => {
                    let device = &self.scenario.devices[group];
                    let controller = &device.controller;
                    match device.is_hdm_db() {
                        true => device.coherence.filter.ingress(controller),
                        false => controller.process_time,
                    }
                }
            },
            End::Switch(..) => self.scenario.fabric.switch.switching_time,
        }
    }

    /// Constant time that the components at both ends of a link spend before and after it,
    /// summed over both directions.
    pub fn pipelines(&self, link: &PlannedLink) -> Picos {
        let component = |end| self.egress(end) + self.ingress(end);
        component(link.a) + component(link.b)
    }
}
