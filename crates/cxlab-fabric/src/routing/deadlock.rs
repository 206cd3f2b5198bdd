//! The proof that a routing cannot deadlock: its channel dependency graph has no cycle.
//!
//! A channel is a virtual channel of one direction of one link between switches. A dependency leads from
//! one channel to another if some message can occupy a buffer of the first while it waits for a buffer of
//! the second. Without a cycle of dependencies the routing is free of deadlock (W. Dally, C. Seitz,
//! "Deadlock-Free Message Routing in Multiprocessor Interconnection Networks", IEEE Trans. Computers
//! C-36(5), 1987). The condition is sufficient for adaptive routing as well.
//!
//! The dependencies include every path that the routing can take from any switch with endpoints, so the
//! proof also covers traffic between two requesters or two devices. The proof applies to each message class
//! (CXL.mem's channels) separately, if each class has its own credits on each virtual channel. It does not
//! show that a device responds without waiting for other requests.

use std::collections::VecDeque;

use petgraph::graph::{DiGraph, NodeIndex};

use crate::error::{ChannelName, DependencyCycle};
use crate::graph::FabricGraph;

use super::ports::{PortPeer, SwitchPorts};

/// Most virtual channels of a link: a set of them has 8 bits.
pub const MAX_VIRTUAL_CHANNELS: u8 = 8;

/// Size of the proof that a routing is free of deadlock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeadlockProof {
    /// Number of channels that messages can use.
    pub channels: usize,
    /// Number of dependencies between the channels, without a cycle.
    pub dependencies: usize,
    /// Number of virtual channels of each link.
    pub virtual_channels: u8,
}

/// Checks a routing on paths to the endpoints of `destinations`.
///
/// `candidates(switch, endpoint)` returns all ports by which a message for the endpoint can leave the
/// switch. `increments(switch, in_port, out_port)` says whether the message moves to the next virtual
/// channel there (on the last one it stays).
///
/// # Errors
/// A shortest [`DependencyCycle`] through one of the channels that wait for themselves. A routing that sends a
/// message in a loop always has one.
pub fn check<'a>(
    graph: &FabricGraph,
    ports: &'a SwitchPorts,
    destinations: &[usize],
    candidates: impl Fn(usize, usize) -> &'a [u16],
    increments: impl Fn(usize, u16, u16) -> bool,
    virtual_channels: u8,
) -> Result<DeadlockProof, DependencyCycle> {
    let dependencies = ChannelDependencies::collect(
        ports,
        destinations,
        candidates,
        increments,
        virtual_channels,
    );
    dependencies.prove(graph)
}

/// All dependencies between the channels of a routing.
pub(super) struct ChannelDependencies<'a, I> {
    ports: &'a SwitchPorts,
    increments: I,
    virtual_channels: u8,
    /// By port as output: the virtual channels that messages can use, as a bit set.
    used: Vec<u8>,
    /// By port as output, and by output of the switch at its far end: the virtual channels from which a
    /// message can continue there. `None` if no message can.
    onward: Vec<Option<Box<[u8]>>>,
    /// Whether some path needs a virtual channel beyond the last.
    pub(super) overflow: bool,
}

