//! The memory of a Type 2 device, with lines that the host may cache and lines that it may not.
//!
//! In HDM-D the host keeps this memory coherent. The device keeps the bias of each page (see
//! `bias`). In host bias the host may hold a copy, and the device must request the line from the
//! host before its own access. In device bias the device accesses its memory, and the cache of that
//! memory (DMC), without the host. The host's next read restores host bias. The host's response
//! to the device's request is a `MemRdFwd`, or for a weakly ordered write a `MemWrFwd`. These are
//! ordered with the host's reads of the same line, so the device knows which came first (CXL 3.1,
//! section 3.3.3). A read of the host that arrives while the device's own access waits for the
//! line's data waits for that access alone, and never for the host. Otherwise a host that reads a
//! line continuously would keep the device from it.
//!
//! In HDM-DB the device keeps the memory coherent (see `dcoh`). The bias table is then its
//! directory, with an entry for each line.

use std::collections::VecDeque;

use cxlab_agent::{Access, AccessKind, AccessResponse, HOST_QUEUE, MEDIA, MEDIA_QUEUE, PROCESS};
use cxlab_cache::{Completion, MemoryBackend, SetRoom, Statistic, TagArray};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Dpa, Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::{Actions, Event};
use cxlab_protocol::hdm::InterleaveSet;
use cxlab_protocol::{LongStage, Message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bias::{BiasStats, BiasTable};
use super::dcoh::{AcceleratorDcohStats, Dcoh};
use super::{Accelerator, MEDIUM};
use crate::controller::line_request;

/// A line in the cache of the attached memory.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct DmcWay {
    pub(super) dirty: bool,
    /// Time up to which an atomic operation locks the line, in picoseconds.
    locked_until_ps: u64,
}

/// A message of the host, in the receive buffer of a port until the medium accepts it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct ReceivedMessage {
    pub(super) message: Message,
    pub(super) port: u16,
}

/// What a request in the medium is for.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum MediumRequestKind {
    /// No request: the number is free.
    Free,
    /// A request of the host, which gets a response.
    Host(ReceivedMessage),
    /// A request of the host for a line that the cache held modified, and that needs no medium.
    Passed(ReceivedMessage),
    /// A fill of the cache.
    Fill(LineAddr),
    /// A write-back of a modified line from the cache.
    WriteBack,
}

/// A request in the medium, or queued for it.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct MediumRequest {
    kind: MediumRequestKind,
    line: LineAddr,
    write: bool,
    /// When the request was queued and when the medium accepted it, in picoseconds.
    since: u64,
    accepted: u64,
}

/// An access that waits for the data of a line.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct DataWaiter {
    line: LineAddr,
    access: Access,
    /// When the access began, in picoseconds.
    begun: u64,
}

/// Everything that a Type 2 device's memory is built from.
pub struct AttachedMemoryConfig {
    /// The medium that stores the lines.
    pub backend: Box<dyn MemoryBackend>,
    /// Interleave set of the window of host physical addresses, and the device's number among its targets.
    pub decoder: (InterleaveSet, u32),
    /// Capacity in lines.
    pub lines: u64,
    /// Granularity of the bias table.
    pub bias_page: Bytes,
    /// Coherence model of the memory.
    pub class: AttachedMemoryClass,
}

/// Coherence model of a Type 2 device's memory: which side keeps the memory coherent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum AttachedMemoryClass {
    /// The host. The device recalls lines that the host may hold over CXL.cache, and keeps bias by page.
    #[default]
    HdmD,
    /// The device, by back-invalidation. It tracks for each line whether the host may hold it.
    HdmDb,
}

/// Counters since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct AttachedMemoryStats {
    pub(super) dmc_hits: u64,
    pub(super) dmc_misses: u64,
    /// Fills that waited for a slot of the write buffer.
    pub(super) dmc_write_waits: u64,
    pub(super) host_reads: u64,
    pub(super) host_writes: u64,
}

