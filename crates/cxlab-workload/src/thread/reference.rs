//! An executor without time, for tests of kernels. It executes operations one after another, in an
//! order that an executor with time could choose as well.
//!
//! Addresses are physical. Allocations start at [`MAP_BASE`]. Flushes, write-backs and prefetches
//! do nothing, because there are no caches.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;

use super::kernel::{ThreadContext, ThreadedKernel};
use super::op::{Direction, ThreadOp};
use super::runtime::{NextAction, Thread, Token};
use crate::image::Image;

/// First address of allocations: 2^50, between CXL memory and the host's own memory.
pub const MAP_BASE: u64 = 1 << 50;

/// Most operations of a thread in flight.
const OUTSTANDING: usize = 32;

/// The order in which operations are executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Each thread runs until it waits, the oldest operation first.
    Sequential,
    /// A random thread, and a random one of its operations that need not wait; the
    /// value is the seed.
    Random(u64),
}

/// Why threads did not run to their end, or not with the right result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StuckThreads {
    /// All threads that have not finished wait for one another.
    Deadlock {
        /// The number of each waiting thread, and its oldest operation.
        waiting: Vec<(usize, Option<ThreadOp>)>,
    },
    /// A thread issued an operation that no executor can execute.
    Fault {
        /// The thread's number.
        thread: usize,
        /// The operation that cannot be executed.
        op: ThreadOp,
        /// Why the operation cannot be executed.
        why: &'static str,
    },
    /// The kernel's check found a wrong result and describes the difference.
    Wrong(String),
}

impl fmt::Display for StuckThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StuckThreads::Deadlock { waiting } => {
                write!(f, "threads wait for one another: {waiting:?}")
            }
            StuckThreads::Fault { thread, op, why } => write!(f, "thread {thread}: {op:?}: {why}"),
            StuckThreads::Wrong(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for StuckThreads {}

struct Running {
    thread: Thread,
    pending: VecDeque<(Token, ThreadOp)>,
    finished: bool,
}

struct Machine<'i> {
    image: &'i Image,
    registers: BTreeMap<(u16, u32), u64>,
    interrupts: BTreeMap<u16, u64>,
    next_map: u64,
}

/// Runs threads to their end and returns the number of operations executed.
///
/// # Errors
/// A [`StuckThreads`] if a thread does not reach its end.
pub fn run_threads(threads: Vec<Thread>, image: &Image, order: Order) -> Result<u64, StuckThreads> {
    run_traced(threads, image, order, |_, _| {})
}

/// Runs threads as [`run_threads`] does, and calls `trace` with the thread's number and the
/// operation after each one.
///
/// # Errors
/// The same errors as [`run_threads`].
pub fn run_traced(
    threads: Vec<Thread>,
    image: &Image,
    order: Order,
    mut trace: impl FnMut(usize, ThreadOp),
) -> Result<u64, StuckThreads> {
    let start = |thread| Running {
        thread,
        pending: VecDeque::new(),
        finished: false,
    };
    let mut running: Vec<Running> = threads.into_iter().map(start).collect();
    let mut machine = Machine {
        image,
        registers: BTreeMap::new(),
        interrupts: BTreeMap::new(),
        next_map: MAP_BASE,
    };
    let mut rng = match order {
        Order::Sequential => None,
        Order::Random(seed) => Some(StreamRng::new(seed, "reference")),
    };
    let mut done = 0;
    loop {
        for (number, one) in running.iter_mut().enumerate() {
            one.fill(number)?;
        }
        if running
            .iter()
            .all(|one| one.finished && one.pending.is_empty())
        {
            return Ok(done);
        }
        let Some((thread, at)) = choose(&running, &machine, &mut rng) else {
            let waits = |one: &&Running| !one.finished || !one.pending.is_empty();
            let oldest = |one: &Running| one.pending.front().map(|(_, op)| *op);
            let waiting = running.iter().enumerate().filter(|(_, one)| waits(one));
            let waiting = waiting.map(|(number, one)| (number, oldest(one))).collect();
            return Err(StuckThreads::Deadlock { waiting });
        };
        if let Some(op) = running[thread].finish(at, &mut machine) {
            trace(thread, op);
        }
        done += 1;
    }
}

/// Runs a kernel on all places of a system, checks its result, and returns the
/// number of operations executed.
///
/// # Errors
/// A [`StuckThreads`] if a thread does not reach its end or the result is wrong.
pub fn run_kernel(
    kernel: &dyn ThreadedKernel,
    context: &ThreadContext,
    order: Order,
) -> Result<u64, StuckThreads> {
    let image = Image::new();
    kernel.prepare(&image);
    let threads = context.places().flat_map(|place| kernel.threads(place));
    let done = run_threads(threads.collect(), &image, order)?;
    kernel.check(&image).map_err(StuckThreads::Wrong)?;
    Ok(done)
}

