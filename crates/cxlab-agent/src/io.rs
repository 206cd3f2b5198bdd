//! Where CXL.io finds what it moves, and CXL.cache what is read without a right to the line: addresses above all
//! memory that devices and hosts agree on.
//!
//! Messages carry no bytes. What a transaction of CXL.io moves lies, on its way, at a place of its
//! own in the image: the sender puts it there when it sends, and the receiver takes it when it
//! has come. Between the two lies at least the time of a wire, and a tag is used again only when
//! its transaction has ended, so nobody else touches the place meanwhile.

use cxlab_engine::units::Hpa;
use cxlab_protocol::PortId;
use cxlab_workload::Image;

/// Where bytes on their way lie: 2^53.
const STAGING_BASE: u64 = 1 << 53;
/// Where devices' registers lie: 2^54.
const MMIO_BASE: u64 = 1 << 54;
/// Where interrupts are written: 2^55.
const INTERRUPT_BASE: u64 = 1 << 55;
/// Where messages of address translation are: 2^56.
const ATS_BASE: u64 = 1 << 56;
/// Where an address in the process ends (48-bit canonical addresses, the lower half).
const USER_BITS: u32 = 47;

/// The place of what a transaction moves, either way, by its requester and tag: 4 KiB.
pub fn staging(requester: PortId, tag: u32) -> Hpa {
    Hpa(STAGING_BASE + (u64::from(requester.0) << 40) + (u64::from(tag) << 12))
}

/// The distance of a requester's lines of CXL.cache from the addresses of what it moves by CXL.io.
const LINES: u64 = 1 << 39;

/// The place of a line that a device reads once (`RdCurr`), by its CQID: its value when the host answered.
pub fn line_read_once(device: PortId, cqid: u32) -> Hpa {
    Hpa(staging(device, 0).0 + LINES + 64 * u64::from(cqid))
}

/// The place of a line whose holder keeps it, by the UQID of the snoop: its value when the holder answered.
pub fn line_looked_at(holder: PortId, uqid: u16) -> Hpa {
    Hpa(staging(holder, 0).0 + LINES + (1 << 30) + 64 * u64::from(uqid))
}

/// The interrupt by which a device tells its host that it has met poison.
pub const MACHINE_CHECK: u16 = u16::MAX;

/// The register of a device by which its host tells it that the process of its threads has ended.
pub const PROCESS_ENDS: u32 = u32::MAX;

/// The address of a register of 8 B.
pub fn register_address(register: u32) -> Hpa {
    Hpa(MMIO_BASE + 8 * u64::from(register))
}

/// The register at an address; `None` where there is none.
pub fn register_at(hpa: Hpa) -> Option<u32> {
    let offset = hpa.0.checked_sub(MMIO_BASE)?;
    (offset < 8 << 32).then_some((offset / 8) as u32)
}

/// The address that raises an interrupt when it is written (MSI).
pub fn interrupt_address(vector: u16) -> Hpa {
    Hpa(INTERRUPT_BASE + 4 * u64::from(vector))
}

/// The interrupt that a write to an address raises; `None` where it raises none.
pub fn interrupt_at(hpa: Hpa) -> Option<u16> {
    let offset = hpa.0.checked_sub(INTERRUPT_BASE)?;
    (offset < 4 << 16).then_some((offset / 4) as u16)
}

/// A message of address translation services (PCIe 6.0, chapter 10; section numbers recollection), or
/// of the driver that blocks a device while a page moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum AtsKind {
    /// To the host: Translation Request. The flag says that the access writes.
    Translate,
    /// To the host: Page Request. The flag says that the access writes.
    PageRequest,
    /// To the host: Invalidate Completion, with the tag of the request.
    Invalidated,
    /// To the host: the device begins no access of the page.
    Blocked,
    /// To the host: the device goes on.
    Resumed,
    /// To the device: PRG Response. The flag says that the page is there now.
    PageResponse,
    /// To the device: Invalidate Request of a page; the flag says that it is one of 2 MiB.
    Invalidate,
    /// To the device: Invalidate Request of the whole process.
    InvalidateAll,
    /// To the device: begin no access of the page; the flag says that it is one of 2 MiB.
    Block,
    /// To the device: go on; the flag as of `Block`.
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

/// A message of address translation about the page of 4 KiB that begins at `page` (or a larger one).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtsMessage {
    /// What it says.
    pub kind: AtsKind,
    /// The first address of the page in the process.
    pub page: u64,
    /// What the kind says.
    pub flag: bool,
}

impl AtsMessage {
    /// The address that stands for it.
    pub fn address(self) -> Hpa {
        let kind = (self.kind as u64) << USER_BITS;
        Hpa(ATS_BASE + kind + (self.page & !0xfff) + u64::from(self.flag))
    }

    /// The message that an address stands for; `None` where it is none.
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

/// What a Translation Completion says of the page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AtsCompletion {
    /// Whether it is present: neither read nor write permission otherwise.
    pub present: bool,
    /// Write permission.
    pub writable: bool,
    /// Whether it is one of 2 MiB.
    pub large: bool,
    /// The first address of its frame.
    pub base: u64,
}

impl AtsCompletion {
    /// Leaves it at its place on the way.
    pub fn put(self, image: &Image, there: Hpa) {
        let flags = [self.present, self.writable, self.large];
        let flags = (0..)
            .zip(flags)
            .map(|(bit, set)| u64::from(set) << bit)
            .sum::<u64>();
        image.write(there, 8, self.base | flags);
    }

    /// Takes it from there.
    pub fn take(image: &Image, there: Hpa) -> AtsCompletion {
        let word = image.read(there, 8);
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
        let (image, there) = (Image::new(), staging(PortId(1), 2));
        let completion = AtsCompletion {
            present: true,
            writable: false,
            large: true,
            base: (1 << 52) - 4096,
        };
        completion.put(&image, there);
        assert_eq!(AtsCompletion::take(&image, there), completion);
    }
}
