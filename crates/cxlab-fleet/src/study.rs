//! A study: simulates a fleet without and with pools, and finds the DRAM that each needs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cluster::{self, Budget, ClusterId, DrawnVms, Setup, UNLIMITED_MIB, UNLIMITED_SLICES};
use crate::demand::Demand;
use crate::fabric::PodFabric;
use crate::params::{FleetParams, MIB, SizedFor, Sizing};
use crate::placement::Placement;
use crate::policy::{PoolPolicy, PoolPolicyChoice};
use crate::search::{Interrupted, least};
use crate::stats::Outcome;

/// DRAM of hosts is searched in steps of 1 GiB.
const STEP_MIB: u64 = 1024;

/// Progress of a study, and a flag to stop it. The thread that shows the progress shares it.
#[derive(Default, Debug)]
pub struct Watch {
    /// Number of clusters simulated so far.
    pub done: AtomicU64,
    /// Expected number of clusters in all. Every study adds its own.
    pub expected: AtomicU64,
    /// Set to stop the study, which keeps the results so far.
    pub stop: AtomicBool,
}

/// Number of amounts of local DRAM for which the devices are sized, less one.
const PLACES: u64 = 8;

/// Parameters of a study.
pub struct Study<'a> {
    /// Parameters of the fleet.
    pub params: &'a FleetParams,
    /// Fabric of every pod.
    pub fabric: &'a PodFabric,
    /// Number of slices of each device in the scenario.
    pub device_slices: u32,
    /// Source of the VMs, with its files read.
    pub demand: &'a dyn Demand,
    /// Placement of VMs on hosts.
    pub placement: &'a dyn Placement,
    /// Policy that divides a VM's memory between local DRAM and pool.
    pub policy: &'a dyn PoolPolicy,
    /// Seed of the random streams.
    pub seed: u64,
    /// Number of threads. Results do not depend on it.
    pub threads: usize,
}

/// DRAM that the fleet or one cluster needs, by the scenario's `slack`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NeededDram {
    /// Number of hosts.
    pub hosts: u64,
    /// Allowed rejections, as a share of the requested core-hours.
    pub allowed: f64,
    /// DRAM of each host without a pool, in MiB.
    pub alone_mib: u64,
    /// Local DRAM of each host with a pool, in MiB.
    pub local_mib: u64,
    /// Number of slices of each device.
    pub device_slices: u32,
}

/// Results of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct StudyResult {
    /// Results without pools, with the DRAM of the scenario.
    pub alone: Outcome,
    /// Results with pools. Absent if the study was interrupted before.
    pub pooled: Option<Outcome>,
    /// Local DRAM of each host in `pooled`, in MiB, if it was given.
    pub local_mib: u64,
    /// Slices of each device in `pooled`, if they were given.
    pub device_slices: u32,
    /// DRAM that is needed, if it was searched for: one entry for the
    /// fleet, or one for each cluster.
    pub needed: Vec<NeededDram>,
    /// Results with VMs placed as in `alone`, whose memory the policy divides without limits.
    pub as_if: Option<Outcome>,
    /// Whether the study was interrupted.
    pub partial: bool,
}

impl Study<'_> {
    /// The clusters of the fleet. The last one may be smaller.
    pub fn clusters(&self) -> Vec<ClusterId> {
        let pod_hosts = self.fabric.hosts() as u64;
        let pods = u64::from(self.params.hosts).div_ceil(pod_hosts);
        let each = u64::from(self.params.cluster).div_ceil(pod_hosts);
        let of = pods.div_ceil(each) as usize;
        (0..of)
            .map(|index| ClusterId {
                index,
                of,
                pods: each.min(pods - index as u64 * each) as usize,
            })
            .collect()
    }

    /// Runs the study.
    pub fn run(&self, watch: &Watch) -> StudyResult {
        let clusters = self.clusters();
        let drawn = DrawnVms::new(clusters.len());
        let run = Run {
            study: self,
            clusters: &clusters,
            threads: self.threads,
            drawn: &drawn,
            watch,
        };
        let passes = match self.params.sizing {
            // Approximate number of simulations in the binary searches.
            Sizing::Needed => 50,
            Sizing::Given => 3,
        };
        watch
            .expected
            .fetch_add(passes * clusters.len() as u64, Ordering::Relaxed);
        let dram_mib = self.params.host.dram.0 / MIB;
        let none = none();
        let alone = run.simulate(&run.setup(none.as_ref(), dram_mib, 0));
        let mut result = StudyResult {
            alone: alone.0,
            pooled: None,
            local_mib: self.params.host.local.unwrap_or(self.params.host.dram).0 / MIB,
            device_slices: self.device_slices,
            needed: Vec::new(),
            as_if: None,
            partial: alone.1.is_err(),
        };
        if !result.partial && run.pools(&mut result).is_err() {
            result.partial = true;
        }
        result
    }
}

