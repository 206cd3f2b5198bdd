//! The changes of devices that follow from the fabric manager's commands.

use cxlab_device::{CapacityChange, CapacityEvent, DeviceChange, DeviceChangeKind};
use cxlab_engine::units::Picos;
use cxlab_protocol::PortId;

use super::account::{Account, Holding, Holdings, Step};
use super::events::changes_capacity;
use crate::extents::RegionDecoder;

impl Account<'_> {
    /// The changes of each device, in order of time.
    pub(crate) fn timelines(&self, extents: &[RegionDecoder]) -> Vec<Vec<DeviceChange>> {
        let mut timelines = vec![Vec::new(); self.named.names.devices.len()];
        let extents = match changes_capacity(self.scenario) {
            true => extents,
            false => &[],
        };
        let mut now = self.first.clone();
        let mut served = vec![Holding::Yes; extents.len()];
        let mut serve = |now: &Holdings, at: Picos, concerns: &dyn Fn(&RegionDecoder) -> bool| {
            let mut changes = Vec::new();
            for (extent, served) in extents.iter().zip(&mut served) {
                let has = now.of(extent);
                let event = match (*served, has) {
                    (before, has) if before == has || !concerns(extent) => continue,
                    // A host that gives memory up before it is bound has never had the memory.
                    (Holding::No, Holding::Leaving) => continue,
                    (_, Holding::Yes) => CapacityEvent::Add,
                    (_, Holding::Leaving) => CapacityEvent::Leave,
                    (_, Holding::No) => CapacityEvent::Release,
                };
                *served = has;
                changes.push((extent.device, extent.change(at, event)));
            }
            changes
        };
        let mut tell = |changes: Vec<(usize, DeviceChange)>| {
            for (device, change) in changes {
                timelines[device].push(change);
            }
        };
        tell(serve(&now, Picos::ZERO, &|_| true));
        for (at, step) in &self.steps {
            let at = *at;
            match *step {
                Step::Hold { part, host, has } => {
                    now.held.insert((part, host), has);
                    let concerns = |one: &RegionDecoder| (one.part, one.host) == (part, host);
                    tell(serve(&now, at, &concerns));
                }
                Step::Bind { host, device, has } => {
                    now.bound.insert((host, device), has);
                    let concerns = |one: &RegionDecoder| (one.host, one.device) == (host, device);
                    tell(serve(&now, at, &concerns));
                }
                Step::Scrub { part, host } => {
                    let here = |one: &&RegionDecoder| (one.part, one.host) == (part, host);
                    let scrubbed = extents.iter().filter(here);
                    let scrub =
                        |one: &RegionDecoder| (one.device, one.change(at, CapacityEvent::Scrub));
                    tell(scrubbed.map(scrub).collect());
                }
                Step::Share { device, share } => {
                    let kind = DeviceChangeKind::Share(share);
                    tell(vec![(device, DeviceChange { at, kind })]);
                }
            }
        }
        timelines
    }
}

impl RegionDecoder {
    fn change(&self, at: Picos, event: CapacityEvent) -> DeviceChange {
        let kind = DeviceChangeKind::Capacity(CapacityChange {
            event,
            host: PortId(self.host as u16),
            decoder: self.decoder,
        });
        DeviceChange { at, kind }
    }
}
