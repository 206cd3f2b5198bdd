//! Capabilities: PCI Express and MSI-X in the list, ATS, PRI and PASID in the extended list.

use super::{FunctionSpec, MSIX_PENDING, MSIX_TABLE, Registers, Role};

/// IDs of standard capabilities.
pub mod standard {
    /// PCI Express capability.
    pub const PCIE: u8 = 0x10;
    /// MSI-X interrupt capability.
    pub const MSIX: u8 = 0x11;
}

/// IDs of extended capabilities.
pub mod extended {
    /// Address translation services (ATS).
    pub const ATS: u16 = 0x000f;
    /// Page request interface (PRI).
    pub const PRI: u16 = 0x0013;
    /// Process address space identifiers (PASID).
    pub const PASID: u16 = 0x001b;
    /// Designated vendor-specific extended capability (DVSEC).
    pub const DVSEC: u16 = 0x0023;
}

/// Offsets within the PCI Express capability.
pub mod pcie {
    /// Device capabilities: bits 2:0 the largest payload, coded as in [`DEVICE_CONTROL`].
    pub const DEVICE_CAPABILITIES: u16 = 0x04;
    /// Device control: bits 7:5 Max_Payload_Size, 14:12 Max_Read_Request_Size. Code n stands
    /// for 128 * 2^n bytes.
    pub const DEVICE_CONTROL: u16 = 0x08;
    /// Link capabilities: bits 31:24 the port number.
    pub const LINK_CAPABILITIES: u16 = 0x0c;
}

/// Offset of the first capability in the standard list.
pub(super) const FIRST: u8 = PCIE_AT;
const PCIE_AT: u8 = 0x40;
const MSIX_AT: u8 = 0x80;

/// Lowest offset of capabilities in the standard list.
pub const STANDARD: u16 = FIRST as u16;
/// Offset at which the extended list begins.
pub const EXTENDED: u16 = 0x100;

const ATS_AT: usize = 0x100;
const PRI_AT: usize = 0x110;
const PASID_AT: usize = 0x120;
/// Offset at which CXL's DVSECs begin. Without ATS an empty capability is the head of the list.
pub(super) const DVSECS_AT: usize = 0x200;

/// Writes the header of an extended capability.
pub(super) fn extended_header(
    space: &mut Registers,
    at: usize,
    id: u16,
    version: u64,
    next: usize,
) {
    let header = u64::from(id) | version << 16 | (next as u64) << 20;
    space.set(at, 4, header, 0);
}

fn port_type(role: Role) -> u64 {
    match role {
        Role::Endpoint(_) => 0,
        Role::RootPort => 4,
        Role::UpstreamPort => 5,
        Role::DownstreamPort => 6,
    }
}

pub(super) fn build(space: &mut Registers, spec: &FunctionSpec) {
    let at = usize::from(PCIE_AT);
    let next = if spec.vectors > 0 { MSIX_AT } else { 0 };
    let id = u64::from(standard::PCIE) | u64::from(next) << 8;
    space.set(at, 4, id | (2 | port_type(spec.role) << 4) << 16, 0);
    let payload = u64::from((spec.max_payload / 128).ilog2());
    space.set(at + 0x04, 4, payload, 0);
    // After reset: payloads of 128 bytes, reads of 512.
    space.set(at + 0x08, 2, 2 << 12, 0x7fff);
    space.cleared_by_one(at + 0x0a, 2, 0x000f);
    // 32 GT/s, 16 lanes.
    let link = 5 | 16 << 4;
    space.set(at + 0x0c, 4, link | u64::from(spec.port_number) << 24, 0);
    space.set(at + 0x12, 2, link, 0);
    if spec.vectors > 0 {
        msix(space, spec);
    }
    if spec.ats {
        extended_header(space, ATS_AT, extended::ATS, 1, PRI_AT);
        // Queue of 32 invalidations, page aligned; enable and smallest translation unit.
        space.set(ATS_AT + 4, 2, 1 << 5, 0);
        space.set(ATS_AT + 6, 2, 0, 0x801f);
        extended_header(space, PRI_AT, extended::PRI, 1, PASID_AT);
        space.set(PRI_AT + 4, 2, 0, 0x0003);
        // Outstanding page requests: capacity, and what is allocated.
        space.set(PRI_AT + 8, 4, 32, 0);
        space.set(PRI_AT + 12, 4, 0, u32::MAX.into());
        extended_header(space, PASID_AT, extended::PASID, 1, DVSECS_AT);
        space.set(PASID_AT + 4, 2, 20 << 8, 0);
        space.set(PASID_AT + 6, 2, 0, 0x0001);
    } else {
        extended_header(space, ATS_AT, 0, 0, DVSECS_AT);
    }
}

fn msix(space: &mut Registers, spec: &FunctionSpec) {
    let at = usize::from(MSIX_AT);
    space.set(at, 2, standard::MSIX.into(), 0);
    space.set(at + 2, 2, u64::from(spec.vectors - 1), 0xc000);
    space.set(at + 4, 4, MSIX_TABLE, 0);
    space.set(at + 8, 4, MSIX_PENDING, 0);
}
