//! How the home agent serves a transaction that has its line: what the cores settle among themselves,
//! what the table says of devices, and what is answered.

use cxlab_agent::{
    Answer, CACHE, COHERENCE, Ending, HOST_QUEUE, MEDIA, PROCESS, STAGE_NAMES, stages_of,
};
use cxlab_engine::Ctx;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_memory::Slot;
use cxlab_protocol::coherence::cache_home::{Action, CORES, Event, Filter, Found, Phase, step};
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;
use cxlab_protocol::{LatencyStages, LongStage};

use super::caches::Held;
use super::home::{Behind, Leave, Txn, Way, What};
use super::params::DeviceEvictions;
use super::{FINISH, NONE, Processor, Waiting};

/// Stages that have their time first, where an access began later than its transaction.
const FIRST: [usize; 4] = [CACHE, PROCESS, MEDIA, COHERENCE];

/// Who on the die has a line that a core wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// The last-level cache, or the core itself.
    Here,
    /// Another core alone.
    Core,
    /// Nobody: what the directory knew has left without a word.
    Memory,
}

impl Processor {
    /// A time that a transaction waited for has come.
    pub(super) fn proceed(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.txns[id as usize];
        if std::mem::take(&mut self.txns[id as usize].forwarded) {
            self.apply(ctx, id, Event::ReadDone);
            return;
        }
        if let Some(found) = self.txns[id as usize].found.take() {
            match txn.state.is_busy() {
                true => self.apply(ctx, id, Event::CoresAnswered(found)),
                false => self.conclude(ctx, id),
            }
            return;
        }
        if let What::Missing(request) = txn.what {
            return self.answer_missing(ctx, id, request);
        }
        if std::mem::take(&mut self.txns[id as usize].missing) {
            return self.memory_answered(ctx, id);
        }
        let Some(slot) = txn.slot else {
            unreachable!("a transaction that waits has its line")
        };
        if !self.name(id) || !self.has_write_places(ctx, id) {
            return;
        }
        let txn = self.txns[id as usize];
        if self.must_recall(&txn) {
            self.txns[id as usize].recalls = true;
            self.apply(ctx, id, Event::EvictEntry);
            return;
        }
        let cores = txn.state.filter.holders().contains(CORES);
        let alone = txn.state.filter == Filter::Any(CORES);
        match txn.what {
            What::Read if cores && self.source(slot, txn.core) != Source::Memory => {
                let core = self.source(slot, txn.core) == Source::Core;
                let (dirty, alone) = self.share_copies(slot, u32::from(txn.core), Leave::Shared);
                self.on_die(ctx, id, dirty, alone || core);
            }
            What::Own if alone && self.source(slot, txn.core) != Source::Memory => {
                let (dirty, any) = self.drop_copies(ctx, slot, u32::from(txn.core));
                self.on_die(ctx, id, dirty, any);
            }
            What::WriteBack => {
                let (dirty, _) = self.share_copies(slot, NONE, Leave::Clean);
                let way = &mut self.llc[slot];
                if dirty | std::mem::take(&mut way.dirty) {
                    self.write_memory(ctx, txn.line, Some(id), NONE, true);
                }
                self.conclude(ctx, id);
            }
            What::Demote => {
                let was = self.cores[txn.core as usize].caches.drop_line(txn.line);
                self.llc[slot].cores &= !(1 << txn.core);
                if was != Held::Invalid {
                    self.keep(ctx, slot, was == Held::Modified);
                }
                self.conclude(ctx, id);
            }
            What::Read => self.apply(ctx, id, Event::CoreRead),
            What::Own => self.apply(ctx, id, Event::CoreOwn),
            What::BackInvalidate if self.snoop_of(id).is_none() => self.conclude(ctx, id),
            What::Flush | What::BackInvalidate => {
                let (dirty, _) = self.drop_copies(ctx, slot, NONE);
                self.llc.drop_data(slot);
                if dirty | std::mem::take(&mut self.llc[slot].dirty) {
                    let keeps = !txn.state.filter.holders().without(CORES).is_empty();
                    let shared = self.shared.as_ref();
                    if shared.is_some_and(|shared| shared.holds(txn.line))
                        || self.is_hdm_db(txn.line)
                    {
                        // Other hosts, or the device, may be told of it next: it is over when memory has the line.
                        self.write_memory(ctx, txn.line, Some(id), id, keeps);
                        return;
                    }
                    self.write_memory(ctx, txn.line, Some(id), NONE, keeps);
                }
                self.apply(ctx, id, Event::Request(CORES, Request::ClFlush));
            }
            What::Device(_) | What::DmaWrite | What::PageWrite if self.must_claim(&txn) => {
                self.claim(ctx, id);
            }
            What::Device(Request::CleanEvict)
                if self.params.llc.device_evictions == DeviceEvictions::Llc =>
            {
                self.apply(ctx, id, Event::CleanEvictWanted(txn.peer));
            }
            What::Device(request) => self.apply(ctx, id, Event::Request(txn.peer, request)),
            What::DmaRead | What::DmaWrite | What::PageRead | What::PageWrite | What::WalkRead => {
                let request = Self::dma_request(txn.what);
                self.apply(ctx, id, Event::Request(txn.peer, request));
            }
            What::Recall => self.apply(ctx, id, Event::EvictEntry),
            What::Evict | What::Free | What::Missing(_) => {}
        }
    }

