//! The host-memory cache of an accelerator: lines of its host's memory over CXL.cache.
//!
//! What is done about a line is decided by the table
//! [`cxlab_protocol::coherence::cache_agent`]; this is the time and the room around it. A request
//! takes a CQID, and so does the eviction of the line that makes room for it. Accesses to a line
//! that has something under way wait for it, in order.

use cxlab_agent::{Access, AccessKind, Answer, PROCESS, QUEUE, stages_of};
use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_memory::prefetch::{Candidates, Outcome};
use cxlab_memory::{Room, Slot};
use cxlab_protocol::coherence::cache_agent::{Action, Event, Line, LineState, step};
use cxlab_protocol::coherence::cache_message::{Reply, Request};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;
use cxlab_protocol::{CacheMeta, Channel, LatencyStages, MemMeta, Message, Opcode};

use super::{Accelerator, SNOOP};

const NONE: u32 = u32::MAX;

/// A line in the cache.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// What is under way, or `NONE`; the entry has the state then.
    entry: u32,
    /// I, S, E or M.
    line: Line,
    /// Until when an atomic operation keeps the line.
    locked: u64,
}

impl Default for Way {
    fn default() -> Self {
        Way {
            entry: NONE,
            line: Line::I,
            locked: 0,
        }
    }
}

/// Something under way; its number is its CQID.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    line: LineAddr,
    state: LineState,
    slot: Option<Slot>,
    /// The accesses that wait.
    first: u32,
    last: u32,
    /// The UQID of a snoop whose data are owed.
    snoop: u16,
    used: bool,
    /// The first access that waits is the one that it was made for; a prefetch is made for none.
    asked: bool,
    /// It asks for a line of the device's own memory to be left by the host.
    flip: bool,
}

impl Default for Entry {
    fn default() -> Self {
        Entry {
            line: LineAddr(0),
            state: LineState::default(),
            slot: None,
            first: NONE,
            last: NONE,
            snoop: 0,
            used: false,
            flip: false,
            asked: false,
        }
    }
}

/// An access that waits.
#[derive(Clone, Copy)]
pub(super) struct Waiter {
    access: Access,
    begun: u64,
    next: u32,
}

/// What an access finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// It is over, or will be at a time that is known.
    Done,
    /// It waits for an entry.
    Waits,
    /// There is no room for what it needs.
    Blocked,
}

/// Counts since measurement began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct HmcStats {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) merged: u64,
    pub(super) upgrades: u64,
    pub(super) dirty_evictions: u64,
    pub(super) clean_evictions: u64,
    pub(super) pushes: u64,
    pub(super) prefetches: u64,
    pub(super) snoops: u64,
    pub(super) snooped_modified: u64,
}

impl Accelerator {
    /// Begins an access to host memory; false when there is no room for what it needs.
    pub(super) fn cached(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access) -> bool {
        let now = ctx.now();
        let lane = self.lanes.lane_of(access.op);
        if self.cache_free > now.0 {
            self.wake_lane(ctx, lane, SimTime(self.cache_free));
            return false;
        }
        let line = access.line();
        let was = self.cache.find(line).is_some();
        let found = self.look(ctx, access, now, true);
        if found != Found::Blocked && !self.owns_line(line) {
            self.fetch_ahead(ctx, line, was);
        }
        match found {
            Found::Blocked => {
                self.blocked.push(lane as u32);
                false
            }
            Found::Done | Found::Waits => {
                self.cache_free = now.0 + self.params.cycle.0;
                true
            }
        }
    }

