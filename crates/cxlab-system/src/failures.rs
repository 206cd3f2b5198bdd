//! Components of a system in which something fails: each is wrapped, so that others pay nothing for it.
//!
//! A wrapper has its component's part of the timeline. It knows which of the links work, loses what
//! arrives by one that does not, and what waits for one; lets switches route by the tables in force;
//! ends requests of hosts whose time is over. A component that has failed is deaf: what it held is
//! lost, and wake-ups that it asked for do nothing.
//!
//! # Laws
//! Each message that is lost was a request, or the answer to one, whose host will end it by its
//! timeout; each answer that comes too late belongs to another such request. So in a run that ends by
//! itself, requests timed out are as many as messages lost and answers late together.

use std::sync::Arc;

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Ctx, save_state};
use cxlab_fabric::switch::Switch;
use cxlab_link::{BUFFERS, Buffer, Lost, Parcel};
use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

use crate::plan::{FailureChange, Failures, Plan, PlannedTables};
use crate::system::Node;

/// A link as the component at one end knows it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum Link {
    Up,
    Down,
    /// It is trained again, and the far end has not been heard of.
    Training,
}

/// A port of a wrapped component.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct Port {
    link: Link,
    /// How often the link has been trained again.
    times: u8,
}

/// What a component has to know besides.
enum Part {
    Host(Deadlines),
    Device,
    Switch(Routes),
}

/// A host's times.
struct Deadlines {
    timeout: Picos,
    /// From the issue of a request that is not sent until the root port answers it.
    isolation: Picos,
    /// The root port towards each edge port.
    ways: Vec<u16>,
}

/// A switch's tables.
struct Routes {
    index: usize,
    tables: Arc<[PlannedTables]>,
    /// Those in force for what comes from endpoints.
    current: usize,
    /// By virtual channel: the tables that it belongs to.
    of_channel: Vec<u8>,
    /// By port: whether it leads to an endpoint.
    edge: Vec<bool>,
}

impl Routes {
    /// The output of a message that came through `input`, and its virtual channel there.
    fn way(&self, input: u16, message: &Message) -> Option<(u16, u8)> {
        let (tables, vc) = match self.edge[input as usize] {
            true => {
                let tables = &self.tables[self.current];
                (tables, tables.first)
            }
            false => {
                let number = self.of_channel[message.vc as usize];
                (&self.tables[number as usize], message.vc)
            }
        };
        let destination = message.destination.0 as usize;
        let [output] = *tables.tables.candidates(self.index, destination) else {
            return None;
        };
        let next = tables.tables.vc_increment(self.index, input, output);
        Some((output, vc + u8::from(next)))
    }
}

/// Wake-up tokens of the wrapper: for the timeline, for timeouts, and for a root port's answer, to
/// which the tag is added.
const TIMELINE: u32 = u32::MAX - 16;
const TIMEOUT: u32 = u32::MAX - 17;
const ANSWER: u32 = 1 << 30;
/// The first token beyond a root port's answers.
const BEYOND: u32 = 1 << 31;

/// A component of a system in which something fails.
pub struct Failing {
    node: Node,
    part: Part,
    ports: Vec<Port>,
    timeline: Coming,
    begun: SimTime,
    dead: bool,
    lost: Lost,
}

save_state!(Failing {
    states: node, part, timeline;
    sized: ports;
    values: begun, dead, lost;
});

/// What is still to come, the next last.
struct Coming(Vec<(Picos, FailureChange)>);

impl SaveState for Coming {
    fn save(&self, out: &mut StateWriter) {
        out.value("coming", &self.0.len());
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let left: usize = from.value("coming")?;
        if left > self.0.len() {
            return Err(StateError::of_length("coming", left, self.0.len()));
        }
        self.0.truncate(left);
        Ok(())
    }
}

