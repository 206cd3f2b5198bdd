//! What a thread asks of the core or accelerator that it runs on.

use cxlab_engine::units::{Hpa, LINE_BYTES};
use serde::{Deserialize, Serialize};

use crate::image::Image;

/// The first address that is no memory of the coherence domain but an accelerator's own: its
/// buffers, which only its own threads and its DMA engine reach. 2^52, above all host memory.
pub const SCRATCH_BASE: u64 = 1 << 52;

/// Bytes of address space for the buffers of one accelerator, from [`scratch`] on.
pub const SCRATCH_SPAN: u64 = 1 << 40;

/// The first address of an accelerator's own buffers.
pub const fn scratch(device: u16) -> u64 {
    SCRATCH_BASE + device as u64 * SCRATCH_SPAN
}

/// The register of a Type 2 device by which its driver flips the bias of a page: the physical address of a line of
/// it, and 1 in the lowest bit for host bias.
pub const BIAS_REGISTER: u32 = u32::MAX - 1;

/// What an atomic operation does with the old value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum AtomicKind {
    /// Adds the operand, with wrap-around.
    FetchAdd,
    /// Replaces it by the operand.
    Swap,
    /// Replaces it by the operand if it equals `compare`.
    CompareExchange,
}

/// Which way DMA moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum Direction {
    /// From the host's memory to the device (a DMA read).
    ToDevice,
    /// From the device to the host's memory (a DMA write), done when the host has acknowledged it.
    ToHost,
    /// The same, done when the engine has sent the bytes (a posted write): the device's buffer is
    /// free again, and memory may not have them yet. Later transfers of the device do not pass it.
    ToHostPosted,
}

/// One operation of a thread. Each is answered with a value, 0 where none is named.
///
/// Addresses are virtual where the executor translates and physical where it does not. Numbers
/// are 1 to 8 bytes, little endian, within a line; ranges have any length and are split into
/// lines by the executor, which keeps as many outstanding as it can.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum ThreadOp {
    /// Loads a number. Value: the number.
    Load {
        /// Address of its lowest byte.
        addr: u64,
        /// Its bytes, 1 to 8.
        size: u8,
    },
    /// Stores a number; done when it is visible to all.
    Store {
        /// Address of its lowest byte.
        addr: u64,
        /// Its bytes, 1 to 8.
        size: u8,
        /// The number.
        value: u64,
    },
    /// Reads, changes and writes a number while nobody else can touch its line. Value: the old
    /// number.
    Atomic {
        /// Address of its lowest byte.
        addr: u64,
        /// Its bytes, 1 to 8.
        size: u8,
        /// What to do.
        kind: AtomicKind,
        /// With what.
        operand: u64,
        /// What a [`AtomicKind::CompareExchange`] compares with.
        compare: u64,
    },
    /// Loads a number again and again until it differs from `value`: a spin on a cached line, or
    /// UMONITOR and UMWAIT. Value: the number found.
    Await {
        /// Address of its lowest byte.
        addr: u64,
        /// Its bytes, 1 to 8.
        size: u8,
        /// What it must no longer be.
        value: u64,
    },
    /// Loads a range; its bytes go to [`Thread::put_bytes`](super::Thread::put_bytes).
    ReadRange {
        /// First address.
        addr: u64,
        /// How many bytes, 1 and more.
        bytes: u64,
        /// Whether the thread will store the range: a cache asks for ownership of its lines at once
        /// (`RdOwn`), as a core does for PREFETCHW.
        to_store: bool,
    },
    /// Stores a range; its bytes come from [`Thread::take_bytes`](super::Thread::take_bytes).
    WriteRange {
        /// First address.
        addr: u64,
        /// How many bytes, 1 and more.
        bytes: u64,
    },
    /// Pushes the lines of a range into the host's last-level cache and keeps no copy (NC-P: the
    /// non-cacheable push of Cohet, section V-B); bytes as [`ThreadOp::WriteRange`].
    Push {
        /// First address.
        addr: u64,
        /// How many bytes, 1 and more.
        bytes: u64,
    },
    /// Writes a line back if modified and drops it from all caches (CLFLUSH).
    Flush {
        /// An address in the line.
        addr: u64,
    },
    /// Writes a line back if modified and may keep it (CLWB).
    WriteBack {
        /// An address in the line.
        addr: u64,
    },
    /// Moves a line from the private caches to the last-level cache (CLDEMOTE).
    Demote {
        /// An address in the line.
        addr: u64,
    },
    /// Asks for a line to be loaded; done at once.
    Prefetch {
        /// An address in the line.
        addr: u64,
    },
    /// Computes for some cycles of the executor's clock.
    Compute {
        /// How many.
        cycles: u32,
    },
    /// Done when all earlier operations of the thread are; later ones begin after it.
    Fence,
    /// Moves bytes between the host's memory and the device's by its DMA engine; done when all
    /// have been written (for a write: acknowledged, or sent if it is posted). Only on accelerators. Value: the first up to
    /// 8 bytes moved, as a number.
    Dma {
        /// Which way.
        direction: Direction,
        /// First address in the host's memory.
        host_addr: u64,
        /// First address in the device's memory or buffers.
        device_addr: u64,
        /// How many bytes, 1 and more.
        bytes: u64,
    },
    /// Reads a register of 8 B of a device; its own without crossing the link. Value: the
    /// register's, 0 before the first write.
    MmioRead {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
    },
    /// Writes a register of a device; from the host it is posted and done when it has arrived.
    MmioWrite {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
        /// What to write.
        value: u64,
    },
    /// Waits until a register of the accelerator that the thread runs on differs from `value`.
    /// Value: the register's.
    MmioAwait {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
        /// What it must no longer be.
        value: u64,
    },
    /// Sends an interrupt to the host; done when sent.
    Interrupt {
        /// Which.
        vector: u16,
    },
    /// Waits for an interrupt of that vector that nobody has taken yet, and takes it.
    WaitInterrupt {
        /// Which.
        vector: u16,
    },
    /// Allocates address space (`mmap`, `malloc`). Value: its first address, page-aligned.
    Map {
        /// How many bytes, 1 and more.
        bytes: u64,
        /// The number of the placement policy among those of the scenario.
        policy: u16,
    },
    /// Gives back what [`ThreadOp::Map`] gave.
    Unmap {
        /// Its first address.
        addr: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// What follows belongs to this phase of the kernel. Takes no time.
    Mark {
        /// A place in the kernel's list of phases.
        phase: u8,
    },
    /// So many operations of the phase are done, by the kernel's own count. Takes no time.
    Count {
        /// How many.
        operations: u32,
    },
}

