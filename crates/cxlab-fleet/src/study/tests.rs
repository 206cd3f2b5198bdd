use super::*;
use crate::params::HostParams;
use cxlab_engine::units::Bytes;

struct Parts {
    params: FleetParams,
    fabric: PodFabric,
    demand: Box<dyn Demand>,
    placement: Box<dyn Placement>,
    policy: Box<dyn PoolPolicy>,
}

fn parts(pod_hosts: usize, policy: &str) -> Parts {
    let params = FleetParams {
        hosts: 96,
        cluster: 32,
        days: 2.0,
        host: HostParams {
            dram: Bytes(256 << 30),
            ..HostParams::default()
        },
        ..FleetParams::default()
    };
    Parts {
        fabric: PodFabric::constant(pod_hosts, 1, 180.0),
        demand: params.demand.build().unwrap(),
        placement: params.placement.build().unwrap(),
        policy: PoolPolicyChoice::named(policy).build().unwrap(),
        params,
    }
}

/// Share of the requested core-hours that the clusters reject with so much DRAM.
fn rejected(run: Run<'_>, policy: &dyn PoolPolicy, mib: u64, slices: u32) -> f64 {
    let setup = run.setup(policy, mib, slices);
    run.simulate(&setup).0.rejected_part()
}

/// Checks that DRAM serves, and that one step less of it does not.
fn is_least(run: Run<'_>, needed: &NeededDram) {
    let (none, policy, allowed) = (none(), run.study.policy, needed.allowed);
    let alone = |mib| rejected(run, none.as_ref(), mib, 0);
    assert!(alone(needed.alone_mib) <= allowed, "{needed:?}");
    assert!(alone(needed.alone_mib - STEP_MIB) > allowed, "{needed:?}");
    let pooled = |slices| rejected(run, policy, needed.local_mib, slices);
    assert!(pooled(needed.device_slices) <= allowed, "{needed:?}");
    assert!(pooled(needed.device_slices - 1) > allowed, "{needed:?}");
}

impl Parts {
    fn study(&self, threads: usize) -> Study<'_> {
        Study {
            params: &self.params,
            fabric: &self.fabric,
            device_slices: 100,
            demand: self.demand.as_ref(),
            placement: self.placement.as_ref(),
            policy: self.policy.as_ref(),
            seed: 7,
            threads,
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_and_no_vm_is_lost() {
    let parts = parts(8, "static");
    let one = parts.study(1).run(&Watch::default());
    assert_eq!(one, parts.study(3).run(&Watch::default()));
    let pooled = one.pooled.as_ref().unwrap();
    for outcome in [&one.alone, pooled] {
        assert_eq!(
            outcome.arrived,
            outcome.rejected + outcome.departed + outcome.running
        );
        assert_eq!((outcome.clusters, outcome.hosts, outcome.pods), (3, 96, 12));
    }
    assert_eq!(one.alone.arrived, pooled.arrived);
}

/// The result serves, and one step less does not.
#[test]
fn the_dram_that_is_needed_is_the_least_that_serves() {
    let parts = parts(8, "static");
    let study = parts.study(2);
    let watch = Watch::default();
    let needed = study.run(&watch).needed[0];
    let clusters = study.clusters();
    let run = Run {
        study: &study,
        clusters: &clusters,
        threads: 2,
        drawn: &DrawnVms::new(clusters.len()),
        watch: &watch,
    };
    is_least(run, &needed);
    assert!(needed.local_mib < needed.alone_mib);
    // Eight hosts share one device with slices of 1 GiB.
    let pool_mib = u64::from(needed.device_slices) * 1024 / 8;
    assert!(needed.local_mib + pool_mib <= needed.alone_mib);
}

/// A pool of one host saves nothing, because every peak is the host's own.
#[test]
fn peaks_of_a_pool_of_one_host_add_up_to_the_host_alone() {
    let parts = parts(1, "static");
    let result = parts.study(2).run(&Watch::default());
    let as_if = result.as_if.unwrap();
    let alone = result.alone.local_peak_mib;
    let both = as_if.local_peak_mib + as_if.pool_peak_mib;
    // A VM's half is rounded down to a slice, and the peaks of the two
    // halves may be at different times.
    assert!(both >= alone && both < alone + alone / 20, "{both} {alone}");
}

#[test]
fn an_interrupted_study_says_so_and_keeps_what_it_has() {
    let parts = parts(8, "static");
    let watch = Watch::default();
    watch.stop.store(true, Ordering::Relaxed);
    let result = parts.study(2).run(&watch);
    assert!(result.partial && result.pooled.is_none() && result.alone.clusters == 0);
}

#[test]
fn hosts_are_rounded_up_to_whole_pods_and_clusters_are_of_whole_pods() {
    let mut parts = parts(8, "none");
    parts.params.hosts = 100;
    parts.params.cluster = 30;
    let clusters = parts.study(1).clusters();
    let pods: Vec<usize> = clusters.iter().map(|which| which.pods).collect();
    assert_eq!(pods, [4, 4, 4, 1]);
}

/// Clusters that are sized for themselves need the same as fleets of one cluster. Their sum is no
/// larger than with one size for all.
#[test]
fn a_cluster_that_is_sized_for_itself_needs_what_it_needs_as_a_fleet() {
    let mut parts = parts(8, "static");
    let fleet = parts.study(2).run(&Watch::default()).needed[0];
    parts.params.sized = SizedFor::Cluster;
    let result = parts.study(2).run(&Watch::default());
    assert_eq!(result.needed.len(), 3);
    let study = parts.study(1);
    let (watch, clusters) = (Watch::default(), study.clusters());
    for (at, needed) in result.needed.iter().enumerate() {
        let run = Run {
            study: &study,
            clusters: &clusters[at..=at],
            threads: 1,
            drawn: &DrawnVms::new(clusters.len()),
            watch: &watch,
        };
        is_least(run, needed);
    }
    let alone: u64 = result.needed.iter().map(|needed| needed.alone_mib).sum();
    assert!(
        alone <= 3 * fleet.alone_mib + 3 * STEP_MIB,
        "{alone} {fleet:?}"
    );
}

/// Without pools all memory is local. With the DRAM of `host.dram`, packing by local memory
/// then equals packing by all memory.
#[test]
fn without_pools_packing_by_local_memory_changes_nothing() {
    let mut parts = parts(8, "none");
    parts.params.sizing = Sizing::Given;
    let all = parts.study(2).run(&Watch::default());
    parts.params.packs = crate::params::Packs::Local;
    assert_eq!(parts.study(2).run(&Watch::default()), all);
}

/// If slow VMs are limited, the DRAM that is found keeps the limit, and is
/// no less than without the limit.
#[test]
fn dram_is_sized_so_that_few_vms_are_slow() {
    let mut parts = parts(8, "on-demand");
    let free = parts.study(2).run(&Watch::default());
    let slow = |result: &StudyResult| result.pooled.as_ref().unwrap().slowdown.part_from(50);
    let limit = slow(&free) / 2.0;
    assert!(limit > 0.0);
    parts.params.slow = Some(crate::params::Slow {
        bound: 0.05,
        part: limit,
    });
    let limited = parts.study(2).run(&Watch::default());
    // The fabric is constant, so its loads do not matter.
    assert!(slow(&limited) <= limit, "{} {limit}", slow(&limited));
    let dram = |result: &StudyResult| {
        let needed = result.needed[0];
        needed.local_mib + u64::from(needed.device_slices) * 1024 / 8
    };
    assert!(dram(&limited) >= dram(&free));
}
