//! Checks that `docs/explain/cohet-os.md` shows the rows and catalogs. With `CXLAB_UPDATE_DOCS=1`
//! the tests write them.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/shared/documents.rs"]
mod documents;

use std::fmt::Debug;

use cxlab_os::ats::table::Row;
use cxlab_os::ats::{device, home};
use cxlab_os::policy::{migration, placement};

fn list<T: Debug>(items: &[T]) -> String {
    let names: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    names.join(", ")
}

/// The table of rows; a row on `Move` is one for any number of devices.
fn rows<S, P: Debug, E: Debug, A: Debug>(rows: &[Row<S, P, E, A>]) -> String {
    let mut text = "| row | in | on | when | does | then |\n|---|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let (phases, does) = (list(row.phases), list(row.actions));
        let on = list(row.on).replace("Move(0)", "Move");
        let (name, when, then) = (row.name, row.when.text, list(row.next.as_slice()));
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
            ("device", rows(device::ROWS)),
            ("home", rows(home::ROWS)),
            ("placement", catalog(placement::CATALOG)),
            ("migration", catalog(migration::CATALOG)),
        ],
    );
}
