//! From windows and CPU time to delay.
//!
//! A program's recent windows say, block by block, how many latencies it waits for and how many
//! lines it moves. Time in place of an instruction count: a block takes the time of its computing,
//! or of its lines on this machine, as measured for as much memory as the program uses, whichever is longer;
//! so a nanosecond of CPU time holds as many blocks as fit. With a pool that is farther away each wait for it takes as
//! much longer, and the block with it, as far as computing does not hide that.
//!
//! Of what a program is doing at a time, the instruction that it is at says enough, once a window has been
//! there: so it is looked at much more often than windows are taken. A look stands for the CPU time that is
//! nearest to it ([`Waiting`]): of what passes between two, the first half is the first one's. It has the price
//! of the last windows of the same code, and of no others: a program that changes what it does executes other
//! code. Two profiles (the parts of instructions by line of code) are of the same code where they have half in
//! common. Phases are told apart by code in T. Sherwood et al., "Automatically Characterizing Large Scale
//! Program Behavior", ASPLOS 2002, and with half as the threshold in A. Dhodapkar and J. Smith, "Managing
//! Multi-Configuration Hardware via Dynamic Working Set Analysis", ISCA 2002.

use std::collections::{BTreeMap, VecDeque};

use crate::fabric::{Answer, Demand};
use crate::model::{BlockUse, Here, WindowUse};

/// What of this machine the estimate needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Latency of this machine's own memory, in nanoseconds: what a pool's is compared with.
    pub local_ns: f64,
    /// How long a program waits for a miss, in nanoseconds, when its memory is not farther away.
    pub wait_ns: f64,
    /// What its lines take here, with finding their pages, and with what the caches here have of them: so
    /// many of them are in a time. `None` where they take what the model says.
    pub here: Option<Here>,
    /// Time of an instruction that waits for no memory, in nanoseconds.
    pub base_ns: f64,
}

/// Time of an instruction that waits for no memory, in nanoseconds (*assumed*: two a cycle at 2 GHz).
pub const BASE_NS: f64 = 0.25;
/// Windows of the same code that count, the last ones (*assumed*).
const RECENT: usize = 4;
/// What profiles of the same code have in common at least.
const COMMON: f64 = 0.5;
/// Pieces of code that are remembered; the one that was not seen for longest is forgotten (*assumed*).
const PHASES: usize = 64;

/// Names a piece of code that a process executes.
pub type PhaseId = u64;

/// The last windows of a piece of code.
#[derive(Clone, Default, Debug)]
struct Phase {
    recent: VecDeque<WindowUse>,
    /// When its last window was, in windows.
    last: u64,
}

/// A process's recent windows, by the code that they saw.
#[derive(Clone, Default, Debug)]
pub struct Estimator {
    phases: BTreeMap<PhaseId, Phase>,
    windows: u64,
}

/// CPU time of a thread that has no price yet, where looks say nothing but in which code it is. Between two of them, the first half has the price of the
/// code that the first one saw, and the second half that of the second, for which it waits.
#[derive(Clone, Copy, Default, Debug)]
pub struct Waiting {
    phase: Option<PhaseId>,
    ns: f64,
}

impl Waiting {
    /// CPU time passes: what of it has a price now.
    pub fn pass(&mut self, ns: f64) -> Option<(PhaseId, f64)> {
        match self.phase {
            Some(phase) => {
                self.ns += ns / 2.0;
                Some((phase, ns / 2.0))
            }
            None => {
                self.ns += ns;
                None
            }
        }
    }

    /// It was seen in that code: what has waited for this.
    pub fn seen(&mut self, phase: PhaseId) -> (PhaseId, f64) {
        self.phase = Some(phase);
        (phase, std::mem::take(&mut self.ns))
    }

    /// It was seen where no window has been: what waits, and what passes from now on, waits for one.
    pub fn elsewhere(&mut self) {
        self.phase = None;
    }

    /// No further look will come. What has waited has the price of the last one, or of `other`.
    pub fn end(&mut self, other: Option<PhaseId>) -> Option<(PhaseId, f64)> {
        let phase = self.phase.take().or(other)?;
        Some((phase, std::mem::take(&mut self.ns)))
    }

