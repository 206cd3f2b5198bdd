//! Order in the outgoing queue and on the wire: "snoop pushes GO" (CXL 3.1, section 3.2.5.2), and the
//! number of later messages that overtake a waiting message.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;
use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Simulation, Stop, Wire};
use cxlab_protocol::flit::FlitPacker;
use cxlab_protocol::{CacheMeta, MemMeta, Message, Opcode, PortId};

use super::*;
use crate::credit::{BufferId, CreditTable};
use crate::outbox::Outbox;
use crate::parcel::Parcel;
use crate::port::{LinkPort, PortConfig};

/// An endpoint that offers the messages of its script, eight at a time every 2 ns, and
/// records what it receives.
struct Node {
    port: LinkPort,
    outbox: Outbox,
    script: Vec<Message>,
    /// Tags of the messages sent, in order.
    sent_tags: Vec<u32>,
    seen: Vec<Message>,
}

impl Node {
    fn go_on(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        for _ in 0..8 {
            let Some(message) = self.script.pop() else {
                return;
            };
            let record = |message: &Message, _| self.sent_tags.push(message.tag);
            self.outbox
                .offer(ctx, &mut self.port, 0, message, now, record);
        }
        ctx.wake_at(SimTime(now.0 + 2_000), 1);
    }
}

impl Component for Node {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.go_on(ctx);
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, parcel: &Parcel) {
        if let Some(message) = parcel.message {
            self.seen.push(message);
            let buffer = BufferId::of(message.channel(), message.vc);
            self.port.release(ctx, buffer);
        }
        if self.port.receive(parcel) {
            let record = |message: &Message, _| self.sent_tags.push(message.tag);
            self.outbox.pump(ctx, &mut self.port, 0, record);
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match token {
            0 => {
                let record = |message: &Message, _| self.sent_tags.push(message.tag);
                self.outbox.wake(ctx, &mut self.port, 0, record);
            }
            _ => self.go_on(ctx),
        }
    }
}

fn message(opcode: Opcode, tag: u32) -> Message {
    Message {
        hpa: Hpa(0),
        issued_ps: 0,
        stages: Default::default(),
        tag,
        source: PortId(0),
        destination: PortId(1),
        opcode,
        meta: MemMeta::NONE,
        cache: CacheMeta::NONE,
        lines: 1,
        data: 0,
        vc: 0,
        hops: 0,
    }
}

/// Sends a script over a link. Returns the tags of the messages sent, and the arrived
/// messages, both in order.
fn simulate(params: &LinkParams, script: Vec<Message>) -> (Vec<u32>, Vec<Message>) {
    let node = |name, script| Node {
        port: LinkPort::new(
            params,
            &PortConfig {
                port: 0,
                egress: Picos::ZERO,
                ingress: Picos::ZERO,
                vcs: 1,
                windows: params.windows(Picos::ZERO),
                seed: 1,
                name,
            },
        ),
        outbox: Outbox::default(),
        script,
        sent_tags: Vec::new(),
        seen: Vec::new(),
    };
    let nodes = vec![node("a", script), node("b", Vec::new())];
    let min_latency = LinkPort::min_latency(params, Picos::ZERO, Picos::ZERO);
    let wire = |peer: usize| Wire {
        peer: ComponentId::from(peer),
        peer_port: 0,
        min_latency,
    };
    let mut simulation = Simulation::new(nodes, vec![vec![wire(1)], vec![wire(0)]]);
    let outcome = simulation.run(1, SimTime::NEVER, &Monitor::default());
    assert_eq!(outcome.stop, Stop::Exhausted);
    (
        std::mem::take(&mut simulation.component_mut(0).sent_tags),
        std::mem::take(&mut simulation.component_mut(1).seen),
    )
}

/// The messages that arrive of a random sequence over a link of this format. Nine in ten are responses, or
/// three in ten if `data`. `responses` is the number of H2D Rsp credits.
fn arrivals(format: FlitFormat, responses: u8, data: bool) -> Vec<Message> {
    let params = LinkParams {
        flit: Some(format),
        credits: CreditTable {
            h2d_rsp: Some(responses.into()),
            ..CreditTable::default()
        },
        flit_error_rate: FlitErrorRate(0.02),
        ..LinkParams::default()
    };
    let mut rng = StreamRng::new(7, "order");
    let script = (0..3_000).rev().map(|tag| {
        let opcode = match rng.below(10) {
            0 => Opcode::SnpInv,
            1..=6 if data => Opcode::H2dData,
            _ => Opcode::Go,
        };
        message(opcode, tag)
    });
    simulate(&params, script.collect()).1
}

