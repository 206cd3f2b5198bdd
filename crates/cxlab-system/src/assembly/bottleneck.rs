//! The bottleneck of a run: the place where requests wait longest, followed downstream to the component that
//! fills its buffers.
//!
//! A full buffer stalls the output before it. That output waits for credits, and the stall spreads up to the
//! hosts. So the longest wait alone may be far from its cause. The search begins at the place with the
//! largest sum of waits. Symmetric systems have many places with equal waits, each with a small fraction of all
//! latency, so the waits of places that are alike are added up before they are judged.
//!
//! If the wait is for credits, the search continues at the component that has the buffer. The condition is that
//! messages wait there for longer than half the link's round trip, or that a wire out of that component is always
//! busy. Otherwise the buffer is too small for the round trip, and the credits themselves are the limit. If a
//! device has no free context, the search continues at one of its wires that is always busy, because responses
//! keep their contexts until they leave.

use cxlab_plan::{End, Plan};
use serde_json::{Map, Value};

use super::limited::{MIN_HELD, MIN_QUEUE_SHARE, lines_carried};
use crate::report::{Bottleneck, DeviceReport, HostReport, Limit, LinkReport, Report};

/// Waits at places that are alike limit nothing if their sum is below this fraction of all latency (*assumed*).
const MIN_LIMITING_SHARE: f64 = 0.1;
/// A credit is in use for the round trip of its link and for the wait of its message at the far end. The
/// search continues where that wait is at least this fraction of the round trip (*assumed*).
const MIN_CAUSE_WAIT: f64 = 0.5;
/// A wire that is busy for at least this fraction of the time, or carries at least this fraction of its possible lines
/// (*assumed*) can carry no more, however short its queue is.
const MIN_UTILIZATION: f64 = 0.99;
/// Wires at least this busy, relative to the wire that was found, are alike (*assumed*).
const ALIKE_BUSY: f64 = 0.99;
/// Other places with the same limit are alike if their mean wait is at least this fraction of the longest (*assumed*).
const ALIKE_WAIT: f64 = 0.5;
/// Hosts with at least this fraction of their outstanding requests in flight are limited by that number (*assumed*).
const MIN_IN_FLIGHT: f64 = 0.9;
/// The hosts' limit is that of hosts with more than this fraction of all requests in flight (*assumed*).
const MAJORITY: f64 = 0.5;

/// A place where requests wait.
#[derive(Clone, Copy)]
struct WaitPlace<'a> {
    name: &'a str,
    limit: Limit,
    /// Sum of waits, in nanoseconds.
    sum: f64,
    /// Number of messages or requests that passed the place.
    passed: u64,
    kind: PlaceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    /// The transmitter of a link's direction, by the direction's number in the report.
    Link(usize),
    /// A device, in front of its medium.
    Device,
}

impl<'a> WaitPlace<'a> {
    /// Mean wait, in nanoseconds.
    fn mean(&self) -> f64 {
        self.sum / self.passed.max(1) as f64
    }

    /// The transmitter of direction `number`. Its limit is the larger part of its waits.
    fn link(number: usize, link: &'a LinkReport) -> WaitPlace<'a> {
        let credits = (link.credit_wait_ns, Limit::Credits);
        let (mean, limit) = larger_part(link.wait_ns.mean, credits, Limit::Wire);
        WaitPlace {
            name: &link.direction,
            limit,
            sum: mean * link.messages as f64,
            passed: link.messages,
            kind: PlaceKind::Link(number),
        }
    }

    /// The front of a device's medium. Its limit is the larger part of its waits.
    fn device(device: &'a DeviceReport) -> WaitPlace<'a> {
        let medium = (device.medium_wait_ns, Limit::Medium);
        let (mean, limit) = larger_part(device.wait_ns.mean, medium, Limit::Contexts);
        WaitPlace {
            name: &device.name,
            limit,
            sum: mean * device.taken() as f64,
            passed: device.taken(),
            kind: PlaceKind::Device,
        }
    }
}

/// Of a mean wait that consists of `part`, whose cause is `limit`, and of a rest, whose cause is `other`: the larger
/// of the two, and its cause.
fn larger_part(mean: f64, (part, limit): (f64, Limit), other: Limit) -> (f64, Limit) {
    match part >= mean - part {
        true => (part, limit),
        false => (mean - part, other),
    }
}

/// The place with the largest sum of waits.
fn longest<'a>(places: impl Iterator<Item = WaitPlace<'a>>) -> Option<WaitPlace<'a>> {
    // Of several equal places, the first is returned.
    places.reduce(|best, place| if place.sum > best.sum { place } else { best })
}

