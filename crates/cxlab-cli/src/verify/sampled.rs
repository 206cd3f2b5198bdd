//! The model of `cxlab attach` on samples of an execution, as it sees a program: now and then a window
//! of some instructions, a look at how many pages were touched, and CPU time between them. The
//! program's own time takes the place of the clock; nothing else is known of the rest.

use std::collections::BTreeMap;

use cxlab_attach::estimate::{Estimate, Estimator, PhaseId, UnpricedTime};
use cxlab_attach::fabric::{Fabric, PoolResponse};
use cxlab_attach::locality::Locality;
use cxlab_attach::model::{Window, WindowUse};
use cxlab_attach::reuse::WindowTrace;
use cxlab_attach::schedule;

use super::exact::{add, settled};
use super::{Assumed, ModelSide};

/// Instructions of a window, those of its lead-in, and duration of a window (*assumed*: steps of 25 us).
pub(super) const WINDOW_STEPS: u64 = 200;
pub(super) const LEAD_IN_STEPS: usize = 40;
const WINDOW_NS: f64 = 5e6;
/// Interval between two samples of the touched pages: the first, and the longest, which doubling reaches.
pub(super) const FIRST_SAMPLE_NS: f64 = 10e6;
pub(super) const SAMPLE_NS: f64 = 100e6;

/// Interval between two samples of a thread's position. Windows are taken at such samples.
pub(super) const POSITION_NS: f64 = 10e6;

/// A part of a thread's execution, as samples show it.
#[derive(Default, Debug)]
pub(super) struct SampledPart {
    pub(super) thread: usize,
    /// Begin and end by the program's estimated clock, in nanoseconds.
    pub(super) begun_ns: f64,
    pub(super) ended_ns: f64,
    /// Address of the first instruction.
    pub(super) code: u64,
    /// The window at the beginning, if one could be taken.
    pub(super) sample: Option<WindowTrace>,
    /// CPU time of the part, in nanoseconds.
    pub(super) time_ns: f64,
    /// Bytes of the touched pages, if they were sampled at the end of the part.
    pub(super) used_bytes: Option<u64>,
}

/// State of a thread.
#[derive(Default)]
struct SampledThread {
    /// CPU time without a price.
    waiting: UnpricedTime,
    /// CPU time so far, at the last window, and at the next sample.
    clock: f64,
    last: Option<f64>,
    next_seen: f64,
    /// The phase that was priced last, with begin and end of the thread's last part.
    phase: Option<PhaseId>,
    ran_ns: (f64, f64),
    side: ModelSide,
}

/// Estimate from the present windows and working sets, with the fabric's responses.
type Price = (Estimate, Vec<PoolResponse>);

/// State of the model, with the results so far.
struct SampledKnowledge<'a> {
    assumed: &'a Assumed,
    fabric: &'a mut dyn Fabric,
    estimator: Estimator,
    locality: Locality,
    /// CPU time that waits for more windows, by phase and thread.
    open: BTreeMap<(PhaseId, usize), f64>,
    /// Prices by phase, and by the phases that other threads execute meanwhile.
    prices: BTreeMap<(PhaseId, Vec<PhaseId>), Price>,
    threads: Vec<SampledThread>,
}

