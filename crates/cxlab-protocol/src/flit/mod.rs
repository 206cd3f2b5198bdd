//! What a link transmitter puts into flits: slot formats, message limits, rollover of data.
//!
//! Modelled: the slots of CXL.mem and CXL.cache in 68-byte flits (CXL 3.1, sections 4.2.2 to
//! 4.2.5), in standard and in latency-optimised 256-byte flits (sections 4.3.2 to 4.3.4), with the
//! maximum number of messages of each class. There is no time: [`FlitPacker`] counts flits, and the
//! link gives them a duration.
//!
//! Left out: CXL.io, extended metadata, half-line transfers of 68-byte flits, control flits, and
//! credits, which have their own field in the flit and take no slot. `docs/explain/flit-packing.md`
//! has the sources of every rule, the derivation of [`efficiency()`] and this list in full.
//!
//! Invariants: data take the first free slots that can hold data, in the order of their headers, so
//! the placement that [`FlitPacker::place`] returns for a message cannot change later.

mod efficiency;
mod format;
mod open;
mod packer;

pub use efficiency::{DirectionEfficiency, Efficiency, efficiency};
pub use format::FlitFormat;
pub use open::OpenFlit;
pub use packer::{FlitCounters, FlitPacker, FlitPosition};
