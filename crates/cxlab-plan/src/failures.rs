//! Failures: links, switches and devices that fail while the workloads run. Each failure is checked
//! against what still works at the time, and turned into timed changes of each component.
//!
//! All failures are known before the run, so the routing tables for the remaining fabric are made
//! and proved here. Messages in flight keep the tables with which they were sent. A routing state is
//! a set of tables with virtual channels of its own. States whose messages may be in flight together
//! share no channel, so each proof holds by itself (T. Pinkston, R. Pang, J. Duato, "Deadlock-free
//! dynamic reconfiguration schemes for increased network dependability", IEEE TPDS 14(8), 2003: the
//! double scheme). A replaced state has drained after `drain_time`. Another state may then take its
//! channels, and messages still on them are discarded (`channels.rs`). A change of the routing waits
//! until enough channels have drained, and comes into force together with later ones.

mod channels;
mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use cxlab_engine::units::Picos;
use cxlab_fabric::graph::FabricGraph;
use cxlab_fabric::routing::{PortPeer, RoutingKind, RoutingTables};
use cxlab_link::Duplex;
use cxlab_scenario::{
    EventParams, FailureParams, LinkClass, Note, PortAction, Scenario, Sharing, UnbindOption,
};

use self::channels::{Channels, Grant};
use super::Problem;
use super::endpoints::{Named, unknown};
use super::events::keeps_lines;
use super::links::{End, PlannedLink};
use super::sharing::SharedPart;

/// The shortest and the longest completion timeout.
const TIMEOUTS: [Picos; 2] = [Picos(1_000_000), Picos(64_000_000_000_000)];
/// The shortest and the longest time until tables change.
const RECONFIGURATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000_000)];
/// The shortest and the longest response time of a root port in isolation.
const ISOLATIONS: [Picos; 2] = [Picos(1_000), Picos(1_000_000_000)];

/// Most failures and repairs of a run: a message has 16 bits for the number of its routing state.
const MOST_CHANGES: usize = 65_000;

/// The reaction of a component to a failure or a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureChange {
    /// The link of this port fails.
    Down(u16),
    /// The link of this port is trained again.
    Up(u16),
    /// The component itself fails.
    Dead,
    /// The component is repaired, with empty buffers and caches.
    Alive,
    /// A switch routes messages from endpoints by the routing state of this number.
    Route(usize),
    /// The devices that a host knows to be unreachable, by device number.
    CutOff(Arc<[bool]>),
}

/// Routing tables, and the virtual channels reserved for them.
#[derive(Clone, Debug)]
pub struct RoutingState {
    /// Routing tables of the fabric as it is known at the time.
    pub tables: Arc<RoutingTables>,
    /// The virtual channels of the tables on links between switches, as a bit mask. The first
    /// channel of the tables is the lowest bit.
    pub channels: u8,
}

impl RoutingState {
    /// The channel of the tables that follows `vc`.
    pub fn channel_after(&self, vc: u8) -> u8 {
        let later = u32::from(self.channels) >> (vc + 1);
        vc + 1 + later.trailing_zeros() as u8
    }
}

/// A change of the routing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutingChange {
    /// `reconfiguration_time` after the first failure or repair that caused the change.
    pub due: Picos,
    /// When the change comes into force: later than `due` if it waits for virtual channels to drain.
    pub at: Picos,
    /// Whether the new state takes channels of the state that it replaces, so that messages
    /// in flight are discarded.
    pub overlaps: bool,
}

/// All failures and repairs of a run, resolved.
pub struct Failures {
    /// How hosts and the fabric handle failures.
    pub params: FailureParams,
    /// The routing states in the order in which they come into force; the first is that
    /// of the whole fabric.
    pub states: Vec<RoutingState>,
    /// Number of different tables among the routing states.
    pub fabrics: usize,
    /// Number of virtual channels that all routing states use.
    pub virtual_channels: u8,
    /// Failures and repairs, in order of time.
    pub times: Vec<Picos>,
    /// Changes of the routing, in order of time.
    pub routing: Vec<RoutingChange>,
    /// By component (hosts, devices, switches): its changes in order of time.
    pub timelines: Vec<Vec<(Picos, FailureChange)>>,
}

