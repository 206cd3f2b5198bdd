//! The system calls that attaching needs, each behind a function that is safe to call. All `unsafe`
//! of this crate is here.

#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// The number of a thread or process.
pub type Tid = i32;

/// The registers of a thread.
#[cfg(target_arch = "x86_64")]
pub type Registers = libc::user_regs_struct;

/// What `wait` told of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It ended with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
    /// It stopped before this signal is delivered.
    Signal(i32),
    /// It stopped because of an event of ptrace, with this signal.
    Event(i32, i32),
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn decode(status: i32) -> Status {
    if libc::WIFEXITED(status) {
        Status::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Status::Killed(libc::WTERMSIG(status))
    } else {
        match status >> 16 {
            0 => Status::Signal(libc::WSTOPSIG(status)),
            event => Status::Event(event, libc::WSTOPSIG(status)),
        }
    }
}

/// News of `tid`, or of any thread with -1. `None` when there is none and `block` is false.
///
/// # Errors
/// `ECHILD` when nothing is left to wait for.
pub fn wait(tid: Tid, block: bool) -> io::Result<Option<(Tid, Status)>> {
    let mut status = 0;
    let flags = libc::__WALL | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: `status` is a valid place for the result.
        match unsafe { libc::waitpid(tid, &raw mut status, flags) } {
            0 => return Ok(None),
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            found => return Ok(Some((found, decode(status)))),
        }
    }
}

/// What a thread that was stopped does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Runs on, with this signal (0 for none).
    Continue(i32),
    /// Executes one instruction.
    Step,
    /// Stays stopped, as the program's own stop signals ask for.
    Listen,
}

fn ptrace(request: libc::c_uint, tid: Tid, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the requests made here take numbers only, and change no memory of ours.
    checked(unsafe { libc::ptrace(request, tid, 0usize, data) })
}

/// Begins to trace a thread, without stopping it; what it starts is traced too, and it stops
/// before it ends. When we end, whatever way, the kernel lets it run on.
///
/// # Errors
/// `EPERM` where it is not ours to trace or traced by another, `ESRCH` where it is gone.
pub fn seize(tid: Tid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    ptrace(libc::PTRACE_SEIZE, tid, options as usize).map(drop)
}

/// Asks a running thread to stop; it does so with an event.
///
/// # Errors
/// `ESRCH` where it is gone.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0).map(drop)
}

/// Lets a stopped thread go on.
///
/// # Errors
/// `ESRCH` where it is gone or not stopped.
pub fn resume(tid: Tid, how: Resume) -> io::Result<()> {
    let (request, signal) = match how {
        Resume::Continue(signal) => (libc::PTRACE_CONT, signal),
        Resume::Step => (libc::PTRACE_SINGLESTEP, 0),
        Resume::Listen => (libc::PTRACE_LISTEN, 0),
    };
    ptrace(request, tid, signal as usize).map(drop)
}

/// The thread that an event is about.
///
/// # Errors
/// `ESRCH` where the traced thread is gone.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: `message` is a valid place for the result.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            tid,
            0usize,
            &raw mut message as usize,
        )
    };
    checked(result).map(|_| message)
}

/// Registers that are all zero.
#[cfg(target_arch = "x86_64")]
pub fn registers_blank() -> Registers {
    // SAFETY: the structure is of plain numbers, so zeroes are a value of it.
    unsafe { std::mem::zeroed() }
}

/// The registers of a stopped thread.
///
/// # Errors
/// `ESRCH` where it is gone or not stopped.
#[cfg(target_arch = "x86_64")]
pub fn registers(tid: Tid) -> io::Result<Registers> {
    let mut registers = registers_blank();
    // SAFETY: `registers` is a valid place for the result.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGS,
            tid,
            0usize,
            &raw mut registers as usize,
        )
    };
    checked(result).map(|_| registers)
}

/// Reads memory of another process; how many bytes could be read.
///
/// # Errors
/// Where none can.
pub fn read_memory(tid: Tid, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: address as usize as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: `local` is all of `buffer`; `remote` is another process's and checked by the kernel.
    let result =
        unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    checked(result as libc::c_long).map(|count| count as usize)
}

/// Blocks these signals, so that [`wait_signal`] can take them one by one.
pub fn block_signals(signals: &[i32]) {
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Waits for one of these signals, which are blocked; `None` after `timeout`.
pub fn wait_signal(signals: &[i32], timeout: Duration) -> Option<i32> {
    let spec = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the set is initialised by sigemptyset before it is used; a null pointer for the
    // details of the signal is allowed.
    let found = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const spec)
    };
    (found > 0).then_some(found)
}

/// Sends a signal to a process.
///
/// # Errors
/// Where it is gone or not ours.
pub fn kill(pid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    checked(libc::c_long::from(unsafe { libc::kill(pid, signal) })).map(drop)
}

/// Asks the kernel for a signal when the parent ends, and takes a name that `killall` of the
/// command's does not mean.
pub fn become_guard() {
    // SAFETY: PR_SET_PDEATHSIG takes a number, PR_SET_NAME a text that ends with a zero and is at
    // most 16 bytes.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        libc::prctl(libc::PR_SET_NAME, c"attach-guard".as_ptr());
    }
}

/// Asks to run before other programs, where that is allowed: who holds a thread must let it go on
/// time. What we start does not inherit it.
pub fn run_first() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: `priority` is a valid parameter of the policy; a refusal changes nothing.
    unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_RR | libc::SCHED_RESET_ON_FORK,
            &raw const priority,
        ) == 0
    }
}

