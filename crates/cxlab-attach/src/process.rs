//! State of a followed process: placement of its memory, memory use of its code, and size of its working set.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::calibrate::Curve;
use crate::estimate::{BASE_NS, Estimate, Estimator, Machine, PhaseId, Rate, fitting};
use crate::fabric::{Fabric, PoolResponse};
use crate::locality::{Locality, WatchedPhase};
use crate::maps;
use crate::model::{LocalLineTime, Overlap, Window, WindowUse};
use crate::placement::{Layout, PAGE, Placement};
use crate::progress::{Progress, ThreadPlace, advances};
use crate::reuse::WindowTrace;
use crate::reuse_time::Phases;
use crate::sys::{Breakpoint, Tid};
use crate::thread::{Thread, Watch};

/// CPU time of the program between two samples of the working set, in nanoseconds: the first interval, and the longest,
/// which doubling reaches. CPU time is used because a program that is held most of the time makes little progress in real time.
const FIRST_SAMPLE_NS: u64 = 10_000_000;
const SAMPLE_NS: u64 = 100_000_000;
/// Reciprocal of the share of real time that samples may take, including the time in which touches mark pages again.
const SAMPLING_COST: u32 = 50;
/// Least time between two scans of the mappings.
const MAPS_AGE: Duration = Duration::from_millis(5);

/// Largest ratio of the model's time to the program's time for the same instructions (*assumed*: spread of repeated
/// measurements of this machine's latency).
const SLACK_FACTOR: f64 = 1.1;
/// Ratio of the model's time, if all lines of touched pages are used, to the native time, above which the touched pages
/// are doubtful (*assumed*: more than times vary on a busy machine).
const DOUBT_FACTOR: f64 = 1.25;
/// Least share of misses that a program waits for one by one, for its speed to show how much memory it uses. The speed of
/// streams and of overlapping misses depends too little on it (*assumed*).
const SERIAL_MISS_SHARE: f64 = 0.5;
/// Halvings of the interval in which a working set is searched.
const HALVINGS: u32 = 8;
/// Halvings of the interval in which the miss probability is searched if an event counts lines: to a millionth, so that
/// a small count does not become 0.
const COUNTED_HALVINGS: u32 = 20;
/// Longest watch of a line, as a multiple of the time in which the program fills the cache (*assumed*: the estimate of
/// that time changes with further lines).
const WATCHED_HORIZONS: f64 = 2.0;
/// Breakpoints on a watched line: one on bytes that were touched, and one on other bytes.
const BREAKPOINTS_OF_LINE: usize = 2;
/// Relative change of a pace that invalidates estimates.
const PACE_CHANGE: f64 = 0.05;
/// Windows of a phase are analysed again when the number of windows has grown by the reciprocal of this, and at the
/// latest after [`REANALYSIS_WINDOWS`] (*assumed*).
const REANALYSIS_GROWTH: u64 = 4;
const REANALYSIS_WINDOWS: u64 = 8;

/// Facts about the machine, given or measured.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Line times on this machine, in pages of 4 KiB and in large pages.
    pub(crate) small: Curve,
    pub(crate) large: Curve,
    /// Additional time of a touch that marks a page, in nanoseconds.
    pub(crate) mark_ns: f64,
    /// Additional time of a page fault in a thread that watches lines, in nanoseconds.
    pub(crate) watched_fault_ns: f64,
    /// Latency of this machine's memory, and the latency relative to which a pool adds latency.
    pub(crate) memory_ns: f64,
    pub(crate) local_ns: f64,
    pub(crate) llc_bytes: u64,
    pub(crate) overlap: Overlap,
    /// Whether cache and overlap are this machine's, so that the model's local time is comparable with the program's.
    pub(crate) own: bool,
}

