//! Mappings of a process: ranges of reserved addresses.

use std::collections::BTreeMap;

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use serde::{Deserialize, Serialize};

use crate::address::{PageSize, USER_END, VirtAddr};
use crate::frames::NodePreference;
use crate::policy::placement::{FirstTouch, Placement};

/// End of the mappings, which grow downwards from here, as from Linux's `mmap_base` without
/// randomisation. The addresses above are for the stack (*assumed* 8 MiB).
const TOP: u64 = USER_END - (8 << 20);

/// Begin of the mappings (Linux: `vm.mmap_min_addr`, 64 KiB).
const BOTTOM: u64 = 64 << 10;

/// Options of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct AreaOptions {
    /// Whether the mapping has write permission.
    pub writable: bool,
    /// Page size. `Large` requests 2 MiB where the mapping covers a whole page and a frame is free
    /// (`MADV_HUGEPAGE`); the rest gets 4 KiB.
    pub pages: PageSize,
}

impl Default for AreaOptions {
    fn default() -> Self {
        AreaOptions {
            writable: true,
            pages: PageSize::Small,
        }
    }
}

/// A mapping, or what is left of one that was unmapped in part.
#[derive(Serialize, Deserialize)]
pub(super) struct Area {
    pub(super) end: u64,
    pub(super) options: AreaOptions,
    /// First address of the original mapping.
    pub(super) origin: u64,
    /// Index of the mapping's policy among those of the process.
    pub(super) policy: usize,
}

/// The mappings, by their first address.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Areas(BTreeMap<u64, Area>);

impl Areas {
    /// The mapping that contains an address, and its first address.
    pub(super) fn of(&self, address: VirtAddr) -> Option<(u64, &Area)> {
        let (start, area) = self.0.range(..=address.0).next_back()?;
        (address.0 < area.end).then_some((*start, area))
    }

    /// The highest free range of this length and alignment.
    pub(super) fn find_free(&self, length: u64, align: u64) -> Option<u64> {
        let mut ceiling = TOP;
        let fits = |floor: u64, ceiling: u64| {
            let start = ceiling.checked_sub(length)? / align * align;
            (start >= floor).then_some(start)
        };
        for (start, area) in self.0.iter().rev() {
            if let Some(found) = fits(area.end, ceiling) {
                return Some(found);
            }
            ceiling = *start;
        }
        fits(BOTTOM, ceiling)
    }

    /// Whether no mapping contains an address from `start` to `end`.
    pub(super) fn is_free(&self, start: u64, end: u64) -> bool {
        let before = self.0.range(..end).next_back();
        before.is_none_or(|(_, area)| area.end <= start)
    }

    pub(super) fn insert(&mut self, start: u64, area: Area) {
        self.0.insert(start, area);
    }

    /// Splits mappings so that none crosses `address`.
    fn cut(&mut self, address: u64) {
        let Some((_, area)) = self.0.range_mut(..address).next_back() else {
            return;
        };
        if area.end > address {
            let rest = Area { ..*area };
            area.end = address;
            self.0.insert(address, rest);
        }
    }

    /// Removes the mappings of a range, whole or in part.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.cut(start);
        self.cut(end);
        self.0.retain(|at, _| !(start..end).contains(at));
    }

    /// Bytes of all mappings.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, area)| area.end - start).sum()
    }
}

/// The policies of a process: its own first, then those of mappings. The index of a removed
/// mapping's policy is reused.
pub(super) struct Policies(Vec<Option<Placement>>);

impl SaveState for Policies {
    fn save(&self, out: &mut StateWriter) {
        out.value("policies", &self.0);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.0 = from.value("policies")?;
        Ok(())
    }
}

impl Policies {
    pub(super) fn new(own: Placement) -> Policies {
        Policies(vec![Some(own)])
    }

    /// Stores a mapping's policy and returns its index.
    pub(super) fn keep(&mut self, policy: Placement) -> usize {
        let free = self.0.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[place] = Some(policy);
        place
    }

    /// Nodes for a page, by the policy of this index.
    pub(super) fn place(&mut self, place: usize, touch: FirstTouch) -> Option<NodePreference> {
        let policy = self.0.get_mut(place)?.as_mut()?;
        Some(policy.place(touch))
    }

    /// Drops the policies that no mapping uses.
    pub(super) fn retain(&mut self, areas: &Areas) {
        for place in 1..self.0.len() {
            if !areas.0.values().any(|area| area.policy == place) {
                self.0[place] = None;
            }
        }
    }
}
