//! `docs/reference/coherence-tables.md` shows the rows of the tables. With `CXLAB_UPDATE_DOCS=1` the tests
//! update the document.

#[path = "../../../../tests/shared/documents.rs"]
mod documents;

use std::fmt::Debug;

use cxlab_protocol::coherence::cache_agent;
use cxlab_protocol::coherence::cache_home;
use cxlab_protocol::coherence::dcoh::{self, RowPhases, Update};
use cxlab_protocol::coherence::host_only;
use cxlab_protocol::coherence::requester::{self, Action, SnoopOutcome};
use cxlab_protocol::coherence::table::HomeRow;

/// Checks that the part of the document between the marks of this name is this text.
pub fn compare(name: &str, text: &str) {
    documents::compare("reference/coherence-tables.md", &[(name, text.to_owned())]);
}

/// A table of the document with these columns. The first has the names of rows.
fn table<const N: usize>(columns: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let head = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(N));
    rows.fold(head, |text, cells| {
        text + &format!("| {} |\n", cells.join(" | "))
    })
}

fn name(row: &str) -> String {
    format!("`{row}`")
}

fn list<T: Debug>(items: &[T]) -> String {
    listed(items, |item| format!("{item:?}"))
}

fn listed<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn requester_action(action: &Action) -> String {
    match action {
        Action::Send(message) => format!("send {message:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_document_has_the_requesters_rows() {
    let rows = requester::ROWS.iter().map(|row| {
        let snoop = match row.snoop {
            SnoopOutcome::Keep => "",
            SnoopOutcome::Answered => "answered",
            SnoopOutcome::AwaitAck => "awaits BIConflictAck",
            SnoopOutcome::Defer => "waits for a stable line",
        };
        let (from, to) = (format!("{:?}", row.from), format!("{:?}", row.to));
        let does = listed(row.actions, requester_action);
        [name(row.name), from, list(row.on), does, to, snoop.into()]
    });
    let columns = ["row", "in", "on", "does", "then", "snoop"];
    compare("requester", &table(columns, rows));
}

/// The rows of a home's table; `record` names the record of holders.
fn home_rows<P: Debug, C: Debug, A>(
    rows: &[HomeRow<P, C, A>],
    record: &str,
    action: impl Fn(&A) -> String,
) -> String {
    let rows = rows.iter().map(|row| {
        let when = match &row.when {
            RowPhases::In(phase) => format!("{phase:?}"),
            RowPhases::Snooping => "any Snooping".into(),
            RowPhases::Always => "any".into(),
        };
        let update = match row.update {
            Update::Keep => String::new(),
            update => format!("{update:?}"),
        };
        let to = row.to.as_ref();
        let to = to.map_or("same".into(), |to| format!("{to:?}"));
        let (others, does) = (list(row.others), listed(row.actions, &action));
        [name(row.name), when, list(row.on), others, does, update, to]
    });
    let holders = "other holders";
    let columns = ["row", "phase", "on", holders, "does", record, "phase then"];
    table(columns, rows)
}

#[test]
fn the_document_has_the_rows_of_the_dcoh() {
    let text = home_rows(dcoh::ROWS, "filter", |action| match action {
        dcoh::RowAction::Snoop(snoop) => format!("BISnp{snoop:?} to the others"),
        dcoh::RowAction::Respond(reply) => format!("reply {reply:?}"),
        other => format!("{other:?}"),
    });
    compare("dcoh", &text);
}

#[test]
fn the_document_has_the_rows_of_the_home_agent() {
    let text = home_rows(cache_home::ROWS, "directory", |action| match action {
        cache_home::RowAction::Snoop => "snoop the others".into(),
        cache_home::RowAction::Respond(reply) => format!("reply {reply:?}"),
        other => format!("{other:?}"),
    });
    compare("cache-home", &text);
}

#[test]
fn the_document_has_the_rows_of_hdm_h() {
    let rows = host_only::ROWS.iter().map(|row| {
        let reply = row.reply;
        let reply = reply.map_or("none".into(), |reply| format!("{reply:?}"));
        let access = format!("{:?}", row.access);
        [name(row.name), list(row.on), access, reply]
    });
    let columns = ["row", "on", "medium", "reply"];
    compare("host-only", &table(columns, rows));
}

fn device_action(action: &cache_agent::Action) -> String {
    match action {
        cache_agent::Action::Send(request) => format!("send {request:?}"),
        cache_agent::Action::SnoopResponse(answer) => format!("answer {answer:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_document_has_the_rows_of_a_devices_cache() {
    let rows = cache_agent::ROWS.iter().map(|row| {
        let (from, to) = (format!("{:?}", row.from), format!("{:?}", row.to));
        let does = listed(row.actions, device_action);
        [name(row.name), from, list(row.on), does, to]
    });
    let columns = ["row", "in", "on", "does", "then"];
    compare("cache-agent", &table(columns, rows));
}
