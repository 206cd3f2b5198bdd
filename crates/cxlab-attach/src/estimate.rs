//! Estimates delay from windows and CPU time.
//!
//! The recent windows of a program say, block by block, how many latencies the program waits for
//! and how many lines it moves. Time stands in for an instruction count: a block takes the longer
//! of its computing time and of its lines' time on this machine, measured for as much memory as the
//! program uses. So a nanosecond of CPU time holds as many blocks as fit. With a more distant pool
//! each wait for that pool takes longer by the added latency, and so does the block, as far as
//! computing does not hide it.
//!
//! Once a window has been in some code, the instruction pointer suffices to know what the program
//! is doing. So the pointer is sampled much more often than windows are taken. A sample stands for
//! the CPU time nearest to it ([`Waiting`]): of the time between two samples, the first half
//! belongs to the first. That time has the price of the last windows of the same code, and of no
//! other code, because a program that changes its behaviour executes other code. Two profiles
//! (shares of instructions by line of code) are of the same code if they have half in common.
//!
//! T. Sherwood et al., "Automatically Characterizing Large Scale Program Behavior", ASPLOS 2002,
//! distinguish phases by code. A. Dhodapkar and J. Smith, "Managing Multi-Configuration Hardware
//! via Dynamic Working Set Analysis", ISCA 2002, use half as the threshold.

use std::collections::{BTreeMap, VecDeque};

use crate::fabric::{Answer, Demand};
use crate::model::{BlockUse, Here, WindowUse};

/// Properties of this machine that the estimate needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Latency of this machine's own memory, in nanoseconds. The added latency of a pool
    /// is relative to it.
    pub local_ns: f64,
    /// Time that a program waits for a miss in local memory, in nanoseconds.
    pub wait_ns: f64,
    /// Measured time of its lines on this machine, including page table walks and hits in
    /// caches here. This time determines how many lines a time holds. `None` if lines take
    /// the time that the model says.
    pub here: Option<Here>,
    /// Time of an instruction that does not wait for memory, in nanoseconds.
    pub base_ns: f64,
}

/// Time of an instruction that does not wait for memory, in nanoseconds (*assumed*: two a
/// cycle at 2 GHz).
pub const BASE_NS: f64 = 0.25;
/// Number of windows that count of the same code, the most recent ones (*assumed*).
const RECENT: usize = 4;
/// Least share that two profiles of the same code have in common.
const COMMON: f64 = 0.5;
/// Number of pieces of code that are remembered. The least
/// recently seen one is evicted (*assumed*).
const PHASES: usize = 64;

/// Number of a piece of code that a process executes.
pub type PhaseId = u64;

/// The recent windows of a piece of code.
#[derive(Clone, Default, Debug)]
struct Phase {
    recent: VecDeque<WindowUse>,
    /// Number of its last window.
    last: u64,
}

/// Recent windows of a process, by the code that they saw.
#[derive(Clone, Default, Debug)]
pub struct Estimator {
    phases: BTreeMap<PhaseId, Phase>,
    windows: u64,
}

/// CPU time of a thread that has no price yet. A sample says only in which code the thread is. Of
/// the CPU time between two samples, the first half has the price of the first sample's code. The
/// second half is pending until the second sample gives its code.
#[derive(Clone, Copy, Default, Debug)]
pub struct Waiting {
    phase: Option<PhaseId>,
    ns: f64,
}

impl Waiting {
    /// Adds CPU time and returns the part that has a price now, with its code.
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

    /// A sample found the thread in code `phase`. Returns the pending time, which has that price.
    pub fn seen(&mut self, phase: PhaseId) -> (PhaseId, f64) {
        self.phase = Some(phase);
        (phase, std::mem::take(&mut self.ns))
    }

    /// A sample found the thread in code without a window. Pending and further time now
    /// waits for a window.
    pub fn elsewhere(&mut self) {
        self.phase = None;
    }

    /// No further sample follows. The pending time has the price of the last sample's
    /// code, or of `other`.
    pub fn end(&mut self, other: Option<PhaseId>) -> Option<(PhaseId, f64)> {
        let phase = self.phase.take().or(other)?;
        Some((phase, std::mem::take(&mut self.ns)))
    }

