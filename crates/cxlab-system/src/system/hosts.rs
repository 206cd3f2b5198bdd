//! Hosts: requesters, cores and processors.

use std::sync::Arc;

use cxlab_agent::{HostSharedMemory, LineVersions, PoisonedLines, ThreadProgram};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_host::{
    CachingConfig, CachingRequester, Core, CoreConfig, LocalConfig, PreparedMemory, Processor,
    ProcessorConfig, ProcessorError, ProcessorParams, Requester, RequesterConfig, RequesterParams,
};
use cxlab_link::LinkPort;
use cxlab_memory::MediumSite;
use cxlab_plan::{End, PlannedProgram, Problem, Source};
use cxlab_protocol::PortId;
use cxlab_scenario::HostKind;
use cxlab_workload::thread::{ExecutionPlace, Thread, ThreadedKernel};
use cxlab_workload::{Image, LOCAL_BASE};

use super::{Builder, Domain, Node};
use crate::host::{Agent, Host};

impl Builder<'_> {
    /// The component of a host, whose operations come from `source`.
    pub(super) fn host(
        &mut self,
        number: usize,
        ports: Vec<LinkPort>,
        source: Source,
    ) -> Result<Node, Problem> {
        let host = &self.plan.hosts[number];
        let group = &self.plan.scenario.hosts[host.group];
        let port_to = self.root_ports(number, ports.len());
        self.domains.push(None);
        let (source, issue) = match (source, &group.kind) {
            (Source::Processor(kernel, programs), _) => {
                return self.processor(number, ports, kernel, programs);
            }
            (Source::Program(program), HostKind::Core(core)) => {
                let core = CoreConfig {
                    params: core.clone(),
                    number: number as u16,
                    port_id: PortId(number as u16),
                    port_to,
                    ports,
                    first_device: self.plan.hosts.len() as u16,
                    map: Arc::clone(&host.map),
                    local: self.local_memory(number),
                    program,
                    rng: StreamRng::new(self.seed, &host.name),
                    limit: group.requests,
                    log: self.record.rows,
                };
                return Ok(Node::Host(Host::new(Agent::Core(Core::new(core)))));
            }
            (Source::Lines(source), HostKind::Requester(issue)) => (source, issue),
            _ => unreachable!("programs are made for cores, lines for requesters"),
        };
        let throttle = self.plan.qos.throttles[number].as_ref();
        let requester = RequesterConfig {
            params: RequesterParams {
                throttle: throttle.map(|throttle| throttle.params.clone()),
                ..issue.clone()
            },
            steps: throttle.map_or(Vec::new(), |throttle| throttle.steps.clone()),
            number: number as u16,
            port_id: PortId(number as u16),
            port_to,
            ports,
            first_device: self.plan.hosts.len() as u16,
            map: Arc::clone(&host.map),
            source,
            rng: StreamRng::new(self.seed, &host.name),
            limit: group.requests,
            log: self.record.rows || group.external,
            partial: self.plan.workloads[host.group].request().0 < LINE_BYTES,
            values: self.record.values,
            joins_after: host.joins,
            leaves_after: host.leaves,
        };
        let agent = match &issue.cache {
            Some(cache) if self.plan.caching[number] => {
                let policy = cache.policy.as_ref().map(|choice| match choice.build() {
                    Ok(policy) => policy,
                    Err(error) => unreachable!("the plan checked the victim policy: {error}"),
                });
                let made = CachingRequester::new(CachingConfig {
                    requester,
                    cache: cache.clone(),
                    classes: self.plan.classes(),
                    policy,
                    policy_rng: StreamRng::new(self.seed, &format!("{}/cache", host.name)),
                    snooped: group.snooped,
                    observe: self.record.values,
                });
                match made {
                    Ok(agent) => Agent::Caching(agent),
                    Err(error) => unreachable!("the plan checked the cache: {error}"),
                }
            }
            _ => Agent::Plain(Requester::new(requester)),
        };
        Ok(Node::Host(Host::new(agent)))
    }

    /// A processor with its kernel's threads, and their shared memory as the kernel prepares it.
    fn processor(
        &mut self,
        number: usize,
        ports: Vec<LinkPort>,
        kernel: Box<dyn ThreadedKernel>,
        programs: Vec<PlannedProgram>,
    ) -> Result<Node, Problem> {
        let host = &self.plan.hosts[number];
        let group = &self.plan.scenario.hosts[host.group];
        let Some(params) = group.processor().cloned() else {
            unreachable!("threads are made for processors")
        };
        let image = Image::new();
        let os = match self.plan.os_config(number, self.seed) {
            Some(os) => {
                let prepared = PreparedMemory {
                    image: Image::new(),
                    touched: kernel.first_touches(),
                };
                kernel.prepare(&prepared.image);
                Some((os, prepared))
            }
            None => {
                kernel.prepare(&image);
                None
            }
        };
        let versions = cfg!(debug_assertions).then(LineVersions::default);
        let poison = self.plan.has_media_errors().then(PoisonedLines::default);
        let with_threads = params.cores - group.cores_beside();
        let threads = (0..with_threads as usize).flat_map(|core| {
            let threads = kernel.threads(ExecutionPlace::Core { core });
            threads.into_iter().map(move |thread| (core as u16, thread))
        });
        let mut threads: Vec<(u16, Thread)> = threads.collect();
        if self.record.states && kernel.can_run_again() {
            threads.iter_mut().for_each(|(_, thread)| thread.keep_log());
        }
        let mut phases = kernel.phases().to_vec();
        let first_phase = phases.len() as u8;
        if let Some(first) = programs.first() {
            phases.extend_from_slice(first.program.phases());
        }
        let programs = self.thread_programs(number, &params, programs, first_phase);
        let nodes = self.memory_nodes(number, &params);
        let accelerators = self.plan.accelerators_of(number);
        let edge = |device: usize| PortId((self.plan.hosts.len() + device) as u16);
        let accelerators: Vec<(PortId, bool)> = accelerators
            .map(|(device, group)| (edge(device), group.is_hdm_db()))
            .collect();
        let coherent = accelerators.iter().filter(|(_, coherent)| *coherent);
        let coherent = coherent.map(|(device, _)| *device);
        let made = Processor::new(ProcessorConfig {
            number: number as u16,
            port_id: PortId(number as u16),
            port_to: self.root_ports(number, ports.len()),
            ports,
            first_device: self.plan.hosts.len() as u16,
            map: Arc::clone(&host.map),
            nodes,
            devices: accelerators.iter().map(|(device, _)| *device).collect(),
            device_coherent: coherent.collect(),
            os,
            threads,
            programs,
            phases,
            shared: self.host_shared_memory(number, &image),
            image: image.clone(),
            log: self.record.rows,
            versions: versions.clone(),
            poison: poison.clone(),
            may_fail: self.plan.changes_capacity()
                || self.plan.failures().is_some()
                || self.plan.has_media_errors(),
            params,
        });
        self.domains[number] = Some(Domain {
            kernel,
            image,
            versions,
            poison,
        });
        match made {
            Ok(processor) => Ok(Node::Host(Host::new(Agent::Processor(Box::new(processor))))),
            Err(ProcessorError::Os(error)) => {
                let path = format!("hosts[{}].os", host.group);
                Err(Problem::of_param(&path, error))
            }
            Err(ProcessorError::Cache(error)) => {
                unreachable!("the plan checked the caches: {error}")
            }
        }
    }

    /// The programs that cores of a processor run beside its threads, by core.
    fn thread_programs(
        &self,
        number: usize,
        params: &ProcessorParams,
        programs: Vec<PlannedProgram>,
        first_phase: u8,
    ) -> Vec<(u16, ThreadProgram)> {
        let host = &self.plan.hosts[number];
        let bases = self.plan.thread_context(number, self.seed).bases;
        let programs = programs.into_iter().map(|planned| {
            let name = format!("{}/core{}", host.name, planned.core);
            let program = ThreadProgram {
                program: planned.program,
                rng: StreamRng::new(self.seed, &name),
                window: params.reorder,
                limit: planned.limit,
                bases,
                cxl_end: planned.cxl_end,
                first_phase,
            };
            (planned.core, program)
        });
        programs.collect()
    }

    /// The memory of a processor's NUMA nodes.
    fn memory_nodes(&self, number: usize, params: &ProcessorParams) -> Vec<LocalConfig> {
        let host = &self.plan.hosts[number];
        let group = &self.plan.scenario.hosts[host.group];
        let mut base = LOCAL_BASE;
        let media = self.plan.media.nodes[host.group].iter();
        let nodes = group.nodes.iter().zip(media).enumerate();
        let nodes = nodes.map(|(number, (node, medium))| {
            let site = MediumSite {
                capacity: node.capacity,
                rng: StreamRng::new(self.seed, &format!("{}/node{number}", host.name)),
                context: self.context.clone(),
            };
            let config = LocalConfig {
                base,
                backend: medium.backend(site),
                capacity: node.capacity,
                latency: node.latency + params.distance(node.at),
            };
            base.0 += node.capacity.0;
            config
        });
        nodes.collect()
    }

    /// The windows of a host that others share. The kernel's initial values there are stored in the devices.
    fn host_shared_memory(&self, number: usize, image: &Image) -> Option<HostSharedMemory> {
        let part = &self.plan.shared[number];
        if part.lines.is_empty() {
            return None;
        }
        let windows = HostSharedMemory {
            memory: self.shared.clone(),
            lines: part.lines.iter().copied().collect(),
        };
        let map = &self.plan.hosts[number].map;
        let lines = image.pages().into_iter().flat_map(|Hpa(page)| {
            let lines = (page..page + 4096).step_by(LINE_BYTES as usize);
            lines.map(Hpa)
        });
        for hpa in lines.filter(|hpa| windows.holds(LineAddr(hpa.0 / LINE_BYTES))) {
            if let Some((device, dpa)) = map.locate(hpa) {
                self.shared.prepare(device, dpa, image, hpa);
            }
        }
        Some(windows)
    }

    /// The memory of a host's own.
    fn local_memory(&self, number: usize) -> Option<LocalConfig> {
        let host = &self.plan.hosts[number];
        let local = self.plan.scenario.hosts[host.group].local.as_ref()?;
        let medium = self.plan.media.local[host.group].as_ref()?;
        Some(LocalConfig {
            base: LOCAL_BASE,
            backend: medium.backend(MediumSite {
                capacity: local.capacity,
                rng: StreamRng::new(self.seed, &format!("{}/memory", host.name)),
                context: self.context.clone(),
            }),
            capacity: local.capacity,
            latency: local.latency,
        })
    }

    /// Which of a host's several root ports leads to each edge port, without a switch.
    fn root_ports(&self, number: usize, ports: usize) -> Vec<u16> {
        if ports <= 1 {
            return Vec::new();
        }
        let mut port_to = vec![0; self.plan.hosts.len() + self.plan.devices.len()];
        for link in &self.plan.links {
            if let (End::Host(host, port), End::Device(device, _)) = (link.a, link.b)
                && host == number
            {
                port_to[self.plan.hosts.len() + device] = port;
            }
        }
        port_to
    }
}