pub(crate) struct Process {
    pub(crate) pid: Tid,
    /// The process that forked this one, with the number of its windows at the fork. `None` if this process was not
    /// forked, or has executed another program since.
    parent: Option<(Tid, u64)>,
    pub(crate) layout: Layout,
    placement: Placement,
    estimator: Estimator,
    /// Estimates from the present windows and working set, by phase.
    estimates: BTreeMap<PhaseId, WindowEstimate>,
    /// Registers that count instructions, by phase.
    progress: BTreeMap<PhaseId, Progress>,
    /// Memory that the process uses.
    locality: Locality,
    /// Number of windows when those of a phase were last analysed.
    renewed: BTreeMap<PhaseId, u64>,
    /// Lines that an event counted, and their CPU time in nanoseconds, by phase.
    counted: BTreeMap<PhaseId, (f64, f64)>,
    /// Rates at which phases touch lines, and number of threads that run at once.
    phases: Phases,
    running: usize,
    next_maps: Instant,
    /// CPU time of all threads, in nanoseconds. The next sample is due at `next_sample_ns` of CPU
    /// time, but not before `next_sample`.
    ran_ns: u64,
    next_sample_ns: u64,
    next_sample: Instant,
    interval_ns: u64,
    /// Whether the working set has been sampled.
    sampled: bool,
    /// Whether the last sample cleared the marks of touched pages.
    marks: bool,
}

/// Estimate from windows and a working set.
pub(crate) struct WindowEstimate {
    pub(crate) estimate: Estimate,
    /// Estimates with the least and the largest miss rate of the watched lines' interval.
    pub(crate) bounds: Option<[Estimate; 2]>,
    pub(crate) machine: Machine,
    /// Time of an instruction natively, which bounded the misses, in nanoseconds.
    seen_ns: Option<f64>,
    /// Rule that decided the miss rate, and whether the program is too fast for its touched pages.
    pub(crate) judged: MissRule,
    doubtful: bool,
    /// Delay per nanosecond of CPU time, with its bounds, and the number of the fabric's response used for them.
    delay: Option<(u64, [f64; 3])>,
}

/// Rule that decides how many of the lines new to a window miss the last level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MissRule {
    /// The pages that were touched.
    Pages,
    /// The lines that windows touched, because the program uses few lines of its pages.
    Lines,
    /// The reuse times of watched lines.
    Reuse,
    /// The program's speed on this machine.
    Time,
    /// An event that counts lines.
    Counted,
}

impl WindowEstimate {
    /// Delay per nanosecond of CPU time, and its bounds, for the fabric's response number `number`.
    pub(crate) fn delay(&mut self, answers: &[PoolResponse], number: u64) -> [f64; 3] {
        let known = self.delay.filter(|(known, _)| *known == number);
        let (_, delay) = known.unwrap_or_else(|| {
            let of = |estimate: &Estimate| estimate.delay(answers, &self.machine);
            let delay = of(&self.estimate);
            let bounds = self.bounds.as_ref().map(|bounds| bounds.each_ref().map(of));
            let [least, most] = bounds.unwrap_or([delay; 2]);
            (number, [delay, least, most])
        });
        self.delay = Some((number, delay));
        delay
    }

    /// Whether the estimate is still right when an instruction takes this long natively.
    fn is_for(&self, seen_ns: Option<f64>) -> bool {
        match (self.seen_ns, seen_ns) {
            (Some(one), Some(other)) => (one / other - 1.0).abs() <= PACE_CHANGE,
            (one, other) => one == other,
        }
    }
}

impl Process {
    pub(crate) fn new(pid: Tid, placement: Placement) -> Process {
        Process {
            pid,
            parent: None,
            layout: Layout::new(placement),
            placement,
            estimator: Estimator::default(),
            estimates: BTreeMap::new(),
            progress: BTreeMap::new(),
            locality: Locality::default(),
            renewed: BTreeMap::new(),
            counted: BTreeMap::new(),
            phases: Phases::default(),
            running: 1,
            next_maps: Instant::now(),
            ran_ns: 0,
            next_sample_ns: 0,
            next_sample: Instant::now(),
            interval_ns: FIRST_SAMPLE_NS,
            sampled: false,
            marks: false,
        }
    }

    /// A process that this one forked, with a copy of its memory, placement and code.
    pub(crate) fn forked(&self, pid: Tid) -> Process {
        Process {
            parent: Some((self.pid, self.estimator.windows())),
            layout: self.layout.clone(),
            estimator: self.estimator.clone(),
            progress: self.progress.clone(),
            locality: self.locality.clone(),
            phases: self.phases.clone(),
            sampled: self.sampled,
            ..Process::new(pid, self.placement)
        }
    }

