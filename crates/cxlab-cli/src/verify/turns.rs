//! Puts the instructions of several threads in the order of their estimated clocks, before they
//! meet in the last-level cache.
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

/// Most queued instructions (*assumed*: a time slice of QEMU's threads has fewer).
const MOST_QUEUED: usize = 1 << 18;
/// Time by which a thread may pass the other threads' clocks in a turn, in nanoseconds.
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

/// A recorder that processes threads in the order of their clocks.
pub(super) struct OrderedRecorder<'a> {
    recorder: Recorder<'a>,
    queues: Vec<Queue>,
    /// Number of queued instructions, and processed instructions, whose memory is reused.
    queued: usize,
    spare: Vec<Step>,
    /// Whether a synchronization point was processed, by its number.
    processed: Vec<bool>,
    /// The thread whose events are needed to continue.
    lacks: Option<usize>,
    /// Ended threads: address of the cleared word, and last point.
    ended: Vec<(u64, u64)>,
    /// Number of the last reported point.
    last_point: u64,
    too_many: Option<TooMany>,
}

/// Limit that a program exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TooMany {
    Threads,
    Accesses,
}

impl TooMany {
    /// Message for the user.
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
            processed: vec![true],
            lacks: None,
            ended: Vec::new(),
            last_point: 0,
            too_many: None,
        }
    }

    /// The limit that the program exceeded. Later instructions were dropped.
    pub(super) fn too_many(&self) -> Option<TooMany> {
        self.too_many
    }

    /// Processes all queued events, and returns the recorder.
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

    /// Processes events after a thread has reported one.
    fn settle(&mut self, thread: usize) {
        let full = self.queued >= MOST_QUEUED;
        if self.lacks.is_none_or(|lacks| lacks == thread) || full {
            self.process_queued(false);
        }
    }

    /// Processes all queued events.
    fn drain(&mut self) {
        self.process_queued(true);
    }

    /// Processes the threads' events in the order of their clocks, until one thread has none
    /// queued, or `all` that are queued.
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
                // Nothing is queued, or all queued events wait for a thread in a system call.
                self.lacks = None;
                return;
            };
            self.take_turn(thread, second + TURN_NS);
        }
    }

    /// Whether a thread has an event that can be processed.
    fn is_ready(&self, thread: usize) -> bool {
        match self.queues[thread].items.front() {
            None => false,
            Some(Item::Behind(point)) => self.processed[*point as usize],
            Some(Item::Step(_) | Item::Point(_)) => true,
        }
    }

    /// Processes a thread's events until its clock reaches a time.
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
                    self.processed[point as usize] = true;
                    // Other threads may continue now.
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

    /// Detects joins of ended threads: the joining thread reads the cleared word, and continues after that end.
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
        self.processed.resize(number as usize + 1, false);
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
