//! The model of `cxlab attach` on samples of an execution, as it sees a program: now and then a window
//! of some instructions, a look at how many pages were touched, and CPU time between them. The
//! program's own time takes the place of the clock; nothing else is known of the rest.

use std::collections::BTreeMap;

use cxlab_attach::estimate::{Estimate, Estimator, PhaseId, Waiting};
use cxlab_attach::fabric::{Answer, Fabric};
use cxlab_attach::locality::Locality;
use cxlab_attach::model::{Window, WindowUse};
use cxlab_attach::reuse::WindowTrace;
use cxlab_attach::schedule;

use super::{Assumed, ModelSide, add, settled};

/// Instructions that are stepped over in a window, and how long that takes (*assumed*: steps of 25 us).
pub(super) const SAMPLE: u64 = 400;
const WINDOW_NS: f64 = 10e6;
/// Time between two looks at the pages that were touched: the first, and the longest. It doubles.
pub(super) const FIRST_LOOK_NS: f64 = 10e6;
pub(super) const LOOK_NS: f64 = 100e6;

/// Time between two looks at where the program is. Windows are where one of them is.
pub(super) const SEEN_NS: f64 = 10e6;

/// What could be seen in a part of an execution.
#[derive(Default, Debug)]
pub(super) struct Part {
    /// Its first instruction.
    pub(super) code: u64,
    /// What a window at its beginning says, where there could be one.
    pub(super) sample: Option<WindowTrace>,
    /// Its CPU time.
    pub(super) time_ns: f64,
    /// Bytes of the pages that were touched lately, where somebody looked at its end.
    pub(super) looked: Option<u64>,
}

/// What the model knows at a time, and what it has asked for.
struct Sampled<'a> {
    assumed: &'a Assumed,
    fabric: &'a mut dyn Fabric,
    estimator: Estimator,
    locality: Locality,
    /// CPU time that waits for more windows, by its phase.
    open: BTreeMap<PhaseId, f64>,
    /// What follows from windows and working sets as they are, by phase.
    prices: BTreeMap<PhaseId, (Estimate, Vec<Answer>)>,
    side: ModelSide,
}

impl Sampled<'_> {
    /// Somebody looked at the pages.
    fn look(&mut self, bytes: u64) {
        self.locality.look(bytes, 0.0, self.assumed.llc_bytes);
        self.prices.clear();
    }

    /// Memory use of a window, by what is known of its lines now.
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
        let open: Vec<PhaseId> = self.open.keys().copied().collect();
        for phase in open {
            self.price(phase, 0.0, false);
        }
        Some(phase)
    }

    /// So much CPU time has the price of that code, once it is decided or at the `end`.
    fn price(&mut self, phase: PhaseId, cpu_ns: f64, end: bool) {
        let open_ns = self.open.remove(&phase).unwrap_or(0.0) + cpu_ns;
        if !end && self.locality.is_undecided(phase, false) {
            self.open.insert(phase, open_ns);
            return;
        }
        let machine = self.assumed.machine();
        if !self.prices.contains_key(&phase) {
            let mut estimator = std::mem::take(&mut self.estimator);
            estimator.renew(phase, &mut |number, trace| self.analyse(number, trace));
            self.estimator = estimator;
            let by_pages = self.locality.chance_by_pages();
            let by_lines = self.locality.chance_by_lines(phase, false);
            let chance = by_lines.unwrap_or(by_pages).min(by_pages);
            let chance = self.locality.chance_of_unshared(chance, None);
            let Some(estimate) = self.estimator.estimate(phase, &machine, chance) else {
                return;
            };
            let answers = settled(&estimate, &machine, self.assumed, self.fabric);
            self.prices.insert(phase, (estimate, answers));
        }
        if let Some((estimate, answers)) = self.prices.get(&phase) {
            add(&mut self.side, estimate, open_ns, answers, &machine);
        }
    }
}

/// Lets the model of `attach` price the windows of a program.
pub(super) fn ask(parts: Vec<Part>, assumed: &Assumed, fabric: &mut dyn Fabric) -> ModelSide {
    let mut model = Sampled {
        assumed,
        fabric,
        estimator: Estimator::default(),
        locality: Locality::default(),
        open: BTreeMap::new(),
        prices: BTreeMap::new(),
        side: ModelSide::default(),
    };
    let mut waiting = Waiting::default();
    let (mut clock, mut last, mut windows) = (0.0, f64::NEG_INFINITY, 0);
    let mut elsewhere = true;
    let mut next_seen = 0.0;
    for part in parts {
        if let Some(bytes) = part.looked {
            model.look(bytes);
        }
        // There are no windows before something is known of what the program uses.
        let between = WINDOW_NS * f64::from(schedule::cost(windows, elsewhere, false));
        let due = clock >= last + between && model.locality.is_known();
        if let Some(sample) = part.sample.filter(|_| due) {
            windows += 1;
            last = clock;
            if let Some(phase) = model.add(sample) {
                let (phase, cpu_ns) = waiting.seen(phase);
                model.price(phase, cpu_ns, false);
            }
        }
        if clock >= next_seen {
            next_seen = clock + SEEN_NS;
            let phase = model.estimator.at(part.code);
            elsewhere = phase.is_none();
            match phase {
                Some(phase) => {
                    let (phase, cpu_ns) = waiting.seen(phase);
                    model.price(phase, cpu_ns, false);
                }
                None => waiting.elsewhere(),
            }
        }
        clock += part.time_ns;
        if let Some((phase, cpu_ns)) = waiting.pass(part.time_ns) {
            model.price(phase, cpu_ns, false);
        }
    }
    if let Some((phase, cpu_ns)) = waiting.end(None) {
        model.price(phase, cpu_ns, false);
    }
    for phase in model.open.keys().copied().collect::<Vec<_>>() {
        model.price(phase, 0.0, true);
    }
    // All of its time, whether it has a price or not.
    model.side.local_ns = clock;
    model.side
}
