//! Invariants of every coherent system.
//!
//! **Single writer or many readers.** Whenever the run stops for a check, either one host may write
//! a line and no other may read it, or some hosts may read it. The filter of the line's device
//! knows each of these hosts, and knows that a writer is alone.
//!
//! **Data value.** An access takes effect at one moment between its issue and its completion. All
//! effects on a line, ordered by time, form one sequence, in which each load returns the value of
//! the last store before it (0 before any). A store shares its moment with no access of another
//! host. Each host's accesses to a line take effect in the order of their issue. So the systems are
//! linearizable line by line, in real time.
//!
//! **Nothing is lost.** Every request completes once. At the end nothing is in flight and all
//! credits are returned. Hosts and devices count the same messages. A clean copy always
//! equals the value in the device. At the end the last store of each line is in the modified
//! copy, or else in the device.
//!
//! **Bounded waiting.** At its device, no request that waits for a line or for an entry of the
//! filter is overtaken by a later request for the same line or entry.
//!
//! Lines of HDM-H memory are not kept coherent, so they are counted and not compared.

use std::collections::BTreeMap;

use cxlab_device::CoherentDevice;
use cxlab_engine::units::{Bytes, Dpa, Hpa, SimTime};
use cxlab_engine::{Monitor, Stop};
use cxlab_host::{CachingRequester, CoherenceStats, Observation, RequestRow, StallReason};
use cxlab_plan::Plan;
use cxlab_protocol::PortId;
use cxlab_protocol::coherence::dcoh::{Filter, Peer};
use cxlab_protocol::coherence::requester::Line;
use cxlab_system::host::Host;
use cxlab_system::system::{Node, RecordOptions, System};
use cxlab_tests::swarm::{Draw, check_drained};
use cxlab_tests::turns::most_overtaken;

/// More events than any of these systems needs.
const MANY_EVENTS: u64 = 5_000_000;

/// A line of a device with HDM-DB memory. Each host may access it by its own address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    device: usize,
    dpa: Dpa,
}

impl Place {
    /// The place of a host's address.
    fn of(plan: &Plan, host: usize, hpa: Hpa) -> Place {
        let (owner, dpa) = plan.hosts[host]
            .map
            .locate(hpa)
            .expect("the line is mapped");
        let device = usize::from(owner.0) - plan.hosts.len();
        Place { device, dpa }
    }
}

/// A system under observation.
pub struct Watched<'a> {
    plan: &'a Plan,
    system: System,
    /// Lines of coherent memory that each host's workload reaches, and their devices.
    places: Vec<Place>,
}

/// Counts of events in a system, to be summed over many systems.
#[derive(Default)]
pub struct Totals {
    /// Counts by name.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// Adds the counts of another system.
    pub fn merge(&mut self, other: &Totals) {
        for (name, count) in &other.counts {
            self.add(name, *count);
        }
    }
}

/// A run that has ended.
pub struct Ended {
    /// Digest of all events.
    pub digest: String,
    /// Accesses by host, with their values.
    pub observations: Vec<Vec<Observation>>,
    /// Counts of events.
    pub totals: Totals,
}

/// Whether a line in this state lets its requester load, and store.
fn rights(line: Line) -> (bool, bool) {
    match line {
        // In `MsA` the device may already know of a shared copy. Stores wait.
        Line::S | Line::SmA | Line::MsA => (true, false),
        Line::E | Line::M | Line::MeA => (true, true),
        Line::I
        | Line::IsAD
        | Line::IsA
        | Line::SD
        | Line::ED
        | Line::ImAD
        | Line::ImA
        | Line::MD
        | Line::ImN
        | Line::IcAD
        | Line::IcA
        | Line::IcD
        | Line::IfA
        | Line::CiA
        | Line::MiA => (false, false),
    }
}