/// Bytes that an operation touches: first address and length.
type Range = (u64, u64);

fn overlap(one: Range, other: Range) -> bool {
    one.0 < other.0.saturating_add(other.1) && other.0 < one.0.saturating_add(one.1)
}

impl ThreadOp {
    /// The bytes of memory that it touches; a whole line for operations on lines.
    fn touches(self) -> [Option<Range>; 2] {
        use ThreadOp as Op;
        match self {
            Op::Load { addr, size }
            | Op::Store { addr, size, .. }
            | Op::Await { addr, size, .. }
            | Op::Atomic { addr, size, .. } => [Some((addr, u64::from(size))), None],
            Op::ReadRange { addr, bytes, .. }
            | Op::WriteRange { addr, bytes }
            | Op::Push { addr, bytes }
            | Op::Unmap { addr, bytes } => [Some((addr, bytes)), None],
            Op::Flush { addr }
            | Op::WriteBack { addr }
            | Op::Demote { addr }
            | Op::Prefetch { addr } => [Some((addr / LINE_BYTES * LINE_BYTES, LINE_BYTES)), None],
            Op::Dma {
                host_addr,
                device_addr,
                bytes,
                ..
            } => [Some((host_addr, bytes)), Some((device_addr, bytes))],
            Op::Compute { .. }
            | Op::Fence
            | Op::MmioRead { .. }
            | Op::MmioWrite { .. }
            | Op::MmioAwait { .. }
            | Op::Interrupt { .. }
            | Op::WaitInterrupt { .. }
            | Op::Map { .. }
            | Op::Mark { .. }
            | Op::Count { .. } => [None, None],
        }
    }

    /// Whether it must wait for an earlier operation of the same thread: either is a fence, they
    /// touch the same bytes, or both are accesses to registers, which keep their order.
    pub fn follows(self, earlier: ThreadOp) -> bool {
        if self == ThreadOp::Fence || earlier == ThreadOp::Fence {
            return true;
        }
        if self.is_mmio() && earlier.is_mmio() {
            return true;
        }
        let (ours, theirs) = (self.touches(), earlier.touches());
        let pairs = ours.iter().flatten();
        pairs
            .into_iter()
            .any(|one| theirs.iter().flatten().any(|other| overlap(*one, *other)))
    }

