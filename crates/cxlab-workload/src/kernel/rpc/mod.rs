//! Remote procedure calls: an accelerator is the network card of a host, and decodes arriving
//! messages or encodes leaving ones.
//!
//! The pipelines are those of Cohet, section V-B: RpcNIC over PCIe (its Fig. 10), and the CXL-NIC
//! (Fig. 11). Messages are shaped like those of HyperProtoBench and are really encoded and decoded;
//! each is compared with the original. The network itself takes no time: arriving messages are in
//! the card's receive buffer, and leaving messages are sent when they have been encoded.
//!
//! Host and card communicate through a ring. Each place of the ring is a line with a sequence
//! number and an address. A separate counter has the number of places that have been freed.

mod deserialize;
mod object;
mod serialize;
mod units;

use std::sync::{Arc, Mutex, PoisonError};

use cxlab_engine::catalog::{Entry, ParamError};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, LINE_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Memory, MemoryNeed, aligned, needs_both, phase, within, without_cxl_cache};
use crate::error::WorkloadError;
use crate::image::Image;
use crate::params::entry;
use crate::program::Phase;
use crate::rpc::{Bench, Layout, Message};
use crate::thread::{ExecutionPlace, Handle, Thread, ThreadContext, ThreadedKernel};
use crate::workload::{Workload, WorkloadForm};
use units::Units;

pub(crate) const ENTRY: Entry<Box<dyn Workload>> = entry::<Rpc>(
    "rpc",
    "threads: Protocol Buffers messages decoded or encoded by a network card, over PCIe or CXL",
);

const PAGE: u64 = 4096;

/// Alignment of allocations, as by `malloc`.
const ALIGN: u64 = 16;

/// Bytes of the card's temporary buffer (RpcNIC: 4 KiB).
const BUFFER: u64 = 4096;

/// The half of a remote call that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RpcPath {
    /// Messages arrive and are decoded.
    #[default]
    Deserialize,
    /// Messages are encoded and leave.
    Serialize,
}

/// How messages are transferred between host and card.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// RpcNIC: decoded fields are collected in a buffer of 4 KiB, which one DMA write sends to
    /// the host. Objects to be encoded are copied to contiguous memory by the host, and fetched
    /// by one DMA read.
    #[default]
    RpcNic,
    /// Each decoded field is pushed into the host's last-level cache (NC-P).
    NcP,
    /// The host builds objects in the card's memory (CXL.mem).
    CxlMem,
    /// The card loads the fields of objects from the host's memory (CXL.cache).
    CxlCache,
}

/// Messages shaped like those of HyperProtoBench, decoded or encoded by the first processing
/// element of the first accelerator, for a thread on the first core. The phases of decoding are
/// `deserialize` and `access` (the host reads the decoded objects). The phases of encoding are
/// `build` (the host makes objects), `prepare` (the host copies them, RpcNIC, and announces them)
/// and `serialize`. An operation is a message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rpc {
    /// Number of the bench, 0 to 5. The sizes of 2 and 5 are synthetic.
    pub bench: u64,
    /// The half of a remote call that is measured. Default `deserialize`.
    pub direction: RpcPath,
    /// How messages are transferred. `deserialize`: `rpc-nic` or `nc-p`; `serialize`:
    /// `rpc-nic`, `cxl-mem` or `cxl-cache`.
    pub method: Method,
    /// The number of times that the ten messages of the bench are sent, 1 to 1000000.
    pub repeats: u64,
    /// Places of the ring, which limit the messages in flight, 1 to 4096.
    pub ring: u64,
    /// `serialize`: number of messages that the host builds before it announces the first of them,
    /// 1 to `ring`. HyperProtoBench: all ten.
    pub batch: u64,
    /// Cycles of the card to decode or encode a field.
    pub field_cycles: u32,
    /// Bytes that the card decodes or encodes in a cycle, 1 to 4096.
    pub width: u64,
    /// Fields of a message whose lines the card has in flight, 1 to 1024.
    pub outstanding: u64,
    /// RpcNIC: number of temporary buffers of 4 KiB, 1 to 64. Decoding continues while there
    /// is a free one.
    pub buffers: u64,
    /// RpcNIC: cycles of the core to submit one copy of a part of an object. Default 100 (*assumed*).
    pub copy_cycles: u32,
    /// RpcNIC: copies in flight, 1 to 1024.
    pub copies: u64,
    /// The memory of the ring and the objects. Default `local`.
    pub data: Memory,
    /// Offset of the ring and the objects in that memory. A multiple of 4 KiB.
    pub base: Bytes,
    /// Offset in CXL memory of the objects that are built in the card's memory. A
    /// multiple of 4 KiB.
    pub card_base: Bytes,
}

