//! What all components that issue requests share, on the host and on the device: request accounting, links, and the
//! requester's view of the address space. Passive: the owning component handles all events.

mod access;
mod address_map;
mod audit;
mod hw_threads;
mod io;
mod ledger;
mod overtaking;
mod poison;
mod request_agent;
mod root_ports;
mod shared;
mod slab;
mod stats;
mod steps;
mod waiting;

pub use access::{Access, AccessKind, AccessOutcome, AccessResponse, ThreadAction};
pub use address_map::{AddressMap, AddressWindow};
pub use audit::{LineVersions, VersionAudit};
pub use hw_threads::{HwThreads, HwThreadsConfig, ThreadPhase};
pub use io::{
    AtsCompletion, AtsKind, AtsMessage, MACHINE_CHECK, PROCESS_ENDS, interrupt_address,
    interrupt_at, line_read_once, register_address, register_at, snooped_line_address, staging,
};
pub use ledger::RequestLedger;
pub use overtaking::{OvertakingCounter, WaitTicket};
pub use poison::PoisonedLines;
pub use request_agent::{FailureHandling, RequestAgent};
pub use root_ports::RootPorts;
pub use shared::{DeviceSharedMemory, HostSharedMemory, SharedMemory};
pub use slab::Slab;
pub use stats::{
    CACHE, COHERENCE, CREDITS, DEVICE_QUEUE, Failure, HOST_QUEUE, HopStats, LOCAL, MEDIA,
    MEDIA_QUEUE, PROCESS, QUEUES, RequestRow, RequesterStats, STAGE_NAMES, SWITCH_QUEUE,
    StageTimes, UnservedRequests, stages_of,
};
pub use steps::ThreadProgram;
pub use waiting::{WaitingAccess, WaitingAccesses};
