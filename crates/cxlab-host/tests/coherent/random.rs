//! Several caching requesters and a home that follows the table, at random times. Loads return the last
//! store, one requester writes or several read, everything completes, and the statistics balance.

use std::collections::BTreeMap;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{LineAddr, Picos, SimTime};
use cxlab_engine::{Monitor, Simulation, Stop};
use cxlab_host::{
    CacheParams, CachingRequester, CoherenceStats, Observation, RequestAgent, StallReason,
};
use cxlab_protocol::coherence::dcoh::Peer;
use cxlab_protocol::coherence::requester::Line;
use cxlab_testkit::{read, wire, write};
use cxlab_workload::MemOp;

use crate::harness::{HDM_H, Node, cache, params, requester};
use crate::home::Home;

const SEEDS: u64 = 2_000;

pub fn host(simulation: &Simulation<Node>, number: usize) -> &CachingRequester {
    match simulation.component(number) {
        Node::Host(host) => host,
        Node::Peer(_) | Node::Home(_) => panic!("component {number} is a host"),
    }
}

pub fn home(simulation: &Simulation<Node>) -> &Home {
    match simulation.components().last() {
        Some(Node::Home(home)) => home,
        _ => panic!("the last component is the home"),
    }
}

/// Whether a line in this state lets its requester load, and store.
pub fn rights(line: Line) -> (bool, bool) {
    match line {
        Line::S | Line::SmA => (true, false),
        Line::E | Line::M | Line::MsA | Line::MeA => (true, true),
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

/// Checks that at every moment one requester may write or several may read, and that the
/// filter knows all of them.
pub fn check_copies(simulation: &Simulation<Node>, hosts: usize, lines: u64) {
    let home = home(simulation);
    for line in 0..lines {
        let rights: Vec<_> = (0..hosts)
            .map(|number| rights(host(simulation, number).line(LineAddr(line))))
            .collect();
        let readers = rights.iter().filter(|(load, _)| *load).count();
        let writers = rights.iter().filter(|(_, store)| *store).count();
        assert!(
            writers == 0 || (writers, readers) == (1, 1),
            "line {line}: {rights:?}"
        );
        for (number, (load, _)) in rights.iter().enumerate() {
            let holders = home.filter(line).holders();
            let known = holders.contains(Peer::new(number).unwrap());
            assert!(!load || known, "line {line} of requester {number}");
        }
    }
}

/// Checks that each load returns the last store before it. Returns the last stores.
pub fn check_values(mut observed: Vec<(usize, Observation)>) -> BTreeMap<LineAddr, u16> {
    observed.sort_by_key(|(number, seen)| (seen.time, *number));
    let mut last = BTreeMap::new();
    for (number, seen) in observed {
        if seen.write {
            let before = last.insert(seen.line, seen.value);
            assert_ne!(before, Some(seen.value), "stores draw new values");
        } else {
            let expected = last.get(&seen.line).copied().unwrap_or(0);
            assert_eq!(seen.value, expected, "requester {number}: {seen:?}");
        }
    }
    last
}

/// Checks Little's law exactly, from the beginning of measurement to now.
fn check_books(host: &CachingRequester, now: SimTime) {
    let stats = host.stats();
    let integral = stats.in_flight.at(now.0) - stats.integral_before;
    let completed = stats.read_latency.sum_ps() + stats.write_latency.sum_ps();
    assert_eq!(
        integral + stats.age_before_ps,
        completed + host.age_ps(now),
        "Little's law"
    );
    assert_eq!(
        stats.issued_ever,
        stats.completed_ever + host.requests_in_flight()
    );
}

struct Totals {
    coherence: Vec<CoherenceStats>,
    blocks: u64,
    digest: u64,
}

/// A small cache with random limits.
pub fn random_cache(rng: &mut StreamRng) -> CacheParams {
    let ways = 1 + rng.below(3) as u32;
    let mut cache = cache(u64::from(ways) * (1 + rng.below(3)), ways);
    cache.access_time = Picos(rng.below(10_000));
    cache.mshrs = [None, Some(1), Some(2)][rng.below(3) as usize];
    cache.clean_evict = rng.chance(0.5);
    cache
}

/// Requesters, each with a wire to the home, which is the last component.
pub fn with_home(mut nodes: Vec<Node>, home: Home) -> Simulation<Node> {
    let hosts = nodes.len();
    nodes.push(Node::Home(home));
    let wires = (0..hosts)
        .map(|number| vec![wire(hosts, number)])
        .chain([(0..hosts).map(|number| wire(number, 0)).collect()])
        .collect();
    Simulation::new(nodes, wires)
}

fn run(seed: u64, threads: usize) -> Totals {
    let mut rng = StreamRng::new(seed, "system");
    let hosts = 2 + rng.below(2) as usize;
    let lines = 2 + rng.below(9);
    let operations = 80;
    let credits = [1, 2, 8][rng.below(3) as usize];
    let spread = [1, 2_000, 100_000][rng.below(3) as usize];
    let store = [0.1, 0.5, 0.9][rng.below(3) as usize];
    let nodes: Vec<Node> = (0..hosts)
        .map(|number| {
            let cache = random_cache(&mut rng);
            let mut params = params(1 + rng.below(30) as u32);
            params.queue = [None, Some(1)][rng.below(2) as usize];
            let mut time = 0;
            let ops = (0..operations).map(|_| {
                time += rng.below(spread);
                let own = HDM_H + 16 * number as u64 + rng.below(5);
                let line = if rng.chance(0.2) {
                    own
                } else {
                    rng.below(lines)
                };
                let op = if rng.chance(store) { write } else { read };
                MemOp {
                    not_before: SimTime(time),
                    dependent: rng.chance(0.05),
                    ..op(line)
                }
            });
            let ops = ops.collect();
            Node::Host(requester(number as u16, params, cache, credits, ops))
        })
        .collect();
    let capacity = 1 + rng.below(lines) as usize;
    let blocks = rng.chance(0.5);
    let home_of_all = Home::new(hosts as u16, credits, seed, capacity, blocks);
    let mut simulation = with_home(nodes, home_of_all);

    let monitor = Monitor::default();
    let mut time = 0;
    let mut looks = 0;
    let digest = loop {
        time += 1_000 + rng.below(60_000);
        looks += 1;
        assert!(time < 1_000_000_000, "everything completes");
        let outcome = simulation.run(threads, SimTime(time), &monitor);
        check_copies(&simulation, hosts, lines);
        assert!(home(&simulation).entries() <= capacity, "the filter's size");
        for number in 0..hosts {
            check_books(host(&simulation, number), SimTime(time));
        }
        if outcome.stop == Stop::Exhausted {
            break outcome.digest;
        }
        if looks == 3 {
            for number in 0..hosts {
                let Node::Host(host) = simulation.component_mut(number) else {
                    panic!("a host")
                };
                host.begin_measurement(SimTime(time));
            }
        }
    };

    let mut observed = vec![];
    let mut coherence = vec![];
    for number in 0..hosts {
        let Node::Host(host) = simulation.component_mut(number) else {
            panic!("a host")
        };
        assert!(host.is_done(), "requester {number} has finished");
        assert_eq!((host.in_flight(), host.requests_in_flight()), (0, 0));
        assert_eq!(host.stats().completed_ever, operations);
        let seen = host.take_observations();
        assert_eq!(seen.len() as u64, operations, "each took effect once");
        observed.extend(seen.into_iter().map(|seen| (number, seen)));
        coherence.push(*host.coherence());
    }
    assert!(home(&simulation).is_idle(), "nothing is left at the home");
    for (line, value) in check_values(observed) {
        let modified = (0..hosts).any(|number| host(&simulation, number).line(line) == Line::M);
        let memory = home(&simulation).value(line);
        assert!(modified || memory == value, "{line:?} kept its last store");
    }
    Totals {
        coherence,
        blocks: home(&simulation).blocks_sent,
        digest,
    }
}

#[test]
fn requesters_at_random_keep_the_laws_and_meet_every_situation() {
    let mut met = [0; 13];
    let mut stalls = [0; StallReason::Above as usize];
    for seed in 0..SEEDS {
        let totals = match std::panic::catch_unwind(|| run(seed, 1)) {
            Ok(totals) => totals,
            Err(_) => panic!("seed {seed}"),
        };
        met[12] += totals.blocks;
        for one in totals.coherence {
            let counts = [
                one.hits,
                one.merged,
                one.after_evictions,
                one.upgrades,
                one.upgrades_lost,
                one.clean_evictions,
                one.silent_evictions,
                one.dirty_evictions,
                one.snoop_writebacks,
                one.conflicts,
                one.early_conflicts,
                one.block_snoops,
            ];
            met.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
            stalls
                .iter_mut()
                .zip(one.stalls)
                .for_each(|(sum, count)| *sum += count);
        }
    }
    // The conflicts that are not early.
    met[9] -= met[10];
    assert!(met.iter().all(|&count| count > 20), "{met:?}");
    assert!(stalls.iter().all(|&count| count > 0), "{stalls:?}");
}

#[test]
fn threads_change_nothing() {
    for seed in 0..20 {
        let (alone, together) = (run(seed, 1), run(seed, 3));
        assert_eq!(alone.digest, together.digest, "seed {seed}");
        assert_eq!(alone.coherence, together.coherence, "seed {seed}");
    }
}