/// Chooses a thread and one of its operations that can be executed now, by their indices.
fn choose(
    running: &[Running],
    machine: &Machine<'_>,
    rng: &mut Option<StreamRng>,
) -> Option<(usize, usize)> {
    let first = rng
        .as_mut()
        .map_or(0, |rng| rng.below(running.len() as u64) as usize);
    for turn in 0..running.len() {
        let thread = (first + turn) % running.len();
        let pending = &running[thread].pending;
        let begin = rng
            .as_mut()
            .map_or(0, |rng| rng.below(pending.len() as u64) as usize);
        let mut places = (0..pending.len()).map(|at| (begin + at) % pending.len());
        let free = |at: &usize| {
            let (_, op) = pending[*at];
            let waits = pending
                .iter()
                .take(*at)
                .any(|(_, earlier)| op.follows(*earlier) || op.is_behind(*earlier));
            !waits && machine.can(op)
        };
        if let Some(at) = places.find(free) {
            return Some((thread, at));
        }
    }
    None
}

impl Running {
    /// Takes operations from the thread up to the limit of operations in flight.
    fn fill(&mut self, number: usize) -> Result<(), StuckThreads> {
        while !self.finished && self.pending.len() < OUTSTANDING {
            match self.thread.next_op() {
                NextAction::Op(token, op, _) => {
                    if let Some(why) = op.fault() {
                        return Err(StuckThreads::Fault {
                            thread: number,
                            op,
                            why,
                        });
                    }
                    self.pending.push_back((token, op));
                }
                NextAction::Blocked => break,
                NextAction::Finished => self.finished = true,
            }
        }
        Ok(())
    }

    fn finish(&mut self, at: usize, machine: &mut Machine<'_>) -> Option<ThreadOp> {
        let (token, op) = self.pending.remove(at)?;
        let value = match op {
            ThreadOp::ReadRange { addr, bytes, .. } => {
                let mut data = vec![0; bytes as usize];
                machine.image.read_bytes(Hpa(addr), &mut data);
                self.thread.put_bytes(token, 0, &data);
                0
            }
            ThreadOp::WriteRange { addr, bytes } | ThreadOp::Push { addr, bytes } => {
                let mut data = vec![0; bytes as usize];
                self.thread.take_bytes(token, 0, &mut data);
                machine.image.write_bytes(Hpa(addr), &data);
                0
            }
            op => machine.perform(op),
        };
        self.thread.complete(token, value);
        Some(op)
    }
}

impl Machine<'_> {
    fn register(&self, device: u16, register: u32) -> u64 {
        self.registers
            .get(&(device, register))
            .copied()
            .unwrap_or(0)
    }

    /// Whether the condition that an operation waits for is met; true for operations without one.
    fn can(&self, op: ThreadOp) -> bool {
        match op {
            ThreadOp::Await { addr, value, .. } => op.perform(self.image, Hpa(addr)) != value,
            ThreadOp::MmioAwait {
                device,
                register,
                value,
            } => self.register(device, register) != value,
            ThreadOp::WaitInterrupt { vector } => self
                .interrupts
                .get(&vector)
                .is_some_and(|raised| *raised > 0),
            _ => true,
        }
    }

    fn perform(&mut self, op: ThreadOp) -> u64 {
        match op {
            ThreadOp::Load { addr, .. }
            | ThreadOp::Store { addr, .. }
            | ThreadOp::Atomic { addr, .. }
            | ThreadOp::Await { addr, .. } => op.perform(self.image, Hpa(addr)),
            ThreadOp::Dma {
                direction,
                host_addr,
                device_addr,
                bytes,
            } => {
                let (from, to) = match direction {
                    Direction::ToDevice => (host_addr, device_addr),
                    Direction::ToHost | Direction::ToHostPosted => (device_addr, host_addr),
                };
                self.image.copy(Hpa(from), Hpa(to), bytes);
                self.image.read(Hpa(to), bytes.min(8) as u8)
            }
            ThreadOp::MmioRead { device, register }
            | ThreadOp::MmioAwait {
                device, register, ..
            } => self.register(device, register),
            ThreadOp::MmioWrite {
                device,
                register,
                value,
            } => {
                self.registers.insert((device, register), value);
                0
            }
            ThreadOp::Interrupt { vector } => {
                *self.interrupts.entry(vector).or_default() += 1;
                0
            }
            ThreadOp::WaitInterrupt { vector } => {
                *self.interrupts.entry(vector).or_default() -= 1;
                0
            }
            ThreadOp::Map { bytes, .. } => {
                let addr = self.next_map;
                self.next_map += bytes.next_multiple_of(4096);
                addr
            }
            _ => 0,
        }
    }
}
