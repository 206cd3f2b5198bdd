//! Estimates delay from windows and CPU time.
//!
//! The recent windows of a program say, block by block, how many latencies the program waits for and how many lines it
//! moves. Time stands in for an instruction count: a block takes the longer of its computing time and of its lines'
//! time on this machine, measured for as much memory as the program uses. So a nanosecond of CPU time holds as many
//! blocks as fit. With a more distant pool each wait for that pool takes longer by the added latency, and so does the
//! block, as far as computing does not hide it.
//!
//! Once a window has been in some code, the instruction pointer suffices to know what the program is doing. So the
//! pointer is sampled much more often than windows are taken. A sample stands for the CPU time nearest to it
//! ([`UnpricedTime`]): of the time between two samples, the first half belongs to the first. That time has the price of
//! the last windows of the same code, and of no other code, because a program that changes its behaviour executes other
//! code. Two profiles (shares of instructions by line of code) are of the same code if they have half in common.
//!
//! T. Sherwood et al., "Automatically Characterizing Large Scale Program Behavior", ASPLOS 2002,
//! distinguish phases by code. A. Dhodapkar and J. Smith, "Managing Multi-Configuration Hardware
//! via Dynamic Working Set Analysis", ISCA 2002, use half as the threshold.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::fabric::{Demand, PoolResponse};
use crate::model::{BlockUse, LocalLineTime, WindowUse};
use crate::reuse::WindowTrace;

/// Properties of this machine that the estimate needs.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Machine {
    /// Latency of this machine's own memory, in nanoseconds. The added latency of a pool is relative to it.
    pub local_ns: f64,
    /// Time that a program waits for a miss in local memory, in nanoseconds.
    pub wait_ns: f64,
    /// Measured time of its lines on this machine, including page table walks and hits in caches here. This time
    /// determines how many lines a time holds. `None` if lines take the time that the model says.
    pub here: Option<LocalLineTime>,
    /// Time of an instruction that does not wait for memory, in nanoseconds.
    pub base_ns: f64,
}

/// Time of an instruction that does not wait for memory, in nanoseconds (*assumed*: two a cycle at 2 GHz).
pub const BASE_NS: f64 = 0.25;
/// Number of windows that count of the same code, the most recent ones (*assumed*).
pub(crate) const RECENT_WINDOWS: usize = 4;
/// Least share that two profiles of the same code have in common.
const MIN_COMMON_SHARE: f64 = 0.5;
/// Number of pieces of code that are remembered. The least recently seen one is evicted (*assumed*).
const MAX_PHASES: usize = 64;

/// Halvings of the interval in which a chance is searched: to 1/1024.
const HALVINGS: u32 = 10;

/// Number of a piece of code that a process executes.
pub type PhaseId = u64;

/// The recent windows of a piece of code.
#[derive(Clone, Default, Debug)]
struct Phase {
    recent: VecDeque<Recent>,
    /// Number of the last window of this code.
    last: u64,
}

/// A recent window.
#[derive(Clone, Debug)]
struct Recent {
    number: u64,
    used: WindowUse,
    /// Instructions of the window, if it can be analysed again.
    trace: Option<WindowTrace>,
}

/// Recent windows of a process, by the code that they saw.
#[derive(Clone, Default, Debug)]
pub struct Estimator {
    phases: BTreeMap<PhaseId, Phase>,
    windows: u64,
}

/// CPU time of a thread that has no price yet. A sample only shows the thread's current code. The first half of the CPU
/// time between two samples has the price of the first sample's code. The second half is pending until the second
/// sample shows its code.
#[derive(Clone, Copy, Default, Debug)]
pub struct UnpricedTime {
    phase: Option<PhaseId>,
    ns: f64,
}

impl UnpricedTime {
    /// Adds CPU time and returns the part that has a price now, with its code.
    pub fn pass(&mut self, ns: f64) -> Option<(PhaseId, f64)> {
        let part = if self.phase.is_some() { 0.5 } else { 1.0 };
        self.ns += part * ns;
        Some((self.phase?, part * ns))
    }

    /// Records a sample in code `phase`. Returns the pending time, which has the price of that code.
    pub fn seen(&mut self, phase: PhaseId) -> (PhaseId, f64) {
        self.phase = Some(phase);
        (phase, std::mem::take(&mut self.ns))
    }

