//! A plan's memory as the guests' misses meet it.

use cxlab_system::analytic::{GuestLine, PlanMemory};
use cxlab_vm::memory::{Memory, Place, Stuck, Ticket};

/// The analytic form's stages and stations, and the media themselves, behind the seam of `cxlab-vm`.
pub struct GuestMemory(pub PlanMemory);

fn line(place: Place) -> GuestLine {
    GuestLine {
        guest: place.guest(),
        is_cxl: place.is_cxl(),
        address: place.address(),
    }
}

impl Memory for GuestMemory {
    fn pools(&self, guest: usize) -> Vec<String> {
        self.0.pools(guest)
    }

    fn pool_of(&self, place: Place) -> Option<usize> {
        self.0.pool_of(line(place))
    }

    fn issue(&mut self, at_ps: u64, place: Place, write: bool) -> Ticket {
        self.0.issue(at_ps, line(place), write)
    }

    fn next_ps(&self) -> Option<u64> {
        self.0.next_ps()
    }

    fn advance(&mut self, to_ps: u64) {
        self.0.advance(to_ps);
    }

    fn known(&self, ticket: Ticket) -> Option<u64> {
        self.0.known(ticket)
    }

    fn done(&mut self, ticket: Ticket) -> Option<u64> {
        self.0.done(ticket)
    }

    fn finish(&mut self, ticket: Ticket) -> Result<u64, Stuck> {
        self.0.finish(ticket).map_err(Stuck)
    }
}