    /// An access looks for its line. `fresh`: it has not begun before.
    fn look(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        begun: SimTime,
        fresh: bool,
    ) -> Found {
        let line = access.line();
        let slot = self.cache.find(line);
        let busy = match slot {
            Some(slot) => self.cache[slot].entry,
            None => self.leaving(line),
        };
        if busy != NONE {
            self.begin(access, ctx.now(), fresh);
            self.wait_for(busy, *access, begun);
            self.hmc.merged += 1;
            return Found::Waits;
        }
        let own = self.owns_line(line);
        if own && !self.is_host_biased(line) {
            self.begin(access, ctx.now(), fresh);
            self.local(ctx, access, begun);
            return Found::Waits;
        }
        let state = slot.map_or(Line::I, |slot| self.cache[slot].line);
        let event = match own {
            true => Event::Flush,
            false => event_of(access, state),
        };
        let Some((next, actions)) = step(LineState::stable(state), event) else {
            // Nothing to do: a demotion or write-back of a line that is not modified.
            self.begin(access, ctx.now(), fresh);
            self.over(ctx, access, Answer::by_cache(begun, ctx.now()));
            return Found::Done;
        };
        let asks = actions
            .iter()
            .any(|action| matches!(action, Action::Send(_)));
        if !asks {
            self.begin(access, ctx.now(), fresh);
            if let Some(slot) = slot {
                self.cache[slot].line = next.line;
                self.cache.touch(slot);
                self.hit(ctx, access, begun, slot);
            }
            return Found::Done;
        }
        let Some(id) = self.make_room(ctx, line, slot, next.line) else {
            return Found::Blocked;
        };
        self.begin(access, ctx.now(), fresh);
        self.hmc.upgrades += u64::from(slot.is_some());
        self.hmc.misses += u64::from(slot.is_none());
        self.entries[id as usize].state = next;
        self.entries[id as usize].flip = own;
        let answer = Answer::by_cache(begun, ctx.now());
        if access.kind == AccessKind::Prefetch {
            self.over(ctx, access, answer);
        } else {
            self.wait_for(id, *access, begun);
            self.entries[id as usize].asked = true;
        }
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
        Found::Waits
    }

    /// Tells the prefetcher of an access, and asks for the lines that it names.
    fn fetch_ahead(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, hit: bool) {
        let Some(prefetcher) = &mut self.prefetcher else {
            return;
        };
        let mut wanted = Candidates::default();
        let outcome = if hit { Outcome::Hit } else { Outcome::Miss };
        prefetcher.accessed(line.0, outcome, &mut wanted);
        for page in wanted.as_slice() {
            self.prefetch(ctx, LineAddr(*page));
        }
    }

    /// Asks for a line that nobody waits for, unless it is here, on its way, or there is no room.
    fn prefetch(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        let known = self.cache.find(line).is_some() || self.leaving(line) != NONE;
        let exists = |(first, end): &(u64, u64)| (*first..*end).contains(&line.0);
        if known
            || self.free.len() <= self.entries.len() / 2
            || !self.memory.iter().any(exists)
            || self.owns_line(line)
        {
            return;
        }
        let Some((next, actions)) = step(LineState::stable(Line::I), Event::Load) else {
            return;
        };
        let Some(id) = self.make_room(ctx, line, None, next.line) else {
            return;
        };
        self.hmc.prefetches += 1;
        self.entries[id as usize].state = next;
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
    }

    fn begin(&mut self, access: &Access, now: SimTime, fresh: bool) {
        if fresh {
            self.lanes.access_begun(access, now);
        }
    }

    /// A free CQID with a place in the cache, if the line is to be kept; `None` when there is no
    /// room. Another line may have to leave, which takes a CQID too.
    fn make_room(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        slot: Option<Slot>,
        next: Line,
    ) -> Option<u32> {
        let keeps = slot.is_some() || !is_write(next);
        if self.free.is_empty() {
            return None;
        }
        let slot = match slot {
            Some(slot) => Some(slot),
            None if !keeps => None,
            None => match self.cache.room(line) {
                Room::Free => Some(self.cache.insert(line, Way::default())),
                Room::Pinned => return None,
                Room::Evict(block) => {
                    let victim = self.cache.find(block.victim)?;
                    let silent =
                        self.cache[victim].line != Line::M && !self.params.cache.clean_evict;
                    if !silent && self.free.len() < 2 {
                        return None;
                    }
                    if silent {
                        self.drop_clean(victim);
                    } else {
                        self.evict(ctx, victim);
                    }
                    Some(self.cache.insert(line, Way::default()))
                }
            },
        };
        let id = self.free.pop()?;
        self.entries[id as usize] = Entry {
            line,
            state: LineState::default(),
            slot,
            first: NONE,
            last: NONE,
            snoop: 0,
            used: true,
            flip: false,
            asked: false,
        };
        match slot {
            Some(slot) => {
                self.cache[slot].entry = id;
                self.cache.pin(slot);
            }
            None => self.leaving.push(id),
        }
        Some(id)
    }

