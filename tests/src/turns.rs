//! Bounded waiting: how often a pending request or message is overtaken.

use std::collections::BTreeMap;

use cxlab_device::{WaitLogEntry, WaitsFor};
use cxlab_engine::units::SimTime;
use cxlab_engine::{Monitor, Stop};
use cxlab_fabric::switch::QueueHead;
use cxlab_plan::Plan;
use cxlab_system::system::{Node, RecordOptions, System};

/// Largest number of requests that arrived later than a request of the log but got their turn earlier.
///
/// # Panics
/// If a request gets its turn without having waited, or still waits at the end.
pub fn most_overtaken(log: &[WaitLogEntry]) -> usize {
    let mut waiting: BTreeMap<WaitsFor, Vec<(_, usize)>> = BTreeMap::new();
    let mut most = 0;
    for turn in log {
        let queue = waiting.entry(turn.waits_for).or_default();
        if !turn.is_granted {
            queue.push((turn.request, 0));
            continue;
        }
        let mut places = queue.iter();
        let Some(place) = places.position(|(request, _)| *request == turn.request) else {
            panic!("{turn:?} of a request that does not wait");
        };
        for (_, overtaken) in &mut queue[..place] {
            *overtaken += 1;
        }
        most = most.max(queue.remove(place).1);
    }
    assert!(
        waiting.values().all(Vec::is_empty),
        "a request waits at the end"
    );
    most
}

/// A message at the head of a queue, and how many messages each other queue has sent since.
struct Waiting {
    head: QueueHead,
    overtaken: BTreeMap<usize, usize>,
}

/// Largest number of messages that one input sent past another's head for the same output, class and virtual channel.
/// The system runs event by event, and each of its switches is examined in between.
pub fn most_sent_past_a_head(plan: &Plan) -> usize {
    let notes = RecordOptions::default();
    let Ok(mut system) = System::build(plan, plan.scenario.seed, notes) else {
        panic!("the system builds");
    };
    let mut waiting: BTreeMap<(usize, u16), BTreeMap<usize, Waiting>> = BTreeMap::new();
    let mut most = 0;
    let mut stop = Stop::TimeLimit;
    while stop != Stop::Exhausted {
        // Hosts begin with the first call of `run`.
        let next = system.simulation.next_event().unwrap_or_default();
        let until = SimTime(next.0 + 1);
        let outcome = system.simulation.run(1, until, &Monitor::default());
        stop = outcome.stop;
        for (number, node) in system.simulation.components().enumerate() {
            let Node::Switch(switch) = node else { continue };
            for output in 0..switch.ports() {
                let before = waiting.entry((number, output)).or_default();
                let heads: BTreeMap<_, _> = switch.heads(output).collect();
                most = most.max(look(before, &heads));
            }
        }
    }
    most
}

/// Compares the heads of the queues for an output with those before the last event.
fn look(before: &mut BTreeMap<usize, Waiting>, heads: &BTreeMap<usize, QueueHead>) -> usize {
    let stays = |queue: &usize, waiting: &Waiting| heads.get(queue) == Some(&waiting.head);
    let gone: Vec<(usize, QueueHead)> = (before.iter())
        .filter(|(queue, waiting)| !stays(queue, waiting))
        .map(|(queue, waiting)| (*queue, waiting.head))
        .collect();
    before.retain(|queue, waiting| stays(queue, waiting));
    let mut most = 0;
    for (queue, head) in gone {
        let others = before.values_mut();
        for other in others.filter(|other| other.head.buffer == head.buffer) {
            let count = other.overtaken.entry(queue).or_default();
            *count += 1;
            most = most.max(*count);
        }
    }
    for (queue, head) in heads {
        before.entry(*queue).or_insert(Waiting {
            head: *head,
            overtaken: BTreeMap::new(),
        });
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use cxlab_engine::units::LineAddr;
    use cxlab_protocol::PortId;

    #[test]
    fn who_is_overtaken_is_counted() {
        let turn = |tag, is_granted| WaitLogEntry {
            waits_for: WaitsFor::Line(LineAddr(1)),
            request: (PortId(0), tag),
            is_granted,
        };
        let in_order = [turn(1, false), turn(2, false), turn(1, true), turn(2, true)];
        assert_eq!(most_overtaken(&in_order), 0);
        let mut last_first = vec![turn(1, false)];
        for tag in 2..5 {
            last_first.extend([turn(tag, false), turn(tag, true)]);
        }
        last_first.push(turn(1, true));
        assert_eq!(most_overtaken(&last_first), 3);
    }
}
