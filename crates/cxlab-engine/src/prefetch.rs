//! Prefetch instructions. The events and components of large systems do not fit the caches, but the
//! executor knows the next events in advance.

use std::mem::MaybeUninit;

/// Size of a cache line in bytes.
pub const CACHE_LINE: usize = 64;

/// Largest number of bytes that [`prefetch()`] fetches of a value.
const REACH: usize = 256;

/// Begins to fetch the first 256 bytes of a value, or all of a smaller one, into the caches.
///
/// The program's result does not depend on it. On processors other than x86-64 the function does nothing.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_first::<REACH, T>(value);
}

/// Like [`prefetch()`], for the first `BYTES` bytes of a value.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch_first<const BYTES: usize, T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64 processor, and a prefetch of any address, let alone
    // that of a live reference, neither faults nor reads or writes for the program.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        let mut offset = 0;
        while offset < size_of_val(value) && offset < BYTES {
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset));
            offset += CACHE_LINE;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Begins to fetch memory that will be written into the caches, in exclusive state. The program's result
/// does not depend on it.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch_to_write<T>(place: &MaybeUninit<T>) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(CACHE_LINE) {
        let line = place.as_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: a prefetch of any address neither faults nor reads or writes for the program; a
        // processor of this architecture without this one does nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
