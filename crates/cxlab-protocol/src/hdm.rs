//! HDM decoder arithmetic: the target of a host physical address, and the DPA in that target.
//!
//! Modelled: the interleave formulas of HDM decoders (CXL 3.1, section 8.2.4.20.13, with the ways
//! and granularities of 8.2.4.20.7) and their composition over up to three levels: a window over
//! host bridges, host bridges over root ports, switches over their downstream ports.
//!
//! A window over host bridges may choose them by XOR of address bits ([`InterleaveSet::with_xor`]).
//!
//! Left out: decoder registers, locking and skipped DPA, which [`crate::io::component`] has. Base and
//! size need not be multiples of 256 MiB, as registers require, so that small systems can be described.
//!
//! Sources: DPA formulas as quoted with section numbers in Linux `drivers/cxl/core/region.c`
//! (`check_interleave_cap`) and in the QEMU thread "mem/cxl_type3: fix hpa to dpa logic". The
//! choice of the target from the low slice and the rest modulo three is the only one under which
//! those formulas give each DPA once; its order of bits is *recollection, unverified*. XOR follows
//! `cxl_xor_hpa_to_spa` in Linux `drivers/cxl/acpi.c`, which cites XORALLBITS of table 9-22.
//!
//! Invariants: `decode` and `encode` are inverse; every target gets `size / ways` bytes and each of
//! its DPAs from 0 on exactly once. Addresses are offsets from the base: for 3, 6 and 12 ways a
//! base that is not a multiple of three granules rotates the target list in hardware, but not here.

use std::fmt;

use cxlab_engine::units::{Bytes, Dpa, Hpa};

/// Numbers of ways that one HDM decoder can have (CXL 3.1, section 8.2.4.20.7, field IW).
pub const LEGAL_WAYS: [u32; 8] = [1, 2, 4, 8, 16, 3, 6, 12];

/// Largest number of targets of an [`InterleaveSet`]: three levels of 16 ways.
pub const MAX_TARGETS: u32 = 4096;

/// Largest number of XOR maps that a window needs: one for each bit of 16 ways.
pub const MOST_XOR_MAPS: usize = 4;

/// Smallest and largest interleave granularity of one decoder, in bytes (CXL 3.1, 8.2.4.20.7, field IG).
const GRANULARITY: std::ops::RangeInclusive<u64> = 256..=16 << 10;

/// Host physical addresses have 52 bits (CXL 3.1, section 8.2.4.20.13: HPA\[51:0\]).
const HPA_END: u64 = 1 << 52;

/// An invalid interleave. Every variant carries the value found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterleaveError {
    /// A decoder does not support the granularity.
    Granularity(Bytes),
    /// One decoder does not support this number of ways.
    Ways(u32),
    /// The number of targets is not 2^k or 3 * 2^k up to [`MAX_TARGETS`].
    Targets(u32),
    /// The size is zero or not a multiple of targets times granularity.
    Size {
        /// The size found.
        size: Bytes,
        /// The number that the size must be a multiple of.
        multiple_of: Bytes,
    },
    /// There are fewer XOR maps than bits that choose the host bridge.
    XorMaps {
        /// Number of maps given.
        found: usize,
        /// Number of maps required.
        needed: usize,
    },
    /// The lowest bit of an XOR map is not the bit that it replaces.
    XorMap {
        /// Number of the bit that the map is for, from 0.
        number: usize,
        /// The map: the address bits whose XOR replaces the bit.
        map: u64,
        /// The required lowest bit of the map.
        lowest: u32,
    },
    /// The range ends beyond the 52 bits of a host physical address.
    Range {
        /// The base found.
        base: Hpa,
        /// The size found.
        size: Bytes,
    },
}