    /// Whether it was last seen in known code.
    pub fn is_known(&self) -> bool {
        self.phase.is_some()
    }

    /// CPU time that waits, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.ns
    }

    /// CPU time of a thread that was never seen in known code, in nanoseconds.
    pub fn unseen_ns(&self) -> f64 {
        match self.phase {
            Some(_) => 0.0,
            None => self.ns,
        }
    }
}

impl Phase {
    /// Instructions of its windows by line of code.
    fn code(&self) -> BTreeMap<u64, u64> {
        let mut code = BTreeMap::new();
        for (line, count) in self.recent.iter().flat_map(|window| &window.code) {
            *code.entry(*line).or_default() += u64::from(*count);
        }
        code
    }

    /// The part of its instructions that were in a line of code.
    fn part(&self, line: u64) -> f64 {
        let counts = self.recent.iter().flat_map(|window| &window.code);
        let (mut here, mut all) = (0, 0);
        for (other, count) in counts {
            all += u64::from(*count);
            here += if *other == line { u64::from(*count) } else { 0 };
        }
        here as f64 / all.max(1) as f64
    }

    /// What its profile and a window's have in common: 0 to 1.
    fn common(&self, window: &WindowUse) -> f64 {
        let own = self.code();
        let all = own.values().sum::<u64>().max(1) as f64;
        let window_all: u64 = window.code.iter().map(|(_, count)| u64::from(*count)).sum();
        let of = |(line, count): &(u64, u32)| {
            let own = own.get(line).copied().unwrap_or(0) as f64 / all;
            own.min(f64::from(*count) / window_all.max(1) as f64)
        };
        window.code.iter().map(of).sum()
    }
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

/// What a nanosecond of CPU time asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// By pool.
    pub rates: Vec<Rate>,
    chance: f64,
    /// The blocks of each window, in order, and the part of them that was seen.
    windows: Vec<(f64, Vec<BlockUse>)>,
    /// Time of them all on the model's machine, with this one's latency, and with what waits for nothing.
    local_ns: f64,
    whole_ns: f64,
    /// Blocks in a nanosecond: one over the time of all of them.
    per_ns: f64,
    /// Instructions of the windows.
    instructions: f64,
}

/// Time of blocks one after the other, when pools have these latencies.
fn time_of(blocks: &[BlockUse], latency: &[f64], chance: f64, base_ns: f64) -> f64 {
    let mut ahead_ns = 0.0;
    let time = |block: &BlockUse| {
        let computing_ns = f64::from(block.instructions) * base_ns;
        block.time(latency, chance, computing_ns, &mut ahead_ns)
    };
    blocks.iter().map(time).sum()
}

/// The same where lines take what they take here.
fn time_here(blocks: &[BlockUse], here: &Here, base_ns: f64) -> f64 {
    let mut ahead_ns = 0.0;
    let time = |block: &BlockUse| {
        let computing_ns = f64::from(block.instructions) * base_ns;
        block.time_here(here, computing_ns, &mut ahead_ns)
    };
    blocks.iter().map(time).sum()
}

