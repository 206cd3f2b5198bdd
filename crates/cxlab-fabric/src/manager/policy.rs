//! Which blocks of a pool a host is granted that asks for some: the catalog of grant policies.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::choice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool::{Block, Pool, Run};

/// What a host asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The host's number among those of the pool.
    pub host: usize,
    /// How many hosts the pool has.
    pub hosts: usize,
    /// Blocks that it needs in all.
    pub needs: u32,
    /// Blocks that it has.
    pub has: u32,
}

/// How blocks are granted and taken back.
pub trait GrantPolicy: std::fmt::Debug + Send + Sync {
    /// The blocks to grant to a host that needs more than it has: with them it has at least what it
    /// needs. `None` if it is refused, and then it gets none.
    fn grant(&self, pool: &Pool, ask: &Ask) -> Option<Vec<Block>>;

    /// How many blocks a host keeps that needs fewer than it has: at least those.
    fn keep(&self, ask: &Ask) -> u32 {
        ask.needs
    }
}

/// Every grant policy, in the order of `cxlab list`.
pub const CATALOG: &[Entry<Box<dyn GrantPolicy>>] = &[
    Entry {
        name: "static",
        summary: "each host has an equal part of the pool, and is granted blocks of that alone",
        schema: <Static as JsonSchema>::json_schema,
        build: |params| built::<Static>(params),
    },
    Entry {
        name: "on-demand",
        summary: "the first free blocks, in the order of devices and addresses",
        schema: <OnDemand as JsonSchema>::json_schema,
        build: |params| built::<OnDemand>(params),
    },
    Entry {
        name: "best-fit",
        summary: "the smallest free blocks in a row that are enough, or else the most in a row first",
        schema: <BestFit as JsonSchema>::json_schema,
        build: |params| built::<BestFit>(params),
    },
    Entry {
        name: "watermark",
        summary: "as on-demand, and a reserve, which is taken back only above a mark",
        schema: <Watermark as JsonSchema>::json_schema,
        build: |params| {
            let built = read_params::<Watermark>(params)?;
            built.check()?;
            Ok(Box::new(built))
        },
    },
];

fn built<P: GrantPolicy + serde::de::DeserializeOwned + 'static>(
    params: &serde_json::Value,
) -> Result<Box<dyn GrantPolicy>, ParamError> {
    Ok(Box::new(read_params::<P>(params)?))
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

/// The first so many, or none if there are fewer.
fn first(blocks: impl Iterator<Item = Block>, count: u32) -> Option<Vec<Block>> {
    let found: Vec<Block> = blocks.take(count as usize).collect();
    (found.len() == count as usize).then_some(found)
}

fn free(pool: &Pool) -> impl Iterator<Item = Block> {
    pool.blocks().filter(|block| pool.is_free(*block))
}

/// An equal part for each host.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Static {}

impl GrantPolicy for Static {
    fn grant(&self, pool: &Pool, ask: &Ask) -> Option<Vec<Block>> {
        let part = pool.total() as usize / ask.hosts;
        let own = pool.blocks().skip(ask.host * part).take(part);
        first(
            own.filter(|block| pool.is_free(*block)),
            ask.needs - ask.has,
        )
    }
}

/// The first free blocks.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OnDemand {}

impl GrantPolicy for OnDemand {
    fn grant(&self, pool: &Pool, ask: &Ask) -> Option<Vec<Block>> {
        first(free(pool), ask.needs - ask.has)
    }
}

/// As few extents as may be.
#[derive(Clone, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct BestFit {}

impl GrantPolicy for BestFit {
    fn grant(&self, pool: &Pool, ask: &Ask) -> Option<Vec<Block>> {
        let count = ask.needs - ask.has;
        let mut runs = pool.free_runs();
        let enough = runs.iter().filter(|run| run.blocks >= count);
        if let Some(run) = enough.min_by_key(|run| run.blocks) {
            return Some(run.take(count).collect());
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.blocks));
        let all = |run: Run| run.take(run.blocks);
        first(runs.into_iter().flat_map(all), count)
    }
}

/// A reserve for what a host will need next.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Watermark {
    /// What a host is granted beyond what it needs, as a part of that, as far as there is any. 0 to
    /// 16. Default 0.25 (*assumed*).
    #[schemars(range(min = 0.0, max = 16.0))]
    reserve: f64,
    /// The largest part beyond what it needs that a host keeps; what is more is taken back, down to
    /// the reserve. `reserve` to 16. Default 0.5 (*assumed*).
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

impl Watermark {
    fn check(&self) -> Result<(), ParamError> {
        if !(0.0..=16.0).contains(&self.reserve) {
            let message = format!("found {}; allowed: 0 to 16", self.reserve);
            return Err(ParamError::new("reserve", message));
        }
        if !(self.reserve..=16.0).contains(&self.most) {
            let message = format!(
                "found {}; allowed: `reserve`, {}, to 16",
                self.most, self.reserve
            );
            return Err(ParamError::new("most", message));
        }
        Ok(())
    }
}

/// What is needed, and a part of it more, in whole blocks.
fn beyond(needs: u32, part: f64) -> u32 {
    needs.saturating_add((f64::from(needs) * part).ceil() as u32)
}

impl GrantPolicy for Watermark {
    fn grant(&self, pool: &Pool, ask: &Ask) -> Option<Vec<Block>> {
        let wanted = beyond(ask.needs, self.reserve) - ask.has;
        let count = wanted.min(pool.free()).max(ask.needs - ask.has);
        first(free(pool), count)
    }

    fn keep(&self, ask: &Ask) -> u32 {
        match ask.has > beyond(ask.needs, self.most) {
            true => beyond(ask.needs, self.reserve),
            false => ask.has,
        }
    }
}