impl fmt::Display for InterleaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterleaveError::Granularity(found) => write!(
                f,
                "interleave granularity {found} is not one of 256 B, 512 B, 1 KiB, 2 KiB, 4 KiB, \
                 8 KiB, 16 KiB"
            ),
            InterleaveError::Ways(found) => {
                write!(
                    f,
                    "{found} interleave ways are not one of 1, 2, 3, 4, 6, 8, 12, 16"
                )
            }
            InterleaveError::Targets(found) => {
                write!(f, "{found} interleave targets are not one of ")?;
                let mut separator = "";
                for allowed in legal_targets() {
                    write!(f, "{separator}{allowed}")?;
                    separator = ", ";
                }
                if let Some(nearest) = legal_targets().min_by_key(|n| n.abs_diff(*found)) {
                    write!(f, "; the nearest is {nearest}")?;
                }
                Ok(())
            }
            InterleaveError::Size { size, multiple_of } => write!(
                f,
                "size {size} is not a positive multiple of {multiple_of} (targets times granularity)"
            ),
            InterleaveError::XorMaps { found, needed } => write!(
                f,
                "{found} XOR maps are fewer than {needed}, the bits that choose the host bridge"
            ),
            InterleaveError::XorMap {
                number,
                map,
                lowest,
            } => write!(
                f,
                "XOR map {number}, {map:#x}, does not have bit {lowest} ({:#x}) as its lowest bit",
                1u64 << lowest
            ),
            InterleaveError::Range { base, size } => write!(
                f,
                "base {:#x} with size {size} ends beyond the 52 bits of a host physical address",
                base.0
            ),
        }
    }
}

impl std::error::Error for InterleaveError {}

/// The numbers of targets that an [`InterleaveSet`] can have, in ascending order: 2^k and 3 * 2^k.
pub fn legal_targets() -> impl Iterator<Item = u32> {
    (0..=MAX_TARGETS.ilog2())
        .flat_map(|k| {
            let with_three = if k == 0 { None } else { Some(3 << (k - 1)) };
            [Some(1 << k), with_three]
        })
        .flatten()
        .filter(|n| *n <= MAX_TARGETS)
}

/// The arithmetic shared by decoders and sets.
///
/// The number of the granule is split into its low `slice_bits` bits and the rest. With a factor of
/// three, the rest divided by three is the granule in the target, and the remainder selects one of three
/// groups of `2^slice_bits` targets. Division by the constant three is a multiplication and a shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Interleave {
    base: u64,
    size: u64,
    granularity_bits: u32,
    slice_bits: u32,
    three: bool,
    /// For each of the slice's lowest bits: the address bits whose XOR replaces it, or zero
    /// if the bit is kept.
    xor_maps: [u64; MOST_XOR_MAPS],
}

impl Interleave {
    fn new(base: Hpa, size: Bytes, granularity: u64, ways: u32) -> Result<Self, InterleaveError> {
        let three = ways.is_multiple_of(3);
        let multiple_of = granularity * u64::from(ways);
        if size.0 == 0 || !size.0.is_multiple_of(multiple_of) {
            return Err(InterleaveError::Size {
                size,
                multiple_of: Bytes(multiple_of),
            });
        }
        if base.0.checked_add(size.0).is_none_or(|end| end > HPA_END) {
            return Err(InterleaveError::Range { base, size });
        }
        Ok(Interleave {
            base: base.0,
            size: size.0,
            granularity_bits: granularity.ilog2(),
            slice_bits: if three { ways / 3 } else { ways }.ilog2(),
            three,
            xor_maps: [0; MOST_XOR_MAPS],
        })
    }

    /// Replaces the bits that have XOR maps, in this order, each by the XOR of all bits of its map.
    /// No map has bits below the bit that it replaces, so ascending order decodes, and descending
    /// order is the inverse.
    fn replace_bits(&self, offset: u64, order: impl Iterator<Item = usize>) -> u64 {
        order.fold(offset, |offset, number| match self.xor_maps[number] {
            0 => offset,
            map => {
                let bit = self.granularity_bits + number as u32;
                let value = u64::from((offset & map).count_ones()) & 1;
                offset & !(1 << bit) | value << bit
            }
        })
    }

