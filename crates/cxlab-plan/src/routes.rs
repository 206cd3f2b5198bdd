//! Routes through the fabric: the directions of links that a message takes, with their
//! probabilities, and the constant time of all stages.

use std::collections::BTreeMap;

use cxlab_analytic::{ConstantStages, MessageClass, Visit};
use cxlab_engine::units::Picos;
use cxlab_fabric::routing::{PortPeer, RoutingKind};
use cxlab_host::RequesterParams;
use cxlab_link::{Duplex, LinkParams, Transmitter};

use crate::links::End;
use crate::plan::Plan;

/// Number of the queueing station for one direction of a link. Both directions of a half-duplex
/// link share a station.
pub fn station(link: usize, params: &LinkParams, forward: bool) -> u32 {
    let forward = forward || params.duplex == Duplex::Half;
    2 * link as u32 + u32::from(!forward)
}

/// One direction of a link, as a step of a route.
#[derive(Clone, Copy)]
struct Step {
    link: usize,
    /// Whether the step goes from end `a` to end `b` of the link.
    forward: bool,
    /// Probability that a message takes this step.
    share: f64,
    /// The station of the previous link on the route.
    from: Option<u32>,
}

/// The route of a message. It has several paths if the routing chooses among ports.
pub struct Route {
    steps: Vec<Step>,
}

/// Finds routes in a plan.
pub struct Router<'a> {
    plan: &'a Plan,
    /// By switch and port: the number of the link, and whether this end is the link's `a`.
    by_switch: BTreeMap<(usize, u16), (usize, bool)>,
    /// By pair of host and device with a direct link: the number of the link.
    direct: BTreeMap<(usize, usize), usize>,
    /// By endpoint that is linked to a switch: the number of the link.
    edges: BTreeMap<usize, usize>,
}

impl<'a> Router<'a> {
    /// Indexes the links of a plan by their ends.
    pub fn new(plan: &'a Plan) -> Router<'a> {
        let mut router = Router {
            plan,
            by_switch: BTreeMap::new(),
            direct: BTreeMap::new(),
            edges: BTreeMap::new(),
        };
        let hosts = plan.hosts.len();
        for (number, link) in plan.links.iter().enumerate() {
            for (end, is_a) in [(link.a, true), (link.b, false)] {
                if let End::Switch(switch, port) = end {
                    router.by_switch.insert((switch, port), (number, is_a));
                }
            }
            match (link.a, link.b) {
                (End::Host(host, _), End::Device(device, _)) => {
                    router.direct.insert((host, hosts + device), number);
                }
                (End::Host(host, _), _) => {
                    router.edges.insert(host, number);
                }
                (End::Device(device, _), _) => {
                    router.edges.insert(hosts + device, number);
                }
                (End::Switch(..), _) => {}
            }
        }
        router
    }

    /// The route from one endpoint to another, by their numbers; `None` where none exists.
    pub fn route(&self, source: usize, destination: usize) -> Option<Route> {
        let pair = (source.min(destination), source.max(destination));
        if let Some(link) = self.direct.get(&pair) {
            return Some(Route::along(*link, source < destination));
        }
        let ports = self.plan.tables.ports();
        // For an endpoint linked to a switch, the endpoint is the link's `a`.
        let first = *self.edges.get(&source)?;
        let mut route = Route::along(first, true);
        // The probability that a message reaches a switch, by the switch and the station before it.
        let edge = ports.edge(source)?.0;
        let mut at = BTreeMap::from([((edge, self.station(first, true)), 1.0)]);
        while !at.is_empty() {
            let mut next = BTreeMap::new();
            for ((switch, from), mass) in &at {
                for (port, part) in self.outputs(*switch, source, destination) {
                    let (link, forward) = *self.by_switch.get(&(*switch, port))?;
                    route.steps.push(Step {
                        link,
                        forward,
                        share: mass * part,
                        from: Some(*from),
                    });
                    if let PortPeer::Switch { index, .. } = ports.of(*switch)[port as usize] {
                        let came = (index, self.station(link, forward));
                        *next.entry(came).or_insert(0.0) += mass * part;
                    }
                }
            }
            at = next;
        }
        Some(route)
    }

    /// Unloaded latency of a read from a host to its nearest device, without
    /// the medium, in picoseconds.
    pub fn nearest_ps(&self, host: usize) -> Option<u64> {
        let devices = 0..self.plan.devices.len();
        let times = devices.filter_map(|device| self.unloaded_ps((host, device)));
        times.min()
    }

    /// Unloaded latency of a read from a host to a device, without the medium, in picoseconds.
    /// `None` if the host's address map does not contain the device.
    pub fn unloaded_ps(&self, (host, device): (usize, usize)) -> Option<u64> {
        let plan = self.plan;
        let target = plan.hosts.len() + device;
        let mut targets = plan.hosts[host].targets(plan.hosts.len());
        targets.find(|number| *number == device)?;
        let (there, back) = (self.route(host, target)?, self.route(target, host)?);
        let group = plan.memory_group(&plan.devices[device])?;
        let issue = plan.scenario.hosts[plan.hosts[host].group].requester();
        let mut stages = ConstantStages {
            process: issue.unwrap_or(&RequesterParams::default()).egress().0,
            device: group.controller.process_time.0,
            ..ConstantStages::default()
        };
        there.add_stages(plan, MessageClass::request(false), &mut stages);
        back.add_stages(plan, MessageClass::response(false), &mut stages);
        Some(stages.named().iter().map(|(_, time)| time).sum())
    }

    fn station(&self, link: usize, forward: bool) -> u32 {
        station(link, &self.plan.links[link].params, forward)
    }

    /// Rate of the link at a port of a switch, in bytes per second.
    fn rate(&self, switch: usize, port: u16) -> f64 {
        let link = self.by_switch.get(&(switch, port));
        let rate = |link: usize| self.plan.links[link].params.rate().0 as f64;
        link.map_or(1.0, |(link, _)| rate(*link))
    }

    /// Output ports of a switch towards a destination, with their probabilities.
    fn outputs(&self, switch: usize, source: usize, destination: usize) -> Vec<(u16, f64)> {
        let tables = &self.plan.tables;
        let candidates = tables.candidates(switch, destination);
        match tables.kind() {
            RoutingKind::Shortest | RoutingKind::Oblivious if !candidates.is_empty() => {
                let kind = tables.kind();
                let port = kind.pick(candidates, switch, source, destination, || 0, |_| 0);
                vec![(port, 1.0)]
            }
            // Random routing takes each port equally often; adaptive routing evens out their load.
            kind => {
                let weight = |port: &u16| match kind {
                    RoutingKind::Adaptive => self.rate(switch, *port),
                    _ => 1.0,
                };
                let sum: f64 = candidates.iter().map(weight).sum();
                let part = |port: &u16| (*port, weight(port) / sum);
                candidates.iter().map(part).collect()
            }
        }
    }
}

/// Earliest time at which any host's request can complete, in picoseconds. `None` if some request
/// may complete without the fabric, in a cache or in local memory.
pub(crate) fn first_completion_ps(plan: &Plan) -> Option<u64> {
    let uses_fabric = |host: &usize| {
        let issue = plan.scenario.hosts[plan.hosts[*host].group].requester();
        issue.is_some_and(|issue| issue.cache.is_none())
    };
    let hosts = 0..plan.hosts.len();
    if !plan.scenario.accelerators.is_empty() || !hosts.clone().all(|host| uses_fabric(&host)) {
        return None;
    }
    let router = Router::new(plan);
    hosts.filter_map(|host| router.nearest_ps(host)).min()
}

impl Route {
    /// The route along one direction of a link.
    fn along(link: usize, forward: bool) -> Route {
        let step = Step {
            link,
            forward,
            share: 1.0,
            from: None,
        };
        Route { steps: vec![step] }
    }

