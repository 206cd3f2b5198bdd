use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cxlab_engine::units::Picos;
use cxlab_protocol::io::tlp::Framing;
use proptest::prelude::*;

use super::*;

/// A host: a constant time from a request's departure to its first data, and a link back.
struct Host {
    round_ps: u64,
    /// Picoseconds for a byte on the link.
    byte_ps: u64,
}

/// The bytes of a completion with so much data on the link.
fn wire(bytes: u32) -> u64 {
    Tlp::new(Kind::CplD, bytes)
        .wire_bytes(Framing::NonFlit)
        .into()
}

/// What a run showed.
#[derive(PartialEq, Debug)]
struct Run {
    done: Vec<(u64, u64)>,
    sent: Vec<Outgoing>,
    most_tags: usize,
}

impl Host {
    /// Runs an engine until it is idle. Posts are tried again while the ring is full.
    fn run(&self, params: &DmaParams, posts: &[(u64, Descriptor)]) -> Run {
        let mut engine = DmaEngine::new(params.clone()).unwrap();
        let mut posts: VecDeque<(u64, Descriptor)> = posts.iter().copied().collect();
        let mut arrivals: BTreeMap<(u64, u64), (u16, u32)> = BTreeMap::new();
        let mut open: BTreeMap<u16, u32> = BTreeMap::new();
        let mut run = Run {
            done: Vec::new(),
            sent: Vec::new(),
            most_tags: 0,
        };
        let (mut now, mut link_free, mut number) = (0, 0, 0);
        loop {
            let time = SimTime(now);
            while let Some((descriptor, when)) = engine.done(time) {
                run.done.push((descriptor.id, when.0));
            }
            while let Some((at, descriptor)) = posts.front().copied()
                && at <= now
                && engine.post(time, descriptor)
            {
                posts.pop_front();
            }
            while let Some(entry) = arrivals.first_entry()
                && entry.key().0 <= now
            {
                let (tag, bytes) = entry.remove();
                engine.completion(time, tag, bytes);
                let left = open.get_mut(&tag).unwrap();
                *left -= bytes;
                if *left == 0 {
                    open.remove(&tag);
                }
            }
            let due = loop {
                match engine.next_tlp(time) {
                    Next::At(at) => break Some(at.0),
                    Next::Wait => break None,
                    Next::Send(out) => {
                        run.sent.push(out);
                        let Some(tag) = out.tag else { continue };
                        assert_eq!(
                            open.insert(tag, out.piece.bytes),
                            None,
                            "tag {tag} is in use"
                        );
                        run.most_tags = run.most_tags.max(open.len());
                        link_free = link_free.max(out.at.0 + self.round_ps);
                        for part in params.limits().completions(out.piece) {
                            link_free += wire(part.bytes) * self.byte_ps;
                            number += 1;
                            arrivals.insert((link_free, number), (tag, part.bytes));
                        }
                    }
                }
            };
            let post = posts.front().map(|(at, _)| *at).filter(|at| *at > now);
            let arrival = arrivals.keys().next().map(|(at, _)| *at);
            let done = engine.next_done().map(|at| at.0);
            match [due, post, arrival, done].into_iter().flatten().min() {
                Some(next) => now = next.max(now),
                None => break,
            }
        }
        assert!(posts.is_empty() && engine.is_empty());
        run
    }

    /// When one descriptor alone is done.
    fn alone(&self, params: &DmaParams, descriptor: Descriptor) -> u64 {
        self.run(params, &[(0, descriptor)]).done[0].1
    }
}

const HOST: Host = Host {
    round_ps: 700_000,
    byte_ps: 20,
};
const PERIOD: u64 = 2_500;

fn descriptor(id: u64, direction: Direction, address: u64, bytes: u64) -> Descriptor {
    Descriptor {
        id,
        direction,
        address: Hpa(address),
        bytes: Bytes(bytes),
        ring_address: Hpa((1 << 36) + 64 * id),
    }
}

fn read(id: u64, bytes: u64) -> Descriptor {
    descriptor(id, Direction::Read, (1 << 33) + (id << 20), bytes)
}

