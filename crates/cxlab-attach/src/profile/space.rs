//! Memory of sampled processes, as records of mappings tell it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_perf::MemoryMapping;

use crate::placement::{Layout, Placement, Region};

/// Number of a process.
pub(super) type Pid = i32;

/// A change of a process's memory.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Memory was mapped.
    Mapped(MemoryMapping),
    /// A process executes another program, so all its mappings are gone.
    Executes(Pid),
    /// A forked process has its parent's memory.
    Forks { parent: Pid, child: Pid },
}

/// A mapping of a sampled process.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// First address behind the mapping.
    pub(super) end: u64,
    /// Offset of the mapping in its file, in bytes.
    pub(super) offset: u64,
    pub(super) name: Arc<str>,
    /// Size of the mapping when it was made, in bytes.
    pub(super) bytes: u64,
}

/// Size of the assumed mapping around an address without a record, in bytes (*assumed*: a large page).
const ASSUMED_MAPPING: u64 = 2 << 20;
/// First address of the kernel's memory.
pub(super) const KERNEL_START: u64 = 1 << 63;
/// Name of an assumed mapping.
pub(super) const NOT_RECORDED: &str = "memory whose mapping was not recorded";

/// Memory of a process.
#[derive(Clone, Debug)]
pub(super) struct Space {
    mappings: BTreeMap<u64, Mapping>,
    layout: Layout,
    /// Time of mappings that the layout does not have yet. Mappings of equal time are from perf's list at the start.
    late: Option<u64>,
}

impl Space {
    fn new(placement: Placement) -> Space {
        Space {
            mappings: BTreeMap::new(),
            layout: Layout::new(placement),
            late: None,
        }
    }

    fn map(&mut self, time: u64, start: u64, mapping: Mapping) {
        let end = mapping.end;
        if end <= start {
            return;
        }
        if self.late.is_some_and(|late| late != time) {
            self.update();
        }
        let before = self.mappings.range(..start).next_back().into_iter();
        let below = before.chain(self.mappings.range(start..end));
        let below: Vec<(u64, Mapping)> = below.map(|(from, one)| (*from, one.clone())).collect();
        for (from, mut cut) in below {
            self.mappings.remove(&from);
            if cut.end > end {
                self.mappings.insert(end, behind(&cut, end - from));
            }
            if from < start {
                cut.end = cut.end.min(start);
                self.mappings.insert(from, cut);
            }
        }
        self.mappings.insert(start, mapping);
        self.late = Some(time);
    }

    /// Gives all mappings a place.
    fn update(&mut self) {
        if self.late.take().is_some() {
            let region = |(start, mapping): (&u64, &Mapping)| Region {
                start: *start,
                end: mapping.end,
            };
            let regions: Vec<Region> = self.mappings.iter().map(region).collect();
            self.layout.update(&regions);
        }
    }

    /// The mapping that holds an address.
    pub(super) fn mapping(&self, address: u64) -> Option<(u64, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some((*start, mapping))
    }

    /// Gives all mappings a place, and adds an assumed mapping around `address` if no mapping contains it.
    fn hold(&mut self, address: u64) {
        self.update();
        if self.mapping(address).is_some() {
            return;
        }
        let start = address / ASSUMED_MAPPING * ASSUMED_MAPPING;
        let before = self.mappings.range(..address).next_back();
        let start = before.map_or(start, |(_, before)| start.max(before.end));
        let behind = self.mappings.range(address..).next();
        let end = (address / ASSUMED_MAPPING + 1).saturating_mul(ASSUMED_MAPPING);
        let end = behind.map_or(end, |(behind, _)| end.min(*behind));
        let mapping = Mapping {
            end,
            offset: 0,
            name: NOT_RECORDED.into(),
            bytes: end - start,
        };
        self.map(0, start, mapping);
        self.update();
    }
}

/// The rest of a mapping from byte `skip` on.
fn behind(mapping: &Mapping, skip: u64) -> Mapping {
    Mapping {
        offset: mapping.offset.wrapping_add(skip),
        ..mapping.clone()
    }
}

/// Memory of all processes at an advancing time.
pub(super) struct Spaces<'a> {
    placement: Placement,
    left: &'a [(u64, Change)],
    spaces: BTreeMap<Pid, Space>,
}

