//! One processing element: how it reads, changes and writes a word, through either interface.

use std::collections::VecDeque;

use super::{CircusTent, Interface};
use crate::thread::{AtomicKind, Direction, Handle, ThreadOp, Value, scratch};

/// Number of locks in the accelerator's own memory, one for all words whose numbers
/// are equal modulo this.
const LOCKS: u64 = 1024;
/// Offset of the locks in the accelerator's own memory.
const LOCKS_AT: u64 = 1 << 20;

/// Bytes of one buffer of a processing element: a line.
const BUFFER: u64 = 64;
/// Number of buffers of a processing element; each operation in flight uses one.
const BUFFERS: u64 = 128;

/// How an atomic operation changes a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Add(u64),
    CompareExchange { compare: u64, new: u64 },
}

impl Change {
    /// The new word, or `None` if the operation leaves the word unchanged.
    pub fn of(self, old: u64) -> Option<u64> {
        match self {
            Change::Add(operand) => Some(old.wrapping_add(operand)),
            Change::CompareExchange { compare, new } => (old == compare).then_some(new),
        }
    }

    fn op(self, addr: u64) -> ThreadOp {
        match self {
            Change::Add(operand) => AtomicKind::FetchAdd.op(addr, 8, operand, 0),
            Change::CompareExchange { compare, new } => {
                AtomicKind::CompareExchange.op(addr, 8, new, compare)
            }
        }
    }
}

/// A DMA write that has not been acknowledged.
struct PostedWrite<'t> {
    addr: u64,
    write: Value<'t>,
}

/// A processing element that executes operations.
pub(super) struct Element<'t> {
    t: &'t Handle,
    interface: Interface,
    cycles: u32,
    /// Whether other elements of the accelerator may change the same word.
    shared: bool,
    /// Most DMA writes in flight when the next operation begins.
    limit: usize,
    /// The DMA writes in flight, the oldest first.
    posted: VecDeque<PostedWrite<'t>>,
    /// Address of the element's first buffer.
    buffers: u64,
    /// Number of the buffer used last.
    next_buffer: u64,
    device: u16,
}

impl<'t> Element<'t> {
    /// Makes element number `element` of an accelerator with `elements` elements.
    pub fn new(
        t: &'t Handle,
        params: &CircusTent,
        device: u16,
        element: usize,
        elements: usize,
    ) -> Element<'t> {
        Element {
            t,
            interface: params.interface,
            cycles: params.cycles,
            shared: elements > 1,
            limit: params.posted_writes as usize,
            posted: VecDeque::new(),
            buffers: scratch(device) + 2 * LOCKS_AT + element as u64 * BUFFERS * BUFFER,
            next_buffer: 0,
            device,
        }
    }

    /// Executes an atomic operation and returns the old word.
    pub async fn atomic(&mut self, addr: u64, change: Change) -> u64 {
        self.parse().await;
        match self.interface {
            Interface::Cxl => self.t.issue(change.op(addr)).await,
            Interface::Pcie => self.by_dma(addr, change).await,
        }
    }

    /// Loads a word and returns it.
    pub async fn load(&mut self, addr: u64) -> u64 {
        self.parse().await;
        match self.interface {
            Interface::Cxl => self.t.load(addr).await,
            Interface::Pcie => {
                self.settle(addr).await;
                let buffer = self.buffer();
                self.t.dma(Direction::ToDevice, addr, buffer, 8).await
            }
        }
    }

    /// Waits until all DMA writes are acknowledged.
    pub async fn finish(&mut self) {
        while !self.posted.is_empty() {
            self.acknowledge().await;
        }
    }

    async fn parse(&self) {
        if self.cycles > 0 {
            self.t.compute(self.cycles).await;
        }
    }

    async fn by_dma(&mut self, addr: u64, change: Change) -> u64 {
        self.settle(addr).await;
        self.lock(addr).await;
        let buffer = self.buffer();
        let old = self.t.dma(Direction::ToDevice, addr, buffer, 8).await;
        let Some(new) = change.of(old) else {
            self.unlock(addr);
            return old;
        };
        self.t.store(buffer, new).await;
        let write = self.t.dma(Direction::ToHost, addr, buffer, 8);
        self.posted.push_back(PostedWrite { addr, write });
        while self.posted.len() > self.limit {
            self.acknowledge().await;
        }
        old
    }

    /// The address of the next buffer. The element has fewer operations in flight than buffers.
    fn buffer(&mut self) -> u64 {
        self.next_buffer = (self.next_buffer + 1) % BUFFERS;
        self.buffers + self.next_buffer * BUFFER
    }

    /// Waits until no DMA write of this element to that word, or to a word with the same
    /// lock, is in flight.
    async fn settle(&mut self, addr: u64) {
        let lock = self.lock_of(addr);
        while self
            .posted
            .iter()
            .any(|write| self.lock_of(write.addr) == lock)
        {
            self.acknowledge().await;
        }
    }

    /// Waits for the oldest DMA write and releases its lock.
    async fn acknowledge(&mut self) {
        if let Some(PostedWrite { addr, write }) = self.posted.pop_front() {
            write.await;
            self.unlock(addr);
        }
    }

    fn lock_of(&self, addr: u64) -> u64 {
        scratch(self.device) + LOCKS_AT + addr / 8 % LOCKS * 8
    }

    /// Locks a word against the other elements. An element that has to wait first completes its DMA
    /// writes and releases their locks, so that no two elements wait for each other.
    async fn lock(&mut self, addr: u64) {
        if !self.shared {
            return;
        }
        let lock = self.lock_of(addr);
        let take = Change::CompareExchange { compare: 0, new: 1 };
        let wait = ThreadOp::Await {
            addr: lock,
            size: 8,
            value: 1,
        };
        while self.t.issue_uncounted(take.op(lock)).await != 0 {
            self.finish().await;
            self.t.issue_uncounted(wait).await;
        }
    }

    fn unlock(&self, addr: u64) {
        if self.shared {
            self.t.issue_uncounted(ThreadOp::Store {
                addr: self.lock_of(addr),
                size: 8,
                value: 0,
            });
        }
    }
}
