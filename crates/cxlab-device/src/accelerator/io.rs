//! CXL.io of an accelerator: the DMA engine, the registers, and the interrupts that the device raises.
//!
//! The engine starts descriptors in order; several may be in flight. A descriptor that reads host memory requests its
//! bytes in read requests of limited size, as many at once as there are tags. It completes when the last bytes have
//! passed the datapath. A descriptor that writes sends its bytes, and then a read of zero bytes, which the host
//! completes when all bytes are written: that is the acknowledgement. A posted descriptor has no acknowledgement, and
//! completes when its bytes have passed the datapath.

use std::collections::VecDeque;

use cxlab_agent::{Access, AtsMessage, PROCESS_ENDS, interrupt_address, register_at, staging};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_os::{PageAccess, PageSize};
use cxlab_protocol::{CacheMeta, LatencyStages, Message, Opcode};
use cxlab_workload::thread::{BIAS_REGISTER, Direction, ThreadOp};
use serde::{Deserialize, Serialize};

use super::{Accelerator, DMA, OP};

#[derive(Clone, Copy, Serialize, Deserialize)]
struct DmaDescriptor {
    op: u32,
    direction: Direction,
    host: u64,
    device: u64,
    bytes: u64,
    /// Bytes that have been requested or sent.
    begun: u64,
    /// Bytes whose translations the engine has looked up.
    looked_up: u64,
    /// Bytes that have arrived.
    come: u64,
    /// Earliest time of the first transaction.
    start: u64,
}

/// A read request in flight; its index is its tag.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ReadRequest {
    descriptor: usize,
    /// Offset of the requested bytes in the descriptor.
    offset: u64,
    bytes: u64,
    come: u64,
    /// Epoch of the translation.
    epoch: u64,
}

/// State of the DMA engine and the registers.
pub(super) struct DmaEngine {
    /// Descriptors by number; completed ones are `None`.
    descriptors: Vec<Option<DmaDescriptor>>,
    /// Descriptors with bytes left to request or send, in order.
    active: VecDeque<usize>,
    /// Number of descriptors at the front of `active` whose translations have all been looked up.
    looked_up: usize,
    /// Earliest start of the next descriptor.
    engine_free: u64,
    /// Time at which the datapath has moved all bytes given to it.
    path_free: u64,
    tags: Vec<ReadRequest>,
    free: Vec<u32>,
    /// Next tag of a write; these tags are used cyclically, above those of reads.
    next_write: u32,
    wake: u64,
    registers: Vec<u64>,
    /// Operations that wait for a register to change: register, old value, operation.
    waiting: Vec<(u32, u64, u32)>,
    pub(super) descriptors_done: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
}

save_state!(DmaEngine {
    values: descriptors, active, looked_up, engine_free, path_free, free, next_write, wake, registers, waiting, descriptors_done, bytes_read, bytes_written;
    sized: tags;
});

/// Number of tags of writes (*assumed*).
pub(super) const WRITE_TAGS: u32 = 1 << 12;

/// Bytes that a Translation Request covers.
const PAGE: u64 = PageSize::Small.bytes();

/// Maximum number of transactions queued for the link before the engine stalls further writes (*assumed*).
const MOST_WAITING: usize = 1 << 10;

impl DmaEngine {
    pub(super) fn new(tags: u32) -> DmaEngine {
        DmaEngine {
            descriptors: Vec::new(),
            active: VecDeque::new(),
            looked_up: 0,
            engine_free: 0,
            path_free: 0,
            tags: vec![ReadRequest::default(); tags as usize],
            free: (0..tags).rev().collect(),
            next_write: 0,
            wake: u64::MAX,
            registers: Vec::new(),
            waiting: Vec::new(),
            descriptors_done: 0,
            bytes_read: 0,
            bytes_written: 0,
        }
    }

    /// Removes the first active descriptor, which has no bytes left to request or send.
    fn pop_active(&mut self) {
        self.active.pop_front();
        self.looked_up = self.looked_up.saturating_sub(1);
    }

    /// Number of descriptors that are not complete.
    pub(super) fn in_flight(&self) -> u64 {
        self.descriptors.iter().flatten().count() as u64
    }

    pub(super) fn begin_measurement(&mut self) {
        (self.descriptors_done, self.bytes_read, self.bytes_written) = (0, 0, 0);
    }
}

