//! The pools of a cluster: devices of pods, divided into slices.
//!
//! # Invariants
//! The free and granted slices of a device add up to its capacity. The free slices of a group of
//! hosts are the sum over the devices that the group reaches.

use crate::fabric::PodFabric;
use crate::params::Spread;

/// Marks the end of a list of grants.
const END: u32 = u32::MAX;

/// Slices of one device that a VM has, and the index of the VM's next grant.
#[derive(Clone, Copy, Debug)]
struct Grant {
    device: u32,
    slices: u32,
    next: u32,
}

/// The pool slices of a VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantedSlices {
    first: u32,
}

impl GrantedSlices {
    /// The value of a VM without pool memory.
    pub const NONE: GrantedSlices = GrantedSlices { first: END };
}

/// Hosts of a pod that reach the same devices with the same latencies.
#[derive(Debug)]
struct Group {
    devices: Vec<u32>,
    /// Unloaded latency in nanoseconds, by index in `devices`.
    ns: Vec<f64>,
}

/// The devices of all pods of a cluster.
#[derive(Debug)]
pub struct Pools {
    /// By host of a pod: index of its group.
    group_of: Vec<usize>,
    groups: Vec<Group>,
    /// By device of a pod: the groups that reach it.
    groups_of: Vec<Vec<usize>>,
    devices: usize,
    /// Free slices, by pod and device.
    free: Vec<u32>,
    /// Free slices that a group reaches, by pod and group.
    group_free: Vec<u32>,
    grants: Vec<Grant>,
    unused: Vec<u32>,
    spread: Spread,
    /// Working buffer: devices in the order in which they grant.
    order: Vec<(usize, u32)>,
}

impl Pools {
    /// Pools of `pods` pods, whose devices have `device_slices` slices each.
    pub fn new(fabric: &PodFabric, pods: usize, device_slices: u32, spread: Spread) -> Pools {
        let devices = fabric.devices();
        let mut rows: Vec<&Vec<Option<f64>>> = Vec::new();
        let mut group_of = Vec::with_capacity(fabric.hosts());
        for row in &fabric.unloaded_ns {
            let at = rows.iter().position(|known| *known == row);
            group_of.push(at.unwrap_or_else(|| {
                rows.push(row);
                rows.len() - 1
            }));
        }
        let group = |row: &&Vec<Option<f64>>| {
            let places = row.iter().enumerate();
            let reached = places.filter_map(|(at, ns)| ns.map(|ns| (at as u32, ns)));
            let (devices, ns) = reached.unzip();
            Group { devices, ns }
        };
        let groups: Vec<Group> = rows.iter().map(group).collect();
        let reaches = |group: &Group, device: usize| group.devices.contains(&(device as u32));
        let groups_of = (0..devices)
            .map(|device| {
                (0..groups.len())
                    .filter(|at| reaches(&groups[*at], device))
                    .collect()
            })
            .collect();
        let all = |group: &Group| group.devices.len() as u32 * device_slices;
        let each: Vec<u32> = groups.iter().map(all).collect();
        Pools {
            group_of,
            groups_of,
            devices,
            free: vec![device_slices; pods * devices],
            group_free: each.repeat(pods),
            groups,
            grants: Vec::new(),
            unused: Vec::new(),
            spread,
            order: Vec::new(),
        }
    }

    /// Number of free slices that a host of a pod reaches.
    pub fn free(&self, pod: usize, host: usize) -> u32 {
        self.group_free[pod * self.groups.len() + self.group_of[host]]
    }

    /// Number of free slices of a pod's device.
    pub fn device_free(&self, pod: usize, device: usize) -> u32 {
        self.free[pod * self.devices + device]
    }

    /// Largest number of slices that a device of a pod has granted,
    /// given the slices of each device.
    pub fn most_granted(&self, pod: usize, device_slices: u32) -> u32 {
        let mine = &self.free[pod * self.devices..(pod + 1) * self.devices];
        device_slices - mine.iter().copied().min().unwrap_or(device_slices)
    }

