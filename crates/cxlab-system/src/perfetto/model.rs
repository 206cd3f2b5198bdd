//! A trace before it is written: tracks, slices and counts.

use std::collections::BTreeMap;

use cxlab_agent::LOCAL;
use cxlab_engine::units::SimTime;
use cxlab_host::{Failure, RequestRow, STAGE_NAMES};
use cxlab_plan::{DeviceKind, End, Plan};

use super::Tracer;
use super::chains::{Chain, Places, chains, line_of};
use super::place::{PlacedRequest, Spot, StageSpan, place, wait_of};
use crate::wrapper::tracing::{CLASSES, LEVELS};

/// Category of slices that are a whole request.
pub(super) const REQUEST: &str = "request";
/// Category of slices that are a part of a request in one stage, inside of the request's slice.
pub(super) const STAGE: &str = "stage";
/// Category of slices of components, outputs and wires.
pub(super) const PLACE: &str = "place";

/// A row of the trace. Tracks of one name below one parent are shown as one.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    /// A counter's track has values, and no slices.
    pub(super) is_counter: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Arg {
    Number(u64),
    Text(String),
}

/// A span of time on a track, with the slices inside of it.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) track: usize,
    pub(super) category: &'static str,
    pub(super) name: String,
    pub(super) begin_ps: u64,
    pub(super) end_ps: u64,
    /// Number of the request in the trace, from 1 on.
    pub(super) request: u64,
    /// Whether arrows between the slices of a request lead here.
    pub(super) in_flow: bool,
    pub(super) args: Vec<(&'static str, Arg)>,
    pub(super) inside: Vec<Slice>,
}

/// A value of a counter from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Count {
    pub(super) track: usize,
    pub(super) at_ps: u64,
    pub(super) value: u64,
}

/// A trace of a window of a run, in memory.
#[derive(Debug)]
pub struct Trace {
    pub(super) tracks: Vec<Track>,
    pub(super) slices: Vec<Slice>,
    pub(super) counts: Vec<Count>,
    /// First and last time, if the window was reached.
    pub(super) window: Option<(u64, u64)>,
    pub(super) requests: usize,
    /// Requests that have their stages by messages.
    pub(super) by_messages: usize,
    pub(super) left_out: u64,
}

/// Tracks that are added as they are needed.
#[derive(Default)]
struct Tracks {
    all: Vec<Track>,
    by_name: BTreeMap<(Option<usize>, String), usize>,
    /// By parent and name: the lanes, and when each is free.
    lanes: BTreeMap<(usize, &'static str), Vec<(usize, u64)>>,
}

impl Tracks {
    fn add(&mut self, name: &str, parent: Option<usize>, is_counter: bool) -> usize {
        self.all.push(Track {
            name: name.to_owned(),
            parent,
            is_counter,
        });
        self.all.len() - 1
    }

    /// The track with this name below a parent.
    fn named(&mut self, name: String, parent: Option<usize>, is_counter: bool) -> usize {
        if let Some(track) = self.by_name.get(&(parent, name.clone())) {
            return *track;
        }
        let track = self.add(&name, parent, is_counter);
        self.by_name.insert((parent, name), track);
        track
    }

    /// A track for a slice, on which nothing else is at that time. Slices come in order of their beginning.
    fn lane(&mut self, parent: usize, name: &'static str, begin_ps: u64, end_ps: u64) -> usize {
        let key = (parent, name);
        let lanes = self.lanes.entry(key).or_default();
        if let Some((track, free)) = lanes.iter_mut().find(|(_, free)| *free <= begin_ps) {
            *free = end_ps;
            return *track;
        }
        let track = self.add(name, Some(parent), false);
        self.lanes.entry(key).or_default().push((track, end_ps));
        track
    }
}

/// Makes the trace of what was collected.
struct Maker<'p> {
    places: Places<'p>,
    tracks: Tracks,
}

impl Tracer {
    /// The trace of a run of this plan that ended at `end_ns`.
    pub fn finish(self, plan: &Plan, end_ns: f64) -> Trace {
        let places = Places::new(plan);
        let chains = chains(&self.arrivals, &places);
        let placed = place_all(&self.rows, &chains);
        let mut maker = Maker {
            places,
            tracks: Tracks::default(),
        };
        let mut slices = Vec::new();
        maker.requests(&placed, &mut slices);
        maker.visits(&placed, &mut slices);
        let mut counts = Vec::new();
        maker.levels(&self, &mut counts);
        maker.queues(&chains, &mut counts);
        let end_ps = (end_ns * 1e3).round() as u64;
        let window = self.open.filter(|(from, _)| from.0 <= end_ps);
        let last = self.ended.unwrap_or(SimTime(end_ps));
        let window = window.map(|(from, to)| (from.0, to.min(last).0));
        counts.retain(|count| window.is_some_and(|(from, to)| (from..=to).contains(&count.at_ps)));
        Trace {
            tracks: maker.tracks.all,
            slices,
            counts,
            window,
            requests: placed.len(),
            by_messages: placed.iter().filter(|request| request.by_messages).count(),
            left_out: self.left_out,
        }
    }
}

