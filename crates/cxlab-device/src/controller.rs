//! Parameters and counters that the controllers of all memory devices have.

use cxlab_cache::MemoryRequest;
use cxlab_engine::catalog::Part;
use cxlab_engine::units::{Dpa, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Parts that a controller may be. Whole devices are parts of `devices[]`.
static PARTS: &[Part] = &[Part {
    name: "esf",
    summary: "The controller of ESF: a process time of 40 ns.",
    source: "Table III of the paper.",
    validated: "Compared with the paper's figures (`cxlab reproduce esf`).",
    keys: || json!({ "process_time": "40 ns" }),
}];

cxlab_engine::preset! {
    /// A controller with a name.
    ControllerPreset, PARTS
}

/// A request of one line to the medium, under the number `id`.
#[inline]
pub(crate) const fn line_request(id: u32, dpa: Dpa, write: bool) -> MemoryRequest {
    MemoryRequest {
        id,
        dpa,
        lines: 1,
        write,
    }
}

/// When a device sends the completion of a write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCompletion {
    /// When the medium has accepted the write. Every later read returns its data.
    #[default]
    Accepted,
    /// When the medium has finished the write.
    Written,
}

/// User parameters of a device's controller.
// `remote`: the derived code reads and writes all fields; `with_preset` resolves presets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct DeviceParams {
    /// A part whose values become the defaults. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<ControllerPreset>,
    /// Time of a request and its response in the controller, without port and medium. Default 25
    /// ns: Meta's Vistara takes about 50 ns from its pins and back without the medium (ISCA 2026,
    /// section III-A), of which its port has 25.
    pub process_time: Picos,
    /// Maximum number of requests in the device, from acceptance by the medium until their response
    /// has left. 1 to
    /// 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub contexts: u32,
    /// When a write is complete (`Cmp`). Default when the medium accepts the write: the
    /// specification recommends 40 ns from a write to its `Cmp`, where a read takes 80 (CXL 3.1
    /// table 13-2), so the device does not wait for the medium. A device that manages the coherence
    /// of its memory (`hdm-db`) always completes writes on acceptance.
    pub write_completion: WriteCompletion,
}

cxlab_engine::with_preset!(DeviceParams, ControllerPreset);

impl Default for DeviceParams {
    fn default() -> Self {
        DeviceParams {
            preset: None,
            process_time: Picos::from_nanos(25),
            contexts: 256,
            write_completion: WriteCompletion::default(),
        }
    }
}

/// Counters of a device, from the beginning of measurement except those marked *ever*.
#[derive(Clone, Copy, Default, Serialize, Deserialize, Debug)]
pub struct DeviceStats {
    /// Number of lines read.
    pub reads: u64,
    /// Number of lines written, including dropped writes.
    pub writes: u64,
    /// Reads that the device denied.
    pub denied_reads: u64,
    /// Writes that the device denied.
    pub denied_writes: u64,
    /// Lines read before their request arrived, for `MemSpecRd`.
    pub speculative_reads: u64,
    /// Writes dropped in viral; these also count as `writes`.
    pub dropped_writes: u64,
    /// Requests denied, ever.
    pub denied_ever: u64,
    /// Requests accepted from the link, ever.
    pub accepted: u64,
    /// Responses sent, ever.
    pub answered: u64,
}

impl DeviceStats {
    /// Adds the counters of another window. For those counted *ever*, the larger value is kept.
    pub fn merge(&mut self, other: &DeviceStats) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.denied_reads += other.denied_reads;
        self.denied_writes += other.denied_writes;
        self.dropped_writes += other.dropped_writes;
        self.speculative_reads += other.speculative_reads;
        self.denied_ever = self.denied_ever.max(other.denied_ever);
        self.accepted = self.accepted.max(other.accepted);
        self.answered = self.answered.max(other.answered);
    }
}
