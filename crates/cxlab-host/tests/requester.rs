//! The requester: limits, intervals, dependence, cache, and requests that wait for a link.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
use cxlab_engine::{Component, Ctx, Monitor, Simulation, Stop};
use cxlab_host::{
    CacheParams, RequestAgent, RequestRow, Requester, RequesterConfig, RequesterParams,
};
use cxlab_link::{Blocked, BufferId, CreditTable, LinkPort, Parcel};
use cxlab_protocol::{LongStage, Message, Opcode, PortId};
use cxlab_testkit::{Operations, end, link, memory, read, wire, write};
use cxlab_workload::MemOp;

/// A device that responds to each request after `delay`. Without a delay it never responds and
/// occupies its buffers for ever.
struct Echo {
    link: LinkPort,
    delay: Option<u64>,
    /// Requests in order of arrival, with their times.
    seen: Vec<(u64, Message)>,
    pending: VecDeque<Message>,
    most: usize,
}

impl Echo {
    fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let Some(message) = self.pending.front().copied() else {
            return;
        };
        match self.link.send(ctx, &message, message.vc, ctx.now(), |_| {}) {
            Ok(_) => drop(self.pending.pop_front()),
            Err(Blocked::Until(time)) => ctx.wake_at(time, 0),
            Err(Blocked::Credits) => panic!("the requester frees its buffers at once"),
        }
    }
}

#[allow(clippy::large_enum_variant)]
enum Node {
    Host(Requester),
    Echo(Echo),
}

impl Component for Node {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if let Node::Host(host) = self {
            host.start(ctx);
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        match self {
            Node::Host(host) => host.receive(ctx, port, parcel),
            Node::Echo(echo) => {
                echo.link.receive(parcel);
                let (Some(mut message), Some(delay)) = (parcel.message, echo.delay) else {
                    let now = ctx.now().0;
                    return echo
                        .seen
                        .extend(parcel.message.map(|message| (now, message)));
                };
                echo.seen.push((ctx.now().0, message));
                echo.link
                    .release(ctx, BufferId::of(message.channel(), message.vc));
                message.stages.add(LongStage::Media, delay);
                message.opcode = if message.opcode == Opcode::MemWr {
                    Opcode::Cmp
                } else {
                    Opcode::MemData
                };
                std::mem::swap(&mut message.source, &mut message.destination);
                echo.pending.push_back(message);
                echo.most = echo.most.max(echo.pending.len());
                ctx.wake_at(SimTime(ctx.now().0 + delay), 0);
            }
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Host(host) => host.wake(ctx, token),
            Node::Echo(echo) => echo.answer(ctx),
        }
    }
}

/// First line of the second device.
const SECOND: u64 = 1024;

struct Ran {
    rows: Vec<RequestRow>,
    simulation: Simulation<Node>,
    stop: Stop,
}

impl Ran {
    fn host(&self) -> &Requester {
        let Node::Host(host) = self.simulation.component(0) else {
            panic!("a host")
        };
        host
    }
    fn echo(&self, number: usize) -> &Echo {
        let Node::Echo(echo) = self.simulation.component(1 + number) else {
            panic!("an echo")
        };
        echo
    }
    /// Times of issue, in order.
    fn issued(&self) -> Vec<u64> {
        let mut times: Vec<u64> = self.rows.iter().map(|row| row.issued_ps).collect();
        times.sort_unstable();
        times
    }
}

/// Runs a requester with a root port for each device; devices respond after `delays`.
fn run(params: RequesterParams, credits: u16, delays: &[Option<u64>], ops: &[MemOp]) -> Ran {
    let params = RequesterParams {
        process_time: Picos(0),
        ..params
    };
    let link = link(CreditTable {
        m2s_req: Some(credits),
        m2s_rwd: Some(credits),
        ..CreditTable::default()
    });
    let count = delays.len();
    let egress = params.egress();
    let port = |port: usize| end(&link, port as u16, egress, Picos::ZERO);
    let host = Requester::new(RequesterConfig {
        steps: Vec::new(),
        partial: false,
        values: false,
        joins: Picos::ZERO,
        leaves: None,
        params,
        number: 0,
        port_id: PortId(0),
        ports: (0..count).map(port).collect(),
        port_to: std::iter::once(0).chain(0..count as u16).collect(),
        first_device: 1,
        map: memory(count as u16, SECOND, 1),
        source: Box::new(Operations(ops.iter().copied().collect())),
        rng: StreamRng::new(1, "host"),
        limit: None,
        log: true,
    });
    let echo = |delay: &Option<u64>| {
        let link = end(&link, 0, Picos::ZERO, Picos::ZERO);
        Node::Echo(Echo {
            link,
            delay: *delay,
            seen: vec![],
            pending: VecDeque::new(),
            most: 0,
        })
    };
    let nodes = std::iter::once(Node::Host(host))
        .chain(delays.iter().map(echo))
        .collect();
    let wires = std::iter::once((0..count).map(|device| wire(1 + device, 0)).collect())
        .chain((0..count).map(|device| vec![wire(0, device)]))
        .collect();
    let mut simulation = Simulation::new(nodes, wires);
    let stop = simulation.run(1, SimTime::NEVER, &Monitor::default()).stop;
    let Node::Host(host) = simulation.component_mut(0) else {
        panic!("a host")
    };
    let rows = host.take_rows();
    Ran {
        rows,
        simulation,
        stop,
    }
}

