//! The numbers of ways and granularities that decoders support.

/// Numbers of ways that one HDM decoder can have (CXL 3.1, section 8.2.4.20.7, field IW).
pub const LEGAL_WAYS: [u32; 8] = [1, 2, 4, 8, 16, 3, 6, 12];

/// Largest number of targets of an [`super::InterleaveSet`]: three levels of 16 ways.
pub const MAX_TARGETS: u32 = 4096;

/// Largest number of XOR maps that a window needs: one for each bit of 16 ways.
pub const MOST_XOR_MAPS: usize = 4;

/// Smallest and largest interleave granularity of one decoder, in bytes (CXL 3.1, 8.2.4.20.7, field IG).
pub(super) const GRANULARITY: std::ops::RangeInclusive<u64> = 256..=16 << 10;

/// Host physical addresses have 52 bits (CXL 3.1, section 8.2.4.20.13: HPA\[51:0\]).
pub(super) const HPA_END: u64 = 1 << 52;

/// The numbers of targets that an [`super::InterleaveSet`] can have, in ascending order: 2^k and 3 * 2^k.
pub fn legal_targets() -> impl Iterator<Item = u32> {
    (0..=MAX_TARGETS.ilog2())
        .flat_map(|k| {
            let with_three = if k == 0 { None } else { Some(3 << (k - 1)) };
            [Some(1 << k), with_three]
        })
        .flatten()
        .filter(|n| *n <= MAX_TARGETS)
}