    /// A clean line makes room, and nobody hears of it.
    fn drop_clean(&mut self, slot: Slot) {
        let (_, way) = self.cache.remove(slot);
        debug_assert!(step(LineState::stable(way.line), Event::EvictSilently).is_some());
        self.hmc.clean_evictions += 1;
    }

    /// A line makes room.
    fn evict(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) {
        let (line, way) = self.cache.remove(slot);
        let Some((next, actions)) = step(LineState::stable(way.line), Event::Evict) else {
            unreachable!("a settled line can be evicted")
        };
        let Some(id) = self.free.pop() else {
            unreachable!("there are two free CQIDs")
        };
        match way.line {
            Line::M => self.hmc.dirty_evictions += 1,
            _ => self.hmc.clean_evictions += 1,
        }
        self.entries[id as usize] = Entry {
            line,
            state: next,
            slot: None,
            first: NONE,
            last: NONE,
            snoop: 0,
            used: true,
            flip: false,
            asked: false,
        };
        self.leaving.push(id);
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
    }

    /// What is under way for a line that has no place in the cache.
    fn leaving(&self, line: LineAddr) -> u32 {
        let mut leaving = self.leaving.iter();
        let found = leaving.find(|id| self.entries[**id as usize].line == line);
        found.copied().unwrap_or(NONE)
    }

    fn wait_for(&mut self, id: u32, access: Access, begun: SimTime) {
        let waiter = Waiter {
            access,
            begun: begun.0,
            next: NONE,
        };
        let place = match self.free_waiters.pop() {
            Some(place) => {
                self.waiters[place as usize] = waiter;
                place
            }
            None => {
                self.waiters.push(waiter);
                self.waiters.len() as u32 - 1
            }
        };
        let entry = &mut self.entries[id as usize];
        match entry.last {
            NONE => entry.first = place,
            last => self.waiters[last as usize].next = place,
        }
        entry.last = place;
    }

    /// The access that an entry was made for, if it was made for one that still waits.
    fn take_first(&mut self, id: u32) -> Option<Waiter> {
        let entry = &mut self.entries[id as usize];
        let place = entry.first;
        if place == NONE || !std::mem::take(&mut entry.asked) {
            return None;
        }
        let waiter = self.waiters[place as usize];
        entry.first = waiter.next;
        if waiter.next == NONE {
            entry.last = NONE;
        }
        self.free_waiters.push(place);
        Some(waiter)
    }

    /// The cache has the line: the access takes effect, after an atomic operation that keeps it.
    fn hit(&mut self, ctx: &mut Ctx<'_, Parcel>, access: &Access, begun: SimTime, slot: Slot) {
        self.hmc.hits += 1;
        let start = ctx.now().0.max(self.cache[slot].locked);
        let mut at = SimTime(start) + self.cycles(self.params.cache.hit_cycles);
        if access.kind == AccessKind::Atomic {
            at += self.cycles(self.params.atomic_cycles);
            self.cache[slot].locked = at.0;
        }
        self.lanes.used(0, access.line());
        self.perform(access, true);
        if self.lanes.waits_on(access) {
            self.spinning.push((access.line(), *access));
            return;
        }
        self.over(ctx, access, Answer::by_cache(begun, at));
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
    }

