//! Wake-up tokens of the processor, and the number that stands for none.

/// Kinds of wake-up, in the upper bits of a token; ports use their number.
const KIND_BITS: u32 = 26;
pub(super) const NODE: u32 = 1 << KIND_BITS;
pub(super) const OP: u32 = 2 << KIND_BITS;
pub(super) const HW_THREAD: u32 = 3 << KIND_BITS;
pub(super) const ARRIVE: u32 = 4 << KIND_BITS;
pub(super) const FINISH: u32 = 5 << KIND_BITS;
pub(super) const COMING: u32 = 6 << KIND_BITS;
pub(super) const GOING: u32 = 7 << KIND_BITS;
pub(super) const WALK: u32 = 8 << KIND_BITS;
pub(super) const TASK: u32 = 9 << KIND_BITS;
pub(super) const IOMMU: u32 = 10 << KIND_BITS;
pub(super) const SCAN: u32 = 11 << KIND_BITS;
pub(super) const VALUE: u32 = (1 << KIND_BITS) - 1;

/// Stands for no transaction, walk or access.
pub(super) const NONE: u32 = u32::MAX;