impl Accelerator {
    /// Begins an operation that is not a memory access.
    pub(super) fn io_op(&mut self, ctx: &mut Ctx<'_, Parcel>, op: u32, operation: ThreadOp) {
        let now = ctx.now();
        self.hw_threads.begin(op, now);
        match operation {
            ThreadOp::Dma {
                direction,
                host_addr,
                device_addr,
                bytes,
            } => self.post(ctx, op, direction, host_addr, device_addr, bytes),
            ThreadOp::MmioWrite {
                register, value, ..
            } => {
                self.write_register(ctx, register, value);
                ctx.wake_at(now + self.cycles(1), OP | op);
            }
            ThreadOp::MmioRead { register, .. } => {
                let value = self.register(register);
                let hw_thread = self.hw_threads.thread_of(op);
                self.hw_threads.complete_with(ctx, op, value);
                self.wake_hw_thread(ctx, hw_thread, now + self.cycles(1));
            }
            ThreadOp::MmioAwait {
                register, value, ..
            } => {
                self.io.waiting.push((register, value, op));
                self.look_at_registers(ctx);
            }
            ThreadOp::Interrupt { vector } => {
                let hpa = interrupt_address(vector);
                self.send_io(ctx, Opcode::MWr, hpa, WRITE_TAGS, 4, true);
                ctx.wake_at(now + self.cycles(1), OP | op);
            }
            _ => ctx.wake_at(now, OP | op),
        }
    }

    fn register(&self, register: u32) -> u64 {
        let value = self.io.registers.get(register as usize);
        value.copied().unwrap_or(0)
    }

    /// Handles a register write of a thread or of the host.
    fn write_register(&mut self, ctx: &mut Ctx<'_, Parcel>, register: u32, value: u64) {
        match register {
            BIAS_REGISTER => self.flip_by_software(LineAddr(value / LINE_BYTES), value & 1 != 0),
            register => self.set_register(ctx, register, value),
        }
    }

    fn set_register(&mut self, ctx: &mut Ctx<'_, Parcel>, register: u32, value: u64) {
        let index = register as usize;
        if self.io.registers.len() <= index {
            self.io.registers.resize(index + 1, 0);
        }
        self.io.registers[index] = value;
        self.look_at_registers(ctx);
    }

