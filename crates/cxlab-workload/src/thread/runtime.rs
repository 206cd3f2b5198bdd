//! The executor's side of a thread: what it asks for next, and what it is told when that is done.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use super::op::ThreadOp;

/// Which of a thread's outstanding operations; used again when it is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Debug)]
pub struct Token(pub u32);

/// In place of a phase's number: the operation orders threads among themselves, as an access to a lock
/// does. It takes its time, and counts neither as a request nor in a phase.
pub const UNCOUNTED: u8 = u8::MAX;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It asks for this operation, in this phase of its kernel or [`UNCOUNTED`].
    Op(Token, ThreadOp, u8),
    /// It waits for one of its outstanding operations.
    Blocked,
    /// Its code has ended. Operations that it did not wait for may still be outstanding.
    Finished,
}

/// What has happened to a thread since it began, from which its code can be run again: its state is
/// a place in that code, which nobody can write down.
#[derive(Clone, Default)]
struct Log {
    /// [`Happened`] one after another, by postcard.
    bytes: Vec<u8>,
    /// Questions for the next operation since the last of them that changed something.
    asked: u64,
}

/// Something that happened to a thread.
#[derive(Serialize, Deserialize)]
enum Happened {
    /// It was asked so many times for its next operation, and each time something changed.
    Asked(u64),
    /// An operation was done, with this value.
    Completed(u32, u64),
    /// Bytes came for a part of an operation, from this offset on.
    Bytes(u32, u64, Vec<u8>),
}

impl Log {
    fn write(&mut self, happened: &Happened) {
        if self.asked > 0 {
            let asked = Happened::Asked(std::mem::take(&mut self.asked));
            self.append(&asked);
        }
        self.append(happened);
    }

    fn append(&mut self, happened: &Happened) {
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = match postcard::to_extend(happened, bytes) {
            Ok(bytes) => bytes,
            Err(error) => unreachable!("plain values can be written: {error}"),
        };
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    /// Asked for or under way.
    Pending,
    /// Pending, and the code cannot go on without it.
    Awaited,
    /// Pending, and nobody wants its value.
    Posted,
    /// Done; the value has not been fetched.
    Done,
}

struct Slot {
    state: State,
    value: u64,
    /// What a range operation carries.
    bytes: Vec<u8>,
}

/// What a thread's code and its executor share.
pub(super) struct Shared {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<(Token, ThreadOp, u8)>,
    phase: u8,
    /// Something has happened that the code waited for.
    ready: bool,
}

impl Shared {
    /// Asks for an operation.
    #[inline]
    pub fn issue(&mut self, op: ThreadOp) -> Token {
        if let ThreadOp::Mark { phase } = op {
            self.phase = phase;
        }
        self.issue_in(op, self.phase)
    }

    /// Asks for an operation in this phase, or [`UNCOUNTED`].
    #[inline]
    pub fn issue_in(&mut self, op: ThreadOp, phase: u8) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            let (state, bytes) = (State::Free, Vec::new());
            self.slots.push(Slot {
                state,
                value: 0,
                bytes,
            });
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize].state = State::Pending;
        self.queue.push_back((Token(index), op, phase));
        Token(index)
    }

    fn slot(&mut self, token: Token) -> &mut Slot {
        &mut self.slots[token.0 as usize]
    }

    /// The bytes of a range operation.
    pub fn bytes(&mut self, token: Token) -> &mut Vec<u8> {
        &mut self.slot(token).bytes
    }

    /// The value of an operation that is done, whose slot becomes free; else the code waits for it.
    #[inline]
    pub fn poll(&mut self, token: Token) -> Poll<u64> {
        let slot = self.slot(token);
        if slot.state != State::Done {
            slot.state = State::Awaited;
            return Poll::Pending;
        }
        slot.state = State::Free;
        let value = slot.value;
        self.free.push(token.0);
        Poll::Ready(value)
    }

    /// Nobody will ask for its value any more.
    #[inline]
    pub fn abandon(&mut self, token: Token) {
        let slot = self.slot(token);
        match slot.state {
            State::Done => {
                slot.state = State::Free;
                self.free.push(token.0);
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
            self.free.push(token.0);
        }
        self.ready |= was == State::Awaited;
    }
}

/// Whether asking for the next operation would change nothing; also where the code has ended.
#[inline]
fn is_waiting(shared: Option<&Shared>) -> bool {
    shared.is_none_or(|shared| shared.queue.is_empty() && !shared.ready)
}

thread_local! {
    /// What the code that is running here shares with its executor, and nothing while none is.
    ///
    /// A lock would do as well, because only one side runs at a time, but costs more than all else:
    /// with one an operation takes 230 ns, with this 60 ns (`benches/threads.rs`).
    static CURRENT: RefCell<Option<Box<Shared>>> = const { RefCell::new(None) };
}

/// Which thread's code a handle belongs to: where what they share lies, which never moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity(usize);

impl Identity {
    fn of(shared: &Shared) -> Identity {
        Identity(std::ptr::from_ref(shared).addr())
    }

    /// Gives access to what is shared; `None` outside of the code that the handle belongs to.
    #[inline]
    pub fn reach<R>(self, act: impl FnOnce(&mut Shared) -> R) -> Option<R> {
        CURRENT.with_borrow_mut(|current| {
            let shared = current.as_deref_mut()?;
            (Identity::of(shared) == self).then(|| act(shared))
        })
    }
}

/// Lends what is shared to the code for as long as it lives.
struct Lent<'a> {
    home: &'a mut Option<Box<Shared>>,
    outer: Option<Box<Shared>>,
}

