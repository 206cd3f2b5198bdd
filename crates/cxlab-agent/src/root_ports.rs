//! A requester's links, one for each root port, and the messages queued for them.

use cxlab_engine::save_state;
use cxlab_engine::units::SimTime;
use cxlab_engine::{Ctx, prefetch};
use cxlab_link::{LinkPort, LostMessages, Outbox, Parcel};
use cxlab_protocol::{Message, PortId};

/// Root ports with their outgoing queues. The wake-up token of a port is its number.
pub struct RootPorts {
    /// The links, by the number of the root port.
    pub ports: Vec<LinkPort>,
    /// The outgoing queues, by the number of the root port.
    outboxes: Vec<Outbox>,
    /// Root port towards each edge port; empty when there is one root port.
    port_to: Vec<u16>,
    /// Number of queued messages from which the requester stops issuing.
    limit: usize,
    /// Whether messages leave in the order in which they were sent.
    in_order: bool,
    /// Messages to edge ports that no path leads to.
    refused: Vec<Message>,
}

/// Entry of `port_to` for an edge port that no root port leads to.
const NOWHERE: u16 = u16::MAX;

save_state!(RootPorts {
    states: ports, outboxes;
    values: port_to, refused;
    built: limit, in_order;
});

impl RootPorts {
    /// Root ports with empty queues. Once `limit` messages are queued, the requester stops issuing.
    pub fn new(ports: Vec<LinkPort>, port_to: Vec<u16>, limit: usize) -> Self {
        RootPorts {
            outboxes: vec![Outbox::default(); ports.len()],
            ports,
            port_to,
            limit,
            in_order: false,
            refused: Vec::new(),
        }
    }

    /// Root ports whose messages leave in the order in which they were sent.
    #[must_use]
    pub fn in_order(self) -> Self {
        RootPorts {
            outboxes: vec![Outbox::in_order(); self.ports.len()],
            in_order: true,
            ..self
        }
    }

    /// Prefetches the outgoing queue before a message is sent.
    #[inline]
    pub fn prefetch(&self) {
        if let [only] = &self.outboxes[..] {
            prefetch(only);
        }
    }

    /// Whether the number of queued messages has reached the limit for issuing. With ordered messages and several root
    /// ports the limit is one: a queued message could be overtaken at another port.
    #[inline]
    pub fn is_full(&self) -> bool {
        let limit = match self.in_order && self.ports.len() > 1 {
            true => 1,
            false => self.limit,
        };
        self.waiting() >= limit
    }

    /// Number of messages queued for links.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.outboxes.iter().map(Outbox::len).sum()
    }

    /// Sends a message towards its destination, or queues it until the link accepts it.
    #[inline(always)]
    pub fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, message: Message) {
        let now = ctx.now();
        let port = self.towards(message.destination);
        let (Some(outbox), Some(link)) = (self.outboxes.get_mut(port), self.ports.get_mut(port))
        else {
            return self.refuse(message);
        };
        outbox.offer(ctx, link, port as u32, message, now, |_, _| {});
    }

    #[cold]
    #[inline(never)]
    fn refuse(&mut self, message: Message) {
        self.refused.push(message);
    }

    /// Takes the messages, since the last call, whose destination no path leads to.
    pub fn take_refused(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.refused)
    }

    /// Root port towards each edge port.
    pub fn routes(&self, edge_ports: usize) -> Vec<u16> {
        match self.port_to.is_empty() {
            true => vec![0; edge_ports],
            false => self.port_to.clone(),
        }
    }

    /// Replaces the root port towards each edge port; `None` where no path leads there.
    fn redirect(&mut self, routes: impl Iterator<Item = Option<u16>>) {
        self.port_to = routes.map(|port| port.unwrap_or(NOWHERE)).collect();
    }

    /// Restores the routes `routes`, without those to devices that are cut off. `is_cut` is indexed
    /// by device; the edge ports of devices begin at `first`.
    pub fn cut_off(&mut self, routes: &[u16], first: usize, is_cut: &[bool]) {
        let is_cut = |edge_port: usize| edge_port >= first && is_cut[edge_port - first];
        let routes = routes.iter().enumerate();
        self.redirect(routes.map(|(edge_port, port)| (!is_cut(edge_port)).then_some(*port)));
    }

    /// Discards the messages queued for a port, and returns their counts.
    pub fn discard(&mut self, port: u16) -> LostMessages {
        let mut lost = LostMessages::default();
        self.outboxes[port as usize].discard(|message| lost.count(message));
        lost
    }

    /// Number of the root port towards an edge port.
    #[inline]
    fn towards(&self, device: PortId) -> usize {
        self.port_to
            .get(device.0 as usize)
            .map_or(0, |port| *port as usize)
    }

    /// Sends queued messages after credits arrived for a port.
    #[inline]
    pub fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) {
        let number = port as usize;
        let token = u32::from(port);
        self.outboxes[number].pump(ctx, &mut self.ports[number], token, |_, _| {});
    }

    /// Handles a port's wake-up.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        let number = token as usize;
        self.outboxes[number].wake(ctx, &mut self.ports[number], token, |_, _| {});
    }

    /// Resets the link statistics at the beginning of measurement.
    pub fn begin_measurement(&mut self, now: SimTime) {
        for port in &mut self.ports {
            port.begin_measurement(now);
        }
    }
}