/// A running study of some clusters.
#[derive(Clone, Copy)]
struct Run<'a> {
    study: &'a Study<'a>,
    clusters: &'a [ClusterId],
    threads: usize,
    drawn: &'a DrawnVms,
    watch: &'a Watch,
}

impl<'a> Run<'a> {
    fn pools(&self, result: &mut StudyResult) -> Result<(), Interrupted> {
        let (params, policy) = (self.study.params, self.study.policy);
        let as_if = Setup {
            as_if_mib: Some(params.host.dram.0 / MIB),
            series: false,
            ..self.setup(policy, UNLIMITED_MIB, UNLIMITED_SLICES)
        };
        let (as_if, whole) = self.simulate(&as_if);
        whole?;
        result.as_if = Some(as_if);
        if params.sizing == Sizing::Needed {
            result.needed = match params.sized {
                SizedFor::Fleet => vec![self.needed(&result.alone)?],
                SizedFor::Cluster => self.needed_by_cluster()?,
            };
        }
        let (local_mib, slices) = (result.local_mib, result.device_slices);
        let given = self.setup(policy, local_mib, slices);
        let (pooled, whole) = self.simulate_each(&|at| {
            let one = result.needed.get(at).or(result.needed.first());
            let mut setup = given.clone();
            if let Some(needed) = one {
                (setup.local_mib, setup.device_slices) = (needed.local_mib, needed.device_slices);
            }
            setup
        });
        result.pooled = Some(pooled);
        whole
    }

    /// DRAM that each cluster needs for its own rejections without a pool.
    fn needed_by_cluster(&self) -> Result<Vec<NeededDram>, Interrupted> {
        let none = none();
        let dram_mib = self.study.params.host.dram.0 / MIB;
        let needed = self.each(&|at| {
            let one = Run {
                clusters: &self.clusters[at..=at],
                threads: 1,
                ..*self
            };
            let setup = Setup {
                series: false,
                ..one.setup(none.as_ref(), dram_mib, 0)
            };
            let (alone, whole) = one.simulate(&setup);
            whole.and_then(|()| one.needed(&alone))
        });
        needed
            .into_iter()
            .map(|needed| needed.unwrap_or(Err(Interrupted)))
            .collect()
    }

    /// The least DRAM that serves. First the DRAM of hosts without pools is found. Then devices are
    /// sized for some amounts of local DRAM, from the least that serves with unlimited pools to
    /// that of hosts without pools. The least sum is the result.
    fn needed(&self, alone: &Outcome) -> Result<NeededDram, Interrupted> {
        let params = self.study.params;
        let (policy, fabric) = (self.study.policy, self.study.fabric);
        let hosts = alone.hosts;
        let allowed = alone.rejected_part() + params.slack;
        let core_s = (allowed * alone.asked_core_s as f64) as u64;
        let none = none();
        let dram = (params.host.dram.0 / MIB).div_ceil(STEP_MIB);
        let serves = |policy: &dyn PoolPolicy, steps: u64, slices: u32| {
            self.serves(policy, steps * STEP_MIB, slices, core_s)
        };
        let alone = least(1, dram, |steps| {
            // The scenario's DRAM serves by definition, and local memory slows no VM.
            Ok(steps * STEP_MIB >= params.host.dram.0 / MIB || serves(none.as_ref(), steps, 0)?)
        })?;
        let alone = alone.unwrap_or(dram);
        // Less local DRAM than this does not serve with any pool. A policy that needs no less than
        // hosts without pools gets their amount.
        let floor = (alone as f64 * params.least_local).ceil() as u64;
        let low = least(floor.min(alone), alone, |steps| {
            serves(policy, steps, UNLIMITED_SLICES)
        })?;
        let low = low.unwrap_or(alone);
        let pods = fabric.devices() as f64 / fabric.hosts() as f64;
        let slice_mib = params.slice.0 as f64 / MIB as f64 * pods;
        let peak = self.device_peak(low * STEP_MIB)?;
        // Hosts without pools serve, so only a smaller sum is an improvement.
        let (mut local, mut slices) = (alone, 0);
        for place in 0..=PLACES {
            let here = low + (alone - low) * place / PLACES;
            let sum = (local * STEP_MIB) as f64 + slices as f64 * slice_mib;
            let left = (sum - (here * STEP_MIB) as f64) / slice_mib;
            if left <= 0.0 {
                break;
            }
            let most = (libm::ceil(left) as u64 - 1).min(peak);
            let serving = least(0, most, |slices| serves(policy, here, slices as u32))?;
            if let Some(found) = serving {
                (local, slices) = (here, found);
            }
        }
        Ok(NeededDram {
            hosts,
            allowed,
            alone_mib: alone * STEP_MIB,
            local_mib: local * STEP_MIB,
            device_slices: slices as u32,
        })
    }

