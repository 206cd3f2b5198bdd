//! The alterations of the tables of CXL.mem.

use cxlab_protocol::coherence::dcoh::{self, Operation, Phase};
use cxlab_protocol::coherence::requester::{self, Line, SnoopOutcome};

use super::Model;
use super::exploration::{TWO, TWO_LINES};
use crate::checker::{Equivalent, Key, Mutants, survey};

impl Key for requester::RowCondition {
    fn bit(self) -> u32 {
        self as u32
    }
}

fn mutants() -> Mutants<Model> {
    let mut mutants = Mutants::<Model>::new();
    for (r, row) in requester::ROWS.iter().enumerate() {
        let name = ("requester", row.name);
        let keys = row.on.iter().map(|&on| (on, format!("{on:?}")));
        mutants.missing(name, r, keys, |tables| &mut tables.requester);
        for to in Line::ALL.into_iter().filter(|&to| to != row.to) {
            mutants.add(name, format!("to {to:?}"), |tables| {
                tables.requester.rows[r].to = to;
            });
        }
        for outcome in [
            SnoopOutcome::Answered,
            SnoopOutcome::AwaitAck,
            SnoopOutcome::Defer,
        ] {
            if row.snoop != SnoopOutcome::Keep && row.snoop != outcome {
                mutants.add(name, format!("snoop {outcome:?}"), |tables| {
                    tables.requester.rows[r].snoop = outcome;
                });
            }
        }
        mutants.without(name, row.actions, |tables, actions| {
            tables.requester.rows[r].actions = actions;
        });
    }
    mutants.home(
        ("dcoh", "filter"),
        dcoh::ROWS,
        |row| row.others.iter().map(|&o| (o, format!("{o:?}"))).collect(),
        &Phase::ALL,
        &[Phase::Reading(Operation::Current)],
        |tables| &mut tables.dcoh,
    );
    mutants
}

/// Alterations without an observable effect, and the reason.
const EQUIVALENT: [Equivalent; 4] = [
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

#[test]
fn every_altered_row_breaks_a_property() {
    let rows = requester::ROWS.len() + dcoh::ROWS.len();
    survey(mutants(), &[TWO, TWO_LINES], &EQUIVALENT, rows, "mutants");
}
