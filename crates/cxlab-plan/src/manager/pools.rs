//! Pools of blocks, which the fabric manager grants when hosts' demands arrive, and their statistics.

use std::collections::BTreeSet;

use cxlab_engine::units::{Bytes, Picos};
use cxlab_fabric::manager::{BlockDemand, GrantPolicy, Pool, PoolBlock};

use crate::extents::DECODER_UNIT;
use crate::regions::MOST_BLOCKS;

/// A pooled region while the fabric manager's commands are carried out.
pub(crate) struct BlockPool {
    pool: Pool,
    /// Number of blocks on each of its devices.
    per_device: u32,
    /// By host of the region: its number among all hosts.
    hosts: Vec<usize>,
    /// By host of the region: its current blocks, in the order of grants.
    held: Vec<Vec<PoolBlock>>,
    /// By host of the region: its demand, in blocks.
    needs: Vec<u32>,
    /// By host of the region: all blocks that it has had, in the order of the first grant.
    ever: Vec<Vec<PoolBlock>>,
    /// State of the pool, with the time from which it holds.
    samples: Vec<(Picos, Sample)>,
    demands: Vec<(Picos, bool)>,
}

/// Block counts of a pool from a point in time on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Blocks that hosts need, whether granted or not.
    pub needed: u32,
    /// Blocks that hosts have.
    pub held: u32,
    /// Blocks that hosts have beyond their needs.
    pub idle: u32,
    /// Blocks that hosts need and do not have.
    pub unmet: u32,
    /// Blocks that no host has and that may be granted.
    pub free: u32,
    /// Number of contiguous runs among the free blocks.
    pub free_runs: u32,
    /// Number of contiguous runs among the blocks that hosts have, counted for each host by itself.
    pub extents: u32,
}

/// Statistics of a pooled region.
#[derive(Clone, Debug)]
pub struct PlannedPool {
    /// The region's name.
    pub region: String,
    /// The policy's name.
    pub policy: String,
    /// Total number of blocks.
    pub total: u32,
    /// Time of each demand, and whether it was met: granted, or not above the blocks of the host.
    pub demands: Vec<(Picos, bool)>,
    /// State of the pool, with the time from which it holds, in order of time.
    pub samples: Vec<(Picos, Sample)>,
}

impl PlannedPool {
    /// Size of a block.
    pub const BLOCK: Bytes = Bytes(DECODER_UNIT);
}

pub(crate) enum Outcome {
    Granted(Vec<u32>),
    /// The host is asked to give up these blocks.
    Asked(Vec<u32>),
    /// No block changes its owner.
    Nothing,
    Refused,
}

impl BlockPool {
    pub(crate) fn new(hosts: Vec<usize>, devices: usize, capacity: Bytes) -> BlockPool {
        // Larger capacities are refused elsewhere.
        let blocks = (capacity.0 / DECODER_UNIT).min(MOST_BLOCKS);
        let per_device = (blocks / devices.max(1) as u64) as u32;
        let count = hosts.len();
        let mut pool = BlockPool {
            pool: Pool::new(devices as u32, per_device),
            per_device,
            hosts,
            held: vec![Vec::new(); count],
            needs: vec![0; count],
            ever: vec![Vec::new(); count],
            samples: Vec::new(),
            demands: Vec::new(),
        };
        pool.sample(Picos::ZERO);
        pool
    }

    fn number(&self, block: PoolBlock) -> u32 {
        block.device * self.per_device + block.number
    }

    fn block(&self, number: u32) -> PoolBlock {
        PoolBlock {
            device: number / self.per_device,
            number: number % self.per_device,
        }
    }

    fn place(&self, host: usize) -> Option<usize> {
        self.hosts.iter().position(|one| *one == host)
    }

    /// All blocks that a host has at some time, in the order of the first grant.
    pub(crate) fn ever(&self, host: usize) -> Vec<u32> {
        let place = self.place(host);
        place.map_or_else(Vec::new, |place| self.numbers(&self.ever[place]))
    }

    /// Sets the number of blocks that a host needs from now on.
    pub(crate) fn demand(
        &mut self,
        at: Picos,
        host: usize,
        needs: u32,
        policy: &dyn GrantPolicy,
    ) -> Outcome {
        let Some(place) = self.place(host) else {
            return Outcome::Refused;
        };
        let demand = BlockDemand {
            host: place,
            hosts: self.hosts.len(),
            needs,
            has: self.held[place].len() as u32,
        };
        self.needs[place] = needs;
        let outcome = if needs > demand.has {
            match policy.grant(&self.pool, &demand) {
                None => Outcome::Refused,
                Some(blocks) => Outcome::Granted(self.grant(place, &blocks)),
            }
        } else {
            let keep = policy.keep(&demand);
            match self.give_up(place, keep as usize) {
                blocks if blocks.is_empty() => Outcome::Nothing,
                blocks => Outcome::Asked(blocks),
            }
        };
        let is_met = !matches!(outcome, Outcome::Refused);
        self.demands.push((at, is_met));
        self.sample(at);
        outcome
    }