    /// The process that forked this one.
    pub(crate) fn parent(&self) -> Option<Tid> {
        self.parent.map(|(parent, _)| parent)
    }

    /// Takes over what a forked process that has ended learned of the code, if this process has had no window since the
    /// fork. The next forked process begins with it.
    pub(crate) fn learn(&mut self, ended: Process) {
        if ended.parent == Some((self.pid, self.estimator.windows())) {
            self.estimator = ended.estimator;
            self.progress = ended.progress;
            self.locality = ended.locality;
            self.phases = ended.phases;
            self.sampled |= ended.sampled;
            self.estimates.clear();
        }
    }

    /// The process executes another program, so nothing of the old program's memory is left.
    pub(crate) fn exec(&mut self) {
        let pid = self.pid;
        *self = Process::new(pid, self.placement);
    }

    /// The machine as seen by a program that uses `bytes` of memory.
    fn machine(&self, facts: &Facts, bytes: u64) -> Machine {
        let (small, large) = (facts.small.at(bytes), facts.large.at(bytes));
        let lines = small.between(&large, self.locality.huge_share(), small.bytes);
        Machine {
            local_ns: facts.local_ns,
            wait_ns: facts.memory_ns,
            here: Some(LocalLineTime {
                miss_ns: lines.alone_ns,
                apart_ns: lines.apart_ns * facts.overlap.misses,
                stream_ns: lines.stream_ns * facts.overlap.stream,
            }),
            base_ns: BASE_NS,
        }
    }

    /// Scans the mappings if the last scan is too old, so that new mappings are placed in the order of mapping.
    pub(crate) fn refresh_maps(&mut self) {
        let began = Instant::now();
        if began < self.next_maps {
            return;
        }
        if let Ok(regions) = maps::regions(self.pid) {
            self.layout.update(&regions);
        }
        self.next_maps = Instant::now() + MAPS_AGE.max(began.elapsed() * SAMPLING_COST);
    }

    /// The pool of an address. If no known mapping contains the address, mappings are read again, once for each `again`.
    pub(crate) fn pool_of(
        &mut self,
        address: u64,
        fabric: &dyn Fabric,
        again: &mut bool,
    ) -> Option<usize> {
        if let Some(pool) = self.layout.pool(address, fabric) {
            return Some(pool);
        }
        if std::mem::take(again) {
            self.next_maps = Instant::now();
            self.refresh_maps();
        }
        self.layout.pool(address, fabric)
    }

    /// Samples the working set if that is due. If the kernel does not mark touched pages, all
    /// resident pages count as used.
    pub(crate) fn sample(&mut self, facts: &Facts) {
        let began = Instant::now();
        if self.ran_ns < self.next_sample_ns || began < self.next_sample {
            return;
        }
        let mut marked = Duration::ZERO;
        if let Ok(found) = maps::resident(self.pid) {
            let used = match self.marks {
                true => found.referenced,
                false => found.resident,
            };
            if self.marks {
                let pages = used.saturating_sub(found.huge) / PAGE;
                marked = Duration::from_nanos((pages as f64 * facts.mark_ns) as u64);
            }
            let huge_share = found.huge as f64 / found.resident.max(1) as f64;
            self.locality.add_sample(used, huge_share, facts.llc_bytes);
        }
        self.marks = maps::clear_referenced(self.pid).is_ok();
        self.estimates.clear();
        self.next_sample = Instant::now() + (began.elapsed() + marked) * SAMPLING_COST;
        self.next_sample_ns = self.ran_ns + self.interval_ns;
        self.sampled = true;
        self.interval_ns = SAMPLE_NS.min(self.interval_ns * 2);
    }

