//! A fixed-point iteration for rates and the waits that they cause.
//!
//! At a station, a message waits for the rest of the message on the wire, and for the messages that
//! are queued already: `W = R + u W'`, where `u` is the used capacity and `W'` the mean wait there.
//! For one stream this is `R / (1 - u)`, the wait of an M/D/1 queue with `R = u s / 2`. A
//! closed-loop host with `N` requests in flight has the rate `N / latency` (Little's law). As a
//! station fills, waits grow until the rates of the hosts fit its capacity: mean-value analysis
//! with the arrivals of an open network. `R` counts all messages of other hosts but only a small
//! part of the host's own, because those arrive spaced by the station before.
//!
//! Messages that come to a station from the same previous station in the same class form a queue.
//! Queues are served in turn, so each is sure of its max-min fair share of the capacity. For a
//! queue, `1 - u` is the unused part of the share that it could have. While no queue wants more
//! than its share, all have the station's `u`. Where the capacity does not suffice, only the queues
//! that want more than their share wait long.
//!
//! A message holds its credit until it leaves the receiver, so waits at the receiver count as use
//! of the link before. A lasting wait uses up that link's credits, and then all messages that want
//! to cross the link wait, whatever their destination.

use std::collections::BTreeMap;

use crate::flow::{Flow, MessageClass, Visit};
use crate::network::{Arbitration, Network, Station};
use crate::wire::{ClassRates, WireLoad};

/// The part of a host's own messages that its messages meet on a wire. A stream that has passed one
/// wire is spaced, and meets itself rarely on the next; different routes and media undo a part of
/// that. *Assumed*; the tables in `docs/explain/analytic.md` check the value.
const OWN_TRAFFIC_SHARE: f64 = 0.05;
/// A solution has settled if latencies change by less than this part in a round (*assumed*).
const SETTLED_CHANGE: f64 = 1e-7;
/// A solution has also settled if the latency of each host stays within this part of itself (*assumed*).
const SETTLED_BAND: f64 = 0.01;
/// Bound on the growth factor of a wait in a round, so that rates can follow (*assumed*).
const MAX_WAIT_GROWTH: f64 = 1.1;
/// The step of the waits towards their new values, by sixth of the rounds (*assumed*). Smaller steps follow where larger
/// ones did not settle.
const STEPS: [f64; 6] = [0.3, 0.3, 0.1, 0.1, 0.03, 0.03];
/// Bound on the rounds (*assumed*).
const MAX_ROUNDS: usize = 10_000;
/// Bound on the visits of all rounds together (*assumed*): seconds of computing.
const MAX_VISITS: usize = 200_000_000;

/// The load of a station.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct StationLoad {
    /// Messages per picosecond, by class.
    pub rates: [f64; MessageClass::COUNT],
    /// Used part of the capacity, with credits or places: 1 is full.
    pub used: f64,
    /// Used part of the capacity of the wire or medium itself, without credits and places.
    pub carried: f64,
    /// The load of the wire; default for media.
    pub wire: WireLoad,
    /// Mean wait, in picoseconds.
    pub wait_ps: f64,
}

impl StationLoad {
    /// Multiplies the rates by `factor`; waits stay.
    pub fn scale(&mut self, factor: f64) {
        let wire = &mut self.wire;
        let parts = [&mut self.used, &mut self.carried];
        let of_wire = [
            &mut wire.packed,
            &mut wire.busy,
            &mut wire.payload,
            &mut wire.bytes,
        ];
        for part in self.rates.iter_mut().chain(parts).chain(of_wire) {
            *part *= factor;
        }
    }

    /// Merges another load, which makes up `part` of the two together.
    pub fn join(&mut self, new: &StationLoad, part: f64) {
        let join = |old: &mut f64, new: f64| *old += (new - *old) * part;
        for (old, new) in self.rates.iter_mut().zip(new.rates) {
            join(old, new);
        }
        join(&mut self.used, new.used);
        join(&mut self.carried, new.carried);
        join(&mut self.wait_ps, new.wait_ps);
        let (old, new) = (&mut self.wire, &new.wire);
        join(&mut old.packed, new.packed);
        join(&mut old.busy, new.busy);
        join(&mut old.payload, new.payload);
        join(&mut old.bytes, new.bytes);
    }
}

