//! CXL devices. So far: the Type 3 memory expander with host-managed coherence (HDM-H).

mod memory_device;

pub use memory_device::{DeviceConfig, DeviceParams, DeviceStats, MemoryDevice};
