//! Pieces of device memory: their unit, and the host that has each.

use cxlab_engine::units::{Bytes, Dpa, Hpa};
use cxlab_protocol::DeviceDecoder;
use cxlab_protocol::hdm::legal_targets;
use cxlab_scenario::Scenario;

use crate::problem::Problem;

/// The unit of an HDM decoder's base and size (CXL 3.1 section 8.2.4.20).
pub(crate) const DECODER_UNIT: u64 = 256 << 20;

/// Number of a region, and of its block (0 if the region is not pooled).
pub(crate) type RegionBlock = (usize, u32);

/// A contiguous piece of memory in a host's address space.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Extent {
    /// The devices in interleaving order, with the first device address used on each.
    pub(crate) shares: Vec<(usize, Dpa)>,
    /// Bytes used on each device.
    pub(crate) share: Bytes,
}

/// Memory of a region that a host has at some time during the run.
#[derive(Clone)]
pub(crate) struct GrantedExtent {
    pub(crate) part: RegionBlock,
    /// Location of the memory in the devices.
    pub(crate) extent: Extent,
}

/// A device decoder for a host's memory of a region.
pub(crate) struct RegionDecoder {
    pub(crate) part: RegionBlock,
    pub(crate) host: usize,
    pub(crate) device: usize,
    pub(crate) decoder: DeviceDecoder,
    /// The host's window of which this memory is a part: first address and size in bytes.
    pub(crate) window: (Hpa, Bytes),
}

/// Interleaving ways of the windows over `count` devices of one capacity.
pub(crate) fn ways(scenario: &Scenario, count: usize) -> Result<usize, Problem> {
    let dividing = |ways: &u32| count.is_multiple_of(*ways as usize);
    match scenario.address_map.ways {
        None => Ok(legal_targets().filter(dividing).max().unwrap_or(1) as usize),
        Some(ways) if dividing(&ways) => Ok(ways as usize),
        Some(ways) => Err(Problem::refused(
            "address_map.ways",
            ways,
            format_args!(
                "a divisor of {count}, the devices of one capacity in a row that a host reaches"
            ),
        )),
    }
}
