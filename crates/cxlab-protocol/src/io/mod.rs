//! CXL.io: PCI Express transactions, configuration space, CXL's registers, and what firmware does
//! with them. Pure data: no clock.
//!
//! - [`tlp`]: the sizes of packets.
//! - [`space`]: the configuration space of one function.
//! - [`component`]: the registers of CXL.cache and CXL.mem, with HDM decoders.
//! - [`tree`]: a hierarchy of functions.
//! - [`packet`]: requests to registers as messages.
//! - [`enumerate`]: what firmware and the operating system do, access by access.
//!
//! `docs/reference/cxl-io.md` has tables and sources.
//!
//! Sources: register layouts as in Linux (`include/uapi/linux/pci_regs.h`, `drivers/cxl/cxl.h`,
//! `drivers/cxl/cxlpci.h`) and QEMU (`include/hw/cxl/cxl_pci.h`,
//! `hw/cxl/cxl-component-utils.c`), which cite sections of CXL 2.0 to 3.1 and PCIe. Packet
//! formats: PCI Express Base Specification 5.0 and 6.0, *recollection, unverified*.

pub mod component;
pub mod enumerate;
pub mod packet;
pub mod space;
pub mod tlp;
pub mod tree;
