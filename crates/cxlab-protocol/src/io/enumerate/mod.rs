//! What firmware and the operating system do to a hierarchy after reset, access by access.
//!
//! 1. *Scan*: depth first over the buses; numbers for the bridges, capabilities of each function.
//! 2. *Size*: write all ones to each BAR, read the size, restore the BAR.
//! 3. *Assign*: addresses and windows, payload and read sizes, memory and bus master enabled.
//! 4. *Discover*: CXL's capabilities, component registers, HDM decoders.
//! 5. *Decode*: each region's decoders from the host bridges down, committed one after the other,
//!    then enabled, and CXL.cache and CXL.mem with them.
//!
//! Each phase processes the host bridges one after the other. Software learns from firmware which
//! host bridges exist, and which address windows they share ([`PlatformTables`]).
//!
//! The order is that of Linux (`drivers/pci/probe.c`, `setup-bus.c`, `drivers/cxl/core`), in one
//! pass. Every access is in the log with its value. The code is written once and performs its
//! accesses on a [`Bus`]. The bus is either a whole hierarchy without a clock ([`enumerate`]), or
//! an owner that performs each access at its simulated time and returns the result
//! ([`Enumeration`]). Left out: hot plug, error registers, link training, ACPI's tables as bytes.

mod assign;
mod decode;
mod discover;
mod resume;
mod scan;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use cxlab_engine::units::{Bytes, Dpa, Hpa};

use super::space::AccessError;
use super::tree::{Bdf, FixedWindow, PlatformTables, RegisterPlace, RootComplex};
use crate::hdm::{InterleaveError, InterleaveSet};
pub use resume::{Enumeration, EnumerationStep};

listed! {
    /// The part of enumeration that an access belongs to.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub enum Phase {
        /// Finds the functions.
        Scan,
        /// Finds the sizes of the BARs.
        Size,
        /// Assigns addresses to BARs and windows.
        Assign,
        /// Finds the CXL features of the functions.
        Discover,
        /// Programs the HDM decoders.
        Decode,
    }
}

impl Phase {
    /// Name of the phase in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Scan => "scan",
            Phase::Size => "size",
            Phase::Assign => "assign",
            Phase::Discover => "discover",
            Phase::Decode => "decode",
        }
    }
}

/// The register that an access goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// A register in configuration space.
    Config(Bdf, u16),
    /// A register in memory.
    Memory(Hpa),
}

impl Target {
    fn place(self) -> RegisterPlace {
        match self {
            Target::Config(to, at) => RegisterPlace::Bus(to, at),
            Target::Memory(at) => RegisterPlace::Memory(at),
        }
    }
}

/// One register access of the software.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    /// The phase that the access belongs to.
    pub phase: Phase,
    /// The register that is accessed.
    pub target: Target,
    /// Whether the access is a write. Configuration writes wait for their completion too.
    pub write: bool,
    /// Width in bytes: 1, 2 or 4.
    pub width: u8,
    /// The value that was read or written.
    pub value: u64,
}

/// A base address register that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Number of the register pair: 0 to 2.
    pub number: u8,
    /// Size of the address range, in bytes.
    pub bytes: u64,
    /// Assigned base address, 0 before the assignment.
    pub base: Hpa,
}

/// A function that enumeration found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FoundFunction {
    /// Bus, device and function number.
    pub bdf: Bdf,
    /// Whether the function is a bridge (header type 1).
    pub bridge: bool,
    /// Number of the host bridge above the function.
    pub host_bridge: usize,
    /// Index in [`EnumerationLog::functions`] of the bridge above the function; `None` directly
    /// below a host bridge.
    pub parent: Option<usize>,
    /// For a port: its number in its component.
    pub port_number: u8,
    /// Device/port type of its PCI Express capability.
    pub port_type: u8,
    /// The BARs that are in use.
    pub bars: Vec<Bar>,
    /// Standard capabilities: ID and offset of each.
    pub capabilities: Vec<(u8, u16)>,
    /// Extended capabilities except for DVSECs: ID and offset of each.
    pub extended: Vec<(u16, u16)>,
    /// CXL's DVSECs: ID and offset of each.
    pub dvsecs: Vec<(u16, u16)>,
    /// Protocols that the CXL device DVSEC reports; 0 for other functions.
    pub protocols: u16,
    /// Size of the memory that is reached over CXL.mem.
    pub memory: Bytes,
    /// Address of the HDM decoder capability and number of decoders, if the function has them.
    pub decoders: Option<(Hpa, u8)>,
}

/// A range of host physical addresses that devices share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// First address, a multiple of 256 MiB.
    pub base: Hpa,
    /// Size over all devices together.
    pub size: Bytes,
    /// Number of consecutive bytes that each device gets.
    pub granularity: Bytes,
    /// The devices in interleave order, by their index in [`RootComplex::endpoints`].
    pub targets: Vec<usize>,
    /// Whether the host alone keeps the region coherent (HDM-H).
    pub host_only: bool,
    /// Whether the decoders of the region are locked.
    pub lock: bool,
}

