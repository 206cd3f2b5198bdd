//! Listens to the threads of a program: finds what the first cache of each lacks, and tells the model of
//! `cxlab attach`. Threads share the last level cache and the pages. They are heard in the order of
//! their estimated clocks (`turns`).

use std::collections::BTreeMap;

use cxlab_attach::model::Step;
use cxlab_attach::placement::Placement;
use cxlab_engine::units::LineAddr;
use cxlab_workload::OpKind;
use cxlab_workload::filter::{CacheFilter, Hierarchy, Level};

use super::exact::ThreadWindow;
use super::pages::Pages;
use super::perf::Sampling;
use super::recorded::{RecordedExecution, RecordedThread};
use super::sampled::{FIRST_LOOK_NS, LOOK_NS, SampledPart};
use super::thread::ThreadRecorder;
use super::{Assumed, LLC_WAYS};

/// Accesses that are kept at most, of all threads: 16 bytes each.
const MOST: usize = 1 << 26;

/// A point of a thread for which others may wait.
#[derive(Clone, Copy, Debug)]
struct Point {
    thread: u16,
    /// How many points of synchronization the thread has passed there.
    passed: u64,
    /// When it was there, by its estimated clock, in nanoseconds.
    clock_ns: f64,
}

/// What threads share.
pub(super) struct SharedRecorder<'a> {
    pub(super) assumed: Assumed,
    /// Number of pools.
    pub(super) pools: usize,
    last: CacheFilter,
    pub(super) pages: Pages<'a>,
    /// Number of accesses that all threads have kept.
    pub(super) kept: usize,
    pub(super) windows: Vec<ThreadWindow>,
    pub(super) parts: Vec<SampledPart>,
    /// CPU time of all threads until now, by the model; at the next sampling point of touched pages; and the interval
    /// of those, which grows.
    clock_ns: f64,
    next_look: f64,
    look: f64,
    /// Lines that missed the last level cache, and what a processor could sample of them.
    pub(super) misses: u64,
    pub(super) sampling: Sampling,
    /// Latest time of a sample.
    pub(super) time: u64,
    /// Numbers of instructions and times in nanoseconds, while there is one thread.
    times: Option<Vec<(u64, u64)>>,
}

pub(super) struct Recorder<'a> {
    shared: SharedRecorder<'a>,
    threads: Vec<ThreadRecorder>,
    points: BTreeMap<u64, Point>,
}

/// What was heard of an execution.
pub(super) struct RecordedRun {
    /// What the first caches of its threads lacked.
    pub(super) recorded: RecordedExecution,
    /// What the model was told, with every miss known.
    pub(super) windows: Vec<ThreadWindow>,
    /// What of it would be seen in samples.
    pub(super) parts: Vec<SampledPart>,
    /// Lines that missed the last level cache.
    pub(super) misses: u64,
    /// What a processor could sample of them.
    pub(super) sampling: Sampling,
}

/// A cache of one level.
///
/// # Errors
/// The cache cannot be built.
pub(super) fn cache(size: cxlab_engine::units::Bytes, ways: u32) -> Result<CacheFilter, String> {
    CacheFilter::new(&Hierarchy {
        levels: vec![Level { size, ways }],
    })
}

impl SharedRecorder<'_> {
    /// Whether a line misses the last level cache. `back` is a line that was modified and has to make room.
    pub(super) fn ask_last(&mut self, line: u64, kind: OpKind) -> (bool, Option<u64>) {
        let (mut misses, mut back) = (false, None);
        self.last
            .access(LineAddr(line), kind, &mut |kind, line| match kind {
                OpKind::Read => misses = true,
                OpKind::Write => back = Some(line.0),
            });
        (misses, back)
    }

    /// Whether the program has begun a second thread.
    pub(super) fn has_several(&self) -> bool {
        self.times.is_none()
    }

    /// A load of a thread missed, at a number of its instructions and at a time in nanoseconds.
    pub(super) fn sampled(&mut self, thread: u16, at: (u64, f64), code: u64, address: u64) {
        self.time = match self.has_several() {
            // Threads are heard in turns, and a ring has its records in order.
            true => self.time.max(at.1 as u64),
            false => at.0,
        };
        self.sampling.load(self.time, thread, code, address);
    }

    /// So much CPU time of a thread has passed, up to a number of instructions and a time. Returns the bytes of the pages that
    /// were touched lately, at a sampling point.
    pub(super) fn passed(&mut self, time_ns: f64, at: (u64, f64)) -> Option<u64> {
        if let Some(times) = &mut self.times {
            times.push((at.0, at.1 as u64));
        }
        self.clock_ns += time_ns;
        (self.clock_ns >= self.next_look).then(|| {
            self.look = LOOK_NS.min(2.0 * self.look);
            self.next_look = self.clock_ns + self.look;
            self.pages.sample()
        })
    }
}

