//! Simulation of one cluster: VMs arrive, are placed, and depart.
//!
//! Departures precede arrivals of the same second, and VMs that start together arrive in the order of the demand. A VM
//! is never moved. A VM that fits on no host is rejected and does not arrive again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cxlab_engine::rng::StreamRng;

use crate::demand::{ClusterDemand, Demand};
use crate::fabric::PodFabric;
use crate::params::{Exposure, FleetParams, MIB, Packs};
use crate::placement::Placement;
use crate::placement::hosts::Hosts;
use crate::policy::{HostView, PoolPolicy, Vm, split};
use crate::pool::{self, GrantedSlices, Pools};
use crate::sensitivity;
use crate::stats::{CORE_BINS, Outcome, Point};

/// Slices of a device that never runs short.
pub const UNLIMITED_SLICES: u32 = 1 << 24;
/// DRAM of a host that never runs short, in MiB: twice what a scenario can give it.
pub const UNLIMITED_MIB: u64 = 1 << 31;

/// Parameters that all clusters of a simulation share.
#[derive(Clone)]
pub struct Setup<'a> {
    /// Parameters of the fleet.
    pub params: &'a FleetParams,
    /// Fabric of every pod.
    pub fabric: &'a PodFabric,
    /// Source of the VMs.
    pub demand: &'a dyn Demand,
    /// Placement of VMs on hosts.
    pub placement: &'a dyn Placement,
    /// Policy that divides a VM's memory between local DRAM and pool.
    pub policy: &'a dyn PoolPolicy,
    /// Local DRAM of each host, in MiB.
    pub local_mib: u64,
    /// Number of slices of each device.
    pub device_slices: u32,
    /// If set, hosts accept VMs as if each host had this much DRAM of its own, in MiB. The policy
    /// divides their memory afterwards, so local and pool memory need no limits.
    pub as_if_mib: Option<u64>,
    /// Seed of the random streams.
    pub seed: u64,
    /// Whether to record the time series and slowdowns.
    pub series: bool,
    /// Limit on rejections, for a simulation that only asks whether it is kept. When all clusters
    /// together exceed it, all of them stop.
    pub budget: Option<&'a Budget>,
    /// VMs drawn before, if several simulations share them.
    pub drawn: Option<&'a DrawnVms>,
}

/// Most VMs that a cache keeps. A VM takes about 90 bytes.
const MOST_KEPT: usize = 4_000_000;

/// The VMs of clusters, drawn once for several simulations.
#[derive(Debug)]
pub struct DrawnVms {
    clusters: Vec<OnceLock<Arc<[Vm]>>>,
    kept: AtomicUsize,
}

impl DrawnVms {
    /// An empty cache for this many clusters.
    pub fn new(clusters: usize) -> DrawnVms {
        DrawnVms {
            clusters: (0..clusters).map(|_| OnceLock::new()).collect(),
            kept: AtomicUsize::new(0),
        }
    }

    /// The VMs of a cluster. VMs of clusters beyond the cache's limit are drawn again each time.
    fn vms(&self, setup: &Setup<'_>, which: ClusterId) -> Arc<[Vm]> {
        if let Some(vms) = self.clusters[which.index].get() {
            return Arc::clone(vms);
        }
        let vms: Arc<[Vm]> = drawn(setup, which).into();
        let before = self.kept.fetch_add(vms.len(), Ordering::Relaxed);
        if before + vms.len() > MOST_KEPT {
            self.kept.fetch_sub(vms.len(), Ordering::Relaxed);
            return vms;
        }
        Arc::clone(self.clusters[which.index].get_or_init(|| vms))
    }
}

/// Limit on the rejected core-seconds of all clusters.
#[derive(Debug)]
pub struct Budget {
    /// Core-seconds rejected so far.
    pub rejected: AtomicU64,
    /// Core-seconds that may be rejected.
    pub allowed: u64,
}

impl Budget {
    /// Whether more core-seconds were rejected than allowed.
    pub fn is_spent(&self) -> bool {
        self.rejected.load(Ordering::Relaxed) > self.allowed
    }
}

/// A cluster of a fleet, by number and size.
#[derive(Clone, Copy, Debug)]
pub struct ClusterId {
    /// Number of the cluster, from 0.
    pub index: usize,
    /// Number of clusters in the fleet.
    pub of: usize,
    /// Number of pods of the cluster.
    pub pods: usize,
}

impl ClusterId {
    /// Name of the cluster in the names of its random streams.
    fn stream(&self) -> String {
        format!("fleet/cluster{}", self.index)
    }
}