/// Descriptors by software, no status: setup, data, completion.
fn bare(width: u32) -> DmaParams {
    DmaParams {
        width,
        tags: 256,
        descriptor_bytes: 0,
        status_bytes: 0,
        ..DmaParams::default()
    }
}

/// 100 cycles of setup, one for the first request, 10 of completion.
const FIXED: u64 = (100 + 1 + 10) * PERIOD;

#[test]
fn a_read_is_setup_round_trip_and_data_at_the_rate_of_what_is_slowest() {
    let chunk = wire(256) * 20;
    for bytes in [256, 4096, 65_536] {
        let chunks = bytes / 256;
        // 64 B a cycle are slower than 50 GB/s on the link: each chunk takes 4 cycles.
        let datapath = FIXED + HOST.round_ps + chunk + chunks * 4 * PERIOD;
        assert_eq!(HOST.alone(&bare(64), read(0, bytes)), datapath, "{bytes}");
        // 256 B a cycle are faster: the link, and the last chunk's cycle.
        let link = FIXED + HOST.round_ps + chunks * chunk + PERIOD;
        assert_eq!(HOST.alone(&bare(256), read(0, bytes)), link, "{bytes}");
    }
    let small = FIXED + HOST.round_ps + wire(64) * 20 + PERIOD;
    assert_eq!(HOST.alone(&bare(64), read(0, 64)), small);
}

#[test]
fn a_descriptor_in_host_memory_costs_a_round_trip_and_a_status_a_cycle() {
    let plain = HOST.alone(&bare(64), read(0, 4096));
    let fetched = DmaParams {
        descriptor_bytes: 32,
        ..bare(64)
    };
    let fetch = PERIOD + HOST.round_ps + wire(32) * 20 + PERIOD;
    assert_eq!(HOST.alone(&fetched, read(0, 4096)), plain + fetch);
    let told = DmaParams {
        status_bytes: 4,
        ..bare(64)
    };
    assert_eq!(HOST.alone(&told, read(0, 4096)), plain + PERIOD);
}

#[test]
fn packets_may_cost_the_datapath_a_cycle_each() {
    let params = DmaParams {
        packet_cycles: 1,
        ..bare(64)
    };
    let chunk = wire(256) * 20;
    let expected = FIXED + HOST.round_ps + chunk + 16 * (4 + 1) * PERIOD;
    assert_eq!(HOST.alone(&params, read(0, 4096)), expected);
}

#[test]
fn a_write_is_done_when_it_has_left() {
    let write = descriptor(0, Direction::Write, 1 << 33, 4096);
    let run = HOST.run(&bare(64), &[(0, write)]);
    assert_eq!(run.done, [(0, (100 + 64 + 10) * PERIOD)]);
    assert_eq!(run.sent.len(), 16);
    assert!(
        run.sent
            .iter()
            .all(|out| out.tag.is_none() && out.tlp.kind == Kind::MemWr)
    );
}

#[test]
fn with_one_tag_each_read_waits_for_the_one_before() {
    let params = DmaParams {
        tags: 1,
        ..bare(256)
    };
    let each = PERIOD + HOST.round_ps + 2 * wire(256) * 20 + PERIOD;
    let run = HOST.run(&params, &[(0, read(0, 8192))]);
    assert_eq!(run.done, [(0, 110 * PERIOD + 16 * each)]);
    assert_eq!(run.most_tags, 1);
}

#[test]
fn descriptors_one_at_a_time_add_up_and_several_hide_what_is_not_data() {
    let several: Vec<(u64, Descriptor)> = (0..20).map(|id| (0, read(id, 65_536))).collect();
    let last = |params: &DmaParams| HOST.run(params, &several).done[19].1;
    let alone = HOST.alone(&bare(256), read(0, 65_536));
    let one_shot = DmaParams {
        outstanding: 1,
        ..bare(256)
    };
    assert_eq!(last(&one_shot), 20 * alone);
    let data = 20 * 256 * wire(256) * 20;
    assert_eq!(last(&bare(256)), FIXED + HOST.round_ps + data + PERIOD);
}

