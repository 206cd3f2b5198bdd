//! Failures and repairs, by events and at random: their order, and what each changes.

use std::collections::BTreeMap;

use cxlab_engine::units::Picos;
use cxlab_scenario::{EventParams, PortAction};

use super::fabric::{Fabric, SurvivingFabric};
use super::planned::FailureChange;
use super::random;
use crate::problem::{Problem, unknown};

/// Most failures and repairs of a run: a message has 16 bits for the number of its routing state.
const MOST_CHANGES: usize = 65_000;

pub(super) struct Change {
    pub(super) at: Picos,
    pub(super) what: ChangedPart,
}

/// The component or event that fails or is repaired.
#[derive(Clone, Copy)]
pub(super) enum ChangedPart {
    /// The event of this number, or the end of the reset that it begins.
    Event {
        number: usize,
        ends: bool,
    },
    Link {
        link: usize,
        fails: bool,
    },
    Component {
        component: usize,
        fails: bool,
    },
}

impl ChangedPart {
    /// The path of the cause in the scenario.
    pub(super) fn path(self) -> String {
        match self {
            ChangedPart::Event { number, .. } => format!("events[{number}]"),
            ChangedPart::Link { .. } | ChangedPart::Component { .. } => {
                "failures.random".to_owned()
            }
        }
    }
}

impl Fabric<'_> {
    /// All failures and repairs, in the order in which they happen.
    pub(super) fn changes(&self) -> Result<Vec<Change>, Problem> {
        let events = self.in_order().into_iter();
        let mut all: Vec<Change> = events
            .map(|(at, number, ends)| Change {
                at,
                what: ChangedPart::Event { number, ends },
            })
            .collect();
        let params = self.scenario.failures.as_ref();
        if let Some(params) = params.and_then(|params| params.random.as_ref()) {
            let seed = self.scenario.seed;
            let mut draw = |rates, name: &str, what: &dyn Fn(bool) -> ChangedPart| {
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
                    draw(rates, &name, &|fails| ChangedPart::Link { link, fails });
                }
            }
            let first = self.hosts() + self.devices();
            for (switch, named) in self.graph.switches.iter().enumerate() {
                if let Some(rates) = &params.switches {
                    let component = first + switch;
                    draw(rates, &named.name, &|fails| ChangedPart::Component {
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
            let found = format_args!("more than {MOST_CHANGES} failures and repairs in all");
            return Err(Problem::refused(path, found, "at most so many"));
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

    fn switch_names(&self) -> Vec<String> {
        let switches = self.graph.switches.iter();
        switches.map(|switch| switch.name.clone()).collect()
    }

    /// Applies a failure or a repair to `left`; returns the change of each affected component.
    pub(super) fn happen(
        &self,
        left: &mut SurvivingFabric,
        what: ChangedPart,
    ) -> Result<Vec<(usize, FailureChange)>, Problem> {
        match what {
            ChangedPart::Event { number, ends } => {
                let path = format!("events[{number}]");
                self.event(left, &path, &self.scenario.events[number], ends)
            }
            ChangedPart::Link { link, fails } => {
                Ok(self.change_link(left, link, |left| left.broken_links[link] = fails))
            }
            ChangedPart::Component { component, fails } => {
                Ok(self.change_component(left, component, |left| left.broken[component] = fails))
            }
        }
    }

    /// Applies an event, or its end, to `left`; returns the change of each affected component.
    fn event(
        &self,
        left: &mut SurvivingFabric,
        path: &str,
        event: &EventParams,
        ends: bool,
    ) -> Result<Vec<(usize, FailureChange)>, Problem> {
        let wrong = |found: String, allowed: &str| {
            let found = format_args!("{found} at {}", event.at());
            Problem::refused(format!("{path}.kind"), found, allowed)
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
                let first = self.hosts() + self.devices();
                let path = format!("{path}.switch");
                self.die(left, path, first, switch, "a switch", &self.switch_names())
            }
            EventParams::SwitchUp { switch, .. } => {
                let names = self.switch_names();
                let path = format!("{path}.switch");
                let Some(at) = names.iter().position(|known| known == switch) else {
                    return Err(unknown(path, switch, "a switch", &names));
                };
                let component = self.hosts() + self.devices() + at;
                if !left.dead[component] {
                    let found = format_args!("`{switch}`, which is there");
                    let allowed = "a switch that an earlier \"switch-down\" has taken";
                    return Err(Problem::refused(path, found, allowed));
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
        left: &mut SurvivingFabric,
        path: String,
        first: usize,
        name: &str,
        what: &str,
        names: &[String],
    ) -> Result<Vec<(usize, FailureChange)>, Problem> {
        if names.is_empty() {
            let allowed = format_args!("{what}, of which there is none");
            return Err(Problem::refused(path, format_args!("`{name}`"), allowed));
        }
        let Some(at) = names.iter().position(|known| known == name) else {
            return Err(unknown(path, name, what, names));
        };
        let component = first + at;
        if left.dead[component] {
            let found = format_args!("`{name}`, which an earlier event has taken");
            let allowed = format_args!("{what} that is there");
            return Err(Problem::refused(path, found, allowed));
        }
        Ok(self.change_component(left, component, |left| left.dead[component] = true))
    }
}
