//! The processor's access to memory: its own, on NUMA nodes, and CXL memory behind the root ports.

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_agent::{AddressMap, HostSharedMemory, LOCAL};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{CORES, Event};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::fields::{MetaField, MetaValue, SnpType};
use cxlab_protocol::{CacheMeta, LongStage, MemMeta, Message, Opcode, PortId};
use cxlab_workload::LOCAL_BASE;

use super::Processor;
use super::tokens::{NODE, NONE};
use super::transactions::{NOT_SENT, Txn, TxnKind};
use crate::local::{CompletedRequest, LocalConfig, LocalMemory};

/// Metadata of a write after which no cache of the host holds the line.
const GONE: MemMeta = MemMeta::new(MetaField::Meta0State, MetaValue::Invalid, SnpType::NoOp);

/// Memory, as the home agent reads and writes it.
pub(super) struct Memory {
    /// The host's own memory: a controller for each NUMA node, by ascending addresses.
    pub(super) nodes: Vec<LocalMemory>,
    /// Map from addresses to the devices that own them.
    pub(super) map: Arc<AddressMap>,
    /// Memory that other hosts map too.
    pub(super) shared: Option<HostSharedMemory>,
    /// Number of lines being read, and the transactions that wait for a read.
    open_reads: u32,
    unread: VecDeque<u32>,
    /// Lines of CXL memory with a write in flight, and the reads that wait for it.
    pub(super) writing: Vec<LineAddr>,
    held_reads: Vec<(LineAddr, u32)>,
    returned: Vec<CompletedRequest>,
}

save_state!(Memory {
    values: open_reads, unread, writing, held_reads;
    states: nodes;
    built: map, shared, returned;
});

impl Memory {
    /// Memory without accesses in flight. A controller accepts at most `most` requests.
    pub(super) fn new(
        nodes: Vec<LocalConfig>,
        map: Arc<AddressMap>,
        shared: Option<HostSharedMemory>,
        most: usize,
    ) -> Memory {
        let nodes = nodes.into_iter();
        Memory {
            nodes: nodes.map(|node| LocalMemory::new(node, most)).collect(),
            map,
            shared,
            open_reads: 0,
            unread: VecDeque::new(),
            writing: Vec::new(),
            held_reads: Vec::new(),
            returned: Vec::new(),
        }
    }

    fn node_of(&self, line: LineAddr) -> usize {
        let hpa = Hpa(line.0 * LINE_BYTES);
        self.nodes.partition_point(|node| node.base <= hpa) - 1
    }

    /// The device that owns a line; `None` for the host's own memory.
    #[inline]
    pub(super) fn owner(&self, line: LineAddr) -> Option<PortId> {
        self.map.owner(Hpa(line.0 * LINE_BYTES))
    }

    /// Whether memory is mapped at an address: the host's own or CXL memory.
    pub(super) fn has(&self, hpa: Hpa) -> bool {
        if hpa < LOCAL_BASE {
            return self.map.owner(hpa).is_some();
        }
        let last = self.nodes.last();
        last.is_some_and(|last| hpa.0 < last.base.0 + last.capacity.0)
    }
}

impl Processor {
    /// Whether a line belongs to the memory of a Type 2 device, which keeps its bias.
    pub(super) fn is_device_biased(&self, line: LineAddr) -> bool {
        let owner = self.memory.owner(line);
        owner.is_some_and(|device| self.accelerators.ports.contains(&device))
    }

    /// Tells the device that owns a line that the host takes it.
    pub(super) fn claim(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        self.home.txns[id].memory.claiming = true;
        self.read_memory(ctx, id, 0);
    }

    /// Reads the line of a transaction, or queues the transaction if the limit of outstanding reads is reached.
    pub(super) fn read_or_wait(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        if let Some(most) = self.params.llc.misses
            && self.memory.open_reads >= most
        {
            self.home.txns[id].times.since = ctx.now().0;
            self.memory.unread.push_back(id);
            return;
        }
        debug_assert!(
            self.memory.unread.is_empty(),
            "a read passes those that wait"
        );
        self.memory.open_reads += 1;
        self.read_memory(ctx, id, 0);
    }

