//! The load/store unit with which Cohet calibrates: an accelerator loads or stores lines one after
//! the other, from the tier of memory in which a host thread has placed them.
//!
//! Cohet (section VI-A) measures latency with 32 loads of 64 B at sequential addresses,
//! repeated 1,000 times, and bandwidth with 2,048 such loads. Before each repeat the host
//! initialises the lines and moves them with CLDEMOTE or CLFLUSH. Hits in the HMC result from
//! loading the same addresses again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::{Bytes, Hpa, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{
    Memory, MemoryNeed, mix, needs_accelerators, phase, whole_lines, within, without_cxl_cache,
};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::rpc::message::number;
use crate::thread::{
    ExecutionPlace, Handle, LoadedRange, Thread, ThreadContext, ThreadedKernel, Window,
};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<LoadStoreUnit>(
    "load-store-unit",
    "threads: an accelerator's load/store unit on lines in its cache, the host's LLC or memory",
);

/// The number of words in a line.
const WORDS: u64 = LINE_BYTES / 8;

/// The register with which the host starts a repeat.
const START: u32 = 0;

/// The interrupt with which the unit ends a repeat.
const DONE: u16 = 0;

/// The phases: preparation, and the measured accesses.
const PREPARE: u8 = 0;
const MEASURE: u8 = 1;

/// Most stores and line operations of the host in flight while it prepares the lines.
const HOST_WINDOW: usize = 32;

/// The kind of the unit's accesses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The unit loads lines.
    #[default]
    Load,
    /// The unit stores whole lines.
    Store,
}

/// Where the lines are before each repeat.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// In memory: the host stores to each line and flushes it (CLFLUSH).
    #[default]
    Memory,
    /// In the host's last-level cache: the host stores to each line and demotes it (CLDEMOTE).
    Llc,
    /// In the accelerator's cache: the unit loads all lines once before the first repeat.
    Hmc,
    /// In memory before the first repeat, and afterwards where the preceding repeat has left them.
    Untouched,
}

/// Lines that the first processing element of the first accelerator loads or stores, one after the
/// other, again and again. Phases: `prepare`, `measure`. An operation is one line of 64 B.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadStoreUnit {
    /// The number of lines of 64 B, 1 to 16777216. Cohet: 32 for latency, 2,048 for bandwidth.
    pub lines: u64,
    /// How many times all lines are accessed, 1 to 1000000000. Cohet: 1,000.
    pub repeats: u64,
    /// Lines in flight at a time, 1 to 65536; 1 measures latency.
    pub outstanding: u64,
    /// Whether the unit loads or stores the lines. Default `load`.
    pub access: Access,
    /// Where the lines are before each repeat.
    pub tier: Tier,
    /// Cycles that the host waits after it has prepared the lines and before it starts the
    /// unit, 0 to 1000000000, so that its writes have reached memory. Default 24000, 10 us
    /// at 2.4 GHz (*assumed*).
    pub settle: u64,
    /// The memory of the lines.
    pub data: Memory,
    /// Offset of the lines in that memory. A multiple of 64 B.
    pub base: Bytes,
}

impl Default for LoadStoreUnit {
    fn default() -> Self {
        LoadStoreUnit {
            lines: 32,
            repeats: 1000,
            outstanding: 1,
            access: Access::Load,
            tier: Tier::Memory,
            settle: 24_000,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl Workload for LoadStoreUnit {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("load-store-unit")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("lines", self.lines, 1, 1 << 24)?;
        within("repeats", self.repeats, 1, 1_000_000_000)?;
        within("outstanding", self.outstanding, 1, 1 << 16)?;
        within("settle", self.settle, 0, 1_000_000_000)?;
        whole_lines("base", self.base)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        let bytes = self.lines * LINE_BYTES;
        let need = MemoryNeed::of_data(self.data, self.base, "lines", bytes);
        let first = need.place_for(ctx)?;
        needs_accelerators(ctx)?;
        let by_host = matches!(self.tier, Tier::Memory | Tier::Llc);
        let found = "`memory` or `llc` without a core that prepares the lines";
        let prepared = !by_host || ctx.cores > 0;
        require(prepared, "tier", found, "`hmc`, `untouched`")?;
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            by_host,
            first,
            seed: mix(ctx.seed),
            sum: AtomicU64::new(0),
            phases: [phase("prepare", 0), phase("measure", LINE_BYTES)],
        })))
    }

    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let allowed = "kernels that use DMA, such as `dma-transfers`";
        (accelerator == 0).then(|| without_cxl_cache("kind", "load-store-unit", allowed))
    }
}

/// The state that the threads share with the check.
struct Run {
    params: LoadStoreUnit,
    /// Whether the host prepares the lines before each repeat.
    by_host: bool,
    first: u64,
    seed: u64,
    /// The sum of all words loaded in the measured repeats.
    sum: AtomicU64,
    phases: [Phase; 2],
}

impl Run {
    fn addr(&self, line: u64) -> u64 {
        self.first + line * LINE_BYTES
    }

    /// The initial value of a word of a line.
    fn initial(&self, line: u64, word: u64) -> u64 {
        mix(self.seed ^ (line * WORDS + word))
    }