/// The rates and waits that a network settles to.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Solution {
    /// Requests per picosecond, by host.
    pub rates: Vec<f64>,
    /// Mean latency in picoseconds, by flow.
    pub latency_ps: Vec<f64>,
    /// Mean wait in picoseconds, by flow and visit.
    pub waits_ps: Vec<Vec<f64>>,
    /// The load of each station.
    pub stations: Vec<StationLoad>,
    /// Whether latencies settled: to 10^-7, or to 1 % in the last half of the rounds.
    pub settled: bool,
}

impl Solution {
    /// The station with the highest use; `None` in a network without stations.
    pub fn bottleneck(&self) -> Option<usize> {
        (0..self.stations.len()).max_by(|a, b| {
            let used = |station: &usize| self.stations[*station].used;
            used(a).total_cmp(&used(b)).then(b.cmp(a))
        })
    }
}

/// Solves a network. [`Solution::settled`] tells whether the iteration converged.
pub fn solve(network: &Network) -> Solution {
    let mut state = SolverState::new(network);
    let visits: usize = network.flows.iter().map(|flow| flow.visits.len()).sum();
    let rounds = (MAX_VISITS / visits.max(1)).clamp(50, MAX_ROUNDS);
    let mut settled = false;
    // By host: the lowest and highest time per request in the last half of the rounds.
    let mut bands = vec![(f64::INFINITY, 0.0_f64); network.hosts.len()];
    for round in 0..rounds {
        state.step = STEPS[(STEPS.len() * round / rounds).min(STEPS.len() - 1)];
        state.load(network);
        if state.respond(network) < SETTLED_CHANGE {
            settled = true;
            break;
        }
        if 2 * round >= rounds {
            state.note_mean(1.0 + (round - rounds / 2) as f64);
            for (band, held) in bands.iter_mut().zip(&state.held) {
                *band = (band.0.min(*held), band.1.max(*held));
            }
        }
    }
    if !settled {
        let mut bands = bands.iter();
        settled = bands.all(|(least, most)| *most <= (1.0 + SETTLED_BAND) * least);
        (state.rates, state.waits) = std::mem::take(&mut state.mean);
    }
    state.load(network);
    let counted = |(flow, waits): (&Flow, &Vec<f64>)| -> Vec<f64> {
        let visits = flow.visits.iter().zip(waits);
        let counted = visits.map(|(visit, wait)| wait * state.counted(network, flow, visit));
        counted.collect()
    };
    let flows = network.flows.iter();
    let latency = |flow: usize| state.latency(network, flow);
    Solution {
        latency_ps: (0..network.flows.len()).map(latency).collect(),
        waits_ps: flows.zip(&state.waits).map(counted).collect(),
        rates: state.rates,
        stations: state.stations.iter().map(StationState::report).collect(),
        settled,
    }
}

/// The state of a station in one round.
#[derive(Clone, Copy, Default)]
struct StationState {
    rates: ClassRates,
    /// Wait times rate at this station, by class.
    waiting: ClassRates,
    /// Wait times rate at the next stations of messages that came from here, by class.
    beyond: ClassRates,
    /// The part of those waits for which the credits or places here suffice.
    room: ClassRates,
    /// Mean wait before this station, for each message, for lack of credits or places here.
    pushed: ClassRates,
    used: ClassRates,
    carried: f64,
    wire: WireLoad,
}

impl StationState {
    fn report(&self) -> StationLoad {
        let all: f64 = self.rates.iter().sum();
        let waiting: f64 = self.waiting.iter().sum();
        StationLoad {
            rates: self.rates,
            used: self.used.iter().copied().fold(0.0, f64::max),
            carried: self.carried,
            wire: self.wire,
            wait_ps: if all > 0.0 { waiting / all } else { 0.0 },
        }
    }
}

/// The messages of a class that come to a station from the same previous station.
#[derive(Clone, Copy)]
struct StationQueue {
    class: MessageClass,
    from: Option<u32>,
    rate: f64,
    /// Mean wait times rate.
    waiting: f64,
    /// Mean wait at earlier stations, times rate.
    waited: f64,
    /// Difference between the wait of a message and the queue's mean wait because
    /// of oldest-first arbitration.
    younger: f64,
    /// Wait for each picosecond of mean wait here: the used part of the capacity that the
    /// queue may have.
    used: f64,
}

