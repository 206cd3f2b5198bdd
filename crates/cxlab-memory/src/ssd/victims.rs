//! Victim policies of garbage collection: a catalog. A new policy needs a function and an entry.

use std::borrow::Cow;

use cxlab_engine::rng::StreamRng;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Serialize, Serializer};

use super::blocks::{BlockState, FlashBlock};

/// The information that a policy may use.
pub(super) struct VictimView<'a> {
    /// The blocks of the plane that have ever been written.
    pub blocks: &'a [FlashBlock],
    /// Most valid sub-pages of an eligible block; blocks with more are not worth their erase.
    pub most: u32,
    /// Sub-pages in a block.
    pub block_subs: u32,
    /// Number of pages programmed so far: the unit of age.
    pub clock: u64,
    pub choices: u32,
    pub rng: &'a mut StreamRng,
}

impl VictimView<'_> {
    fn eligible(&self, block: &FlashBlock) -> bool {
        block.state == BlockState::Closed && block.valid <= self.most
    }

    fn all(&self) -> impl Iterator<Item = (u32, &FlashBlock)> {
        let numbered = (0..).zip(self.blocks);
        numbered.filter(|(_, block)| self.eligible(block))
    }
}

/// A victim policy of garbage collection.
pub struct GcPolicy {
    /// Name of the policy for users, in kebab case.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    choose: fn(&mut VictimView<'_>) -> Option<u32>,
}

/// All victim policies of garbage collection.
pub static POLICIES: &[GcPolicy] = &[
    GcPolicy {
        name: "greedy",
        summary: "the block with the least valid data",
        choose: greedy,
    },
    GcPolicy {
        name: "cost-benefit",
        summary: "the block with the most age times free space by twice its valid data (Kawaguchi et al., USENIX 1995)",
        choose: cost_benefit,
    },
    GcPolicy {
        name: "d-choice",
        summary: "the least valid data among some random blocks (Van Houdt, SIGMETRICS 2013)",
        choose: d_choice,
    },
    GcPolicy {
        name: "fifo",
        summary: "the block that was closed first (also called LRU or cyclic)",
        choose: fifo,
    },
];

fn greedy(view: &mut VictimView<'_>) -> Option<u32> {
    let best = view
        .all()
        .min_by_key(|(_, block)| (block.valid, block.closed));
    best.map(|(number, _)| number)
}

/// Benefit by cost is age (1 - u) / 2u; fractions are compared without division.
fn cost_benefit(view: &mut VictimView<'_>) -> Option<u32> {
    let worth = |block: &FlashBlock| {
        let age = u128::from(view.clock - block.touched + 1);
        age * u128::from(view.block_subs - block.valid)
    };
    let better = |a: &FlashBlock, b: &FlashBlock| {
        worth(a) * u128::from(b.valid) > worth(b) * u128::from(a.valid)
    };
    let mut best: Option<(u32, &FlashBlock)> = None;
    for (number, block) in view.all() {
        if best.is_none_or(|(_, least)| better(block, least)) {
            best = Some((number, block));
        }
    }
    best.map(|(number, _)| number)
}

/// Ineligible blocks do not count as choices. If no random choice is eligible, `greedy` chooses.
fn d_choice(view: &mut VictimView<'_>) -> Option<u32> {
    let mut best: Option<u32> = None;
    let mut found = 0;
    for _ in 0..4 * view.choices {
        let number = view.rng.below(view.blocks.len() as u64) as u32;
        let block = &view.blocks[number as usize];
        if view.eligible(block) {
            found += 1;
            if best.is_none_or(|least| block.valid < view.blocks[least as usize].valid) {
                best = Some(number);
            }
        }
        if found == view.choices {
            break;
        }
    }
    best.or_else(|| greedy(view))
}

fn fifo(view: &mut VictimView<'_>) -> Option<u32> {
    let first = view.all().min_by_key(|(_, block)| block.closed);
    first.map(|(number, _)| number)
}

/// A policy as a scenario refers to it.
#[derive(Clone, Copy)]
pub struct GcPolicyName(&'static GcPolicy);

impl GcPolicyName {
    /// The policy of that name; `None` if there is none.
    pub fn find(name: &str) -> Option<GcPolicyName> {
        POLICIES
            .iter()
            .find(|policy| policy.name == name)
            .map(GcPolicyName)
    }

    pub(super) fn choose(self, view: &mut VictimView<'_>) -> Option<u32> {
        (self.0.choose)(view)
    }
}

impl Default for GcPolicyName {
    fn default() -> Self {
        GcPolicyName(&POLICIES[0])
    }
}

impl PartialEq for GcPolicyName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl std::fmt::Debug for GcPolicyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for GcPolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for GcPolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        GcPolicyName::find(&name).ok_or_else(|| {
            let known: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
            D::Error::custom(format!("found `{name}`; allowed: {}", known.join(", ")))
        })
    }
}

impl JsonSchema for GcPolicyName {
    fn schema_name() -> Cow<'static, str> {
        "GcPolicy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}