    /// Grants slices to a host of a pod, which must reach that many free ones. Also returns
    /// their mean unloaded latency, in nanoseconds.
    pub fn grant(&mut self, pod: usize, host: usize, slices: u32) -> (GrantedSlices, f64) {
        if slices == 0 {
            return (GrantedSlices::NONE, 0.0);
        }
        let number = self.group_of[host];
        let group = &self.groups[number];
        let base = pod * self.devices;
        self.order.clear();
        let free = |device: u32| self.free[base + device as usize];
        let places = group.devices.iter().enumerate();
        self.order
            .extend(places.map(|(at, device)| (at, free(*device))));
        let shares = match self.spread {
            Spread::Even => {
                let most_first = |(at, free): &(usize, u32)| (std::cmp::Reverse(*free), *at);
                self.order.sort_unstable_by_key(most_first);
                level(&self.order, slices)
            }
            Spread::Near => {
                self.order.sort_by(|a, b| {
                    let near = group.ns[a.0].total_cmp(&group.ns[b.0]);
                    near.then(b.1.cmp(&a.1)).then(a.0.cmp(&b.0))
                });
                fill(&self.order, slices)
            }
        };
        let (mut first, mut sum) = (END, 0.0);
        let granting = self.order.iter().zip(shares);
        for ((at, _), share) in granting.filter(|(_, share)| *share > 0) {
            let device = group.devices[*at];
            sum += f64::from(share) * group.ns[*at];
            self.free[base + device as usize] -= share;
            for reached in &self.groups_of[device as usize] {
                self.group_free[pod * self.groups.len() + reached] -= share;
            }
            let grant = Grant {
                device,
                slices: share,
                next: first,
            };
            first = put(&mut self.grants, &mut self.unused, grant);
        }
        (GrantedSlices { first }, sum / f64::from(slices))
    }

    /// Releases the slices of a VM.
    pub fn release(&mut self, pod: usize, granted: GrantedSlices) {
        let mut at = granted.first;
        while at != END {
            let grant = self.grants[at as usize];
            let device = grant.device as usize;
            self.free[pod * self.devices + device] += grant.slices;
            for reached in &self.groups_of[device] {
                self.group_free[pod * self.groups.len() + reached] += grant.slices;
            }
            self.unused.push(at);
            at = grant.next;
        }
    }
}

/// Stores a value at an unused place of a list, or at its end. Returns the place.
pub(crate) fn put<T>(list: &mut Vec<T>, unused: &mut Vec<u32>, value: T) -> u32 {
    if let Some(place) = unused.pop() {
        list[place as usize] = value;
        return place;
    }
    list.push(value);
    list.len() as u32 - 1
}

/// Slices to take from each device, with the device with most free slices first, so that free
/// slices become as even as possible. The devices must have enough.
fn level(order: &[(usize, u32)], slices: u32) -> Vec<u32> {
    let mut shares = vec![0; order.len()];
    // The fewest devices that can be lowered to the level of the next device. Their remaining
    // slices are then fewer than any of them has now.
    let mut sum = 0u64;
    let mut used = 0;
    for (count, (_, free)) in order.iter().enumerate() {
        let above = sum - count as u64 * u64::from(*free);
        if count > 0 && above >= u64::from(slices) {
            break;
        }
        sum += u64::from(*free);
        used = count + 1;
    }
    let left = sum - u64::from(slices);
    let (each, mut odd) = (left / used as u64, left % used as u64);
    for (share, (_, free)) in shares.iter_mut().zip(&order[..used]) {
        let keeps = each + u64::from(odd > 0);
        odd = odd.saturating_sub(1);
        *share = (u64::from(*free) - keeps) as u32;
    }
    shares
}

