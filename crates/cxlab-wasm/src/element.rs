//! Calls on a processing element: each access to simulated memory is an operation of the element's thread.

use cxlab_engine::units::LINE_BYTES;
use cxlab_workload::thread::{AtomicKind, Handle, ThreadOp, Value, Window};

use crate::call::{AtomicOp, Call, Request, Step, number};

/// Stores of a call that may be in flight (*assumed*: a small store buffer).
const STORES: usize = 8;

/// Where bytes are that a call accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BytePlace {
    /// From this address on, so many of the bytes, at least 1.
    At(u64, u64),
    /// The page of this address is missing.
    Missing(u64),
}

/// What a call may access, and where that is.
pub trait Reach: Sync {
    /// The error of an access that is refused, and of a program that does what it cannot do.
    type Error: Send;

    /// The place of the first of `bytes` bytes from `addr` on, and of as many behind it as follow each other.
    ///
    /// # Errors
    /// The function named `name` cannot access them.
    fn place(&self, name: &str, addr: u64, bytes: u64) -> Result<BytePlace, Self::Error>;

    /// The error of a program that does what it cannot do.
    fn fault(&self, what: String) -> Self::Error;
}

/// Why a call stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopReason {
    /// The function returned.
    Ended,
    /// All work-items of the group must reach a barrier.
    Barrier,
    /// The page of this address is missing.
    Missing(u64),
}

/// A call that runs on processing elements.
pub struct RunningCall {
    call: Call,
    /// The value of the last request.
    value: u64,
    /// The request whose page was missing.
    faulted: Option<Request>,
}

/// Bytes in their places: address and number of each piece.
type Pieces = Vec<(u64, u64)>;

impl RunningCall {
    /// A call that has not begun.
    pub fn new(call: Call) -> RunningCall {
        RunningCall {
            call,
            value: 0,
            faulted: None,
        }
    }

    /// Runs the call until it stops. All of its accesses are complete then.
    ///
    /// # Errors
    /// An access that `reach` refuses, or what the program cannot do.
    pub async fn run<R: Reach>(&mut self, t: &Handle, reach: &R) -> Result<StopReason, R::Error> {
        let mut stores = Window::new(STORES);
        let stopped = self.steps(t, reach, &mut stores).await;
        stores.drain().await;
        stopped
    }

