//! The memory management of an operating system and its translation hardware: frames on NUMA nodes,
//! one page table a process, TLBs and address translation caches, address translation
//! services (ATS), placement and migration of pages.
//!
//! All parts are passive: they have addresses, but no messages and no events. No operation here
//! takes simulated time; each result lists the physical reads and writes that the owner has to
//! time. `docs/explain/cohet-os.md` has the tables, the parameters and their sources.

pub mod address;
pub mod ats;
pub mod epochs;
pub mod frames;
pub mod page_table;
pub mod policy;
pub mod space;
pub mod tlb;

pub use address::{Page, PageAccess, PageSize, Pasid, VirtAddr};
pub use frames::{Frame, FrameAllocator, NodeId, NodeSet};
pub use page_table::PageTable;
pub use space::AddressSpace;
