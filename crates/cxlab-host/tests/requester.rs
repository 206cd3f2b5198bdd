//! The requester: limits, intervals, dependence, cache, and requests that wait for a link.
#![allow(clippy::unwrap_used)]

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
use cxlab_engine::{Component, Ctx, Monitor, Simulation, Stop};
use cxlab_host::{
    CacheParams, RequestAgent, RequestRow, Requester, RequesterConfig, RequesterParams,
};
use cxlab_link::{CreditTable, Parcel};
use cxlab_protocol::{LongStage, Message, Opcode, PortId};
use cxlab_testkit::{Endpoint, Operations, Schedule, at, end, link, memory, read, wire, write};
use cxlab_workload::MemOp;

/// A device that responds to each request after `delay`. Without a delay it never responds and
/// occupies its buffers for ever.
struct Echo {
    endpoint: Endpoint,
    delay: Option<u64>,
    /// Requests in order of arrival, with their times.
    seen: Vec<(u64, Message)>,
    pending: Schedule<Message>,
    /// Number of requests without a response, at present and at most.
    open: usize,
    most: usize,
}

/// Token of the wake-ups of an echo's link.
const LINK: u32 = 1;

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
                echo.endpoint.credits(ctx, LINK, parcel);
                let Some(mut message) = parcel.message else {
                    return;
                };
                echo.seen.push((ctx.now().0, message));
                if let Some(delay) = echo.delay {
                    echo.endpoint.release(ctx, &message);
                    message.stages.add(LongStage::Media, delay);
                    message.opcode = match message.opcode {
                        Opcode::MemWr => Opcode::Cmp,
                        _ => Opcode::MemData,
                    };
                    std::mem::swap(&mut message.source, &mut message.destination);
                    echo.open += 1;
                    echo.most = echo.most.max(echo.open);
                    echo.pending.at(ctx, ctx.now().0 + delay, message);
                }
            }
        }
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        match self {
            Node::Host(host) => host.wake(ctx, token),
            Node::Echo(echo) if token == LINK => echo.endpoint.wake(ctx, LINK),
            Node::Echo(echo) => {
                while let Some(message) = echo.pending.next(ctx.now()) {
                    echo.open -= 1;
                    echo.endpoint.send(ctx, LINK, message);
                }
            }
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
    /// Opcodes and lines of the requests that the first device has seen.
    fn seen(&self) -> Vec<(Opcode, u64)> {
        let seen = self.echo(0).seen.iter();
        seen.map(|(_, message)| (message.opcode, message.hpa.0 / 64))
            .collect()
    }
    /// Lines of these requests.
    fn lines(&self) -> Vec<u64> {
        self.seen().into_iter().map(|(_, line)| line).collect()
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
        joins_after: Picos::ZERO,
        leaves_after: None,
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
        Node::Echo(Echo {
            endpoint: Endpoint::new(end(&link, 0, Picos::ZERO, Picos::ZERO)),
            delay: *delay,
            seen: vec![],
            pending: Schedule::new(0),
            open: 0,
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

/// So many numbers from 0 on, an interval apart.
fn every(count: u64, interval: u64) -> Vec<u64> {
    (0..count).map(|number| number * interval).collect()
}

/// The default parameters, changed.
fn with(change: impl FnOnce(&mut RequesterParams)) -> RequesterParams {
    let mut params = RequesterParams::default();
    change(&mut params);
    params
}

/// So many operations at once, and a cache of `lines` lines with an access time in picoseconds.
fn cached(outstanding: u32, lines: u64, access_time: u64) -> RequesterParams {
    let cache = CacheParams {
        ways: lines as u32,
        access_time: Picos(access_time),
        ..CacheParams::of_size(Bytes(64 * lines))
    };
    with(|params| (params.cache, params.outstanding) = (Some(cache), outstanding))
}

#[test]
fn no_more_are_in_flight_than_outstanding_allows() {
    for outstanding in [1, 3, 20] {
        let params = with(|params| params.outstanding = outstanding);
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
    let params = with(|params| params.issue_interval = Picos(7_001));
    let ran = run(params.clone(), 128, &[Some(0)], &many(20));
    assert_eq!(ran.issued(), every(20, 7_001));
    let ops = [read(0), at(50, read(1)), read(2)];
    let ran = run(params, 128, &[Some(0)], &ops);
    assert_eq!(ran.issued(), [0, 50_000, 57_001]);
    let params = with(|params| params.rate = Some(BytesPerSec(6_400_000_000)));
    let ran = run(params, 128, &[Some(0)], &many(3));
    assert_eq!(ran.issued(), [0, 10_000, 20_000]);
}

#[test]
fn a_dependent_operation_waits_for_all_before_it() {
    let mut chase = many(5);
    chase.iter_mut().for_each(|op| op.dependent = true);
    let ran = run(RequesterParams::default(), 128, &[Some(20_000)], &chase);
    assert_eq!(ran.issued(), every(5, trip(20_000)));
}

#[test]
fn a_hit_takes_the_access_time_and_a_miss_that_and_the_way() {
    let ops = [read(3), read(3), write(3), read(4)];
    let ran = run(cached(1, 8, 12_000), 128, &[Some(5_000)], &ops);
    let latencies = ran
        .rows
        .iter()
        .map(|row| (row.completed_ps - row.issued_ps, row.device == u16::MAX));
    let (miss, hit) = ((12_000 + trip(5_000), false), (12_000, true));
    assert_eq!(latencies.collect::<Vec<_>>(), [miss, hit, hit, miss]);
    assert_eq!(ran.host().stats().cache_hits, 2);
    assert_eq!(ran.echo(0).seen.len(), 2);
}

#[test]
fn a_dirty_line_that_makes_room_is_written_back_and_a_clean_one_is_not() {
    let ops = [write(1), read(2), read(3)];
    let ran = run(cached(2, 1, 0), 128, &[Some(5_000)], &ops);
    let (read, write) = (Opcode::MemRd, Opcode::MemWr);
    assert_eq!(ran.seen(), [(read, 1), (read, 2), (write, 1), (read, 3)]);
    let stats = ran.host().stats();
    assert_eq!(stats.writebacks, 1);
    assert_eq!(ran.rows.len(), 3);
    assert_eq!(stats.completed_ever, 3);
    assert!(ran.host().is_done());
}

#[test]
fn nothing_is_issued_while_the_queue_is_full() {
    for queue in [1, 4] {
        let params = with(|params| params.queue = Some(queue));
        let ran = run(params, 1, &[None], &many(50));
        assert_eq!(ran.echo(0).seen.len(), 1, "one credit, never returned");
        assert_eq!(ran.host().stats().issued_ever, 1 + u64::from(queue));
        assert_eq!(ran.host().in_flight(), 1 + u64::from(queue));
    }
}

#[test]
fn a_read_passes_writes_that_have_no_credit() {
    // Two credits: the third write is never sent. The read after it is issued when the link is idle.
    let ops = [write(0), write(1), write(2), at(50, read(3))];
    let ran = run(RequesterParams::default(), 2, &[None], &ops);
    assert_eq!(ran.lines(), [0, 1, 3]);
}

#[test]
fn in_order_a_read_waits_behind_writes_that_have_no_credit() {
    let in_order = with(|params| params.in_order = true);
    let ops = [write(0), write(1), write(2), at(50, read(3))];
    let stuck = run(in_order.clone(), 2, &[None], &ops);
    assert_eq!(stuck.lines(), [0, 1], "the third write never goes");
    // One credit, returned as each request is accepted: all requests arrive, in the order of their issue.
    let mixed = |line| match line % 3 {
        0 => read(line),
        _ => write(line),
    };
    let mixed: Vec<MemOp> = (0..40).map(mixed).collect();
    let ran = run(in_order.clone(), 1, &[Some(70_000)], &mixed);
    assert_eq!(ran.lines(), every(40, 1));
    let relaxed = run(RequesterParams::default(), 1, &[Some(70_000)], &mixed);
    assert_ne!(relaxed.lines(), ran.lines());
    // A request to another device does not pass at another root port either.
    let ops = [write(0), write(1), read(SECOND)];
    let ran = run(in_order, 1, &[None, Some(0)], &ops);
    assert_eq!(ran.lines(), [0]);
    assert_eq!(ran.echo(1).seen.len(), 0);
}

#[test]
fn an_operation_of_several_lines_is_done_with_its_last() {
    let block = |line: u64, lines: u8| MemOp {
        lines,
        ..read(line)
    };
    let params = with(|params| params.outstanding = 3);
    let ops = [block(0, 4), read(100), block(200, 2)];
    let ran = run(params.clone(), 128, &[Some(100_000)], &ops);
    let lines: Vec<u64> = ran.rows.iter().map(|row| row.hpa / 64).collect();
    assert_eq!(lines, [0, 1, 2, 3, 100, 200, 201]);
    // Three lines go at once, each a nanosecond on the wire. The fourth follows when the first is back.
    let row = |line: u64| ran.rows.iter().find(|row| row.hpa == 64 * line).unwrap();
    let operations = ran.host().stats().multi_line_latency.as_ref().unwrap();
    assert_eq!(operations.count(), 2);
    let last = row(3).completed_ps;
    let latencies = last + row(201).completed_ps - row(200).issued_ps;
    assert_eq!(operations.sum_ps(), u128::from(latencies));
    assert!(
        last > trip(100_000) + 100_000,
        "the fourth waited for the first"
    );
    assert!(ran.host().is_done());
    // Each line takes its interval.
    let apart = with(|params| params.issue_interval = Picos(7_000));
    let ran = run(apart, 128, &[Some(0)], &[block(0, 4), read(100)]);
    assert_eq!(ran.issued(), [0, 0, 0, 0, 28_000]);
    // Without operations of several lines, no such latencies are recorded.
    let ran = run(params, 128, &[Some(0)], &many(4));
    assert!(ran.host().stats().multi_line_latency.is_none());
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