impl<'a, I: Fn(usize, u16, u16) -> bool> ChannelDependencies<'a, I> {
    /// Follows every path to every destination. The arguments are those of [`check`].
    pub(super) fn collect<'c>(
        ports: &'a SwitchPorts,
        destinations: &[usize],
        candidates: impl Fn(usize, usize) -> &'c [u16],
        increments: I,
        virtual_channels: u8,
    ) -> Self {
        assert!((1..=MAX_VIRTUAL_CHANNELS).contains(&virtual_channels));
        let mut all = ChannelDependencies {
            ports,
            increments,
            virtual_channels,
            used: vec![0; ports.count()],
            onward: vec![None; ports.count()],
            overflow: false,
        };
        let sources = ports.edge_switches();
        let mut walk = ReachableChannels {
            arrived: vec![0; ports.count()],
            ..ReachableChannels::default()
        };
        for destination in destinations {
            for source in &sources {
                for port in candidates(*source, *destination) {
                    walk.reach(ports, ports.flat(*source, *port), 1);
                }
            }
            while let Some((channel, from)) = walk.next() {
                all.follow(channel, from, &mut walk, |switch| {
                    candidates(switch, *destination)
                });
            }
            for channel in walk.touched.drain(..) {
                all.used[channel] |= walk.arrived[channel];
                walk.arrived[channel] = 0;
            }
        }
        all
    }

    /// Records the outputs by which messages continue that arrive through output `channel` on the
    /// virtual channels `from`.
    fn follow<'c>(
        &mut self,
        channel: usize,
        from: u8,
        walk: &mut ReachableChannels,
        candidates: impl Fn(usize) -> &'c [u16],
    ) {
        let PortPeer::Switch {
            index,
            port: arrival,
            ..
        } = self.ports.peer(channel)
        else {
            return;
        };
        for port in candidates(index) {
            let next = self.ports.flat(index, *port);
            if let PortPeer::Endpoint(_) = self.ports.peer(next) {
                continue;
            }
            let row = self.onward[channel]
                .get_or_insert_with(|| vec![0; self.ports.of(index).len()].into());
            row[usize::from(*port)] |= from;
            let mut to = from;
            if (self.increments)(index, arrival, *port) {
                let last = 1 << (self.virtual_channels - 1);
                self.overflow |= from & last != 0;
                to = (from & !last) << 1 | from & last;
            }
            walk.reach(self.ports, next, to);
        }
    }

    /// Number of virtual channels that messages use.
    pub(super) fn virtual_channels_used(&self) -> u8 {
        let used = self.used.iter().fold(0, |all, channels| all | channels);
        (u8::BITS - used.leading_zeros()).max(1) as u8
    }

    /// Calls `visit` with every dependency of a channel. A channel is numbered by its output and its
    /// virtual channel together.
    fn for_each_after(&self, node: usize, mut visit: impl FnMut(usize)) {
        let width = usize::from(self.virtual_channels);
        let (channel, vc) = (node / width, node % width);
        let (
            Some(row),
            PortPeer::Switch {
                index,
                port: arrival,
                ..
            },
        ) = (&self.onward[channel], self.ports.peer(channel))
        else {
            return;
        };
        for (port, from) in row.iter().enumerate() {
            if from >> vc & 1 == 1 {
                let port = port as u16;
                let step = usize::from((self.increments)(index, arrival, port));
                visit(self.ports.flat(index, port) * width + (vc + step).min(width - 1));
            }
        }
    }

    /// Removes, one after the other, the channels for which no other channel waits (A. Kahn,
    /// "Topological sorting of large networks", CACM 5(11), 1962). Channels that remain are in a cycle,
    /// or are reached from one.
    ///
    /// The rows are used in place: as an explicit graph, the dependencies of a large spine-leaf
    /// fabric would take gigabytes.
    pub(super) fn prove(&self, graph: &FabricGraph) -> Result<DeadlockProof, DependencyCycle> {
        let nodes = self.used.len() * usize::from(self.virtual_channels);
        let mut waiting = vec![0_u32; nodes];
        let mut dependencies = 0;
        for node in 0..nodes {
            self.for_each_after(node, |after| {
                waiting[after] += 1;
                dependencies += 1;
            });
        }
        let mut free: Vec<usize> = (0..nodes).filter(|node| waiting[*node] == 0).collect();
        let mut removed = 0;
        while let Some(node) = free.pop() {
            removed += 1;
            self.for_each_after(node, |after| {
                waiting[after] -= 1;
                if waiting[after] == 0 {
                    free.push(after);
                }
            });
        }
        if removed < nodes {
            return Err(self.shortest_cycle(graph, &waiting));
        }
        let channels = self.used.iter().map(|vcs| vcs.count_ones() as usize).sum();
        Ok(DeadlockProof {
            channels,
            dependencies,
            virtual_channels: self.virtual_channels,
        })
    }

    /// A shortest cycle through the first channel that waits for itself.
    fn shortest_cycle(&self, graph: &FabricGraph, waiting: &[u32]) -> DependencyCycle {
        let mut left = DiGraph::<usize, ()>::new();
        let mut index = vec![NodeIndex::end(); waiting.len()];
        for node in (0..waiting.len()).filter(|node| waiting[*node] > 0) {
            index[node] = left.add_node(node);
        }
        for from in left.node_indices() {
            self.for_each_after(left[from], |after| {
                left.add_edge(from, index[after], ());
            });
        }
        let components = petgraph::algo::kosaraju_scc(&left);
        let knot = components.iter().filter(|component| {
            component.len() > 1 || left.contains_edge(component[0], component[0])
        });
        let start = knot.flatten().min().copied();
        let Some(start) = start else {
            panic!("channels wait for each other without a cycle")
        };
        let path = cycle_through(&left, start);
        DependencyCycle {
            channels: path
                .into_iter()
                .map(|node| self.name(graph, left[node]))
                .collect(),
        }
    }

    fn name(&self, graph: &FabricGraph, node: usize) -> ChannelName {
        let width = usize::from(self.virtual_channels);
        let channel = node / width;
        let to = match self.ports.peer(channel) {
            PortPeer::Endpoint(endpoint) => graph.endpoints.name(endpoint),
            PortPeer::Switch { index, .. } => &graph.switches[index].name,
            PortPeer::Cut => unreachable!("no message takes a link that has failed"),
        };
        ChannelName {
            from: graph.switches[self.ports.owner(channel)].name.clone(),
            to: to.to_owned(),
            virtual_channel: (node % width) as u8,
        }
    }
}

/// The nodes of a shortest cycle through `start`, by breadth-first search.
fn cycle_through(graph: &DiGraph<usize, ()>, start: NodeIndex) -> Vec<NodeIndex> {
    let mut before = vec![None; graph.node_count()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for after in graph.neighbors(node) {
            if after == start {
                let mut path = vec![node];
                while path[path.len() - 1] != start {
                    path.extend(before[path[path.len() - 1].index()]);
                }
                path.reverse();
                return path;
            }
            if before[after.index()].is_none() {
                before[after.index()] = Some(node);
                queue.push_back(after);
            }
        }
    }
    panic!("a node of a strongly connected component lies on no cycle")
}

/// Channels reached on paths to one destination.
#[derive(Default)]
struct ReachableChannels {
    /// By port as output: the virtual channels on which messages arrive, as a bit set.
    arrived: Vec<u8>,
    /// Channels whose entry in `arrived` is not zero.
    touched: Vec<usize>,
    /// Channels, with some of their virtual channels, whose onward paths have not been followed yet.
    pending: Vec<(usize, u8)>,
}

impl ReachableChannels {
    fn reach(&mut self, ports: &SwitchPorts, channel: usize, virtual_channels: u8) {
        let fresh = virtual_channels & !self.arrived[channel];
        if fresh == 0 || matches!(ports.peer(channel), PortPeer::Endpoint(_)) {
            return;
        }
        if self.arrived[channel] == 0 {
            self.touched.push(channel);
        }
        self.arrived[channel] |= fresh;
        self.pending.push((channel, fresh));
    }

    fn next(&mut self) -> Option<(usize, u8)> {
        self.pending.pop()
    }
}
