//! `cxlab attach --perf`: what a program that `perf record` followed would have cost.

use std::fs::File;
use std::path::Path;

use cxlab_attach::model::Overlap;
use cxlab_attach::placement::Placement;
use cxlab_attach::profile::cost::{OutstandingMethod, ProfileCost, SampledMachine};
use cxlab_attach::profile::{Profile, Role, Samples};
use cxlab_attach::report::{SampledReport, Tier};
use cxlab_attach::slowdown::{PoolReport, Slowdown};
use cxlab_attach::{is_this_machine, this_machine, to_addresses};
use cxlab_perf::file::PerfData;
use cxlab_system::analytic::PlanFabric;
use cxlab_system::layout::{cells, table};
use serde::Serialize;

use super::summary::{by_pool, error_of, slower, tier};
use super::{AttachArgs, Failure};

/// A profile, with its file and its cost on a fabric.
pub(super) struct PricedProfile {
    pub(super) profile: Profile,
    pub(super) cost: ProfileCost,
    pub(super) placement: Placement,
    pub(super) machine: SampledMachine,
    notes: Vec<String>,
}

/// Reads a profile and prices it on a fabric.
pub(super) fn price(
    args: &AttachArgs,
    path: &Path,
    machine: GivenMachine,
    placement: Placement,
    fabric: &mut dyn cxlab_attach::fabric::Fabric,
) -> Result<PricedProfile, Failure> {
    let wrong = |why: String| Failure::mistake(format!("--perf {}: {why}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return Err(wrong(
            "is no file; allowed: what perf record wrote".to_owned(),
        ));
    }
    let mut file = PerfData::open(file).map_err(|error| wrong(error.to_string()))?;
    let profile = Profile::read(&mut file, args.pid).map_err(|error| wrong(error.to_string()))?;
    let mut notes = Vec::new();
    let machine = machine.complete(args, &profile, &mut notes)?;
    let cost = profile.cost(fabric, placement, &machine);
    let mut cost = cost.map_err(|error| wrong(error.to_string()))?;
    to_addresses(&mut cost.recording);
    let misses = cost.pools.iter().map(|pool| pool.misses).sum();
    notes.extend(SampledReport::of(&profile, &cost).notes(misses));
    Ok(PricedProfile {
        profile,
        cost,
        placement,
        machine,
        notes,
    })
}

/// Properties of the profile's machine that the user has given.
pub(super) struct GivenMachine {
    pub(super) local_ns: Option<f64>,
    pub(super) overlap: Option<Overlap>,
    pub(super) cpu_ns: Option<f64>,
}

impl GivenMachine {
    /// Completes the properties by measurements, if the profile is of this machine.
    fn complete(
        self,
        args: &AttachArgs,
        profile: &Profile,
        notes: &mut Vec<String>,
    ) -> Result<SampledMachine, Failure> {
        let host = profile.samples.host.as_deref();
        let processor = profile.samples.processor.as_deref();
        let is_here = is_this_machine(host, processor);
        let measured = is_here.then(|| this_machine(args.recalibrate)).flatten();
        let Some(local_ns) = self.local_ns.or(measured.map(|machine| machine.local_ns)) else {
            let host = host.unwrap_or("an unknown machine");
            let processor = processor.unwrap_or("an unknown processor");
            return Err(Failure::mistake(format!(
                "--perf: the profile is of {host} ({processor}), whose latency cannot be measured here; give it \
                 (--local-latency \"90 ns\")"
            )));
        };
        let overlap = self.overlap.or(measured.map(|machine| machine.overlap));
        if overlap.is_none() {
            notes.push(format!(
                "at most {} misses at once (assumed; --overlap)",
                Overlap::default().misses
            ));
        }
        Ok(SampledMachine {
            local_ns,
            lookup_ns: measured.and_then(|machine| machine.lookup_ns),
            overlap: overlap.unwrap_or_default(),
            cpu_ns: self.cpu_ns,
        })
    }
}

