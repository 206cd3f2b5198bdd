//! The header: the first 64 bytes of a configuration space (PCIe 5.0, section 7.5.1).

use super::{BARS, FunctionSpec, Registers, Role};

/// Offsets of the header's registers.
pub mod offset {
    /// Vendor and device number; all ones if there is no function.
    pub const IDENTITY: u16 = 0x00;
    /// Command register, with the bits of [`command`](super::command).
    pub const COMMAND: u16 = 0x04;
    /// Status register of the function.
    pub const STATUS: u16 = 0x06;
    /// Header type: bit 0 for bridges.
    pub const HEADER_TYPE: u16 = 0x0e;
    /// First base address register.
    pub const BAR0: u16 = 0x10;
    /// Bridges: primary, secondary and subordinate bus number.
    pub const BUSES: u16 = 0x18;
    /// Bridges: base and limit of the prefetchable window, bits 31:20.
    pub const PREFETCH_WINDOW: u16 = 0x24;
    /// Bridges: bits 63:32 of its base.
    pub const PREFETCH_BASE_HIGH: u16 = 0x28;
    /// Bridges: bits 63:32 of its limit.
    pub const PREFETCH_LIMIT_HIGH: u16 = 0x2c;
    /// Register with the offset of the capability list.
    pub const CAPABILITIES: u16 = 0x34;
}

/// Bits of the command register.
pub mod command {
    /// The function responds to its memory addresses; a bridge forwards those of its windows.
    pub const MEMORY: u16 = 1 << 1;
    /// The function may send requests; a bridge forwards them upstream.
    pub const BUS_MASTER: u16 = 1 << 2;
    /// Disables interrupts by wire (INTx).
    pub const NO_INTX: u16 = 1 << 10;
}

/// Command bits that can be written: memory, bus master, parity, SERR, INTx disable.
const COMMAND_MASK: u64 = 0x0546;
/// Status: errors, cleared by ones.
const STATUS_ERRORS: u64 = 0xf900;
/// Status: there is a capability list.
const STATUS_LIST: u64 = 0x0010;
/// Low bits of a BAR: memory, 64 bits, prefetchable.
const BAR_TYPE: u64 = 0b1100;
/// Windows have addresses of 64 bits.
const WINDOW_TYPE: u64 = 0x0001_0001;

/// Class, sub-class and programming interface: bridge; CXL memory device (class 05h, 02h, 10h;
/// CXL 3.1, section 8.1.12.1); processing accelerator (class 12h).
const fn class(role: Role) -> u64 {
    match role {
        Role::Endpoint(super::DeviceType::Type3) => 0x05_02_10,
        Role::Endpoint(_) => 0x12_00_00,
        _ => 0x06_04_00,
    }
}

pub(super) fn build(space: &mut Registers, spec: &FunctionSpec) {
    let (vendor, device) = spec.identity;
    space.set(0x00, 4, u64::from(device) << 16 | u64::from(vendor), 0);
    space.set(0x04, 2, 0, COMMAND_MASK);
    space.set(0x06, 2, STATUS_LIST, 0);
    space.cleared_by_one(0x06, 2, STATUS_ERRORS);
    space.set(0x08, 4, class(spec.role) << 8, 0);
    space.set(0x0c, 1, 0, 0xff);
    space.set(0x0e, 1, spec.role.is_bridge().into(), 0);
    let bars = if spec.role.is_bridge() { 1 } else { BARS };
    for (number, bytes) in spec.bars.iter().take(bars).enumerate() {
        if *bytes > 0 {
            // Bits below the size cannot be written: all ones read back as the size's complement.
            space.set(0x10 + 8 * number, 8, BAR_TYPE, !(bytes - 1));
        }
    }
    if spec.role.is_bridge() {
        space.set(0x18, 4, 0, 0x00ff_ffff);
        space.cleared_by_one(0x1e, 2, STATUS_ERRORS);
        space.set(0x20, 4, 0, 0xfff0_fff0);
        // A window whose limit is below its base is closed.
        space.set(0x24, 4, 0x0000_fff0 | WINDOW_TYPE, 0xfff0_fff0);
        space.set(0x28, 4, 0, u32::MAX.into());
        space.set(0x2c, 4, 0, u32::MAX.into());
        space.set(0x3e, 2, 0, 0x0043);
    }
    space.set(0x34, 1, super::capability::FIRST.into(), 0);
    space.set(0x3c, 1, 0, 0xff);
}
