//! Interleaving over more targets than one decoder has.

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use super::decoder::{Interleave, check_granularity};
use super::error::InterleaveError;
use super::limits::{GRANULARITY, LEGAL_WAYS, MOST_XOR_MAPS, legal_targets};

/// One level of an [`InterleaveSet`]: the settings of the decoders of that level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// Number of ways of each decoder, one of [`LEGAL_WAYS`].
    pub ways: u32,
    /// Number of consecutive bytes that each target of the level gets.
    pub granularity: Bytes,
}

/// A range of addresses over more targets than one decoder has: up to three levels of decoders. All
/// levels decode the same host physical address, each from the next higher bits.
///
/// The first level (the window over host bridges) takes the lowest bits, so it has the finest
/// granularity. A factor of three belongs to the last level, because its modulo uses all remaining
/// bits. Registers support the factor only in a single window, so with up to 16 targets. Target
/// numbers count the first level fastest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterleaveSet {
    pub(super) interleave: Interleave,
    levels: [Level; 3],
    depth: u8,
}

impl InterleaveSet {
    /// A set of `total_targets` targets interleaved at `granularity`, with as few levels as possible.
    ///
    /// # Errors
    /// If the number of targets is not 2^k or 3 * 2^k up to [`super::MAX_TARGETS`], a decoder does not
    /// support the granularity, the size cannot be divided evenly among the targets, or the range
    /// ends beyond 52 bits.
    pub fn new(
        base: Hpa,
        size: Bytes,
        granularity: Bytes,
        total_targets: u32,
    ) -> Result<Self, InterleaveError> {
        check_granularity(granularity)?;
        if !legal_targets().any(|n| n == total_targets) {
            return Err(InterleaveError::Targets(total_targets));
        }
        let interleave = Interleave::new(base, size, granularity.0, total_targets)?;
        let mut levels = [Level {
            ways: 1,
            granularity,
        }; 3];
        let mut depth = 0;
        let mut rest = total_targets;
        let mut step = granularity.0;
        while depth == 0 || rest > 1 {
            // 24 = 8 x 3 and 48 = 16 x 3: with more targets than one decoder supports, a level
            // takes the largest power of two that leaves a legal last level.
            let ways = if LEGAL_WAYS.contains(&rest) {
                rest
            } else {
                16.min(1 << rest.trailing_zeros())
            };
            levels[depth] = Level {
                ways,
                granularity: Bytes(step),
            };
            rest /= ways;
            step *= u64::from(ways);
            depth += 1;
        }
        Ok(InterleaveSet {
            interleave,
            levels,
            depth: depth as u8,
        })
    }

    /// The same set, with a window that selects the host bridge by XOR of address bits: bit `i` of
    /// the host bridge's number is the XOR of the bits of map `i`. The lowest bit of map `i` is bit
    /// `i` above the granularity. With 3, 6 and 12 ways the factor of three stays a modulo. The DPA
    /// and the levels below do not change. Maps apply to offsets from the base. They may be applied
    /// to addresses instead if no map reaches beyond the base's alignment.
    ///
    /// # Errors
    /// If there are fewer maps than bits, or a map has another lowest bit.
    pub fn with_xor(self, maps: &[u64]) -> Result<Self, InterleaveError> {
        let host_bridges = self.levels[0].ways;
        self.with_xor_over(maps, host_bridges)
    }

    /// [`InterleaveSet::with_xor`] for a window over `host_bridges` host bridges, a divisor of the
    /// number of targets. The decoders of host bridges, switches and devices use address bits as
    /// they are (CXL 3.1, table 9-22).
    ///
    /// # Errors
    /// If there are fewer maps than bits that select the host bridge, or a map has another lowest bit.
    pub fn with_xor_over(
        mut self,
        maps: &[u64],
        host_bridges: u32,
    ) -> Result<Self, InterleaveError> {
        // One way and three ways have no such bits.
        let needed = host_bridges.trailing_zeros() as usize;
        let found = maps.len();
        if found < needed {
            return Err(InterleaveError::XorMaps { found, needed });
        }
        for (number, map) in maps[..needed].iter().enumerate() {
            let lowest = self.interleave.granularity_bits + number as u32;
            if map.trailing_zeros() != lowest {
                let map = *map;
                return Err(InterleaveError::XorMap {
                    number,
                    map,
                    lowest,
                });
            }
            self.interleave.xor_maps[number] = *map;
        }
        Ok(self)
    }

    /// The levels, outermost first. The outermost level has the finest granularity.
    pub fn levels(&self) -> &[Level] {
        &self.levels[..usize::from(self.depth)]
    }

    /// The number of targets.
    pub fn targets(&self) -> u32 {
        self.interleave.ways()
    }

    /// Size of each target, in bytes.
    pub fn target_size(&self) -> Bytes {
        Bytes(self.interleave.size / u64::from(self.targets()))
    }

    /// Whether the registers of CXL 3.1 can express the set. An endpoint's decoder supports at most
    /// 16 ways in all, and a decoder's granularity ends at 16 KiB (section 8.2.4.20.7). Larger sets
    /// are an extension for the study of scale (*assumed*: the same arithmetic with more bits).
    pub fn is_expressible(&self) -> bool {
        LEGAL_WAYS.contains(&self.targets())
            && self
                .levels()
                .iter()
                .all(|level| GRANULARITY.contains(&level.granularity.0))
    }

    /// The target's number and the DPA in that target. `None` outside the range.
    #[inline]
    pub fn decode(&self, hpa: Hpa) -> Option<(u32, Dpa)> {
        self.interleave.decode(hpa)
    }

    /// The host physical address of a DPA of a target: the inverse of [`InterleaveSet::decode`].
    ///
    /// # Panics
    /// If the target or the DPA does not exist. Such a call is a mistake of the program, not of the user.
    pub fn encode(&self, target: u32, dpa: Dpa) -> Hpa {
        self.interleave.encode(target, dpa)
    }

    /// The way that each level selects for a target: host bridge, root port, downstream port. Only
    /// the first `levels().len()` values are meaningful.
    pub fn route(&self, target: u32) -> [u32; 3] {
        let mut rest = target;
        self.levels.map(|level| {
            let way = rest % level.ways;
            rest /= level.ways;
            way
        })
    }
}

/// The XOR maps of Linux's own test of the arithmetic (`tools/testing/cxl/test/cxl_translate.c`),
/// which are for 256 B, shifted up for coarser granularities. Platforms publish their maps in the
/// CXIMS structure of the CEDT (ACPI).
pub fn xor_maps(granularity: Bytes) -> [u64; MOST_XOR_MAPS] {
    [0x202_0900, 0x404_1200, 0x101_0400, 0x800].map(|map| map * (granularity.0 / 256))
}
