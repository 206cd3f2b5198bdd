//! The interface for a thread's code: every operation is a method that returns a future.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use cxlab_engine::units::LINE_BYTES;

use super::op::{AtomicKind, BIAS_REGISTER, Direction, ThreadOp};
use super::runtime::{Identity, ThreadShared, Token, UNCOUNTED};

/// The interface through which the code of a thread issues operations.
///
/// Each method issues its operation when it is called and returns a future for the value.
/// Operations overlap unless the code awaits one before it issues the next. Dropping a future
/// lets its operation complete without the code. Code that issues operations in an endless
/// loop must await some of them ([`Window`]). A handle works only in the code of its own
/// thread, and panics elsewhere.
pub struct Handle(Identity);

/// A future for the value of an issued operation.
pub struct Value<'t> {
    handle: &'t Handle,
    /// `None` after the value has been returned.
    token: Option<Token>,
}

/// A future for the bytes of a range that is being loaded.
pub struct LoadedRange<'t>(Value<'t>);

impl Handle {
    pub(super) fn new(identity: Identity) -> Handle {
        Handle(identity)
    }

    #[inline]
    fn reach<R>(&self, act: impl FnOnce(&mut ThreadShared) -> R) -> R {
        match self.0.reach(act) {
            Some(result) => result,
            None => panic!("a handle was used outside of the code of its thread"),
        }
    }

    #[inline]
    fn value(&self, token: Token) -> Value<'_> {
        Value {
            handle: self,
            token: Some(token),
        }
    }

    /// Issues any operation that carries no bytes.
    #[inline]
    pub fn issue(&self, op: ThreadOp) -> Value<'_> {
        self.value(self.reach(|shared| shared.issue(op)))
    }

    /// Issues an operation that only synchronizes threads, such as an access
    /// to a lock ([`UNCOUNTED`]).
    pub fn issue_uncounted(&self, op: ThreadOp) -> Value<'_> {
        self.value(self.reach(|shared| shared.issue_in(op, UNCOUNTED)))
    }

    /// Issues an operation on bytes, and lets `prepare` fill its buffer.
    fn issue_with(&self, op: ThreadOp, prepare: impl FnOnce(&mut Vec<u8>)) -> Value<'_> {
        self.value(self.reach(|shared| {
            let token = shared.issue(op);
            let bytes = shared.bytes(token);
            bytes.clear();
            prepare(bytes);
            token
        }))
    }

    /// Loads a number of 8 B.
    #[inline]
    pub fn load(&self, addr: u64) -> Value<'_> {
        self.load_sized(addr, 8)
    }

    /// Loads a number of 1 to 8 B within a line.
    #[inline]
    pub fn load_sized(&self, addr: u64, size: u8) -> Value<'_> {
        self.issue(ThreadOp::Load { addr, size })
    }

    /// Stores a number of 8 B.
    #[inline]
    pub fn store(&self, addr: u64, value: u64) -> Value<'_> {
        self.store_sized(addr, 8, value)
    }

    /// Stores a number of 1 to 8 B within a line.
    #[inline]
    pub fn store_sized(&self, addr: u64, size: u8, value: u64) -> Value<'_> {
        self.issue(ThreadOp::Store { addr, size, value })
    }

    /// Adds to a number of 8 B. Value: the old number.
    #[inline]
    pub fn fetch_add(&self, addr: u64, operand: u64) -> Value<'_> {
        self.issue(AtomicKind::FetchAdd.op(addr, 8, operand, 0))
    }

    /// Replaces a number of 8 B by `operand` if it equals `compare`. Value: the old number.
    #[inline]
    pub fn compare_exchange(&self, addr: u64, compare: u64, operand: u64) -> Value<'_> {
        self.issue(AtomicKind::CompareExchange.op(addr, 8, operand, compare))
    }

    /// Waits until a number of 8 B differs from `value`. Value: the number found.
    pub fn await_change(&self, addr: u64, value: u64) -> Value<'_> {
        self.issue(ThreadOp::Await {
            addr,
            size: 8,
            value,
        })
    }

    /// Loads a range of at least 1 B, with as many lines in flight as the executor allows.
    pub fn read_range(&self, addr: u64, bytes: u64) -> LoadedRange<'_> {
        self.load_range(addr, bytes, false)
    }

    /// Loads a range that the thread will store: caches request ownership of its lines at once.
    pub fn read_range_to_store(&self, addr: u64, bytes: u64) -> LoadedRange<'_> {
        self.load_range(addr, bytes, true)
    }

    fn load_range(&self, addr: u64, bytes: u64, to_store: bool) -> LoadedRange<'_> {
        let op = ThreadOp::ReadRange {
            addr,
            bytes,
            to_store,
        };
        LoadedRange(self.issue_with(op, |buffer| buffer.resize(bytes as usize, 0)))
    }

    /// Stores a range of at least 1 B.
    pub fn write_range(&self, addr: u64, data: &[u8]) -> Value<'_> {
        let bytes = data.len() as u64;
        let op = ThreadOp::WriteRange { addr, bytes };
        self.issue_with(op, |carried| carried.extend_from_slice(data))
    }

    /// Pushes a range of at least 1 B into the host's last-level cache (NC-P).
    pub fn push(&self, addr: u64, data: &[u8]) -> Value<'_> {
        let bytes = data.len() as u64;
        let op = ThreadOp::Push { addr, bytes };
        self.issue_with(op, |carried| carried.extend_from_slice(data))
    }

    /// Writes a line back if it is modified, and invalidates it in all caches (CLFLUSH).
    pub fn flush(&self, addr: u64) -> Value<'_> {
        self.issue(ThreadOp::Flush { addr })
    }

    /// Moves a line from the private caches to the last-level cache (CLDEMOTE).
    pub fn demote(&self, addr: u64) -> Value<'_> {
        self.issue(ThreadOp::Demote { addr })
    }

    /// Computes for some cycles. Code that awaits this future issues its later
    /// operations after the cycles.
    pub fn compute(&self, cycles: u32) -> Value<'_> {
        self.issue(ThreadOp::Compute { cycles })
    }

    /// Completes when all earlier operations of the thread have.
    pub fn fence(&self) -> Value<'_> {
        self.issue(ThreadOp::Fence)
    }

    /// Moves bytes by DMA. Value: the first bytes moved, up to 8, as a number.
    pub fn dma(
        &self,
        direction: Direction,
        host_addr: u64,
        device_addr: u64,
        bytes: u64,
    ) -> Value<'_> {
        self.issue(ThreadOp::Dma {
            direction,
            host_addr,
            device_addr,
            bytes,
        })
    }

    /// Reads a register of a device. Value: the register's value.
    pub fn mmio_read(&self, device: u16, register: u32) -> Value<'_> {
        self.issue(ThreadOp::MmioRead { device, register })
    }

    /// Writes a register of a device.
    pub fn mmio_write(&self, device: u16, register: u32, value: u64) -> Value<'_> {
        self.issue(ThreadOp::MmioWrite {
            device,
            register,
            value,
        })
    }

    /// Acts as a driver of a Type 2 device: switches the page that has the line at physical
    /// address `addr` to host bias or device bias, without a request to the host for any of its
    /// lines (CXL 3.1, section 3.3.3). Before a switch to device bias, the page must have been
    /// flushed from the host's caches.
    pub fn flip_bias(&self, device: u16, addr: u64, to_host: bool) -> Value<'_> {
        let value = (addr & !(LINE_BYTES - 1)) | u64::from(to_host);
        self.mmio_write(device, BIAS_REGISTER, value)
    }

    /// Waits on an accelerator until its register differs from `value`.
    /// Value: the register's value.
    pub fn mmio_await(&self, device: u16, register: u32, value: u64) -> Value<'_> {
        self.issue(ThreadOp::MmioAwait {
            device,
            register,
            value,
        })
    }

    /// Sends an interrupt from an accelerator to the host.
    pub fn interrupt(&self, vector: u16) -> Value<'_> {
        self.issue(ThreadOp::Interrupt { vector })
    }

    /// Waits until an interrupt of this vector is pending, and consumes it.
    pub fn wait_interrupt(&self, vector: u16) -> Value<'_> {
        self.issue(ThreadOp::WaitInterrupt { vector })
    }

    /// Allocates address space under a placement policy. Value: its first address.
    pub fn map(&self, bytes: u64, policy: u16) -> Value<'_> {
        self.issue(ThreadOp::Map { bytes, policy })
    }

    /// Assigns the thread's later operations to this phase.
    pub fn mark(&self, phase: u8) {
        self.issue(ThreadOp::Mark { phase });
    }

    /// Reads the simulated time. Value: picoseconds since the run began.
    pub fn time(&self) -> Value<'_> {
        self.issue(ThreadOp::Time)
    }

    /// Counts completed operations of the current phase.
    pub fn count(&self, operations: u32) {
        self.issue(ThreadOp::Count { operations });
    }
}

