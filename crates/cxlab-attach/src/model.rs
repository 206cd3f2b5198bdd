//! What a stretch of executed instructions asks of memory, and how much of that overlaps.
//!
//! A window is a few thousand instructions with every address. A line that the window has not
//! touched before is taken for a miss (how many of them the last level cache holds is another
//! question, of [`crate::estimate`]). Misses overlap where they can: within a reorder buffer's worth of instructions,
//! the program waits for the longest chain of misses whose addresses need each other's data (the
//! registers say so), or for all of them through the line fill buffers, whichever is longer. A line
//! behind two neighbours in a row in its page is prefetched, and costs as much of a wait as the prefetcher does not hide. A store
//! reads its line first and holds its place in the reorder buffer until that is there, as in the event engine's core.
//! Computing overlaps with waiting, so a block takes the longer of the two. This is interval analysis (S. Eyerman et al., "A Mechanistic Performance Model for Superscalar
//! Out-of-Order Processors", ACM TOCS 2009) on sampled windows.
//!
//! Left out: instruction fetches, dependence through memory, TLB misses, cache conflicts.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// How much of what a core waits for overlaps.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Overlap {
    /// Instructions that it looks ahead: entries of its reorder buffer. 1 and more.
    pub window: u32,
    /// Lines that it fetches at once, for loads without order. 1 and more.
    pub misses: f64,
    /// Lines that are under way at once while it reads a stream: a line of it costs one over this of a
    /// latency. At least `misses`.
    pub stream: f64,
}

impl Default for Overlap {
    /// What is used where nothing was measured: a reorder buffer of 256 (Zen 3: AMD, Software
    /// Optimization Guide for Family 19h; Skylake has 224, Golden Cove 512: Intel, Optimization
    /// Reference Manual), 12 line fill buffers of the first cache and 16 of the second (Skylake,
    /// same manual).
    fn default() -> Overlap {
        Overlap {
            window: 256,
            misses: 12.0,
            stream: 16.0,
        }
    }
}

/// Instructions at the beginning of a sampled window that only show what was touched just before (*assumed*):
/// without them each stream begins anew in each window, with a miss that is none.
pub const BEFORE: u64 = 128;

/// The block of what lies before a window.
const OUTSIDE: u32 = u32::MAX;

/// Lines of a page, which prefetchers do not leave: they see physical addresses.
const PAGE_LINES: u64 = 64;

/// Registers that are told apart.
pub const REGISTERS: usize = 256;

/// An access of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// First byte.
    pub address: u64,
    /// Whether it writes; one that reads too reads.
    pub write: bool,
}

/// An executed instruction.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Step {
    /// Where it lies.
    pub code: u64,
    /// Its accesses.
    pub touches: Vec<Touch>,
    /// Registers that its addresses are made of: its accesses wait for these alone.
    pub addresses: Vec<u8>,
    /// Registers that it reads, addresses included: its results wait for all.
    pub reads: Vec<u8>,
    /// Registers that it writes.
    pub writes: Vec<u8>,
}

impl Step {
    /// A load, whose address is all that it reads registers for.
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

    /// A store whose address and data are there already.
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

/// What a window asks of one pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PoolUse {
    /// Latencies that the program waits for, one after the other.
    pub waits: f64,
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
}

/// What data come after, within a block. Nodes are numbered from 1; 0 is what is there when the
/// block begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A load or store that misses, from this pool, whose address is known after that node.
    Miss(u16, u32),
    /// What needs two others.
    Both(u32, u32),
}

/// A reorder buffer's worth of instructions, the first of which misses, and what they wait for if
/// every line that they are the first to touch is a miss.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BlockUse {
    /// Instructions.
    pub instructions: u32,
    /// What comes after what, in order.
    pub nodes: Vec<Node>,
    /// By pool: misses through the fill buffers, in latencies.
    pub fetched: Vec<f64>,
    /// Of all pools: those of them that were not prefetched.
    pub apart: f64,
    /// By pool: loads and stores that miss and were not prefetched.
    pub loads: Vec<u32>,
    /// By pool: its part of the waits.
    pub parts: Vec<f64>,
}

