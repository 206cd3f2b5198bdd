//! The decoder, and the arithmetic that it shares with sets.

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use super::error::InterleaveError;
use super::limits::{GRANULARITY, HPA_END, LEGAL_WAYS, MOST_XOR_MAPS};

/// The arithmetic shared by decoders and sets.
///
/// The number of the granule is split into its low `slice_bits` bits and the rest. With a factor of
/// three, the rest divided by three is the granule in the target, and the remainder selects one of three
/// groups of `2^slice_bits` targets. Division by the constant three is a multiplication and a shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Interleave {
    pub(super) base: u64,
    pub(super) size: u64,
    pub(super) granularity_bits: u32,
    pub(super) slice_bits: u32,
    pub(super) three: bool,
    /// For each of the slice's lowest bits: the address bits whose XOR replaces it, or zero
    /// if the bit is kept.
    pub(super) xor_maps: [u64; MOST_XOR_MAPS],
}

impl Interleave {
    pub(super) fn new(
        base: Hpa,
        size: Bytes,
        granularity: u64,
        ways: u32,
    ) -> Result<Self, InterleaveError> {
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
    pub(super) fn replace_bits(&self, offset: u64, order: impl Iterator<Item = usize>) -> u64 {
        order.fold(offset, |offset, number| match self.xor_maps[number] {
            0 => offset,
            map => {
                let bit = self.granularity_bits + number as u32;
                let value = u64::from((offset & map).count_ones()) & 1;
                offset & !(1 << bit) | value << bit
            }
        })
    }

    pub(super) fn ways(&self) -> u32 {
        let factor = if self.three { 3 } else { 1 };
        factor << self.slice_bits
    }

    #[inline]
    pub(super) fn decode(&self, hpa: Hpa) -> Option<(u32, Dpa)> {
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
        let (group, own) = match self.three {
            true => (rest % 3, rest / 3),
            false => (0, rest),
        };
        let target = group << self.slice_bits | slice;
        let within = offset & ((1 << self.granularity_bits) - 1);
        Some((target as u32, Dpa(own << self.granularity_bits | within)))
    }

    pub(super) fn encode(&self, target: u32, dpa: Dpa) -> Hpa {
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
}

pub(super) fn check_granularity(granularity: Bytes) -> Result<(), InterleaveError> {
    if granularity.0.is_power_of_two() && GRANULARITY.contains(&granularity.0) {
        Ok(())
    } else {
        Err(InterleaveError::Granularity(granularity))
    }
}
