//! Batches: what was counted up to each of at most 64 moments at equal distances in the measurement,
//! which the report's confidence intervals are computed from.
//!
//! The run stops at the ends of batches and reads the counters that the report reads, so measuring
//! costs nothing between them. When there are 64, each two become one, and the next is twice as long.
//! So batches depend on simulated time alone, and there are 32 to 64 of them in all but short windows.

use cxlab_engine::units::SimTime;
use cxlab_host::RequesterStats;
use serde::{Deserialize, Serialize};

use crate::report::{Denied, FailedRequests};
use crate::system::{Node, System};

/// Batches that there are at most.
const MOST: usize = 64;
/// The first length where nothing completed before: 250 ns.
const FIRST_PS: u64 = 250_000;
/// The first length, in requests of the whole system at the rate of the warm-up.
const FIRST_REQUESTS: u128 = 256;

/// Counters of a host or an accelerator, since the measurement began.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct OfIssuer {
    /// Reads completed with data.
    pub(crate) reads: u64,
    /// Writes completed.
    pub(crate) writes: u64,
    /// Requests served: neither denied nor failed.
    pub(crate) requests: u64,
    /// Their latency, picoseconds.
    pub(crate) latency: u64,
    /// Requests in flight, integrated over time.
    pub(crate) in_flight: u64,
}

/// Counters of a device.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct OfDevice {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct OfLink {
    pub(crate) busy: u64,
    pub(crate) bytes: u64,
    pub(crate) payload: u64,
}

/// Counters of requests that crossed so many links.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct OfHops {
    pub(crate) requests: u64,
    pub(crate) latency: u64,
    pub(crate) queue: u64,
}

/// All counters at one moment. Sums wrap at 2^64, which differences do not notice.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Tally {
    /// Reads served, and their latency.
    pub(crate) reads: u64,
    pub(crate) read_latency: u64,
    /// Time of each latency stage.
    pub(crate) stages: Vec<u64>,
    pub(crate) hops: Vec<OfHops>,
    pub(crate) issuers: Vec<OfIssuer>,
    pub(crate) devices: Vec<OfDevice>,
    /// Forward and backward of each link in turn.
    pub(crate) links: Vec<OfLink>,
}

impl Tally {
    /// Reads the counters of the components that are `own`; those of others are zero.
    pub(crate) fn of(system: &mut System, now: SimTime, own: impl Fn(usize) -> bool) -> Tally {
        let mut tally = Tally::default();
        for number in 0..system.hosts + system.devices {
            let node = system.simulation.component(number);
            let own = own(number);
            if let Some(host) = node.host() {
                let mut issuer = OfIssuer::default();
                if own {
                    issuer = OfIssuer::of(host.stats(), now);
                    tally.add(host.stats());
                }
                tally.issuers.push(issuer);
            }
            if number >= system.hosts {
                let stats = match node.inside() {
                    _ if !own => None,
                    Node::Device(device) => Some(device.stats()),
                    Node::Coherent(device) => Some(device.stats()),
                    _ => None,
                };
                let counts = stats.map(|stats| OfDevice {
                    reads: stats.reads,
                    writes: stats.writes,
                });
                tally.devices.push(counts.unwrap_or_default());
            }
        }
        for directions in &system.directions {
            for (component, port) in [directions.forward, directions.backward] {
                let mut link = OfLink::default();
                if own(component) {
                    let node = system.simulation.component_mut(component);
                    let stats = node.port_mut(port).transmitter.stats(now);
                    link = OfLink {
                        busy: stats.busy_ps,
                        bytes: stats.bytes,
                        payload: stats.payload_bytes,
                    };
                }
                tally.links.push(link);
            }
        }
        tally
    }

    fn add(&mut self, stats: &RequesterStats) {
        self.reads += stats.read_latency.count();
        self.read_latency = (self.read_latency).wrapping_add(stats.read_latency.sum_ps() as u64);
        self.stages.resize(stats.stages_ps.len(), 0);
        for (sum, stage) in self.stages.iter_mut().zip(stats.stages_ps) {
            *sum = sum.wrapping_add(stage);
        }
        let hops: Vec<OfHops> = (stats.by_hops.iter())
            .map(|hops| OfHops {
                requests: hops.count,
                latency: hops.latency_ps as u64,
                queue: hops.queue_ps as u64,
            })
            .collect();
        sum_up(&mut self.hops, &hops, OfHops::add);
    }

    /// Adds what another rank has read at the same moment.
    fn merge(&mut self, other: &Tally) {
        self.reads += other.reads;
        self.read_latency = self.read_latency.wrapping_add(other.read_latency);
        sum_up(&mut self.stages, &other.stages, |sum, one| {
            *sum = sum.wrapping_add(*one);
        });
        sum_up(&mut self.hops, &other.hops, OfHops::add);
        sum_up(&mut self.issuers, &other.issuers, OfIssuer::add);
        sum_up(&mut self.devices, &other.devices, |sum, one| {
            sum.reads += one.reads;
            sum.writes += one.writes;
        });
        sum_up(&mut self.links, &other.links, |sum, one| {
            sum.busy += one.busy;
            sum.bytes += one.bytes;
            sum.payload += one.payload;
        });
    }

