//! The laws of a run. A law that does not hold is a mistake of the simulator, and the run has no report.

pub(crate) mod littles_law;

use cxlab_device::MOST_PASSED_FLIPS;
use cxlab_engine::units::SimTime;
use cxlab_host::{MOST_FAULTS, Processor};
use cxlab_link::LostMessages;
use cxlab_os::ats::MOST_REQUESTS;

use crate::host::Host;
use crate::system::{Node, System};

/// The laws of a host: requests are conserved; the stages of those served sum to their latency, and so do
/// the stages of those that ended in each other way; and Little's law
/// exactly: the integral of requests in flight over the window is the latency of those completed,
/// plus the age at the end of those in flight, less the age at the beginning of those in flight.
pub(crate) fn check_host(host: &Host, end: SimTime) -> Result<u128, String> {
    let stats = host.stats();
    if stats.issued_ever != stats.completed_ever + host.requests_in_flight() {
        return Err(format!(
            "{} requests issued, {} completed, {} in flight",
            stats.issued_ever,
            stats.completed_ever,
            host.requests_in_flight()
        ));
    }
    if let Some(core) = host.core() {
        (core.check()).map_err(|wrong| format!("the result of the program: {wrong}"))?;
    }
    if let Some(hw_threads) = host.hw_threads() {
        (hw_threads.check()).map_err(|wrong| format!("the result of a program: {wrong}"))?;
    }
    check_waiting(host).map_err(|wrong| format!("bounded waiting: {wrong}"))?;
    let stages: u128 = stats.stages_ps.iter().copied().map(u128::from).sum();
    let mut latencies = stats.served_ps();
    let mut sums = vec![(stages, latencies)];
    for unserved in stats.unserved() {
        sums.push((unserved.stages_ps(), unserved.latency_ps()));
        latencies += unserved.latency_ps();
    }
    if let Some((stages, latencies)) = sums.into_iter().find(|(stages, sum)| stages != sum) {
        return Err(format!(
            "stages sum to {stages} ps, latencies to {latencies} ps"
        ));
    }
    let ended = stats.unserved().map(|one| one.reads + one.writes);
    let served = stats.read_latency.count() + stats.write_latency.count();
    let completed = stats.reads + stats.writes;
    if completed != served + ended.iter().sum::<u64>() {
        return Err(format!(
            "{completed} requests completed, {served} served, {ended:?} denied, timed out, cut off and poisoned"
        ));
    }
    let integral = stats.in_flight.at(end.0) - stats.integral_before;
    let edges = latencies + host.age_ps(end);
    if integral + stats.age_before_ps != edges {
        return Err(format!(
            "Little's law: {integral} + {} ps in flight against {edges} ps of latency",
            stats.age_before_ps
        ));
    }
    Ok(integral)
}

/// Refuses more than `most` of something.
fn bound<T: PartialOrd>(found: T, most: T, wrong: impl FnOnce(T) -> String) -> Result<(), String> {
    match found > most {
        true => Err(wrong(found)),
        false => Ok(()),
    }
}

/// Checks that no waiting request is overtaken more often than `docs/explain/liveness.md` says.
fn check_waiting(host: &Host) -> Result<(), String> {
    if let Some(accelerator) = host.accelerator() {
        if let Some(overtaken) = accelerator.overtaken() {
            return Err(format!(
                "{overtaken} accesses of an accelerator overtook a message of its host"
            ));
        }
        bound(accelerator.most_host_turns(), 1, |turns| {
            format!(
                "{turns} messages of the host had a line before an access of an accelerator whose turn it was"
            )
        })?;
        bound(
            accelerator.most_passed_flips(),
            MOST_PASSED_FLIPS,
            |passed| {
                format!(
                    "{passed} accesses of an accelerator took a CQID before a line of a page that flips"
                )
            },
        )?;
        bound(accelerator.most_passed_ports(), 0, |passed| {
            format!(
                "{passed} accesses of an accelerator overtook an element that waited for the cache's port"
            )
        })?;
        bound(
            accelerator.most_translation_requests(),
            MOST_REQUESTS,
            |requests| {
                format!("an access of an accelerator waited for {requests} Translation Requests")
            },
        )?;
    }
    if let Some(processor) = host.processor() {
        bound(processor.most_passed_misses(), 0, |passed| {
            format!("{passed} accesses of a core overtook one that waited for an outstanding line")
        })?;
        bound(processor.most_passed_entries(), 0, |passed| {
            format!("{passed} transactions overtook one that waited for an entry of the directory")
        })?;
        bound(processor.most_faults(), MOST_FAULTS, |faults| {
            format!("an access of a core met {faults} page faults")
        })?;
    }
    Ok(())
}

/// When no event is left, nothing may be left inside: else requests were lost or are deadlocked.
pub(crate) fn check_drained(system: &System) -> Result<(), String> {
    let mut held = Vec::new();
    for (number, node) in system.simulation.components().enumerate() {
        let done = match node.host() {
            Some(host) => host.is_done(),
            None => node.in_flight() == 0,
        };
        if !done {
            held.push(format!("component {number} holds {}", node.in_flight()));
        }
    }
    if held.is_empty() {
        return check_denied(system);
    }
    held.truncate(8);
    Err(format!("requests never completed: {}", held.join(", ")))
}

/// Checks that each denial by a device reached a host, before or after the request's timeout, or was lost; and that
/// each request that timed out lost a message, or got a late response.
fn check_denied(system: &System) -> Result<(), String> {
    let nodes = system.simulation.components();
    let (mut by_devices, mut of_hosts) = (0, 0);
    let (mut timed_out, mut late) = (0, 0);
    let mut lost = LostMessages::default();
    for node in nodes {
        lost += node.lost();
        match node.inside() {
            Node::Device(device) => by_devices += device.stats().denied_ever,
            Node::Host(host) => {
                let stats = host.stats();
                of_hosts += stats.denied_ever + stats.late_denied_ever;
                timed_out += stats.timed_out_ever;
                late += stats.late_ever;
            }
            _ => {}
        }
    }
    if by_devices != of_hosts + lost.denied {
        return Err(format!(
            "devices denied {by_devices} requests, hosts were denied {of_hosts}, {} were lost",
            lost.denied
        ));
    }
    if timed_out != lost.messages + late {
        return Err(format!(
            "the time of {timed_out} requests was over, {} messages were lost, {late} answers late",
            lost.messages
        ));
    }
    Ok(())
}

/// Lets each kernel check its results, if all its threads have ended by themselves.
pub(crate) fn check_kernels(system: &System) -> Result<(), String> {
    let hosts = system.simulation.components();
    for (domain, node) in system.domains.iter().zip(hosts) {
        let Some(domain) = domain else { continue };
        let processor = node.host().and_then(Host::processor);
        if processor.is_some_and(|processor| processor.threads_ended().is_some()) {
            continue;
        }
        let process = processor.and_then(Processor::process_image);
        let image = process.as_ref().unwrap_or(&domain.image);
        let checked = domain.kernel.check(image);
        checked.map_err(|wrong| format!("the result of the kernel: {wrong}"))?;
    }
    Ok(())
}
