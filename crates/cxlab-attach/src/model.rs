//! What a stretch of executed instructions asks of memory, and how much of that overlaps.
//!
//! A window is a few thousand instructions with every address. A line that the window has not
//! touched before is taken for a miss (how many of them the last level cache holds is another
//! question, of [`crate::estimate`]). Misses overlap where they can: within a reorder buffer's worth of instructions,
//! the program waits for the longest chain of misses whose addresses need each other's data (the
//! registers say so), or for all of them through the line fill buffers, whichever is longer. A line
//! behind its neighbour is prefetched, and costs as much of a wait as the prefetcher does not hide.
//! This is interval analysis (S. Eyerman et al., "A Mechanistic Performance Model for Superscalar
//! Out-of-Order Processors", ACM TOCS 2009) on sampled windows.
//!
//! Left out: instruction fetches, dependence through memory, TLB misses, cache conflicts.

use std::collections::HashMap;

/// Instructions that a core looks ahead (*assumed*: reorder buffers of current cores have 224 to
/// 512 entries).
const LOOKAHEAD: u32 = 256;
/// Lines that a core fetches at once (*assumed*: 10 to 16 line fill buffers).
const FILL_BUFFERS: f64 = 12.0;
/// How far prefetching gets ahead, in lines: a prefetched line costs this part of a latency
/// (*assumed*).
const PREFETCH_DEPTH: f64 = 16.0;
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
    /// Its accesses.
    pub touches: Vec<Touch>,
    /// Registers that it reads, addresses included.
    pub reads: Vec<u8>,
    /// Registers that it writes.
    pub writes: Vec<u8>,
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

/// What a window asks for.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct WindowUse {
    /// Instructions.
    pub instructions: u64,
    /// By pool.
    pub pools: Vec<PoolUse>,
}

impl WindowUse {
    /// Adds another window's.
    pub fn add(&mut self, other: &WindowUse) {
        self.instructions += other.instructions;
        if self.pools.len() < other.pools.len() {
            self.pools.resize(other.pools.len(), PoolUse::default());
        }
        for (sum, one) in self.pools.iter_mut().zip(&other.pools) {
            sum.waits += one.waits;
            sum.reads += one.reads;
            sum.writes += one.writes;
        }
    }
}

/// A window being analysed.
pub struct Window {
    result: WindowUse,
    /// Lines touched, and in the block at hand the chain that each ends.
    lines: HashMap<u64, Seen>,
    block: Block,
    number: u32,
}

#[derive(Clone, Copy)]
struct Seen {
    block: u32,
    level: f64,
}

/// A reorder buffer's worth of instructions.
struct Block {
    instructions: u32,
    /// By register: how many latencies its value comes after the block's beginning.
    level: [f64; REGISTERS],
    longest: f64,
    /// Lines fetched, prefetched ones counted as the part that shows.
    fetched: f64,
    by_pool: Vec<f64>,
}

impl Window {
    /// An empty window over so many pools.
    pub fn new(pools: usize) -> Window {
        Window {
            result: WindowUse {
                instructions: 0,
                pools: vec![PoolUse::default(); pools],
            },
            lines: HashMap::new(),
            block: Block {
                instructions: 0,
                level: [0.0; REGISTERS],
                longest: 0.0,
                fetched: 0.0,
                by_pool: vec![0.0; pools],
            },
            number: 0,
        }
    }

    /// The next instruction. `find` gives the pool of an address.
    pub fn step(&mut self, step: &Step, find: &mut dyn FnMut(u64) -> usize) {
        self.result.instructions += 1;
        let known = |register: &u8| self.block.level[usize::from(*register)];
        let base = step.reads.iter().map(known).fold(0.0, f64::max);
        let mut level = base;
        for touch in &step.touches {
            let line = touch.address / 64;
            let reached = self.touch(line, touch, base, find);
            if !touch.write {
                level = level.max(reached);
            }
        }
        for register in &step.writes {
            self.block.level[usize::from(*register)] = level;
        }
        self.block.longest = self.block.longest.max(level);
        self.block.instructions += 1;
        if self.block.instructions == LOOKAHEAD {
            self.end_block();
        }
    }

