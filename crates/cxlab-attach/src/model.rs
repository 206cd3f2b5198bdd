//! Memory use of a sequence of executed instructions, and how many of its misses overlap.
//!
//! A window is a few thousand instructions with every address. A line that the window has
//! not touched before counts as a miss, unless the program uses it all the time ([`crate::reuse`]).
//! ([`crate::estimate`] decides how many of those the last level cache holds.)
//!
//! Misses overlap within a block, which is a reorder buffer's worth of instructions. The program waits for the longest
//! chain of misses whose addresses depend on each other's data, according to the registers. Or it waits for all misses
//! of the block to pass the line fill buffers, if that takes longer. A line that follows two neighbours in its page is
//! prefetched, and costs only what the prefetcher does not hide. A store reads its line first and occupies its reorder
//! buffer entry until that line arrives, as in the event engine's core. Computing overlaps with waiting, so a block
//! takes the longer of the two.
//!
//! This is interval analysis (S. Eyerman et al., "A Mechanistic Performance Model for Superscalar
//! Out-of-Order Processors", ACM TOCS 2009) on sampled windows.
//!
//! Left out: instruction fetches, dependence through memory, TLB misses, cache conflicts.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// Memory-level parallelism of a core.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Overlap {
    /// Instructions that the core looks ahead: entries of its reorder buffer. At least 1.
    pub window: u32,
    /// Outstanding lines for independent loads. At least 1.
    pub misses: f64,
    /// Outstanding lines while the core reads a stream. One line of a stream costs 1/`stream` of a
    /// latency. At least `misses`.
    pub stream: f64,
}

impl Default for Overlap {
    /// Values used if nothing was measured. A reorder buffer of 256 entries (Zen 3: AMD, Software Optimization Guide
    /// for Family 19h; Skylake has 224, Golden Cove 512: Intel, Optimization Reference Manual). 12 line fill buffers of
    /// the first-level cache and 16 of the second-level cache (Skylake, Intel manual).
    fn default() -> Overlap {
        Overlap {
            window: 256,
            misses: 12.0,
            stream: 16.0,
        }
    }
}

/// Instructions of the lead-in of a sampled window, which only mark lines as touched (*assumed*). Without a lead-in each
/// stream would begin anew in each window, with a false miss.
pub const LEAD_IN: u64 = 128;

/// Block number of lines that only the lead-in of a window touched.
const LEAD_IN_BLOCK: u32 = u32::MAX;

/// Lines of a page. Prefetchers see physical addresses, so they do not cross a page.
const PAGE_LINES: u64 = 64;

/// Number of registers that the model distinguishes.
pub const REGISTERS: usize = 256;

/// A memory access of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Touch {
    /// Address of the first byte.
    pub address: u64,
    /// Whether the access only writes. An access that reads and writes counts as a read.
    pub write: bool,
}

/// An executed instruction.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Step {
    /// Address of the instruction.
    pub code: u64,
    /// Memory accesses of the instruction.
    pub touches: Vec<Touch>,
    /// Registers that form the addresses. The accesses wait for these alone.
    pub addresses: Vec<u8>,
    /// Registers that the instruction reads, those of addresses included. The results wait for all of them.
    pub reads: Vec<u8>,
    /// Registers that the instruction writes.
    pub writes: Vec<u8>,
}

impl Step {
    /// A load that reads registers for its address alone.
    pub fn load(address: u64, reads: &[u8], writes: &[u8]) -> Step {
        Step {
            touches: vec![Touch {
                address,
                write: false,
            }],
            addresses: reads.to_vec(),
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            code: 0,
        }
    }

    /// The step with its instruction at another address.
    #[cfg(test)]
    pub(crate) fn at(self, code: u64) -> Step {
        Step { code, ..self }
    }

    /// A store whose address and data are ready.
    pub fn store(address: u64) -> Step {
        Step {
            touches: vec![Touch {
                address,
                write: true,
            }],
            ..Step::default()
        }
    }
}

/// Memory use of a window in one pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PoolUse {
    /// Number of latencies that the program waits for, one after the other.
    pub waits: f64,
    /// Number of lines read from the pool.
    pub reads: f64,
    /// Number of lines written back to the pool.
    pub writes: f64,
}

/// A node of the dependence graph of a block. Nodes are numbered from 1; node 0 stands for values
/// that are ready when the block begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A load or store that misses: its pool, and the node after which its address is known.
    Miss(u16, u32),
    /// A value that depends on two nodes.
    Both(u32, u32),
}

