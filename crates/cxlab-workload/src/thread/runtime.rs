//! The interface for executors: a thread issues operations, and the
//! executor reports their completion.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use cxlab_engine::slab::Slab;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use super::op::ThreadOp;

/// Identifies one of a thread's outstanding operations. A number is reused after
/// its operation is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Token(pub u32);

/// Phase number of operations that only synchronize threads, such as accesses to a lock. Such an
/// operation takes its time, but counts neither as a request nor in a phase.
pub const UNCOUNTED: u8 = u8::MAX;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextAction {
    /// The thread issues this operation, in this phase of its kernel or [`UNCOUNTED`].
    Op(Token, ThreadOp, u8),
    /// The thread waits for one of its outstanding operations.
    Blocked,
    /// The thread's code has ended. Operations that the code did not await
    /// may still be outstanding.
    Finished,
}

/// The inputs of a thread since it began. The state of its code cannot be saved; instead, the code
/// is run again with the same inputs.
#[derive(Clone, Default)]
struct Log {
    /// The [`ThreadInput`] values one after another, encoded by postcard.
    bytes: Vec<u8>,
    /// Calls of [`Thread::next_op`] with an effect since the last value in `bytes`.
    asked: u64,
}

/// One input of a thread: a call, a completion, or bytes.
#[derive(Serialize, Deserialize)]
enum ThreadInput {
    /// [`Thread::next_op`] was called this many times, each time with an effect.
    Asked(u64),
    /// The operation with this token number completed with this value.
    Completed(u32, u64),
    /// Bytes arrived for an operation: token number, offset in its range, and the bytes.
    Bytes(u32, u64, Vec<u8>),
}

impl Log {
    fn write(&mut self, happened: &ThreadInput) {
        if self.asked > 0 {
            let asked = ThreadInput::Asked(std::mem::take(&mut self.asked));
            self.append(&asked);
        }
        self.append(happened);
    }

    fn append(&mut self, happened: &ThreadInput) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = match postcard::to_extend(happened, bytes) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("plain values can be written: {error}"),
        };
    }
}

/// The state of an operation's slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// Issued and not yet complete.
    Pending,
    /// Pending, and the code waits for it.
    Awaited,
    /// Pending, and the code has dropped the future: the value is discarded.
    Posted,
    /// Complete; the code has not taken the value yet.
    Done,
}

struct Slot {
    state: State,
    value: u64,
    /// The bytes of a range operation.
    bytes: Vec<u8>,
}

/// The state that a thread's code and its executor share.
pub(super) struct ThreadShared {
    slots: Slab<Slot>,
    queue: VecDeque<(Token, ThreadOp, u8)>,
    phase: u8,
    /// Whether an operation that the code awaits has completed since the code ran.
    ready: bool,
}

impl ThreadShared {
    /// Issues an operation in the current phase.
    #[inline]
    pub fn issue(&mut self, op: ThreadOp) -> Token {
        if let ThreadOp::Mark { phase } = op {
            self.phase = phase;
        }
        self.issue_in(op, self.phase)
    }

    /// Issues an operation in this phase, or [`UNCOUNTED`].
    #[inline]
    pub fn issue_in(&mut self, op: ThreadOp, phase: u8) -> Token {
        let index = self.slots.reuse(|| Slot {
            state: State::Free,
            value: 0,
            bytes: Vec::new(),
        });
        self.slots[index].state = State::Pending;
        self.queue.push_back((Token(index), op, phase));
        Token(index)
    }

    fn slot(&mut self, token: Token) -> &mut Slot {
        &mut self.slots[token.0]
    }

    /// The bytes of a range operation.
    pub fn bytes(&mut self, token: Token) -> &mut Vec<u8> {
        &mut self.slot(token).bytes
    }

    /// Returns the value of a complete operation and frees its slot; otherwise marks
    /// the operation as awaited.
    #[inline]
    pub fn poll(&mut self, token: Token) -> Poll<u64> {
        let slot = self.slot(token);
        if slot.state != State::Done {
            slot.state = State::Awaited;
            return Poll::Pending;
        }
        slot.state = State::Free;
        let value = slot.value;
        self.slots.release(token.0);
        Poll::Ready(value)
    }

    /// Gives up the value of an operation, whose future has been dropped.
    #[inline]
    pub fn abandon(&mut self, token: Token) {
        let slot = self.slot(token);
        match slot.state {
            State::Done => {
                slot.state = State::Free;
                self.slots.release(token.0);
            }
            State::Pending | State::Awaited => slot.state = State::Posted,
            State::Free | State::Posted => {}
        }
    }

