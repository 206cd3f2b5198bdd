//! Exploration of all states of small systems with CXL.cache.

use cxlab_protocol::coherence::cache_agent::Event;
use cxlab_protocol::coherence::line_arbitration::LineArbitration;

use super::{Broken, Config, Model, Property, Waits};
use crate::checker::{breaks, check_reduction, holds};

pub const ALL: &[Event] = &[
    Event::Load,
    Event::LoadShared,
    Event::LoadOnce,
    Event::Store,
    Event::StoreLine,
    Event::WriteOwn,
    Event::WriteCurrent,
    Event::WriteThrough,
    Event::WriteWeaklyPart,
    Event::WriteWeakly,
    Event::Push,
    Event::Flush,
    Event::Evict,
    Event::EvictWithData,
    Event::EvictSilently,
];

pub const ONE: Config = Config {
    name: "1 device, cores, 1 line",
    devices: 1,
    lines: 1,
    operations: ALL,
    cores: true,
    victims: true,
    flushes: true,
    evictions: true,
    missing: false,
    reduced: true,
    broken: Broken::Nothing,
    waits: None,
};

pub const TWO: Config = Config {
    name: "2 devices, cores, 1 line",
    devices: 2,
    ..ONE
};

const LOAD_STORE_EVICT: &[Event] = &[Event::Load, Event::Store, Event::Evict];

/// `CacheFlushed` concerns both lines.
pub const LINES: Config = Config {
    name: "1 device, cores, 2 lines",
    lines: 2,
    operations: LOAD_STORE_EVICT,
    evictions: false,
    ..ONE
};

pub const NO_CORES: Config = Config {
    name: "2 devices, 1 line",
    cores: false,
    ..TWO
};

/// Operations on addresses without memory. Nothing is ever cached.
pub const MISSING: Config = Config {
    name: "2 devices, 1 line without memory",
    evictions: false,
    missing: true,
    ..NO_CORES
};

#[test]
fn every_property_holds_for_two_devices_and_cores_and_every_row_is_used() {
    let with_memory = holds::<Model>(TWO, 74300).tables.unused();
    let without = holds::<Model>(MISSING, 986).tables.unused();
    let nowhere = without.iter().filter(|row| with_memory.contains(row));
    assert_eq!(nowhere.count(), 0, "{with_memory:?}");
}

#[test]
fn every_property_holds_in_smaller_networks() {
    for (config, states) in [(ONE, 1794), (LINES, 36169), (NO_CORES, 37979)] {
        holds::<Model>(config, states);
    }
}

/// Without the reduction each state occurs once, or twice with the names exchanged.
#[test]
fn the_reduction_by_names_loses_no_state() {
    let config = Config {
        name: "2 devices, 1 line, not reduced",
        reduced: false,
        ..NO_CORES
    };
    check_reduction::<Model>(config, 37979, 2);
}

// The rules of the channels are needed: without any one of them a property breaks.

/// The snoop finds a line that the device does not have yet; then the `GO` arrives.
#[test]
fn a_snoop_that_passes_a_go_leaves_a_copy_that_the_directory_does_not_know() {
    breaks::<Model>(
        TWO.breaking("a snoop passes GO", Broken::SnoopPassesGo),
        Property::InclusiveDirectory,
    );
}

#[test]
fn messages_that_wait_for_a_request_deadlock() {
    for (name, broken) in [
        ("H2D Req waits for D2H Req", Broken::SnoopBehindRequest),
        ("D2H Data wait behind D2H Req", Broken::DataBehindRequest),
    ] {
        breaks::<Model>(TWO.breaking(name, broken), Property::NoDeadlock);
    }
}

/// The model follows which access waits for which; every store is a read-modify-write that locks its line.
fn fair(name: &'static str, arbitration: LineArbitration, in_order: bool) -> Config {
    Config {
        name,
        waits: Some(Waits {
            arbitration,
            in_order,
        }),
        ..NO_CORES
    }
}

#[test]
fn waiting_is_bounded_at_devices_and_at_the_home() {
    let config = fair("2 devices, 1 line, turns", LineArbitration::HostFirst, true);
    holds::<Model>(config, 125_179);
}

/// Snoops that are served last wait for any number of operations; requests that the home takes in
/// any order are overtaken without end.
#[test]
fn waiting_is_unbounded_without_either_rule_of_arbitration() {
    for (name, arbitration, in_order) in [
        ("snoops are served last", LineArbitration::HostLast, true),
        (
            "the home takes requests in any order",
            LineArbitration::HostFirst,
            false,
        ),
    ] {
        breaks::<Model>(fair(name, arbitration, in_order), Property::BoundedWaiting);
    }
}