impl<'a> Watched<'a> {
    /// Builds the system of a plan.
    pub fn new(plan: &'a Plan) -> Watched<'a> {
        let notes = RecordOptions {
            rows: true,
            values: true,
            states: false,
            arrivals: false,
        };
        let system = System::build(plan, plan.scenario.seed, notes).expect("the system builds");
        let mut places = Vec::new();
        for (number, host) in plan.hosts.iter().enumerate() {
            let params = &plan.scenario.hosts[host.group].workload.params;
            let bytes = |key: &str| -> Bytes {
                let text = params[key].as_str().expect("the workload has a region");
                text.parse().expect("a size")
            };
            let first = bytes("offset").0 / 64;
            for line in first..first + bytes("footprint").0 / 64 {
                let place = Place::of(plan, number, Hpa(64 * line));
                let group = plan.memory_group(&plan.devices[place.device]);
                if group.is_some_and(|group| group.is_hdm_db()) {
                    places.push(place);
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        Watched {
            plan,
            system,
            places,
        }
    }

    /// Runs to the end, and checks the invariants after every event or now and then.
    pub fn run(mut self, seed: u64, threads: usize, every_event: bool) -> Ended {
        let mut draw = Draw::new(seed, "looks");
        let monitor = Monitor::default();
        let mut step = [300, 3_000, 30_000, 300_000][draw.below(4)];
        let (mut time, mut looks) = (0, 0u64);
        let outcome = loop {
            let next = self.system.simulation.next_event();
            time = match next {
                Some(next) if every_event => next.0 + 1,
                _ => time.max(next.map_or(0, |next| next.0)) + draw.between(1, step) as u64,
            };
            let outcome = self.system.simulation.run(threads, SimTime(time), &monitor);
            self.check_copies();
            if outcome.stop == Stop::Exhausted {
                break outcome;
            }
            assert!(outcome.events < MANY_EVENTS, "a livelock, at {time} ps");
            looks += 1;
            if looks % 100 == 0 {
                step = 2 * step.min(1 << 40);
            }
        };
        check_drained(self.plan, &mut self.system);
        let observations = self.take_observations();
        let last = self.check_values(&observations);
        self.check_final(&last);
        let mut totals = self.check_counts();
        totals.add("looks", looks);
        Ended {
            digest: format!("{:016x}", outcome.digest),
            observations,
            totals,
        }
    }

    /// Runs to the end on this many threads, without checks in between.
    pub fn run_through(mut self, threads: usize) -> Ended {
        let monitor = Monitor::default();
        let simulation = &mut self.system.simulation;
        let outcome = simulation.run(threads, SimTime::NEVER, &monitor);
        Ended {
            digest: format!("{:016x}", outcome.digest),
            observations: self.take_observations(),
            totals: Totals::default(),
        }
    }

    fn host(&self, number: usize) -> &Host {
        match self.system.simulation.component(number) {
            Node::Host(host) => host,
            _ => panic!("component {number} is a host"),
        }
    }

    fn caching(&self) -> impl Iterator<Item = (usize, &CachingRequester)> {
        let hosts = (0..self.system.hosts).map(|number| (number, self.host(number)));
        hosts.filter_map(|(number, host)| host.caching().map(|agent| (number, agent)))
    }

    fn device(&self, number: usize) -> &CoherentDevice {
        match self.system.simulation.component(self.system.hosts + number) {
            Node::Coherent(device) => device,
            _ => panic!("device {number} keeps its memory coherent"),
        }
    }

    /// The address of a place for a host that sees it.
    fn address(&self, host: usize, place: Place) -> Option<Hpa> {
        let decoders = &self.plan.devices[place.device].decoders;
        let hpa = decoders.encode(PortId(host as u16), place.dpa)?;
        // Decoders that are the same for all hosts may include those of other hosts.
        let map = &self.plan.hosts[host].map;
        (map.locate(hpa).is_some() && Place::of(self.plan, host, hpa) == place).then_some(hpa)
    }

    /// The state of a line in its device: the hosts that hold it, and its value.
    fn said(&self, place: Place) -> (Filter, u16) {
        let device = self.device(place.device);
        let mut known = (0..self.system.hosts).filter_map(|host| {
            let (port, hpa) = (PortId(host as u16), self.address(host, place)?);
            Some((device.holders(port, hpa)?, device.value(port, hpa)?))
        });
        let (filter, value) = known.next().expect("a host sees it, and values are kept");
        assert!(known.all(|other| other == (filter, value)), "{place:?}");
        (filter, value)
    }

    fn check_copies(&self) {
        for &place in &self.places {
            let (known, value) = self.said(place);
            let (mut readers, mut writers) = (0, 0);
            for (number, agent) in self.caching() {
                let Some(hpa) = self.address(number, place) else {
                    continue;
                };
                let line = hpa.line();
                let state = agent.line(line);
                let (load, store) = rights(state);
                readers += u32::from(load);
                writers += u32::from(store);
                let peer = Peer::new(number).expect("few hosts");
                assert!(
                    !load || known.holders().contains(peer),
                    "h{number} holds {place:?} in {state:?}, and its device knows {known:?}"
                );
                assert!(
                    !store || known == Filter::Any(peer),
                    "h{number} owns {place:?} in {state:?}, and its device knows {known:?}"
                );
                if matches!(state, Line::S | Line::SmA | Line::E) {
                    // The value of its device.
                    assert_eq!(
                        agent.copy(line),
                        Some(value),
                        "h{number}, {place:?}, {state:?}"
                    );
                }
            }
            assert!(
                writers == 0 || (writers, readers) == (1, 1),
                "{place:?}: {writers} may write and {readers} may read"
            );
        }
        for number in 0..self.system.devices {
            if let Node::Coherent(device) =
                self.system.simulation.component(self.system.hosts + number)
            {
                let group = self.plan.memory_group(&self.plan.devices[number]);
                let lines = group.expect("a Type 3 device").coherence.filter.lines;
                let entries = device.coherence_stats().entries;
                assert!(entries <= lines, "{entries} entries in a filter of {lines}");
            }
        }
    }

    fn take_observations(&mut self) -> Vec<Vec<Observation>> {
        let hosts = self.system.hosts;
        let mut taken = Vec::with_capacity(hosts);
        for number in 0..hosts {
            match self.system.simulation.component_mut(number) {
                Node::Host(host) => taken.push(host.take_observations()),
                _ => panic!("component {number} is a host"),
            }
        }
        taken
    }

    /// Compares the accesses with their rows and with each other. Returns the last store of each line.
    fn check_values(&mut self, observations: &[Vec<Observation>]) -> BTreeMap<Place, u16> {
        let mut effects: BTreeMap<Place, Vec<(usize, Observation)>> = BTreeMap::new();
        let mut once: BTreeMap<Place, Vec<(SimTime, Observation)>> = BTreeMap::new();
        for (number, seen) in observations.iter().enumerate() {
            let rows = match self.system.simulation.component_mut(number) {
                Node::Host(host) => host.take_rows(),
                _ => panic!("component {number} is a host"),
            };
            let group = self.plan.hosts[number].group;
            let wanted = self.plan.scenario.hosts[group].requests.expect("an end");
            let mut by_id: BTreeMap<u64, RequestRow> = BTreeMap::new();
            for row in rows {
                let id = row.id;
                let before = by_id.insert(id, row);
                assert!(before.is_none(), "h{number} completed {id} twice");
            }
            assert_eq!(by_id.len() as u64, wanted, "requests of h{number}");
            if self.host(number).caching().is_none() {
                continue;
            }
            assert_eq!(seen.len() as u64, wanted, "effects of h{number}");
            for seen in seen {
                let row = by_id.remove(&seen.id);
                let row = row.unwrap_or_else(|| panic!("h{number}: {seen:?} twice"));
                let effect = (64 * seen.line.0, seen.write);
                assert_eq!((row.hpa, row.write), effect, "h{number}: {row:?} {seen:?}");
                let inside = row.issued_ps..=row.completed_ps;
                assert!(inside.contains(&seen.time.0), "h{number}: {seen:?} {row:?}");
                let place = Place::of(self.plan, number, Hpa(row.hpa));
                match (self.places.contains(&place), seen.once) {
                    (false, _) => {}
                    (true, true) => {
                        let since = SimTime(row.issued_ps);
                        once.entry(place).or_default().push((since, *seen));
                    }
                    (true, false) => effects.entry(place).or_default().push((number, *seen)),
                }
            }
        }
        for (place, loads) in once {
            let stores = effects.get(&place).map_or(&[][..], Vec::as_slice);
            check_once(place, &loads, stores);
        }
        let effects = effects.into_iter();
        effects
            .map(|(place, effects)| (place, last_store(place, effects)))
            .collect()
    }

    /// Checks that at the end the last store of each line is in the modified copy or in the device.
    fn check_final(&self, last: &BTreeMap<Place, u16>) {
        for &place in &self.places {
            let last = last.get(&place).copied().unwrap_or(0);
            let mut modified = false;
            for (number, agent) in self.caching() {
                let Some(hpa) = self.address(number, place) else {
                    continue;
                };
                let line = hpa.line();
                let state = agent.line(line);
                if state == Line::I {
                    continue;
                }
                modified |= state == Line::M;
                assert!(state.is_stable(), "h{number} has {place:?} in {state:?}");
                let copy = agent.copy(line);
                assert_eq!(copy, Some(last), "h{number} at the end: {place:?}");
            }
            let (_, value) = self.said(place);
            assert!(
                modified || value == last,
                "{place:?} lost its last store {last}, its device has {value}"
            );
        }
    }

    /// Checks that hosts and devices count the same messages.
    fn check_counts(&self) -> Totals {
        let mut all = CoherenceStats::default();
        let (mut written_back, mut plain, mut throttled) = (0, 0, 0);
        let mut snooped_lines = [0; 3];
        for number in 0..self.system.hosts {
            let host = self.host(number);
            let stats = host.stats();
            let (issued, completed) = (stats.issued_ever, stats.completed_ever);
            assert_eq!(issued, completed, "requests of h{number}");
            written_back += stats.writebacks;
            throttled += host.throttle().map_or(0, |throttle| throttle.slower);
            let Some(one) = host.coherence() else {
                plain += 1;
                continue;
            };
            add(&mut all, one);
            for (sum, found) in snooped_lines.iter_mut().zip(one.snooped) {
                *sum += found.iter().sum::<u64>();
            }
        }
        let mut totals = Totals::default();
        let mut writes = 0;
        let mut sums = [0; 5];
        let mut messages = [0; 3];
        for number in 0..self.system.devices {
            match self.system.simulation.component(self.system.hosts + number) {
                Node::Device(device) => writes += device.stats().writes,
                Node::Coherent(device) => {
                    let (stats, dcoh) = (device.stats(), device.coherence_stats());
                    let overtaken = most_overtaken(device.wait_log());
                    assert_eq!(overtaken, 0, "d{number}: bounded waiting");
                    assert_eq!(stats.accepted, stats.answered, "d{number}");
                    let told = dcoh.requests() + dcoh.writebacks;
                    assert_eq!(stats.accepted, told, "d{number}: messages");
                    let reads =
                        dcoh.reads_data + dcoh.reads_shared + dcoh.reads_own + dcoh.reads_current;
                    let lines = (reads, dcoh.writebacks);
                    assert_eq!((stats.reads, stats.writes), lines, "d{number}: the medium");
                    writes += stats.writes;
                    sums[0] += dcoh.conflicts;
                    sums[1] += dcoh.upgrades;
                    sums[2] += dcoh.clean_evictions;
                    sums[3] += dcoh.block_snoops;
                    sums[4] += dcoh.invalidated;
                    (0..3).for_each(|at| messages[at] += dcoh.snoops[at]);
                    totals.add("snoops joined", dcoh.joined_snoops);
                    let answers = ["BIRspIBlk", "BIRspSBlk", "BIRspEBlk"];
                    let answers = answers.into_iter().zip(dcoh.block_answers);
                    answers.for_each(|(name, count)| totals.add(name, count));
                    let told = device.reported_loads().unwrap_or_default();
                    totals.add("responses under overload", told[2] + told[3]);
                    totals.add("entries evicted", dcoh.evictions);
                    totals.add("waits for a line", dcoh.line_waits);
                    totals.add("waits for an entry", dcoh.entry_waits);
                    totals.add("waits for snoops", dcoh.snoop_waits);
                }
                _ => panic!("component {number} behind the hosts is a device"),
            }
        }
        let [conflicts, upgrades, clean, blocks, invalidated] = sums;
        assert_eq!(conflicts, all.conflicts, "BIConflict");
        assert_eq!(upgrades, all.upgrades, "MemInv");
        assert_eq!(clean, all.clean_evictions, "MemClnEvct");
        assert_eq!(blocks, all.block_snoops, "snoops of blocks");
        assert!(invalidated >= all.invalidated, "copies that snoops took");
        for (messages, lines) in messages.into_iter().zip(snooped_lines) {
            assert!(lines >= messages, "{messages} snoops of {lines} lines");
            let is_alike = blocks > 0 || lines == messages;
            assert!(is_alike, "{messages} snoops of {lines} lines");
        }
        if plain == 0 {
            assert_eq!(writes, written_back, "MemWr");
        }
        totals.add("hits", all.hits);
        totals.add("merged accesses", all.merged);
        totals.add("misses after an eviction", all.after_evictions);
        totals.add("upgrades lost", all.upgrades_lost);
        totals.add("clean evictions", all.clean_evictions);
        totals.add("silent evictions", all.silent_evictions);
        totals.add("dirty evictions", all.dirty_evictions);
        totals.add("write-backs for snoops", all.snoop_writebacks);
        totals.add("early conflicts", all.early_conflicts);
        totals.add("late conflicts", all.conflicts - all.early_conflicts);
        totals.add("snoops of blocks", all.block_snoops);
        totals.add("BISnpInv", messages[0]);
        totals.add("BISnpData", messages[1]);
        totals.add("BISnpCur", messages[2]);
        totals.add("loads that cache nothing", all.loads_once);
        let stalls = |reason: StallReason| all.stalls[reason as usize];
        totals.add("stalls for an MSHR", stalls(StallReason::Mshrs));
        totals.add("stalls for a set", stalls(StallReason::Set));
        totals.add("stalls for an eviction", stalls(StallReason::Evictions));
        totals.add("hosts without a coherent cache", plain);
        totals.add("rates cut for overload", throttled);
        totals
    }
}

fn add(sum: &mut CoherenceStats, one: &CoherenceStats) {
    sum.hits += one.hits;
    sum.merged += one.merged;
    sum.after_evictions += one.after_evictions;
    sum.upgrades += one.upgrades;
    sum.upgrades_lost += one.upgrades_lost;
    sum.clean_evictions += one.clean_evictions;
    sum.loads_once += one.loads_once;
    sum.silent_evictions += one.silent_evictions;
    sum.dirty_evictions += one.dirty_evictions;
    sum.snoop_writebacks += one.snoop_writebacks;
    sum.block_snoops += one.block_snoops;
    sum.invalidated += one.invalidated;
    sum.conflicts += one.conflicts;
    sum.early_conflicts += one.early_conflicts;
    for (sum, stalls) in sum.stalls.iter_mut().zip(one.stalls) {
        *sum += stalls;
    }
}

/// Checks that each uncached load returns a value that the line had while the load was in flight.
fn check_once(place: Place, loads: &[(SimTime, Observation)], effects: &[(usize, Observation)]) {
    let stores = effects.iter().filter(|(_, seen)| seen.write);
    let mut values: Vec<(SimTime, u16)> = stores.map(|(_, seen)| (seen.time, seen.value)).collect();
    values.push((SimTime::ZERO, 0));
    values.sort_unstable();
    for (since, seen) in loads {
        // From the last value stored before the load was issued, to the last value before it completed.
        let first = values.partition_point(|(time, _)| time < since).max(1) - 1;
        let end = values.partition_point(|(time, _)| *time <= seen.time);
        let mut had = values[first..end].iter().map(|(_, value)| *value);
        assert!(
            had.any(|value| value == seen.value),
            "{place:?}: {seen:?}, asked for at {since:?}, of {values:?}"
        );
    }
}

/// Checks that each load returns the last store, with all effects on a line ordered by time. Returns the last store.
fn last_store(place: Place, mut effects: Vec<(usize, Observation)>) -> u16 {
    // The sort is stable, so effects of one host at one moment stay in their order.
    effects.sort_by_key(|(number, seen)| (seen.time, *number));
    for pair in effects.windows(2) {
        let [(one, before), (other, after)] = pair else {
            unreachable!("windows of two")
        };
        if one == other {
            assert!(
                before.id < after.id,
                "h{one}, {place:?}: {before:?} {after:?}"
            );
        } else {
            assert!(
                before.time < after.time || !(before.write || after.write),
                "{place:?} at one moment: h{one} {before:?}, h{other} {after:?}"
            );
        }
    }
    let mut value = 0;
    let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
    for (number, seen) in effects {
        let before = newest.insert(number, seen.id);
        assert!(
            before.is_none_or(|before| before < seen.id),
            "h{number} overtook itself at {place:?}: {seen:?}"
        );
        if seen.write {
            assert_ne!(seen.value, value, "stores draw new values");
            value = seen.value;
        } else {
            assert_eq!(seen.value, value, "h{number} loaded {place:?}: {seen:?}");
        }
    }
    value
}
