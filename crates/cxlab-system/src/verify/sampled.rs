//! The model of `cxlab attach` on samples of an execution, as it sees a program: now and then a window
//! of some instructions, a look at how many pages were touched, and CPU time between them. The
//! program's own time takes the place of the clock; nothing else is known of the rest.

use std::collections::VecDeque;

use cxlab_attach::estimate::{Estimate, Estimator, chance};
use cxlab_attach::fabric::{Answer, Fabric};
use cxlab_attach::model::WindowUse;

use super::{Assumed, ModelSide, add, settled};

/// Instructions of a window (*assumed*: 10 ms of steps of 10 us, of which windows may take a
/// twentieth of the time).
pub(super) const SAMPLE: u64 = 1000;
/// Time between windows: of the first eight, and of others (a fourth and a twentieth of the time at
/// 10 ms each).
const FIRST: u32 = 8;
const FIRST_NS: f64 = 40e6;
const LATER_NS: f64 = 200e6;
/// Time between two looks at the pages that were touched, at first and twice as long each time up to
/// the last, and how many of them count: the largest does.
pub(super) const FIRST_LOOK_NS: f64 = 10e6;
pub(super) const LOOK_NS: f64 = 100e6;
const LOOKS: usize = 2;

/// What could be seen in a part of an execution.
#[derive(Default, Debug)]
pub(super) struct Part {
    /// Its first instructions, as a window has them.
    pub(super) sample: WindowUse,
    /// Its CPU time.
    pub(super) time_ns: f64,
    /// Bytes of the pages that were touched lately, where somebody looked at its end.
    pub(super) looked: Option<u64>,
}

/// What is asked for.
pub(super) fn ask(parts: Vec<Part>, assumed: &Assumed, fabric: &mut dyn Fabric) -> ModelSide {
    let machine = assumed.machine();
    let mut side = ModelSide::default();
    let mut estimator = Estimator::default();
    let mut priced: Option<(Estimate, Vec<Answer>)> = None;
    let mut used = VecDeque::new();
    let (mut clock, mut next) = (0.0, 0.0);
    let (mut windows, mut unpriced) = (0, 0.0);
    for part in parts {
        let mut news = false;
        if let Some(bytes) = part.looked {
            if used.len() == LOOKS {
                used.pop_front();
            }
            used.push_back(bytes);
            news = true;
        }
        if clock >= next {
            estimator.add(part.sample);
            windows += 1;
            next = clock + if windows < FIRST { FIRST_NS } else { LATER_NS };
            news = true;
        }
        if news && !used.is_empty() {
            let working_set = used.iter().max().copied().unwrap_or(0);
            let estimate = estimator.estimate(&machine, chance(working_set, assumed.llc_bytes));
            priced = estimate.map(|estimate| {
                let answers = settled(&estimate, &machine, assumed, fabric);
                (estimate, answers)
            });
        }
        clock += part.time_ns;
        unpriced += part.time_ns;
        if let Some((estimate, answers)) = &priced {
            add(&mut side, estimate, unpriced, answers, &machine);
            unpriced = 0.0;
        }
    }
    side
}
