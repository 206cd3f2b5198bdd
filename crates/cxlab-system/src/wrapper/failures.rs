//! Components of a system in which something fails: each is wrapped, so that others pay nothing for it.
//!
//! A wrapper has its component's part of the timeline, and the states of its links. It discards
//! messages that arrive over a failed link or are queued for one, lets switches route by the tables
//! in force, and ends requests of hosts that have timed out. A failed component handles no events:
//! its messages are lost, and its wake-ups do nothing until it is repaired.
//!
//! # Routing states
//! The first switch on a message's path marks the message with the number of the routing state in force, whose
//! tables and virtual channels the message keeps to. All switches change states in the same picosecond. When the
//! new state takes virtual channels of an older one, each switch then discards the messages of that one that wait
//! for these channels, and those that still arrive on them: their number is not that of the channel. So a
//! virtual channel never holds messages of two states that wait for one another.
//!
//! # Laws
//! Each lost message was a request or a response, and its host ends the request by its timeout; each
//! late response belongs to another such request. So in a run that ends by itself, the timed-out
//! requests are as many as lost messages and late responses together.

use std::sync::Arc;

use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Ctx, save_state};
use cxlab_link::{BUFFERS, BufferId, LinkPort, LostMessages, MAX_VCS, Parcel};
use cxlab_plan::{FailureChange, Failures, Plan, PlannedLink, RoutingState};
use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

use super::tokens::FailureWake;
use super::{Inner, Kind};

/// State of a link, at the component of one end.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum Link {
    Up,
    Down,
    /// The link is being trained again; the first parcel that the far end has sent since has not arrived.
    Training,
}

#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct Port {
    link: Link,
    /// How often the link has been trained again.
    times: u32,
}

/// State that depends on the kind of the component.
enum ComponentFacts {
    Host(Deadlines),
    Device,
    Switch(Routes),
}

/// Timeouts of a host, and its root ports.
struct Deadlines {
    timeout: Picos,
    /// Time from the issue of a request that is not sent until the root port responds.
    isolation: Picos,
    /// The root port towards each edge port.
    root_ports: Vec<u16>,
}

/// A switch's tables.
struct Routes {
    index: usize,
    states: Arc<[RoutingState]>,
    /// Number of the routing state of new messages of endpoints.
    current: usize,
    /// By virtual channel: the routing state that it belongs to; [`NOBODY`] before the first.
    of_channel: [usize; MAX_VCS],
    /// By port: whether it leads to an endpoint.
    edge: Vec<bool>,
}

/// Stands for the routing state of a virtual channel that no state has had.
const NOBODY: usize = usize::MAX;

/// Route of a message through a switch.
enum OnwardRoute {
    /// Through this output, on this virtual channel.
    To(u16, u8),
    /// No route leads to the message's destination.
    Nowhere,
    /// The message's virtual channel belongs to a later routing state.
    Expired,
}

impl Routes {
    /// The output and virtual channel of a message that came through `input`. Marks messages that enter the fabric
    /// here, and takes the mark off those that leave it.
    fn route(&self, input: u16, message: &mut Message) -> OnwardRoute {
        let (number, vc) = match self.edge[input as usize] {
            true => {
                let state = &self.states[self.current];
                (self.current, state.channels.trailing_zeros() as u8)
            }
            false => {
                let number = self.of_channel[message.vc as usize];
                if number as u16 != message.routing_state() {
                    return OnwardRoute::Expired;
                }
                (number, message.vc)
            }
        };
        let state = &self.states[number];
        let destination = message.destination.0 as usize;
        let [output] = *state.tables.candidates(self.index, destination) else {
            return OnwardRoute::Nowhere;
        };
        let vc = match state.tables.vc_increment(self.index, input, output) {
            true => state.channel_after(vc),
            false => vc,
        };
        let mark = match self.edge[output as usize] {
            true => 0,
            false => number as u16,
        };
        message.set_routing_state(mark);
        OnwardRoute::To(output, vc)
    }

    /// Puts a routing state in force; returns the virtual channels that it takes from others, as bits.
    fn begin(&mut self, number: usize) -> u8 {
        let channels = self.states[number].channels;
        let mut taken = 0;
        for (vc, owner) in self.of_channel.iter_mut().enumerate() {
            if channels >> vc & 1 == 1 && *owner != number {
                taken |= 1 << vc;
                *owner = number;
            }
        }
        self.current = number;
        taken
    }
}

/// A component of a system in which something fails.
pub struct FailingComponent<N> {
    node: N,
    part: ComponentFacts,
    ports: Vec<Port>,
    timeline: PendingChanges,
    begun: SimTime,
    dead: bool,
    lost: LostMessages,
    /// Messages among those lost whose virtual channel a later routing state took.
    discarded: u64,
}

save_state!([N: SaveState] FailingComponent<N> {
    states: node, part, timeline;
    sized: ports;
    values: begun, dead, lost, discarded;
});

/// Pending changes, the next one last.
struct PendingChanges(Vec<(Picos, FailureChange)>);

