//! Checks whether a fabric can be built of virtual CXL switches (VCSs) with hierarchy-based routing (HBR),
//! as in PCIe and CXL up to 2.0, instead of port-based routing (PBR).
//!
//! Each host sees a tree: itself at the root, switches below, and devices below those. A single VCS has
//! one upstream port, so one host is above each switch. With several VCSs, a physical switch serves
//! several hosts. Each of its ports, and so each link between switches, then belongs to one VCS, and
//! each device is bound to one host. Left out: multi-logical devices, whose logical devices can be
//! bound to different hosts.

use crate::graph::{Endpoints, FabricGraph};

use super::ports::{PortPeer, SwitchPorts};
use crate::error::FabricError;

/// Number of hosts that each switch serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VcsHierarchy {
    /// One VCS in each switch: all devices belong to the single host above.
    Single,
    /// Several VCSs in each switch: each device belongs to the host to which it is bound. Bindings
    /// are pairs of (device, requester), by endpoint numbers. A device without a pair keeps its
    /// default of [`default_bindings`].
    Multiple(Vec<(usize, usize)>),
}

/// Default bindings: device i to requester i modulo the number of requesters, as pairs of (device,
/// requester) by endpoint numbers. Empty without requesters.
pub fn default_bindings(endpoints: &Endpoints) -> Vec<(usize, usize)> {
    let requesters = endpoints.requesters.len();
    if requesters == 0 {
        return Vec::new();
    }
    (0..endpoints.devices.len())
        .map(|i| (endpoints.device(i), i % requesters))
        .collect()
}

/// Checks that the fabric has the given hierarchy. Returns the devices that each requester
/// reaches, by endpoint numbers.
///
/// # Errors
/// The first rule that the fabric breaks, with the names of the parts concerned.
pub fn check(
    graph: &FabricGraph,
    hierarchy: &VcsHierarchy,
) -> Result<Vec<Vec<usize>>, FabricError> {
    graph.check()?;
    let fabric = VcsFabric {
        graph,
        ports: SwitchPorts::number(graph)?,
    };
    let requesters = graph.endpoints.requesters.len();
    let trees = (0..requesters)
        .map(|r| fabric.tree(r))
        .collect::<Result<Vec<_>, _>>()?;
    let reached = match hierarchy {
        VcsHierarchy::Single => fabric.single(&trees)?,
        VcsHierarchy::Multiple(bindings) => fabric.multiple(&trees, bindings)?,
    };
    for device in graph.endpoints.device_range() {
        if !reached.iter().any(|devices| devices.contains(&device)) {
            return Err(graph.isolated(device));
        }
    }
    Ok(reached)
}

/// For each switch below a host, the link to and the number of the switch above. The host's own switch has
/// no link and its own number. `None` for a switch that is not below the host.
type HostTree = Vec<Option<(Option<usize>, usize)>>;

struct VcsFabric<'a> {
    graph: &'a FabricGraph,
    ports: SwitchPorts,
}

