//! Parameters of a DMA engine.

use cxlab_engine::catalog::ParamError;
use cxlab_engine::units::Picos;
use cxlab_protocol::io::segment::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of a DMA engine. Costs are in cycles of the device's clock, so that a faster device
/// follows by its period alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DmaParams {
    /// Period of the device's clock. More than 0. Default 2.5 ns (400 MHz, Cohet, section VI-A2).
    pub period: Picos,
    /// Bytes that the datapath moves in a cycle, each way. 1 to 4096. Default 64 (25.6 GB/s at 400
    /// MHz; Cohet, figure 15).
    #[schemars(range(min = 1, max = 4096))]
    pub width: u32,
    /// Cycles of the datapath that a packet takes besides those of its data. 0 to 64. Default 0: headers
    /// travel beside the data.
    #[schemars(range(min = 0, max = 64))]
    pub packet_cycles: u32,
    /// Cycles from a descriptor's arrival in the engine to its first request. One descriptor at a
    /// time. Default 100 (*assumed*; to be calibrated).
    pub setup_cycles: u32,
    /// Cycles from the last data to the notice that a descriptor is done. Default 10 (*assumed*).
    pub completion_cycles: u32,
    /// Bytes of a descriptor that the engine reads from host memory before its setup; 0: software
    /// writes it to the engine. 0 to 4096. Default 32 (*assumed*: as in Intel's and Xilinx's
    /// engines).
    #[schemars(range(min = 0, max = 4096))]
    pub descriptor_bytes: u32,
    /// Bytes that the engine writes to host memory when a descriptor is done; 0: none. 0 to 4096.
    /// Default 4 (*assumed*).
    #[schemars(range(min = 0, max = 4096))]
    pub status_bytes: u32,
    /// Descriptors at work at once; 1: each waits until the one before is done. 1 to 1024.
    /// Default 8 (*assumed*).
    #[schemars(range(min = 1, max = 1024))]
    pub outstanding: u32,
    /// Descriptors that the ring holds, with those at work. 1 to 65536. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 65_536))]
    pub ring: u32,
    /// Reads under way at once. 1 to 768 (PCIe 5.0, section 2.2.6.2: tags of 10 bits). Default 64
    /// (*assumed*).
    #[schemars(range(min = 1, max = 768))]
    pub tags: u32,
    /// Max_Payload_Size in bytes: 128 to 4096. Default 256.
    pub max_payload: u32,
    /// Max_Read_Request_Size in bytes: 128 to 4096. Default 512.
    pub max_read_request: u32,
}

impl Default for DmaParams {
    fn default() -> Self {
        let limits = Limits::default();
        DmaParams {
            period: Picos(2_500),
            width: 64,
            packet_cycles: 0,
            setup_cycles: 100,
            completion_cycles: 10,
            descriptor_bytes: 32,
            status_bytes: 4,
            outstanding: 8,
            ring: 64,
            tags: 64,
            max_payload: limits.max_payload,
            max_read_request: limits.max_read_request,
        }
    }
}

fn within(field: &str, value: u32, least: u32, most: u32) -> Result<(), ParamError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let text = format!("must lie between {least} and {most}");
    Err(ParamError::new(field, text))
}

impl DmaParams {
    /// How transfers are divided.
    pub fn limits(&self) -> Limits {
        Limits {
            max_payload: self.max_payload,
            max_read_request: self.max_read_request,
            completion_chunk: self.max_payload,
        }
    }

    /// Whether an engine can be built so.
    ///
    /// # Errors
    /// The parameter that is out of range.
    pub fn check(&self) -> Result<(), ParamError> {
        if self.period == Picos::ZERO {
            return Err(ParamError::new("period", "must be more than 0 ps"));
        }
        within("width", self.width, 1, 4096)?;
        within("packet_cycles", self.packet_cycles, 0, 64)?;
        within("descriptor_bytes", self.descriptor_bytes, 0, 4096)?;
        within("status_bytes", self.status_bytes, 0, 4096)?;
        within("outstanding", self.outstanding, 1, 1024)?;
        within("ring", self.ring, 1, 65_536)?;
        within("tags", self.tags, 1, 768)?;
        let sizes = self.limits().check();
        sizes.map_err(|error| ParamError::new(error.field, error.to_string()))
    }

    pub(super) fn cycles(&self, cycles: u64) -> Picos {
        Picos(self.period.0 * cycles)
    }

    /// Cycles that the datapath takes for a packet with so many bytes; at least one.
    pub(super) fn beats(&self, bytes: u64) -> u64 {
        let data = bytes.div_ceil(self.width.into());
        (data + u64::from(self.packet_cycles)).max(1)
    }
}
