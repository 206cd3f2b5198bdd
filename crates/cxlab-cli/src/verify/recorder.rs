//! Listens to a program, instruction by instruction: finds what its first cache lacks and which
//! access needs whose data, and tells the same to the model of `cxlab attach`.
//!
//! An access needs the data of an earlier one when a register of its address was computed from them,
//! or when both are in the same line, which is still in flight. Where it needs several, the one counts that
//! comes last by an estimate of a core with unlimited misses. Left out: dependence through lines that are not in
//! flight, and the time of computing on loaded data.

use std::collections::{HashMap, VecDeque};

use cxlab_attach::estimate::Estimate;
use cxlab_attach::model::{BEFORE, REGISTERS, Step, Window, WindowUse};
use cxlab_attach::placement::{PAGE, Placement};
use cxlab_attach::reuse::WindowTrace;
use cxlab_engine::units::LineAddr;
use cxlab_workload::OpKind;
use cxlab_workload::filter::{CacheFilter, Hierarchy, Level};

use super::pages::Pages;
use super::perf::Sampling;
use super::recorded::{Access, Recorded};
use super::sampled::{FIRST_LOOK_NS, LOOK_NS, Part, SAMPLE, SEEN_NS};
use super::{Assumed, FIRST_CACHE, FIRST_WAYS, LLC_WAYS, Listener};

/// Accesses that are kept at most: 16 bytes each.
const MOST: usize = 1 << 26;
/// Instructions that the model is told of at once, as windows of `cxlab attach` have at most.
const TOLD: u64 = 4096;

/// Who made a value.
#[derive(Clone, Copy, Default)]
struct Maker {
    /// The number of the access, from 1; 0 for none.
    access: u64,
    /// The instruction's number.
    position: u64,
    /// When it is there, in nanoseconds, by the estimate.
    ready: f64,
}

pub(super) struct Recorder<'a> {
    assumed: Assumed,
    first: CacheFilter,
    last: CacheFilter,
    pages: Pages<'a>,
    registers: [Maker; REGISTERS],
    /// Lines that may be in flight.
    lines: HashMap<u64, Maker>,
    /// Accesses that may be in the reorder buffer, with their lines.
    open: VecDeque<(Maker, u64)>,
    position: u64,
    /// Where the last access was.
    told: u64,
    /// When the next instruction is decoded, by the estimate.
    front: f64,
    recorded: Recorded,
    window: Window,
    windows: Vec<WindowUse>,
    /// Instructions that a window would see, where one could be; and when there is the next.
    sample: Vec<Step>,
    sampled: bool,
    next_sample: f64,
    /// The first instruction of the part at hand.
    part: u64,
    parts: Vec<Part>,
    /// Time of the program until now, by the model; at the next sampling point of touched pages; and the interval
    /// of those, which grows.
    clock_ns: f64,
    next_look: f64,
    look: f64,
    /// Lines that missed the last level cache, and what a processor could sample of them.
    misses: u64,
    sampling: Sampling,
}

