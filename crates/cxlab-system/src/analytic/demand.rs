//! Demand of the hosts: the first operations of their workloads, counted by device.

use cxlab_analytic::{HostLimits, ProbeAccess};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Dpa, Hpa};
use cxlab_host::PrivateCache;
use cxlab_plan::windows::{WindowEnd, windows};
use cxlab_plan::{Plan, Problem, Source};
use cxlab_workload::{MemOp, OpKind, OpSource};

/// Number of operations that are drawn: of all hosts together, and the least and the most of one host.
const OPERATIONS: usize = 400_000;
const LEAST: usize = 500;
const MOST: usize = 20_000;
/// Most operations of a host that only fill its private cache and are not counted.
const MOST_WARM: usize = 400_000;
/// Most accesses of a device with which its medium is measured.
const ACCESSES: usize = 20_000;

#[derive(Clone, Default, Debug)]
pub(super) struct HostDemand {
    /// Number of requests that were counted.
    pub(super) requests: u64,
    /// Reads and writes that the private cache serves in the steady state: hits, and misses whose set had room.
    pub(super) hits: [u64; 2],
    /// By device: reads, writes, and lines written back.
    pub(super) devices: Vec<[u64; 3]>,
    /// Requests that depend on the one before.
    dependent: u64,
    /// Latest time of issue that an operation asks for, in picoseconds.
    last_ps: u64,
    /// Accesses of the private cache that missed where its set had room, since the warm-up of the run: in the steady
    /// state they hit.
    cold: u64,
    /// Number of accesses before the counted ones.
    warm: u64,
}

pub(super) struct Demand {
    pub(super) hosts: Vec<HostDemand>,
    /// By device: its first accesses.
    pub(super) accesses: Vec<Vec<ProbeAccess>>,
}

struct DrawnOperations {
    source: Box<dyn OpSource>,
    rng: StreamRng,
    left: u64,
    cache: Option<PrivateCache>,
    /// Operations that only fill the cache.
    warm: usize,
}

/// The operations of a host that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CountedOperations {
    /// Operations before the counted ones, of a host without a private cache. With one, those that fill it come before.
    pub(super) skip: u64,
    pub(super) count: usize,
}

/// The first operations of every host, as a sample of all.
pub(super) fn first(plan: &Plan) -> Vec<CountedOperations> {
    let count = (OPERATIONS / plan.hosts.len()).clamp(LEAST, MOST);
    vec![CountedOperations { skip: 0, count }; plan.hosts.len()]
}

/// Draws from every host's workload in turn, a part of it by host.
///
/// # Errors
/// Hosts that are not requesters of lines, and workloads that cannot be used.
pub(super) fn draw(
    plan: &Plan,
    seed: u64,
    parts: &[CountedOperations],
) -> Result<Demand, Vec<Problem>> {
    let hosts = plan.hosts.len();
    let mut drawn = Vec::with_capacity(hosts);
    for (host, source) in plan.hosts.iter().zip(plan.sources(seed)?) {
        let group = &plan.scenario.hosts[host.group];
        let Source::Lines(source) = source else {
            return Err(vec![Problem::new(
                format!("hosts[{}].{}", host.group, group.kind.key()),
                "found a core or a processor; allowed in analytic mode: requesters of lines, with `issue`",
            )]);
        };
        let cache = group.requester().and_then(|issue| issue.cache.as_ref());
        drawn.push(DrawnOperations {
            source,
            rng: StreamRng::new(seed, &host.name),
            left: group.requests.unwrap_or(u64::MAX),
            cache: cache.map(PrivateCache::new),
            warm: cache
                .map_or(0, |cache| (cache.size.0 / 32) as usize)
                .min(MOST_WARM),
        });
    }
    let mut demand = Demand {
        hosts: vec![
            HostDemand {
                devices: vec![[0; 3]; plan.devices.len()],
                ..HostDemand::default()
            };
            hosts
        ],
        accesses: vec![Vec::new(); plan.devices.len()],
    };
    let warmup = warmup_of_a_host(plan);
    for (number, one) in drawn.iter_mut().enumerate() {
        // The first requests only fill the cache, unless none would be left to count.
        let of_host = &mut demand.hosts[number];
        for _ in 0..one.warm {
            let Some(op) = one.next() else { break };
            if let Some(cache) = &mut one.cache {
                let room = cache.has_room(op.hpa.line());
                let hit = cache.access(op.hpa.line(), op.kind == OpKind::Write).hit;
                of_host.warm += 1;
                of_host.cold += u64::from(room && !hit && of_host.warm > warmup);
            }
        }
        if one.left == 0 {
            return Err(vec![Problem::new(
                format!("hosts[{}].requests", plan.hosts[number].group),
                "found fewer than fill the private cache; allowed in analytic mode: more",
            )]);
        }
    }
    for (one, part) in drawn.iter_mut().zip(parts) {
        let skip = part.skip * u64::from(one.cache.is_none());
        for _ in 0..skip {
            one.next();
        }
    }
    for turn in 0..parts.iter().map(|part| part.count).max().unwrap_or(0) {
        for (number, one) in drawn.iter_mut().enumerate() {
            if turn >= parts[number].count {
                continue;
            }
            if let Some(op) = one.next() {
                demand.note(plan, (number, warmup), one.cache.as_mut(), op);
            }
        }
    }
    Ok(demand)
}