    /// An access takes effect. `holds`: the line is in the cache, and not on its way to the host.
    pub(super) fn perform(&mut self, access: &Access, holds: bool) {
        self.lanes.perform(access, Hpa(access.addr));
        if access.kind.writes() {
            self.lanes.written(holds.then_some(0), access.line());
        }
    }

    /// A message of CXL.cache arrives.
    pub(super) fn cache_message(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        if message.channel() == Channel::H2dReq {
            self.snooped(ctx, message);
            return;
        }
        let reply = match message.opcode {
            // The host's answer to a request for the device's own memory.
            Opcode::MemRdFwd => Some(Reply::Go(GoState::Invalid)),
            opcode => Reply::from_opcode(opcode, message.cache.granted),
        };
        let Some(reply) = reply else {
            panic!("{:?} is not modelled", message.opcode)
        };
        self.apply(ctx, message.tag, Event::Reply(reply), message);
    }

    /// A snoop arrives. While an atomic operation keeps the line, it waits.
    fn snooped(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let Some(snoop) = Snoop::from_cache_opcode(message.opcode) else {
            panic!("{:?} is no snoop", message.opcode)
        };
        let line = LineAddr(message.hpa.0 / LINE_BYTES);
        let slot = self.cache.find(line);
        if let Some(slot) = slot
            && self.cache[slot].locked > ctx.now().0
        {
            let at = SimTime(self.cache[slot].locked);
            self.delayed.push((at.0, *message));
            ctx.wake_at(at, SNOOP);
            return;
        }
        self.hmc.snoops += 1;
        let busy = match slot {
            Some(slot) => self.cache[slot].entry,
            None => self.leaving(line),
        };
        if busy != NONE {
            self.apply(ctx, busy, Event::Snp(snoop), message);
            return;
        }
        let held = slot.map_or(Line::I, |slot| self.cache[slot].line);
        let Some((next, actions)) = step(LineState::stable(held), Event::Snp(snoop)) else {
            panic!("a snoop in {held:?} breaks CXL.cache")
        };
        self.hmc.snooped_modified += u64::from(held == Line::M);
        for action in actions.iter() {
            match action {
                Action::Answer(answer) => self.send(ctx, line, answer.opcode(), 0, message, false),
                Action::SnoopData => self.send(ctx, line, Opcode::D2hData, 0, message, false),
                _ => {}
            }
        }
        if let Some(slot) = slot {
            self.cache[slot].line = next.line;
            if next.line == Line::I {
                self.cache.remove(slot);
                self.changed(ctx, line);
            }
        }
    }

    /// Snoops that waited for atomic operations.
    pub(super) fn take_delayed(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        let mut at = 0;
        while at < self.delayed.len() {
            if self.delayed[at].0 <= now {
                let (_, message) = self.delayed.remove(at);
                self.snooped(ctx, &message);
            } else {
                at += 1;
            }
        }
    }

    /// A message has come for an entry.
    ///
    /// # Panics
    /// If the table says nothing: it broke the protocol, which is our own mistake.
    fn apply(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, event: Event, message: &Message) {
        let entry = &mut self.entries[id as usize];
        assert!(entry.used, "a message for a CQID that is free");
        let Some((next, actions)) = step(entry.state, event) else {
            panic!("{event:?} in {:?} breaks CXL.cache", entry.state)
        };
        entry.state = next;
        if matches!(event, Event::Snp(_)) {
            entry.snoop = message.cache.uqid;
        }
        for action in actions.iter() {
            self.act(ctx, id, action, Some(message));
        }
        if next.is_settled() {
            self.settle(ctx, id);
        }
    }