/// The memory of a Type 2 device, with its bias table, cache and medium.
pub(super) struct AttachedMemory {
    backend: Box<dyn MemoryBackend>,
    decoder: InterleaveSet,
    target: u32,
    /// The pages, or lines, that the host may hold.
    pub(super) bias: BiasTable,
    /// The coherency engine; only for HDM-DB memory.
    pub(super) dcoh: Option<Dcoh>,
    pub(super) dmc: TagArray<DmcWay>,
    /// Requests by their number in the medium, and the numbers that are free.
    requests: Vec<MediumRequest>,
    free: Vec<u32>,
    /// Requests that the medium has not accepted.
    waiting: VecDeque<u32>,
    /// Accesses of the device that wait for data of the medium.
    waiters: Vec<DataWaiter>,
    /// Slots of the write buffer, and the number of write-backs that the medium has not accepted.
    write_places: u32,
    writes: u32,
    /// Fills whose data have arrived and that wait for a slot.
    stalled: VecDeque<MediumRequest>,
    /// Time of the earliest wake-up that was requested, in picoseconds.
    wake: u64,
    /// Completions that have not been handled.
    done: Vec<Completion>,
    pub(super) stats: AttachedMemoryStats,
}

save_state!(AttachedMemory {
    values: done, requests, free, waiting, waiters, writes, stalled, wake, dcoh, stats;
    states: backend, bias, dmc;
    built: decoder, target, write_places;
});

impl AttachedMemory {
    pub(super) fn new(
        config: AttachedMemoryConfig,
        dmc: TagArray<DmcWay>,
        write_places: u32,
    ) -> AttachedMemory {
        let (decoder, target) = config.decoder;
        let coherent = config.class == AttachedMemoryClass::HdmDb;
        let page = match coherent {
            true => Bytes(LINE_BYTES),
            false => config.bias_page,
        };
        AttachedMemory {
            backend: config.backend,
            decoder,
            target,
            bias: BiasTable::new(config.lines, page),
            dcoh: coherent.then(Dcoh::default),
            dmc,
            requests: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            waiters: Vec::new(),
            write_places,
            writes: 0,
            stalled: VecDeque::new(),
            wake: u64::MAX,
            done: Vec::new(),
            stats: AttachedMemoryStats::default(),
        }
    }

    /// Device address of a line; `None` if the line is not in this memory.
    fn dpa(&self, line: LineAddr) -> Option<Dpa> {
        match self.decoder.decode(Hpa(line.0 * LINE_BYTES)) {
            Some((target, dpa)) if target == self.target => Some(dpa),
            _ => None,
        }
    }

    pub(super) fn owns(&self, line: LineAddr) -> bool {
        self.dpa(line).is_some()
    }

    /// Time up to which an atomic operation locks a line of the cache; unbounded while the line is
    /// read for the host.
    pub(super) fn locked_until(&self, line: LineAddr) -> u64 {
        if self.dcoh.as_ref().is_some_and(|dcoh| dcoh.is_reading(line)) {
            return u64::MAX;
        }
        let slot = self.dmc.find(line);
        slot.map_or(0, |slot| self.dmc[slot].locked_until_ps)
    }

    pub(super) fn number(&self, line: LineAddr) -> u64 {
        self.dpa(line).map_or(0, |dpa| dpa.0 / LINE_BYTES)
    }

    /// Applies an event to a line of HDM-DB memory ([`Dcoh::step`]).
    pub(super) fn step(&mut self, line: LineAddr, entry: u32, event: Event) -> Actions {
        let number = self.number(line);
        let Some(dcoh) = &mut self.dcoh else {
            unreachable!("only HDM-DB memory has an engine")
        };
        dcoh.step(&mut self.bias, (line, number), entry, event)
    }

    /// Records that the host may hold a line from now on.
    pub(super) fn host_takes(&mut self, line: LineAddr) {
        debug_assert!(
            !self.is_filling(line),
            "the host waits for the device's access"
        );
        self.bias.host_takes(self.number(line));
    }

    /// Whether an access of the device precedes the host's next request for a line.
    pub(super) fn is_kept_from_host(&self, line: LineAddr) -> bool {
        let snooping = self
            .dcoh
            .as_ref()
            .is_some_and(|dcoh| dcoh.is_snooping(line));
        snooping || self.is_filling(line)
    }

    /// Whether an access of the device waits for the data of a line.
    pub(super) fn is_filling(&self, line: LineAddr) -> bool {
        self.waiters.iter().any(|waiter| waiter.line == line)
    }

