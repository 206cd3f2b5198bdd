//! Which access waits for which: arbitration for a line at a device, and the queue of a line at the home.

use cxlab_protocol::coherence::line_arbitration::{LineArbitration, LineWinner};

use super::{Model, Move, Moves, Property, Wire, World};
use crate::checker::check;

/// The arbitration rules of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// The side that gets a device's line after a read-modify-write.
    pub arbitration: LineArbitration,
    /// Whether the home serves the requests of a line in the order of their arrival, or in any order.
    pub in_order: bool,
}

impl Model {
    /// Whether an operation of the device may begin. While a snoop waits, the operation may begin
    /// only if arbitration prefers the device to the snoop.
    pub(super) fn may_begin_local(&self, wire: &Wire) -> bool {
        match self.config.waits {
            Some(waits) => {
                !wire.kept && waits.arbitration.next(wire.parked, true) == Some(LineWinner::Device)
            }
            None => true,
        }
    }

    /// Whether the home may begin a request. With [`Waits::in_order`] only the request that arrived first may begin.
    pub(super) fn may_begin_request(&self, world: &World, a: usize, l: usize) -> bool {
        let place = world.wires[l][a].place;
        match self.config.waits {
            Some(Waits { in_order: true, .. }) => place == 1,
            Some(_) => place > 0,
            None => true,
        }
    }

    /// The home begins a request, and the other queued requests wait for it.
    pub(super) fn takes_turn(&self, world: &mut World, a: usize, l: usize) -> Result<(), Property> {
        let wires = &mut world.wires[l][..self.config.devices];
        let place = std::mem::take(&mut wires[a].place);
        wires[a].passed = 0;
        for wire in wires.iter_mut().filter(|wire| wire.place > 0) {
            wire.place -= u8::from(wire.place > place);
            wire.passed += 1;
            let others = self.config.devices - 1;
            check(usize::from(wire.passed) <= others, Property::BoundedWaiting)?;
        }
        Ok(())
    }

    /// The moves around a locked line: a read-modify-write ends, a snoop begins to wait, or a request is queued.
    pub(super) fn waiting_moves(&self, world: &World, a: usize, l: usize, out: &mut Moves) {
        if self.config.waits.is_none() {
            return;
        }
        let wire = &world.wires[l][a];
        if wire.kept {
            let mut next = *world;
            next.wires[l][a].kept = false;
            out.push((Move::Unlock(a, l), Ok(next)));
        }
        if wire.kept && wire.snoop.is_some() && !wire.behind && !wire.parked {
            let mut next = *world;
            next.wires[l][a].parked = true;
            out.push((Move::SnoopWaits(a, l), Ok(next)));
        }
        if wire.request.is_some() && wire.place == 0 {
            let mut next = *world;
            let wires = &mut next.wires[l];
            let last = wires.iter().map(|wire| wire.place).max();
            wires[a].place = last.unwrap_or(0) + 1;
            out.push((Move::Arrive(a, l), Ok(next)));
        }
    }
}