    async fn steps<'t, R: Reach>(
        &mut self,
        t: &'t Handle,
        reach: &R,
        stores: &mut Window<Value<'t>>,
    ) -> Result<StopReason, R::Error> {
        loop {
            let step = match self.faulted.take() {
                Some(request) => Step::Request(request, 0),
                None => {
                    let step = self.call.resume(self.value);
                    step.map_err(|what| reach.fault(what))?
                }
            };
            self.value = 0;
            let (Step::Request(_, cycles) | Step::Ended(cycles)) = step;
            if cycles > 0 {
                let cycles = u32::try_from(cycles).unwrap_or(u32::MAX);
                t.compute(cycles).await;
            }
            let Step::Request(request, _) = step else {
                return Ok(StopReason::Ended);
            };
            match request {
                Request::Barrier => return Ok(StopReason::Barrier),
                Request::Fence => stores.drain().await,
                Request::Time => {}
                _ => {
                    if let Some(missing) = self.access(t, reach, request, stores).await? {
                        self.faulted = Some(request);
                        return Ok(StopReason::Missing(missing));
                    }
                }
            }
        }
    }

    /// Carries out an access. Returns an address whose page is missing, where there is one.
    async fn access<'t, R: Reach>(
        &mut self,
        t: &'t Handle,
        reach: &R,
        request: Request,
        stores: &mut Window<Value<'t>>,
    ) -> Result<Option<u64>, R::Error> {
        let (addr, bytes) = match request {
            Request::Load { addr, size, .. }
            | Request::Store { addr, size, .. }
            | Request::Atomic { addr, size, .. } => (addr, u64::from(size)),
            Request::Fill { to, bytes, .. } => (to, bytes),
            Request::Copy { to, from, bytes } => {
                return self.copy(t, reach, (to, from, bytes), stores).await;
            }
            Request::Fence | Request::Barrier | Request::Time => return Ok(None),
        };
        let pieces = match self.pieces(reach, addr, bytes)? {
            Ok(pieces) => pieces,
            Err(missing) => return Ok(Some(missing)),
        };
        match request {
            Request::Load { atomic, .. } => {
                if atomic {
                    stores.drain().await;
                }
                self.value = load(t, &pieces).await;
            }
            Request::Store { value, atomic, .. } => {
                if atomic {
                    stores.drain().await;
                }
                store(t, &pieces, value, stores).await;
                if atomic {
                    stores.drain().await;
                }
            }
            Request::Atomic {
                size,
                op,
                operand,
                compare,
                ..
            } => {
                stores.drain().await;
                let (kind, operand) = kind_of(op, operand);
                let op = ThreadOp::Atomic {
                    addr: pieces[0].0,
                    size,
                    kind,
                    operand,
                    compare,
                };
                self.value = t.issue(op).await;
            }
            Request::Fill { value, bytes, .. } => {
                write(t, &pieces, &vec![value; bytes as usize], stores).await;
            }
            _ => {}
        }
        Ok(None)
    }

    async fn copy<'t, R: Reach>(
        &mut self,
        t: &'t Handle,
        reach: &R,
        (to, from, bytes): (u64, u64, u64),
        stores: &mut Window<Value<'t>>,
    ) -> Result<Option<u64>, R::Error> {
        let there = match self.call.is_private(to) {
            true => Pieces::new(),
            false => match self.pieces(reach, to, bytes)? {
                Ok(there) => there,
                Err(missing) => return Ok(Some(missing)),
            },
        };
        let data = match self.call.is_private(from) {
            true => {
                let private = self.call.private(from, bytes);
                private.map_err(|what| reach.fault(what))?.to_vec()
            }
            false => match self.pieces(reach, from, bytes)? {
                Ok(pieces) => read(t, &pieces).await,
                Err(missing) => return Ok(Some(missing)),
            },
        };
        if self.call.is_private(to) {
            let private = self.call.private_mut(to, bytes);
            private
                .map_err(|what| reach.fault(what))?
                .copy_from_slice(&data);
        } else {
            write(t, &there, &data, stores).await;
        }
        Ok(None)
    }

    /// The places of bytes, or the address of a missing page of them.
    fn pieces<R: Reach>(
        &self,
        reach: &R,
        addr: u64,
        bytes: u64,
    ) -> Result<Result<Pieces, u64>, R::Error> {
        let mut pieces = Pieces::new();
        let mut done = 0;
        while done < bytes {
            let found = reach.place(self.call.name(), addr.wrapping_add(done), bytes - done)?;
            match found {
                BytePlace::At(at, count) => {
                    let count = count.clamp(1, bytes - done);
                    pieces.push((at, count));
                    done += count;
                }
                BytePlace::Missing(addr) => return Ok(Err(addr)),
            }
        }
        Ok(Ok(pieces))
    }
}

async fn load(t: &Handle, pieces: &[(u64, u64)]) -> u64 {
    if let [(addr, bytes)] = *pieces
        && in_a_line(addr, bytes)
    {
        return t.load_sized(addr, bytes as u8).await;
    }
    number(&read(t, pieces).await)
}

async fn read(t: &Handle, pieces: &[(u64, u64)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (addr, bytes) in pieces {
        data.extend(t.read_range(*addr, *bytes).await);
    }
    data
}

async fn store<'t>(
    t: &'t Handle,
    pieces: &[(u64, u64)],
    value: u64,
    stores: &mut Window<Value<'t>>,
) {
    if let [(addr, bytes)] = *pieces
        && in_a_line(addr, bytes)
    {
        stores.room().await;
        return stores.add(t.store_sized(addr, bytes as u8, value));
    }
    write(t, pieces, &value.to_le_bytes(), stores).await;
}

/// Stores as many of the bytes as the pieces have.
async fn write<'t>(
    t: &'t Handle,
    pieces: &[(u64, u64)],
    data: &[u8],
    stores: &mut Window<Value<'t>>,
) {
    let mut rest = data;
    for (addr, bytes) in pieces {
        let (now, later) = rest.split_at((*bytes as usize).min(rest.len()));
        rest = later;
        stores.room().await;
        stores.add(t.write_range(*addr, now));
    }
}

fn in_a_line(addr: u64, bytes: u64) -> bool {
    bytes <= 8 && addr % LINE_BYTES + bytes <= LINE_BYTES
}

fn kind_of(op: AtomicOp, operand: u64) -> (AtomicKind, u64) {
    match op {
        AtomicOp::Add => (AtomicKind::FetchAdd, operand),
        AtomicOp::Sub => (AtomicKind::FetchAdd, operand.wrapping_neg()),
        AtomicOp::And => (AtomicKind::And, operand),
        AtomicOp::Or => (AtomicKind::Or, operand),
        AtomicOp::Xor => (AtomicKind::Xor, operand),
        AtomicOp::Exchange => (AtomicKind::Swap, operand),
        AtomicOp::CompareExchange => (AtomicKind::CompareExchange, operand),
    }
}
