//! What every component that issues requests shares, on the host's side and on the device's: the
//! books of its requests, its links, and its view of the address space. Passive.

mod address_map;
mod audit;
mod io;
mod lanes;
mod ledger;
mod root_ports;
mod stats;

pub use address_map::{AddressMap, Window};
pub use audit::{Audit, Versions};
pub use io::{interrupt_address, interrupt_at, register_address, register_at, staging};
pub use lanes::{Access, AccessKind, Answer, Lanes, LanesConfig, ThreadPhase, Turn};
pub use ledger::Ledger;
pub use root_ports::RootPorts;
pub use stats::{
    CACHE, HopStats, LOCAL, MEDIA, PROCESS, QUEUE, RequestRow, RequesterStats, STAGE_NAMES, Stages,
    stages_of,
};