impl SampledKnowledge<'_> {
    /// Adds a sample of the touched pages, and drops all prices.
    fn add_sample(&mut self, bytes: u64) {
        self.locality.add_sample(bytes, 0.0, self.assumed.llc_bytes);
        self.prices.clear();
    }

    /// Memory use of a window, with the lines that are now known to be cached.
    fn analyse(&self, number: u64, trace: &WindowTrace) -> WindowUse {
        let cached = self.locality.cached(number, trace);
        let pools = self.fabric.pools().len();
        let window = Window::new(pools, self.assumed.overlap).with_cached(cached);
        trace.analyse(window, &mut |_| None)
    }

    /// Adds a window, and returns the phase of its code.
    fn add(&mut self, trace: WindowTrace) -> Option<PhaseId> {
        let used = self.analyse(self.estimator.windows() + 1, &trace);
        let phase = self.estimator.add(used)?;
        let lines = trace.lines();
        let number = self.estimator.keep(trace);
        self.locality.add(phase, number, lines);
        self.prices.clear();
        let open: Vec<(PhaseId, usize)> = self.open.keys().copied().collect();
        for (phase, thread) in open {
            self.price(thread, phase, 0.0, false);
        }
        Some(phase)
    }

    /// Memory use of a phase, with its windows analysed again.
    fn estimate(&mut self, phase: PhaseId) -> Option<Estimate> {
        let machine = self.assumed.machine();
        let mut estimator = std::mem::take(&mut self.estimator);
        estimator.renew(phase, &mut |number, trace| self.analyse(number, trace));
        self.estimator = estimator;
        let by_pages = self.locality.chance_by_pages();
        let by_lines = self.locality.chance_by_lines(phase, false);
        let chance = by_lines.unwrap_or(by_pages).min(by_pages);
        let chance = self.locality.chance_of_unshared(chance, None);
        self.estimator.estimate(phase, &machine, chance)
    }

    /// The phases that other threads execute beside a thread.
    fn beside(&self, thread: usize) -> Vec<PhaseId> {
        let now = self.threads[thread].ran_ns;
        let others = self.threads.iter().enumerate();
        let mut phases: Vec<PhaseId> = others
            .filter(|(number, other)| {
                // Parts of threads end at different times, and each is known at its end.
                let (begun, ended) = other.ran_ns;
                *number != thread && 2.0 * ended - begun > now.0
            })
            .filter_map(|(_, other)| other.phase)
            .collect();
        phases.sort_unstable();
        phases
    }

    /// Prices CPU time of a thread in a phase, as soon as the phase's miss rate is decided, or at the `end`.
    fn price(&mut self, thread: usize, phase: PhaseId, cpu_ns: f64, end: bool) {
        let open_ns = self.open.remove(&(phase, thread)).unwrap_or(0.0) + cpu_ns;
        self.threads[thread].phase = Some(phase);
        if !end && self.locality.is_undecided(phase, false) {
            self.open.insert((phase, thread), open_ns);
            return;
        }
        let key = (phase, self.beside(thread));
        if !self.prices.contains_key(&key) {
            let Some(estimate) = self.estimate(phase) else {
                return;
            };
            let others: Vec<Estimate> = key
                .1
                .iter()
                .filter_map(|other| self.estimate(*other))
                .collect();
            let running = std::iter::once(&estimate).chain(&others);
            let running: Vec<(f64, &Estimate)> = running.map(|one| (1.0, one)).collect();
            let answers = settled(&running, self.assumed, self.fabric);
            self.prices.insert(key.clone(), (estimate, answers));
        }
        if let Some((estimate, answers)) = self.prices.get(&key) {
            let machine = self.assumed.machine();
            let side = &mut self.threads[thread].side;
            add(side, estimate, open_ns, answers, &machine);
        }
    }

    /// Prices the pending time of a thread after a sample in code `phase`.
    fn seen(&mut self, thread: usize, phase: PhaseId) {
        let (phase, cpu_ns) = self.threads[thread].waiting.seen(phase);
        self.price(thread, phase, cpu_ns, false);
    }

    /// Adds a part of a thread's execution. `windows` is the number of windows so far.
    fn part(&mut self, part: SampledPart, windows: &mut u64) {
        if let Some(bytes) = part.used_bytes {
            self.add_sample(bytes);
        }
        let thread = part.thread;
        let own = &mut self.threads[thread];
        own.ran_ns = (part.begun_ns, part.ended_ns);
        // A sample in code without a window is followed by a window in that code.
        let is_seen = own.clock >= own.next_seen;
        let unknown = is_seen && self.estimator.at(part.code).is_none();
        let between = WINDOW_NS * f64::from(schedule::cost(*windows, unknown, false));
        // There are no windows before the first sample of the touched pages.
        let due = own.last.is_none_or(|last| own.clock >= last + between);
        let due = due && self.locality.is_known();
        if let Some(sample) = part.sample.filter(|_| due) {
            *windows += 1;
            own.last = Some(own.clock);
            if let Some(phase) = self.add(sample) {
                self.seen(thread, phase);
            }
        }
        let own = &mut self.threads[thread];
        if is_seen {
            own.next_seen = own.clock + POSITION_NS;
            match self.estimator.at(part.code) {
                Some(phase) => self.seen(thread, phase),
                None => own.waiting.elsewhere(),
            }
        }
        let own = &mut self.threads[thread];
        own.clock += part.time_ns;
        if let Some((phase, cpu_ns)) = own.waiting.pass(part.time_ns) {
            self.price(thread, phase, cpu_ns, false);
        }
    }
}

/// Lets the model of `attach` price the windows of a program, by thread.
pub(super) fn ask(
    parts: Vec<SampledPart>,
    threads: usize,
    assumed: &Assumed,
    fabric: &mut dyn Fabric,
) -> Vec<ModelSide> {
    let mut model = SampledKnowledge {
        assumed,
        fabric,
        estimator: Estimator::default(),
        locality: Locality::default(),
        open: BTreeMap::new(),
        prices: BTreeMap::new(),
        threads: (0..threads).map(|_| SampledThread::default()).collect(),
    };
    let mut windows = 0;
    for part in parts {
        model.part(part, &mut windows);
    }
    for thread in 0..threads {
        if let Some((phase, cpu_ns)) = model.threads[thread].waiting.end(None) {
            model.price(thread, phase, cpu_ns, false);
        }
    }
    for (phase, thread) in model.open.keys().copied().collect::<Vec<_>>() {
        model.price(thread, phase, 0.0, true);
    }
    // All of its time, whether it has a price or not.
    let own = |thread: &SampledThread| ModelSide {
        local_ns: thread.clock,
        ..thread.side
    };
    model.threads.iter().map(own).collect()
}