impl Region {
    /// The interleave that the window and the decoders must implement together.
    ///
    /// # Errors
    /// If the interleave is invalid.
    pub fn set(&self, window: &FixedWindow) -> Result<InterleaveSet, InterleaveError> {
        let set = InterleaveSet::new(
            self.base,
            self.size,
            self.granularity,
            self.targets.len() as u32,
        )?;
        match window.xor_maps.is_empty() {
            true => Ok(set),
            false => set.with_xor_over(&window.xor_maps, window.host_bridges.len() as u32),
        }
    }
}

/// The configuration that enumeration must reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// First address available to BARs, a multiple of 1 MiB.
    pub mmio_base: Hpa,
    /// Number of bytes available to BARs.
    pub mmio_bytes: u64,
    /// Max_Read_Request_Size of every function in bytes, 128 to 4096.
    pub max_read_request: u32,
    /// The regions to program.
    pub regions: Vec<Region>,
}

impl Goal {
    /// DPA at which a region begins in a device: after the regions of lower addresses, without a gap.
    pub fn dpa_base(&self, region: usize, device: usize) -> Dpa {
        let base = self.regions[region].base;
        let before = |other: &&Region| other.base < base && other.targets.contains(&device);
        let shares = self.regions.iter().filter(before);
        Dpa(shares
            .map(|other| other.size.0 / other.targets.len() as u64)
            .sum())
    }

    /// The first address found in a region that the committed decoders map elsewhere than planned,
    /// or nowhere. The search covers `turns` rounds over all targets from the beginning and from
    /// the end on, in steps of half a granule, and each power of two. Decoders are periodic, and
    /// XOR maps linear, so the search finds every kind of error.
    ///
    /// # Errors
    /// If the interleave is invalid.
    pub fn mismatch(
        &self,
        region: usize,
        root: &RootComplex,
        turns: u64,
    ) -> Result<Option<Hpa>, InterleaveError> {
        let Region {
            base,
            size,
            granularity,
            ref targets,
            ..
        } = self.regions[region];
        let tables = root.tables();
        let Some(window) = tables.window(base, size) else {
            return Ok(Some(base));
        };
        let set = self.regions[region].set(window)?;
        let first: Vec<Dpa> = targets
            .iter()
            .map(|device| self.dpa_base(region, *device))
            .collect();
        let step = (granularity.0 / 2).max(1) as usize;
        let span = (turns * granularity.0 * targets.len() as u64).min(size.0);
        let from_end = (size.0 - span..size.0).step_by(step);
        let powers = (0..52).map(|bit| 1 << bit).filter(|at| *at < size.0);
        let offsets = (0..span).step_by(step).chain(from_end).chain(powers);
        let differs = |hpa: &Hpa| {
            let planned = set.decode(*hpa).map(|(target, dpa)| {
                let target = target as usize;
                (targets[target], Dpa(first[target].0 + dpa.0))
            });
            root.decode(*hpa) != planned
        };
        Ok(offsets.map(|at| Hpa(base.0 + at)).find(differs))
    }
}

/// Reason why a hierarchy cannot be enumerated as the goal requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnumerateError {
    /// A register rejected an access. The cause is a mistake of the program, or a function that is none.
    Access(AccessError),
    /// A component aborted an access, for the same reasons as [`EnumerateError::Access`].
    Aborted(Target),
    /// The hierarchy needs more buses than the host bridge has.
    Buses,
    /// The BARs need more bytes of addresses than there are.
    Mmio {
        /// Number of bytes needed.
        needed: u64,
        /// Number of bytes available.
        found: u64,
    },
    /// The interleave of a region is invalid.
    Interleave(InterleaveError),
    /// No decoder's registers can express a region.
    Inexpressible {
        /// Index of the region in [`Goal::regions`].
        region: usize,
        /// Reason, to follow the region in the message.
        why: &'static str,
    },
    /// A component has no free decoder for the region with this index.
    Decoders(usize),
    /// A component refused to commit a decoder.
    Refused {
        /// Index of the region in [`Goal::regions`].
        region: usize,
        /// Address of the decoder's control register.
        at: Hpa,
    },
}

impl fmt::Display for EnumerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnumerateError::Access(error) => error.fmt(f),
            EnumerateError::Aborted(target) => write!(f, "an access to {target:?} was aborted"),
            EnumerateError::Buses => f.write_str("the hierarchy needs more buses than its host bridge has: 256, shared by all host bridges"),
            EnumerateError::Mmio { needed, found } => {
                write!(
                    f,
                    "registers need {needed} bytes of addresses; there are {found}"
                )
            }
            EnumerateError::Interleave(error) => error.fmt(f),
            EnumerateError::Inexpressible { region, why } => write!(f, "region {region}: {why}"),
            EnumerateError::Decoders(region) => {
                write!(f, "region {region}: a component has no HDM decoder left")
            }
            EnumerateError::Refused { region, at } => {
                write!(
                    f,
                    "region {region}: the decoder at {:#x} was not committed",
                    at.0
                )
            }
        }
    }
}