impl PricedProfile {
    /// The report for users.
    pub(super) fn text(
        &self,
        scenario: &str,
        pools: &[(String, f64)],
        fabric: &PlanFabric<'_>,
    ) -> String {
        let cost = &self.cost;
        let mut text = format!("\n{scenario} (perf): {}\n\n", slower(&cost.slowdown));
        text.push_str(&by_pool(pools, &cost.pools, self.machine.local_ns));
        text.push_str(&error_of(fabric));
        let how = match cost.how {
            OutstandingMethod::Counted => "an event that counts it",
            OutstandingMethod::Between => "misses, between all at once and one after the other",
        };
        text.push_str(&format!(
            "\n  misses outstanding, natively: {:.3} s of {:.3} s, by {how}\n",
            cost.outstanding_s, cost.slowdown.native_s
        ));
        if let (OutstandingMethod::Counted, Some(lookup_ns)) = (cost.how, cost.lookup_ns) {
            text.push_str(&format!(
                "  one alone: {:.1} ns, the local latency less {lookup_ns:.1} ns in which the last-level cache is looked up\n",
                self.machine.local_ns - lookup_ns
            ));
        }
        text.push('\n');
        text.push_str(&by_source(&self.profile.samples));
        text.push_str(&tier(&Tier::sampling()));
        for note in &self.notes {
            text.push_str(&format!("  note: {note}\n"));
        }
        text
    }

    /// The report for programs.
    pub(super) fn report(&self) -> ProfileReport<'_> {
        ProfileReport {
            mode: "perf",
            tier: Tier::sampling(),
            placement: self.placement.to_string(),
            slowdown: &self.cost.slowdown,
            local_latency_ns: self.machine.local_ns,
            overlap: self.machine.overlap,
            pools: &self.cost.pools,
            sampled: SampledReport::of(&self.profile, &self.cost),
            notes: &self.notes,
        }
    }
}

/// Report of a profile, for programs.
#[derive(Serialize)]
pub(super) struct ProfileReport<'a> {
    mode: &'static str,
    tier: Tier,
    placement: String,
    slowdown: &'a Slowdown,
    local_latency_ns: f64,
    overlap: Overlap,
    pools: &'a [PoolReport],
    #[serde(flatten)]
    sampled: SampledReport,
    notes: &'a [String],
}

/// Tables of the loads by source of their data, and of the events.
pub(super) fn by_source(samples: &Samples) -> String {
    let mut rows = vec![cells([
        "loads found their data in",
        "samples",
        "loads",
        "cycles",
    ])];
    for (name, found) in &samples.found {
        rows.push(vec![
            name.clone(),
            found.samples.to_string(),
            format!("{:.0}", found.loads),
            match found.mean_cycles > 0.0 {
                true => format!("{:.0}", found.mean_cycles),
                false => "-".to_owned(),
            },
        ]);
    }
    let mut text = table(&rows);
    text.push('\n');
    let mut rows = vec![cells(["event", "used as", "samples", "events"])];
    for event in &samples.events {
        rows.push(vec![
            event.name.clone(),
            used_as(event.role).to_owned(),
            match event.counted {
                true => "counted".to_owned(),
                false => event.samples.to_string(),
            },
            format!("{:.0}", event.events),
        ]);
    }
    text.push_str(&table(&rows));
    text
}

fn used_as(role: Role) -> &'static str {
    match role {
        Role::Loads {
            misses_only: true, ..
        } => "misses with addresses",
        Role::Loads {
            some_only: true, ..
        } => "some loads with addresses",
        Role::Loads { .. } => "loads with addresses",
        Role::Lines => "lines from memory",
        Role::Stalls => "cycles stalled for memory",
        Role::Outstanding => "cycles with a miss",
        Role::Cycles => "cycles",
        Role::Clock => "CPU time",
        Role::Unused => "-",
    }
}