#[derive(Clone, Debug)]
struct RunningVm {
    host: u32,
    cores: u32,
    local_mib: u64,
    slices: u32,
    granted: GrantedSlices,
    /// Mean latency of the VM's pool memory without load, in nanoseconds.
    unloaded_ns: f64,
    /// Share of the VM's accesses that go to pool memory.
    share: f64,
    loss: f64,
    /// Sum of the VM's slowdowns at its start and at the sampling points, and their number.
    slow: f64,
    count: u32,
    /// Index in the list of running VMs.
    place: u32,
}

/// State of a cluster at a time.
pub struct Cluster<'a> {
    setup: &'a Setup<'a>,
    pod_hosts: usize,
    slice_mib: u32,
    /// DRAM of a host as the placement sees it: all DRAM, or the local DRAM of hosts with pools.
    dram_mib: u64,
    packs: Packs,
    most_mib_per_core: f64,
    hosts: Hosts,
    local_used: Vec<u64>,
    total_used: Vec<u64>,
    pools: Pools,
    /// By pod: slices in use, and their peak.
    pool_used: Vec<u32>,
    pool_peak: Vec<u32>,
    local_peak: u64,
    /// Largest number of slices of a device in use at the peak of its pod.
    device_peak: u32,
    /// By host: wait in nanoseconds, and stretch, at the last sampling point.
    waits: Vec<(f64, f64)>,
    /// By host of a pod: mean unloaded pool latency, divided by local latency.
    ratios: Vec<f64>,
    live: Vec<RunningVm>,
    unused: Vec<u32>,
    running: Vec<u32>,
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    placing: StreamRng,
    outcome: Outcome,
    traffic: Vec<f64>,
}

/// Simulates a cluster over the whole study.
pub fn run(setup: &Setup<'_>, which: ClusterId) -> Outcome {
    let mut cluster = Cluster::new(setup, which);
    let span_s = setup.params.span_s();
    let step_s = setup.params.step_s();
    let vms = match setup.drawn {
        Some(drawn) => drawn.vms(setup, which),
        None => drawn(setup, which).into(),
    };
    let sampled = setup.series || setup.params.monitor.is_some();
    let mut next_sample = if sampled { 0 } else { span_s };
    for vm in vms.iter() {
        // The first sampling point includes VMs that run from the beginning.
        while next_sample < vm.start_s.min(span_s) {
            cluster.leave_until(next_sample);
            cluster.sample();
            next_sample += step_s;
        }
        cluster.leave_until(vm.start_s);
        let core_s = u64::from(vm.cores) * (vm.end_s.min(span_s) - vm.start_s.min(span_s));
        cluster.outcome.asked_core_s += core_s;
        cluster.outcome.arrived += 1;
        if !cluster.admit(vm) {
            cluster.outcome.rejected += 1;
            cluster.outcome.rejected_core_s += core_s;
            if let Some(budget) = setup.budget {
                budget.rejected.fetch_add(core_s, Ordering::Relaxed);
                if budget.is_spent() {
                    break;
                }
            }
        }
    }
    while next_sample < span_s {
        cluster.leave_until(next_sample);
        cluster.sample();
        next_sample += step_s;
    }
    cluster.leave_until(span_s);
    cluster.finish(which)
}

/// Draws the VMs of a cluster, from random streams that no policy changes.
fn drawn(setup: &Setup<'_>, which: ClusterId) -> Vec<Vm> {
    let params = setup.params;
    let name = which.stream();
    let hosts = (which.pods * setup.fabric.hosts()) as u64;
    let demand = ClusterDemand {
        index: which.index,
        of: which.of,
        cores: hosts * u64::from(params.host.cores),
        host_cores: params.host.cores,
        span_s: params.span_s(),
    };
    let asks = setup
        .demand
        .asks(&demand, &mut StreamRng::new(setup.seed, &name));
    let mut rng = StreamRng::new(setup.seed, &format!("{name}/vms"));
    let classes = &params.sensitivity;
    let total: f64 = classes.iter().map(|class| class.weight).sum();
    let vms = asks.iter().map(|ask| {
        let (class, loss) = sensitivity::draw(classes, total, &mut rng);
        let untouched = quantile(&params.untouched, rng.unit());
        let error = [(); 2].map(|()| crate::demand::normal(&mut rng));
        let (class, loss) = match ask.loss {
            Some(loss) => (sensitivity::class_of(classes, loss), loss),
            None => (class, loss),
        };
        Vm {
            start_s: ask.start_s,
            end_s: ask.end_s,
            cores: ask.cores,
            memory_mib: ask.memory_mib,
            loss,
            untouched: ask.untouched.unwrap_or(untouched),
            class,
            most_pool: classes[usize::from(class)].most_pool,
            error,
        }
    });
    vms.collect()
}

