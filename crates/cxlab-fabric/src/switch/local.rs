//! The routing tables of a single switch. The tables of a large fabric do not fit in a near cache, and a switch reads
//! its entry for every message. An entry is therefore one byte for each destination where a byte is enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::prefetch_first;
use cxlab_protocol::{Channel, PortId};

use crate::routing::{RoutingKind, RoutingTables};

/// Route number of a destination that is looked up in the tables of the whole fabric.
const ELSEWHERE: u16 = u16::MAX;

/// Route numbers by destination.
enum RouteNumbers {
    Narrow(Box<[u8]>),
    Wide(Box<[u16]>),
}

impl RouteNumbers {
    fn of(routes: Vec<u16>) -> RouteNumbers {
        match routes.iter().map(|route| u8::try_from(*route)).collect() {
            Ok(narrow) => RouteNumbers::Narrow(narrow),
            Err(_) => RouteNumbers::Wide(routes.into()),
        }
    }

    #[inline(always)]
    fn get(&self, destination: usize) -> Option<u16> {
        match self {
            RouteNumbers::Narrow(routes) => routes.get(destination).map(|route| u16::from(*route)),
            RouteNumbers::Wide(routes) => routes.get(destination).copied(),
        }
    }

    #[inline(always)]
    fn prefetch(&self, destination: usize) {
        match self {
            RouteNumbers::Narrow(routes) => routes.get(destination).map(prefetch_first::<1, u8>),
            RouteNumbers::Wide(routes) => routes.get(destination).map(prefetch_first::<1, u16>),
        };
    }
}

/// The part of the routing tables that one switch needs.
pub(super) struct LocalRouting {
    switch: usize,
    tables: Arc<RoutingTables>,
    kind: RoutingKind,
    /// By endpoint: whether its memory is HDM-D.
    hdm_d: Arc<[bool]>,
    /// Whether messages change their virtual channel anywhere in the fabric.
    climbs: bool,
    /// Route number by destination: the only output, or `singles` plus the number of a list of candidates,
    /// or [`ELSEWHERE`] if there are more lists than route numbers.
    routes: RouteNumbers,
    /// Number of outputs that a route number can name: all of the switch's, or 0 if there are too many.
    singles: u16,
    /// Lists of candidates of destinations that have several, each stored once.
    lists: Vec<Box<[u16]>>,
}

impl LocalRouting {
    /// The routing of switch number `switch` with `ports` ports. `hdm_d` has an entry for each endpoint of the fabric.
    pub(super) fn new(
        tables: &Arc<RoutingTables>,
        switch: usize,
        ports: usize,
        hdm_d: Arc<[bool]>,
    ) -> Self {
        let endpoints = hdm_d.len();
        let singles = u16::try_from(ports).unwrap_or(0);
        let mut lists: Vec<Box<[u16]>> = Vec::new();
        let mut known: BTreeMap<&[u16], u16> = BTreeMap::new();
        let routes = (0..endpoints).map(|destination| {
            let candidates = tables.candidates(switch, destination);
            match *candidates {
                [only] if only < singles => only,
                _ => *known.entry(candidates).or_insert_with(|| {
                    let route = u16::try_from(usize::from(singles) + lists.len());
                    match route.unwrap_or(ELSEWHERE) {
                        ELSEWHERE => ELSEWHERE,
                        route => {
                            lists.push(candidates.into());
                            route
                        }
                    }
                }),
            }
        });
        LocalRouting {
            switch,
            kind: tables.kind(),
            hdm_d,
            climbs: tables.virtual_channels() > 1,
            routes: RouteNumbers::of(routes.collect()),
            singles,
            lists,
            tables: Arc::clone(tables),
        }
    }

    /// The only output of a route number, or else the candidates for the destination.
    #[inline(always)]
    fn follow(&self, route: u16, destination: usize) -> Result<u16, &[u16]> {
        if route < self.singles {
            return Ok(route);
        }
        Err(match self.lists.get(usize::from(route - self.singles)) {
            Some(list) => list,
            None => self.tables.candidates(self.switch, destination),
        })
    }

    /// The kind of routing for messages of a class to a destination.
    #[inline]
    fn kind_of(&self, destination: usize, channel: Channel) -> RoutingKind {
        let of_hdm_d = || channel == Channel::M2sReq && self.hdm_d.get(destination) == Some(&true);
        match channel.is_ordered() || of_hdm_d() {
            true => self.kind.in_order(),
            false => self.kind,
        }
    }

    /// The output for a message. [`RoutingKind::pick`] says when `random` and `congestion` are called.
    #[inline(always)]
    pub(super) fn pick(
        &self,
        source: PortId,
        destination: PortId,
        channel: Channel,
        random: impl FnOnce() -> u64,
        congestion: impl FnMut(u16) -> u64,
    ) -> u16 {
        let (source, destination) = (usize::from(source.0), usize::from(destination.0));
        match self.follow(
            self.routes.get(destination).unwrap_or(ELSEWHERE),
            destination,
        ) {
            Ok(output) => output,
            Err(list) => {
                let kind = self.kind_of(destination, channel);
                kind.pick(list, self.switch, source, destination, random, congestion)
            }
        }
    }

