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
use super::sampled::{FIRST_SAMPLE_NS, SAMPLE_NS, SampledPart};
use super::thread::ThreadRecorder;
use super::{Assumed, LLC_WAYS};

/// Most recorded accesses of all threads, of 16 bytes each.
const MAX_ACCESSES: usize = 1 << 26;

/// A synchronization point of a thread, for which other threads may wait.
#[derive(Clone, Copy, Debug)]
struct Point {
    thread: u16,
    /// Number of synchronization points that the thread has passed, up to this one.
    passed: u64,
    /// Time of the point by the thread's estimated clock, in nanoseconds.
    clock_ns: f64,
}

/// State that the recorders of all threads share.
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
    /// CPU time of all threads by the model: now, and at the next sampling point of touched pages; and the growing
    /// interval between sampling points.
    clock_ns: f64,
    next_sample: f64,
    interval: f64,
    /// Lines that missed the last level cache, and misses that a processor could sample.
    pub(super) misses: u64,
    pub(super) sampling: Sampling,
    /// Latest time of a sample.
    pub(super) time: u64,
    /// Instruction numbers with their times in nanoseconds, while there is one thread.
    times: Option<Vec<(u64, u64)>>,
}

pub(super) struct Recorder<'a> {
    shared: SharedRecorder<'a>,
    threads: Vec<ThreadRecorder>,
    points: BTreeMap<u64, Point>,
}

/// Results of recording an execution.
pub(super) struct RecordedRun {
    /// Accesses that missed the first caches.
    pub(super) recorded: RecordedExecution,
    /// Windows of the model with all misses known.
    pub(super) windows: Vec<ThreadWindow>,
    /// Parts of the execution as samples would show them.
    pub(super) parts: Vec<SampledPart>,
    /// Lines that missed the last level cache.
    pub(super) misses: u64,
    /// Misses that a processor could sample.
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
    /// Whether a line misses the last level cache. The second value is a modified line that is evicted.
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

    /// Adds a load of a thread that missed. `at` is its instruction number and its time in nanoseconds.
    pub(super) fn sampled(&mut self, thread: u16, at: (u64, f64), code: u64, address: u64) {
        self.time = match self.has_several() {
            // Threads are processed in turn, but a ring has its records in order of time.
            true => self.time.max(at.1 as u64),
            false => at.0,
        };
        self.sampling.load(self.time, thread, code, address);
    }

    /// Adds CPU time of a thread, up to an instruction number and a time. At a sampling point, returns the bytes of the
    /// pages touched since the last one.
    pub(super) fn passed(&mut self, time_ns: f64, at: (u64, f64)) -> Option<u64> {
        if let Some(times) = &mut self.times {
            times.push((at.0, at.1 as u64));
        }
        self.clock_ns += time_ns;
        (self.clock_ns >= self.next_sample).then(|| {
            self.interval = SAMPLE_NS.min(2.0 * self.interval);
            self.next_sample = self.clock_ns + self.interval;
            self.pages.sample()
        })
    }
}

impl<'a> Recorder<'a> {
    /// A recorder with the caches and limits of `assumed`. `pool_of` gives the pool of an offset in CXL memory.
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
            next_sample: FIRST_SAMPLE_NS,
            interval: FIRST_SAMPLE_NS,
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

    /// Adds the next thread.
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

    /// A thread executes an instruction. Returns false after too many recorded accesses.
    pub(super) fn instruction(&mut self, thread: usize, step: &Step) -> bool {
        self.threads[thread].step(&mut self.shared, step);
        self.shared.kept < MAX_ACCESSES
    }

    /// A thread reaches a synchronization point.
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

    /// A thread continues after a synchronization point of another thread.
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

    pub(super) fn finish(mut self) -> RecordedRun {
        let threads = self.threads.into_iter();
        let threads: Vec<RecordedThread> = threads
            .map(|thread| thread.finish(&mut self.shared))
            .collect();
        if threads.len() > 1 {
            // The last window of each thread was added at the end.
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
