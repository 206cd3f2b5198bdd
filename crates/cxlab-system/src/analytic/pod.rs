//! The analytic form as a fleet sees it: latency and bandwidth of pool memory in one pod, by load.

use cxlab_analytic::{ErrorClasses, Flow, HostLimits, Network, Solution, solve};
use cxlab_engine::units::LINE_BYTES;
use cxlab_fleet::{LoadedFabric, PoolFabric};
use cxlab_plan::routes::Router;
use cxlab_plan::{Plan, Problem};

use super::judge::{changing, of_others};
use super::{demand, issue, network_of, pair, refuse};

/// A plan as a pod. Reads and writes have the mix of the hosts' workloads. Pool traffic goes
/// equally to all devices that a host reaches, whichever the workloads use.
pub struct PodModel<'a> {
    plan: &'a Plan,
    network: Network,
    /// By flow: host and device.
    pairs: Vec<(usize, usize)>,
    /// Devices whose media have no constant latency.
    changing: Vec<usize>,
    /// By host: requests in flight at most.
    outstanding: Vec<f64>,
}

impl<'a> PodModel<'a> {
    /// The system of a plan.
    ///
    /// # Errors
    /// Plans that the analytic form does not cover, and hosts that reach no device.
    pub fn new(plan: &'a Plan, seed: u64) -> Result<PodModel<'a>, Vec<Problem>> {
        refuse(plan)?;
        let demand = demand::draw(plan, seed, &demand::first(plan))?;
        let (mut network, media) = network_of(plan, &demand, seed)?;
        let router = Router::new(plan);
        let mut flows: Vec<Flow> = Vec::new();
        let mut pairs = Vec::new();
        let mut outstanding = Vec::with_capacity(plan.hosts.len());
        for (host, asked) in demand.hosts.iter().enumerate() {
            let issue = issue(plan, host);
            outstanding.push(f64::from(issue.outstanding));
            let counts = asked.devices.iter();
            let (reads, writes) = counts.fold((0, 0), |(reads, writes), [read, write, back]| {
                (reads + read, writes + write + back)
            });
            let read_part = reads as f64 / ((reads + writes) as f64).max(1.0);
            let mut own = Vec::new();
            for device in 0..plan.devices.len() {
                let ways =
                    [false, true].map(|write| pair(plan, &router, &media, (host, device), write));
                if let [Some(reads), Some(writes)] = ways {
                    own.extend([
                        (device, read_part, reads),
                        (device, 1.0 - read_part, writes),
                    ]);
                }
            }
            if own.is_empty() {
                return Err(vec![Problem::new(
                    format!("hosts[{}]", plan.hosts[host].group),
                    format!(
                        "{} reaches no device that its pod uses; allowed in a fleet: hosts with a pool",
                        plan.hosts[host].name
                    ),
                )]);
            }
            let each = 2.0 / own.len() as f64;
            for (device, part, flow) in own {
                pairs.push((host, device));
                flows.push(Flow {
                    share: part * each,
                    ..flow
                });
            }
        }
        network.flows = flows;
        Ok(PodModel {
            plan,
            network,
            pairs,
            changing: changing(plan, &media),
            outstanding,
        })
    }

    /// Mean over a host's reads, which are every second flow.
    fn of_reads(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); self.outstanding.len()];
        for (at, (host, _)) in self.pairs.iter().enumerate().step_by(2) {
            sums[*host].0 += value(at);
            sums[*host].1 += 1.0;
        }
        sums.into_iter().map(|(sum, count)| sum / count).collect()
    }

    fn issuing(&self, host: usize, lines_per_ps: f64) -> HostLimits {
        HostLimits {
            outstanding: self.outstanding[host],
            interval_ps: 1.0 / lines_per_ps,
        }
    }

    /// By host: the fabric under load, when each host requests `bytes_per_ns`.
    pub fn at(&mut self, bytes_per_ns: &[f64]) -> Vec<LoadedFabric> {
        let wanted: Vec<f64> = bytes_per_ns.iter().map(|one| lines_per_ps(*one)).collect();
        self.network.hosts = (wanted.iter().enumerate())
            .map(|(host, rate)| self.issuing(host, *rate))
            .collect();
        let solution = solve(&self.network);
        let latencies = self.of_reads(|flow| solution.latency_ps[flow] / 1e3);
        let errors = self.errors(&self.network, &solution);
        let rates = wanted.iter().zip(&solution.rates);
        (latencies.into_iter().zip(rates).zip(errors))
            .map(|((latency_ns, (wanted, rate)), error)| LoadedFabric {
                latency_ns,
                stretch: stretch(*wanted, *rate),
                error,
            })
            .collect()
    }

    /// By host: bound of its latency's relative error against the event engine.
    fn errors(&self, network: &Network, solution: &Solution) -> Vec<f64> {
        let changing = self.changing.iter().copied();
        let classes = of_others(self.plan, (network, solution), changing);
        let bound = |classes: ErrorClasses| classes.latency.bound().unwrap_or(f64::INFINITY);
        classes.into_iter().map(bound).collect()
    }
}

impl PoolFabric for PodModel<'_> {
    fn unloaded_ns(&self) -> Vec<Vec<Option<f64>>> {
        let mut all = vec![vec![None; self.plan.devices.len()]; self.outstanding.len()];
        for ((host, device), flow) in self.pairs.iter().zip(&self.network.flows).step_by(2) {
            all[*host][*device] = Some(flow.stages.total() as f64 / 1e3);
        }
        all
    }

    fn loaded(&mut self, bytes_per_ns: f64) -> Vec<LoadedFabric> {
        self.at(&vec![bytes_per_ns; self.outstanding.len()])
    }

    fn loaded_alone(&mut self, host: usize, bytes_per_ns: f64) -> LoadedFabric {
        // Only the host's own flows: those of others would take nearly all of the time.
        let mine = |at: &usize| self.pairs[*at].0 == host;
        let flows = (0..self.pairs.len()).filter(mine).map(|at| Flow {
            host: 0,
            ..self.network.flows[at].clone()
        });
        let rate = lines_per_ps(bytes_per_ns);
        let alone = Network {
            stations: self.network.stations.clone(),
            arbitration: self.network.arbitration,
            hosts: vec![self.issuing(host, rate)],
            flows: flows.collect(),
        };
        let solution = solve(&alone);
        let reads: Vec<f64> = solution.latency_ps.iter().copied().step_by(2).collect();
        LoadedFabric {
            latency_ns: reads.iter().sum::<f64>() / reads.len() as f64 / 1e3,
            stretch: stretch(rate, solution.rates[0]),
            error: self.errors(&alone, &solution)[0],
        }
    }
}

/// Lines of 64 B in a picosecond. A demand of zero becomes one line per second.
fn lines_per_ps(bytes_per_ns: f64) -> f64 {
    (bytes_per_ns / LINE_BYTES as f64 / 1e3).max(1e-12)
}

fn stretch(wanted: f64, rate: f64) -> f64 {
    (wanted / rate.max(f64::MIN_POSITIVE)).max(1.0)
}
