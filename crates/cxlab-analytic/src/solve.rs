//! The fixed point: rates that agree with the waits that they cause.
//!
//! At a station, a message waits for the rest of what is on the wire when it comes, and for the
//! messages that wait already: `W = R + u W'` with `u` the used capacity and `W'` the mean wait
//! there. For one stream this is `R / (1 - u)`, the M/D/1 queue's wait with `R = u s / 2`. A
//! closed-loop host with `N` requests in flight has the rate `N / latency` (Little's law), so as
//! a station fills, waits grow until the hosts' rates fit its capacity: mean-value analysis with
//! the arrivals of an open network. `R` counts the messages of other hosts, and of the host's own
//! only a small part: those come spaced by the station before.

use crate::flow::{Class, Flow, Visit};
use crate::network::{Network, Station};
use crate::wire::{Rates, WireLoad};

/// The part of a host's own messages that its messages find at work at a wire. A stream that has
/// passed one wire is spaced, so the next finds it so; different ways and media undo a part of
/// that. *Assumed*; the tables in `docs/analytic.md` are its check.
const OWN: f64 = 0.05;
/// Latencies that change by less in a round, as a part of them, have settled.
const SETTLED: f64 = 1e-9;
/// Most rounds, and most visits in all of them.
const ROUNDS: usize = 20_000;
const WORK: usize = 2_000_000_000;

/// How a station is used.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct StationLoad {
    /// Messages in a picosecond, by class.
    pub rates: [f64; Class::COUNT],
    /// The part of what it can carry that is used, credits counted: 1 is full.
    pub used: f64,
    /// Of a wire: how it is used.
    pub wire: WireLoad,
    /// Mean wait, in picoseconds.
    pub wait_ps: f64,
}

/// What a network settles to.
#[derive(Clone, PartialEq, Debug)]
pub struct Solution {
    /// Requests of each host in a picosecond.
    pub rates: Vec<f64>,
    /// Mean latency of each flow, in picoseconds.
    pub latency_ps: Vec<f64>,
    /// Mean wait of each flow at each of its visits, in picoseconds.
    pub waits_ps: Vec<Vec<f64>>,
    /// By station.
    pub stations: Vec<StationLoad>,
    /// Whether the rates had settled when the work ended.
    pub settled: bool,
}

impl Solution {
    /// The fullest station.
    pub fn bottleneck(&self) -> Option<usize> {
        (0..self.stations.len()).max_by(|a, b| {
            let used = |station: &usize| self.stations[*station].used;
            used(a).total_cmp(&used(b)).then(b.cmp(a))
        })
    }
}

/// Solves a network.
pub fn solve(network: &Network) -> Solution {
    let mut state = State::new(network);
    let visits: usize = network.flows.iter().map(|flow| flow.visits.len()).sum();
    let rounds = (WORK / visits.max(1)).clamp(50, ROUNDS);
    let mut settled = false;
    for _ in 0..rounds {
        state.load(network);
        if state.respond(network) < SETTLED {
            settled = true;
            break;
        }
    }
    state.load(network);
    Solution {
        latency_ps: network
            .flows
            .iter()
            .zip(&state.waits)
            .map(|(flow, waits)| latency(flow, waits))
            .collect(),
        waits_ps: state.waits,
        rates: state.rates,
        stations: state.stations.iter().map(|one| one.report()).collect(),
        settled,
    }
}

/// A station in one round.
#[derive(Clone, Copy, Default)]
struct At {
    rates: Rates,
    /// Wait times rate, by class.
    waiting: Rates,
    used: Rates,
    wire: WireLoad,
}

impl At {
    fn mean_wait(&self, class: Class) -> f64 {
        let rate = self.rates[class as usize];
        match rate > 0.0 {
            true => self.waiting[class as usize] / rate,
            false => 0.0,
        }
    }

    fn report(&self) -> StationLoad {
        let all: f64 = self.rates.iter().sum();
        let waiting: f64 = self.waiting.iter().sum();
        StationLoad {
            rates: self.rates,
            used: self.used.iter().copied().fold(0.0, f64::max),
            wire: self.wire,
            wait_ps: if all > 0.0 { waiting / all } else { 0.0 },
        }
    }
}

