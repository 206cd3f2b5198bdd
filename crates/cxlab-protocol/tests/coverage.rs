//! `docs/reference/coverage.md` is generated from the rows. With `CXLAB_UPDATE_DOCS=1` the test updates the document.
#![allow(clippy::unwrap_used)]

use std::fs;

use cxlab_protocol::coherence::cache_message::{HostResponse, Request, SnoopResponse};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::host_only;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::coverage::{COVERAGE, Modelled};
use cxlab_protocol::{Channel, Opcode};

const DOCUMENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/reference/coverage.md"
);

#[test]
fn every_opcode_has_one_row_under_its_code() {
    // CXL.io packets have no opcodes of CXL.
    for &opcode in Opcode::ALL.iter().filter(|one| !one.channel().is_io()) {
        let mut rows = COVERAGE.iter().filter(|row| row.opcode == Some(opcode));
        let (Some(row), None) = (rows.next(), rows.next()) else {
            panic!("{opcode:?} has not one row");
        };
        let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
        let named = plain(row.name) == plain(opcode.name());
        assert!(named || row.name == "data", "{opcode:?}");
    }
    let mut places: Vec<_> = COVERAGE
        .iter()
        .map(|row| (row.channel.index(), row.code))
        .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), COVERAGE.len(), "two rows share a code");
}

/// Whether an agent's table accepts or sends the opcode.
fn in_a_table(opcode: Opcode) -> bool {
    let requester = M2s::ALL.iter().any(|message| message.opcode() == opcode);
    requester
        || S2m::from_opcode(opcode).is_some()
        || Snoop::from_opcode(opcode).is_some()
        || KeptCopy::from_opcode(opcode).is_some()
        || host_only::step(opcode).is_some()
        || Request::from_opcode(opcode, false).is_some()
        || SnoopResponse::from_opcode(opcode).is_some()
        || Snoop::from_cache_opcode(opcode).is_some()
        || HostResponse::from_opcode(opcode, GoState::Shared).is_some()
        // Opcodes that concern no line, data without a message of their own in the tables, and
        // requests that are answered without a table.
        || matches!(
            opcode,
            Opcode::CacheFlushed
                | Opcode::D2hData
                | Opcode::MemRdFwd
                | Opcode::MemWrFwd
                | Opcode::MemDataNxm
        )
}

#[test]
fn what_is_modelled_is_in_a_table_and_what_is_in_none_is_not_modelled() {
    for row in COVERAGE {
        let modelled = row.modelled != Modelled::No;
        assert_eq!(modelled, row.opcode.is_some_and(in_a_table), "{}", row.name);
        let explained = row.modelled == Modelled::Yes || !row.remark.is_empty();
        assert!(explained, "{}: what is missing?", row.name);
    }
}

fn title(channel: Channel) -> &'static str {
    match channel {
        Channel::M2sReq => "CXL.mem, M2S Req",
        Channel::M2sRwd => "CXL.mem, M2S RwD",
        Channel::M2sBirsp => "CXL.mem, M2S BIRsp",
        Channel::S2mNdr => "CXL.mem, S2M NDR",
        Channel::S2mDrs => "CXL.mem, S2M DRS",
        Channel::S2mBisnp => "CXL.mem, S2M BISnp",
        Channel::D2hReq => "CXL.cache, D2H Req",
        Channel::D2hRsp => "CXL.cache, D2H Rsp",
        Channel::D2hData => "CXL.cache, D2H Data",
        Channel::H2dReq => "CXL.cache, H2D Req",
        Channel::H2dRsp => "CXL.cache, H2D Rsp",
        Channel::H2dData => "CXL.cache, H2D Data",
        Channel::IoPosted | Channel::IoNonPosted | Channel::IoCompletion => "CXL.io",
    }
}

fn document() -> String {
    let mut text = String::from(
        "# Coverage of CXL.mem and CXL.cache\n\n\
         Every opcode of CXL 3.1, written by `cargo test -p cxlab-protocol --test coverage` with\n\
         `CXLAB_UPDATE_DOCS=1` from `crates/cxlab-protocol/src/coverage.rs`. *Modelled*: components send it and act on it.\n\
         *Partly*: the remark says what is left out, or how far it goes. *Not*: nothing, or its name alone.\n\n\
         | | modelled | partly | not |\n|---|---|---|---|\n",
    );
    for (protocol, cache) in [("CXL.mem", false), ("CXL.cache", true)] {
        let count = |modelled| {
            let rows = COVERAGE
                .iter()
                .filter(|row| row.channel.is_cache() == cache);
            rows.filter(|row| row.modelled == modelled).count()
        };
        let [yes, partly, no] = [Modelled::Yes, Modelled::Partly, Modelled::No].map(count);
        text += &format!("| {protocol} | {yes} | {partly} | {no} |\n");
    }
    for channel in Channel::ALL.into_iter().filter(|class| !class.is_io()) {
        text += &format!(
            "\n## {}\n\n| opcode | code | modelled | remark |\n|---|---|---|---|\n",
            title(channel)
        );
        for row in COVERAGE.iter().filter(|row| row.channel == channel) {
            let modelled = row.modelled.name();
            text += &format!(
                "| {} | {} | {modelled} | {} |\n",
                row.name, row.code, row.remark
            );
        }
    }
    text
}

#[test]
fn the_document_is_up_to_date() {
    let text = document();
    if fs::read_to_string(DOCUMENT).is_ok_and(|found| found == text) {
        return;
    }
    assert!(
        std::env::var_os("CXLAB_UPDATE_DOCS").is_some(),
        "docs/reference/coverage.md is not up to date: run with CXLAB_UPDATE_DOCS=1"
    );
    fs::write(DOCUMENT, text).unwrap();
}
