//! Puts the instructions of several threads in the order of their estimated clocks, before they meet in the last level cache.
//!
//! Threads under QEMU run as the machine lets them, and their instructions come in turns of some thousand. Each
//! thread has a queue, and the one with the earliest clock is heard next. A thread that is in no system call is
//! waited for until it has told something, as long as queues hold no more than `MOST_QUEUED`
//! instructions. Beyond that, threads that QEMU runs faster than their clocks say are ahead of others.
//!
//! Maps of memory are of all threads: what is queued is heard before one changes.

use std::collections::VecDeque;

use cxlab_attach::model::Step;
use cxlab_workload::MOST_THREADS;

use super::Listener;
use super::recorder::Recorder;

/// Instructions that are queued at most (*assumed*: a time slice of QEMU's threads has fewer).
const MOST_QUEUED: usize = 1 << 18;
/// How far a thread goes beyond the others' clocks in a turn, in nanoseconds.
const TURN_NS: f64 = 100.0;

enum Item {
    Step(Step),
    Point(u64),
    Behind(u64),
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Whether the thread is in a system call, or has ended.
    is_away: bool,
}

/// A recorder that hears threads in the order of their clocks.
pub(super) struct OrderedRecorder<'a> {
    recorder: Recorder<'a>,
    queues: Vec<Queue>,
    /// Number of queued instructions, and instructions that were heard, whose memory is used again.
    queued: usize,
    spare: Vec<Step>,
    /// By the number of a point: whether it was heard.
    heard: Vec<bool>,
    /// The thread without which nothing more can be heard.
    lacks: Option<usize>,
    /// Threads that ended: the word that was cleared, and their last point.
    ended: Vec<(u64, u64)>,
    /// Number of the last point that was told.
    last_point: u64,
    too_many: Option<TooMany>,
}

/// What a program has too many of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TooMany {
    Threads,
    Accesses,
}

impl TooMany {
    /// What is told to the user.
    pub(super) fn message(self) -> String {
        match self {
            TooMany::Threads => format!(
                "--verify: found a program that makes {} threads or more; allowed: {MOST_THREADS}, with the first",
                MOST_THREADS + 1
            ),
            TooMany::Accesses => {
                "--verify: found a program that misses its first caches too often to be kept; \
                                  allowed: 67 million times, in all threads"
                    .to_owned()
            }
        }
    }
}

impl<'a> OrderedRecorder<'a> {
    pub(super) fn new(recorder: Recorder<'a>) -> OrderedRecorder<'a> {
        OrderedRecorder {
            recorder,
            queues: vec![Queue::default()],
            queued: 0,
            spare: Vec::new(),
            heard: vec![true],
            lacks: None,
            ended: Vec::new(),
            last_point: 0,
            too_many: None,
        }
    }

    /// What the program had too many of, after which nothing was heard.
    pub(super) fn too_many(&self) -> Option<TooMany> {
        self.too_many
    }

    /// The recorder, which has heard everything.
    pub(super) fn finish(mut self) -> Recorder<'a> {
        self.drain();
        self.recorder
    }

    fn is_alone(&self) -> bool {
        self.queues.len() == 1
    }

    fn push(&mut self, thread: usize, item: Item) {
        self.queued += usize::from(matches!(item, Item::Step(_)));
        self.queues[thread].items.push_back(item);
        self.settle(thread);
    }

    /// Hears what is to be heard now that a thread has told something.
    fn settle(&mut self, thread: usize) {
        let full = self.queued >= MOST_QUEUED;
        if self.lacks.is_none_or(|lacks| lacks == thread) || full {
            self.process_queued(false);
        }
    }

    /// Hears everything that is queued.
    fn drain(&mut self) {
        self.process_queued(true);
    }