    /// Does what the table says of an entry.
    fn act(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        id: u32,
        action: Action,
        message: Option<&Message>,
    ) {
        let Entry {
            line, slot, snoop, ..
        } = self.entries[id as usize];
        match (action, message) {
            (Action::Send(request), _) => self.ask(ctx, id, line, request),
            (Action::Answer(answer), Some(message)) => {
                self.send(ctx, line, answer.opcode(), id, message, false);
            }
            (Action::SnoopData, Some(message)) => {
                let mut to = *message;
                to.cache.uqid = snoop;
                self.send(ctx, line, Opcode::D2hData, id, &to, false);
            }
            (Action::WriteData, Some(message)) => {
                let first = self.entries[id as usize].first;
                if first != NONE {
                    let access = self.waiters[first as usize].access;
                    self.perform(&access, false);
                }
                self.send(ctx, line, Opcode::D2hData, id, message, false);
            }
            (Action::EvictData, Some(message)) => {
                self.send(ctx, line, Opcode::D2hData, id, message, false);
            }
            (Action::BogusData, Some(message)) => {
                self.send(ctx, line, Opcode::D2hData, id, message, true);
            }
            (Action::CompleteStore, None) => {
                // A push of a line that the cache owns: it is stored here, and given up.
                if let Some(waiter) = self.take_first(id) {
                    self.lanes.used(0, line);
                    self.perform(&waiter.access, true);
                    let at = ctx.now() + self.cycles(self.params.cache.hit_cycles);
                    let answer = Answer::by_cache(SimTime(waiter.begun), at);
                    self.over(ctx, &waiter.access, answer);
                }
            }
            (Action::CompleteLoad | Action::CompleteStore, Some(message)) => {
                self.complete(ctx, id, message, true);
            }
            (Action::CompleteFlush, _) if self.entries[id as usize].flip => self.flipped(line),
            (Action::CompleteWrite | Action::CompleteFlush, Some(message)) => {
                self.complete(ctx, id, message, false);
            }
            (Action::Drop, _) if slot.is_some() => self.changed(ctx, line),
            _ => {}
        }
    }

    /// The access that an entry was made for is answered by a message.
    fn complete(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, message: &Message, performs: bool) {
        let Some(Waiter { access, begun, .. }) = self.take_first(id) else {
            return;
        };
        let now = ctx.now();
        let mut at = now;
        if access.kind == AccessKind::Atomic {
            at += self.cycles(self.params.atomic_cycles);
            if let Some(slot) = self.entries[id as usize].slot {
                self.cache[slot].locked = at.0;
            }
        }
        if performs {
            self.lanes.filled(0, access.line());
            self.perform(&access, true);
            if self.lanes.waits_on(&access) {
                self.spinning.push((access.line(), access));
                return;
            }
        }
        let total = at.0 - begun;
        let ends = (self.params.egress() + self.params.ingress()).0 + (at - now).0;
        let mut stages = stages_of(&message.stages, ends.min(total), 0);
        let sum: u64 = stages.iter().sum();
        if sum <= total {
            stages[QUEUE] += total - sum;
        } else {
            // It waited for an earlier access's request, which had begun before.
            stages = Default::default();
            stages[QUEUE] = total;
        }
        debug_assert!(stages[PROCESS] <= total);
        let answer = Answer {
            begun: SimTime(begun),
            at,
            device: cxlab_agent::LOCAL,
            hops: message.hops,
            stages,
        };
        self.over(ctx, &access, answer);
        if access.kind.writes() {
            self.changed(ctx, access.line());
        }
    }

    /// Nothing is under way for a line any more.
    fn settle(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        let Entry {
            line,
            state,
            slot,
            first,
            ..
        } = self.entries[id as usize];
        match slot {
            Some(slot) => {
                self.cache[slot].entry = NONE;
                self.cache[slot].line = state.line;
                if state.line != Line::I {
                    self.lanes.filled(0, line);
                }
                self.cache.unpin(slot);
                if state.line == Line::I {
                    self.cache.remove(slot);
                }
            }
            None => self.leaving.retain(|other| *other != id),
        }
        self.entries[id as usize].used = false;
        self.free.push(id);
        let mut place = first;
        while place != NONE {
            let Waiter {
                access,
                begun,
                next,
            } = self.waiters[place as usize];
            self.free_waiters.push(place);
            place = next;
            self.again(ctx, access, SimTime(begun));
        }
        self.retry(ctx);
    }

