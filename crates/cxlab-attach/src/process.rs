//! State of a followed process: placement of its memory, memory use of its code, and size
//! of its working set.

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

/// CPU time of the program between two samples of the working set, in nanoseconds: the first
/// interval, and the longest one, which doubling reaches. `LOOKS` is the number of samples whose
/// maximum counts. The intervals are in CPU time, because in real time a program that is nearly
/// always held would not get through its memory between two samples.
const FIRST_LOOK: u64 = 10_000_000;
const LOOK: u64 = 100_000_000;
const LOOKS: usize = 2;
/// Reciprocal of the share of real time that these samples may take.
const LOOK_COST: u32 = 50;
/// Least time between two scans of the mappings.
const MAPS_AGE: Duration = Duration::from_millis(5);

/// Facts about the machine, given or measured.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Line times on this machine, in pages of 4 KiB and in large pages.
    pub(crate) small: Curve,
    pub(crate) large: Curve,
    /// Latency of this machine's memory, and the latency relative to which a pool adds latency.
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
    /// Estimates from the present windows and working set, by phase.
    estimates: BTreeMap<PhaseId, Known>,
    /// Registers that count instructions, by phase.
    progress: BTreeMap<PhaseId, Progress>,
    /// Bytes used in the last samples, and the bytes of last level cache.
    used: VecDeque<u64>,
    llc_bytes: u64,
    huge_share: f64,
    next_maps: Instant,
    /// CPU time of its threads, in nanoseconds. The next sample is due at `next_look_ns` of CPU
    /// time, but not before `next_look`.
    ran_ns: u64,
    next_look_ns: u64,
    next_look: Instant,
    look_ns: u64,
    /// Whether the working set has been sampled.
    looked: bool,
    /// Whether the last sample cleared the marks of touched pages.
    marks: bool,
}

/// Estimate from windows and a working set.
pub(crate) struct Known {
    pub(crate) estimate: Estimate,
    pub(crate) machine: Machine,
    /// Delay of a nanosecond, with the number of the fabric's response that it is for.
    delay: Option<(u64, f64)>,
}

impl Known {
    /// Delay of a nanosecond of CPU time, for the fabric's response of that number.
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

    /// The process executes another program, so nothing of the old program's memory is left.
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

    /// Scans the mappings if the last scan is too old, so that new mappings are placed in
    /// the order of mapping.
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

    /// Samples the working set if that is due. If the kernel does not mark touched pages, all
    /// resident pages count as used.
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

    /// Adds CPU time of one of its threads, in nanoseconds.
    pub(crate) fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
    }

    /// Adds a window with the places that it stepped over, and returns the phase of its code.
    pub(crate) fn add(&mut self, window: WindowUse, steps: &[Place]) -> Option<PhaseId> {
        let phase = self.estimator.add(window)?;
        self.estimates.remove(&phase);
        let known = &self.estimator;
        self.progress.retain(|phase, _| known.knows(*phase));
        let progress = self.progress.entry(phase).or_default();
        progress.add(advances(steps));
        Some(phase)
    }

    /// Registers that count instructions in that code.
    pub(crate) fn progress(&mut self, phase: PhaseId) -> Option<&mut Progress> {
        self.progress.get_mut(&phase)
    }

    /// The phase that an instruction belongs to.
    pub(crate) fn at(&self, instruction: u64) -> Option<PhaseId> {
        self.estimator.at(instruction)
    }

    /// The phase of a sample. A window may have been in that code since the sample.
    pub(crate) fn code_of(&self, look: &Look) -> Option<PhaseId> {
        look.code.or_else(|| self.at(look.place.code))
    }

    /// The phase of the last window.
    pub(crate) fn last_phase(&self) -> Option<PhaseId> {
        self.estimator.last()
    }

    /// Memory use of CPU time in that phase. `None` until the working set has been sampled.
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

    /// Whether the kernel refused to mark touched pages.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.looked && !self.marks
    }

    /// Probability that a line not touched lately is not in the last level cache.
    pub(crate) fn chance(&self) -> f64 {
        chance(self.working_set(), self.llc_bytes)
    }

    /// Bytes used recently.
    fn working_set(&self) -> u64 {
        self.used.iter().max().copied().unwrap_or(0)
    }
}