/// Quantile `part` of a distribution that is given by equally likely pieces.
fn quantile(points: &[f64], part: f64) -> f64 {
    let at = part * (points.len() - 1) as f64;
    let piece = (at as usize).min(points.len() - 2);
    let within = at - piece as f64;
    points[piece] + within * (points[piece + 1] - points[piece])
}

impl<'a> Cluster<'a> {
    fn new(setup: &'a Setup<'a>, which: ClusterId) -> Cluster<'a> {
        let params = setup.params;
        let pod_hosts = setup.fabric.hosts();
        let hosts = which.pods * pod_hosts;
        let packs = match setup.as_if_mib {
            None if setup.local_mib < UNLIMITED_MIB => params.packs,
            _ => Packs::All,
        };
        let dram_mib = match packs {
            Packs::All => params.host.dram.0 / MIB,
            Packs::Local => setup.local_mib.max(1),
        };
        let local_ns = params.host.local_latency.as_nanos_f64();
        let ratio = |row: &Vec<Option<f64>>| {
            let reached: Vec<f64> = row.iter().flatten().copied().collect();
            reached.iter().sum::<f64>() / reached.len().max(1) as f64 / local_ns
        };
        Cluster {
            setup,
            pod_hosts,
            slice_mib: (params.slice.0 / MIB) as u32,
            dram_mib,
            packs,
            most_mib_per_core: setup.demand.most_mib_per_core(),
            hosts: Hosts::new(hosts, params.host.cores, dram_mib, setup.placement.order()),
            local_used: vec![0; hosts],
            total_used: vec![0; hosts],
            pools: Pools::new(setup.fabric, which.pods, setup.device_slices, params.spread),
            pool_used: vec![0; which.pods],
            pool_peak: vec![0; which.pods],
            local_peak: 0,
            device_peak: 0,
            waits: vec![(0.0, 1.0); hosts],
            ratios: setup.fabric.unloaded_ns.iter().map(ratio).collect(),
            live: Vec::new(),
            unused: Vec::new(),
            running: Vec::new(),
            ends: BinaryHeap::new(),
            placing: StreamRng::new(setup.seed, &format!("{}/placement", which.stream())),
            outcome: Outcome {
                series: Vec::with_capacity(params.points()),
                ..Outcome::new(0, params.sensitivity.len())
            },
            traffic: vec![0.0; hosts],
        }
    }

    /// Chooses the host for a VM and the number of its pool slices.
    fn choose(&mut self, vm: &Vm) -> Option<(usize, u32)> {
        let offer = Offer {
            setup: self.setup,
            pod_hosts: self.pod_hosts,
            slice_mib: self.slice_mib,
            local_used: &self.local_used,
            total_used: &self.total_used,
            pools: &self.pools,
            ratios: &self.ratios,
        };
        let asked_mib = match self.packs {
            Packs::All => vm.memory_mib,
            Packs::Local => offer.local_mib(vm),
        };
        let placement = self.setup.placement;
        placement.find(
            &mut self.hosts,
            vm.cores,
            asked_mib,
            &mut self.placing,
            &mut |host| offer.slices(vm, host),
        )
    }

    fn changed(&mut self, host: usize, cores_free: u32) {
        let used = match self.packs {
            Packs::All => self.total_used[host],
            Packs::Local => self.local_used[host],
        };
        let free = self.dram_mib.saturating_sub(used);
        self.hosts.set(host, cores_free, free);
    }

    /// Places a VM. Returns false if it is rejected.
    fn admit(&mut self, vm: &Vm) -> bool {
        let Some((host, slices)) = self.choose(vm) else {
            return false;
        };
        let pod = host / self.pod_hosts;
        let pool_mib = u64::from(slices * self.slice_mib);
        let (granted, unloaded_ns) = self.pools.grant(pod, host % self.pod_hosts, slices);
        self.local_used[host] += u64::from(vm.memory_mib) - pool_mib;
        self.total_used[host] += u64::from(vm.memory_mib);
        self.changed(host, self.hosts.cores_free(host) - vm.cores);
        self.local_peak = self.local_peak.max(self.local_used[host]);
        self.pool_used[pod] += slices;
        if self.pool_used[pod] > self.pool_peak[pod] {
            self.pool_peak[pod] = self.pool_used[pod];
            let most = self.pools.most_granted(pod, self.setup.device_slices);
            self.device_peak = self.device_peak.max(most);
        }
        let part = pool_mib as f64 / f64::from(vm.memory_mib);
        let share = match self.setup.params.exposure {
            Exposure::Uniform => part,
            Exposure::Znuma if part > vm.untouched => (part - vm.untouched) / (1.0 - vm.untouched),
            Exposure::Znuma => 0.0,
        };
        let class = &mut self.outcome.by_class[usize::from(vm.class)];
        class[0] += 1;
        class[1] += u64::from(slices > 0);
        let mut live = RunningVm {
            host: host as u32,
            cores: vm.cores,
            local_mib: u64::from(vm.memory_mib) - pool_mib,
            slices,
            granted,
            unloaded_ns,
            share,
            loss: vm.loss,
            slow: 0.0,
            count: 1,
            place: self.running.len() as u32,
        };
        live.slow = self.slowdown(&live).1;
        let number = pool::put(&mut self.live, &mut self.unused, live);
        self.running.push(number);
        self.ends.push(Reverse((vm.end_s, number)));
        true
    }

    /// Present latency of a VM's pool memory in nanoseconds, and its slowdown.
    fn slowdown(&self, live: &RunningVm) -> (f64, f64) {
        if live.slices == 0 {
            return (0.0, 0.0);
        }
        let (wait, stretch) = self.waits[live.host as usize];
        let latency = live.unloaded_ns + wait;
        let local = self.setup.params.host.local_latency.as_nanos_f64();
        let lost = sensitivity::slowdown(live.loss, (latency / local).max(1.0));
        (latency, live.share * (lost + (stretch - 1.0)))
    }

    /// Removes the VMs whose end is not after `now_s`.
    fn leave_until(&mut self, now_s: u64) {
        while let Some(Reverse((end_s, number))) = self.ends.peek().copied() {
            if end_s > now_s {
                break;
            }
            self.ends.pop();
            self.leave(number);
        }
    }

    fn leave(&mut self, number: u32) {
        let live = self.live[number as usize].clone();
        let host = live.host as usize;
        let pod = host / self.pod_hosts;
        self.local_used[host] -= live.local_mib;
        self.total_used[host] -= live.local_mib + u64::from(live.slices * self.slice_mib);
        self.changed(host, self.hosts.cores_free(host) + live.cores);
        self.pool_used[pod] -= live.slices;
        self.pools.release(pod, live.granted);
        self.running.swap_remove(live.place as usize);
        if let Some(moved) = self.running.get(live.place as usize) {
            self.live[*moved as usize].place = live.place;
        }
        self.unused.push(number);
        self.outcome.departed += 1;
        self.outcome.slowdown.add(live.slow / f64::from(live.count));
    }

    /// Adds a sampling point to the series.
    fn sample(&mut self) {
        self.load();
        let mut point = Point {
            vms: self.running.len() as u64,
            rejected: self.outcome.rejected,
            ..Point::default()
        };
        for at in 0..self.running.len() {
            let number = self.running[at] as usize;
            let (latency, slow) = self.slowdown(&self.live[number]);
            let live = &mut self.live[number];
            live.slow += slow;
            live.count += 1;
            point.latency_sum_ns += latency;
            point.pooled_vms += u64::from(live.slices > 0);
            self.outcome.slowdown_now.add(slow);
        }
        let cores = self.setup.params.host.cores;
        let limit = self.setup.as_if_mib.unwrap_or(self.setup.local_mib);
        for host in 0..self.hosts.count() {
            let used = match self.setup.as_if_mib {
                Some(_) => self.total_used[host],
                None => self.local_used[host],
            };
            point.cores += u64::from(cores - self.hosts.cores_free(host));
            point.local_mib += self.local_used[host];
            // Memory that no VM of the demand could use with the free cores is stranded.
            let usable = (f64::from(self.hosts.cores_free(host)) * self.most_mib_per_core) as u64;
            point.stranded_mib += (limit - used).saturating_sub(usable);
            point.saturated += u64::from(self.waits[host].1 > 1.0);
        }
        let slices: u64 = self.pool_used.iter().map(|slices| u64::from(*slices)).sum();
        point.pool_mib = slices * u64::from(self.slice_mib);
        let hosts = self.hosts.count() as f64;
        let scheduled = point.cores as f64 / (hosts * f64::from(cores));
        let bin = ((scheduled * CORE_BINS as f64) as usize).min(CORE_BINS - 1);
        self.outcome.stranded[bin].add(point.stranded_mib as f64 / (hosts * limit as f64));
        self.outcome.series.push(point);
        if let Some(monitor) = self.setup.params.monitor {
            self.mitigate(monitor.bound);
        }
    }

    /// Replaces the pool memory of VMs that lose more than `bound` by local DRAM, if their host has
    /// enough of it free, in the order of the list of running VMs.
    fn mitigate(&mut self, bound: f64) {
        for at in 0..self.running.len() {
            let number = self.running[at] as usize;
            if self.slowdown(&self.live[number]).1 <= bound {
                continue;
            }
            let live = &mut self.live[number];
            let host = live.host as usize;
            let pool_mib = u64::from(live.slices * self.slice_mib);
            if self.local_used[host] + pool_mib > self.setup.local_mib {
                continue;
            }
            self.pools.release(host / self.pod_hosts, live.granted);
            self.pool_used[host / self.pod_hosts] -= live.slices;
            self.local_used[host] += pool_mib;
            self.local_peak = self.local_peak.max(self.local_used[host]);
            live.local_mib += pool_mib;
            let cores_free = self.hosts.cores_free(host);
            (live.slices, live.share, live.granted) = (0, 0.0, GrantedSlices::NONE);
            self.changed(host, cores_free);
            self.outcome.mitigated += 1;
        }
    }

    /// Computes the present waits in every pod.
    fn load(&mut self) {
        self.traffic.fill(0.0);
        let each = self.setup.params.traffic.as_gb_per_s();
        for number in &self.running {
            let live = &self.live[*number as usize];
            self.traffic[live.host as usize] += f64::from(live.cores) * each * live.share;
        }
        for (pod, traffic) in self.traffic.chunks(self.pod_hosts).enumerate() {
            let mean = traffic.iter().sum::<f64>() / self.pod_hosts as f64;
            for (host, own) in traffic.iter().enumerate() {
                let fabric = self.setup.fabric;
                self.waits[pod * self.pod_hosts + host] = fabric.wait(host, *own, mean);
                if *own > 0.0 {
                    self.outcome.loads[fabric.point(host, *own, mean)] += 1;
                }
            }
        }
    }

    fn finish(mut self, which: ClusterId) -> Outcome {
        for number in &self.running {
            let live = &self.live[*number as usize];
            self.outcome.slowdown.add(live.slow / f64::from(live.count));
        }
        let hosts = self.hosts.count() as u64;
        let peak = self.pool_peak.iter().copied().max().unwrap_or(0);
        let cores = (hosts * u64::from(self.setup.params.host.cores)) as f64;
        let limit = self.setup.as_if_mib.unwrap_or(self.setup.local_mib);
        let mut outcome = self.outcome;
        outcome.clusters = 1;
        outcome.hosts = hosts;
        outcome.pods = which.pods as u64;
        outcome.device_peak = self.device_peak;
        outcome.running = self.running.len() as u64;
        outcome.local_peak_mib = self.local_peak * hosts;
        outcome.pool_peak_mib = u64::from(peak) * u64::from(self.slice_mib) * which.pods as u64;
        outcome.scatter = vec![[
            outcome.mean(|point| point.cores as f64) / cores,
            outcome.mean(|point| point.stranded_mib as f64) / (hosts as f64 * limit as f64),
        ]];
        outcome
    }
}

