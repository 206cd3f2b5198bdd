//! What firmware and operating system do to a hierarchy after reset, access by access.
//!
//! 1. *Scan*: depth first over the buses; numbers for the bridges, capabilities of each function.
//! 2. *Size*: all ones into each BAR, and back.
//! 3. *Assign*: addresses and windows, payload and read sizes, memory and bus master enabled.
//! 4. *Discover*: CXL's capabilities, component registers, HDM decoders.
//! 5. *Decode*: each region's decoders from the host bridges down, committed one after the other,
//!    then enabled, and CXL.cache and CXL.mem with them.
//!
//! Each phase takes the host bridges one after the other. Which there are, and which windows of addresses
//! they share, software knows from firmware ([`PlatformTables`]).
//!
//! The order is that of Linux (`drivers/pci/probe.c`, `setup-bus.c`, `drivers/cxl/core`), in one
//! pass. Every access is in the log with its value. The code is written once and does its accesses
//! on a [`Bus`]: a whole hierarchy without a clock ([`enumerate`]), or an owner that does each when
//! its time has come and tells what came of it ([`Enumeration`]). Left out: hot plug, error
//! registers, link training, ACPI's tables as bytes.

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
use super::tree::{Bdf, FixedWindow, PlatformTables, RootComplex};
use crate::hdm::{InterleaveError, InterleaveSet};
pub use resume::{Enumeration, Next};

/// The part of enumeration that an access belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// Which functions there are.
    Scan,
    /// How large their BARs are.
    Size,
    /// Where they go.
    Assign,
    /// What they have of CXL.
    Discover,
    /// Which addresses they decode.
    Decode,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Phase; 5] = [
        Phase::Scan,
        Phase::Size,
        Phase::Assign,
        Phase::Discover,
        Phase::Decode,
    ];

    /// Its name in reports.
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

/// Where an access goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// A register in configuration space.
    Config(Bdf, u16),
    /// A register in memory.
    Memory(Hpa),
}

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Access {
    /// Why.
    pub phase: Phase,
    /// Where.
    pub target: Target,
    /// Whether it writes. Configuration writes wait for their completion too.
    pub write: bool,
    /// Bytes: 1, 2 or 4.
    pub width: u8,
    /// What was read or written.
    pub value: u64,
}

/// A base address register that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Its number among the pairs: 0 to 2.
    pub number: u8,
    /// Bytes behind it.
    pub bytes: u64,
    /// Where it was put.
    pub base: Hpa,
}

/// A function that was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// Its number.
    pub bdf: Bdf,
    /// Whether it is a bridge.
    pub bridge: bool,
    /// The host bridge above it, by its number.
    pub host_bridge: usize,
    /// The bridge above it, by its place in the log.
    pub parent: Option<usize>,
    /// Of a port: its number in its component.
    pub port_number: u8,
    /// Device/port type of its PCI Express capability.
    pub port_type: u8,
    /// Its BARs.
    pub bars: Vec<Bar>,
    /// Standard capabilities, by number and offset.
    pub capabilities: Vec<(u8, u16)>,
    /// Extended capabilities but DVSECs, by number and offset.
    pub extended: Vec<(u16, u16)>,
    /// CXL's DVSECs, by number and offset.
    pub dvsecs: Vec<(u16, u16)>,
    /// What its CXL device DVSEC says that it speaks; 0 of others.
    pub protocols: u16,
    /// Memory behind CXL.mem.
    pub memory: Bytes,
    /// Where its HDM decoder capability is, and how many decoders it has.
    pub decoders: Option<(Hpa, u8)>,
}

/// Host physical addresses that devices share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The first, a multiple of 256 MiB.
    pub base: Hpa,
    /// Bytes of all devices together.
    pub size: Bytes,
    /// Bytes that each device gets in turn.
    pub granularity: Bytes,
    /// The devices in order of turns, by their place in [`RootComplex::endpoints`].
    pub targets: Vec<usize>,
    /// Whether the host alone keeps it coherent (HDM-H).
    pub host_only: bool,
    /// Whether its decoders are locked.
    pub lock: bool,
}

