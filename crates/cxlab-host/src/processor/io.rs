//! CXL.io at the host: DMA of devices to and from memory, coherent with the caches of the host and of its
//! devices, registers of devices, and interrupts.
//!
//! An ordered write of a device (the first of a descriptor, an interrupt) waits for all earlier writes of
//! the same device, and so does a read. The other writes of a descriptor may pass one another (relaxed
//! ordering). Written lines stay in the last-level cache, as with DDIO.

use std::collections::VecDeque;

use cxlab_agent::{
    AtsKind, AtsMessage, MACHINE_CHECK, PROCESS_ENDS, interrupt_at, register_address, staging,
};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::{BufferId, Parcel};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::{CacheMeta, LatencyStages, Message, Opcode, PortId};
use cxlab_workload::thread::{BIAS_REGISTER, ThreadOp};
use serde::{Deserialize, Serialize};

use super::Processor;
use super::tokens::{COMING, GOING, OP};
use super::transactions::{Txn, TxnKind};

/// Granularity of allocations, in bytes.
const PAGE: u64 = 4096;

/// Number of tags of the host's own requests to registers.
const TAGS: u32 = 1 << 12;

/// State of a device's CXL.io transactions.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct DeviceIoState {
    /// Requests in the receive buffer of a root port (by its number) that wait for room in the root complex.
    outside: VecDeque<(u16, Message)>,
    /// Number of lines of writes in the root complex and at the home agent.
    inside: u32,
    /// Number of lines that the device is writing.
    open: u32,
    /// Transactions that wait for the completion of these lines.
    queue: VecDeque<Message>,
}

/// A read or write of a device in progress.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct IoTransaction {
    message: Message,
    /// Lines of a read that have arrived: one bit each, from the first line on.
    arrived_lines: u128,
    /// Number of lines of a write that are not complete.
    lines: u32,
    /// Number of bytes of a read for which completions have been sent.
    completed_bytes: u32,
}

/// The host's side of CXL.io.
pub(super) struct HostIo {
    sources: Vec<DeviceIoState>,
    transactions: Vec<IoTransaction>,
    free: Vec<u32>,
    next_tag: u32,
    /// Operations that wait for register reads: tag and operation.
    waiting: Vec<(u32, u32)>,
    /// Incoming and outgoing messages in the root complex, with the times at which they have passed it.
    coming: VecDeque<(u64, Message)>,
    going: VecDeque<(u64, Message)>,
    /// Interrupts that no operation has taken, and operations that wait for one.
    raised: Vec<u16>,
    handlers: Vec<(u16, u32)>,
    /// Bias flips by software that wait for writes of their pages: address, device, tag and operation.
    pub(super) held_flips: Vec<(u64, u16, u32, u32)>,
    /// First address that has not been allocated to a thread.
    mapped: u64,
}

save_state!(HostIo {
    values: transactions, free, next_tag, waiting, coming, going, raised, handlers, held_flips, mapped;
    sized: sources;
});

impl HostIo {
    /// CXL.io of a host with `devices` accelerators, without transactions. Threads without an operating system
    /// allocate memory from `mapped` on.
    pub(super) fn new(devices: usize, mapped: u64) -> HostIo {
        HostIo {
            sources: (0..devices).map(|_| DeviceIoState::default()).collect(),
            transactions: Vec::new(),
            free: Vec::new(),
            next_tag: 0,
            waiting: Vec::new(),
            coming: VecDeque::new(),
            going: VecDeque::new(),
            raised: Vec::new(),
            handlers: Vec::new(),
            held_flips: Vec::new(),
            mapped,
        }
    }

    /// Opens a transaction of `lines` lines; returns its number.
    fn open(&mut self, message: &Message, lines: u32) -> u32 {
        let open = IoTransaction {
            message: *message,
            arrived_lines: 0,
            lines,
            completed_bytes: 0,
        };
        match self.free.pop() {
            Some(number) => {
                self.transactions[number as usize] = open;
                number
            }
            None => {
                self.transactions.push(open);
                self.transactions.len() as u32 - 1
            }
        }
    }
}

/// The lines of a transaction: the first, and their number.
fn lines_of(message: &Message) -> (u64, u64) {
    let last = message.hpa.0 + u64::from(message.data.max(1)) - 1;
    let first = message.hpa.0 / LINE_BYTES;
    (first, last / LINE_BYTES - first + 1)
}

/// Number of lines of memory that a message writes.
fn lines_written(message: &Message) -> u32 {
    let elsewhere = AtsMessage::at(message.hpa).is_some() || interrupt_at(message.hpa).is_some();
    match message.opcode == Opcode::MWr && !elsewhere {
        true => lines_of(message).1 as u32,
        false => 0,
    }
}

