//! Memory that is shared with the plugin, and child processes that do not outlive this process.
//! Both need system calls that the standard library does not offer, and shared memory is raw
//! memory. All `unsafe` code of this crate is here.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};

/// Shared words of 64 bits, initially zero. They live as long as this value, whatever the other
/// process does with its own mapping.
pub struct SharedWords {
    file: File,
    memory: MmapRaw,
}

impl SharedWords {
    /// Memory for this many words. Processes started from now on inherit it by its descriptor.
    pub fn new(words: usize) -> io::Result<SharedWords> {
        let bytes = words * size_of::<AtomicU64>();
        // SAFETY: the name is a string with its end; without MFD_CLOEXEC the descriptor is inherited.
        let file = unsafe { libc::memfd_create(c"cxlab".as_ptr(), 0) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { File::from_raw_fd(file) };
        file.set_len(bytes as u64)?;
        let memory = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok(SharedWords { file, memory })
    }

    /// Number of the descriptor.
    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The words as atomics.
    pub fn words(&self) -> &[AtomicU64] {
        let (first, words) = (self.memory.as_mut_ptr(), self.memory.len() / 8);
        // SAFETY: the mapping has that many words, is aligned to a page, and lives as long as
        // `self`. Whatever the other process writes is a valid word.
        unsafe { std::slice::from_raw_parts(first.cast(), words) }
    }
}

impl crate::contents::Words for SharedWords {
    fn words(&self) -> &[AtomicU64] {
        SharedWords::words(self)
    }
}

impl AsRawFd for SharedWords {
    fn as_raw_fd(&self) -> RawFd {
        self.fd()
    }
}

/// Keeps a descriptor from processes that are started from now on.
pub fn private(descriptor: &impl AsRawFd) -> io::Result<()> {
    set_flags(descriptor, libc::FD_CLOEXEC)
}

/// Lets processes that are started from now on inherit a descriptor, by its number.
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
