//! Placement of a program's memory: which addresses are the host's own memory, and which are in CXL
//! memory at what offset.
//!
//! A mapping is placed when it is first seen, as a whole, touched or not. It keeps its place until
//! it is unmapped. Mappings that are first seen together are assumed to have been made in the order
//! in which Linux assigns addresses: upwards for program and heap, and then downwards from the top
//! for mappings of the program. Left out: migration, first touch by page.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::fabric::Fabric;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// From this address on, mappings are made from the top down. On x86-64 Linux, programs and their heaps begin in the
/// middle third of 47 bits, and `mmap_base` is below the stack. Both are moved by some TiB at random.
const TOP_DOWN_START: u64 = 0x6800_0000_0000;

/// Policy that splits a program's memory into local and CXL memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// All memory is CXL memory.
    Cxl,
    /// The first bytes, in the order of mapping, are the host's own memory, and the rest is CXL memory.
    LocalFirst(u64),
    /// Alternates between pages of the host's own memory and pages of CXL memory, in these numbers.
    Interleave(u32, u32),
    /// Mappings of at least this many bytes are CXL memory, others the host's own.
    Above(u64),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Cxl => f.write_str("cxl"),
            Placement::LocalFirst(bytes) => write!(f, "local-first:{bytes}"),
            Placement::Interleave(local, cxl) => write!(f, "interleave:{local}:{cxl}"),
            Placement::Above(bytes) => write!(f, "above:{bytes}"),
        }
    }
}

const ALLOWED: &str = "cxl, local-first:SIZE, interleave:LOCAL:CXL (pages, 1 to 65536 each) or \
                       above:SIZE, with sizes such as 64MiB";

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("found `{text}`; allowed: {ALLOWED}");
        let pages = |text: &str| match text.parse() {
            Ok(pages @ 1..=65536) => Ok(pages),
            _ => Err(wrong()),
        };
        let size = |text| bytes(text).ok_or_else(wrong);
        match text.split(':').collect::<Vec<_>>()[..] {
            ["cxl"] => Ok(Placement::Cxl),
            ["local-first", bytes] => Ok(Placement::LocalFirst(size(bytes)?)),
            ["above", bytes] => Ok(Placement::Above(size(bytes)?)),
            ["interleave", local, cxl] => Ok(Placement::Interleave(pages(local)?, pages(cxl)?)),
            _ => Err(wrong()),
        }
    }
}

/// Parses a size such as `64MiB`, `64 MiB` or `4096` into bytes.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A mapping of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// First address of the mapping.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
}

/// Memory that holds an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPlace {
    /// The host's own memory.
    Local,
    /// CXL memory, at this offset in bytes.
    Cxl(u64),
}

/// Part of a mapping with a single place.
#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    place: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Local,
    /// CXL memory that begins at this offset.
    Cxl(u64),
    /// Interleaved pages. Counting of interleaved bytes begins at this offset.
    Turns(u64),
}

/// Places of the mappings of one program.
#[derive(Clone, Debug)]
pub struct Layout {
    placement: Placement,
    extents: BTreeMap<u64, Extent>,
    local_used: u64,
    cxl_used: u64,
}

impl Layout {
    /// A layout without mappings.
    pub fn new(placement: Placement) -> Layout {
        Layout {
            placement,
            extents: BTreeMap::new(),
            local_used: 0,
            cxl_used: 0,
        }
    }

    /// Takes over the program's mappings. New mappings get a place, and those that are gone free
    /// theirs. `regions` must be sorted and must not overlap.
    pub fn update(&mut self, regions: &[Region]) {
        let old = std::mem::take(&mut self.extents);
        let mut kept = BTreeMap::new();
        let mut gaps = Vec::new();
        for region in regions {
            let mut at = region.start;
            let first = old
                .range(..region.start)
                .next_back()
                .filter(|(_, extent)| extent.end > region.start)
                .map_or(region.start, |(start, _)| *start);
            for (start, extent) in old.range(first..region.end) {
                let (from, to) = ((*start).max(region.start), extent.end.min(region.end));
                if from > at {
                    gaps.push((at, from));
                }
                kept.insert(from, extent.cut(from - start, to));
                at = to;
            }
            if at < region.end {
                gaps.push((at, region.end));
            }
        }
        self.local_used = kept
            .iter()
            .filter(|(_, extent)| matches!(extent.place, Kind::Local))
            .map(|(start, extent)| extent.end - start)
            .sum();
        self.extents = kept;
        let (up, down): (Vec<_>, Vec<_>) = gaps.into_iter().partition(|gap| gap.0 < TOP_DOWN_START);
        for (start, end) in up.into_iter().chain(down.into_iter().rev()) {
            self.add(start, end);
        }
    }

