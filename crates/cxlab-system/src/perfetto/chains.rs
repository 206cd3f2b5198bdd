//! The messages of a transaction, from its issue on, and their times between two arrivals.

use std::collections::BTreeMap;

use cxlab_agent::stages_of;
use cxlab_host::StageTimes;
use cxlab_plan::{End, Plan};
use cxlab_protocol::Message;

use crate::wrapper::tracing::Arrival;

/// Addresses of a line have these bits in common.
const LINE_BITS: u32 = 6;

/// Identity of a transaction: both of its endpoints, the lower one first, the requester's tag, the
/// time of issue and the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    ends: (u16, u16),
    pub(super) line: u64,
    pub(super) issued_ps: u64,
    tag: u32,
}

impl Key {
    fn of(message: &Message) -> Key {
        let (one, other) = (message.source.0, message.destination.0);
        Key {
            ends: (one.min(other), one.max(other)),
            line: message.hpa.0 >> LINE_BITS,
            issued_ps: message.issued_ps,
            tag: message.tag,
        }
    }

    /// Whether an endpoint is one of the two.
    pub(super) fn has(&self, endpoint: usize) -> bool {
        usize::from(self.ends.0) == endpoint || usize::from(self.ends.1) == endpoint
    }
}

pub(super) fn line_of(hpa: u64) -> u64 {
    hpa >> LINE_BITS
}

/// Time of a message from its arrival at one component to its arrival at the next.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// Number of the link's direction, [`Places::direction`].
    pub(super) direction: usize,
    /// The component that the message left.
    pub(super) from: usize,
    /// The component that the message reached.
    pub(super) to: usize,
    pub(super) end_ps: u64,
    /// Stage times that the message gained on the hop; the rest of the time is the component's own.
    pub(super) stages: StageTimes,
    /// The time since the arrival before, or since the issue, without the stages.
    pub(super) rest_ps: u64,
    /// Whether an earlier chain of the transaction has the hop too.
    pub(super) is_repeated: bool,
}

/// A transaction as its messages show it.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) key: Key,
    pub(super) hops: Vec<Hop>,
    /// Stage times of the last message at its arrival.
    pub(super) stages: StageTimes,
}

impl Chain {
    /// When its last message was received, behind the link.
    pub(super) fn end_ps(&self) -> u64 {
        self.hops
            .last()
            .map_or(self.key.issued_ps, |hop| hop.end_ps)
    }

    /// The component that its last message reached.
    pub(super) fn last(&self) -> Option<usize> {
        self.hops.last().map(|hop| hop.to)
    }
}

/// Names and numbers of links by their ends.
pub(super) struct Places<'p> {
    pub(super) plan: &'p Plan,
    /// By receiving component and port: the link's direction, twice the link's number, plus 1 for backward.
    by_receiver: BTreeMap<(usize, u16), usize>,
}

impl<'p> Places<'p> {
    pub(super) fn new(plan: &'p Plan) -> Places<'p> {
        let links = plan.links.iter().enumerate();
        let ends =
            links.flat_map(|(number, link)| [(link.b, 2 * number), (link.a, 2 * number + 1)]);
        let by_receiver =
            ends.map(|(end, direction)| ((plan.component(end), port(end)), direction));
        Places {
            plan,
            by_receiver: by_receiver.collect(),
        }
    }

    /// The direction of a link whose messages arrive at a port.
    pub(super) fn direction(&self, component: usize, port: u16) -> Option<usize> {
        self.by_receiver.get(&(component, port)).copied()
    }

    /// Transmitting and receiving end of a link's direction.
    pub(super) fn ends(&self, direction: usize) -> (End, End) {
        let link = &self.plan.links[direction / 2];
        match direction % 2 {
            0 => (link.a, link.b),
            _ => (link.b, link.a),
        }
    }

    pub(super) fn direction_name(&self, direction: usize) -> String {
        let (from, to) = self.ends(direction);
        format!("{}->{}", self.plan.end_name(from), self.plan.end_name(to))
    }

    pub(super) fn directions(&self) -> usize {
        2 * self.plan.links.len()
    }
}

pub(super) fn port(end: End) -> u16 {
    match end {
        End::Host(_, port) | End::Device(_, port) | End::Switch(_, port) => port,
    }
}

/// Puts arrivals together by transaction. A transaction has a chain for each message that went no further: a response
/// and its data may be two. Messages that do not show all of their way are in none.
pub(super) fn chains(arrivals: &[Arrival], places: &Places<'_>) -> Vec<Chain> {
    let mut by_key: BTreeMap<Key, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        let of_key = by_key.entry(Key::of(&arrival.message)).or_default();
        of_key.push(arrival);
    }
    let mut chains = Vec::new();
    for (key, mut arrivals) in by_key {
        arrivals.sort_by_key(|arrival| (arrival.at_ps, arrival.message.stages.total()));
        add_chains(key, &arrivals, places, &mut chains);
    }
    chains
}

/// An arrival with the hop that led to it.
struct Step {
    /// Position of the arrival before, unless the hop begins the transaction.
    before: Option<usize>,
    hop: Hop,
    stages: StageTimes,
    goes_on: bool,
}

fn add_chains(key: Key, arrivals: &[&Arrival], places: &Places<'_>, chains: &mut Vec<Chain>) {
    let mut steps: Vec<Step> = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        let Some(step) = step(key, arrival, &steps, places) else {
            continue;
        };
        if let Some(before) = step.before {
            steps[before].goes_on = true;
        }
        steps.push(step);
    }
    let mut is_used = vec![false; steps.len()];
    for last in (0..steps.len()).filter(|at| !steps[*at].goes_on) {
        let mut hops = Vec::new();
        let mut at = Some(last);
        while let Some(position) = at {
            let step = &steps[position];
            let is_repeated = std::mem::replace(&mut is_used[position], true);
            hops.push(Hop {
                is_repeated,
                ..step.hop.clone()
            });
            at = step.before;
        }
        hops.reverse();
        let stages = steps[last].stages;
        chains.push(Chain { key, hops, stages });
    }
}

/// The hop that led to an arrival, from the latest earlier arrival that the message can have come from.
fn step(key: Key, arrival: &Arrival, before: &[Step], places: &Places<'_>) -> Option<Step> {
    let direction = places.direction(arrival.component, arrival.port)?;
    let (from, to) = places.ends(direction);
    let from = places.plan.component(from);
    let now = stages_of(&arrival.message.stages, 0, 0);
    let gained = |before: &StageTimes| {
        let mut gained = now;
        for (gained, before) in gained.iter_mut().zip(before) {
            *gained = gained.checked_sub(*before)?;
        }
        Some(gained)
    };
    let earlier = before.iter().enumerate().rev();
    let mut earlier = earlier.filter(|(_, step)| step.hop.to == from);
    let found =
        earlier.find_map(|(at, step)| Some((Some(at), step.hop.end_ps, gained(&step.stages)?)));
    let (before, begin_ps, stages) = match found {
        Some(found) => found,
        None if key.has(from) => (None, key.issued_ps, now),
        None => return None,
    };
    let spent: u64 = stages.iter().sum();
    // The time that a component spends on a message behind the link is charged when the message leaves.
    let received = arrival.at_ps.checked_sub(places.plan.ingress(to).0)?;
    let end_ps = received.max(begin_ps + spent);
    let hop = Hop {
        direction,
        from,
        to: arrival.component,
        end_ps,
        stages,
        rest_ps: end_ps - begin_ps - spent,
        is_repeated: false,
    };
    Some(Step {
        before,
        hop,
        stages: now,
        goes_on: false,
    })
}