/// Runs this thread on that processor alone, or, with `None`, on all that it may run on. A refusal changes
/// nothing.
pub fn stay_on(processor: Option<usize>) {
    // SAFETY: a set of plain bits is valid when zero; `CPU_SET` takes numbers below the size of the set, and
    // the kernel takes those of the set that it has.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let all = 0..libc::CPU_SETSIZE as usize;
        all.filter(|number| processor.is_none_or(|one| one == *number))
            .for_each(|number| libc::CPU_SET(number, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// The process that started this one.
pub fn parent() -> Tid {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::getppid() }
}

/// This process.
pub fn own() -> Tid {
    std::process::id() as Tid
}

/// Whether we are root.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// Two ends of a pipe: to read and to write. A program that is started does not get them.
///
/// # Errors
/// Where no more files can be opened.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    // SAFETY: `ends` has room for both.
    checked(libc::c_long::from(unsafe {
        libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC)
    }))?;
    // SAFETY: the kernel has just opened both for us alone.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// A second process that goes on with `child` and never returns from it. Call it only while this
/// process has no other threads, as only the calling one goes on in the second.
///
/// # Errors
/// Where no process can be made.
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<Tid> {
    // SAFETY: there are no other threads that could hold a lock.
    match checked(libc::c_long::from(unsafe { libc::fork() }))? {
        0 => {
            let code = child();
            // SAFETY: ends the process without running what the parent registered.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid as Tid),
    }
}

/// What a new process runs.
pub struct Program {
    words: Vec<CString>,
}

impl Program {
    /// A command and its arguments.
    ///
    /// # Errors
    /// Where a word has a zero byte, or there is none.
    pub fn new(words: &[OsString]) -> io::Result<Program> {
        let words: Result<Vec<CString>, _> = words
            .iter()
            .map(|word| CString::new(word.as_bytes()))
            .collect();
        let words = words.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        match words.is_empty() {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(Program { words }),
        }
    }

    /// Becomes the program, with no signal blocked. Returns only where that fails.
    pub fn become_it(&self) -> io::Error {
        let mut pointers: Vec<*const libc::c_char> =
            self.words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // SAFETY: the words live until the call, and the list ends with a null pointer.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            // Rust ignores it for itself; programs expect the default.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::execvp(pointers[0], pointers.as_ptr());
        }
        io::Error::last_os_error()
    }
}

/// Opens a counter of a thread's own instructions in user space: attribute type and configuration
/// as of `perf_event_open`. `sigtrap` asks for a signal every so many counts, `precise` for an
/// exact address.
///
/// # Errors
/// What the kernel says.
pub fn open_counter(
    tid: Tid,
    (kind, config): (u32, u64),
    period: Option<u64>,
    precise: bool,
    sigtrap: bool,
) -> io::Result<OwnedFd> {
    // struct perf_event_attr, PERF_ATTR_SIZE_VER7 (128 bytes).
    let mut attr = [0u64; 16];
    attr[0] = u64::from(kind) | 128 << 32;
    attr[1] = config;
    attr[2] = period.unwrap_or(0);
    // sample_type: PERF_SAMPLE_IP.
    attr[3] = u64::from(period.is_some());
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HV: u64 = 1 << 6;
    const PRECISE_SHIFT: u32 = 15;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGTRAP: u64 = 1 << 37;
    attr[5] = EXCLUDE_KERNEL | EXCLUDE_HV | if precise { 2 << PRECISE_SHIFT } else { 0 };
    if sigtrap {
        attr[5] |= SIGTRAP | REMOVE_ON_EXEC;
    }
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
    // SAFETY: the kernel has just opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The count of a counter.
///
/// # Errors
/// Where it cannot be read.
pub fn read_counter(counter: &OwnedFd) -> io::Result<u64> {
    let mut count = 0u64;
    // SAFETY: `count` has the eight bytes that are read.
    let result = unsafe { libc::read(counter.as_raw_fd(), (&raw mut count).cast(), 8) };
    match result {
        8 => Ok(count),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Whether the kernel lets us load an eBPF program: asked with an empty one, which it refuses as
/// wrong (allowed) or as not permitted.
pub fn may_load_ebpf() -> Result<(), io::Error> {
    let attr = [0u64; 16];
    const PROG_LOAD: libc::c_ulong = 5;
    // SAFETY: `attr` is as long as it says, and the kernel checks its content.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, attr.as_ptr(), 128) };
    match checked(result) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::E2BIG)) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// Memory of our own, in large pages where `large`, touched.
pub struct Block {
    start: *mut u64,
    bytes: usize,
}

impl Block {
    /// So many bytes; `None` where there are not so many.
    pub fn new(bytes: usize, large: bool) -> Option<Block> {
        // SAFETY: a new mapping of our own; advice on all of it; nothing else has it.
        unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if start == libc::MAP_FAILED {
                return None;
            }
            let advice = match large {
                true => libc::MADV_HUGEPAGE,
                false => libc::MADV_NOHUGEPAGE,
            };
            // Where it is refused, pages are small, and that is measured then.
            libc::madvise(start, bytes, advice);
            Some(Block {
                start: start.cast(),
                bytes,
            })
        }
    }

    /// Its words.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is ours alone, readable and writable, of so many bytes, and aligned
        // to a page; it lives as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes / 8) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it is the mapping that `new` made, and no slice of it is left.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