    fn add(&mut self, start: u64, end: u64) {
        let size = end - start;
        match self.placement {
            Placement::Cxl => self.add_cxl(start, end, Kind::Cxl),
            Placement::Above(least) if size >= least => self.add_cxl(start, end, Kind::Cxl),
            Placement::Above(_) => self.add_local(start, end),
            Placement::LocalFirst(most) => {
                let room = most.saturating_sub(self.local_used) / PAGE * PAGE;
                let local = match start < TOP_DOWN_START {
                    true => (start, start + room.min(size)),
                    false => (end - room.min(size), end),
                };
                let (before, behind) = ((start, local.0), (local.1, end));
                if local.1 > local.0 {
                    self.add_local(local.0, local.1);
                }
                for (start, end) in [before, behind] {
                    if end > start {
                        self.add_cxl(start, end, Kind::Cxl);
                    }
                }
            }
            Placement::Interleave(..) => self.add_cxl(start, end, Kind::Turns),
        }
    }

    fn add_local(&mut self, start: u64, end: u64) {
        self.local_used += end - start;
        let place = Kind::Local;
        self.extents.insert(start, Extent { end, place });
    }

    fn add_cxl(&mut self, start: u64, end: u64, kind: fn(u64) -> Kind) {
        let place = kind(self.cxl_used);
        self.cxl_used += end - start;
        self.extents.insert(start, Extent { end, place });
    }

    /// Bytes of the present mappings that are CXL memory. Of interleaved ones, that part of their pages.
    pub fn cxl_bytes(&self) -> u64 {
        let of = |(start, extent): (&u64, &Extent)| {
            let bytes = extent.end - start;
            match (extent.place, self.placement) {
                (Kind::Local, _) => 0,
                (Kind::Turns(_), Placement::Interleave(local, cxl)) => {
                    let (local, cxl) = (u128::from(local), u128::from(cxl));
                    (u128::from(bytes) * cxl / (local + cxl)) as u64
                }
                (Kind::Cxl(_) | Kind::Turns(_), _) => bytes,
            }
        };
        self.extents.iter().map(of).sum()
    }

    /// The pool that holds an address, or `None` if no mapping held it at the last [`Layout::update`].
    pub fn pool(&self, address: u64, fabric: &dyn Fabric) -> Option<usize> {
        Some(match self.place(address)? {
            MemoryPlace::Cxl(offset) => fabric.pool_of(offset),
            MemoryPlace::Local => 0,
        })
    }

    /// The place of an address, or `None` if no mapping held it at the last [`Layout::update`].
    pub fn place(&self, address: u64) -> Option<MemoryPlace> {
        let (start, extent) = self.extents.range(..=address).next_back()?;
        if address >= extent.end {
            return None;
        }
        let offset = address - start;
        Some(match extent.place {
            Kind::Local => MemoryPlace::Local,
            Kind::Cxl(base) => MemoryPlace::Cxl(base + offset),
            Kind::Turns(base) => {
                let Placement::Interleave(local, cxl) = self.placement else {
                    return None;
                };
                let page = (base + offset) / PAGE;
                match page % (u64::from(local) + u64::from(cxl)) < u64::from(local) {
                    true => MemoryPlace::Local,
                    false => MemoryPlace::Cxl(base + offset),
                }
            }
        })
    }
}

