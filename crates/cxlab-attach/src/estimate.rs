//! From windows and CPU time to delay.
//!
//! A program's recent windows say, block by block, how many latencies it waits for and how many
//! lines it moves. Time in place of an instruction count: a block takes the time of its computing,
//! or of its waits at the latency of this machine's memory, whichever is longer; so a nanosecond of
//! CPU time holds as many blocks as fit. With a pool that is farther away each wait for it takes as
//! much longer, and the block with it, as far as computing does not hide that.

use std::collections::VecDeque;

use crate::fabric::{Answer, Demand};
use crate::model::{BlockUse, WindowUse};

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

/// Time of an instruction that waits for no memory, in nanoseconds (*assumed*: two a cycle at 2 GHz).
pub const BASE_NS: f64 = 0.25;
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

/// A block as this machine has it.
#[derive(Clone, PartialEq, Debug)]
struct Share {
    block: BlockUse,
    /// The longer of computing and waiting.
    time_ns: f64,
}

/// What a nanosecond of CPU time asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// By pool.
    pub rates: Vec<Rate>,
    chance: f64,
    blocks: Vec<Share>,
    /// Blocks in a nanosecond: one over the time of all of them.
    per_ns: f64,
}

impl Estimate {
    /// What windows ask for on a machine when a line new to them misses the last level cache with a
    /// chance; `None` where they hold no instruction.
    pub fn of<'a>(
        windows: impl Iterator<Item = &'a WindowUse>,
        machine: &Machine,
        chance: f64,
    ) -> Option<Estimate> {
        let mut time = 0.0;
        let mut rates: Vec<Rate> = Vec::new();
        let mut blocks = Vec::new();
        for window in windows {
            rates.resize(rates.len().max(window.pools.len()), Rate::default());
            for (rate, pool) in rates.iter_mut().zip(&window.pools) {
                rate.reads += chance * pool.reads;
                rate.writes += chance * pool.writes;
            }
            time += window.idle as f64 * machine.base_ns;
            for block in &window.blocks {
                let all = block.waits(chance);
                let computing_ns = f64::from(block.instructions) * machine.base_ns;
                let time_ns = computing_ns.max(all * machine.wait_ns);
                time += time_ns;
                for (rate, part) in rates.iter_mut().zip(&block.parts) {
                    rate.waits += part * all;
                }
                let block = block.clone();
                blocks.push(Share { block, time_ns });
            }
        }
        if time <= 0.0 {
            return None;
        }
        let per_ns = 1.0 / time;
        for rate in &mut rates {
            rate.waits *= per_ns;
            rate.reads *= per_ns;
            rate.writes *= per_ns;
        }
        Some(Estimate {
            rates,
            chance,
            blocks,
            per_ns,
        })
    }

    /// CPU time of the windows, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        1.0 / self.per_ns
    }

    /// Delay of a nanosecond of CPU time, in nanoseconds: each wait's added latency, less what
    /// computing hides; or, where that is more, what the fabric needs for the lines beyond the time
    /// that the program took for them. Pool 0 is this machine's own memory and adds nothing.
    pub fn delay(&self, answers: &[Answer], machine: &Machine) -> f64 {
        let added = answers.iter().enumerate().map(|(pool, answer)| match pool {
            0 => 0.0,
            _ => (answer.latency_ns - machine.local_ns).max(0.0),
        });
        let latency: Vec<f64> = added.map(|added| machine.wait_ns + added).collect();
        let longer = |share: &Share| {
            let wait = share.block.wait(&latency, self.chance);
            (wait - share.time_ns).max(0.0)
        };
        let latency = self.blocks.iter().map(longer).sum::<f64>() * self.per_ns;
        let stretch = self
            .rates
            .iter()
            .zip(answers)
            .skip(1)
            .filter(|(rate, _)| rate.reads + rate.writes > 0.0)
            .map(|(_, answer)| answer.stretch - 1.0)
            .fold(0.0, f64::max);
        latency.max(stretch)
    }
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

    /// What a nanosecond of CPU time asks for; `None` before the first window. `chance` is that of a
    /// line new to a window not to be in the last level cache.
    pub fn estimate(&self, machine: &Machine, chance: f64) -> Option<Estimate> {
        Estimate::of(self.recent.iter(), machine, chance)
    }
}