impl Lent<'_> {
    fn new(home: &mut Option<Box<Shared>>) -> Lent<'_> {
        let outer = CURRENT.replace(home.take());
        Lent { home, outer }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.home = CURRENT.replace(self.outer.take());
    }
}

/// Sequential code on one core or processing element, as its executor sees it.
///
/// The executor asks for the [next](Thread::next_op) operation as long as it has room for one, and
/// tells the thread when one is [complete](Thread::complete). It may do operations in any order
/// that keeps those in order of which [one follows the other](ThreadOp::follows).
pub struct Thread {
    code: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Absent only while the code runs.
    shared: Option<Box<Shared>>,
    /// What has happened, where a state will be asked for.
    log: Option<Box<Log>>,
}

/// A thread is restored by running its code again: it is told all that it was told before, in the
/// same order. So its code may depend on nothing else
/// ([`ThreadedKernel::can_run_again`](super::ThreadedKernel::can_run_again)).
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
        // What has happened to this thread already need not happen again.
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
                Happened::Asked(count) => Happened::Asked(more(count)?),
                other => other,
            })?;
        }
        self.again(Happened::Asked(more(asked)?))?;
        self.log = Some(Box::new(Log { bytes, asked }));
        Ok(())
    }
}

fn another() -> StateError {
    StateError::new("`thread` in the state is of another thread")
}

impl Thread {
    /// A thread that runs `code` with a handle of its own.
    pub fn new<F>(code: impl FnOnce(Handle) -> F) -> Thread
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Box::new(Shared {
            slots: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            phase: 0,
            ready: true,
        });
        let handle = Handle::new(Identity::of(&shared));
        let mut shared = Some(shared);
        let lent = Lent::new(&mut shared);
        let code: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(code(handle));
        drop(lent);
        Thread {
            code: Some(code),
            shared,
            log: None,
        }
    }

    /// Notes from now on what happens to the thread, so that it can be saved: some ten bytes an
    /// operation. To be called before anything has happened.
    pub fn keep_log(&mut self) {
        self.log = Some(Box::default());
    }

    /// What has happened once happens again.
    fn again(&mut self, happened: Happened) -> Result<(), StateError> {
        match happened {
            Happened::Asked(count) => {
                for _ in 0..count {
                    // Such a question is in no log.
                    if is_waiting(self.shared.as_deref()) {
                        return Err(another());
                    }
                    self.next_op();
                }
            }
            Happened::Completed(token, value) => {
                let shared = self.shared.as_mut().ok_or_else(another)?;
                let slot = shared.slots.get(token as usize).ok_or_else(another)?;
                if matches!(slot.state, State::Free | State::Done) {
                    return Err(another());
                }
                shared.complete(Token(token), value);
            }
            Happened::Bytes(token, offset, bytes) => {
                let shared = self.shared.as_mut().ok_or_else(another)?;
                let slot = shared.slots.get_mut(token as usize).ok_or_else(another)?;
                let end = (offset as usize).checked_add(bytes.len());
                let place = end.and_then(|end| slot.bytes.get_mut(offset as usize..end));
                place.ok_or_else(another)?.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    /// What it does next. After [`Next::Blocked`] the answer changes only by a completion, after
    /// [`Next::Finished`] never.
    #[inline]
    pub fn next_op(&mut self) -> Next {
        if let Some(log) = &mut self.log
            && !is_waiting(self.shared.as_deref())
        {
            log.asked += 1;
        }
        loop {
            let Some(shared) = &mut self.shared else {
                return Next::Finished;
            };
            if let Some((token, op, phase)) = shared.queue.pop_front() {
                return Next::Op(token, op, phase);
            }
            let Some(code) = &mut self.code else {
                return Next::Finished;
            };
            if !std::mem::take(&mut shared.ready) {
                return Next::Blocked;
            }
            let lent = Lent::new(&mut self.shared);
            let mut context = Context::from_waker(Waker::noop());
            if code.as_mut().poll(&mut context).is_ready() {
                self.code = None;
            }
            drop(lent);
        }
    }

    /// An operation is done, with this value.
    ///
    /// # Panics
    /// If it is not outstanding.
    #[inline]
    pub fn complete(&mut self, token: Token, value: u64) {
        if let Some(log) = &mut self.log {
            log.write(&Happened::Completed(token.0, value));
        }
        if let Some(shared) = &mut self.shared {
            shared.complete(token, value);
        }
    }

    /// Hands over the bytes of a part of a [`ThreadOp::ReadRange`], `offset` bytes into it.
    ///
    /// # Panics
    /// If they are not a part of it.
    pub fn put_bytes(&mut self, token: Token, offset: u64, bytes: &[u8]) {
        let start = offset as usize;
        if let Some(log) = &mut self.log {
            log.write(&Happened::Bytes(token.0, offset, bytes.to_vec()));
        }
        if let Some(shared) = &mut self.shared {
            shared.bytes(token)[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Fetches the bytes of a part of a [`ThreadOp::WriteRange`] or [`ThreadOp::Push`].
    ///
    /// # Panics
    /// If they are not a part of it.
    pub fn take_bytes(&mut self, token: Token, offset: u64, bytes: &mut [u8]) {
        let start = offset as usize;
        let end = start + bytes.len();
        if let Some(shared) = &mut self.shared {
            bytes.copy_from_slice(&shared.bytes(token)[start..end]);
        }
    }
}

impl Drop for Thread {
    /// The code may hold futures, which give their places back.
    fn drop(&mut self) {
        let lent = Lent::new(&mut self.shared);
        self.code = None;
        drop(lent);
    }
}