    /// The level at which a touched line is there, when its address is known at `base`.
    fn touch(
        &mut self,
        line: u64,
        touch: &Touch,
        base: f64,
        find: &mut dyn FnMut(u64) -> usize,
    ) -> f64 {
        if let Some(seen) = self.lines.get(&line) {
            return match seen.block == self.number {
                true => seen.level.max(base),
                false => base,
            };
        }
        let pool = find(touch.address);
        let beside = [line.wrapping_sub(1), line.wrapping_add(1)];
        let prefetched = beside.iter().any(|line| self.lines.contains_key(line));
        let one = &mut self.result.pools[pool];
        // A written line is read first, and written back some day.
        one.reads += 1.0;
        if touch.write {
            one.writes += 1.0;
        }
        let fetched = match prefetched {
            true => 1.0 / PREFETCH_DEPTH,
            false => 1.0 / FILL_BUFFERS,
        };
        self.block.fetched += fetched;
        let level = if touch.write || prefetched {
            base
        } else {
            base + 1.0
        };
        self.block.by_pool[pool] += if prefetched { fetched } else { 1.0 };
        let block = self.number;
        self.lines.insert(line, Seen { block, level });
        level
    }

    fn end_block(&mut self) {
        let block = &mut self.block;
        let waits = block.longest.max(block.fetched);
        let all: f64 = block.by_pool.iter().sum();
        if all > 0.0 {
            for (pool, part) in self.result.pools.iter_mut().zip(&block.by_pool) {
                pool.waits += waits * part / all;
            }
        }
        block.level.fill(0.0);
        block.by_pool.fill(0.0);
        (block.instructions, block.longest, block.fetched) = (0, 0.0, 0.0);
        self.number += 1;
    }

    /// What it asked for.
    pub fn finish(mut self) -> WindowUse {
        self.end_block();
        self.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(address: u64, reads: &[u8], writes: &[u8]) -> Step {
        Step {
            touches: vec![Touch {
                address,
                write: false,
            }],
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        }
    }

    fn run(steps: &[Step]) -> WindowUse {
        let mut window = Window::new(2);
        for step in steps {
            // The upper half of addresses is pool 1.
            window.step(step, &mut |address| usize::from(address >= 1 << 40));
        }
        window.finish()
    }

    fn far(number: u64) -> u64 {
        number * 7919 * 4096
    }

    #[test]
    fn a_chain_waits_for_every_miss() {
        let steps: Vec<Step> = (0..1000).map(|at| load(far(at), &[1], &[1])).collect();
        let found = run(&steps);
        assert_eq!(found.instructions, 1000);
        assert!((found.pools[0].waits - 1000.0).abs() < 1e-9, "{found:?}");
        assert!((found.pools[0].reads - 1000.0).abs() < 1e-9);
        assert_eq!(found.pools[1], PoolUse::default());
    }

    #[test]
    fn independent_misses_wait_for_the_fill_buffers() {
        let steps: Vec<Step> = (0..1024).map(|at| load(far(at), &[1], &[2])).collect();
        let waits = run(&steps).pools[0].waits;
        assert!((waits - 1024.0 / FILL_BUFFERS).abs() < 1e-6, "{waits}");
    }

    #[test]
    fn a_stream_is_prefetched_and_a_line_misses_once() {
        // Eight loads a line.
        let steps: Vec<Step> = (0..4096).map(|at| load(at * 8, &[1], &[2])).collect();
        let found = run(&steps).pools[0];
        assert!((found.reads - 512.0).abs() < 1e-9);
        // One for the first line; the rest as far as the prefetcher does not hide it.
        assert!(found.waits < 512.0 / PREFETCH_DEPTH + 2.0, "{found:?}");
        assert!(found.waits > 512.0 / PREFETCH_DEPTH * 0.9, "{found:?}");
    }

    #[test]
    fn stores_do_not_wait_but_their_lines_travel_twice() {
        let steps: Vec<Step> = (0..256)
            .map(|at| Step {
                touches: vec![Touch {
                    address: far(at),
                    write: true,
                }],
                ..Step::default()
            })
            .collect();
        let found = run(&steps).pools[0];
        assert_eq!((found.reads, found.writes), (256.0, 256.0));
        assert!(
            (found.waits - 256.0 / FILL_BUFFERS).abs() < 1e-6,
            "{found:?}"
        );
    }

    #[test]
    fn waits_are_shared_out_by_the_pools_misses() {
        let steps: Vec<Step> = (0..1000)
            .map(|at| {
                let high = if at % 4 == 0 { 1 << 40 } else { 0 };
                load(far(at) + high, &[1], &[1])
            })
            .collect();
        let found = run(&steps);
        let all = found.pools[0].waits + found.pools[1].waits;
        assert!((all - 1000.0).abs() < 1e-6);
        assert!((found.pools[1].waits / all - 0.25).abs() < 0.01);
    }

    #[test]
    fn a_line_that_was_touched_is_not_waited_for_again() {
        let steps: Vec<Step> = (0..1000).map(|at| load(far(at % 10), &[1], &[1])).collect();
        assert_eq!(run(&steps).pools[0].reads, 10.0);
    }
}