#[test]
fn small_transfers_are_bound_by_setup() {
    let several: Vec<(u64, Descriptor)> = (0..20).map(|id| (0, read(id, 64))).collect();
    let done = HOST.run(&bare(64), &several).done;
    let params = DmaParams {
        outstanding: 32,
        ..bare(64)
    };
    let wide = HOST.run(&params, &several).done;
    for (place, (id, at)) in wide.iter().enumerate() {
        assert_eq!(*id, place as u64);
        let alone = HOST.alone(&params, read(0, 64));
        assert_eq!(*at, alone + *id * 100 * PERIOD);
    }
    assert!(
        done[19].1 >= wide[19].1,
        "8 at work at once cannot be faster than 32"
    );
}

#[test]
fn cycles_follow_the_clock() {
    let instant = Host {
        round_ps: 0,
        byte_ps: 0,
    };
    let slow = DmaParams::default();
    let fast = DmaParams {
        period: Picos(500),
        ..slow.clone()
    };
    for bytes in [64, 10_000] {
        let times = [&slow, &fast].map(|params| instant.alone(params, read(0, bytes)));
        assert_eq!(times[0], 5 * times[1]);
    }
}

#[test]
fn a_full_ring_refuses_and_wrong_parameters_are_named() {
    let mut engine = DmaEngine::new(DmaParams {
        ring: 2,
        ..bare(64)
    })
    .unwrap();
    let posted = [0, 1, 2].map(|id| engine.post(SimTime::ZERO, read(id, 64)));
    assert_eq!(posted, [true, true, false]);
    let field = |params| DmaEngine::new(params).err().unwrap().field;
    assert_eq!(
        field(DmaParams {
            tags: 0,
            ..bare(64)
        }),
        "tags"
    );
    assert_eq!(
        field(DmaParams {
            period: Picos(0),
            ..bare(64)
        }),
        "period"
    );
    assert_eq!(
        field(DmaParams {
            max_payload: 100,
            ..bare(64)
        }),
        "max_payload"
    );
}

fn posts() -> impl Strategy<Value = Vec<(u64, Descriptor)>> {
    let one = (0u64..3_000_000, any::<bool>(), 0u64..1 << 20, 1u64..20_000);
    prop::collection::vec(one, 1..30).prop_map(|all| {
        let mut at = 0;
        let post = |(id, (gap, write, address, bytes)): (usize, (u64, bool, u64, u64))| {
            at += gap;
            let direction = if write {
                Direction::Write
            } else {
                Direction::Read
            };
            let address = (1 << 33) + ((id as u64) << 24) + address;
            (at, descriptor(id as u64, direction, address, bytes))
        };
        all.into_iter().enumerate().map(post).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_byte_moves_once_and_everything_ends_in_order(
        posts in posts(),
        tags in 1u32..20,
        outstanding in 1u32..6,
        ring in 1u32..10,
        in_memory in any::<bool>(),
    ) {
        let overhead = if in_memory { (32, 4) } else { (0, 0) };
        let params = DmaParams {
            tags,
            outstanding,
            ring,
            descriptor_bytes: overhead.0,
            status_bytes: overhead.1,
            ..DmaParams::default()
        };
        let run = HOST.run(&params, &posts);
        let ids: Vec<u64> = run.done.iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids, (0..posts.len() as u64).collect::<Vec<_>>());
        prop_assert!(run.done.is_sorted_by_key(|(_, at)| *at));
        prop_assert!(run.most_tags <= tags as usize);
        prop_assert!(run.sent.is_sorted_by_key(|out| out.at));
        let starts: BTreeSet<u64> = run.sent.iter().map(|out| out.piece.address).collect();
        prop_assert_eq!(starts.len(), run.sent.len() - if in_memory { posts.len() } else { 0 },
            "only descriptor and status share an address");
        for (at, descriptor) in &posts {
            let range = descriptor.address.0..descriptor.address.0 + descriptor.bytes.0;
            let mut next = range.start;
            for out in run.sent.iter().filter(|out| range.contains(&out.piece.address)) {
                prop_assert_eq!(out.piece.address, next, "in order, without a gap");
                prop_assert!(out.at.0 > *at);
                next += u64::from(out.piece.bytes);
            }
            prop_assert_eq!(next, range.end);
        }
        prop_assert_eq!(&run, &HOST.run(&params, &posts), "it repeats");
    }
}
