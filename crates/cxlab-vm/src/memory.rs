//! What memory costs: the seam to the scenario.

/// Where a line lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Set where the address is one of the plan's CXL memory.
    const CXL: u64 = 1 << 63;

    /// From a record of the plugin.
    pub fn from_record(what: u64) -> Place {
        Place(what & !63)
    }

    /// A line of CXL memory, by its address in the plan.
    pub fn cxl(address: u64) -> Place {
        Place((address & !63) | Place::CXL)
    }

    /// A line of the guest's own memory.
    pub fn local(address: u64) -> Place {
        Place(address & !63 & !Place::CXL)
    }

    /// Whether it is in CXL memory.
    pub fn is_cxl(self) -> bool {
        self.0 & Place::CXL != 0
    }

    /// Its address in the plan, or in the guest's own memory.
    pub fn address(self) -> u64 {
        self.0 & !Place::CXL
    }

    /// The line so many lines away.
    pub fn neighbour(self, lines: i64) -> Place {
        Place(self.0.wrapping_add_signed(lines.wrapping_mul(64)))
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

/// Memory, as a processor behind its caches sees it. Pool 0 is its own; others are devices.
///
/// Times are picoseconds. Requests of one processor come in the order of their times; those of
/// several may come late by what they are out of step, and are then taken to come now.
pub trait Memory: Send {
    /// The pools' names.
    fn pools(&self) -> Vec<String>;
    /// The pool of a line; `None` outside all memory.
    fn pool_of(&self, place: Place) -> Option<usize>;
    /// Asks for a line, which lies in a pool. The answer is told once, by [`Memory::done`] or
    /// [`Memory::finish`].
    fn issue(&mut self, at_ps: u64, place: Place, write: bool) -> Ticket;
    /// Brings everything up to a time.
    fn advance(&mut self, to_ps: u64);
    /// When a request was done, if that is known by now; the ticket is then free.
    fn done(&mut self, ticket: Ticket) -> Option<u64>;
    /// Lets time go on where the request is until it is done; the ticket is then free.
    ///
    /// # Errors
    /// A medium that never answers.
    fn finish(&mut self, ticket: Ticket) -> Result<u64, Stuck>;
    /// No read takes less than this.
    fn least_ps(&self) -> u64;
}
