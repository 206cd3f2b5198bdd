//! The Type 3 device: contexts are bounded, and responses leave in the order of completion.
#![allow(clippy::unwrap_used)]

use cxlab_device::{DeviceConfig, DeviceParams, MemoryDevice, WriteCompletion};
use cxlab_engine::units::{Bytes, Hpa, Picos, SimTime};
use cxlab_engine::{Component, Ctx, Monitor, Simulation};
use cxlab_link::{CreditTable, LinkParams, LinkPort, PacketHeader, Parcel};
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, MediumSite};
use cxlab_protocol::coherence::fields::{MetaField, MetaValue, SnpType};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{DecoderTable, DeviceDecoder, MemMeta, Message, Opcode, PortId};
use cxlab_testkit::{Endpoint, wire};

/// A link of the test kit with so many credits for responses.
fn link(responses: u16) -> LinkParams {
    cxlab_testkit::link(CreditTable {
        s2m_drs: Some(responses),
        s2m_ndr: Some(responses),
        ..CreditTable::default()
    })
}

fn end(params: &LinkParams) -> LinkPort {
    cxlab_testkit::end(params, 0, Picos::ZERO, Picos::ZERO)
}

/// Sends its requests as fast as the link allows, and never frees a buffer if `hold` is set.
struct Host {
    endpoint: Endpoint,
    requests: Vec<Message>,
    hold: bool,
    /// The responses, with their times.
    seen: Vec<(u64, Message)>,
}

#[allow(clippy::large_enum_variant)]
enum Node {
    Host(Host),
    Device(MemoryDevice),
}

impl Component for Node {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Node::Host(host) = self {
            for request in std::mem::take(&mut host.requests) {
                host.endpoint.send(ctx, 0, request);
            }
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Device(device) => device.arrive(ctx, port),
            Node::Host(host) => {
                if let Some(message) = parcel.message {
                    host.seen.push((ctx.now().0, message));
                    if !host.hold {
                        host.endpoint.release(ctx, &message);
                    }
                }
                host.endpoint.credits(ctx, 0, parcel);
            }
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Host(host) => host.endpoint.wake(ctx, token),
            Node::Device(device) => device.wake(ctx, token),
        }
    }
}

struct Ran {
    simulation: Simulation<Node>,
}

impl Ran {
    fn device(&self) -> &MemoryDevice {
        let Node::Device(device) = self.simulation.component(1) else {
            panic!("a device")
        };
        device
    }
    fn seen(&self) -> &[(u64, Message)] {
        let Node::Host(host) = self.simulation.component(0) else {
            panic!("a host")
        };
        &host.seen
    }
    fn times(&self) -> Vec<u64> {
        self.seen().iter().map(|(at, _)| *at).collect()
    }
    fn tags(&self) -> Vec<u32> {
        self.seen().iter().map(|(_, message)| message.tag).collect()
    }
}

/// Runs requests to consecutive lines. Each character is a request: `w` a write, `r` a read, and
/// upper case has MetaField Meta0-State.
fn run(requests: &str, contexts: u32, medium: FixedParams, responses: u16, hold: bool) -> Ran {
    run_on(link(responses), requests, contexts, medium, hold)
}

fn run_on(link: LinkParams, requests: &str, contexts: u32, medium: FixedParams, hold: bool) -> Ran {
    let requests = requests.chars().zip(0..).map(|(kind, tag)| Message {
        meta: match kind.is_ascii_uppercase() {
            true => MemMeta::new(MetaField::Meta0State, MetaValue::Any, SnpType::NoOp),
            false => MemMeta::NONE,
        },
        ..Message::new(
            match kind.to_ascii_lowercase() {
                'w' => Opcode::MemWr,
                _ => Opcode::MemRd,
            },
            Hpa(64 * u64::from(tag)),
            tag,
            PortId(0),
            PortId(1),
            SimTime(0),
        )
    });
    let set = InterleaveSet::new(Hpa(0), Bytes(1 << 20), Bytes(256), 1).unwrap();
    let host = Host {
        endpoint: Endpoint::new(end(&link)),
        requests: requests.collect(),
        hold,
        seen: vec![],
    };
    let device = MemoryDevice::new(DeviceConfig {
        persistent: false,
        qos: None,
        media_errors: None,
        changes: Vec::new(),
        values: false,
        shared: None,
        params: DeviceParams {
            process_time: Picos(0),
            contexts,
            write_completion: WriteCompletion::Written,
            ..DeviceParams::default()
        },
        ports: vec![end(&link)],
        backend: medium.backend(MediumSite::alone(Bytes(1 << 30), 1)),
        decoders: DecoderTable::common(vec![DeviceDecoder::whole(set, 0)]),
    });
    let nodes = vec![Node::Host(host), Node::Device(device)];
    let mut simulation = Simulation::new(nodes, vec![vec![wire(1, 0)], vec![wire(0, 0)]]);
    simulation.run(1, SimTime::NEVER, &Monitor::default());
    Ran { simulation }
}

