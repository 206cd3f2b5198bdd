//! The processor's access to memory: its own, on NUMA nodes, and CXL memory behind the root ports.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{CORES, Event};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::fields::{MetaField, MetaValue, SnpType};
use cxlab_protocol::{CacheMeta, LatencyStages, LongStage, MemMeta, Message, Opcode};
use cxlab_workload::LOCAL_BASE;

use super::failures::NOT_SENT;
use super::home::{Txn, TxnKind};
use super::{NODE, NONE, Processor};
use cxlab_agent::LOCAL;

/// Metadata of a write after which no cache of the host holds the line.
const GONE: MemMeta = MemMeta::new(MetaField::Meta0State, MetaValue::Invalid, SnpType::NoOp);

impl Processor {
    /// The node to which a line of the host's own memory belongs.
    fn node_of(&self, line: LineAddr) -> usize {
        let hpa = Hpa(line.0 * LINE_BYTES);
        self.nodes.partition_point(|node| node.base <= hpa) - 1
    }

    /// Whether a line belongs to the memory of a Type 2 device, which keeps its bias.
    pub(super) fn is_device_biased(&self, line: LineAddr) -> bool {
        let owner = self.map.owner(Hpa(line.0 * LINE_BYTES));
        owner.is_some_and(|device| self.devices.contains(&device))
    }

    /// Tells the device that owns a line that the host takes it.
    pub(super) fn claim(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        self.txns[id as usize].claiming = true;
        self.read_memory(ctx, id, 0);
    }

    /// Reads the line of a transaction, or queues the transaction if the limit of
    /// outstanding reads is reached.
    pub(super) fn read_or_wait(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        if let Some(most) = self.params.llc.misses
            && self.open_reads >= most
        {
            self.txns[id as usize].since = ctx.now().0;
            self.unread.push_back(id);
            return;
        }
        debug_assert!(self.unread.is_empty(), "a read passes those that wait");
        self.open_reads += 1;
        self.read_memory(ctx, id, 0);
    }

    /// Starts the read of the transaction that has waited longest, since one read has ended.
    fn read_next(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.open_reads -= 1;
        if let Some(next) = self.unread.pop_front() {
            let txn = &mut self.txns[next as usize];
            txn.waited_ps += ctx.now().0 - txn.since;
            self.open_reads += 1;
            self.read_memory(ctx, next, 0);
        }
    }