    #[inline]
    fn complete(&mut self, token: Token, value: u64) {
        let slot = self.slot(token);
        let was = slot.state;
        assert!(
            matches!(was, State::Pending | State::Awaited | State::Posted),
            "operation {token:?} of a thread was completed while {was:?}"
        );
        slot.value = value;
        slot.state = if was == State::Posted {
            State::Free
        } else {
            State::Done
        };
        if was == State::Posted {
            self.slots.release(token.0);
        }
        self.ready |= was == State::Awaited;
    }
}

/// Whether a call of [`Thread::next_op`] would have no effect; also true after the code has ended.
#[inline]
fn is_waiting(shared: Option<&ThreadShared>) -> bool {
    shared.is_none_or(|shared| shared.queue.is_empty() && !shared.ready)
}

thread_local! {
    /// The shared state of the thread whose code runs on this host thread; `None`
    /// while no code runs.
    ///
    /// A lock in each handle would work as well, because code and executor never run at the same
    /// time, but costs more than everything else: an operation takes 230 ns with a lock, and
    /// 60 ns with this (`benches/threads.rs`).
    static CURRENT: RefCell<Option<Box<ThreadShared>>> = const { RefCell::new(None) };
}

/// Identifies the thread that a handle belongs to, by the address of its
/// [`ThreadShared`], which never moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity(usize);

impl Identity {
    fn of(shared: &ThreadShared) -> Identity {
        Identity(std::ptr::from_ref(shared).addr())
    }

    /// Calls `act` with the shared state; `None` outside of the code that the handle belongs to.
    #[inline]
    pub fn reach<R>(self, act: impl FnOnce(&mut ThreadShared) -> R) -> Option<R> {
        CURRENT.with_borrow_mut(|current| {
            let shared = current.as_deref_mut()?;
            (Identity::of(shared) == self).then(|| act(shared))
        })
    }
}

/// Moves a thread's shared state into [`CURRENT`] while its code runs, and back when dropped.
struct LentState<'a> {
    home: &'a mut Option<Box<ThreadShared>>,
    outer: Option<Box<ThreadShared>>,
}

impl LentState<'_> {
    fn new(home: &mut Option<Box<ThreadShared>>) -> LentState<'_> {
        let outer = CURRENT.replace(home.take());
        LentState { home, outer }
    }
}

impl Drop for LentState<'_> {
    fn drop(&mut self) {
        *self.home = CURRENT.replace(self.outer.take());
    }
}

/// Sequential code on one core or processing element, as its executor sees it.
///
/// The executor asks for the [next](Thread::next_op) operation while it has room for one more, and
/// reports each [completion](Thread::complete). It may execute operations in any order in which an
/// operation comes after the earlier ones that it [follows](ThreadOp::follows).
pub struct Thread {
    code: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// `None` only while the code runs.
    shared: Option<Box<ThreadShared>>,
    /// The inputs so far; `None` when no checkpoint will be saved.
    log: Option<Box<Log>>,
}

/// A thread is restored by running its code again with the inputs that it had before, in the same
/// order. Its code may therefore depend on nothing else
/// ([`can_run_again`](super::ThreadedKernel::can_run_again) says whether that is so).
impl SaveState for Thread {
    fn save(&self, out: &mut StateWriter) {
        match &self.log {
            Some(log) => out.value("thread", &(&log.bytes, log.asked)),
            None => out.refuse(
                "a kernel whose threads share more than the memory of the system, so that \
                 their code cannot be run again",
            ),
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (bytes, asked): (Vec<u8>, u64) = from.value("thread")?;
        let wrong = |error| StateError::new(format!("`thread` in the state: {error}"));
        // Inputs that this thread has already had are skipped: the saved log begins with them.
        let log = self.log.take().unwrap_or_default();
        let (mut rest, mut asked_before) = match bytes.strip_prefix(&log.bytes[..]) {
            Some(rest) => (rest, log.asked),
            None => return Err(another()),
        };
        let mut more = |count: u64| {
            let before = std::mem::take(&mut asked_before);
            count.checked_sub(before).ok_or_else(another)
        };
        while !rest.is_empty() {
            let (happened, after) = postcard::take_from_bytes(rest).map_err(wrong)?;
            rest = after;
            self.again(match happened {
                ThreadInput::Asked(count) => ThreadInput::Asked(more(count)?),
                other => other,
            })?;
        }
        self.again(ThreadInput::Asked(more(asked)?))?;
        self.log = Some(Box::new(Log { bytes, asked }));
        Ok(())
    }
}

fn another() -> StateError {
    StateError::new("`thread` in the state is of another thread")
}

impl Thread {
    /// Makes a thread that runs `code` with a handle of its own.
    pub fn new<F>(code: impl FnOnce(Handle) -> F) -> Thread
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Box::new(ThreadShared {
            slots: Slab::default(),
            queue: VecDeque::new(),
            phase: 0,
            ready: true,
        });
        let handle = Handle::new(Identity::of(&shared));
        let mut shared = Some(shared);
        let lent = LentState::new(&mut shared);
        let code: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(code(handle));
        drop(lent);
        Thread {
            code: Some(code),
            shared,
            log: None,
        }
    }

