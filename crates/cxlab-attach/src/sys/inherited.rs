//! What this process inherited from its parent and a language's runtime changes: closed standard
//! streams, ignored signals, and blocked signals. One bit stands for a descriptor or a signal.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::LAST_SIGNAL;

static CLOSED: AtomicU32 = AtomicU32::new(0);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// The loader calls it before `main`: Rust's runtime opens `/dev/null` for closed standard
/// streams, and ignores SIGPIPE.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = remember;

extern "C" fn remember() {
    let (mut closed, mut ignored, mut blocked) = (0, 0, 0);
    // SAFETY: the structures are of plain numbers and valid places for the results; all calls
    // only ask.
    unsafe {
        for fd in 0..3 {
            if libc::fcntl(fd, libc::F_GETFD) == -1 {
                closed |= 1 << fd;
            }
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
        for signal in 1..=LAST_SIGNAL {
            let mut action: libc::sigaction = std::mem::zeroed();
            let asked = libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
                ignored |= 1 << (signal - 1);
            }
            if libc::sigismember(&raw const set, signal) == 1 {
                blocked |= 1 << (signal - 1);
            }
        }
    }
    // Python ignores these two before it loads this library, and no shell ignores both.
    let by_python = 1 << (libc::SIGPIPE - 1) | 1 << (libc::SIGXFSZ - 1);
    if ignored & by_python == by_python {
        ignored &= !by_python;
    }
    CLOSED.store(closed, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(blocked, Ordering::Relaxed);
}

/// Makes streams, dispositions and mask of this process those that were inherited.
pub(super) fn restore() {
    let (ignored, blocked) = (
        IGNORED.load(Ordering::Relaxed),
        BLOCKED.load(Ordering::Relaxed),
    );
    let is_in = |bits: u64, signal: i32| bits & 1 << (signal - 1) != 0;
    for signal in 1..=LAST_SIGNAL {
        let disposition = match is_in(ignored, signal) {
            true => libc::SIG_IGN,
            false => libc::SIG_DFL,
        };
        // SAFETY: neither disposition has a handler; a refusal changes nothing.
        unsafe { libc::signal(signal, disposition) };
    }
    let blocked: Vec<i32> = (1..=LAST_SIGNAL)
        .filter(|signal| is_in(blocked, *signal))
        .collect();
    let set = super::set_of(&blocked);
    // SAFETY: the set is initialised. The descriptors are standard streams, which nothing in
    // this process owns.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        for fd in (0..3).filter(|fd| CLOSED.load(Ordering::Relaxed) & 1 << fd != 0) {
            libc::close(fd);
        }
    }
}
