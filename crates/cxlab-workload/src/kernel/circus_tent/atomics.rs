//! One processing element: how it reads, changes and writes a word, over either interface.

use std::collections::VecDeque;

use super::{CircusTent, Interface};
use crate::thread::{AtomicKind, Direction, Handle, ThreadOp, Value, scratch};

/// Locks of words in the accelerator's own memory, chosen by address, and where they begin there.
const LOCKS: u64 = 1024;
const LOCKS_AT: u64 = 1 << 20;

/// Buffers of a processing element, one for each operation under way, a line each.
const BUFFER: u64 = 64;
const BUFFERS: u64 = 128;

/// What an atomic operation makes of a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Add(u64),
    CompareExchange { compare: u64, new: u64 },
}

impl Change {
    /// The new word, if there is one.
    pub fn of(self, old: u64) -> Option<u64> {
        match self {
            Change::Add(operand) => Some(old.wrapping_add(operand)),
            Change::CompareExchange { compare, new } => (old == compare).then_some(new),
        }
    }

    fn op(self, addr: u64) -> ThreadOp {
        let (kind, operand, compare) = match self {
            Change::Add(operand) => (AtomicKind::FetchAdd, operand, 0),
            Change::CompareExchange { compare, new } => (AtomicKind::CompareExchange, new, compare),
        };
        ThreadOp::Atomic {
            addr,
            size: 8,
            kind,
            operand,
            compare,
        }
    }
}

/// A DMA write that has not been acknowledged.
struct Posted<'t> {
    addr: u64,
    write: Value<'t>,
}

/// A processing element at work.
pub(super) struct Element<'t> {
    t: &'t Handle,
    interface: Interface,
    cycles: u32,
    /// Whether other elements of the accelerator could change the same word.
    shared: bool,
    /// DMA writes that may be left under way, and those that are; the oldest first.
    limit: usize,
    posted: VecDeque<Posted<'t>>,
    /// Its first buffer, and the number of the next to use.
    buffers: u64,
    next_buffer: u64,
    device: u16,
}

impl<'t> Element<'t> {
    /// The element of that number on an accelerator, where there are `elements`.
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

    /// Does an atomic operation; the old word.
    pub async fn atomic(&mut self, addr: u64, change: Change) -> u64 {
        self.parse().await;
        match self.interface {
            Interface::Cxl => self.t.issue(change.op(addr)).await,
            Interface::Pcie => self.by_dma(addr, change).await,
        }
    }

    /// Loads a word.
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

    /// Waits for all DMA writes.
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
        self.posted.push_back(Posted { addr, write });
        while self.posted.len() > self.limit {
            self.acknowledge().await;
        }
        old
    }

    /// The next buffer; the element has fewer operations under way than buffers.
    fn buffer(&mut self) -> u64 {
        self.next_buffer = (self.next_buffer + 1) % BUFFERS;
        self.buffers + self.next_buffer * BUFFER
    }

    /// Waits until no DMA write of this element to that word, or with its lock, is under way.
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

    /// Waits for the oldest DMA write.
    async fn acknowledge(&mut self) {
        if let Some(Posted { addr, write }) = self.posted.pop_front() {
            write.await;
            self.unlock(addr);
        }
    }

    fn lock_of(&self, addr: u64) -> u64 {
        scratch(self.device) + LOCKS_AT + addr / 8 % LOCKS * 8
    }

    /// Takes a word from the other elements. Whoever has to wait first lets go of all of its own,
    /// so that no two wait for each other.
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
