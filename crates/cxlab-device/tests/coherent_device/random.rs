//! Caches and a device with random sizes, at random times. Loads return the last store, a
//! line has one writer or several readers, the filter tracks all copies, and every
//! request gets its responses.

use std::sync::{Arc, Mutex};

use cxlab_cache::victim;
use cxlab_device::{DcohStats, DeviceParams, QosParams, SnoopFilterParams};
use cxlab_engine::catalog;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{BytesPerSec, Dpa, Hpa, Picos, SimTime};
use cxlab_memory::fixed::FixedParams;
use cxlab_protocol::PortId;
use cxlab_protocol::coherence::dcoh::{Filter, Peer};
use cxlab_protocol::coherence::requester::Line;
use serde_json::json;

use crate::cache::{Cache, Oracle};
use crate::harness::{Node, Setup, System, system};

const SEEDS: u64 = 4_000;

fn cache(system: &System, number: usize) -> &Cache {
    match system.simulation.component(number) {
        Node::Cache(cache) => cache,
        _ => panic!("component {number} is a cache"),
    }
}

/// Checks that one cache may write or several may read, and that the filter tracks all
/// copies within its capacity.
fn check_copies(system: &System, peers: usize, addresses: &[u64], capacity: u32) {
    let device = system.device();
    let mut held = 0;
    for &line in addresses {
        let rights: Vec<_> = (0..peers)
            .map(|number| cache(system, number).rights(line))
            .collect();
        let readers = rights.iter().filter(|(load, _)| *load).count();
        let writers = rights.iter().filter(|(_, store)| *store).count();
        assert!(
            writers == 0 || (writers, readers) == (1, 1),
            "line {line}: {rights:?}"
        );
        let known = device.holders(PortId(0), Hpa(64 * line)).unwrap();
        held += u32::from(known != Filter::Invalid);
        for (number, (load, store)) in rights.iter().enumerate() {
            let peer = Peer::new(number).unwrap();
            assert!(!load || known.holders().contains(peer), "{line}: {known:?}");
            assert!(!store || known == Filter::Any(peer), "{line}: {known:?}");
        }
    }
    assert!(held <= capacity && device.coherence_stats().entries <= capacity);
}