/// The chance that a line of a working set is not in the last level cache, for uses without order.
pub fn chance(used: u64, llc_bytes: u64) -> f64 {
    if used <= llc_bytes {
        return 0.0;
    }
    1.0 - llc_bytes as f64 / used as f64
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Node, PoolUse};

    const MACHINE: Machine = Machine {
        local_ns: 90.0,
        wait_ns: 90.0,
        base_ns: 0.25,
    };

    /// Ten blocks that wait for a chain each, all in pool 1.
    fn window(chain: u32) -> WindowUse {
        let block = BlockUse {
            instructions: 256,
            nodes: (0..chain).map(|at| Node::Miss(1, at)).collect(),
            fetched: vec![0.0, f64::from(chain) / 12.0],
            loads: vec![0, chain],
            parts: vec![0.0, 1.0],
        };
        WindowUse {
            instructions: 2560,
            pools: vec![
                PoolUse::default(),
                PoolUse {
                    waits: 10.0 * f64::from(chain),
                    reads: 10.0 * f64::from(chain),
                    writes: 0.0,
                },
            ],
            blocks: vec![block; 10],
            idle: 0,
        }
    }

    /// A pointer chase: 85 steps in a block.
    fn chase(chance: f64) -> Estimate {
        let mut estimator = Estimator::default();
        estimator.add(window(85));
        estimator.estimate(&MACHINE, chance).unwrap()
    }

    fn answer(latency_ns: f64) -> [Answer; 2] {
        let answer = |latency_ns| Answer {
            latency_ns,
            stretch: 1.0,
        };
        [answer(90.0), answer(latency_ns)]
    }

    /// A step takes 90 ns here, with its computing behind it, so with 200 ns more it takes 290.
    #[test]
    fn a_chase_is_charged_the_added_latency_of_each_step() {
        let estimate = chase(1.0);
        assert!((estimate.rates[1].waits * 90.0 - 1.0).abs() < 1e-12);
        for added in [0.0, 100.0, 200.0, 400.0, 2000.0] {
            let delay = estimate.delay(&answer(90.0 + added), &MACHINE);
            assert!((delay * 90.0 - added).abs() < 1e-9, "{added}: {delay}");
        }
    }

    /// A wait in a block of 64 ns: 36 ns of 100 show; and in one of 640 ns none, until it is longer.
    #[test]
    fn computing_hides_what_it_takes_itself() {
        let machine = Machine {
            local_ns: 30.0,
            wait_ns: 30.0,
            base_ns: 0.25,
        };
        let of = |machine: &Machine, latency_ns| {
            let windows = [window(1)];
            let estimate = Estimate::of(windows.iter(), machine, 1.0).unwrap();
            let delay = estimate.delay(&answer(latency_ns), machine);
            (estimate.time_ns() / 10.0, delay * estimate.time_ns() / 10.0)
        };
        let (time, delay) = of(&machine, 100.0);
        assert!((time - 64.0).abs() < 1e-9 && (delay - 36.0).abs() < 1e-9);
        let slow = Machine {
            base_ns: 2.5,
            ..machine
        };
        assert_eq!(of(&slow, 600.0).1, 0.0);
        assert!((of(&slow, 700.0).1 - 60.0).abs() < 1e-9);
    }

    #[test]
    fn more_latency_is_never_less_delay_and_none_is_none() {
        let estimate = chase(1.0);
        let mut last = 0.0;
        assert_eq!(estimate.delay(&answer(90.0), &MACHINE), 0.0);
        assert_eq!(estimate.delay(&answer(50.0), &MACHINE), 0.0);
        for latency in 91..3000 {
            let now = estimate.delay(&answer(f64::from(latency)), &MACHINE);
            assert!(now > last, "{latency}");
            last = now;
        }
    }

    #[test]
    fn a_fabric_that_carries_half_doubles_the_time() {
        let estimate = chase(1.0);
        let mut answers = answer(90.0);
        answers[1].stretch = 2.0;
        assert!((estimate.delay(&answers, &MACHINE) - 1.0).abs() < 1e-12);
        // What is local is not carried by the fabric.
        answers[0].stretch = 5.0;
        assert!((estimate.delay(&answers, &MACHINE) - 1.0).abs() < 1e-12);
    }

    /// Half of the lines in the cache are half of the waits, in half of the time, for a chain.
    #[test]
    fn what_the_cache_holds_is_not_waited_for() {
        assert_eq!(chase(0.0).rates[1], Rate::default());
        assert_eq!(chase(0.0).time_ns(), 640.0);
        assert!((chase(0.5).rates[1].waits * 90.0 - 1.0).abs() < 1e-12);
        assert_eq!(chase(0.5).time_ns() * 2.0, chase(1.0).time_ns());
    }

    #[test]
    fn what_fits_the_cache_never_misses() {
        assert_eq!(chance(1 << 20, 4 << 20), 0.0);
        assert_eq!(chance(4 << 20, 4 << 20), 0.0);
        assert_eq!(chance(16 << 20, 4 << 20), 0.75);
    }

    #[test]
    fn without_a_window_there_is_no_estimate() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.estimate(&MACHINE, 1.0), None);
        estimator.add(WindowUse::default());
        assert_eq!(estimator.estimate(&MACHINE, 1.0), None);
    }
}
