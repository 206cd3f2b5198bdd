//! Laws of every grant policy, checked on pools of any size under random demands.

use std::collections::BTreeSet;

use cxlab_engine::rng::StreamRng;

use super::policy::{BlockDemand, CATALOG, GrantPolicy, GrantPolicyChoice};
use super::pool::{Pool, PoolBlock};

fn build(name: &str) -> Box<dyn GrantPolicy> {
    let choice = GrantPolicyChoice {
        kind: name.to_owned(),
        params: serde_json::Map::new(),
    };
    choice.build().unwrap()
}

fn demand(host: usize, hosts: usize, needs: u32, has: u32) -> BlockDemand {
    BlockDemand {
        host,
        hosts,
        needs,
        has,
    }
}

/// A pool whose hosts demand blocks, and whose blocks come back some steps later.
struct PoolModel {
    pool: Pool,
    /// Blocks of each host, in the order in which they were granted.
    held: Vec<Vec<PoolBlock>>,
    /// Blocks that are being given up or scrubbed, with the number of steps left.
    returning: Vec<(PoolBlock, u64)>,
    granted: u64,
    refused: u64,
    taken: u64,
    /// All decisions of the policy.
    story: Vec<String>,
}

impl PoolModel {
    fn new(rng: &mut StreamRng) -> PoolModel {
        let hosts = 1 + rng.below(5) as usize;
        let devices = 1 + rng.below(4) as u32;
        PoolModel {
            pool: Pool::new(devices, 1 + rng.below(12) as u32),
            held: vec![Vec::new(); hosts],
            returning: Vec::new(),
            granted: 0,
            refused: 0,
            taken: 0,
            story: Vec::new(),
        }
    }

    fn check(&self) {
        let held: Vec<PoolBlock> = self.held.iter().flatten().copied().collect();
        let returning: Vec<PoolBlock> = self.returning.iter().map(|(block, _)| *block).collect();
        let all: BTreeSet<PoolBlock> = held.iter().chain(&returning).copied().collect();
        assert_eq!(all.len(), held.len() + returning.len(), "nothing twice");
        assert!(all.iter().all(|block| !self.pool.is_free(*block)));
        assert_eq!(held.len(), self.pool.held() as usize);
        assert_eq!(returning.len(), self.pool.returning() as usize);
        let sum = self.pool.held() + self.pool.returning() + self.pool.free();
        assert_eq!(sum, self.pool.total(), "conserved");
        let runs: u32 = self.pool.free_runs().iter().map(|run| run.blocks).sum();
        assert_eq!(runs, self.pool.free());
        for (host, blocks) in self.held.iter().enumerate() {
            assert_eq!(blocks.len(), self.pool.of(host) as usize);
        }
    }

    fn demand(&mut self, policy: &dyn GrantPolicy, host: usize, needs: u32) {
        let has = self.held[host].len() as u32;
        let demand = demand(host, self.held.len(), needs, has);
        if needs > demand.has {
            let short = needs - demand.has;
            let granted = policy.grant(&self.pool, &demand);
            self.story.push(format!("{demand:?} {granted:?}"));
            let Some(blocks) = granted else {
                self.refused += 1;
                return;
            };
            assert!(blocks.len() >= short as usize, "all or nothing: {demand:?}");
            let distinct: BTreeSet<&PoolBlock> = blocks.iter().collect();
            assert_eq!(distinct.len(), blocks.len());
            assert!(blocks.iter().all(|block| self.pool.is_free(*block)));
            self.pool.grant(host, &blocks);
            self.held[host].extend(blocks);
            self.granted += 1;
        } else {
            let keep = policy.keep(&demand);
            self.story.push(format!("{demand:?} keeps {keep}"));
            assert!((needs..=demand.has).contains(&keep), "{demand:?} {keep}");
            let blocks = self.held[host].split_off(keep as usize);
            self.pool.give_up(host, &blocks);
            self.taken += blocks.len() as u64;
            self.returning
                .extend(blocks.iter().map(|block| (*block, 3)));
        }
    }

    /// Advances the blocks that come back by one step. A block is released after one step
    /// and scrubbed after three.
    fn step(&mut self) {
        for (block, left) in &mut self.returning {
            *left -= 1;
            match left {
                2 => self.pool.release(*block),
                0 => self.pool.scrubbed(*block),
                _ => {}
            }
        }
        self.returning.retain(|(_, left)| *left > 0);
    }
}

