//! A study: a fleet without pools, with pools, and how much DRAM each needs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cluster::{self, Setup, UNLIMITED_MIB, UNLIMITED_SLICES, Which};
use crate::demand::Demand;
use crate::fabric::PodFabric;
use crate::params::{FleetParams, MIB, Sizing};
use crate::placement::Placement;
use crate::policy::{PoolPolicy, PoolPolicyChoice};
use crate::search::{Interrupted, least};
use crate::stats::Outcome;

/// DRAM of hosts is searched in steps of 1 GiB.
const STEP_MIB: u64 = 1024;
/// The most DRAM of a host in a search: this many times what the scenario gives it.
const MOST_TIMES: u64 = 16;

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
        let passes = match self.params.sizing {
            // The searches' bisections, about.
            Sizing::Needed => 32,
            Sizing::Given => 3,
        };
        watch.expected.store(passes * clusters.len() as u64, Ordering::Relaxed);
        let dram_mib = self.params.host.dram.0 / MIB;
        let none = none();
        let alone = self.simulate(none.as_ref(), dram_mib, 0, None, watch);
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
        let dram_mib = self.params.host.dram.0 / MIB;
        let free = (UNLIMITED_MIB, UNLIMITED_SLICES);
        let (as_if, whole) = self.simulate(self.policy, free.0, free.1, Some(dram_mib), watch);
        whole?;
        result.as_if = Some(as_if);
        if self.params.sizing == Sizing::Needed {
            let Some(needed) = self.needed(watch)? else {
                return Ok(());
            };
            result.needed = Some(needed);
            result.local_mib = needed.local_mib;
            result.device_slices = needed.device_slices;
        }
        let (local_mib, slices) = (result.local_mib, result.device_slices);
        let (pooled, whole) = self.simulate(self.policy, local_mib, slices, None, watch);
        result.pooled = Some(pooled);
        whole
    }

    /// The least DRAM that serves: of hosts alone, then local DRAM with pools without limit, then
    /// of devices with that local DRAM.
    fn needed(&self, watch: &Watch) -> Result<Option<Needed>, Interrupted> {
        let none = none();
        let rejected = |policy: &dyn PoolPolicy, mib: u64, slices: u32| {
            let (outcome, whole) = self.simulate(policy, mib, slices, None, watch);
            whole.map(|()| outcome.rejected_part())
        };
        let allowed = rejected(none.as_ref(), UNLIMITED_MIB, 0)? + self.params.slack;
        let steps = (self.params.host.dram.0 / MIB).div_ceil(STEP_MIB) * MOST_TIMES;
        let serves = |policy: &dyn PoolPolicy, steps: u64, slices: u32| {
            rejected(policy, steps * STEP_MIB, slices).map(|part| part <= allowed)
        };
        let Some(alone) = from_near(steps, |steps| serves(none.as_ref(), steps, 0))? else {
            return Ok(None);
        };
        let pooled = least(0, alone, |steps| serves(self.policy, steps, UNLIMITED_SLICES))?;
        // A policy that cannot do with less than no pool at all needs what that needs.
        let local = pooled.unwrap_or(alone);
        let most = self.most_slices();
        let slices = least(0, most, |slices| serves(self.policy, local, slices as u32))?;
        Ok(slices.map(|slices| Needed {
            allowed,
            alone_mib: alone * STEP_MIB,
            local_mib: local * STEP_MIB,
            device_slices: slices as u32,
        }))
    }

    /// Slices of a device that hold everything that all hosts of a pod could have.
    fn most_slices(&self) -> u64 {
        let dram = self.params.host.dram.0 * self.fabric.hosts() as u64 * MOST_TIMES;
        (dram / self.params.slice.0 + 1).min(u64::from(UNLIMITED_SLICES))
    }

    /// Simulates all clusters, each whole, and sums them up in their order; interrupted, those that
    /// were done.
    fn simulate(
        &self,
        policy: &dyn PoolPolicy,
        local_mib: u64,
        device_slices: u32,
        as_if_mib: Option<u64>,
        watch: &Watch,
    ) -> (Outcome, Result<(), Interrupted>) {
        let setup = Setup {
            params: self.params,
            fabric: self.fabric,
            demand: self.demand,
            placement: self.placement,
            policy,
            local_mib,
            device_slices,
            as_if_mib,
            seed: self.seed,
        };
        let clusters = self.clusters();
        let next = AtomicUsize::new(0);
        let done: Vec<Mutex<Option<Outcome>>> = clusters.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            while !watch.stop.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let (Some(which), Some(place)) = (clusters.get(at), done.get(at)) else {
                    return;
                };
                let outcome = cluster::run(&setup, *which);
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
        let points = self.params.span_s().div_ceil(u64::from(self.params.sample_minutes) * 60);
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

/// As [`least`] from 1 to `high`, for an answer that is likely near a sixteenth of `high`.
fn from_near(
    high: u64,
    mut serves: impl FnMut(u64) -> Result<bool, Interrupted>,
) -> Result<Option<u64>, Interrupted> {
    let mut upper = (high / MOST_TIMES).max(1);
    let mut lower = 1;
    while upper < high && !serves(upper)? {
        lower = upper + 1;
        upper = (upper * 2).min(high);
    }
    least(lower, upper, serves)
}

#[cfg(test)]
mod tests;
