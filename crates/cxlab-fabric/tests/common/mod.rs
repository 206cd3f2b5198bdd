//! An endpoint that sends the messages of a script and records what arrives.
#![allow(dead_code)]

use std::collections::VecDeque;

use cxlab_engine::units::{Bytes, BytesPerSec, Hpa, Picos, SimTime};
use cxlab_engine::{Component, ComponentId, Ctx, Wire};
use cxlab_link::{
    Blocked, BufferId, LinkParams, LinkPort, PacketHeader, Parcel, PortConfig, Transmission,
};
use cxlab_protocol::{CacheMeta, MemMeta, Message, Opcode, PortId};

/// A link on which a message without data takes 1 ns, a message with data `data` ns, and the flight 1 ns.
pub fn link(data: u64) -> LinkParams {
    LinkParams {
        transmission: Transmission::Packet,
        bandwidth: Some(BytesPerSec(64_000_000_000)),
        packet: PacketHeader {
            header: Bytes(64),
            data_header: Bytes(64 * data - 64),
            staging: Bytes(0),
        },
        propagation: Picos(1_000),
        port_delay: Picos(0),
        ..LinkParams::default()
    }
}

/// One end of a link, on port `port` of its component.
pub fn end(params: &LinkParams, port: u16, vcs: u8) -> LinkPort {
    let zero = Picos::ZERO;
    LinkPort::new(
        params,
        &PortConfig {
            port,
            egress: zero,
            ingress: zero,
            vcs,
            windows: params.windows(zero),
            seed: 1,
            name: "test",
        },
    )
}

/// The wire from one end of a link to port `peer_port` of component `peer`.
pub fn wire(params: &LinkParams, peer: usize, peer_port: u16) -> Wire {
    let min_latency = LinkPort::min_latency(params, Picos::ZERO, Picos::ZERO);
    Wire {
        peer: ComponentId::from(peer),
        peer_port,
        min_latency,
    }
}

/// A message with a `tag` by which a test recognizes it.
pub fn message(opcode: Opcode, source: u16, destination: u16, issued: u64, tag: u32) -> Message {
    Message {
        hpa: Hpa(64 * u64::from(tag)),
        issued_ps: issued,
        stages: Default::default(),
        tag,
        source: PortId(source),
        destination: PortId(destination),
        opcode,
        vc: 0,
        hops: 0,
        meta: MemMeta::NONE,
        cache: CacheMeta::NONE,
        lines: 1,
        data: 0,
    }
}

pub struct Stub {
    pub link: LinkPort,
    /// Messages to send and their times, in order.
    pub script: VecDeque<(u64, Message)>,
    /// Whether received messages occupy their buffers for ever.
    pub hold: bool,
    /// Messages that arrived, with their times.
    pub seen: Vec<(u64, Message)>,
}

impl Stub {
    pub fn new(link: LinkPort) -> Self {
        Stub {
            link,
            script: VecDeque::new(),
            hold: false,
            seen: Vec::new(),
        }
    }

    pub fn tags(&self) -> Vec<u32> {
        self.seen.iter().map(|(_, message)| message.tag).collect()
    }

    fn go_on(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some((at, message)) = self.script.front_mut() {
            if *at > ctx.now().0 {
                ctx.wake_at(SimTime(*at), 0);
                return;
            }
            match self.link.send(ctx, message, message.vc, ctx.now(), |_| {}) {
                Ok(_) => drop(self.script.pop_front()),
                Err(Blocked::Until(time)) => return ctx.wake_at(time, 0),
                Err(Blocked::Credits) => return,
            }
        }
    }
}

impl Component for Stub {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.go_on(ctx);
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, _port: u16, parcel: &Parcel) {
        let credited = self.link.receive(parcel);
        if let Some(message) = parcel.message {
            self.seen.push((ctx.now().0, message));
            if !self.hold {
                self.link
                    .release(ctx, BufferId::of(message.channel(), message.vc));
            }
        }
        if credited {
            self.go_on(ctx);
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, _token: u32) {
        self.go_on(ctx);
    }
}

/// What a test places between stubs.
pub trait Tested {
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel);
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32);
}

/// A stub, or what is tested.
#[allow(clippy::large_enum_variant)]
pub enum Node<T> {
    Stub(Stub),
    Tested(T),
}

impl<T> Node<T> {
    pub fn stub(&mut self) -> &mut Stub {
        match self {
            Node::Stub(stub) => stub,
            Node::Tested(_) => panic!("it is no stub"),
        }
    }

    pub fn tested(&mut self) -> &mut T {
        match self {
            Node::Stub(_) => panic!("it is a stub"),
            Node::Tested(tested) => tested,
        }
    }
}

impl<T: Tested + Send + 'static> Component for Node<T> {
    type Payload = Parcel;

    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Node::Stub(stub) = self {
            stub.start(ctx);
        }
    }

    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Stub(stub) => stub.receive(ctx, port, parcel),
            Node::Tested(tested) => tested.receive(ctx, port, parcel),
        }
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Stub(stub) => stub.wake(ctx, token),
            Node::Tested(tested) => tested.wake(ctx, token),
        }
    }
}
