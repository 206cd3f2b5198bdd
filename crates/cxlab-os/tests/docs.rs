//! Checks that `docs/explain/cohet-os.md` shows the rows and catalogs. With `CXLAB_UPDATE_DOCS=1`
//! the tests write them.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/shared/documents.rs"]
mod documents;

use std::fmt::Debug;

use cxlab_os::ats::{device, home};
use cxlab_os::policy::{migration, placement};

fn list<T: Debug>(items: &[T]) -> String {
    let names: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    names.join(", ")
}

fn next<T: Debug>(phase: Option<T>) -> String {
    phase.map_or_else(String::new, |phase| format!("{phase:?}"))
}

const HEAD: &str = "| row | in | on | when | does | then |\n|---|---|---|---|---|---|\n";

fn device_rows() -> String {
    let mut text = HEAD.to_owned();
    for row in device::ROWS {
        let (phases, on, does) = (list(row.phases), list(row.on), list(row.actions));
        let (name, when, then) = (row.name, row.when.text, next(row.next));
        text += &format!("| `{name}` | {phases} | {on} | {when} | {does} | {then} |\n");
    }
    text
}

fn home_rows() -> String {
    let mut text = HEAD.to_owned();
    for row in home::ROWS {
        let (phases, does) = (list(row.phases), list(row.actions));
        let on = match row.on {
            home::Event::Move(_) => "Move".to_owned(),
            event => format!("{event:?}"),
        };
        let (name, when, then) = (row.name, row.when.text, next(row.next));
        text += &format!("| `{name}` | {phases} | {on} | {when} | {does} | {then} |\n");
    }
    text
}

fn catalog<B>(entries: &[cxlab_engine::catalog::Entry<B>]) -> String {
    let line = |entry: &cxlab_engine::catalog::Entry<B>| {
        format!("| `{}` | {} |\n", entry.name, entry.summary)
    };
    let lines: String = entries.iter().map(line).collect();
    format!("| kind | |\n|---|---|\n{lines}")
}

#[test]
fn the_document_has_the_rows_and_the_catalogs() {
    documents::compare(
        "explain/cohet-os.md",
        &[
            ("device", device_rows()),
            ("home", home_rows()),
            ("placement", catalog(placement::CATALOG)),
            ("migration", catalog(migration::CATALOG)),
        ],
    );
}
