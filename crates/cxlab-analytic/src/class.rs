//! Error classes: how far a solution can be from the event engine, by what limits each host.
//!
//! A latency without load is an exact sum, and the rate through a full wire or medium follows from
//! its capacity and Little's law. Only the waits in between are estimated. Where no station is
//! full, the waits' part of the latency bounds the error. Where a station is full, the division of
//! its capacity among the hosts can be wrong. `docs/explain/analytic.md` has the measured errors
//! for each row of the decision table.

use serde::{Deserialize, Serialize};

use crate::network::{Arbitration, Network, Station};
use crate::solve::{Solution, StationLoad};

/// A bound on the difference between a number of the solution and the event engine's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum ErrorClass {
    /// Equal: a lone request takes the sum of its stages.
    #[serde(rename = "exact")]
    Exact,
    /// At most 2 % of the engine's value.
    #[serde(rename = "2 %")]
    TwoPercent,
    /// At most 10 % of the engine's value.
    #[serde(rename = "10 %")]
    TenPercent,
    /// At most 30 % of the engine's value.
    #[serde(rename = "30 %")]
    ThirtyPercent,
    /// The error has no bound.
    #[serde(rename = "do not use")]
    DoNotUse,
}

impl ErrorClass {
    /// All classes, the best first.
    pub const ALL: [ErrorClass; 5] = [
        ErrorClass::Exact,
        ErrorClass::TwoPercent,
        ErrorClass::TenPercent,
        ErrorClass::ThirtyPercent,
        ErrorClass::DoNotUse,
    ];

    /// The best class that allows `error`, given as a fraction of the engine's value.
    pub fn of(error: f64) -> ErrorClass {
        let allows = |class: &ErrorClass| class.bound().is_none_or(|bound| error <= bound);
        let found = ErrorClass::ALL.into_iter().find(allows);
        found.unwrap_or(ErrorClass::DoNotUse)
    }

    /// The largest error as a fraction of the engine's value; `None` if there is no bound.
    pub fn bound(self) -> Option<f64> {
        match self {
            ErrorClass::Exact => Some(0.0),
            ErrorClass::TwoPercent => Some(0.02),
            ErrorClass::TenPercent => Some(0.1),
            ErrorClass::ThirtyPercent => Some(0.3),
            ErrorClass::DoNotUse => None,
        }
    }
}

impl std::fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ErrorClass::Exact => "exact",
            ErrorClass::TwoPercent => "2 %",
            ErrorClass::TenPercent => "10 %",
            ErrorClass::ThirtyPercent => "30 %",
            ErrorClass::DoNotUse => "do not use",
        })
    }
}

/// The error classes of a host's numbers, or of the whole system's, and their reason.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ErrorClasses {
    /// Class of the bandwidth.
    pub bandwidth: ErrorClass,
    /// Class of the latency.
    pub latency: ErrorClass,
    /// The row of the decision table that decides the worse of the two classes.
    pub why: String,
}

impl ErrorClasses {
    fn new(bandwidth: ErrorClass, latency: ErrorClass, why: &str) -> ErrorClasses {
        ErrorClasses {
            bandwidth,
            latency,
            why: why.to_owned(),
        }
    }

    /// The worse of the two classes.
    pub fn worst(&self) -> ErrorClass {
        self.bandwidth.max(self.latency)
    }

    /// Limits both classes to at best the given ones. `why` replaces the reason if this makes the
    /// worse class worse.
    pub fn at_best(&mut self, bandwidth: ErrorClass, latency: ErrorClass, why: &str) {
        let before = self.worst();
        self.bandwidth = self.bandwidth.max(bandwidth);
        self.latency = self.latency.max(latency);
        if self.worst() > before {
            why.clone_into(&mut self.why);
        }
    }
}

/// A station used to more than this part is full: the requests in flight of its hosts queue there.
const FULL: f64 = 0.95;
/// A link is limited by its credits if their use is this many times the use of the wire itself.
const BY_CREDITS: f64 = 1.02;
/// A link limited by its credits stalls messages at times above this use, and with few credits
/// already above `FEW_USED`.
const NEARLY_FULL: f64 = 0.7;
const FEW_USED: f64 = 0.2;
/// "All requests pass one full station" means at least this part of their rate.
const ALL_FULL: f64 = 0.95;
/// Error bound for links full by credits: at least this part of the requests passes a station that
/// its own traffic fills.
const MOST_CARRIED: f64 = 0.7;
/// With fewer credits of a class than this, single messages decide when a credit is free.
const FEW_CREDITS: f64 = 64.0;
/// A host keeps its pace if it may have this many times the requests in flight that its pace needs.
const SPARE: f64 = 2.0;
/// Messages share flits if this many arrive on a wire in the time of one flit.
const SHARED_FLITS: f64 = 0.5;