    /// Logs the thread's inputs from now on, so that the thread can be saved: some ten bytes an
    /// operation. Must be called before the first input.
    pub fn keep_log(&mut self) {
        self.log = Some(Box::default());
    }

    /// Applies one logged input again.
    fn again(&mut self, happened: ThreadInput) -> Result<(), StateError> {
        match happened {
            ThreadInput::Asked(count) => {
                for _ in 0..count {
                    // A log has no calls without effect.
                    if is_waiting(self.shared.as_deref()) {
                        return Err(another());
                    }
                    self.next_op();
                }
            }
            ThreadInput::Completed(token, value) => {
                let shared = self.shared.as_mut().ok_or_else(another)?;
                let slot = shared.slots.get(token).ok_or_else(another)?;
                if matches!(slot.state, State::Free | State::Done) {
                    return Err(another());
                }
                shared.complete(Token(token), value);
            }
            ThreadInput::Bytes(token, offset, bytes) => {
                let shared = self.shared.as_mut().ok_or_else(another)?;
                let slot = shared.slots.get_mut(token).ok_or_else(another)?;
                let end = (offset as usize).checked_add(bytes.len());
                let place = end.and_then(|end| slot.bytes.get_mut(offset as usize..end));
                place.ok_or_else(another)?.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// Returns the thread's next step. After [`NextAction::Blocked`], the result changes only by a
    /// completion; after [`NextAction::Finished`], never.
    #[inline]
    pub fn next_op(&mut self) -> NextAction {
        if let Some(log) = &mut self.log
            && !is_waiting(self.shared.as_deref())
        {
            log.asked += 1;
        }
        loop {
            let Some(shared) = &mut self.shared else {
                return NextAction::Finished;
            };
            if let Some((token, op, phase)) = shared.queue.pop_front() {
                return NextAction::Op(token, op, phase);
            }
            let Some(code) = &mut self.code else {
                return NextAction::Finished;
            };
            if !std::mem::take(&mut shared.ready) {
                return NextAction::Blocked;
            }
            let lent = LentState::new(&mut self.shared);
            let mut context = Context::from_waker(Waker::noop());
            if code.as_mut().poll(&mut context).is_ready() {
                self.code = None;
            }
            drop(lent);
        }
    }

    /// Reports the completion of an operation with its value.
    ///
    /// # Panics
    /// If the operation is not outstanding.
    #[inline]
    pub fn complete(&mut self, token: Token, value: u64) {
        if let Some(log) = &mut self.log {
            log.write(&ThreadInput::Completed(token.0, value));
        }
        if let Some(shared) = &mut self.shared {
            shared.complete(token, value);
        }
    }

    /// Passes the bytes of a part of a [`ThreadOp::ReadRange`] to the thread, `offset`
    /// bytes into the range.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn put_bytes(&mut self, token: Token, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        if let Some(log) = &mut self.log {
            log.write(&ThreadInput::Bytes(token.0, offset, bytes.to_vec()));
        }
        if let Some(shared) = &mut self.shared {
            shared.bytes(token)[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Copies the bytes of a part of a [`ThreadOp::WriteRange`] or [`ThreadOp::Push`] from the
    /// thread, `offset` bytes into the range.
    ///
    /// # Panics
    /// If the part is not inside the range.
    pub fn take_bytes(&mut self, token: Token, offset: u64, bytes: &mut [u8]) {
        let start = offset as usize;
        let end = start + bytes.len();
        if let Some(shared) = &mut self.shared {
            bytes.copy_from_slice(&shared.bytes(token)[start..end]);
        }
    }
}

impl Drop for Thread {
    /// The code may own futures, which free their slots when they are dropped.
    fn drop(&mut self) {
        let lent = LentState::new(&mut self.shared);
        self.code = None;
        drop(lent);
    }
}