    /// Prefetches the entry of a destination to which a message will arrive soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, destination: PortId) {
        self.routes.prefetch(usize::from(destination.0));
    }

    /// The output of a future message, if known for certain: that is, unless the routing chooses by
    /// chance or by congestion.
    #[inline]
    pub(super) fn predict_output(
        &self,
        source: PortId,
        destination: PortId,
        channel: Channel,
    ) -> Option<u16> {
        let (source, destination) = (usize::from(source.0), usize::from(destination.0));
        let switch = self.switch;
        match self.follow(self.routes.get(destination)?, destination) {
            Ok(output) | Err(&[output]) => Some(output),
            Err([]) => None,
            Err(list) => {
                let kind = self.kind_of(destination, channel);
                kind.keeps_order()
                    .then(|| kind.pick(list, switch, source, destination, || 0, |_| 0))
            }
        }
    }

    /// The virtual channel of the output link for a message that arrived on `vc`.
    #[inline(always)]
    pub(super) fn next_vc(&self, input: u16, output: u16, vc: u8) -> u8 {
        let climbs = self.climbs && self.tables.vc_increment(self.switch, input, output);
        vc + u8::from(climbs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Endpoints, FabricGraph};
    use crate::routing::CATALOG;

    /// Checks that every switch picks the output that the fabric's tables imply. Returns how many switches
    /// need more than a byte for an entry.
    fn as_the_tables_say(graph: &FabricGraph) -> usize {
        let mut wide = 0;
        for entry in CATALOG {
            let kind = (entry.build)(&serde_json::json!({})).unwrap();
            let tables = Arc::new(RoutingTables::build(graph, kind).unwrap());
            let endpoints = graph.endpoints.len();
            for switch in 0..graph.switches.len() {
                let ports = tables.ports().of(switch).len();
                // M2S Req keeps its order to the second half of the endpoints.
                let hdm_d: Arc<[bool]> = (0..endpoints).map(|at| 2 * at >= endpoints).collect();
                let local = LocalRouting::new(&tables, switch, ports, Arc::clone(&hdm_d));
                wide += usize::from(matches!(local.routes, RouteNumbers::Wide(_)));
                for destination in 0..endpoints {
                    let candidates = tables.candidates(switch, destination);
                    let source = (destination + 7) % endpoints;
                    // No two ports have the same congestion.
                    let congestion = |port: u16| u64::from(port).wrapping_mul(0x9e37_79b9) >> 3;
                    let ends = (PortId(source as u16), PortId(destination as u16));
                    for channel in Channel::ALL {
                        let ordered = match channel {
                            Channel::M2sReq => hdm_d[destination],
                            channel => channel.is_ordered(),
                        };
                        let kind = if ordered { kind.in_order() } else { kind };
                        let said =
                            kind.pick(candidates, switch, source, destination, || 5, congestion);
                        assert_eq!(local.pick(ends.0, ends.1, channel, || 5, congestion), said);
                        let certain = candidates.len() == 1 || kind.keeps_order();
                        let foreseen = local.predict_output(ends.0, ends.1, channel);
                        assert_eq!(foreseen, certain.then_some(said));
                    }
                }
            }
        }
        wide
    }

    #[test]
    fn a_byte_stands_for_every_route_of_a_small_switch() {
        let mut graph = FabricGraph::new(&Endpoints::numbered(6, 6));
        (0..5).for_each(|switch| _ = graph.add_switch(format!("s{switch}"), 0));
        (0..12).for_each(|endpoint| graph.attach(endpoint, endpoint % 3));
        for leaf in 0..3 {
            (3..5).for_each(|spine| graph.add_link(leaf, spine));
        }
        assert_eq!(as_the_tables_say(&graph), 0);
    }

    #[test]
    fn many_ports_or_many_lists_take_two_bytes() {
        // The switch has more ports than a byte can number.
        let mut graph = FabricGraph::new(&Endpoints::numbered(150, 150));
        graph.add_switch("hub", 0);
        (0..300).for_each(|endpoint| graph.attach(endpoint, 0));
        assert!(as_the_tables_say(&graph) > 0);
        // The switch has 249 ports, and a list of two outputs for each of 36 leaves.
        let mut graph = FabricGraph::new(&Endpoints::numbered(240, 36));
        graph.add_switch("hub", 0);
        (0..240).for_each(|endpoint| graph.attach(endpoint, 0));
        for middle in 1..=9 {
            graph.add_switch(format!("m{middle}"), 1);
            graph.add_link(0, middle);
        }
        let mut device = 240;
        for one in 1..=9 {
            for other in one + 1..=9 {
                let leaf = graph.add_switch(format!("leaf{device}"), 2);
                graph.add_link(one, leaf);
                graph.add_link(other, leaf);
                graph.attach(device, leaf);
                device += 1;
            }
        }
        assert!(as_the_tables_say(&graph) > 0);
    }
}
