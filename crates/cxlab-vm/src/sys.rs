//! Memory that is shared with the plugin, and child processes that do not outlive this process.
//! Both need system calls that the standard library does not offer, and shared memory is raw
//! memory. All `unsafe` code of this crate is here.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Shared words of 64 bits, initially zero. They live as long as this value, whatever the other
/// process does with its own mapping.
pub struct SharedWords {
    file: OwnedFd,
    first: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone and is only reached as atomic words.
unsafe impl Send for SharedWords {}
// SAFETY: as above; atomic words may be used from any thread.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Memory for this many words. Processes started from now on inherit it by its descriptor.
    ///
    /// # Errors
    /// The system's error if there is no memory or no descriptor.
    pub fn new(words: usize) -> io::Result<SharedWords> {
        let bytes = words * size_of::<AtomicU64>();
        // SAFETY: the name is a string with its end; without MFD_CLOEXEC the descriptor is inherited.
        let file = unsafe { libc::memfd_create(c"cxlab".as_ptr(), 0) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: a system call on a descriptor that `file` owns.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file of that length.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(place.cast::<AtomicU64>()) {
            Some(first) if place != libc::MAP_FAILED => Ok(SharedWords { file, first, words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Number of the descriptor.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The words as atomics.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has that many words, is aligned to a page, and lives as long as
        // `self`. Whatever the other process writes is a valid word.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }
}

impl crate::contents::Words for SharedWords {
    fn words(&self) -> &[AtomicU64] {
        SharedWords::words(self)
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let bytes = self.words * size_of::<AtomicU64>();
        // SAFETY: the mapping that `new` made, which nothing refers to any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
    }
}

impl AsRawFd for SharedWords {
    fn as_raw_fd(&self) -> RawFd {
        self.fd()
    }
}

/// Keeps a descriptor from processes that are started from now on.
///
/// # Errors
/// The system's error.
pub fn private(descriptor: &impl AsRawFd) -> io::Result<()> {
    set_flags(descriptor, libc::FD_CLOEXEC)
}

/// Lets processes that are started from now on inherit a descriptor, by its number.
///
/// # Errors
/// The system's error.
pub fn inherited(descriptor: &impl AsRawFd) -> io::Result<()> {
    set_flags(descriptor, 0)
}

fn set_flags(descriptor: &impl AsRawFd, flags: i32) -> io::Result<()> {
    // SAFETY: a system call on a descriptor that is open, because it is borrowed.
    match unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Locks a file for this process alone, until it is closed. Returns false
/// if another process has locked it.
///
/// # Errors
/// The system's error.
pub fn lock(file: &impl AsRawFd) -> io::Result<bool> {
    // SAFETY: a system call on a descriptor that is open, because it is borrowed.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error => Err(error),
        },
    }
}

/// Makes a command end when the thread that starts it ends, for whatever reason.
pub fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only a system call is made, which allocates nothing.
    unsafe {
        command.pre_exec(|| {
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}