/// The end that a direction leads to. Directions are listed in pairs, forward first.
fn leads_to(plan: &Plan, direction: usize) -> End {
    let link = &plan.links[direction / 2];
    let forward = direction.is_multiple_of(2);
    if forward { link.b } else { link.a }
}

/// The next place downstream, behind the full buffer that `place` waits for, if it explains why that buffer
/// is full: the wait there is long, or its wire is always busy. For contexts, the next place is a wire of the
/// device that is always busy.
fn downstream_cause<'a>(
    plan: &Plan,
    place: &WaitPlace<'_>,
    links: &'a [LinkReport],
    devices: &'a [DeviceReport],
) -> Option<WaitPlace<'a>> {
    // A direction's source is the destination of the opposite direction.
    let outputs_of = |belongs: &dyn Fn(End) -> bool| -> Vec<WaitPlace<'a>> {
        let directions = links.iter().enumerate();
        let outputs = directions.filter(|(number, _)| belongs(leads_to(plan, number ^ 1)));
        outputs
            .map(|(number, link)| WaitPlace::link(number, link))
            .collect()
    };
    let has_name = |device: usize, name: &str| plan.devices[device].name == name;
    let outputs_of_device = |name: &str| {
        outputs_of(&|end| matches!(end, End::Device(device, _) if has_name(device, name)))
    };
    // Places that may explain the full buffer, and the wait from which a place explains it.
    let (candidates, long_ns): (Vec<WaitPlace<'a>>, f64) = match (place.limit, place.kind) {
        (Limit::Contexts, PlaceKind::Device) => (outputs_of_device(place.name), f64::INFINITY),
        (Limit::Credits, PlaceKind::Link(number)) => {
            let candidates = match leads_to(plan, number) {
                End::Host(..) => Vec::new(),
                End::Switch(switch, _) => {
                    outputs_of(&|end| matches!(end, End::Switch(other, _) if other == switch))
                }
                End::Device(device, _) => {
                    let name = &plan.devices[device].name;
                    let report = devices.iter().find(|report| report.name == *name);
                    let medium = report.map(WaitPlace::device).into_iter();
                    medium.chain(outputs_of_device(name)).collect()
                }
            };
            let round_trip_ns = 2.0 * plan.links[number / 2].params.crossing_ps() as f64 / 1e3;
            (candidates, MIN_CAUSE_WAIT * round_trip_ns)
        }
        _ => return None,
    };
    let explains = |mut place: WaitPlace<'a>| match place.kind {
        PlaceKind::Link(number) if links[number].utilization >= MIN_UTILIZATION => {
            place.limit = Limit::Wire;
            Some(place)
        }
        _ => (place.mean() >= long_ns).then_some(place),
    };
    longest(candidates.into_iter().filter_map(explains))
}