impl SaveState for PendingChanges {
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

impl SaveState for ComponentFacts {
    fn save(&self, out: &mut StateWriter) {
        if let ComponentFacts::Switch(routes) = self {
            out.value("routing state", &routes.current);
            out.value("channels", &routes.of_channel);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if let ComponentFacts::Switch(routes) = self {
            let current: usize = from.value("routing state")?;
            let of_channel: [usize; MAX_VCS] = from.value("channels")?;
            let known = |number: &usize| *number < routes.states.len() || *number == NOBODY;
            if current >= routes.states.len() || !of_channel.iter().all(known) {
                return Err(StateError::new(format!(
                    "the state has routing state {current} and channels {of_channel:?}, this system has {} \
                     routing states",
                    routes.states.len()
                )));
            }
            (routes.current, routes.of_channel) = (current, of_channel);
        }
        Ok(())
    }
}

/// Wraps the components of a system in which something fails. `make` makes a component of a wrapper.
pub(crate) fn wrap<N: Inner>(
    nodes: Vec<N>,
    plan: &Plan,
    make: impl Fn(Box<FailingComponent<N>>) -> N,
) -> Vec<N> {
    let Some(failures) = plan.failures() else {
        return nodes;
    };
    let states: Arc<[RoutingState]> = failures.states.as_slice().into();
    let nodes = nodes.into_iter().enumerate();
    let wrapped = nodes.map(|(number, node)| {
        make(Box::new(FailingComponent::new(
            node, number, plan, failures, &states,
        )))
    });
    wrapped.collect()
}

impl<N: Inner> FailingComponent<N> {
    fn new(
        mut node: N,
        number: usize,
        plan: &Plan,
        failures: &Failures,
        states: &Arc<[RoutingState]>,
    ) -> FailingComponent<N> {
        let endpoints = plan.hosts.len() + plan.devices.len();
        let part = match node.kind() {
            Kind::Host(host) => {
                let group = &plan.scenario.hosts[plan.hosts[number].group];
                let root_ports = host.fails().map(|host| host.routes(endpoints));
                ComponentFacts::Host(Deadlines {
                    timeout: failures.params.completion_timeout,
                    isolation: failures.params.isolation_time + group.egress() + group.ingress(),
                    root_ports: root_ports.unwrap_or_default(),
                })
            }
            Kind::Switch(_) => {
                ComponentFacts::Switch(Routes::new(plan, number - endpoints, states))
            }
            _ => ComponentFacts::Device,
        };
        let mut timeline = failures.timelines[number].clone();
        timeline.reverse();
        let port = Port {
            link: Link::Up,
            times: 0,
        };
        let ends = |link: &PlannedLink| {
            let ends = [link.a, link.b].into_iter();
            ends.filter(|end| plan.component(*end) == number).count()
        };
        FailingComponent {
            node,
            part,
            ports: vec![port; plan.links.iter().map(ends).sum()],
            timeline: PendingChanges(timeline),
            begun: SimTime::ZERO,
            dead: false,
            lost: LostMessages::default(),
            discarded: 0,
        }
    }

    pub(crate) fn node(&self) -> &N {
        &self.node
    }

    pub(crate) fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }

    pub(crate) fn lost(&self) -> LostMessages {
        self.lost
    }

    pub(crate) fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Resets statistics, as measurement begins.
    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.node.begin_measurement(now);
    }