impl StationQueue {
    fn mean_wait(&self) -> f64 {
        match self.rate > 0.0 {
            true => self.waiting / self.rate,
            false => 0.0,
        }
    }
}

struct SolverState {
    rates: Vec<f64>,
    /// By host: the mean time for which a request occupies one of the outstanding requests.
    held: Vec<f64>,
    stations: Vec<StationState>,
    /// All queues, grouped by station, and the range of each station.
    queues: Vec<StationQueue>,
    queues_of: Vec<std::ops::Range<usize>>,
    /// The queue's index, by flow and visit.
    queue_of: Vec<Vec<u32>>,
    /// Mean wait, by flow and visit.
    waits: Vec<Vec<f64>>,
    /// By station: the part of the waits spent before the station. 1 but for media,
    /// which have places.
    outside: Vec<f64>,
    /// The rates of one host's messages by station, and the stations that have any.
    own: Vec<ClassRates>,
    touched: Vec<u32>,
    /// Running means of rates and waits, for networks that do not settle.
    mean: (Vec<f64>, Vec<Vec<f64>>),
    /// The step of the waits towards their new values in this round.
    step: f64,
    /// Scratch: the sorted rates of the queues that share a capacity.
    sorted: Vec<f64>,
}

impl SolverState {
    fn new(network: &Network) -> SolverState {
        let flows = network.flows.iter();
        let waits = flows.map(|flow| vec![0.0; flow.visits.len()]);
        let mut state = SolverState {
            rates: vec![0.0; network.hosts.len()],
            held: vec![0.0; network.hosts.len()],
            stations: vec![StationState::default(); network.stations.len()],
            queues: Vec::new(),
            queues_of: Vec::new(),
            queue_of: Vec::new(),
            waits: waits.collect(),
            outside: vec![1.0; network.stations.len()],
            own: vec![[0.0; MessageClass::COUNT]; network.stations.len()],
            touched: Vec::new(),
            mean: Default::default(),
            step: 1.0,
            sorted: Vec::new(),
        };
        state.find_queues(network);
        for (number, host) in network.hosts.iter().enumerate() {
            let flows = network.flows.iter();
            let of_host = flows.filter(|flow| flow.host as usize == number);
            let alone = of_host.map(|flow| flow.share * flow.stages.total() as f64);
            state.rates[number] = rate(host.outstanding, host.interval_ps, alone.sum());
        }
        state
    }

    fn find_queues(&mut self, network: &Network) {
        let key = |visit: &Visit| (visit.station, visit.from, visit.class as u8);
        let mut numbers = BTreeMap::new();
        for visit in network.flows.iter().flat_map(|flow| &flow.visits) {
            numbers.insert(key(visit), visit);
        }
        let mut first = 0;
        for station in 0..network.stations.len() {
            let from = numbers.range((station as u32, None, 0)..);
            let of_station = from.take_while(|(key, _)| key.0 as usize == station);
            let queues = of_station.map(|(_, visit)| StationQueue {
                class: visit.class,
                from: visit.from,
                rate: 0.0,
                waiting: 0.0,
                waited: 0.0,
                younger: 0.0,
                used: 0.0,
            });
            self.queues.extend(queues);
            self.queues_of.push(first..self.queues.len());
            first = self.queues.len();
        }
        let numbers: BTreeMap<_, u32> = numbers.into_keys().zip(0..).collect();
        let number = |visit: &Visit| numbers[&key(visit)];
        let of_flow = |flow: &Flow| flow.visits.iter().map(number).collect();
        self.queue_of = network.flows.iter().map(of_flow).collect();
    }