    /// Hears the threads in the order of their clocks, until one has to be waited for; or all that is queued.
    fn process_queued(&mut self, all: bool) {
        loop {
            if !all && self.queued < MOST_QUEUED {
                let mut queues = self.queues.iter();
                self.lacks = queues.position(|queue| queue.items.is_empty() && !queue.is_away);
                if self.lacks.is_some() {
                    return;
                }
            }
            let mut first: Option<(f64, usize)> = None;
            let mut second = f64::INFINITY;
            for thread in 0..self.queues.len() {
                if !self.is_ready(thread) {
                    continue;
                }
                let clock = self.recorder.clock_ns(thread);
                match first {
                    Some((least, _)) if clock >= least => second = second.min(clock),
                    _ => {
                        second = first.map_or(second, |(least, _)| least);
                        first = Some((clock, thread));
                    }
                }
            }
            let Some((_, thread)) = first else {
                // Nothing is queued, or all that is waits for a thread in a system call.
                self.lacks = None;
                return;
            };
            self.take_turn(thread, second + TURN_NS);
        }
    }

    /// Whether a thread has something that can be heard.
    fn is_ready(&self, thread: usize) -> bool {
        match self.queues[thread].items.front() {
            None => false,
            Some(Item::Behind(point)) => self.heard[*point as usize],
            Some(Item::Step(_) | Item::Point(_)) => true,
        }
    }

    /// Hears a thread until its clock is there.
    fn take_turn(&mut self, thread: usize, until_ns: f64) {
        while self.is_ready(thread)
            && let Some(item) = self.queues[thread].items.pop_front()
        {
            match item {
                Item::Step(step) => {
                    self.queued -= 1;
                    self.instruct(thread, &step);
                    self.spare.push(step);
                }
                Item::Point(point) => {
                    self.recorder.point(thread, point);
                    self.heard[point as usize] = true;
                    // Others may go on now.
                    return;
                }
                Item::Behind(point) => self.recorder.behind(thread, point),
            }
            if self.recorder.clock_ns(thread) > until_ns {
                return;
            }
        }
    }

    fn instruct(&mut self, thread: usize, step: &Step) {
        if self.too_many.is_none() && !self.recorder.instruction(thread, step) {
            self.too_many = Some(TooMany::Accesses);
        }
    }

    /// Finds joins of a thread that has ended already: the thread that joins reads the word that was cleared, and
    /// goes on behind that end.
    fn joins(&mut self, thread: usize, step: &Step) {
        let reads = |address: u64| {
            let mut touches = step.touches.iter();
            touches.any(|touch| touch.address == address && !touch.write)
        };
        if let Some(at) = self.ended.iter().position(|(address, _)| reads(*address)) {
            let (_, point) = self.ended.swap_remove(at);
            self.push(thread, Item::Behind(point));
        }
    }
}

impl Listener for OrderedRecorder<'_> {
    fn map(&mut self, start: u64, end: u64) {
        self.drain();
        self.recorder.map(start, end);
    }

    fn unmap(&mut self, start: u64, end: u64) {
        self.drain();
        self.recorder.unmap(start, end);
    }

    fn thread(&mut self) -> bool {
        if self.queues.len() == MOST_THREADS || self.recorder.begin().is_err() {
            self.too_many = Some(TooMany::Threads);
        }
        self.queues.push(Queue::default());
        self.too_many.is_none()
    }

    fn instruction(&mut self, thread: usize, step: &Step) -> bool {
        if self.is_alone() {
            self.instruct(0, step);
            return self.too_many.is_none();
        }
        if !self.ended.is_empty() {
            self.joins(thread, step);
        }
        let mut own = self.spare.pop().unwrap_or_default();
        own.code = step.code;
        own.touches.clone_from(&step.touches);
        own.addresses.clone_from(&step.addresses);
        own.reads.clone_from(&step.reads);
        own.writes.clone_from(&step.writes);
        self.push(thread, Item::Step(own));
        self.too_many.is_none()
    }

    fn point(&mut self, thread: usize, number: u64) {
        self.last_point = number;
        self.heard.resize(number as usize + 1, false);
        self.push(thread, Item::Point(number));
    }

    fn behind(&mut self, thread: usize, number: u64) {
        self.push(thread, Item::Behind(number));
    }

    fn away(&mut self, thread: usize, away: bool) {
        self.queues[thread].is_away = away;
        if away {
            self.settle(thread);
        }
    }

    fn end(&mut self, thread: usize, address: u64) {
        self.away(thread, true);
        if address > 0 {
            self.ended.push((address, self.last_point));
        }
    }
}