/// Memory use of a block: a reorder buffer's worth of instructions, the first of which misses.
/// Every line that the block is the first to touch counts as a miss.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BlockUse {
    /// Number of instructions.
    pub instructions: u32,
    /// Dependence graph of the misses, in program order. Node `i + 1` is at index `i`.
    pub nodes: Vec<Node>,
    /// By pool: time that the lines of the pool occupy the fill buffers, in latencies of the pool.
    pub fill_time: Vec<f64>,
    /// Part of the sum of `fill_time` for lines that were not prefetched.
    pub demand_fill_time: f64,
    /// By pool: number of loads and stores that miss and were not prefetched.
    pub demand_misses: Vec<u32>,
    /// By pool: share of the block's waits. The shares sum to 1.
    pub wait_shares: Vec<f64>,
}

impl BlockUse {
    /// Time that the block waits for memory if the pools have these latencies and each line misses with probability
    /// `chance`. That is the longer of the longest chain and of the time in the fill buffers, times `chance`. It is at
    /// least the time of one miss, times the probability that any load or store misses.
    pub fn wait(&self, latency: &[f64], chance: f64) -> f64 {
        let buffers = sum_of(&self.fill_time, latency);
        self.longest(self.chain(latency), buffers, latency, chance)
    }

    /// Time of the block if the pools have these latencies, each line misses with
    /// probability `chance`, and computing takes `computing_ns`. The block takes the longer
    /// of computing and waiting, if any of its loads and stores misses, and otherwise that of computing.
    ///
    /// Prefetched lines of a stream arrive while the previous block waits or computes. `ahead_ns` is the time between
    /// their arrival and their use, at most one latency. It is updated to the value after this block.
    pub fn time(&self, latency: &[f64], chance: f64, computing_ns: f64, ahead_ns: &mut f64) -> f64 {
        let lines: f64 = self.fill_time.iter().sum();
        let fill_ns = sum_of(&self.fill_time, latency);
        let mean_ns = if lines > 0.0 { fill_ns / lines } else { 0.0 };
        let demand_ns = chance * self.demand_fill_time * mean_ns;
        let chain_ns = self.chain(latency);
        let share = self.miss_block_share(chance);
        let waits_ns = self.longest(chain_ns, 0.0, latency, chance);
        let least_ns = (1.0 - share) * computing_ns + waits_ns.max(share * computing_ns);
        let buffers_ns = chance * fill_ns;
        overlapped(least_ns, demand_ns, buffers_ns, mean_ns, ahead_ns)
    }

    /// Like [`BlockUse::time`], on this machine, with the measured line times in `here`.
    pub fn time_here(&self, here: &LocalLineTime, computing_ns: f64, ahead_ns: &mut f64) -> f64 {
        let latency = vec![here.miss_ns; self.fill_time.len()];
        let lines: f64 = self.fill_time.iter().sum();
        let demand_ns = self.demand_fill_time * here.apart_ns;
        let buffers_ns = demand_ns + (lines - self.demand_fill_time).max(0.0) * here.stream_ns;
        let least_ns = computing_ns.max(self.chain(&latency));
        overlapped(least_ns, demand_ns, buffers_ns, here.miss_ns, ahead_ns)
    }

    /// Time of the longest chain of dependent misses.
    fn chain(&self, latency: &[f64]) -> f64 {
        let mut ready = Vec::with_capacity(self.nodes.len() + 1);
        ready.push(0.0f64);
        let mut chain = 0.0f64;
        for node in &self.nodes {
            let time = match node {
                Node::Miss(pool, after) => ready[*after as usize] + latency[usize::from(*pool)],
                Node::Both(one, other) => ready[*one as usize].max(ready[*other as usize]),
            };
            chain = chain.max(time);
            ready.push(time);
        }
        chain
    }

    /// Share of the program's instructions in blocks with a miss, if all blocks are like this one and each load and
    /// store misses with probability `chance`. The share is 1 if the block only has prefetched lines.
    ///
    /// A block begins with a miss. On average (1 - `chance`) / `chance` loads and stores that hit follow the block
    /// before the next block begins.
    fn miss_block_share(&self, chance: f64) -> f64 {
        match self.demand_misses.iter().sum::<u32>() {
            0 => 1.0,
            most => {
                let misses = chance * f64::from(most);
                misses / (misses + 1.0 - chance)
            }
        }
    }

    /// The longer of the chain and of the time in the fill buffers, times `chance`, but at least
    /// the expected time of one miss.
    fn longest(&self, chain: f64, buffers: f64, latency: &[f64], chance: f64) -> f64 {
        let most: u32 = self.demand_misses.iter().sum();
        let sum = sum_of(&self.demand_misses, latency);
        let one = match most {
            0 => 0.0,
            _ => self.miss_block_share(chance) * sum / f64::from(most),
        };
        (chance * chain.max(buffers)).max(one)
    }

