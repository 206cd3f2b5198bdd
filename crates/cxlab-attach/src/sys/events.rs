//! Events of `perf_event_open`: counters and breakpoints of a thread.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use cxlab_perf::{Attr, flag, kind};

use super::{Tid, checked};

/// Opens an event of a thread. `words` are a `struct perf_event_attr`.
fn open_words(words: &[u64; 16], tid: Tid) -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_ulong = 8;
    const NONE: i32 = -1;
    // SAFETY: `words` are as long as they say, and the kernel checks their content.
    let result = unsafe {
        let (call, attr) = (libc::SYS_perf_event_open, words.as_ptr());
        libc::syscall(call, attr, tid, NONE, NONE, CLOEXEC)
    };
    let fd = checked(result)? as RawFd;
    // SAFETY: the kernel has just opened it, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens an event of a thread.
pub(super) fn open_event(attr: &Attr, tid: Tid) -> io::Result<OwnedFd> {
    open_words(&words(attr), tid)
}

/// The `perf_event_attr` of an event as words.
fn words(attr: &Attr) -> [u64; 16] {
    let bytes = attr.write();
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
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
        const BREAKPOINT: u32 = 5;
        const TOTAL_TIME_ENABLED: u64 = 1;
        const READ_OR_WRITE: u64 = 3;
        let attr = Attr {
            sample_period: 1,
            read_format: TOTAL_TIME_ENABLED,
            config1: address & !7,
            ..Attr::of_user(BREAKPOINT, 0).with(flag::DISABLED)
        };
        let mut words = words(&attr);
        // `bp_type` and `bp_len`, which no other event has.
        words[6] = READ_OR_WRITE << 32;
        words[8] = 8;
        let event = open_words(&words, tid)?;
        // PERF_EVENT_IOC_REFRESH: it is on for one touch. The kernel then turns it off.
        const REFRESH: libc::c_ulong = 0x2402;
        // SAFETY: the call changes nothing of this process.
        let result = unsafe { libc::ioctl(event.as_raw_fd(), REFRESH, 1) };
        checked(libc::c_long::from(result)).map(|_| Breakpoint(event))
    }

    /// Sets a breakpoint on memory of this process, and removes it.
    pub fn probe() -> io::Result<()> {
        let word = 0u64;
        Breakpoint::set(0, (&raw const word) as u64).map(drop)
    }

    /// CPU time of the thread until it touched the bytes, or until now, in nanoseconds, and whether it touched
    /// the bytes at all.
    pub fn read(&self) -> io::Result<(u64, bool)> {
        let [count, ns] = read_event(&self.0)?;
        Ok((ns, count > 0))
    }
}

/// An event that counts nothing. The first event of a thread on a machine takes the kernel some milliseconds, and so
/// does the next one a second after the last was closed; while this one is open, none does.
pub struct NoEvent(#[expect(dead_code, reason = "it is kept open")] OwnedFd);

impl NoEvent {
    /// Opens the event in this thread.
    pub fn open() -> io::Result<NoEvent> {
        const DUMMY: u64 = 9;
        let attr = Attr::of_user(kind::SOFTWARE, DUMMY).with(flag::DISABLED);
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
