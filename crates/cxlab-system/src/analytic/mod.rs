//! The analytic form of a plan: from the same scenario to a network of stations and flows, and
//! from its solution to a report. `docs/explain/analytic.md` has the model and its error against events.

mod calibrate;
pub mod compare;
mod demand;
mod fabric;
mod judge;
mod phases;
mod pod;
mod report;
mod timeline;

use cxlab_analytic::{
    ConstantStages, Flow, MessageClass, Network, Solution, Station, Visit, Wire, classify, probe,
};
use cxlab_device::WriteCompletion;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::LINE_BYTES;
use cxlab_fabric::switch::Arbitration;
use cxlab_host::RequesterParams;
use cxlab_link::Duplex;
use cxlab_memory::{FaultList, MediumSite};
use cxlab_plan::routes::Router;
use cxlab_plan::{End, Plan, PlannedLink, Problem};

pub use calibrate::{Calibration, Corrected, calibrate};
pub use cxlab_analytic::{ErrorClass, ErrorClasses};
pub use fabric::{PlanFabric, PoolDemand, PoolResponse};
pub use pod::PodModel;
pub use report::{
    AnalyticBottleneck, AnalyticHost, AnalyticLatency, AnalyticLink, AnalyticReport, PairLatency,
    summary,
};
pub use timeline::{GuestLine, PlanMemory, SharedLine, SharedRegion, SnoopCounts, default_local};

use demand::{Demand, HostDemand};

/// Computes a plan's report without running events.
///
/// # Errors
/// Plans that the analytic form does not cover: cores, device-coherent memory, media without a known rate.
pub fn analyze(plan: &Plan, seed: u64) -> Result<AnalyticReport, Vec<Problem>> {
    let computed = UnjudgedForm::of(plan, seed, &demand::first(plan))?;
    let found = classify(&computed.network, &computed.solution);
    let judged = judge::judge(plan, &computed, found, judge::Of::Form);
    Ok(report::assemble(plan, seed, &computed, &judged))
}

/// Results of the form for a plan, before their error classes are judged.
struct UnjudgedForm {
    demand: Demand,
    network: Network,
    media: Media,
    solution: Solution,
    /// Number of networks over which the solution is averaged.
    phases: usize,
}

impl UnjudgedForm {
    /// # Errors
    /// Plans that the analytic form does not cover.
    fn of(
        plan: &Plan,
        seed: u64,
        parts: &[demand::CountedOperations],
    ) -> Result<UnjudgedForm, Vec<Problem>> {
        refuse(plan)?;
        let demand = demand::draw(plan, seed, parts)?;
        let (network, media) = network_of(plan, &demand, seed)?;
        let (solution, phases) = phases::solve_phases(plan, &network);
        Ok(UnjudgedForm {
            demand,
            network,
            media,
            solution,
            phases,
        })
    }
}

/// Refuses plans that the form does not cover, for components in use.
fn refuse(plan: &Plan) -> Result<(), Vec<Problem>> {
    let mut problems: Vec<Problem> = (plan.scenario.devices.iter().enumerate())
        .filter(|(_, group)| group.is_hdm_db())
        .map(|(at, _)| {
            Problem::new(
                format!("devices[{at}].coherence.class"),
                "found \"hdm-db\"; allowed in analytic mode: \"hdm-h\" (what snoops cost depends on \
                 who shares which line when, which has no closed form)",
            )
        })
        .collect();
    if !plan.scenario.accelerators.is_empty() {
        problems.push(Problem::new(
            "accelerators[0]",
            "found an accelerator; allowed in analytic mode: none (caches that take lines from one \
             another have no closed form)",
        ));
    }
    match (problems.is_empty(), refuse_of_guests(plan)) {
        (true, found) => found,
        (false, Ok(())) => Err(problems),
        (false, Err(others)) => Err(problems.into_iter().chain(others).collect()),
    }
}