    /// Takes the operations that wait for a register to change.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = u32> + use<> {
        let waiting = std::mem::take(&mut self.io.waiting);
        waiting.into_iter().map(|(_, _, op)| op)
    }

    /// Completes the operations whose register has changed.
    fn look_at_registers(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let mut index = 0;
        while index < self.io.waiting.len() {
            let (register, old, op) = self.io.waiting[index];
            let value = self.register(register);
            if value == old {
                index += 1;
                continue;
            }
            self.io.waiting.remove(index);
            let hw_thread = self.hw_threads.thread_of(op);
            self.hw_threads.complete_with(ctx, op, value);
            let next_cycle = ctx.now() + self.cycles(1);
            self.wake_hw_thread(ctx, hw_thread, next_cycle);
        }
    }

    pub(super) fn io_message(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if let Some(ats) = AtsMessage::at(message.hpa) {
            self.ats_message(ctx, message, ats);
            return;
        }
        match (message.opcode, register_at(message.hpa)) {
            (Opcode::CplD, _) => self.completed(ctx, message),
            (Opcode::MWr, Some(PROCESS_ENDS)) => self.end_threads(ctx),
            (Opcode::MWr, Some(register)) => {
                let staged = staging(message.source, message.tag);
                let value = self.hw_threads.image().read(staged, 8);
                self.write_register(ctx, register, value);
            }
            (Opcode::MRd, Some(register)) => {
                let staged = staging(message.source, message.tag);
                let value = self.register(register);
                self.hw_threads.image().write(staged, 8, value);
                let mut response = *message;
                response.opcode = Opcode::CplD;
                response.stages = LatencyStages::default();
                (response.source, response.destination) = (self.port_id, message.source);
                (response.vc, response.hops) = (0, 0);
                self.roots.send(ctx, response);
            }
            (opcode, _) => panic!("{opcode:?} to an address that an accelerator has not"),
        }
    }

    /// Adds a descriptor to the engine.
    fn post(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        op: u32,
        direction: Direction,
        host: u64,
        device: u64,
        bytes: u64,
    ) {
        let dma = &self.params.dma;
        let taken = ctx.now().0.max(self.io.engine_free);
        let (each, setup) = (dma.descriptor_cycles, dma.setup_cycles);
        self.io.engine_free = taken + self.cycles(each).0;
        let descriptor = DmaDescriptor {
            op,
            direction,
            host,
            device,
            bytes,
            begun: 0,
            looked_up: 0,
            come: 0,
            start: taken + self.cycles(setup).0,
        };
        let free = self.io.descriptors.iter().position(Option::is_none);
        let number = match free {
            Some(number) => {
                self.io.descriptors[number] = Some(descriptor);
                number
            }
            None => {
                self.io.descriptors.push(Some(descriptor));
                self.io.descriptors.len() - 1
            }
        };
        self.io.active.push_back(number);
        self.work(ctx);
    }

    /// Issues transactions of the active descriptors, as far as possible now.
    pub(super) fn work(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        if self.io.wake <= now {
            self.io.wake = u64::MAX;
        }
        while let Some(number) = self.io.active.front().copied() {
            self.translate_ahead(ctx);
            let Some(descriptor) = self.io.descriptors[number] else {
                self.io.pop_active();
                continue;
            };
            if descriptor.start > now {
                self.wake_engine(ctx, descriptor.start);
                return;
            }
            let sent = match descriptor.direction {
                Direction::ToDevice => self.request_bytes(ctx, number, &descriptor),
                Direction::ToHost | Direction::ToHostPosted => {
                    self.send_bytes(ctx, number, &descriptor)
                }
            };
            if !sent {
                return;
            }
        }
    }

    /// Looks up translations of active descriptors ahead of their transfers, as far as the
    /// translation cache has space and requests, so that translations and transfers overlap. A
    /// descriptor's address is known when its setup is over.
    fn translate_ahead(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while self.may_look_ahead()
            && let Some(&number) = self.io.active.get(self.io.looked_up)
        {
            let Some(descriptor) = self.io.descriptors[number] else {
                self.io.looked_up += 1;
                continue;
            };
            if descriptor.looked_up == descriptor.bytes {
                self.io.looked_up += 1;
                continue;
            }
            if descriptor.start > ctx.now().0 {
                self.wake_engine(ctx, descriptor.start);
                return;
            }
            let need = match descriptor.direction {
                Direction::ToDevice => PageAccess::Read,
                Direction::ToHost | Direction::ToHostPosted => PageAccess::Write,
            };
            let addr = descriptor.host + descriptor.looked_up;
            if !self.look_up(ctx, addr, need) {
                return;
            }
            if let Some(descriptor) = &mut self.io.descriptors[number] {
                let rest = descriptor.bytes - descriptor.looked_up;
                descriptor.looked_up += rest.min(PAGE - addr % PAGE);
            }
        }
    }

    fn wake_engine(&mut self, ctx: &mut Ctx<'_, Parcel>, time: u64) {
        if time < self.io.wake {
            self.io.wake = time;
            ctx.wake_at(SimTime(time), DMA);
        }
    }

    /// Requests the next bytes of a descriptor; false when the descriptor must wait.
    fn request_bytes(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: usize,
        descriptor: &DmaDescriptor,
    ) -> bool {
        if self.io.free.is_empty() {
            return false;
        }
        let start = descriptor.host + descriptor.begun;
        let Some((hpa, epoch)) = self.translate_dma(ctx, start, PageAccess::Read) else {
            return false;
        };
        let Some(tag) = self.io.free.pop() else {
            return false;
        };
        let read_request = self.params.dma.read_request.0;
        let bytes = (descriptor.bytes - descriptor.begun).min(read_request - start % read_request);
        self.io.tags[tag as usize] = ReadRequest {
            descriptor: number,
            offset: descriptor.begun,
            bytes,
            come: 0,
            epoch,
        };
        self.send_io(ctx, Opcode::MRd, hpa, tag, bytes as u16, true);
        self.begun(number, bytes);
        let descriptor = &self.io.descriptors[number];
        if descriptor.is_some_and(|descriptor| descriptor.begun == descriptor.bytes) {
            self.io.pop_active();
        }
        true
    }

    /// Sends the next bytes of a descriptor; false when the descriptor must wait.
    fn send_bytes(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: usize,
        descriptor: &DmaDescriptor,
    ) -> bool {
        let now = ctx.now().0;
        if descriptor.begun == descriptor.bytes {
            return match descriptor.direction {
                Direction::ToHostPosted => {
                    self.io.pop_active();
                    self.finish(ctx, number, descriptor, self.io.path_free.max(now));
                    true
                }
                _ => self.request_acknowledgement(ctx, number),
            };
        }
        if self.roots.waiting() >= MOST_WAITING {
            // The link is the bottleneck. The queue must not grow beyond the number of tags for writes.
            self.wake_engine(ctx, now + self.path_ps(self.params.dma.payload.0));
            return false;
        }
        if self.io.path_free > now {
            self.wake_engine(ctx, self.io.path_free);
            return false;
        }
        let start = descriptor.host + descriptor.begun;
        let Some((hpa, epoch)) = self.translate_dma(ctx, start, PageAccess::Write) else {
            return false;
        };
        let payload = self.params.dma.payload.0;
        let bytes = (descriptor.bytes - descriptor.begun).min(payload - start % payload);
        let tag = WRITE_TAGS + 1 + self.io.next_write;
        self.io.next_write = (self.io.next_write + 1) % WRITE_TAGS;
        let staged = staging(self.port_id, tag);
        let from = Hpa(descriptor.device + descriptor.begun);
        self.hw_threads.image().copy(from, staged, bytes);
        let first = descriptor.begun == 0;
        self.send_io(ctx, Opcode::MWr, hpa, tag, bytes as u16, first);
        // The write is posted, and a message that permits the page to move is ordered behind it.
        self.end_translation(ctx, epoch);
        self.io.bytes_written += bytes;
        self.io.path_free = now + self.path_ps(bytes);
        self.begun(number, bytes);
        true
    }

    /// Sends a read of zero bytes, which the host completes when all bytes are written; false when no tag is free.
    fn request_acknowledgement(&mut self, ctx: &mut Ctx<'_, Parcel>, number: usize) -> bool {
        let Some(tag) = self.io.free.pop() else {
            return false;
        };
        self.io.tags[tag as usize] = ReadRequest {
            descriptor: number,
            offset: 0,
            bytes: 0,
            come: 0,
            epoch: Access::NO_EPOCH,
        };
        let host = self.io.descriptors[number].map_or(0, |descriptor| descriptor.host);
        self.send_io(ctx, Opcode::MRd, Hpa(host), tag, 0, true);
        self.io.pop_active();
        true
    }

    /// Counts bytes of a descriptor as requested or sent.
    fn begun(&mut self, number: usize, bytes: u64) {
        let Some(descriptor) = &mut self.io.descriptors[number] else {
            return;
        };
        descriptor.begun += bytes;
        let end = descriptor.host + descriptor.begun;
        if descriptor.begun == descriptor.bytes || end.is_multiple_of(PAGE) {
            self.page_done();
        }
    }

    /// Time in which the datapath moves a transaction with `bytes` bytes of payload, in picoseconds.
    fn path_ps(&self, bytes: u64) -> u64 {
        let total = bytes + Message::TLP_OVERHEAD;
        let width = self.params.dma.width.0;
        (total * self.params.cycle.0).div_ceil(width)
    }

    /// Handles read data or an acknowledgement.
    fn completed(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let now = ctx.now().0;
        let bytes = u64::from(message.data);
        let tag = &mut self.io.tags[message.tag as usize];
        tag.come += bytes;
        let ReadRequest {
            descriptor: number,
            offset,
            bytes: requested,
            come,
            epoch,
        } = *tag;
        let Some(mut descriptor) = self.io.descriptors[number] else {
            panic!("a completion of a descriptor that is done")
        };
        if bytes > 0 {
            let path = self.path_ps(bytes);
            self.io.path_free = self.io.path_free.max(now) + path;
            self.io.bytes_read += bytes;
        }
        if come < requested {
            return;
        }
        if requested > 0 {
            let staged = staging(self.port_id, message.tag);
            let to = Hpa(descriptor.device + offset);
            self.hw_threads.image().copy(staged, to, requested);
            descriptor.come += requested;
        }
        self.end_translation(ctx, epoch);
        if message.cache.has(CacheMeta::POISON) {
            self.machine_check(ctx);
        }
        self.io.free.push(message.tag);
        self.io.descriptors[number] = Some(descriptor);
        match descriptor.direction {
            Direction::ToDevice if descriptor.come == descriptor.bytes => {
                self.finish(ctx, number, &descriptor, self.io.path_free);
            }
            Direction::ToDevice => {}
            Direction::ToHost | Direction::ToHostPosted => {
                self.finish(ctx, number, &descriptor, now);
            }
        }
        self.work(ctx);
    }

    /// Completes a descriptor whose last transaction ends at `end`; its thread continues after the completion delay.
    fn finish(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        number: usize,
        descriptor: &DmaDescriptor,
        end: u64,
    ) {
        self.io.descriptors[number] = None;
        self.io.descriptors_done += 1;
        let size = descriptor.bytes.min(8) as u8;
        let value = self.hw_threads.image().read(Hpa(descriptor.device), size);
        self.hw_threads.set_value(descriptor.op, value);
        let after = self.cycles(self.params.dma.completion_cycles);
        ctx.wake_at(SimTime(end) + after, OP | descriptor.op);
    }

    pub(super) fn send_io(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        opcode: Opcode,
        hpa: Hpa,
        tag: u32,
        bytes: u16,
        ordered: bool,
    ) {
        let message = Message {
            lines: u8::from(ordered),
            data: bytes,
            ..Message::new(opcode, hpa, tag, self.port_id, self.host, ctx.now())
        };
        self.roots.send(ctx, message);
    }
}
