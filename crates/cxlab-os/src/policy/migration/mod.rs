//! Migration: which pages move to another node, and when.
//!
//! The owner informs a policy of pages that get and lose frames, of sampled accesses, and of time.
//! The policy returns the pages to sample and the moves that it wants. The owner makes the moves
//! ([`crate::space::AddressSpace::begin_move`], [`crate::ats::home`]), spends the time, and reports
//! how they ended. Adding a policy is a new file, its `mod`, and its line in [`CATALOG`].

mod lists;
mod none;
mod tpp;

#[cfg(test)]
mod laws;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::state::SaveState;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::address::Page;
use crate::frames::{FrameAllocator, NodeId};

/// A move that a policy wants.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct PageMove {
    /// The page to move.
    pub page: Page,
    /// Present node of the page.
    pub from: NodeId,
    /// Target node of the move.
    pub to: NodeId,
    /// Bytes that must stay free at the target node.
    pub keep: u64,
    /// Whether the target is faster memory (promotion), rather than slower (demotion).
    pub promotion: bool,
}

/// Counters of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct MigrationStats {
    /// Pages that were sampled: their next access faults.
    pub sampled: u64,
    /// Accesses that faulted because of sampling.
    pub hint_faults: u64,
    /// Pages that moved to faster memory.
    pub promoted: u64,
    /// Pages that moved to slower memory.
    pub demoted: u64,
    /// Moves that were wanted and could not be made.
    pub refused: u64,
}

/// The state of a policy, for all processes of a system.
pub trait Migration: SaveState + Send {
    /// A page got a frame of a node.
    fn placed(&mut self, _page: Page, _node: NodeId) {}
    /// A page lost its frame. A wanted move of the page is void.
    fn released(&mut self, _page: Page) {}
    /// The accessed bit of a page was found set, and cleared.
    fn accessed(&mut self, _page: Page) {}
    /// Time of the next [`Migration::scan`].
    fn next_scan(&self) -> SimTime {
        SimTime::NEVER
    }
    /// Selects the pages whose next access must fault ([`Migration::hint_fault`]). The owner
    /// invalidates their translations everywhere.
    fn scan(&mut self, _now: SimTime) -> Vec<Page> {
        Vec::new()
    }
    /// A sampled page was accessed by a processor or accelerator of node `by`; its
    /// translation is valid again.
    fn hint_fault(&mut self, _now: SimTime, _page: Page, _by: NodeId) {}
    /// The next wanted move; `None` if there is none now.
    fn wanted(&mut self, _frames: &FrameAllocator) -> Option<PageMove> {
        None
    }
    /// A wanted move was made (`done`), or could not be made.
    fn ended(&mut self, _moved: PageMove, _done: bool) {}
    /// Counters of the policy.
    fn stats(&self) -> MigrationStats {
        MigrationStats::default()
    }
}

/// A policy with its parameters.
pub trait MigrationPolicy: Send + Sync {
    /// Checks that the policy can be used with these nodes.
    ///
    /// # Errors
    /// The parameter that names an unknown node or is illegal.
    fn check(&self, _frames: &FrameAllocator) -> Result<(), ParamError> {
        Ok(())
    }
    /// Initial state of the policy. Only after [`MigrationPolicy::check`] succeeded.
    fn state(&self, frames: &FrameAllocator) -> Box<dyn Migration>;
}

/// Every migration policy that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn MigrationPolicy>>] = &[none::ENTRY, tpp::ENTRY];

cxlab_engine::choice!(
    /// A migration policy and its parameters: a table with `kind`.
    MigrationChoice, CATALOG, Box<dyn MigrationPolicy>
);

impl Default for MigrationChoice {
    fn default() -> Self {
        MigrationChoice {
            kind: none::ENTRY.name.to_owned(),
            params: serde_json::Map::new(),
        }
    }
}
