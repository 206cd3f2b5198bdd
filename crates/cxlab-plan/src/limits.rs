//! Bounds that the schema cannot express.
//!
//! Bounds on times keep sums from overflowing, and keep constant delays within the stages of a
//! transaction (32-bit picoseconds). Bounds on counts refuse a mistyped number before it takes all
//! memory. Other checks are between fields that exclude one another.

use cxlab_engine::units::{Bytes, LINE_BYTES, Percent, Picos};
use cxlab_host::RequesterParams;
use cxlab_scenario::Scenario;
use serde_json::{Map, Value};

use super::{Plan, Problem};

/// Longest constant delay of one component or stage.
pub(crate) const LONGEST_DELAY: Picos = Picos(1_000_000_000);
/// Longest time between two issues, and longest time of a medium.
const LONGEST_INTERVAL: Picos = Picos(1_000_000_000_000);
/// Longest window, an hour: 64 bits of picoseconds hold 5,000 of them.
pub(crate) const LONGEST_WINDOW: Picos = Picos(3_600_000_000_000_000);
/// Largest request limit; sums over 4,095 hosts stay within 64 bits.
const MOST_REQUESTS: u64 = 1_000_000_000_000_000;
/// Most requests in flight in the whole system, hosts and devices each: about 2 GB of state.
const MOST_IN_FLIGHT: u64 = 1 << 24;
/// Most cached lines in the whole system: 4 GiB of cache, whose tags take 1.6 GB.
const MOST_CACHED_LINES: u64 = 1 << 26;
/// Most MSHRs of coherent caches in the whole system: about 1.5 GB of state, at 350 B for a miss
/// and for an eviction.
const MOST_MSHRS: u64 = 1 << 22;
/// Longest name of a scenario, in characters.
const LONGEST_NAME: usize = 200;

/// Checks the whole scenario.
pub(crate) fn check(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let name = &scenario.name;
    if name.trim().is_empty()
        || name.chars().count() > LONGEST_NAME
        || name.chars().any(char::is_control)
    {
        problems.push(Problem::new(
            "name",
            format!("found {name:?}; allowed: 1 to {LONGEST_NAME} characters on one line"),
        ));
    }
    check_measure(scenario, problems);
    let switching = scenario.fabric.switch.switching_time;
    check_time(
        "fabric.switch.switching_time",
        switching,
        LONGEST_DELAY,
        problems,
    );
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        check_requests(&format!("{path}.requests"), group.requests, problems);
        check_issue(&format!("{path}.issue"), &group.issue, problems);
        if let Some(local) = &group.local {
            let path = format!("{path}.local.memory");
            check_medium(&path, &local.memory.params, problems);
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        let path = format!("devices[{at}]");
        let process = group.controller.process_time;
        check_time(
            &format!("{path}.controller.process_time"),
            process,
            LONGEST_DELAY,
            problems,
        );
        let path = format!("{path}.memory");
        check_medium(&path, &group.memory.params, problems);
    }
    check_state(scenario, problems);
}

/// Checks the times of a medium as written. Media come from a catalog, so their other times are not
/// known here. A medium may contain other media.
fn check_medium(path: &str, params: &Map<String, Value>, problems: &mut Vec<Problem>) {
    for (key, value) in params {
        let path = format!("{path}.{key}");
        if let Some(inside) = value.as_object() {
            check_medium(&path, inside, problems);
        } else if let Some(Ok(time)) = value.as_str().map(str::parse::<Picos>) {
            check_time(&path, time, LONGEST_INTERVAL, problems);
        }
    }
}

/// Most picoseconds of a constant stage over a round trip. The stages of a transaction are 32-bit
/// picoseconds, and half of that range leaves room for paths that are not the shortest.
const LONGEST_STAGE: u64 = 1 << 31;