fn medium(read: u64, write: u64) -> FixedParams {
    FixedParams {
        latency: Picos(read),
        write_latency: Some(Picos(write)),
        ..FixedParams::default()
    }
}

/// The first request arrives at 2 ns; a response takes 2 ns.
const WAY: u64 = 2_000;

/// A device that stores no metadata responds with No-Op, even to a request that updates metadata;
/// to RwD every device does (CXL 3.1, tables 3-36, 3-49 and 3-52).
#[test]
fn responses_have_no_metadata() {
    let ran = run("wrWR", 4, medium(50_000, 0), 128, false);
    assert_eq!(ran.seen().len(), 4);
    for (_, response) in ran.seen() {
        assert_eq!(response.meta, MemMeta::NONE, "{response:?}");
    }
}

#[test]
fn a_context_is_held_until_its_response_has_left() {
    let latency = 100_000;
    let one = run("rrrr", 1, medium(latency, 0), 128, false);
    let expected = [1, 2, 3, 4].map(|n| WAY + n * latency + WAY);
    assert_eq!(one.times(), expected, "one at a time");
    let two = run("rrrr", 2, medium(latency, 0), 128, false);
    let first = [WAY + latency + WAY, WAY + 1_000 + latency + WAY];
    assert_eq!(
        two.times(),
        [first[0], first[1], first[0] + latency, first[1] + latency]
    );
    let all = run("rrrr", 4, medium(latency, 0), 128, false);
    let expected = [0, 1, 2, 3].map(|n| first[0] + n * 1_000);
    assert_eq!(all.times(), expected, "as fast as the link");
}

#[test]
fn a_medium_with_a_short_queue_bounds_what_is_in_it() {
    let short = FixedParams {
        queue: 1,
        ..medium(100_000, 0)
    };
    let ran = run("rrr", 64, short, 128, false);
    assert_eq!(ran.times(), [1, 2, 3].map(|n| WAY + n * 100_000 + WAY));
}

#[test]
fn responses_leave_in_the_order_of_completion() {
    let ran = run("rwrw", 64, medium(100_000, 10_000), 128, false);
    assert_eq!(ran.tags(), [1, 3, 0, 2]);
    let opcodes = [Opcode::Cmp, Opcode::Cmp, Opcode::MemData, Opcode::MemData];
    assert!(
        ran.seen()
            .iter()
            .map(|(_, message)| message.opcode)
            .eq(opcodes)
    );
    // The far end sends both reads before the first write.
    assert_eq!(ran.times()[0], WAY + 2_000 + 10_000 + WAY);
    assert_eq!(ran.times()[2], WAY + 100_000 + WAY);
    let stats = ran.device().stats();
    assert_eq!(
        (stats.reads, stats.writes, stats.accepted, stats.answered),
        (2, 2, 4, 4)
    );
    assert_eq!(ran.device().in_flight(), 0);
}

#[test]
fn a_blocked_response_path_bounds_what_the_device_takes_in() {
    let ran = run(&"r".repeat(20), 3, medium(1_000, 0), 2, true);
    assert_eq!(ran.seen().len(), 2, "two buffers, never freed");
    let stats = ran.device().stats();
    assert_eq!(
        (stats.answered, stats.reads),
        (2, 2 + 3),
        "the medium saw answered and contexts"
    );
    assert_eq!(
        ran.device().in_flight(),
        20 - 2,
        "all others wait in contexts and buffers"
    );
}

#[test]
fn writes_are_answered_while_no_read_can_be() {
    let ran = run("rrrww", 64, medium(1_000, 1_000), 2, true);
    assert_eq!(ran.tags(), [0, 1, 3, 4]);
}

#[test]
fn of_two_classes_that_wait_the_one_done_first_leaves_first() {
    // A line takes 100 ns, so the write completes while lines that completed
    // earlier are still queued.
    let packet = PacketHeader {
        header: Bytes(64),
        data_header: Bytes(99 * 64),
        staging: Bytes(0),
    };
    let slow = LinkParams {
        packet,
        ..link(128)
    };
    let ran = run_on(slow, "rrrrw", 64, medium(1_000, 1_000), false);
    assert_eq!(ran.tags(), [0, 1, 2, 3, 4]);
}
