//! State of a followed process: placement of its memory, memory use of its code, and size
//! of its working set.

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

/// CPU time of the program between two samples of the working set, in nanoseconds: the first
/// interval, and the longest one, which doubling reaches. The intervals are in CPU time, because in real time a program that is nearly
/// always held would not get through its memory between two samples.
const FIRST_LOOK: u64 = 10_000_000;
const LOOK: u64 = 100_000_000;
/// Reciprocal of the share of real time that these samples may take, with the time in which the program's
/// next touches mark its pages again.
const LOOK_COST: u32 = 50;
/// Least time between two scans of the mappings.
const MAPS_AGE: Duration = Duration::from_millis(5);

/// How much longer than the program took the model's time for the same instructions may be
/// (*assumed*: how far one measurement of this machine's latency is from the next).
const SLACK: f64 = 1.1;
/// How much longer than natively the instructions would take here, if the program used all lines of its
/// pages, from which on pages are doubted (*assumed*: more than a busy machine's times vary).
const DOUBT: f64 = 1.25;
/// Share of misses that a program waits for one by one, from which on its speed says how much memory it
/// uses. The speed of streams and of misses at once says too little (*assumed*).
const ALONE: f64 = 0.5;
/// Halvings of the interval in which a working set is searched.
const HALVINGS: u32 = 8;
/// Halvings of the interval in which the share of lines that miss is searched where they are counted: to a
/// millionth, so that some lines miss wherever some are counted.
const COUNTED_HALVINGS: u32 = 20;
/// Times that the cache is filled until a line is watched no longer (*assumed*: what is known of that time
/// changes with further lines).
const WATCHED_HORIZONS: f64 = 2.0;
/// Breakpoints on a watched line: one on bytes that were touched, and one on others.
const BREAKPOINTS_OF_LINE: usize = 2;
/// Change of a pace from which on estimates are made anew.
const PACE_CHANGE: f64 = 0.05;
/// Windows of a phase are analysed again when the number of windows has grown by this part, and at the latest
/// after so many (*assumed*).
const RENEWED: u64 = 4;
const RENEWED_LATEST: u64 = 8;

/// Facts about the machine, given or measured.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Line times on this machine, in pages of 4 KiB and in large pages.
    pub(crate) small: Curve,
    pub(crate) large: Curve,
    /// Time by which a touch that marks a page takes longer.
    pub(crate) mark_ns: f64,
    /// Time by which a page fault takes longer in a thread that watches lines.
    pub(crate) watched_fault_ns: f64,
    /// Latency of this machine's memory, and the latency relative to which a pool adds latency.
    pub(crate) memory_ns: f64,
    pub(crate) local_ns: f64,
    pub(crate) llc_bytes: u64,
    pub(crate) overlap: Overlap,
    /// Whether cache and overlap are this machine's, so that the model's time with all memory local
    /// can be compared with the program's.
    pub(crate) own: bool,
}

pub(crate) struct Process {
    pub(crate) pid: Tid,
    /// The process that forked this one, and the number of windows that it had been seen in by then. `None` if
    /// this one was not forked, or executes another program since.
    parent: Option<(Tid, u64)>,
    pub(crate) layout: Layout,
    placement: Placement,
    estimator: Estimator,
    /// Estimates from the present windows and working set, by phase.
    estimates: BTreeMap<PhaseId, WindowEstimate>,
    /// Registers that count instructions, by phase.
    progress: BTreeMap<PhaseId, Progress>,
    /// Memory that it uses.
    locality: Locality,
    /// Number of windows when those of a phase were last analysed.
    renewed: BTreeMap<PhaseId, u64>,
    /// Lines that an event counted, and their CPU time in nanoseconds, by phase.
    counted: BTreeMap<PhaseId, (f64, f64)>,
    /// How its phases go through memory, and number of threads that run at once.
    phases: Phases,
    running: usize,
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
pub(crate) struct WindowEstimate {
    pub(crate) estimate: Estimate,
    /// The same with as few and as many misses as watched lines allow.
    pub(crate) bounds: Option<[Estimate; 2]>,
    pub(crate) machine: Machine,
    /// Time of an instruction natively, which bounded the misses, in nanoseconds.
    seen_ns: Option<f64>,
    /// What decided how many lines miss, and whether the program is too fast for its pages.
    pub(crate) judged: MissRule,
    doubtful: bool,
    /// Delay of a nanosecond, and its bounds, with the number of the fabric's response that they are for.
    delay: Option<(u64, [f64; 3])>,
}

/// What decides how many of the lines that are new to a window miss the last level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MissRule {
    /// The pages that were touched.
    Pages,
    /// The lines that windows saw: the program uses few lines of the pages.
    Lines,
    /// How soon watched lines were touched again.
    Reuse,
    /// The program's speed on this machine.
    Time,
    /// An event that counts lines.
    Counted,
}

