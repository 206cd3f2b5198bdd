//! The operations that a thread issues to the core or processing element that it runs on.

use cxlab_engine::units::{Hpa, LINE_BYTES};
use serde::{Deserialize, Serialize};

use crate::image::Image;

/// First address of the accelerators' own buffers, which are not memory of the coherence domain:
/// only an accelerator's own threads and its DMA engine access them. 2^52, above all host memory.
pub const SCRATCH_BASE: u64 = 1 << 52;

/// Bytes of address space for the buffers of one accelerator, starting at [`scratch`].
pub const SCRATCH_SPAN: u64 = 1 << 40;

/// First address of the own buffers of accelerator `device`.
pub const fn scratch(device: u16) -> u64 {
    SCRATCH_BASE + device as u64 * SCRATCH_SPAN
}

/// The register of a Type 2 device with which its driver switches the bias of a page. The value
/// written is the physical address of a line of the page, with the lowest bit set for host bias.
pub const BIAS_REGISTER: u32 = u32::MAX - 1;

/// How an atomic operation computes the new value from the old one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum AtomicKind {
    /// Adds the operand, with wrap-around at the number's size.
    FetchAdd,
    /// Replaces the old value by the operand.
    Swap,
    /// Replaces the old value by the operand if it equals `compare`.
    CompareExchange,
    /// Ands the bits with those of the operand.
    And,
    /// Ors the bits with those of the operand.
    Or,
    /// Exclusive-ors the bits with those of the operand.
    Xor,
    /// Replaces the old value by the operand if the operand is less, as unsigned numbers.
    Min,
    /// Replaces the old value by the operand if the operand is greater, as unsigned numbers.
    Max,
    /// Replaces the old value by the operand if the operand is less, as signed numbers of the
    /// operation's size.
    MinSigned,
    /// Replaces the old value by the operand if the operand is greater, as signed numbers of the
    /// operation's size.
    MaxSigned,
}

impl AtomicKind {
    /// The operation of this kind on a number.
    #[inline]
    pub(crate) const fn op(self, addr: u64, size: u8, operand: u64, compare: u64) -> ThreadOp {
        let kind = self;
        ThreadOp::Atomic {
            addr,
            size,
            kind,
            operand,
            compare,
        }
    }

    /// The new value of a number of `size` bytes, or `None` where the old value stays. Bits above
    /// the size have no meaning in the result.
    fn change(self, old: u64, operand: u64, size: u8) -> Option<u64> {
        let unused = 64 - 8 * u32::from(size.clamp(1, 8));
        let unsigned = |value: u64| value << unused;
        let signed = |value: u64| (value << unused) as i64;
        match self {
            AtomicKind::FetchAdd => Some(old.wrapping_add(operand)),
            AtomicKind::Swap | AtomicKind::CompareExchange => Some(operand),
            AtomicKind::And => Some(old & operand),
            AtomicKind::Or => Some(old | operand),
            AtomicKind::Xor => Some(old ^ operand),
            AtomicKind::Min => (unsigned(operand) < unsigned(old)).then_some(operand),
            AtomicKind::Max => (unsigned(operand) > unsigned(old)).then_some(operand),
            AtomicKind::MinSigned => (signed(operand) < signed(old)).then_some(operand),
            AtomicKind::MaxSigned => (signed(operand) > signed(old)).then_some(operand),
        }
    }
}

/// The direction of a DMA transfer, and when it completes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum Direction {
    /// From the host's memory to the device (a DMA read).
    ToDevice,
    /// From the device to the host's memory (a DMA write). Completes when the
    /// host has acknowledged it.
    ToHost,
    /// From the device to the host's memory, as a posted write. Completes when the engine has sent
    /// the bytes: the device's buffer is free again, but memory may not have the bytes yet. Later
    /// transfers of the device do not overtake the write.
    ToHostPosted,
}

