//! The configuration space of one function: 4 KiB with its header, its base address registers
//! and its capabilities.
//!
//! Only the registers that enumeration reads or writes exist; other registers read as 0. BARs are
//! pairs of 64 bits, prefetchable, as CXL requires for component registers. Left out: I/O space,
//! expansion ROM, power management, error reporting, several functions per device.

mod capability;
mod dvsec;
mod header;
mod registers;

#[cfg(test)]
mod tests;

pub use capability::{EXTENDED, STANDARD, extended, pcie, standard};
pub use dvsec::{DVSEC_VENDOR, device_dvsec, dvsec_id, locator};
pub use header::{command, offset};
pub use registers::{AccessError, Registers};

/// Size of a configuration space in bytes (PCIe 5.0, section 7.2).
pub const SPACE_BYTES: usize = 4096;

/// Maximum number of 64-bit BARs.
pub const BARS: usize = 3;

/// Type of a device (CXL 3.1, section 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceType {
    /// Caches host memory: CXL.io and CXL.cache.
    Type1,
    /// Caches host memory and has memory: CXL.io, CXL.cache and CXL.mem.
    Type2,
    /// Has memory: CXL.io and CXL.mem.
    Type3,
    /// A PCIe device without any CXL protocol.
    Pcie,
}

impl DeviceType {
    /// Whether the device supports CXL.cache.
    pub const fn has_cache(self) -> bool {
        matches!(self, DeviceType::Type1 | DeviceType::Type2)
    }

    /// Whether the device supports CXL.mem.
    pub const fn has_mem(self) -> bool {
        matches!(self, DeviceType::Type2 | DeviceType::Type3)
    }
}

/// The role of a function in the hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// A port of a root complex.
    RootPort,
    /// A switch's port towards the host.
    UpstreamPort,
    /// A switch's port towards devices.
    DownstreamPort,
    /// A device of this type.
    Endpoint(DeviceType),
}

impl Role {
    /// Whether the header is that of a bridge (type 1).
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Role::Endpoint(_))
    }

    /// Whether the function is a port with a link to devices below it.
    pub const fn is_downstream(self) -> bool {
        matches!(self, Role::RootPort | Role::DownstreamPort)
    }
}

/// Specification of a function to be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionSpec {
    /// Role of the function.
    pub role: Role,
    /// Vendor and device number.
    pub identity: (u16, u16),
    /// The number of a port in its component, for target lists.
    pub port_number: u8,
    /// Size of each BAR in bytes: 0, or a power of two from 4 KiB on. Bridges have the first BAR
    /// alone. The first BAR begins with the component registers, 64 KiB.
    pub bars: [u64; BARS],
    /// Size of the memory that is reached over CXL.mem, in bytes: a multiple of 256 MiB. Without
    /// meaning if the device has no CXL.mem.
    pub memory_bytes: u64,
    /// Number of HDM decoders: 1, or an even number up to 10.
    pub decoders: u8,
    /// Number of MSI-X vectors, 1 to 2048; 0 for a function without interrupts.
    pub vectors: u16,
    /// Whether the function has translations, page requests and processes (ATS, PRI, PASID).
    pub ats: bool,
    /// Largest payload that the function supports, in bytes: 128 to 4096.
    pub max_payload: u32,
}

/// Size in bytes of the component registers, which are at the beginning of the first BAR.
pub const COMPONENT_BYTES: u64 = 64 << 10;

/// Offset of an endpoint's MSI-X table in its first BAR. Each vector has 16 bytes.
pub const MSIX_TABLE: u64 = COMPONENT_BYTES;

/// Number of HDM decoders of a host bridge or an upstream port: the most that a device could have, *assumed*.
pub const PORT_DECODERS: u8 = 10;

/// Offset of an endpoint's MSI-X pending bits in its first BAR.
pub const MSIX_PENDING: u64 = COMPONENT_BYTES + (48 << 10);

impl FunctionSpec {
    /// A device with four decoders and 16 vectors. It has translations if it caches host memory.
    pub const fn endpoint(device: DeviceType, memory_bytes: u64) -> FunctionSpec {
        FunctionSpec {
            role: Role::Endpoint(device),
            identity: (0x1e98, 0x0d90 + device as u16),
            port_number: 0,
            bars: [2 * COMPONENT_BYTES, 0, 0],
            memory_bytes,
            decoders: 4,
            vectors: 16,
            ats: device.has_cache(),
            max_payload: 512,
        }
    }

    /// A port of a root complex or a switch.
    pub const fn port(role: Role, port_number: u8) -> FunctionSpec {
        FunctionSpec {
            role,
            identity: (0x1e98, 0x0da0),
            port_number,
            bars: [COMPONENT_BYTES, 0, 0],
            memory_bytes: 0,
            decoders: PORT_DECODERS,
            vectors: 0,
            ats: false,
            max_payload: 512,
        }
    }

    /// The function's configuration space, as after reset.
    pub fn space(&self) -> Registers {
        let mut space = Registers::new(SPACE_BYTES);
        header::build(&mut space, self);
        capability::build(&mut space, self);
        dvsec::build(&mut space, self);
        space
    }
}