    /// Computes the load of every station at the current rates and waits.
    fn load(&mut self, network: &Network) {
        for queue in &mut self.queues {
            (queue.rate, queue.waiting, queue.waited, queue.used) = (0.0, 0.0, 0.0, 0.0);
        }
        let of_flows = self.waits.iter().zip(&self.queue_of);
        for (flow, (waits, queues)) in network.flows.iter().zip(of_flows) {
            let flow_rate = self.rates[flow.host as usize] * flow.share;
            let mut waited = 0.0;
            for ((visit, wait), queue) in flow.visits.iter().zip(waits).zip(queues) {
                let queue = &mut self.queues[*queue as usize];
                let rate = flow_rate * visit.share;
                queue.rate += rate;
                queue.waiting += rate * wait;
                queue.waited += rate * waited;
                waited += visit.share * wait;
            }
        }
        self.stations.fill(StationState {
            room: [1.0; MessageClass::COUNT],
            ..StationState::default()
        });
        for (station, queues) in self.queues_of.iter().enumerate() {
            self.outside[station] = self.waits_outside(network, station);
            for queue in &self.queues[queues.clone()] {
                let class = queue.class as usize;
                let at = &mut self.stations[station];
                at.rates[class] += queue.rate;
                at.waiting[class] += queue.waiting;
                if let Some(from) = queue.from {
                    self.stations[from as usize].beyond[class] +=
                        queue.waiting * self.outside[station];
                }
            }
        }
        for (number, station) in network.stations.iter().enumerate() {
            let at = &mut self.stations[number];
            match station {
                Station::Wire(wire) => {
                    at.wire = wire.load(&at.rates);
                    at.carried = at.wire.packed;
                    for class in MessageClass::ALL {
                        let number = class as usize;
                        let (rate, waiting) = (at.rates[number], at.beyond[number]);
                        let crossing = wire.held(&at.rates, class, 0.0);
                        let all = wire.held(&at.rates, class, waiting);
                        (at.room[number], at.pushed[number]) = fit(crossing, all, waiting, rate);
                        at.used[number] = at.wire.packed.max(all.min(crossing.max(1.0)));
                    }
                }
                Station::Medium(medium) => {
                    at.carried = medium.used(at.rates.iter().sum());
                    let (rate, waiting) = (at.rates.iter().sum(), at.beyond.iter().sum());
                    let inside = medium.held(&at.rates, 0.0);
                    let all = medium.held(&at.rates, waiting);
                    let (room, pushed) = fit(inside, all, waiting, rate);
                    (at.room, at.pushed) =
                        ([room; MessageClass::COUNT], [pushed; MessageClass::COUNT]);
                    at.used = [at.carried.max(all.min(inside.max(1.0))); MessageClass::COUNT];
                }
            }
            self.share(network, number);
        }
    }

    /// The part of the waits for a medium that is spent before it, with a credit held.
    fn waits_outside(&self, network: &Network, station: usize) -> f64 {
        match &network.stations[station] {
            Station::Wire(_) => 1.0,
            Station::Medium(medium) => {
                let queues = &self.queues[self.queues_of[station].clone()];
                let waiting: f64 = queues.iter().map(|queue| queue.waiting).sum();
                (1.0 - medium.places / waiting.max(medium.places)).max(0.0)
            }
        }
    }

    /// Sets the used part of what each queue of a station may have.
    fn share(&mut self, network: &Network, station: usize) {
        let at = self.stations[station];
        let queues = &mut self.queues[self.queues_of[station].clone()];
        let in_turn = matches!(network.stations[station], Station::Wire(_))
            && network.arbitration == Arbitration::RoundRobin;
        if !in_turn {
            for queue in queues.iter_mut() {
                queue.used = at.used[queue.class as usize];
            }
            if network.arbitration == Arbitration::Age {
                by_age(queues);
            }
            return;
        }
        let all: f64 = at.rates.iter().sum();
        match &network.stations[station] {
            Station::Wire(wire) if wire.is_shared() => share_bus(queues, &at, &mut self.sorted),
            _ => share(
                queues,
                &MessageClass::ALL,
                all,
                at.carried,
                &mut self.sorted,
            ),
        }
        for class in MessageClass::ALL {
            let (rate, used) = (at.rates[class as usize], at.used[class as usize]);
            if used > at.carried {
                share(queues, &[class], rate, used, &mut self.sorted);
            }
        }
    }