#[expect(clippy::too_many_lines, reason = "one case after the other")]
fn run(seed: u64) -> DcohStats {
    let mut rng = StreamRng::new(seed, "system");
    let mut draw = |most: u64| 1 + rng.below(most);
    let ways = draw(4) as u32;
    // Drawn from a separate stream. With few entries, few snoops are for neighbouring lines.
    let mut options = StreamRng::new(seed, "options");
    let join = [None, Some(0), Some(3_000), Some(200_000)][options.below(4) as usize];
    let join = join.map(Picos);
    let qos = (options.below(2) == 0).then(QosParams::default);
    let many = join.is_some() && options.below(2) == 0;
    let lines = ways * draw(3) as u32 * if many { 8 } else { 1 };
    let names: Vec<&str> = victim::CATALOG.iter().map(|entry| entry.name).collect();
    let policy = match draw(2) {
        1 => "block-length",
        _ => names[draw(names.len() as u64) as usize - 1],
    };
    let params = match policy {
        "block-length" => [
            json!({}),
            json!({ "max_lines": 2 }),
            json!({ "max_lines": 3, "aligned": false }),
            json!({ "aligned": false }),
        ][draw(4) as usize - 1]
            .clone(),
        _ => json!({}),
    };
    let setup = Setup {
        params: DeviceParams {
            process_time: Picos(draw(5_000)),
            contexts: draw(8) as u32,
            ..DeviceParams::default()
        },
        filter: SnoopFilterParams {
            lines,
            ways: [None, Some(ways)][draw(2) as usize - 1],
            block: draw(4) as u8,
            lookup_time: Picos(draw(1_000)),
            writes: draw(3) as u32,
            eager: draw(2) == 2,
            join,
        },
        policy: (catalog::find(victim::CATALOG, policy).unwrap().build)(&params).unwrap(),
        medium: FixedParams {
            latency: Picos(draw(50_000)),
            write_latency: [None, Some(Picos(draw(50_000)))][draw(2) as usize - 1],
            bandwidth: [None, Some(BytesPerSec(draw(10) * 1_000_000_000))][draw(2) as usize - 1],
            banks: draw(2) as u32,
            queue: draw(4) as u32,
            ..FixedParams::default()
        },
        credits: draw(6) as u8,
        targets: draw(2) as u32,
        seed,
        hub: draw(2) == 1,
        qos,
    };
    let window = setup.window();
    let target = setup.targets - 1;
    let peers = draw(4) as usize;
    let used = 1 + draw(12);
    let address = |line: u64| window.encode(target, Dpa(64 * line)).0 / 64;
    let addresses: Vec<u64> = (0..used).map(address).collect();
    let operations = 20 + 10 * draw(10);
    let oracle = Arc::new(Mutex::new(Oracle::default()));
    for line in &addresses {
        oracle.lock().unwrap().history.insert(*line, vec![0]);
    }
    let mut system = system(setup, peers, |number, link| {
        let oracle = Arc::clone(&oracle);
        let addresses = addresses.clone();
        Node::Cache(Cache::new(
            number,
            link,
            seed,
            operations,
            (addresses, join.is_some()),
            oracle,
        ))
    });
    let mut now = 0;
    while system.device().in_flight() > 0 || (0..peers).any(|n| !cache(&system, n).is_idle()) {
        now += 20_000;
        assert!(now < 1_000_000_000, "a deadlock or a livelock");
        system.run(SimTime(now));
        check_copies(&system, peers, &addresses, lines);
    }
    let oracle = oracle.lock().unwrap();
    let device = system.device();
    for &line in &addresses {
        let copies = (0..peers).map(|number| cache(&system, number).line(line));
        let held: Vec<_> = copies.filter(|(line, _)| *line != Line::I).collect();
        let last = oracle.last(line);
        assert!(
            held.iter().all(|(_, data)| *data == last),
            "{held:?} {last}"
        );
        if held.iter().all(|(line, _)| *line != Line::M) {
            assert_eq!(
                device.value(PortId(0), Hpa(64 * line)),
                Some(last),
                "line {line}"
            );
        }
    }
    let mut conflicts = 0;
    for number in 0..peers {
        let cache = cache(&system, number);
        assert_eq!(
            cache.answered, cache.requests,
            "every request is answered once"
        );
        conflicts += cache.conflicts;
    }
    let (stats, coherence) = (device.stats(), device.coherence_stats());
    assert_eq!(stats.accepted, stats.answered);
    assert_eq!(stats.writes, coherence.writebacks);
    assert_eq!(stats.accepted, coherence.requests() + coherence.writebacks);
    assert_eq!(
        coherence.coherence().0,
        oracle.coherence,
        "the waits are the stage"
    );
    assert_eq!(coherence.conflicts, conflicts);
    coherence
}

/// `CXLAB_SEED=n` runs a single seed.
#[test]
fn caches_at_random_times_see_one_memory() {
    if let Ok(seed) = std::env::var("CXLAB_SEED") {
        run(seed.parse().unwrap());
        return;
    }
    let mut sums = [0; 12];
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let stats = run(seed);
        let counts = [
            stats.evictions,
            stats.block_snoops,
            stats.line_waits,
            stats.entry_waits,
            stats.snoop_waits,
            stats.snoops[1],
            stats.snoops[2],
            stats.conflicts,
            stats.joined_snoops,
        ];
        let counts = counts.into_iter().chain(stats.block_answers);
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }
    println!("{sums:?}");
    let least = |at| match at {
        0..8 => 1_000,
        8..10 => 500,
        _ => 50,
    };
    assert!(
        sums.iter().zip(0..).all(|(sum, at)| *sum > least(at)),
        "all happened often: {sums:?}"
    );
}