    fn ways(&self) -> u32 {
        if self.three {
            3 << self.slice_bits
        } else {
            1 << self.slice_bits
        }
    }

    #[inline]
    fn decode(&self, hpa: Hpa) -> Option<(u32, Dpa)> {
        let offset = hpa.0.wrapping_sub(self.base);
        if offset >= self.size {
            return None;
        }
        let mut granule = offset >> self.granularity_bits;
        if self.xor_maps[0] != 0 {
            granule = self.replace_bits(offset, 0..MOST_XOR_MAPS) >> self.granularity_bits;
        }
        let slice = granule & ((1 << self.slice_bits) - 1);
        let rest = granule >> self.slice_bits;
        let (group, own) = if self.three {
            (rest % 3, rest / 3)
        } else {
            (0, rest)
        };
        let target = group << self.slice_bits | slice;
        let within = offset & ((1 << self.granularity_bits) - 1);
        Some((target as u32, Dpa(own << self.granularity_bits | within)))
    }

    fn encode(&self, target: u32, dpa: Dpa) -> Hpa {
        let ways = self.ways();
        assert!(
            target < ways,
            "target {target} of an interleave over {ways}"
        );
        assert!(
            dpa.0 < self.size / u64::from(ways),
            "DPA {:#x} lies beyond the target's {:#x} bytes",
            dpa.0,
            self.size / u64::from(ways)
        );
        let own = dpa.0 >> self.granularity_bits;
        let group = u64::from(target >> self.slice_bits);
        let slice = u64::from(target) & ((1 << self.slice_bits) - 1);
        let rest = if self.three { own * 3 + group } else { own };
        let granule = rest << self.slice_bits | slice;
        let within = dpa.0 & ((1 << self.granularity_bits) - 1);
        let offset = granule << self.granularity_bits | within;
        Hpa(self.base + self.replace_bits(offset, (0..MOST_XOR_MAPS).rev()))
    }
}

/// One HDM decoder: a range of host physical addresses over 1 to 16 targets.
///
/// For 1, 2, 4, 8 and 16 ways the target is a slice of address bits from the granularity up. For 3,
/// 6 and 12 ways it is a slice of 0, 1 or 2 bits, and the rest of the address modulo three (CXL
/// 3.1, section 8.2.4.20.13). The remaining bits, closed up, are the DPA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HdmDecoder {
    interleave: Interleave,
}

impl HdmDecoder {
    /// A decoder of `size` bytes from `base` on, interleaved over `ways` targets at `granularity`.
    ///
    /// # Errors
    /// If one decoder does not support the ways or the granularity, the size cannot be divided
    /// evenly among the ways, or the range ends beyond 52 bits.
    pub fn new(
        base: Hpa,
        size: Bytes,
        granularity: Bytes,
        ways: u32,
    ) -> Result<Self, InterleaveError> {
        check_granularity(granularity)?;
        if !LEGAL_WAYS.contains(&ways) {
            return Err(InterleaveError::Ways(ways));
        }
        Ok(HdmDecoder {
            interleave: Interleave::new(base, size, granularity.0, ways)?,
        })
    }

    /// The number of targets.
    pub fn ways(&self) -> u32 {
        self.interleave.ways()
    }

    /// The target's position in the target list and the DPA in that target. `None` outside the range.
    #[inline]
    pub fn decode(&self, hpa: Hpa) -> Option<(u32, Dpa)> {
        self.interleave.decode(hpa)
    }

    /// The host physical address of a DPA of a target: the inverse of [`HdmDecoder::decode`].
    ///
    /// # Panics
    /// If the target or the DPA does not exist. Such a call is a mistake of the program, not of the user.
    pub fn encode(&self, target: u32, dpa: Dpa) -> Hpa {
        self.interleave.encode(target, dpa)
    }
}

