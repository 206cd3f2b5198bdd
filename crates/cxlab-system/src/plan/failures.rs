//! Failures: links, switches and devices that fail while the workloads run, checked against what is
//! left at the time, and turned into what each component does and when.
//!
//! All of it is known before the run, so the tables for what is left are made and proved here.
//! Messages that are under way when tables change keep to the old ones: tables of different fabrics
//! have virtual channels of their own, so that no message of the one waits for one of the other,
//! and each proof holds by itself (T. Pinkston, R. Pang, J. Duato, "Deadlock-free dynamic
//! reconfiguration schemes for increased network dependability", IEEE TPDS 14(8), 2003: the double
//! scheme).

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::units::Picos;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingKind, RoutingTables};
use cxlab_link::Duplex;

use super::Problem;
use super::endpoints::{Named, unknown};
use super::events::keeps_lines;
use super::links::{End, PlannedLink};
use super::sharing::SharedPart;
use crate::note::Note;
use crate::scenario::{
    EventParams, FailureParams, LinkClass, PortAction, Scenario, Sharing, UnbindOption,
};

/// The shortest and the longest completion timeout.
const TIMEOUTS: [Picos; 2] = [Picos(1_000_000), Picos(64_000_000_000_000)];
/// The shortest and the longest time until tables change.
const RECONFIGURATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000_000)];
/// The shortest and the longest time of an answer by a root port.
const ISOLATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000)];

/// What a component does when something fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureChange {
    /// The link of this port fails.
    Down(u16),
    /// It is trained again.
    Up(u16),
    /// The component itself fails.
    Dead,
    /// A switch sends what comes from endpoints by the tables of this number.
    Route(usize),
    /// A host knows which devices it does not reach, by number.
    CutOff(Arc<[bool]>),
}

/// Routing tables, and the first of the virtual channels that are theirs.
#[derive(Clone, Debug)]
pub struct PlannedTables {
    /// The tables.
    pub tables: Arc<RoutingTables>,
    /// Their first virtual channel on links between switches.
    pub first: u8,
}

/// Everything that fails, resolved.
pub struct Failures {
    /// How hosts and the fabric deal with it.
    pub params: FailureParams,
    /// The tables of the whole fabric, and then those of each fabric that is left.
    pub tables: Vec<PlannedTables>,
    /// Virtual channels of all of them.
    pub virtual_channels: u8,
    /// By component (hosts, devices, switches): what it does, in order of time.
    pub timelines: Vec<Vec<(Picos, FailureChange)>>,
}

/// Whether anything fails.
pub(super) fn has_any(scenario: &Scenario) -> bool {
    scenario.events.iter().any(EventParams::is_failure)
}

/// Checks what does not need the fabric: that all components know what to do about failures.
pub(super) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let any = has_any(scenario);
    if let Some(params) = &scenario.failures {
        check_params(params, problems);
        if !any {
            problems.push(Problem::new(
                "failures",
                "found a table in a scenario in which nothing fails; allowed: with [[events]] of \
                 kind \"link-down\", \"port-control\", \"switch-down\" or \"device-removed\"",
            ));
        }
    }
    if !any {
        return;
    }
    let mut wrong = |path: String, found: &str, allowed: &str| {
        let message = format!("found {found} where components fail; allowed: {allowed}");
        problems.push(Problem::new(path, message));
    };
    for (at, group) in scenario.hosts.iter().enumerate() {
        if let Some(part) = keeps_lines(group) {
            wrong(
                format!("hosts[{at}].{part}"),
                &format!("`{part}`"),
                "requesters without caches, with `issue` alone, and processors",
            );
        }
    }
    for (at, group) in scenario.hosts.iter().enumerate() {
        let processor = group.processor.as_ref();
        if processor.is_some_and(|processor| processor.llc.speculative_reads) {
            wrong(
                format!("hosts[{at}].processor.llc.speculative_reads"),
                "true",
                "false (`MemSpecRd` has no answer that could time out)",
            );
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        if group.is_hdm_db() {
            wrong(
                format!("devices[{at}].coherence.class"),
                "\"hdm-db\"",
                "\"hdm-h\" (what becomes of copies of lost lines is not modelled)",
            );
        }
    }
    if !scenario.accelerators.is_empty() {
        wrong(
            "accelerators[0]".to_owned(),
            "an accelerator",
            "hosts and Type 3 devices",
        );
    }
    if scenario.fabric.routing.0 != RoutingKind::Shortest {
        wrong(
            "fabric.routing".to_owned(),
            &format!("\"{}\"", scenario.fabric.routing.name()),
            "\"shortest\"",
        );
    }
    let classes = scenario.fabric.link_classes();
    let half = |class: &&LinkClass| class.params.duplex == Duplex::Half;
    for class in classes.iter().filter(half) {
        wrong(
            format!("{}.duplex", class.path),
            "\"half\"",
            "\"full\" (a bus does not lose what it holds)",
        );
    }
}

