//! CXL.cache: requests of devices at the home agent, and their responses to its snoops.

use std::collections::VecDeque;

use cxlab_agent::{line_read_once, snooped_line_address};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_home::{CORES, Event, Peers};
use cxlab_protocol::coherence::cache_message::{HostResponse, Request, SnoopResponse};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;
use cxlab_protocol::{CacheMeta, Channel, LatencyStages, LongStage, Message, Opcode, PortId};

use super::Processor;
use super::params::DeviceEvictions;
use super::tokens::{ARRIVE, FINISH, NONE};
use super::transactions::{NO_UQID, Txn, TxnKind};

/// The transactions that devices know by number (UQIDs, 12 bits).
pub(super) struct Uqids {
    transactions: Vec<u32>,
    free: Vec<u16>,
    /// Transactions that wait for a free UQID.
    waiting: VecDeque<u32>,
}

save_state!(Uqids {
    values: transactions, free, waiting;
});

impl Uqids {
    pub(super) fn new() -> Uqids {
        Uqids {
            transactions: vec![NONE; CacheMeta::IDS.into()],
            free: (0..CacheMeta::IDS).rev().collect(),
            waiting: VecDeque::new(),
        }
    }

    fn transaction(&self, uqid: u16) -> u32 {
        self.transactions[usize::from(uqid)]
    }

    fn give(&mut self, transaction: u32) -> Option<u16> {
        let uqid = self.free.pop()?;
        self.transactions[usize::from(uqid)] = transaction;
        Some(uqid)
    }
}

impl Processor {
    /// Gives a transaction that has its line a UQID if devices may see it. Returns false if the
    /// transaction has to wait for one.
    pub(super) fn name(&mut self, id: u32) -> bool {
        let txn = &mut self.home.txns[id];
        let devices = !txn.state.filter.holders().without(CORES).is_empty();
        let asked = matches!(txn.kind, TxnKind::Device(_) | TxnKind::Missing(_));
        if txn.request.uqid != NO_UQID || !devices && !asked {
            return true;
        }
        match self.home.uqids.give(id) {
            Some(uqid) => {
                debug_assert!(
                    self.home.uqids.waiting.is_empty(),
                    "a transaction passes those that wait"
                );
                txn.request.uqid = uqid;
            }
            None => self.home.uqids.waiting.push_back(id),
        }
        txn.request.uqid != NO_UQID
    }

    /// Frees the UQID of a transaction that is over. The transaction that has waited longest receives one.
    pub(super) fn unname(&mut self, ctx: &mut Ctx<'_, Parcel>, uqid: u16) {
        if uqid == NO_UQID {
            return;
        }
        self.home.uqids.free.push(uqid);
        if let Some(next) = self.home.uqids.waiting.pop_front() {
            if let Some(uqid) = self.home.uqids.give(next) {
                self.home.txns[next].request.uqid = uqid;
            }
            ctx.wake_at(ctx.now(), FINISH | next);
        }
    }

    pub(super) fn cache_message(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        match message.channel() {
            Channel::D2hReq => self.device_request(ctx, message),
            Channel::D2hRsp => self.device_response(ctx, message),
            _ => self.device_data(ctx, message),
        }
    }

    /// Handles a device's request for a line. The home agent accepts such requests one after the other.
    fn device_request(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.opcode == Opcode::CacheFlushed {
            return self.device_flushed(ctx, message);
        }
        let Some(request) =
            Request::from_opcode(message.opcode, message.cache.has(CacheMeta::PUSH))
        else {
            panic!("{:?} is not modelled", message.opcode)
        };
        if !self.memory.has(message.hpa) {
            return self.device_asks_for_nothing(ctx, message, request);
        }
        let writes = matches!(request, Request::WoWrInv | Request::WoWrInvF);
        let flips = (writes || request == Request::RdOwnNoData)
            && self.memory.map.owner(message.hpa) == Some(message.source);
        self.stats.bias_requests += u64::from(flips);
        self.stats.bias_writes += u64::from(flips && writes);
        let request = match (request, self.params.llc.device_evictions) {
            // The device takes or writes a line of its own memory (HDM-D). For the table this is a flush, because the
            // host keeps no copy of the line, and the directory does not record the device as its holder.
            _ if flips => Request::ClFlush,
            (Request::DirtyEvict, DeviceEvictions::Llc) => Request::DirtyEvictPush,
            (request, _) => request,
        };
        let now = ctx.now();
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        self.home.llc.prefetch(line);
        let mut txn = Txn::new(line, TxnKind::Device(request), 0);
        txn.request.peer = self.accelerators.peer_of(message.source);
        txn.request.source = message.source;
        txn.request.tag = message.tag;
        txn.request.writes_own = flips && writes;
        txn.stages = message.stages;
        txn.stages.device += self.params.root_port_time.0 as u32;
        let start = now.0.max(self.home.free_at);
        txn.stages.add(LongStage::HostQueue, start - now.0);
        self.home.free_at = start + self.params.home_interval.0;
        self.stats.device_requests += 1;
        let id = self.home.txns.open(txn);
        if start == now.0 {
            self.arrive(ctx, id);
        } else {
            ctx.wake_at(SimTime(start), ARRIVE | id);
        }
    }

