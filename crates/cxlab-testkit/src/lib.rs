//! What tests of single components share: links with round times, wires, operations from a list, the far
//! end of a link, and a schedule of what such an end does later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cxlab_agent::{AddressMap, AddressWindow};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, BytesPerSec, Dpa, Hpa, LINE_BYTES, Picos, SimTime};
use cxlab_engine::{ComponentId, Ctx, Wire};
use cxlab_link::{
    BufferId, CreditTable, LinkParams, LinkPort, Outbox, PacketHeader, Parcel, PortConfig,
    Transmission,
};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{Message, PortId};
use cxlab_workload::{MemOp, OpKind, OpSource};

/// A link on which every message takes 1 ns, and the flight 1 ns.
pub fn link(credits: CreditTable) -> LinkParams {
    LinkParams {
        transmission: Transmission::Packet,
        bandwidth: Some(BytesPerSec(64_000_000_000)),
        packet: PacketHeader {
            header: Bytes(LINE_BYTES),
            data_header: Bytes(0),
            staging: Bytes(0),
        },
        propagation: Picos(1_000),
        port_delay: Picos(0),
        credits,
        ..LinkParams::default()
    }
}

/// So many credits in each message class of CXL.mem.
pub fn credits(each: u8) -> CreditTable {
    let each = Some(each.into());
    CreditTable {
        m2s_req: each,
        m2s_rwd: each,
        s2m_ndr: each,
        s2m_drs: each,
        s2m_bisnp: each,
        m2s_birsp: each,
        ..CreditTable::default()
    }
}

/// One end of a link, with constant pipelines before the link and after it.
pub fn end(params: &LinkParams, port: u16, egress: Picos, ingress: Picos) -> LinkPort {
    let config = PortConfig {
        port,
        egress,
        ingress,
        vcs: 1,
        windows: params.windows(Picos::ZERO),
        seed: 1,
        name: "test",
    };
    LinkPort::new(params, &config)
}

/// The wire to port `peer_port` of component `peer`, with the least latency of [`link`].
pub fn wire(peer: usize, peer_port: usize) -> Wire {
    Wire {
        peer: ComponentId::from(peer),
        peer_port: peer_port as u16,
        min_latency: Picos(1_000),
    }
}

/// Memory of `devices` devices of `lines` lines each, one after the other. Edge ports begin at `first`.
///
/// # Panics
/// If `lines` lines are no interleave set of one device.
pub fn memory(devices: u16, lines: u64, first: u16) -> Arc<AddressMap> {
    let size = Bytes(LINE_BYTES * lines);
    let windows = (0..devices).map(|device| {
        let base = Hpa(size.0 * u64::from(device));
        let Ok(set) = InterleaveSet::new(base, size, Bytes(256), 1) else {
            panic!("{lines} lines at {base:?} are no interleave set")
        };
        AddressWindow {
            base,
            size,
            set,
            targets: vec![PortId(first + device)],
            first: vec![Dpa(0)],
        }
    });
    Arc::new(AddressMap::new(windows.collect()))
}

/// A source of operations from a list.
pub struct Operations(pub VecDeque<MemOp>);

cxlab_engine::cannot_save!(Operations, "a list of a test");

impl OpSource for Operations {
    fn next_op(&mut self, _rng: &mut StreamRng) -> Option<MemOp> {
        self.0.pop_front()
    }
}

/// A load of line `line`.
pub fn read(line: u64) -> MemOp {
    MemOp {
        hpa: Hpa(LINE_BYTES * line),
        kind: OpKind::Read,
        lines: 1,
        not_before: SimTime::ZERO,
        dependent: false,
        write_back: false,
    }
}

/// A store to line `line`.
pub fn write(line: u64) -> MemOp {
    MemOp {
        kind: OpKind::Write,
        ..read(line)
    }
}

/// The same operation, not before a time in nanoseconds.
pub fn at(nanoseconds: u64, op: MemOp) -> MemOp {
    MemOp {
        not_before: SimTime(nanoseconds * 1_000),
        ..op
    }
}

/// An end of a link with its queue of outgoing messages. Its wake-ups have the caller's token.
pub struct Endpoint {
    /// Port of the component under test.
    pub link: LinkPort,
    /// Messages that the port has not sent yet.
    pub outbox: Outbox,
}

impl Endpoint {
    /// An end without queued messages.
    pub fn new(link: LinkPort) -> Self {
        Endpoint {
            link,
            outbox: Outbox::default(),
        }
    }

    /// Sends a message, or queues it until the link accepts it.
    pub fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32, message: Message) {
        let now = ctx.now();
        self.outbox
            .offer(ctx, &mut self.link, token, message, now, |_, _| {});
    }

    /// Accepts a parcel: if it has brought credits, queued messages are sent.
    pub fn credits(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32, parcel: &Parcel) {
        if self.link.receive(parcel) {
            self.pump(ctx, token);
        }
    }

    /// Sends queued messages as far as credits allow.
    pub fn pump(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.outbox.pump(ctx, &mut self.link, token, |_, _| {});
    }

    /// Handles a wake-up of the queue.
    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.outbox.wake(ctx, &mut self.link, token, |_, _| {});
    }

    /// Frees the receive buffer of a message.
    pub fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let buffer = BufferId::of(message.channel(), message.vc);
        self.link.release(ctx, buffer);
    }
}

/// What an end does later, by time and then in order of entry.
pub struct Schedule<T> {
    entries: BTreeMap<(u64, u64), T>,
    count: u64,
    token: u32,
}

impl<T> Schedule<T> {
    /// An empty schedule, for which the component wakes with `token`.
    pub fn new(token: u32) -> Self {
        Schedule {
            entries: BTreeMap::new(),
            count: 0,
            token,
        }
    }

    /// Whether no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Schedules `what` for a time in picoseconds.
    pub fn at(&mut self, ctx: &mut Ctx<'_, Parcel>, time: u64, what: T) {
        self.entries.insert((time, self.count), what);
        self.count += 1;
        ctx.wake_at(SimTime(time), self.token);
    }

    /// Takes the first entry that is due.
    pub fn next(&mut self, now: SimTime) -> Option<T> {
        let first = self.entries.first_entry()?;
        (first.key().0 <= now.0).then(|| first.remove())
    }
}
