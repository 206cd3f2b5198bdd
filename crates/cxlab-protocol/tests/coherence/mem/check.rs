//! The properties that concern a single state.

use cxlab_protocol::coherence::dcoh::{self, Filter, Phase};
use cxlab_protocol::coherence::message::S2m;
use cxlab_protocol::coherence::requester::{Event, Line};

use super::{Model, Pending, Property, Wire, World};
use crate::checker::{Data, check, peer};

impl Model {
    /// Checks the properties that concern a single state.
    pub fn check(&self, world: &World) -> Result<(), Property> {
        for l in 0..self.config.lines {
            self.check_line(world, l)?;
        }
        check(
            self.entries_used(world) <= self.config.entries,
            Property::FilterCapacity,
        )
    }

    pub(super) fn check_line(&self, world: &World, l: usize) -> Result<(), Property> {
        let home = &world.home[l];
        let wires = &world.wires[l][..self.config.agents];
        let writers = wires
            .iter()
            .filter(|w| matches!(w.state.line, Line::E | Line::M | Line::MeA))
            .count();
        let holders = wires.iter().filter(|w| w.has_copy()).count();
        check(
            writers == 0 || (writers == 1 && holders == 1),
            Property::SingleWriter,
        )?;
        let mut kept = home.medium == Data::Fresh;
        for (a, wire) in wires.iter().enumerate() {
            let line = wire.state.line;
            check(
                !line.is_stable() || wire.pending == Pending::Nothing,
                Property::ExactResponses,
            )?;
            check(
                line != Line::M || home.medium != Data::Fresh,
                Property::ModifiedMeansDirty,
            )?;
            let data_held = matches!(line, Line::IsA | Line::ImA | Line::IcA);
            check(
                wire.has_copy() == (wire.copy != Data::None)
                    && data_held == (wire.arrived != Data::None),
                Property::StateMatchesData,
            )?;
            let granted = matches!(wire.completion, Some(S2m::CmpS | S2m::CmpE | S2m::CmpM));
            let owned = matches!(wire.completion, Some(S2m::CmpE | S2m::CmpM))
                || matches!(line, Line::E | Line::M | Line::ED | Line::MD | Line::MeA);
            let holds = granted || owned || wire.has_copy() || matches!(line, Line::SD);
            let peer = peer(a);
            check(
                (!holds || home.state.filter.holders().contains(peer))
                    && (!owned || home.state.filter == Filter::Any(peer)),
                Property::InclusiveFilter,
            )?;
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
            check(
                asker.pending != Pending::Store || takes(dcoh::Event::MediumDirty),
                Property::AcceptsOperations,
            )?;
        }
        if !home.state.is_busy() {
            check(home.pending == Pending::Nothing, Property::ExactResponses)?;
            let held = home.state.filter != Filter::Invalid;
            check(
                (!held || takes(dcoh::Event::EvictEntry))
                    && takes(dcoh::Event::LocalRead)
                    && takes(dcoh::Event::LocalWrite),
                Property::AcceptsOperations,
            )?;
        }
        Ok(())
    }

    pub(super) fn check_operations(&self, wire: &Wire) -> Result<(), Property> {
        if !wire.state.is_settled() {
            return Ok(());
        }
        let wanted: &[Event] = match wire.state.line {
            Line::I => &[
                Event::Load,
                Event::LoadShared,
                Event::LoadOnce,
                Event::Store,
                Event::Flush,
            ],
            Line::M => &[Event::Load, Event::Store, Event::Evict],
            _ => &[
                Event::Load,
                Event::Store,
                Event::Evict,
                Event::EvictSilently,
            ],
        };
        let all = wanted
            .iter()
            .all(|&event| matches!(self.requester(wire.state, event), Ok(Some(_))));
        check(all, Property::AcceptsOperations)
    }
}
