//! The alterations of the tables of CXL.cache.

use cxlab_protocol::coherence::cache_agent::{self, Line};
use cxlab_protocol::coherence::cache_home::{self, Operation, Others, Phase};

use super::Model;
use super::exploration::{MISSING, ONE, TWO};
use crate::checker::{Equivalent, Key, Mutants, survey};

impl Key for cache_agent::RowCondition {
    fn bit(self) -> u32 {
        self as u32
    }
}

impl Key for (cache_home::RowCondition, Others) {
    fn bit(self) -> u32 {
        3 * self.0 as u32 + self.1 as u32
    }
}

/// All conditions and views of the other holders of a row.
pub(super) fn cells(
    row: &cache_home::Row,
) -> impl Iterator<Item = (cache_home::RowCondition, Others)> {
    let others = row.others;
    row.on
        .iter()
        .flat_map(|&on| others.iter().map(move |&others| (on, others)))
}

fn mutants() -> Mutants<Model> {
    let mut mutants = Mutants::<Model>::new();
    for (r, row) in cache_agent::ROWS.iter().enumerate() {
        let name = ("device", row.name);
        let keys = row.on.iter().map(|&on| (on, format!("{on:?}")));
        mutants.missing(name, r, keys, |tables| &mut tables.agent);
        for to in Line::ALL.into_iter().filter(|&to| to != row.to) {
            mutants.add(name, format!("to {to:?}"), |tables| {
                tables.agent.rows[r].to = to;
            });
        }
        mutants.without(name, row.actions, |tables, actions| {
            tables.agent.rows[r].actions = actions;
        });
    }
    mutants.home(
        ("home", "directory"),
        cache_home::ROWS,
        |row| {
            cells(row)
                .map(|(on, others)| ((on, others), format!("{on:?}, {others:?}")))
                .collect()
        },
        &Phase::ALL,
        &[Phase::Idle, Phase::Reading(Operation::Current)],
        |tables| &mut tables.home,
    );
    mutants
}

/// Alterations without an observable effect, and the reason.
const EQUIVALENT: [Equivalent; 12] = [
    ("evict_dirty", "to Pulling(WriteCurrent)", TO_MEMORY),
    ("evict_push", "to Pulling(WriteLlc)", TO_LLC),
    ("flush_snooped_dirty", "to Writing(WriteThrough)", GO_I),
    (
        "modified_cur",
        "without SnoopData",
        "the data are owed then, and follow in the same step",
    ),
    ("own", "to Reading(ShareOrOwn)", ALONE),
    ("own_missed", "to Reading(ShareOrOwn)", ALONE),
    ("write_current", "to Pulling(EvictDirty)", TO_MEMORY),
    ("write_current_hit", "to Pulling(EvictPush)", TO_LLC),
    ("write_current_missed", "to Pulling(EvictDirty)", TO_MEMORY),
    ("write_llc", "to Pulling(EvictPush)", TO_LLC),
    ("write_llc_snooped", "to Pulling(EvictPush)", TO_LLC),
    ("write_through_data", "to Writing(Flush)", GO_I),
];
const TO_MEMORY: &str = "both pull a line that nobody else holds into memory and leave nobody";
const TO_LLC: &str = "both pull a line that nobody else holds into the last-level cache";
const GO_I: &str = "both answer GO-I when memory has written";
const ALONE: &str = "nobody else holds the line, so both grant Exclusive";

#[test]
fn every_altered_row_breaks_a_property() {
    let rows = cache_agent::ROWS.len() + cache_home::ROWS.len();
    survey(
        mutants(),
        &[MISSING, ONE, TWO],
        &EQUIVALENT,
        rows,
        "cache-mutants",
    );
}