impl Processor {
    /// Handles the arrival of a CXL.io transaction. A request stays in the receive buffer if it, or a
    /// request before it, has no room in the root complex.
    pub(super) fn io_arrives(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) {
        let source = self.accelerators.peer_of(message.source).index();
        let first = self.io.sources[source].outside.is_empty();
        if message.opcode == Opcode::CplD || first && self.has_io_room(source, message) {
            self.io_enters(ctx, port, message);
        } else {
            self.io.sources[source].outside.push_back((port, *message));
        }
    }

    /// Whether the lines that a request writes have room in the root complex.
    fn has_io_room(&self, source: usize, message: &Message) -> bool {
        let inside = self.io.sources[source].inside;
        inside == 0 || inside + lines_written(message) <= self.params.io_writes
    }

    /// Moves a transaction from the receive buffer into the root complex.
    fn io_enters(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) {
        let buffer = BufferId::of(message.channel(), message.vc);
        self.roots.ports[usize::from(port)].release(ctx, buffer);
        let source = self.accelerators.peer_of(message.source).index();
        self.io.sources[source].inside += lines_written(message);
        let time = ctx.now() + self.params.io_time;
        self.io.coming.push_back((time.0, *message));
        ctx.wake_at(time, COMING);
    }

    /// Counts a completed line of a device's write; requests in the receive buffer may enter.
    fn io_leaves(&mut self, ctx: &mut Ctx<'_, Parcel>, source: usize) {
        self.io.sources[source].inside -= 1;
        while let Some((port, message)) = self.io.sources[source].outside.front().copied()
            && self.has_io_room(source, &message)
        {
            self.io.sources[source].outside.pop_front();
            self.io_enters(ctx, port, &message);
        }
    }

    /// Handles transactions that have passed the root complex.
    pub(super) fn io_come(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some((time, message)) = self.io.coming.front().copied()
            && time <= ctx.now().0
        {
            self.io.coming.pop_front();
            self.io_message(ctx, &message);
        }
    }

