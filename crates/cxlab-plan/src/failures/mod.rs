//! Failures: links, switches and devices that fail while the workloads run. Each failure is checked
//! against what still works at the time, and turned into timed changes of each component.
//!
//! All failures are known before the run, so the routing tables for the remaining fabric are made
//! and proved here. Messages in flight keep the tables with which they were sent. A routing state is
//! a set of tables with virtual channels of its own. States whose messages may be in flight together
//! share no channel, so each proof holds by itself (T. Pinkston, R. Pang, J. Duato, "Deadlock-free
//! dynamic reconfiguration schemes for increased network dependability", IEEE TPDS 14(8), 2003: the
//! double scheme). A replaced state has drained after `drain_time`. Another state may then take its
//! channels, and messages still on them are discarded (`channels.rs`). A change of the routing waits
//! until enough channels have drained, and comes into force together with later ones.

mod changes;
mod channels;
mod check;
mod fabric;
mod planned;
mod random;
mod router;

use cxlab_engine::units::Picos;
use cxlab_scenario::Note;

pub(crate) use check::{check, check_shared};
pub(crate) use fabric::Fabric;
pub(crate) use planned::has_any;
pub use planned::{FailureChange, Failures, RoutingChange, RoutingState};

use self::fabric::SurvivingFabric;
use self::router::Router;
use crate::problem::Problem;

impl Fabric<'_> {
    /// The timelines of all components; `None` if the scenario has no failures.
    pub(crate) fn failures(&self, notes: &mut Vec<Note>) -> Result<Option<Failures>, Problem> {
        if !has_any(self.scenario) {
            return Ok(None);
        }
        self.check_unbindings()?;
        let components = self.components();
        let changes = self.changes()?;
        let mut left = SurvivingFabric::whole(self.links.len(), components);
        let mut physical = Vec::new();
        for change in &changes {
            for (component, does) in self.happen(&mut left, change.what)? {
                physical.push((component, (change.at, does)));
            }
        }
        let mut router = Router::new(self, components);
        for together in changes.chunk_by(|one, other| one.at == other.at) {
            router.know(together, notes)?;
        }
        let mut all = router.finish(notes);
        all.times = changes.iter().map(|change| change.at).collect();
        for (component, does) in physical {
            all.timelines[component].push(does);
        }
        for timeline in &mut all.timelines {
            timeline.sort_by_key(|(at, _)| *at);
            let fails = |(_, change): &(Picos, FailureChange)| {
                matches!(change, FailureChange::Dead | FailureChange::Alive)
            };
            // What is never repaired does nothing any more.
            if let Some(last) = timeline.iter().rposition(fails)
                && timeline[last].1 == FailureChange::Dead
            {
                timeline.truncate(last + 1);
            }
        }
        Ok(Some(all))
    }
}