/// The facts that decide the class of a group of requests.
#[derive(Clone, Copy, Default)]
struct ClassFacts {
    rate: f64,
    latency: f64,
    waits: f64,
    /// Rate through full stations.
    full: f64,
    /// Rate through stations that their own traffic fills, credits and places not counted.
    carried: f64,
    /// A link on the route has nearly all credits of a class in use.
    by_credits: bool,
    /// A link on the route has few credits of a class, and messages wait for them at times.
    few: bool,
    /// A wire on the route is half-duplex.
    bus: bool,
    /// A wire on the route has flit errors.
    errors: bool,
    /// The messages of a flow take more than one route.
    several: bool,
    /// Rate through the full station that carries most of them.
    one: f64,
    /// More than one station of the network is full.
    several_full: bool,
    /// Switches arbitrate oldest first.
    by_age: bool,
    /// A wire on the route has more than `SHARED_FLITS` messages in a flit time.
    shared: bool,
    /// The lowest and highest latency without load of a flow, in picoseconds; 0 before
    /// the first flow.
    ends: (u64, u64),
}

impl ClassFacts {
    /// Whether less than 1 % of the requests pass a full station.
    fn is_free(&self) -> bool {
        self.full < 0.01 * self.rate
    }

    /// The facts of two groups together. Facts of the whole network are left at their defaults.
    fn join(self, other: &ClassFacts) -> ClassFacts {
        ClassFacts {
            rate: self.rate + other.rate,
            latency: self.latency + other.latency,
            waits: self.waits + other.waits,
            full: self.full + other.full,
            carried: self.carried + other.carried,
            by_credits: self.by_credits || other.by_credits,
            few: self.few || other.few,
            bus: self.bus || other.bus,
            errors: self.errors || other.errors,
            several: self.several || other.several,
            shared: self.shared || other.shared,
            ends: around(self.ends, other.ends),
            ..self
        }
    }
}

/// The union of two ranges. `(0, 0)` is the empty range.
fn around(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    match (one, other) {
        ((0, 0), known) | (known, (0, 0)) => known,
        _ => (one.0.min(other.0), one.1.max(other.1)),
    }
}

/// The classes of the whole system's numbers, and of each host's.
pub fn classify(network: &Network, solution: &Solution) -> (ErrorClasses, Vec<ErrorClasses>) {
    let is_full = |load: &&StationLoad| load.used > FULL;
    let several_full = solution.stations.iter().filter(is_full).count() > 1;
    let by_age = network.arbitration == Arbitration::Age;
    let nothing = ClassFacts {
        by_age,
        several_full,
        ..ClassFacts::default()
    };
    let mut hosts = vec![nothing; network.hosts.len()];
    let mut passed = vec![0.0; network.stations.len()];
    let full = |station: u32| solution.stations[station as usize].used > FULL;
    for (flow, latency) in network.flows.iter().zip(&solution.latency_ps) {
        if !flow.counts {
            continue;
        }
        let facts = &mut hosts[flow.host as usize];
        let rate = solution.rates[flow.host as usize] * flow.share;
        facts.rate += rate;
        facts.latency += rate * latency;
        let alone = flow.stages.total();
        facts.waits += rate * (latency - alone as f64);
        facts.ends = around(facts.ends, (alone, alone));
        let (mut through, mut carried): (f64, f64) = (0.0, 0.0);
        for visit in &flow.visits {
            let load = &solution.stations[visit.station as usize];
            facts.several |= visit.share < 0.999;
            if let Station::Wire(wire) = &network.stations[visit.station as usize] {
                facts.bus |= wire.is_shared();
                facts.errors |= wire.has_errors();
                let all: f64 = load.rates.iter().sum();
                facts.shared |= all * wire.flit_time() > SHARED_FLITS;
                let by_credits = load.used > BY_CREDITS * load.carried;
                facts.by_credits |= by_credits && load.used > NEARLY_FULL;
                let few = wire.credits(visit.class) < FEW_CREDITS;
                facts.few |= by_credits && few && load.used > FEW_USED;
            }
            if load.carried > FULL {
                carried = carried.max(visit.share);
            }
            if full(visit.station) {
                through = through.max(visit.share);
                passed[visit.station as usize] += rate * visit.share;
            }
        }
        facts.full += rate * through;
        facts.carried += rate * carried;
    }
    let all = ClassFacts {
        one: passed.into_iter().fold(0.0, f64::max),
        several_full,
        by_age,
        ..hosts.iter().fold(ClassFacts::default(), ClassFacts::join)
    };
    let outstanding = network.hosts.iter().map(|host| host.outstanding);
    let alone = outstanding.sum::<f64>() <= 1.0;
    let paced = |host: usize| {
        let limits = &network.hosts[host];
        let held = hosts[host].latency / hosts[host].rate.max(f64::MIN_POSITIVE);
        limits.interval_ps * limits.outstanding > SPARE * held
    };
    let of_host = |host: usize| {
        let mut classes = of(&hosts[host], solution, alone, false);
        let free = hosts[host].is_free();
        if network.hosts[host].interval_ps > 0.0 && !free {
            classes.at_best(ErrorClass::DoNotUse, ErrorClass::DoNotUse, PACED_AND_FULL);
        }
        // The rate of a paced host is its pace, whatever the latency of its requests.
        if paced(host) && free && classes.latency != ErrorClass::DoNotUse {
            classes.bandwidth = ErrorClass::TwoPercent.min(classes.bandwidth);
        }
        classes
    };
    let of_hosts: Vec<ErrorClasses> = (0..hosts.len()).map(of_host).collect();
    let mut of_all = of(&all, solution, alone, true);
    let mut pairs = network.hosts.iter().zip(&hosts);
    if pairs.any(|(host, facts)| host.interval_ps > 0.0 && !facts.is_free()) {
        of_all.at_best(ErrorClass::TenPercent, ErrorClass::DoNotUse, PACED_AND_FULL);
    }
    (of_all, of_hosts)
}

