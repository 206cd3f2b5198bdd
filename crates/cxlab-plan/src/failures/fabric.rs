//! The fabric in which components fail: which of its links and components work.

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingTables};
use cxlab_scenario::{EventParams, Scenario, UnbindOption};

use super::planned::FailureChange;
use crate::endpoints::NamedGroups;
use crate::links::{End, PlannedLink};
use crate::problem::{Problem, unknown};

/// The fabric in which components fail.
pub(crate) struct Fabric<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) named: &'a NamedGroups,
    pub(crate) graph: &'a FabricGraph,
    pub(crate) tables: &'a Arc<RoutingTables>,
    pub(crate) links: &'a [PlannedLink],
    /// Numbers of the devices that each host reaches when nothing has failed.
    pub(crate) reach: &'a [Vec<usize>],
}

/// Which links and components have failed so far.
#[derive(Clone)]
pub(super) struct SurvivingFabric {
    /// By planned link: whether an event has taken it down.
    pub(super) down: Vec<bool>,
    /// By planned link: whether the fabric manager holds the component behind it in reset.
    pub(super) reset: Vec<bool>,
    /// By component: whether an event has removed it.
    pub(super) dead: Vec<bool>,
    /// By planned link: whether it has failed at random.
    pub(super) broken_links: Vec<bool>,
    /// By component: whether it has failed at random.
    pub(super) broken: Vec<bool>,
}

impl SurvivingFabric {
    /// The state in which nothing has failed.
    pub(super) fn whole(links: usize, components: usize) -> SurvivingFabric {
        SurvivingFabric {
            down: vec![false; links],
            reset: vec![false; links],
            dead: vec![false; components],
            broken_links: vec![false; links],
            broken: vec![false; components],
        }
    }

    /// Whether a link would work without random failures.
    pub(super) fn is_there(&self, fabric: &Fabric<'_>, link: usize) -> bool {
        let ends = fabric.ends(link);
        !self.down[link] && !self.reset[link] && !ends.iter().any(|end| self.dead[*end])
    }

    fn is_usable(&self, fabric: &Fabric<'_>, link: usize) -> bool {
        let ends = fabric.ends(link);
        self.is_there(fabric, link)
            && !self.broken_links[link]
            && !ends.iter().any(|end| self.broken[*end])
    }

    fn is_alive(&self, component: usize) -> bool {
        !self.dead[component] && !self.broken[component]
    }
}

/// The links of endpoints, by number.
pub(super) struct Edges {
    /// By endpoint: its link to a switch.
    switched: Vec<Option<usize>>,
    /// By host and device, as endpoint numbers: the link between them.
    direct: BTreeMap<(usize, usize), usize>,
}

