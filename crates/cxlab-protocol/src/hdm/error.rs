//! The errors of invalid interleaves.

use std::fmt;

use cxlab_engine::units::{Bytes, Hpa};

use super::limits::legal_targets;

/// An invalid interleave. Every variant carries the value found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterleaveError {
    /// A decoder does not support the granularity.
    Granularity(Bytes),
    /// One decoder does not support this number of ways.
    Ways(u32),
    /// The number of targets is not 2^k or 3 * 2^k up to [`super::MAX_TARGETS`].
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