impl Future for Value<'_> {
    type Output = u64;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        let Some(token) = self.token else {
            // The value was returned before: the future is polled after its end,
            // and never has another.
            return Poll::Pending;
        };
        let polled = self.handle.reach(|shared| shared.poll(token));
        if polled.is_ready() {
            self.token = None;
        }
        polled
    }
}

impl Drop for Value<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token {
            // Outside of the thread's code, `reach` returns `None` and the slot is not freed.
            self.handle.0.reach(|shared| shared.abandon(token));
        }
    }
}

impl Future for LoadedRange<'_> {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        let token = self.0.token;
        match (Pin::new(&mut self.0).poll(context), token) {
            (Poll::Ready(_), Some(token)) => {
                let handle = self.0.handle;
                Poll::Ready(handle.reach(|shared| std::mem::take(shared.bytes(token))))
            }
            _ => Poll::Pending,
        }
    }
}

/// A queue of operations in flight with a limit: the oldest one is awaited before another is added.
pub struct Window<F> {
    under_way: VecDeque<F>,
    limit: usize,
}

impl<F: Future + Unpin> Window<F> {
    /// Makes an empty window for `limit` operations, at least 1.
    pub fn new(limit: usize) -> Window<F> {
        let limit = limit.max(1);
        let under_way = VecDeque::with_capacity(limit);
        Window { under_way, limit }
    }

    /// Waits for the oldest operation if the window is full, and returns its value.
    pub async fn room(&mut self) -> Option<F::Output> {
        if self.under_way.len() < self.limit {
            return None;
        }
        self.oldest().await
    }

    /// Adds an operation. [`Window::room`] must have returned before.
    pub fn add(&mut self, operation: F) {
        self.under_way.push_back(operation);
    }

    /// Waits for the oldest operation and returns its value; `None` when the window is empty.
    pub async fn oldest(&mut self) -> Option<F::Output> {
        Some(self.under_way.pop_front()?.await)
    }

    /// Waits for all operations.
    pub async fn drain(&mut self) {
        while self.oldest().await.is_some() {}
    }
}
