use proptest::prelude::*;

use super::*;
use crate::demand::{DemandChoice, VmRequest};
use crate::params::{HostParams, Spread};
use crate::placement::PlacementChoice;
use crate::policy::PoolPolicyChoice;

#[derive(Debug)]
struct Fixed(Vec<VmRequest>);

impl Demand for Fixed {
    fn asks(&self, _: &ClusterDemand, _: &mut StreamRng) -> Vec<VmRequest> {
        self.0.clone()
    }

    fn most_mib_per_core(&self) -> f64 {
        8192.0
    }
}

fn ask(start_s: u64, life_s: u64, cores: u32, gib: u32) -> VmRequest {
    VmRequest {
        start_s,
        end_s: start_s + life_s,
        cores,
        memory_mib: gib * 1024,
        loss: None,
        untouched: None,
    }
}

fn params(cores: u32, gib: u64, days: f64) -> FleetParams {
    FleetParams {
        days,
        host: HostParams {
            cores,
            dram: cxlab_engine::units::Bytes(gib << 30),
            ..HostParams::default()
        },
        placement: serde_json::from_str(r#"{"kind": "best-fit"}"#).unwrap(),
        ..FleetParams::default()
    }
}

struct Parts {
    params: FleetParams,
    fabric: PodFabric,
    demand: Box<dyn Demand>,
    placement: Box<dyn Placement>,
    policy: Box<dyn PoolPolicy>,
}

impl Parts {
    fn new(params: FleetParams, hosts: usize, demand: Box<dyn Demand>, policy: &str) -> Parts {
        Parts {
            placement: params.placement.build().unwrap(),
            fabric: PodFabric::constant(hosts, 2, 170.0),
            demand,
            policy: PoolPolicyChoice::named(policy).build().unwrap(),
            params,
        }
    }

    fn setup(&self, device_slices: u32) -> Setup<'_> {
        Setup {
            params: &self.params,
            fabric: &self.fabric,
            demand: self.demand.as_ref(),
            placement: self.placement.as_ref(),
            policy: self.policy.as_ref(),
            local_mib: self.params.host.dram.0 / MIB,
            device_slices,
            as_if_mib: None,
            seed: 1,
            series: true,
            budget: None,
            drawn: None,
        }
    }

    fn run(&self, device_slices: u32) -> Outcome {
        run(&self.setup(device_slices), WHICH)
    }
}

const WHICH: ClusterId = ClusterId {
    index: 0,
    of: 1,
    pods: 1,
};

/// M/G/c/c: one host of c cores and VMs of one core, with any lifetimes, rejects the share that
/// Erlang's formula B gives, and has the mean cores in use that Little's law gives.
#[test]
fn one_host_of_small_vms_rejects_what_erlang_b_says() {
    let text = r#"{"kind": "generator", "load": [0.9, 0.9], "daily": 0.0, "mix_spread": 0.0,
        "cores": [{"cores": 1, "weight": 1}], "memory": [{"gib": 1.0, "weight": 1}],
        "lifetimes": [{"hours": 0.1, "part": 0.0}, {"hours": 1.0, "part": 0.7}, {"hours": 9.0, "part": 1.0}]}"#;
    let choice: DemandChoice = serde_json::from_str(text).unwrap();
    let parts = Parts::new(params(20, 64, 900.0), 1, choice.build().unwrap(), "none");
    let outcome = parts.run(0);
    let load = 18.0;
    let mut blocked = 1.0;
    for cores in 1..=20 {
        blocked = load * blocked / (f64::from(cores) + load * blocked);
    }
    let found = outcome.rejected as f64 / outcome.arrived as f64;
    // Rejections come in bursts, so their number varies more than that of independent ones.
    assert!(
        (found / blocked - 1.0).abs() < 0.03,
        "{found}, Erlang B {blocked}, of {}",
        outcome.arrived
    );
    let used = outcome.mean(|point| point.cores as f64);
    assert!(
        (used / (load * (1.0 - blocked)) - 1.0).abs() < 0.01,
        "{used}"
    );
}