    /// Sends responses that have passed the root complex.
    pub(super) fn io_goes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some((time, message)) = self.io.going.front().copied()
            && time <= ctx.now().0
        {
            self.io.going.pop_front();
            self.roots.send(ctx, message);
        }
    }

    /// Handles a CXL.io transaction at the home agent.
    fn io_message(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.opcode == Opcode::CplD {
            self.register_read(ctx, message);
            return;
        }
        let asks = AtsMessage::at(message.hpa).is_none_or(|ats| ats.kind == AtsKind::Translate);
        if asks {
            self.active(ctx);
        }
        let source = self.accelerators.peer_of(message.source).index();
        if self.must_wait(source, message) {
            self.io.sources[source].queue.push_back(*message);
        } else {
            self.begin_io(ctx, source, message);
        }
    }

    fn must_wait(&self, source: usize, message: &Message) -> bool {
        let source = &self.io.sources[source];
        let relaxed = message.opcode == Opcode::MWr && message.is_relaxed();
        !source.queue.is_empty() || source.open > 0 && !relaxed
    }

    fn begin_io(&mut self, ctx: &mut Ctx<'_, Parcel>, source: usize, message: &Message) {
        if let Some(ats) = AtsMessage::at(message.hpa) {
            self.ats_message(ctx, message, ats);
        } else if message.opcode == Opcode::MRd {
            self.begin_read(ctx, message);
        } else if let Some(vector) = interrupt_at(message.hpa) {
            self.interrupted(ctx, vector);
        } else {
            self.begin_write(ctx, source, message);
        }
    }

    fn begin_read(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let (first, lines) = lines_of(message);
        let number = self.io.open(message, lines as u32);
        if message.data == 0 {
            // The completion of a read of length 0 says that all earlier writes are done.
            self.complete_read(ctx, number);
            return;
        }
        for line in first..first + lines {
            self.dma_line(ctx, line, TxnKind::DmaRead, number, message.source);
        }
    }

    fn begin_write(&mut self, ctx: &mut Ctx<'_, Parcel>, source: usize, message: &Message) {
        let (first, lines) = lines_of(message);
        self.io.sources[source].open += lines as u32;
        let number = self.io.open(message, lines as u32);
        for line in first..first + lines {
            self.dma_line(ctx, line, TxnKind::DmaWrite, number, message.source);
        }
    }

    fn dma_line(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: u64,
        kind: TxnKind,
        number: u32,
        source: PortId,
    ) {
        let hpa = Hpa(line * LINE_BYTES);
        if !self.memory.has(hpa) {
            self.stray(hpa);
        }
        let mut txn = Txn::of_io(LineAddr(line), kind, number);
        txn.request.source = source;
        self.stats.dma_lines += 1;
        let id = self.home.txns.open(txn);
        self.arrive(ctx, id);
    }

    /// The request in the table for a transaction of the root complex.
    pub(super) fn dma_request(kind: TxnKind) -> Request {
        match kind {
            TxnKind::DmaRead | TxnKind::PageRead | TxnKind::WalkRead => Request::RdCurr,
            _ => Request::ItoMWr,
        }
    }

    /// The bytes of a transaction in the line of `txn`: their address, their number, and the address
    /// of their copy in flight.
    fn part(&self, txn: &Txn) -> (Hpa, u64, Hpa) {
        let message = &self.io.transactions[txn.request.tag as usize].message;
        let line = txn.line.0 * LINE_BYTES;
        let start = line.max(message.hpa.0);
        let end = (line + LINE_BYTES).min(message.hpa.0 + u64::from(message.data));
        let mut staged = staging(message.source, message.tag);
        staged.0 += start - message.hpa.0;
        (Hpa(start), end - start, staged)
    }

    /// Takes the value of a line of a read.
    pub(super) fn dma_read(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.home.txns[id];
        let (hpa, bytes, staged) = self.part(&txn);
        let (line, poison) = self.value_of(&txn);
        let from = Hpa(line.0 + hpa.0 % LINE_BYTES);
        self.hw_threads.image().copy(from, staged, bytes);
        let read = &mut self.io.transactions[txn.request.tag as usize];
        read.message.cache = read.message.cache.with(CacheMeta::POISON, poison);
        let first = read.message.hpa.0 / LINE_BYTES;
        read.arrived_lines |= 1 << (txn.line.0 - first);
        self.complete_read(ctx, txn.request.tag);
    }

    /// Sends the completions of a read whose lines have arrived, in order.
    fn complete_read(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        loop {
            let read = self.io.transactions[number as usize];
            let total = u32::from(read.message.data);
            let left = total - read.completed_bytes;
            // Every completion except the last ends at a multiple of its largest size.
            let start = read.message.hpa.0 + u64::from(read.completed_bytes);
            let payload = u64::from(self.params.payload.0 as u32);
            let bytes = u64::from(left).min(payload - start % payload) as u32;
            let first = read.message.hpa.0 / LINE_BYTES;
            let end = (start + u64::from(bytes).max(1) - 1) / LINE_BYTES - first + 1;
            let lines = (1u128 << end) - 1;
            if total > 0 && read.arrived_lines & lines != lines {
                return;
            }
            let mut message = read.message;
            message.opcode = Opcode::CplD;
            message.data = bytes as u16;
            message.hpa = Hpa(start);
            self.send_io(ctx, read.message.source, message);
            self.io.transactions[number as usize].completed_bytes += bytes;
            if left == bytes {
                self.io.free.push(number);
                return;
            }
        }
    }

    /// Lets a line of a write take effect.
    pub(super) fn dma_write(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.home.txns[id];
        let (hpa, bytes, staged) = self.part(&txn);
        self.hw_threads.image().copy(staged, hpa, bytes);
        if bytes == LINE_BYTES {
            self.hw_threads.supplied(txn.line, false);
        }
        self.hw_threads.written(None, txn.line);
        self.changed(ctx, txn.line);
    }

    /// Completes a line of a write: transactions that waited for it may continue.
    pub(super) fn dma_written(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        let write = &mut self.io.transactions[txn.request.tag as usize];
        write.lines -= 1;
        let last = write.lines == 0;
        let source = self.accelerators.peer_of(txn.request.source).index();
        if last {
            self.io.free.push(txn.request.tag);
        }
        self.io.sources[source].open -= 1;
        self.io_leaves(ctx, source);
        while let Some(message) = self.io.sources[source].queue.front().copied() {
            let relaxed = message.opcode == Opcode::MWr && message.is_relaxed();
            if self.io.sources[source].open > 0 && !relaxed {
                return;
            }
            self.io.sources[source].queue.pop_front();
            self.begin_io(ctx, source, &message);
        }
    }

    fn interrupted(&mut self, ctx: &mut Ctx<'_, Parcel>, vector: u16) {
        self.stats.interrupts += 1;
        if vector == MACHINE_CHECK {
            self.device_meets_poison(ctx);
            return;
        }
        let mut handlers = self.io.handlers.iter();
        match handlers.position(|(handled, _)| *handled == vector) {
            Some(index) => {
                let (_, op) = self.io.handlers.remove(index);
                ctx.wake_at(ctx.now() + self.params.interrupt_time, OP | op);
            }
            None => self.io.raised.push(vector),
        }
    }

    /// Takes the operations that wait for an interrupt.
    pub(super) fn take_handlers(&mut self) -> impl Iterator<Item = u32> + use<> {
        let handlers = std::mem::take(&mut self.io.handlers);
        handlers.into_iter().map(|(_, op)| op)
    }

    /// Tells the devices that the process of their threads has ended.
    pub(super) fn end_processes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for device in 0..self.accelerators.ports.len() {
            let tag = self.next_tag();
            self.send_register(ctx, device as u16, PROCESS_ENDS, Opcode::MWr, tag);
        }
    }

    /// Begins an operation of a core on registers, interrupts or mappings.
    pub(super) fn io_op(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32, operation: ThreadOp) {
        self.hw_threads.begin(op, ctx.now());
        match operation {
            ThreadOp::MmioWrite {
                device,
                register,
                value,
            } => {
                let tag = self.next_tag();
                let staged = staging(self.port_id, tag);
                self.hw_threads.image().write(staged, 8, value);
                if register == BIAS_REGISTER && self.writes_page_of(value) {
                    self.io.held_flips.push((value, device, tag, op));
                    return;
                }
                self.send_register(ctx, device, register, Opcode::MWr, tag);
                // The write is posted: the core continues when it has left for the root port.
                ctx.wake_at(ctx.now() + self.params.mesh_time, OP | op);
            }
            ThreadOp::MmioRead { device, register } => {
                let tag = self.next_tag();
                self.io.waiting.push((tag, op));
                self.send_register(ctx, device, register, Opcode::MRd, tag);
            }
            ThreadOp::WaitInterrupt { vector } => {
                let mut raised = self.io.raised.iter();
                match raised.position(|raised| *raised == vector) {
                    Some(index) => {
                        self.io.raised.remove(index);
                        ctx.wake_at(ctx.now() + self.params.interrupt_time, OP | op);
                    }
                    None => self.io.handlers.push((vector, op)),
                }
            }
            ThreadOp::Map { bytes, policy } if self.os.is_some() => {
                self.map(ctx, op, bytes, policy);
            }
            ThreadOp::Unmap { addr, bytes } if self.os.is_some() => {
                self.unmap(ctx, op, addr, bytes);
            }
            ThreadOp::Map { bytes, .. } => {
                let addr = self.io.mapped;
                self.io.mapped += bytes.next_multiple_of(PAGE);
                self.hw_threads.set_value(op, addr);
                ctx.wake_at(ctx.now(), OP | op);
            }
            _ => ctx.wake_at(ctx.now(), OP | op),
        }
    }

    /// Whether a line of the page with this physical address is in flight to its device.
    fn writes_page_of(&self, hpa: u64) -> bool {
        let page = |hpa: u64| hpa / PAGE;
        let mut writing = self.memory.writing.iter();
        writing.any(|line| page(line.0 * LINE_BYTES) == page(hpa))
    }

    /// Sends the bias flips that have waited for the last write of their page, because a register
    /// write may overtake it.
    pub(super) fn send_held_flips(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let held = std::mem::take(&mut self.io.held_flips);
        for flip in held {
            let (value, device, tag, op) = flip;
            if self.writes_page_of(value) {
                self.io.held_flips.push(flip);
                continue;
            }
            self.send_register(ctx, device, BIAS_REGISTER, Opcode::MWr, tag);
            ctx.wake_at(ctx.now() + self.params.mesh_time, OP | op);
        }
    }

    fn next_tag(&mut self) -> u32 {
        let tag = self.io.next_tag;
        self.io.next_tag = (tag + 1) % TAGS;
        tag
    }

    fn register_read(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let mut waiting = self.io.waiting.iter();
        let Some(index) = waiting.position(|(tag, _)| *tag == message.tag) else {
            panic!("a completion for which no operation waits")
        };
        let (_, op) = self.io.waiting.swap_remove(index);
        let staged = staging(self.port_id, message.tag);
        let value = self.hw_threads.image().read(staged, 8);
        let hw_thread = self.hw_threads.thread_of(op);
        self.hw_threads.complete_with(ctx, op, value);
        self.run(ctx, hw_thread);
    }

    fn send_register(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        device: u16,
        register: u32,
        opcode: Opcode,
        tag: u32,
    ) {
        let port = self.accelerators.ports[usize::from(device)];
        let hpa = register_address(register);
        let mut message = Message::new(opcode, hpa, tag, self.port_id, port, ctx.now());
        message.data = 8;
        self.roots.send(ctx, message);
    }

    pub(super) fn send_io(&mut self, ctx: &mut Ctx<'_, Parcel>, to: PortId, message: Message) {
        let time = ctx.now() + self.params.io_time;
        let message = Message {
            source: self.port_id,
            destination: to,
            stages: LatencyStages::default(),
            vc: 0,
            hops: 0,
            ..message
        };
        self.io.going.push_back((time.0, message));
        ctx.wake_at(time, GOING);
    }
}