struct State {
    rates: Vec<f64>,
    /// By host: how long a request takes a place.
    held: Vec<f64>,
    stations: Vec<At>,
    /// By flow and visit.
    waits: Vec<Vec<f64>>,
    /// One host's messages by station, and which stations those are.
    own: Vec<Rates>,
    touched: Vec<u32>,
}

impl State {
    fn new(network: &Network) -> State {
        let mut state = State {
            rates: vec![0.0; network.hosts.len()],
            held: vec![0.0; network.hosts.len()],
            stations: vec![At::default(); network.stations.len()],
            waits: network
                .flows
                .iter()
                .map(|flow| vec![0.0; flow.visits.len()])
                .collect(),
            own: vec![[0.0; Class::COUNT]; network.stations.len()],
            touched: Vec::new(),
        };
        for (number, host) in network.hosts.iter().enumerate() {
            let flows = network.flows.iter();
            let of_host = flows.filter(|flow| flow.host as usize == number);
            let alone: f64 = of_host
                .map(|flow| flow.share * flow.stages.total() as f64)
                .sum();
            state.rates[number] = rate(host.outstanding, host.interval_ps, alone);
        }
        state
    }

    /// The load of every station at the present rates and waits.
    fn load(&mut self, network: &Network) {
        self.stations.fill(At::default());
        for (flow, waits) in network.flows.iter().zip(&self.waits) {
            let flow_rate = self.rates[flow.host as usize] * flow.share;
            for (visit, wait) in flow.visits.iter().zip(waits) {
                let at = &mut self.stations[visit.station as usize];
                let rate = flow_rate * visit.share;
                at.rates[visit.class as usize] += rate;
                at.waiting[visit.class as usize] += rate * wait;
            }
        }
        for (at, station) in self.stations.iter_mut().zip(&network.stations) {
            match station {
                Station::Wire(wire) => {
                    at.wire = wire.load(&at.rates);
                    at.used = Class::ALL.map(|class| wire.used(&at.wire, &at.rates, class));
                }
                Station::Medium(medium) => {
                    at.used = [medium.used(at.rates.iter().sum()); Class::COUNT];
                }
            }
        }
    }

    /// New waits and rates, host by host; the largest change of a latency, as a part of it.
    fn respond(&mut self, network: &Network) -> f64 {
        let mut change: f64 = 0.0;
        let mut first = 0;
        while first < network.flows.len() {
            let host = network.flows[first].host as usize;
            let flows = network.flows[first..]
                .iter()
                .take_while(|flow| flow.host as usize == host)
                .count();
            let flows = first..first + flows;
            first = flows.end;
            self.note_own(network, flows.clone(), host);
            let mut held = 0.0;
            let places = network.hosts[host].outstanding;
            for number in flows {
                let flow = &network.flows[number];
                for (at, visit) in flow.visits.iter().enumerate() {
                    self.waits[number][at] = self.wait(network, visit, places);
                }
                held += flow.share * latency(flow, &self.waits[number]);
            }
            for station in self.touched.drain(..) {
                self.own[station as usize] = [0.0; Class::COUNT];
            }
            let limits = &network.hosts[host];
            let wanted = rate(limits.outstanding, limits.interval_ps, held);
            // Half of the way, so that rates and waits do not swing.
            self.rates[host] = 0.5 * (self.rates[host] + wanted);
            change = change.max((held - self.held[host]).abs() / held.max(1.0));
            self.held[host] = held;
        }
        change
    }

    fn note_own(&mut self, network: &Network, flows: std::ops::Range<usize>, host: usize) {
        for flow in &network.flows[flows] {
            for visit in &flow.visits {
                let own = &mut self.own[visit.station as usize];
                if own.iter().all(|rate| *rate == 0.0) {
                    self.touched.push(visit.station);
                }
                own[visit.class as usize] += self.rates[host] * flow.share * visit.share;
            }
        }
    }

    /// What a message waits, of the host whose own are noted and which has so many places.
    fn wait(&self, network: &Network, visit: &Visit, places: f64) -> f64 {
        let (station, class) = (visit.station as usize, visit.class);
        let at = &self.stations[station];
        let own = &self.own[station];
        // One at a time never meets itself.
        let most = 1.0 - 1.0 / places.max(1.0);
        let others = |met: f64| -> Rates {
            std::array::from_fn(|class| (at.rates[class] - (1.0 - met) * own[class]).max(0.0))
        };
        let residual = match &network.stations[station] {
            Station::Wire(wire) => wire.residual(&others(OWN * most)),
            // Banks and rows do not care how evenly requests come.
            Station::Medium(medium) => medium.residual(others(most).iter().sum()),
        };
        residual + at.used[class as usize] * at.mean_wait(class)
    }
}