    fn device_response(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let Some(response) = SnoopResponse::from_opcode(message.opcode) else {
            panic!("{:?} answers no snoop", message.opcode)
        };
        let peer = self.accelerators.peer_of(message.source);
        let id = self.home.uqids.transaction(message.cache.uqid);
        if response.keeps() {
            let poison = message.cache.has(CacheMeta::POISON);
            self.home.txns[id].snooped_holder = Some((message.source, poison));
        }
        self.apply(ctx, id, Event::SnoopResponse(peer, response));
    }

    fn device_data(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let id = self.home.uqids.transaction(message.cache.uqid);
        if let TxnKind::Missing(_) = self.home.txns[id].kind {
            return self.step_missing(ctx, id, Event::PulledData(false));
        }
        let event = match self.is_snooping(id) {
            true => Event::SnoopData,
            false => {
                self.home.txns[id].memory.partial = message.cache.has(CacheMeta::BYTE_ENABLES);
                Event::PulledData(message.cache.has(CacheMeta::BOGUS))
            }
        };
        self.apply(ctx, id, event);
    }

    pub(super) fn snoop_devices(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        snoop: Snoop,
        peers: Peers,
    ) {
        for peer in peers.iter() {
            self.stats.device_snoops += 1;
            let device = self.accelerators.ports[peer.index()];
            let line = self.home.txns[id].line;
            let opcode = snoop.cache_opcode();
            let stages = LatencyStages::default();
            let uqid = self.home.txns[id].request.uqid;
            let state = GoState::Invalid;
            self.send_cache(ctx, device, line, opcode, 0, uqid, state, stages, false);
        }
    }

    /// The image address of the value of a line that a transaction reads without holding it, and whether
    /// the value is poison. If a device keeps the line, the value is that of its snoop response, because
    /// the device may have stored since.
    pub(super) fn value_of(&self, txn: &Txn) -> (Hpa, bool) {
        match txn.snooped_holder {
            Some((holder, poison)) => (snooped_line_address(holder, txn.request.uqid), poison),
            None => {
                let hpa = Hpa(txn.line.0 * LINE_BYTES);
                (hpa, self.hw_threads.is_poison(txn.line))
            }
        }
    }

    /// Sends the response to the device for which a transaction runs.
    pub(super) fn reply(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, reply: HostResponse) {
        let txn = self.home.txns[id];
        let mut stages = txn.stages;
        stages.add(LongStage::Media, txn.memory.media_ps);
        stages.add(LongStage::HostQueue, txn.times.waited_ps);
        let waiting = ctx.now().0 - txn.times.arrived - txn.times.waited_ps - txn.memory.media_ps;
        stages.add(LongStage::Coherence, waiting);
        stages.device += self.params.root_port_time.0 as u32;
        let owner = self.memory.owner(txn.line);
        let opcode = match reply {
            // For the device's own memory, on CXL.mem: in order with its following reads (CXL 3.1, figure 3-42).
            HostResponse::Go(_) if owner == Some(txn.request.source) && txn.request.writes_own => {
                Opcode::MemWrFwd
            }
            HostResponse::Go(_) if owner == Some(txn.request.source) => Opcode::MemRdFwd,
            reply => reply.opcode(),
        };
        let granted = reply.granted();
        let (from, poison) = self.value_of(&txn);
        if txn.kind == TxnKind::Device(Request::RdCurr) {
            let there = line_read_once(txn.request.source, txn.request.tag);
            self.hw_threads.image().copy(from, there, LINE_BYTES);
        }
        let poison = poison && opcode == Opcode::H2dData;
        self.send_cache(
            ctx,
            txn.request.source,
            txn.line,
            opcode,
            txn.request.tag,
            txn.request.uqid,
            granted,
            stages,
            poison,
        );
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn send_cache(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        device: PortId,
        line: LineAddr,
        opcode: Opcode,
        tag: u32,
        uqid: u16,
        granted: GoState,
        stages: LatencyStages,
        poison: bool,
    ) {
        debug_assert!(uqid < CacheMeta::IDS, "a transaction of devices has a UQID");
        let message = Message {
            stages,
            cache: CacheMeta::of(uqid)
                .granting(granted)
                .with(CacheMeta::POISON, poison),
            ..Message::new(
                opcode,
                Hpa(line.0 * LINE_BYTES),
                tag,
                self.port_id,
                device,
                ctx.now(),
            )
        };
        // The device reads its memory when it has the line, and the host's write may take another, slower path.
        let forwards = matches!(opcode, Opcode::MemRdFwd | Opcode::MemWrFwd);
        match forwards && self.memory.writing.contains(&line) {
            true => self.home.held_grants.push(message),
            false => self.roots.send(ctx, message),
        }
    }

    /// Sends the grants that devices have waited for until a line was written.
    pub(super) fn grant_held(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let is_one = |message: &mut Message| message.hpa.0 / LINE_BYTES == line.0;
        let granted: Vec<Message> = self.home.held_grants.extract_if(.., is_one).collect();
        for mut message in granted {
            let waited = ctx.now().0 - message.issued_ps;
            message.stages.add(LongStage::HostQueue, waited);
            message.issued_ps = ctx.now().0;
            self.roots.send(ctx, message);
        }
    }
}
