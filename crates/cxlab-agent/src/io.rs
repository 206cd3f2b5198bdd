//! Address map of data in transit: where the sender of a CXL.io transaction puts its bytes, and
//! where a line is stored that CXL.cache reads without keeping it. The addresses are above all
//! memory; hosts and devices agree on them.
//!
//! Messages carry no bytes. The bytes of a CXL.io transaction have an address of their own in the
//! image while the transaction is in transit. The sender writes them there when it sends, and the
//! receiver reads them on arrival. At least one wire latency separates the two, and a tag is reused
//! only after its transaction has ended, so no other component accesses the bytes meanwhile.

use cxlab_engine::units::Hpa;
use cxlab_protocol::PortId;
use cxlab_workload::Image;

/// First address of bytes in transit: 2^53.
const STAGING_BASE: u64 = 1 << 53;
/// First address of device registers: 2^54.
const MMIO_BASE: u64 = 1 << 54;
/// First address of interrupt writes: 2^55.
const INTERRUPT_BASE: u64 = 1 << 55;
/// First address of address-translation messages: 2^56.
const ATS_BASE: u64 = 1 << 56;
/// Address bits of a process (48-bit canonical addresses, the lower half).
const USER_BITS: u32 = 47;

/// Address of the bytes of a transaction in either direction, by requester and tag: 4 KiB each.
pub fn staging(requester: PortId, tag: u32) -> Hpa {
    Hpa(STAGING_BASE + (u64::from(requester.0) << 40) + (u64::from(tag) << 12))
}

/// Offset of a requester's CXL.cache lines from the addresses of its CXL.io transactions.
const LINES: u64 = 1 << 39;

/// Address of a line that a device reads once (`RdCurr`), by CQID: its value
/// when the host responded.
pub fn line_read_once(device: PortId, cqid: u32) -> Hpa {
    Hpa(staging(device, 0).0 + LINES + 64 * u64::from(cqid))
}

/// Address of a line that a snoop reads and its holder keeps, by the snoop's UQID: its value
/// when the holder responded.
pub fn snooped_line_address(holder: PortId, uqid: u16) -> Hpa {
    Hpa(staging(holder, 0).0 + LINES + (1 << 30) + 64 * u64::from(uqid))
}

/// Vector of the interrupt by which a device reports to its host that it consumed poison.
pub const MACHINE_CHECK: u16 = u16::MAX;

/// The device register by which the host reports that the process of the
/// device's threads has ended.
pub const PROCESS_ENDS: u32 = u32::MAX;

/// The address of a device register of 8 B.
pub fn register_address(register: u32) -> Hpa {
    Hpa(MMIO_BASE + 8 * u64::from(register))
}

/// The register at an address; `None` where the address is not that of a register.
pub fn register_at(hpa: Hpa) -> Option<u32> {
    let offset = hpa.0.checked_sub(MMIO_BASE)?;
    (offset < 8 << 32).then_some((offset / 8) as u32)
}

/// The address that raises the interrupt `vector` when it is written (MSI).
pub fn interrupt_address(vector: u16) -> Hpa {
    Hpa(INTERRUPT_BASE + 4 * u64::from(vector))
}

/// The interrupt that a write to an address raises; `None` where it raises none.
pub fn interrupt_at(hpa: Hpa) -> Option<u16> {
    let offset = hpa.0.checked_sub(INTERRUPT_BASE)?;
    (offset < 4 << 16).then_some((offset / 4) as u16)
}

/// A message of address translation services (PCIe 6.0, chapter 10; section numbers recollection),
/// or of the driver that blocks a device while a page moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AtsKind {
    /// To the host: Translation Request. The flag is set for a write access.
    Translate,
    /// To the host: Page Request. The flag is set for a write access.
    PageRequest,
    /// To the host: Invalidate Completion, with the tag of the request.
    Invalidated,
    /// To the host: the device is blocked and begins no access to the page.
    Blocked,
    /// To the host: the device has resumed accesses to the page.
    Resumed,
    /// To the device: PRG Response. The flag is set if the page is now present.
    PageResponse,
    /// To the device: Invalidate Request for a page; the flag is set for a page of 2 MiB.
    Invalidate,
    /// To the device: Invalidate Request for the whole process.
    InvalidateAll,
    /// To the device: begin no access to the page; the flag is set for a page of 2 MiB.
    Block,
    /// To the device: resume accesses to the page; the flag as for `Block`.
    Resume,
}

