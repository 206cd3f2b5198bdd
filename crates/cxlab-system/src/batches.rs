//! Batches: counters at up to 64 equally spaced times of the measurement, from which the report's
//! confidence intervals are computed.
//!
//! The run stops at the ends of batches and reads the counters that the report reads, so measuring costs nothing
//! between them. When there are 64 batches, pairs of them are merged, and the next batch is twice as long. So batches
//! depend on simulated time alone, and there are 32 to 64 of them in all but short windows.

use cxlab_engine::prefetch;
use cxlab_engine::units::SimTime;
use cxlab_host::RequesterStats;
use serde::{Deserialize, Serialize};

use crate::report::{Denied, FailedRequests};
use crate::system::{Node, System};

const MOST: usize = 64;
/// Initial length of a batch if no request completed in the warm-up: 250 ns.
const FIRST_PS: u64 = 250_000;
/// Initial length of a batch, in requests of the whole system at the rate of the warm-up.
const FIRST_REQUESTS: u128 = 256;

/// Links whose ports are prefetched before they are read: the ports of large systems do not fit the CPU's caches.
const FETCHED: usize = 8;

/// Counters of a host or an accelerator, since the measurement began.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct IssuerCounters {
    /// Reads completed with data.
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Requests served: neither denied nor failed.
    pub(crate) requests: u64,
    /// Summed latency of served requests, in picoseconds.
    pub(crate) latency: u64,
    /// Requests in flight, integrated over time.
    pub(crate) in_flight: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct DeviceCounters {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// Counters of one direction of a link.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct LinkCounters {
    pub(crate) busy: u64,
    pub(crate) bytes: u64,
    pub(crate) payload: u64,
}

/// Counters of requests that crossed the same number of links.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct HopCounters {
    pub(crate) requests: u64,
    pub(crate) latency: u64,
    pub(crate) queue: u64,
}

/// All counters at one moment. Sums wrap at 2^64, which differences do not notice.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct CounterSnapshot {
    /// Reads served, and their latency.
    pub(crate) reads: u64,
    pub(crate) read_latency: u64,
    /// Time of each latency stage.
    pub(crate) stages: Vec<u64>,
    pub(crate) hops: Vec<HopCounters>,
    pub(crate) issuers: Vec<IssuerCounters>,
    pub(crate) devices: Vec<DeviceCounters>,
    /// Forward and backward direction of each link in turn.
    pub(crate) links: Vec<LinkCounters>,
}