impl Extent {
    /// The part from byte `skip` on, which ends at address `end`.
    fn cut(self, skip: u64, end: u64) -> Extent {
        let place = match self.place {
            Kind::Local => Kind::Local,
            Kind::Cxl(base) => Kind::Cxl(base + skip),
            Kind::Turns(base) => Kind::Turns(base + skip),
        };
        Extent { end, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64) -> Region {
        Region {
            start: start * PAGE,
            end: end * PAGE,
        }
    }

    fn place(layout: &Layout, page: u64) -> Option<MemoryPlace> {
        layout.place(page * PAGE)
    }

    #[test]
    fn policies_are_read_and_mistakes_say_what_is_allowed() {
        for (text, policy) in [
            ("cxl", Placement::Cxl),
            ("local-first:64MiB", Placement::LocalFirst(64 << 20)),
            ("interleave:1:3", Placement::Interleave(1, 3)),
            ("above:1 GiB", Placement::Above(1 << 30)),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in [
            "",
            "local",
            "interleave:0:1",
            "above:x",
            "cxl:1",
            "above:99999999TiB",
        ] {
            let error = text.parse::<Placement>().expect_err(text);
            assert!(error.contains("allowed"), "{error}");
        }
    }

    #[test]
    fn a_place_stays_while_its_mapping_does_and_comes_back_free() {
        let mut layout = Layout::new(Placement::LocalFirst(4 * PAGE));
        layout.update(&[region(10, 13)]);
        assert_eq!(place(&layout, 12), Some(MemoryPlace::Local));
        // The mapping grows over the limit: its last local page is the fourth of the host's own.
        layout.update(&[region(10, 16)]);
        assert_eq!(place(&layout, 13), Some(MemoryPlace::Local));
        assert_eq!(place(&layout, 14), Some(MemoryPlace::Cxl(0)));
        assert_eq!(place(&layout, 15), Some(MemoryPlace::Cxl(PAGE)));
        assert_eq!(place(&layout, 16), None);
        // A hole is unmapped: what remains keeps its place, and new mappings take the freed local pages.
        layout.update(&[region(12, 13), region(15, 16), region(20, 23)]);
        assert_eq!(place(&layout, 10), None);
        assert_eq!(place(&layout, 12), Some(MemoryPlace::Local));
        assert_eq!(place(&layout, 15), Some(MemoryPlace::Cxl(PAGE)));
        assert_eq!(place(&layout, 22), Some(MemoryPlace::Local));
    }

    /// Two arrays side by side look like one mapping. The upper one was made first.
    #[test]
    fn what_a_program_maps_is_placed_from_the_top_down() {
        let top = TOP_DOWN_START / PAGE;
        let mut layout = Layout::new(Placement::LocalFirst(14 * PAGE));
        layout.update(&[
            region(10, 12),
            region(top, top + 20),
            region(top + 30, top + 32),
        ]);
        for page in [10, 11, top + 10, top + 19, top + 30, top + 31] {
            assert_eq!(place(&layout, page), Some(MemoryPlace::Local), "{page}");
        }
        assert_eq!(place(&layout, top), Some(MemoryPlace::Cxl(0)));
        assert_eq!(place(&layout, top + 9), Some(MemoryPlace::Cxl(9 * PAGE)));
        // A lower mapping that appears later is placed later.
        layout.update(&[region(10, 12), region(top, top + 20)]);
        layout.update(&[
            region(10, 12),
            region(top, top + 20),
            region(top + 25, top + 29),
        ]);
        let found: Vec<bool> = (25..29)
            .map(|page| place(&layout, top + page) == Some(MemoryPlace::Local))
            .collect();
        assert_eq!(found, [false, false, true, true]);
    }

    #[test]
    fn large_mappings_and_turns_of_pages() {
        let mut layout = Layout::new(Placement::Above(4 * PAGE));
        layout.update(&[region(0, 3), region(4, 8)]);
        assert_eq!(place(&layout, 2), Some(MemoryPlace::Local));
        assert_eq!(place(&layout, 5), Some(MemoryPlace::Cxl(PAGE)));

        let mut layout = Layout::new(Placement::Interleave(1, 2));
        layout.update(&[region(3, 9)]);
        let local: Vec<bool> = (3..9)
            .map(|page| place(&layout, page) == Some(MemoryPlace::Local))
            .collect();
        assert_eq!(local, [true, false, false, true, false, false]);
    }
}
