//! The half-duplex bus: turnaround, burst, and progress of both directions.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Node, Stub, Tested, end, link, message, wire};
use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
use cxlab_engine::{Ctx, Monitor, Simulation, Stop};
use cxlab_fabric::bus::{Bus, BusConfig};
use cxlab_link::{LinkParams, PacketHeader, Parcel};
use cxlab_protocol::Opcode;

impl Tested for Bus {
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        Bus::receive(self, ctx, port, parcel);
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        Bus::wake(self, ctx, token);
    }
}

const TURN: u64 = 700;
/// Time of a message on the wire, its flight time, and the time from an end to the bus, in picoseconds.
const MESSAGE: u64 = 1_000;
const FLIGHT: u64 = 1_000;
const ATTACH: u64 = 1;

/// Sends requests from the left and responses from the right, all at time 0. Returns the arrivals in order:
/// the time, and the side from which the message came.
fn run(left: u32, right: u32, burst: u16) -> Vec<(u64, char)> {
    let attach = LinkParams {
        packet: PacketHeader {
            header: Bytes(0),
            data_header: Bytes(0),
            staging: Bytes(0),
        },
        bandwidth: Some(BytesPerSec(u64::MAX)),
        propagation: Picos(ATTACH),
        ..link(1)
    };
    let slow = link(1);
    let mut nodes = Vec::new();
    for (from, (count, opcode)) in (0u16..).zip([(left, Opcode::MemRd), (right, Opcode::Cmp)]) {
        let mut stub = Stub::new(end(&attach, 0, 1));
        let messages = (0..count).map(|tag| (0, message(opcode, from, 1 - from, 0, tag)));
        stub.script.extend(messages);
        nodes.push(Node::Stub(stub));
    }
    nodes.push(Node::Tested(Bus::new(BusConfig {
        ports: [end(&slow, 0, 1), end(&slow, 1, 1)],
        turnaround_ps: TURN,
        burst,
    })));
    let wires = vec![
        vec![wire(&attach, 2, 0)],
        vec![wire(&attach, 2, 1)],
        vec![wire(&slow, 0, 0), wire(&slow, 1, 0)],
    ];
    let mut simulation = Simulation::new(nodes, wires);
    let outcome = simulation.run(1, SimTime::NEVER, &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    let mut all = Vec::new();
    for (number, from) in [(0, 'r'), (1, 'l')] {
        let seen = &simulation.component_mut(number).stub().seen;
        all.extend(seen.iter().map(|(at, _)| (*at, from)));
    }
    all.sort_unstable();
    assert_eq!(all.len(), (left + right) as usize, "everything arrives");
    all
}

/// Runs of messages from the same side, in order of arrival.
fn runs(all: &[(u64, char)]) -> Vec<(char, usize)> {
    all.chunk_by(|a, b| a.1 == b.1)
        .map(|run| (run[0].1, run.len()))
        .collect()
}

#[test]
fn a_change_of_direction_costs_a_turnaround_and_a_message_in_a_row_none() {
    let first = ATTACH + TURN + MESSAGE + FLIGHT;
    let two = [(first, 'l'), (first + MESSAGE, 'l')];
    assert_eq!(run(2, 0, 16), two, "it leads left at first");
    assert_eq!(run(1, 1, 16), [(first, 'l'), (first + TURN + MESSAGE, 'r')]);
}

#[test]
fn a_direction_yields_after_its_burst_and_goes_on_when_nobody_waits() {
    let all = run(10, 4, 3);
    let expected = [('l', 3), ('r', 3), ('l', 3), ('r', 1), ('l', 4)];
    assert_eq!(runs(&all), expected);
    let end = ATTACH + 14 * MESSAGE + 5 * TURN + FLIGHT;
    assert_eq!(all[13].0, end, "messages and turnarounds, and no gap");
}

#[test]
fn both_directions_get_on_under_every_burst() {
    for burst in [1, 2, 7] {
        let all = run(50, 50, burst);
        let longest = runs(&all).iter().map(|(_, length)| *length).max();
        assert_eq!(longest, Some(burst as usize));
        let turns = runs(&all).len() as u64;
        assert_eq!(all[99].0, ATTACH + 100 * MESSAGE + turns * TURN + FLIGHT);
    }
}
