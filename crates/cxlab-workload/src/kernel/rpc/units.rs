//! The units of the card's encoder, which work side by side: the front end loads objects and finds
//! their fields ([`Reader`](super::object::Reader)), the handlers of strings load those, and the
//! output stage encodes what has come. Each is a thread; the words of the card that they wait on
//! lie in its own buffers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cxlab_engine::units::LINE_BYTES;

use super::serialize::SERIALIZE;
use super::{BUFFER, Job};
use crate::thread::{Handle, Loaded, scratch};

/// Words of the card: strings handed to the handlers, and loaded; cycles of the output stage that
/// have been asked for, and done.
const ASKED: u64 = scratch(0) + LINE_BYTES;
const LOADED: u64 = scratch(0) + 2 * LINE_BYTES;
const WORK: u64 = scratch(0) + 3 * LINE_BYTES;
const ENCODED: u64 = scratch(0) + 4 * LINE_BYTES;

/// The encoder stops.
const END: u64 = u64::MAX;

/// What the units hand to one another beside those words.
#[derive(Default)]
pub(super) struct Units(Mutex<State>);

#[derive(Default)]
struct State {
    /// Strings that no handler has begun: number, address and bytes.
    waiting: VecDeque<(usize, u64, u64)>,
    /// The strings of the message.
    strings: Vec<Vec<u8>>,
    /// Strings handed over since the card began.
    asked: u64,
    /// Cycles of the output stage asked for since the card began.
    work: u64,
}

impl Units {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The front end's side.
pub(super) struct FrontEnd<'t> {
    pub t: &'t Handle,
    pub job: &'t Job,
    /// What the other units were last known to have done: strings, and cycles.
    pub loaded: u64,
    pub encoded: u64,
}

impl FrontEnd<'_> {
    /// Hands a number to the output stage.
    pub async fn number(&mut self, cycles: u32) {
        ask(self.t, self.job, cycles, &mut self.encoded).await;
    }

    /// Hands a string to the handlers; there are `outstanding`.
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

    /// Waits until all of a message has been loaded and encoded; its strings, in order.
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

/// All messages are done: the other units stop.
pub(super) async fn end(t: &Handle) {
    t.store(ASKED, END).await;
    t.store(WORK, END).await;
}

/// Asks the output stage for some cycles; as much may wait for it as handlers hold.
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
/// `outstanding` are under way.
pub(super) async fn handlers(job: Arc<Job>, t: Handle) {
    t.mark(SERIALIZE);
    let (mut asked, mut loaded, mut encoded) = (0, 0, 0);
    // Number of the string, whether the part is its last, and the part.
    let mut parts: VecDeque<(usize, bool, Loaded<'_>)> = VecDeque::new();
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
        // Two units ask, so that what they store may pass each other: the word only wakes.
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