impl WindowEstimate {
    /// Delay of a nanosecond of CPU time, and its bounds, for the fabric's response of that number.
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
            next_look_ns: 0,
            next_look: Instant::now(),
            look_ns: FIRST_LOOK,
            looked: false,
            marks: false,
        }
    }

    /// A process that this one forked: it has the same memory, at the same places, and executes the same code.
    pub(crate) fn forked(&self, pid: Tid) -> Process {
        Process {
            parent: Some((self.pid, self.estimator.windows())),
            layout: self.layout.clone(),
            estimator: self.estimator.clone(),
            progress: self.progress.clone(),
            locality: self.locality.clone(),
            phases: self.phases.clone(),
            looked: self.looked,
            ..Process::new(pid, self.placement)
        }
    }

    /// The process that forked this one.
    pub(crate) fn parent(&self) -> Option<Tid> {
        self.parent.map(|(parent, _)| parent)
    }

    /// A process that this one forked has ended. If no window has been in this one since, what is known of the
    /// code is what was known of it: it is true of the next one that is forked.
    pub(crate) fn learn(&mut self, ended: Process) {
        if ended.parent == Some((self.pid, self.estimator.windows())) {
            self.estimator = ended.estimator;
            self.progress = ended.progress;
            self.locality = ended.locality;
            self.phases = ended.phases;
            self.looked |= ended.looked;
            self.estimates.clear();
        }
    }

    /// The process executes another program, so nothing of the old program's memory is left.
    pub(crate) fn exec(&mut self) {
        let pid = self.pid;
        *self = Process::new(pid, self.placement);
    }

    /// The machine as a program sees it that uses so much memory.
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

    /// The pool of an address. If no known mapping has it, mappings are read again, once for each `again`.
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
    pub(crate) fn look(&mut self, facts: &Facts) {
        let began = Instant::now();
        if self.ran_ns < self.next_look_ns || began < self.next_look {
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
            self.locality.look(used, huge_share, facts.llc_bytes);
        }
        self.marks = maps::clear_referenced(self.pid).is_ok();
        self.estimates.clear();
        self.next_look = Instant::now() + (began.elapsed() + marked) * LOOK_COST;
        self.next_look_ns = self.ran_ns + self.look_ns;
        self.looked = true;
        self.look_ns = LOOK.min(self.look_ns * 2);
    }

    /// Adds CPU time of one of its threads, in nanoseconds.
    pub(crate) fn ran(&mut self, ns: u64) {
        self.ran_ns += ns;
    }

    /// Adds a window with the places that it stepped over, and returns the phase of its code.
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

    /// Memory use of a window, by what is known of its lines now.
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
        if now < then + (then / RENEWED).clamp(1, RENEWED_LATEST) {
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
        if !self.looked {
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

    /// Lines new to windows in a nanosecond of CPU time in a phase, in which as many instructions are executed
    /// as registers tell.
    fn rate(&self, phase: PhaseId, facts: &Facts, pace: Option<f64>) -> Option<f64> {
        let machine = self.machine(facts, self.locality.working_set());
        let estimate = self.estimator.estimate(phase, &machine, 1.0)?;
        let told = pace.map_or(1.0, |pace| pace * estimate.instruction_ns());
        let lines: f64 = estimate.rates.iter().map(|rate| rate.reads).sum();
        Some(lines * told)
    }

    /// A thread watches lines that a window left, as far apart as possible, until it has so many breakpoints. Only
    /// those are watched for which the processor has a breakpoint.
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

    /// Tells what is known of the lines that a thread watches.
    pub(crate) fn tell(&mut self, thread: &mut Thread) {
        if thread.watched.is_empty() {
            return;
        }
        let horizon = self.locality.horizon(&self.phases, self.running);
        let longest = match thread.may_watch() {
            true => horizon.map_or(f64::INFINITY, |horizon| WATCHED_HORIZONS * horizon),
            false => 0.0,
        };
        if thread.tell(&mut self.locality.times, longest) {
            self.estimates.clear();
        }
    }

    /// One of its threads spent that CPU time in a phase, in nanoseconds.
    pub(crate) fn ran_in(&mut self, phase: PhaseId, ns: f64) {
        self.phases.ran(phase, ns);
    }

    /// As many threads run at once.
    pub(crate) fn runs(&mut self, threads: usize) {
        self.running = threads;
    }

    /// An event counted so many lines in CPU time of a phase.
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

    /// The estimate with as many misses as an event counted. `None` if none counts.
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
            let told = pace.map_or(1.0, |pace| pace * estimate.instruction_ns());
            told * estimate.rates.iter().map(|rate| rate.reads).sum::<f64>()
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

    /// Estimates how many lines miss in a phase, an instruction of which takes `seen_ns` natively. Touched
    /// pages decide, or the lines in them that windows saw, or how much memory a program of that speed
    /// uses. No more lines miss than fit in the program's time.
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
        let doubtful = seen_ns.is_some_and(|seen_ns| estimate.instruction_ns() > DOUBT * seen_ns);
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
        // Where nothing counts, the line times of this machine give the time of an instruction.
        let most_ns = match facts.own {
            true => SLACK * seen_ns.unwrap_or(estimate.instruction_ns()),
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

    /// Probability that a line misses in a working set in which an instruction takes that long on this
    /// machine. `None` if the program does not wait for its misses one by one.
    fn chance_by_speed(
        &self,
        phase: PhaseId,
        facts: &Facts,
        seen_ns: f64,
        estimate: &Estimate,
    ) -> Option<f64> {
        let sum = |of: fn(&Rate) -> f64| estimate.rates.iter().map(of).sum::<f64>();
        if sum(|rate| rate.waits) < ALONE * sum(|rate| rate.reads) {
            return None;
        }
        let takes_longer = |bytes: f64| {
            let machine = self.machine(facts, bytes as u64);
            let estimate = self.estimator.estimate(phase, &machine, 1.0);
            estimate.is_some_and(|estimate| estimate.instruction_ns() > SLACK * seen_ns)
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

    /// What watched lines say of a phase. Where the cache holds all pages that were touched, nothing misses, and
    /// the order of touches does not matter.
    fn watched(&self, phase: PhaseId) -> Option<WatchedPhase> {
        let matters = self.chance() > 0.0;
        let watched = || self.locality.watched(phase, &self.phases, self.running);
        matters.then(watched).flatten()
    }

    /// Whether more windows may soon say which lines of a phase are in the cache.
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

    /// Whether more windows may tell how many lines of the pages the last window's phase uses, and
    /// whether its speed says that pages mislead.
    pub(crate) fn wants_windows(&self) -> (bool, bool) {
        let last = self.estimator.last();
        let last = last.filter(|phase| self.is_undecided(*phase));
        let doubtful = last.is_some_and(|phase| self.is_doubtful(phase));
        (last.is_some(), doubtful)
    }

    /// Whether the kernel refused to mark touched pages.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.looked && !self.marks
    }

    /// Probability that a line not touched lately is not in the last level cache.
    pub(crate) fn chance(&self) -> f64 {
        self.locality.chance_by_pages()
    }
}

#[cfg(test)]
pub(crate) mod tests;