impl SaveState for Part {
    fn save(&self, out: &mut StateWriter) {
        if let Part::Switch(routes) = self {
            out.value("tables", &routes.current);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if let Part::Switch(routes) = self {
            let current: usize = from.value("tables")?;
            if current >= routes.tables.len() {
                return Err(StateError::new(format!(
                    "the state has tables {current}, this system has {}",
                    routes.tables.len()
                )));
            }
            routes.current = current;
        }
        Ok(())
    }
}

/// Wraps the components of a system in which something fails.
pub(crate) fn wrap(nodes: Vec<Node>, plan: &Plan) -> Vec<Node> {
    let Some(failures) = &plan.failures else {
        return nodes;
    };
    let tables: Arc<[PlannedTables]> = failures.tables.as_slice().into();
    let nodes = nodes.into_iter().enumerate();
    let wrapped = nodes.map(|(number, node)| {
        let failing = Failing::new(node, number, plan, failures, &tables);
        Node::Failing(Box::new(failing))
    });
    wrapped.collect()
}

impl Failing {
    fn new(
        node: Node,
        number: usize,
        plan: &Plan,
        failures: &Failures,
        tables: &Arc<[PlannedTables]>,
    ) -> Failing {
        let endpoints = plan.hosts.len() + plan.devices.len();
        let part = match &node {
            Node::Host(host) => {
                let group = &plan.scenario.hosts[plan.hosts[number].group];
                let ways = host.fails().map(|host| host.ways(endpoints));
                Part::Host(Deadlines {
                    timeout: failures.params.completion_timeout,
                    isolation: failures.params.isolation_time + group.egress() + group.ingress(),
                    ways: ways.unwrap_or_default(),
                })
            }
            Node::Switch(_) => Part::Switch(Routes::new(plan, number - endpoints, tables)),
            _ => Part::Device,
        };
        let mut timeline = failures.timelines[number].clone();
        timeline.reverse();
        let port = Port {
            link: Link::Up,
            times: 0,
        };
        let ends = |link: &crate::plan::PlannedLink| {
            [link.a, link.b]
                .iter()
                .filter(|end| plan.component(**end) == number)
                .count()
        };
        Failing {
            node,
            part,
            ports: vec![port; plan.links.iter().map(ends).sum()],
            timeline: Coming(timeline),
            begun: SimTime::ZERO,
            dead: false,
            lost: Lost::default(),
        }
    }

    /// The component inside.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The component inside.
    pub fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// What it has lost, ever.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// Requests and messages inside it.
    pub(crate) fn holds(&self) -> u64 {
        match self.dead {
            true => 0,
            false => self.node.holds(),
        }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.begun = ctx.now();
        cxlab_engine::Component::start(&mut self.node, ctx);
        self.await_change(ctx);
        if let Part::Host(deadlines) = &self.part {
            ctx.wake_at(ctx.now() + deadlines.timeout, TIMEOUT);
        }
    }