impl Default for Rpc {
    fn default() -> Self {
        Rpc {
            bench: 1,
            direction: RpcPath::Deserialize,
            method: Method::RpcNic,
            repeats: 1,
            ring: 16,
            batch: 1,
            field_cycles: 1,
            width: 64,
            outstanding: 8,
            buffers: 1,
            copy_cycles: 100,
            copies: 16,
            data: Memory::Local,
            base: Bytes(0),
            card_base: Bytes(0),
        }
    }
}

impl Workload for Rpc {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Threads("rpc")
    }

    fn check(&self) -> Result<(), ParamError> {
        within("bench", self.bench, 0, 5)?;
        within("repeats", self.repeats, 1, 1_000_000)?;
        within("ring", self.ring, 1, 4096)?;
        within("batch", self.batch, 1, self.ring)?;
        within("width", self.width, 1, 4096)?;
        within("outstanding", self.outstanding, 1, 1024)?;
        within("buffers", self.buffers, 1, 64)?;
        within("copies", self.copies, 1, 1024)?;
        let (found, allowed) = match (self.direction, self.method) {
            (RpcPath::Deserialize, Method::CxlMem) => ("cxl-mem", "`rpc-nic`, `nc-p`"),
            (RpcPath::Deserialize, Method::CxlCache) => ("cxl-cache", "`rpc-nic`, `nc-p`"),
            (RpcPath::Serialize, Method::NcP) => ("nc-p", "`rpc-nic`, `cxl-mem`, `cxl-cache`"),
            _ => {
                aligned("base", self.base, PAGE)?;
                return aligned("card_base", self.card_base, PAGE);
            }
        };
        let message = format!("found `{found}` in this direction; allowed: {allowed}");
        Err(ParamError::new("method", message))
    }

    fn threads(&self, ctx: &ThreadContext) -> Result<Box<dyn ThreadedKernel>, WorkloadError> {
        self.check()?;
        needs_both(ctx)?;
        let mut job = Job::new(self, ctx.seed);
        let (ring, objects) = (job.ring_bytes(), job.places() * job.room);
        let host = MemoryNeed::of_data(self.data, self.base, "base", ring + 2 * objects);
        job.host = host.place_for(ctx)?;
        job.objects = job.host + ring;
        job.prepared = job.objects + objects;
        if self.method == Method::CxlMem {
            let (base, bytes) = (self.card_base, ring + objects);
            let card = MemoryNeed::of_data(Memory::Cxl, base, "card_base", bytes);
            job.objects = card.place_for(ctx)? + ring;
        }
        let mean = job.wires.iter().map(Vec::len).sum::<usize>() / job.wires.len().max(1);
        let names: &[&str] = match self.direction {
            RpcPath::Deserialize => &["deserialize", "access"],
            RpcPath::Serialize => &["build", "prepare", "serialize"],
        };
        job.phases = names.iter().map(|name| phase(name, mean as u64)).collect();
        Ok(Box::new(Arc::new(job)))
    }

    fn needs_cxl_cache(&self, accelerator: usize) -> Option<ParamError> {
        let found = match self.method {
            Method::RpcNic => return None,
            Method::NcP => "nc-p",
            Method::CxlMem => "cxl-mem",
            Method::CxlCache => "cxl-cache",
        };
        (accelerator == 0).then(|| without_cxl_cache("method", found, "`rpc-nic`, which uses DMA"))
    }
}

/// The state that the threads and the check share.
struct Job {
    params: Rpc,
    bench: Bench,
    layout: Layout,
    /// The messages of the bench.
    messages: Vec<Message>,
    /// The encoded messages.
    wires: Vec<Vec<u8>>,
    /// First address of the ring.
    host: u64,
    /// First address of the objects.
    objects: u64,
    /// First address of RpcNIC's contiguous copies.
    prepared: u64,
    /// Bytes reserved for an object, in whole pages.
    room: u64,
    outcome: Mutex<Outcome>,
    units: Units,
    phases: Vec<Phase>,
}

/// The number of messages that were correct, and a description of the first wrong one.
#[derive(Default)]
struct Outcome {
    right: u64,
    wrong: Option<String>,
}

impl Job {
    fn new(params: &Rpc, seed: u64) -> Job {
        let bench = Bench::new(params.bench as usize);
        let layout = Layout::new(&bench.schema);
        let mut rng = StreamRng::new(seed, "rpc");
        let kinds = 0..bench.shapes.len();
        let messages: Vec<Message> = kinds.map(|kind| bench.message(kind, &mut rng)).collect();
        let written = messages.iter().enumerate();
        let wires = written
            .map(|(kind, message)| message.encode(&bench.schema, kind))
            .collect();
        let room = messages.iter().enumerate().map(|(kind, message)| {
            let loose = layout.scattered(kind, message, 0, LINE_BYTES);
            let dense = layout.appended(kind, message, 0, ALIGN);
            loose.end.max(dense.end).next_multiple_of(PAGE)
        });
        Job {
            room: room.max().unwrap_or(PAGE),
            params: params.clone(),
            bench,
            layout,
            messages,
            wires,
            host: 0,
            objects: 0,
            prepared: 0,
            outcome: Mutex::default(),
            units: Units::default(),
            phases: Vec::new(),
        }
    }

