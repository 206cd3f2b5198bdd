//! From windows and CPU time to delay.
//!
//! A program's recent windows say how many latencies an instruction waits for and how many lines it
//! moves. Time in place of an instruction count: an instruction takes its share of computing and
//! its waits at the latency of this machine's memory, so a nanosecond of CPU time holds
//! `waits / (base + waits * wait)`. Each wait for a pool then takes as much longer as the
//! pool is farther away.

use std::collections::VecDeque;

use crate::fabric::{Answer, Demand};
use crate::model::WindowUse;

/// What of this machine the estimate needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Latency of this machine's own memory, in nanoseconds: what a pool's is compared with.
    pub local_ns: f64,
    /// How long a program waits for a miss here, in nanoseconds: with finding its page.
    pub wait_ns: f64,
    /// Time of an instruction that waits for no memory, in nanoseconds.
    pub base_ns: f64,
}

/// Windows that count: older ones are of another phase (*assumed*).
const RECENT: usize = 4;

/// A process's recent windows.
#[derive(Clone, Default, Debug)]
pub struct Estimator {
    recent: VecDeque<WindowUse>,
}

/// What a nanosecond of CPU time asks of a pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Rate {
    /// Latencies waited for.
    pub waits: f64,
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
}

impl Estimator {
    /// A further window.
    pub fn add(&mut self, window: WindowUse) {
        if window.instructions == 0 {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(window);
    }

    /// By pool, what a nanosecond of CPU time asks for; `None` before the first window. `chance`
    /// is that of a line new to a window not to be in the last level cache.
    pub fn rates(&self, machine: &Machine, chance: f64) -> Option<Vec<Rate>> {
        let mut sum = WindowUse::default();
        self.recent.iter().for_each(|window| sum.add(window));
        if sum.instructions == 0 {
            return None;
        }
        let instructions = sum.instructions as f64;
        let waits: f64 = sum.pools.iter().map(|pool| pool.waits).sum();
        let time = instructions * machine.base_ns + chance * waits * machine.wait_ns;
        let rate = |count: f64| chance * count / time;
        Some(
            sum.pools
                .iter()
                .map(|pool| Rate {
                    waits: rate(pool.waits),
                    reads: rate(pool.reads),
                    writes: rate(pool.writes),
                })
                .collect(),
        )
    }
}

/// The demand of so much CPU time in so much real time.
pub fn demand(rates: &[Rate], cpu_ns: f64, real_ns: f64) -> Vec<Demand> {
    let busy = cpu_ns / real_ns.max(1.0);
    rates
        .iter()
        .map(|rate| Demand {
            reads_per_ns: rate.reads * busy,
            writes_per_ns: rate.writes * busy,
        })
        .collect()
}

/// Delay of a nanosecond of CPU time, in nanoseconds: each wait's added latency; or, where that is
/// more, what the fabric needs for the lines beyond the time that the program took for them.
/// Pool 0 is this machine's own memory and adds nothing.
pub fn delay(rates: &[Rate], answers: &[Answer], machine: &Machine) -> f64 {
    let added = |answer: &Answer| (answer.latency_ns - machine.local_ns).max(0.0);
    let latency: f64 = rates
        .iter()
        .zip(answers)
        .skip(1)
        .map(|(rate, answer)| rate.waits * added(answer))
        .sum();
    let stretch = rates
        .iter()
        .zip(answers)
        .skip(1)
        .filter(|(rate, _)| rate.reads + rate.writes > 0.0)
        .map(|(_, answer)| answer.stretch - 1.0)
        .fold(0.0, f64::max);
    latency.max(stretch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PoolUse;

    const MACHINE: Machine = Machine {
        local_ns: 90.0,
        wait_ns: 90.0,
        base_ns: 0.25,
    };

    /// A pointer chase of three instructions a step, all in pool 1.
    fn chase() -> Estimator {
        let mut estimator = Estimator::default();
        estimator.add(WindowUse {
            instructions: 3000,
            pools: vec![
                PoolUse::default(),
                PoolUse {
                    waits: 1000.0,
                    reads: 1000.0,
                    writes: 0.0,
                },
            ],
        });
        estimator
    }

    fn answer(latency_ns: f64) -> [Answer; 2] {
        let answer = |latency_ns| Answer {
            latency_ns,
            stretch: 1.0,
        };
        [answer(90.0), answer(latency_ns)]
    }

    /// A step takes 90.75 ns here, so with 200 ns more it takes 290.75.
    #[test]
    fn a_chase_is_charged_the_added_latency_of_each_step() {
        let rates = chase().rates(&MACHINE, 1.0).unwrap();
        for added in [0.0, 100.0, 200.0, 400.0, 2000.0] {
            let delay = delay(&rates, &answer(90.0 + added), &MACHINE);
            assert!((delay * 90.75 - added).abs() < 1e-9, "{added}: {delay}");
        }
    }

    #[test]
    fn more_latency_is_never_less_delay_and_none_is_none() {
        let rates = chase().rates(&MACHINE, 1.0).unwrap();
        let mut last = 0.0;
        assert_eq!(delay(&rates, &answer(90.0), &MACHINE), 0.0);
        assert_eq!(delay(&rates, &answer(50.0), &MACHINE), 0.0);
        for latency in 91..3000 {
            let now = delay(&rates, &answer(f64::from(latency)), &MACHINE);
            assert!(now > last, "{latency}");
            last = now;
        }
    }

    #[test]
    fn a_fabric_that_carries_half_doubles_the_time() {
        let rates = chase().rates(&MACHINE, 1.0).unwrap();
        let mut answers = answer(90.0);
        answers[1].stretch = 2.0;
        assert!((delay(&rates, &answers, &MACHINE) - 1.0).abs() < 1e-12);
        // What is local is not carried by the fabric.
        answers[0].stretch = 5.0;
        assert!((delay(&rates, &answers, &MACHINE) - 1.0).abs() < 1e-12);
    }

    /// Half of the lines in the cache are half of the waits, in less time.
    #[test]
    fn what_the_cache_holds_is_not_waited_for() {
        let rate = |chance| chase().rates(&MACHINE, chance).unwrap()[1];
        assert_eq!(rate(0.0), Rate::default());
        let step = 3.0 * MACHINE.base_ns + 45.0;
        assert!((rate(0.5).waits * step - 0.5).abs() < 1e-12);
    }

    #[test]
    fn without_a_window_there_is_no_estimate() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.rates(&MACHINE, 1.0), None);
        estimator.add(WindowUse::default());
        assert_eq!(estimator.rates(&MACHINE, 1.0), None);
    }
}
