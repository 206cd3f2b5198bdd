//! Migration: which pages move to another node, and when.
//!
//! A policy hears of pages that come and go, of accesses that were sampled, and of time; it names
//! the pages to sample and the moves that it wants. The owner makes the moves
//! ([`crate::space::AddressSpace::begin_move`], [`crate::ats::home`]), takes the time, and says
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
use crate::frames::{Frames, NodeId};

/// A move that a policy wants.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Move {
    /// The page.
    pub page: Page,
    /// Where it is.
    pub from: NodeId,
    /// Where it should go.
    pub to: NodeId,
    /// Bytes that must stay free there.
    pub keep: u64,
    /// Whether it goes to faster memory.
    pub promotion: bool,
}

/// What a policy counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct MigrationStats {
    /// Pages whose next access was made to fault.
    pub sampled: u64,
    /// Accesses that faulted because of that.
    pub hint_faults: u64,
    /// Pages that moved to faster memory.
    pub promoted: u64,
    /// Pages that moved to slower memory.
    pub demoted: u64,
    /// Moves that were wanted and could not be made.
    pub refused: u64,
}

/// A policy at work, for all processes of a system.
pub trait Migration: SaveState + Send {
    /// A page got a frame of a node.
    fn placed(&mut self, _page: Page, _node: NodeId) {}
    /// A page lost its frame. A wanted move of it is void.
    fn released(&mut self, _page: Page) {}
    /// The accessed bit of a page was found set, and cleared.
    fn accessed(&mut self, _page: Page) {}
    /// When [`Migration::scan`] wants to be called next.
    fn next_scan(&self) -> SimTime {
        SimTime::NEVER
    }
    /// The pages whose next access must fault ([`Migration::hint_fault`]): the owner makes their
    /// translations invalid everywhere.
    fn scan(&mut self, _now: SimTime) -> Vec<Page> {
        Vec::new()
    }
    /// A sampled page was accessed by who works at a node; its translation is valid again.
    fn hint_fault(&mut self, _now: SimTime, _page: Page, _by: NodeId) {}
    /// The next move that is wanted; `None` if there is none now.
    fn wanted(&mut self, _frames: &Frames) -> Option<Move> {
        None
    }
    /// A wanted move was made, or could not be made.
    fn ended(&mut self, _moved: Move, _done: bool) {}
    /// What was counted.
    fn stats(&self) -> MigrationStats {
        MigrationStats::default()
    }
}

/// A policy with its parameters.
pub trait MigrationPolicy: Send + Sync {
    /// Whether the policy can be used with these nodes.
    ///
    /// # Errors
    /// The parameter that names another node, or does not fit.
    fn check(&self, _frames: &Frames) -> Result<(), ParamError> {
        Ok(())
    }
    /// What it remembers. Only after [`MigrationPolicy::check`] agreed.
    fn state(&self, frames: &Frames) -> Box<dyn Migration>;
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
