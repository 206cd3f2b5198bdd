//! Commands of the fabric manager to ports, and unbinding that waits until a link is down.

use cxlab_engine::units::Picos;
use cxlab_scenario::{EventParams, PortAction, Scenario};

use super::account::{Account, Holding, Step, wrong};
use super::commands::{PORT_CONTROL, UNBIND};
use super::response::Response;
use crate::limits::LONGEST_WINDOW;
use crate::problem::Problem;

/// The intervals in which the link of a device is down, in order. A failing switch does not count,
/// because it takes the vPPB with it.
fn downs(scenario: &Scenario, device: &str) -> Vec<(Picos, Picos)> {
    let params = scenario.manager();
    let command_time = params.command_time.min(LONGEST_WINDOW);
    let mut changes: Vec<(Picos, bool)> = Vec::new();
    for event in &scenario.events {
        let is_its = |link: &[String; 2]| link.iter().any(|end| end == device);
        let at = event.at().min(LONGEST_WINDOW);
        match event {
            EventParams::LinkDown { link, .. } if is_its(link) => changes.push((at, true)),
            EventParams::LinkUp { link, .. } if is_its(link) => changes.push((at, false)),
            EventParams::DeviceRemoved { device: gone, .. } if gone == device => {
                changes.push((at, true));
            }
            EventParams::PortControl { link, action, .. } if is_its(link) => {
                let at = at + command_time;
                let up = at + params.reset_time.min(LONGEST_WINDOW);
                match action {
                    PortAction::AssertPerst => changes.push((at, true)),
                    PortAction::DeassertPerst => changes.push((at, false)),
                    PortAction::ResetPpb => changes.extend([(at, true), (up, false)]),
                }
            }
            _ => {}
        }
    }
    changes.sort_by_key(|(at, _)| *at);
    let mut spans: Vec<(Picos, Picos)> = Vec::new();
    for (at, down) in changes {
        match spans.pop_if(|(_, until)| *until == Picos(u64::MAX)) {
            Some((from, _)) if !down => spans.push((from, at)),
            Some(open) => spans.push(open),
            None if down => spans.push((at, Picos(u64::MAX))),
            None => {}
        }
    }
    spans
}

impl Account<'_> {
    /// Unbinds a host from a device when the device's link goes down next.
    pub(crate) fn unbind_with_link(
        &mut self,
        path: &str,
        at: Picos,
        place: (usize, usize),
    ) -> Result<(), Problem> {
        let (host, device) = place;
        let now = at + self.params.command_time;
        let name = &self.named.names.devices[device];
        let mut spans = downs(self.scenario, name).into_iter();
        let next = spans.find(|(from, until)| *from >= now || now < *until);
        let Some((from, _)) = next else {
            return Err(Problem::refused(
                format!("{path}.option"),
                format_args!(
                    "\"wait-for-link-down\" at {at}, and the link of `{name}` is never down from {now} on"
                ),
                "before a \"link-down\" of it, a \"port-control\" or its removal",
            ));
        };
        let down = now.max(from);
        let has = Holding::No;
        let step = Step::Bind { host, device, has };
        if down == now {
            self.step(now, step);
        } else {
            self.later(down, step);
            self.waits.insert(place, down);
        }
        self.answer_of_device(at, UNBIND, place, Picos(down.0 - now.0));
        Ok(())
    }

    /// Refuses events about a host and a device while their unbinding waits.
    pub(crate) fn refuse_waiting(
        &self,
        path: &str,
        at: Picos,
        place: (usize, usize),
    ) -> Result<(), Problem> {
        let now = at + self.params.command_time;
        let Some(until) = self.waits.get(&place).filter(|until| **until > now) else {
            return Ok(());
        };
        let names = &self.named.names;
        let (host, device) = (&names.requesters[place.0], &names.devices[place.1]);
        let found = format!(
            "\"unbind\" of `{host}` from `{device}`, which waits for its link since an earlier \"unbind\""
        );
        let allowed = format!("one \"unbind\", which ends at {until}");
        Err(wrong(path, at, found, &allowed))
    }

    /// Records the response to a command about a port; the failures of the fabric model its effect.
    pub(crate) fn control_port(&mut self, at: Picos, link: &[String; 2], action: PortAction) {
        let more = match action {
            PortAction::ResetPpb => self.params.reset_time,
            PortAction::AssertPerst | PortAction::DeassertPerst => Picos::ZERO,
        };
        self.answer(at, PORT_CONTROL, link.join(", "), &[], more);
        let in_force = at + self.params.command_time;
        let changes = self.scenario.events.iter().filter_map(|event| match event {
            EventParams::SwitchDown { at, switch } => Some((at, switch, true)),
            EventParams::SwitchUp { at, switch } => Some((at, switch, false)),
            _ => None,
        });
        let mut before = changes.filter(|(at, switch, _)| **switch == link[0] && **at <= in_force);
        let gone = before.next_back().is_some_and(|(_, _, down)| down);
        if let Some(command) = self.commands.last_mut()
            && gone
        {
            command.response = Response::None(link[0].clone());
        }
    }
}
