//! Arriving messages: the card decodes them into objects in the host's memory, and the
//! host reads the objects.

use std::sync::Arc;

use cxlab_engine::units::LINE_BYTES;

use super::object::Reader;
use super::{ALIGN, BUFFER, Job, Method};
use crate::rpc::{Message, Object, Piece, PieceKind};
use crate::thread::{Direction, Handle, Value, Window, scratch};

/// The kernel's phases, by number.
const DESERIALIZE: u8 = 0;
const ACCESS: u8 = 1;

/// The register in which the host counts freed places for RpcNIC.
const TAIL: u32 = 0;

/// Fields that the host has in flight. *Assumed.*
const HOST_AHEAD: usize = 16;

/// Words in the card's memory that its decoder and its pusher share: the numbers of
/// parts decoded and pushed.
const DECODED: u64 = scratch(0);
const PUSHED: u64 = scratch(0) + LINE_BYTES;

/// RpcNIC's thread: decodes fields into buffers that are sent by DMA.
pub(super) async fn rpc_nic(job: Arc<Job>, t: Handle) {
    t.mark(DESERIALIZE);
    let mut free = 0;
    let mut out = Buffers {
        window: Window::new(job.params.buffers as usize),
        turn: 0,
    };
    for number in 0..job.count() {
        while free + job.places() <= number {
            free = t.mmio_await(0, TAIL, free).await;
        }
        by_dma(&job, &t, number, &mut out).await;
        t.count(1);
    }
}

/// Decodes the message of a number. An error shows when the message is compared.
fn decoded(job: &Job, number: u64) -> Message {
    let kind = job.kind(number);
    Message::decode(&job.bench.schema, kind, &job.wires[kind]).unwrap_or_default()
}

/// The ring's entry that announces a message.
pub(super) fn entry(number: u64, root: u64) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[..8].copy_from_slice(&(number + 1).to_le_bytes());
    entry[8..].copy_from_slice(&root.to_le_bytes());
    entry
}

/// Takes the time to decode the fields of a piece. A long string is decoded and sent in parts:
/// `offset` and `bytes` give the part.
async fn decode(job: &Job, t: &Handle, piece: &Piece, offset: usize, bytes: usize) {
    let cycles = match (piece.part, offset) {
        (PieceKind::Data, 0) => job.cycles(bytes as u64),
        (PieceKind::Data, _) => job.moving(bytes as u64),
        (_, 0) => piece.numbers.saturating_mul(job.cycles(8)),
        _ => 0,
    };
    if cycles > 0 {
        t.compute(cycles).await;
    }
}

/// The object that a CXL-NIC makes of a message; each of its parts begins a line.
fn pushed_object(job: &Job, number: u64) -> Object {
    let (message, at) = (decoded(job, number), job.object(number));
    let kind = job.kind(number);
    job.layout.scattered(kind, &message, at, LINE_BYTES)
}

/// The parts of an object that are pushed one at a time: the piece, the offset in the
/// piece, and the bytes.
fn parts(object: &Object) -> impl Iterator<Item = (&Piece, usize, &[u8])> {
    object.pieces.iter().flat_map(|piece| {
        let parts = piece.bytes.chunks(BUFFER as usize).enumerate();
        parts.map(move |(turn, part)| (piece, turn * BUFFER as usize, part))
    })
}

/// The decoder of the CXL-NIC. It runs ahead of the pushes by at most `outstanding` parts.
pub(super) async fn decoder(job: Arc<Job>, t: Handle) {
    t.mark(DESERIALIZE);
    let (mut free, mut done, mut pushed) = (0, 0, 0);
    for number in 0..job.count() {
        job.wait_for_room(&t, &mut free, number).await;
        let object = pushed_object(&job, number);
        for (piece, offset, part) in parts(&object) {
            while done >= pushed + job.params.outstanding {
                pushed = t.await_change(PUSHED, pushed).await;
            }
            decode(&job, &t, piece, offset, part.len()).await;
            done += 1;
            t.store(DECODED, done);
        }
    }
}

