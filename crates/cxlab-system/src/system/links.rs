//! Wires and the ports at their ends.

use cxlab_engine::units::{Bytes, BytesPerSec, Picos};
use cxlab_engine::{ComponentId, Wire};
use cxlab_link::{
    CreditWindows, Duplex, LinkParams, LinkPort, PacketHeader, PortConfig, Transmission,
};
use cxlab_plan::{End, PlannedLink};
use cxlab_protocol::LongStage;

use super::{Builder, Directions};

impl Builder<'_> {
    /// Number of the component at an end, and its port.
    fn component_of(&self, end: End) -> (usize, u16) {
        let (hosts, devices) = (self.plan.hosts.len(), self.plan.devices.len());
        match end {
            End::Host(number, port) => (number, port),
            End::Device(number, port) => (hosts + number, port),
            End::Switch(number, port) => (hosts + devices + number, port),
        }
    }

    /// Adds both ends of one wire. `directions` has, for each direction, the link's parameters, the egress time of
    /// the sender and the ingress time of the receiver.
    fn join(
        &mut self,
        ends: [(usize, u16); 2],
        directions: [(&LinkParams, Picos, Picos); 2],
        windows: &CreditWindows,
        names: [&str; 2],
    ) {
        let (seed, vcs) = (self.seed, self.vcs);
        let hosts = self.plan.hosts.len();
        let endpoints = hosts + self.plan.devices.len();
        let stage = |component: usize| match component {
            host if host < hosts => LongStage::HostQueue,
            device if device < endpoints => LongStage::DeviceQueue,
            _ => LongStage::SwitchQueue,
        };
        for (from, to) in [(0, 1), (1, 0)] {
            let ((component, port), peer) = (ends[from], ends[to]);
            let (params, egress, ingress) = directions[from];
            let config = PortConfig {
                port,
                egress,
                ingress,
                vcs,
                windows: *windows,
                seed,
                name: names[from],
            };
            let wire = Wire {
                peer: ComponentId::from(peer.0),
                peer_port: peer.1,
                min_latency: LinkPort::min_latency(params, egress, ingress),
            };
            let slots = &mut self.ports[component];
            if slots.len() <= port as usize {
                slots.resize_with(port as usize + 1, || None);
            }
            let link_port = LinkPort::new(params, &config).waiting_in(stage(component));
            slots[port as usize] = Some((link_port, wire));
        }
    }

    /// Lays a planned link, with a bus in between when it is half duplex.
    pub(super) fn lay(&mut self, link: &PlannedLink, buses: &mut Vec<LinkParams>) -> Directions {
        let (a, b) = (self.component_of(link.a), self.component_of(link.b));
        let plan = self.plan;
        let name = |from: End, to: End, ports: [u16; 2]| {
            let (from, to, [out, into]) = (plan.end_name(from), plan.end_name(to), ports);
            format!("{from}->{to}#{out}.{into}")
        };
        let forward_name = name(link.a, link.b, [a.1, b.1]);
        let backward_name = name(link.b, link.a, [b.1, a.1]);
        let out = (plan.egress(link.a), plan.ingress(link.b));
        let back = (plan.egress(link.b), plan.ingress(link.a));
        let windows = &link.params.windows(plan.pipelines(link));
        if link.params.duplex == Duplex::Full {
            let params = &link.params;
            let directions = [(params, out.0, out.1), (params, back.0, back.1)];
            let names = [forward_name.as_str(), &backward_name];
            self.join([a, b], directions, windows, names);
            return Directions {
                forward: a,
                backward: b,
            };
        }
        // Each end hands its messages to the bus in 1 ps, which is subtracted from the wire's propagation delay.
        let attach = LinkParams {
            transmission: Transmission::Packet,
            packet: PacketHeader {
                header: Bytes(0),
                data_header: Bytes(0),
                staging: Bytes(0),
            },
            bandwidth: Some(BytesPerSec(u64::MAX)),
            propagation: Picos(1),
            port_delay: Picos::ZERO,
            fec_delay: Some(Picos::ZERO),
            retimers: 0,
            flit_error_rate: Default::default(),
            duplex: Duplex::Full,
            ..link.params.clone()
        };
        let mut wire = link.params.clone();
        wire.propagation.0 = wire.propagation.0.saturating_sub(1);
        let bus = self.ports.len();
        self.ports.push(Vec::new());
        buses.push(link.params.clone());
        let zero = Picos::ZERO;
        let directions = [(&attach, out.0, zero), (&wire, zero, back.1)];
        let names = ["attach", backward_name.as_str()];
        self.join([a, (bus, 0)], directions, windows, names);
        let directions = [(&attach, back.0, zero), (&wire, zero, out.1)];
        let names = ["attach", forward_name.as_str()];
        self.join([b, (bus, 1)], directions, windows, names);
        Directions {
            forward: (bus, 1),
            backward: (bus, 0),
        }
    }
}
