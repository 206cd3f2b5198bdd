//! The switch: arbitration, independence of queues and classes, virtual channels,
//! credits, order, and restore.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Node, Stub, Tested, end, link, message, wire};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::state::{SaveState, StateReader, StateWriter};
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Ctx, Monitor, Simulation, Stop};
use cxlab_fabric::graph::{Endpoints, FabricGraph};
use cxlab_fabric::routing::{PortPeer, RoutingKind, RoutingTables};
use cxlab_fabric::switch::{Arbitration, Switch, SwitchConfig, SwitchParams};
use cxlab_link::{BufferId, CreditTable, LinkParams, Parcel};
use cxlab_protocol::{Channel, Message, Opcode};

impl Tested for Switch {
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, _parcel: &Parcel) {
        self.arrive(ctx, port);
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        Switch::wake(self, ctx, token);
    }
}

/// Links of which the one of an endpoint has these receive buffers.
fn narrow(endpoint: usize, credits: CreditTable) -> impl Fn(usize) -> LinkParams {
    move |other| LinkParams {
        credits: match other == endpoint {
            true => credits,
            false => CreditTable::default(),
        },
        ..link(1)
    }
}

/// A ring of switches, each with a host and a device.
fn ring(switches: usize) -> FabricGraph {
    let mut graph = FabricGraph::new(&Endpoints::numbered(switches, switches));
    for switch in 0..switches {
        graph.add_switch(format!("s{switch}"), 0);
        graph.add_link(switch, (switch + 1) % switches);
        graph.attach(switch, switch);
        graph.attach(switches + switch, switch);
    }
    graph
}

struct Fabric {
    simulation: Simulation<Node<Switch>>,
    tables: Arc<RoutingTables>,
}

impl Fabric {
    /// A fabric with the endpoints and switches of a graph. `params` gives the link of each endpoint.
    fn new(
        graph: &FabricGraph,
        arbitration: Arbitration,
        params: impl Fn(usize) -> LinkParams,
    ) -> Fabric {
        let tables = Arc::new(RoutingTables::build(graph, RoutingKind::Shortest).unwrap());
        let (endpoints, vcs) = (graph.endpoints.len(), tables.virtual_channels());
        let (mut nodes, mut wires) = (Vec::new(), Vec::new());
        for endpoint in 0..endpoints {
            let (switch, port) = tables.ports().edge(endpoint).unwrap();
            nodes.push(Node::Stub(Stub::new(end(&params(endpoint), 0, vcs))));
            wires.push(vec![wire(&params(endpoint), endpoints + switch, port)]);
        }
        for index in 0..graph.switches.len() {
            let (mut ports, mut own) = (Vec::new(), Vec::new());
            for (port, peer) in tables.ports().of(index).iter().enumerate() {
                let (params, peer, far) = match *peer {
                    PortPeer::Endpoint(endpoint) => (params(endpoint), endpoint, 0),
                    PortPeer::Switch { index, port, .. } => (link(1), endpoints + index, port),
                    PortPeer::Cut => panic!("no link has failed"),
                };
                ports.push(end(&params, port as u16, vcs));
                own.push(wire(&params, peer, far));
            }
            let params = SwitchParams {
                switching_time: Picos(0),
                arbitration,
                ..SwitchParams::default()
            };
            let (tables, rng) = (Arc::clone(&tables), StreamRng::new(1, "switch"));
            let config = SwitchConfig {
                params,
                index,
                hdm_d: (0..endpoints).map(|_| false).collect(),
                ports,
                virtual_channels: tables.virtual_channels(),
                tables,
                rng,
            };
            nodes.push(Node::Tested(Switch::new(config)));
            wires.push(own);
        }
        Fabric {
            simulation: Simulation::new(nodes, wires),
            tables,
        }
    }

    /// A fabric of one switch with `hosts` hosts and `devices` devices.
    fn star(
        hosts: usize,
        devices: usize,
        by: Arbitration,
        link: impl Fn(usize) -> LinkParams,
    ) -> Fabric {
        let mut graph = FabricGraph::new(&Endpoints::numbered(hosts, devices));
        graph.add_switch("switch", 0);
        (0..hosts + devices).for_each(|endpoint| graph.attach(endpoint, 0));
        Fabric::new(&graph, by, link)
    }

    fn stub(&mut self, number: usize) -> &mut Stub {
        self.simulation.component_mut(number).stub()
    }

    /// Has the source of a message send it at a time in picoseconds.
    fn send(&mut self, at: u64, message: Message) {
        let source = usize::from(message.source.0);
        self.stub(source).script.push_back((at, message));
    }

    fn run(&mut self) {
        let outcome = self.simulation.run(1, SimTime::NEVER, &Monitor::default());
        assert_eq!(outcome.stop, Stop::Exhausted);
    }
}

