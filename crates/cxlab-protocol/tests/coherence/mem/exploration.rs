//! Exploration of all states of small systems with HDM-DB memory.

use cxlab_protocol::coherence::requester::{Event, Line, LineState};

use super::{Broken, Config, Evictions, Model, Property};
use crate::checker::{Data, Network, System, breaks, check_reduction, holds};

pub const ALL: &[Event] = &[
    Event::Load,
    Event::LoadShared,
    Event::LoadOnce,
    Event::Store,
    Event::Flush,
    Event::Evict,
    Event::EvictSilently,
];
const LOAD_STORE_EVICT: &[Event] = &[Event::Load, Event::Store, Event::Evict];

pub const TWO: Config = Config {
    name: "2 requesters, 1 line",
    agents: 2,
    lines: 1,
    entries: 1,
    operations: ALL,
    local_agent: true,
    dirty_medium: true,
    evictions: Evictions::Anytime,
    blocks: false,
    joins: false,
    one_request_queue: false,
    reduced: true,
    broken: Broken::Nothing,
};

pub const THREE: Config = Config {
    name: "3 requesters, 1 line",
    agents: 3,
    ..TWO
};

pub const TWO_LINES: Config = Config {
    name: "2 requesters, 2 lines, 1 entry",
    lines: 2,
    operations: LOAD_STORE_EVICT,
    local_agent: false,
    dirty_medium: false,
    evictions: Evictions::WhenFull,
    ..TWO
};

pub const TWO_LINES_QUEUE: Config = Config {
    name: "2 requesters, 2 lines, 1 entry, one queue for requests",
    one_request_queue: true,
    ..TWO_LINES
};

pub const BLOCKS: Config = Config {
    name: "1 requester, 2 lines, block snoops",
    agents: 1,
    lines: 2,
    entries: 2,
    evictions: Evictions::Anytime,
    blocks: true,
    ..TWO
};

/// Two requesters that take lines from each other. Entries of the filter are evicted only when it
/// is full: all snoops are for requests.
pub const JOINS: Config = Config {
    name: "2 requesters, 2 lines, joined snoops",
    agents: 2,
    lines: 2,
    entries: 2,
    operations: &[Event::Load, Event::LoadOnce, Event::Store, Event::Evict],
    local_agent: false,
    dirty_medium: false,
    evictions: Evictions::WhenFull,
    joins: true,
    ..TWO
};

/// Without the reduction each state occurs once, or twice with the names exchanged.
#[test]
fn the_reduction_by_names_loses_no_state() {
    let config = Config {
        name: "2 requesters, 1 line, not reduced",
        reduced: false,
        ..TWO
    };
    check_reduction::<Model>(config, 15238, 2);
}

#[test]
fn every_property_holds_for_requesters_of_one_line() {
    holds::<Model>(TWO, 15238);
    holds::<Model>(THREE, 293050);
}

/// Also if a waiting request blocks all others.
#[test]
fn every_property_holds_when_two_lines_compete_for_one_entry() {
    holds::<Model>(TWO_LINES, 218891);
    holds::<Model>(TWO_LINES_QUEUE, 420852);
}

/// `BISnpInvBlk` and `BISnpCurBlk` for the device's own agent come last.
#[test]
fn every_property_holds_with_block_and_joined_snoops() {
    holds::<Model>(BLOCKS, 222212);
    holds::<Model>(JOINS, 720449);
    let config = Config {
        name: "1 requester, 2 lines, joined snoops",
        agents: 1,
        operations: ALL,
        local_agent: true,
        dirty_medium: true,
        ..JOINS
    };
    holds::<Model>(config, 159477);
}

#[test]
#[ignore = "minutes and gigabytes; make test-all"]
fn every_property_holds_in_larger_networks() {
    let three = Config {
        name: "3 requesters, 2 lines, 1 entry",
        agents: 3,
        ..TWO_LINES
    };
    holds::<Model>(three, 18450199);
    let all = Config {
        name: "2 requesters, 2 lines, 1 entry, every processor operation",
        operations: ALL,
        ..TWO_LINES
    };
    holds::<Model>(all, 5306629);
    let blocks = Config {
        name: "2 requesters, 2 lines, block snoops",
        agents: 2,
        operations: LOAD_STORE_EVICT,
        local_agent: false,
        dirty_medium: false,
        ..BLOCKS
    };
    holds::<Model>(blocks, 3445096);
}

// The rules of the channels are needed: without any one of them a property breaks.

/// When the data have arrived and the completion is overtaken, a late conflict looks like an early one.
/// The table has no row for it: the data cannot have arrived before the device accepted the request.
#[test]
fn a_late_conflict_cannot_be_told_when_an_acknowledgement_passes_a_completion() {
    breaks::<Model>(
        TWO.breaking("BIConflictAck passes Cmp", Broken::AckPassesCompletion),
        Property::ExactResponses,
    );
}

#[test]
fn messages_that_wait_for_a_request_deadlock() {
    for (name, broken) in [
        ("MemWr waits behind M2S Req", Broken::WriteBehindRequest),
        (
            "BIConflict waits behind M2S Req",
            Broken::ConflictBehindRequest,
        ),
        ("BIRsp waits behind M2S Req", Broken::ResponseBehindRequest),
        ("BISnp waits for M2S Req", Broken::SnoopBehindRequest),
    ] {
        breaks::<Model>(TWO.breaking(name, broken), Property::NoDeadlock);
    }
}

#[test]
fn requests_that_do_not_wait_for_an_entry_overfill_the_filter() {
    breaks::<Model>(
        TWO_LINES.breaking("M2S Req takes no entry", Broken::NoWaitForEntry),
        Property::FilterCapacity,
    );
}

/// Before this property breaks, a grant in flight always breaks `InclusiveFilter`, so no
/// exploration shows that it is checked.
#[test]
fn two_writers_break_the_property_of_the_single_writer() {
    let model = Model::new(TWO, Model::unaltered());
    let mut world = model.start();
    for wire in &mut world.wires[0][..2] {
        wire.state = LineState::stable(Line::E);
        wire.copy = Data::Fresh;
    }
    assert_eq!(model.check(&world), Err(Property::SingleWriter));
}