/// The bottleneck of a run of `window_ns` whose requests took `latency_ns` in all.
pub(super) fn find(
    plan: &Plan,
    window_ns: f64,
    latency_ns: f64,
    hosts: &[HostReport],
    links: &[LinkReport],
    devices: &[DeviceReport],
) -> Option<Bottleneck> {
    if latency_ns <= 0.0 {
        return None;
    }
    let wires = links.iter().enumerate();
    let wires = wires.map(|(number, link)| WaitPlace::link(number, link));
    let places: Vec<WaitPlace<'_>> = wires.chain(devices.iter().map(WaitPlace::device)).collect();
    let utilization = |place: &WaitPlace<'_>| match place.kind {
        PlaceKind::Link(number) => Some(links[number].utilization),
        PlaceKind::Device => None,
    };
    // The number of other places that are alike, and the sum of waits at all of them.
    let alike = |found: &WaitPlace<'_>| {
        let is_other =
            |place: &&WaitPlace<'_>| place.name != found.name || place.kind != found.kind;
        let others = places.iter().filter(is_other);
        let others =
            others.filter(
                |other| match (found.limit, utilization(found), utilization(other)) {
                    (Limit::Wire, Some(found), Some(other)) => other >= ALIKE_BUSY * found,
                    (Limit::Wire, ..) => false,
                    _ => other.limit == found.limit && other.mean() >= ALIKE_WAIT * found.mean(),
                },
            );
        others.fold((0, found.sum), |(count, sum), other| {
            (count + 1, sum + other.sum)
        })
    };
    let longest_wait = longest(places.iter().copied());
    let limiting = longest_wait.filter(|place| alike(place).1 >= MIN_LIMITING_SHARE * latency_ns);
    let Some(mut place) = limiting.or_else(|| fullest(plan, &places, links, window_ns)) else {
        return Some(by_hosts(plan, hosts));
    };
    // Each step leads downstream, so a path has no more of them than there are links.
    for _ in 0..links.len() {
        match downstream_cause(plan, &place, links, devices) {
            Some(next) => place = next,
            None => break,
        }
    }
    let (others, sum) = alike(&place);
    let (busy, mean) = (utilization(&place), place.mean());
    let share = sum / latency_ns;
    let found = Bottleneck::new(place.name, place.limit, busy, others, mean, share);
    Some(found)
}

/// The wire that carries most of the lines that it could, if that is nearly all. Hosts with just as many requests in
/// flight as fill it hardly wait for it. A wire may be always busy with flits that are half empty, and carry more.
fn fullest<'a>(
    plan: &Plan,
    places: &[WaitPlace<'a>],
    links: &[LinkReport],
    window_ns: f64,
) -> Option<WaitPlace<'a>> {
    let carried =
        |number: usize| lines_carried(&plan.links[number / 2], &links[number], window_ns * 1e3);
    let full = places.iter().filter_map(|place| match place.kind {
        PlaceKind::Link(number) if carried(number) >= MIN_UTILIZATION => {
            let limit = Limit::Wire;
            Some((carried(number), WaitPlace { limit, ..*place }))
        }
        PlaceKind::Link(_) | PlaceKind::Device => None,
    });
    let fullest = full.reduce(|best, wire| if wire.0 > best.0 { wire } else { best });
    fullest.map(|(_, place)| place)
}

/// The bottleneck where only the hosts themselves limit the rate.
fn by_hosts(plan: &Plan, hosts: &[HostReport]) -> Bottleneck {
    // Requests in flight of all hosts, of hosts that may have no more, and of hosts that a throttle limits.
    let (mut all, mut full, mut held) = (0.0, 0.0, 0.0);
    for (host, report) in plan.hosts.iter().zip(hosts) {
        all += report.in_flight;
        let issue = plan.scenario.hosts[host.group].requester();
        let outstanding = issue.map(|issue| f64::from(issue.outstanding));
        if outstanding.is_some_and(|outstanding| report.in_flight >= MIN_IN_FLIGHT * outstanding) {
            full += report.in_flight;
        } else if report
            .throttle
            .is_some_and(|throttle| throttle.held >= MIN_HELD)
        {
            held += report.in_flight;
        }
    }
    let limit = match (full > MAJORITY * all, held > MAJORITY * all) {
        (true, _) => Limit::Outstanding,
        (_, true) => Limit::Throttle,
        _ => Limit::Pace,
    };
    Bottleneck::new("hosts", limit, None, 0, 0.0, 0.0)
}

/// The media as bottleneck, if requests wait inside of them for a large part of their latency, for longer than an
/// idle read takes, and longer than at `place`, which is not a wire that is always busy. Such media take requests into
/// queues of their own, so that none waits in front of them. The wait is known where all requests go to devices whose
/// media have a constant idle latency.
pub(super) fn in_media(plan: &Plan, report: &Report, place: &Bottleneck) -> Option<Bottleneck> {
    if place.busy.is_some_and(|busy| busy >= MIN_UTILIZATION) {
        return None;
    }
    let media = &plan.media;
    let others = media.local.iter().chain(&media.accelerators).flatten();
    if others.chain(media.nodes.iter().flatten()).next().is_some() {
        return None;
    }
    let mut idle_reads = media.devices.iter().map(|medium| medium.idle_read_ps());
    let idle_ps = idle_reads.try_fold(0, |longest, idle_ps| Some(longest.max(idle_ps?)))?;
    let idle_ns = idle_ps as f64 / 1e3;
    let wait_ns = report.stages_ns.get("media")?.as_f64()? - idle_ns;
    let share = wait_ns / report.latency_ns.mean;
    if wait_ns <= idle_ns || share < MIN_QUEUE_SHARE.max(place.share) {
        return None;
    }
    let devices = report.devices.iter();
    let most = devices.clone().map(DeviceReport::taken).max()?;
    let busiest = devices.clone().find(|device| device.taken() == most)?;
    let alike = |device: &&DeviceReport| device.taken() as f64 >= ALIKE_WAIT * most as f64;
    let others = devices.filter(alike).count() - 1;
    let (name, limit) = (&busiest.name, Limit::Medium);
    Some(Bottleneck::new(name, limit, None, others, wait_ns, share))
}

