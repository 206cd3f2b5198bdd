//! The units of the card's encoder, which run concurrently. The front end loads objects and finds
//! their fields ([`Reader`](super::object::Reader)), the string handlers load strings, and the
//! output stage encodes what has been loaded. Each unit is a thread. They wait for each other on
//! words in the card's own buffers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cxlab_engine::units::LINE_BYTES;

use super::serialize::SERIALIZE;
use super::{BUFFER, Job};
use crate::thread::{Handle, LoadedRange, scratch};

/// Words in the card's memory: strings requested from the handlers, and strings loaded; cycles
/// requested from the output stage, and cycles done.
const ASKED: u64 = scratch(0) + LINE_BYTES;
const LOADED: u64 = scratch(0) + 2 * LINE_BYTES;
const WORK: u64 = scratch(0) + 3 * LINE_BYTES;
const ENCODED: u64 = scratch(0) + 4 * LINE_BYTES;

/// The value with which the encoder stops the other units.
const END: u64 = u64::MAX;

/// The state that the units share in addition to these words.
#[derive(Default)]
pub(super) struct Units(Mutex<State>);

#[derive(Default)]
struct State {
    /// Strings that no handler has begun to load: number, address and bytes.
    waiting: VecDeque<(usize, u64, u64)>,
    /// The strings of the current message.
    strings: Vec<Vec<u8>>,
    /// Number of strings requested since the card began.
    asked: u64,
    /// Cycles requested from the output stage since the card began.
    work: u64,
}

impl Units {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The front end's view of the other units.
pub(super) struct FrontEnd<'t> {
    pub t: &'t Handle,
    pub job: &'t Job,
    /// Number of strings that the handlers had loaded when last read.
    pub loaded: u64,
    /// Cycles that the output stage had done when last read.
    pub encoded: u64,
}

impl FrontEnd<'_> {
    /// Passes a number to the output stage.
    pub async fn number(&mut self, cycles: u32) {
        ask(self.t, self.job, cycles, &mut self.encoded).await;
    }

    /// Passes a string to the handlers, of which there are `outstanding`; waits while all are busy.
    pub async fn string(&mut self, addr: u64, bytes: u64) {
        let asked = {
            let mut state = self.job.units.state();
            let number = state.strings.len();
            state.strings.push(Vec::new());
            if bytes == 0 {
                return;
            }
            state.waiting.push_back((number, addr, bytes));
            state.asked += 1;
            state.asked
        };
        self.t.store(ASKED, asked);
        while asked > self.loaded + self.job.params.outstanding {
            self.loaded = self.t.await_change(LOADED, self.loaded).await;
        }
    }

    /// Waits until all of a message has been loaded and encoded, and returns its strings in order.
    pub async fn finish(&mut self) -> Vec<Vec<u8>> {
        let asked = self.job.units.state().asked;
        while self.loaded < asked {
            self.loaded = self.t.await_change(LOADED, self.loaded).await;
        }
        let work = self.job.units.state().work;
        while self.encoded < work {
            self.encoded = self.t.await_change(ENCODED, self.encoded).await;
        }
        std::mem::take(&mut self.job.units.state().strings)
    }
}

/// Stops the other units after all messages.
pub(super) async fn end(t: &Handle) {
    t.store(ASKED, END).await;
    t.store(WORK, END).await;
}

/// Requests cycles from the output stage. Waits while more is queued there than
/// all handlers can hold.
async fn ask(t: &Handle, job: &Job, cycles: u32, encoded: &mut u64) {
    let work = {
        let mut state = job.units.state();
        state.work += u64::from(cycles);
        state.work
    };
    t.store(WORK, work);
    let held = job.params.outstanding * u64::from(job.cycles(BUFFER));
    while work > *encoded + held {
        *encoded = t.await_change(ENCODED, *encoded).await;
    }
}

/// The handlers' thread: loads strings in the order in which they were found, in parts, of which
/// `outstanding` are in flight.
pub(super) async fn handlers(job: Arc<Job>, t: Handle) {
    t.mark(SERIALIZE);
    let (mut asked, mut loaded, mut encoded) = (0, 0, 0);
    // Number of the string, whether the part is its last, and the part.
    let mut parts: VecDeque<(usize, bool, LoadedRange<'_>)> = VecDeque::new();
    let mut current: Option<(usize, u64, u64)> = None;
    loop {
        if current.is_none() {
            current = job.units.state().waiting.pop_front();
        }
        if let Some((number, addr, left)) = current
            && (parts.len() as u64) < job.params.outstanding
        {
            let bytes = BUFFER.min(left);
            let last = bytes == left;
            parts.push_back((number, last, t.read_range(addr, bytes)));
            current = (!last).then_some((number, addr + bytes, left - bytes));
            continue;
        }
        let Some((number, last, part)) = parts.pop_front() else {
            asked = t.await_change(ASKED, asked).await;
            if asked == END {
                return;
            }
            continue;
        };
        let bytes = part.await;
        let length = bytes.len() as u64;
        let first = {
            let mut state = job.units.state();
            let string = &mut state.strings[number];
            let first = string.is_empty();
            string.extend(bytes);
            first
        };
        let cycles = match first {
            true => job.cycles(length),
            false => job.moving(length),
        };
        ask(&t, &job, cycles, &mut encoded).await;
        if last {
            loaded += 1;
            t.store(LOADED, loaded);
        }
    }
}

/// The output stage's thread.
pub(super) async fn output(job: Arc<Job>, t: Handle) {
    t.mark(SERIALIZE);
    let most = u64::from(job.moving(BUFFER)).max(1);
    let (mut told, mut done) = (0, 0);
    loop {
        // Two units make requests, and their stores may be reordered. The word therefore
        // only wakes this thread.
        let cycles = (job.units.state().work - done).min(most);
        if cycles > 0 {
            t.compute(cycles as u32).await;
            done += cycles;
            t.store(ENCODED, done);
        } else if told == END {
            return;
        } else {
            told = t.await_change(WORK, told).await;
        }
    }
}
