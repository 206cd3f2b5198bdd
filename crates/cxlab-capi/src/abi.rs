//! Constants and structures of the interface.

use std::ffi::{c_char, c_void};

/// Version of the interface: the major number changes where an old program would not work any more. The
/// shared library is called libcxlab.so.MAJOR.
pub const CXLAB_ABI_MAJOR: u32 = 1;
/// The minor number changes where functions or constants are added.
pub const CXLAB_ABI_MINOR: u32 = 1;

/// Time of an event that never comes.
pub const CXLAB_NO_EVENT: u64 = u64::MAX;

/// The function did what it was asked for.
pub const CXLAB_OK: i32 = 0;
/// A pointer is NULL that must not be.
pub const CXLAB_ERROR_NULL: i32 = -1;
/// A handle of no system, or of one that was destroyed.
pub const CXLAB_ERROR_HANDLE: i32 = -2;
/// Another thread, or the function that called a callback, uses the system.
pub const CXLAB_ERROR_BUSY: i32 = -3;
/// A mistake in the scenario or its changes, or a file that cannot be read.
pub const CXLAB_ERROR_SCENARIO: i32 = -4;
/// There is no port of this number or name.
pub const CXLAB_ERROR_PORT: i32 = -5;
/// As many requests wait at the port as it takes (`depth`). Advance time and submit again.
pub const CXLAB_ERROR_FULL: i32 = -6;
/// The port was closed.
pub const CXLAB_ERROR_CLOSED: i32 = -7;
/// A time that has passed, is before an earlier request of the port, or is 2^62 ps or later.
pub const CXLAB_ERROR_TIME: i32 = -8;
/// An address that is not aligned, or outside the memory that the port reaches.
pub const CXLAB_ERROR_ADDRESS: i32 = -9;
/// A number of bytes that is not allowed.
pub const CXLAB_ERROR_SIZE: i32 = -10;
/// None of CXLAB_READ, CXLAB_WRITE and, at ports with `snooped = true`, CXLAB_WRITE_BACK.
pub const CXLAB_ERROR_KIND: i32 = -11;
/// A buffer is too small. The length that is needed was written.
pub const CXLAB_ERROR_SPACE: i32 = -12;
/// There is no statistic of this name, or it is no number.
pub const CXLAB_ERROR_NAME: i32 = -13;
/// The workload of a host does not end by itself.
pub const CXLAB_ERROR_ENDLESS: i32 = -14;
/// A state cannot be saved or restored.
pub const CXLAB_ERROR_STATE: i32 = -15;
/// A text is not UTF-8.
pub const CXLAB_ERROR_TEXT: i32 = -16;
/// CXLAB_MOST_SYSTEMS systems exist.
pub const CXLAB_ERROR_LIMIT: i32 = -17;
/// The program was compiled for another version of the interface.
pub const CXLAB_ERROR_ABI: i32 = -18;
/// A medium from a shared library cannot go on.
pub const CXLAB_ERROR_MEDIUM: i32 = -19;
/// A mistake of cxlab: please report it with the scenario. The system can only be destroyed.
pub const CXLAB_ERROR_INTERNAL: i32 = -20;
/// There is no unanswered snoop of this number. Since 1.1.
pub const CXLAB_ERROR_SNOOP: i32 = -21;

/// The request reads.
pub const CXLAB_READ: u32 = 0;
/// The request writes. When it has completed at a port with `snooped = true`, the program's caches may change the
/// lines as well.
pub const CXLAB_WRITE: u32 = 1;
/// The program's caches give changed lines up, at a port with `snooped = true`. Since 1.1.
pub const CXLAB_WRITE_BACK: u32 = 2;

/// Data came, or the write is done. At a port with `snooped = true`, the program's caches may keep and change the
/// lines of the request.
pub const CXLAB_SERVED: u32 = 0;
/// The device has no decoder for the address.
pub const CXLAB_DENIED: u32 = 1;
/// The data are corrupted.
pub const CXLAB_POISONED: u32 = 2;
/// No path leads to the device.
pub const CXLAB_CUT_OFF: u32 = 3;
/// No response came in time.
pub const CXLAB_TIMED_OUT: u32 = 4;
/// Data came at a port with `snooped = true`. The program's caches may keep the lines. To change them, they need a
/// CXLAB_WRITE. Since 1.1.
pub const CXLAB_SHARED: u32 = 5;

/// Most systems of a process at a time.
pub const CXLAB_MOST_SYSTEMS: u32 = 256;

/// A system. 0 is none.
pub type cxlab_system = u64;

/// What a system is made of. Set all other members to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cxlab_options {
    /// Size of this structure, sizeof(struct cxlab_options), which tells versions apart.
    pub bytes: usize,
    /// A scenario file, or NULL.
    pub path: *const c_char,
    /// The text of a scenario, or NULL. Exactly one of `path` and `text` is given.
    pub text: *const c_char,
    /// With `text`: the folder of relative paths in the scenario. NULL is the current folder.
    pub folder: *const c_char,
    /// Changes of the scenario, each `path.to.key=value` as for `cxlab run --set`.
    pub set: *const *const c_char,
    /// Number of changes.
    pub set_count: usize,
    /// The seed; NULL for that of the scenario.
    pub seed: *const u64,
    /// 1 for a system that can be saved and restored. What happens to threads of kernels is recorded for it.
    pub can_save: u32,
}

/// Limits and memory of a port.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct cxlab_port_info {
    /// Memory that the port reaches: addresses from 0 up to this number of bytes.
    pub memory_bytes: u64,
    /// Bytes of a line, 64. Addresses and sizes of requests are multiples of it.
    pub line_bytes: u32,
    /// Most bytes of a request.
    pub most_bytes: u32,
    /// Most requests that wait at the port.
    pub depth: u32,
    /// Most lines that the host of the port has in flight.
    pub outstanding: u32,
}

/// A request that has completed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct cxlab_completed {
    /// As in cxlab_submit.
    pub id: u64,
    /// When the request was issued, in picoseconds.
    pub issued: u64,
    /// When the request completed, in picoseconds.
    pub completed: u64,
    /// Number of the port at which the request was submitted.
    pub port: u32,
    /// CXLAB_SERVED or CXLAB_SHARED, or how the request failed.
    pub outcome: u32,
}

/// A snoop of the program's caches above a port with `snooped = true`. Since 1.1.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct cxlab_snoop {
    /// Number of the snoop at its port, for cxlab_answer_snoop.
    pub id: u64,
    /// First byte of the line, as in cxlab_submit.
    pub address: u64,
    /// When the snoop comes, in picoseconds: after the requests that completed at this time or before.
    pub time: u64,
    /// Number of the port.
    pub port: u32,
    /// 1 if the caches give the line up; 0 if they may keep it, but change it no more.
    pub invalidate: u32,
}

/// Is called with each completed request. It must return, must not throw, and must not use the system: such
/// calls return CXLAB_ERROR_BUSY.
pub type cxlab_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, completed: *const cxlab_completed)>;