impl Fabric<'_> {
    pub(super) fn hosts(&self) -> usize {
        self.named.names.requesters.len()
    }

    pub(super) fn devices(&self) -> usize {
        self.named.names.devices.len()
    }

    /// Numbers of the components at both ends of a link.
    pub(super) fn ends(&self, link: usize) -> [usize; 2] {
        let planned = &self.links[link];
        [self.component(planned.a), self.component(planned.b)]
    }

    fn component(&self, end: End) -> usize {
        end.component(self.hosts(), self.devices())
    }

    /// Number of all hosts, devices and switches.
    pub(super) fn components(&self) -> usize {
        self.named.names.len() + self.graph.switches.len()
    }

    pub(super) fn name(&self, component: usize) -> &str {
        let endpoints = self.named.names.len();
        match component.checked_sub(endpoints) {
            None => self.named.names.name(component),
            Some(switch) => &self.graph.switches[switch].name,
        }
    }

    /// Changes the state of a link; returns the changes at both ends.
    pub(super) fn change_link(
        &self,
        left: &mut SurvivingFabric,
        link: usize,
        change: impl FnOnce(&mut SurvivingFabric),
    ) -> Vec<(usize, FailureChange)> {
        let before = left.is_usable(self, link);
        change(left);
        match (before, left.is_usable(self, link)) {
            (true, false) => self.both(link, FailureChange::Down),
            (false, true) => self.both(link, FailureChange::Up),
            _ => Vec::new(),
        }
    }

    /// Fails or repairs a component; returns its change and those at the far ends of its links.
    pub(super) fn change_component(
        &self,
        left: &mut SurvivingFabric,
        component: usize,
        change: impl FnOnce(&mut SurvivingFabric),
    ) -> Vec<(usize, FailureChange)> {
        let own = (0..self.links.len()).filter(|link| self.ends(*link).contains(&component));
        let own: Vec<(usize, bool)> = own.map(|link| (link, left.is_usable(self, link))).collect();
        let before = left.is_alive(component);
        change(left);
        let mut does = Vec::new();
        match (before, left.is_alive(component)) {
            (true, false) => does.push((component, FailureChange::Dead)),
            (false, true) => does.push((component, FailureChange::Alive)),
            _ => {}
        }
        for (link, before) in own {
            match (before, left.is_usable(self, link)) {
                (true, false) => {
                    let ends = self.both(link, FailureChange::Down).into_iter();
                    does.extend(ends.filter(|(end, _)| *end != component));
                }
                (false, true) => does.extend(self.both(link, FailureChange::Up)),
                _ => {}
            }
        }
        does
    }

    /// The same change at both ends of a link, by component.
    fn both(
        &self,
        link: usize,
        change: impl Fn(u16) -> FailureChange,
    ) -> Vec<(usize, FailureChange)> {
        let planned = &self.links[link];
        let of = |end: End| {
            let (End::Host(_, port) | End::Device(_, port) | End::Switch(_, port)) = end;
            (self.component(end), change(port))
        };
        vec![of(planned.a), of(planned.b)]
    }

    /// Number of the link at a switch's port.
    pub(super) fn port(
        &self,
        path: &str,
        names: &[String; 2],
        number: u32,
    ) -> Result<usize, Problem> {
        let at = self.link(path, names, number)?;
        let is_switch =
            |end: End| matches!(end, End::Switch(..)) && self.name(self.component(end)) == names[0];
        let planned = &self.links[at];
        match is_switch(planned.a) || is_switch(planned.b) {
            true => Ok(at),
            false => Err(Problem::refused(
                format!("{path}.link[0]"),
                format_args!("`{}`, which is no switch", names[0]),
                "the switch whose port it is, and then what is behind it",
            )),
        }
    }

    /// Checks that every device whose hosts are unbound by a link failure has a link to a switch.
    pub(super) fn check_unbindings(&self) -> Result<(), Problem> {
        for (number, event) in self.scenario.events.iter().enumerate() {
            let EventParams::Unbind {
                device,
                option: UnbindOption::WaitForLinkDown,
                ..
            } = event
            else {
                continue;
            };
            let is_its = |end: End| self.name(self.component(end)) == device;
            let own = self.links.iter().map(|link| [link.a, link.b]);
            let own = own.filter(|ends| ends.iter().any(|end| is_its(*end)));
            let own: Vec<[End; 2]> = own.collect();
            if !matches!(own[..], [ends] if ends.iter().any(|end| end.is_switch())) {
                let count = own.len();
                return Err(Problem::refused(
                    format!("events[{number}].option"),
                    format_args!("\"wait-for-link-down\" of `{device}`, which has {count} links"),
                    "devices with one link, to a switch",
                ));
            }
        }
        Ok(())
    }

    /// The link with this number among those between two components.
    pub(super) fn link(
        &self,
        path: &str,
        names: &[String; 2],
        number: u32,
    ) -> Result<usize, Problem> {
        let all = (0..self.components()).map(|component| self.name(component).to_owned());
        let all: Vec<String> = all.collect();
        for (at, name) in names.iter().enumerate() {
            if !all.contains(name) {
                let path = format!("{path}.link[{at}]");
                return Err(unknown(path, name, "a host, a device or a switch", &all));
            }
        }
        let joined = |(_, link): &(usize, &PlannedLink)| {
            let ends = [link.a, link.b].map(|end| self.name(self.component(end)));
            let [a, b] = names;
            ends == [a.as_str(), b.as_str()] || ends == [b.as_str(), a.as_str()]
        };
        let between = self.links.iter().enumerate().filter(joined);
        let between: Vec<usize> = between.map(|(at, _)| at).collect();
        let [a, b] = names;
        if between.is_empty() {
            let found = format_args!("`{a}` and `{b}`, which no link joins");
            let path = format!("{path}.link");
            return Err(Problem::refused(path, found, "both ends of a link"));
        }
        between.get(number as usize).copied().ok_or_else(|| {
            let count = between.len();
            let allowed = format_args!("less than {count}, as many links join `{a}` and `{b}`");
            Problem::refused(format!("{path}.number"), number, allowed)
        })
    }

    /// The links between switches that do not work, as the graph numbers them.
    pub(super) fn cut(&self, left: &SurvivingFabric) -> Vec<bool> {
        let mut cut = vec![false; self.graph.links.len()];
        for (at, planned) in self.links.iter().enumerate() {
            if let (End::Switch(switch, port), End::Switch(..)) = (planned.a, planned.b)
                && let PortPeer::Switch { link, .. } =
                    self.tables.ports().of(switch)[usize::from(port)]
            {
                cut[link] = !left.is_usable(self, at);
            }
        }
        cut
    }

    /// The devices that a host reached when nothing had failed and does not reach now.
    pub(super) fn cut_off(
        &self,
        left: &SurvivingFabric,
        edges: &Edges,
        tables: &RoutingTables,
        host: usize,
    ) -> Vec<bool> {
        let mut cut = vec![false; self.devices()];
        let usable = |link: Option<usize>| link.is_some_and(|at| left.is_usable(self, at));
        for device in &self.reach[host] {
            let there = self.hosts() + device;
            cut[*device] = match edges.direct.get(&(host, there)) {
                Some(link) => !left.is_usable(self, *link),
                None => {
                    !usable(edges.switched[host])
                        || !usable(edges.switched[there])
                        || tables.hops(host, there).is_none()
                }
            };
        }
        cut
    }

    pub(super) fn edges(&self) -> Edges {
        let mut edges = Edges {
            switched: vec![None; self.named.names.len()],
            direct: BTreeMap::new(),
        };
        for (at, link) in self.links.iter().enumerate() {
            let (a, b) = (self.component(link.a), self.component(link.b));
            match (link.a, link.b) {
                (End::Switch(..), End::Switch(..)) => {}
                (_, End::Switch(..)) => edges.switched[a] = Some(at),
                _ => {
                    edges.direct.insert((a, b), at);
                }
            }
        }
        edges
    }
}