/// One operation of a thread. Every operation returns a value, which is 0 unless documented.
///
/// Addresses are virtual where the executor translates and physical where it does not. Numbers have
/// 1 to 8 bytes, little endian, within a line. Ranges have any length; the executor splits them
/// into lines and keeps as many lines outstanding as it can.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum ThreadOp {
    /// Loads a number. Value: the number.
    Load {
        /// Address of the number's first byte.
        addr: u64,
        /// Size of the number in bytes, 1 to 8.
        size: u8,
    },
    /// Stores a number. Completes when the store is visible to all observers.
    Store {
        /// Address of the number's first byte.
        addr: u64,
        /// Size of the number in bytes, 1 to 8.
        size: u8,
        /// The number to store.
        value: u64,
    },
    /// Reads, changes and writes a number without any other access to its line in between.
    /// Value: the old number.
    Atomic {
        /// Address of the number's first byte.
        addr: u64,
        /// Size of the number in bytes, 1 to 8.
        size: u8,
        /// How the new value is computed.
        kind: AtomicKind,
        /// The operand: the addend or the new value.
        operand: u64,
        /// The expected old value of an [`AtomicKind::CompareExchange`]; unused by other kinds.
        compare: u64,
    },
    /// Loads a number again and again until it differs from `value`: a spin on a cached line, or
    /// UMONITOR and UMWAIT. Value: the number found.
    Await {
        /// Address of the number's first byte.
        addr: u64,
        /// Size of the number in bytes, 1 to 8.
        size: u8,
        /// The wait ends when the number differs from this value.
        value: u64,
    },
    /// Loads a range. The executor passes its bytes to
    /// [`Thread::put_bytes`](super::Thread::put_bytes).
    ReadRange {
        /// First address of the range.
        addr: u64,
        /// Length of the range in bytes, at least 1.
        bytes: u64,
        /// Whether the thread will store to the range: a cache then requests ownership of its lines
        /// at once (`RdOwn`), as a core does for PREFETCHW.
        to_store: bool,
    },
    /// Stores a range. The executor takes its bytes from
    /// [`Thread::take_bytes`](super::Thread::take_bytes).
    WriteRange {
        /// First address of the range.
        addr: u64,
        /// Length of the range in bytes, at least 1.
        bytes: u64,
    },
    /// Pushes the lines of a range into the host's last-level cache and keeps no copy
    /// (NC-P, the non-cacheable push of Cohet, section V-B). The bytes come from the
    /// thread, as for [`ThreadOp::WriteRange`].
    Push {
        /// First address of the range.
        addr: u64,
        /// Length of the range in bytes, at least 1.
        bytes: u64,
    },
    /// Writes a line back if it is modified, and invalidates it in all caches (CLFLUSH).
    Flush {
        /// An address in the line.
        addr: u64,
    },
    /// Writes a line back if it is modified, and may keep it cached (CLWB).
    WriteBack {
        /// An address in the line.
        addr: u64,
    },
    /// Moves a line from the private caches to the last-level cache (CLDEMOTE).
    Demote {
        /// An address in the line.
        addr: u64,
    },
    /// Prefetches a line. Completes at once.
    Prefetch {
        /// An address in the line.
        addr: u64,
    },
    /// Computes for some cycles of the executor's clock.
    Compute {
        /// The number of cycles.
        cycles: u32,
    },
    /// Completes when all earlier operations of the thread have. Later operations
    /// begin after the fence.
    Fence,
    /// Moves bytes between the host's memory and the device's memory by the device's DMA engine.
    /// Completes when all bytes have been written; a write to the host completes as its
    /// [`Direction`] says. Only accelerators can execute it. Value: the first bytes moved, up to
    /// 8, as a number.
    Dma {
        /// The direction of the transfer.
        direction: Direction,
        /// First address in the host's memory.
        host_addr: u64,
        /// First address in the device's memory or buffers.
        device_addr: u64,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// Reads a register of 8 B of a device. An accelerator's thread reads its own device's
    /// registers without crossing the link. Value: the register's value, 0 before the first write.
    MmioRead {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
    },
    /// Writes a register of a device. A write from the host is posted and completes
    /// when it has arrived.
    MmioWrite {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
        /// The value to write.
        value: u64,
    },
    /// Waits until a register of the accelerator that the thread runs on differs from `value`.
    /// Value: the register's value.
    MmioAwait {
        /// The accelerator's number.
        device: u16,
        /// The register's number.
        register: u32,
        /// The wait ends when the register differs from this value.
        value: u64,
    },
    /// Sends an interrupt to the host. Completes when it has been sent.
    Interrupt {
        /// The interrupt's vector.
        vector: u16,
    },
    /// Waits until an interrupt of this vector is pending, and consumes it.
    WaitInterrupt {
        /// The interrupt's vector.
        vector: u16,
    },
    /// Allocates address space (`mmap`, `malloc`). Value: its first address, page-aligned.
    Map {
        /// Number of bytes, at least 1.
        bytes: u64,
        /// The placement policy, as an index into the scenario's policies.
        policy: u16,
    },
    /// Frees address space that [`ThreadOp::Map`] allocated.
    Unmap {
        /// First address of the allocation.
        addr: u64,
        /// Length of the allocation in bytes.
        bytes: u64,
    },
    /// Assigns the thread's later operations to a phase of the kernel. Takes no time.
    Mark {
        /// The phase, as an index into the kernel's phases.
        phase: u8,
    },
    /// Counts completed operations of the phase, by the kernel's own count. Takes no time.
    Count {
        /// The number of operations.
        operations: u32,
    },
    /// Reads the simulated time. Takes no time. Value: the time at which the thread's code issues
    /// the operation, in picoseconds since the run began; 0 in an executor without time.
    Time,
}