/// Round trip without waits: a message of 1 ns and a flight of 1 ns each way, and the device's delay.
const fn trip(delay: u64) -> u64 {
    4_000 + delay
}

fn many(count: u64) -> Vec<MemOp> {
    (0..count).map(read).collect()
}

#[test]
fn no_more_are_in_flight_than_outstanding_allows() {
    for outstanding in [1, 3, 20] {
        let params = RequesterParams {
            outstanding,
            ..RequesterParams::default()
        };
        let ran = run(params, 128, &[Some(100_000)], &many(30));
        assert_eq!((ran.stop, ran.rows.len()), (Stop::Exhausted, 30));
        assert_eq!(ran.echo(0).most, outstanding as usize);
        // Each issue after the first few follows a completion at once.
        let mut completed: Vec<u64> = ran.rows.iter().map(|row| row.completed_ps).collect();
        completed.sort_unstable();
        let first = outstanding as usize;
        assert_eq!(ran.issued()[..first], vec![0; first]);
        assert_eq!(ran.issued()[first..], completed[..30 - first]);
    }
}

#[test]
fn issues_are_an_interval_apart_and_not_before_their_time() {
    let interval = Picos(7_001);
    let params = RequesterParams {
        issue_interval: interval,
        ..RequesterParams::default()
    };
    let ran = run(params.clone(), 128, &[Some(0)], &many(20));
    assert_eq!(
        ran.issued(),
        (0..20).map(|issue| issue * 7_001).collect::<Vec<_>>()
    );
    let late = MemOp {
        not_before: SimTime(50_000),
        ..read(1)
    };
    let ran = run(params, 128, &[Some(0)], &[read(0), late, read(2)]);
    assert_eq!(ran.issued(), [0, 50_000, 57_001]);
    let rate = Some(BytesPerSec(6_400_000_000));
    let ran = run(
        RequesterParams {
            rate,
            ..Default::default()
        },
        128,
        &[Some(0)],
        &many(3),
    );
    assert_eq!(ran.issued(), [0, 10_000, 20_000]);
}

#[test]
fn a_dependent_operation_waits_for_all_before_it() {
    let chase: Vec<MemOp> = many(5)
        .iter()
        .map(|op| MemOp {
            dependent: true,
            ..*op
        })
        .collect();
    let ran = run(RequesterParams::default(), 128, &[Some(20_000)], &chase);
    assert_eq!(
        ran.issued(),
        (0..5).map(|step| step * trip(20_000)).collect::<Vec<_>>()
    );
}

#[test]
fn a_hit_takes_the_access_time_and_a_miss_that_and_the_way() {
    let cache = CacheParams {
        ways: 8,
        access_time: Picos(12_000),
        ..CacheParams::of_size(Bytes(64 * 8))
    };
    let params = RequesterParams {
        cache: Some(cache),
        outstanding: 1,
        ..RequesterParams::default()
    };
    let ran = run(
        params,
        128,
        &[Some(5_000)],
        &[read(3), read(3), write(3), read(4)],
    );
    let latencies: Vec<(u64, bool)> = ran
        .rows
        .iter()
        .map(|row| (row.completed_ps - row.issued_ps, row.device == u16::MAX))
        .collect();
    let miss = 12_000 + trip(5_000);
    assert_eq!(
        latencies,
        [(miss, false), (12_000, true), (12_000, true), (miss, false)]
    );
    assert_eq!(ran.host().stats().cache_hits, 2);
    assert_eq!(ran.echo(0).seen.len(), 2);
}

#[test]
fn a_dirty_line_that_makes_room_is_written_back_and_a_clean_one_is_not() {
    let cache = CacheParams {
        ways: 1,
        access_time: Picos(0),
        ..CacheParams::of_size(Bytes(64))
    };
    let params = RequesterParams {
        cache: Some(cache),
        outstanding: 2,
        ..RequesterParams::default()
    };
    let ran = run(params, 128, &[Some(5_000)], &[write(1), read(2), read(3)]);
    let seen: Vec<(Opcode, u64)> = ran
        .echo(0)
        .seen
        .iter()
        .map(|(_, message)| (message.opcode, message.hpa.0 / 64))
        .collect();
    assert_eq!(
        seen,
        [
            (Opcode::MemRd, 1),
            (Opcode::MemRd, 2),
            (Opcode::MemWr, 1),
            (Opcode::MemRd, 3)
        ]
    );
    let stats = ran.host().stats();
    assert_eq!(
        (stats.writebacks, ran.rows.len(), stats.completed_ever),
        (1, 3, 3)
    );
    assert!(ran.host().is_done());
}