    /// Adds CPU time of a thread, in nanoseconds.
    pub(crate) fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
    }

    /// Adds a window with the registers before each instruction, and returns the phase of its code.
    pub(crate) fn add(
        &mut self,
        trace: WindowTrace,
        steps: &[ThreadPlace],
        facts: &Facts,
        fabric: &dyn Fabric,
    ) -> Option<PhaseId> {
        if trace.is_empty() {
            return None;
        }
        let used = self.analyse(self.estimator.windows() + 1, &trace, facts, fabric);
        let phase = self.estimator.add(used)?;
        let lines = trace.lines();
        let number = self.estimator.keep(trace);
        self.estimates.remove(&phase);
        self.renewed.entry(phase).or_insert(number);
        let known = &self.estimator;
        self.progress.retain(|phase, _| known.knows(*phase));
        self.renewed.retain(|phase, _| known.knows(*phase));
        self.phases.retain(|phase| known.knows(phase));
        self.counted.retain(|phase, _| known.knows(*phase));
        self.locality.retain(|phase| known.knows(phase));
        self.locality.add(phase, number, lines);
        let progress = self.progress.entry(phase).or_default();
        progress.add(advances(steps));
        Some(phase)
    }

    /// Memory use of a window, with the lines that are now known to be cached.
    fn analyse(
        &self,
        number: u64,
        trace: &WindowTrace,
        facts: &Facts,
        fabric: &dyn Fabric,
    ) -> WindowUse {
        let cached = self.locality.cached(number, trace);
        let window = Window::new(fabric.pools().len(), facts.overlap).with_cached(cached);
        trace.analyse(window, &mut |address| self.layout.pool(address, fabric))
    }

    /// Analyses the windows of a phase again if many others came since the last time.
    fn renew(&mut self, phase: PhaseId, facts: &Facts, fabric: &dyn Fabric) {
        let now = self.estimator.windows();
        let then = self.renewed.get(&phase).copied().unwrap_or(0);
        if now < then + (then / REANALYSIS_GROWTH).clamp(1, REANALYSIS_WINDOWS) {
            return;
        }
        self.renewed.insert(phase, now);
        self.estimates.remove(&phase);
        let mut estimator = std::mem::take(&mut self.estimator);
        estimator.renew(phase, &mut |number, trace| {
            self.analyse(number, trace, facts, fabric)
        });
        self.estimator = estimator;
    }

    /// Registers that count instructions in that code.
    pub(crate) fn progress(&mut self, phase: PhaseId) -> Option<&mut Progress> {
        self.progress.get_mut(&phase)
    }

    /// The phase that an instruction belongs to.
    pub(crate) fn at(&self, instruction: u64) -> Option<PhaseId> {
        self.estimator.at(instruction)
    }

    /// The phase of the last window.
    pub(crate) fn last_phase(&self) -> Option<PhaseId> {
        self.estimator.last()
    }

    /// Memory use of CPU time in that phase. `None` until the working set has been sampled.
    pub(crate) fn estimate(
        &mut self,
        phase: PhaseId,
        facts: &Facts,
        fabric: &dyn Fabric,
    ) -> Option<&mut WindowEstimate> {
        if !self.sampled {
            return None;
        }
        self.renew(phase, facts, fabric);
        let pace = self.progress.get(&phase).and_then(Progress::pace);
        let seen_ns = pace.filter(|_| facts.own).map(|pace| 1.0 / pace);
        let known = self.estimates.get(&phase);
        if !known.is_some_and(|known| known.is_for(seen_ns)) {
            let rate = self.rate(phase, facts, pace)?;
            self.phases.touches(phase, rate);
            let known = self.judge(phase, facts, seen_ns)?;
            self.estimates.insert(phase, known);
        }
        self.estimates.get_mut(&phase)
    }

    /// Lines new to windows per nanosecond of CPU time in a phase, at the pace of instructions counted by registers.
    fn rate(&self, phase: PhaseId, facts: &Facts, pace: Option<f64>) -> Option<f64> {
        let machine = self.machine(facts, self.locality.working_set());
        let estimate = self.estimator.estimate(phase, &machine, 1.0)?;
        let scale = pace.map_or(1.0, |pace| pace * estimate.instruction_ns());
        let lines: f64 = estimate.rates.iter().map(|rate| rate.reads).sum();
        Some(lines * scale)
    }

    /// Makes a thread watch lines that a window left, evenly chosen, until it has `most` breakpoints. Lines for which the
    /// processor has no breakpoint are skipped.
    pub(crate) fn watch(
        &mut self,
        tid: Tid,
        thread: &mut Thread,
        trace: &WindowTrace,
        most: usize,
    ) {
        if !thread.may_watch() {
            return;
        }
        let window = self.estimator.windows() + 1;
        let cached = self.locality.cached(window, trace);
        let mut left = trace.left();
        left.retain(|left| !cached.contains(&(left.address / 64)));
        let taken: usize = thread.watched.iter().map(Watch::breakpoints).sum();
        let number = left
            .len()
            .min(most.saturating_sub(taken) / BREAKPOINTS_OF_LINE);
        let at = |one: usize| (one * left.len() / number + window as usize) % left.len();
        let times = &mut self.locality.times;
        for one in 0..number {
            let left = left[at(one)];
            let beside = left.beside(window + one as u64);
            let words = [Some(left.address), beside].into_iter().flatten();
            let set: Vec<Breakpoint> = words
                .filter_map(|word| Breakpoint::set(tid, word).ok())
                .collect();
            if !set.is_empty() {
                thread.watched.push(Watch::new(times.begin(window), set));
            }
        }
    }

    /// Records the state of the lines that a thread watches.
    pub(crate) fn record_watches(&mut self, thread: &mut Thread) {
        if thread.watched.is_empty() {
            return;
        }
        let horizon = self.locality.horizon(&self.phases, self.running);
        let longest = match thread.may_watch() {
            true => horizon.map_or(f64::INFINITY, |horizon| WATCHED_HORIZONS * horizon),
            false => 0.0,
        };
        if thread.record_watches(&mut self.locality.times, longest) {
            self.estimates.clear();
        }
    }

    /// Adds CPU time of a thread in a phase, in nanoseconds.
    pub(crate) fn ran_in(&mut self, phase: PhaseId, ns: f64) {
        self.phases.ran(phase, ns);
    }

    /// Sets the number of threads that run at once.
    pub(crate) fn runs(&mut self, threads: usize) {
        self.running = threads;
    }

    /// Adds lines that an event counted in CPU time of a phase.
    pub(crate) fn count(&mut self, phase: PhaseId, lines: f64, ns: f64) {
        let (all, all_ns) = self.counted.entry(phase).or_default();
        let before = *all / all_ns.max(1.0);
        *all += lines;
        *all_ns += ns;
        let now = *all / all_ns.max(1.0);
        if (now - before).abs() > PACE_CHANGE * before {
            self.estimates.remove(&phase);
        }
    }

    /// The estimate with as many misses as an event counted. `None` without such an event.
    fn by_count(
        &self,
        phase: PhaseId,
        machine: Machine,
        seen_ns: Option<f64>,
    ) -> Option<WindowEstimate> {
        let (lines, ns) = *self.counted.get(&phase)?;
        let per_ns = lines / ns.max(1.0);
        let pace = self.progress.get(&phase).and_then(Progress::pace);
        let of = |chance| self.estimator.estimate(phase, &machine, chance);
        let reads = |estimate: &Estimate| {
            let scale = pace.map_or(1.0, |pace| pace * estimate.instruction_ns());
            scale * estimate.rates.iter().map(|rate| rate.reads).sum::<f64>()
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..COUNTED_HALVINGS {
            let middle = (low + high) / 2.0;
            match reads(&of(middle)?) < per_ns {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(WindowEstimate {
            estimate: of(high)?,
            bounds: None,
            machine,
            seen_ns,
            judged: MissRule::Counted,
            doubtful: false,
            delay: None,
        })
    }

    /// Estimates how many lines miss in a phase, an instruction of which takes `seen_ns` natively. [`MissRule`] has the
    /// methods. No more lines miss than fit in the program's time.
    fn judge(&self, phase: PhaseId, facts: &Facts, seen_ns: Option<f64>) -> Option<WindowEstimate> {
        let machine = self.machine(facts, self.locality.working_set());
        if let Some(known) = self.by_count(phase, machine, seen_ns) {
            return Some(known);
        }
        let watched = self.watched(phase);
        let of = |chance| self.estimator.estimate(phase, &machine, chance);
        let part = watched.map(|watched| watched.beyond.part);
        let missing = |chance| self.locality.chance_of_unshared(chance, part);
        let by_pages = self.chance();
        let mut estimate = of(missing(by_pages))?;
        let doubtful =
            seen_ns.is_some_and(|seen_ns| estimate.instruction_ns() > DOUBT_FACTOR * seen_ns);
        let mut chance = by_pages;
        let mut judged = MissRule::Pages;
        if watched.is_some() {
            judged = MissRule::Reuse;
        } else if let Some(by_lines) = self.locality.chance_by_lines(phase, doubtful) {
            if by_lines < by_pages {
                (chance, judged) = (by_lines, MissRule::Lines);
            }
        } else if let Some(by_speed) = seen_ns
            .filter(|_| doubtful)
            .and_then(|seen_ns| self.chance_by_speed(phase, facts, seen_ns, &estimate))
        {
            (chance, judged) = (by_speed.min(by_pages), MissRule::Time);
        }
        if matches!(judged, MissRule::Lines | MissRule::Time) {
            estimate = of(missing(chance))?;
        }
        // Without counted instructions, the line times of this machine give the time of an instruction.
        let most_ns = match facts.own {
            true => SLACK_FACTOR * seen_ns.unwrap_or(estimate.instruction_ns()),
            false => f64::INFINITY,
        };
        if estimate.model_instruction_ns() > most_ns {
            estimate = of(fitting(missing(chance), most_ns, of))?;
            judged = MissRule::Time;
        }
        let bound = |part| {
            let missing = self.locality.chance_of_unshared(chance, Some(part));
            of(fitting(missing, most_ns, of))
        };
        let bounds = watched.and_then(|watched| {
            let [least, most] = watched.beyond.interval();
            Some([bound(least)?, bound(most)?])
        });
        Some(WindowEstimate {
            estimate,
            bounds,
            machine,
            seen_ns,
            judged,
            doubtful,
            delay: None,
        })
    }

    /// Probability that a line misses in the working set with which an instruction takes `seen_ns` on this machine.
    /// `None` if the program does not wait for its misses one by one.
    fn chance_by_speed(
        &self,
        phase: PhaseId,
        facts: &Facts,
        seen_ns: f64,
        estimate: &Estimate,
    ) -> Option<f64> {
        let sum = |of: fn(&Rate) -> f64| estimate.rates.iter().map(of).sum::<f64>();
        if sum(|rate| rate.waits) < SERIAL_MISS_SHARE * sum(|rate| rate.reads) {
            return None;
        }
        let takes_longer = |bytes: f64| {
            let machine = self.machine(facts, bytes as u64);
            let estimate = self.estimator.estimate(phase, &machine, 1.0);
            estimate.is_some_and(|estimate| estimate.instruction_ns() > SLACK_FACTOR * seen_ns)
        };
        // By the logarithm, as line times are measured.
        let (mut low, mut high) = (1.0_f64, self.locality.working_set().max(2) as f64);
        for _ in 0..HALVINGS {
            let middle = (low * high).sqrt();
            match takes_longer(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(self.locality.chance_of(high as u64))
    }

    /// Miss rate of a phase by watched lines. `None` if too few are known, or if the cache holds all touched pages.
    fn watched(&self, phase: PhaseId) -> Option<WatchedPhase> {
        let matters = self.chance() > 0.0;
        let watched = || self.locality.watched(phase, &self.phases, self.running);
        matters.then(watched).flatten()
    }

    /// Whether more windows may soon decide which lines of a phase are in the cache.
    pub(crate) fn is_undecided(&self, phase: PhaseId) -> bool {
        if !self.counted.is_empty() {
            return false;
        }
        let watched = self.watched(phase);
        watched.is_none_or(|watched| !watched.enough)
            && self.locality.is_undecided(phase, self.is_doubtful(phase))
    }

    /// Whether the program is too fast in that phase for the pages that it touches.
    fn is_doubtful(&self, phase: PhaseId) -> bool {
        let known = self.estimates.get(&phase);
        known.is_some_and(|known| known.doubtful)
    }

    /// Whether more windows may decide how many lines of its pages the last window's phase uses, and whether its speed
    /// contradicts the touched pages.
    pub(crate) fn wants_windows(&self) -> (bool, bool) {
        let last = self.estimator.last();
        let last = last.filter(|phase| self.is_undecided(*phase));
        let doubtful = last.is_some_and(|phase| self.is_doubtful(phase));
        (last.is_some(), doubtful)
    }

    /// Whether the kernel refused to mark touched pages.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.sampled && !self.marks
    }

    /// Probability that a line not touched lately is not in the last level cache.
    pub(crate) fn chance(&self) -> f64 {
        self.locality.chance_by_pages()
    }
}

#[cfg(test)]
pub(crate) mod tests;
