//! Where CXL.io finds what it moves: addresses above all memory that devices and hosts agree on.
//!
//! Messages carry no bytes. What a transaction of CXL.io moves lies, on its way, at a place of its
//! own in the image: the sender puts it there when it sends, and the receiver takes it when it
//! has come. Between the two lies at least the time of a wire, and a tag is used again only when
//! its transaction has ended, so nobody else touches the place meanwhile.

use cxlab_engine::units::Hpa;
use cxlab_protocol::PortId;

/// Where bytes on their way lie: 2^53.
const STAGING_BASE: u64 = 1 << 53;
/// Where devices' registers lie: 2^54.
const MMIO_BASE: u64 = 1 << 54;
/// Where interrupts are written: 2^55.
const INTERRUPT_BASE: u64 = 1 << 55;

/// The place of what a transaction moves, either way, by its requester and tag: 4 KiB.
pub fn staging(requester: PortId, tag: u32) -> Hpa {
    Hpa(STAGING_BASE + (u64::from(requester.0) << 40) + (u64::from(tag) << 12))
}

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
    Some((offset / 4) as u16)
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
    }
}