/// State that decides how a VM's memory would be divided on a host.
struct Offer<'a> {
    setup: &'a Setup<'a>,
    pod_hosts: usize,
    slice_mib: u32,
    local_used: &'a [u64],
    total_used: &'a [u64],
    pools: &'a Pools,
    ratios: &'a [f64],
}

impl Offer<'_> {
    /// Local memory in MiB that a VM would have on an empty host, for the first host of a pod.
    fn local_mib(&self, vm: &Vm) -> u32 {
        let view = HostView {
            local_mib: self.setup.local_mib,
            local_free_mib: self.setup.local_mib,
            pool_free: u32::MAX,
            ratio: self.ratios[0],
        };
        let wish = self.setup.policy.wish(vm, &view);
        let slices = split(vm, &view, wish, self.slice_mib);
        vm.memory_mib - slices.unwrap_or(0) * self.slice_mib
    }

    /// Number of slices that a VM would get on a host. `None` if the memory is not available.
    fn slices(&self, vm: &Vm, host: usize) -> Option<u32> {
        if let Some(mib) = self.setup.as_if_mib
            && self.total_used[host] + u64::from(vm.memory_mib) > mib
        {
            return None;
        }
        let (pod, slot) = (host / self.pod_hosts, host % self.pod_hosts);
        let view = HostView {
            local_mib: self.setup.local_mib,
            local_free_mib: self.setup.local_mib - self.local_used[host],
            pool_free: self.pools.free(pod, slot),
            ratio: self.ratios[slot],
        };
        let wish = self.setup.policy.wish(vm, &view);
        split(vm, &view, wish, self.slice_mib)
    }
}

#[cfg(test)]
mod tests;
