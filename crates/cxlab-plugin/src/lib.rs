//! Memory backends from shared libraries, through the C interface of `include/cxlab_medium.h`.
//!
//! A [`Medium`] runs in a process of its own. A library that crashes, exits or never returns
//! therefore ends only that process, and the error names the function in which that happened.
//! [`MediumProcess::Here`] loads the library into this process instead, which is faster, and only as safe
//! as the library. The caller checks the values that a medium returns.
//!
//! A library runs only with the user's permission: see [`trust`].
//!
//! All `unsafe` code of cxlab for libraries is in this crate. One thing cannot be checked: that the
//! library's functions are as the header declares them.

pub mod trust;

use std::time::Duration;

cfg_if::cfg_if! {
    if #[cfg(unix)] {
        mod library;
        mod medium;
        mod process;
        mod ring;
        mod serve;

        pub use medium::Medium;
        pub use process::{Host, host};
        pub use serve::serve;
    } else {
        mod unsupported;

        pub use unsupported::{Host, Medium, host, serve};
    }
}

/// Version of the interface, `CXLAB_MEDIUM_ABI` in the header.
pub const ABI: u32 = 2;

/// The time of an event that never happens, `CXLAB_NEVER` in the header.
pub const NEVER: u64 = u64::MAX;

/// A read or write request to a medium, `struct cxlab_request` of the header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Address of the first byte, counted from the beginning of the device.
    pub address: u64,
    /// Identifier of the request, which its completion returns.
    pub id: u32,
    /// Number of lines of 64 bytes, 1 to 1,024.
    pub lines: u16,
    /// 1 for a write, 0 for a read.
    pub write: u16,
}

/// The completion of a request, `struct cxlab_completion` of the header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Completion {
    /// Time of completion in picoseconds.
    pub at: u64,
    /// Identifier of the completed request.
    pub id: u32,
    /// Unused, always 0.
    pub reserved: u32,
}

/// Why a library or one of its media cannot be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Debug)]
pub enum PluginError {
    /// The library cannot be loaded, or does not have this interface.
    #[error("{0}")]
    Library(String),
    /// The library rejects the configuration.
    #[error("{0}")]
    Config(String),
}

/// The error of a medium that failed while in use: in which function, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediumFailure(pub String);

/// The process in which the code of a medium runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumProcess {
    /// In the calling process.
    Here,
    /// In a process of its own, in which every call must return within this real time.
    Apart(Duration),
}

/// Most completions that a library can return from one call.
pub const ROOM: usize = 64;
