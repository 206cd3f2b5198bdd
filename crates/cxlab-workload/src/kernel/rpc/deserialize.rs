//! Messages that arrive: the card decodes them into objects in the host's memory, and the host
//! reads those.

use std::sync::Arc;

use cxlab_engine::units::LINE_BYTES;

use super::object::Reader;
use super::{ALIGN, BUFFER, Job, Method};
use crate::rpc::{Message, Object, Part, Piece};
use crate::thread::{Direction, Handle, Window, scratch};

/// The phases.
const DESERIALIZE: u8 = 0;
const ACCESS: u8 = 1;

/// The register in which the host counts free places for RpcNIC.
const TAIL: u32 = 0;

/// Fields that the host has under way. *Assumed.*
const HOST_AHEAD: usize = 16;

/// The card's thread.
pub(super) async fn card(job: Arc<Job>, t: Handle) {
    t.mark(DESERIALIZE);
    let mut free = 0;
    for number in 0..job.count() {
        match job.params.method {
            Method::RpcNic => {
                while free + job.places() <= number {
                    free = t.mmio_await(0, TAIL, free).await;
                }
            }
            _ => job.wait_for_room(&t, &mut free, number).await,
        }
        let kind = job.kind(number);
        // What is wrong with the bytes shows in the message that comes out.
        let message = Message::decode(&job.bench.schema, kind, &job.wires[kind]);
        let message = message.unwrap_or_default();
        match job.params.method {
            Method::RpcNic => by_dma(&job, &t, number, &message).await,
            _ => by_push(&job, &t, number, &message).await,
        }
        t.count(1);
    }
}

/// The entry of the ring that announces a message.
fn entry(number: u64, root: u64) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[..8].copy_from_slice(&(number + 1).to_le_bytes());
    entry[8..].copy_from_slice(&root.to_le_bytes());
    entry
}

/// Decodes the fields of a piece, or of a string the part of it from `offset` on: long ones are
/// decoded and sent in parts.
async fn decode(job: &Job, t: &Handle, piece: &Piece, offset: usize, bytes: usize) {
    let cycles = match (piece.part, offset) {
        (Part::Data, 0) => job.cycles(bytes as u64),
        (Part::Data, _) => job.moving(bytes as u64),
        (_, 0) => piece.numbers.saturating_mul(job.cycles(8)),
        _ => 0,
    };
    if cycles > 0 {
        t.compute(cycles).await;
    }
}

/// CXL-NIC: pushes each field when it is decoded, then stores the entry.
async fn by_push(job: &Job, t: &Handle, number: u64, message: &Message) {
    let (schema, kind) = (&job.bench.schema, job.kind(number));
    let object = job
        .layout
        .scattered(schema, kind, message, job.object(number), LINE_BYTES);
    let mut window = Window::new(job.params.outstanding as usize);
    for piece in &object.pieces {
        for (turn, part) in piece.bytes.chunks(BUFFER as usize).enumerate() {
            let offset = turn * BUFFER as usize;
            decode(job, t, piece, offset, part.len()).await;
            window.room().await;
            window.add(t.push(piece.addr + offset as u64, part));
        }
    }
    window.drain().await;
    t.write_range(job.entry(number), &entry(number, object.root))
        .await;
}

/// RpcNIC: appends fields to a buffer, which goes by DMA when it is full or the message complete;
/// when all is written, so does the entry.
async fn by_dma(job: &Job, t: &Handle, number: u64, message: &Message) {
    let (schema, kind) = (&job.bench.schema, job.kind(number));
    let object = job
        .layout
        .appended(schema, kind, message, job.object(number), ALIGN);
    append(job, t, &object, job.object(number)).await;
    let announce = scratch(0) + job.params.buffers * BUFFER;
    t.write_range(announce, &entry(number, object.root)).await;
    t.dma(Direction::ToHost, job.entry(number), announce, 16)
        .await;
}

/// Sends the pieces of an object through the buffers.
async fn append(job: &Job, t: &Handle, object: &Object, first: u64) {
    let mut window = Window::new(job.params.buffers as usize);
    let (mut start, mut fill, mut turn) = (first, 0, 0);
    for piece in &object.pieces {
        fill += piece.addr - (start + fill);
        let mut rest = &piece.bytes[..];
        while !rest.is_empty() || fill >= BUFFER {
            if fill >= BUFFER {
                let buffer = scratch(0) + turn * BUFFER;
                window.add(t.dma(Direction::ToHost, start, buffer, BUFFER));
                window.room().await;
                turn = (turn + 1) % job.params.buffers;
                (start, fill) = (start + BUFFER, fill - BUFFER);
            }
            let part = rest.len().min((BUFFER - fill) as usize);
            if part > 0 {
                let offset = piece.bytes.len() - rest.len();
                decode(job, t, piece, offset, part).await;
                t.write_range(scratch(0) + turn * BUFFER + fill, &rest[..part]);
            }
            fill += part as u64;
            rest = &rest[part..];
        }
    }
    if fill > 0 {
        window.add(t.dma(Direction::ToHost, start, scratch(0) + turn * BUFFER, fill));
    }
    window.drain().await;
}

/// The host's thread: reads each object, then frees its place.
pub(super) async fn host(job: Arc<Job>, t: Handle) {
    t.mark(ACCESS);
    for number in 0..job.count() {
        let entry = job.entry(number);
        t.await_change(entry, job.before(number)).await;
        let root = t.load(entry + 8).await;
        let mut reader = Reader::host(&t, &job, HOST_AHEAD);
        let message = reader.read(job.kind(number), root).await;
        job.judge(number, &message);
        match job.params.method {
            Method::RpcNic => t.mmio_write(0, TAIL, number + 1).await,
            _ => t.store(job.tail(), number + 1).await,
        };
        t.count(1);
    }
}