/// Requests of each host in the run's warm-up, of a host that is a quarter as fast as the mean (*assumed*).
fn warmup_of_a_host(plan: &Plan) -> u64 {
    let requests = match windows(plan).0 {
        WindowEnd::Requests(requests) => requests,
        WindowEnd::SettledRequests(most) => most / 10,
        WindowEnd::Time(_) | WindowEnd::SettledTime(_) | WindowEnd::End => return u64::MAX,
    };
    requests / (4 * plan.hosts.len().max(1) as u64)
}

impl DrawnOperations {
    fn next(&mut self) -> Option<MemOp> {
        let op = (self.left > 0).then(|| self.source.next_op(&mut self.rng))?;
        self.left = if op.is_some() { self.left - 1 } else { 0 };
        op
    }
}

impl Demand {
    fn note(
        &mut self,
        plan: &Plan,
        (host, warmup): (usize, u64),
        cache: Option<&mut PrivateCache>,
        op: MemOp,
    ) {
        let write = op.kind == OpKind::Write;
        let one = &mut self.hosts[host];
        one.requests += 1;
        one.dependent += u64::from(op.dependent);
        one.last_ps = one.last_ps.max(op.not_before.0);
        let line = Hpa(op.hpa.0 & !63);
        let Some(cache) = cache else {
            self.count(plan, host, line, usize::from(write));
            return;
        };
        let room = cache.has_room(line.line());
        let access = cache.access(line.line(), write);
        let one = &mut self.hosts[host];
        let passed = one.warm + one.requests;
        one.cold += u64::from(room && !access.hit && passed > warmup);
        if access.hit || room {
            self.hosts[host].hits[usize::from(write)] += 1;
            return;
        }
        // Write-allocate: a store that misses reads its line.
        self.count(plan, host, line, 0);
        if let Some(line) = access.evicted {
            self.count(plan, host, Hpa(line.0 * 64), 2);
        }
    }

    /// Counts a read (0), write (1) or write-back (2).
    fn count(&mut self, plan: &Plan, host: usize, hpa: Hpa, kind: usize) {
        let Some((port, dpa)) = plan.hosts[host].map.locate(hpa) else {
            return;
        };
        let device = port.0 as usize - plan.hosts.len();
        self.hosts[host].devices[device][kind] += 1;
        let accesses = &mut self.accesses[device];
        if accesses.len() < ACCESSES {
            accesses.push(ProbeAccess {
                dpa: Dpa(dpa.0),
                write: kind > 0,
            });
        }
    }
}

impl HostDemand {
    /// Whether the host's cache is still being filled when the run's warm-up ends.
    pub(super) fn is_cold(&self) -> bool {
        500 * self.cold > self.requests
    }

    /// Whether the host's operations have times of issue.
    pub(super) fn is_timed(&self) -> bool {
        self.last_ps > 0
    }

    pub(super) fn limits(&self, outstanding: u32, interval_ps: u64) -> HostLimits {
        let dependent = self.dependent as f64 / self.requests.max(1) as f64;
        let places = f64::from(outstanding);
        let asked = self.last_ps as f64 / self.requests.max(1) as f64;
        HostLimits {
            // A dependent request is alone; between two of them, all places fill.
            outstanding: 1.0 / (dependent + (1.0 - dependent) / places),
            interval_ps: asked.max(interval_ps as f64),
        }
    }
}
