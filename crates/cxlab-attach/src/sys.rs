//! System calls for attaching, each behind a function that is safe to call. All `unsafe` code of
//! this crate is here. A request for a traced thread fails with `ESRCH` if the thread is gone, or is not
//! stopped although the request needs that.

#![allow(unsafe_code)]

mod events;
mod inherited;
mod ring;

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use memmap2::{Advice, MmapMut};
use serde::{Deserialize, Serialize};

pub use events::{Breakpoint, NoEvent};
pub use ring::{Counter, Ring};

/// Number of a thread or process.
pub type Tid = i32;

/// Registers of a thread.
pub type Registers = libc::user_regs_struct;

/// State of a thread that `wait` reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The thread ended with this code.
    Exited(i32),
    /// This signal killed the thread.
    Killed(i32),
    /// The thread stopped before this signal is delivered.
    Signal(i32),
    /// The thread stopped at this ptrace event, with this signal.
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

/// Waits for an event of `tid`, or of any thread with -1. `None` if there is none and `block` is false.
///
/// # Errors
/// `ECHILD` if there is no thread to wait for.
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

/// How a stopped thread resumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// Runs on, with this signal (0 for none).
    Continue(i32),
    /// Executes one instruction.
    Step,
    /// Stays stopped, as the program's own stop signals require.
    Listen,
}

fn ptrace(request: libc::c_uint, tid: Tid, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: the requests made here take numbers, or the place of a value of their type.
    checked(unsafe { libc::ptrace(request, tid, 0usize, data) })
}

/// Begins to trace a thread without stopping it. Threads and processes that it starts are traced too, and it stops
/// before it ends. When this process ends, for whatever reason, the kernel lets the thread run on.
///
/// # Errors
/// `EPERM` if tracing is not permitted or another process traces the thread.
pub fn seize(tid: Tid) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT;
    ptrace(libc::PTRACE_SEIZE, tid, options as usize).map(drop)
}

/// Asks a running thread to stop, which the thread does with an event.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0).map(drop)
}

/// Resumes a stopped thread.
pub fn resume(tid: Tid, how: Resume) -> io::Result<()> {
    let (request, signal) = match how {
        Resume::Continue(signal) => (libc::PTRACE_CONT, signal),
        Resume::Step => (libc::PTRACE_SINGLESTEP, 0),
        Resume::Listen => (libc::PTRACE_LISTEN, 0),
    };
    ptrace(request, tid, signal as usize).map(drop)
}

/// A value of plain numbers, all zero.
fn zeroed<T: Copy>() -> T {
    // SAFETY: it is used for the kernel's structures of plain numbers, of which zeroes are a value.
    unsafe { std::mem::zeroed() }
}

/// The value that a ptrace request returns for a thread.
fn ptrace_value<T: Copy>(request: libc::c_uint, tid: Tid) -> io::Result<T> {
    let mut value = zeroed::<T>();
    ptrace(request, tid, &raw mut value as usize).map(|_| value)
}

/// The number of the thread that an event is about.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    ptrace_value::<libc::c_ulong>(libc::PTRACE_GETEVENTMSG, tid)
}

/// Registers that are all zero.
#[cfg(test)]
pub fn registers_blank() -> Registers {
    zeroed()
}

/// Reads the registers of a stopped thread.
pub fn registers(tid: Tid) -> io::Result<Registers> {
    ptrace_value(libc::PTRACE_GETREGS, tid)
}

/// Reads memory of another process, and returns how many bytes could be read.
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

/// Number of the last signal.
const LAST_SIGNAL: i32 = 64;

/// A set of these signals.
fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set: libc::sigset_t = zeroed();
    // SAFETY: the set is initialised by sigemptyset before it is used.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
    }
    set
}

/// Blocks these signals, so that [`wait_signal`] can receive them one at a time.
pub fn block_signals(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: the set is initialised, and the former one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

/// A signal that was sent to this process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct SentSignal {
    /// Number of the signal.
    pub signal: i32,
    /// Process that sent the signal; 0 if the kernel did, for example for a key of the terminal.
    pub sender: Tid,
}

impl SentSignal {
    fn new(info: &libc::siginfo_t) -> SentSignal {
        SentSignal {
            signal: info.si_signo,
            // Signals of processes have codes up to 0 (SI_USER); others have no sender.
            sender: match info.si_code <= 0 {
                // SAFETY: signals of processes have the sender's number.
                true => unsafe { info.si_pid() },
                false => 0,
            },
        }
    }
}

/// Waits for one of these blocked signals. `None` after `timeout`.
pub fn wait_signal(signals: &[i32], timeout: Duration) -> Option<SentSignal> {
    let spec = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    let set = set_of(signals);
    let mut info: libc::siginfo_t = zeroed();
    // SAFETY: the set is initialised, and `info` is a valid place for the result.
    let found = unsafe { libc::sigtimedwait(&raw const set, &raw mut info, &raw const spec) };
    (found > 0).then(|| SentSignal::new(&info))
}

/// Signals that a process may receive from others and that no mistake of its own raises: all but
/// SIGCHLD, those that cannot be caught, and those of faulting instructions.
pub fn signals_of_others() -> Vec<i32> {
    let own = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGCHLD,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        // The C library's own.
        32,
        33,
    ];
    (1..=LAST_SIGNAL)
        .filter(|signal| !own.contains(signal))
        .collect()
}

/// The signal that a thread stopped for, before the signal is delivered.
///
/// # Errors
/// `EINVAL` if the thread stopped for something else.
pub fn signal_of_stop(tid: Tid) -> io::Result<SentSignal> {
    ptrace_value(libc::PTRACE_GETSIGINFO, tid).map(|info| SentSignal::new(&info))
}