    /// Stores a request and returns its number.
    fn open(&mut self, request: MediumRequest) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                id
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        (self.requests.len() - self.free.len() + self.stalled.len()) as u64
    }

    pub(super) fn begin_measurement(&mut self, now: SimTime) {
        self.backend.begin_measurement(now);
        self.stats = AttachedMemoryStats::default();
        self.bias.stats = BiasStats::default();
        if let Some(dcoh) = &mut self.dcoh {
            dcoh.stats = AcceleratorDcohStats::default();
        }
    }

    pub(super) fn statistics(&self, now: SimTime, list: &mut Vec<Statistic>) {
        let bias = &self.bias.stats;
        let flips = (bias.flips + bias.lost).max(1) as f64;
        let flip_ns = bias.flip_ps as f64 / 1e3 / flips;
        let refused = ("bias_refused", bias.refused as f64);
        let statistics = match &self.dcoh {
            None => vec![
                ("bias_lost", bias.lost as f64),
                ("bias_lines", bias.lines as f64),
                ("bias_to_host", bias.host as f64),
                ("bias_by_software", bias.software as f64),
                refused,
                ("bias_flip_ns", flip_ns),
            ],
            Some(Dcoh { stats, .. }) => vec![
                ("bi_snoops", stats.snoops as f64),
                ("bi_conflicts", stats.conflicts as f64),
                ("bi_snoop_ns", flip_ns),
                ("passed_modified", stats.passed_modified as f64),
                refused,
            ],
        };
        Statistic::append(list, "", &statistics);
        let mut medium = Vec::new();
        self.backend.statistics(now, &mut medium);
        list.extend(medium.into_iter().map(|statistic| Statistic {
            name: format!("memory.{}", statistic.name),
            ..statistic
        }));
    }
}

impl Accelerator {
    #[inline]
    pub(super) fn owns_line(&self, line: LineAddr) -> bool {
        self.attached_memory
            .as_ref()
            .is_some_and(|attached_memory| attached_memory.owns(line))
    }

    /// Whether the host may hold a line of the attached memory.
    pub(super) fn is_host_biased(&self, line: LineAddr) -> bool {
        let attached_memory = self.attached_memory.as_ref();
        attached_memory.is_some_and(|memory| memory.bias.is_host(memory.number(line)))
    }

    /// Flips the page of a line on behalf of a driver. The device refuses if the line is not in its
    /// memory, if the memory has no bias (HDM-DB), or if the device itself is flipping the page.
    pub(super) fn flip_by_software(&mut self, line: LineAddr, to_host: bool) {
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        match attached_memory.owns(line) && attached_memory.dcoh.is_none() {
            true => attached_memory
                .bias
                .flip_by_software(attached_memory.number(line), to_host),
            false => attached_memory.bias.stats.refused += 1,
        }
    }

    /// Records that the host no longer holds a line.
    pub(super) fn flipped(&mut self, line: LineAddr) {
        if let Some(attached_memory) = &mut self.attached_memory {
            let number = attached_memory.number(line);
            attached_memory.bias.left(number);
        }
    }

    /// Performs an access to a line of the attached memory in device bias.
    pub(super) fn local(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, begun: SimTime) {
        let now = ctx.now();
        let line = access.line();
        let hit = self.cycles(self.params.cache.hit_cycles);
        let atomic = self.cycles(self.params.atomic_cycles);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let Some(slot) = attached_memory.dmc.access(line) else {
            attached_memory.stats.dmc_misses += 1;
            let mut waiters = attached_memory.waiters.iter();
            let is_requested = waiters.any(|waiter| waiter.line == line);
            attached_memory.waiters.push(DataWaiter {
                line,
                access: *access,
                begun: begun.0,
            });
            if !is_requested {
                self.ask_medium(ctx, MediumRequestKind::Fill(line), line, false);
            }
            return;
        };
        attached_memory.stats.dmc_hits += 1;
        let way = &mut attached_memory.dmc[slot];
        let mut completes = now + hit;
        way.dirty |= access.kind.writes();
        if access.kind == AccessKind::Atomic {
            completes += atomic;
            way.locked_until_ps = completes.0;
        }
        self.hw_threads.used(0, line);
        self.take_effect(ctx, access, AccessResponse::by_cache(begun, completes));
    }

