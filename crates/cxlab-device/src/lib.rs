//! CXL devices: Type 3 memory whose host keeps it coherent (HDM-H), Type 3 memory that the device
//! keeps coherent by back-invalidation (HDM-DB), and accelerators: Type 1 and Type 2.

mod accelerator;
mod capacity;
mod coherent_device;
mod controller;
mod media_errors;
mod memory_device;
mod qos;
mod speculation;
mod waits;

pub use accelerator::{
    Accelerator, AcceleratorConfig, AcceleratorKind, AcceleratorParams, AttachedMemoryClass,
    AttachedMemoryConfig, DmaParams, DmcParams, HmcParams, LinePrefetchChoice, MOST_CYCLES,
    MOST_PASSED_FLIPS,
};
pub use capacity::{CapacityChange, CapacityEvent, DeviceChange, DeviceChangeKind};
pub use coherent_device::{
    CoherentConfig, CoherentDevice, CoherentError, DcohStats, SnoopFilterParams, WaitLogEntry,
    WaitsFor,
};
pub use controller::{ControllerPreset, DeviceParams, DeviceStats, WriteCompletion};
pub use media_errors::{MediaErrorParams, MediaErrorStats};
pub use memory_device::{DeviceConfig, MemoryDevice};
pub use qos::{HostShare, LoadThresholds, QosConfig, QosParams, ShareParams};
pub use waits::DeviceWaits;
