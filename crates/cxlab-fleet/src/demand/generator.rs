//! Demand drawn from published distributions.
//!
//! VMs arrive as a Poisson stream whose rate follows the time of day. Lifetimes, cores, and memory
//! per core are independent of one another: an M_t/G/infinity system as long as nothing is
//! rejected. The system begins in its steady state: for VMs that run at the beginning, lifetimes
//! are length-biased, and the arrival rate is that of their own start. Left out: bursts of VMs of
//! one deployment, weeks, and similarity between VMs of one owner.

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::rng::StreamRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lifetime::{Lifetimes, Point};
use super::{ClusterDemand, Demand, VmRequest};

pub(super) const ENTRY: Entry<Box<dyn Demand>> = Entry {
    name: "generator",
    summary: "VMs drawn from published distributions of cores, memory and lifetimes",
    schema: <Generator as JsonSchema>::json_schema,
    build: |params| {
        let params: Generator = read_params(params)?;
        Ok(Box::new(CheckedGenerator::new(params)?))
    },
};

/// A number of cores of VMs, with its frequency.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct WeightedCores {
    /// Number of cores. 1 to 4096.
    #[schemars(range(min = 1, max = 4096))]
    pub cores: u32,
    /// Frequency, as a weight. 0 or more.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight: f64,
}

/// An amount of memory per core of VMs, with its frequency.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct MemoryPerCore {
    /// GiB for each core, rounded to whole MiB. 0.01 to 1024.
    #[schemars(range(min = 0.01, max = 1024.0))]
    pub gib: f64,
    /// Frequency, as a weight. 0 or more.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weight: f64,
}

/// VMs drawn from distributions. Defaults are those of Azure in 2019, read from the plots that
/// accompany the Azure public dataset V2. The joint distribution of cores and memory is *assumed*.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct Generator {
    /// Requested cores over existing cores. Each cluster draws its own value between these two. 0
    /// to 2, the first at most the second. Default 0.6 to 0.95 (*assumed*).
    #[schemars(length(min = 2, max = 2))]
    pub load: Vec<f64>,
    /// Amplitude of the daily swing of the arrival rate, relative to its mean.
    /// 0 to 1. Default 0.3 (*assumed*).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub daily: f64,
    /// Distribution of the cores of VMs. Default: the buckets of Azure 2019, whose first (1 or
    /// 2 cores) is split 20:38 (*assumed*).
    #[schemars(length(min = 1, max = 256))]
    pub cores: Vec<WeightedCores>,
    /// Distribution of the memory for each core. Default: 1, 2, 4 and 8 GiB with weights that give
    /// Azure's buckets of memory within 4 points (a test).
    #[schemars(length(min = 1, max = 256))]
    pub memory: Vec<MemoryPerCore>,
    /// Difference between clusters. Each cluster multiplies each weight of `memory` by exp(s z),
    /// with z drawn from a standard normal distribution. 0 to 5. Default 0.5 (*assumed*).
    #[schemars(range(min = 0.0, max = 5.0))]
    pub mix_spread: f64,
    /// Points of the distribution of lifetimes, log-uniform between. The first point has part 0,
    /// and the last part 1. The default is fitted to the Azure public dataset V2, whose window of
    /// 30 days cuts lifetimes at both ends. Up to 100 hours it follows the plotted distribution
    /// of observed lifetimes; the longest lifetime (12,650 hours) gives their mean, 60.3 hours.
    /// The mean lifetime is 65.8 hours.
    #[schemars(length(min = 2, max = 256))]
    pub lifetimes: Vec<Point>,
}

impl Default for Generator {
    fn default() -> Self {
        let cores = [
            (1, 20.0),
            (2, 38.0),
            (4, 23.0),
            (8, 12.0),
            (12, 1.0),
            (16, 5.5),
            (32, 0.5),
        ];
        let memory = [(1.0, 16.0), (2.0, 11.0), (4.0, 59.0), (8.0, 14.0)];
        let lifetimes = [
            (1.0 / 12.0, 0.0),
            (1.0, 0.708),
            (6.0, 0.848),
            (10.0, 0.890),
            (20.0, 0.933),
            (40.0, 0.952),
            (60.0, 0.967),
            (100.0, 0.976),
            (12_650.0, 1.0),
        ];
        Generator {
            load: vec![0.6, 0.95],
            daily: 0.3,
            cores: cores
                .map(|(cores, weight)| WeightedCores { cores, weight })
                .to_vec(),
            memory: memory
                .map(|(gib, weight)| MemoryPerCore { gib, weight })
                .to_vec(),
            mix_spread: 0.5,
            lifetimes: lifetimes
                .map(|(hours, part)| Point { hours, part })
                .to_vec(),
        }
    }
}

/// The generator with checked parameters.
#[derive(Clone, Debug)]
struct CheckedGenerator {
    params: Generator,
    lifetimes: Lifetimes,
}

const DAY_H: f64 = 24.0;