/// Checks that no threads of several hosts share values: of what is lost on its way they would know
/// nothing.
pub(super) fn check_shared(scenario: &Scenario, shared: &[SharedPart]) -> Result<(), Problem> {
    let shares = |part: &SharedPart| !part.lines.is_empty();
    if !has_any(scenario) || !shared.iter().any(shares) {
        return Ok(());
    }
    let mut regions = scenario.regions.iter();
    let at = regions.position(|region| region.sharing == Sharing::Shared);
    Err(Problem::new(
        format!("regions[{}].sharing", at.unwrap_or(0)),
        "found a shared region whose values threads of several hosts compute on, where components fail; \
         allowed: exclusive regions, or patterns, traces and programs",
    ))
}

fn check_params(params: &FailureParams, problems: &mut Vec<Problem>) {
    let all = [
        ("completion_timeout", params.completion_timeout, TIMEOUTS),
        (
            "reconfiguration_time",
            params.reconfiguration_time,
            RECONFIGURATIONS,
        ),
        ("isolation_time", params.isolation_time, ISOLATIONS),
    ];
    for (field, found, [least, most]) in all {
        if !(least..=most).contains(&found) {
            problems.push(Problem::new(
                format!("failures.{field}"),
                format!("found {found}; allowed: {least} to {most}"),
            ));
        }
    }
}

/// The fabric that failures are in.
pub(super) struct Fabric<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) named: &'a Named,
    pub(super) graph: &'a FabricGraph,
    pub(super) tables: &'a Arc<RoutingTables>,
    pub(super) links: &'a [PlannedLink],
    /// By host: the devices that it reaches when nothing has failed.
    pub(super) reach: &'a [Vec<usize>],
}

/// What has failed so far.
struct Left {
    /// By planned link: whether it has failed by itself.
    down: Vec<bool>,
    /// By planned link: whether the fabric manager holds what is behind it in reset.
    reset: Vec<bool>,
    /// By component.
    dead: Vec<bool>,
}

impl Left {
    fn is_usable(&self, fabric: &Fabric<'_>, link: usize) -> bool {
        let planned = &fabric.links[link];
        let dead = |end| self.dead[fabric.component(end)];
        !self.down[link] && !self.reset[link] && !dead(planned.a) && !dead(planned.b)
    }
}