    /// Whether the last sample was in known code.
    pub fn is_known(&self) -> bool {
        self.phase.is_some()
    }

    /// Pending CPU time, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.ns
    }

    /// Pending CPU time in nanoseconds if the thread is not in known code, otherwise 0.
    pub fn unseen_ns(&self) -> f64 {
        match self.phase {
            Some(_) => 0.0,
            None => self.ns,
        }
    }
}

impl Phase {
    /// Number of its windows' instructions by line of code.
    fn code(&self) -> BTreeMap<u64, u64> {
        let mut code = BTreeMap::new();
        for (line, count) in self.recent.iter().flat_map(|window| &window.code) {
            *code.entry(*line).or_default() += u64::from(*count);
        }
        code
    }

    /// Share of its instructions that are in a line of code.
    fn part(&self, line: u64) -> f64 {
        let counts = self.recent.iter().flat_map(|window| &window.code);
        let (mut here, mut all) = (0, 0);
        for (other, count) in counts {
            all += u64::from(*count);
            here += if *other == line { u64::from(*count) } else { 0 };
        }
        here as f64 / all.max(1) as f64
    }

    /// Share that its profile and that of a window have in common, from 0 to 1.
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

/// Memory use of one pool in a nanosecond of CPU time.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Rate {
    /// Number of latencies waited for.
    pub waits: f64,
    /// Number of lines read.
    pub reads: f64,
    /// Number of lines written.
    pub writes: f64,
}

/// Memory use of a nanosecond of CPU time.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimate {
    /// Use of each pool.
    pub rates: Vec<Rate>,
    chance: f64,
    /// The blocks of each window in order, with the share of them that was seen.
    windows: Vec<(f64, Vec<BlockUse>)>,
    /// Time of all blocks on the model's machine with local latency; `whole_ns`
    /// includes blocks that do not wait.
    local_ns: f64,
    whole_ns: f64,
    /// Reciprocal of the CPU time of all blocks, in 1/ns.
    per_ns: f64,
    /// Number of instructions seen in the windows.
    instructions: f64,
}

/// Time of consecutive blocks if the pools have these latencies, in nanoseconds.
fn time_of(blocks: &[BlockUse], latency: &[f64], chance: f64, base_ns: f64) -> f64 {
    let mut ahead_ns = 0.0;
    let time = |block: &BlockUse| {
        let computing_ns = f64::from(block.instructions) * base_ns;
        block.time(latency, chance, computing_ns, &mut ahead_ns)
    };
    blocks.iter().map(time).sum()
}

/// Time of consecutive blocks with the measured line times of this machine, in nanoseconds.
fn time_here(blocks: &[BlockUse], here: &Here, base_ns: f64) -> f64 {
    let mut ahead_ns = 0.0;
    let time = |block: &BlockUse| {
        let computing_ns = f64::from(block.instructions) * base_ns;
        block.time_here(here, computing_ns, &mut ahead_ns)
    };
    blocks.iter().map(time).sum()
}