impl std::error::Error for EnumerateError {}

impl From<AccessError> for EnumerateError {
    fn from(error: AccessError) -> Self {
        EnumerateError::Access(error)
    }
}

impl From<InterleaveError> for EnumerateError {
    fn from(error: InterleaveError) -> Self {
        EnumerateError::Interleave(error)
    }
}

/// The accesses of an enumeration, and the functions found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EnumerationLog {
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// All functions, in the order in which they were found.
    pub functions: Vec<FoundFunction>,
}

impl EnumerationLog {
    /// Number of accesses of a phase: configuration reads, configuration writes, memory reads, memory writes.
    pub fn count(&self, phase: Phase) -> [u64; 4] {
        let mut counts = [0; 4];
        for access in self.accesses.iter().filter(|access| access.phase == phase) {
            let memory = matches!(access.target, Target::Memory(_));
            counts[2 * usize::from(memory) + usize::from(access.write)] += 1;
        }
        counts
    }
}

/// The means by which the software performs its accesses.
pub trait Bus: Send {
    /// Performs an access and returns the value read or written. The value of a read access is 0 on entry.
    fn access(
        &mut self,
        access: Access,
    ) -> impl Future<Output = Result<u64, EnumerateError>> + Send;
}

impl Bus for &mut RootComplex {
    fn access(
        &mut self,
        access: Access,
    ) -> impl Future<Output = Result<u64, EnumerateError>> + Send {
        let write = access.write.then_some(access.value);
        let result = RootComplex::access(self, access.target.place(), access.width.into(), write);
        std::future::ready(result.map_err(EnumerateError::Access))
    }
}

/// The future of a recursive part of the software.
type Work<'a> = Pin<Box<dyn Future<Output = Result<(), EnumerateError>> + Send + 'a>>;

/// The state of the software during enumeration.
struct Software<B> {
    bus: B,
    /// The tables that firmware provides.
    platform: PlatformTables,
    phase: Phase,
    accesses: Vec<Access>,
    functions: Vec<FoundFunction>,
    last_bus: u8,
}

impl<B: Bus> Software<B> {
    async fn access(
        &mut self,
        target: Target,
        width: u8,
        write: Option<u64>,
    ) -> Result<u64, EnumerateError> {
        let mut access = Access {
            phase: self.phase,
            target,
            write: write.is_some(),
            width,
            value: write.unwrap_or(0),
        };
        access.value = self.bus.access(access).await?;
        self.accesses.push(access);
        Ok(access.value)
    }

    async fn config_read(&mut self, to: Bdf, at: u16, width: u8) -> Result<u64, EnumerateError> {
        self.access(Target::Config(to, at), width, None).await
    }

    async fn config_write(
        &mut self,
        to: Bdf,
        at: u16,
        width: u8,
        value: u64,
    ) -> Result<(), EnumerateError> {
        let written = self.access(Target::Config(to, at), width, Some(value));
        written.await.map(drop)
    }

    async fn mmio_read(&mut self, at: Hpa) -> Result<u32, EnumerateError> {
        let value = self.access(Target::Memory(at), 4, None).await?;
        Ok(value as u32)
    }

    async fn mmio_write(&mut self, at: Hpa, value: u32) -> Result<(), EnumerateError> {
        let written = self.access(Target::Memory(at), 4, Some(value.into()));
        written.await.map(drop)
    }
}

/// Enumerates the hierarchies below the host bridges of a platform.
async fn enumerate_on(
    bus: impl Bus,
    platform: PlatformTables,
    goal: Goal,
) -> Result<EnumerationLog, EnumerateError> {
    let mut software = Software {
        bus,
        platform,
        phase: Phase::Scan,
        accesses: Vec::new(),
        functions: Vec::new(),
        last_bus: 0,
    };
    software.scan_all().await?;
    software.phase = Phase::Size;
    software.size().await?;
    software.phase = Phase::Assign;
    software.assign(&goal).await?;
    software.phase = Phase::Discover;
    let host_bridges = software.discover().await?;
    software.phase = Phase::Decode;
    software.decode(&goal, host_bridges).await?;
    Ok(EnumerationLog {
        accesses: software.accesses,
        functions: software.functions,
    })
}

/// Enumerates a root complex that was just reset.
///
/// # Errors
/// See [`EnumerateError`]; the hierarchies keep the configuration that was reached.
pub fn enumerate(root: &mut RootComplex, goal: &Goal) -> Result<EnumerationLog, EnumerateError> {
    let platform = root.tables();
    let work = pin!(enumerate_on(root, platform, goal.clone()));
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a hierarchy without a clock answers at once"),
    }
}