impl AtsKind {
    const ALL: [AtsKind; 10] = [
        AtsKind::Translate,
        AtsKind::PageRequest,
        AtsKind::Invalidated,
        AtsKind::Blocked,
        AtsKind::Resumed,
        AtsKind::PageResponse,
        AtsKind::Invalidate,
        AtsKind::InvalidateAll,
        AtsKind::Block,
        AtsKind::Resume,
    ];
}

/// An address-translation message about the page that begins at `page`: 4 KiB, or larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtsMessage {
    /// Kind of the message.
    pub kind: AtsKind,
    /// First virtual address of the page.
    pub page: u64,
    /// Meaning as documented at each [`AtsKind`].
    pub flag: bool,
}

impl AtsMessage {
    /// The address that encodes the message.
    pub fn address(self) -> Hpa {
        let kind = (self.kind as u64) << USER_BITS;
        Hpa(ATS_BASE + kind + (self.page & !0xfff) + u64::from(self.flag))
    }

    /// The message that an address encodes; `None` where it encodes none.
    pub fn at(hpa: Hpa) -> Option<AtsMessage> {
        let offset = hpa.0.checked_sub(ATS_BASE)?;
        let kind = AtsKind::ALL.get((offset >> USER_BITS) as usize)?;
        Some(AtsMessage {
            kind: *kind,
            page: offset & ((1 << USER_BITS) - 1) & !0xfff,
            flag: offset & 1 == 1,
        })
    }
}

/// Content of a Translation Completion.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AtsCompletion {
    /// Whether the page is present; if not, it has neither read nor write permission.
    pub present: bool,
    /// Whether the page has write permission.
    pub writable: bool,
    /// Whether the page has 2 MiB rather than 4 KiB.
    pub large: bool,
    /// First physical address of the page's frame.
    pub base: u64,
}

impl AtsCompletion {
    /// Writes the completion to its address in transit.
    pub fn put(self, image: &Image, staged: Hpa) {
        let flags = [self.present, self.writable, self.large];
        let flags = (0..)
            .zip(flags)
            .map(|(bit, set)| u64::from(set) << bit)
            .sum::<u64>();
        image.write(staged, 8, self.base | flags);
    }

    /// Reads a completion from its address in transit.
    pub fn take(image: &Image, staged: Hpa) -> AtsCompletion {
        let word = image.read(staged, 8);
        AtsCompletion {
            present: word & 1 != 0,
            writable: word & 2 != 0,
            large: word & 4 != 0,
            base: word & !0xfff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_where_is_known_again() {
        assert_eq!(register_at(register_address(7)), Some(7));
        assert_eq!(register_at(interrupt_address(7)), None);
        assert_eq!(interrupt_at(interrupt_address(7)), Some(7));
        assert_eq!(interrupt_at(register_address(7)), None);
        assert_eq!(register_at(staging(PortId(4095), 1023)), None);
        for kind in AtsKind::ALL {
            let message = AtsMessage {
                kind,
                page: (1 << 47) - 4096,
                flag: true,
            };
            let hpa = message.address();
            assert_eq!(AtsMessage::at(hpa), Some(message));
            assert_eq!((register_at(hpa), interrupt_at(hpa)), (None, None));
        }
        assert_eq!(AtsMessage::at(interrupt_address(u16::MAX)), None);
        let (image, staged) = (Image::new(), staging(PortId(1), 2));
        let completion = AtsCompletion {
            present: true,
            writable: false,
            large: true,
            base: (1 << 52) - 4096,
        };
        completion.put(&image, staged);
        assert_eq!(AtsCompletion::take(&image, staged), completion);
    }
}
