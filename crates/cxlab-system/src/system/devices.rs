//! Devices and switches.

use std::sync::Arc;

use cxlab_agent::DeviceSharedMemory;
use cxlab_device::{
    Accelerator, AcceleratorConfig, AttachedMemoryConfig, CoherentConfig, CoherentDevice,
    DeviceConfig, MemoryDevice, QosConfig,
};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Dpa;
use cxlab_fabric::switch::{Switch, SwitchConfig};
use cxlab_link::LinkPort;
use cxlab_memory::{DeferredMedium, MediumSite};
use cxlab_plan::DeviceKind;
use cxlab_protocol::PortId;
use cxlab_workload::LOCAL_BASE;
use cxlab_workload::thread::{ExecutionPlace, Thread};

use super::{Builder, Node};
use crate::host::{Agent, Host};

impl Builder<'_> {
    /// The part of a device's memory that hosts share with their values; `None` if they share none of it.
    fn device_shared_memory(&self, number: usize) -> Option<DeviceSharedMemory> {
        let parts = (0..).zip(&self.plan.shared);
        let hosts = parts.flat_map(|(host, part)| {
            let of_device = part.shares.iter().filter(|share| share.0 == number);
            of_device.map(move |(_, first, end)| (PortId(host), *first, *end))
        });
        let hosts: Vec<(PortId, Dpa, Dpa)> = hosts.collect();
        (!hosts.is_empty()).then(|| DeviceSharedMemory {
            memory: self.shared.clone(),
            device: PortId((self.plan.hosts.len() + number) as u16),
            hosts,
        })
    }

    /// An accelerator with its threads of its host's kernel.
    fn accelerator(&self, number: usize, group: usize, ports: Vec<LinkPort>) -> Node {
        let (hosts, devices) = (self.plan.hosts.len(), self.plan.devices.len());
        let first = devices - self.plan.accelerator_hosts.len();
        let host = self.plan.accelerator_hosts[number - first];
        let mut siblings = self.plan.accelerators_of(host);
        let accelerator = siblings.position(|(device, _)| device == number);
        let (Some(accelerator), Some(domain)) = (accelerator, &self.domains[host]) else {
            unreachable!("the plan gave every accelerator a host that runs threads")
        };
        let params = self.plan.scenario.accelerators[group].device.clone();
        let threads = (0..params.elements as usize).flat_map(|element| {
            domain.kernel.threads(ExecutionPlace::Element {
                accelerator,
                element,
            })
        });
        let mut threads: Vec<Thread> = threads.collect();
        if self.record.states && domain.kernel.can_run_again() {
            threads.iter_mut().for_each(Thread::keep_log);
        }
        let made = Accelerator::new(AcceleratorConfig {
            threads,
            number: (hosts + number) as u16,
            port_id: PortId((hosts + number) as u16),
            host: PortId(host as u16),
            ports,
            memory: self.own_memory(number, group),
            translates: self.plan.has_os(host),
            rng: StreamRng::new(self.seed, &self.plan.devices[number].name),
            prefetch: (params.cache.prefetch.as_ref()).and_then(|choice| choice.build().ok()),
            reach: self.reach_of(host),
            phases: domain.kernel.phases().to_vec(),
            image: domain.image.clone(),
            log: self.record.rows,
            versions: domain.versions.clone(),
            poison: domain.poison.clone(),
            params,
        });
        match made {
            Ok(accelerator) => Node::Host(Host::new(Agent::Accelerator(Box::new(accelerator)))),
            Err(error) => unreachable!("the plan checked the caches: {error:?}"),
        }
    }

    /// The memory that accelerators of a host may access: pairs of the first line of a range, and the line after its
    /// last.
    fn reach_of(&self, host: usize) -> Vec<(u64, u64)> {
        let planned = &self.plan.hosts[host];
        let own_memory = self.plan.scenario.hosts[planned.group].own_memory();
        let first = LOCAL_BASE.0 / 64;
        let end = first + own_memory.0 / 64;
        vec![(0, planned.map.span().0 / 64), (first, end)]
    }

    /// The memory of a Type 2 device.
    fn own_memory(&self, number: usize, group: usize) -> Option<AttachedMemoryConfig> {
        let device = &self.plan.devices[number];
        let params = self.plan.scenario.accelerators[group].memory.as_ref()?;
        let medium = self.plan.media.accelerators[group].as_ref()?;
        let backend = medium.backend(MediumSite {
            capacity: params.capacity,
            rng: StreamRng::new(self.seed, &format!("{}/medium", device.name)),
            context: self.context.clone(),
        });
        Some(AttachedMemoryConfig {
            backend,
            decoder: (device.decoders.decoders().first())
                .map(|decoder| (decoder.set, decoder.target))?,
            lines: params.capacity.0 / 64,
            bias_page: self.plan.scenario.accelerators[group].device.bias_page,
            class: params.class,
        })
    }

    /// The component of a device.
    pub(super) fn device(&self, number: usize, ports: Vec<LinkPort>) -> Node {
        let device = &self.plan.devices[number];
        let group_number = match device.group {
            DeviceKind::Memory(group) => group,
            DeviceKind::Accelerator(group) => return self.accelerator(number, group, ports),
        };
        let group = &self.plan.scenario.devices[group_number];
        let params = group.controller.clone();
        let backend = self.plan.media.devices[group_number].backend(MediumSite {
            capacity: group.capacity,
            rng: StreamRng::new(self.seed, &format!("{}/medium", device.name)),
            context: self.context.clone(),
        });
        if !group.is_hdm_db() {
            let shared = self.device_shared_memory(number);
            let qos = self.telemetry(number);
            // A request that may be lost or denied must not have a response ahead of its time, and the number of
            // requests inside must be known at each time.
            let persistent = (device.memory())
                .is_some_and(|group| self.plan.media.devices[group].is_persistent() == Some(true));
            let changes = !device.changes.is_empty() || self.plan.failures().is_some();
            let backend = match changes || qos.is_some() || shared.is_some() {
                true => Box::new(DeferredMedium::new(backend)),
                false => backend,
            };
            let media_errors = group.media_errors.clone();
            let media_errors = media_errors.map(|params| (params, self.seed, device.name.clone()));
            return Node::Device(MemoryDevice::new(DeviceConfig {
                params,
                ports,
                backend,
                changes: device.changes.clone(),
                persistent,
                qos,
                media_errors,
                values: self.record.values && changes,
                shared,
                decoders: device.decoders.clone(),
            }));
        }
        let hosts = self.plan.hosts.len();
        let made = group.coherence.victim.build().map(|policy| {
            CoherentDevice::new(CoherentConfig {
                params,
                filter: group.coherence.filter.clone(),
                policy,
                policy_rng: StreamRng::new(self.seed, &format!("{}/filter", device.name)),
                ports,
                backend,
                decoders: device.decoders.clone(),
                port_id: PortId((hosts + number) as u16),
                peers: (0..hosts as u16).map(PortId).collect(),
                qos: self.telemetry(number),
                shares: device.share_changes(),
                observe: self.record.values,
            })
        });
        match made {
            Ok(Ok(device)) => Node::Coherent(device),
            Ok(Err(error)) => unreachable!("the plan checked the snoop filter: {error}"),
            Err(error) => unreachable!("the plan checked the victim policy: {error}"),
        }
    }

    /// Telemetry of a device, if the device reports its load.
    fn telemetry(&self, number: usize) -> Option<QosConfig> {
        Some(self.plan.qos.devices[number].as_ref()?.config.clone())
    }

    /// The component of a switch.
    pub(super) fn switch(&self, number: usize, ports: Vec<LinkPort>) -> Node {
        let name = &self.plan.graph.switches[number].name;
        Node::Switch(Switch::new(SwitchConfig {
            params: self.plan.scenario.fabric.switch.clone(),
            index: number,
            hdm_d: Arc::clone(&self.hdm_d),
            ports,
            tables: Arc::clone(&self.plan.tables),
            virtual_channels: self.vcs,
            rng: StreamRng::new(self.seed, name),
        }))
    }
}
