//! The model of `cxlab attach` on samples of an execution, as it sees a program: now and then a window
//! of some instructions, a look at how many pages were touched, and CPU time between them. The
//! program's own time takes the place of the clock; nothing else is known of the rest.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use cxlab_attach::estimate::{Estimate, Estimator, PhaseId, Waiting, chance};
use cxlab_attach::fabric::{Answer, Fabric};
use cxlab_attach::model::WindowUse;
use cxlab_attach::schedule;

use super::{Assumed, ModelSide, add, settled};

/// Instructions that are stepped over in a window, and how long that takes (*assumed*: steps of 25 us).
pub(super) const SAMPLE: u64 = 400;
const WINDOW_NS: f64 = 10e6;
/// Time between two looks at the pages that were touched, at first and twice as long each time up to
/// the last, and how many of them count: the largest does.
pub(super) const FIRST_LOOK_NS: f64 = 10e6;
pub(super) const LOOK_NS: f64 = 100e6;
const LOOKS: usize = 2;

/// Time between two looks at where the program is. Windows are where one of them is.
pub(super) const SEEN_NS: f64 = 10e6;

/// What could be seen in a part of an execution.
#[derive(Default, Debug)]
pub(super) struct Part {
    /// Its first instruction.
    pub(super) code: u64,
    /// What a window at its beginning says, where there could be one.
    pub(super) sample: Option<WindowUse>,
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
    /// Bytes of the pages that were touched lately.
    used: VecDeque<u64>,
    /// What follows from windows and working sets as they are, by phase.
    prices: BTreeMap<PhaseId, (Estimate, Vec<Answer>)>,
    side: ModelSide,
}

impl Sampled<'_> {
    /// Somebody looked at the pages.
    fn look(&mut self, bytes: u64) {
        if self.used.len() == LOOKS {
            self.used.pop_front();
        }
        self.used.push_back(bytes);
        self.prices.clear();
    }

    /// So much CPU time has the price of that code.
    fn price(&mut self, phase: PhaseId, cpu_ns: f64) {
        let machine = self.assumed.machine();
        if let Entry::Vacant(free) = self.prices.entry(phase) {
            let working_set = self.used.iter().max().copied().unwrap_or(0);
            let chance = chance(working_set, self.assumed.llc_bytes);
            let Some(estimate) = self.estimator.estimate(phase, &machine, chance) else {
                return;
            };
            let answers = settled(&estimate, &machine, self.assumed, self.fabric);
            free.insert((estimate, answers));
        }
        if let Some((estimate, answers)) = self.prices.get(&phase) {
            add(&mut self.side, estimate, cpu_ns, answers, &machine);
        }
    }
}

/// Lets the model of `attach` price the windows of a program.
pub(super) fn ask(parts: Vec<Part>, assumed: &Assumed, fabric: &mut dyn Fabric) -> ModelSide {
    let mut model = Sampled {
        assumed,
        fabric,
        estimator: Estimator::default(),
        used: VecDeque::new(),
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
        let due = clock >= last + between && !model.used.is_empty();
        if let Some(sample) = part.sample.filter(|_| due) {
            windows += 1;
            last = clock;
            if let Some(phase) = model.estimator.add(sample) {
                model.prices.remove(&phase);
                let (phase, cpu_ns) = waiting.seen(phase);
                model.price(phase, cpu_ns);
            }
        }
        if clock >= next_seen {
            next_seen = clock + SEEN_NS;
            let phase = model.estimator.at(part.code);
            elsewhere = phase.is_none();
            match phase {
                Some(phase) => {
                    let (phase, cpu_ns) = waiting.seen(phase);
                    model.price(phase, cpu_ns);
                }
                None => waiting.elsewhere(),
            }
        }
        clock += part.time_ns;
        if let Some((phase, cpu_ns)) = waiting.pass(part.time_ns) {
            model.price(phase, cpu_ns);
        }
    }
    if let Some((phase, cpu_ns)) = waiting.end(None) {
        model.price(phase, cpu_ns);
    }
    // All of its time, whether it has a price or not.
    model.side.local_ns = clock;
    model.side
}
