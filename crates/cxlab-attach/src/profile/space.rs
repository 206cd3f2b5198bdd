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
    /// Another program is executed: nothing is left.
    Executes(Pid),
    /// A process has its parent's memory.
    Forks { parent: Pid, child: Pid },
}

/// A mapping of a sampled process.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// First address behind it.
    pub(super) end: u64,
    /// Bytes of its file in front of it.
    pub(super) offset: u64,
    pub(super) name: Arc<str>,
    /// Bytes that were mapped at once.
    pub(super) bytes: u64,
}

/// Bytes that are taken for a mapping around an address that no record tells (*assumed*: a large page).
const AROUND: u64 = 2 << 20;
/// From this address on memory is the kernel's.
pub(super) const KERNELS: u64 = 1 << 63;
/// Name of a mapping that no record tells.
pub(super) const NOT_RECORDED: &str = "memory whose mapping was not recorded";

/// Memory of a process.
#[derive(Clone, Debug)]
pub(super) struct Space {
    mappings: BTreeMap<u64, Mapping>,
    layout: Layout,
    /// Time of mappings that the layout does not have yet. Those of one time are from a list of mappings that perf
    /// found when it began.
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

    /// Gives all mappings a place. One holds that address from now on.
    fn hold(&mut self, address: u64) {
        self.update();
        if self.mapping(address).is_some() {
            return;
        }
        let start = address / AROUND * AROUND;
        let before = self.mappings.range(..address).next_back();
        let start = before.map_or(start, |(_, before)| start.max(before.end));
        let behind = self.mappings.range(address..).next();
        let end = (address / AROUND + 1).saturating_mul(AROUND);
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

/// Memory of all processes, at a time that goes on.
pub(super) struct Spaces<'a> {
    placement: Placement,
    left: &'a [(u64, Change)],
    spaces: BTreeMap<Pid, Space>,
}

impl<'a> Spaces<'a> {
    /// No memory, and what will change it, in order.
    pub(super) fn new(placement: Placement, history: &'a [(u64, Change)]) -> Spaces<'a> {
        Spaces {
            placement,
            left: history,
            spaces: BTreeMap::new(),
        }
    }

    /// Memory of a process at a time, which is not before the last one, with places for all of its mappings. One of
    /// them holds that address, unless the address is the kernel's.
    pub(super) fn at(&mut self, time: u64, pid: Pid, address: u64) -> (&Space, &Layout) {
        while let Some(((when, change), left)) = self.left.split_first()
            && *when <= time
        {
            self.left = left;
            self.change(*when, change);
        }
        let space = self.space(pid);
        match address < KERNELS {
            true => space.hold(address),
            false => space.update(),
        }
        (space, &space.layout)
    }

    /// Bytes that a process has mapped, and those of CXL memory among them, of the process that has most.
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
