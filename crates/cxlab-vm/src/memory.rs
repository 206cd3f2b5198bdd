//! Interface to the scenario's memory, which gives the latency of each line.

/// Address of a line as one of the guests sees it, with the guest's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestLineAddr(u64);

impl GuestLineAddr {
    /// Bit that is set if the address is in the plan's CXL memory.
    pub(crate) const CXL: u64 = 1 << 63;
    /// First bit of the guest's number.
    const GUEST: u32 = 56;
    /// Bits of the line's address. Physical addresses have at most 52 bits.
    const ADDRESS: u64 = (1 << GuestLineAddr::GUEST) - 64;

    /// The line of a record of a guest's plugin.
    pub fn from_record(what: u64, guest: usize) -> GuestLineAddr {
        GuestLineAddr(
            what & (GuestLineAddr::CXL | GuestLineAddr::ADDRESS) | GuestLineAddr::of_guest(guest),
        )
    }

    /// A line of CXL memory as the first guest sees it, by its address in the plan.
    pub fn cxl(address: u64) -> GuestLineAddr {
        GuestLineAddr((address & GuestLineAddr::ADDRESS) | GuestLineAddr::CXL)
    }

    /// A line of the first guest's own memory.
    pub fn local(address: u64) -> GuestLineAddr {
        GuestLineAddr(address & GuestLineAddr::ADDRESS)
    }

    /// This line as another guest addresses it.
    pub fn at(self, guest: usize) -> GuestLineAddr {
        GuestLineAddr(
            self.0 & (GuestLineAddr::CXL | GuestLineAddr::ADDRESS) | GuestLineAddr::of_guest(guest),
        )
    }

    fn of_guest(guest: usize) -> u64 {
        (guest as u64 & 0x7f) << GuestLineAddr::GUEST
    }

    /// Number of the guest.
    pub fn guest(self) -> usize {
        (self.0 >> GuestLineAddr::GUEST & 0x7f) as usize
    }

    /// Whether the line is in CXL memory.
    pub fn is_cxl(self) -> bool {
        self.0 & GuestLineAddr::CXL != 0
    }

    /// Address in the plan, or in the guest's own memory.
    pub fn address(self) -> u64 {
        self.0 & GuestLineAddr::ADDRESS
    }

    /// The line that is `lines` lines away.
    pub fn neighbour(self, lines: i64) -> GuestLineAddr {
        let address = self.0.wrapping_add_signed(lines.wrapping_mul(64));
        GuestLineAddr(self.0 & !GuestLineAddr::ADDRESS | address & GuestLineAddr::ADDRESS)
    }
}

/// A line of memory that guests share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SharedLine {
    /// Number of the shared memory.
    pub memory: usize,
    /// Offset of the line in that memory, in bytes.
    pub offset: u64,
    /// Whether the device keeps the caches of guests coherent. Otherwise their software must.
    pub coherent: bool,
}

/// Request of a guest's caches for a line that the device keeps coherent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineRequest {
    /// Requests a copy for a load.
    Load,
    /// Requests ownership for a store.
    Own,
    /// Evicts the copy. A modified line is written back.
    Evict,
    /// Invalidates the line in all other caches. The guest's own copy must be evicted before.
    Flush,
}

/// Back-invalidation snoops that a guest received.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SnoopCounts {
    /// Number of snoops.
    pub snoops: u64,
    /// Number of the guest's copies that snoops invalidated.
    pub invalidated: u64,
    /// Number of modified lines that the guest wrote back because of snoops.
    pub written_back: u64,
}

/// Identifies a request in flight.
pub type Ticket = u32;

/// The error of a memory backend that never responds.
#[derive(Clone, PartialEq, Eq, thiserror::Error, Debug)]
#[error("the memory of `{0}` never answers")]
pub struct StuckBackend(
    /// Name of the pool.
    pub String,
);

/// Memory as processors behind their caches see it. Pool 0 of each guest is its own memory. The
/// other pools are devices, which all guests share.
///
/// Times are in picoseconds. Requests arrive in the order of their times. A request that is late,
/// because processors are out of step, counts as arriving now.
pub trait Memory: Send {
    /// Names of a guest's pools, by number.
    fn pools(&self, guest: usize) -> Vec<String>;
    /// Number of the pool that holds a line, as its guest numbers pools. `None` outside all memory.
    fn pool_of(&self, place: GuestLineAddr) -> Option<usize>;
    /// Requests a line that is in a pool. The response is returned once, by [`Memory::done`] or [`Memory::finish`].
    fn issue(&mut self, at_ps: u64, place: GuestLineAddr, write: bool) -> Ticket;
    /// Time of the next event.
    fn next_ps(&self) -> Option<u64>;
    /// Processes all events up to a time.
    fn advance(&mut self, to_ps: u64);
    /// Completion time of a request, once it is certain.
    fn known(&self, ticket: Ticket) -> Option<u64>;
    /// Completion time of a request that has completed by now. The call frees the ticket.
    fn done(&mut self, ticket: Ticket) -> Option<u64>;
    /// Advances time until a request completes, and frees the ticket. No other request may arrive at an earlier time.
    ///
    /// # Errors
    /// [`StuckBackend`] if a memory backend never responds.
    fn finish(&mut self, ticket: Ticket) -> Result<u64, StuckBackend>;

