//! The pipelines of remote procedure calls: which data are transferred between host
//! and card, and how.

use std::collections::BTreeSet;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_workload::rpc::{Bench, Kind, Message, Schema, Value};
use cxlab_workload::thread::{
    Direction, ExecutionPlace, NextAction, Order, ThreadContext, ThreadOp, ThreadedKernel,
    run_threads, run_traced, scratch,
};
use cxlab_workload::{Image, LOCAL_BASE};
use serde_json::json;

use super::{count, system};

/// Every direction with its methods.
pub const PIPELINES: [(&str, &str); 5] = [
    ("deserialize", "rpc-nic"),
    ("deserialize", "nc-p"),
    ("serialize", "rpc-nic"),
    ("serialize", "cxl-mem"),
    ("serialize", "cxl-cache"),
];

const MESSAGES: usize = 10;

/// A core, and a card with one processing element.
fn context() -> ThreadContext {
    ThreadContext {
        local: Bytes(1 << 30),
        ..system(1, 1, 1)
    }
}

fn kernel(
    direction: &str,
    method: &str,
    bench: u64,
    more: &serde_json::Value,
) -> Box<dyn ThreadedKernel> {
    let params = json!({"direction": direction, "method": method, "bench": bench});
    super::kernel("rpc", &super::with(params, more), &context())
}

fn threads(kernel: &dyn ThreadedKernel) -> Vec<cxlab_workload::Thread> {
    super::threads(kernel, &context())
}

/// The operations of the host and of the card in a pipeline.
fn operations(direction: &str, method: &str, bench: u64) -> (Vec<ThreadOp>, Vec<ThreadOp>) {
    operations_of(&*kernel(direction, method, bench, &json!({})))
}

fn operations_of(kernel: &dyn ThreadedKernel) -> (Vec<ThreadOp>, Vec<ThreadOp>) {
    let mut ops = [Vec::new(), Vec::new()];
    let note = |thread: usize, op| ops[thread.min(1)].push(op);
    run_traced(threads(kernel), &Image::new(), Order::Sequential, note).unwrap();
    kernel.check(&Image::new()).unwrap();
    let [host, card] = ops;
    (host, card)
}

/// The bytes of each transfer to or from the host.
fn transfers(ops: &[ThreadOp], to_host: bool) -> Vec<u64> {
    let of = |op: &ThreadOp| match op {
        ThreadOp::Dma {
            direction, bytes, ..
        } if to_host == (*direction != Direction::ToDevice) => Some(*bytes),
        _ => None,
    };
    ops.iter().filter_map(of).collect()
}

fn is_push(op: &ThreadOp) -> bool {
    matches!(op, ThreadOp::Push { .. })
}

/// The address that an operation loads from.
fn loaded(op: &ThreadOp) -> Option<u64> {
    match op {
        ThreadOp::Load { addr, .. } | ThreadOp::ReadRange { addr, .. } => Some(*addr),
        _ => None,
    }
}

fn is_dma(op: &ThreadOp) -> bool {
    matches!(op, ThreadOp::Dma { .. })
}

#[test]
fn every_bench_comes_through_every_pipeline_whole() {
    for (direction, method) in PIPELINES {
        for bench in 0..6 {
            let kernel = kernel(direction, method, bench, &json!({}));
            let order = Order::Random(bench);
            run_threads(threads(kernel.as_ref()), &Image::new(), order).unwrap();
            let checked = kernel.check(&Image::new());
            checked.unwrap_or_else(|wrong| panic!("{method} {bench}: {wrong}"));
        }
    }
}