impl CheckedGenerator {
    fn new(params: Generator) -> Result<CheckedGenerator, ParamError> {
        let right =
            |load: &[f64]| load.len() == 2 && 0.0 < load[0] && load[0] <= load[1] && load[1] <= 2.0;
        if !right(&params.load) {
            return Err(ParamError::new(
                "load",
                "allowed: two numbers above 0 and up to 2, the first at most the second",
            ));
        }
        let zero = |field| {
            let message = "all weights are 0; allowed: one above 0 at least";
            Err(ParamError::new(field, message))
        };
        if !params.cores.iter().any(|one| one.weight > 0.0) {
            return zero("cores");
        }
        if !params.memory.iter().any(|one| one.weight > 0.0) {
            return zero("memory");
        }
        let largest = params
            .cores
            .iter()
            .map(|one| f64::from(one.cores))
            .fold(0.0, f64::max);
        if let Some(at) = params.memory.iter().position(|one| one.gib * largest > 4e6) {
            return Err(ParamError::new(
                format!("memory[{at}].gib"),
                "allowed: VMs of at most 4000000 GiB in all",
            ));
        }
        let lifetimes = Lifetimes::new(&params.lifetimes)?;
        Ok(CheckedGenerator { params, lifetimes })
    }

    /// Arrival rate over its mean, at a time in hours. The rate is largest at 15:00.
    fn swing(&self, hour: f64) -> f64 {
        let turn = std::f64::consts::TAU * (hour - 9.0) / DAY_H;
        1.0 + self.params.daily * libm::sin(turn)
    }
}

/// Cumulative weights that one cluster draws from.
struct Mix {
    cores: Vec<(f64, u32)>,
    memory: Vec<(f64, f64)>,
}

/// Chooses an element by cumulative weights.
fn choose<T: Copy>(list: &[(f64, T)], rng: &mut StreamRng) -> T {
    let total = list[list.len() - 1].0;
    let at = rng.unit() * total;
    let found = list.partition_point(|(sum, _)| *sum < at);
    list[found.min(list.len() - 1)].1
}

fn summed<T>(list: impl Iterator<Item = (f64, T)>) -> Vec<(f64, T)> {
    let mut sum = 0.0;
    list.filter(|(weight, _)| *weight > 0.0)
        .map(|(weight, value)| {
            sum += weight;
            (sum, value)
        })
        .collect()
}

/// Draws an exponential number of mean 1.
fn exponential(rng: &mut StreamRng) -> f64 {
    -libm::log(rng.unit())
}

/// Draws a standard normal number (Box and Muller; each draw takes two numbers of the stream).
pub(crate) fn normal(rng: &mut StreamRng) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(rng.unit()));
    radius * libm::cos(std::f64::consts::TAU * rng.unit())
}

impl Mix {
    fn new(params: &Generator, host_cores: u32, rng: &mut StreamRng) -> Mix {
        let fit = params.cores.iter().filter(|one| one.cores <= host_cores);
        let mut weight =
            |one: &MemoryPerCore| one.weight * libm::exp(params.mix_spread * normal(rng));
        let memory: Vec<(f64, f64)> = (params.memory.iter())
            .map(|one| (weight(one), one.gib))
            .collect();
        Mix {
            cores: summed(fit.map(|one| (one.weight, one.cores))),
            memory: summed(memory.into_iter()),
        }
    }

    fn mean_cores(&self) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for (upto, cores) in &self.cores {
            sum += (upto - before) * f64::from(*cores);
            before = *upto;
        }
        if before > 0.0 { sum / before } else { 0.0 }
    }

    fn ask(&self, start_s: u64, end_s: u64, rng: &mut StreamRng) -> VmRequest {
        let cores = choose(&self.cores, rng);
        let gib = choose(&self.memory, rng);
        VmRequest {
            start_s,
            end_s: end_s.max(start_s + 1),
            cores,
            memory_mib: ((f64::from(cores) * gib * 1024.0) as u32).max(1),
            loss: None,
            untouched: None,
        }
    }
}

impl Demand for CheckedGenerator {
    fn asks(&self, cluster: &ClusterDemand, rng: &mut StreamRng) -> Vec<VmRequest> {
        let params = &self.params;
        let load = params.load[0] + rng.unit() * (params.load[1] - params.load[0]);
        let mix = Mix::new(params, cluster.host_cores, rng);
        if mix.cores.is_empty() {
            return Vec::new();
        }
        let running = load * cluster.cores as f64 / mix.mean_cores();
        let per_hour = running / self.lifetimes.mean_h();
        let most = 1.0 + params.daily;
        let mut asks = Vec::with_capacity((running * 1.5) as usize);
        // Initial VMs: a Poisson number of them at the largest rate, thinned
        // to the rate of their start.
        let mut left = running * most;
        loop {
            left -= exponential(rng);
            if left <= 0.0 {
                break;
            }
            let life = self.lifetimes.draw_biased(rng);
            let age = life * rng.unit();
            if rng.unit() * most <= self.swing(-age) {
                asks.push(mix.ask(0, ((life - age) * 3600.0) as u64, rng));
            }
        }
        let span_h = cluster.span_s as f64 / 3600.0;
        let mut hour = 0.0;
        loop {
            hour += exponential(rng) / (per_hour * most);
            if hour >= span_h {
                return asks;
            }
            if rng.unit() * most <= self.swing(hour) {
                let end = hour + self.lifetimes.draw(rng);
                let start_s = ((hour * 3600.0) as u64).min(cluster.span_s - 1);
                asks.push(mix.ask(start_s, (end * 3600.0) as u64, rng));
            }
        }
    }

    fn most_mib_per_core(&self) -> f64 {
        let used = self.params.memory.iter().filter(|one| one.weight > 0.0);
        used.map(|one| one.gib * 1024.0).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