impl Estimate {
    /// Memory use of windows on a machine on which a line new to a window misses the last level
    /// cache with probability `chance`. `None` if the windows have no instructions.
    pub fn of<'a>(
        windows: impl Iterator<Item = &'a WindowUse>,
        machine: &Machine,
        chance: f64,
    ) -> Option<Estimate> {
        let (mut time, mut instructions) = (0.0, 0.0);
        let mut rates: Vec<Rate> = Vec::new();
        let (mut local_ns, mut idle_ns, mut kept) = (0.0, 0.0, Vec::new());
        for window in windows.filter(|window| window.instructions > 0) {
            // Each window counts for the instructions that were seen.
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

    /// CPU time that one instruction of the windows stands for, in nanoseconds. It converts counted
    /// instructions to CPU time.
    pub fn instruction_ns(&self) -> f64 {
        self.time_ns() / self.instructions.max(1.0)
    }

    /// Time on the model's machine of the instructions of a nanosecond of CPU time, with all
    /// memory local, in nanoseconds.
    pub fn model_ns(&self) -> f64 {
        self.whole_ns * self.per_ns
    }

    /// Delay of a nanosecond of CPU time, in nanoseconds. That is the added latency of each
    /// wait, less what computing hides. Or it is the time that the fabric needs for the lines
    /// beyond the program's own time for them, if that is more. Pool 0 is this machine's own
    /// memory and adds nothing.
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
    /// Adds a window and returns its code, or `None` if the window has no instructions.
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

    /// The code that an instruction belongs to: the one whose windows had the largest share of
    /// instructions in its line. `None` if no window has been there.
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

    /// Memory use of a nanosecond of CPU time in code `phase`, or in the last window's code if
    /// `phase` was evicted. `None` before the first window. `chance` is the probability that a line
    /// new to a window misses the last level cache.
    pub fn estimate(&self, phase: PhaseId, machine: &Machine, chance: f64) -> Option<Estimate> {
        let known = self.phases.get(&phase);
        let phase = known.or_else(|| self.phases.get(&self.last()?))?;
        Estimate::of(phase.recent.iter(), machine, chance)
    }
}

/// Probability that a line of a working set is not in the last level cache, for
/// uses in random order.
pub fn chance(used: u64, llc_bytes: u64) -> f64 {
    if used <= llc_bytes {
        return 0.0;
    }
    1.0 - llc_bytes as f64 / used as f64
}

/// Demand of a program that spends `cpu_ns` of CPU time in `real_ns` of real time.
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

    /// Ten blocks, each of which waits for a chain in pool 1.
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

    /// A pointer chase with 85 steps a block.
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

    /// A step takes 90 ns here, which hides its computing. With 200 ns added it takes 290 ns.
    #[test]
    fn a_chase_is_charged_the_added_latency_of_each_step() {
        let estimate = chase(1.0);
        assert!((estimate.rates[1].waits * 90.0 - 1.0).abs() < 1e-12);
        for added in [0.0, 100.0, 200.0, 400.0, 2000.0] {
            let delay = estimate.delay(&answer(90.0 + added), &MACHINE);
            assert!((delay * 90.0 - added).abs() < 1e-9, "{added}: {delay}");
        }
    }

    /// One wait of 100 ns. In a block that computes for 64 ns, 36 ns of it show. In a block of 640
    /// ns nothing shows, until the wait is longer.
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

    /// Chains, independent misses and streams in random order, in two pools. A higher latency never
    /// gives less delay, and no added latency gives none.
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
        // The fabric does not carry local lines.
        answers[0].stretch = 5.0;
        assert!((estimate.delay(&answers, &MACHINE) - 1.0).abs() < 1e-12);
    }

    /// With half of the lines of a chain in the cache, half of the waits take half of the time.
    #[test]
    fn what_the_cache_holds_is_not_waited_for() {
        assert_eq!(chase(0.0).rates[1], Rate::default());
        assert_eq!(chase(0.0).time_ns(), 640.0);
        assert!((chase(0.5).rates[1].waits * 90.0 - 1.0).abs() < 1e-12);
        assert_eq!(chase(0.5).time_ns() * 2.0, chase(1.0).time_ns());
    }

    /// If page table walks are serial, independent misses take as long as a chain. The same CPU
    /// time then holds fewer misses, and each takes as much longer as before.
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

    /// The cache here holds all lines, the model's cache a fourth. Steps take a tenth of the time
    /// here, so there are ten times as many, and three of four miss.
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
        // Many other pieces of code evict the least recently seen ones.
        for code in 100..100 + PHASES as u64 - 1 {
            estimator.add(at(&[(code, 1)]));
        }
        assert_eq!(estimator.phases.len(), PHASES);
        assert_eq!(estimator.add(at(&[(3, 600), (4, 400)])), other);
        assert_ne!(estimator.add(at(&[(1, 500), (2, 500)])), first);
    }

    /// A program chases, computes for as long, and chases again. Each part has its own price,
    /// regardless of what came before. A time that spans a change is split between both windows.
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
        // A window each 100 ns of CPU time, sampled each 10 ns.
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
        // Six windows chase and three compute. The last one also covers the time after it.
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
        // A sample is in new code, whose window comes later. Half of the time before
        // that sample is known.
        assert_eq!(waiting.pass(6.0), Some((2, 3.0)));
        waiting.elsewhere();
        assert_eq!(waiting.pass(10.0), None);
        assert_eq!(waiting.seen(5), (5, 13.0));
    }
}
