//! A study: a fleet without pools, with pools, and how much DRAM each needs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cluster::{self, Budget, Setup, UNLIMITED_MIB, UNLIMITED_SLICES, Which};
use crate::demand::Demand;
use crate::fabric::PodFabric;
use crate::params::{FleetParams, MIB, Sizing};
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
    /// Clusters that are expected in all.
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

/// DRAM that is needed, by the rule of the scenario's `slack`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Needed {
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
    /// Local DRAM of each host in `pooled`, in MiB.
    pub local_mib: u64,
    /// Slices of each device in `pooled`.
    pub device_slices: u32,
    /// What is needed, where it was searched for.
    pub needed: Option<Needed>,
    /// VMs placed as in `alone`, their memory divided by the policy without limits; with `static`.
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
        let passes = match self.params.sizing {
            // The searches' bisections, about.
            Sizing::Needed => 50,
            Sizing::Given => 3,
        };
        watch
            .expected
            .store(passes * clusters.len() as u64, Ordering::Relaxed);
        let dram_mib = self.params.host.dram.0 / MIB;
        let none = none();
        let alone = self.simulate(&self.setup(none.as_ref(), dram_mib, 0), watch);
        let mut result = StudyResult {
            alone: alone.0,
            pooled: None,
            local_mib: self.params.host.local.unwrap_or(self.params.host.dram).0 / MIB,
            device_slices: self.device_slices,
            needed: None,
            as_if: None,
            partial: alone.1.is_err(),
        };
        if !result.partial && self.pools(&mut result, watch).is_err() {
            result.partial = true;
        }
        result
    }

    /// All that has pools.
    fn pools(&self, result: &mut StudyResult, watch: &Watch) -> Result<(), Interrupted> {
        // Peaks say little where the fullest host is one whose VMs get no pool memory.
        if self.params.pool.kind == "static" {
            let as_if = Setup {
                as_if_mib: Some(self.params.host.dram.0 / MIB),
                series: false,
                ..self.setup(self.policy, UNLIMITED_MIB, UNLIMITED_SLICES)
            };
            let (as_if, whole) = self.simulate(&as_if, watch);
            whole?;
            result.as_if = Some(as_if);
        }
        if self.params.sizing == Sizing::Needed {
            let needed = self.needed(&result.alone, watch)?;
            result.needed = Some(needed);
            result.local_mib = needed.local_mib;
            result.device_slices = needed.device_slices;
        }
        let (local_mib, slices) = (result.local_mib, result.device_slices);
        let (pooled, whole) = self.simulate(&self.setup(self.policy, local_mib, slices), watch);
        result.pooled = Some(pooled);
        whole
    }

    /// The least DRAM that serves: of hosts alone; then of devices, for some amounts of local DRAM
    /// between the least that serves with pools without limit and that of hosts alone. The least
    /// sum is taken.
    fn needed(&self, alone: &Outcome, watch: &Watch) -> Result<Needed, Interrupted> {
        let allowed = alone.rejected_part() + self.params.slack;
        let core_s = (allowed * alone.asked_core_s as f64) as u64;
        let none = none();
        let dram = (self.params.host.dram.0 / MIB).div_ceil(STEP_MIB);
        let serves = |policy: &dyn PoolPolicy, steps: u64, slices: u32| {
            self.serves(policy, steps * STEP_MIB, slices, core_s, watch)
        };
        let alone = least(1, dram, |steps| serves(none.as_ref(), steps, 0))?;
        let alone = alone.unwrap_or(dram);
        // Less local DRAM than this does not serve whatever the pool is. A policy that cannot do
        // with less than without a pool needs what that needs.
        let floor = (alone as f64 * self.params.least_local).ceil() as u64;
        let low = least(floor.min(alone), alone, |steps| {
            serves(self.policy, steps, UNLIMITED_SLICES)
        })?;
        let low = low.unwrap_or(alone);
        let pods = self.fabric.devices() as f64 / self.fabric.hosts() as f64;
        let slice_mib = self.params.slice.0 as f64 / MIB as f64 * pods;
        let mut most = self.device_peak(low * STEP_MIB, watch)?;
        let mut best: Option<(u64, u64)> = None;
        for place in 0..=PLACES {
            let local = low + (alone - low) * place / PLACES;
            if let Some((best_local, best_slices)) = best {
                // Only a smaller sum is of interest.
                let more = (local - best_local) * STEP_MIB;
                let left = best_slices as f64 - more as f64 / slice_mib;
                if left <= 0.0 {
                    break;
                }
                most = (left.ceil() as u64) - 1;
            }
            let found = least(0, most, |slices| serves(self.policy, local, slices as u32))?;
            best = found.map(|slices| (local, slices)).or(best);
        }
        let (local, slices) = best.unwrap_or((alone, 0));
        Ok(Needed {
            allowed,
            alone_mib: alone * STEP_MIB,
            local_mib: local * STEP_MIB,
            device_slices: slices as u32,
        })
    }

    /// Whether no more than so many core-seconds are rejected.
    fn serves(
        &self,
        policy: &dyn PoolPolicy,
        local_mib: u64,
        device_slices: u32,
        allowed: u64,
        watch: &Watch,
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
        let (_, whole) = self.simulate(&setup, watch);
        whole.map(|()| !budget.is_spent())
    }

    /// The most slices of a device that are in use, if it has as many as are wanted.
    fn device_peak(&self, local_mib: u64, watch: &Watch) -> Result<u64, Interrupted> {
        let setup = Setup {
            series: false,
            ..self.setup(self.policy, local_mib, UNLIMITED_SLICES)
        };
        let (outcome, whole) = self.simulate(&setup, watch);
        whole.map(|()| u64::from(outcome.device_peak))
    }

    fn setup<'a>(
        &'a self,
        policy: &'a dyn PoolPolicy,
        local_mib: u64,
        device_slices: u32,
    ) -> Setup<'a> {
        Setup {
            params: self.params,
            fabric: self.fabric,
            demand: self.demand,
            placement: self.placement,
            policy,
            local_mib,
            device_slices,
            as_if_mib: None,
            seed: self.seed,
            series: true,
            budget: None,
        }
    }

    /// Simulates all clusters, each whole, and sums them up in their order; interrupted, those that
    /// were done.
    fn simulate(&self, setup: &Setup<'_>, watch: &Watch) -> (Outcome, Result<(), Interrupted>) {
        let clusters = self.clusters();
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Outcome>>> = clusters.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while !watch.stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(which), Some(place)) = (clusters.get(at), done.get(at)) else {
                    return;
                };
                let outcome = cluster::run(setup, *which);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                watch.done.fetch_add(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(clusters.len()) {
                scope.spawn(work);
            }
            work();
        });
        let all = self
            .params
            .span_s()
            .div_ceil(u64::from(self.params.sample_minutes) * 60);
        let points = if setup.series { all } else { 0 };
        let mut sum = Outcome::new(points as usize, self.params.sensitivity.len());
        let mut whole = Ok(());
        for place in done {
            match place.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(outcome) => sum.merge(&outcome),
                None => whole = Err(Interrupted),
            }
        }
        (sum, whole)
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