    /// Updates waits and rates host by host. Returns the largest relative change of a latency.
    fn respond(&mut self, network: &Network) -> f64 {
        let mut change: f64 = 0.0;
        let mut first = 0;
        while first < network.flows.len() {
            let host = network.flows[first].host as usize;
            let is_of_host = |flow: &&Flow| flow.host as usize == host;
            let rest = network.flows[first..].iter();
            let flows = first..first + rest.take_while(is_of_host).count();
            first = flows.end;
            self.note_own(network, flows.clone(), host);
            let (mut held, mut moved): (f64, f64) = (0.0, 0.0);
            let places = network.hosts[host].outstanding;
            for number in flows {
                let flow = &network.flows[number];
                for (at, visit) in flow.visits.iter().enumerate() {
                    let queue = self.queue_of[number][at] as usize;
                    let new = self.wait(network, visit, queue, places);
                    let old = &mut self.waits[number][at];
                    moved = moved.max((new - *old).abs());
                    *old += self.step * (new - *old);
                }
                held += flow.share * self.latency(network, number);
            }
            for station in self.touched.drain(..) {
                self.own[station as usize] = [0.0; MessageClass::COUNT];
            }
            let limits = &network.hosts[host];
            let wanted = rate(limits.outstanding, limits.interval_ps, held);
            // Half of the step, so that rates and waits do not oscillate.
            self.rates[host] = 0.5 * (self.rates[host] + wanted);
            change = change.max(moved.max((held - self.held[host]).abs()) / held.max(1.0));
            self.held[host] = held;
        }
        change
    }

    fn note_mean(&mut self, rounds: f64) {
        let (rates, waits) = &mut self.mean;
        if rates.is_empty() {
            (*rates, *waits) = (self.rates.clone(), self.waits.clone());
            return;
        }
        let rates = rates.iter_mut().zip(&self.rates);
        let waits = waits.iter_mut().flatten().zip(self.waits.iter().flatten());
        for (mean, new) in rates.chain(waits) {
            *mean += (new - *mean) / rounds;
        }
    }

    /// The part of the wait at a visit that counts for the latency. A write that completes when the
    /// medium accepts it does not wait in the medium.
    fn counted(&self, network: &Network, flow: &Flow, visit: &Visit) -> f64 {
        match &network.stations[visit.station as usize] {
            Station::Medium(_) if flow.posted => self.outside[visit.station as usize],
            _ => 1.0,
        }
    }

    /// The mean latency of a flow: constant stages and mean waits.
    fn latency(&self, network: &Network, number: usize) -> f64 {
        let flow = &network.flows[number];
        let visits = flow.visits.iter().zip(&self.waits[number]);
        let waits =
            visits.map(|(visit, wait)| visit.share * wait * self.counted(network, flow, visit));
        flow.stages.total() as f64 + waits.sum::<f64>()
    }

    fn note_own(&mut self, network: &Network, flows: std::ops::Range<usize>, host: usize) {
        for flow in &network.flows[flows] {
            for visit in &flow.visits {
                let own = &mut self.own[visit.station as usize];
                if own.iter().all(|rate| *rate == 0.0) {
                    self.touched.push(visit.station);
                }
                own[visit.class as usize] += self.rates[host] * flow.share * visit.share;
            }
        }
    }

    /// The wait of a message at a visit, for the host whose rates are in `own` and which has
    /// `places` requests in flight.
    fn wait(&self, network: &Network, visit: &Visit, queue: usize, places: f64) -> f64 {
        let station = visit.station as usize;
        let at = &self.stations[station];
        let own = &self.own[station];
        // A host with one request in flight never meets its own messages.
        let most = 1.0 - 1.0 / places.max(1.0);
        let others = |met: f64| -> ClassRates {
            std::array::from_fn(|class| (at.rates[class] - (1.0 - met) * own[class]).max(0.0))
        };
        let residual = match &network.stations[station] {
            Station::Wire(wire) => wire.residual(&others(OWN_TRAFFIC_SHARE * most), at.wire.flits),
            // Conflicts of banks and rows do not depend on how evenly requests arrive.
            Station::Medium(medium) => medium.residual(others(most).iter().sum()),
        };
        let queue = &self.queues[queue];
        let used = queue.used.clamp(0.0, MAX_WAIT_GROWTH);
        let here = (residual + used * (queue.mean_wait() + queue.younger)).max(0.0);
        // Waits without room at the previous station are counted there, in `pushed`.
        let room = visit.from.map_or(1.0, |from| {
            self.stations[from as usize].room[visit.class as usize]
        });
        room * here + at.pushed[visit.class as usize]
    }
}