#[test]
fn nothing_is_issued_while_the_queue_is_full() {
    for queue in [1, 4] {
        let params = RequesterParams {
            queue: Some(queue),
            ..RequesterParams::default()
        };
        let ran = run(params, 1, &[None], &many(50));
        assert_eq!(ran.echo(0).seen.len(), 1, "one credit, never returned");
        assert_eq!(ran.host().stats().issued_ever, 1 + u64::from(queue));
        assert_eq!(ran.host().in_flight(), 1 + u64::from(queue));
    }
}

#[test]
fn a_read_passes_writes_that_have_no_credit() {
    // Two credits: the third write is never sent. The read after it is issued when the link is idle.
    let later = MemOp {
        not_before: SimTime(50_000),
        ..read(3)
    };
    let ops = [write(0), write(1), write(2), later];
    let ran = run(RequesterParams::default(), 2, &[None], &ops);
    let seen: Vec<u64> = ran
        .echo(0)
        .seen
        .iter()
        .map(|(_, message)| message.hpa.0 / 64)
        .collect();
    assert_eq!(seen, [0, 1, 3]);
}

#[test]
fn in_order_a_read_waits_behind_writes_that_have_no_credit() {
    let in_order = RequesterParams {
        in_order: true,
        ..RequesterParams::default()
    };
    let later = MemOp {
        not_before: SimTime(50_000),
        ..read(3)
    };
    let ops = [write(0), write(1), write(2), later];
    let seen = |ran: &Ran| -> Vec<u64> {
        let seen = ran.echo(0).seen.iter();
        seen.map(|(_, message)| message.hpa.0 / 64).collect()
    };
    let stuck = run(in_order.clone(), 2, &[None], &ops);
    assert_eq!(seen(&stuck), [0, 1], "the third write never goes");
    // One credit, returned as each request is accepted: all requests arrive, in the order of their issue.
    let mixed: Vec<MemOp> = (0..40)
        .map(|line| {
            if line % 3 == 0 {
                read(line)
            } else {
                write(line)
            }
        })
        .collect();
    let ran = run(in_order.clone(), 1, &[Some(70_000)], &mixed);
    assert_eq!(seen(&ran), (0..40).collect::<Vec<_>>());
    let relaxed = run(RequesterParams::default(), 1, &[Some(70_000)], &mixed);
    assert_ne!(seen(&relaxed), seen(&ran));
    // A request to another device does not pass at another root port either.
    let ops = [write(0), write(1), read(SECOND)];
    let ran = run(in_order, 1, &[None, Some(0)], &ops);
    assert_eq!((seen(&ran), ran.echo(1).seen.len()), (vec![0], 0));
}

#[test]
fn an_operation_of_several_lines_is_done_with_its_last() {
    let block = |line: u64, lines: u8| MemOp {
        lines,
        ..read(line)
    };
    let params = RequesterParams {
        outstanding: 3,
        ..RequesterParams::default()
    };
    let ops = [block(0, 4), read(100), block(200, 2)];
    let ran = run(params.clone(), 128, &[Some(100_000)], &ops);
    let lines: Vec<u64> = ran.rows.iter().map(|row| row.hpa / 64).collect();
    assert_eq!(lines, [0, 1, 2, 3, 100, 200, 201]);
    // Three lines go at once, each a nanosecond on the wire. The fourth follows when the first is back.
    let done = |line: u64| {
        let row = ran.rows.iter().find(|row| row.hpa == 64 * line);
        row.unwrap().completed_ps
    };
    let operations = ran.host().stats().whole_latency.as_ref().unwrap();
    assert_eq!(operations.count(), 2);
    let issued = |line: u64| {
        let row = ran.rows.iter().find(|row| row.hpa == 64 * line);
        row.unwrap().issued_ps
    };
    let latencies = done(3) + done(201) - issued(200);
    assert_eq!(operations.sum_ps(), u128::from(latencies));
    assert!(
        done(3) > trip(100_000) + 100_000,
        "the fourth waited for the first"
    );
    assert!(ran.host().is_done());
    // Each line takes its interval.
    let apart = RequesterParams {
        issue_interval: Picos(7_000),
        ..RequesterParams::default()
    };
    let ran = run(apart, 128, &[Some(0)], &[block(0, 4), read(100)]);
    assert_eq!(ran.issued(), [0, 0, 0, 0, 28_000]);
    // Without operations of several lines, no such latencies are recorded.
    let ran = run(params, 128, &[Some(0)], &many(4));
    assert!(ran.host().stats().whole_latency.is_none());
}

#[test]
fn a_root_port_does_not_wait_for_another() {
    // The first device accepts one request and never responds; the second responds at once.
    let ops = [read(0), read(1), read(SECOND), read(SECOND + 1)];
    let ran = run(RequesterParams::default(), 1, &[None, Some(0)], &ops);
    assert_eq!(ran.echo(0).seen.len(), 1);
    assert_eq!(ran.echo(1).seen.len(), 2, "requests for the second device");
    assert_eq!(ran.rows.len(), 2);
}
