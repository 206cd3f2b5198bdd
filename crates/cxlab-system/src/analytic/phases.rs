//! Hosts that end during the run. The network changes when a host ends, so the report is the mean over
//! several networks, each weighted by its time in the measured window.

use cxlab_analytic::{Network, Solution, StationLoad, solve};
use cxlab_plan::Plan;
use cxlab_plan::windows::{WindowEnd, windows};

/// Most phases that are computed. Hosts that end later are treated as endless.
const MOST: usize = 64;

/// The mean solution over the measured window, and how many phases that window has.
pub(super) fn solve_phases(plan: &Plan, network: &Network) -> (Solution, usize) {
    let requests = |host: usize| plan.scenario.hosts[plan.hosts[host].group].requests;
    let mut left: Vec<f64> = (0..plan.hosts.len())
        .map(|host| requests(host).map_or(f64::INFINITY, |requests| requests as f64))
        .collect();
    let mut solution = solve(network);
    if left.iter().all(|left| left.is_infinite()) {
        return (solution, 1);
    }
    let (warmup, window) = windows(plan);
    let mut before = Span::of(warmup);
    let mut measured = Span::of(window);
    let mut mean = Mean::default();
    for _ in 0..MOST {
        let total: f64 = solution.rates.iter().sum();
        if total <= 0.0 {
            break;
        }
        let ends = |(left, rate): (&f64, &f64)| match *rate > 0.0 {
            true => left / rate,
            false => f64::INFINITY,
        };
        let ends = left.iter().zip(&solution.rates).map(ends);
        let next = ends.fold(f64::INFINITY, f64::min);
        let span = next.min(match before.lasts(total) {
            0.0 => measured.lasts(total),
            lasts => lasts,
        });
        if !span.is_finite() {
            mean.add(&solution, network, 1.0);
            break;
        }
        if before.lasts(total) > 0.0 {
            before.pass(span, total);
        } else {
            mean.add(&solution, network, span);
            measured.pass(span, total);
        }
        for (left, rate) in left.iter_mut().zip(&solution.rates) {
            *left -= rate * span;
            if *left < 1e-6 * rate * span {
                *left = 0.0;
            }
        }
        if measured.lasts(total) <= 0.0 {
            break;
        }
        if span >= next {
            solution = solve(&without(network, &left));
        }
    }
    match mean.phases {
        0 => (solution, 1),
        phases => (mean.solution, phases),
    }
}

/// The remaining length of a warm-up or a window.
enum Span {
    Requests(f64),
    Picos(f64),
    End,
}

impl Span {
    fn of(until: WindowEnd) -> Span {
        match until {
            WindowEnd::Requests(requests) => Span::Requests(requests as f64),
            // A warm-up that ends by itself lasts at least a tenth of its maximum.
            WindowEnd::SettledRequests(requests) => Span::Requests(requests as f64 / 10.0),
            WindowEnd::Time(time) => Span::Picos(time.0 as f64),
            WindowEnd::SettledTime(time) => Span::Picos(time.0 as f64 / 10.0),
            WindowEnd::End => Span::End,
        }
    }

    /// Time that the span lasts at `rate` requests per picosecond.
    fn lasts(&self, rate: f64) -> f64 {
        match self {
            Span::Requests(left) => left / rate,
            Span::Picos(left) => *left,
            Span::End => f64::INFINITY,
        }
    }

    fn pass(&mut self, span: f64, rate: f64) {
        let (left, passed) = match self {
            Span::Requests(left) => (left, span * rate),
            Span::Picos(left) => (left, span),
            Span::End => return,
        };
        *left = match *left - passed > 1e-9 * *left {
            true => *left - passed,
            false => 0.0,
        };
    }
}

fn without(network: &Network, left: &[f64]) -> Network {
    let mut network = network.clone();
    for flow in &mut network.flows {
        if left[flow.host as usize] <= 0.0 {
            flow.share = 0.0;
        }
    }
    for (host, left) in network.hosts.iter_mut().zip(left) {
        if *left <= 0.0 {
            host.outstanding = 0.0;
        }
    }
    network
}

/// Means over time, and for latencies means over requests.
#[derive(Default)]
struct Mean {
    solution: Solution,
    /// By flow: number of requests so far.
    requests: Vec<f64>,
    time: f64,
    phases: usize,
}

impl Mean {
    fn add(&mut self, new: &Solution, network: &Network, span: f64) {
        self.phases += 1;
        if self.phases == 1 {
            self.solution = Solution {
                rates: vec![0.0; new.rates.len()],
                stations: vec![StationLoad::default(); new.stations.len()],
                ..new.clone()
            };
            self.requests = vec![0.0; new.latency_ps.len()];
        }
        let old = &mut self.solution;
        old.settled &= new.settled;
        self.time += span;
        let part = span / self.time;
        let join = |old: &mut f64, new: f64, part: f64| *old += (new - *old) * part;
        for (old, new) in old.rates.iter_mut().zip(&new.rates) {
            join(old, *new, part);
        }
        for (old, new) in old.stations.iter_mut().zip(&new.stations) {
            old.join(new, part);
        }
        for (at, flow) in network.flows.iter().enumerate() {
            let requests = new.rates[flow.host as usize] * flow.share * span;
            self.requests[at] += requests;
            let part = requests / self.requests[at].max(f64::MIN_POSITIVE);
            join(&mut old.latency_ps[at], new.latency_ps[at], part);
            for (old, new) in old.waits_ps[at].iter_mut().zip(&new.waits_ps[at]) {
                join(old, *new, part);
            }
        }
    }
}