impl Estimate {
    /// What windows ask for on a machine when a line new to them misses the last level cache with a
    /// chance; `None` where they hold no instruction.
    pub fn of<'a>(
        windows: impl Iterator<Item = &'a WindowUse>,
        machine: &Machine,
        chance: f64,
    ) -> Option<Estimate> {
        let (mut time, mut instructions) = (0.0, 0.0);
        let mut rates: Vec<Rate> = Vec::new();
        let (mut local_ns, mut idle_ns, mut kept) = (0.0, 0.0, Vec::new());
        for window in windows.filter(|window| window.instructions > 0) {
            // Each counts for what was seen.
            let part = window.seen as f64 / window.instructions as f64;
            instructions += window.seen as f64;
            rates.resize(rates.len().max(window.pools.len()), Rate::default());
            for (rate, pool) in rates.iter_mut().zip(&window.pools) {
                rate.reads += part * chance * pool.reads;
                rate.writes += part * chance * pool.writes;
            }
            idle_ns += part * window.idle as f64 * machine.base_ns;
            let local = vec![machine.wait_ns; window.pools.len()];
            let model_ns = time_of(&window.blocks, &local, chance, machine.base_ns);
            local_ns += part * model_ns;
            time += part
                * match &machine.here {
                    Some(here) => time_here(&window.blocks, here, machine.base_ns),
                    None => model_ns,
                };
            for block in &window.blocks {
                let all = part * block.waits(chance);
                for (rate, share) in rates.iter_mut().zip(&block.parts) {
                    rate.waits += share * all;
                }
            }
            kept.push((part, window.blocks.clone()));
        }
        time += idle_ns;
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
            windows: kept,
            local_ns,
            whole_ns: local_ns + idle_ns,
            per_ns,
            instructions,
        })
    }

    /// CPU time of the windows, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        1.0 / self.per_ns
    }

    /// CPU time that one of their instructions is taken for, in nanoseconds: where instructions are counted, so
    /// much of it each.
    pub fn instruction_ns(&self) -> f64 {
        self.time_ns() / self.instructions.max(1.0)
    }

    /// Time of a nanosecond of CPU time's instructions on the model's machine, all memory being local, in nanoseconds.
    pub fn model_ns(&self) -> f64 {
        self.whole_ns * self.per_ns
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
        let base_ns = machine.base_ns;
        let windows = self.windows.iter();
        let placed: f64 = windows
            .map(|(part, blocks)| part * time_of(blocks, &latency, self.chance, base_ns))
            .sum();
        let latency = (placed - self.local_ns).max(0.0) * self.per_ns;
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
    /// A further window, and of which code it is; `None` where it has no instruction.
    pub fn add(&mut self, window: WindowUse) -> Option<PhaseId> {
        if window.instructions == 0 {
            return None;
        }
        self.windows += 1;
        let known = self.phases.iter();
        let (id, common) = known
            .map(|(id, phase)| (*id, phase.common(&window)))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .unwrap_or((0, 0.0));
        let id = match common >= COMMON {
            true => id,
            false => self.new_phase(),
        };
        let phase = self.phases.entry(id).or_default();
        phase.last = self.windows;
        if phase.recent.len() == RECENT {
            phase.recent.pop_front();
        }
        phase.recent.push_back(window);
        Some(id)
    }

    fn new_phase(&mut self) -> PhaseId {
        if self.phases.len() == PHASES {
            let oldest = self.phases.iter().min_by_key(|(_, phase)| phase.last);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.phases.remove(&oldest);
            }
        }
        self.windows
    }

    /// Which code an instruction belongs to: the one whose windows had most of theirs in its line; `None` where no
    /// window has been there.
    pub fn at(&self, instruction: u64) -> Option<PhaseId> {
        let line = instruction / 64;
        let known = self
            .phases
            .iter()
            .map(|(id, phase)| (*id, phase.part(line)));
        let (id, part) = known.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (part > 0.0).then_some(id)
    }

    /// Whether windows of that code are remembered.
    pub fn knows(&self, phase: PhaseId) -> bool {
        self.phases.contains_key(&phase)
    }

    /// The code of the last window.
    pub fn last(&self) -> Option<PhaseId> {
        let last = self.phases.iter().max_by_key(|(_, phase)| phase.last)?;
        Some(*last.0)
    }

    /// What a nanosecond of CPU time in that code (in the last one, where it is forgotten) asks for;
    /// `None` before the first window. `chance` is that of a line new to a window not to be in the last level
    /// cache.
    pub fn estimate(&self, phase: PhaseId, machine: &Machine, chance: f64) -> Option<Estimate> {
        let known = self.phases.get(&phase);
        let phase = known.or_else(|| self.phases.get(&self.last()?))?;
        Estimate::of(phase.recent.iter(), machine, chance)
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
        here: None,
        base_ns: 0.25,
    };

    /// Ten blocks that wait for a chain each, all in pool 1.
    fn window(chain: u32) -> WindowUse {
        let block = BlockUse {
            instructions: 256,
            nodes: (0..chain).map(|at| Node::Miss(1, at)).collect(),
            fetched: vec![0.0, f64::from(chain) / 12.0],
            apart: f64::from(chain) / 12.0,
            loads: vec![0, chain],
            parts: vec![0.0, 1.0],
        };
        WindowUse {
            instructions: 2560,
            seen: 2560,
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
            code: vec![(7, 2560)],
        }
    }

    /// A pointer chase: 85 steps in a block.
    fn chase(chance: f64) -> Estimate {
        let mut estimator = Estimator::default();
        let phase = estimator.add(window(85)).unwrap();
        estimator.estimate(phase, &MACHINE, chance).unwrap()
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
            here: None,
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

    /// Chains, misses apart and streams in any order, in two pools: whatever hides what, more latency is never less
    /// delay, and none is none.
    #[test]
    fn more_latency_is_never_less_delay_for_blocks_of_any_kind() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut seen = window(1);
            for block in &mut seen.blocks {
                let chain = next(4) as u32;
                let (apart, streamed) = (next(40) as f64 / 12.0, next(80) as f64 / 16.0);
                let far = next(5) as f64 / 4.0;
                *block = BlockUse {
                    instructions: 1 + next(256) as u32,
                    nodes: (0..chain)
                        .map(|at| Node::Miss(next(2) as u16, at))
                        .collect(),
                    fetched: vec![(apart + streamed) * (1.0 - far), (apart + streamed) * far],
                    apart,
                    loads: vec![0, chain],
                    parts: vec![0.5, 0.5],
                };
            }
            let chance = next(5) as f64 / 4.0;
            let estimate = Estimate::of([seen].iter(), &MACHINE, chance).unwrap();
            let mut last = estimate.delay(&answer(90.0), &MACHINE);
            assert!(last.abs() < 1e-9, "{last}");
            for latency in (91..2000).step_by(7) {
                let now = estimate.delay(&answer(f64::from(latency)), &MACHINE);
                assert!(now > last - 1e-9, "{latency}: {now} after {last}");
                last = now;
            }
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

    /// Where pages are looked for one at a time, misses without order take as long as a chain: the same CPU time
    /// holds fewer of them, and each is as much longer as before.
    #[test]
    fn cpu_time_holds_as_many_misses_as_this_machine_makes() {
        let apart = |apart_ns| {
            let mut seen = window(24);
            for block in &mut seen.blocks {
                block.nodes = vec![Node::Miss(1, 0); 24];
            }
            let machine = Machine {
                here: Some(Here {
                    miss_ns: 90.0,
                    apart_ns,
                    stream_ns: 90.0,
                }),
                ..MACHINE
            };
            let estimate = Estimate::of([seen].iter(), &machine, 1.0).unwrap();
            let delay = estimate.delay(&answer(290.0), &machine);
            (estimate.time_ns(), delay * estimate.time_ns())
        };
        let (time, delay) = apart(90.0);
        let (longer, same) = apart(1080.0);
        assert!((time - 10.0 * 180.0).abs() < 1e-9 && (longer - 12.0 * time).abs() < 1e-6);
        assert!((delay - 10.0 * 400.0).abs() < 1e-6 && (delay - same).abs() < 1e-6);
    }

    /// A cache here that holds all of it, where the model's holds a fourth: steps take a tenth of the time, so
    /// there are ten times as many, and three of four miss.
    #[test]
    fn a_cache_that_is_larger_here_hides_nothing() {
        let machine = Machine {
            here: Some(Here {
                miss_ns: 9.0,
                apart_ns: 9.0,
                stream_ns: 9.0,
            }),
            ..MACHINE
        };
        let estimate = Estimate::of([window(85)].iter(), &machine, 0.75).unwrap();
        let steps = 1.0 / 9.0;
        assert!((estimate.rates[1].waits - 0.75 * steps).abs() < 1e-12);
        let delay = estimate.delay(&answer(290.0), &machine);
        assert!((delay - 0.75 * steps * 200.0).abs() < 1e-9, "{delay}");
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
        assert_eq!(estimator.estimate(0, &MACHINE, 1.0), None);
        assert_eq!(estimator.add(WindowUse::default()), None);
        assert_eq!(estimator.estimate(0, &MACHINE, 1.0), None);
    }

    fn at(code: &[(u64, u32)]) -> WindowUse {
        WindowUse {
            code: code.to_vec(),
            ..window(10)
        }
    }

    #[test]
    fn windows_that_have_half_of_their_code_in_common_are_of_one_phase() {
        let mut estimator = Estimator::default();
        let first = estimator.add(at(&[(1, 500), (2, 500)]));
        assert_eq!(estimator.add(at(&[(1, 900), (3, 100)])), first);
        let other = estimator.add(at(&[(3, 600), (4, 400)]));
        assert_ne!(other, first);
        assert_eq!(estimator.add(at(&[(1, 700), (9, 300)])), first);
        assert_eq!(estimator.last(), first);
        assert_eq!(estimator.add(at(&[(4, 10), (3, 15)])), other);
        assert_eq!(estimator.last(), other);
        // Many others: those that were not seen for longest are forgotten.
        for code in 100..100 + PHASES as u64 - 1 {
            estimator.add(at(&[(code, 1)]));
        }
        assert_eq!(estimator.phases.len(), PHASES);
        assert_eq!(estimator.add(at(&[(3, 600), (4, 400)])), other);
        assert_ne!(estimator.add(at(&[(1, 500), (2, 500)])), first);
    }

    /// A program that chases, then computes for as long, then chases again: each part has its own price, whatever
    /// came before, and what changes between two windows is shared by both.
    #[test]
    fn cpu_time_has_the_price_of_the_window_that_is_nearest() {
        let mut estimator = Estimator::default();
        let computing = WindowUse {
            instructions: 1000,
            seen: 1000,
            idle: 1000,
            pools: vec![PoolUse::default(); 2],
            code: vec![(1, 1000)],
            ..WindowUse::default()
        };
        let chasing = WindowUse {
            code: vec![(2, 2560)],
            ..window(85)
        };
        let mut waiting = Waiting::default();
        let mut by_phase: BTreeMap<PhaseId, f64> = BTreeMap::new();
        let mut delay = 0.0;
        // A window each 100 ns of CPU time, looked at in parts of 10 ns.
        for part in 0..9 {
            let seen = match part / 3 {
                1 => &computing,
                _ => &chasing,
            };
            let phase = estimator.add(seen.clone()).unwrap();
            let mut due = vec![waiting.seen(phase)];
            due.extend((0..10).filter_map(|_| waiting.pass(10.0)));
            due.extend((part == 8).then(|| waiting.end(None).unwrap()));
            for (phase, ns) in due {
                let estimate = estimator.estimate(phase, &MACHINE, 1.0).unwrap();
                delay += ns * estimate.delay(&answer(290.0), &MACHINE);
                *by_phase.entry(phase).or_default() += ns;
            }
        }
        assert_eq!(waiting.ns(), 0.0);
        // Three windows each; the last one has also what follows it.
        let found: Vec<f64> = by_phase.into_values().collect();
        assert_eq!(found, [600.0, 300.0]);
        assert!((delay - 600.0 * 200.0 / 90.0).abs() < 1e-9, "{delay}");
    }

    #[test]
    fn an_instruction_belongs_to_the_code_that_has_most_of_its_own_there() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.at(64), None);
        let one = estimator.add(at(&[(1, 900), (2, 100)]));
        let other = estimator.add(at(&[(2, 300), (3, 700)]));
        assert_eq!(estimator.at(64), one);
        assert_eq!(estimator.at(2 * 64 + 63), other);
        assert_eq!(estimator.at(3 * 64), other);
        assert_eq!(estimator.at(4 * 64), None);
    }

    #[test]
    fn what_no_window_was_seen_of_waits_for_one() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.pass(30.0), None);
        assert_eq!(waiting.end(None), None);
        assert_eq!(waiting.ns(), 30.0);
        assert_eq!(waiting.end(Some(4)), Some((4, 30.0)));
        waiting.pass(5.0);
        assert_eq!(waiting.seen(2), (2, 5.0));
        // Seen in other code, of which the window comes later: half of what lies between is known.
        assert_eq!(waiting.pass(6.0), Some((2, 3.0)));
        waiting.elsewhere();
        assert_eq!(waiting.pass(10.0), None);
        assert_eq!(waiting.seen(5), (5, 13.0));
    }
}
