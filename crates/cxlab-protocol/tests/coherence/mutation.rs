//! Mutation tests: each row is altered, one at a time, and a named property must break.

use std::collections::BTreeMap;

use cxlab_protocol::coherence::dcoh::{self, Operation, Phase, Update};
use cxlab_protocol::coherence::requester::{self, Line, Then};

use crate::docs;
use crate::exploration::{TWO, TWO_LINES};
use crate::model::{Model, Property, Tables};
use crate::search::search;

/// An alteration of one row of a table.
pub struct Mutant {
    pub table: &'static str,
    pub row: &'static str,
    pub what: String,
    pub tables: Tables,
}

fn without<T: Copy>(items: &[T], place: usize) -> &'static [T] {
    let mut rest = items.to_vec();
    rest.remove(place);
    rest.leak()
}

/// All alterations of all rows.
pub fn mutants() -> Vec<Mutant> {
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
    for (r, row) in requester::ROWS.iter().enumerate() {
        let mut add = |what, alter: &dyn Fn(&mut Tables)| add("requester", row.name, what, alter);
        for &on in row.on {
            add(format!("no row for {on:?}"), &|tables| {
                tables.no_requester_row = Some((r, Some(on)));
            });
        }
        for to in Line::ALL.into_iter().filter(|&to| to != row.to) {
            add(format!("to {to:?}"), &|tables| tables.requester[r].to = to);
        }
        for then in [Then::Answered, Then::AwaitAck, Then::Defer] {
            if row.then != Then::Keep && row.then != then {
                add(format!("snoop {then:?}"), &|tables| {
                    tables.requester[r].then = then;
                });
            }
        }
        for (i, action) in row.actions.iter().enumerate() {
            add(format!("without {action:?}"), &|tables| {
                tables.requester[r].actions = without(row.actions, i);
            });
        }
    }
    for (r, row) in dcoh::ROWS.iter().enumerate() {
        let mut add = |what, alter: &dyn Fn(&mut Tables)| add("dcoh", row.name, what, alter);
        for &others in row.others {
            add(format!("no row for {others:?}"), &|tables| {
                tables.no_dcoh_row = Some((r, Some(others)));
            });
        }
        for to in wrong_phases(row) {
            add(format!("to {to:?}"), &|tables| tables.dcoh[r].to = Some(to));
        }
        if row.update != Update::Keep {
            add("filter Keep".into(), &|tables| {
                tables.dcoh[r].update = Update::Keep;
            });
        }
        for (i, action) in row.actions.iter().enumerate() {
            add(format!("without {action:?}"), &|tables| {
                tables.dcoh[r].actions = without(row.actions, i);
            });
        }
    }
    all
}

/// Every other phase. For rows that keep the phase: one busy phase.
fn wrong_phases(row: &dcoh::Row) -> Vec<Phase> {
    let Some(right) = row.to else {
        return vec![Phase::Reading(Operation::Current)];
    };
    let busy = Operation::ALL
        .into_iter()
        .flat_map(|o| [Phase::Snooping(o), Phase::Reading(o)]);
    std::iter::once(Phase::Idle)
        .chain(busy)
        .filter(|&phase| phase != right)
        .collect()
}

/// Alterations without an observable effect, and the reason.
const EQUIVALENT: [(&str, &str, &str); 4] = [
    (
        "clean_eviction_early",
        "to MiA",
        "the snoop is over and no other can come before the completion, after which both are I",
    ),
    (
        "modified_inv",
        "to CiA",
        "with the snoop deferred, both wait for the completion and are I after it",
    ),
    (
        "snooped_during_write_back",
        "to CiA",
        "with the snoop deferred, both wait for the completion and are I after it",
    ),
    (
        "write_back_done_shared",
        "to E",
        "the deferred snoop follows in the same step and makes both S",
    ),
];

/// The first property that an alteration breaks, if it breaks any.
fn killer(mutant: Mutant) -> Option<Property> {
    let mut tables = mutant.tables;
    for config in [TWO, TWO_LINES] {
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
    let rows = requester::ROWS.len() + dcoh::ROWS.len();
    assert_eq!(caught.len(), rows);
    docs::compare("mutants", &render(&caught));
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
    let requester = requester::ROWS.iter().map(|row| ("requester", row.name));
    let dcoh = dcoh::ROWS.iter().map(|row| ("dcoh", row.name));
    for key in requester.chain(dcoh) {
        let properties: Vec<String> = caught[&key]
            .iter()
            .map(|(property, count)| format!("{property:?} {count}"))
            .collect();
        text += &format!("| {} | `{}` | {} |\n", key.0, key.1, properties.join(", "));
    }
    text
}
