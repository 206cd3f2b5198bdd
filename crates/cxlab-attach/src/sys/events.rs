//! Events of `perf_event_open`: counters and breakpoints of a thread.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Tid, checked};

/// Flags of an event that is of user space alone: not of the kernel, and not of a hypervisor.
const USER_SPACE: u64 = 1 << 5 | 1 << 6;

/// Opens an event of a thread. `attr` is a `struct perf_event_attr`.
pub(super) fn open_event(attr: &[u64; 16], tid: Tid) -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_ulong = 8;
    // SAFETY: `attr` is as long as it says, and the kernel checks its content.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_ptr(),
            tid,
            -1,
            -1,
            CLOEXEC,
        )
    };
    let fd = checked(result)? as RawFd;
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A breakpoint of the processor on eight bytes of a thread's memory, until the thread touches them.
#[derive(Debug)]
pub struct Breakpoint(OwnedFd);

impl Breakpoint {
    /// Sets a breakpoint on the eight bytes that an address is in.
    ///
    /// # Errors
    /// The kernel's error: `ENOSPC` where the processor has no breakpoint left, `EACCES` or `EPERM` where
    /// this process may not open events.
    pub fn set(tid: Tid, address: u64) -> io::Result<Breakpoint> {
        const BREAKPOINT: u64 = 5;
        const DISABLED: u64 = 1;
        const READ_OR_WRITE: u64 = 3;
        // struct perf_event_attr, PERF_ATTR_SIZE_VER7 (128 bytes).
        let mut attr = [0u64; 16];
        attr[0] = BREAKPOINT | 128 << 32;
        // A period of one, and PERF_FORMAT_TOTAL_TIME_ENABLED.
        attr[2] = 1;
        attr[4] = 1;
        attr[5] = DISABLED | USER_SPACE;
        attr[6] = READ_OR_WRITE << 32;
        attr[7] = address & !7;
        attr[8] = 8;
        let event = open_event(&attr, tid)?;
        // PERF_EVENT_IOC_REFRESH: it is on for one touch. The kernel then turns it off.
        const REFRESH: libc::c_ulong = 0x2402;
        // SAFETY: the call changes nothing of this process.
        let result = unsafe { libc::ioctl(event.as_raw_fd(), REFRESH, 1) };
        checked(libc::c_long::from(result)).map(|_| Breakpoint(event))
    }

    /// Sets a breakpoint on memory of this process, and removes it.
    ///
    /// # Errors
    /// The kernel's error where it refuses breakpoints.
    pub fn probe() -> io::Result<()> {
        let word = 0u64;
        Breakpoint::set(0, (&raw const word) as u64).map(drop)
    }

    /// CPU time of the thread until it touched the bytes, or until now, in nanoseconds, and whether it touched
    /// the bytes at all.
    ///
    /// # Errors
    /// The kernel's error if the event cannot be read.
    pub fn read(&self) -> io::Result<(u64, bool)> {
        let [count, ns] = read_event(&self.0)?;
        Ok((ns, count > 0))
    }
}

/// An event that counts nothing. The first event of a thread on a machine takes the kernel some milliseconds, and so
/// does the next one a second after the last was closed; while this one is open, none does.
pub struct NoEvent(#[expect(dead_code, reason = "it is kept open")] OwnedFd);

impl NoEvent {
    /// Opens it, in this thread.
    ///
    /// # Errors
    /// The kernel's error where it refuses events.
    pub fn open() -> io::Result<NoEvent> {
        const SOFTWARE: u64 = 1;
        const DUMMY: u64 = 9;
        const DISABLED: u64 = 1;
        let mut attr = [0u64; 16];
        attr[0] = SOFTWARE | 128 << 32;
        attr[1] = DUMMY;
        attr[5] = DISABLED | USER_SPACE;
        open_event(&attr, 0).map(NoEvent)
    }
}

/// Reads the values of an event: its count, and the times that it was opened for.
pub(super) fn read_event<const VALUES: usize>(event: &OwnedFd) -> io::Result<[u64; VALUES]> {
    let mut values = [0u64; VALUES];
    let bytes = std::mem::size_of_val(&values);
    // SAFETY: `values` has the bytes that are read.
    let result = unsafe { libc::read(event.as_raw_fd(), values.as_mut_ptr().cast(), bytes) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        count if count as usize == bytes => Ok(values),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A breakpoint sees the first touch behind it, in the eight bytes alone, and the time until then.
    #[test]
    fn a_breakpoint_tells_when_memory_is_touched() {
        let words = [const { std::sync::atomic::AtomicU64::new(0) }; 3];
        let touch = |word: usize| words[word].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let breakpoint = match Breakpoint::set(0, words[1].as_ptr() as u64 + 3) {
            Ok(breakpoint) => breakpoint,
            Err(error) => {
                println!("skipped: breakpoints are refused here ({error})");
                return;
            }
        };
        touch(0);
        touch(2);
        let (before, touched) = breakpoint.read().unwrap();
        assert!(!touched);
        touch(1);
        let (at, touched) = breakpoint.read().unwrap();
        assert!(touched && at >= before, "{before} {at}");
        touch(1);
        assert_eq!(breakpoint.read().unwrap(), (at, true));
    }
}