impl BlockUse {
    /// How long it waits, when pools have these latencies and a line is a miss with this chance: for
    /// the longest chain, or for all through the buffers. Of both that part is left; and one load
    /// that misses is a wait.
    pub fn wait(&self, latency: &[f64], chance: f64) -> f64 {
        let chain = self.chain(latency);
        let fetched = self.fetched.iter().zip(latency);
        let fetched: f64 = fetched.map(|(lines, latency)| lines * latency).sum();
        self.longest(chain, fetched, latency, chance)
    }

    /// How long it takes, when pools have these latencies, a line is a miss with this chance and its
    /// instructions take so long to compute: for computing or for waiting, whichever is longer. Prefetched
    /// lines come while the program does something else: those of a stream are under way when the block before
    /// it waits or computes, up to a latency `ahead_ns` of their use, and what they are ahead behind it is left there.
    pub fn time(&self, latency: &[f64], chance: f64, computing_ns: f64, ahead_ns: &mut f64) -> f64 {
        let lines: f64 = self.fetched.iter().sum();
        let fetched = self.fetched.iter().zip(latency);
        let fetched_ns: f64 = fetched.map(|(lines, latency)| lines * latency).sum();
        let mean_ns = if lines > 0.0 { fetched_ns / lines } else { 0.0 };
        let apart_ns = chance * self.apart * mean_ns;
        let chain_ns = self.chain(latency);
        let least_ns = computing_ns.max(self.longest(chain_ns, 0.0, latency, chance));
        let buffers_ns = chance * fetched_ns;
        overlapped(least_ns, apart_ns, buffers_ns, mean_ns, ahead_ns)
    }

    /// The same on a machine where a line takes so long, whether it is in a cache there or not.
    pub fn time_here(&self, here: &Here, computing_ns: f64, ahead_ns: &mut f64) -> f64 {
        let latency = vec![here.miss_ns; self.fetched.len()];
        let lines: f64 = self.fetched.iter().sum();
        let apart_ns = self.apart * here.apart_ns;
        let buffers_ns = apart_ns + (lines - self.apart).max(0.0) * here.stream_ns;
        let least_ns = computing_ns.max(self.chain(&latency));
        overlapped(least_ns, apart_ns, buffers_ns, here.miss_ns, ahead_ns)
    }

    /// The longest chain of misses.
    fn chain(&self, latency: &[f64]) -> f64 {
        let mut there = Vec::with_capacity(self.nodes.len() + 1);
        there.push(0.0f64);
        let mut chain = 0.0f64;
        for node in &self.nodes {
            let at = match node {
                Node::Miss(pool, after) => there[*after as usize] + latency[usize::from(*pool)],
                Node::Both(one, other) => there[*one as usize].max(there[*other as usize]),
            };
            chain = chain.max(at);
            there.push(at);
        }
        chain
    }

    /// Of a chain and of what goes through the buffers the part that misses; and one that does.
    fn longest(&self, chain: f64, fetched: f64, latency: &[f64], chance: f64) -> f64 {
        let loads: u32 = self.loads.iter().sum();
        let one = match loads {
            0 => 0.0,
            _ => {
                let all = self.loads.iter().zip(latency);
                let all: f64 = all
                    .map(|(loads, latency)| f64::from(*loads) * latency)
                    .sum();
                let some = 1.0 - (1.0 - chance).powi(loads.min(1 << 20) as i32);
                some * all / f64::from(loads)
            }
        };
        (chance * chain.max(fetched)).max(one)
    }

    /// Latencies waited for one after the other.
    pub fn waits(&self, chance: f64) -> f64 {
        self.wait(&vec![1.0; self.fetched.len()], chance)
    }
}

/// The time of a block that takes `least_ns` without its buffers, which need `apart_ns` for what was not
/// prefetched and `buffers_ns` for all, of which the prefetched were so much ahead.
fn overlapped(
    least_ns: f64,
    apart_ns: f64,
    buffers_ns: f64,
    latency_ns: f64,
    ahead_ns: &mut f64,
) -> f64 {
    let time_ns = least_ns.max(apart_ns).max(buffers_ns - *ahead_ns);
    *ahead_ns = (*ahead_ns + time_ns - buffers_ns).clamp(0.0, latency_ns);
    time_ns
}

/// What a line of a program's memory takes on a machine, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Here {
    /// Alone.
    pub miss_ns: f64,
    /// As many as the model has under way at once, without order.
    pub apart_ns: f64,
    /// As many as the model has under way at once, of a stream.
    pub stream_ns: f64,
}

