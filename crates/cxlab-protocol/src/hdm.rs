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

mod decoder;
mod error;
mod interleave_set;
mod limits;
#[cfg(test)]
mod tests;

pub use decoder::HdmDecoder;
pub use error::InterleaveError;
pub use interleave_set::{InterleaveSet, Level, xor_maps};
pub use limits::{LEGAL_WAYS, MAX_TARGETS, MOST_XOR_MAPS, legal_targets};
