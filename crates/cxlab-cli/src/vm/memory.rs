//! A plan's memory as the guests' misses meet it.

use cxlab_protocol::coherence::requester::{Event, Line};
use cxlab_system::analytic::{GuestLine, PlanMemory};
use cxlab_vm::memory::{
    GuestLineAddr, LineRequest, Memory, SharedLine, SnoopCounts, StuckBackend, Ticket,
};

/// The analytic form's stages and stations with real memory backends, as a [`Memory`] of `cxlab-vm`.
pub struct GuestMemory(pub PlanMemory);

fn line(place: GuestLineAddr) -> GuestLine {
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

    fn pool_of(&self, place: GuestLineAddr) -> Option<usize> {
        self.0.pool_of(line(place))
    }

    fn issue(&mut self, at_ps: u64, place: GuestLineAddr, write: bool) -> Ticket {
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

    fn finish(&mut self, ticket: Ticket) -> Result<u64, StuckBackend> {
        self.0.finish(ticket).map_err(StuckBackend)
    }

    fn shared_sizes(&self) -> Vec<u64> {
        let regions = self.0.shared_regions().iter();
        regions.map(|region| region.size).collect()
    }

    fn shared(&self, place: GuestLineAddr) -> Option<SharedLine> {
        let found = self.0.shared(line(place))?;
        Some(SharedLine {
            memory: found.memory,
            offset: found.offset,
            coherent: found.coherent,
        })
    }

    fn demand(
        &mut self,
        at_ps: u64,
        place: GuestLineAddr,
        demand: LineRequest,
    ) -> Option<(Ticket, bool)> {
        let line = line(place);
        let held = self.0.held(line);
        let event = match (demand, held) {
            (LineRequest::Load, _) => Event::Load,
            (LineRequest::Own, _) => Event::Store,
            (LineRequest::Evict, Line::I) => return None,
            (LineRequest::Evict, Line::M) => Event::Evict,
            (LineRequest::Evict, _) => Event::EvictSilently,
            (LineRequest::Flush, _) => Event::Flush,
        };
        let reads = held == Line::I && matches!(demand, LineRequest::Load | LineRequest::Own);
        let ticket = self.0.demand(at_ps, line, event)?;
        Some((ticket, reads))
    }

    fn snoops(&self, guest: usize) -> SnoopCounts {
        let counts = self.0.snoop_counts(guest);
        SnoopCounts {
            snoops: counts.snoops,
            invalidated: counts.invalidated,
            written_back: counts.written_back,
        }
    }
}