    /// Number of latencies that the block waits for, one after the other.
    pub fn waits(&self, chance: f64) -> f64 {
        self.wait(&vec![1.0; self.fill_time.len()], chance)
    }
}

/// Sum of the latencies of `lines`, a number for each pool.
fn sum_of<N: Copy + Into<f64>>(lines: &[N], latency: &[f64]) -> f64 {
    let each = lines.iter().zip(latency);
    each.map(|(lines, latency)| (*lines).into() * latency).sum()
}

/// Time of a block that takes `least_ns` if fill buffers are unlimited. The block's lines occupy the buffers for
/// `buffers_ns`, of which `demand_ns` are for lines that were not prefetched. Prefetched lines arrive `ahead_ns`
/// before their use.
fn overlapped(
    least_ns: f64,
    demand_ns: f64,
    buffers_ns: f64,
    latency_ns: f64,
    ahead_ns: &mut f64,
) -> f64 {
    let time_ns = least_ns.max(demand_ns).max(buffers_ns - *ahead_ns);
    *ahead_ns = (*ahead_ns + time_ns - buffers_ns).clamp(0.0, latency_ns);
    time_ns
}

/// Time for a line of a program's memory on this machine, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct LocalLineTime {
    /// Time of a line while no other line is in flight.
    pub miss_ns: f64,
    /// Time per line while as many independent lines are in flight as the model allows.
    pub apart_ns: f64,
    /// Time per line of a stream while as many lines are in flight as the model allows.
    pub stream_ns: f64,
}

/// Memory use of a window.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct WindowUse {
    /// Number of instructions.
    pub instructions: u64,
    /// Number of instructions that the window recorded. The others are extrapolated ([`crate::extrapolation`]).
    pub seen: u64,
    /// Use of each pool.
    pub pools: Vec<PoolUse>,
    /// Blocks that wait for memory.
    pub blocks: Vec<BlockUse>,
    /// Number of instructions outside of blocks. They do not wait for memory.
    pub idle: u64,
    /// Number of instructions executed in each 64-byte line of code, sorted by line.
    pub code: Vec<(u64, u32)>,
    /// Lines and waits by address of the instruction and pool. Empty unless [`Window::observing`] requested them.
    pub by_instruction: BTreeMap<(u64, usize), InstructionUse>,
}

/// Part of a window's memory use in a pool that one instruction causes.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct InstructionUse {
    /// Number of lines that the instruction was the first to touch.
    pub lines: f64,
    /// The instruction's part of the waits of its blocks. Each wait is divided as `BlockUse::wait_shares` divides it
    /// among pools: a miss has weight 1, and a prefetched line 1 / [`Overlap::stream`].
    pub waits: f64,
}

/// A window while it is analysed.
pub struct Window {
    result: WindowUse,
    overlap: Overlap,
    /// Whether a touched line stays in a cache. Otherwise `find` decides in each block.
    keeps: bool,
    /// Lines touched, with the last block that touched them and the node after which they arrive.
    lines: HashMap<u64, TouchedLine>,
    /// Lines that never miss.
    cached: HashSet<u64>,
    /// Number of instructions executed, by line of code.
    code: HashMap<u64, u32>,
    /// Number of instructions left of the lead-in, which is not counted.
    lead_in: u64,
    block: Block,
    block_number: u32,
    /// Number of the current block at the last call of [`Window::take`].
    taken: u32,
    /// Misses of the current block if instructions are distinguished: instruction, pool and part of the wait.
    observed: Option<Vec<(u64, usize, f64)>>,
}

#[derive(Clone, Copy)]
struct TouchedLine {
    block: u32,
    node: u32,
    /// Whether the line was stored to, so that it is written back later.
    stored: bool,
}

/// A reorder buffer's worth of instructions. A block begins with a miss, because only then the
/// buffer fills. Prefetched lines before the first miss are a block of their own.
struct Block {
    result: BlockUse,
    /// By register: the node after which its value is ready.
    after: [u32; REGISTERS],
    wait_weights: Vec<f64>,
    begun: bool,
}

impl Block {
    fn new(pools: usize) -> Block {
        Block {
            result: BlockUse {
                fill_time: vec![0.0; pools],
                demand_misses: vec![0; pools],
                ..BlockUse::default()
            },
            after: [0; REGISTERS],
            wait_weights: vec![0.0; pools],
            begun: false,
        }
    }

