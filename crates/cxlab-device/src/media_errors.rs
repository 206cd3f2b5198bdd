//! Media errors: lines of a device's medium that cannot be read. The device returns poison for them
//! until a write replaces the whole line (CXL 3.1, sections 8.2.9.9.4 and 12.2.3).

use std::collections::BTreeMap;

use cxlab_engine::rng::BernoulliTrials;
use cxlab_engine::units::{Dpa, LINE_BYTES};
use cxlab_protocol::{CacheMeta, Message, Opcode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// User parameters of a medium's errors.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct MediaErrorParams {
    /// Probability that a line cannot be read, independently for each line. 0 to 1. Default 0.
    #[schemars(range(min = 0, max = 1))]
    pub rate: f64,
    /// Lines that are poison when the run begins, whatever the rate, by device
    /// physical address: multiples of 64 below the capacity (Inject Poison, CXL 3.1,
    /// section 8.2.9.9.4.2). Default none.
    pub poison: Vec<u64>,
}

// The rate is never NaN, because the scenario's schema allows only numbers.
impl Eq for MediaErrorParams {}

/// Counters of media errors since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct MediaErrorStats {
    /// Reads that returned poison.
    pub poisoned_reads: u64,
    /// Writes after which the line is poison.
    pub poisoned_writes: u64,
    /// Lines that were poison and were overwritten with good data.
    pub repaired: u64,
}

/// The lines of a medium that cannot be read.
#[derive(Serialize, Deserialize)]
pub(crate) struct MediaErrors {
    trials: BernoulliTrials,
    /// Lines whose state is known, by injection or because they were written.
    known: BTreeMap<u64, bool>,
    pub(crate) stats: MediaErrorStats,
}

impl MediaErrors {
    /// Media errors as the parameters say; each device name has its own random draws.
    pub(crate) fn new(params: &MediaErrorParams, seed: u64, name: &str) -> MediaErrors {
        let lines = params.poison.iter().map(|dpa| (dpa / LINE_BYTES, true));
        MediaErrors {
            trials: BernoulliTrials::new(seed, &format!("{name}/media errors"), params.rate),
            known: lines.collect(),
            stats: MediaErrorStats::default(),
        }
    }

    fn is_poison(&self, line: u64) -> bool {
        let known = self.known.get(&line).copied();
        known.unwrap_or_else(|| self.trials.succeeds(line))
    }

    /// Counts a read of a line, and returns whether the line is poison.
    pub(crate) fn read(&mut self, dpa: Dpa) -> bool {
        let poison = self.is_poison(dpa.0 / LINE_BYTES);
        self.stats.poisoned_reads += u64::from(poison);
        poison
    }

    /// Applies a write, and returns whether its data are poison. A partial write does not clear the line's poison.
    pub(crate) fn take_write(&mut self, dpa: Dpa, message: &Message) -> bool {
        let poison = message.cache.has(CacheMeta::POISON);
        let part = message.opcode == Opcode::MemWrPtl && self.is_poison(dpa.0 / LINE_BYTES);
        self.write(dpa, poison || part);
        poison
    }

    /// Records that a line is written and is poison, or not, from now on.
    fn write(&mut self, dpa: Dpa, poison: bool) {
        let line = dpa.0 / LINE_BYTES;
        let was = self.is_poison(line);
        self.stats.poisoned_writes += u64::from(poison);
        self.stats.repaired += u64::from(was && !poison);
        if was != poison {
            self.known.insert(line, poison);
        }
    }
}