impl Fabric<'_> {
    /// What each component does; nothing where nothing fails.
    pub(super) fn failures(&self, notes: &mut Vec<Note>) -> Result<Option<Failures>, Problem> {
        if !has_any(self.scenario) {
            return Ok(None);
        }
        self.check_unbindings()?;
        let (hosts, devices) = (self.hosts(), self.devices());
        let components = hosts + devices + self.graph.switches.len();
        let params = self.scenario.failures.clone().unwrap_or_default();
        let mut all = Failures {
            tables: vec![PlannedTables {
                tables: Arc::clone(self.tables),
                first: 0,
            }],
            virtual_channels: self.tables.virtual_channels(),
            timelines: vec![Vec::new(); components],
            params,
        };
        let mut left = Left {
            down: vec![false; self.links.len()],
            reset: vec![false; self.links.len()],
            dead: vec![false; components],
        };
        let mut known = BTreeMap::from([(vec![false; self.graph.links.len()], 0)]);
        let mut routes = 0;
        let mut cut_off = vec![vec![false; devices]; hosts];
        let edges = self.edges();
        for (time, number, ends) in self.in_order() {
            let event = &self.scenario.events[number];
            let path = format!("events[{number}]");
            for (component, change) in self.happen(&mut left, &path, event, ends)? {
                all.timelines[component].push((time, change));
            }
            let at = time + all.params.reconfiguration_time;
            let now = self.tables_of(&left, &mut known, &mut all, &path)?;
            if now != routes {
                for timeline in &mut all.timelines[hosts + devices..] {
                    timeline.push((at, FailureChange::Route(now)));
                }
                routes = now;
            }
            let mut pairs = 0;
            for (host, before) in cut_off.iter_mut().enumerate() {
                let now = self.cut_off(&left, &edges, &all.tables[routes].tables, host);
                pairs += now.iter().filter(|cut| **cut).count();
                if now != *before {
                    let change = FailureChange::CutOff(now.as_slice().into());
                    all.timelines[host].push((at, change));
                    *before = now;
                }
            }
            if pairs > 0 {
                let event = event.describe();
                notes.push(Note::new(
                    path,
                    format!(
                        "after this event ({event}) {pairs} pairs of host and device are cut off"
                    ),
                ));
            }
        }
        for timeline in &mut all.timelines {
            timeline.sort_by_key(|(at, _)| *at);
        }
        Ok(Some(all))
    }

    /// What fails, in the order in which it happens: commands to ports are in force later than they are
    /// given, and a reset begins and ends. Times, numbers of events, and whether it ends.
    fn in_order(&self) -> Vec<(Picos, usize, bool)> {
        let manager = self.scenario.manager();
        let mut all = Vec::new();
        for (number, event) in self.scenario.events.iter().enumerate() {
            match event {
                EventParams::PortControl { at, action, .. } => {
                    let at = *at + manager.command_time;
                    all.push((at, number, *action == PortAction::DeassertPerst));
                    if *action == PortAction::ResetPpb {
                        all.push((at + manager.reset_time, number, true));
                    }
                }
                event if event.is_failure() => all.push((event.at(), number, false)),
                _ => {}
            }
        }
        all.sort_by_key(|(at, number, _)| (*at, *number));
        all
    }

    fn hosts(&self) -> usize {
        self.named.names.requesters.len()
    }

    fn devices(&self) -> usize {
        self.named.names.devices.len()
    }

    fn component(&self, end: End) -> usize {
        match end {
            End::Host(host, _) => host,
            End::Device(device, _) => self.hosts() + device,
            End::Switch(switch, _) => self.hosts() + self.devices() + switch,
        }
    }

    fn name(&self, component: usize) -> &str {
        let endpoints = self.named.names.len();
        match component.checked_sub(endpoints) {
            None => self.named.names.name(component),
            Some(switch) => &self.graph.switches[switch].name,
        }
    }

    /// Makes an event happen to what is left, or end: what each component does about it.
    fn happen(
        &self,
        left: &mut Left,
        path: &str,
        event: &EventParams,
        ends: bool,
    ) -> Result<Vec<(usize, FailureChange)>, Problem> {
        let wrong = |found: String, allowed: &str| {
            let message = format!("found {found} at {}; allowed: {allowed}", event.at());
            Problem::new(format!("{path}.kind"), message)
        };
        match event {
            EventParams::LinkDown { link, number, .. } => {
                let at = self.link(path, link, *number)?;
                if !left.is_usable(self, at) {
                    return Err(wrong(
                        format!("\"link-down\" of `{}--{}`, which is down", link[0], link[1]),
                        "\"link-down\" of a link that is up, between components that are there",
                    ));
                }
                left.down[at] = true;
                Ok(self.both(at, FailureChange::Down))
            }
            EventParams::LinkUp { link, number, .. } => {
                let at = self.link(path, link, *number)?;
                let was_down = std::mem::replace(&mut left.down[at], false);
                if !was_down || !left.is_usable(self, at) {
                    return Err(wrong(
                        format!(
                            "\"link-up\" of `{}--{}`, which cannot come up",
                            link[0], link[1]
                        ),
                        "\"link-up\" after a \"link-down\", between components that are there",
                    ));
                }
                Ok(self.both(at, FailureChange::Up))
            }
            EventParams::PortControl { link, number, .. } => {
                let at = self.port(path, link, *number)?;
                if left.reset[at] != ends {
                    let (found, allowed) = match ends {
                        false => ("is in reset", "of what is not in reset"),
                        true => (
                            "is not in reset",
                            "\"deassert-perst\" after \"assert-perst\"",
                        ),
                    };
                    return Err(wrong(
                        format!("\"port-control\" of `{}`, which {found}", link[1]),
                        allowed,
                    ));
                }
                // What is down or gone anyway stays so.
                let before = left.is_usable(self, at);
                left.reset[at] = !ends;
                Ok(match (before, left.is_usable(self, at)) {
                    (true, false) => self.both(at, FailureChange::Down),
                    (false, true) => self.both(at, FailureChange::Up),
                    _ => Vec::new(),
                })
            }
            EventParams::SwitchDown { switch, .. } => {
                let names = self.graph.switches.iter().map(|one| one.name.clone());
                let names: Vec<String> = names.collect();
                let first = self.hosts() + self.devices();
                let path = format!("{path}.switch");
                self.die(left, path, first, switch, "a switch", &names)
            }
            EventParams::DeviceRemoved { device, .. } => {
                let names = &self.named.names.devices;
                let path = format!("{path}.device");
                self.die(left, path, self.hosts(), device, "a device", names)
            }
            EventParams::Add { .. }
            | EventParams::Release { .. }
            | EventParams::Bind { .. }
            | EventParams::Unbind { .. }
            | EventParams::SetLdAllocations { .. }
            | EventParams::SetQos { .. }
            | EventParams::Demand { .. }
            | EventParams::HostJoins { .. }
            | EventParams::HostLeaves { .. }
            | EventParams::Viral { .. } => Ok(Vec::new()),
        }
    }

    /// A component fails, with its links. It is one of `names`, whose numbers begin at `first`.
    fn die(
        &self,
        left: &mut Left,
        path: String,
        first: usize,
        name: &str,
        what: &str,
        names: &[String],
    ) -> Result<Vec<(usize, FailureChange)>, Problem> {
        if names.is_empty() {
            let message = format!("found `{name}`; allowed: {what}, of which there is none");
            return Err(Problem::new(path, message));
        }
        let Some(at) = names.iter().position(|known| known == name) else {
            return Err(unknown(path, name, what, names));
        };
        let component = first + at;
        if left.dead[component] {
            return Err(Problem::new(
                path,
                format!(
                    "found `{name}`, which an earlier event has taken; allowed: {what} that is there"
                ),
            ));
        }
        let mut changes = vec![(component, FailureChange::Dead)];
        for link in 0..self.links.len() {
            if left.is_usable(self, link) {
                let ends = self.both(link, FailureChange::Down);
                if ends.iter().any(|(end, _)| *end == component) {
                    changes.extend(ends.into_iter().filter(|(end, _)| *end != component));
                }
            }
        }
        left.dead[component] = true;
        Ok(changes)
    }

    /// The same at both ends of a link, by component.
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

    /// The link of a switch's port.
    fn port(&self, path: &str, names: &[String; 2], number: u32) -> Result<usize, Problem> {
        let at = self.link(path, names, number)?;
        let is_switch =
            |end: End| matches!(end, End::Switch(..)) && self.name(self.component(end)) == names[0];
        let planned = &self.links[at];
        match is_switch(planned.a) || is_switch(planned.b) {
            true => Ok(at),
            false => Err(Problem::new(
                format!("{path}.link[0]"),
                format!(
                    "found `{}`, which is no switch; allowed: the switch whose port it is, and then what \
                     is behind it",
                    names[0]
                ),
            )),
        }
    }

    /// Checks that devices which hosts are unbound from with their link have one, to a switch.
    fn check_unbindings(&self) -> Result<(), Problem> {
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
            let own: Vec<&PlannedLink> = (self.links.iter())
                .filter(|link| is_its(link.a) || is_its(link.b))
                .collect();
            let switched = |link: &&&PlannedLink| {
                matches!(link.a, End::Switch(..)) || matches!(link.b, End::Switch(..))
            };
            if own.len() != 1 || own.iter().filter(switched).count() != 1 {
                return Err(Problem::new(
                    format!("events[{number}].option"),
                    format!(
                        "found \"wait-for-link-down\" of `{device}`, which has {} links; allowed: devices \
                         with one link, to a switch",
                        own.len()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The link of that number between two components.
    fn link(&self, path: &str, names: &[String; 2], number: u32) -> Result<usize, Problem> {
        let all: Vec<String> = (0..self.hosts() + self.devices() + self.graph.switches.len())
            .map(|component| self.name(component).to_owned())
            .collect();
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
        let between: Vec<usize> = (self.links.iter().enumerate())
            .filter(joined)
            .map(|(at, _)| at)
            .collect();
        let [a, b] = names;
        if between.is_empty() {
            return Err(Problem::new(
                format!("{path}.link"),
                format!("found `{a}` and `{b}`, which no link joins; allowed: both ends of a link"),
            ));
        }
        between.get(number as usize).copied().ok_or_else(|| {
            Problem::new(
                format!("{path}.number"),
                format!(
                    "found {number}; allowed: less than {}, as many links join `{a}` and `{b}`",
                    between.len()
                ),
            )
        })
    }

    /// The number of the tables for what is left, which are made where they are new.
    fn tables_of(
        &self,
        left: &Left,
        known: &mut BTreeMap<Vec<bool>, usize>,
        all: &mut Failures,
        path: &str,
    ) -> Result<usize, Problem> {
        let mut cut = vec![false; self.graph.links.len()];
        for (at, planned) in self.links.iter().enumerate() {
            if let (End::Switch(switch, port), End::Switch(..)) = (planned.a, planned.b)
                && let PortPeer::Switch { link, .. } =
                    self.tables.ports().of(switch)[usize::from(port)]
            {
                cut[link] = !left.is_usable(self, at);
            }
        }
        if let Some(number) = known.get(&cut) {
            return Ok(*number);
        }
        let refuse = |why: String| Problem::new(format!("{path}.kind"), why);
        let most = self.scenario.fabric.virtual_channels;
        let kind = self.tables.kind();
        let tables = RoutingTables::build_without(self.graph, kind, most, |link| cut[link])
            .map_err(|error| refuse(format!("found a failure after which {error}")))?;
        let first = all.virtual_channels;
        let needed = first + tables.virtual_channels();
        if needed > most {
            return Err(refuse(format!(
                "found one more change of the fabric, whose tables need virtual channels of their own: \
                 {needed} in all; allowed: at most {most} (`fabric.virtual_channels`)"
            )));
        }
        all.virtual_channels = needed;
        all.tables.push(PlannedTables {
            tables: Arc::new(tables),
            first,
        });
        known.insert(cut, all.tables.len() - 1);
        Ok(all.tables.len() - 1)
    }

    /// The devices that a host reached when nothing had failed and does not reach now.
    fn cut_off(
        &self,
        left: &Left,
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

    fn edges(&self) -> Edges {
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

/// The links of endpoints, by number.
struct Edges {
    /// By endpoint: the link to its switch.
    switched: Vec<Option<usize>>,
    /// By host and device, as endpoints: the link between them.
    direct: BTreeMap<(usize, usize), usize>,
}