/// Checks that constant delays, summed over the longest path to a device and back, fit their stage.
pub(crate) fn check_round_trip(scenario: &Scenario, longest_path: u32) -> Result<(), Vec<Problem>> {
    let links = 2 * u64::from(longest_path.max(1));
    let mut problems = Vec::new();
    let mut check = |path: String, found: String, each: u64, times: u64| {
        let most = LONGEST_STAGE / times;
        if each > most {
            problems.push(Problem::new(
                path,
                format!(
                    "found {found}; allowed here: at most {} ns, or {links} links to a device and \
                     back would take too long to be measured",
                    most / 1000
                ),
            ));
        }
    };
    let switching = scenario.fabric.switch.switching_time;
    let path = "fabric.switch.switching_time".to_owned();
    check(path, switching.to_string(), switching.0, links);
    for class in scenario.fabric.link_classes() {
        let (path, link) = (class.path, class.params);
        // Both ports and the error correction share a stage. Wire, retimers and
        // (below) messages share another.
        let retimers = u64::from(link.retimers).max(1);
        for (field, delay, times) in [
            ("port_delay", link.port_delay, 3),
            ("fec_delay", Picos(link.fec_ps()), 3),
            ("propagation", link.propagation, 4),
            ("retimer_delay", link.retimer_delay, 4 * retimers),
        ] {
            let path = format!("{path}.{field}");
            check(path, delay.to_string(), delay.0, times * links);
        }
        let sending = link.rate().time_for(Bytes(link.unit_bytes())).0;
        let found = format!(
            "{}, {} ns for {} B",
            link.rate(),
            sending / 1000,
            link.unit_bytes()
        );
        // A message may extend over two flits, and the wire shares the stage.
        check(format!("{path}.bandwidth"), found, sending, 4 * links);
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// The narrowest and the widest relative interval at which a run can stop.
const PRECISE: Percent = Percent(100);
const COARSE: Percent = Percent(500_000);

fn check_measure(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let measure = &scenario.measure;
    let given = [
        ("warmup_requests", measure.warmup_requests.is_some()),
        ("warmup_time", measure.warmup_time.is_some()),
    ];
    for (other, _) in given
        .iter()
        .filter(|(_, given)| *given && measure.warmup.is_some())
    {
        problems.push(Problem::new(
            "measure.warmup",
            format!(
                "found \"auto\", and {other} too; allowed: one of them, which ends the warm-up"
            ),
        ));
    }
    if let Some(precision) = measure.precision
        && !(PRECISE.0..=COARSE.0).contains(&precision.0)
    {
        problems.push(Problem::new(
            "measure.precision",
            format!("found {precision}; allowed: {PRECISE} to {COARSE}"),
        ));
    }
    if let (Some(requests), Some(time)) = (measure.warmup_requests, measure.warmup_time) {
        problems.push(Problem::new(
            "measure.warmup_time",
            format!(
                "found {time}, and warmup_requests = {requests} too; allowed: one of them, which \
                 ends the warm-up"
            ),
        ));
    }
    if let (Some(requests), Some(duration)) = (measure.requests, measure.duration) {
        problems.push(Problem::new(
            "measure.duration",
            format!(
                "found {duration}, and requests = {requests} too; allowed: one of them, which \
                 ends the measurement"
            ),
        ));
    }
    if measure.duration == Some(Picos::ZERO) {
        problems.push(Problem::new(
            "measure.duration",
            format!("found 0 ps; allowed: 1 ps to {}", LONGEST_WINDOW),
        ));
    }
    for (field, span) in [
        ("warmup_time", measure.warmup_time),
        ("duration", measure.duration),
    ] {
        if let Some(span) = span {
            check_time(&format!("measure.{field}"), span, LONGEST_WINDOW, problems);
        }
    }
    check_requests("measure.requests", measure.requests, problems);
    check_requests("measure.warmup_requests", measure.warmup_requests, problems);
}

/// Refuses a run that ends before any request can have completed.
pub(crate) fn check_window(plan: &Plan) -> Result<(), Vec<Problem>> {
    let measure = &plan.scenario.measure;
    let (Some(duration), None) = (measure.duration, measure.warmup_requests) else {
        return Ok(());
    };
    let Some(first) = crate::routes::first_completion_ps(plan) else {
        return Ok(());
    };
    let least = match measure.warmup_time {
        Some(warmup) => first.saturating_sub(warmup.0),
        // An automatic warm-up lasts no longer than the window.
        None => first.div_ceil(2),
    };
    if duration.0 >= least {
        return Ok(());
    }
    Err(vec![Problem::new(
        "measure.duration",
        format!(
            "found {duration}; allowed: {} and more (the latency of the nearest device is {} without load and medium)",
            Picos(least),
            Picos(first)
        ),
    )])
}

fn check_issue(path: &str, issue: &RequesterParams, problems: &mut Vec<Problem>) {
    check_time(
        &format!("{path}.process_time"),
        issue.process_time,
        LONGEST_DELAY,
        problems,
    );
    let interval = issue.issue_interval;
    check_time(
        &format!("{path}.issue_interval"),
        interval,
        LONGEST_INTERVAL,
        problems,
    );
    if let Some(rate) = issue.rate {
        if rate.0 < LINE_BYTES || rate.0 > 1_000_000_000_000_000 {
            problems.push(Problem::new(
                format!("{path}.rate"),
                format!("found {rate}; allowed: 64 B/s to 1000 TB/s"),
            ));
        }
        if interval > Picos::ZERO {
            problems.push(Problem::new(
                format!("{path}.rate"),
                format!("found {rate}, and issue_interval = {interval} too; allowed: one of them"),
            ));
        }
    }
    let Some(cache) = &issue.cache else { return };
    check_time(
        &format!("{path}.cache.access_time"),
        cache.access_time,
        LONGEST_DELAY,
        problems,
    );
    let set = u64::from(cache.ways) * LINE_BYTES;
    if cache.size.0 == 0 || !cache.size.0.is_multiple_of(set) {
        let allowed = whole_sets(cache.size, cache.ways);
        problems.push(Problem::new(
            format!("{path}.cache.size"),
            format!("found {}; allowed: {allowed}", cache.size),
        ));
    }
}

/// The allowed sizes of a cache, in the words of an error about `size`, with a valid size near it.
/// `ways` may be a default that is not in the scenario.
pub(crate) fn whole_sets(size: Bytes, ways: u32) -> String {
    let set = u64::from(ways.max(1)) * LINE_BYTES;
    let near = near_size(size.0, set).map_or_else(String::new, |near| format!(", such as {near}"));
    format!(
        "multiples of {}, a set of {} ways of 64 B{near}",
        Bytes(set),
        ways.max(1)
    )
}

/// A valid cache size near `size` that is short to write: a multiple of `set` bytes times a power of
/// two, the largest for which such a multiple is within a sixteenth of `size`.
fn near_size(size: u64, set: u64) -> Option<Bytes> {
    let units = (0..40)
        .rev()
        .filter_map(|power| set.checked_mul(1 << power));
    let mut near = units.filter_map(|unit| {
        let half = u64::from(size % unit >= unit.div_ceil(2));
        let near = (size / unit + half).checked_mul(unit)?;
        (near > 0 && near.abs_diff(size) <= size / 16).then_some(Bytes(near))
    });
    near.next()
}

/// Checks that the state of the whole system fits in memory.
fn check_state(scenario: &Scenario, problems: &mut Vec<Problem>) {
    let hosts = &scenario.hosts;
    let lines = |at: usize| {
        let of_cache = |size: Bytes| size.0 / LINE_BYTES;
        match &hosts[at].core {
            Some(core) => core.caches.iter().map(|level| of_cache(level.size)).sum(),
            None => hosts[at]
                .issue
                .cache
                .as_ref()
                .map_or(0, |cache| of_cache(cache.size)),
        }
    };
    let coherent = scenario.devices.iter().any(|group| group.is_hdm_db());
    let mshrs = |at: usize| match (&hosts[at].core, &hosts[at].issue.cache) {
        (None, Some(cache)) if coherent => {
            u64::from(cache.mshrs.unwrap_or(hosts[at].issue.outstanding))
        }
        _ => 0,
    };
    let sums = [
        (
            "issue.outstanding",
            "requests in flight",
            MOST_IN_FLIGHT,
            hosts
                .iter()
                .map(|group| match &group.core {
                    Some(core) => u64::from(core.fills()) + u64::from(core.writebacks),
                    None => u64::from(group.issue.outstanding),
                })
                .collect::<Vec<_>>(),
        ),
        (
            "issue.cache.size",
            "cached lines of 64 B",
            MOST_CACHED_LINES,
            (0..hosts.len()).map(lines).collect(),
        ),
        (
            "issue.cache.mshrs",
            "MSHRs",
            MOST_MSHRS,
            (0..hosts.len()).map(mshrs).collect(),
        ),
    ];
    let counts: Vec<u32> = hosts.iter().map(|group| group.count).collect();
    for (field, what, most, each) in sums {
        check_sum("hosts", field, what, most, &counts, &each, problems);
    }
    let devices = &scenario.devices;
    let counts: Vec<u32> = devices.iter().map(|group| group.count).collect();
    let contexts: Vec<u64> = devices
        .iter()
        .map(|group| u64::from(group.controller.contexts))
        .collect();
    let field = "controller.contexts";
    check_sum(
        "devices",
        field,
        "contexts",
        MOST_IN_FLIGHT,
        &counts,
        &contexts,
        problems,
    );
}

/// Refuses a sum over groups that is too large, at the group with the largest share.
fn check_sum(
    list: &str,
    field: &str,
    what: &str,
    most: u64,
    counts: &[u32],
    each: &[u64],
    problems: &mut Vec<Problem>,
) {
    let share = |at: usize| u128::from(counts[at]) * u128::from(each[at]);
    let sum: u128 = (0..counts.len()).map(share).sum();
    let Some(largest) = (0..counts.len()).max_by_key(|at| share(*at)) else {
        return;
    };
    if sum > u128::from(most) {
        problems.push(Problem::new(
            format!("{list}[{largest}].{field}"),
            format!(
                "found {} for each of {}, with all {list} {sum} {what}; allowed: {most} together",
                each[largest], counts[largest]
            ),
        ));
    }
}

pub(crate) fn check_time(path: &str, found: Picos, longest: Picos, problems: &mut Vec<Problem>) {
    if found > longest {
        problems.push(Problem::new(
            path,
            format!("found {found}; allowed: at most {longest}"),
        ));
    }
}

fn check_requests(path: &str, found: Option<u64>, problems: &mut Vec<Problem>) {
    if let Some(found) = found.filter(|found| *found > MOST_REQUESTS) {
        problems.push(Problem::new(
            path,
            format!("found {found}; allowed: at most 10^15"),
        ));
    }
}