impl<'a> Recorder<'a> {
    /// Listens with these caches and limits; `pool_of` gives the pool of an offset in CXL memory.
    ///
    /// # Errors
    /// A cache that cannot be built.
    pub(super) fn new(
        assumed: Assumed,
        placement: Placement,
        pools: usize,
        pool_of: &'a dyn Fn(u64) -> usize,
    ) -> Result<Recorder<'a>, String> {
        let shared = SharedRecorder {
            last: cache(assumed.last_level(), LLC_WAYS)?,
            assumed,
            pools,
            pages: Pages::new(placement, pool_of),
            kept: 0,
            windows: Vec::new(),
            parts: Vec::new(),
            clock_ns: 0.0,
            next_look: FIRST_LOOK_NS,
            look: FIRST_LOOK_NS,
            misses: 0,
            sampling: Sampling::default(),
            time: 0,
            times: Some(Vec::new()),
        };
        Ok(Recorder {
            threads: vec![ThreadRecorder::new(0, &shared)?],
            shared,
            points: BTreeMap::new(),
        })
    }

    pub(super) fn map(&mut self, start: u64, end: u64) {
        self.shared.pages.map(start, end);
        let time = match self.shared.has_several() {
            true => self.shared.time,
            false => self.threads[0].position(),
        };
        self.shared.sampling.map(time, start, end);
    }

    pub(super) fn unmap(&mut self, start: u64, end: u64) {
        self.shared.pages.unmap(start, end);
    }

    /// Another thread begins, and is the next by number.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        if let Some(times) = self.shared.times.take() {
            self.shared.sampling.in_time(&times);
            self.shared.time = self.threads[0].clock_ns() as u64;
        }
        let number = self.threads.len() as u16;
        self.threads
            .push(ThreadRecorder::new(number, &self.shared)?);
        Ok(())
    }

    /// A thread executes an instruction. False when too many accesses were kept.
    pub(super) fn instruction(&mut self, thread: usize, step: &Step) -> bool {
        self.threads[thread].step(&mut self.shared, step);
        self.shared.kept < MOST
    }

    /// A thread comes to a point for which others may wait.
    pub(super) fn point(&mut self, thread: usize, number: u64) {
        let own = &mut self.threads[thread];
        let passed = own.synchronize(None);
        let point = Point {
            thread: thread as u16,
            passed,
            clock_ns: own.clock_ns(),
        };
        self.points.insert(number, point);
    }

    /// A thread goes on behind a point of another.
    pub(super) fn behind(&mut self, thread: usize, number: u64) {
        let Some(point) = self.points.get(&number) else {
            unreachable!(
                "threads are heard in an order in which a point is before what waits for it"
            );
        };
        let own = &mut self.threads[thread];
        own.synchronize(Some((point.thread, point.passed)));
        own.wait_until(point.clock_ns);
    }

    /// The estimated clock of a thread, in nanoseconds.
    pub(super) fn clock_ns(&self, thread: usize) -> f64 {
        self.threads[thread].clock_ns()
    }

    /// What was heard.
    pub(super) fn finish(mut self) -> RecordedRun {
        let threads = self.threads.into_iter();
        let threads: Vec<RecordedThread> = threads
            .map(|thread| thread.finish(&mut self.shared))
            .collect();
        if threads.len() > 1 {
            // The last window of each thread was told at the end of all.
            let windows = &mut self.shared.windows;
            windows.sort_by(|one, other| one.ended_ns.total_cmp(&other.ended_ns));
            let parts = &mut self.shared.parts;
            parts.sort_by(|one, other| one.ended_ns.total_cmp(&other.ended_ns));
        }
        RecordedRun {
            recorded: RecordedExecution {
                threads,
                pages: self.shared.pages.into_places(),
            },
            windows: self.shared.windows,
            parts: self.shared.parts,
            misses: self.shared.misses,
            sampling: self.shared.sampling,
        }
    }
}
