//! What is known of a followed process: where its memory lies, what it asks of it, how much of it
//! it uses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::calibrate::Curve;
use crate::estimate::{BASE_NS, Estimate, Estimator, Machine, PhaseId, chance};
use crate::fabric::Answer;
use crate::maps;
use crate::model::{Here, Overlap, WindowUse};
use crate::placement::{Layout, Placement};
use crate::progress::{Place, Progress, advances};
use crate::sys::Tid;
use crate::thread::Look;

/// CPU time of the program between two looks at the working set, at first and twice as long each time up to the
/// last, in nanoseconds, and how many of them count: the largest does. By a clock, one that is held nearly always
/// would not get through its memory between two.
const FIRST_LOOK: u64 = 10_000_000;
const LOOK: u64 = 100_000_000;
const LOOKS: usize = 2;
/// Part of the real time that looking may take.
const LOOK_COST: u32 = 50;
/// Time between two looks at the mappings, where these are few.
const MAPS_AGE: Duration = Duration::from_millis(5);

/// What a run is told of the machine, or measured of it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// What lines take here, in pages of 4 KiB and in large ones.
    pub(crate) small: Curve,
    pub(crate) large: Curve,
    /// Latency of this machine's memory, and what a pool's is compared with.
    pub(crate) memory_ns: f64,
    pub(crate) local_ns: f64,
    pub(crate) llc_bytes: u64,
    pub(crate) overlap: Overlap,
}

pub(crate) struct Process {
    pub(crate) pid: Tid,
    pub(crate) layout: Layout,
    placement: Placement,
    estimator: Estimator,
    /// What follows from windows and working sets as they are now, by phase.
    estimates: BTreeMap<PhaseId, Known>,
    /// What counts instructions, by phase.
    progress: BTreeMap<PhaseId, Progress>,
    /// Bytes used, as the last looks have them, and of how much cache.
    used: VecDeque<u64>,
    llc_bytes: u64,
    huge_share: f64,
    next_maps: Instant,
    /// CPU time of its threads, in nanoseconds, and how much of it there must be for the next look, not before
    /// that time.
    ran_ns: u64,
    next_look_ns: u64,
    next_look: Instant,
    look_ns: u64,
    /// Whether a time has passed between two looks, so that what is used is known.
    looked: bool,
    /// Whether marks of touched pages were cleared at the last look.
    marks: bool,
}

/// What follows from windows and a working set.
pub(crate) struct Known {
    pub(crate) estimate: Estimate,
    pub(crate) machine: Machine,
    /// Delay of a nanosecond, by the answers with that number.
    delay: Option<(u64, f64)>,
}

impl Known {
    /// Delay of a nanosecond of CPU time, by the fabric's answers, which are told apart by a number.
    pub(crate) fn delay(&mut self, answers: &[Answer], number: u64) -> f64 {
        let known = self.delay.filter(|(known, _)| *known == number);
        let (_, delay) =
            known.unwrap_or_else(|| (number, self.estimate.delay(answers, &self.machine)));
        self.delay = Some((number, delay));
        delay
    }
}

impl Process {
    pub(crate) fn new(pid: Tid, placement: Placement) -> Process {
        Process {
            pid,
            layout: Layout::new(placement),
            placement,
            estimator: Estimator::default(),
            estimates: BTreeMap::new(),
            progress: BTreeMap::new(),
            used: VecDeque::new(),
            llc_bytes: 0,
            huge_share: 0.0,
            next_maps: Instant::now(),
            ran_ns: 0,
            next_look_ns: 0,
            next_look: Instant::now(),
            look_ns: FIRST_LOOK,
            looked: false,
            marks: false,
        }
    }

    /// It runs another program now: nothing of the old one's memory is left.
    pub(crate) fn exec(&mut self) {
        let pid = self.pid;
        *self = Process::new(pid, self.placement);
    }