/// The part of the waits beyond a station for which there is room, and the wait of each message
/// before the station for the rest. `crossing` is the used part of the station's credits
/// without those waits, and `all` is the used part with them.
fn fit(crossing: f64, all: f64, waiting: f64, rate: f64) -> (f64, f64) {
    if all <= 1.0 || rate <= 0.0 || waiting <= 0.0 {
        return (1.0, 0.0);
    }
    let room = ((1.0 - crossing) / (all - crossing)).max(0.0);
    (room, (1.0 - room) * waiting / rate)
}

/// Sets how much longer than the queue's mean its messages wait at a station that sends the oldest
/// first: messages of all queues have the same mean age at departure.
fn by_age(queues: &mut [StationQueue]) {
    for class in MessageClass::ALL {
        let (mut rate, mut age) = (0.0, 0.0);
        for queue in queues.iter().filter(|queue| queue.class == class) {
            rate += queue.rate;
            age = age + queue.waiting + queue.waited;
        }
        if rate <= 0.0 {
            continue;
        }
        let goes = age / rate;
        for queue in queues.iter_mut().filter(|queue| queue.class == class) {
            let came = queue.waited / queue.rate.max(f64::MIN_POSITIVE);
            queue.younger = goes - came - queue.mean_wait();
        }
    }
}

/// Like [`share`], for a half-duplex bus: its two directions alternate before their queues do.
fn share_bus(queues: &mut [StationQueue], at: &StationState, sorted: &mut Vec<f64>) {
    let directions = [
        [MessageClass::Req, MessageClass::Rwd],
        [MessageClass::Ndr, MessageClass::Drs],
    ];
    let rates = directions.map(|classes| {
        let rates = classes.map(|class| at.rates[class as usize]);
        rates.iter().sum::<f64>()
    });
    let all = rates[0] + rates[1];
    if at.carried <= 0.0 {
        return;
    }
    let capacity = all / at.carried;
    for (direction, classes) in directions.iter().enumerate() {
        // The capacity of this direction if the other one keeps its rate, or half.
        let rate = rates[direction];
        let may = (capacity - rates[1 - direction]).max(capacity / 2.0);
        share(queues, classes, rate, rate / may, sorted);
    }
}

/// Sets the used part of what each queue of the given classes may have, for queues served in turn.
/// The capacity is such that their total `rate` uses the part `used` of it. A higher use of
/// another capacity stays.
fn share(
    queues: &mut [StationQueue],
    classes: &[MessageClass],
    rate: f64,
    used: f64,
    sorted: &mut Vec<f64>,
) {
    if rate <= 0.0 || used <= 0.0 {
        return;
    }
    let shares = |queue: &StationQueue| classes.contains(&queue.class);
    let capacity = rate / used;
    let sharing = queues.iter().filter(|queue| shares(queue));
    let rates = sharing.map(|queue| queue.rate);
    let most = rates.clone().fold(0.0, f64::max);
    // The largest queue could take all that is left without exceeding another queue's share.
    let simple = most <= capacity - rate;
    if !simple {
        sorted.clear();
        sorted.extend(rates);
        sorted.sort_unstable_by(f64::total_cmp);
    }
    for queue in queues.iter_mut().filter(|queue| shares(queue)) {
        let left = match simple {
            true => capacity - rate,
            false => level(sorted, queue.rate, capacity) - queue.rate,
        };
        queue.used = queue.used.max(1.0 - left / capacity);
    }
}

/// The max-min fair rate of a queue that wants all it can have. `sorted` has the rates of all
/// queues that share the capacity; one entry `own` is the queue's present rate and is left out.
fn level(sorted: &[f64], own: f64, capacity: f64) -> f64 {
    let mut left = capacity;
    let mut sharing = sorted.len() as f64;
    let mut skipped = false;
    for rate in sorted {
        if !skipped && *rate == own {
            skipped = true;
            continue;
        }
        let part = left / sharing;
        if *rate >= part {
            return part;
        }
        left -= rate;
        sharing -= 1.0;
    }
    left / sharing
}

/// The rate of a host whose requests each stay outstanding for `held`: bounded by the requests in
/// flight (Little's law) and by the host's pace.
fn rate(outstanding: f64, interval_ps: f64, held: f64) -> f64 {
    let by_places = outstanding / held.max(1.0);
    match interval_ps > 0.0 {
        true => by_places.min(1.0 / interval_ps),
        false => by_places,
    }
}

#[cfg(test)]
mod tests;