    /// Sets the number of blocks that a host has on one device from now on; returns the blocks granted or lost.
    pub(crate) fn allocate(&mut self, at: Picos, host: usize, device: u32, wanted: u32) -> Outcome {
        let Some(place) = self.place(host) else {
            return Outcome::Refused;
        };
        let here = |block: &&PoolBlock| block.device == device;
        let has = self.held[place].iter().filter(here).count();
        let more = (wanted as usize).saturating_sub(has);
        let free = self.pool.blocks();
        let free = free.filter(|block| block.device == device && self.pool.is_free(*block));
        let granted: Vec<PoolBlock> = free.take(more).collect();
        if granted.len() < more {
            return Outcome::Refused;
        }
        let mut lost = Vec::new();
        while lost.len() + (wanted as usize) < has
            && let Some(at) = self.held[place].iter().rposition(|block| here(&block))
        {
            lost.push(self.held[place].remove(at));
        }
        let granted = self.grant(place, &granted);
        self.pool.give_up(place, &lost);
        self.needs[place] = self.held[place].len() as u32;
        self.sample(at);
        match (granted.is_empty(), lost.is_empty()) {
            (false, _) => Outcome::Granted(granted),
            (true, false) => Outcome::Asked(self.numbers(&lost)),
            (true, true) => Outcome::Nothing,
        }
    }

    fn numbers(&self, blocks: &[PoolBlock]) -> Vec<u32> {
        blocks.iter().map(|block| self.number(*block)).collect()
    }

    /// Grants blocks to a host; returns their numbers.
    fn grant(&mut self, place: usize, blocks: &[PoolBlock]) -> Vec<u32> {
        self.pool.grant(place, blocks);
        self.held[place].extend(blocks);
        let ever = &mut self.ever[place];
        for block in blocks {
            if !ever.contains(block) {
                ever.push(*block);
            }
        }
        self.numbers(blocks)
    }

    /// A host leaves; returns the blocks that it is asked to give up.
    pub(crate) fn leave(&mut self, at: Picos, host: usize) -> Vec<u32> {
        let Some(place) = self.place(host) else {
            return Vec::new();
        };
        self.needs[place] = 0;
        let blocks = self.give_up(place, 0);
        self.sample(at);
        blocks
    }

    /// Takes blocks from a host down to `keep`, the most recently granted first.
    fn give_up(&mut self, place: usize, keep: usize) -> Vec<u32> {
        let blocks = self.held[place].split_off(keep);
        self.pool.give_up(place, &blocks);
        self.numbers(&blocks)
    }

    pub(crate) fn release(&mut self, block: u32) {
        self.pool.release(self.block(block));
    }

    pub(crate) fn scrubbed(&mut self, at: Picos, block: u32) {
        self.pool.scrubbed(self.block(block));
        self.sample(at);
    }

    fn sample(&mut self, at: Picos) {
        let all = self.held.iter().zip(&self.needs);
        let pairs = all.map(|(held, needs)| (held.len() as u32, *needs));
        let idle = |(has, needs): (u32, u32)| has.saturating_sub(needs);
        let unmet = |(has, needs): (u32, u32)| needs.saturating_sub(has);
        let sample = Sample {
            needed: self.needs.iter().sum(),
            held: self.pool.held(),
            idle: pairs.clone().map(idle).sum(),
            unmet: pairs.map(unmet).sum(),
            free: self.pool.free(),
            free_runs: self.pool.free_runs().len() as u32,
            extents: self.held.iter().map(|held| extents(held)).sum(),
        };
        match self.samples.last_mut() {
            Some((last, before)) if *last == at => *before = sample,
            _ => self.samples.push((at, sample)),
        }
    }

    pub(crate) fn finish(self, region: &str, policy: &str) -> PlannedPool {
        PlannedPool {
            region: region.to_owned(),
            policy: policy.to_owned(),
            total: self.pool.total(),
            demands: self.demands,
            samples: self.samples,
        }
    }
}

/// Number of contiguous runs of blocks on devices.
fn extents(blocks: &[PoolBlock]) -> u32 {
    let all: BTreeSet<PoolBlock> = blocks.iter().copied().collect();
    let begins = |block: &&PoolBlock| {
        let before = block.number.checked_sub(1);
        before.is_none_or(|number| !all.contains(&PoolBlock { number, ..**block }))
    };
    all.iter().filter(begins).count() as u32
}
