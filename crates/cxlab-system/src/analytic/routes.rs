//! Ways through the fabric: which directions of links a message takes, with what chance, and the
//! constant time of all its stages.

use std::collections::BTreeMap;

use cxlab_analytic::{Class, Stages, Visit};
use cxlab_engine::units::Picos;
use cxlab_fabric::routing::{PortPeer, RoutingKind};
use cxlab_link::{Duplex, LinkParams, Transmitter};

use crate::plan::{End, Plan};

/// The number of the station of a link's direction: half-duplex links have one for both.
pub(super) fn station(link: usize, params: &LinkParams, forward: bool) -> u32 {
    let forward = forward || params.duplex == Duplex::Half;
    2 * link as u32 + u32::from(!forward)
}

/// A direction of a link on a message's way.
#[derive(Clone, Copy)]
struct Step {
    link: usize,
    /// Whether it leads from `a` to `b`.
    forward: bool,
    /// With what chance it is taken.
    share: f64,
    /// The station of the link before it.
    from: Option<u32>,
}

/// A message's way.
pub(super) struct Way {
    steps: Vec<Step>,
}

/// Finds ways in a plan.
pub(super) struct Router<'a> {
    plan: &'a Plan,
    /// The link at each end, and whether that end is its `a`.
    by_switch: BTreeMap<(usize, u16), (usize, bool)>,
    /// By pair of host and device without a switch between: their link.
    direct: BTreeMap<(usize, usize), usize>,
    /// By endpoint with a switch: its link.
    edges: BTreeMap<usize, usize>,
}

impl<'a> Router<'a> {
    pub(super) fn new(plan: &'a Plan) -> Router<'a> {
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

    /// The way from one endpoint to another, by their numbers; `None` where none leads.
    pub(super) fn way(&self, source: usize, destination: usize) -> Option<Way> {
        let pair = (source.min(destination), source.max(destination));
        if let Some(link) = self.direct.get(&pair) {
            return Some(Way {
                steps: vec![Step {
                    link: *link,
                    forward: source < destination,
                    share: 1.0,
                    from: None,
                }],
            });
        }
        let ports = self.plan.tables.ports();
        // An endpoint with a switch is the link's `a`.
        let first = *self.edges.get(&source)?;
        let mut way = Way {
            steps: vec![Step {
                link: first,
                forward: true,
                share: 1.0,
                from: None,
            }],
        };
        // By switch and the station that leads there: with what chance.
        let edge = ports.edge(source)?.0;
        let mut at = BTreeMap::from([((edge, self.station(first, true)), 1.0)]);
        while !at.is_empty() {
            let mut next = BTreeMap::new();
            for ((switch, from), mass) in &at {
                for (port, part) in self.outputs(*switch, source, destination) {
                    let (link, forward) = *self.by_switch.get(&(*switch, port))?;
                    way.steps.push(Step {
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
        Some(way)
    }

    fn station(&self, link: usize, forward: bool) -> u32 {
        station(link, &self.plan.links[link].params, forward)
    }

    /// The rate of the link at a port of a switch, in bytes per second.
    fn rate(&self, switch: usize, port: u16) -> f64 {
        let link = self.by_switch.get(&(switch, port));
        link.map_or(1.0, |(link, _)| {
            self.plan.links[*link].params.rate().0 as f64
        })
    }

    /// The ports by which messages leave a switch, with what chance.
    fn outputs(&self, switch: usize, source: usize, destination: usize) -> Vec<(u16, f64)> {
        let tables = &self.plan.tables;
        let candidates = tables.candidates(switch, destination);
        match tables.kind() {
            RoutingKind::Shortest | RoutingKind::Oblivious if !candidates.is_empty() => {
                let kind = tables.kind();
                let port = kind.pick(candidates, switch, source, destination, || 0, |_| 0);
                vec![(port, 1.0)]
            }
            // Random takes each as often; adaptive evens out their load.
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

impl Way {
    /// Links from end to end.
    pub(super) fn hops(&self) -> u32 {
        self.expected(|_| 1.0) as u32
    }

    /// The expected sum of a quantity of the links of the way, rounded.
    fn expected(&self, of: impl Fn(usize) -> f64) -> u64 {
        let steps = self.steps.iter();
        libm::round(steps.map(|step| step.share * of(step.link)).sum::<f64>()) as u64
    }

    /// The stations that messages of a class visit. `from` is where they are before the first.
    pub(super) fn visits(
        &self,
        plan: &Plan,
        class: Class,
        from: Option<u32>,
    ) -> impl Iterator<Item = Visit> {
        self.steps.iter().map(move |step| Visit {
            station: station(step.link, &plan.links[step.link].params, step.forward),
            class,
            from: step.from.or(from),
            share: step.share,
        })
    }

    /// The stations that lead to its end, with what chance.
    pub(super) fn last(&self, plan: &Plan) -> Vec<(u32, f64)> {
        let all: Vec<(u32, f64)> = (self.steps.iter())
            .map(|step| {
                let params = &plan.links[step.link].params;
                (station(step.link, params, step.forward), step.share)
            })
            .collect();
        let leads = |at: &u32| self.steps.iter().any(|step| step.from == Some(*at));
        all.into_iter().filter(|(at, _)| !leads(at)).collect()
    }

    /// Adds the constant time of links, ports and switches, expected where there are several ways.
    pub(super) fn add_stages(&self, plan: &Plan, class: Class, stages: &mut Stages) {
        let params = |link: usize| &plan.links[link].params;
        let half = |link: usize| params(link).duplex == Duplex::Half;
        stages.link += self.expected(|link| {
            let params = params(link);
            let alone = Transmitter::alone_ps(params, class.channel()) + params.flight_ps();
            // Handing over to a bus takes 1 ps that the wire gives back, where it has one.
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
