//! Index of the hosts of a cluster, so that placing a VM need not visit all of them.
//!
//! Hosts with the same number of free cores are in one bucket, sorted by free memory and then by
//! number. Within a bucket the rank of a placement never decreases with the distance of free memory
//! from a preferred value ([`Placement::preferred`]). So the search goes from that value in both
//! directions, until a host accepts the VM or ranks no better than the best one found. The cost of
//! a VM is about that of one binary search for each number of free cores in use.
//!
//! # Invariants
//! Each host is in exactly one bucket, that of its free cores, with its free memory. The search
//! finds the same host as a scan of all hosts in their order (a test compares them).

use cxlab_engine::rng::StreamRng;

use super::{HostUsage, Order, Placement};

/// Bits of a key for the host's number. The bits above are free memory in MiB, which is below 2^31.
const HOST_BITS: u32 = 24;
/// Draws of [`Order::Random`] before all hosts that accept the VM are listed.
const DRAWS: usize = 16;

/// Free cores and memory of all hosts of a cluster.
#[derive(Debug)]
pub struct Hosts {
    cores: u32,
    /// DRAM of a host as the placement sees it, in MiB, and its reciprocal.
    dram_mib: u64,
    per_mib: f64,
    cores_free: Vec<u32>,
    /// By host: unassigned memory of `dram_mib`, 0 if VMs have more.
    free_mib: Vec<u64>,
    /// By free cores: sorted keys of hosts. Empty if the order needs no buckets.
    buckets: Vec<Vec<u64>>,
    /// A bit for each bucket that is not empty.
    used: Vec<u64>,
    /// Largest number of free cores in each subtree of hosts, root first, for [`Order::ByNumber`].
    most: Vec<u32>,
    /// Number of hosts, rounded up to a power of two.
    leaves: usize,
    order: Order,
    /// Working buffer of [`Order::Random`].
    fitting: Vec<u32>,
}

fn host_of(key: u64) -> usize {
    (key & ((1 << HOST_BITS) - 1)) as usize
}

impl Hosts {
    /// An index of empty hosts.
    pub fn new(hosts: usize, cores: u32, dram_mib: u64, order: Order) -> Hosts {
        assert!(hosts < 1 << HOST_BITS && dram_mib < 1 << (64 - HOST_BITS));
        let leaves = hosts.next_power_of_two();
        let mut all = Hosts {
            cores,
            dram_mib,
            per_mib: 1.0 / dram_mib as f64,
            cores_free: vec![cores; hosts],
            free_mib: vec![dram_mib; hosts],
            buckets: Vec::new(),
            used: vec![0; (cores as usize + 1).div_ceil(64)],
            most: Vec::new(),
            leaves,
            order,
            fitting: Vec::new(),
        };
        match order {
            Order::ByRank => {
                all.buckets = vec![Vec::new(); cores as usize + 1];
                let keys = (0..hosts as u64).map(|host| dram_mib << HOST_BITS | host);
                all.buckets[cores as usize].extend(keys);
                all.mark(cores as usize);
            }
            Order::ByNumber => {
                all.most = vec![0; 2 * leaves];
                all.most[leaves..leaves + hosts].fill(cores);
                for at in (1..leaves).rev() {
                    all.most[at] = all.most[2 * at].max(all.most[2 * at + 1]);
                }
            }
            Order::Random => {}
        }
        all
    }

    /// Number of hosts.
    pub fn count(&self) -> usize {
        self.cores_free.len()
    }

    /// Number of free cores of a host.
    pub fn cores_free(&self, host: usize) -> u32 {
        self.cores_free[host]
    }

    /// Sets the free cores and free memory of a host.
    pub fn set(&mut self, host: usize, cores_free: u32, free_mib: u64) {
        let before = self.key(host);
        let from = self.cores_free[host] as usize;
        self.cores_free[host] = cores_free;
        self.free_mib[host] = free_mib;
        match self.order {
            Order::ByRank => {
                let at = self.buckets[from].partition_point(|key| *key < before);
                self.buckets[from].remove(at);
                self.mark(from);
                let (to, key) = (cores_free as usize, self.key(host));
                let at = self.buckets[to].partition_point(|other| *other < key);
                self.buckets[to].insert(at, key);
                self.mark(to);
            }
            Order::ByNumber => {
                let mut at = self.leaves + host;
                self.most[at] = cores_free;
                while at > 1 {
                    at /= 2;
                    self.most[at] = self.most[2 * at].max(self.most[2 * at + 1]);
                }
            }
            Order::Random => {}
        }
    }

    fn key(&self, host: usize) -> u64 {
        self.free_mib[host] << HOST_BITS | host as u64
    }

