//! Why a session refuses a call.

use cxlab_engine::units::{Bytes, SimTime};

use super::{END_OF_TIME, MOST_LINES};

/// Why a session refuses a call. The session is as it was before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SessionError {
    /// There is no port with this number.
    Port {
        /// The number that was given.
        found: usize,
        /// How many ports there are.
        known: usize,
    },
    /// A time that has passed, or that is too far in the future.
    Time {
        /// The time that was given.
        found: SimTime,
        /// The earliest time that is allowed.
        earliest: SimTime,
    },
    /// A number of bytes that a request may not have.
    Size(u64),
    /// Bytes that are not aligned, or not in the memory that the port reaches.
    Address {
        /// The first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
        /// Size of the memory.
        span: Bytes,
    },
    /// Bytes to be read or written that are not in the memory that the port reaches.
    Bytes {
        /// The first byte.
        address: u64,
        /// Number of bytes.
        size: u64,
        /// Size of the memory.
        span: Bytes,
    },
    /// As many requests wait at the port as it takes.
    Full,
    /// The port was closed.
    Closed,
    /// A write-back at a port whose program has no caches.
    WriteBack,
    /// There is no unanswered snoop of this number.
    Snoop {
        /// The number that was given.
        found: u64,
        /// Number of snoops that were not answered.
        unanswered: usize,
    },
    /// The host of this name has a workload that does not end by itself.
    Endless(String),
    /// A medium from a shared library cannot continue.
    Fault(String),
}

impl std::fmt::Display for SessionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SessionError::Port { found, known: 0 } => write!(
                f,
                "port: found {found}; the scenario has no host of kind \"external\""
            ),
            SessionError::Port { found, known } => {
                write!(f, "port: found {found}; allowed: 0 to {}", known - 1)
            }
            SessionError::Time { found, earliest } => write!(
                f,
                "time: found {} ps; allowed: {} ps to {} ps",
                found.0,
                earliest.0,
                END_OF_TIME.0 - 1
            ),
            SessionError::Size(found) => write!(
                f,
                "size: found {found} B; allowed: multiples of 64 B, 64 B to {} B",
                MOST_LINES * 64
            ),
            SessionError::Address {
                address,
                size,
                span,
            } => write!(
                f,
                "address: found {address:#x} with {size} B; allowed: multiples of 64 B within the {span} that the \
                 port reaches"
            ),
            SessionError::Bytes {
                address,
                size,
                span,
            } => write!(
                f,
                "address: found {address:#x} with {size} B; allowed: bytes within the {span} that the port reaches"
            ),
            SessionError::Full => f.write_str(
                "port: found no room for another request; allowed: after requests were issued",
            ),
            SessionError::Closed => {
                f.write_str("port: found a closed port; allowed: requests before it is closed")
            }
            SessionError::WriteBack => f.write_str(
                "kind: found a write-back at a port that is not snooped; allowed: with `snooped = true` in the \
                 scenario",
            ),
            SessionError::Snoop { found, unanswered } => write!(
                f,
                "snoop: found {found}; allowed: the number of one of the {unanswered} snoops that were not answered"
            ),
            SessionError::Endless(host) => write!(
                f,
                "found a workload of `{host}` that does not end; allowed: workloads that end, or a time to advance to"
            ),
            SessionError::Fault(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for SessionError {}
