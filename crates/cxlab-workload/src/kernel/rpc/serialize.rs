//! Leaving messages: the host builds objects, and the card encodes them.

use std::collections::VecDeque;
use std::sync::Arc;

use cxlab_engine::units::LINE_BYTES;

use super::deserialize::entry;
use super::object::Reader;
use super::units::{self, FrontEnd};
use super::{ALIGN, BUFFER, Job, Method};
use crate::rpc::message::number;
use crate::rpc::{Message, Object};
use crate::thread::{Direction, Handle, LoadedRange, Window, scratch};

/// The kernel's phases, by number.
const BUILD: u8 = 0;
const PREPARE: u8 = 1;
pub(super) const SERIALIZE: u8 = 2;

/// Stores that the host has in flight. *Assumed.*
const STORES: usize = 32;

/// Number of the lower bits of a register of RpcNIC's ring that have the bytes of the prepared
/// object; the sequence number is in the bits above.
const LENGTH_BITS: u32 = 40;

/// The host's thread: builds `batch` objects when the ring has places for
/// them, then announces them.
pub(super) async fn host(job: Arc<Job>, t: Handle) {
    let mut free = 0;
    let mut first = 0;
    while first < job.count() {
        let end = job.count().min(first + job.params.batch);
        t.mark(BUILD);
        job.wait_for_room(&t, &mut free, end - 1).await;
        let mut objects = Vec::new();
        for number in first..end {
            let (kind, at) = (job.kind(number), job.object(number));
            let object = job.layout.scattered(kind, &job.messages[kind], at, ALIGN);
            build(&t, &object).await;
            if job.params.method == Method::CxlMem {
                // The objects are flushed from the host's caches, so that the card finds
                // them in its memory.
                flush(&t, &object).await;
            }
            objects.push(object);
            t.count(1);
        }
        t.mark(PREPARE);
        match job.params.method {
            Method::RpcNic => {
                for (number, object) in (first..).zip(&objects) {
                    ring(&job, &t, number, object).await;
                    t.count(1);
                }
            }
            _ => announce(&job, &t, first, &objects).await,
        }
        first = end;
    }
}

/// Copies an object to contiguous memory and announces it to RpcNIC.
async fn ring(job: &Job, t: &Handle, number: u64, object: &Object) {
    let bytes = gather(job, t, object, job.prepared(number)).await;
    let register = (number % job.places()) as u32;
    let value = (number + 1) << LENGTH_BITS | bytes;
    t.mmio_write(0, register, value).await;
}

/// Stores an object.
async fn build(t: &Handle, object: &Object) {
    let mut window = Window::new(STORES);
    for piece in &object.pieces {
        window.room().await;
        window.add(match piece.bytes.len() {
            size @ 1..=8 => t.store_sized(piece.addr, size as u8, number(&piece.bytes)),
            _ => t.write_range(piece.addr, &piece.bytes),
        });
    }
    window.drain().await;
}

/// Writes an object back line by line and invalidates it in the host's caches.
async fn flush(t: &Handle, object: &Object) {
    let mut window = Window::new(STORES);
    for line in (object.root..object.end).step_by(LINE_BYTES as usize) {
        window.room().await;
        window.add(t.flush(line));
    }
    window.drain().await;
}

/// Stores the ring's entries for some objects. The entries are in different lines, and the core
/// does not wait for one entry before the next: its store buffer and its flushes are asynchronous.
async fn announce(job: &Job, t: &Handle, first: u64, objects: &[Object]) {
    let mut window = Window::new(STORES);
    for (number, object) in (first..).zip(objects) {
        window.room().await;
        window.add(t.write_range(job.entry(number), &entry(number, object.root)));
        t.count(1);
    }
    if job.params.method == Method::CxlMem {
        for number in (first..).take(objects.len()) {
            window.room().await;
            window.add(t.flush(job.entry(number)));
        }
    }
    window.drain().await;
}

/// RpcNIC: copies the parts of an object one after the other, in the order in which a reader
/// reaches them, and returns the number of bytes. The core submits the copies, of which `copies`
/// overlap, as in an engine beside the cores (DSA).
async fn gather(job: &Job, t: &Handle, object: &Object, to: u64) -> u64 {
    let mut loads: Window<LoadedRange> = Window::new(job.params.copies as usize);
    let mut stores = Window::new(job.params.copies as usize);
    let mut targets = VecDeque::new();
    let mut at = to;
    for (addr, bytes) in &object.allocations {
        if job.params.copy_cycles > 0 {
            t.compute(job.params.copy_cycles).await;
        }
        at = at.next_multiple_of(ALIGN);
        if let (Some(data), Some(to)) = (loads.room().await, targets.front()) {
            stores.room().await;
            stores.add(t.write_range(*to, &data));
            targets.pop_front();
        }
        loads.add(t.read_range(*addr, *bytes));
        targets.push_back(at);
        at += bytes;
    }
    while let (Some(data), Some(to)) = (loads.oldest().await, targets.pop_front()) {
        stores.room().await;
        stores.add(t.write_range(to, &data));
    }
    stores.drain().await;
    at - to
}

/// The card's front end: reads each object, and frees its place when it has been encoded.
pub(super) async fn card(job: Arc<Job>, t: Handle) {
    t.mark(SERIALIZE);
    let own = scratch(0) + BUFFER;
    let mut rung = vec![0; job.places() as usize];
    let mut progress = (0, 0);
    for number in 0..job.count() {
        let (packed, root) = match job.params.method {
            Method::RpcNic => {
                let place = (number % job.places()) as usize;
                rung[place] = t.mmio_await(0, place as u32, rung[place]).await;
                let bytes = rung[place] & ((1 << LENGTH_BITS) - 1);
                t.dma(Direction::ToDevice, job.prepared(number), own, bytes)
                    .await;
                (Some(own), 0)
            }
            _ => {
                let entry = job.entry(number);
                t.await_change(entry, job.before(number)).await;
                (None, t.load(entry + 8).await)
            }
        };
        let (schema, kind) = (&job.bench.schema, job.kind(number));
        let front = FrontEnd {
            t: &t,
            job: &job,
            loaded: progress.0,
            encoded: progress.1,
        };
        let (message, front) = Reader::card(front, packed).read(kind, root).await;
        progress = front.map_or(progress, |front| (front.loaded, front.encoded));
        // The message that a receiver would decode is compared.
        let written = message.encode(schema, kind);
        let message = Message::decode(schema, kind, &written).unwrap_or_default();
        job.judge(number, &message);
        match job.params.method {
            Method::RpcNic => {
                t.store(scratch(0), number + 1).await;
                t.dma(Direction::ToHostPosted, job.tail(), scratch(0), 8);
            }
            _ => drop(t.store(job.tail(), number + 1).await),
        }
        t.count(1);
    }
    units::end(&t).await;
}