    /// Starts the read of the transaction that has waited longest, since one read has ended.
    fn read_next(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.memory.open_reads -= 1;
        if let Some(next) = self.memory.unread.pop_front() {
            let txn = &mut self.home.txns[next];
            txn.times.waited_ps += ctx.now().0 - txn.times.since;
            self.memory.open_reads += 1;
            self.read_memory(ctx, next, 0);
        }
    }

    /// Requests a transaction's line from memory, after `delay_ps` in the home agent. A line of CXL memory
    /// with a write in flight is requested when the write has completed: reads and writes travel in
    /// different message classes and may pass one another.
    pub(super) fn read_memory(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, delay_ps: u64) {
        let line = self.home.txns[id].line;
        if self.memory.writing.contains(&line) {
            self.memory.held_reads.push((line, id));
        } else {
            self.send(ctx, id, false, delay_ps);
        }
    }

    /// Writes a modified line back to memory. `by` is the transaction whose reserved entry of the write
    /// buffer it takes. `parent` is the transaction that waits for the write, or `NONE`. `keeps` says
    /// whether a cache may still hold the line.
    pub(super) fn write_memory(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        by: Option<u32>,
        parent: u32,
        keeps: bool,
    ) {
        self.stats.memory_writes += 1;
        self.write_opens(by);
        let mut txn = Txn::new(line, TxnKind::Evict, 0);
        txn.memory.parent = parent;
        txn.memory.keeps = keeps;
        txn.memory.partial = by.is_some_and(|by| self.home.txns[by].memory.partial);
        let id = self.home.txns.open(txn);
        if Hpa(line.0 * LINE_BYTES) < LOCAL_BASE {
            self.memory.writing.push(line);
        }
        self.send(ctx, id, true, 0);
    }

    fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, write: bool, delay_ps: u64) {
        let line = self.home.txns[id].line;
        let hpa = Hpa(line.0 * LINE_BYTES);
        if hpa >= LOCAL_BASE {
            if !self.memory.has(hpa) {
                return self.deny_as_missing(ctx, id);
            }
            let node = self.memory.node_of(line);
            let token = NODE | node as u32;
            let node = &mut self.memory.nodes[node];
            node.send(ctx, token, id, line.0, write, delay_ps);
            let txn = &mut self.home.txns[id];
            txn.memory.round_trip_ps = 2 * node.latency_ps;
            txn.memory.device = LOCAL;
            return;
        }
        let Some(device) = self.memory.map.owner(hpa) else {
            return self.deny_as_missing(ctx, id);
        };
        if write
            && let Some(shared) = &self.memory.shared
            && shared.holds(line)
        {
            shared.send(self.port_id, id, self.hw_threads.image(), hpa);
        }
        let coherent = self.accelerators.coherent.contains(&device);
        if coherent && !write {
            self.answer_before_request(ctx, line);
        }
        let txn = &mut self.home.txns[id];
        txn.memory.sent = ctx.now().0;
        let (mut opcode, meta) = match (write, txn.memory.claiming) {
            _ if coherent => {
                let message = Processor::coherent_message(txn, write);
                let (field, value, snoop) = message.fields();
                (message.opcode(), MemMeta::new(field, value, snoop))
            }
            (true, _) if txn.memory.keeps => (Opcode::MemWr, MemMeta::NONE),
            (true, _) => (Opcode::MemWr, GONE),
            (false, true) => (Opcode::MemInv, MemMeta::NONE),
            (false, false) => (Opcode::MemRd, MemMeta::NONE),
        };
        if write && txn.memory.partial {
            opcode = Opcode::MemWrPtl;
        }
        let message = Message {
            destination: device,
            meta,
            cache: CacheMeta::NONE
                .with(CacheMeta::POISON, write && self.hw_threads.is_poison(line)),
            ..self.message(ctx, hpa, opcode, id)
        };
        self.roots.send(ctx, message);
    }

    /// A CXL.mem message whose destination is still to be set.
    pub(super) fn message(
        &self,
        ctx: &Ctx<'_, Parcel>,
        hpa: Hpa,
        opcode: Opcode,
        tag: u32,
    ) -> Message {
        Message::new(opcode, hpa, tag, self.port_id, self.port_id, ctx.now())
    }

    /// Announces a core's miss to the device from which the line may be requested next. The device sends no response.
    pub(super) fn speculate(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = &self.home.txns[id];
        let (line, hpa) = (txn.line, Hpa(txn.line.0 * LINE_BYTES));
        if !txn.is_miss() || self.is_device_biased(line) || self.memory.writing.contains(&line) {
            return;
        }
        // The host's own memory has no owner.
        let Some(destination) = self.memory.map.owner(hpa).filter(|_| hpa < LOCAL_BASE) else {
            return;
        };
        self.stats.speculative_reads += 1;
        let mut message = self.message(ctx, hpa, Opcode::MemSpecRd, 0);
        message.destination = destination;
        self.roots.send(ctx, message);
    }

    pub(super) fn wake_node(&mut self, ctx: &mut Ctx<'_, Parcel>, node: usize) {
        let mut returned = std::mem::take(&mut self.memory.returned);
        self.memory.nodes[node].wake(ctx, NODE | node as u32, &mut returned);
        for request in returned.drain(..) {
            self.home.txns[request.tag].memory.media_ps = request.media_ps;
            self.memory_answered(ctx, request.tag);
        }
        self.memory.returned = returned;
    }

    /// Handles a response of CXL memory.
    pub(super) fn fetched(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.lines == Message::DENIED {
            self.denied(ctx, message.tag);
        }
        let txn = &mut self.home.txns[message.tag];
        if message.channel().carries_data() {
            let poison = message.cache.has(CacheMeta::POISON);
            debug_assert!(
                poison || self.memory.shared.is_some() || !self.hw_threads.is_poison(txn.line),
                "poison of {:?} was written back and has not come back",
                txn.line
            );
            self.hw_threads.supplied(txn.line, poison);
        }
        if txn.kind != TxnKind::Evict
            && let Some(shared) = &self.memory.shared
            && shared.holds(txn.line)
        {
            let hpa = Hpa(txn.line.0 * LINE_BYTES);
            shared.take(self.port_id, message.tag, self.hw_threads.image(), hpa);
        }
        let stages = &message.stages;
        txn.memory.media_ps = stages.of(LongStage::Media);
        txn.memory.round_trip_ps = 2 * self.params.root_port_time.0;
        if !matches!(txn.kind, TxnKind::Device(_)) {
            txn.stages = *stages;
        }
        txn.memory.device = message.source.0 - self.first_device;
        txn.memory.hops = message.hops;
        if !self.accelerators.coherent.contains(&message.source) || self.has_all_parts(message) {
            self.memory_answered(ctx, message.tag);
        }
    }

    /// Continues a transaction to which memory has responded, or whose message has failed.
    pub(super) fn memory_answered(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = &mut self.home.txns[id];
        let (line, kind, parent) = (txn.line, txn.kind, txn.memory.parent);
        txn.memory.sent = NOT_SENT;
        if txn.memory.claiming {
            (txn.memory.claiming, txn.memory.claimed) = (false, true);
            self.proceed(ctx, id);
            return;
        }
        if kind != TxnKind::Evict {
            self.read_next(ctx);
            self.apply(ctx, id, Event::ReadDone);
            return;
        }
        self.home.txns.close(id);
        self.written(ctx, line);
        if parent != NONE {
            self.line_written(ctx, parent);
        }
        self.write_closes(ctx);
    }

    /// Continues a transaction whose write has completed.
    fn line_written(&mut self, ctx: &mut Ctx<'_, Parcel>, parent: u32) {
        let event = match self.home.txns[parent].state.is_busy() {
            true => Event::Written,
            // The parent is a flush that has waited for the write.
            false => Event::Request(CORES, Request::ClFlush),
        };
        self.apply(ctx, parent, event);
    }

    /// Records the completed write of a line of CXL memory. If no other write of the line is in flight, a
    /// device receives its grant, and a waiting transaction reads the line.
    fn written(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let mut writing = self.memory.writing.iter();
        let Some(index) = writing.position(|written| *written == line) else {
            return;
        };
        self.memory.writing.swap_remove(index);
        if self.memory.writing.contains(&line) {
            return;
        }
        self.grant_held(ctx, line);
        if !self.home.snooped.is_empty() {
            self.go_on_with_snoop(ctx, line);
        }
        if !self.io.held_flips.is_empty() {
            self.send_held_flips(ctx);
        }
        let mut held_reads = self.memory.held_reads.iter();
        if let Some(index) = held_reads.position(|(read, _)| *read == line) {
            let (_, id) = self.memory.held_reads.swap_remove(index);
            self.send(ctx, id, false, 0);
        }
    }
}