/// As [`refuse`], where device-coherent memory and accelerators are covered.
fn refuse_of_guests(plan: &Plan) -> Result<(), Vec<Problem>> {
    plan.refuse_external()?;
    let mut problems: Vec<Problem> = Vec::new();
    for (at, group) in plan.scenario.hosts.iter().enumerate() {
        let issue = group.requester();
        if issue.is_some_and(|issue| issue.throttle.is_some()) {
            problems.push(Problem::new(
                format!("hosts[{at}].issue.throttle"),
                "found a throttle; allowed in analytic mode: none (it has no time, and a throttle \
                 follows the load)",
            ));
        }
        if issue.is_some_and(|issue| issue.overfetch.is_some()) {
            problems.push(Problem::new(
                format!("hosts[{at}].issue.overfetch"),
                "found lines read in vain; allowed in analytic mode: none (it knows requests of the \
                 workload)",
            ));
        }
    }
    for (at, workload) in plan.workloads.iter().enumerate() {
        if workload.request().0 != LINE_BYTES {
            problems.push(Problem::new(
                format!("hosts[{at}].workload.request"),
                "found more or less than 64 B; allowed in analytic mode: 64 B (it knows requests of \
                 a line)",
            ));
        }
        let issue = plan.scenario.hosts[at].requester();
        if issue.is_some_and(|issue| issue.in_order) {
            problems.push(Problem::new(
                format!("hosts[{at}].issue.in_order"),
                "found true; allowed in analytic mode: false (it has no order)",
            ));
        }
    }
    let mut groups = plan.scenario.devices.iter();
    if let Some(at) = groups.position(|group| group.media_errors.is_some()) {
        problems.push(Problem::new(
            format!("devices[{at}].media_errors"),
            "found media errors; allowed in analytic mode: none (it reads no lines)",
        ));
    }
    if plan.has_events() {
        let path = match plan.scenario.events.is_empty() {
            true => "regions",
            false => "events[0]",
        };
        problems.push(Problem::new(
            path,
            "found capacity that comes or goes, or what fails; allowed in analytic mode: regions that all their \
             hosts have from the beginning, and no [[events]] (it has no time)",
        ));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems),
    }
}

/// Groups of hosts whose requests in flight cannot fill their links, in words: requests times lines
/// over the latency to the nearest device without load and without its medium.
pub fn in_flight_limits(plan: &Plan) -> Vec<String> {
    let router = Router::new(plan);
    let mut limits = Vec::new();
    for (at, group) in plan.scenario.hosts.iter().enumerate() {
        let first = plan.hosts.iter().position(|host| host.group == at);
        let (Some(host), Some(issue)) = (first, group.requester()) else {
            continue;
        };
        let Some(latency) = router.nearest_ps(host) else {
            continue;
        };
        let outstanding = f64::from(issue.outstanding);
        let carried = 64_000.0 * outstanding / latency as f64;
        let paced = 64_000.0 / issue.interval_ps().max(1) as f64;
        let wire = plan.host_gb_per_s(host);
        if carried < wire.min(paced) {
            limits.push(format!(
                "hosts[{at}].issue.outstanding = {outstanding} carry at most {carried:.1} GB/s over {:.0} ns \
                 to the nearest medium and back, a host's links {wire:.1} of reads; {:.0} fill them",
                latency as f64 / 1e3,
                (outstanding * wire / carried).ceil()
            ));
        }
    }
    limits
}

/// Measured models of the media, by device group.
type Media = Vec<Option<cxlab_analytic::MediumModel>>;

fn network_of(plan: &Plan, demand: &Demand, seed: u64) -> Result<(Network, Media), Vec<Problem>> {
    let media = media(plan, demand, seed)?;
    let mut network = Network {
        arbitration: match plan.scenario.fabric.switch.arbitration {
            Arbitration::RoundRobin => cxlab_analytic::Arbitration::RoundRobin,
            Arbitration::Age => cxlab_analytic::Arbitration::Age,
        },
        ..Network::default()
    };
    for link in &plan.links {
        let wire = wire(plan, link);
        network.stations.push(Station::Wire(wire.clone()));
        network.stations.push(Station::Wire(wire));
    }
    for device in &plan.devices {
        // A device without requests has a station without visits.
        let of_group = device.memory().and_then(|group| media[group]);
        let medium = of_group.unwrap_or(cxlab_analytic::MediumModel {
            read_ps: 0,
            write_ps: 0,
            constant: true,
            service_ps: 0.0,
            half_wait_ps: 0.0,
            places: 1.0,
        });
        network.stations.push(Station::Medium(medium));
    }
    let router = Router::new(plan);
    for (number, one) in demand.hosts.iter().enumerate() {
        let issue = issue(plan, number);
        let limits = one.limits(issue.outstanding, issue.interval_ps());
        network.hosts.push(limits);
        add_flows(plan, &router, &media, number, one, &mut network.flows);
    }
    Ok((network, media))
}

/// How a host issues. Hosts of other kinds were refused when their demand was drawn.
fn issue(plan: &Plan, host: usize) -> &RequesterParams {
    match plan.scenario.hosts[plan.hosts[host].group].requester() {
        Some(issue) => issue,
        None => unreachable!("analytic mode takes requesters alone"),
    }
}

/// Both directions of a link.
fn wire(plan: &Plan, link: &PlannedLink) -> Wire {
    let inside = matches!((link.a, link.b), (End::Switch(..), End::Switch(..)));
    let channels = match inside {
        true => plan.tables.virtual_channels(),
        false => 1,
    };
    Wire::new(&link.params, plan.pipelines(link), channels)
}