/// What a window asks for.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct WindowUse {
    /// Instructions.
    pub instructions: u64,
    /// Those that the program was seen to execute; the others were taken to follow ([`crate::onward`]).
    pub seen: u64,
    /// By pool.
    pub pools: Vec<PoolUse>,
    /// Its blocks that wait for something; the instructions of the others.
    pub blocks: Vec<BlockUse>,
    /// Instructions of blocks that wait for nothing.
    pub idle: u64,
    /// Where it was: instructions executed in each line of code, in order.
    pub code: Vec<(u64, u32)>,
}

/// A window being analysed.
pub struct Window {
    result: WindowUse,
    overlap: Overlap,
    /// Whether a line that was touched before is in a cache. Otherwise `find` is asked again.
    keeps: bool,
    /// Lines touched, and in the block at hand the chain that each ends.
    lines: HashMap<u64, Seen>,
    /// Instructions executed, by line of code.
    code: HashMap<u64, u32>,
    /// Instructions to come that only show what they touch.
    before: u64,
    block: Block,
    number: u32,
    /// The block at hand when something was taken last.
    taken: u32,
}

#[derive(Clone, Copy)]
struct Seen {
    block: u32,
    node: u32,
    /// Whether it was stored to, so that it is written back some day.
    stored: bool,
}

/// A reorder buffer's worth of instructions: it begins with a miss, for only then it fills. Prefetched lines before
/// the first miss are a block of their own.
struct Block {
    result: BlockUse,
    /// By register: after which node its value is there.
    after: [u32; REGISTERS],
    by_pool: Vec<f64>,
    begun: bool,
}

impl Block {
    fn new(pools: usize) -> Block {
        Block {
            result: BlockUse {
                fetched: vec![0.0; pools],
                loads: vec![0; pools],
                ..BlockUse::default()
            },
            after: [0; REGISTERS],
            by_pool: vec![0.0; pools],
            begun: false,
        }
    }

    fn add(&mut self, node: Node) -> u32 {
        self.result.nodes.push(node);
        self.result.nodes.len() as u32
    }

    /// What needs all of these registers.
    fn all(&mut self, registers: &[u8]) -> u32 {
        registers.iter().fold(0, |all, register| {
            let after = self.after[usize::from(*register)];
            self.both(all, after)
        })
    }

    /// What needs both.
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
    /// An empty window over so many pools. A line that it has not touched before is a miss.
    pub fn new(pools: usize, overlap: Overlap) -> Window {
        Window {
            result: WindowUse {
                pools: vec![PoolUse::default(); pools],
                ..WindowUse::default()
            },
            overlap,
            keeps: true,
            lines: HashMap::new(),
            code: HashMap::new(),
            before: 0,
            block: Block::new(pools),
            number: 0,
            taken: 0,
        }
    }

    /// The same window, whose first instructions are not of it: they show what was touched before.
    pub fn after(self, instructions: u64) -> Window {
        Window {
            before: instructions,
            ..self
        }
    }

    /// Instructions that it looks ahead.
    pub fn ahead(&self) -> u32 {
        self.overlap.window
    }

    /// Whether the last block has ended.
    pub fn is_between_blocks(&self) -> bool {
        !self.block.begun
    }

    /// An empty window whose misses are known: `find` says of each line that the block at hand has
    /// not touched yet whether it misses, and [`Window::write_back`] what goes back.
    pub fn exact(pools: usize, overlap: Overlap) -> Window {
        Window {
            keeps: false,
            ..Window::new(pools, overlap)
        }
    }

