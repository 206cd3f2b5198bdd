//! A benchmark of an accelerator's DMA engine: messages of one size, moved by descriptors, one or
//! several at a time.
//!
//! Cohet (section VI-B3 and VI-C2) measures latency and bandwidth of DMA in this way, by message
//! size, and compares them with loads over CXL.cache.

use std::sync::Arc;

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::units::{Bytes, Hpa};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, mix, needs_accelerators, phase, whole_lines, within};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::{entry, require};
use crate::program::Phase;
use crate::thread::{
    Direction, ExecutionPlace, Handle, Thread, ThreadContext, ThreadedKernel, Window, scratch,
};
use crate::workload::{Workload, WorkloadForm};

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<DmaTransfers>(
    "dma-transfers",
    "threads: an accelerator's DMA engine, messages of one size to or from host memory",
);

/// Most bytes of a message.
const MOST_BYTES: u64 = 1 << 30;

/// The direction of DMA transfers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransferDirection {
    /// From the host's memory to the device (DMA read).
    #[default]
    Read,
    /// From the device to the host's memory (DMA write).
    Write,
}

/// Messages that the first processing element of the first accelerator moves by DMA. The kernel has
/// one phase, `transfer`; an operation is one message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DmaTransfers {
    /// Bytes of a message, 8 B to 1 GiB, a multiple of 8 B. Default 64 B.
    pub bytes: Bytes,
    /// The number of messages, 1 to 1000000000. Default 1000.
    pub messages: u64,
    /// Messages in flight at a time, 1 to 65536; 1 measures latency. Default 1.
    pub outstanding: u64,
    /// The direction of the transfers. Default `read`.
    pub way: TransferDirection,
    /// Messages with different addresses, 1 to 65536; later messages use the same
    /// addresses again. Default 16.
    pub distinct: u64,
    /// The memory of the host's data. Default `local`.
    pub data: Memory,
    /// Offset of the data in that memory. A multiple of 64 B.
    pub base: Bytes,
}

impl Default for DmaTransfers {
    fn default() -> Self {
        DmaTransfers {
            bytes: Bytes(64),
            messages: 1000,
            outstanding: 1,
            way: TransferDirection::Read,
            distinct: 16,
            data: Memory::Local,
            base: Bytes(0),
        }
    }
}

impl Workload for DmaTransfers {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("dma-transfers")
    }

    fn check(&self) -> Result<(), ParamError> {
        let bytes = self.bytes.0;
        let whole = (8..=MOST_BYTES).contains(&bytes) && bytes.is_multiple_of(8);
        let allowed = format_args!("multiples of 8 B from 8 B to {}", Bytes(MOST_BYTES));
        require(whole, "bytes", self.bytes, allowed)?;
        within("messages", self.messages, 1, 1_000_000_000)?;
        within("outstanding", self.outstanding, 1, 1 << 16)?;
        within("distinct", self.distinct, 1, 1 << 16)?;
        whole_lines("base", self.base)
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        let bytes = self.bytes.0 * self.distinct;
        let need = MemoryNeed::of_data(self.data, self.base, "bytes", bytes);
        let first = need.place_for(ctx)?;
        needs_accelerators(ctx)?;
        Ok(Box::new(Arc::new(Run {
            params: self.clone(),
            first,
            seed: mix(ctx.seed),
            phases: [phase("transfer", self.bytes.0)],
        })))
    }
}

struct Run {
    params: DmaTransfers,
    first: u64,
    seed: u64,
    phases: [Phase; 1],
}

impl Run {
    /// Offset of a message's data, in bytes.
    fn offset(&self, message: u64) -> u64 {
        message % self.params.distinct * self.params.bytes.0
    }

    /// The offset and the initial value of each word that the messages move.
    fn words(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.params.distinct.min(self.params.messages);
        let words = self.params.bytes.0 / 8;
        let seed = self.seed;
        (0..used * words).map(move |word| (8 * word, mix(seed ^ word)))
    }

    /// The first addresses of the source and of the destination.
    fn ends(&self) -> (u64, u64) {
        match self.params.way {
            TransferDirection::Read => (self.first, scratch(0)),
            TransferDirection::Write => (scratch(0), self.first),
        }
    }
}

async fn transfer(run: Arc<Run>, t: Handle) {
    let direction = match run.params.way {
        TransferDirection::Read => Direction::ToDevice,
        TransferDirection::Write => Direction::ToHost,
    };
    let mut window = Window::new(run.params.outstanding as usize);
    for message in 0..run.params.messages {
        if window.room().await.is_some() {
            t.count(1);
        }
        let offset = run.offset(message);
        window.add(t.dma(
            direction,
            run.first + offset,
            scratch(0) + offset,
            run.params.bytes.0,
        ));
    }
    while window.oldest().await.is_some() {
        t.count(1);
    }
}

impl ThreadedKernel for Arc<Run> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn prepare(&self, image: &Image) {
        let (from, _) = self.ends();
        for (at, word) in self.words() {
            image.write(Hpa(from + at), 8, word);
        }
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let run = Arc::clone(self);
        match place {
            ExecutionPlace::FIRST_ELEMENT => vec![Thread::new(|t| transfer(run, t))],
            _ => Vec::new(),
        }
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn check(&self, image: &Image) -> Result<(), String> {
        let (_, to) = self.ends();
        for (at, word) in self.words() {
            let found = image.read(Hpa(to + at), 8);
            if found != word {
                return Err(format!("byte {at} holds {found:#x}, not {word:#x}"));
            }
        }
        Ok(())
    }
}