/// Runs a policy under a random sequence of demands.
fn play(name: &str, seed: u64) -> PoolModel {
    let mut rng = StreamRng::new(seed, "grants");
    let policy = build(name);
    let mut play = PoolModel::new(&mut rng);
    for _ in 0..60 {
        let host = rng.below(play.held.len() as u64) as usize;
        let needs = rng.below(u64::from(play.pool.total()) + 2) as u32;
        play.demand(policy.as_ref(), host, needs);
        play.check();
        if rng.below(2) == 0 {
            play.step();
            play.check();
        }
    }
    play
}

#[test]
fn every_policy_grants_what_is_free_to_one_host_and_nothing_is_lost() {
    for entry in CATALOG {
        let (mut granted, mut refused, mut taken) = (0, 0, 0);
        for seed in 0..300 {
            let model = play(entry.name, seed);
            granted += model.granted;
            refused += model.refused;
            taken += model.taken;
            assert_eq!(model.story, play(entry.name, seed).story, "as before");
        }
        let name = entry.name;
        let least = granted.min(refused).min(taken);
        assert!(least > 1000, "{name}: {granted} {refused} {taken}");
    }
}

#[test]
fn nobody_is_refused_what_is_free_but_by_the_static_policy() {
    for entry in CATALOG.iter().filter(|entry| entry.name != "static") {
        let policy = build(entry.name);
        for seed in 0..100 {
            let pool = play(entry.name, seed).pool;
            for needs in 1..=pool.total() + 1 {
                let demand = demand(99, 100, needs, 0);
                let granted = policy.grant(&pool, &demand).is_some();
                assert_eq!(granted, needs <= pool.free(), "{} {demand:?}", entry.name);
            }
        }
    }
}

/// A pool of two devices whose free blocks are 2 in a row, 1, and 4.
fn holes() -> Pool {
    let mut pool = Pool::new(2, 5);
    let taken = [(0, 2), (0, 4), (1, 4)];
    let taken = taken.map(|(device, number)| PoolBlock { device, number });
    pool.grant(7, &taken);
    pool
}

fn granted(name: &str, pool: &Pool, host: usize, needs: u32) -> Option<Vec<(u32, u32)>> {
    let blocks = build(name).grant(pool, &demand(host, 2, needs, 0))?;
    Some(
        blocks
            .iter()
            .map(|block| (block.device, block.number))
            .collect(),
    )
}

#[test]
fn policies_choose_as_their_names_say() {
    let pool = holes();
    let of = |name, host, needs| granted(name, &pool, host, needs);
    assert_eq!(of("on-demand", 0, 3), Some(vec![(0, 0), (0, 1), (0, 3)]));
    assert_eq!(of("best-fit", 0, 1), Some(vec![(0, 3)]));
    assert_eq!(of("best-fit", 0, 2), Some(vec![(0, 0), (0, 1)]));
    assert_eq!(of("best-fit", 0, 3), Some(vec![(1, 0), (1, 1), (1, 2)]));
    let five = [(1, 0), (1, 1), (1, 2), (1, 3), (0, 0)];
    assert_eq!(of("best-fit", 0, 5), Some(five.to_vec()), "two extents");
    assert_eq!(of("static", 0, 4), None, "3 of the first half are free");
    assert_eq!(of("static", 1, 2), Some(vec![(1, 0), (1, 1)]));
    let reserve = of("watermark", 0, 4).unwrap();
    assert_eq!(reserve.len(), 5, "a quarter more");
    assert_eq!(of("watermark", 0, 7).unwrap().len(), 7, "no more is free");
}

#[test]
fn a_watermark_takes_back_what_is_above_it_and_not_what_is_below() {
    let policy = build("watermark");
    let keep = |needs, has| policy.keep(&demand(0, 1, needs, has));
    assert_eq!(keep(8, 12), 12, "half more");
    assert_eq!(keep(8, 13), 10, "a quarter more");
    assert_eq!(keep(0, 1), 0);
}

#[test]
#[should_panic(expected = "goes to Host(1)")]
fn what_is_not_scrubbed_cannot_be_granted() {
    let mut pool = Pool::new(1, 1);
    let (device, number) = (0, 0);
    let block = PoolBlock { device, number };
    pool.grant(0, &[block]);
    pool.give_up(0, &[block]);
    pool.release(block);
    pool.grant(1, &[block]);
}