/// Compares with an independent count over all pairs of VM and time.
#[test]
fn the_series_is_what_a_count_of_all_vms_at_each_time_gives() {
    let mut rng = StreamRng::new(2, "count");
    let mut one = || {
        let (start_s, life_s) = (rng.below(86_400), 1 + rng.below(40_000));
        let (cores, gib) = (1 + rng.below(4) as u32, 1 + rng.below(16) as u32);
        ask(start_s, life_s, cores, gib)
    };
    let mut asks: Vec<VmRequest> = (0..300).map(|_| one()).collect();
    asks.sort_by_key(|ask| ask.start_s);
    let parts = Parts::new(
        params(1000, 100_000, 1.0),
        4,
        Box::new(Fixed(asks.clone())),
        "static",
    );
    let outcome = parts.run(UNLIMITED_SLICES);
    assert_eq!((outcome.arrived, outcome.rejected), (300, 0));
    assert_eq!(outcome.departed + outcome.running, 300);
    assert_eq!(outcome.series.len(), 24);
    for (hour, point) in outcome.series.iter().enumerate() {
        let now = hour as u64 * 3600;
        let runs = |ask: &&VmRequest| ask.start_s <= now && now < ask.end_s;
        let there: Vec<&VmRequest> = asks.iter().filter(runs).collect();
        let sum = |of: &dyn Fn(&VmRequest) -> u64| there.iter().map(|ask| of(ask)).sum::<u64>();
        assert_eq!(point.vms, there.len() as u64, "at {hour} h");
        assert_eq!(point.cores, sum(&|ask| u64::from(ask.cores)));
        let half = |ask: &VmRequest| u64::from(ask.memory_mib) / 2 / 1024 * 1024;
        assert_eq!(point.pool_mib, sum(&half));
        assert_eq!(
            point.local_mib + point.pool_mib,
            sum(&|ask| u64::from(ask.memory_mib))
        );
    }
}

#[test]
fn memory_is_stranded_where_all_cores_are_taken() {
    // One host: 4 cores, 64 GiB. Three cores with 8 GiB in all leave one core, which could use 8
    // GiB of the 56 free ones. A VM on the fourth core strands all free memory.
    for (asks, expected) in [
        (
            vec![ask(0, 86_400, 3, 8), ask(7200, 3600, 1, 8)],
            &[48, 48, 48, 48][..],
        ),
        (vec![ask(0, 7200, 4, 8)], &[56, 56, 32]),
    ] {
        let parts = Parts::new(params(4, 64, 1.0), 1, Box::new(Fixed(asks)), "none");
        let points = &parts.run(0).series[..expected.len()];
        let stranded: Vec<u64> = points.iter().map(|one| one.stranded_mib / 1024).collect();
        assert_eq!(stranded, expected);
    }
}

#[test]
fn slowdown_is_loss_times_added_latency_times_the_part_of_accesses() {
    let mut one = ask(0, 90_000, 1, 8);
    one.loss = Some(0.2);
    one.untouched = Some(0.25);
    // Half of the memory is pool memory and a quarter is untouched, so a third of the touched memory is in the pool.
    let parts = Parts::new(params(4, 64, 1.0), 1, Box::new(Fixed(vec![one])), "static");
    let outcome = parts.run(100);
    let expected = 0.2 / 0.82 * (170.0 / 85.0 - 1.0) / 3.0;
    assert!((outcome.slowdown.mean() - expected).abs() < 1e-12);
    assert_eq!(outcome.series[0].latency_sum_ns, 170.0);
    let mut parts = parts;
    parts.params.exposure = Exposure::Uniform;
    assert!((parts.run(100).slowdown.mean() - expected * 1.5).abs() < 1e-12);
}

