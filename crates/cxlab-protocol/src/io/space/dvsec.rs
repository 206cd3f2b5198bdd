//! CXL's designated vendor-specific capabilities (CXL 3.1, section 8.1).

use super::capability::{DVSECS_AT, extended, extended_header};
use super::{DeviceType, FunctionSpec, Registers, Role};

/// Vendor ID of CXL's DVSECs.
pub const DVSEC_VENDOR: u16 = 0x1e98;

/// IDs of DVSECs (CXL 3.1, table 8-2).
pub mod dvsec_id {
    /// DVSEC of a CXL device.
    pub const DEVICE: u16 = 0;
    /// Extensions DVSEC for ports.
    pub const PORT_EXTENSIONS: u16 = 3;
    /// DVSEC of a Flex Bus port.
    pub const FLEX_BUS_PORT: u16 = 7;
    /// Register locator DVSEC.
    pub const LOCATOR: u16 = 8;
}

/// Offsets and bits of the CXL device's DVSEC (CXL 3.1, section 8.1.3).
pub mod device_dvsec {
    /// Capability: bits 0 cache, 1 io, 2 mem, 5:4 number of ranges.
    pub const CAPABILITY: u16 = 0x0a;
    /// Control: bits 0 cache, 1 io, 2 mem enable.
    pub const CONTROL: u16 = 0x0c;
    /// Lock: bit 0 makes control and bases read-only.
    pub const LOCK: u16 = 0x14;
    /// First range: size high, size low, base high, base low.
    pub const RANGE1: u16 = 0x18;
    /// CXL.cache, in the registers [`CAPABILITY`] and [`CONTROL`].
    pub const CACHE: u16 = 1 << 0;
    /// CXL.io, in the registers [`CAPABILITY`] and [`CONTROL`].
    pub const IO: u16 = 1 << 1;
    /// CXL.mem, in the registers [`CAPABILITY`] and [`CONTROL`].
    pub const MEM: u16 = 1 << 2;
    /// In the low size of a range: the size is valid, and the memory is ready.
    pub const READY: u32 = 0b11;
}

/// Offsets and fields of the register locator (CXL 3.1, section 8.1.9).
pub mod locator {
    /// First register block: bits 2:0 the BAR, 15:8 the kind of block, 31:16 its offset.
    pub const BLOCK1: u16 = 0x0c;
    /// Kind of block: component registers.
    pub const COMPONENT: u32 = 1;
}

struct Builder<'a> {
    space: &'a mut Registers,
    at: usize,
}

impl Builder<'_> {
    /// Begins a DVSEC of this length. The next one, if any, follows directly.
    fn begin(&mut self, id: u16, revision: u64, length: usize, last: bool) -> usize {
        let at = self.at;
        let next = if last { 0 } else { at + length };
        extended_header(self.space, at, extended::DVSEC, 1, next);
        let header = u64::from(DVSEC_VENDOR) | revision << 16 | (length as u64) << 20;
        self.space.set(at + 4, 4, header, 0);
        self.space.set(at + 8, 2, id.into(), 0);
        self.at = at + length;
        at
    }
}

fn protocols(role: Role) -> u64 {
    let (cache, mem) = match role {
        Role::Endpoint(device) => (device.has_cache(), device.has_mem()),
        _ => (true, true),
    };
    let bit = |set: bool, bit: u16| if set { bit } else { 0 };
    let bits = bit(cache, device_dvsec::CACHE) | device_dvsec::IO | bit(mem, device_dvsec::MEM);
    bits.into()
}

pub(super) fn build(space: &mut Registers, spec: &FunctionSpec) {
    if spec.role == Role::Endpoint(DeviceType::Pcie) {
        return;
    }
    let at = DVSECS_AT;
    let mut builder = Builder { space, at };
    match spec.role {
        Role::Endpoint(_) => device(&mut builder, spec),
        Role::RootPort | Role::DownstreamPort => {
            let at = builder.begin(dvsec_id::PORT_EXTENSIONS, 0, 0x28, false);
            builder.space.set(at + 0x0c, 2, 0, 0x000f);
        }
        Role::UpstreamPort => {}
    }
    let at = builder.begin(dvsec_id::FLEX_BUS_PORT, 2, 0x20, false);
    let protocols = protocols(spec.role);
    builder.space.set(at + 0x0a, 2, protocols, 0);
    builder.space.set(at + 0x0c, 2, protocols, protocols);
    // The protocols that were negotiated when the link came up.
    builder.space.set(at + 0x0e, 2, protocols, 0);
    let at = builder.begin(dvsec_id::LOCATOR, 0, 0x24, true);
    // The component registers are at the beginning of the first BAR.
    let block = u64::from(locator::COMPONENT) << 8;
    builder
        .space
        .set(at + usize::from(locator::BLOCK1), 4, block, 0);
}

fn device(builder: &mut Builder<'_>, spec: &FunctionSpec) {
    let at = builder.begin(dvsec_id::DEVICE, 3, 0x3c, false);
    let protocols = protocols(spec.role);
    let has_mem = protocols & u64::from(device_dvsec::MEM) != 0;
    let ranges = if has_mem { 1 << 4 } else { 0 };
    builder.space.set(at + 0x0a, 2, protocols | ranges, 0);
    let enable = u64::from(device_dvsec::CACHE | device_dvsec::MEM) & protocols;
    builder
        .space
        .set(at + 0x0c, 2, device_dvsec::IO.into(), enable);
    builder.space.set(at + 0x14, 2, 0, 1);
    if has_mem {
        let size = spec.memory_bytes;
        let low = size & 0xf000_0000 | u64::from(device_dvsec::READY);
        builder.space.set(at + 0x18, 4, size >> 32, 0);
        builder.space.set(at + 0x1c, 4, low, 0);
        builder.space.set(at + 0x20, 4, 0, u32::MAX.into());
        builder.space.set(at + 0x24, 4, 0, 0xf000_0000);
    }
}