    /// Whether it may begin at once and takes effect only after an earlier operation of the same
    /// thread: transfers behind a posted write.
    pub fn is_behind(self, earlier: ThreadOp) -> bool {
        let posted = |op| {
            let direction = Direction::ToHostPosted;
            matches!(op, ThreadOp::Dma { direction: found, .. } if found == direction)
        };
        matches!(self, ThreadOp::Dma { .. }) && posted(earlier)
    }

    fn is_mmio(self) -> bool {
        use ThreadOp as Op;
        matches!(
            self,
            Op::MmioRead { .. } | Op::MmioWrite { .. } | Op::MmioAwait { .. }
        )
    }

    /// Why no executor can do it; `None` when it is well formed.
    pub fn fault(self) -> Option<&'static str> {
        use ThreadOp as Op;
        match self {
            Op::Load { addr, size }
            | Op::Store { addr, size, .. }
            | Op::Await { addr, size, .. }
            | Op::Atomic { addr, size, .. } => number_fault(addr, size),
            Op::ReadRange { bytes: 0, .. }
            | Op::WriteRange { bytes: 0, .. }
            | Op::Push { bytes: 0, .. }
            | Op::Dma { bytes: 0, .. }
            | Op::Map { bytes: 0, .. } => Some("a range of no bytes"),
            Op::ReadRange { addr, bytes, .. }
            | Op::WriteRange { addr, bytes }
            | Op::Push { addr, bytes }
            | Op::Dma {
                host_addr: addr,
                bytes,
                ..
            } => {
                let wraps = addr.checked_add(bytes).is_none();
                wraps.then_some("a range beyond the last address")
            }
            _ => None,
        }
    }

    /// What a load, store, atomic operation or one turn of an [`ThreadOp::Await`] does to memory,
    /// at its physical address; 0 and nothing for all others. The caller holds the right to do so.
    pub fn perform(self, image: &Image, hpa: Hpa) -> u64 {
        match self {
            ThreadOp::Load { size, .. } | ThreadOp::Await { size, .. } => image.read(hpa, size),
            ThreadOp::Store { size, value, .. } => {
                image.write(hpa, size, value);
                0
            }
            ThreadOp::Atomic {
                size,
                kind,
                operand,
                compare,
                ..
            } => match kind {
                AtomicKind::FetchAdd => image.fetch_add(hpa, size, operand),
                AtomicKind::Swap => image.update(hpa, size, |_| Some(operand)),
                AtomicKind::CompareExchange => image.compare_exchange(hpa, size, compare, operand),
            },
            _ => 0,
        }
    }
}

fn number_fault(addr: u64, size: u8) -> Option<&'static str> {
    if !(1..=8).contains(&size) {
        return Some("a number of less than 1 or more than 8 bytes");
    }
    let crosses = addr % LINE_BYTES + u64::from(size) > LINE_BYTES;
    crosses.then_some("a number that lies in two lines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_touches_the_same_bytes_waits() {
        let load = |addr| ThreadOp::Load { addr, size: 8 };
        assert!(load(8).follows(ThreadOp::Store {
            addr: 15,
            size: 1,
            value: 0
        }));
        assert!(!load(8).follows(load(16)));
        assert!(load(16).follows(ThreadOp::Flush { addr: 63 }));
        assert!(!load(64).follows(ThreadOp::Flush { addr: 63 }));
        assert!(load(64).follows(ThreadOp::Fence));
        let dma = ThreadOp::Dma {
            direction: Direction::ToHost,
            host_addr: 0,
            device_addr: scratch(1),
            bytes: 64,
        };
        assert!(load(56).follows(dma));
        assert!(load(scratch(1)).follows(dma));
        assert!(!load(scratch(0)).follows(dma));
    }

    #[test]
    fn numbers_stay_within_a_line() {
        assert_eq!(ThreadOp::Load { addr: 56, size: 8 }.fault(), None);
        assert!(ThreadOp::Load { addr: 57, size: 8 }.fault().is_some());
        assert!(ThreadOp::Load { addr: 0, size: 0 }.fault().is_some());
        assert!(
            ThreadOp::Push {
                addr: u64::MAX,
                bytes: 2
            }
            .fault()
            .is_some()
        );
    }
}