/// The second thread of the CXL-NIC: pushes each part after its decoding. When all parts of a
/// message are in the host, the thread stores the ring's entry and continues with the next message.
pub(super) async fn pusher(job: Arc<Job>, t: Handle) {
    t.mark(DESERIALIZE);
    let (mut ready, mut next) = (0, 0);
    for number in 0..job.count() {
        let object = pushed_object(&job, number);
        let mut window = Window::new(job.params.outstanding as usize);
        for (piece, offset, part) in parts(&object) {
            while ready <= next {
                ready = t.await_change(DECODED, ready).await;
            }
            next += 1;
            window.room().await;
            window.add(t.push(piece.addr + offset as u64, part));
            t.store(PUSHED, next);
        }
        window.drain().await;
        t.write_range(job.entry(number), &entry(number, object.root));
        t.count(1);
    }
}

/// RpcNIC's buffers of 4 KiB: the ones that the DMA engine has not sent yet, and
/// the one being filled.
struct Buffers<'t> {
    window: Window<Value<'t>>,
    turn: u64,
}

impl<'t> Buffers<'t> {
    /// First address of the buffer that is being filled.
    fn at(&self) -> u64 {
        scratch(0) + self.turn * BUFFER
    }

    /// Passes the buffer to the DMA engine. The buffer is free again when its bytes have been sent,
    /// without an acknowledgement of the host.
    fn send(&mut self, t: &'t Handle, job: &Job, to: u64, bytes: u64) {
        self.window
            .add(t.dma(Direction::ToHostPosted, to, self.at(), bytes));
        self.turn = (self.turn + 1) % job.params.buffers;
    }
}

/// RpcNIC: appends fields to a buffer, which is sent by DMA when it is full or the message is
/// complete. The ring's entry is sent last, and posted writes stay in order.
async fn by_dma<'t>(job: &Job, t: &'t Handle, number: u64, out: &mut Buffers<'t>) {
    let (message, at) = (decoded(job, number), job.object(number));
    let kind = job.kind(number);
    let object = job.layout.appended(kind, &message, at, ALIGN);
    append(job, t, &object, at, out).await;
    let place = number % job.places() * LINE_BYTES;
    let announce = scratch(0) + job.params.buffers * BUFFER + place;
    t.write_range(announce, &entry(number, object.root)).await;
    let to = job.entry(number);
    if number + 1 < job.count() {
        t.dma(Direction::ToHostPosted, to, announce, 16);
    } else {
        // The phase ends when the last entry has been written.
        t.dma(Direction::ToHost, to, announce, 16).await;
    }
}

/// Sends the pieces of an object through the buffers.
async fn append<'t>(job: &Job, t: &'t Handle, object: &Object, first: u64, out: &mut Buffers<'t>) {
    let (mut start, mut fill) = (first, 0);
    out.window.room().await;
    for piece in &object.pieces {
        fill += piece.addr - (start + fill);
        let mut rest = &piece.bytes[..];
        while !rest.is_empty() || fill >= BUFFER {
            if fill >= BUFFER {
                out.send(t, job, start, BUFFER);
                out.window.room().await;
                (start, fill) = (start + BUFFER, fill - BUFFER);
            }
            let part = rest.len().min((BUFFER - fill) as usize);
            if part > 0 {
                let offset = piece.bytes.len() - rest.len();
                decode(job, t, piece, offset, part).await;
                t.write_range(out.at() + fill, &rest[..part]);
            }
            fill += part as u64;
            rest = &rest[part..];
        }
    }
    if fill > 0 {
        out.send(t, job, start, fill);
    }
}

/// The host's thread: reads each object, then frees its place in the ring.
pub(super) async fn host(job: Arc<Job>, t: Handle) {
    t.mark(ACCESS);
    for number in 0..job.count() {
        let entry = job.entry(number);
        t.await_change(entry, job.before(number)).await;
        let root = t.load(entry + 8).await;
        let reader = Reader::host(&t, &job, HOST_AHEAD);
        let (message, _) = reader.read(job.kind(number), root).await;
        job.judge(number, &message);
        match job.params.method {
            Method::RpcNic => t.mmio_write(0, TAIL, number + 1).await,
            _ => t.store(job.tail(), number + 1).await,
        };
        t.count(1);
    }
}