impl CounterSnapshot {
    /// Reads the counters of the components that are `own`; counters of other ranks' components are zero.
    pub(crate) fn of(
        system: &mut System,
        now: SimTime,
        own: impl Fn(usize) -> bool,
    ) -> CounterSnapshot {
        let mut tally = CounterSnapshot::default();
        for number in 0..system.hosts + system.devices {
            let node = system.simulation.component(number);
            let own = own(number);
            if let Some(host) = node.host() {
                let mut issuer = IssuerCounters::default();
                if own {
                    issuer = IssuerCounters::of(host.stats(), now);
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
                let counts = stats.map(|stats| DeviceCounters {
                    reads: stats.reads,
                    writes: stats.writes,
                });
                tally.devices.push(counts.unwrap_or_default());
            }
        }
        tally.links.reserve_exact(2 * system.directions.len());
        for some in system.directions.chunks(FETCHED) {
            let ends = || (some.iter()).flat_map(|links| [links.forward, links.backward]);
            for (component, port) in ends().filter(|(component, _)| own(*component)) {
                let node = system.simulation.component_mut(component);
                prefetch(&node.port_mut(port).transmitter);
            }
            tally.links.extend(ends().map(|(component, port)| {
                if !own(component) {
                    return LinkCounters::default();
                }
                let node = system.simulation.component_mut(component);
                let stats = node.port_mut(port).transmitter.stats(now);
                LinkCounters {
                    busy: stats.busy_ps,
                    bytes: stats.bytes,
                    payload: stats.payload_bytes,
                }
            }));
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
        let hops = stats.by_hops.iter().map(|hops| HopCounters {
            requests: hops.count,
            latency: hops.latency_sum_ps as u64,
            queue: hops.queue_sum_ps as u64,
        });
        let hops: Vec<HopCounters> = hops.collect();
        each(&mut self.hops, &hops, |own, one| {
            own.combine(one, u64::wrapping_add)
        });
    }

    /// The counters less those of an earlier snapshot of the same system.
    pub(crate) fn since(mut self, before: &CounterSnapshot) -> CounterSnapshot {
        self.combine(before, u64::wrapping_sub);
        self
    }

    /// Applies `with` to each counter and the same counter of `other`.
    fn combine(&mut self, other: &CounterSnapshot, with: fn(u64, u64) -> u64) {
        let CounterSnapshot {
            reads,
            read_latency,
            stages,
            hops,
            issuers,
            devices,
            links,
        } = other;
        self.reads = with(self.reads, *reads);
        self.read_latency = with(self.read_latency, *read_latency);
        each(&mut self.stages, stages, |own, one| *own = with(*own, *one));
        each(&mut self.hops, hops, |own, one| own.combine(one, with));
        each(&mut self.issuers, issuers, |own, one| {
            own.combine(one, with)
        });
        each(&mut self.devices, devices, |own, one| {
            own.reads = with(own.reads, one.reads);
            own.writes = with(own.writes, one.writes);
        });
        each(&mut self.links, links, |own, one| {
            own.busy = with(own.busy, one.busy);
            own.bytes = with(own.bytes, one.bytes);
            own.payload = with(own.payload, one.payload);
        });
    }

    /// All hosts and accelerators together.
    pub(crate) fn total(&self) -> IssuerCounters {
        let mut total = IssuerCounters::default();
        for one in &self.issuers {
            total.combine(one, u64::wrapping_add);
        }
        total
    }
}

/// Combines two lists element by element; the first list grows if it is shorter.
fn each<T: Clone + Default>(own: &mut Vec<T>, other: &[T], combine: impl Fn(&mut T, &T)) {
    if own.len() < other.len() {
        own.resize(other.len(), T::default());
    }
    for (own, one) in own.iter_mut().zip(other) {
        combine(own, one);
    }
}

impl HopCounters {
    fn combine(&mut self, other: &HopCounters, with: fn(u64, u64) -> u64) {
        self.requests = with(self.requests, other.requests);
        self.latency = with(self.latency, other.latency);
        self.queue = with(self.queue, other.queue);
    }
}

impl IssuerCounters {
    fn of(stats: &RequesterStats, now: SimTime) -> IssuerCounters {
        let (denied, failed) = (Denied::of(stats), FailedRequests::of(stats));
        IssuerCounters {
            reads: stats.reads - denied.reads - failed.reads(),
            writes: stats.writes - denied.writes - failed.writes(),
            requests: stats.read_latency.count() + stats.write_latency.count(),
            latency: stats.served_ps() as u64,
            in_flight: (stats.in_flight.at(now.0) - stats.integral_before) as u64,
        }
    }

    fn combine(&mut self, other: &IssuerCounters, with: fn(u64, u64) -> u64) {
        self.reads = with(self.reads, other.reads);
        self.writes = with(self.writes, other.writes);
        self.requests = with(self.requests, other.requests);
        self.latency = with(self.latency, other.latency);
        self.in_flight = with(self.in_flight, other.in_flight);
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Batches {
    start: u64,
    width: u64,
    /// Counters at the beginning and at the end of each batch.
    edges: Vec<CounterSnapshot>,
}

impl Batches {
    /// Batches of a measurement that begins at `start`, after a warm-up of `warmup` picoseconds and
    /// `completed` requests.
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

    /// Time at which the next counters are to be read.
    pub(crate) fn next(&self) -> SimTime {
        let span = self.width.saturating_mul(self.edges.len() as u64);
        SimTime(self.start.saturating_add(span))
    }

    /// Takes the counters that were read at the time that [`Batches::next`] said.
    pub(crate) fn take(&mut self, tally: CounterSnapshot) {
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

    /// Adds the counters of another rank at the same times.
    pub(crate) fn merge(&mut self, other: &Batches) {
        for (sum, one) in self.edges.iter_mut().zip(&other.edges) {
            sum.combine(one, u64::wrapping_add);
        }
    }

    /// Batches at the same times, with the sums over all hosts and accelerators alone.
    pub(crate) fn totals(&self) -> Batches {
        let edges = self.edges.iter().map(|tally| CounterSnapshot {
            issuers: vec![tally.total()],
            ..CounterSnapshot::default()
        });
        Batches {
            edges: edges.collect(),
            ..*self
        }
    }

    /// Keeps the times and sets all counters to zero, because another rank has them.
    pub(crate) fn forget(&mut self) {
        self.edges.fill(CounterSnapshot::default());
    }

    /// How many batches have ended.
    pub(crate) fn count(&self) -> usize {
        self.edges.len().saturating_sub(1)
    }

    /// Length of a batch in nanoseconds.
    pub(crate) fn width_ns(&self) -> f64 {
        self.width as f64 / 1e3
    }

    /// Increase of a counter in each batch.
    pub(crate) fn column(&self, of: impl Fn(&CounterSnapshot) -> u64) -> Vec<f64> {
        let read: Vec<u64> = self.edges.iter().map(of).collect();
        let added = |two: &[u64]| two[1].wrapping_sub(two[0]) as f64;
        read.windows(2).map(added).collect()
    }
}