    /// Sizes of the memories that guests share, in bytes, by number.
    fn shared_sizes(&self) -> Vec<u64> {
        Vec::new()
    }
    /// The line in memory that guests share; `None` for a line of the guest's own.
    fn shared(&self, _place: GuestLineAddr) -> Option<SharedLine> {
        None
    }
    /// Performs the request of a guest's caches for a coherent line. Returns the request to the device and whether
    /// that request reads the line, or `None` if the state of the caches suffices. The effect on all caches is
    /// immediate. No other request of the line may be in flight.
    fn demand(
        &mut self,
        _at_ps: u64,
        _place: GuestLineAddr,
        _demand: LineRequest,
    ) -> Option<(Ticket, bool)> {
        None
    }
    /// Snoops that a guest received so far.
    fn snoops(&self, _guest: usize) -> SnoopCounts {
        SnoopCounts::default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Latency of every request.
    pub(crate) const LATENCY_PS: u64 = 100_000;

    /// A memory of 1 MiB for each guest, and a device. The device may have lines that guests share.
    #[derive(Default)]
    pub(crate) struct Fixed {
        pub(crate) now: u64,
        pub(crate) ends: Vec<u64>,
        /// Time and line of each request, and whether it writes.
        pub(crate) asked: Vec<(u64, u64, bool)>,
        /// Whether the device keeps the lines coherent that guests share. `None` if they share none.
        pub(crate) coherent: Option<bool>,
        /// Of a coherent line: who has the only copy, and whether it is modified.
        pub(crate) owners: BTreeMap<u64, (usize, bool)>,
    }

    impl Memory for Fixed {
        fn pools(&self, _: usize) -> Vec<String> {
            vec!["local".to_owned(), "cxl".to_owned()]
        }
        fn pool_of(&self, place: GuestLineAddr) -> Option<usize> {
            (place.address() < 1 << 20).then(|| usize::from(place.is_cxl()))
        }
        fn issue(&mut self, at_ps: u64, place: GuestLineAddr, write: bool) -> Ticket {
            self.asked.push((at_ps, place.address() / 64, write));
            self.ends.push(at_ps + LATENCY_PS);
            self.ends.len() as Ticket - 1
        }
        fn next_ps(&self) -> Option<u64> {
            None
        }
        fn advance(&mut self, to_ps: u64) {
            self.now = self.now.max(to_ps);
        }
        fn known(&self, ticket: Ticket) -> Option<u64> {
            Some(self.ends[ticket as usize])
        }
        fn done(&mut self, ticket: Ticket) -> Option<u64> {
            self.known(ticket).filter(|at| *at <= self.now)
        }
        fn finish(&mut self, ticket: Ticket) -> Result<u64, StuckBackend> {
            let end = self.ends[ticket as usize];
            self.advance(end);
            Ok(end)
        }
        fn shared(&self, place: GuestLineAddr) -> Option<SharedLine> {
            let coherent = self.coherent.filter(|_| place.is_cxl())?;
            Some(SharedLine {
                memory: 0,
                offset: place.address(),
                coherent,
            })
        }
        fn demand(
            &mut self,
            at_ps: u64,
            place: GuestLineAddr,
            demand: LineRequest,
        ) -> Option<(Ticket, bool)> {
            let line = place.address();
            let held = self.owners.get(&line).copied();
            let mine = held.is_some_and(|(owner, _)| owner == place.guest());
            match demand {
                LineRequest::Load | LineRequest::Own if mine => {
                    let dirty = demand == LineRequest::Own || held.is_some_and(|(_, dirty)| dirty);
                    self.owners.insert(line, (place.guest(), dirty));
                    return None;
                }
                LineRequest::Load | LineRequest::Own => {
                    self.owners
                        .insert(line, (place.guest(), demand == LineRequest::Own));
                }
                LineRequest::Evict if !mine => return None,
                LineRequest::Evict | LineRequest::Flush => {
                    self.owners.remove(&line);
                }
            }
            Some((self.issue(at_ps, place, false), true))
        }
    }
}