    fn machine(&self, facts: &Facts) -> Machine {
        let bytes = self.working_set();
        let (small, large) = (facts.small.at(bytes), facts.large.at(bytes));
        let lines = small.between(&large, self.huge_share, small.bytes);
        Machine {
            local_ns: facts.local_ns,
            wait_ns: facts.memory_ns,
            here: Some(Here {
                miss_ns: lines.alone_ns,
                apart_ns: lines.apart_ns * facts.overlap.misses,
                stream_ns: lines.stream_ns * facts.overlap.stream,
            }),
            base_ns: BASE_NS,
        }
    }

    /// Mappings young enough for a window, and for each new one to get its place in the order of mapping.
    pub(crate) fn refresh_maps(&mut self) {
        let began = Instant::now();
        if began < self.next_maps {
            return;
        }
        if let Ok(regions) = maps::regions(self.pid) {
            self.layout.update(&regions);
        }
        self.next_maps = Instant::now() + MAPS_AGE.max(began.elapsed() * LOOK_COST);
    }

    /// How much of its memory it uses, where that is due. Where the kernel does not mark touched
    /// pages, all resident ones count as used.
    pub(crate) fn look(&mut self, facts: &Facts) {
        let began = Instant::now();
        if self.ran_ns < self.next_look_ns || began < self.next_look {
            return;
        }
        if let Ok(found) = maps::resident(self.pid) {
            let used = match self.marks {
                true => found.referenced,
                false => found.resident,
            };
            if self.used.len() == LOOKS {
                self.used.pop_front();
            }
            self.used.push_back(used);
            self.llc_bytes = facts.llc_bytes;
            self.huge_share = found.huge as f64 / found.resident.max(1) as f64;
        }
        self.marks = maps::clear_referenced(self.pid).is_ok();
        self.estimates.clear();
        self.next_look = Instant::now() + began.elapsed() * LOOK_COST;
        self.next_look_ns = self.ran_ns + self.look_ns;
        self.looked = true;
        self.look_ns = LOOK.min(self.look_ns * 2);
    }

    /// A thread of it has used so much CPU time, in nanoseconds.
    pub(crate) fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
    }

    /// A further window, with what it stepped over, and of which code it was.
    pub(crate) fn add(&mut self, window: WindowUse, steps: &[Place]) -> Option<PhaseId> {
        let phase = self.estimator.add(window)?;
        self.estimates.remove(&phase);
        let known = &self.estimator;
        self.progress.retain(|phase, _| known.knows(*phase));
        let progress = self.progress.entry(phase).or_default();
        progress.add(advances(steps));
        Some(phase)
    }

    /// What counts in that code.
    pub(crate) fn progress(&mut self, phase: PhaseId) -> Option<&mut Progress> {
        self.progress.get_mut(&phase)
    }

    /// Which code an instruction belongs to.
    pub(crate) fn at(&self, instruction: u64) -> Option<PhaseId> {
        self.estimator.at(instruction)
    }

    /// Which code was looked at: a window may have been there since.
    pub(crate) fn code_of(&self, look: &Look) -> Option<PhaseId> {
        look.code.or_else(|| self.at(look.place.code))
    }

    /// The code of the last window.
    pub(crate) fn last_phase(&self) -> Option<PhaseId> {
        self.estimator.last()
    }

    /// What CPU time in that code asks for; `None` while nothing is known of what the program uses.
    pub(crate) fn estimate(&mut self, phase: PhaseId, facts: &Facts) -> Option<&mut Known> {
        if !self.looked {
            return None;
        }
        let (machine, chance) = (self.machine(facts), self.chance());
        match self.estimates.entry(phase) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => {
                let estimate = self.estimator.estimate(phase, &machine, chance)?;
                Some(free.insert(Known {
                    estimate,
                    machine,
                    delay: None,
                }))
            }
        }
    }

    /// Whether the kernel was asked to mark touched pages and refused.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.looked && !self.marks
    }

    /// The chance that a line not touched lately is not in the last level cache.
    pub(crate) fn chance(&self) -> f64 {
        chance(self.working_set(), self.llc_bytes)
    }

    /// Bytes used lately.
    fn working_set(&self) -> u64 {
        self.used.iter().max().copied().unwrap_or(0)
    }
}