    /// Records a sample in code without a window. Pending and further time now waits for a window.
    pub fn elsewhere(&mut self) {
        self.phase = None;
    }

    /// Ends sampling. The pending time has the price of the last sample's code, or of `other`.
    pub fn end(&mut self, other: Option<PhaseId>) -> Option<(PhaseId, f64)> {
        let phase = self.phase.take().or(other)?;
        Some((phase, std::mem::take(&mut self.ns)))
    }

    /// Pending CPU time, in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.ns
    }
}

impl Phase {
    /// Number of instructions of all windows, by line of code.
    fn code(&self) -> BTreeMap<u64, u64> {
        let mut code = BTreeMap::new();
        for (line, count) in self.recent.iter().flat_map(|window| &window.used.code) {
            *code.entry(*line).or_default() += u64::from(*count);
        }
        code
    }

    /// Share of the phase's instructions in a line of code.
    fn part(&self, line: u64) -> f64 {
        let counts = self.recent.iter().flat_map(|window| &window.used.code);
        let (mut here, mut all) = (0, 0);
        for (other, count) in counts {
            all += u64::from(*count);
            here += if *other == line { u64::from(*count) } else { 0 };
        }
        here as f64 / all.max(1) as f64
    }

    /// Share that the profiles of the phase and of a window have in common, from 0 to 1.
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
    /// Time of all blocks on the model's machine with local latency; `whole_ns` includes blocks that do not wait.
    local_ns: f64,
    whole_ns: f64,
    /// Reciprocal of the CPU time of all blocks, in 1/ns.
    per_ns: f64,
    /// Number of instructions seen in the windows.
    instructions: f64,
}

/// Time of consecutive blocks, in nanoseconds. `time` returns the time of one block, given its computing time and how
/// far prefetched lines are ahead of their use.
fn time_of(
    blocks: &[BlockUse],
    base_ns: f64,
    time: impl Fn(&BlockUse, f64, &mut f64) -> f64,
) -> f64 {
    let mut ahead_ns = 0.0;
    let blocks = blocks.iter();
    blocks
        .map(|block| {
            time(
                block,
                f64::from(block.instructions) * base_ns,
                &mut ahead_ns,
            )
        })
        .sum()
}