const PACED_AND_FULL: &str = "a host keeps a pace through what is full";

/// The decision table: the first row that matches decides.
fn of(facts: &ClassFacts, solution: &Solution, alone: bool, all: bool) -> ErrorClasses {
    use ErrorClass::{DoNotUse, Exact, TenPercent, ThirtyPercent, TwoPercent};
    let both = |class: ErrorClass, why| ErrorClasses::new(class, class, why);
    // The waits as a fraction of the rest of the latency.
    let waits = facts.waits / (facts.latency - facts.waits).max(f64::MIN_POSITIVE);
    let free = facts.is_free();
    let same = facts.ends.0 == facts.ends.1;
    let few = "few credits hold messages back";
    let unsettled = "rates and waits do not settle";
    let behind = "full links hold up others behind them";
    let nothing = "nothing is full, and waits are 30 % of the rest or more";
    match facts {
        _ if facts.rate <= 0.0 => both(Exact, "asks for nothing"),
        _ if alone && same && facts.waits <= 0.0 && !facts.bus && !facts.several => {
            both(Exact, "one request at a time")
        }
        _ if facts.few => both(DoNotUse, few),
        _ if !solution.settled && (all || !free) => both(DoNotUse, unsettled),
        _ if facts.bus && free => both(ThirtyPercent, "buses turn when messages meet"),
        _ if facts.bus && all => ErrorClasses::new(ThirtyPercent, DoNotUse, "full buses"),
        _ if facts.bus => both(DoNotUse, "full buses"),
        _ if free && waits < 0.01 && !facts.errors && !facts.shared => {
            both(TwoPercent, "waits are less than 1 % of the rest")
        }
        _ if free && waits < 0.1 => both(TenPercent, "waits are less than 10 % of the rest"),
        _ if free && waits < 0.3 => both(ThirtyPercent, "waits are less than 30 % of the rest"),
        _ if free => both(DoNotUse, nothing),
        _ if facts.by_credits && all && facts.carried > MOST_CARRIED * facts.rate => {
            both(ThirtyPercent, behind)
        }
        _ if facts.by_credits => both(DoNotUse, behind),
        _ if all && facts.one > ALL_FULL * facts.rate && !(facts.several || facts.several_full) => {
            both(TenPercent, "all requests pass one thing that is full")
        }
        _ if facts.several_full && !all => both(DoNotUse, "several things are full"),
        _ if facts.by_age && !all => both(DoNotUse, "the oldest goes first through what is full"),
        _ => both(ThirtyPercent, "something is full that others share"),
    }
}
