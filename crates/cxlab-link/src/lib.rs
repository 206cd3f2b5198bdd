//! Link endpoints: the passive parts that every component with a port owns. They cover rate, flit and
//! packet transmission, credit-based flow control, and error injection with link-level retry.
//!
//! # What is modelled
//! A link has two directions that share nothing but, when half duplex, a bus (in the fabric crate).
//! The transmitter packs messages into flits with the real slot rules ([`cxlab_protocol::flit`]), or
//! sends them as packets with a header of configurable size. The receiver's buffers are counted by
//! message class and virtual channel, in messages. A credit travels back in the header of the next
//! message in the other direction. When a quarter of a window has gathered, the credits go back
//! without a message. A window covers a link's credits and the messages in the pipelines of the
//! components at its ends ([`LinkParams::windows`]).
//!
//! # What is left out
//! Explicit credit returns take time but no slots. Link training, lane margining, L-states and encryption
//! (IDE) are not modelled. A flit begins when there is something to send, not on a free-running boundary.
//!
//! # Invariants
//! Credits are conserved: the transmitter's credits, messages in flight or buffered, and credits on their
//! way back sum to the window. A transmitter never sends without a credit. A message's time of arrival is
//! final when the message is sent.

mod credit;
mod errors;
mod flits;
mod lost;
mod outbox;
mod params;
mod parcel;
mod port;
#[cfg(test)]
mod tests;
mod timeline;
mod transmitter;
mod waits;

pub use credit::{BUFFERS, BufferId, CreditTable, CreditWindows, MAX_VCS, MOST_CREDITS};
pub use lost::LostMessages;
pub use outbox::Outbox;
pub use params::{Duplex, LinkParams, LinkPreset, PacketHeader, PcieGeneration, Transmission};
pub use parcel::{Credits, Parcel};
pub use port::{LinkPort, PortConfig};
pub use timeline::Departure;
pub use transmitter::{Blocked, DirectionStats, Transmitter};
pub use waits::{PortWaits, WaitTimes};
