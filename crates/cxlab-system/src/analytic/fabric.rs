//! The analytic form as one program sees it: pools of memory with latency and bandwidth.

use cxlab_analytic::{ErrorClass, ErrorClasses, Flow, HostLimits, Network, solve};
use cxlab_engine::units::Hpa;
use cxlab_plan::routes::Router;
use cxlab_plan::{Plan, Problem};

use super::demand;
use super::judge::{changing, of_others};
use super::{network_of, pair, refuse};

/// Demand of a program on a pool.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PoolDemand {
    /// Lines read, per nanosecond.
    pub reads_per_ns: f64,
    /// Lines written, per nanosecond.
    pub writes_per_ns: f64,
}

/// Response of a pool to a demand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PoolResponse {
    /// Latency of a read, from the core, at that demand.
    pub latency_ns: f64,
    /// Time that the fabric needs for the lines over the time in which they were asked for, at least 1.
    pub stretch: f64,
}

/// A plan whose first host is a program. Its other hosts run their workloads beside it. The number of lines in flight
/// is that of the program's machine, and not `issue.outstanding` of the host, which limits a traffic generator.
pub struct PlanFabric<'a> {
    plan: &'a Plan,
    network: Network,
    /// By pool: the device; the host's own memory has none.
    devices: Vec<Option<usize>>,
    /// By device: its pool.
    pool_of: Vec<usize>,
    /// Devices whose media have no constant latency.
    changing: Vec<usize>,
    /// Requested lines, by error class of the responses.
    classes: [f64; ErrorClass::ALL.len()],
    /// The worst error class so far, with its reason.
    worst: Option<ErrorClasses>,
    /// By pool: where its reads and writes are among the flows.
    flows: Vec<Option<[usize; 2]>>,
}

impl<'a> PlanFabric<'a> {
    /// The system of a plan. The workload of the first host gives the addresses that media are
    /// measured with, and nothing else.
    ///
    /// # Errors
    /// Plans that the analytic form does not cover.
    pub fn new(plan: &'a Plan, seed: u64) -> Result<PlanFabric<'a>, Vec<Problem>> {
        refuse(plan)?;
        let demand = demand::draw(plan, seed, &demand::first(plan))?;
        let (mut network, media) = network_of(plan, &demand, seed)?;
        let router = Router::new(plan);
        let mut fabric = PlanFabric {
            plan,
            network: Network::default(),
            devices: vec![None],
            pool_of: vec![0; plan.devices.len()],
            flows: vec![None],
            changing: changing(plan, &media),
            classes: [0.0; ErrorClass::ALL.len()],
            worst: None,
        };
        let mut own: Vec<Flow> = Vec::new();
        for device in 0..plan.devices.len() {
            let ways = [false, true].map(|write| pair(plan, &router, &media, (0, device), write));
            let [Some(reads), Some(writes)] = ways else {
                continue;
            };
            fabric.pool_of[device] = fabric.devices.len();
            fabric.devices.push(Some(device));
            fabric.flows.push(Some([own.len(), own.len() + 1]));
            own.extend([reads, writes]);
        }
        own.extend(network.flows.into_iter().filter(|flow| flow.host != 0));
        network.flows = own;
        fabric.network = network;
        Ok(fabric)
    }

    /// Error classes of the latencies that the program was charged: the fraction of its lines by
    /// class, and the worst class with its reason. Empty if the program requested no lines.
    pub fn error_classes(&self) -> (Vec<(ErrorClass, f64)>, Option<&ErrorClasses>) {
        let all: f64 = self.classes.iter().sum();
        let parts = ErrorClass::ALL.into_iter().zip(self.classes);
        let asked = parts.filter(|(_, lines)| *lines > 0.0);
        (
            asked.map(|(class, lines)| (class, lines / all)).collect(),
            self.worst.as_ref(),
        )
    }

    /// Records the error class of the response to a demand of `lines` lines.
    fn judge(&mut self, solution: &cxlab_analytic::Solution, demand: &[PoolDemand], lines: f64) {
        let asked = |device: &usize| demand[self.pool_of[*device]].reads_per_ns > 0.0;
        let changing = self.changing.iter().copied().filter(asked);
        let hosts = of_others(self.plan, (&self.network, solution), changing);
        let Some(classes) = hosts.into_iter().next() else {
            return;
        };
        let mut all = ErrorClass::ALL.iter();
        let at = all.position(|class| *class == classes.latency);
        self.classes[at.unwrap_or(ErrorClass::ALL.len() - 1)] += lines;
        let worst = self.worst.as_ref().map(|worst| worst.latency);
        if worst.is_none_or(|worst| classes.latency > worst) {
            self.worst = Some(classes);
        }
    }

    /// Latency of a read of each pool without load, in nanoseconds.
    pub fn unloaded_ns(&self) -> Vec<f64> {
        let latency = |flows: &Option<[usize; 2]>| {
            flows.map_or(0.0, |[read, _]| {
                self.network.flows[read].stages.total() as f64 / 1e3
            })
        };
        self.flows.iter().map(latency).collect()
    }

    /// The names of the pools. Pool 0 is the host's own memory; others are devices.
    pub fn pools(&self) -> Vec<String> {
        let name = |device: &Option<usize>| {
            device.map_or("local".to_owned(), |device| {
                self.plan.devices[device].name.clone()
            })
        };
        self.devices.iter().map(name).collect()
    }

    /// The pool at a byte offset in CXL memory (modulo its size).
    pub fn pool_of(&self, offset: u64) -> usize {
        let map = &self.plan.hosts[0].map;
        let found = map.locate(Hpa(offset % map.span().0.max(1)));
        let device = found.map(|(port, _)| port.0 as usize - self.plan.hosts.len());
        device.map_or(0, |device| self.pool_of[device])
    }

    /// Responses of the pools to a demand, by pool, for a program with at most `in_flight` lines in
    /// flight. The demand on pool 0 is ignored.
    pub fn answer(&mut self, demand: &[PoolDemand], in_flight: f64) -> Vec<PoolResponse> {
        let pools = self.flows.iter().zip(demand);
        let asked = pools.filter(|(flows, _)| flows.is_some());
        let lines = asked.map(|(_, demand)| demand.reads_per_ns + demand.writes_per_ns);
        let lines: f64 = lines.sum();
        // A demand of zero becomes one line in a millisecond.
        let wanted = (lines / 1e3).max(1e-9);
        for (flows, demand) in self.flows.iter().zip(demand) {
            let Some([read, write]) = flows else { continue };
            self.network.flows[*read].share = demand.reads_per_ns / 1e3 / wanted;
            self.network.flows[*write].share = demand.writes_per_ns / 1e3 / wanted;
        }
        self.network.hosts[0] = HostLimits {
            outstanding: in_flight,
            interval_ps: 1.0 / wanted,
        };
        let solution = solve(&self.network);
        if lines > 0.0 {
            self.judge(&solution, demand, lines);
        }
        let stretch = (wanted / solution.rates[0].max(f64::MIN_POSITIVE)).max(1.0);
        let answer = |flows: &Option<[usize; 2]>| PoolResponse {
            latency_ns: flows.map_or(0.0, |[read, _]| solution.latency_ps[read] / 1e3),
            stretch,
        };
        self.flows.iter().map(answer).collect()
    }
}