    /// The value that the host stores to a line's first word in a repeat; the unit stores
    /// this value plus 1.
    fn stored(&self, repeat: u64, line: u64) -> u64 {
        mix(self.seed.wrapping_add(mix(repeat + 1)) ^ line)
    }

    async fn prepare_lines(&self, t: &Handle, repeat: u64) {
        let mut window = Window::new(HOST_WINDOW);
        for line in 0..self.params.lines {
            window.room().await;
            window.add(t.store(self.addr(line), self.stored(repeat, line)));
        }
        window.drain().await;
        for line in 0..self.params.lines {
            window.room().await;
            window.add(match self.params.tier {
                Tier::Llc => t.demote(self.addr(line)),
                _ => t.flush(self.addr(line)),
            });
        }
        window.drain().await;
    }

    /// Loads all lines and returns the sum of their words.
    async fn load(&self, t: &Handle) -> u64 {
        let mut window: Window<LoadedRange> = Window::new(self.params.outstanding as usize);
        let mut sum = 0;
        for line in 0..self.params.lines {
            if let Some(bytes) = window.room().await {
                sum = add(t, sum, &bytes);
            }
            window.add(t.read_range(self.addr(line), LINE_BYTES));
        }
        while let Some(bytes) = window.oldest().await {
            sum = add(t, sum, &bytes);
        }
        sum
    }

    async fn store(&self, t: &Handle, repeat: u64) {
        let mut window = Window::new(self.params.outstanding as usize);
        for line in 0..self.params.lines {
            if window.room().await.is_some() {
                t.count(1);
            }
            let word = |word| match word {
                0 => self.stored(repeat, line).wrapping_add(1),
                word => self.initial(line, word),
            };
            let bytes: Vec<u8> = (0..WORDS).flat_map(|at| word(at).to_le_bytes()).collect();
            window.add(t.write_range(self.addr(line), &bytes));
        }
        while window.oldest().await.is_some() {
            t.count(1);
        }
    }

    /// The sum of the words that correct loads return.
    fn expected(&self) -> u64 {
        let LoadStoreUnit { lines, repeats, .. } = self.params;
        let first = u64::from(self.by_host);
        let rest = |line| (first..WORDS).map(move |word| self.initial(line, word));
        let same = (0..lines).flat_map(rest).fold(0, u64::wrapping_add);
        let mut sum = same.wrapping_mul(repeats);
        if self.by_host {
            let of = |repeat| (0..lines).map(move |line| self.stored(repeat, line));
            sum = (0..repeats).flat_map(of).fold(sum, u64::wrapping_add);
        }
        sum
    }
}

/// Counts a loaded line and adds its words to `sum`.
fn add(t: &Handle, sum: u64, bytes: &[u8]) -> u64 {
    t.count(1);
    bytes.chunks(8).map(number).fold(sum, u64::wrapping_add)
}

/// The host's thread: prepares the lines, starts the unit, and waits for its interrupt.
async fn host(run: Arc<Run>, t: Handle) {
    t.mark(PREPARE);
    for repeat in 0..run.params.repeats {
        run.prepare_lines(&t, repeat).await;
        t.compute(run.params.settle as u32).await;
        t.mmio_write(0, START, repeat + 1).await;
        t.wait_interrupt(DONE).await;
    }
}

/// The thread of the load/store unit.
async fn unit(run: Arc<Run>, t: Handle) {
    t.mark(PREPARE);
    if run.params.tier == Tier::Hmc {
        run.load(&t).await;
    }
    t.mark(MEASURE);
    for repeat in 0..run.params.repeats {
        if run.by_host {
            t.mmio_await(0, START, repeat).await;
        }
        match run.params.access {
            Access::Load => {
                run.sum.fetch_add(run.load(&t).await, Relaxed);
            }
            Access::Store => run.store(&t, repeat).await,
        }
        if run.by_host {
            t.interrupt(DONE).await;
        }
    }
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        for line in 0..self.params.lines {
            for word in 0..WORDS {
                let value = self.initial(line, word);
                image.write(Hpa(self.addr(line) + 8 * word), 8, value);
            }
        }
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let run = Arc::clone(self);
        match place {
            ExecutionPlace::Core { core: 0 } if run.by_host => vec![Thread::new(|t| host(run, t))],
            ExecutionPlace::FIRST_ELEMENT => vec![Thread::new(|t| unit(run, t))],
            _ => Vec::new(),
        }
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        if self.params.access == Access::Load {
            let (found, expected) = (self.sum.load(Relaxed), self.expected());
            return match found == expected {
                true => Ok(()),
                false => Err(format!(
                    "the words loaded sum to {found:#x}, not to {expected:#x}"
                )),
            };
        }
        for line in 0..self.params.lines {
            let stored = image.read(Hpa(self.addr(line)), 8);
            if stored != self.stored(self.params.repeats - 1, line).wrapping_add(1) {
                return Err(format!(
                    "line {line} holds {stored:#x}, which was not stored last"
                ));
            }
        }
        Ok(())
    }
}