fn check_granularity(granularity: Bytes) -> Result<(), InterleaveError> {
    if granularity.0.is_power_of_two() && GRANULARITY.contains(&granularity.0) {
        Ok(())
    } else {
        Err(InterleaveError::Granularity(granularity))
    }
}

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
    interleave: Interleave,
    levels: [Level; 3],
    depth: u8,
}

impl InterleaveSet {
    /// A set of `total_targets` targets interleaved at `granularity`, with as few levels as possible.
    ///
    /// # Errors
    /// If the number of targets is not 2^k or 3 * 2^k up to [`MAX_TARGETS`], a decoder does not
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn three_and_six_ways_follow_the_modulo_form_of_the_specification() {
        let base = Hpa(0x1_0000_0000);
        for (ways, slice_bits) in [(3u32, 0), (6, 1), (12, 2)] {
            let decoder = HdmDecoder::new(base, Bytes(12 * 256 * 100), Bytes(256), ways).unwrap();
            for offset in (0..12 * 256 * 100u64).step_by(64) {
                let (target, dpa) = decoder.decode(Hpa(base.0 + offset)).unwrap();
                // DPAOffset[51:IG+8] = HPAOffset[51:IG+IW] / 3, with IG = 0 and IW = 8, 9, 10.
                let high = (offset >> (8 + slice_bits)) / 3;
                assert_eq!(dpa.0, high << 8 | offset & 0xff);
                let slice = (offset >> 8) & ((1 << slice_bits) - 1);
                let group = (offset >> (8 + slice_bits)) % 3;
                assert_eq!(u64::from(target), slice + (group << slice_bits));
            }
        }
    }

    #[test]
    fn power_of_two_ways_remove_the_slice_of_bits() {
        let decoder = HdmDecoder::new(Hpa(0), Bytes(KIB * KIB), Bytes(4 * KIB), 4).unwrap();
        assert_eq!(decoder.decode(Hpa(0x1_2345)), Some((2, Dpa(0x4345))));
        assert_eq!(decoder.decode(Hpa(KIB * KIB)), None);
    }

    #[test]
    fn sixty_four_targets_are_sixteen_by_four_and_forty_eight_are_sixteen_by_three() {
        let levels = |n: u32| {
            let set = InterleaveSet::new(Hpa(0), Bytes(u64::from(n) * KIB), Bytes(256), n).unwrap();
            set.levels()
                .iter()
                .map(|level| level.ways)
                .collect::<Vec<_>>()
        };
        assert_eq!(levels(1), [1]);
        assert_eq!(levels(12), [12]);
        assert_eq!(levels(24), [8, 3]);
        assert_eq!(levels(48), [16, 3]);
        assert_eq!(levels(64), [16, 4]);
        assert_eq!(levels(4096), [16, 16, 16]);
        assert_eq!(levels(3072), [16, 16, 12]);
    }

    #[test]
    fn every_legal_number_of_targets_has_legal_levels_that_multiply_to_it() {
        for n in legal_targets() {
            let set = InterleaveSet::new(Hpa(0), Bytes(u64::from(n) * KIB), Bytes(256), n).unwrap();
            assert!(
                set.levels()
                    .iter()
                    .all(|level| LEGAL_WAYS.contains(&level.ways)),
                "{n}"
            );
            assert_eq!(
                set.levels().iter().map(|level| level.ways).product::<u32>(),
                n
            );
        }
    }

    #[test]
    fn a_wrong_number_names_what_is_allowed() {
        let error = |n| InterleaveSet::new(Hpa(0), Bytes(KIB * KIB), Bytes(256), n).unwrap_err();
        let text = error(20).to_string();
        assert!(
            text.contains("1, 2, 3, 4, 6, 8, 12, 16, 24, 32") && text.contains("4096"),
            "{text}"
        );
        assert!(
            text.ends_with("nearest is 16") || text.ends_with("nearest is 24"),
            "{text}"
        );
        assert_eq!(error(0), InterleaveError::Targets(0));
        assert_eq!(error(6144), InterleaveError::Targets(6144));
        assert!(matches!(error(3), InterleaveError::Size { .. }));
        let granularity = HdmDecoder::new(Hpa(0), Bytes(KIB), Bytes(128), 1).unwrap_err();
        assert!(granularity.to_string().contains("16 KiB"));
        let ways = HdmDecoder::new(Hpa(0), Bytes(KIB), Bytes(256), 5).unwrap_err();
        assert_eq!(ways, InterleaveError::Ways(5));
        let range = HdmDecoder::new(Hpa(u64::MAX), Bytes(KIB), Bytes(256), 1).unwrap_err();
        assert!(matches!(range, InterleaveError::Range { .. }));
    }