/// Bytes that an operation accesses: first address and length.
type Range = (u64, u64);

fn overlap(one: Range, other: Range) -> bool {
    one.0 < other.0.saturating_add(other.1) && other.0 < one.0.saturating_add(one.1)
}

impl ThreadOp {
    /// The bytes of memory that the operation accesses; a whole line for operations on lines.
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
            | Op::Count { .. }
            | Op::Time => [None, None],
        }
    }

    /// Whether the operation must wait for an earlier operation of the same thread. That is so if
    /// either of them is a fence, if they access the same bytes, or if both access registers,
    /// which stay in order.
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

    /// Whether the operation may begin at once but takes effect only after an earlier operation of
    /// the same thread: a DMA transfer after a posted write.
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

    /// Why no executor can execute the operation; `None` when it is well formed.
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

    /// Applies a load, a store, an atomic operation or one check of an [`ThreadOp::Await`] to
    /// memory at its physical address, and returns its value. Other operations change nothing and
    /// return 0. The caller must have the protocol's permission to access the line.
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
                AtomicKind::CompareExchange => image.compare_exchange(hpa, size, compare, operand),
                _ => image.update(hpa, size, |old| kind.change(old, operand, size)),
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
    fn atomic_operations_compute_with_the_size_of_their_number() {
        let image = Image::new();
        let run = |kind, old: u64, operand: u64| {
            image.write(Hpa(8), 8, 0x1111_1111_0000_0000 | old);
            let op = AtomicKind::op(kind, 8, 4, operand, 0);
            assert_eq!(op.perform(&image, Hpa(8)), old);
            let after = image.read(Hpa(8), 8);
            assert_eq!(after >> 32, 0x1111_1111, "the bytes beside the number");
            after & 0xffff_ffff
        };
        let minus = |value: u32| u64::from(value.wrapping_neg());
        assert_eq!(run(AtomicKind::FetchAdd, minus(1), 3), 2);
        assert_eq!(run(AtomicKind::Swap, 7, 3), 3);
        assert_eq!(run(AtomicKind::And, 6, 3), 2);
        assert_eq!(run(AtomicKind::Or, 6, 3), 7);
        assert_eq!(run(AtomicKind::Xor, 6, 3), 5);
        assert_eq!(run(AtomicKind::Min, minus(1), 3), 3);
        assert_eq!(run(AtomicKind::Max, minus(1), 3), minus(1));
        assert_eq!(run(AtomicKind::MinSigned, minus(1), 3), minus(1));
        assert_eq!(run(AtomicKind::MaxSigned, minus(1), 3), 3);
        assert_eq!(run(AtomicKind::MinSigned, 3, minus(1)), minus(1));
    }

    #[test]
    fn numbers_stay_within_a_line() {
        assert_eq!(ThreadOp::Load { addr: 56, size: 8 }.fault(), None);
        assert!(ThreadOp::Load { addr: 57, size: 8 }.fault().is_some());
        assert!(ThreadOp::Load { addr: 0, size: 0 }.fault().is_some());
        let (addr, bytes) = (u64::MAX, 2);
        assert!(ThreadOp::Push { addr, bytes }.fault().is_some());
    }
}
