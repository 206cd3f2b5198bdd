//! The properties that concern a single state.

use cxlab_protocol::coherence::cache_agent::{Event, Line};
use cxlab_protocol::coherence::cache_home::{CORES, Filter, Peer};
use cxlab_protocol::coherence::cache_message::HostResponse;
use cxlab_protocol::coherence::fields::GoState;

use super::{Model, Pending, Property, Pulled, Wire, World};
use crate::checker::{Data, check, peer};

const GO_M: Option<HostResponse> = Some(HostResponse::Go(GoState::Modified));

impl Model {
    /// Checks the properties that concern a single state.
    pub fn check(&self, world: &World) -> Result<(), Property> {
        (0..self.config.lines).try_for_each(|l| self.check_line(world, l))
    }

    fn check_line(&self, world: &World, l: usize) -> Result<(), Property> {
        let home = &world.home[l];
        let wires = &world.wires[l][..self.config.devices];
        let cores = &world.cores[l];
        let lines = wires.iter().map(|w| w.state.line).chain([cores.line]);
        let writers = lines.clone().filter(|line| may_write(*line)).count();
        let readers = lines.filter(|line| may_read(*line)).count();
        let single = writers == 0 || (writers == 1 && readers == 0);
        check(single, Property::SingleWriter)?;
        let (held, owned) = (cores.line != Line::I, may_write(cores.line));
        self.holds(home.state.filter, CORES, held, owned)?;
        let has_data = held == (cores.copy != Data::None);
        check(has_data, Property::StateMatchesData)?;
        let clean = home.memory == Data::Fresh;
        let dirty = cores.line != Line::M || !clean;
        check(dirty, Property::ModifiedMeansDirty)?;
        let mut kept = clean || home.buffer == Data::Fresh;
        kept |= cores.line == Line::M && cores.copy == Data::Fresh;
        for (a, wire) in wires.iter().enumerate() {
            self.check_wire(wire, home.state.filter, a, clean)?;
            kept |= keeps_dirty(wire);
        }
        check(kept, Property::DirtyDataKept)?;
        let idle = !home.state.is_busy();
        let for_cores = !idle && home.state.requester == CORES;
        let exact = for_cores == (cores.pending != Pending::Nothing);
        check(exact, Property::ExactResponses)?;
        let accepts = !idle || self.home_accepts(home.state);
        check(accepts, Property::AcceptsOperations)
    }

    fn check_wire(
        &self,
        wire: &Wire,
        filter: Filter,
        a: usize,
        clean: bool,
    ) -> Result<(), Property> {
        let line = wire.state.line;
        let exact = !line.is_stable() || wire.pending == Pending::Nothing;
        check(exact, Property::ExactResponses)?;
        let modified = matches!(line, Line::M | Line::MiA | Line::IoD) || wire.response == GO_M;
        // Data that a snoop took are in flight, and may have been written.
        let taken = wire.state.owes.is_some();
        check(!modified || taken || !clean, Property::ModifiedMeansDirty)?;
        let waits_for_go = matches!(line, Line::IsA | Line::ImA | Line::IxA);
        let has_data = wire.has_copy() == (wire.copy != Data::None)
            && waits_for_go == (wire.arrived != Data::None);
        check(has_data, Property::StateMatchesData)?;
        let shared = wire.response == Some(HostResponse::Go(GoState::Shared));
        let exclusive = wire.response == Some(HostResponse::Go(GoState::Exclusive));
        let evicted = wire.is_evicted();
        let owned = !taken
            && !evicted
            && (exclusive || wire.response == GO_M || may_write(line) || line == Line::EiA);
        let held = !evicted && (shared || owned || may_read(line));
        self.holds(filter, peer(a), held, owned)?;
        let all = |events: &[Event]| events.iter().all(|&event| self.takes(wire.state, event));
        let accepts = !wire.state.is_settled() || all(operations(line));
        check(accepts, Property::AcceptsOperations)
    }

    /// Checks that the directory names every holder of a copy.
    fn holds(&self, filter: Filter, peer: Peer, held: bool, owned: bool) -> Result<(), Property> {
        let included =
            (!held || filter.holders().contains(peer)) && (!owned || filter == Filter::Any(peer));
        check(included, Property::InclusiveDirectory)
    }
}

/// Whether a holder of the line may write it, now or when its data arrive.
fn may_write(line: Line) -> bool {
    matches!(
        line,
        Line::E | Line::M | Line::MiA | Line::IeD | Line::IoD | Line::ImD
    )
}

/// Whether a holder of the line may read but not write it, now or when its data arrive.
fn may_read(line: Line) -> bool {
    matches!(line, Line::S | Line::SmA | Line::IsD)
}

/// Whether the device, or a message in flight from or to it, has the current value and must not lose it.
fn keeps_dirty(wire: &Wire) -> bool {
    let line = wire.state.line;
    let cached = matches!(line, Line::M | Line::MiA) && wire.copy == Data::Fresh;
    let granted = wire.response == GO_M || matches!(line, Line::IoD | Line::ImD);
    let coming = granted && (wire.data == Data::Fresh || wire.arrived == Data::Fresh);
    cached
        || coming
        || wire.forwarded == Data::Fresh
        || matches!(wire.pulled, Some((pulled, Data::Fresh)) if pulled != Pulled::Bogus)
}

/// The operations that a settled line must accept.
fn operations(line: Line) -> &'static [Event] {
    const HELD: &[Event] = &[
        Event::EvictWithData,
        Event::EvictSilently,
        Event::Load,
        Event::Store,
        Event::StoreLine,
        Event::Push,
        Event::Evict,
    ];
    match line {
        Line::I => &[
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
        ],
        Line::M => &HELD[2..],
        Line::E => HELD,
        _ => &HELD[1..],
    }
}