/// What was heard of an execution.
pub(super) struct Heard {
    /// What its first cache lacked.
    pub(super) recorded: Recorded,
    /// What the model was told, with every miss known.
    pub(super) windows: Vec<WindowUse>,
    /// What of it would be seen in samples.
    pub(super) parts: Vec<Part>,
    /// Lines that missed the last level cache.
    pub(super) misses: u64,
    /// What a processor could sample of them.
    pub(super) sampling: Sampling,
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
        let cache = |size, ways| {
            CacheFilter::new(&Hierarchy {
                levels: vec![Level { size, ways }],
            })
        };
        Ok(Recorder {
            first: cache(FIRST_CACHE, FIRST_WAYS)?,
            last: cache(assumed.last_level(), LLC_WAYS)?,
            window: Window::exact(pools, assumed.overlap),
            assumed,
            pages: Pages::new(placement, pool_of),
            registers: [Maker::default(); REGISTERS],
            lines: HashMap::new(),
            open: VecDeque::new(),
            position: 0,
            told: 0,
            front: 0.0,
            recorded: Recorded::default(),
            windows: Vec::new(),
            sample: Vec::new(),
            sampled: true,
            next_sample: SEEN_NS,
            part: 0,
            parts: Vec::new(),
            clock_ns: 0.0,
            next_look: FIRST_LOOK_NS,
            look: FIRST_LOOK_NS,
            misses: 0,
            sampling: Sampling::default(),
        })
    }

    fn step(&mut self, step: &Step) {
        if self.position.is_multiple_of(TOLD) {
            self.part = step.code;
        }
        self.position += 1;
        self.recorded.instructions += 1;
        self.front += self.assumed.base_ns();
        self.retire();
        let window = u64::from(self.assumed.overlap.window);
        let (position, registers) = (self.position, &self.registers);
        let in_reach = |maker: &Maker| maker.access > 0 && position - maker.position < window;
        let all = |needed: &[u8]| {
            needed
                .iter()
                .map(|register| registers[usize::from(*register)])
                .filter(in_reach)
                .fold(Maker::default(), later)
        };
        let (base, mut made) = (all(&step.addresses), all(&step.reads));
        // Of the lines that the model asks about, those that miss, with their pools.
        let mut missed: Vec<(u64, usize)> = Vec::new();
        for touch in &step.touches {
            let line = touch.address / 64;
            let mut maker = base;
            if let Some(other) = self.lines.get(&line) {
                maker = later(maker, *other);
            }
            let kind = match touch.write {
                true => OpKind::Write,
                false => OpKind::Read,
            };
            let (mut asks, mut writes) = (false, None);
            self.first
                .access(LineAddr(line), kind, &mut |kind, line| match kind {
                    OpKind::Read => asks = true,
                    OpKind::Write => writes = Some(line.0),
                });
            if asks {
                let page = self.pages.touch(touch.address);
                let misses = self.ask_last(line, kind);
                if misses {
                    self.misses += 1;
                    if !touch.write {
                        let (time, ip) = (self.position, step.code);
                        self.sampling.load(time, ip, touch.address);
                    }
                    missed.push((line, self.pages.pool(page)));
                }
                let made_here = self.access(touch.address, page, kind, base, misses);
                if !touch.write {
                    maker = later(maker, made_here);
                }
            }
            if let Some(line) = writes {
                // It goes to the next cache, and waits for nothing.
                let page = self.pages.touch(line * 64);
                self.ask_last(line, OpKind::Write);
                self.access(line * 64, page, OpKind::Write, Maker::default(), false);
            }
            if !touch.write {
                made = later(made, maker);
            }
        }
        for register in &step.writes {
            self.registers[usize::from(*register)] = made;
        }
        self.window.step(step, &mut |address| {
            let found = missed.iter().find(|(line, _)| *line == address / 64);
            found.map(|(_, pool)| *pool)
        });
        if self.sampled && (1..=SAMPLE).contains(&(self.position % TOLD)) {
            self.sample.push(step.clone());
        }
        if self.position.is_multiple_of(TOLD) {
            self.end_window();
        }
    }

    /// What a window saw. It has no caches: it only knows which pools lines are in.
    fn seen(&mut self) -> Option<WindowTrace> {
        let steps = std::mem::take(&mut self.sample);
        let pages = &self.pages;
        let trace = WindowTrace::new(steps, BEFORE as usize, &mut |address| {
            pages.pool_at(address)
        });
        (!trace.is_empty()).then_some(trace)
    }

    /// Whether a line misses the last level cache. What was modified and has to make room goes back to its memory.
    fn ask_last(&mut self, line: u64, kind: OpKind) -> bool {
        let (mut misses, mut back) = (false, None);
        self.last
            .access(LineAddr(line), kind, &mut |kind, line| match kind {
                OpKind::Read => misses = true,
                OpKind::Write => back = Some(line.0),
            });
        if let Some(line) = back {
            self.window.write_back(self.pages.last_pool(line * 64));
        }
        misses
    }

    fn access(
        &mut self,
        address: u64,
        page: u32,
        kind: OpKind,
        base: Maker,
        misses: bool,
    ) -> Maker {
        let number = self.recorded.accesses.len() as u64 + 1;
        let back = match base.access {
            0 => 0,
            access => u32::try_from(number - access).unwrap_or(0),
        };
        self.recorded.accesses.push(Access {
            page,
            instructions: u32::try_from(self.position - self.told).unwrap_or(u32::MAX),
            back,
            line: (address % PAGE / 64) as u8,
            store: kind == OpKind::Write,
        });
        self.told = self.position;
        let wait = if misses { self.assumed.local_ns() } else { 0.0 };
        let maker = Maker {
            access: number,
            position: self.position,
            ready: self.front.max(base.ready) + wait,
        };
        if misses {
            self.lines.insert(address / 64, maker);
            self.open.push_back((maker, address / 64));
        }
        maker
    }

    /// Retires the oldest accesses of a full reorder buffer: younger ones wait until they have completed.
    fn retire(&mut self) {
        let window = u64::from(self.assumed.overlap.window);
        while let Some((maker, line)) = self.open.front().copied()
            && self.position - maker.position >= window
        {
            self.open.pop_front();
            self.front = self.front.max(maker.ready);
            if self.lines.get(&line).map(|last| last.access) == Some(maker.access) {
                self.lines.remove(&line);
            }
        }
    }

    fn end_window(&mut self) {
        let ended = self.window.take();
        let sample = self.seen();
        let machine = self.assumed.machine();
        let own = Estimate::of([&ended].into_iter(), &machine, 1.0);
        let time_ns = own.map_or(0.0, |own| own.time_ns());
        self.clock_ns += time_ns;
        self.sampled = self.clock_ns >= self.next_sample;
        if self.sampled {
            self.next_sample = self.clock_ns + SEEN_NS;
        }
        let looked = (self.clock_ns >= self.next_look).then(|| {
            self.look = LOOK_NS.min(2.0 * self.look);
            self.next_look = self.clock_ns + self.look;
            self.pages.sample()
        });
        self.windows.push(ended);
        self.parts.push(Part {
            code: self.part,
            sample,
            time_ns,
            looked,
        });
    }

    /// What was heard.
    pub(super) fn finish(mut self) -> Heard {
        self.end_window();
        // The block at hand.
        self.windows.push(self.window.finish());
        self.recorded.pages = self.pages.into_places();
        Heard {
            recorded: self.recorded,
            windows: self.windows,
            parts: self.parts,
            misses: self.misses,
            sampling: self.sampling,
        }
    }
}

impl Listener for Recorder<'_> {
    fn map(&mut self, start: u64, end: u64) {
        self.pages.map(start, end);
        self.sampling.map(self.position, start, end);
    }

    fn unmap(&mut self, start: u64, end: u64) {
        self.pages.unmap(start, end);
    }

    fn instruction(&mut self, step: &Step) -> bool {
        self.step(step);
        self.recorded.accesses.len() < MOST
    }
}

/// Whichever is there last.
fn later(one: Maker, other: Maker) -> Maker {
    match other.access > 0 && (one.access == 0 || other.ready > one.ready) {
        true => other,
        false => one,
    }
}