    fn add(&mut self, node: Node) -> u32 {
        self.result.nodes.push(node);
        self.result.nodes.len() as u32
    }

    /// The node after which all of these registers are ready.
    fn all(&mut self, registers: &[u8]) -> u32 {
        registers.iter().fold(0, |all, register| {
            let after = self.after[usize::from(*register)];
            self.both(all, after)
        })
    }

    /// The node after which both nodes are ready.
    fn both(&mut self, one: u32, other: u32) -> u32 {
        match (one, other) {
            (one, 0) => one,
            (0, other) => other,
            (one, other) if one == other => one,
            (one, other) => self.add(Node::Both(one, other)),
        }
    }
}

impl Window {
    /// An empty window over `pools` pools, in which each line misses when it is first touched.
    pub fn new(pools: usize, overlap: Overlap) -> Window {
        Window {
            result: WindowUse {
                pools: vec![PoolUse::default(); pools],
                ..WindowUse::default()
            },
            overlap,
            keeps: true,
            lines: HashMap::new(),
            cached: HashSet::new(),
            code: HashMap::new(),
            lead_in: 0,
            block: Block::new(pools),
            block_number: 0,
            taken: 0,
            observed: None,
        }
    }

    /// This window, with the memory use of each instruction in its result.
    pub fn observing(self) -> Window {
        Window {
            observed: Some(Vec::new()),
            ..self
        }
    }

    /// This window, with these lines in a cache.
    pub fn with_cached(self, cached: HashSet<u64>) -> Window {
        Window { cached, ..self }
    }

    /// Whether a line is known to be in a cache.
    pub fn is_cached(&self, line: u64) -> bool {
        self.cached.contains(&line)
    }

    /// This window, with a lead-in: the first `instructions` only mark lines as touched and are not counted.
    pub fn after(self, instructions: u64) -> Window {
        Window {
            lead_in: instructions,
            ..self
        }
    }

    /// Instructions that the core looks ahead.
    pub fn ahead(&self) -> u32 {
        self.overlap.window
    }

    /// Whether the window has no open block, so that it may end here.
    pub fn is_between_blocks(&self) -> bool {
        !self.block.begun
    }

    /// An empty window whose misses are known. `find` decides whether a line that the current block has not touched
    /// yet misses. The caller reports write-backs with [`Window::write_back`].
    pub fn exact(pools: usize, overlap: Overlap) -> Window {
        Window {
            keeps: false,
            ..Window::new(pools, overlap)
        }
    }

    /// Adds the next instruction. `find` gives the pool of an address, or `None` if the access does not miss.
    pub fn step(&mut self, step: &Step, find: &mut dyn FnMut(u64) -> Option<usize>) {
        if self.lead_in > 0 {
            self.lead_in -= 1;
            for touch in &step.touches {
                if self.is_cached(touch.address / 64) {
                    continue;
                }
                let seen = self.lines.entry(touch.address / 64).or_insert(TouchedLine {
                    block: LEAD_IN_BLOCK,
                    node: 0,
                    stored: false,
                });
                seen.stored |= touch.write;
            }
            return;
        }
        self.result.instructions += 1;
        self.result.seen += 1;
        if self.keeps {
            *self.code.entry(step.code / 64).or_default() += 1;
        }
        let base = self.block.all(&step.addresses);
        let mut after = match step.writes.is_empty() {
            true => 0,
            false => self.block.all(&step.reads),
        };
        for touch in &step.touches {
            let line = touch.address / 64;
            let reached = self.touch(step.code, line, touch, base, find);
            if !touch.write && !step.writes.is_empty() {
                after = self.block.both(after, reached);
            }
        }
        for register in &step.writes {
            self.block.after[usize::from(*register)] = after;
        }
        if !self.block.begun {
            self.result.idle += 1;
            return;
        }
        self.block.result.instructions += 1;
        if self.block.result.instructions == self.overlap.window {
            self.end_block();
        }
    }