    /// The next instruction. `find` gives the pool of an address; `None` where it does not miss.
    pub fn step(&mut self, step: &Step, find: &mut dyn FnMut(u64) -> Option<usize>) {
        if self.before > 0 {
            self.before -= 1;
            for touch in &step.touches {
                let seen = self.lines.entry(touch.address / 64).or_insert(Seen {
                    block: OUTSIDE,
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
            let reached = self.touch(line, touch, base, find);
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

    /// After which node a touched line is there, when its address is known after `base`.
    fn touch(
        &mut self,
        line: u64,
        touch: &Touch,
        base: u32,
        find: &mut dyn FnMut(u64) -> Option<usize>,
    ) -> u32 {
        let block = self.number;
        if let Some(seen) = self.lines.get_mut(&line) {
            let first = touch.write && !std::mem::replace(&mut seen.stored, touch.write);
            // A line that was read before and is stored to now goes back, too.
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
            // Prefetched lines alone fill no reorder buffer, and nothing in such a block comes after anything.
            self.end_block();
        }
        // A line that is stored to is read first. Where nothing is known of when it goes back, it does so at once.
        self.result.pools[pool].reads += 1.0;
        if touch.write && self.keeps {
            self.write_back(pool);
        }
        let at_once = match prefetched {
            true => self.overlap.stream,
            false => self.overlap.misses,
        };
        self.block.begun = true;
        self.block.result.fetched[pool] += 1.0 / at_once;
        self.block.result.apart += if prefetched { 0.0 } else { 1.0 / at_once };
        self.block.by_pool[pool] += if prefetched { 1.0 / at_once } else { 1.0 };
        // A store holds its place in the reorder buffer until its line is there, as a load does.
        let node = match prefetched {
            true => base,
            false => {
                self.block.result.loads[pool] += 1;
                self.block.add(Node::Miss(pool as u16, base))
            }
        };
        self.note(line, node, touch.write);
        node
    }

    /// A line is touched in the block at hand.
    fn note(&mut self, line: u64, node: u32, stored: bool) {
        let seen = Seen {
            block: self.number,
            node,
            stored,
        };
        self.lines.insert(line, seen);
    }

    /// Whether two neighbours in a row were touched, up or down, and a line of the same page lies behind them. Of
    /// what lies before a window one is enough: what lies before that was not seen.
    fn is_in_stream(&self, line: u64) -> bool {
        [-1, 1].into_iter().any(|step| {
            let far = |far: i64| {
                let other = line.wrapping_add_signed(far);
                let here = other / PAGE_LINES == line / PAGE_LINES;
                self.lines.get(&other).filter(|_| here)
            };
            far(step).is_some_and(|seen| seen.block == OUTSIDE || far(2 * step).is_some())
        })
    }

    /// A line goes back to its pool. Where misses are known, the last level cache says when; otherwise a line is
    /// counted when it is stored to, for as many leave a cache as come into it.
    pub fn write_back(&mut self, pool: usize) {
        self.result.pools[pool].writes += 1.0;
    }

    fn end_block(&mut self) {
        let fresh = Block::new(self.result.pools.len());
        let Block {
            mut result,
            by_pool,
            begun,
            ..
        } = std::mem::replace(&mut self.block, fresh);
        self.number += 1;
        if !begun {
            return;
        }
        let all: f64 = by_pool.iter().sum();
        result.parts = by_pool.iter().map(|part| part / all).collect();
        let waits = result.waits(1.0);
        for (pool, part) in self.result.pools.iter_mut().zip(&result.parts) {
            pool.waits += waits * part;
        }
        self.result.blocks.push(result);
    }

    /// What it asked for until now. It goes on: the block at hand belongs to what comes, and lines that were touched
    /// since something was taken last are still known.
    pub fn take(&mut self) -> WindowUse {
        let fresh = WindowUse {
            pools: vec![PoolUse::default(); self.result.pools.len()],
            ..WindowUse::default()
        };
        let mut result = std::mem::replace(&mut self.result, fresh);
        result.code = std::mem::take(&mut self.code).into_iter().collect();
        result.code.sort_unstable();
        let from = std::mem::replace(&mut self.taken, self.number);
        self.lines.retain(|_, seen| seen.block >= from);
        result
    }

    /// What it asked for.
    pub fn finish(mut self) -> WindowUse {
        self.end_block();
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(steps: &[Step]) -> WindowUse {
        let mut window = Window::new(2, Overlap::default());
        for step in steps {
            // The upper half of addresses is pool 1.
            window.step(step, &mut |address| Some(usize::from(address >= 1 << 40)));
        }
        window.finish()
    }

    fn far(number: u64) -> u64 {
        number * 7919 * 4096
    }

    #[test]
    fn a_chain_waits_for_every_miss() {
        let steps: Vec<Step> = (0..1000)
            .map(|at| Step::load(far(at), &[1], &[1]))
            .collect();
        let found = run(&steps);
        assert_eq!(found.instructions, 1000);
        assert!((found.pools[0].waits - 1000.0).abs() < 1e-9, "{found:?}");
        assert!((found.pools[0].reads - 1000.0).abs() < 1e-9);
        assert_eq!(found.pools[1], PoolUse::default());
    }

    #[test]
    fn independent_misses_wait_for_the_fill_buffers() {
        let steps: Vec<Step> = (0..1024)
            .map(|at| Step::load(far(at), &[1], &[2]))
            .collect();
        let waits = run(&steps).pools[0].waits;
        assert!((waits - 1024.0 / 12.0).abs() < 1e-6, "{waits}");
    }

    #[test]
    fn a_stream_is_prefetched_and_a_line_misses_once() {
        // Eight loads a line.
        let steps: Vec<Step> = (0..4096).map(|at| Step::load(at * 8, &[1], &[2])).collect();
        let found = run(&steps).pools[0];
        assert!((found.reads - 512.0).abs() < 1e-9);
        // One for the first line; the rest as far as the prefetcher does not hide it.
        assert!(found.waits < 512.0 / 16.0 + 2.0, "{found:?}");
        assert!(found.waits > 512.0 / 16.0 * 0.9, "{found:?}");
    }

    /// A line each 100 instructions: within a page one over 16 of a latency each, which computing
    /// hides; the first of a page is a miss.
    #[test]
    fn a_stream_misses_at_the_beginning_of_each_page() {
        let steps: Vec<Step> = (0..12_800)
            .map(|at| match at % 100 {
                0 => Step::load(at / 100 * 64, &[1], &[2]),
                _ => Step::default(),
            })
            .collect();
        let found = run(&steps);
        let waits: Vec<f64> = found.blocks.iter().map(|block| block.waits(1.0)).collect();
        assert_eq!(waits.iter().filter(|waits| **waits == 1.0).count(), 2);
        assert_eq!(
            waits.iter().filter(|waits| **waits < 0.2).count(),
            waits.len() - 2
        );
    }

    /// Half a latency's worth of a stream's lines in each block. Behind one that waits for the first line of a page
    /// they are there; behind one that computes as long as they take they stay ahead; alone they are waited for.
    #[test]
    fn a_stream_comes_while_the_block_before_it_waits() {
        let streamed = BlockUse {
            instructions: 1,
            fetched: vec![0.5],
            ..BlockUse::default()
        };
        let first = BlockUse {
            nodes: vec![Node::Miss(0, 0)],
            loads: vec![1],
            ..streamed.clone()
        };
        let mut ahead = 0.0;
        let times: Vec<f64> = [&first, &streamed, &streamed, &first, &streamed, &streamed]
            .map(|block| block.time(&[100.0], 1.0, 10.0, &mut ahead))
            .to_vec();
        assert_eq!(times, [100.0, 10.0, 40.0, 100.0, 10.0, 40.0]);
        // Computing for long enough hides all but the first; being ahead has a limit.
        let mut ahead = 0.0;
        let times: Vec<f64> = [60.0, 60.0, 1000.0, 1.0, 1.0, 1.0]
            .map(|computing| streamed.time(&[100.0], 1.0, computing, &mut ahead))
            .to_vec();
        assert_eq!(times, [60.0, 60.0, 1000.0, 1.0, 1.0, 48.0]);
    }

    #[test]
    fn what_lies_before_a_window_is_known_and_not_counted() {
        let steps: Vec<Step> = (0..2048).map(|at| Step::load(at * 8, &[1], &[2])).collect();
        let mut window = Window::new(1, Overlap::default()).after(BEFORE);
        steps
            .iter()
            .for_each(|step| window.step(step, &mut |_| Some(0)));
        let found = window.finish();
        assert_eq!(found.instructions, 2048 - BEFORE);
        assert_eq!(found.pools[0].reads, (2048 - BEFORE) as f64 / 8.0);
        let code: u32 = found.code.iter().map(|(_, count)| count).sum();
        assert_eq!(u64::from(code), 2048 - BEFORE);
    }

    #[test]
    fn stores_go_through_the_buffers_and_their_lines_travel_twice() {
        let steps: Vec<Step> = (0..256).map(|at| Step::store(far(at))).collect();
        let found = run(&steps).pools[0];
        assert_eq!((found.reads, found.writes), (256.0, 256.0));
        assert!((found.waits - 256.0 / 12.0).abs() < 1e-6, "{found:?}");
    }

    /// A store each hundred instructions: three fit the buffer, and nothing behind them goes on before their lines are
    /// there, as with loads.
    #[test]
    fn a_store_holds_its_place_until_its_line_is_there() {
        let steps: Vec<Step> = (0..900)
            .map(|at| match at % 100 {
                50 => Step::store(far(at)),
                _ => Step::default(),
            })
            .collect();
        let found = run(&steps);
        assert_eq!(found.blocks.len(), 3);
        assert_eq!(found.pools[0].waits, 3.0);
    }

    #[test]
    fn a_line_that_is_read_and_then_stored_to_goes_back_once() {
        let twice = |at| [Step::load(far(at), &[1], &[2]), Step::store(far(at))];
        let steps: Vec<Step> = (0..100).chain(0..100).flat_map(twice).collect();
        let found = run(&steps).pools[0];
        assert_eq!((found.reads, found.writes), (100.0, 100.0));
        // What was stored to before a window begins was counted then.
        let mut window = Window::new(1, Overlap::default()).after(200);
        steps
            .iter()
            .for_each(|step| window.step(step, &mut |_| Some(0)));
        let found = window.finish().pools[0];
        assert_eq!((found.reads, found.writes), (0.0, 0.0));
    }

    #[test]
    fn where_misses_are_known_the_cache_says_when_a_line_goes_back() {
        let mut window = Window::exact(2, Overlap::default());
        for at in 0..8 {
            window.step(&Step::store(far(at)), &mut |_| Some(0));
        }
        window.write_back(1);
        let found = window.finish();
        assert_eq!((found.pools[0].reads, found.pools[0].writes), (8.0, 0.0));
        assert_eq!((found.pools[1].reads, found.pools[1].writes), (0.0, 1.0));
    }

    /// A stream, of which something is taken now and then, is the same stream: lines are counted once, blocks are not cut,
    /// and no line is a miss that is none.
    #[test]
    fn what_is_taken_of_a_window_cuts_nothing() {
        let steps: Vec<Step> = (0..12_800)
            .map(|at| match at % 100 {
                0 => Step::load(at / 100 * 64, &[1], &[2]),
                _ => Step::default(),
            })
            .collect();
        let mut whole = Window::exact(1, Overlap::default());
        let mut parts = Window::exact(1, Overlap::default());
        let mut taken = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            whole.step(step, &mut |_| Some(0));
            parts.step(step, &mut |_| Some(0));
            if at % 700 == 699 {
                taken.push(parts.take());
            }
        }
        taken.push(parts.finish());
        let whole = whole.finish();
        assert!(taken.len() > 10);
        let blocks: Vec<BlockUse> = taken.iter().flat_map(|part| part.blocks.clone()).collect();
        assert_eq!(blocks, whole.blocks);
        let sum = |of: fn(&WindowUse) -> u64| taken.iter().map(of).sum::<u64>();
        assert_eq!(sum(|part| part.instructions), whole.instructions);
        assert_eq!(sum(|part| part.idle), whole.idle);
        let reads: f64 = taken.iter().map(|part| part.pools[0].reads).sum();
        assert_eq!((reads, whole.pools[0].reads), (128.0, 128.0));
    }

    #[test]
    fn waits_are_shared_out_by_the_pools_misses() {
        let steps: Vec<Step> = (0..1000)
            .map(|at| {
                let high = if at % 4 == 0 { 1 << 40 } else { 0 };
                Step::load(far(at) + high, &[1], &[1])
            })
            .collect();
        let found = run(&steps);
        let all = found.pools[0].waits + found.pools[1].waits;
        assert!((all - 1000.0).abs() < 1e-6);
        assert!((found.pools[1].waits / all - 0.25).abs() < 0.01);
    }

    #[test]
    fn a_line_that_was_touched_is_not_waited_for_again() {
        let steps: Vec<Step> = (0..1000)
            .map(|at| Step::load(far(at % 10), &[1], &[1]))
            .collect();
        assert_eq!(run(&steps).pools[0].reads, 10.0);
    }

    /// Eight loads without order, and eight in a chain, with a cache that holds half of their lines.
    #[test]
    fn what_a_cache_holds_shortens_a_chain_but_one_miss_is_still_a_wait() {
        let chain: Vec<Node> = (0..8).map(|at| Node::Miss(0, at)).collect();
        let block = |nodes: &[Node], fetched| BlockUse {
            instructions: 256,
            nodes: nodes.to_vec(),
            fetched: vec![fetched],
            apart: fetched,
            loads: vec![8],
            parts: vec![1.0],
        };
        let apart = [Node::Miss(0, 0); 8];
        assert_eq!(block(&chain, 8.0 / 12.0).waits(1.0), 8.0);
        assert_eq!(block(&chain, 8.0 / 12.0).waits(0.5), 4.0);
        assert_eq!(block(&apart, 8.0 / 12.0).waits(1.0), 1.0);
        assert_eq!(block(&apart, 8.0 / 12.0).waits(0.5), 1.0 - 0.5f64.powi(8));
        assert_eq!(block(&apart, 2.0).waits(1.0), 2.0);
        assert_eq!(block(&chain, 2.0).waits(0.0), 0.0);
        // Here a chain takes what it takes, and so many at once twice as long.
        let here = |apart_ns, stream_ns| Here {
            miss_ns: 90.0,
            apart_ns,
            stream_ns,
        };
        assert_eq!(
            block(&chain, 2.0).time_here(&here(180.0, 90.0), 9.0, &mut 0.0),
            720.0
        );
        assert_eq!(
            block(&apart, 2.0).time_here(&here(180.0, 90.0), 9.0, &mut 0.0),
            360.0
        );
        let streamed = BlockUse {
            apart: 0.5,
            ..block(&apart, 2.0)
        };
        assert_eq!(
            streamed.time_here(&here(180.0, 100.0), 9.0, &mut 0.0),
            240.0
        );
    }

    /// Three steps through one pool for one through the other: whichever takes longer is waited for.
    #[test]
    fn chains_in_two_pools_take_the_time_of_the_slower() {
        let steps: Vec<Step> = (0..200)
            .map(|at| match at % 4 {
                3 => Step::load(far(at) + (1 << 40), &[2], &[2]),
                _ => Step::load(far(at), &[1], &[1]),
            })
            .collect();
        let found = run(&steps);
        let wait = |far: f64| found.blocks[0].wait(&[90.0, far], 1.0);
        assert_eq!(found.blocks.len(), 1);
        assert_eq!(wait(90.0), 150.0 * 90.0);
        assert_eq!(wait(270.0), 150.0 * 90.0);
        assert_eq!(wait(400.0), 50.0 * 400.0);
        // One that needs both waits for the later.
        let mut steps = steps;
        steps.push(Step::load(far(1000), &[1, 2], &[3]));
        assert_eq!(
            run(&steps).blocks[0].wait(&[90.0, 400.0], 1.0),
            50.0 * 400.0 + 90.0
        );
    }

    /// The sum waits for all that is loaded; the loads wait for nothing of it.
    #[test]
    fn what_is_added_up_is_loaded_at_once() {
        let steps: Vec<Step> = (0..256)
            .map(|at| Step {
                reads: vec![1, 9],
                ..Step::load(far(at), &[1], &[9])
            })
            .collect();
        assert!((run(&steps).pools[0].waits - 256.0 / 12.0).abs() < 1e-9);
    }

    /// A miss each hundred instructions: three fit the buffer, from the first on.
    #[test]
    fn a_block_begins_with_a_miss() {
        let steps: Vec<Step> = (0..900)
            .map(|at| match at % 100 {
                50 => Step::load(far(at), &[1], &[2]),
                _ => Step::default(),
            })
            .collect();
        let found = run(&steps);
        assert_eq!(found.blocks.len(), 3);
        assert!(found.blocks.iter().all(|block| block.nodes.len() == 3));
        assert_eq!((found.pools[0].waits, found.idle), (3.0, 50 + 2 * 44));
    }

    #[test]
    fn where_misses_are_known_a_line_may_miss_again_and_others_never() {
        let mut window = Window::exact(1, Overlap::default());
        let mut asked = 0;
        for at in 0..512 {
            let step = Step::load(far(at % 4), &[1], &[2]);
            window.step(&step, &mut |address| {
                asked += 1;
                (address != far(3)).then_some(0)
            });
        }
        let found = window.finish();
        // Once a block of 256, three of four.
        assert_eq!((asked, found.pools[0].reads), (8, 6.0));
        assert_eq!(found.pools[0].waits, 2.0);
    }

    #[test]
    fn blocks_that_wait_for_nothing_are_counted_as_computing() {
        let steps: Vec<Step> = (0..300)
            .map(|at| Step::load(far(at.min(2)), &[1], &[2]))
            .chain((0..400).map(|_| Step::default()))
            .collect();
        let found = run(&steps);
        assert_eq!(
            (found.blocks.len(), found.idle, found.instructions),
            (1, 444, 700)
        );
    }
}