    /// Whether at most `allowed` core-seconds are rejected, and no more VMs are slow than allowed.
    fn serves(
        &self,
        policy: &dyn PoolPolicy,
        local_mib: u64,
        device_slices: u32,
        allowed: u64,
    ) -> Result<bool, Interrupted> {
        let budget = Budget {
            rejected: AtomicU64::new(0),
            allowed,
        };
        let setup = Setup {
            budget: Some(&budget),
            series: false,
            ..self.setup(policy, local_mib, device_slices)
        };
        let (outcome, whole) = self.simulate(&setup);
        let fast_enough = self.study.params.slow.is_none_or(|slow| {
            let bin = libm::round(slow.bound * 1000.0) as usize;
            outcome.slowdown.part_from(bin) <= slow.part
        });
        whole.map(|()| !budget.is_spent() && fast_enough)
    }

    /// Largest number of slices of a device in use, if devices are unlimited.
    fn device_peak(&self, local_mib: u64) -> Result<u64, Interrupted> {
        let setup = Setup {
            series: false,
            ..self.setup(self.study.policy, local_mib, UNLIMITED_SLICES)
        };
        let (outcome, whole) = self.simulate(&setup);
        whole.map(|()| u64::from(outcome.device_peak))
    }

    fn setup<'s>(&self, policy: &'s dyn PoolPolicy, local_mib: u64, device_slices: u32) -> Setup<'s>
    where
        'a: 's,
    {
        let study = self.study;
        Setup {
            params: study.params,
            fabric: study.fabric,
            demand: study.demand,
            placement: study.placement,
            policy,
            local_mib,
            device_slices,
            as_if_mib: None,
            seed: study.seed,
            series: true,
            budget: None,
            drawn: Some(self.drawn),
        }
    }

    /// Simulates all clusters and sums their results up in their order. After an interruption, the
    /// sum has the clusters that were complete.
    fn simulate(&self, setup: &Setup<'_>) -> (Outcome, Result<(), Interrupted>) {
        self.simulate_each(&|_| setup.clone())
    }

    /// Like [`Self::simulate`], with a setup for each cluster.
    fn simulate_each<'s>(
        &self,
        setup: &(dyn Fn(usize) -> Setup<'s> + Sync),
    ) -> (Outcome, Result<(), Interrupted>) {
        let params = self.study.params;
        let done = self.each(&|at| {
            let outcome = cluster::run(&setup(at), self.clusters[at]);
            self.watch.done.fetch_add(1, Ordering::Relaxed);
            outcome
        });
        let points = match setup(0).series {
            true => params.points(),
            false => 0,
        };
        let mut sum = Outcome::new(points, params.sensitivity.len());
        let mut whole = Ok(());
        for outcome in done {
            match outcome {
                Some(outcome) => sum.merge(&outcome),
                None => whole = Err(Interrupted),
            }
        }
        (sum, whole)
    }

    /// Calls `work` with the number of each cluster, on all threads. After
    /// an interruption, some results are `None`.
    fn each<T: Send>(&self, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<Option<T>> {
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<T>>> = self.clusters.iter().map(|_| Mutex::new(None)).collect();
        let all = || {
            while !self.watch.stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(place) = done.get(at) else {
                    return;
                };
                let result = work(at);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(self.clusters.len()) {
                scope.spawn(all);
            }
            all();
        });
        let found =
            |place: Mutex<Option<T>>| place.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.into_iter().map(found).collect()
    }
}

/// The policy that uses no pool memory.
fn none() -> Box<dyn PoolPolicy> {
    match PoolPolicyChoice::named("none").build() {
        Ok(policy) => policy,
        Err(error) => unreachable!("the catalog has `none`: {error}"),
    }
}

#[cfg(test)]
mod tests;