/// Whether a scenario has failures, as events or at random times.
pub(crate) fn has_any(scenario: &Scenario) -> bool {
    let at_random = scenario.failures.as_ref();
    let at_random = at_random.is_some_and(|params| params.random.is_some());
    at_random || scenario.events.iter().any(EventParams::is_failure)
}

/// Checks what does not depend on the fabric: that all components define
/// their behaviour under failures.
pub(crate) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let any = has_any(scenario);
    if let Some(params) = &scenario.failures {
        check_params(params, problems);
        if let Some(params) = &params.random {
            random::check(scenario, params, problems);
        }
        if !any {
            problems.push(Problem::new(
                "failures",
                "found a table in a scenario in which nothing fails; allowed: with [[events]] of \
                 kind \"link-down\", \"port-control\", \"switch-down\" or \"device-removed\", or with \
                 `random`",
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

/// Refuses values shared by threads of several hosts: the threads would not notice lost messages.
pub(crate) fn check_shared(scenario: &Scenario, shared: &[SharedPart]) -> Result<(), Problem> {
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
        ("drain_time", params.drain_time(), TIMEOUTS),
    ];
    for (field, found, [least, most]) in all {
        let given = field != "drain_time" || params.drain_time.is_some();
        if given && !(least..=most).contains(&found) {
            problems.push(Problem::new(
                format!("failures.{field}"),
                format!("found {found}; allowed: {least} to {most}"),
            ));
        }
    }
}

/// The fabric in which components fail.
pub(crate) struct Fabric<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) named: &'a Named,
    pub(crate) graph: &'a FabricGraph,
    pub(crate) tables: &'a Arc<RoutingTables>,
    pub(crate) links: &'a [PlannedLink],
    /// Numbers of the devices that each host reaches when nothing has failed.
    pub(crate) reach: &'a [Vec<usize>],
}

/// Which links and components have failed so far.
#[derive(Clone)]
struct Left {
    /// By planned link: whether an event has taken it down.
    down: Vec<bool>,
    /// By planned link: whether the fabric manager holds what is behind it in reset.
    reset: Vec<bool>,
    /// By component: whether an event has removed it.
    dead: Vec<bool>,
    /// By planned link: whether it has failed at random.
    broken_links: Vec<bool>,
    /// By component: whether it has failed at random.
    broken: Vec<bool>,
}

impl Left {
    /// The state in which nothing has failed.
    fn whole(links: usize, components: usize) -> Left {
        Left {
            down: vec![false; links],
            reset: vec![false; links],
            dead: vec![false; components],
            broken_links: vec![false; links],
            broken: vec![false; components],
        }
    }

    /// Whether a link would work without random failures.
    fn is_there(&self, fabric: &Fabric<'_>, link: usize) -> bool {
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

/// A failure or a repair.
struct Change {
    at: Picos,
    what: What,
}

/// The component or event that fails or is repaired.
#[derive(Clone, Copy)]
enum What {
    /// The event of this number, or the end of the reset that it begins.
    Event { number: usize, ends: bool },
    /// A random failure of a link.
    Link { link: usize, fails: bool },
    /// A random failure of a component.
    Component { component: usize, fails: bool },
}

impl What {
    /// The path of the cause in the scenario.
    fn path(self) -> String {
        match self {
            What::Event { number, .. } => format!("events[{number}]"),
            What::Link { .. } | What::Component { .. } => "failures.random".to_owned(),
        }
    }
}

impl Fabric<'_> {
    /// The timelines of all components; `None` if the scenario has no failures.
    pub(crate) fn failures(&self, notes: &mut Vec<Note>) -> Result<Option<Failures>, Problem> {
        if !has_any(self.scenario) {
            return Ok(None);
        }
        self.check_unbindings()?;
        let components = self.hosts() + self.devices() + self.graph.switches.len();
        let changes = self.changes()?;
        let mut left = Left::whole(self.links.len(), components);
        let mut physical = Vec::new();
        for change in &changes {
            for (component, does) in self.happen(&mut left, change.what)? {
                physical.push((component, (change.at, does)));
            }
        }
        let mut router = Router::new(self, components);
        for together in changes.chunk_by(|one, other| one.at == other.at) {
            router.know(together, notes)?;
        }
        router.wait_for(Picos(u64::MAX));
        router.note(notes);
        let mut all = router.all;
        all.times = changes.iter().map(|change| change.at).collect();
        for (component, does) in physical {
            all.timelines[component].push(does);
        }
        for timeline in &mut all.timelines {
            timeline.sort_by_key(|(at, _)| *at);
            let fails = |(_, change): &(Picos, FailureChange)| {
                matches!(change, FailureChange::Dead | FailureChange::Alive)
            };
            // What is never repaired does nothing any more.
            if let Some(last) = timeline.iter().rposition(fails)
                && timeline[last].1 == FailureChange::Dead
            {
                timeline.truncate(last + 1);
            }
        }
        Ok(Some(all))
    }

    /// All failures and repairs, in the order in which they happen.
    fn changes(&self) -> Result<Vec<Change>, Problem> {
        let events = self.in_order().into_iter();
        let mut all: Vec<Change> = events
            .map(|(at, number, ends)| Change {
                at,
                what: What::Event { number, ends },
            })
            .collect();
        let params = self.scenario.failures.as_ref();
        if let Some(params) = params.and_then(|params| params.random.as_ref()) {
            let seed = self.scenario.seed;
            let mut draw = |rates, name: &str, what: &dyn Fn(bool) -> What| {
                let most = MOST_CHANGES.saturating_sub(all.len());
                let times = random::times(params, rates, seed, name, most + 1);
                let times = times.into_iter().enumerate();
                all.extend(times.map(|(number, at)| Change {
                    at,
                    what: what(number % 2 == 0),
                }));
            };
            let mut twins: BTreeMap<[usize; 2], usize> = BTreeMap::new();
            for (link, planned) in self.links.iter().enumerate() {
                let number = twins.entry(self.ends(link)).or_default();
                let [a, b] = self.ends(link).map(|end| self.name(end));
                let name = format!("{a}--{b} {number}");
                *number += 1;
                let rates = match planned.a.is_switch() && planned.b.is_switch() {
                    true => &params.links,
                    false => &params.edge_links,
                };
                if let Some(rates) = rates {
                    draw(rates, &name, &|fails| What::Link { link, fails });
                }
            }
            let first = self.hosts() + self.devices();
            for (switch, named) in self.graph.switches.iter().enumerate() {
                if let Some(rates) = &params.switches {
                    let component = first + switch;
                    draw(rates, &named.name, &|fails| What::Component {
                        component,
                        fails,
                    });
                }
            }
        }
        if all.len() > MOST_CHANGES {
            let path = match self.scenario.events.len() > MOST_CHANGES {
                true => "events",
                false => "failures.random.until",
            };
            return Err(Problem::new(
                path,
                format!(
                    "found more than {MOST_CHANGES} failures and repairs in all; allowed: at most so many"
                ),
            ));
        }
        all.sort_by_key(|change| change.at);
        Ok(all)
    }

    /// Failure events in the order of their effect: commands to ports take effect later than they
    /// are issued, and a reset begins and ends. Each entry has the time, the number of the event,
    /// and whether the entry ends a reset.
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

    /// Numbers of the components at both ends of a link.
    fn ends(&self, link: usize) -> [usize; 2] {
        let planned = &self.links[link];
        [self.component(planned.a), self.component(planned.b)]
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

    /// Applies a failure or a repair to `left`; returns the change of each affected component.
    fn happen(&self, left: &mut Left, what: What) -> Result<Vec<(usize, FailureChange)>, Problem> {
        match what {
            What::Event { number, ends } => {
                let path = format!("events[{number}]");
                self.event(left, &path, &self.scenario.events[number], ends)
            }
            What::Link { link, fails } => {
                Ok(self.change_link(left, link, |left| left.broken_links[link] = fails))
            }
            What::Component { component, fails } => {
                Ok(self.change_component(left, component, |left| left.broken[component] = fails))
            }
        }
    }

    /// Changes the state of a link; returns the changes at both ends.
    fn change_link(
        &self,
        left: &mut Left,
        link: usize,
        change: impl FnOnce(&mut Left),
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
    fn change_component(
        &self,
        left: &mut Left,
        component: usize,
        change: impl FnOnce(&mut Left),
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

    /// Applies an event, or its end, to `left`; returns the change of each affected component.
    fn event(
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
                if !left.is_there(self, at) {
                    return Err(wrong(
                        format!("\"link-down\" of `{}--{}`, which is down", link[0], link[1]),
                        "\"link-down\" of a link that is up, between components that are there",
                    ));
                }
                Ok(self.change_link(left, at, |left| left.down[at] = true))
            }
            EventParams::LinkUp { link, number, .. } => {
                let at = self.link(path, link, *number)?;
                let was_down = left.down[at];
                let does = self.change_link(left, at, |left| left.down[at] = false);
                if !was_down || !left.is_there(self, at) {
                    return Err(wrong(
                        format!(
                            "\"link-up\" of `{}--{}`, which cannot come up",
                            link[0], link[1]
                        ),
                        "\"link-up\" after a \"link-down\", between components that are there",
                    ));
                }
                Ok(does)
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
                // Links and components that are down for another reason stay down.
                Ok(self.change_link(left, at, |left| left.reset[at] = !ends))
            }
            EventParams::SwitchDown { switch, .. } => {
                let names = self.graph.switches.iter().map(|one| one.name.clone());
                let names: Vec<String> = names.collect();
                let first = self.hosts() + self.devices();
                let path = format!("{path}.switch");
                self.die(left, path, first, switch, "a switch", &names)
            }
            EventParams::SwitchUp { switch, .. } => {
                let names = self.graph.switches.iter().map(|one| one.name.clone());
                let names: Vec<String> = names.collect();
                let path = format!("{path}.switch");
                let Some(at) = names.iter().position(|known| known == switch) else {
                    return Err(unknown(path, switch, "a switch", &names));
                };
                let component = self.hosts() + self.devices() + at;
                if !left.dead[component] {
                    let message = format!(
                        "found `{switch}`, which is there; allowed: a switch that an earlier \"switch-down\" has taken"
                    );
                    return Err(Problem::new(path, message));
                }
                Ok(self.change_component(left, component, |left| left.dead[component] = false))
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

    /// Fails a component of `names`, whose numbers begin at `first`, together with its links.
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
        Ok(self.change_component(left, component, |left| left.dead[component] = true))
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

    /// Checks that every device whose hosts are unbound by a link failure has a link to a switch.
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

    /// The link with this number among those between two components.
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

    /// The links between switches that do not work, as the graph numbers them.
    fn cut(&self, left: &Left) -> Vec<bool> {
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
    /// By endpoint: its link to a switch.
    switched: Vec<Option<usize>>,
    /// By host and device, as endpoint numbers: the link between them.
    direct: BTreeMap<(usize, usize), usize>,
}

/// The fabric manager. It learns of failures and repairs after `reconfiguration_time`,
/// and changes the routing.
struct Router<'a> {
    fabric: &'a Fabric<'a>,
    edges: Edges,
    /// The failures that the fabric manager knows of.
    known: Left,
    all: Failures,
    channels: Channels,
    /// All routing tables made so far.
    tables: Vec<Arc<RoutingTables>>,
    /// Number of the tables, by the set of links that are cut.
    made: BTreeMap<Vec<bool>, usize>,
    /// By number of the tables: the last routing state that used them.
    state_of: Vec<Option<usize>>,
    /// Number of the tables in force.
    current: usize,
    /// A pending change of the routing, which waits for virtual channels to drain.
    waiting: Option<Waiting>,
    /// By host: the devices that the host knows to be unreachable.
    cut_off: Vec<Vec<bool>>,
    /// Most pairs of host and device that random failures have cut off at the same time.
    most_cut_off: usize,
}

/// A pending change of the routing.
struct Waiting {
    tables: usize,
    due: Picos,
    grant: Grant,
}

impl<'a> Router<'a> {
    fn new(fabric: &'a Fabric<'a>, components: usize) -> Router<'a> {
        let params = fabric.scenario.failures.clone().unwrap_or_default();
        let needed = fabric.tables.virtual_channels();
        let most = fabric.scenario.fabric.virtual_channels.max(needed);
        let channels = Channels::new(most, params.drain_time(), needed);
        Router {
            edges: fabric.edges(),
            known: Left::whole(fabric.links.len(), components),
            channels,
            tables: vec![Arc::clone(fabric.tables)],
            made: BTreeMap::from([(vec![false; fabric.graph.links.len()], 0)]),
            state_of: vec![Some(0)],
            current: 0,
            waiting: None,
            cut_off: vec![vec![false; fabric.devices()]; fabric.hosts()],
            most_cut_off: 0,
            all: Failures {
                params,
                states: vec![RoutingState {
                    tables: Arc::clone(fabric.tables),
                    channels: ((1_u32 << needed) - 1) as u8,
                }],
                fabrics: 1,
                virtual_channels: needed,
                times: Vec::new(),
                routing: Vec::new(),
                timelines: vec![Vec::new(); components],
            },
            fabric,
        }
    }

    /// Processes failures and repairs that the fabric manager learns of at the same time.
    fn know(&mut self, changes: &[Change], notes: &mut Vec<Note>) -> Result<(), Problem> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let due = last.at + self.all.params.reconfiguration_time;
        self.wait_for(due);
        for change in changes {
            self.fabric.happen(&mut self.known, change.what)?;
        }
        let wanted = self.tables_of(last.what)?;
        let since = self.waiting.take().map_or(due, |waiting| waiting.due);
        if wanted != self.current {
            let kept = self.state_of[wanted].filter(|state| self.channels.has_all(*state));
            match kept {
                Some(state) => {
                    self.channels.resume(state, due);
                    self.begin(wanted, state, since, due, false);
                }
                None => {
                    let needed = self.tables[wanted].virtual_channels();
                    self.waiting = Some(Waiting {
                        tables: wanted,
                        due: since,
                        grant: self.channels.grant(needed, due),
                    });
                    self.wait_for(due + Picos(1));
                }
            }
        }
        self.tell_hosts(due);
        let pairs = self.pairs_cut_off(wanted);
        match last.what {
            What::Event { number, .. } if pairs > 0 => {
                let event = self.fabric.scenario.events[number].describe();
                notes.push(Note::new(
                    format!("events[{number}]"),
                    format!(
                        "after this event ({event}) {pairs} pairs of host and device are cut off"
                    ),
                ));
            }
            What::Event { .. } => {}
            What::Link { .. } | What::Component { .. } => {
                self.most_cut_off = self.most_cut_off.max(pairs);
            }
        }
        Ok(())
    }

    /// The number of the tables for the links known to work. New tables are made if
    /// there are none yet.
    fn tables_of(&mut self, what: What) -> Result<usize, Problem> {
        let cut = self.fabric.cut(&self.known);
        if let Some(number) = self.made.get(&cut) {
            return Ok(*number);
        }
        let (graph, most) = (
            self.fabric.graph,
            self.fabric.scenario.fabric.virtual_channels,
        );
        let kind = self.fabric.tables.kind();
        let tables = RoutingTables::build_without(graph, kind, most, |link| cut[link]);
        let tables = tables.map_err(|error| {
            Problem::new(
                format!("{}.kind", what.path()),
                format!("found a failure after which {error}"),
            )
        })?;
        let number = self.tables.len();
        self.tables.push(Arc::new(tables));
        self.state_of.push(None);
        self.made.insert(cut, number);
        Ok(number)
    }

    /// Puts the pending change into force if that is due before `time`.
    fn wait_for(&mut self, time: Picos) {
        let Some(waiting) = self.waiting.take_if(|waiting| waiting.grant.at < time) else {
            return;
        };
        let Grant {
            at,
            channels,
            overlaps,
        } = waiting.grant;
        let state = self.channels.begin(channels, at);
        self.all.states.push(RoutingState {
            tables: Arc::clone(&self.tables[waiting.tables]),
            channels,
        });
        let used = u8::BITS - channels.leading_zeros();
        self.all.virtual_channels = self.all.virtual_channels.max(used as u8);
        self.state_of[waiting.tables] = Some(state);
        self.begin(waiting.tables, state, waiting.due, at, overlaps);
        self.tell_hosts(at);
    }

    /// Puts tables into force as the routing state of this number.
    fn begin(&mut self, tables: usize, state: usize, due: Picos, at: Picos, overlaps: bool) {
        self.current = tables;
        let change = RoutingChange { due, at, overlaps };
        self.all.routing.push(change);
        let endpoints = self.fabric.hosts() + self.fabric.devices();
        for timeline in &mut self.all.timelines[endpoints..] {
            timeline.push((at, FailureChange::Route(state)));
        }
    }

    /// Updates each host's list of unreachable devices to the tables in force, if
    /// the list has changed.
    fn tell_hosts(&mut self, at: Picos) {
        let tables = &self.tables[self.current];
        for (host, before) in self.cut_off.iter_mut().enumerate() {
            let now = self.fabric.cut_off(&self.known, &self.edges, tables, host);
            if now != *before {
                let change = FailureChange::CutOff(now.as_slice().into());
                self.all.timelines[host].push((at, change));
                *before = now;
            }
        }
    }

    /// Number of pairs of host and device that are cut off with these tables.
    fn pairs_cut_off(&self, tables: usize) -> usize {
        let tables = &self.tables[tables];
        let of = |host| {
            let cut = self.fabric.cut_off(&self.known, &self.edges, tables, host);
            cut.iter().filter(|cut| **cut).count()
        };
        (0..self.fabric.hosts()).map(of).sum()
    }

    /// Adds notes on delayed and lossy changes of the routing, and on devices that are cut off.
    fn note(&mut self, notes: &mut Vec<Note>) {
        self.all.fabrics = self.state_of.iter().flatten().count();
        let routing = &self.all.routing;
        let waits = routing.iter().map(|one| one.at.0 - one.due.0);
        let waited = waits.clone().filter(|wait| *wait > 0).count();
        if waited > 0 {
            let longest = Picos(waits.max().unwrap_or(0));
            notes.push(Note::new(
                "failures.drain_time",
                format!(
                    "{waited} of {} changes of the routing wait until virtual channels of earlier routing states have \
                     drained, {longest} at the longest; a shorter `drain_time` shortens that",
                    routing.len()
                ),
            ));
        }
        let overlapping = routing.iter().filter(|one| one.overlaps).count();
        if overlapping > 0 {
            notes.push(Note::new(
                "fabric.virtual_channels",
                format!(
                    "{overlapping} of {} changes of the routing discard messages in flight, because there are too few \
                     virtual channels for tables before and after",
                    routing.len()
                ),
            ));
        }
        if self.most_cut_off > 0 {
            notes.push(Note::new(
                "failures.random",
                format!(
                    "up to {} pairs of host and device are cut off at a time",
                    self.most_cut_off
                ),
            ));
        }
    }
}
