//! A persistent key-value store similar to Viper (Benson, Makait and Rabl, VLDB 2021): a hash index
//! in fast memory, and records in pages of persistent memory.
//!
//! Each operation does the work of Viper's client: locks, index probes, comparison of keys, stores
//! of the record, write-backs, fences, and the bit that makes the record valid.
//! `docs/explain/kernels.md` lists the steps and the differences from Viper: no segment splits, no
//! reclaiming in the background, and one store for each core.

mod index;
mod pages;
mod record;
mod run;
mod store;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::pages::{Layout, PAGE};
use self::run::Run;
use self::store::{Size, Store};
use super::common::{Memory, MemoryNeed, aligned, share, within};
use crate::error::WorkloadError;
use crate::params::{entry, require};
use crate::program::Program;
use crate::workload::{SourceContext, Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<KeyValue>(
    "key-value",
    "a persistent key-value store in the manner of Viper, executed on a core",
);

/// How the keys of queries, updates and deletes are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// All keys with the same probability.
    #[default]
    Uniform,
    /// By Zipf's law. The order of the keys in the law is random.
    Zipfian,
}

/// How a value is updated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Update {
    /// The first 8 B of the value are overwritten in the record, as in Viper's benchmark.
    #[default]
    InPlace,
    /// The whole record is stored in a new slot, and the old slot is freed.
    OutOfPlace,
}

/// A persistent key-value store in the manner of Viper (VLDB 2021), on a core. Phases: `write`
/// (keys are stored in the empty store), `insert` (further keys), `query`, `update`, `delete`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyValue {
    /// Operations of each phase, 1 to 16777216. The cores of the host group divide them; each core
    /// has its own store. The default is that of CXL-SSD-Sim.
    pub operations: u64,
    /// Bytes of a key, 8 B to 1 KiB. The default is Viper's.
    pub key: Bytes,
    /// Bytes of a value: at least 8 B, and at most what fits a page of 4 KiB with the key. Viper
    /// uses 200 B, and 500 B with keys of 32 B.
    pub value: Bytes,
    /// How the keys of queries, updates and deletes are chosen.
    pub keys: Keys,
    /// The exponent of Zipf's law, above 0, at most 4. The default is that of YCSB.
    #[schemars(range(max = 4), extend("exclusiveMinimum" = 0))]
    pub exponent: f64,
    /// How values are updated.
    pub update: Update,
    /// Core cycles of computing of an operation: hashing, copying, comparing.
    /// The default is *assumed*.
    pub cycles: u32,
    /// The memory of the index. An index in CXL memory is persistent: its changes are written back.
    pub index: Memory,
    /// The memory of the pages.
    pub data: Memory,
    /// Offset of the pages and of the index in their memories; in the same memory, the index
    /// follows the pages. A multiple of 4 KiB.
    pub base: Bytes,
}

impl Default for KeyValue {
    fn default() -> Self {
        KeyValue {
            operations: 10_000,
            key: Bytes(16),
            value: Bytes(200),
            keys: Keys::Uniform,
            exponent: 0.99,
            update: Update::InPlace,
            cycles: 100,
            index: Memory::Local,
            data: Memory::Cxl,
            base: Bytes(0),
        }
    }
}

impl KeyValue {
    fn layout(&self) -> Layout {
        Layout::new(self.key.0, self.value.0)
    }

    /// The first addresses of the pages and of the index of the first core.
    fn place(&self, size: &Size, ctx: &SourceContext) -> Result<(u64, u64), ParamError> {
        let cores = ctx.requesters.max(1) as u64;
        let bytes = size.data() * cores;
        let data = MemoryNeed::of_data(self.data, self.base, "operations", bytes);
        let same = self.index == self.data;
        let index = MemoryNeed {
            memory_field: "index",
            memory: self.index,
            size_field: "operations",
            base: self.base.0 + if same { data.bytes } else { 0 },
            bytes: size.index() * cores,
        };
        Ok((data.place(ctx)?, index.place(ctx)?))
    }
}

impl Workload for KeyValue {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Program("key-value")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("operations", self.operations, 1, 1 << 24)?;
        within("key", self.key.0, 8, 1024)?;
        within("value", self.value.0, 8, PAGE)?;
        let found = format_args!("{} with keys of {}", self.value, self.key);
        let allowed = "what fits a page of 4 KiB with its header of 16 B";
        require(self.layout().slots > 0, "value", found, allowed)?;
        let known = self.exponent > 0.0 && self.exponent <= 4.0;
        require(known, "exponent", self.exponent, "above 0, at most 4")?;
        aligned("base", self.base, PAGE)
    }

    fn program(&self, ctx: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        self.check()?;
        let (first, operations) = share("operations", self.operations, ctx)?;
        let most = self.operations.div_ceil(ctx.requesters.max(1) as u64);
        let size = Size {
            layout: self.layout(),
            keys: 2 * most,
        };
        let (data, index) = self.place(&size, ctx)?;
        let core = ctx.requester.min(ctx.requesters.max(1) - 1) as u64;
        let store = Store::new(
            &size,
            data + core * size.data(),
            index + core * size.index(),
            self.index == Memory::Cxl,
            self.cycles,
        );
        Ok(Box::new(Run::new(self, store, 2 * first, operations)))
    }
}
