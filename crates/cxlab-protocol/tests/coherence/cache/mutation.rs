//! Mutation tests: each row is altered, one at a time, and a named property must break.

use std::collections::BTreeMap;

use cxlab_protocol::coherence::cache_agent::{self, Line};
use cxlab_protocol::coherence::cache_home::{self, Operation, Phase, Update};

use super::exploration::{MISSING, ONE, TWO};
use super::{Model, Property, Tables};
use crate::docs;
use crate::search::search;

/// An alteration of one row of a table.
struct Mutant {
    table: &'static str,
    row: &'static str,
    what: String,
    tables: Tables,
}

fn without<T: Copy>(items: &[T], place: usize) -> &'static [T] {
    let mut rest = items.to_vec();
    rest.remove(place);
    rest.leak()
}

/// All alterations of all rows.
fn mutants() -> Vec<Mutant> {
    let mut all = Vec::new();
    let mut add = |table, row, what, alter: &dyn Fn(&mut Tables)| {
        let mut tables = Tables::unaltered();
        alter(&mut tables);
        all.push(Mutant {
            table,
            row,
            what,
            tables,
        });
    };
    for (r, row) in cache_agent::ROWS.iter().enumerate() {
        let mut add = |what, alter: &dyn Fn(&mut Tables)| add("device", row.name, what, alter);
        for &on in row.on {
            add(format!("no row for {on:?}"), &|tables| {
                tables.no_agent_row = Some((r, on));
            });
        }
        for to in Line::ALL.into_iter().filter(|&to| to != row.to) {
            add(format!("to {to:?}"), &|tables| tables.agent[r].to = to);
        }
        for (i, action) in row.actions.iter().enumerate() {
            add(format!("without {action:?}"), &|tables| {
                tables.agent[r].actions = without(row.actions, i);
            });
        }
    }
    for (r, row) in cache_home::ROWS.iter().enumerate() {
        let mut add = |what, alter: &dyn Fn(&mut Tables)| add("home", row.name, what, alter);
        for &on in row.on {
            for &others in row.others {
                add(format!("no row for {on:?}, {others:?}"), &|tables| {
                    tables.no_home_row = Some((r, on, others));
                });
            }
        }
        for to in wrong_phases(row) {
            add(format!("to {to:?}"), &|tables| tables.home[r].to = Some(to));
        }
        if row.update != Update::Keep {
            add("directory Keep".into(), &|tables| {
                tables.home[r].update = Update::Keep;
            });
        }
        for (i, action) in row.actions.iter().enumerate() {
            add(format!("without {action:?}"), &|tables| {
                tables.home[r].actions = without(row.actions, i);
            });
        }
    }
    all
}

/// Every other phase. For rows that keep the phase: `Idle`, and one busy phase.
fn wrong_phases(row: &cache_home::Row) -> Vec<Phase> {
    let Some(right) = row.to else {
        return vec![Phase::Idle, Phase::Reading(Operation::Current)];
    };
    let busy = Operation::ALL.into_iter().flat_map(|o| {
        [
            Phase::Snooping(o),
            Phase::Reading(o),
            Phase::Pulling(o),
            Phase::Writing(o),
        ]
    });
    std::iter::once(Phase::Idle)
        .chain(busy)
        .filter(|&phase| phase != right)
        .collect()
}

/// Alterations without an observable effect, and the reason.
const EQUIVALENT: [(&str, &str, &str); 12] = [
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

/// The first property that an alteration breaks, if it breaks any.
fn killer(mutant: Mutant) -> Option<Property> {
    let mut tables = mutant.tables;
    for config in [MISSING, ONE, TWO] {
        let model = Model::new(config, tables);
        if let Some(broken) = search(&model).broken {
            return Some(broken.property);
        }
        tables = model.tables;
    }
    None
}

/// For each row, the properties that its alterations break, each with the number of alterations.
type Caught = BTreeMap<(&'static str, &'static str), BTreeMap<Property, usize>>;

/// Tries all alterations, with one thread per processor.
fn survey() -> (Caught, Vec<(&'static str, String)>) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts: Vec<Vec<Mutant>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, mutant) in mutants().into_iter().enumerate() {
        parts[i % threads].push(mutant);
    }
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = parts
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    part.into_iter()
                        .map(|m| (m.table, m.row, m.what.clone(), killer(m)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        handles
            .into_iter()
            .flat_map(|h| h.join().unwrap())
            .collect()
    });
    let mut caught = Caught::new();
    let mut survivors = Vec::new();
    for (table, row, what, property) in results {
        match property {
            Some(property) => {
                let row = caught.entry((table, row)).or_default();
                *row.entry(property).or_default() += 1;
            }
            None => survivors.push((row, what)),
        }
    }
    survivors.sort();
    (caught, survivors)
}

#[test]
fn every_altered_row_breaks_a_property() {
    let (caught, survivors) = survey();
    let equivalent: Vec<_> = EQUIVALENT
        .iter()
        .map(|&(row, what, _)| (row, what.to_string()))
        .collect();
    assert_eq!(survivors, equivalent);
    let rows = cache_agent::ROWS.len() + cache_home::ROWS.len();
    assert_eq!(caught.len(), rows);
    docs::compare("cache-mutants", &render(&caught));
}

fn render(caught: &Caught) -> String {
    let killed: usize = caught.values().flat_map(BTreeMap::values).sum();
    let mut text = format!(
        "{killed} alterations of {} rows break a property; {} are equivalent:\n\n",
        caught.len(),
        EQUIVALENT.len()
    );
    for (row, what, why) in EQUIVALENT {
        text += &format!("- `{row}`, {what}: {why}.\n");
    }
    text += "\n| table | row | alterations that break each property |\n|---|---|---|\n";
    let agent = cache_agent::ROWS.iter().map(|row| ("device", row.name));
    let home = cache_home::ROWS.iter().map(|row| ("home", row.name));
    for key in agent.chain(home) {
        let properties: Vec<String> = caught[&key]
            .iter()
            .map(|(property, count)| format!("{property:?} {count}"))
            .collect();
        text += &format!("| {} | `{}` | {} |\n", key.0, key.1, properties.join(", "));
    }
    text
}
