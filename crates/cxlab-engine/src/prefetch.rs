//! Hints to the processor. In large systems the events and components in use do not fit the
//! caches, but which come next is known one or two events ahead.

use std::mem::MaybeUninit;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// How many bytes of a value are fetched at most.
const REACH: usize = 256;

/// Begins to fetch the start of a value, 256 bytes at most, into the caches; changes nothing else.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    prefetch_first::<REACH, T>(value);
}

/// The same for so many bytes at most.
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

/// Begins to take memory that will be written from the other processors that have it; changes nothing else.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn prefetch_to_write<T>(place: &MaybeUninit<T>) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(CACHE_LINE) {
        let line = place.as_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: a prefetch of any address neither faults nor reads or writes for the program; a processor of
        // this architecture without this one does nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
