//! Victim policies: which line of a full set leaves. `docs/reference/victim-policies.md` has their
//! definitions and sources.
//!
//! Most policies give each resident line a rank, and the unpinned line with the least rank
//! leaves. A policy may also choose differently. A new policy needs a file, its `mod`, and a
//! line in `policies!`.

mod block_length;
mod cflru;
mod clock;
mod lfi;
mod lfru;
mod random;
mod recency;
mod two_queue;

use cxlab_engine::catalog::{Entry, ParamError, find, read_params};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::LineAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resident::lines::ResidentLines;
use crate::resident::{Geometry, LineBlock, Slot};

/// A policy's parameters, from which its state is built.
pub trait VictimPolicy: Send + Sync {
    /// A new state for one tag array.
    fn state(&self, geometry: Geometry, rng: StreamRng) -> PolicyState;
}

/// The state of a policy: it observes the lines of its tag array, and chooses victims.
pub(crate) trait ReplacementPolicy {
    /// A line was inserted; it is pinned until the policy ranks and unpins it.
    fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot);
    /// A line was hit.
    fn touched(&mut self, lines: &mut ResidentLines, slot: Slot);
    /// A line was removed, pinned or unpinned.
    fn changed(&mut self, _lines: &mut ResidentLines, _line: LineAddr) {}
    /// A line is about to be removed.
    fn leaving(&mut self, _lines: &mut ResidentLines, _slot: Slot) {}
    /// A line became dirty or clean.
    fn dirtied(&mut self, _lines: &mut ResidentLines, _slot: Slot, _dirty: bool) {}
    /// A line changed its owner.
    fn owned(&mut self, _lines: &mut ResidentLines, _slot: Slot, _owner: u64) {}
    /// The unpinned line of a set that leaves next; `None` if all are pinned.
    fn victim(&mut self, lines: &mut ResidentLines, set: u32) -> Option<Slot> {
        lines.order.least(set)
    }
    /// The lines that one block invalidation evicts together with a victim.
    fn block(&self, lines: &ResidentLines, slot: Slot) -> LineBlock {
        LineBlock::single(lines.line(slot))
    }
}

macro_rules! policies {
    ($($state:ident in $file:ident: $($entry:ident),+;)+) => {
        enum AnyPolicy {
            $($state($file::$state),)+
        }

        impl ReplacementPolicy for PolicyState {
            #[inline]
            fn inserted(&mut self, lines: &mut ResidentLines, slot: Slot) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.inserted(lines, slot),)+ }
            }
            #[inline]
            fn touched(&mut self, lines: &mut ResidentLines, slot: Slot) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.touched(lines, slot),)+ }
            }
            #[inline]
            fn changed(&mut self, lines: &mut ResidentLines, line: LineAddr) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.changed(lines, line),)+ }
            }
            #[inline]
            fn leaving(&mut self, lines: &mut ResidentLines, slot: Slot) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.leaving(lines, slot),)+ }
            }
            #[inline]
            fn dirtied(&mut self, lines: &mut ResidentLines, slot: Slot, dirty: bool) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.dirtied(lines, slot, dirty),)+ }
            }
            #[inline]
            fn owned(&mut self, lines: &mut ResidentLines, slot: Slot, owner: u64) {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.owned(lines, slot, owner),)+ }
            }
            #[inline]
            fn victim(&mut self, lines: &mut ResidentLines, set: u32) -> Option<Slot> {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.victim(lines, set),)+ }
            }
            #[inline]
            fn block(&self, lines: &ResidentLines, slot: Slot) -> LineBlock {
                match &self.0 { $(AnyPolicy::$state(policy) => policy.block(lines, slot),)+ }
            }
        }

        impl SaveState for PolicyState {
            fn save(&self, out: &mut StateWriter) {
                match &self.0 { $(AnyPolicy::$state(policy) => policy.save(out),)+ }
            }

            fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
                match &mut self.0 { $(AnyPolicy::$state(policy) => policy.restore(from),)+ }
            }
        }

        $(impl From<$file::$state> for PolicyState {
            fn from(state: $file::$state) -> PolicyState {
                PolicyState(AnyPolicy::$state(state))
            }
        })+

        /// Every victim policy that a scenario can name.
        pub static CATALOG: &[Entry<Box<dyn VictimPolicy>>] = &[$($($file::$entry,)+)+];
    };
}

/// The state of a policy for one tag array.
pub struct PolicyState(AnyPolicy);

policies! {
    Recency in recency: FIFO, LRU, LIFO, MRU;
    Lfi in lfi: ENTRY;
    BlockLength in block_length: ENTRY;
    Random in random: ENTRY;
    Lfru in lfru: ENTRY;
    Clock in clock: ENTRY;
    TwoQueue in two_queue: ENTRY;
    Cflru in cflru: ENTRY;
}

/// A policy with default parameters, by name; `None` if the catalog has no such policy.
pub fn build(name: &str) -> Option<Box<dyn VictimPolicy>> {
    let none = serde_json::Value::Object(serde_json::Map::new());
    (find(CATALOG, name)?.build)(&none).ok()
}

/// Parameters of a policy that has none.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NoParams {}

impl NoParams {
    fn check(params: &serde_json::Value) -> Result<(), ParamError> {
        read_params::<NoParams>(params).map(|NoParams {}| ())
    }
}