    /// Expected number of links between the two ends.
    pub fn hops(&self) -> u32 {
        self.expected(|_| 1.0) as u32
    }

    /// Expected sum of a quantity over the links of the route, rounded to an integer.
    fn expected(&self, of: impl Fn(usize) -> f64) -> u64 {
        let steps = self.steps.iter();
        libm::round(steps.map(|step| step.share * of(step.link)).sum::<f64>()) as u64
    }

    /// The stations that messages of a class visit. `from` is the station before
    /// the route's first one.
    pub fn visits(
        &self,
        plan: &Plan,
        class: MessageClass,
        from: Option<u32>,
    ) -> impl Iterator<Item = Visit> {
        self.steps.iter().map(move |step| Visit {
            station: station(step.link, &plan.links[step.link].params, step.forward),
            class,
            from: step.from.or(from),
            share: step.share,
        })
    }

    /// The last stations of the route, with their probabilities.
    pub fn last(&self, plan: &Plan) -> Vec<(u32, f64)> {
        let all = self.steps.iter().map(|step| {
            let params = &plan.links[step.link].params;
            (station(step.link, params, step.forward), step.share)
        });
        let leads = |at: u32| self.steps.iter().any(|step| step.from == Some(at));
        all.filter(|(at, _)| !leads(*at)).collect()
    }

    /// Adds the constant time of links, ports and switches; the expected value if
    /// there are several paths.
    pub fn add_stages(&self, plan: &Plan, class: MessageClass, stages: &mut ConstantStages) {
        let params = |link: usize| &plan.links[link].params;
        let half = |link: usize| params(link).duplex == Duplex::Half;
        stages.link += self.expected(|link| {
            let params = params(link);
            let alone = Transmitter::alone_ps(params, class.channel()) + params.flight_ps();
            // Handing a message to a bus takes 1 ps, which the propagation time compensates if
            // it is not zero.
            let handed = u64::from(half(link) && params.propagation == Picos::ZERO);
            (alone + handed) as f64
        });
        stages.port += self.expected(|link| params(link).ports_ps() as f64);
        stages.switch_queue += self.expected(|link| match half(link) {
            true => params(link).turnaround.0 as f64,
            false => 0.0,
        });
        let switches = u64::from(self.hops()) - 1;
        stages.switch += switches * plan.scenario.fabric.switch.switching_time.0;
    }
}
