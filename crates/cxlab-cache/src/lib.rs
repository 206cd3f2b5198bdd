//! What caches of any kind are made of: tag arrays with their victim policies, prefetchers, and the
//! interface of the memory behind them. Hosts, devices and media use the crate; it knows addresses and
//! time, but no messages.

pub mod backend;
pub mod prefetch;
mod resident;
pub mod tag_array;
pub mod victim;

pub use backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
pub use resident::{Geometry, GeometryError, LineBlock, Slot};
pub use tag_array::{FillResult, SetRoom, TagArray};
pub use victim::VictimPolicy;