    /// Whether a transaction takes, without its data, a line of a Type 2 device that nobody here
    /// holds: the device must hear of it, as it would of a read.
    fn must_claim(&self, txn: &Txn) -> bool {
        let request = match txn.what {
            What::Device(request) => request,
            what => Self::dma_request(what),
        };
        let without_data = matches!(
            request,
            Request::RdOwnNoData
                | Request::ItoMWr
                | Request::WrCur
                | Request::WrInv
                | Request::WoWrInv
                | Request::WoWrInvF
        );
        without_data
            && txn.state.filter == Filter::Invalid
            && !txn.claimed
            && self.is_device_biased(txn.line)
    }

    /// Where a core's request finds its line, if the directory gives it to the cores.
    fn source(&self, slot: Slot, core: u16) -> Source {
        let way = &self.llc[slot];
        let me = 1 << core;
        if way.data || way.cores & me != 0 || !self.llc.is_victim_cache() {
            Source::Here
        } else if way.cores != 0 {
            Source::Core
        } else {
            Source::Memory
        }
    }

    /// The cores settle it among themselves; `snooped` says whether one had to be asked.
    fn on_die(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, dirty: bool, snooped: bool) {
        let txn = &mut self.txns[id as usize];
        if let Some(slot) = txn.slot {
            self.llc[slot].dirty |= dirty;
        }
        if snooped {
            txn.found = Some(Found::Clean);
            ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
        } else {
            self.conclude(ctx, id);
        }
    }

    /// Something has happened to a line: the table says what follows.
    ///
    /// # Panics
    /// If it says nothing: a message broke the protocol, which is our own mistake.
    pub(super) fn apply(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, event: Event) {
        let mut event = Some(event);
        while let Some(what) = event.take() {
            let before = self.txns[id as usize].state;
            let Some((next, actions)) = step(before, what) else {
                panic!("{what:?} in {before:?} breaks CXL.cache")
            };
            self.txns[id as usize].state = next;
            for action in actions.iter() {
                event = self.act(ctx, id, action).or(event);
            }
        }
        if !self.txns[id as usize].state.is_busy() {
            self.conclude(ctx, id);
        }
    }