impl Estimate {
    /// Memory use of windows on a machine on which a line new to a window misses the last level
    /// cache with probability `chance`. `None` if the windows have no instructions.
    pub fn of<'a>(
        windows: impl Iterator<Item = &'a WindowUse>,
        machine: &Machine,
        chance: f64,
    ) -> Option<Estimate> {
        // Each window counts for the instructions that were seen.
        let seen = windows.map(|window| (window.seen as f64, window));
        Estimate::weighted(seen, machine, chance)
    }

    /// Like [`Estimate::of`], for windows with the given number of instructions as weight.
    pub fn weighted<'a>(
        windows: impl Iterator<Item = (f64, &'a WindowUse)>,
        machine: &Machine,
        chance: f64,
    ) -> Option<Estimate> {
        let (mut time, mut instructions) = (0.0, 0.0);
        let mut rates: Vec<Rate> = Vec::new();
        let (mut local_ns, mut idle_ns, mut kept) = (0.0, 0.0, Vec::new());
        for (counts, window) in windows.filter(|(_, window)| window.instructions > 0) {
            let part = counts / window.instructions as f64;
            instructions += counts;
            rates.resize(rates.len().max(window.pools.len()), Rate::default());
            for (rate, pool) in rates.iter_mut().zip(&window.pools) {
                rate.reads += part * chance * pool.reads;
                rate.writes += part * chance * pool.writes;
            }
            idle_ns += part * window.idle as f64 * machine.base_ns;
            let local = vec![machine.wait_ns; window.pools.len()];
            let (blocks, base_ns) = (&window.blocks, machine.base_ns);
            let model_ns = time_of(blocks, base_ns, |block, computing_ns, ahead_ns| {
                block.time(&local, chance, computing_ns, ahead_ns)
            });
            local_ns += part * model_ns;
            let here_ns = machine.here.map(|here| {
                time_of(blocks, base_ns, |block, computing_ns, ahead_ns| {
                    block.time_here(&here, computing_ns, ahead_ns)
                })
            });
            time += part * here_ns.unwrap_or(model_ns);
            for block in &window.blocks {
                let all = part * block.waits(chance);
                for (rate, share) in rates.iter_mut().zip(&block.wait_shares) {
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

    /// Probability that a line new to a window misses the last level cache.
    pub fn chance(&self) -> f64 {
        self.chance
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

    /// Time of one instruction on the model's machine, with all memory local, in nanoseconds.
    pub fn model_instruction_ns(&self) -> f64 {
        self.whole_ns / self.instructions.max(1.0)
    }

    /// Time on the model's machine of the instructions of a nanosecond of CPU time, with all
    /// memory local, in nanoseconds.
    pub fn model_ns(&self) -> f64 {
        self.whole_ns * self.per_ns
    }

    /// Delay per nanosecond of CPU time, in nanoseconds: the added latency of all waits, less the part hidden by
    /// computing. If the fabric's time for the lines exceeds the program's own time for them by more, the delay is that
    /// excess. Pool 0 is this machine's own memory and adds nothing.
    pub fn delay(&self, answers: &[PoolResponse], machine: &Machine) -> f64 {
        let added = answers.iter().enumerate().map(|(pool, answer)| match pool {
            0 => 0.0,
            _ => (answer.latency_ns - machine.local_ns).max(0.0),
        });
        let latency: Vec<f64> = added.map(|added| machine.wait_ns + added).collect();
        let placed = |(part, blocks): &(f64, Vec<BlockUse>)| {
            let time = |block: &BlockUse, computing_ns, ahead_ns: &mut f64| {
                block.time(&latency, self.chance, computing_ns, ahead_ns)
            };
            part * time_of(blocks, machine.base_ns, time)
        };
        let placed: f64 = self.windows.iter().map(placed).sum();
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
        let known = self.most(|phase| phase.common(&window));
        let known = known.filter(|(_, common)| *common >= MIN_COMMON_SHARE);
        let id = known.map_or_else(|| self.new_phase(), |(id, _)| id);
        let phase = self.phases.entry(id).or_default();
        phase.last = self.windows;
        if phase.recent.len() == RECENT_WINDOWS {
            phase.recent.pop_front();
        }
        phase.recent.push_back(Recent {
            number: self.windows,
            used: window,
            trace: None,
        });
        Some(id)
    }

    /// Keeps the instructions of the last window, so that it can be analysed again. Returns its number.
    pub fn keep(&mut self, trace: WindowTrace) -> u64 {
        let number = self.windows;
        let recent = self
            .phases
            .values_mut()
            .filter_map(|phase| phase.recent.back_mut());
        if let Some(last) = recent.max_by_key(|recent| recent.number) {
            last.trace = Some(trace);
        }
        number
    }

    /// Number of windows so far.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Analyses the recent windows of a phase again, by their numbers and instructions.
    pub fn renew(
        &mut self,
        phase: PhaseId,
        analyse: &mut dyn FnMut(u64, &WindowTrace) -> WindowUse,
    ) {
        let recent = self.phases.get_mut(&phase).map(|phase| &mut phase.recent);
        for window in recent.into_iter().flatten() {
            if let Some(trace) = &window.trace {
                window.used = analyse(window.number, trace);
            }
        }
    }

    fn new_phase(&mut self) -> PhaseId {
        if self.phases.len() == MAX_PHASES {
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
        let (id, part) = self.most(|phase| phase.part(instruction / 64))?;
        (part > 0.0).then_some(id)
    }

    /// The phase with the largest value of `of`, and that value.
    fn most(&self, of: impl Fn(&Phase) -> f64) -> Option<(PhaseId, f64)> {
        let phases = self.phases.iter().map(|(id, phase)| (*id, of(phase)));
        phases.max_by(|(_, one), (_, other)| one.total_cmp(other))
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
        Estimate::of(
            phase.recent.iter().map(|window| &window.used),
            machine,
            chance,
        )
    }
}

/// Largest chance, up to `most`, with which an instruction takes at most `most_ns` on the model's
/// machine. So the program cannot have waited for more misses than fit in its CPU time.
pub fn fitting(most: f64, most_ns: f64, of: impl Fn(f64) -> Option<Estimate>) -> f64 {
    let fits = |chance| {
        let estimate = of(chance);
        estimate.is_some_and(|estimate| estimate.model_instruction_ns() <= most_ns)
    };
    if fits(most) {
        return most;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        match fits(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// Probability that a line of a working set is not in the last level cache, for uses in random order.
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
mod tests;