impl VcsFabric<'_> {
    /// The switches below a host. Fails if they are not a tree.
    fn tree(&self, requester: usize) -> Result<HostTree, FabricError> {
        let mut above: HostTree = vec![None; self.graph.switches.len()];
        let Some((root, _)) = self.ports.edge(requester) else {
            return Ok(above);
        };
        above[root] = Some((None, root));
        let mut pending = vec![root];
        while let Some(switch) = pending.pop() {
            let arrival = above[switch].and_then(|(link, _)| link);
            for peer in self.ports.of(switch) {
                let PortPeer::Switch { index, link, .. } = *peer else {
                    continue;
                };
                if Some(link) == arrival {
                    continue;
                }
                if above[index].is_some() {
                    return Err(FabricError::HierarchyLoop {
                        requester: self.graph.endpoints.name(requester).to_owned(),
                        switch: self.graph.switches[index].name.clone(),
                    });
                }
                above[index] = Some((Some(link), switch));
                pending.push(index);
            }
        }
        Ok(above)
    }

    /// Checks that one host is above each switch. The host reaches all devices below.
    fn single(&self, trees: &[HostTree]) -> Result<Vec<Vec<usize>>, FabricError> {
        for switch in 0..self.graph.switches.len() {
            let mut hosts = (0..trees.len()).filter(|host| trees[*host][switch].is_some());
            if let (Some(first), Some(second)) = (hosts.next(), hosts.next()) {
                return Err(FabricError::TwoUpstreamPorts {
                    switch: self.graph.switches[switch].name.clone(),
                    first: self.graph.endpoints.name(first).to_owned(),
                    second: self.graph.endpoints.name(second).to_owned(),
                });
            }
        }
        let devices = self.graph.endpoints.device_range();
        let reached = |host| {
            devices
                .clone()
                .filter(|d| self.below(trees, host, *d))
                .collect()
        };
        Ok((0..trees.len()).map(reached).collect())
    }

    /// Checks that each device is below the host to which it is bound, and that each link serves one host.
    fn multiple(
        &self,
        trees: &[HostTree],
        bindings: &[(usize, usize)],
    ) -> Result<Vec<Vec<usize>>, FabricError> {
        let name = |endpoint: usize| self.graph.endpoints.name(endpoint).to_owned();
        let mut reached = vec![Vec::new(); trees.len()];
        let mut owner: Vec<Option<usize>> = vec![None; self.graph.links.len()];
        for (device, requester) in self.bound(bindings)? {
            if !self.below(trees, requester, device) {
                let (requester, device) = (name(requester), name(device));
                return Err(FabricError::UnreachableDevice { requester, device });
            }
            reached[requester].push(device);
            let Some((mut switch, _)) = self.ports.edge(device) else {
                continue;
            };
            while let Some((Some(link), above)) = trees[requester][switch] {
                let first = *owner[link].get_or_insert(requester);
                if first != requester {
                    return Err(FabricError::SharedHierarchyLink {
                        a: self.graph.switches[above].name.clone(),
                        b: self.graph.switches[switch].name.clone(),
                        first: name(first),
                        second: name(requester),
                    });
                }
                switch = above;
            }
        }
        Ok(reached)
    }

    /// Pairs of each device and its requester, in order of devices.
    fn bound(&self, bindings: &[(usize, usize)]) -> Result<Vec<(usize, usize)>, FabricError> {
        let endpoints = &self.graph.endpoints;
        let mut all = default_bindings(endpoints);
        let mut given = vec![false; all.len()];
        for (device, requester) in bindings {
            if !endpoints.device_range().contains(device) || !endpoints.is_requester(*requester) {
                let (device, requester) = (*device, *requester);
                return Err(FabricError::NoSuchBinding { device, requester });
            }
            let index = device - endpoints.requesters.len();
            if std::mem::replace(&mut given[index], true) {
                let device = endpoints.name(*device).to_owned();
                return Err(FabricError::BoundTwice { device });
            }
            all[index].1 = *requester;
        }
        Ok(all)
    }

    /// Whether a device is below a host, through a switch or on a root port.
    fn below(&self, trees: &[HostTree], requester: usize, device: usize) -> bool {
        match self.ports.edge(device) {
            Some((switch, _)) => trees[requester][switch].is_some(),
            None => self.graph.direct.contains(&(requester, device)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::CATALOG;
    use cxlab_engine::catalog::find;
    use serde_json::{Value, json};

    fn built(kind: &str, params: Value, requesters: usize, devices: usize) -> FabricGraph {
        let topology = (find(CATALOG, kind).unwrap().build)(&params).unwrap();
        let endpoints = Endpoints::numbered(requesters, devices);
        topology.build(&endpoints).unwrap()
    }

    fn chain(switches: usize, requesters: usize, devices: usize) -> FabricGraph {
        let params = json!({ "switches": switches });
        built("chain", params, requesters, devices)
    }

    /// The devices that each requester reaches with a single VCS in each switch.
    fn single(graph: &FabricGraph) -> Result<Vec<Vec<usize>>, FabricError> {
        check(graph, &VcsHierarchy::Single)
    }

    /// The devices that each requester reaches with these bindings.
    fn bound(
        graph: &FabricGraph,
        bindings: &[(usize, usize)],
    ) -> Result<Vec<Vec<usize>>, FabricError> {
        check(graph, &VcsHierarchy::Multiple(bindings.to_vec()))
    }

    #[test]
    fn one_host_above_a_tree_reaches_all_devices() {
        let tree = built("tree", json!({}), 1, 5);
        assert_eq!(single(&tree), Ok(vec![vec![1, 2, 3, 4, 5]]));
        assert_eq!(single(&chain(3, 1, 2)), Ok(vec![vec![1, 2]]));
    }

    #[test]
    fn a_ring_is_no_hierarchy() {
        let mut doubled = chain(2, 1, 1);
        doubled.add_link(0, 1);
        for graph in [built("ring", json!({}), 1, 3), doubled] {
            let error = single(&graph).unwrap_err();
            let is_loop = matches!(error, FabricError::HierarchyLoop { .. });
            assert!(is_loop, "{:?}: {error}", graph.links);
        }
    }

    #[test]
    fn a_single_vcs_has_one_host_and_several_have_one_for_each_device() {
        let switch = chain(1, 2, 4);
        assert_eq!(
            single(&switch).unwrap_err().to_string(),
            "switch `sw0` is below both `host0` and `host1`, but a single VCS has one upstream \
             port (use several VCSs or a PBR fabric)"
        );
        assert_eq!(bound(&switch, &[]), Ok(vec![vec![2, 4], vec![3, 5]]));
        let reached = bound(&switch, &[(2, 1)]);
        assert_eq!(reached, Ok(vec![vec![4], vec![2, 3, 5]]));
        let device = "device0".into();
        let error = bound(&switch, &[(2, 1), (2, 0)]);
        assert_eq!(error, Err(FabricError::BoundTwice { device }));
        let (device, requester) = (1, 0);
        let error = bound(&switch, &[(device, requester)]);
        assert_eq!(error, Err(FabricError::NoSuchBinding { device, requester }));
    }

    #[test]
    fn a_link_between_switches_serves_one_host() {
        let two = chain(2, 2, 2);
        let error = bound(&two, &[]).unwrap_err();
        let is_shared = matches!(error, FabricError::SharedHierarchyLink { .. });
        assert!(is_shared, "{error}");
        // If both devices are bound to one host, only that host uses the link.
        let reached = bound(&two, &[(2, 0), (3, 0)]);
        assert_eq!(reached, Ok(vec![vec![2, 3], vec![]]));
    }

    #[test]
    fn root_ports_are_hierarchies_of_their_own() {
        let direct = built("direct", json!({}), 2, 4);
        assert_eq!(single(&direct), Ok(vec![vec![2, 4], vec![3, 5]]));
        let error = bound(&direct, &[(2, 1)]).unwrap_err();
        let is_apart = matches!(error, FabricError::UnreachableDevice { .. });
        assert!(is_apart, "{error}");
    }
}
