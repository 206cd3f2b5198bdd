//! Address translation services: how a device obtains, uses and loses translations of pages.
//!
//! [`device`] and [`home`] are tables, `(state, event) -> (state, actions)`, for one page. The
//! first describes the device's cache (ATC), the second the operating system, its driver and the
//! IOMMU. They are pure data: no time, no queue, no allocation. [`atc`] and [`iommu`] implement
//! these tables as passive parts for all pages. An exhaustive exploration runs both tables against
//! each other over unordered channels (`ats/explore.rs`). It shows that no access uses a
//! translation whose invalidation was completed, and that no access, request or move is lost.
//!
//! ```text
//! device                    IOMMU, operating system
//!   Translation Request ->    walk of the page table
//!   <- Translation Completion (granted, not present, refused)
//!   Page Request ->           page fault: a frame at the node of the device
//!   <- PRG Response
//!                             move of a page: block, make not present, flush IOTLB,
//!   <- Invalidate Request
//!   Invalidate Completion ->  copy, make present, answer held page requests, resume
//! ```
//!
//! Messages are those of the PCI Express Base Specification 6.0, chapter 10 (section numbers
//! *recollection, unverified*): Translation Request and Completion 10.2, Invalidate Request and
//! Completion 10.3, Page Request and PRG Response 10.4. The blocking window is Cohet's (section
//! III-C1: the driver blocks the device, HMM updates and invalidates, the driver resumes).
//! Left out: translations of several pages in one completion, PRG groups of several pages,
//! execute permission, global invalidation, and stop markers.

pub mod atc;
pub mod device;
pub mod home;
pub mod iommu;
pub mod table;

#[cfg(test)]
mod explore;

pub use atc::{AccessDecision, Atc, AtcParams, DeferredReply, PendingPageAction};
pub use iommu::{Iommu, IommuParams, IommuWalk};

use serde::{Deserialize, Serialize};

use crate::tlb::Translation;

/// Maximum number of Translation Requests that an access of a device waits for: the first, and
/// one after the page fault. The exploration shows the bound for pages that move, are sampled and
/// are invalidated without end.
pub const MOST_REQUESTS: u32 = 2;

/// Result of a Translation Completion.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum TranslationCompletion {
    /// The page is present, with read permission, and perhaps write permission.
    Granted(Translation),
    /// The page is not present: neither read nor write permission.
    NotPresent,
    /// The process is unknown (status Unsupported Request or Completer Abort).
    Refused,
}

/// Result of a Page Request Group Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageResponse {
    /// The translation can be requested again (code 0000b).
    Success,
    /// The access is not allowed (code 0001b).
    InvalidRequest,
    /// There is no memory, or page requests have failed (code 1111b).
    Failure,
}