    /// An access that waited looks again.
    pub(super) fn again(&mut self, ctx: &mut Ctx<'_, Parcel>, access: Access, begun: SimTime) {
        if access.addr >= cxlab_workload::thread::SCRATCH_BASE {
            return self.buffered(ctx, &access, begun);
        }
        if self.look(ctx, &access, begun, false) == Found::Blocked {
            self.postponed.push_back((access, begun.0));
        }
    }

    /// A CQID or a way has become free.
    fn retry(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        for _ in 0..self.postponed.len() {
            if let Some((access, begun)) = self.postponed.pop_front() {
                self.again(ctx, access, SimTime(begun));
            }
        }
        let mut blocked = std::mem::take(&mut self.blocked);
        for lane in blocked.drain(..) {
            self.wake_lane(ctx, lane as usize, ctx.now());
        }
        if self.blocked.is_empty() {
            self.blocked = blocked;
        }
    }

    /// A line may have another value now: who spins on it looks again.
    pub(super) fn changed(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.spinning.is_empty() {
            return;
        }
        let (look, keep): (Vec<_>, Vec<_>) =
            self.spinning.drain(..).partition(|(on, _)| *on == line);
        self.spinning = keep;
        for (_, access) in look {
            self.postponed
                .push_back((access, self.lanes.issued(access.op).0));
        }
        ctx.wake_at(ctx.now(), super::RETRY);
    }

    /// Accesses that could not go on try again.
    pub(super) fn take_postponed(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.retry(ctx);
    }

    fn ask(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, line: LineAddr, request: Request) {
        let push = request == Request::DirtyEvictPush;
        self.hmc.pushes += u64::from(push || request == Request::ItoMWr);
        self.roots.send(
            ctx,
            Message {
                hpa: Hpa(line.0 * LINE_BYTES),
                issued_ps: ctx.now().0,
                stages: LatencyStages::default(),
                tag: id,
                source: self.port_id,
                destination: self.host,
                opcode: request.opcode(),
                vc: 0,
                hops: 0,
                meta: MemMeta::NONE,
                cache: CacheMeta {
                    push,
                    ..CacheMeta::NONE
                },
                lines: 1,
                data: 0,
            },
        );
    }

    /// Answers a message of the host, to the UQID that it names.
    fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        opcode: Opcode,
        tag: u32,
        to: &Message,
        bogus: bool,
    ) {
        self.roots.send(
            ctx,
            Message {
                hpa: Hpa(line.0 * LINE_BYTES),
                issued_ps: ctx.now().0,
                stages: LatencyStages::default(),
                tag,
                source: self.port_id,
                destination: to.source,
                opcode,
                vc: 0,
                hops: 0,
                meta: MemMeta::NONE,
                cache: CacheMeta {
                    uqid: to.cache.uqid,
                    bogus,
                    ..CacheMeta::NONE
                },
                lines: 1,
                data: 0,
            },
        );
    }
}

/// Whether what is under way ends without a copy: a write into the host, or a flush.
fn is_write(line: Line) -> bool {
    matches!(
        line,
        Line::IwA | Line::IuA | Line::IvA | Line::IfA | Line::IcD
    )
}

/// What an access asks of the table.
fn event_of(access: &Access, held: Line) -> Event {
    match access.kind {
        AccessKind::Load | AccessKind::Prefetch => Event::Load,
        AccessKind::Store if access.is_whole() => Event::StoreLine,
        AccessKind::Store | AccessKind::Atomic => Event::Store,
        AccessKind::Push => Event::Push,
        AccessKind::Flush if held == Line::I => Event::Flush,
        AccessKind::Flush | AccessKind::WriteBack | AccessKind::Demote => Event::Evict,
    }
}