    /// Does what the table says; what follows at once is returned.
    fn act(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, action: Action) -> Option<Event> {
        let txn = self.txns[id as usize];
        let slot = txn.slot?;
        match action {
            Action::Snoop(snoop, peers) => self.snoop_devices(ctx, id, snoop, peers),
            Action::SnoopCores(snoop) => return self.snoop_cores(ctx, id, slot, snoop),
            Action::ReadLlc if self.llc[slot].data => return Some(Event::ReadDone),
            Action::ReadLlc if self.llc[slot].cores != 0 => {
                // Nobody has it but cores: the one that asks, or another.
                if txn.is_miss() && self.source(slot, txn.core) == Source::Here {
                    return Some(Event::ReadDone);
                }
                self.stats.core_snoops += 1;
                self.txns[id as usize].forwarded = true;
                ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
            }
            Action::ReadMemory | Action::ReadLlc => {
                self.stats.memory_reads += 1;
                self.read_or_wait(ctx, id);
            }
            Action::WriteMemory => {
                let waits = matches!(txn.state.phase, Phase::Writing(_));
                self.llc[slot].dirty = false;
                let keeps = txn.state.filter != Filter::Invalid;
                let parent = if waits { id } else { NONE };
                self.write_memory(ctx, txn.line, Some(id), parent, keeps);
            }
            Action::WriteLlc => self.keep(ctx, slot, true),
            Action::FillLlc => self.keep(ctx, slot, false),
            Action::Reply(..) if txn.what == What::DmaRead => self.dma_read(ctx, id),
            Action::Reply(..) if txn.what == What::DmaWrite => {
                self.dma_write(ctx, id);
                return Some(Event::PulledData(false));
            }
            Action::Reply(..) if txn.what == What::PageWrite => {
                self.page_write(ctx, &txn);
                return Some(Event::PulledData(false));
            }
            Action::Reply(..) if matches!(txn.what, What::PageRead | What::WalkRead) => {}
            Action::Reply(_, reply) => self.reply(ctx, id, reply),
            Action::GrantCores(GoState::Invalid) => {}
            Action::GrantCores(state) => {
                let fills = !self.llc.is_victim_cache();
                let way = &mut self.llc[slot];
                way.data |= fills;
                way.dirty |= state == GoState::Modified;
            }
        }
        None
    }

    /// The cores do what a snoop says, and the last-level cache with them.
    fn snoop_cores(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        slot: Slot,
        snoop: Snoop,
    ) -> Option<Event> {
        // Without a copy below them, one of the cores has to give the data.
        let data = self.llc[slot].data;
        let by_core = !data && self.llc[slot].cores != 0;
        let (dirty, asked) = match snoop {
            Snoop::Inv => self.drop_copies(ctx, slot, NONE),
            Snoop::Data => self.share_copies(slot, NONE, Leave::Shared),
            Snoop::Cur if data => self.share_copies(slot, NONE, Leave::Clean),
            Snoop::Cur => self.share_copies(slot, NONE, Leave::AsItIs),
        };
        let asked = asked || by_core;
        let way = &mut self.llc[slot];
        let dirty = dirty | way.dirty;
        let found = match (data || by_core, dirty) {
            (_, true) => Found::Dirty,
            (true, false) => Found::Clean,
            (false, false) => Found::Nothing,
        };
        // A current value leaves the line as it is; the others hand it over, or have it written.
        way.dirty = dirty && data && snoop == Snoop::Cur;
        if snoop == Snoop::Inv {
            self.llc.drop_data(slot);
        }
        if !asked {
            return Some(Event::CoresAnswered(found));
        }
        self.txns[id as usize].found = Some(found);
        ctx.wake_at(ctx.now() + self.params.snoop_time, FINISH | id);
        None
    }

    /// Whether a transaction waits for snooped devices.
    pub(super) fn is_snooping(&self, id: u32) -> bool {
        matches!(self.txns[id as usize].state.phase, Phase::Snooping(_))
    }

