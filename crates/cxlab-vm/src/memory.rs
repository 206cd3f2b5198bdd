//! What memory costs: the seam to the scenario.

/// Where a line lies, as one of the guests sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Set where the address is one of the plan's CXL memory.
    const CXL: u64 = 1 << 63;
    /// Where the guest's number is.
    const GUEST: u32 = 56;
    /// Physical addresses have at most 52 bits.
    const ADDRESS: u64 = (1 << Place::GUEST) - 64;

    /// From a record of a guest's plugin.
    pub fn from_record(what: u64, guest: usize) -> Place {
        Place(what & (Place::CXL | Place::ADDRESS) | Place::of_guest(guest))
    }

    /// A line of the first guest's CXL memory, by its address in the plan.
    pub fn cxl(address: u64) -> Place {
        Place((address & Place::ADDRESS) | Place::CXL)
    }

    /// A line of the first guest's own memory.
    pub fn local(address: u64) -> Place {
        Place(address & Place::ADDRESS)
    }

    /// The same for another guest.
    pub fn at(self, guest: usize) -> Place {
        Place(self.0 & (Place::CXL | Place::ADDRESS) | Place::of_guest(guest))
    }

    fn of_guest(guest: usize) -> u64 {
        (guest as u64 & 0x7f) << Place::GUEST
    }

    /// Whose it is.
    pub fn guest(self) -> usize {
        (self.0 >> Place::GUEST & 0x7f) as usize
    }

    /// Whether it is in CXL memory.
    pub fn is_cxl(self) -> bool {
        self.0 & Place::CXL != 0
    }

    /// Its address in the plan, or in the guest's own memory.
    pub fn address(self) -> u64 {
        self.0 & Place::ADDRESS
    }

    /// The line so many lines away.
    pub fn neighbour(self, lines: i64) -> Place {
        let address = self.0.wrapping_add_signed(lines.wrapping_mul(64));
        Place(self.0 & !Place::ADDRESS | address & Place::ADDRESS)
    }
}

/// A request under way.
pub type Ticket = u32;

/// A medium never answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck(
    /// Of which pool.
    pub String,
);

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the memory of `{}` never answers", self.0)
    }
}

impl std::error::Error for Stuck {}

/// Memory, as processors behind their caches see it. Of each guest, pool 0 is its own; others are
/// devices, which are the same for all guests.
///
/// Times are picoseconds. Requests come in the order of their times; those that come late, by what
/// processors are out of step, are taken to come now.
pub trait Memory: Send {
    /// The names of a guest's pools.
    fn pools(&self, guest: usize) -> Vec<String>;
    /// The pool of a line, by its guest's numbers; `None` outside all memory.
    fn pool_of(&self, place: Place) -> Option<usize>;
    /// Asks for a line, which lies in a pool. The answer is told once, by [`Memory::done`] or
    /// [`Memory::finish`].
    fn issue(&mut self, at_ps: u64, place: Place, write: bool) -> Ticket;
    /// When something happens next by itself.
    fn next_ps(&self) -> Option<u64>;
    /// Brings everything up to a time.
    fn advance(&mut self, to_ps: u64);
    /// When a request is done, once that is certain.
    fn known(&self, ticket: Ticket) -> Option<u64>;
    /// When a request was done, if that is past by now; the ticket is then free.
    fn done(&mut self, ticket: Ticket) -> Option<u64>;
    /// Lets time go on where the request is until it is done; the ticket is then free. Nothing else may
    /// come before that.
    ///
    /// # Errors
    /// A medium that never answers.
    fn finish(&mut self, ticket: Ticket) -> Result<u64, Stuck>;
}
