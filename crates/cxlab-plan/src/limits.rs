//! Bounds that the schema cannot express.
//!
//! Bounds on times keep sums from overflowing, and keep constant delays within the stages of a
//! transaction (32-bit picoseconds). Bounds on counts refuse a mistyped number before it takes all
//! memory. Other checks are between fields that exclude one another.

use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, PartsPerMillion, Picos};
use cxlab_host::RequesterParams;
use cxlab_scenario::{HostGroup, HostKind, Scenario};
use serde_json::{Map, Value};

use crate::problem::{Fields, Problem, Problems};

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
/// The lowest and the highest rate at which a requester issues.
const RATES: [BytesPerSec; 2] = [BytesPerSec(LINE_BYTES), BytesPerSec(1_000_000_000_000_000)];

/// Smallest and largest block that prefetchers stay within, in bytes.
const OVERFETCH_BLOCKS: std::ops::RangeInclusive<u64> = 2 * LINE_BYTES..=1 << 30;

pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    let name = &scenario.name;
    if name.trim().is_empty()
        || name.chars().count() > LONGEST_NAME
        || name.chars().any(char::is_control)
    {
        let allowed = format_args!("1 to {LONGEST_NAME} characters on one line");
        problems.refuse("name", format_args!("{name:?}"), allowed);
    }
    check_measure(scenario, problems);
    let mut fields = problems.below("fabric.switch");
    fields.delay("switching_time", scenario.fabric.switch.switching_time);
    for (at, group) in scenario.hosts.iter().enumerate() {
        let path = format!("hosts[{at}]");
        check_requests(&mut problems.below(&path), "requests", group.requests);
        for kind in group.kinds() {
            if let HostKind::Requester(issue) = kind {
                check_issue(problems.below(format!("{path}.issue")), issue);
            }
        }
        if let Some(local) = &group.local {
            let path = format!("{path}.local.memory");
            check_medium(&path, &local.memory.kind, &local.memory.params, problems);
        }
    }
    for (at, group) in scenario.devices.iter().enumerate() {
        let path = format!("devices[{at}]");
        let mut fields = problems.below(&path);
        fields.delay("controller.process_time", group.controller.process_time);
        let path = format!("{path}.memory");
        check_medium(&path, &group.memory.kind, &group.memory.params, problems);
    }
    check_state(scenario, problems);
}

/// Checks the times of a medium as written. Media come from a catalog, so their other times are not
/// known here. A medium may contain other media. A plug-in has no times of the model: `patience` is
/// real time, and `config` is the library's text.
fn check_medium(path: &str, kind: &str, params: &Map<String, Value>, problems: &mut Problems) {
    if kind == "plugin" {
        return;
    }
    for (key, value) in params {
        if let Some(inside) = value.as_object() {
            let kind = inside.get("kind").and_then(Value::as_str);
            let path = format!("{path}.{key}");
            check_medium(&path, kind.unwrap_or_default(), inside, problems);
        } else if let Some(Ok(time)) = value.as_str().map(str::parse::<Picos>) {
            problems.below(path).time(key, time, LONGEST_INTERVAL);
        }
    }
}

/// Most picoseconds of a constant stage over a round trip. The stages of a transaction are 32-bit
/// picoseconds, and half of that range leaves room for paths that are not the shortest.
const LONGEST_STAGE: u64 = 1 << 31;

/// Checks that constant delays, summed over the longest path to a device and back, fit their stage.
pub(crate) fn check_round_trip(scenario: &Scenario, longest_path: u32) -> Result<(), Vec<Problem>> {
    let links = 2 * u64::from(longest_path.max(1));
    let mut problems = Problems::default();
    let mut check = |path: String, found: String, each: u64, times: u64| {
        let most = LONGEST_STAGE / times;
        if each > most {
            let message = format!(
                "found {found}; allowed here: at most {} ns, or {links} links to a device and \
                 back would take too long to be measured",
                most / 1000
            );
            problems.push(Problem::new(path, message));
        }
    };
    let switching = scenario.fabric.switch.switching_time;
    let path = "fabric.switch.switching_time".to_owned();
    check(path, switching.to_string(), switching.0, links);
    for class in scenario.link_classes() {
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
        let (rate, unit) = (link.rate(), link.unit_bytes());
        let sending = rate.time_for(Bytes(unit)).0;
        let found = format!("{rate}, {} ns for {unit} B", sending / 1000);
        // A message may extend over two flits, and the wire shares the stage.
        check(format!("{path}.bandwidth"), found, sending, 4 * links);
    }
    problems.into_result(())
}

/// The narrowest and the widest relative interval at which a run can stop.
const PRECISIONS: [PartsPerMillion; 2] = [PartsPerMillion(100), PartsPerMillion(500_000)];

