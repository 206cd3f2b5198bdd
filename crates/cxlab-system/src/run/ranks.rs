//! Runs in several processes.

use cxlab_engine::units::Picos;
use cxlab_engine::{GatherError, Monitor, Partitioning, Ranks, Threads, share};
use cxlab_plan::Plan;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Parties, RunError, RunOptions, Runner, run_parts, unchanged};
use crate::batches::Batches;
use crate::checkpoint::Checkpoints;
use crate::host::Host;
use crate::laws;
use crate::report::Report;
use crate::system::{RecordOptions, System};

/// A run in several processes.
pub(super) struct Ranked<'a> {
    pub(super) ranks: &'a mut dyn Ranks,
    pub(super) division: Partitioning,
}

impl Ranked<'_> {
    pub(super) fn owns(&self, component: usize) -> bool {
        usize::from(self.division.part_of[component]) == self.ranks.rank()
    }
}

/// Shortest lookahead between ranks that does not make most of a run wait.
const SHORT_LOOKAHEAD: Picos = Picos(1_000);

/// Number of events from which the load of each component is estimated.
const TRIAL: u64 = 30_000;

/// How a system is divided among ranks. Each rank simulates the beginning alone to estimate the
/// load of each component, and all get the same result.
///
/// # Errors
/// The components cannot be divided among this many ranks.
pub fn division(plan: &Plan, seed: u64, ranks: usize) -> Result<Partitioning, RunError> {
    let mut system = System::build(plan, seed, RecordOptions::default())?;
    let monitor = Monitor::default();
    let enumerated = system.enumerate(plan, Threads::Exactly(1), &monitor);
    enumerated.map_err(RunError::Law)?;
    system.simulation.run_events(TRIAL);
    // A host and its accelerators share the bytes of their memory.
    let first = plan.devices.len() - plan.accelerator_hosts.len();
    let accelerators = plan.accelerator_hosts.iter().enumerate();
    let together = accelerators.map(|(number, host)| (*host, system.hosts + first + number));
    // So do hosts and devices with a part in shared regions.
    let (hosts, parts) = (system.hosts, plan.shared.iter().enumerate());
    let shared = parts.flat_map(|(host, part)| {
        let devices = part.shares.iter();
        devices.map(move |(device, ..)| (host, hosts + device))
    });
    let together: Vec<(usize, usize)> = together.chain(shared).collect();
    let division = system.simulation.partition_for_ranks(ranks, &together);
    if division.parts < ranks {
        return Err(RunError::Ranks(format!(
            "found {ranks} ranks; allowed: 1 to {} for this system, whose components cannot be divided \
             further",
            division.parts
        )));
    }
    Ok(division)
}

/// A division in words: its lookahead, and a warning if the lookahead is short.
pub fn describe_division(division: &Partitioning) -> String {
    let Some(lookahead) = division.lookahead else {
        return format!("{} rank, nothing is cut", division.parts);
    };
    let warning = match lookahead < SHORT_LOOKAHEAD {
        true => {
            "; warning: ranks speak to each other that often, and under 1 ns a run on one is faster"
        }
        false => "",
    };
    format!(
        "{} ranks, lookahead {:.3} ns{warning}",
        division.parts,
        lookahead.as_nanos_f64()
    )
}

/// Runs a plan in several processes, each of which calls this with the same arguments, among them the
/// [`division`] among so many ranks. Rank 0 has
/// the report, which is that of one process; the others have none. Rows and threads need one process.
///
/// # Errors
/// As [`super::run_with`]; also a system that cannot be brought together, because a part of it cannot be saved.
pub fn run_ranked<'p>(
    plan: &'p Plan,
    options: RunOptions<'p>,
    checkpoints: Checkpoints<'p>,
    ranks: &'p mut dyn Ranks,
    division: Partitioning,
) -> Result<Option<Report>, RunError> {
    let parts = Parties {
        ranked: Some(Ranked { ranks, division }),
        ..Parties::default()
    };
    let report = run_parts(plan, options, checkpoints, parts)?;
    unchanged(plan, report)
}

impl Runner<'_, '_> {
    pub(super) fn own_hosts(&self) -> impl Iterator<Item = &Host> {
        let ranked = self.ranked.as_ref();
        let nodes = self.system.simulation.components().enumerate();
        let own = nodes.filter(move |(number, _)| ranked.is_none_or(|ranked| ranked.owns(*number)));
        own.filter_map(|(_, node)| node.host())
    }

    /// The values of all ranks, by rank.
    pub(super) fn shared<T: Serialize + DeserializeOwned + Clone>(&mut self, own: T) -> Vec<T> {
        match &mut self.ranked {
            Some(Ranked { ranks, .. }) => share(*ranks, &own),
            None => vec![own],
        }
    }

    /// Whether `own` is true on any rank.
    pub(super) fn any(&mut self, own: bool) -> bool {
        self.shared(own).contains(&true)
    }

    /// The value of rank 0: decisions that depend on real time must be equal on all ranks.
    pub(super) fn agreed<T: Serialize + DeserializeOwned + Clone>(&mut self, own: T) -> T {
        self.shared(own).swap_remove(0)
    }

    /// Copies the components of all ranks to rank 0; returns whether this is rank 0.
    pub(super) fn gather(&mut self) -> Result<bool, RunError> {
        let Some(Ranked { ranks, division }) = &mut self.ranked else {
            return Ok(true);
        };
        let gathered = self.system.simulation.gather(division, *ranks);
        let rank = ranks.rank();
        let mut all = share(*ranks, &self.batches).into_iter();
        self.gathered = all.next().flatten();
        if let Some(sum) = &mut self.gathered {
            all.flatten().for_each(|other| sum.merge(&other));
        }
        let digest = gathered.map_err(|error| match error {
            GatherError::Refused(refusals) => self.not_saved(&refusals),
            GatherError::Differs(error) => RunError::Law(error.to_string()),
        })?;
        if let Some(outcome) = &mut self.outcome {
            outcome.digest = digest;
        }
        Ok(rank == 0)
    }

    /// When no event is left, nothing may be left inside: else requests were lost or are deadlocked.
    pub(super) fn check_drained(&self) -> Result<(), RunError> {
        match &self.ranked {
            Some(Ranked { ranks, .. }) if ranks.rank() > 0 => Ok(()),
            _ => laws::check_drained(&self.system).map_err(RunError::Law),
        }
    }

    pub(super) fn all_batches(&self) -> Option<&Batches> {
        match self.ranked {
            Some(_) => self.gathered.as_ref(),
            None => self.batches.as_ref(),
        }
    }
}