    /// A transaction is over: its accesses take effect, and the line is free for the next.
    fn conclude(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.txns[id as usize];
        let Some(slot) = txn.slot else {
            unreachable!("a transaction that is over had its line")
        };
        self.llc[slot].filter = txn.state.filter;
        if std::mem::take(&mut self.txns[id as usize].recalls) {
            return self.proceed(ctx, id);
        }
        if txn.what == What::Flush && !txn.claimed && self.is_hdm_db(txn.line) {
            // The other caches of the line give it up as well.
            return self.claim(ctx, id);
        }
        self.forget_flushed(ctx, slot);
        if txn.what == What::Own {
            // The table asks devices; the other cores are asked here.
            let (dirty, _) = self.drop_copies(ctx, slot, u32::from(txn.core));
            self.llc[slot].dirty |= dirty;
        }
        if txn.ending != Ending::Served {
            self.give_up(ctx, &txn, slot);
        } else if txn.is_miss() {
            self.grant(ctx, &txn, slot);
        }
        self.answer(ctx, id);
        // Others may have come for the line meanwhile.
        let txn = self.txns[id as usize];
        self.release(ctx, &txn, slot);
        self.close(id);
        self.unname(ctx, txn.uqid);
        self.return_places(ctx, id);
        let reads_itself = match txn.what {
            What::PageRead | What::WalkRead => true,
            What::Read => txn.walk != NONE,
            _ => false,
        };
        if reads_itself && self.lanes.is_poison(txn.line) {
            self.machine_check(ctx);
        }
        match txn.what {
            What::BackInvalidate => self.gave_up(ctx, id),
            What::DmaWrite => self.dma_written(ctx, &txn),
            What::PageRead => self.page_read(ctx, &txn),
            What::PageWrite => self.page_written(ctx, &txn),
            What::WalkRead => self.device_walk_read(ctx, &txn),
            What::Read => self.walk_read(ctx, &txn),
            _ => {}
        }
        self.retry(ctx, &txn);
    }

    /// The core that asked takes the line in.
    fn grant(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn, slot: Slot) {
        let me = 1 << txn.core;
        let others = self.llc[slot].cores & !me;
        let alone = txn.state.filter == Filter::Any(CORES);
        let held = match txn.what {
            What::Own => Held::Modified,
            _ if others == 0 && alone => Held::Exclusive,
            _ => Held::Shared,
        };
        let held = self.hand_over(ctx, slot, held);
        self.llc[slot].cores |= me;
        self.lanes.filled(txn.core, txn.line);
        let core = &mut self.cores[txn.core as usize];
        let held = held.max(core.caches.held(txn.line));
        if let Some((line, was)) = core.caches.insert(txn.line, held) {
            self.left_core(ctx, line, was, txn.core);
        }
        let core = &mut self.cores[txn.core as usize];
        if let Some(at) = core.asking.iter().position(|(line, _)| *line == txn.line) {
            core.asking.swap_remove(at);
        }
    }

    /// A non-inclusive cache gives up what a core takes alone, and keeps what is newer than memory
    /// of a line that several share. How the core holds the line then.
    fn hand_over(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot, held: Held) -> Held {
        if !self.llc.is_victim_cache() {
            return held;
        }
        let Way { data, dirty, .. } = self.llc[slot];
        match held {
            Held::Exclusive | Held::Modified => {
                self.llc.drop_data(slot);
                self.llc[slot].dirty = false;
                if dirty { Held::Modified } else { held }
            }
            _ => {
                if dirty && !data {
                    self.keep(ctx, slot, true);
                }
                held
            }
        }
    }

    /// A line has left a core's caches to make room.
    fn left_core(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, was: Held, core: u16) {
        let Some(slot) = self.llc.find(line) else {
            unreachable!("the directory knows what private caches hold")
        };
        self.llc[slot].cores &= !(1 << core);
        self.keep(ctx, slot, was == Held::Modified);
        self.llc.settle(slot);
    }