#[test]
fn two_inputs_share_an_output_evenly() {
    let mut fabric = Fabric::star(2, 1, Arbitration::RoundRobin, |_| link(1));
    for host in 0..2u16 {
        (0..100).for_each(|tag| fabric.send(0, message(Opcode::MemRd, host, 2, 0, tag)));
    }
    fabric.run();
    let seen = &fabric.stub(2).seen;
    assert_eq!(seen.len(), 200);
    let mut lead = 0i32;
    for (_, message) in seen {
        lead += if message.source.0 == 0 { 1 } else { -1 };
        assert!(lead.abs() <= 1, "{:?}", fabric.stub(2).tags());
    }
    // 1 ns on the host's link, 1 ns of flight, then 200 messages of 1 ns, and 1 ns of flight.
    assert_eq!(fabric.stub(2).seen[199].0, 1_000 + 1_000 + 200_000 + 1_000);
}

#[test]
fn the_oldest_transaction_goes_first_under_age_arbitration() {
    for (arbitration, expected) in [
        (Arbitration::Age, [9, 1, 5, 6, 50, 51, 100, 101, 200]),
        (Arbitration::RoundRobin, [9, 5, 1, 6, 50, 100, 51, 101, 200]),
    ] {
        let mut fabric = Fabric::star(3, 1, arbitration, |_| link(100));
        // A long message keeps the output busy until all other messages wait.
        fabric.send(0, message(Opcode::MemWr, 2, 3, 9, 9));
        for (host, ages) in [(0, [5, 6, 100, 101]), (1, [1, 50, 51, 200])] {
            let at = 110_000 + u64::from(host);
            for age in ages {
                fabric.send(at, message(Opcode::MemRd, host, 3, age, age as u32));
            }
        }
        fabric.run();
        assert_eq!(fabric.stub(3).tags(), expected, "{arbitration:?}");
    }
}

#[test]
fn a_blocked_output_holds_nothing_back_for_another() {
    let one = CreditTable {
        m2s_req: Some(1),
        ..CreditTable::default()
    };
    let mut fabric = Fabric::star(1, 2, Arbitration::RoundRobin, narrow(1, one));
    fabric.stub(1).hold = true;
    for (tag, to) in (0..).zip([1, 1, 1, 2]) {
        fabric.send(0, message(Opcode::MemRd, 0, to, 0, tag));
    }
    fabric.run();
    assert_eq!(fabric.stub(1).tags(), [0], "one buffer, never freed");
    // The fourth message leaves its host after 4 ns, and meets no other.
    let free = &fabric.stub(2).seen;
    assert_eq!((free.len(), free[0].1.tag), (1, 3));
    assert_eq!(free[0].0, 4_000 + 1_000 + 1_000 + 1_000);
    assert_eq!(fabric.simulation.component_mut(3).tested().in_flight(), 2);
}

#[test]
fn a_class_without_credits_holds_nothing_back_for_another() {
    let one = CreditTable {
        m2s_rwd: Some(1),
        ..CreditTable::default()
    };
    let mut fabric = Fabric::star(2, 1, Arbitration::RoundRobin, narrow(2, one));
    fabric.stub(2).hold = true;
    for (tag, opcode) in (0..).zip([Opcode::MemWr, Opcode::MemWr, Opcode::MemRd]) {
        fabric.send(0, message(opcode, 0, 2, 0, tag));
    }
    fabric.run();
    assert_eq!(fabric.stub(2).tags(), [0, 2]);
}

#[test]
fn messages_change_their_virtual_channel_where_the_tables_say() {
    let switches = 6;
    let mut fabric = Fabric::new(&ring(switches), Arbitration::RoundRobin, |_| link(1));
    let vcs = fabric.tables.virtual_channels();
    assert!(vcs > 1, "a ring needs more than one");
    for host in 0..switches {
        for device in 0..switches {
            let to = (switches + device) as u16;
            fabric.send(0, message(Opcode::MemRd, host as u16, to, 0, device as u32));
        }
    }
    fabric.run();
    let mut used = [0; 8];
    for device in switches..2 * switches {
        assert_eq!(fabric.stub(device).seen.len(), switches);
        for (_, message) in fabric.stub(device).seen.clone() {
            let tables = &fabric.tables;
            let (mut at, mut port) = tables.ports().edge(message.source.0 as usize).unwrap();
            let mut vc = 0;
            loop {
                let out = tables.candidates(at, device)[0];
                vc += u8::from(tables.vc_increment(at, port, out));
                match tables.ports().of(at)[out as usize] {
                    PortPeer::Endpoint(endpoint) => break assert_eq!(endpoint, device),
                    PortPeer::Switch {
                        index, port: far, ..
                    } => (at, port) = (index, far),
                    PortPeer::Cut => panic!("no link has failed"),
                }
            }
            assert_eq!(message.vc, vc);
            used[vc as usize] += 1;
        }
    }
    assert!(used[1] > 0, "{used:?}");
}