/// Performs the default action of a signal on this process. Returns when the process has been
/// continued, or if the signal has no effect. The signal is blocked before and after.
pub fn suffer(signal: i32) {
    let set = set_of(&[signal]);
    // SAFETY: the set is initialised; the default disposition needs no handler.
    unsafe {
        let former = libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        if former != libc::SIG_ERR {
            libc::signal(signal, former);
        }
    }
}

/// Ends this process by a signal, without a core file. Returns only if the signal ends no process.
pub fn die_by(signal: i32) {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` is a valid limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    suffer(signal);
}

/// Lets SIGCHLD reach this process even where its parent ignores the signal. [`Program::become_it`]
/// takes that back for the program.
pub fn receive_child_signals() {
    // SAFETY: the default disposition needs no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Replaces standard input and output by `/dev/null`, and closes all descriptors that this process
/// inherited beside the standard ones. So a reader or writer at the other end of a pipe sees the
/// program close its end. Files that cxlab opened are marked close-on-exec, and stay.
pub fn let_go_of_streams() {
    let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // SAFETY: nothing in this process owns its standard streams or what it inherited beside them.
    unsafe {
        for fd in [0, 1] {
            libc::dup2(null.as_raw_fd(), fd);
        }
        for fd in open.into_iter().filter(|fd| *fd > 2) {
            let flags = libc::fcntl(fd, libc::F_GETFD);
            if flags != -1 && flags & libc::FD_CLOEXEC == 0 {
                libc::close(fd);
            }
        }
    }
}

/// Sends a signal to a process.
pub fn kill(pid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    checked(libc::c_long::from(unsafe { libc::kill(pid, signal) })).map(drop)
}

/// Asks the kernel for a signal when the parent ends, and sets a process name that `killall` with
/// the command's name does not match.
pub fn become_guard() {
    // SAFETY: PR_SET_PDEATHSIG takes a number, PR_SET_NAME a text that ends with a zero and is at
    // most 16 bytes.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        libc::prctl(libc::PR_SET_NAME, c"attach-guard".as_ptr());
    }
}

/// Asks for real-time priority, if that is allowed, because the tracer must release held threads on
/// time. Child processes do not inherit the priority, but lose this process's nice value: the
/// program must have been started before.
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

/// Two threads that run on one processor alone, until this is dropped: this one, and a stopped one.
pub struct SharedProcessor(Vec<(Tid, libc::cpu_set_t)>);

impl SharedProcessor {
    /// Moves this thread and a stopped one to that processor. What the kernel refuses stays as it is.
    pub fn on(processor: usize, tid: Tid) -> SharedProcessor {
        if processor >= libc::CPU_SETSIZE as usize {
            return SharedProcessor(Vec::new());
        }
        let mut one: libc::cpu_set_t = zeroed();
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(processor, &mut one) };
        let moved = |tid| {
            let before = processors(tid)?;
            run_on(tid, &one).then_some((tid, before))
        };
        SharedProcessor([0, tid].into_iter().filter_map(moved).collect())
    }
}

impl Drop for SharedProcessor {
    fn drop(&mut self) {
        for (tid, before) in &self.0 {
            run_on(*tid, before);
        }
    }
}

/// The processors that a thread may run on; 0 is this thread.
fn processors(tid: Tid) -> Option<libc::cpu_set_t> {
    let mut set: libc::cpu_set_t = zeroed();
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: `set` is a valid place for the result.
    let asked = unsafe { libc::sched_getaffinity(tid, bytes, &raw mut set) };
    (asked == 0).then_some(set)
}

fn run_on(tid: Tid, set: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is valid for its size.
    unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), set) == 0 }
}

/// The parent of this process.
pub fn parent() -> Tid {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::getppid() }
}

/// The number of this process.
pub fn own() -> Tid {
    std::process::id() as Tid
}

/// The user whose rights this process has.
pub fn user() -> u32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    user() == 0
}

/// Forks a process that runs `child` and exits with its code. Call it only while this process has a
/// single thread, because only the calling thread continues in the child.
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

/// Has the loader of the program that this process becomes load a library before others, and before
/// those that its environment names. Call it only in a process of one thread.
pub fn load_first(library: &Path) {
    const NAME: &str = "LD_PRELOAD";
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(NAME).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    // SAFETY: no other thread reads or writes the environment.
    unsafe { std::env::set_var(NAME, list) };
}

/// The program that a new process executes.
pub struct Program {
    words: Vec<CString>,
}

impl Program {
    /// A program from its command and arguments.
    ///
    /// # Errors
    /// `InvalidInput` if a word contains a zero byte or there are no words.
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

    /// Executes the program with the standard streams, ignored and blocked signals that this process
    /// inherited. Returns only if that fails.
    pub fn become_it(&self) -> io::Error {
        let mut pointers: Vec<*const libc::c_char> =
            self.words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        inherited::restore();
        // SAFETY: the words live until the call, and the list ends with a null pointer.
        unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Whether the kernel lets this process load an eBPF program. An empty program tests it: the kernel
/// rejects it as invalid (allowed) or as not permitted.
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

/// A block of this process's own memory, in large pages if `large`. It has no pages until they are written.
pub struct Block(MmapMut);

impl Block {
    /// Maps this many bytes. `None` if there is not enough memory.
    pub fn new(bytes: usize, large: bool) -> Option<Block> {
        let memory = MmapMut::map_anon(bytes).ok()?;
        let advice = match large {
            true => Advice::HugePage,
            false => Advice::NoHugePage,
        };
        // A refusal leaves small pages, which are then what is measured.
        let _ = memory.advise(advice);
        Some(Block(memory))
    }

    /// The memory as words of 64 bits.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: any bits are a word. The memory is aligned to a page, so that all of it is words.
        unsafe { self.0.align_to_mut().1 }
    }
}