    /// The node after which a touched line is ready if its address is known after node `base`.
    fn touch(
        &mut self,
        code: u64,
        line: u64,
        touch: &Touch,
        base: u32,
        find: &mut dyn FnMut(u64) -> Option<usize>,
    ) -> u32 {
        if self.is_cached(line) {
            return base;
        }
        let block = self.block_number;
        if let Some(seen) = self.lines.get_mut(&line) {
            let first = touch.write && !std::mem::replace(&mut seen.stored, touch.write);
            // A line that was only read before is now stored to, so it will be written back.
            if self.keeps
                && first
                && let Some(pool) = find(touch.address)
            {
                self.write_back(pool);
            }
        }
        match self.lines.get(&line) {
            Some(seen) if seen.block == block => return self.block.both(seen.node, base),
            Some(_) if self.keeps => return base,
            Some(_) | None => {}
        }
        let found = find(touch.address);
        let prefetched = self.is_in_stream(line);
        let Some(pool) = found else {
            self.note(line, 0, touch.write);
            return base;
        };
        if self.block.begun && !prefetched && self.block.result.nodes.is_empty() {
            // Prefetched lines alone fill no reorder buffer, and such a block has no dependent misses.
            self.end_block();
        }
        // A line that is stored to is read first. If its write-back is not reported, it counts at once.
        self.result.pools[pool].reads += 1.0;
        if touch.write && self.keeps {
            self.write_back(pool);
        }
        let at_once = match prefetched {
            true => self.overlap.stream,
            false => self.overlap.misses,
        };
        self.block.begun = true;
        self.block.result.fill_time[pool] += 1.0 / at_once;
        self.block.result.demand_fill_time += if prefetched { 0.0 } else { 1.0 / at_once };
        let weight = if prefetched { 1.0 / at_once } else { 1.0 };
        self.block.wait_weights[pool] += weight;
        if let Some(observed) = &mut self.observed {
            observed.push((code, pool, weight));
        }
        // A store occupies its reorder buffer entry until its line arrives, as a load does.
        let node = match prefetched {
            true => base,
            false => {
                self.block.result.demand_misses[pool] += 1;
                self.block.add(Node::Miss(pool as u16, base))
            }
        };
        self.note(line, node, touch.write);
        node
    }

    /// Records that the current block touched a line.
    fn note(&mut self, line: u64, node: u32, stored: bool) {
        let seen = TouchedLine {
            block: self.block_number,
            node,
            stored,
        };
        self.lines.insert(line, seen);
    }

    /// Whether the line follows two touched neighbours in the same page, upwards or downwards. One
    /// neighbour suffices if it was touched before the window, since older accesses are unknown.
    fn is_in_stream(&self, line: u64) -> bool {
        [-1, 1].into_iter().any(|step| {
            let far = |far: i64| {
                let other = line.wrapping_add_signed(far);
                let here = other / PAGE_LINES == line / PAGE_LINES;
                self.lines.get(&other).filter(|_| here)
            };
            far(step).is_some_and(|seen| seen.block == LEAD_IN_BLOCK || far(2 * step).is_some())
        })
    }

    /// Counts a line written back to its pool. If misses are known, the caller reports evictions of the last level cache.
    /// Otherwise a line counts when it is first stored to, because as many lines leave a cache as enter it.
    pub fn write_back(&mut self, pool: usize) {
        self.result.pools[pool].writes += 1.0;
    }

    /// Adds the current block to the result, and divides its waits among pools and instructions.
    fn end_block(&mut self) {
        let fresh = Block::new(self.result.pools.len());
        let Block {
            mut result,
            wait_weights,
            begun,
            ..
        } = std::mem::replace(&mut self.block, fresh);
        self.block_number += 1;
        if !begun {
            return;
        }
        let sum: f64 = wait_weights.iter().sum();
        result.wait_shares = wait_weights.iter().map(|weight| weight / sum).collect();
        let waits = result.waits(1.0);
        for (pool, share) in self.result.pools.iter_mut().zip(&result.wait_shares) {
            pool.waits += waits * share;
        }
        for (code, pool, weight) in self.observed.iter_mut().flat_map(|all| all.drain(..)) {
            let of = self.result.by_instruction.entry((code, pool)).or_default();
            of.lines += 1.0;
            of.waits += waits * weight / sum;
        }
        self.result.blocks.push(result);
    }

    /// Memory use since the last call. Analysis continues: the current block counts to the next
    /// result, and lines touched since the last call stay known.
    pub fn take(&mut self) -> WindowUse {
        let fresh = WindowUse {
            pools: vec![PoolUse::default(); self.result.pools.len()],
            ..WindowUse::default()
        };
        let mut result = std::mem::replace(&mut self.result, fresh);
        result.code = std::mem::take(&mut self.code).into_iter().collect();
        result.code.sort_unstable();
        let from = std::mem::replace(&mut self.taken, self.block_number);
        self.lines.retain(|_, seen| seen.block >= from);
        result
    }

    /// Ends the current block and returns the memory use since the last [`Window::take`].
    pub fn finish(mut self) -> WindowUse {
        self.end_block();
        self.take()
    }
}

#[cfg(test)]
mod tests;