#[test]
fn no_snoop_arrives_before_a_response_that_was_offered_before_it() {
    for format in FlitFormat::ALL {
        for (credits, data) in [(1, false), (1, true), (4, true), (128, true), (128, false)] {
            let seen = arrivals(format, credits, data);
            assert_eq!(seen.len(), 3_000);
            let mut newest_snoop = None;
            for message in &seen {
                match message.opcode {
                    Opcode::SnpInv => newest_snoop = newest_snoop.max(Some(message.tag)),
                    Opcode::Go => assert!(
                        Some(message.tag) > newest_snoop,
                        "{format:?}, {credits} credits: {} after {newest_snoop:?}",
                        message.tag
                    ),
                    _ => {}
                }
            }
            let passes = |pair: &[Message]| pair[0].tag > pair[1].tag;
            assert!(
                !data || seen.windows(2).any(passes),
                "nothing else is ordered"
            );
        }
    }
}

/// Messages that were offered later and sent earlier than another message: the most of its own
/// queue, and the most in all.
fn overtaken(script: &[Message], sent_tags: &[u32]) -> (usize, usize) {
    let queue = |tag: u32| {
        let message = script.iter().find(|message| message.tag == tag);
        message.map(|message| message.channel().queue())
    };
    let (mut by_own_queue, mut by_any_queue) = (0, 0);
    for (position, tag) in sent_tags.iter().enumerate() {
        let later = sent_tags[..position].iter().filter(|other| *other > tag);
        let of_queue = later.clone().filter(|other| queue(**other) == queue(*tag));
        by_own_queue = by_own_queue.max(of_queue.count());
        by_any_queue = by_any_queue.max(later.count());
    }
    (by_own_queue, by_any_queue)
}

/// Number of messages of a class that fit in an empty flit.
fn fit(format: FlitFormat, opcode: Opcode) -> usize {
    let mut flit = FlitPacker::new(format);
    let channel = message(opcode, 0).channel();
    std::iter::from_fn(|| flit.place(channel)).count()
}

/// A message that waits for the wire is overtaken by none of its class. Messages of other classes overtake
/// it only if they still fit in the open flit and it does not. A message that waits for credits is
/// overtaken by none of its class.
#[test]
fn a_message_that_waits_at_an_endpoint_is_overtaken_by_a_flit_of_others_at_most() {
    let mut rng = StreamRng::new(11, "waiting");
    for format in FlitFormat::ALL {
        let opcodes = [
            Opcode::MemRd,
            Opcode::MemWr,
            Opcode::SnpInv,
            Opcode::H2dData,
            Opcode::Go,
        ];
        let fit_in_flit: usize = opcodes.iter().map(|opcode| fit(format, *opcode)).sum();
        for credits in [None, Some(2)] {
            let params = LinkParams {
                flit: Some(format),
                credits: CreditTable {
                    m2s_rwd: credits,
                    ..CreditTable::default()
                },
                ..params(8_000_000_000, Some(format))
            };
            let script: Vec<Message> = (0..1_000)
                .rev()
                .map(|tag| {
                    let opcode = opcodes[rng.below(5) as usize];
                    message(opcode, tag)
                })
                .collect();
            let (sent_tags, _) = simulate(&params, script.clone());
            assert_eq!(sent_tags.len(), 1_000);
            let (by_own_queue, by_any_queue) = overtaken(&script, &sent_tags);
            assert_eq!(by_own_queue, 0, "{format:?}");
            match credits {
                None => assert!(
                    by_any_queue <= fit_in_flit,
                    "{format:?}: {by_any_queue} of {fit_in_flit}"
                ),
                Some(_) => assert!(
                    by_any_queue > fit_in_flit,
                    "others pass a class without credits"
                ),
            }
        }
    }
}
