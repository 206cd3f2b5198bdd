//! Grant policies: which blocks of a pool a host receives on demand.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::choice;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::pool::{BlockRun, Pool, PoolBlock};

/// A host's demand for blocks of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockDemand {
    /// Number of the host among those of the pool.
    pub host: usize,
    /// Number of hosts of the pool.
    pub hosts: usize,
    /// Number of blocks that the host needs in all.
    pub needs: u32,
    /// Number of blocks that the host has.
    pub has: u32,
}

/// A policy by which blocks of a pool are granted and taken back.
pub trait GrantPolicy: std::fmt::Debug + Send + Sync {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A parameter that is out of range.
    fn check(&self) -> Result<(), ParamError> {
        Ok(())
    }

    /// The blocks to grant to a host that needs more blocks than it has. With them, the host has at least
    /// as many as it needs. `None` if the demand is refused, so the host receives no block.
    fn grant(&self, pool: &Pool, demand: &BlockDemand) -> Option<Vec<PoolBlock>>;

    /// Number of blocks that a host keeps if it needs fewer than it has; at least `demand.needs`.
    fn keep(&self, demand: &BlockDemand) -> u32 {
        demand.needs
    }
}

/// Every grant policy, in the order of `cxlab list`.
pub static CATALOG: &[Entry<Box<dyn GrantPolicy>>] = &[
    entry::<Static>(
        "static",
        "each host has an equal part of the pool, and is granted blocks of that alone",
    ),
    entry::<OnDemand>(
        "on-demand",
        "the first free blocks, in the order of devices and addresses",
    ),
    entry::<BestFit>(
        "best-fit",
        "the smallest free blocks in a row that are enough, or else the most in a row first",
    ),
    entry::<Watermark>(
        "watermark",
        "as on-demand, and a reserve, which is taken back only above a mark",
    ),
];

const fn entry<P: GrantPolicy + JsonSchema + DeserializeOwned + 'static>(
    name: &'static str,
    summary: &'static str,
) -> Entry<Box<dyn GrantPolicy>> {
    Entry {
        name,
        summary,
        schema: P::json_schema,
        build: |params| {
            let policy = read_params::<P>(params)?;
            policy.check()?;
            Ok(Box::new(policy))
        },
    }
}

choice!(
    /// A grant policy from the catalog.
    GrantPolicyChoice,
    CATALOG,
    Box<dyn GrantPolicy>
);

impl Default for GrantPolicyChoice {
    fn default() -> Self {
        GrantPolicyChoice {
            kind: "on-demand".to_owned(),
            params: serde_json::Map::new(),
        }
    }
}

/// The first `count` blocks, or `None` if there are fewer.
fn first(blocks: impl Iterator<Item = PoolBlock>, count: u32) -> Option<Vec<PoolBlock>> {
    let found: Vec<PoolBlock> = blocks.take(count as usize).collect();
    (found.len() == count as usize).then_some(found)
}

fn free(pool: &Pool) -> impl Iterator<Item = PoolBlock> {
    pool.blocks().filter(|block| pool.is_free(*block))
}

/// Grants only blocks of a host's equal part of the pool.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Static {}

impl GrantPolicy for Static {
    fn grant(&self, pool: &Pool, demand: &BlockDemand) -> Option<Vec<PoolBlock>> {
        let part = pool.total() as usize / demand.hosts;
        let of_host = pool.blocks().skip(demand.host * part).take(part);
        let free = of_host.filter(|block| pool.is_free(*block));
        first(free, demand.needs - demand.has)
    }
}

/// Grants the first free blocks.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OnDemand {}

impl GrantPolicy for OnDemand {
    fn grant(&self, pool: &Pool, demand: &BlockDemand) -> Option<Vec<PoolBlock>> {
        first(free(pool), demand.needs - demand.has)
    }
}

/// Grants as few extents as possible.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BestFit {}

impl GrantPolicy for BestFit {
    fn grant(&self, pool: &Pool, demand: &BlockDemand) -> Option<Vec<PoolBlock>> {
        let count = demand.needs - demand.has;
        let mut runs = pool.free_runs();
        let enough = runs.iter().filter(|run| run.blocks >= count);
        if let Some(run) = enough.min_by_key(|run| run.blocks) {
            return Some(run.take(count).collect());
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.blocks));
        let all = |run: BlockRun| run.take(run.blocks);
        first(runs.into_iter().flat_map(all), count)
    }
}

/// Grants a reserve for later needs as well, and takes blocks back only above a mark.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Watermark {
    /// Blocks that a host is granted beyond its needs, as a fraction of these, as far as blocks are free. 0
    /// to 16. Default 0.25 (*assumed*).
    #[schemars(range(min = 0.0, max = 16.0))]
    reserve: f64,
    /// Most blocks that a host keeps beyond its needs, as a fraction of these. If the host has more, its
    /// blocks are taken back down to the reserve. `reserve` to 16. Default 0.5 (*assumed*).
    #[schemars(range(min = 0.0, max = 16.0))]
    most: f64,
}

impl Default for Watermark {
    fn default() -> Self {
        Watermark {
            reserve: 0.25,
            most: 0.5,
        }
    }
}

/// The needs plus a fraction of them, in whole blocks.
fn beyond(needs: u32, part: f64) -> u32 {
    needs.saturating_add((f64::from(needs) * part).ceil() as u32)
}

impl GrantPolicy for Watermark {
    fn check(&self) -> Result<(), ParamError> {
        let (reserve, most) = (self.reserve, self.most);
        if !(0.0..=16.0).contains(&reserve) {
            let message = format!("found {reserve}; allowed: 0 to 16");
            return Err(ParamError::new("reserve", message));
        }
        if !(reserve..=16.0).contains(&most) {
            let message = format!("found {most}; allowed: `reserve`, {reserve}, to 16");
            return Err(ParamError::new("most", message));
        }
        Ok(())
    }

    fn grant(&self, pool: &Pool, demand: &BlockDemand) -> Option<Vec<PoolBlock>> {
        let wanted = beyond(demand.needs, self.reserve) - demand.has;
        let count = wanted.min(pool.free()).max(demand.needs - demand.has);
        first(free(pool), count)
    }

    fn keep(&self, demand: &BlockDemand) -> u32 {
        match demand.has > beyond(demand.needs, self.most) {
            true => beyond(demand.needs, self.reserve),
            false => demand.has,
        }
    }
}