/// The rate of a host whose requests take `held` each of its places: by its places (Little's law)
/// and by its pace.
fn rate(outstanding: f64, interval_ps: f64, held: f64) -> f64 {
    let by_places = outstanding / held.max(1.0);
    match interval_ps > 0.0 {
        true => by_places.min(1.0 / interval_ps),
        false => by_places,
    }
}

/// Constant stages and mean waits.
fn latency(flow: &Flow, waits: &[f64]) -> f64 {
    let visits = flow.visits.iter().zip(waits);
    flow.stages.total() as f64 + visits.map(|(visit, wait)| visit.share * wait).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Stages;
    use crate::medium::Medium;
    use crate::network::Host;

    /// Hosts that share one medium of 10 ns a line, 100 ns away.
    fn shared(hosts: usize, outstanding: f64, interval_ps: f64, away_ps: u64) -> Network {
        let medium = Medium {
            read_ps: 0,
            write_ps: 0,
            constant: true,
            service_ps: 10_000.0,
            half_wait_ps: 5_000.0,
        };
        let flow = |host: usize| Flow {
            host: host as u32,
            device: Some(0),
            write: false,
            share: 1.0,
            counts: true,
            hops: 1,
            stages: Stages {
                link: away_ps,
                ..Stages::default()
            },
            visits: vec![Visit {
                station: 0,
                class: Class::Req,
                share: 1.0,
            }],
        };
        Network {
            stations: vec![Station::Medium(medium)],
            hosts: vec![
                Host {
                    outstanding,
                    interval_ps
                };
                hosts
            ],
            flows: (0..hosts).map(flow).collect(),
        }
    }

    fn total(solution: &Solution) -> f64 {
        solution.rates.iter().sum()
    }

    #[test]
    fn one_request_at_a_time_never_waits() {
        let solution = solve(&shared(1, 1.0, 0.0, 100_000));
        assert_eq!(solution.latency_ps, [100_000.0]);
        assert!((total(&solution) * 100_000.0 - 1.0).abs() < 1e-9);
    }

    /// Many paced hosts are a Poisson stream, and the medium an M/D/1 queue.
    #[test]
    fn a_stream_of_many_hosts_waits_as_in_an_m_d_1_queue() {
        for used in [0.2, 0.5, 0.8, 0.95] {
            let hosts = 400;
            let solution = solve(&shared(hosts, 1000.0, hosts as f64 * 1e4 / used, 100_000));
            let wait = used * 10_000.0 / 2.0 / (1.0 - used);
            let found = solution.latency_ps[0] - 100_000.0;
            assert!((found / wait - 1.0).abs() < 0.01, "{used}: {found} {wait}");
            assert!(solution.settled);
        }
    }

    /// What hosts want beyond the capacity waits with them: Little's law gives the latency.
    #[test]
    fn a_full_station_gives_its_rate_and_littles_law_the_latency() {
        for (outstanding, interval) in [(64.0, 0.0), (64.0, 20_000.0)] {
            let solution = solve(&shared(4, outstanding, interval, 100_000));
            assert!(solution.settled);
            let rate = total(&solution);
            // W = R / (1 - u), so what is left of the capacity is R / W.
            let used = solution.stations[0].used;
            let left = used * 5_000.0 / (solution.latency_ps[0] - 100_000.0);
            assert!(((1.0 - used) / left - 1.0).abs() < 0.02, "{used} {left}");
            assert!(left < 0.003);
            let latency = 4.0 * outstanding / rate;
            assert!((solution.latency_ps[0] / latency - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn more_latency_never_gives_a_higher_rate() {
        let mut last = f64::INFINITY;
        for away in (0..40).map(|step| 1_000 + 25_000 * step) {
            let rate = total(&solve(&shared(3, 16.0, 0.0, away)));
            assert!(rate <= last * (1.0 + 1e-9), "{away}: {rate} after {last}");
            last = rate;
        }
    }
}