    /// A set decodes as its levels do, and the decoders of all levels read the same address.
    #[test]
    fn a_set_is_the_composition_of_its_levels() {
        for n in [6, 24, 48, 64, 192, 1024] {
            let size = u64::from(n) * 256 * 9;
            let set = InterleaveSet::new(Hpa(0), Bytes(size), Bytes(256), n).unwrap();
            for hpa in (0..size).step_by(128).map(Hpa) {
                let (target, _) = set.decode(hpa).unwrap();
                for (way, level) in set.route(target).into_iter().zip(set.levels()) {
                    let turn = level.granularity.0 * u64::from(level.ways);
                    let whole = size.next_multiple_of(turn);
                    let one =
                        Interleave::new(Hpa(0), Bytes(whole), level.granularity.0, level.ways);
                    assert_eq!(one.unwrap().decode(hpa).map(|(way, _)| way), Some(way));
                }
            }
        }
    }

    /// The arithmetic as Linux does it: positions by XORALLBITS of maps, then the modulo form
    /// (`cxl_xor_hpa_to_spa` of `drivers/cxl/acpi.c`).
    fn as_linux_does(offset: u64, ways: u32, maps: &[u64]) -> (u32, u64) {
        let bits = ways.trailing_zeros();
        let mut spa = offset;
        for map in &maps[..bits as usize] {
            let position = map.trailing_zeros();
            let value = u64::from((spa & map).count_ones() % 2);
            spa = spa & !(1 << position) | value << position;
        }
        let granule = spa >> 8;
        let (low, high) = (granule % (1 << bits), granule >> bits);
        let (group, own) = match ways.is_multiple_of(3) {
            true => (high % 3, high / 3),
            false => (0, high),
        };
        ((group << bits | low) as u32, own << 8 | offset & 0xff)
    }

    #[test]
    fn xor_chooses_as_linux_does() {
        let maps = xor_maps(Bytes(256));
        for ways in LEGAL_WAYS {
            let size = Bytes(u64::from(ways) << 28);
            let set = InterleaveSet::new(Hpa(0), size, Bytes(256), ways).unwrap();
            let xored = set.with_xor(&maps).unwrap();
            let mut differ = 0;
            for hpa in (0..size.0).step_by((size.0 / 5003) as usize) {
                let found = xored.decode(Hpa(hpa)).unwrap();
                let (target, dpa) = as_linux_does(hpa, ways, &maps);
                assert_eq!(found, (target, Dpa(dpa)), "{ways} ways, {hpa:#x}");
                differ += u32::from(Some(found) != set.decode(Hpa(hpa)));
            }
            let bits = ways.trailing_zeros();
            assert_eq!(differ > 1000, bits > 0, "{ways} ways: {differ}");
        }
    }