/// Places all requests by their messages.
fn place_all(rows: &[RequestRow], chains: &[Chain]) -> Vec<PlacedRequest> {
    let mut by_line: BTreeMap<u64, Vec<&Chain>> = BTreeMap::new();
    for chain in chains {
        by_line.entry(chain.key.line).or_default().push(chain);
    }
    let rows = rows.iter().map(|row| {
        // Hosts and accelerators are numbered as their edge ports are.
        let requester = usize::from(row.requester);
        let candidates = by_line.get(&line_of(row.hpa)).into_iter().flatten();
        let own = candidates.copied().filter(|chain| chain.key.has(requester));
        place(row, requester, own)
    });
    rows.collect()
}

/// Times of a slice, exact where a trace's own times are not.
fn times(begin_ps: u64, end_ps: u64) -> [(&'static str, Arg); 2] {
    [
        ("begin_ps", Arg::Number(begin_ps)),
        ("duration_ps", Arg::Number(end_ps - begin_ps)),
    ]
}

impl Maker<'_> {
    /// The requests on the tracks of their requesters, with their stages inside.
    fn requests(&mut self, placed: &[PlacedRequest], slices: &mut Vec<Slice>) {
        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|at| (placed[*at].row.issued_ps, *at));
        for at in order {
            let (request, number) = (&placed[at], at as u64 + 1);
            let row = &request.row;
            let name = self.component_name(usize::from(row.requester));
            let parent = self.tracks.named(name, None, false);
            let (begin_ps, end_ps) = (row.issued_ps, row.completed_ps);
            let track = self.tracks.lane(parent, "requests", begin_ps, end_ps);
            let kind = if row.write { "write" } else { "read" };
            let stage = |span: &StageSpan| Slice {
                track,
                category: STAGE,
                name: STAGE_NAMES[span.stage].to_owned(),
                begin_ps: span.begin_ps,
                end_ps: span.end_ps,
                request: number,
                in_flow: false,
                args: times(span.begin_ps, span.end_ps).into(),
                inside: Vec::new(),
            };
            slices.push(Slice {
                track,
                category: REQUEST,
                name: format!("{kind} {:#x}", row.hpa),
                begin_ps,
                end_ps,
                request: number,
                in_flow: true,
                args: self.describe(request),
                inside: request.spans.iter().map(stage).collect(),
            });
        }
    }

    /// Arguments of a request's slice.
    fn describe(&self, request: &PlacedRequest) -> Vec<(&'static str, Arg)> {
        let row = &request.row;
        let device = match row.device {
            u16::MAX => "private cache".to_owned(),
            LOCAL => "local memory".to_owned(),
            number => {
                let device = self.places.plan.devices.get(usize::from(number));
                device.map_or(String::new(), |one| one.name.clone())
            }
        };
        let outcome = match (row.denied, row.failure) {
            (true, _) => "denied",
            (_, Some(Failure::TimedOut)) => "timed_out",
            (_, Some(Failure::CutOff)) => "cut_off",
            (_, Some(Failure::Poisoned)) => "poisoned",
            (false, None) => "served",
        };
        let placed = match request.by_messages {
            true => "messages",
            false => "stages in order",
        };
        let mut args: Vec<(&'static str, Arg)> = times(row.issued_ps, row.completed_ps).into();
        args.extend([
            ("id", Arg::Number(row.id)),
            ("device", Arg::Text(device)),
            ("hops", Arg::Number(row.hops.into())),
            ("outcome", Arg::Text(outcome.to_owned())),
            ("placed_by", Arg::Text(placed.to_owned())),
        ]);
        args
    }

    /// The components, outputs and wires that requests passed.
    fn visits(&mut self, placed: &[PlacedRequest], slices: &mut Vec<Slice>) {
        // One slice for the stages of a request that follow each other at one place.
        let mut visits: BTreeMap<Spot, Vec<(u64, u64, u64, String)>> = BTreeMap::new();
        for (at, request) in placed.iter().enumerate() {
            for run in request.spans.chunk_by(|one, next| one.spot == next.spot) {
                let (Some(first), Some(last)) = (run.first(), run.last()) else {
                    continue;
                };
                if first.spot == Spot::Requester {
                    continue;
                }
                let names: Vec<&str> = run.iter().map(|span| STAGE_NAMES[span.stage]).collect();
                let visit = (first.begin_ps, last.end_ps, at as u64 + 1, names.join(", "));
                visits.entry(first.spot).or_default().push(visit);
            }
        }
        for (spot, mut visits) in visits {
            visits.sort();
            let (parent, lane) = self.spot(spot);
            for (begin_ps, end_ps, request, name) in visits {
                let track = self.tracks.lane(parent, lane, begin_ps, end_ps);
                slices.push(Slice {
                    track,
                    category: PLACE,
                    name,
                    begin_ps,
                    end_ps,
                    request,
                    in_flow: true,
                    args: times(begin_ps, end_ps).into(),
                    inside: Vec::new(),
                });
            }
        }
    }

    /// Parent and name of the tracks of a place.
    fn spot(&mut self, spot: Spot) -> (usize, &'static str) {
        match spot {
            Spot::Requester => unreachable!("a requester's stages are inside of its requests"),
            Spot::Component(number) => {
                let name = self.component_name(number);
                (self.tracks.named(name, None, false), "requests inside")
            }
            Spot::Output(direction) => (self.link(direction), "queue"),
            Spot::Wire(direction) => (self.link(direction), "wire"),
        }
    }

    fn link(&mut self, direction: usize) -> usize {
        let mut name = format!("link {}", self.places.direction_name(direction));
        // Parallel links have the same ends.
        let alike = (0..direction)
            .filter(|other| self.places.direction_name(*other) == name[5..])
            .count();
        if alike > 0 {
            name += &format!(" #{}", alike + 1);
        }
        self.tracks.named(name, None, false)
    }

    fn component_name(&self, number: usize) -> String {
        let plan = self.places.plan;
        let (hosts, devices) = (plan.hosts.len(), plan.devices.len());
        if number < hosts {
            format!("host {}", plan.end_name(End::Host(number, 0)))
        } else if number < hosts + devices {
            let device = number - hosts;
            let kind = match plan.devices[device].group {
                DeviceKind::Memory(_) => "device",
                DeviceKind::Accelerator(_) => "accelerator",
            };
            format!("{kind} {}", plan.end_name(End::Device(device, 0)))
        } else {
            let switch = End::Switch(number - hosts - devices, 0);
            format!("switch {}", plan.end_name(switch))
        }
    }

    /// Credits at outputs.
    fn levels(&mut self, tracer: &Tracer, counts: &mut Vec<Count>) {
        let sender = |direction: usize| {
            let (from, _) = self.places.ends(direction);
            let component = self.places.plan.component(from);
            ((component, super::chains::port(from)), direction)
        };
        let directions = 0..self.places.directions();
        let by_sender: BTreeMap<(usize, u16), usize> = directions.map(sender).collect();
        // A class that a direction never uses keeps all of its credits, and has no track.
        let mut values: BTreeMap<(usize, usize), Vec<(u64, u64)>> = BTreeMap::new();
        for change in &tracer.levels {
            if let Some(direction) = by_sender.get(&(change.component, change.port)) {
                let values = values.entry((*direction, change.level)).or_default();
                values.push((change.at_ps, u64::from(change.value)));
            }
        }
        for ((direction, level), values) in values {
            if values.len() < 2 {
                continue;
            }
            let parent = self.link(direction);
            let name = match level {
                LEVELS.. => continue,
                level if level < CLASSES.len() => format!("credits {}", CLASSES[level].1),
                _ => "messages without returned credit".to_owned(),
            };
            let track = self.tracks.named(name, Some(parent), true);
            // Of several events at one time the last counts.
            let last = values
                .chunk_by(|one, next| one.0 == next.0)
                .filter_map(<[_]>::last);
            counts.extend(last.map(|(at_ps, value)| Count {
                track,
                at_ps: *at_ps,
                value: *value,
            }));
        }
    }

    /// How many messages wait at each output.
    fn queues(&mut self, chains: &[Chain], counts: &mut Vec<Count>) {
        let mut changes: BTreeMap<usize, BTreeMap<u64, i64>> = BTreeMap::new();
        let hops = chains.iter().flat_map(|chain| &chain.hops);
        for hop in hops.filter(|hop| !hop.is_repeated) {
            let (begin, end) = wait_of(hop);
            if begin < end {
                let at = changes.entry(hop.direction).or_default();
                *at.entry(begin).or_default() += 1;
                *at.entry(end).or_default() -= 1;
            }
        }
        for (direction, changes) in changes {
            let parent = self.link(direction);
            let track = self
                .tracks
                .named("queue length".to_owned(), Some(parent), true);
            let mut length = 0;
            for (at_ps, change) in changes.into_iter().filter(|(_, change)| *change != 0) {
                length += change;
                counts.push(Count {
                    track,
                    at_ps,
                    value: length.max(0) as u64,
                });
            }
        }
    }
}
