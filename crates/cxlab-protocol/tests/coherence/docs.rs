//! `docs/reference/coherence-tables.md` shows the rows of the tables. With `CXLAB_UPDATE_DOCS=1` the tests
//! update the document.

#[path = "../../../../tests/shared/documents.rs"]
mod documents;

use std::fmt::Debug;

use cxlab_protocol::coherence::cache_agent;
use cxlab_protocol::coherence::cache_home;
use cxlab_protocol::coherence::dcoh::{self, Update, When};
use cxlab_protocol::coherence::host_only;
use cxlab_protocol::coherence::requester::{self, Action, Then};
use cxlab_protocol::coherence::table::HomeRow;

/// Checks that the part of the document between the marks of this name is this text.
pub fn compare(name: &str, text: &str) {
    documents::compare("reference/coherence-tables.md", &[(name, text.to_owned())]);
}

fn list<T: Debug>(items: &[T]) -> String {
    let names: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    names.join(", ")
}

fn requester_action(action: &Action) -> String {
    match action {
        Action::Send(message) => format!("send {message:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_document_has_the_requesters_rows() {
    let mut text =
        String::from("| row | in | on | does | then | snoop |\n|---|---|---|---|---|---|\n");
    for row in requester::ROWS {
        let actions: Vec<String> = row.actions.iter().map(requester_action).collect();
        let snoop = match row.then {
            Then::Keep => "",
            Then::Answered => "answered",
            Then::AwaitAck => "awaits BIConflictAck",
            Then::Defer => "waits for a stable line",
        };
        text += &format!(
            "| `{}` | {:?} | {} | {} | {:?} | {snoop} |\n",
            row.name,
            row.from,
            list(row.on),
            actions.join(", "),
            row.to,
        );
    }
    compare("requester", &text);
}

/// The rows of a home's table; `record` names the record of holders.
fn home_rows<P: Debug, C: Debug, A>(
    rows: &[HomeRow<P, C, A>],
    record: &str,
    action: impl Fn(&A) -> String,
) -> String {
    let mut text = format!(
        "| row | phase | on | other holders | does | {record} | phase then |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let actions: Vec<String> = row.actions.iter().map(&action).collect();
        let when = match &row.when {
            When::In(phase) => format!("{phase:?}"),
            When::Snooping => "any Snooping".into(),
            When::Always => "any".into(),
        };
        let update = match row.update {
            Update::Keep => String::new(),
            update => format!("{update:?}"),
        };
        let to = row
            .to
            .as_ref()
            .map_or("same".into(), |to| format!("{to:?}"));
        text += &format!(
            "| `{}` | {when} | {} | {} | {} | {update} | {to} |\n",
            row.name,
            list(row.on),
            list(row.others),
            actions.join(", "),
        );
    }
    text
}

#[test]
fn the_document_has_the_rows_of_the_dcoh() {
    let text = home_rows(dcoh::ROWS, "filter", |action| match action {
        dcoh::Do::Snoop(snoop) => format!("BISnp{snoop:?} to the others"),
        dcoh::Do::Reply(reply) => format!("reply {reply:?}"),
        other => format!("{other:?}"),
    });
    compare("dcoh", &text);
}

#[test]
fn the_document_has_the_rows_of_the_home_agent() {
    let text = home_rows(cache_home::ROWS, "directory", |action| match action {
        cache_home::Do::Snoop => "snoop the others".into(),
        cache_home::Do::Reply(reply) => format!("reply {reply:?}"),
        other => format!("{other:?}"),
    });
    compare("cache-home", &text);
}

#[test]
fn the_document_has_the_rows_of_hdm_h() {
    let mut text = String::from("| row | on | medium | reply |\n|---|---|---|---|\n");
    for row in host_only::ROWS {
        let reply = row
            .reply
            .map_or("none".into(), |reply| format!("{reply:?}"));
        text += &format!(
            "| `{}` | {} | {:?} | {reply} |\n",
            row.name,
            list(row.on),
            row.access
        );
    }
    compare("host-only", &text);
}

fn device_action(action: &cache_agent::Action) -> String {
    match action {
        cache_agent::Action::Send(request) => format!("send {request:?}"),
        cache_agent::Action::Answer(answer) => format!("answer {answer:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_document_has_the_rows_of_a_devices_cache() {
    let mut text = String::from("| row | in | on | does | then |\n|---|---|---|---|---|\n");
    for row in cache_agent::ROWS {
        let actions: Vec<String> = row.actions.iter().map(device_action).collect();
        text += &format!(
            "| `{}` | {:?} | {} | {} | {:?} |\n",
            row.name,
            row.from,
            list(row.on),
            actions.join(", "),
            row.to,
        );
    }
    compare("cache-agent", &text);
}