impl<'a> Spaces<'a> {
    /// Empty memory, with its future changes in order.
    pub(super) fn new(placement: Placement, history: &'a [(u64, Change)]) -> Spaces<'a> {
        Spaces {
            placement,
            left: history,
            spaces: BTreeMap::new(),
        }
    }

    /// Memory of a process at a time, which must not decrease between calls, with places for all mappings. A mapping
    /// contains `address`, unless the address is the kernel's.
    pub(super) fn at(&mut self, time: u64, pid: Pid, address: u64) -> (&Space, &Layout) {
        while let Some(((when, change), left)) = self.left.split_first()
            && *when <= time
        {
            self.left = left;
            self.change(*when, change);
        }
        let space = self.space(pid);
        match address < KERNEL_START {
            true => space.hold(address),
            false => space.update(),
        }
        (space, &space.layout)
    }

    /// Bytes that the process with most memory has mapped, and those of them in CXL memory.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let of = |space: &Space| {
            let mapped = space.mappings.iter();
            let mapped: u64 = mapped.map(|(start, mapping)| mapping.end - start).sum();
            (mapped, space.layout.cxl_bytes())
        };
        self.spaces.values().map(of).max().unwrap_or_default()
    }

    fn space(&mut self, pid: Pid) -> &mut Space {
        let new = || Space::new(self.placement);
        self.spaces.entry(pid).or_insert_with(new)
    }

    fn change(&mut self, time: u64, change: &Change) {
        match change {
            Change::Mapped(mapped) => {
                let mapping = Mapping {
                    end: mapped.start.saturating_add(mapped.bytes),
                    offset: mapped.offset,
                    name: mapped.name.as_str().into(),
                    bytes: mapped.bytes,
                };
                self.space(mapped.pid).map(time, mapped.start, mapping);
            }
            Change::Executes(pid) => {
                self.spaces.remove(pid);
            }
            Change::Forks { parent, child } => {
                if let Some(parent) = self.spaces.get(parent) {
                    self.spaces.insert(*child, parent.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::MemoryPlace;

    fn mapped(start: u64, bytes: u64, name: &str) -> Change {
        Change::Mapped(MemoryMapping {
            pid: 5,
            start,
            bytes,
            offset: 0,
            executable: false,
            name: name.to_owned(),
        })
    }

    fn named(space: &Space, address: u64) -> (String, u64) {
        let (start, mapping) = space.mapping(address).unwrap();
        (mapping.name.to_string(), mapping.offset + (address - start))
    }

    #[test]
    fn a_later_mapping_takes_the_place_of_an_earlier_one() {
        let forks = Change::Forks {
            parent: 5,
            child: 6,
        };
        let history = [
            (1, mapped(0x1000, 0x9000, "whole")),
            (3, mapped(0x3000, 0x1000, "inside")),
            (5, mapped(0x0000, 0x2000, "in front")),
            (7, forks),
            (9, Change::Executes(5)),
        ];
        let mut spaces = Spaces::new(Placement::Cxl, &history);
        let (space, _) = spaces.at(2, 5, 0x3000);
        assert_eq!(named(space, 0x3000), ("whole".to_owned(), 0x2000));
        let (space, _) = spaces.at(3, 5, 0x3000);
        assert_eq!(named(space, 0x2fff), ("whole".to_owned(), 0x1fff));
        assert_eq!(named(space, 0x3000), ("inside".to_owned(), 0));
        assert_eq!(named(space, 0x4000), ("whole".to_owned(), 0x3000));
        let (space, _) = spaces.at(8, 6, 0x1000);
        assert_eq!(named(space, 0x1fff), ("in front".to_owned(), 0x1fff));
        assert_eq!(named(space, 0x2000), ("whole".to_owned(), 0x1000));
        let (space, _) = spaces.at(9, 5, 0x1000);
        assert_eq!(named(space, 0x1000).0, NOT_RECORDED);
        // The child keeps its own.
        let (space, _) = spaces.at(9, 6, 0x4000);
        assert_eq!(named(space, 0x4000), ("whole".to_owned(), 0x3000));
    }

    /// Places follow the order in which memory was mapped.
    #[test]
    fn what_was_mapped_first_is_local() {
        let history = [
            (1, mapped(0x10_0000, 0x1_0000, "first")),
            (2, mapped(0x90_0000, 0x1_0000, "second")),
        ];
        let mut spaces = Spaces::new(Placement::LocalFirst(0x1_0000), &history);
        let (_, layout) = spaces.at(1, 5, 0x10_0000);
        assert_eq!(layout.place(0x10_0000), Some(MemoryPlace::Local));
        let (_, layout) = spaces.at(2, 5, 0x90_0000);
        assert_eq!(layout.place(0x10_0000), Some(MemoryPlace::Local));
        assert_eq!(layout.place(0x90_0000), Some(MemoryPlace::Cxl(0)));
    }
}
