//! The synchronisation types of the executor. `tests/interleavings.rs` compiles
//! [`barrier`](super::barrier) and [`exchange`](super::exchange) a second time with loom's types in
//! place of these.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, PoisonError};