    /// The number of messages in the whole run.
    fn count(&self) -> u64 {
        self.params.repeats * self.messages.len() as u64
    }

    /// The number of places of the ring.
    fn places(&self) -> u64 {
        self.params.ring
    }

    /// The type of a message, which is its index among the messages of the bench.
    fn kind(&self, message: u64) -> usize {
        (message % self.messages.len() as u64) as usize
    }

    /// Address of a message's entry in the ring: a sequence number, then an address.
    fn entry(&self, message: u64) -> u64 {
        let ring = match self.params.method {
            Method::CxlMem => self.objects - self.ring_bytes(),
            _ => self.host,
        };
        ring + message % self.places() * LINE_BYTES
    }

    /// The sequence number in a message's entry before the message is announced.
    fn before(&self, message: u64) -> u64 {
        (message + 1).saturating_sub(self.places())
    }

    /// Address of the counter of freed places, after the ring.
    fn tail(&self) -> u64 {
        self.host + self.places() * LINE_BYTES
    }

    /// Bytes of the ring and the counter after it, in whole pages.
    fn ring_bytes(&self) -> u64 {
        ((self.places() + 1) * LINE_BYTES).next_multiple_of(PAGE)
    }

    /// First address of a message's object.
    fn object(&self, message: u64) -> u64 {
        self.objects + message % self.places() * self.room
    }

    /// First address of RpcNIC's contiguous copy of a message.
    fn prepared(&self, message: u64) -> u64 {
        self.prepared + message % self.places() * self.room
    }

    /// Cycles to decode or encode this many bytes.
    fn moving(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.params.width) as u32
    }

    /// Cycles to decode or encode a field of this many bytes.
    fn cycles(&self, bytes: u64) -> u32 {
        self.moving(bytes).saturating_add(self.params.field_cycles)
    }

    /// Waits until the place of a message is free, by the counter in memory.
    async fn wait_for_room(&self, t: &Handle, free: &mut u64, message: u64) {
        while *free + self.places() <= message {
            *free = t.await_change(self.tail(), *free).await;
        }
    }

    /// Compares a transferred message with the original.
    fn judge(&self, number: u64, message: &Message) {
        let kind = self.kind(number);
        let written = message.encode(&self.bench.schema, kind);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if *message == self.messages[kind] && written == self.wires[kind] {
            outcome.right += 1;
        } else if outcome.wrong.is_none() {
            outcome.wrong = Some(format!(
                "message {number} came out otherwise than it went in"
            ));
        }
    }
}

impl ThreadedKernel for Arc<Job> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn threads(&self, place: ExecutionPlace) -> Vec<Thread> {
        let job = || Arc::clone(self);
        match (place, self.params.direction, self.params.method) {
            (ExecutionPlace::Core { core: 0 }, RpcPath::Deserialize, _) => {
                vec![Thread::new(|t| deserialize::host(job(), t))]
            }
            (ExecutionPlace::Core { core: 0 }, RpcPath::Serialize, _) => {
                vec![Thread::new(|t| serialize::host(job(), t))]
            }
            (ExecutionPlace::FIRST_ELEMENT, RpcPath::Deserialize, Method::RpcNic) => {
                vec![Thread::new(|t| deserialize::rpc_nic(job(), t))]
            }
            (ExecutionPlace::FIRST_ELEMENT, RpcPath::Deserialize, _) => vec![
                Thread::new(|t| deserialize::decoder(job(), t)),
                Thread::new(|t| deserialize::pusher(job(), t)),
            ],
            (ExecutionPlace::FIRST_ELEMENT, RpcPath::Serialize, _) => vec![
                Thread::new(|t| serialize::card(job(), t)),
                Thread::new(|t| units::handlers(job(), t)),
                Thread::new(|t| units::output(job(), t)),
            ],
            _ => Vec::new(),
        }
    }

    /// Every message was compared field by field and byte by byte after its transfer;
    /// this checks the results.
    fn check(&self, _: &Image) -> Result<(), String> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wrong) = &outcome.wrong {
            return Err(wrong.clone());
        }
        match (outcome.right, self.count()) {
            (right, count) if right == count => Ok(()),
            (right, count) => Err(format!("{right} messages of {count} came through")),
        }
    }
}