    pub(crate) fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        self.node.port_mut(port)
    }

    /// Requests and messages inside the component.
    pub(crate) fn in_flight(&self) -> u64 {
        match self.dead {
            true => 0,
            false => self.node.in_flight(),
        }
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.begun = ctx.now();
        self.node.start(ctx);
        self.await_change(ctx);
        if let ComponentFacts::Host(deadlines) = &self.part {
            ctx.wake_at(ctx.now() + deadlines.timeout, FailureWake::Timeout.token());
        }
    }

    fn await_change(&self, ctx: &mut Ctx<'_, Parcel>) {
        if let Some((at, _)) = self.timeline.0.last() {
            ctx.wake_at(self.begun + *at, FailureWake::Timeline.token());
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
        match (self.node.kind(), &self.part) {
            (Kind::Switch(switch), ComponentFacts::Switch(routes)) => {
                let message = ctx.received_mut().message.as_mut();
                let onward = message.map(|message| routes.route(port, message));
                let output = match onward {
                    Some(OnwardRoute::To(output, vc)) => Some((output, vc)),
                    _ => None,
                };
                if switch.arrive_routed(ctx, port, output) {
                    self.discarded += u64::from(matches!(onward, Some(OnwardRoute::Expired)));
                    self.lose(parcel);
                }
            }
            (Kind::Host(host), _) => match (host.fails_at(ctx.now()), &parcel.message) {
                (Some(plain), Some(message)) if plain.is_late(message) => {
                    plain.receive_late(ctx, port, parcel);
                }
                _ => host.receive(ctx, port, parcel),
            },
            _ => self.node.receive(ctx, port, parcel),
        }
        self.settle(ctx);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let wake = FailureWake::of(token);
        if self.dead && wake != Some(FailureWake::Timeline) {
            return;
        }
        match (wake, self.node.kind(), &self.part) {
            (Some(FailureWake::Timeline), ..) => self.change(ctx),
            (Some(FailureWake::Timeout), Kind::Host(host), ComponentFacts::Host(deadlines)) => {
                let (timeout, now) = (deadlines.timeout, ctx.now());
                let Some(plain) = host.fails_at(now) else {
                    return;
                };
                plain.time_out(ctx, timeout);
                if !plain.is_done() {
                    // Requests issued from now on time out later than this.
                    let next = plain.first_timeout(timeout);
                    ctx.wake_at(next.unwrap_or(now + timeout), token);
                }
            }
            (Some(FailureWake::Isolation(tag)), Kind::Host(host), ComponentFacts::Host(_)) => {
                if let Some(plain) = host.fails_at(ctx.now()) {
                    plain.end_cut_off(ctx, tag);
                }
            }
            _ => self.node.wake(ctx, token),
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
        let (begun, now) = (self.begun, ctx.now());
        let is_due = move |(at, _): &mut (Picos, FailureChange)| begun + *at <= now;
        while let Some((_, change)) = self.timeline.0.pop_if(is_due) {
            match change {
                FailureChange::Down(port) => {
                    self.ports[port as usize].link = Link::Down;
                    self.node.port_mut(port).fail();
                }
                FailureChange::Up(port) => self.train(ctx, port),
                FailureChange::Dead => self.die(ctx),
                FailureChange::Alive => self.dead = false,
                FailureChange::Route(number) => {
                    if let ComponentFacts::Switch(routes) = &mut self.part {
                        let taken = routes.begin(number);
                        if let (false, 1.., Kind::Switch(switch)) =
                            (self.dead, taken, self.node.kind())
                        {
                            let lost = switch.discard_vcs(ctx, taken);
                            self.discarded += lost.messages;
                            self.lost += lost;
                        }
                    }
                }
                FailureChange::CutOff(devices) => {
                    if let (Kind::Host(host), ComponentFacts::Host(deadlines)) =
                        (self.node.kind(), &self.part)
                        && let Some(plain) = host.fails_at(ctx.now())
                    {
                        plain.cut_off(&deadlines.root_ports, &devices);
                    }
                }
            }
        }
        self.await_change(ctx);
    }

    /// A link is trained again: the far end gets credits for all places that are free.
    fn train(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let mut occupied = [0u16; BUFFERS];
        let mut count = |buffer: BufferId| occupied[usize::from(buffer.0)] += 1;
        match self.node.kind() {
            Kind::Switch(switch) => switch.buffered(ctx, port, &mut count),
            Kind::Device(device) => device.buffered(port, &mut count),
            _ => {}
        }
        let state = &mut self.ports[port as usize];
        state.link = Link::Training;
        state.times += 1;
        let times = state.times;
        let link = self.node.port_mut(port);
        link.restore(ctx, times, |buffer| occupied[usize::from(buffer.0)]);
    }

    fn die(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for port in 0..self.ports.len() {
            self.node.port_mut(port as u16).fail();
            self.ports[port].link = Link::Down;
        }
        self.lost += match self.node.kind() {
            Kind::Switch(switch) => switch.discard_all(ctx),
            Kind::Device(device) => device.remove(),
            _ => unreachable!("the plan lets switches and devices fail"),
        };
        self.dead = true;
    }

    /// Drops messages queued for links that do not work, and lets root ports respond to requests that are not sent.
    fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.dead {
            return;
        }
        for port in 0..self.ports.len() {
            if self.ports[port].link == Link::Down {
                let port = port as u16;
                self.lost += match self.node.kind() {
                    Kind::Switch(switch) if switch.waiting(port) > 0 => switch.discard(ctx, port),
                    Kind::Device(device) => device.discard(ctx, port),
                    Kind::Host(host) => match host.fails_at(ctx.now()) {
                        Some(plain) => plain.discard(ctx, port),
                        None => LostMessages::default(),
                    },
                    _ => LostMessages::default(),
                };
            }
        }
        if let (Kind::Host(host), ComponentFacts::Host(deadlines)) = (self.node.kind(), &self.part)
            && let Some(plain) = host.fails_at(ctx.now())
        {
            for tag in plain.take_cut_off() {
                let wake = FailureWake::Isolation(tag);
                ctx.wake_at(ctx.now() + deadlines.isolation, wake.token());
            }
        }
    }
}

impl Routes {
    fn new(plan: &Plan, index: usize, states: &Arc<[RoutingState]>) -> Routes {
        let peers = plan.tables.ports().of(index).iter();
        let is_edge = |peer: &_| matches!(peer, cxlab_fabric::routing::PortPeer::Endpoint(_));
        let mut routes = Routes {
            index,
            current: 0,
            of_channel: [NOBODY; MAX_VCS],
            edge: peers.map(is_edge).collect(),
            states: Arc::clone(states),
        };
        routes.begin(0);
        routes
    }
}