/// One host has a VM of 16 GiB, of which 2 GiB are local, the other a VM of 12 GiB, all local. The
/// second host is emptier by all memory, and the first by local memory.
#[test]
fn packing_by_local_memory_ranks_hosts_by_what_is_local() {
    let mut asks = vec![ask(0, 9000, 1, 16), ask(1, 9000, 1, 12), ask(2, 9000, 1, 4)];
    asks[0].untouched = Some(0.9);
    asks[1].untouched = Some(0.0);
    let run = |packs: Packs| {
        let params = FleetParams {
            packs,
            placement: serde_json::from_str(r#"{"kind": "worst-fit"}"#).unwrap(),
            ..params(2, 24, 1.0)
        };
        let policy = r#"{"kind": "untouched", "margin": 0.0, "error": 0.0}"#;
        let parts = Parts {
            policy: serde_json::from_str::<PoolPolicyChoice>(policy)
                .unwrap()
                .build()
                .unwrap(),
            ..Parts::new(params, 2, Box::new(Fixed(asks.clone())), "none")
        };
        let setup = Setup {
            local_mib: 16 * 1024,
            ..parts.setup(100)
        };
        let vms = drawn(&setup, WHICH);
        let mut cluster = Cluster::new(&setup, WHICH);
        for vm in &vms {
            assert!(cluster.admit(vm));
        }
        cluster
            .live
            .iter()
            .map(|live| live.host)
            .collect::<Vec<u32>>()
    };
    // The first VM has 2 GiB local and 14 GiB in the pool. The second has all 12 GiB local.
    assert_eq!(run(Packs::All), [0, 1, 1]);
    assert_eq!(run(Packs::Local), [0, 1, 0]);
}

/// A VM that loses too much gets local DRAM for its pool memory at the next sampling point. A VM
/// that loses little keeps its pool memory, and so does one whose host lacks free DRAM.
#[test]
fn the_monitor_gives_local_memory_to_vms_that_lose_too_much() {
    let vm = |loss: f64, gib: u32| {
        let mut one = ask(0, 90_000, 1, gib);
        (one.loss, one.untouched) = (Some(loss), Some(0.0));
        one
    };
    let run = |asks: Vec<VmRequest>, gib: u64| {
        let params = FleetParams {
            monitor: Some(crate::params::Monitor { bound: 0.05 }),
            ..params(4, gib, 1.0)
        };
        Parts::new(params, 1, Box::new(Fixed(asks)), "static").run(100)
    };
    let pool = |outcome: &Outcome, at: usize| outcome.series[at].pool_mib / 1024;
    // At 200 % of local latency and with half of its memory in the pool, a VM loses 0.61 of its loss.
    let outcome = run(vec![vm(0.2, 8), vm(0.06, 16)], 64);
    assert_eq!(
        (pool(&outcome, 0), pool(&outcome, 1), outcome.mitigated),
        (12, 8, 1)
    );
    assert_eq!(outcome.series[1].local_mib / 1024, 16);
    // 12 GiB are local, so the 4 GiB needed exceed the 15 GiB of the host.
    let outcome = run(vec![vm(0.2, 8), vm(0.06, 16)], 15);
    assert_eq!((pool(&outcome, 1), outcome.mitigated), (12, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compares best fit without a pool with a model without state. For each VM, that model adds up
    /// all running VMs again, and searches the host by the rule as documented.
    #[test]
    fn best_fit_places_as_a_naive_model(
        vms in proptest::collection::vec((0u64..50, 1u64..400, 1u32..9, 1u32..33), 1..80),
    ) {
        let mut asks: Vec<VmRequest> = vms.iter().map(|(at, life, cores, gib)| ask(at * 10, *life, *cores, *gib)).collect();
        asks.sort_by_key(|ask| ask.start_s);
        let parts = Parts::new(params(16, 48, 1.0), 3, Box::new(Fixed(asks.clone())), "none");
        let mut placed: Vec<(usize, &VmRequest)> = Vec::new();
        let mut rejected = 0;
        for ask in &asks {
            let mut best: Option<(u32, u32, usize)> = None;
            for host in 0..3 {
                let there = || placed.iter().filter(|(at, other)| *at == host && other.end_s > ask.start_s);
                let cores: u32 = 16 - there().map(|(_, other)| other.cores).sum::<u32>();
                let memory: u32 = 48 * 1024 - there().map(|(_, other)| other.memory_mib).sum::<u32>();
                if cores >= ask.cores && memory >= ask.memory_mib && best.is_none_or(|found| (cores, memory, host) < found) {
                    best = Some((cores, memory, host));
                }
            }
            match best {
                Some((_, _, host)) => placed.push((host, ask)),
                None => rejected += 1,
            }
        }
        let outcome = parts.run(0);
        prop_assert_eq!(outcome.rejected, rejected);
        prop_assert_eq!(outcome.arrived, asks.len() as u64);
        prop_assert_eq!(outcome.departed + outcome.running + outcome.rejected, outcome.arrived);
    }

    /// For every policy, placement and limit: hosts and pools have granted exactly what their VMs
    /// have, no limit is exceeded, and every VM is accounted for.
    #[test]
    fn memory_is_conserved_at_every_moment(
        vms in proptest::collection::vec((0u64..50, 1u64..400, 1u32..9, 1u32..33), 1..60),
        policy in 0usize..6, placement in 0usize..6, slices in 0u32..40, near in any::<bool>(), monitored in any::<bool>(),
        local in any::<bool>(),
    ) {
        let mut asks: Vec<VmRequest> = vms.iter().map(|(at, life, cores, gib)| ask(at * 10, *life, *cores, *gib)).collect();
        asks.sort_by_key(|ask| ask.start_s);
        let policy = crate::policy::CATALOG[policy].name;
        let placement = crate::placement::CATALOG[placement].name.to_owned();
        let params = FleetParams {
            placement: PlacementChoice { kind: placement, params: serde_json::Map::new() },
            spread: if near { Spread::Near } else { Spread::Even },
            packs: if local { Packs::Local } else { Packs::All },
            ..params(16, 40, 1.0)
        };
        let parts = Parts::new(params, 2, Box::new(Fixed(asks.clone())), policy);
        let setup = parts.setup(slices);
        let which = ClusterId { pods: 2, ..WHICH };
        let vms = drawn(&setup, which);
        let mut cluster = Cluster::new(&setup, which);
        let (mut taken, mut refused) = (0, 0);
        for vm in &vms {
            cluster.leave_until(vm.start_s);
            if cluster.admit(vm) { taken += 1 } else { refused += 1 }
            check(&cluster, slices)?;
            if monitored {
                cluster.mitigate(0.02);
                check(&cluster, slices)?;
            }
        }
        cluster.leave_until(u64::MAX);
        check(&cluster, slices)?;
        prop_assert_eq!(cluster.outcome.departed, taken);
        prop_assert_eq!(taken + refused, vms.len() as u64);
        prop_assert!(cluster.local_used.iter().all(|used| *used == 0));
    }
}

fn check(cluster: &Cluster<'_>, device_slices: u32) -> Result<(), TestCaseError> {
    let running = cluster.running.iter();
    let live = || (running.clone()).map(|number| &cluster.live[*number as usize]);
    for host in 0..cluster.hosts.count() {
        let mine = || live().filter(|one| one.host as usize == host);
        let cores: u32 = mine().map(|one| one.cores).sum();
        let local: u64 = mine().map(|one| one.local_mib).sum();
        let all: u64 = mine()
            .map(|one| one.local_mib + u64::from(one.slices) * 1024)
            .sum();
        prop_assert_eq!(cluster.hosts.cores_free(host), 16 - cores);
        prop_assert_eq!(cluster.local_used[host], local);
        prop_assert_eq!(cluster.total_used[host], all);
        prop_assert!(local <= 40 * 1024);
    }
    for pod in 0..2 {
        let slices: u32 = live()
            .filter(|one| one.host as usize / 2 == pod)
            .map(|one| one.slices)
            .sum();
        let free: u32 = (0..2)
            .map(|device| cluster.pools.device_free(pod, device))
            .sum();
        prop_assert_eq!(cluster.pool_used[pod], slices);
        prop_assert_eq!(free + slices, 2 * device_slices);
    }
    Ok(())
}