    /// Requests a transaction's line from memory, after `delay_ps` in the home agent. A line of CXL memory
    /// with a write in flight is requested when the write has completed: reads and writes travel in
    /// different message classes and may pass one another.
    pub(super) fn read_memory(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, delay_ps: u64) {
        let line = self.txns[id as usize].line;
        if self.writing.contains(&line) {
            self.held_reads.push((line, id));
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
        txn.parent = parent;
        txn.keeps = keeps;
        txn.partial = by.is_some_and(|by| self.txns[by as usize].partial);
        let id = self.open(txn);
        if Hpa(line.0 * LINE_BYTES) < LOCAL_BASE {
            self.writing.push(line);
        }
        self.send(ctx, id, true, 0);
    }

    fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, write: bool, delay_ps: u64) {
        let line = self.txns[id as usize].line;
        let hpa = Hpa(line.0 * LINE_BYTES);
        if hpa >= LOCAL_BASE {
            if !self.has_memory(hpa) {
                return self.deny_as_missing(ctx, id);
            }
            let node = self.node_of(line);
            let token = NODE | node as u32;
            let node = &mut self.nodes[node];
            node.send(ctx, token, id, line.0, write, delay_ps);
            let txn = &mut self.txns[id as usize];
            txn.round_trip_ps = 2 * node.latency_ps;
            txn.device = LOCAL;
            return;
        }
        let Some(device) = self.map.owner(hpa) else {
            return self.deny_as_missing(ctx, id);
        };
        if write
            && let Some(shared) = &self.shared
            && shared.holds(line)
        {
            shared.send(self.port_id, id, self.hw_threads.image(), hpa);
        }
        let coherent = self.device_coherent.contains(&device);
        if coherent && !write {
            self.answer_before_asking(ctx, line);
        }
        let txn = &mut self.txns[id as usize];
        txn.sent = ctx.now().0;
        let (mut opcode, meta) = match (write, txn.claiming) {
            _ if coherent => {
                let message = Processor::coherent_message(txn, write);
                let (field, value, snoop) = message.fields();
                (message.opcode(), MemMeta::new(field, value, snoop))
            }
            (true, _) if txn.keeps => (Opcode::MemWr, MemMeta::NONE),
            (true, _) => (Opcode::MemWr, GONE),
            (false, true) => (Opcode::MemInv, MemMeta::NONE),
            (false, false) => (Opcode::MemRd, MemMeta::NONE),
        };
        if write && txn.partial {
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
        Message {
            hpa,
            issued_ps: ctx.now().0,
            stages: LatencyStages::default(),
            tag,
            source: self.port_id,
            destination: self.port_id,
            opcode,
            vc: 0,
            hops: 0,
            meta: MemMeta::NONE,
            cache: CacheMeta::NONE,
            lines: 1,
            data: 0,
        }
    }

    /// Announces a core's miss to the device that may be asked for the line next. The
    /// device sends no response.
    pub(super) fn speculate(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = &self.txns[id as usize];
        let (line, hpa) = (txn.line, Hpa(txn.line.0 * LINE_BYTES));
        if !txn.is_miss() || self.is_device_biased(line) || self.writing.contains(&line) {
            return;
        }
        // The host's own memory has no owner.
        let Some(destination) = self.map.owner(hpa).filter(|_| hpa < LOCAL_BASE) else {
            return;
        };
        self.stats.speculative_reads += 1;
        let message = self.message(ctx, hpa, Opcode::MemSpecRd, 0);
        self.roots.send(
            ctx,
            Message {
                destination,
                ..message
            },
        );
    }

    /// Handles a wake-up of a memory controller.
    pub(super) fn wake_node(&mut self, ctx: &mut Ctx<'_, Parcel>, node: usize) {
        let mut returned = std::mem::take(&mut self.returned);
        self.nodes[node].wake(ctx, NODE | node as u32, &mut returned);
        for one in returned.drain(..) {
            self.txns[one.tag as usize].media_ps = one.media_ps;
            self.memory_answered(ctx, one.tag);
        }
        self.returned = returned;
    }

    /// Handles a response of CXL memory.
    pub(super) fn fetched(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.lines == Message::DENIED {
            self.denied(ctx, message.tag);
        }
        let txn = &mut self.txns[message.tag as usize];
        if message.channel().carries_data() {
            let poison = message.cache.has(CacheMeta::POISON);
            debug_assert!(
                poison || self.shared.is_some() || !self.hw_threads.is_poison(txn.line),
                "poison of {:?} was written back and has not come back",
                txn.line
            );
            self.hw_threads.given(txn.line, poison);
        }
        if txn.kind != TxnKind::Evict
            && let Some(shared) = &self.shared
            && shared.holds(txn.line)
        {
            let hpa = Hpa(txn.line.0 * LINE_BYTES);
            shared.take(self.port_id, message.tag, self.hw_threads.image(), hpa);
        }
        let stages = &message.stages;
        txn.media_ps = stages.of(LongStage::Media);
        txn.round_trip_ps = 2 * self.params.root_port_time.0;
        if !matches!(txn.kind, TxnKind::Device(_)) {
            txn.stages = *stages;
        }
        txn.device = message.source.0 - self.first_device;
        txn.hops = message.hops;
        if !self.device_coherent.contains(&message.source) || self.is_whole(message) {
            self.memory_answered(ctx, message.tag);
        }
    }

    /// Continues a transaction to which memory has responded, or whose message has failed.
    pub(super) fn memory_answered(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Txn {
            line, kind, parent, ..
        } = self.txns[id as usize];
        let txn = &mut self.txns[id as usize];
        txn.sent = NOT_SENT;
        if txn.claiming {
            (txn.claiming, txn.claimed) = (false, true);
            self.proceed(ctx, id);
            return;
        }
        if kind != TxnKind::Evict {
            self.read_next(ctx);
            self.apply(ctx, id, Event::ReadDone);
            return;
        }
        self.close(id);
        self.written(ctx, line);
        if parent != NONE {
            self.line_written(ctx, parent);
        }
        self.write_closes(ctx);
    }

    /// Continues a transaction whose write has completed.
    fn line_written(&mut self, ctx: &mut Ctx<'_, Parcel>, parent: u32) {
        let event = match self.txns[parent as usize].state.is_busy() {
            true => Event::Written,
            // The parent is a flush that has waited for the write.
            false => Event::Request(CORES, Request::ClFlush),
        };
        self.apply(ctx, parent, event);
    }

    /// Records the completed write of a line of CXL memory. If no other write of the line is in flight, a
    /// device receives its grant, and a waiting transaction reads the line.
    fn written(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let Some(at) = self.writing.iter().position(|one| *one == line) else {
            return;
        };
        self.writing.swap_remove(at);
        if self.writing.contains(&line) {
            return;
        }
        self.grant_held(ctx, line);
        if !self.snooped.is_empty() {
            self.go_on_with_snoop(ctx, line);
        }
        if !self.held_flips.is_empty() {
            self.send_held_flips(ctx);
        }
        let held = self.held_reads.iter().position(|(one, _)| *one == line);
        if let Some(at) = held {
            let (_, id) = self.held_reads.swap_remove(at);
            self.send(ctx, id, false, 0);
        }
    }
}