#[test]
fn credits_are_conserved_on_every_link_of_a_drained_fabric() {
    let credits = CreditTable {
        m2s_req: Some(9),
        m2s_rwd: Some(3),
        ..CreditTable::default()
    };
    let params = LinkParams { credits, ..link(2) };
    let windows = params.windows(Picos::ZERO);
    let mut fabric = Fabric::new(&ring(3), Arbitration::RoundRobin, |_| params.clone());
    let mut rng = StreamRng::new(3, "traffic");
    for host in 0..3u16 {
        for tag in 0..500 {
            let opcode = [Opcode::MemWr, Opcode::MemRd][usize::from(rng.chance(0.5))];
            let device = 3 + rng.below(3) as u16;
            fabric.send(0, message(opcode, host, device, 0, tag));
        }
    }
    fabric.run();
    let vcs = fabric.tables.virtual_channels();
    let arrived: usize = (3..6).map(|device| fabric.stub(device).seen.len()).sum();
    assert_eq!(arrived, 1_500);
    for endpoint in 0..6 {
        let (switch, port) = fabric.tables.ports().edge(endpoint).unwrap();
        for class in Channel::ALL {
            for vc in 0..vcs {
                let buffer = BufferId::of(class, vc);
                let near = &fabric.stub(endpoint).link;
                let (at_hand, waits) = (near.credits(buffer), near.waiting_returns(buffer));
                let switch = fabric.simulation.component_mut(6 + switch).tested();
                let far = switch.port_mut(port);
                let (far_waits, far_at_hand) = (far.waiting_returns(buffer), far.credits(buffer));
                let all = windows[class.index()];
                assert_eq!(at_hand + far_waits, all, "{class:?} {vc} forth");
                assert_eq!(far_at_hand + waits, all, "{class:?} {vc} back");
            }
        }
    }
}

/// CXL 3.1, section 3.2.5.2: a snoop pushes the GO before it.
#[test]
fn a_snoop_does_not_pass_a_response_that_came_before_it() {
    for arbitration in [Arbitration::RoundRobin, Arbitration::Age] {
        // The device has a buffer for one response, and for any number of snoops.
        let credits = |endpoint| CreditTable {
            h2d_rsp: Some(if endpoint == 2 { 1 } else { 64 }),
            ..CreditTable::default()
        };
        let mut fabric = Fabric::star(2, 1, arbitration, |endpoint| LinkParams {
            credits: credits(endpoint),
            ..link(2)
        });
        let mut rng = StreamRng::new(5, "traffic");
        for host in 0..2_u16 {
            for tag in 0..60 {
                let opcode = [Opcode::SnpInv, Opcode::Go][usize::from(rng.chance(0.5))];
                // Each message is younger than the next, so age arbitration prefers the snoops.
                let issued = 1_000 - u64::from(tag);
                fabric.send(0, message(opcode, host, 2, issued, tag));
            }
        }
        fabric.run();
        let seen = &fabric.stub(2).seen;
        assert_eq!(seen.len(), 120);
        for (at, (_, snoop)) in seen.iter().enumerate() {
            let late = seen[at..].iter().find(|(_, other)| {
                snoop.opcode == Opcode::SnpInv
                    && other.opcode == Opcode::Go
                    && other.source == snoop.source
                    && other.tag < snoop.tag
            });
            assert_eq!(late, None, "{arbitration:?}: passed by {snoop:?}");
        }
    }
}

#[test]
fn a_state_whose_messages_lie_in_no_queue_is_refused() {
    let mut graph = FabricGraph::new(&Endpoints::numbered(1, 1));
    graph.add_switch("switch", 0);
    (0..2).for_each(|endpoint| graph.attach(endpoint, 0));
    let tables = Arc::new(RoutingTables::build(&graph, RoutingKind::Shortest).unwrap());
    let restored = |slab: &[u32], free: u32, inside: &[(u32, Message)]| {
        let mut out = StateWriter::default();
        let slab = slab.iter().map(|next| (next, SimTime(0), 0u64));
        out.value("slab", &slab.collect::<Vec<_>>());
        out.value("free", &free);
        out.value("inside", inside);
        out.value("received", &0u64);
        out.value("forwarded", &0u64);
        out.value("parts", &0usize);
        StreamRng::new(1, "switch").save(&mut out);
        let bytes = out.finish().unwrap();
        let mut switch = Switch::new(SwitchConfig {
            params: SwitchParams::default(),
            index: 0,
            hdm_d: [false; 2].into(),
            ports: Vec::new(),
            virtual_channels: tables.virtual_channels(),
            tables: Arc::clone(&tables),
            rng: StreamRng::new(1, "switch"),
        });
        switch.restore(&mut StateReader::open(&bytes).unwrap())
    };
    assert_eq!(restored(&[1, u32::MAX], 0, &[]), Ok(()));
    let message = message(Opcode::MemRd, 0, 1, 0, 0);
    for (slab, free, inside) in [
        (&[1, u32::MAX][..], 0, &[(7, message)][..]),
        (&[1, u32::MAX], 0, &[(0, message)]),
        (&[1, 0], 0, &[]),
        (&[], 3, &[]),
    ] {
        let error = restored(slab, free, inside).unwrap_err().to_string();
        assert!(error.contains("do not fit its queues"), "{error}");
    }
}