    fn mark(&mut self, bucket: usize) {
        let bit = 1 << (bucket % 64);
        if self.buckets[bucket].is_empty() {
            self.used[bucket / 64] &= !bit;
        } else {
            self.used[bucket / 64] |= bit;
        }
    }

    /// The host that a placement prefers for a VM, and the value of `offer` for it. Candidates are hosts with enough
    /// free cores for which `offer` returns a value. `memory_mib` is the memory that the VM requests.
    pub fn find<P: Placement>(
        &mut self,
        placement: &P,
        cores: u32,
        memory_mib: u32,
        rng: &mut StreamRng,
        offer: &mut dyn FnMut(usize) -> Option<u32>,
    ) -> Option<(usize, u32)> {
        match self.order {
            Order::ByRank => self.by_rank(placement, cores, memory_mib, offer),
            Order::ByNumber => self.by_number(cores, offer),
            Order::Random => self.random(cores, rng, offer),
        }
    }

    /// Finds the host of least rank that accepts the VM, by a search outwards from the preferred free memory.
    fn by_rank<P: Placement>(
        &self,
        placement: &P,
        cores: u32,
        memory_mib: u32,
        offer: &mut dyn FnMut(usize) -> Option<u32>,
    ) -> Option<(usize, u32)> {
        let memory = f64::from(memory_mib) * self.per_mib;
        let mut best: Option<(f64, usize, u32)> = None;
        let first = cores as usize;
        for word in first / 64..self.used.len() {
            let mut bits = self.used[word];
            if word == first / 64 {
                bits &= u64::MAX << (first % 64);
            }
            while bits != 0 {
                let free = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let bucket = &self.buckets[free];
                let rank = |key: u64| {
                    let memory_free = (key >> HOST_BITS) as f64 * self.per_mib;
                    let seen = HostUsage {
                        cores: self.cores,
                        cores_free: free as u32,
                        memory_free,
                    };
                    placement.rank(cores, memory, &seen)
                };
                let worse = |key: u64, best: &Option<(f64, usize, u32)>| {
                    best.as_ref().is_some_and(|(least, ..)| rank(key) > *least)
                };
                // Whether the search in this direction continues after a host.
                let mut consider = |key: u64, best: &mut Option<(f64, usize, u32)>| {
                    let (rank, host) = (rank(key), host_of(key));
                    if let Some((least, other, _)) = best {
                        if rank > *least {
                            return false;
                        }
                        if rank == *least && host > *other {
                            return true;
                        }
                    }
                    match offer(host) {
                        Some(offered) => {
                            *best = Some((rank, host, offered));
                            false
                        }
                        None => true,
                    }
                };
                let wanted = placement.preferred(cores, memory, self.cores, free as u32);
                // The rank does not decrease upwards from here, nor downwards.
                let exact = wanted.clamp(0.0, 1.0) * self.dram_mib as f64;
                let below = exact as u64;
                let peak = below + u64::from(exact > below as f64);
                let split = bucket.partition_point(|key| *key < peak << HOST_BITS);
                for key in &bucket[split..] {
                    if !consider(*key, &mut best) {
                        break;
                    }
                }
                // Downwards, but hosts with equal memory in the order of their numbers.
                let mut end = split;
                'down: while end > 0 {
                    if worse(bucket[end - 1], &best) {
                        break;
                    }
                    let lowest = bucket[end - 1] >> HOST_BITS << HOST_BITS;
                    let begin = bucket[..end].partition_point(|key| *key < lowest);
                    for key in &bucket[begin..end] {
                        if !consider(*key, &mut best) {
                            break 'down;
                        }
                    }
                    end = begin;
                }
            }
        }
        best.map(|(_, host, offered)| (host, offered))
    }

    fn by_number(
        &self,
        cores: u32,
        offer: &mut dyn FnMut(usize) -> Option<u32>,
    ) -> Option<(usize, u32)> {
        let mut at = 1;
        loop {
            if self.most[at] >= cores {
                if at < self.leaves {
                    at *= 2;
                    continue;
                }
                let host = at - self.leaves;
                if let Some(offered) = offer(host) {
                    return Some((host, offered));
                }
            }
            // Goes to the next subtree to the right.
            while at % 2 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
    }

    fn random(
        &mut self,
        cores: u32,
        rng: &mut StreamRng,
        offer: &mut dyn FnMut(usize) -> Option<u32>,
    ) -> Option<(usize, u32)> {
        let hosts = self.count();
        for _ in 0..DRAWS {
            let host = rng.below(hosts as u64) as usize;
            if self.cores_free[host] >= cores
                && let Some(offered) = offer(host)
            {
                return Some((host, offered));
            }
        }
        // Hardly any host accepts the VM, so draws among those that do.
        let mut fitting = std::mem::take(&mut self.fitting);
        fitting.clear();
        let takes = |host: &u32| self.cores_free[*host as usize] >= cores;
        fitting.extend((0..hosts as u32).filter(takes));
        let mut offered = None;
        while !fitting.is_empty() && offered.is_none() {
            let at = rng.below(fitting.len() as u64) as usize;
            let host = fitting.swap_remove(at) as usize;
            offered = offer(host).map(|offered| (host, offered));
        }
        self.fitting = fitting;
        offered
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::placement::{CATALOG, PlacementChoice};

    fn built(name: &str) -> Box<dyn Placement> {
        let choice = PlacementChoice {
            kind: name.to_owned(),
            params: serde_json::Map::new(),
        };
        choice.build().unwrap()
    }

    const CORES: u32 = 70;
    const DRAM_MIB: u64 = 1000;

    proptest! {
        /// Compares with a scan of all hosts in their order, whatever they have free and refuse.
        /// The steps of free memory make many hosts equal.
        #[test]
        fn the_host_that_is_found_is_that_of_a_scan_of_all(
            states in proptest::collection::vec((0u32..=CORES, 0u64..=20, any::<bool>()), 1..60),
            vms in proptest::collection::vec((1u32..=CORES, 1u32..=20), 1..8),
        ) {
            for entry in CATALOG {
                let placement = built(entry.name);
                let mut rng = StreamRng::new(1, "hosts");
                let mut hosts = Hosts::new(states.len(), CORES, DRAM_MIB, placement.order());
                for (host, (cores, steps, _)) in states.iter().enumerate() {
                    hosts.set(host, *cores, steps * 50);
                }
                for (cores, steps) in &vms {
                    let mut offer = |host: usize| states[host].2.then_some(host as u32 * 2);
                    let found = placement.find(&mut hosts, *cores, steps * 50, &mut rng, &mut offer);
                    let mut best: Option<(f64, usize)> = None;
                    for (host, (cores_free, free, takes)) in states.iter().enumerate() {
                        let memory_free = (free * 50) as f64 * (1.0 / DRAM_MIB as f64);
                        let seen = HostUsage { cores: CORES, cores_free: *cores_free, memory_free };
                        if *takes && cores_free >= cores {
                            let memory = f64::from(steps * 50) * (1.0 / DRAM_MIB as f64);
                            let rank = placement.rank(*cores, memory, &seen);
                            if best.is_none_or(|(least, _)| rank < least) {
                                best = Some((rank, host));
                            }
                        }
                    }
                    if placement.order() == Order::Random {
                        prop_assert_eq!(found.is_some(), best.is_some());
                        if let Some((host, _)) = found {
                            prop_assert!(states[host].2 && states[host].0 >= *cores);
                        }
                    } else {
                        let best = best.map(|(_, host)| (host, host as u32 * 2));
                        prop_assert_eq!(found, best, "{}", entry.name);
                    }
                }
            }
        }
    }

    /// Two of 64 hosts accept the VM. Draws among all hosts rarely find them, but the list does.
    #[test]
    fn random_placement_takes_all_hosts_that_fit_equally_often() {
        let placement = built("random");
        let mut rng = StreamRng::new(2, "random");
        let mut hosts = Hosts::new(64, 8, DRAM_MIB, placement.order());
        let mut counts = [0u32; 64];
        for _ in 0..4000 {
            let mut offer = |host: usize| (host % 32 == 5).then_some(0);
            let (host, _) = placement
                .find(&mut hosts, 1, 1, &mut rng, &mut offer)
                .unwrap();
            counts[host] += 1;
        }
        assert_eq!(counts[5] + counts[37], 4000);
        // Five standard deviations.
        assert!(counts[5].abs_diff(2000) < 160, "{}", counts[5]);
    }

    /// The calls of `offer` and `rank` for a VM do not grow with the number of hosts.
    #[test]
    fn few_hosts_are_asked_however_many_there_are() {
        for entry in CATALOG {
            let placement = built(entry.name);
            let mut rng = StreamRng::new(3, "few");
            let mut hosts = Hosts::new(20_000, 48, 1 << 18, placement.order());
            let mut asked = 0u64;
            for vm in 0..40_000 {
                let cores = 1 + rng.below(8) as u32;
                let mut offer = |_: usize| {
                    asked += 1;
                    Some(0)
                };
                let found = placement.find(&mut hosts, cores, 4096, &mut rng, &mut offer);
                let (host, _) = found.unwrap_or_else(|| panic!("no host for VM {vm}"));
                let (cores, free) = (hosts.cores_free(host) - cores, hosts.free_mib[host] - 4096);
                hosts.set(host, cores, free);
            }
            assert!(asked < 40_000 * 49, "{}: {asked}", entry.name);
        }
    }
}
