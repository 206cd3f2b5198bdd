//! The configuration space of one function: 4 KiB with its header, its base address registers and
//! its capabilities.
//!
//! Only what enumeration reads or writes is there; other registers read as 0. BARs are pairs of 64
//! bits, prefetchable, as CXL's component registers have them. Left out: I/O space, expansion ROM,
//! power management, error reporting, several functions a device.

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

/// Bytes of a configuration space (PCIe 5.0, section 7.2).
pub const SPACE_BYTES: usize = 4096;

/// Most BARs of 64 bits.
pub const BARS: usize = 3;

/// What a device can do (CXL 3.1, section 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceType {
    /// Caches host memory: CXL.io and CXL.cache.
    Type1,
    /// Caches host memory and has memory: all three.
    Type2,
    /// Has memory: CXL.io and CXL.mem.
    Type3,
    /// A PCIe device, without anything of CXL.
    Pcie,
}

impl DeviceType {
    /// Whether it speaks CXL.cache.
    pub const fn has_cache(self) -> bool {
        matches!(self, DeviceType::Type1 | DeviceType::Type2)
    }

    /// Whether it speaks CXL.mem.
    pub const fn has_mem(self) -> bool {
        matches!(self, DeviceType::Type2 | DeviceType::Type3)
    }
}

/// Where a function stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The end of a root complex.
    RootPort,
    /// A switch's end towards the host.
    UpstreamPort,
    /// A switch's end towards devices.
    DownstreamPort,
    /// A device.
    Endpoint(DeviceType),
}

impl Role {
    /// Whether its header is that of a bridge (type 1).
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Role::Endpoint(_))
    }

    /// Whether devices hang below it by a link.
    pub const fn is_downstream(self) -> bool {
        matches!(self, Role::RootPort | Role::DownstreamPort)
    }
}

/// A function to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionSpec {
    /// Where it stands.
    pub role: Role,
    /// Vendor and device number.
    pub identity: (u16, u16),
    /// The number of a port in its component, for target lists.
    pub port_number: u8,
    /// Bytes behind each BAR: 0, or a power of two from 4 KiB on. Bridges have the first alone. The
    /// first begins with the component registers, 64 KiB.
    pub bars: [u64; BARS],
    /// Memory that CXL.mem reaches, a multiple of 256 MiB; of no meaning without it.
    pub memory_bytes: u64,
    /// HDM decoders, 1 or an even number up to 10.
    pub decoders: u8,
    /// MSI-X vectors, 1 to 2048; 0: no interrupts.
    pub vectors: u16,
    /// Translations, page requests and processes (ATS, PRI, PASID).
    pub ats: bool,
    /// Largest payload that it supports, in bytes: 128 to 4096.
    pub max_payload: u32,
}

/// What stands before an endpoint's other registers in its first BAR.
pub const COMPONENT_BYTES: u64 = 64 << 10;

/// Where an endpoint's MSI-X table begins in its first BAR: 16 bytes a vector.
pub const MSIX_TABLE: u64 = COMPONENT_BYTES;

/// HDM decoders of a host bridge or an upstream port: the most that a device's could be, *assumed*.
pub const PORT_DECODERS: u8 = 10;

/// Where the pending bits begin.
pub const MSIX_PENDING: u64 = COMPONENT_BYTES + (48 << 10);

impl FunctionSpec {
    /// A device with four decoders, 16 vectors and translations where it caches host memory.
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