    /// The accesses of a transaction take effect, each in turn, as far as the line is held well
    /// enough. For the others the core asks again, in the place that the transaction had.
    fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let txn = self.txns[id as usize];
        let now = ctx.now();
        let at = now + self.params.mesh_time;
        let mut place = txn.first;
        while place != NONE {
            let Behind {
                access,
                begun,
                next,
            } = self.behind[place as usize];
            let is_first = place == txn.first;
            self.free_behind.push(place);
            place = next;
            let answer = self.answered(&txn, now.0, begun, at);
            if answer.ending != Ending::Served {
                if answer.ending == Ending::Denied {
                    self.access_denied(&access);
                }
                self.over(ctx, &access, answer);
                self.poisoned(ctx, access.op, access.kind);
                continue;
            }
            if !txn.is_miss() {
                self.over(ctx, &access, answer);
                continue;
            }
            let caches = &mut self.cores[txn.core as usize].caches;
            match caches.access(txn.line, access.kind.owns()) {
                Some(_) => self.take_effect(ctx, &access, answer),
                None if is_first => {
                    panic!("the access that asked for {:?} goes away empty", txn.line)
                }
                None if self.merge(txn.core, &access, SimTime(begun)) => {}
                None => self.ask(ctx, txn.core, &access, SimTime(begun)),
            }
        }
    }

    /// Where the time of an access went; `host_queue` is what is left.
    fn answered(&self, txn: &Txn, now: u64, begun: u64, at: SimTime) -> Answer {
        let total = at.0 - begun;
        // What its message to CXL memory went through; nothing where it sent none.
        let asked = match txn.what {
            What::Device(_) => LatencyStages::default(),
            _ => txn.stages,
        };
        let process = 2 * self.params.mesh_time.0 + txn.way_ps;
        let mut parts = stages_of(&asked, process, self.params.lookup().0);
        let outside = asked.total().0 - asked.of(LongStage::Media);
        parts[MEDIA] = txn.media_ps;
        if !matches!(txn.ending, Ending::Failed(_)) {
            let memory = outside + txn.media_ps + txn.way_ps;
            parts[COHERENCE] += now - txn.arrived - txn.waited_ps - memory;
        }
        let mut stages = [0; STAGE_NAMES.len()];
        let mut left = total;
        for stage in FIRST.into_iter().chain(0..STAGE_NAMES.len()) {
            let part = (parts[stage] - stages[stage]).min(left);
            stages[stage] += part;
            left -= part;
        }
        stages[HOST_QUEUE] += left;
        Answer {
            begun: SimTime(begun),
            at,
            device: txn.device,
            hops: txn.hops,
            stages,
            ending: txn.ending,
        }
    }

    /// The line of a transaction is free: it may leave for those that wait for its set, or the next one has it.
    fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn, slot: Slot) {
        self.llc[slot].txn = NONE;
        self.llc.unpin(slot);
        let set = self.llc.set_of(txn.line);
        self.recalled(txn.what, set);
        self.serve_set(ctx, set);
        let mut next = txn.next;
        while next != NONE {
            let after = std::mem::replace(&mut self.txns[next as usize].next, NONE);
            self.admit(ctx, next);
            next = after;
        }
    }

    /// What waited for a place tries again.
    fn retry(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        self.admit_stalled(ctx);
        if txn.is_miss() {
            self.run_core(ctx, txn.core);
        }
    }

    /// What waited for a place in a core goes on, in the order in which it came.
    pub(super) fn run_core(&mut self, ctx: &mut Ctx<'_, Parcel>, core: u16) {
        let number = core as usize;
        if self.cores[number].serving {
            return;
        }
        while let Some((first, _)) = self.cores[number].waiting.front().copied() {
            match first {
                Waiting::Access(access, begun) => {
                    if self.waits_for_place(core, access.line(), access.kind.owns(), true) {
                        return;
                    }
                    self.cores[number].serve();
                    self.look(ctx, core, &access, begun);
                }
                Waiting::Lane(lane) => {
                    if self.asks_for_most(core) {
                        return;
                    }
                    self.cores[number].serve();
                    self.cores[number].serving = true;
                    self.run(ctx, lane as usize);
                    self.cores[number].serving = false;
                }
            }
        }
        if std::mem::take(&mut self.cores[number].full) {
            for lane in 0..self.core_of.len() {
                if self.core_of[lane] == core {
                    self.run(ctx, lane);
                }
            }
        }
    }
}
