//! Laws that hold for every topology under every routing.

use cxlab_engine::catalog::{Entry, find};
use serde_json::{Map, Value, json};

use super::deadlock::{MAX_VIRTUAL_CHANNELS, check};
use super::*;
use crate::error::FabricError;
use crate::graph::{Endpoints, FabricGraph};
use crate::topology::{self, Topology};

/// Parameters of a topology for these numbers of requesters and devices, the defaults first. A topology
/// without an arm here is tested with its defaults, and with another number of switches and the other
/// placement if it has such keys.
fn parameters(name: &str, requesters: usize, devices: usize) -> Vec<Value> {
    match name {
        "custom" => vec![custom(requesters, devices)],
        "tree" => lines(r#"{} {"arity": 3} {"leaves": 4, "placement": "paired"}"#),
        "mesh" | "torus" => {
            lines(r#"{} {"dimensions": [3, 2]} {"dimensions": [2, 3, 4], "placement": "paired"}"#)
        }
        "spine-leaf" => lines(r#"{} {"leaves": 3, "spines": 4}"#),
        "dragonfly" => lines(
            r#"{} {"groups": 3, "routers_per_group": 4, "placement": "paired"} {"global_links": 2}"#,
        ),
        _ => {
            let mut all = lines(r#"{} {"switches": 5} {"placement": "paired"}"#);
            let known = |params: &Map<String, Value>| params.keys().all(|key| has_key(name, key));
            all.retain(|params| params.as_object().is_some_and(known));
            all
        }
    }
}

/// Values that follow one another.
fn lines(json: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(json).into_iter();
    values.map(Result::unwrap).collect()
}

/// Whether a topology has a parameter with the name `key`.
fn has_key(name: &str, key: &str) -> bool {
    let entry = find(topology::CATALOG, name).expect("an entry");
    let mut generator = schemars::SchemaGenerator::default();
    let schema = (entry.schema)(&mut generator).to_value();
    schema.pointer(&format!("/properties/{key}")).is_some()
}

/// Two rings of four switches that share a switch, with a doubled link.
fn custom(requesters: usize, devices: usize) -> Value {
    let switches: Vec<String> = (0..7).map(|i| format!("s{i}")).collect();
    let ends = ["01", "12", "23", "30", "34", "45", "56", "63", "63"];
    let links = ends.map(|ends| Vec::from_iter(ends.chars().map(|end| format!("s{end}"))));
    let mut links = Vec::from(links);
    let endpoints = Endpoints::numbered(requesters, devices);
    for (i, name) in endpoints.names().enumerate() {
        links.push(vec![name.to_owned(), switches[i % 7].clone()]);
    }
    json!({"switches": switches, "links": links})
}

fn build(entry: &Entry<Box<dyn Topology>>, params: &Value, r: usize, d: usize) -> FabricGraph {
    let topology = (entry.build)(params).unwrap_or_else(|e| panic!("{}: {e}", entry.name));
    topology
        .build(&Endpoints::numbered(r, d))
        .unwrap_or_else(|e| panic!("{} of {r} x {d} with {params}: {e}", entry.name))
}

fn named(name: &str, params: Value, requesters: usize, devices: usize) -> FabricGraph {
    let entry = find(topology::CATALOG, name).unwrap();
    build(entry, &params, requesters, devices)
}

fn each_kind() -> impl Iterator<Item = RoutingKind> {
    let entries = CATALOG.iter();
    entries.map(|entry| (entry.build)(&json!({})).unwrap())
}

fn each_fabric(mut law: impl FnMut(&str, &FabricGraph)) {
    let as_many = [1, 2, 3, 5, 16, 33, 64].map(|n| (n, n));
    for entry in topology::CATALOG {
        for (r, d) in as_many.into_iter().chain([(1, 4), (4, 8)]) {
            for params in parameters(entry.name, r, d) {
                let what = format!("{} of {r} x {d} with {params}", entry.name);
                law(&what, &build(entry, &params, r, d));
            }
        }
    }
}

/// Follows every candidate from an endpoint, and asserts that each is one link nearer to the destination.
fn walk(what: &str, tables: &RoutingTables, source: usize, destination: usize) {
    let Some((mut row, _)) = tables.ports().edge(source).map(|(s, p)| (vec![s], p)) else {
        return;
    };
    let links = tables
        .hops(source, destination)
        .unwrap_or_else(|| panic!("{what}: no path"));
    for crossed in 1..links {
        let mut next = Vec::new();
        for switch in &row {
            let candidates = tables.candidates(*switch, destination);
            assert!(!candidates.is_empty(), "{what}: lost at switch {switch}");
            for port in candidates {
                match tables.ports().of(*switch)[usize::from(*port)] {
                    PortPeer::Switch { index, .. } => next.push(index),
                    PortPeer::Endpoint(endpoint) => {
                        assert_eq!((endpoint, crossed + 1), (destination, links), "{what}");
                    }
                    PortPeer::Cut => panic!("{what}: a link that has failed"),
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        row = next;
    }
    assert!(row.is_empty(), "{what}: {links} links lead to {row:?}");
}

#[test]
fn every_pair_is_joined_by_shortest_paths_on_every_topology_under_every_routing() {
    each_fabric(|what, graph| {
        for kind in each_kind() {
            let what = format!("{what} under {kind:?}");
            let tables =
                RoutingTables::build(graph, kind).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!((1..=8).contains(&tables.virtual_channels()), "{what}");
            assert_eq!(tables.proof().virtual_channels, tables.virtual_channels());
            for requester in 0..graph.endpoints.requesters.len() {
                let reached = tables.reachable(requester);
                if graph.direct.is_empty() {
                    assert_eq!(reached.len(), graph.endpoints.devices.len(), "{what}");
                }
                for device in reached {
                    walk(&what, &tables, requester, device);
                    walk(&what, &tables, device, requester);
                    tables.require(graph, requester, device).unwrap();
                }
            }
        }
    });
}

#[test]
fn hops_are_the_distances_of_floyd_and_warshall() {
    for name in ["torus", "dragonfly", "tree", "spine-leaf", "custom"] {
        let graph = named(name, parameters(name, 9, 9)[0].clone(), 9, 9);
        let n = graph.endpoints.len() + graph.switches.len();
        let switch = |s: usize| graph.endpoints.len() + s;
        let mut distance = vec![vec![u32::MAX / 2; n]; n];
        let links = graph.links.iter().map(|l| (switch(l.a), switch(l.b)));
        let attached = graph.attachments.iter();
        for (a, b) in links.chain(attached.map(|a| (a.endpoint, switch(a.switch)))) {
            (distance[a][b], distance[b][a]) = (1, 1);
        }
        for via in 0..n {
            for a in 0..n {
                for b in 0..n {
                    distance[a][b] = distance[a][b].min(distance[a][via] + distance[via][b]);
                }
            }
        }
        let tables = RoutingTables::build(&graph, RoutingKind::Random).unwrap();
        for (a, distances) in distance.iter().enumerate().take(graph.endpoints.len()) {
            for b in (0..graph.endpoints.len()).filter(|b| *b != a) {
                assert_eq!(tables.hops(a, b), Some(distances[b]), "{name} {a} {b}");
            }
        }
    }
}

#[test]
fn both_ends_of_every_link_agree_on_their_port_numbers() {
    each_fabric(|what, graph| {
        let ports = SwitchPorts::number(graph).unwrap();
        for switch in 0..graph.switches.len() {
            for (number, peer) in ports.of(switch).iter().enumerate() {
                match *peer {
                    PortPeer::Endpoint(e) => {
                        assert_eq!(ports.edge(e), Some((switch, number as u16)), "{what}");
                    }
                    PortPeer::Switch { index, port, link } => {
                        let back = PortPeer::Switch {
                            index: switch,
                            port: number as u16,
                            link,
                        };
                        assert_eq!(ports.of(index)[usize::from(port)], back, "{what}");
                    }
                    PortPeer::Cut => panic!("{what}: no link has failed"),
                }
            }
        }
        let total: usize = (0..graph.switches.len()).map(|s| ports.of(s).len()).sum();
        let ends = graph.attachments.len() + 2 * graph.links.len();
        assert_eq!(total, ends, "{what}");
    });
}

#[test]
fn endpoints_are_shared_out_evenly_and_split_ones_do_not_mix() {
    let placing = |entry: &&Entry<_>| has_key(entry.name, "placement");
    for entry in topology::CATALOG.iter().filter(placing) {
        for (placement, r, d) in [("split", 16, 16), ("split", 7, 12), ("paired", 16, 16)] {
            let graph = build(entry, &json!({"placement": placement}), r, d);
            let mut on = vec![(0, 0); graph.switches.len()];
            for attachment in &graph.attachments {
                let requester = graph.endpoints.is_requester(attachment.endpoint);
                on[attachment.switch].0 += usize::from(requester);
                on[attachment.switch].1 += usize::from(!requester);
            }
            assert_eq!(on.iter().map(|c| c.0).sum::<usize>(), r, "{}", entry.name);
            assert_eq!(on.iter().map(|c| c.1).sum::<usize>(), d, "{}", entry.name);
            let mixed = on.iter().filter(|c| c.0 > 0 && c.1 > 0).count();
            let most = on.iter().map(|c| c.0).max().unwrap();
            let used = on.iter().filter(|c| c.0 > 0).count();
            assert_eq!(most, r.div_ceil(used), "{} {placement}: {on:?}", entry.name);
            match placement {
                "split" => assert_eq!(mixed, 0, "{}", entry.name),
                _ => assert_eq!(mixed, used, "{}", entry.name),
            }
        }
    }
}

#[test]
fn names_are_unique_and_a_build_repeats_exactly() {
    each_fabric(|what, graph| assert_eq!(graph.problems(), [], "{what}"));
    for entry in topology::CATALOG {
        let params = &parameters(entry.name, 6, 6)[0];
        assert_eq!(build(entry, params, 6, 6), build(entry, params, 6, 6));
        let misspelt = (entry.build)(&json!({"swiches": 3, "links": []}));
        assert!(misspelt.is_err(), "{}", entry.name);
        (entry.schema)(&mut schemars::SchemaGenerator::default());
    }
}

#[test]
fn trees_need_one_virtual_channel_and_rings_two() {
    for kind in each_kind() {
        for name in ["chain", "tree", "spine-leaf", "fully-connected"] {
            for n in [2, 5, 16, 64] {
                let graph = named(name, json!({}), n, n);
                let tables = RoutingTables::build(&graph, kind).unwrap();
                assert_eq!(tables.virtual_channels(), 1, "{name} of {n} under {kind:?}");
                assert_eq!(tables.paths(), AllowedPaths::Shortest);
            }
        }
        for n in [5, 8, 9, 64] {
            let tables = RoutingTables::build(&named("ring", json!({}), n, n), kind).unwrap();
            assert_eq!(tables.virtual_channels(), 2, "ring of {n} under {kind:?}");
        }
    }
}

#[test]
fn a_ring_of_eight_with_one_virtual_channel_is_found_to_deadlock() {
    let graph = named("ring", json!({"switches": 8}), 8, 8);
    let tables = RoutingTables::build(&graph, RoutingKind::Shortest).unwrap();
    let all: Vec<usize> = (0..16).collect();
    let candidates = |switch, endpoint| tables.candidates(switch, endpoint);
    let cycle = check(&graph, tables.ports(), &all, candidates, |_, _, _| false, 1).unwrap_err();
    assert_eq!(cycle.channels.len(), 8, "{cycle}");
    let after = cycle.channels.iter().cycle().skip(1);
    for (channel, next) in cycle.channels.iter().zip(after) {
        assert_eq!(channel.to, next.from, "{cycle}");
        assert_eq!(channel.virtual_channel, next.virtual_channel, "{cycle}");
    }
    let increments = |s, from, to| tables.vc_increment(s, from, to);
    let proof = check(&graph, tables.ports(), &all, candidates, increments, 2).unwrap();
    assert_eq!(proof, tables.proof());
}

#[test]
fn a_mutant_that_always_goes_clockwise_is_caught() {
    let graph = named("ring", json!({"switches": 6, "placement": "paired"}), 6, 6);
    let tables = RoutingTables::build(&graph, RoutingKind::Shortest).unwrap();
    let ports = tables.ports();
    let clockwise: Vec<[u16; 1]> = (0..6)
        .map(|switch| {
            let next = |peer: &PortPeer| {
                matches!(*peer, PortPeer::Switch { index, .. } if index == (switch + 1) % 6)
            };
            [ports.of(switch).iter().position(next).unwrap() as u16]
        })
        .collect();
    // The messages are delivered, but always clockwise.
    let delivering = |switch: usize, endpoint: usize| match ports.edge(endpoint) {
        Some((target, _)) if target == switch => tables.candidates(switch, endpoint),
        _ => clockwise[switch].as_slice(),
    };
    let all: Vec<usize> = (0..12).collect();
    assert!(check(&graph, ports, &all, delivering, |_, _, _| false, 1).is_err());
    // The messages are never delivered: the check fails with any number of virtual channels.
    let increments = |s, from, to| tables.vc_increment(s, from, to);
    let never = |switch: usize, _| clockwise[switch].as_slice();
    assert!(check(&graph, ports, &all, never, increments, 8).is_err());
}

#[test]
fn every_pick_is_a_candidate_and_ties_are_used() {
    let ports = [4, 7, 9];
    for kind in each_kind() {
        let mut used = std::collections::BTreeSet::new();
        for i in 0..60_usize {
            let congestion = |port: u16| u64::from(port.abs_diff(ports[i % 3]));
            used.insert(kind.pick(&ports, 0, i, i + 1, || i as u64, congestion));
        }
        assert_eq!(used.into_iter().collect::<Vec<_>>(), ports, "{kind:?}");
    }
}

#[test]
fn wide_adaptive_meshes_fall_back_to_a_turn_model() {
    let small = named("mesh", json!({"dimensions": [4, 4]}), 16, 16);
    let tables = RoutingTables::build(&small, RoutingKind::Adaptive).unwrap();
    assert_eq!(tables.paths(), AllowedPaths::Shortest);
    let large = named("mesh", json!({"dimensions": [20, 20]}), 400, 400);
    let tables = RoutingTables::build(&large, RoutingKind::Adaptive).unwrap();
    assert_eq!(tables.paths(), AllowedPaths::Turns);
    assert_eq!(tables.virtual_channels(), 1);
    let tables = RoutingTables::build(&large, RoutingKind::Shortest).unwrap();
    assert_eq!(tables.paths(), AllowedPaths::Shortest);
}

#[test]
fn without_further_virtual_channels_every_pair_is_joined_on_every_topology_under_every_routing() {
    each_fabric(|what, graph| {
        for kind in each_kind() {
            let what = format!("{what} under {kind:?} on one virtual channel");
            let free = RoutingTables::build(graph, kind).unwrap();
            let tables = RoutingTables::build_within(graph, kind, 1).unwrap();
            assert_eq!(tables.virtual_channels(), 1, "{what}");
            if free.virtual_channels() == 1 {
                assert_eq!(tables.paths(), free.paths(), "{what}");
            }
            for requester in 0..graph.endpoints.requesters.len() {
                assert_eq!(tables.reachable(requester), free.reachable(requester));
                for device in tables.reachable(requester) {
                    walk(&what, &tables, requester, device);
                    walk(&what, &tables, device, requester);
                    let (links, least) =
                        (tables.hops(requester, device), free.hops(requester, device));
                    assert!(links >= least, "{what}: {links:?} links of {least:?}");
                    if tables.paths() != AllowedPaths::UpDown {
                        assert_eq!(links, least, "{what}");
                    }
                }
            }
        }
    });
}

/// No up*/down* path passes through the lowest switch of a ring, where messages can only begin or end. The
/// other switches are a chain.
#[test]
fn up_down_paths_on_a_ring_are_those_of_a_chain_and_one_switch() {
    for n in [5_usize, 8, 16] {
        let ring = named("ring", json!({"switches": n, "placement": "paired"}), n, n);
        let tables = RoutingTables::build_within(&ring, RoutingKind::Random, 1).unwrap();
        assert_eq!(tables.paths(), AllowedPaths::UpDown);
        let expected = |lowest: usize, a: usize, b: usize| {
            let apart = a.abs_diff(b);
            if a == lowest || b == lowest {
                return apart.min(n - apart);
            }
            let place = |switch: usize| (switch + n - lowest) % n;
            place(a).abs_diff(place(b))
        };
        let fits = |lowest: usize| {
            (0..n * n).all(|pair| {
                let (a, b) = (pair / n, pair % n);
                tables.hops(a, n + b) == Some(2 + expected(lowest, a, b) as u32)
            })
        };
        assert!((0..n).any(fits), "{n} switches");
    }
}

#[test]
fn thousand_switches_and_all_edge_ports_of_a_pbr_fabric_are_routed() {
    let large_dragonfly = json!({"groups": 64, "routers_per_group": 16, "global_links": 4});
    for (name, params) in [
        ("torus", json!({"dimensions": [32, 32]})),
        ("mesh", json!({"dimensions": [32, 32]})),
        ("ring", json!({"switches": 1024})),
        ("spine-leaf", json!({"leaves": 960, "spines": 64})),
        ("dragonfly", large_dragonfly),
    ] {
        let graph = named(name, params, 2048, 2048);
        assert_eq!(graph.switches.len(), 1024);
        for kind in [RoutingKind::Shortest, RoutingKind::Adaptive] {
            let start = std::time::Instant::now();
            let tables = RoutingTables::build(&graph, kind)
                .unwrap_or_else(|e| panic!("{name} under {kind:?}: {e}"));
            walk(name, &tables, 0, 4095);
            let (proof, paths) = (tables.proof(), tables.paths());
            println!(
                "{name} {kind:?}: {proof:?}, {paths:?} paths, {:?}",
                start.elapsed()
            );
        }
    }
}

#[test]
fn one_edge_port_more_than_a_pid_can_name_is_refused() {
    let graph = named("chain", json!({"switches": 4}), 2048, 2049);
    let error = RoutingTables::build(&graph, RoutingKind::Shortest).unwrap_err();
    assert_eq!(error, FabricError::TooManyEdgePorts { found: 4097 });
}

#[test]
fn devices_without_a_path_are_named() {
    let direct = named("direct", json!({}), 2, 2);
    let tables = RoutingTables::build(&direct, RoutingKind::Shortest).unwrap();
    assert_eq!(tables.reachable(1), [3]);
    assert_eq!(tables.hops(1, 3), Some(1));
    let error = tables.require(&direct, 0, 3).unwrap_err();
    let expected = "no path leads from requester `host0` to device `device1`";
    assert_eq!(error.to_string(), expected);

    let split = json!({"switches": ["a", "b"], "links": [["host0", "a"], ["device0", "b"]]});
    let error = RoutingTables::build(&named("custom", split, 1, 1), RoutingKind::Shortest);
    let isolated = FabricError::Isolated {
        endpoint: "host0".into(),
        peer: "device",
    };
    assert_eq!(error.unwrap_err(), isolated);
}

/// Distances between switches over the links that are not cut, by relaxation; `None` without a path.
fn distances_without(graph: &FabricGraph, is_cut: impl Fn(usize) -> bool) -> Vec<Vec<Option<u32>>> {
    let switches = graph.switches.len();
    let mut distance = vec![vec![None; switches]; switches];
    for (switch, row) in distance.iter_mut().enumerate() {
        row[switch] = Some(0);
        for _ in 0..switches {
            for (number, link) in graph.links.iter().enumerate() {
                for (from, to) in [(link.a, link.b), (link.b, link.a)] {
                    if let Some(far) = row[from].filter(|_| !is_cut(number)) {
                        row[to] = Some(row[to].map_or(far + 1, |near: u32| near.min(far + 1)));
                    }
                }
            }
        }
    }
    distance
}

#[test]
fn tables_without_some_links_lead_round_them_and_keep_all_numbers() {
    let (mut ways, mut none) = (0, 0);
    each_fabric(|what, graph| {
        if graph.links.is_empty() || graph.links.len() > 24 {
            return;
        }
        let whole = RoutingTables::build(graph, RoutingKind::Shortest).unwrap();
        for first in (0..graph.links.len()).step_by(5) {
            let second = (first * 7 + 3) % graph.links.len();
            let is_cut = |link| link == first || link == second;
            let (kind, most) = (RoutingKind::Shortest, MAX_VIRTUAL_CHANNELS);
            let tables = RoutingTables::build_without(graph, kind, most, is_cut).unwrap();
            let expected = distances_without(graph, is_cut);
            for source in 0..graph.endpoints.len() {
                let edge = tables.ports().edge(source);
                assert_eq!(edge, whole.ports().edge(source), "{what}");
                let Some((mut switch, _)) = edge else {
                    continue;
                };
                for destination in (0..graph.endpoints.len()).filter(|other| *other != source) {
                    let Some((to, _)) = tables.ports().edge(destination) else {
                        continue;
                    };
                    let links = expected[switch][to];
                    let hops = tables.hops(source, destination);
                    assert_eq!(hops, links.map(|links| links + 2), "{what}");
                    if links.is_none() {
                        assert!(tables.candidates(switch, destination).is_empty(), "{what}");
                        none += 1;
                        continue;
                    }
                    for _ in 0..links.unwrap() {
                        let [port] = *tables.candidates(switch, destination) else {
                            panic!("{what}: no one way at switch {switch}");
                        };
                        let peers = (tables.ports().of(switch), whole.ports().of(switch));
                        let peer = peers.0[usize::from(port)];
                        assert_eq!(peer, peers.1[usize::from(port)], "{what}");
                        let PortPeer::Switch { index, link, .. } = peer else {
                            panic!("{what}: {peer:?} on the way");
                        };
                        assert!(!is_cut(link), "{what}");
                        switch = index;
                    }
                    assert_eq!(switch, to, "{what}");
                    ways += 1;
                    switch = tables.ports().edge(source).unwrap().0;
                }
            }
        }
    });
    assert!(ways > 1000 && none > 100, "{ways} {none}");
}