#[test]
fn a_byte_that_changes_on_the_way_is_found() {
    for (direction, method) in PIPELINES {
        let kernel = kernel(direction, method, 1, &json!({}));
        let image = Image::new();
        // Changes the first string that is long enough to be recognised.
        let mut changed = false;
        let change = |_, op| {
            let (addr, bytes) = match op {
                ThreadOp::Push { addr, bytes } | ThreadOp::WriteRange { addr, bytes } => {
                    (addr, bytes)
                }
                ThreadOp::Dma {
                    direction: Direction::ToHost | Direction::ToHostPosted,
                    host_addr,
                    bytes,
                    ..
                } => (host_addr, bytes),
                _ => return,
            };
            if bytes > 2000 && addr < 1 << 52 && !changed {
                image.fetch_add(Hpa(addr + 1000), 1, 1);
                changed = true;
            }
        };
        run_traced(threads(kernel.as_ref()), &image, Order::Sequential, change).unwrap();
        assert!(changed);
        let wrong = kernel.check(&image).unwrap_err();
        assert!(wrong.contains("came out otherwise"), "{wrong}");
    }
}

#[test]
fn rpcnic_sends_what_it_decoded_in_buffers_and_announces_each_message() {
    let (host, card) = operations("deserialize", "rpc-nic", 0);
    let sent = transfers(&card, true);
    let entries = sent.iter().filter(|bytes| **bytes == 16).count();
    assert_eq!(entries, MESSAGES);
    let full = sent.iter().filter(|bytes| **bytes == 4096).count();
    let rest = sent.len() - entries - full;
    assert!(rest <= MESSAGES && sent.iter().all(|bytes| *bytes <= 4096));
    // The encoded messages have 1.39 MB, nearly all of it strings.
    let sum: u64 = sent.iter().sum();
    assert!((1_390_000..1_420_000).contains(&sum), "{sum}");
    assert_eq!(count(&card, is_push), 0);
    let is_write = |op: &ThreadOp| matches!(op, ThreadOp::MmioWrite { .. });
    assert_eq!(count(&host, is_write), MESSAGES);
}

/// Number of pushes for a message: one for its header and for each number, several of 4 KiB for a
/// string's bytes, and one for each address of a string, message or array, and for each array.
fn pushes(schema: &Schema, kind: usize, message: &Message) -> usize {
    let mut pushes = 1;
    let mut repeated = BTreeSet::new();
    for (place, value) in &message.fields {
        let field = schema.types[kind].fields[*place];
        if field.repeated && repeated.insert(place) {
            pushes += 2;
        }
        let alone = usize::from(!field.repeated);
        pushes += match (value, field.kind) {
            (Value::Message(inner), Kind::Message(kind)) => {
                alone + self::pushes(schema, kind, inner)
            }
            (Value::Bytes(bytes), _) => alone + bytes.len().div_ceil(4096),
            _ => alone,
        };
    }
    pushes
}

#[test]
fn a_cxl_nic_pushes_every_field_by_itself_and_uses_no_dma() {
    let (host, card) = operations("deserialize", "nc-p", 1);
    assert_eq!(count(&card, is_dma) + count(&host, is_dma), 0);
    let bench = Bench::new(1);
    let mut rng = StreamRng::new(0, "any");
    let message = |kind| pushes(&bench.schema, kind, &bench.message(kind, &mut rng));
    let expected: usize = (0..MESSAGES).map(message).sum();
    assert_eq!(count(&card, is_push), expected);
    // The card writes nothing else but the entries of the ring.
    let written = |op: &ThreadOp| match op {
        ThreadOp::Store { addr, .. } | ThreadOp::WriteRange { addr, .. } => *addr < 1 << 52,
        _ => false,
    };
    assert_eq!(count(&card, written), MESSAGES);
}

#[test]
fn rpcnic_fetches_an_object_that_was_copied_together_by_one_transfer() {
    let (host, card) = operations("serialize", "rpc-nic", 4);
    assert_eq!(transfers(&card, false).len(), MESSAGES);
    assert_eq!(transfers(&card, true), vec![8; MESSAGES]);
    // One copy for each of 46 objects and 59 strings, each submitted by the core.
    let is_copy = |op: &ThreadOp| matches!(op, ThreadOp::Compute { cycles: 100 });
    assert_eq!(count(&host, is_copy), 46 + 59);
    // The encoder then reads only the card's own memory.
    let outside = |op: &ThreadOp| loaded(op).is_some_and(|addr| addr < scratch(0));
    assert_eq!(count(&card, outside), 0);
}