impl Bottleneck {
    /// `busy` is the utilization of the wire, where the place is a link; `alike` counts other places.
    fn new(
        name: &str,
        limit: Limit,
        busy: Option<f64>,
        alike: usize,
        wait_ns: f64,
        share: f64,
    ) -> Bottleneck {
        let percent = busy.unwrap_or(0.0) * 100.0;
        let what = match limit {
            Limit::Wire => format!("its wire is {percent:.1} % busy"),
            Limit::Credits => format!("it has too few credits; its wire is {percent:.1} % busy"),
            Limit::Medium => "its medium is busy".to_owned(),
            Limit::Contexts => "it has no context for one more request".to_owned(),
            Limit::Outstanding => "they have as many requests in flight as they may".to_owned(),
            Limit::Throttle => "the load that devices report throttles them".to_owned(),
            Limit::Pace => "they issue at the pace of their workloads".to_owned(),
        };
        let also = match (limit, alike) {
            (_, 0) => String::new(),
            (Limit::Wire, 1) => ", and 1 other is as busy".to_owned(),
            (Limit::Wire, _) => format!(", and {alike} others are as busy"),
            (_, 1) => ", and 1 other place is alike".to_owned(),
            _ => format!(", and {alike} other places are alike"),
        };
        let wait = match limit {
            // The longest stage follows (`tell_longest_stage`).
            limit if limit.is_of_hosts() => String::new(),
            _ if alike == 0 => format!(
                "; requests wait {wait_ns:.1} ns for that, {:.0} % of all latency",
                share * 100.0
            ),
            _ => format!(
                "; its requests wait {wait_ns:.1} ns for that; at all {} places this is {:.0} % of all latency",
                alike + 1,
                share * 100.0
            ),
        };
        Bottleneck {
            text: format!("{name}: {what}{also}{wait}"),
            name: name.to_owned(),
            limit,
            alike,
            busy,
            wait_ns,
            share,
            longest_stage: None,
        }
    }

    /// Completes the text by the longest stage, where only the hosts limit the rate: their requests are served
    /// sooner if it is shorter. A wait in media that queue requests themselves shows in that stage alone. So the text
    /// names the stage beside another place, too, if requests take longer in media than they wait at that place. Where
    /// no request was served, no stage has a time, and the text does not change.
    pub(super) fn tell_longest_stage(&mut self, stages_ns: &Map<String, Value>) {
        if let Some((name, time, share)) = longest_stage(stages_ns) {
            let in_media = name == "media" && self.limit != Limit::Medium && share > self.share;
            if !self.limit.is_of_hosts() && !in_media {
                return;
            }
            let share = share * 100.0;
            let longest = format!("; the longest stage is {name}, {time:.1} ns ({share:.0} %)");
            self.text.push_str(&longest);
            self.longest_stage = Some(name.to_owned());
        }
    }
}

/// The longest of the stages: its name, its mean time, and its fraction of all of them. `None` where none of them
/// has a time.
pub(super) fn longest_stage(stages_ns: &Map<String, Value>) -> Option<(&str, f64, f64)> {
    let times = stages_ns.iter();
    let times = times.filter_map(|(name, time)| Some((name.as_str(), time.as_f64()?)));
    let times = times.filter(|(_, time)| *time > 0.0);
    let all: f64 = times.clone().map(|(_, time)| time).sum();
    let longest = times.reduce(|best, stage| if stage.1 > best.1 { stage } else { best });
    longest.map(|(name, time)| (name, time, time / all))
}
