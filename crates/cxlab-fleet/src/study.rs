//! A study: a fleet without pools, with pools, and how much DRAM each needs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cluster::{self, Budget, Drawn, Setup, UNLIMITED_MIB, UNLIMITED_SLICES, Which};
use crate::demand::Demand;
use crate::fabric::PodFabric;
use crate::params::{FleetParams, MIB, SizedFor, Sizing};
use crate::placement::Placement;
use crate::policy::{PoolPolicy, PoolPolicyChoice};
use crate::search::{Interrupted, least};
use crate::stats::Outcome;

/// DRAM of hosts is searched in steps of 1 GiB.
const STEP_MIB: u64 = 1024;

/// How far a study is, and whether to stop; shared with who shows it.
#[derive(Default, Debug)]
pub struct Watch {
    /// Clusters simulated.
    pub done: AtomicU64,
    /// Clusters that are expected in all; every study adds its own.
    pub expected: AtomicU64,
    /// Set to stop: what was measured is kept.
    pub stop: AtomicBool,
}

/// Amounts of local DRAM for which the devices are sized, less one.
const PLACES: u64 = 8;

/// What a study works on.
pub struct Study<'a> {
    /// The fleet.
    pub params: &'a FleetParams,
    /// Every pod.
    pub fabric: &'a PodFabric,
    /// Slices of each device that the scenario has.
    pub device_slices: u32,
    /// Who comes when; opened.
    pub demand: &'a dyn Demand,
    /// Who goes where.
    pub placement: &'a dyn Placement,
    /// Who gets pool memory.
    pub policy: &'a dyn PoolPolicy,
    /// Seed of the random streams.
    pub seed: u64,
    /// Threads; results do not depend on them.
    pub threads: usize,
}

/// DRAM that is needed by the fleet or by one cluster, by the rule of the scenario's `slack`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Needed {
    /// Hosts that it is for.
    pub hosts: u64,
    /// Rejected core-hours that were allowed, as a part of those asked for.
    pub allowed: f64,
    /// DRAM of each host without a pool, in MiB.
    pub alone_mib: u64,
    /// Local DRAM of each host with a pool, in MiB.
    pub local_mib: u64,
    /// Slices of each device.
    pub device_slices: u32,
}

/// What a study found.
#[derive(Clone, PartialEq, Debug)]
pub struct StudyResult {
    /// Without pools, with the DRAM of the scenario.
    pub alone: Outcome,
    /// With pools; absent if it was interrupted before.
    pub pooled: Option<Outcome>,
    /// Local DRAM of each host in `pooled`, in MiB, where nothing was searched for.
    pub local_mib: u64,
    /// Slices of each device in `pooled`, where nothing was searched for.
    pub device_slices: u32,
    /// What is needed, where it was searched for: one for the fleet, or one for each cluster.
    pub needed: Vec<Needed>,
    /// VMs placed as in `alone`, their memory divided by the policy without limits.
    pub as_if: Option<Outcome>,
    /// Whether it was interrupted.
    pub partial: bool,
}

impl Study<'_> {
    /// The clusters: as many whole ones as there are, and what is left in the last.
    pub fn clusters(&self) -> Vec<Which> {
        let pod_hosts = self.fabric.hosts() as u64;
        let pods = u64::from(self.params.hosts).div_ceil(pod_hosts);
        let each = u64::from(self.params.cluster).div_ceil(pod_hosts);
        let of = pods.div_ceil(each) as usize;
        (0..of)
            .map(|index| Which {
                index,
                of,
                pods: each.min(pods - index as u64 * each) as usize,
            })
            .collect()
    }

    /// Carries it out.
    pub fn run(&self, watch: &Watch) -> StudyResult {
        let clusters = self.clusters();
        let drawn = Drawn::new(clusters.len());
        let run = Run {
            study: self,
            clusters: &clusters,
            threads: self.threads,
            drawn: &drawn,
            watch,
        };
        let passes = match self.params.sizing {
            // The searches' bisections, about.
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

/// Some clusters of a study while it is carried out.
#[derive(Clone, Copy)]
struct Run<'a> {
    study: &'a Study<'a>,
    clusters: &'a [Which],
    threads: usize,
    drawn: &'a Drawn,
    watch: &'a Watch,
}

impl<'a> Run<'a> {
    /// All that has pools.
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

    /// What each cluster needs, for its own rejections without a pool.
    fn needed_by_cluster(&self) -> Result<Vec<Needed>, Interrupted> {
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

    /// The least DRAM that serves: of hosts alone; then of devices, for some amounts of local DRAM
    /// between the least that serves with pools without limit and that of hosts alone. The least
    /// sum is taken.
    fn needed(&self, alone: &Outcome) -> Result<Needed, Interrupted> {
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
            // That of the scenario rejects what it rejects, and slows no VM.
            Ok(steps * STEP_MIB >= params.host.dram.0 / MIB || serves(none.as_ref(), steps, 0)?)
        })?;
        let alone = alone.unwrap_or(dram);
        // Less local DRAM than this does not serve whatever the pool is. A policy that cannot do
        // with less than without a pool needs what that needs.
        let floor = (alone as f64 * params.least_local).ceil() as u64;
        let low = least(floor.min(alone), alone, |steps| {
            serves(policy, steps, UNLIMITED_SLICES)
        })?;
        let low = low.unwrap_or(alone);
        let pods = fabric.devices() as f64 / fabric.hosts() as f64;
        let slice_mib = params.slice.0 as f64 / MIB as f64 * pods;
        let peak = self.device_peak(low * STEP_MIB)?;
        // Hosts alone serve, so that only a smaller sum is of interest.
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
        Ok(Needed {
            hosts,
            allowed,
            alone_mib: alone * STEP_MIB,
            local_mib: local * STEP_MIB,
            device_slices: slices as u32,
        })
    }

    /// Whether no more than so many core-seconds are rejected, and no more VMs than may be are slow.
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

    /// The most slices of a device that are in use, if it has as many as are wanted.
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

    /// Simulates the clusters, each whole, and sums them up in their order; interrupted, those that
    /// were done.
    fn simulate(&self, setup: &Setup<'_>) -> (Outcome, Result<(), Interrupted>) {
        self.simulate_each(&|_| setup.clone())
    }

    /// As [`Self::simulate`], with a setup for each cluster.
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
        let all = params
            .span_s()
            .div_ceil(u64::from(params.sample_minutes) * 60);
        let points = if setup(0).series { all } else { 0 };
        let mut sum = Outcome::new(points as usize, params.sensitivity.len());
        let mut whole = Ok(());
        for outcome in done {
            match outcome {
                Some(outcome) => sum.merge(&outcome),
                None => whole = Err(Interrupted),
            }
        }
        (sum, whole)
    }

    /// Does something for each cluster, by its number, on the threads; interrupted, not for all.
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

/// The policy without pools.
fn none() -> Box<dyn PoolPolicy> {
    match PoolPolicyChoice::named("none").build() {
        Ok(policy) => policy,
        Err(error) => unreachable!("the catalog has `none`: {error}"),
    }
}

#[cfg(test)]
mod tests;