    fn await_change(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some((at, _)) = self.timeline.0.last() {
            ctx.wake_at(self.begun + *at, TIMELINE);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        if self.dead {
            return self.lose(parcel);
        }
        let state = &mut self.ports[port as usize];
        match (state.link, parcel.credits.begins()) {
            (Link::Up, _) => {}
            (Link::Training, Some(time)) if time == state.times => {
                state.link = Link::Up;
                return;
            }
            (Link::Down | Link::Training, _) => return self.lose(parcel),
        }
        match (&mut self.node, &self.part) {
            (Node::Switch(switch), Part::Switch(routes)) => {
                let message = parcel.message.as_ref();
                let way = message.and_then(|message| routes.way(port, message));
                if switch.arrive_routed(ctx, port, way) {
                    self.lose(parcel);
                }
            }
            (Node::Host(host), _) => match (host.fails_at(ctx.now()), &parcel.message) {
                (Some(plain), Some(message)) if plain.is_late(message) => {
                    plain.receive_late(ctx, port, parcel);
                }
                _ => host.receive(ctx, port, parcel),
            },
            (node, _) => cxlab_engine::Component::receive(node, ctx, port, parcel),
        }
        self.settle(ctx);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if self.dead {
            return;
        }
        match (token, &mut self.node, &self.part) {
            (TIMELINE, ..) => self.change(ctx),
            (TIMEOUT, Node::Host(host), Part::Host(deadlines)) => {
                let (timeout, now) = (deadlines.timeout, ctx.now());
                let Some(plain) = host.fails_at(now) else {
                    return;
                };
                plain.time_out(ctx, timeout);
                if !plain.is_done() {
                    // Whatever is issued from now on has more time than that.
                    let next = plain.first_timeout(timeout);
                    ctx.wake_at(next.unwrap_or(now + timeout), TIMEOUT);
                }
            }
            (ANSWER..BEYOND, Node::Host(host), Part::Host(_)) => {
                if let Some(plain) = host.fails_at(ctx.now()) {
                    plain.end_cut_off(ctx, token - ANSWER);
                }
            }
            (_, node, _) => cxlab_engine::Component::wake(node, ctx, token),
        }
        self.settle(ctx);
    }

    fn lose(&mut self, parcel: &Parcel) {
        if let Some(message) = &parcel.message {
            self.lost.count(message);
        }
    }

    /// Makes the changes that are due.
    fn change(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while self
            .timeline
            .0
            .last()
            .is_some_and(|(at, _)| self.begun + *at <= ctx.now())
            && let Some((_, change)) = self.timeline.0.pop()
        {
            match change {
                FailureChange::Down(port) => {
                    self.ports[port as usize].link = Link::Down;
                    self.node.port_mut(port).fail();
                }
                FailureChange::Up(port) => self.train(ctx, port),
                FailureChange::Dead => return self.die(ctx),
                FailureChange::Route(number) => {
                    if let Part::Switch(routes) = &mut self.part {
                        routes.current = number;
                    }
                }
                FailureChange::CutOff(devices) => {
                    if let (Node::Host(host), Part::Host(deadlines)) = (&mut self.node, &self.part)
                        && let Some(plain) = host.fails_at(ctx.now())
                    {
                        plain.cut_off(&deadlines.ways, &devices);
                    }
                }
            }
        }
        self.await_change(ctx);
    }

    /// A link is trained again: the far end gets credits for all places that are free.
    fn train(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let mut occupied = [0u16; BUFFERS];
        let mut count = |buffer: Buffer| occupied[usize::from(buffer.0)] += 1;
        match &self.node {
            Node::Switch(switch) => switch.buffered(ctx, port, &mut count),
            Node::Device(device) => device.buffered(port, &mut count),
            _ => {}
        }
        let state = &mut self.ports[port as usize];
        state.link = Link::Training;
        state.times += 1;
        let times = state.times;
        let link = self.node.port_mut(port);
        link.restore(ctx, times, |buffer| occupied[usize::from(buffer.0)]);
    }

    /// The component fails.
    fn die(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for port in 0..self.ports.len() {
            self.node.port_mut(port as u16).fail();
        }
        self.lost += match &mut self.node {
            Node::Switch(switch) => discard_all(switch, ctx, self.ports.len()),
            Node::Device(device) => device.remove(),
            _ => unreachable!("the plan lets switches and devices fail"),
        };
        self.dead = true;
        self.timeline.0.clear();
    }

    /// Loses what waits for links that do not work, and has root ports answer what is not sent.
    fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.dead {
            return;
        }
        for port in 0..self.ports.len() {
            if self.ports[port].link == Link::Down {
                let port = port as u16;
                self.lost += match &mut self.node {
                    Node::Switch(switch) if switch.waiting(port) > 0 => switch.discard(ctx, port),
                    Node::Device(device) => device.discard(ctx, port),
                    Node::Host(host) => match host.fails_at(ctx.now()) {
                        Some(plain) => plain.discard(ctx, port),
                        None => Lost::default(),
                    },
                    _ => Lost::default(),
                };
            }
        }
        if let (Node::Host(host), Part::Host(deadlines)) = (&mut self.node, &self.part)
            && let Some(plain) = host.fails_at(ctx.now())
        {
            for tag in plain.take_cut_off() {
                assert!(
                    tag < BEYOND - ANSWER,
                    "tags of requests that are late are not used again"
                );
                ctx.wake_at(ctx.now() + deadlines.isolation, ANSWER + tag);
            }
        }
    }
}

/// Loses all that is in a switch.
fn discard_all(switch: &mut Switch, ctx: &mut Ctx<'_, Parcel>, ports: usize) -> Lost {
    let mut lost = Lost::default();
    for port in 0..ports {
        lost += switch.discard(ctx, port as u16);
    }
    lost
}

impl Routes {
    fn new(plan: &Plan, index: usize, tables: &Arc<[PlannedTables]>) -> Routes {
        let peers = plan.tables.ports().of(index).iter();
        let is_edge = |peer: &_| matches!(peer, cxlab_fabric::routing::PortPeer::Endpoint(_));
        let of_channel = tables.iter().enumerate().flat_map(|(number, one)| {
            let channels = one.tables.virtual_channels();
            std::iter::repeat_n(number as u8, usize::from(channels))
        });
        Routes {
            index,
            current: 0,
            of_channel: of_channel.collect(),
            edge: peers.map(is_edge).collect(),
            tables: Arc::clone(tables),
        }
    }
}