/// Slices to take from each device in order, each as many as it has.
fn fill(order: &[(usize, u32)], slices: u32) -> Vec<u32> {
    let mut left = slices;
    let take = |(_, free): &(usize, u32)| {
        let share = left.min(*free);
        left -= share;
        share
    };
    order.iter().map(take).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with the naive rule: one slice after another, from
        /// the device with most free slices.
        #[test]
        fn even_shares_are_those_of_one_slice_after_another(
            mut frees in proptest::collection::vec(0u32..40, 1..9), part in 0.0f64..=1.0,
        ) {
            frees.sort_unstable_by(|a, b| b.cmp(a));
            let total: u32 = frees.iter().sum();
            let slices = ((f64::from(total) * part) as u32).max(1);
            prop_assume!(slices <= total);
            let order: Vec<(usize, u32)> = frees.iter().copied().enumerate().collect();
            let shares = level(&order, slices);
            prop_assert_eq!(shares.iter().sum::<u32>(), slices);
            let mut left: Vec<u32> = frees.iter().zip(&shares).map(|(free, share)| free - share).collect();
            for _ in 0..slices {
                let most = (0..frees.len()).max_by_key(|at| frees[*at]).unwrap();
                frees[most] -= 1;
            }
            left.sort_unstable();
            frees.sort_unstable();
            prop_assert_eq!(left, frees);
        }

        /// Grants and releases in any order: the free slices by device and by group equal a plain
        /// recount, and in the end all slices are free.
        #[test]
        fn no_slice_is_lost_whoever_reaches_what(
            reach in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 4), 3),
            near in any::<bool>(),
            steps in proptest::collection::vec((0usize..2, 0usize..3, 0u32..12, any::<bool>()), 1..60),
        ) {
            let unloaded_ns: Vec<Vec<Option<f64>>> = (reach.iter())
                .map(|row| row.iter().enumerate().map(|(at, reached)| reached.then_some(at as f64)).collect())
                .collect();
            let fabric = PodFabric { unloaded_ns, ..PodFabric::constant(0, 0, 0.0) };
            let spread = if near { Spread::Near } else { Spread::Even };
            let mut pools = Pools::new(&fabric, 2, 10, spread);
            let mut held: Vec<(usize, GrantedSlices, u32)> = Vec::new();
            for (pod, host, slices, back) in steps {
                if back && !held.is_empty() {
                    let (pod, granted, _) = held.swap_remove(0);
                    pools.release(pod, granted);
                } else {
                    let slices = slices.min(pools.free(pod, host));
                    let (granted, _) = pools.grant(pod, host, slices);
                    held.push((pod, granted, slices));
                }
                for pod in 0..2 {
                    for (host, row) in reach.iter().enumerate() {
                        let sum: u32 = (0..4).filter(|device| row[*device]).map(|device| pools.device_free(pod, device)).sum();
                        prop_assert_eq!(sum, pools.free(pod, host));
                    }
                    let free: u32 = (0..4).map(|device| pools.device_free(pod, device)).sum();
                    let out: u32 = held.iter().filter(|one| one.0 == pod).map(|one| one.2).sum();
                    prop_assert_eq!(free + out, 40);
                }
            }
            for (pod, granted, _) in held {
                pools.release(pod, granted);
            }
            prop_assert!((0..2).all(|pod| (0..4).all(|device| pools.device_free(pod, device) == 10)));
        }
    }

    #[test]
    fn near_devices_give_first_and_the_latency_is_the_mean_of_the_slices() {
        let fabric = PodFabric {
            unloaded_ns: vec![vec![Some(300.0), Some(200.0)]],
            ..PodFabric::constant(0, 0, 0.0)
        };
        let mut pools = Pools::new(&fabric, 1, 10, Spread::Near);
        assert_eq!(pools.grant(0, 0, 8).1, 200.0);
        assert_eq!(pools.grant(0, 0, 8).1, (2.0 * 200.0 + 6.0 * 300.0) / 8.0);
        assert_eq!((pools.free(0, 0), pools.device_free(0, 1)), (4, 0));
    }
}