    /// What was counted since another tally of the same system.
    pub(crate) fn since(mut self, before: &Tally) -> Tally {
        let minus = |now: &mut u64, before: u64| *now = now.wrapping_sub(before);
        minus(&mut self.reads, before.reads);
        minus(&mut self.read_latency, before.read_latency);
        sum_up(&mut self.stages, &before.stages, |now, one| {
            minus(now, *one)
        });
        sum_up(&mut self.hops, &before.hops, |now, one| {
            minus(&mut now.requests, one.requests);
            minus(&mut now.latency, one.latency);
            minus(&mut now.queue, one.queue);
        });
        sum_up(&mut self.issuers, &before.issuers, |now, one| {
            minus(&mut now.reads, one.reads);
            minus(&mut now.writes, one.writes);
            minus(&mut now.requests, one.requests);
            minus(&mut now.latency, one.latency);
            minus(&mut now.in_flight, one.in_flight);
        });
        sum_up(&mut self.devices, &before.devices, |now, one| {
            minus(&mut now.reads, one.reads);
            minus(&mut now.writes, one.writes);
        });
        sum_up(&mut self.links, &before.links, |now, one| {
            minus(&mut now.busy, one.busy);
            minus(&mut now.bytes, one.bytes);
            minus(&mut now.payload, one.payload);
        });
        self
    }

    /// All hosts and accelerators together.
    pub(crate) fn total(&self) -> OfIssuer {
        let mut total = OfIssuer::default();
        self.issuers.iter().for_each(|one| total.add(one));
        total
    }
}

/// Adds element by element; the sum grows where it is shorter.
fn sum_up<T: Clone + Default>(sum: &mut Vec<T>, other: &[T], add: impl Fn(&mut T, &T)) {
    if sum.len() < other.len() {
        sum.resize(other.len(), T::default());
    }
    sum.iter_mut()
        .zip(other)
        .for_each(|(sum, one)| add(sum, one));
}

impl OfHops {
    fn add(&mut self, other: &OfHops) {
        self.requests += other.requests;
        self.latency = self.latency.wrapping_add(other.latency);
        self.queue = self.queue.wrapping_add(other.queue);
    }
}

impl OfIssuer {
    fn of(stats: &RequesterStats, now: SimTime) -> OfIssuer {
        let (denied, failed) = (Denied::of(stats), FailedRequests::of(stats));
        OfIssuer {
            reads: stats.reads - denied.reads - failed.reads(),
            writes: stats.writes - denied.writes - failed.writes(),
            requests: stats.read_latency.count() + stats.write_latency.count(),
            latency: stats.served_ps() as u64,
            in_flight: (stats.in_flight.at(now.0) - stats.integral_before) as u64,
        }
    }

    fn add(&mut self, other: &OfIssuer) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.requests += other.requests;
        self.latency = self.latency.wrapping_add(other.latency);
        self.in_flight = self.in_flight.wrapping_add(other.in_flight);
    }
}

/// The batches of a measurement.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Batches {
    start: u64,
    /// Length of a batch.
    width: u64,
    /// What was counted at the beginning and at the end of each batch.
    edges: Vec<Tally>,
}

impl Batches {
    /// Batches of a measurement that begins at `start`, after a warm-up that took `warmup` picoseconds and
    /// completed so many requests.
    pub(crate) fn new(start: SimTime, warmup: u64, completed: u64) -> Batches {
        let width = match completed {
            0 => FIRST_PS,
            _ => (u128::from(warmup) * FIRST_REQUESTS / u128::from(completed)) as u64,
        };
        Batches {
            start: start.0,
            width: width.max(1_000),
            edges: Vec::new(),
        }
    }

    /// When the next counters are to be read.
    pub(crate) fn next(&self) -> SimTime {
        let span = self.width.saturating_mul(self.edges.len() as u64);
        SimTime(self.start.saturating_add(span))
    }

    /// Takes the counters that were read at the time that [`Batches::next`] said.
    pub(crate) fn take(&mut self, tally: Tally) {
        self.edges.push(tally);
        if self.edges.len() > MOST {
            let mut number = 0;
            self.edges.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.width = self.width.saturating_mul(2);
        }
    }

    /// Adds what another rank has read at the same moments.
    pub(crate) fn merge(&mut self, other: &Batches) {
        for (sum, one) in self.edges.iter_mut().zip(&other.edges) {
            sum.merge(one);
        }
    }

    /// The same moments, of all hosts and accelerators together alone.
    pub(crate) fn totals(&self) -> Batches {
        let edges = self.edges.iter().map(|tally| Tally {
            issuers: vec![tally.total()],
            ..Tally::default()
        });
        Batches {
            edges: edges.collect(),
            ..*self
        }
    }

    /// Keeps the moments alone: what was read before belongs to another rank.
    pub(crate) fn forget(&mut self) {
        self.edges.fill(Tally::default());
    }

    /// How many batches have ended.
    pub(crate) fn count(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// Length of a batch in nanoseconds.
    pub(crate) fn width_ns(&self) -> f64 {
        self.width as f64 / 1e3
    }

    /// What each batch added to a counter.
    pub(crate) fn column(&self, of: impl Fn(&Tally) -> u64) -> Vec<f64> {
        let read: Vec<u64> = self.edges.iter().map(of).collect();
        read.windows(2)
            .map(|two| two[1].wrapping_sub(two[0]) as f64)
            .collect()
    }
}