    #[test]
    fn a_bit_is_the_xor_of_its_map_and_the_address_in_the_target_stays() {
        let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(256), 2).unwrap();
        // Bits 8, 11, 17 and 25.
        let set = set.with_xor(&[0x202_0900]).unwrap();
        for (hpa, target, dpa) in [
            (0, 0, 0),
            (0x100, 1, 0),
            (0x800, 1, 0x400),
            (0x900, 0, 0x400),
            (0x2_0042, 1, 0x1_0042),
            (0x202_0900, 0, 0x101_0400),
        ] {
            assert_eq!(set.decode(Hpa(hpa)), Some((target, Dpa(dpa))), "{hpa:#x}");
        }
    }

    #[test]
    fn xor_spreads_a_stride_that_modulo_sends_to_one_target() {
        let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(256), 4).unwrap();
        let maps = [0x40_4100, 0x80_8200];
        let xored = set.with_xor(&maps).unwrap();
        let targets = |set: &InterleaveSet| {
            let mut counts = [0; 4];
            for line in 0..4096u64 {
                let (target, _) = set.decode(Hpa(line * (16 << 10))).unwrap();
                counts[target as usize] += 1;
            }
            counts
        };
        assert_eq!(targets(&set), [4096, 0, 0, 0]);
        assert_eq!(targets(&xored), [1024; 4]);
    }

    #[test]
    fn a_wrong_map_is_refused() {
        let set = InterleaveSet::new(Hpa(0), Bytes(1 << 30), Bytes(512), 4).unwrap();
        let few = set.with_xor(&[0x200]).unwrap_err();
        assert_eq!(
            few,
            InterleaveError::XorMaps {
                found: 1,
                needed: 2
            }
        );
        let low = set.with_xor(&[0x200, 0x600]).unwrap_err();
        assert!(low.to_string().contains("0x400"), "{low}");
        assert!(set.with_xor(&xor_maps(Bytes(512))).is_ok());
        let zero = set.with_xor(&[0, 0]).unwrap_err();
        assert!(matches!(zero, InterleaveError::XorMap { number: 0, .. }));
    }

    fn any_set() -> impl Strategy<Value = InterleaveSet> {
        let targets = proptest::sample::select(legal_targets().collect::<Vec<_>>());
        let maps = proptest::option::of(proptest::array::uniform4(0..1u64 << 40));
        (targets, 0..=6u32, 0..1u64 << 40, 1..8u64, maps).prop_map(|(n, ig, base, turns, maps)| {
            let granularity = 256u64 << ig;
            let size = granularity * u64::from(n) * turns;
            let set = InterleaveSet::new(Hpa(base * 256), Bytes(size), Bytes(granularity), n);
            let set = set.unwrap();
            let Some(mut maps) = maps else {
                return set;
            };
            for (bit, map) in (granularity.ilog2()..).zip(&mut maps) {
                *map = *map & !((2 << bit) - 1) | 1 << bit;
            }
            set.with_xor(&maps).unwrap()
        })
    }

    proptest! {
        #[test]
        fn decode_and_encode_are_inverse(set in any_set(), share in 0..u64::MAX) {
            let hpa = Hpa(set.interleave.base + share % set.interleave.size);
            let (target, dpa) = set.decode(hpa).unwrap();
            prop_assert!(target < set.targets() && dpa.0 < set.target_size().0);
            prop_assert_eq!(set.encode(target, dpa), hpa);
            let target = (share % u64::from(set.targets())) as u32;
            let dpa = Dpa(share % set.target_size().0);
            prop_assert_eq!(set.decode(set.encode(target, dpa)), Some((target, dpa)));
        }

        #[test]
        fn each_target_gets_its_share_densely_and_once(
            ways in proptest::sample::select(LEGAL_WAYS.to_vec()), turns in 1..20u64,
        ) {
            let share = 256 * turns;
            let size = Bytes(share * u64::from(ways));
            let decoder = HdmDecoder::new(Hpa(1 << 30), size, Bytes(256), ways).unwrap();
            let mut seen = vec![false; (size.0 / 64) as usize];
            for line in 0..size.0 / 64 {
                let (target, dpa) = decoder.decode(Hpa((1 << 30) + 64 * line)).unwrap();
                prop_assert!(dpa.0 < share);
                let index = (u64::from(target) * share + dpa.0) / 64;
                prop_assert!(!std::mem::replace(&mut seen[index as usize], true));
            }
            prop_assert!(seen.into_iter().all(|line| line));
        }
    }
}