#[test]
fn a_batch_is_built_whole_before_the_first_of_it_is_handed_over() {
    let halves = |batch: u64| {
        let more = json!({"batch": batch, "ring": 10});
        let (host, _) = operations_of(&*kernel("serialize", "rpc-nic", 1, &more));
        let is_copy = |op: &ThreadOp| matches!(op, ThreadOp::Compute { .. });
        let is_store = |op: &ThreadOp| matches!(op, ThreadOp::Store { .. });
        let first = host.iter().position(is_copy).unwrap();
        let (before, after) = host.split_at(first);
        (count(before, is_store), count(after, is_store))
    };
    let (before, after) = halves(10);
    assert!(before > 100, "{before}");
    assert_eq!(after, 0);
    assert!(halves(1).1 > 0);
}

#[test]
fn objects_lie_in_the_memory_that_the_method_says() {
    let touched = |method| {
        let (_, card) = operations("serialize", method, 1);
        assert_eq!(count(&card, is_dma), 0);
        let outside = card
            .iter()
            .filter_map(loaded)
            .filter(|addr| *addr < scratch(0));
        outside
            .map(|addr| addr >= LOCAL_BASE.0)
            .collect::<BTreeSet<bool>>()
    };
    assert_eq!(touched("cxl-mem"), BTreeSet::from([false]));
    assert_eq!(touched("cxl-cache"), BTreeSet::from([true]));
}

#[test]
fn a_message_within_a_message_is_loaded_when_its_address_has_come() {
    // The host first runs to its end alone, because the ring has a place for each message. Then
    // each round executes all operations that the card has issued.
    let rounds = |bench, outstanding: u64| {
        let more = json!({"outstanding": outstanding, "field_cycles": 0, "width": 4096});
        let kernel = kernel("serialize", "cxl-cache", bench, &more);
        let image = Image::new();
        let host = kernel.threads(ExecutionPlace::Core { core: 0 });
        run_threads(host, &image, Order::Sequential).unwrap();
        let mut card = kernel.threads(ExecutionPlace::Element {
            accelerator: 0,
            element: 0,
        });
        let (mut rounds, mut asked) = (0, Vec::new());
        loop {
            let mut running = 0;
            for (number, thread) in card.iter_mut().enumerate() {
                running += loop {
                    match thread.next_op() {
                        NextAction::Op(token, op, _) => asked.push((number, token, op)),
                        NextAction::Finished => break 0,
                        NextAction::Blocked => break 1,
                    }
                };
            }
            if running == 0 && asked.is_empty() {
                break;
            }
            let loads = asked.iter().filter_map(|(_, _, op)| loaded(op));
            rounds += usize::from(loads.into_iter().any(|addr| addr < scratch(0)));
            asked.retain(|(number, token, op)| {
                let value = match *op {
                    ThreadOp::Await { addr, value, .. } => match op.perform(&image, Hpa(addr)) {
                        same if same == value => return true,
                        other => other,
                    },
                    ThreadOp::Load { addr, .. }
                    | ThreadOp::Atomic { addr, .. }
                    | ThreadOp::Store { addr, .. } => op.perform(&image, Hpa(addr)),
                    ThreadOp::ReadRange { addr, bytes, .. } => {
                        let mut data = vec![0; bytes as usize];
                        image.read_bytes(Hpa(addr), &mut data);
                        card[*number].put_bytes(*token, 0, &data);
                        0
                    }
                    _ => 0,
                };
                card[*number].complete(*token, value);
                false
            });
        }
        kernel.check(&image).unwrap();
        rounds
    };
    // Bench 2: 310 types of messages, each with two loads of which one waits for the other.
    let (wide, narrow) = (rounds(2, 1024), rounds(2, 1));
    assert!(wide >= 2 * 310, "{wide}");
    assert!(narrow > 2 * wide, "{narrow} {wide}");
}