impl Region {
    /// The interleave that the window and the decoders are to have together.
    ///
    /// # Errors
    /// An interleave that cannot be.
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

/// What enumeration is to reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// Where BARs may go: first address, a multiple of 1 MiB.
    pub mmio_base: Hpa,
    /// Bytes of that.
    pub mmio_bytes: u64,
    /// Max_Read_Request_Size of every function, 128 to 4096.
    pub max_read_request: u32,
    /// The regions.
    pub regions: Vec<Region>,
}

impl Goal {
    /// Where a region begins in a device: behind those of lower addresses, without a gap.
    pub fn dpa_base(&self, region: usize, device: usize) -> Dpa {
        let base = self.regions[region].base;
        let before = |other: &&Region| other.base < base && other.targets.contains(&device);
        let shares = self.regions.iter().filter(before);
        Dpa(shares
            .map(|other| other.size.0 / other.targets.len() as u64)
            .sum())
    }

    /// The first address found of a region that the committed decoders take elsewhere than the plan, or
    /// nowhere. Looks at so many turns from the beginning and from the end on, in steps of half a
    /// granule, and at each power of two; decoders are periodic, and XOR maps linear, so this shows all
    /// that can be wrong.
    ///
    /// # Errors
    /// An interleave that cannot be.
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

/// Why a hierarchy cannot be enumerated as wished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnumerateError {
    /// A register did not take an access: our own mistake, or a function that is none.
    Access(AccessError),
    /// A component aborted an access, for the same reasons.
    Aborted(Target),
    /// More buses than the host bridge has.
    Buses,
    /// The BARs need more bytes than there are.
    Mmio {
        /// What they need.
        needed: u64,
        /// What there is.
        found: u64,
    },
    /// A region cannot be interleaved so.
    Interleave(InterleaveError),
    /// A region that no decoder's registers can express, and why.
    Inexpressible {
        /// The region.
        region: usize,
        /// Why.
        why: &'static str,
    },
    /// A component has no decoder left.
    Decoders(usize),
    /// A component refused to commit a decoder.
    Refused {
        /// The region.
        region: usize,
        /// Where the decoder's control register is.
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

/// What was done, and what was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EnumerationLog {
    /// Every access, in order.
    pub accesses: Vec<Access>,
    /// Every function, in the order in which it was found.
    pub functions: Vec<Found>,
}

impl EnumerationLog {
    /// Accesses of a phase: configuration reads, configuration writes, memory reads, memory writes.
    pub fn count(&self, phase: Phase) -> [u64; 4] {
        let mut counts = [0; 4];
        for access in self.accesses.iter().filter(|access| access.phase == phase) {
            let memory = matches!(access.target, Target::Memory(_));
            counts[2 * usize::from(memory) + usize::from(access.write)] += 1;
        }
        counts
    }
}

/// What software does its accesses on.
pub trait Bus: Send {
    /// Does an access, whose value is 0 where it reads. Gives what was read, or written.
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
        let (width, value) = (access.width.into(), access.value);
        let result = match (access.target, access.write) {
            (Target::Config(to, at), false) => self.config_read(to, at, width),
            (Target::Config(to, at), true) => {
                let written = self.config_write(to, at, width, value);
                written.map(|()| value)
            }
            (Target::Memory(at), false) => self.mmio_read(at, width),
            (Target::Memory(at), true) => self.mmio_write(at, width, value).map(|()| value),
        };
        std::future::ready(result.map_err(EnumerateError::Access))
    }
}

/// A part of software that calls itself.
type Work<'a> = Pin<Box<dyn Future<Output = Result<(), EnumerateError>> + Send + 'a>>;

/// Software at work.
struct Software<B> {
    bus: B,
    /// What firmware tells it.
    platform: PlatformTables,
    phase: Phase,
    accesses: Vec<Access>,
    functions: Vec<Found>,
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

/// Enumerates what hangs below the host bridges of a platform.
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
/// See [`EnumerateError`]; the hierarchies are left as far as they were brought.
pub fn enumerate(root: &mut RootComplex, goal: &Goal) -> Result<EnumerationLog, EnumerateError> {
    let platform = root.tables();
    let work = pin!(enumerate_on(root, platform, goal.clone()));
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a hierarchy without a clock answers at once"),
    }
}
