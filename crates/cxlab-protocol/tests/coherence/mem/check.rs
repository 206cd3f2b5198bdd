//! The properties that concern a single state.

use cxlab_protocol::coherence::dcoh::{self, Filter, Phase};
use cxlab_protocol::coherence::message::S2m;
use cxlab_protocol::coherence::requester::{Event, Line};

use super::{Model, Pending, Property, Wire, World};
use crate::checker::{Data, check, peer};

impl Model {
    /// Checks the properties that concern a single state.
    pub fn check(&self, world: &World) -> Result<(), Property> {
        (0..self.config.lines).try_for_each(|l| self.check_line(world, l))?;
        let fits = self.entries_used(world) <= self.config.entries;
        check(fits, Property::FilterCapacity)
    }

    pub(super) fn check_line(&self, world: &World, l: usize) -> Result<(), Property> {
        let home = &world.home[l];
        let wires = &world.wires[l][..self.config.agents];
        let writes = |w: &&Wire| matches!(w.state.line, Line::E | Line::M | Line::MeA);
        let writers = wires.iter().filter(writes).count();
        let holders = wires.iter().filter(|w| w.has_copy()).count();
        let single = writers == 0 || (writers == 1 && holders == 1);
        check(single, Property::SingleWriter)?;
        let clean = home.medium == Data::Fresh;
        let mut kept = clean;
        for (a, wire) in wires.iter().enumerate() {
            let line = wire.state.line;
            let waits = wire.pending != Pending::Nothing;
            check(!line.is_stable() || !waits, Property::ExactResponses)?;
            check(line != Line::M || !clean, Property::ModifiedMeansDirty)?;
            let data_held = matches!(line, Line::IsA | Line::ImA | Line::IcA);
            let has_data = wire.has_copy() == (wire.copy != Data::None)
                && data_held == (wire.arrived != Data::None);
            check(has_data, Property::StateMatchesData)?;
            let granted = matches!(wire.completion, Some(S2m::CmpS | S2m::CmpE | S2m::CmpM));
            let owned = matches!(wire.completion, Some(S2m::CmpE | S2m::CmpM))
                || matches!(line, Line::E | Line::M | Line::ED | Line::MD | Line::MeA);
            let holds = granted || owned || wire.has_copy() || line == Line::SD;
            let (peer, filter) = (peer(a), home.state.filter);
            let included = (!holds || filter.holders().contains(peer))
                && (!owned || filter == Filter::Any(peer));
            check(included, Property::InclusiveFilter)?;
            kept |= matches!(wire.write, Some((_, Data::Fresh)));
            kept |= line == Line::M && wire.copy == Data::Fresh;
            kept |= matches!(line, Line::ImAD | Line::ImA | Line::MD)
                && (wire.data == Data::Fresh || wire.arrived == Data::Fresh);
            self.check_operations(wire)?;
        }
        check(kept, Property::DirtyDataKept)?;
        let takes = |event| matches!(self.dcoh(home.state, event), Ok(Some(_)));
        if matches!(home.state.phase, Phase::Reading(_)) && home.pending == Pending::Nothing {
            let asker = &wires[home.state.requester.index()];
            let taken = asker.pending != Pending::Store || takes(dcoh::Event::MediumDirty);
            check(taken, Property::AcceptsOperations)?;
        }
        if !home.state.is_busy() {
            check(home.pending == Pending::Nothing, Property::ExactResponses)?;
            let held = home.state.filter != Filter::Invalid;
            let accepts = (!held || takes(dcoh::Event::EvictEntry))
                && takes(dcoh::Event::LocalRead)
                && takes(dcoh::Event::LocalWrite);
            check(accepts, Property::AcceptsOperations)?;
        }
        Ok(())
    }

    pub(super) fn check_operations(&self, wire: &Wire) -> Result<(), Property> {
        if !wire.state.is_settled() {
            return Ok(());
        }
        const HELD: &[Event] = &[
            Event::EvictSilently,
            Event::Load,
            Event::Store,
            Event::Evict,
        ];
        let wanted = match wire.state.line {
            Line::I => &[
                Event::Load,
                Event::LoadShared,
                Event::LoadOnce,
                Event::Store,
                Event::Flush,
            ],
            Line::M => &HELD[1..],
            _ => HELD,
        };
        let all = wanted
            .iter()
            .all(|&event| matches!(self.requester(wire.state, event), Ok(Some(_))));
        check(all, Property::AcceptsOperations)
    }
}