fn check_measure(scenario: &Scenario, problems: &mut Problems) {
    let measure = &scenario.measure;
    let mut fields = problems.below("measure");
    let given = [
        ("warmup_requests", measure.warmup_requests.is_some()),
        ("warmup_time", measure.warmup_time.is_some()),
    ];
    let excluded = given.iter().filter(|(_, given)| *given);
    for (other, _) in excluded.filter(|_| measure.warmup.is_some()) {
        let found = format_args!("\"auto\", and {other} too");
        fields.refuse("warmup", found, "one of them, which ends the warm-up");
    }
    if let Some(precision) = measure.precision {
        fields.between("precision", precision, PRECISIONS);
    }
    if let (Some(requests), Some(time)) = (measure.warmup_requests, measure.warmup_time) {
        let found = format_args!("{time}, and warmup_requests = {requests} too");
        fields.refuse("warmup_time", found, "one of them, which ends the warm-up");
    }
    if let (Some(requests), Some(duration)) = (measure.requests, measure.duration) {
        let found = format_args!("{duration}, and requests = {requests} too");
        fields.refuse("duration", found, "one of them, which ends the measurement");
    }
    if measure.duration == Some(Picos::ZERO) {
        let allowed = format_args!("1 ps to {LONGEST_WINDOW}");
        fields.refuse("duration", Picos::ZERO, allowed);
    }
    for (field, span) in [
        ("warmup_time", measure.warmup_time),
        ("duration", measure.duration),
    ] {
        fields.time(field, span.unwrap_or_default(), LONGEST_WINDOW);
    }
    check_requests(&mut fields, "requests", measure.requests);
    check_requests(&mut fields, "warmup_requests", measure.warmup_requests);
}

fn check_issue(mut fields: Fields<'_>, issue: &RequesterParams) {
    fields.delay("process_time", issue.process_time);
    let interval = issue.issue_interval;
    fields.time("issue_interval", interval, LONGEST_INTERVAL);
    if let Some(rate) = issue.rate {
        fields.between("rate", rate, RATES);
        if interval > Picos::ZERO {
            let found = format_args!("{rate}, and issue_interval = {interval} too");
            fields.refuse("rate", found, "one of them");
        }
    }
    if let Some(overfetch) = &issue.overfetch {
        let within = overfetch.within;
        if !within.0.is_power_of_two() || !OVERFETCH_BLOCKS.contains(&within.0) {
            let allowed = "powers of two from 128 B to 1 GiB";
            fields.refuse("overfetch.within", within, allowed);
        }
        if issue.cache.is_some() {
            let allowed = "one of them: a requester's cache has no prefetcher";
            fields.refuse("overfetch", "a table, and `issue.cache` too", allowed);
        }
    }
    if let Some(cache) = &issue.cache {
        fields.delay("cache.access_time", cache.access_time);
        fields.whole_sets("cache.size", cache.size, cache.ways);
    }
}

/// Most requests in flight of a host.
fn in_flight(group: &HostGroup) -> u64 {
    match &group.kind {
        HostKind::Core(core) => u64::from(core.fills()) + u64::from(core.writebacks),
        HostKind::Requester(issue) => u64::from(issue.outstanding),
        HostKind::Processor(_) => u64::from(RequesterParams::default().outstanding),
    }
}

fn cached_lines(group: &HostGroup) -> u64 {
    let lines = |size: Bytes| size.0 / LINE_BYTES;
    match &group.kind {
        HostKind::Core(core) => core.caches.iter().map(|level| lines(level.size)).sum(),
        HostKind::Requester(issue) => issue.cache.as_ref().map_or(0, |cache| lines(cache.size)),
        HostKind::Processor(_) => 0,
    }
}

/// MSHRs of a requester's cache.
fn mshrs(group: &HostGroup) -> u64 {
    let issue = group.requester();
    let cache = issue.and_then(|issue| Some((issue.cache.as_ref()?, issue.outstanding)));
    cache.map_or(0, |(cache, most)| cache.mshrs.unwrap_or(most).into())
}

/// Checks that the state of the whole system fits in memory.
fn check_state(scenario: &Scenario, problems: &mut Problems) {
    let coherent = scenario.devices.iter().any(|group| group.is_hdm_db());
    let mut hosts = |field, what, most, each: fn(&HostGroup) -> u64| {
        let groups = scenario.hosts.iter();
        let shares: Vec<(u32, u64)> = groups.map(|group| (group.count, each(group))).collect();
        check_sum("hosts", field, what, most, &shares, problems);
    };
    let (flying, lines) = ("requests in flight", "cached lines of 64 B");
    hosts("issue.outstanding", flying, MOST_IN_FLIGHT, in_flight);
    hosts("issue.cache.size", lines, MOST_CACHED_LINES, cached_lines);
    if coherent {
        hosts("issue.cache.mshrs", "MSHRs", MOST_MSHRS, mshrs);
    }
    let groups = scenario.devices.iter();
    let contexts = groups.map(|group| (group.count, group.controller.contexts.into()));
    let shares: Vec<(u32, u64)> = contexts.collect();
    let (field, most) = ("controller.contexts", MOST_IN_FLIGHT);
    check_sum("devices", field, "contexts", most, &shares, problems);
}

/// Refuses a sum over groups that is too large, at the group with the largest share. `shares` has the
/// count of each group, and the share of one of its members.
fn check_sum(
    list: &str,
    field: &str,
    what: &str,
    most: u64,
    shares: &[(u32, u64)],
    problems: &mut Problems,
) {
    let share = |(count, each): &(u32, u64)| u128::from(*count) * u128::from(*each);
    let sum: u128 = shares.iter().map(share).sum();
    let largest = shares.iter().enumerate().max_by_key(|(_, of)| share(of));
    if let Some((at, (count, each))) = largest
        && sum > u128::from(most)
    {
        problems.refuse(
            format!("{list}[{at}].{field}"),
            format_args!("{each} for each of {count}, with all {list} {sum} {what}"),
            format_args!("{most} together"),
        );
    }
}

fn check_requests(fields: &mut Fields<'_>, field: &str, found: Option<u64>) {
    if let Some(found) = found.filter(|found| *found > MOST_REQUESTS) {
        fields.refuse(field, found, "at most 10^15");
    }
}