/// Measures the medium of each group of devices, with the addresses of its busiest device.
fn media(plan: &Plan, demand: &Demand, seed: u64) -> Result<Media, Vec<Problem>> {
    plan.rehearse_media()?;
    let faults = FaultList::default();
    let mut media = vec![None; plan.scenario.devices.len()];
    for (at, group) in plan.scenario.devices.iter().enumerate() {
        let members =
            (0..plan.devices.len()).filter(|number| plan.devices[*number].memory() == Some(at));
        let busiest = members.max_by_key(|number| demand.accesses[*number].len());
        let Some(number) = busiest.filter(|number| demand.accesses[*number].len() > 3) else {
            continue;
        };
        let fresh = || {
            plan.media.devices[at].backend(MediumSite {
                capacity: group.capacity,
                rng: StreamRng::new(seed, &format!("{}/medium", plan.devices[number].name)),
                context: plan.media_context(faults.clone()),
            })
        };
        let found = probe(fresh, &demand.accesses[number], group.controller.contexts);
        let mut found = found.map_err(|error| {
            vec![Problem::new(
                format!("devices[{at}].memory"),
                format!("{error}; allowed in analytic mode: media that answer by themselves"),
            )]
        })?;
        plan.check_faults(&faults)?;
        // The classes of media without a constant latency bound what the form makes of their waits.
        found.constant &= !plan.media.devices[at].latency_follows_load();
        media[at] = Some(found);
    }
    Ok(media)
}

fn add_flows(
    plan: &Plan,
    router: &Router<'_>,
    media: &Media,
    host: usize,
    demand: &HostDemand,
    flows: &mut Vec<Flow>,
) {
    let all = demand.requests.max(1) as f64;
    let issue = issue(plan, host);
    for write in [false, true] {
        let hits = demand.hits[usize::from(write)];
        if hits > 0 {
            let cache = issue.cache.as_ref().map_or(0, |cache| cache.access_time.0);
            flows.push(Flow {
                host: host as u32,
                device: None,
                write,
                share: hits as f64 / all,
                counts: true,
                posted: false,
                hops: 0,
                stages: ConstantStages {
                    cache,
                    ..ConstantStages::default()
                },
                visits: Vec::new(),
            });
        }
    }
    for (device, counts) in demand.devices.iter().enumerate() {
        for (kind, count) in counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let (write, counts) = (kind > 0, kind < 2);
            if let Some(pair) = pair(plan, router, media, (host, device), write) {
                flows.push(Flow {
                    share: *count as f64 / all,
                    counts,
                    ..pair
                });
            }
        }
    }
}

/// The flow of one host's reads or writes to one device, of all its requests.
fn pair(
    plan: &Plan,
    router: &Router<'_>,
    media: &Media,
    (host, device): (usize, usize),
    write: bool,
) -> Option<Flow> {
    let target = plan.hosts.len() + device;
    let (there, back) = (router.route(host, target)?, router.route(target, host)?);
    let (request, response) = (MessageClass::request(write), MessageClass::response(write));
    let issue = issue(plan, host);
    let group = plan.devices[device].memory()?;
    let medium = media[group]?;
    let controller = &plan.scenario.devices[group].controller;
    let mut stages = ConstantStages {
        process: issue.process_time.0,
        cache: issue.cache.as_ref().map_or(0, |cache| cache.access_time.0),
        device: controller.process_time.0,
        media: match (write, controller.write_completion) {
            (false, _) => medium.read_ps,
            (true, WriteCompletion::Written) => medium.write_ps,
            (true, WriteCompletion::Accepted) => 0,
        },
        ..ConstantStages::default()
    };
    there.add_stages(plan, request, &mut stages);
    back.add_stages(plan, response, &mut stages);
    let mut visits: Vec<Visit> = there.visits(plan, request, None).collect();
    let station = (2 * plan.links.len() + device) as u32;
    let arrivals = there.last(plan);
    visits.extend(arrivals.into_iter().map(|(from, share)| Visit {
        station,
        class: request,
        from: Some(from),
        share,
    }));
    visits.extend(back.visits(plan, response, Some(station)));
    Some(Flow {
        host: host as u32,
        device: Some(device as u32),
        write,
        share: 1.0,
        counts: true,
        posted: write && controller.write_completion == WriteCompletion::Accepted,
        hops: back.hops(),
        stages,
        visits,
    })
}

/// Whether a link's two directions are one station.
fn is_shared(link: &PlannedLink) -> bool {
    link.params.duplex == Duplex::Half
}