    /// Queues a request to the medium.
    pub(super) fn ask_medium(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        kind: MediumRequestKind,
        line: LineAddr,
        write: bool,
    ) {
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        attached_memory.writes += u32::from(matches!(kind, MediumRequestKind::WriteBack));
        let request = MediumRequest {
            kind,
            line,
            write,
            since: ctx.now().0,
            accepted: 0,
        };
        let id = attached_memory.open(request);
        attached_memory.waiting.push_back(id);
        self.feed_medium(ctx);
    }

    /// Transfers a modified line from the cache to the host, in the time of a hit.
    pub(super) fn pass_modified(&mut self, ctx: &mut Ctx<'_, Parcel>, received: &ReceivedMessage) {
        self.release(ctx, received);
        let at = ctx.now() + self.cycles(self.params.cache.hit_cycles);
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let id = attached_memory.open(MediumRequest {
            kind: MediumRequestKind::Passed(*received),
            line: LineAddr(received.message.hpa.0 / LINE_BYTES),
            write: false,
            since: ctx.now().0,
            accepted: ctx.now().0,
        });
        attached_memory.done.push(Completion { id, at });
        self.wake_medium(ctx);
    }

    /// Issues queued requests to the medium, as far as it accepts them.
    fn feed_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        loop {
            let Some(attached_memory) = &mut self.attached_memory else {
                return;
            };
            let Some(id) = attached_memory.waiting.front().copied() else {
                break;
            };
            let MediumRequest {
                kind, line, write, ..
            } = attached_memory.requests[id as usize];
            if !attached_memory.backend.can_accept(now, write) {
                break;
            }
            attached_memory.waiting.pop_front();
            attached_memory.requests[id as usize].accepted = now.0;
            let dpa = attached_memory.dpa(line).unwrap_or(Dpa(0));
            let request = line_request(id, dpa, write);
            if let Some(at) = attached_memory.backend.enqueue(now, request) {
                // The completion time is known: a wake-up handles the completion then.
                attached_memory.done.push(Completion { id, at });
            }
            match kind {
                MediumRequestKind::Host(received) => self.release(ctx, &received),
                MediumRequestKind::WriteBack => attached_memory.writes -= 1,
                MediumRequestKind::Fill(_)
                | MediumRequestKind::Passed(_)
                | MediumRequestKind::Free => {}
            }
        }
        self.wake_medium(ctx);
    }

    fn wake_medium(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        let known = attached_memory
            .done
            .iter()
            .map(|completion| completion.at.0)
            .min();
        let event = attached_memory
            .backend
            .next_event()
            .map_or(u64::MAX, |event| event.0);
        let time = event.min(known.unwrap_or(u64::MAX)).max(now);
        if time < attached_memory.wake && time != u64::MAX {
            attached_memory.wake = time;
            ctx.wake_at(SimTime(time), MEDIUM);
        }
    }

    pub(super) fn medium_wakes(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now();
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        if attached_memory.wake <= now.0 {
            attached_memory.wake = u64::MAX;
        }
        if attached_memory
            .backend
            .next_event()
            .is_some_and(|event| event <= now)
        {
            attached_memory
                .backend
                .advance(now, &mut attached_memory.done);
        }
        let mut index = 0;
        while let Some(attached_memory) = &mut self.attached_memory
            && index < attached_memory.done.len()
        {
            if attached_memory.done[index].at > now {
                index += 1;
                continue;
            }
            let Completion { id, .. } = attached_memory.done.remove(index);
            let request = attached_memory.requests[id as usize];
            attached_memory.requests[id as usize].kind = MediumRequestKind::Free;
            attached_memory.free.push(id);
            self.medium_done(ctx, &request);
        }
        self.feed_medium(ctx);
        self.fill_stalled(ctx);
    }

    /// Continues stalled fills while the write buffer has free slots.
    fn fill_stalled(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while let Some(attached_memory) = &mut self.attached_memory
            && attached_memory.writes < attached_memory.write_places
            && let Some(request) = attached_memory.stalled.pop_front()
        {
            self.filled(ctx, request.line, &request);
        }
    }

    fn medium_done(&mut self, ctx: &mut Ctx<'_, Parcel>, request: &MediumRequest) {
        match request.kind {
            MediumRequestKind::Host(received) | MediumRequestKind::Passed(received) => {
                let mut response = received.message;
                let stages = &mut response.stages;
                stages.add(LongStage::MediaQueue, request.accepted - request.since);
                stages.add(LongStage::Media, ctx.now().0 - request.accepted);
                let modified = matches!(request.kind, MediumRequestKind::Passed(_));
                match self.is_device_coherent() && !request.write {
                    true => self.read_for_host(ctx, &response, modified),
                    false => self.respond_to_host(ctx, &response),
                }
            }
            MediumRequestKind::Fill(line) => self.fill_or_wait(ctx, line, request),
            MediumRequestKind::WriteBack | MediumRequestKind::Free => {}
        }
    }

    /// Handles the arrival of a fill's data. The fill stalls if it would evict a modified line
    /// while the write buffer is full.
    fn fill_or_wait(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, request: &MediumRequest) {
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        if (attached_memory.writes >= attached_memory.write_places
            || !attached_memory.stalled.is_empty())
            && let SetRoom::Evict(block) = attached_memory.dmc.room(line)
            && let Some(slot) = attached_memory.dmc.find(block.victim)
            && attached_memory.dmc[slot].dirty
        {
            attached_memory.stats.dmc_write_waits += 1;
            attached_memory
                .stalled
                .push_back(MediumRequest { line, ..*request });
            return;
        }
        self.filled(ctx, line, request);
    }

    /// Inserts a line into the cache, and serves the accesses that wait for it.
    fn filled(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, request: &MediumRequest) {
        let mut out = None;
        let Some(attached_memory) = &mut self.attached_memory else {
            return;
        };
        if let SetRoom::Evict(block) = attached_memory.dmc.room(line)
            && let Some(slot) = attached_memory.dmc.find(block.victim)
        {
            out = Some(attached_memory.dmc.remove(slot));
        }
        attached_memory.dmc.insert(line, DmcWay::default());
        self.hw_threads.filled(0, line);
        let (ready, rest): (Vec<DataWaiter>, Vec<DataWaiter>) = attached_memory
            .waiters
            .drain(..)
            .partition(|waiter| waiter.line == line);
        attached_memory.waiters = rest;
        if let Some((line, DmcWay { dirty: true, .. })) = out {
            self.ask_medium(ctx, MediumRequestKind::WriteBack, line, true);
        }
        for (index, waiter) in ready.into_iter().enumerate() {
            if index > 0 {
                self.again(ctx, waiter.access, SimTime(waiter.begun));
            } else {
                self.first_filled(ctx, &waiter, request);
            }
        }
        self.wake_held_back(ctx, line);
    }

    /// Completes the access that requested a line from the medium.
    fn first_filled(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        waiter: &DataWaiter,
        request: &MediumRequest,
    ) {
        let access = waiter.access;
        let mut completes = ctx.now() + self.cycles(self.params.cache.hit_cycles);
        if access.kind == AccessKind::Atomic {
            completes += self.cycles(self.params.atomic_cycles);
        }
        if let Some(attached_memory) = &mut self.attached_memory
            && let Some(slot) = attached_memory.dmc.find(access.line())
        {
            let way = &mut attached_memory.dmc[slot];
            way.dirty |= access.kind.writes();
            if access.kind == AccessKind::Atomic {
                way.locked_until_ps = completes.0;
            }
        }
        let mut response = AccessResponse::by_cache(SimTime(waiter.begun), completes);
        response.stages = Default::default();
        response.stages[MEDIA] = ctx.now().0 - request.accepted;
        response.stages[MEDIA_QUEUE] = request.accepted - request.since;
        response.stages[PROCESS] = completes.0 - ctx.now().0;
        let sum: u64 = response.stages.iter().sum();
        response.stages[HOST_QUEUE] = completes.0 - waiter.begun - sum;
        response.device = cxlab_agent::LOCAL;
        self.take_effect(ctx, &access, response);
    }
}
