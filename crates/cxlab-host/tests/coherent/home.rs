//! A home that follows the table of the DCOH, with a filter smaller than the working set, random times, and
//! either order of completion and data. The home also serves HDM-H memory.

use std::collections::{BTreeMap, VecDeque};

use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Hpa, LineAddr, Picos};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::dcoh::{Action, Event, Filter, LineState, Operation, Peer, step};
use cxlab_protocol::coherence::host_only;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::{CacheMeta, Channel, LongStage, MemMeta, Message, Opcode, PortId};
use cxlab_testkit::{self as kit, Endpoint, Schedule, end};

use crate::harness::{DEVICE, HDM_H};

/// An action at a later time.
enum Later {
    Send(u16, Message),
    Medium(u64),
}

pub struct Home {
    ends: Vec<Endpoint>,
    rng: StreamRng,
    slowness: u64,
    capacity: usize,
    /// Whether one message may snoop two neighbouring lines.
    blocks: bool,
    pub lines: BTreeMap<u64, LineState>,
    pub memory: BTreeMap<u64, u16>,
    /// Requests without a response, by requester and line, with their times of arrival.
    asked: BTreeMap<(u16, u64), (Message, u64)>,
    /// Requests that wait for their line or an entry, in order of arrival.
    waiting: VecDeque<(u16, Message)>,
    later: Schedule<Later>,
    /// Time of the last completion to each requester: completions keep their order.
    last_ndr: Vec<u64>,
    pub blocks_sent: u64,
}

const LATER: u32 = 1 << 20;

fn peer(number: u16) -> Peer {
    Peer::new(usize::from(number)).unwrap()
}

impl Home {
    pub fn new(hosts: u16, credits: u8, seed: u64, capacity: usize, blocks: bool) -> Home {
        let mut rng = StreamRng::new(seed, "home");
        let link = kit::link(kit::credits(credits));
        Home {
            ends: (0..hosts)
                .map(|port| Endpoint::new(end(&link, port, Picos::ZERO, Picos::ZERO)))
                .collect(),
            slowness: [1, 5_000, 60_000][rng.below(3) as usize],
            rng,
            capacity,
            blocks,
            lines: BTreeMap::new(),
            memory: BTreeMap::new(),
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            later: Schedule::new(LATER),
            last_ndr: vec![0; usize::from(hosts)],
            blocks_sent: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.later.is_empty()
            && self.asked.is_empty()
            && self.ends.iter().all(|end| end.outbox.is_empty())
            && self.lines.values().all(|line| !line.is_busy())
    }

    pub fn filter(&self, line: u64) -> Filter {
        self.lines
            .get(&line)
            .map_or(Filter::Invalid, |line| line.filter)
    }

    pub fn entries(&self) -> usize {
        self.lines
            .values()
            .filter(|line| line.needs_entry())
            .count()
    }

    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let number = usize::from(port);
        self.ends[number].link.receive(parcel);
        if let Some(message) = parcel.message {
            self.ends[number].release(ctx, &message);
            self.take(ctx, port, message);
            self.retry(ctx);
        }
        self.ends[number].pump(ctx, u32::from(port));
    }

    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token != LATER {
            return self.ends[token as usize].wake(ctx, token);
        }
        while let Some(what) = self.later.next(ctx.now()) {
            match what {
                Later::Send(port, message) => {
                    self.ends[usize::from(port)].send(ctx, u32::from(port), message);
                }
                Later::Medium(line) => {
                    self.step(ctx, line, Event::MediumData, None);
                    self.retry(ctx);
                }
            }
        }
    }

    fn take(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: Message) {
        let line = message.hpa.0 / 64;
        assert_eq!(message.hpa.0 % 64, 0);
        if line >= HDM_H {
            assert_eq!(message.meta, MemMeta::NONE);
            let row = host_only::step(message.opcode).unwrap();
            if row.access == host_only::Access::Write {
                self.memory.insert(line, message.data);
            }
            return self.reply(ctx, port, row.reply.unwrap(), &message, ctx.now().0);
        }
        if let Some((kept, true)) = KeptCopy::from_opcode(message.opcode) {
            assert_eq!((line % 2, message.lines), (0, 2));
            for line in [line, line + 1] {
                let event = Event::Message(peer(port), M2s::BiRsp(kept));
                self.step(ctx, line, event, Some((port, message)));
            }
            return;
        }
        let meta = message.meta;
        let m2s =
            M2s::from_fields(message.opcode, meta.field(), meta.value(), meta.snoop()).unwrap();
        match message.channel() {
            Channel::M2sReq => {
                let before = self.asked.insert((port, line), (message, ctx.now().0));
                assert_eq!(before, None, "one request a line");
                self.waiting.push_back((port, message));
            }
            Channel::M2sRwd | Channel::M2sBirsp => {
                if m2s == M2s::BiConflict {
                    // Unless the response has been sent and is in flight.
                    if let Some((request, _)) = self.asked.get(&(port, line)) {
                        assert_eq!(request.tag, message.tag);
                    }
                }
                if matches!(m2s, M2s::BiRsp(_)) {
                    assert_eq!(u64::from(message.tag) / 2, line / 2, "the snoop's tag");
                }
                let event = Event::Message(peer(port), m2s);
                self.step(ctx, line, event, Some((port, message)));
            }
            _ => panic!("{message:?}"),
        }
    }

    /// Applies waiting requests to the table, in order of arrival by line.
    fn retry(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let mut blocked: Vec<u64> = vec![];
        let mut at = 0;
        while at < self.waiting.len() {
            let (port, message) = self.waiting[at];
            let line = message.hpa.0 / 64;
            if blocked.contains(&line) || !self.try_request(ctx, port, &message) {
                blocked.push(line);
                at += 1;
            } else {
                self.waiting.remove(at);
            }
        }
    }

    fn try_request(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message) -> bool {
        let line = message.hpa.0 / 64;
        let meta = message.meta;
        let m2s =
            M2s::from_fields(message.opcode, meta.field(), meta.value(), meta.snoop()).unwrap();
        let state = self.lines.entry(line).or_default();
        if state.is_busy() {
            return false;
        }
        let allocates = Operation::of(m2s).is_some_and(Operation::allocates);
        if allocates && !state.needs_entry() && self.entries() >= self.capacity {
            self.evict_one(ctx);
            if self.entries() >= self.capacity {
                return false;
            }
        }
        let event = Event::Message(peer(port), m2s);
        self.step(ctx, line, event, Some((port, *message)));
        true
    }

    /// Recalls a random line that is not busy from its holders.
    fn evict_one(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let held = |line: &LineState| !line.is_busy() && line.filter != Filter::Invalid;
        let victims: Vec<u64> = self
            .lines
            .iter()
            .filter(|(_, state)| held(state))
            .map(|(line, _)| *line)
            .collect();
        if victims.is_empty() {
            return;
        }
        let victim = victims[self.rng.below(victims.len() as u64) as usize];
        let (first, buddy) = (victim & !1, victim ^ 1);
        let same = self.filter(victim).holders() == self.filter(buddy).holders();
        if self.blocks && same && victims.contains(&buddy) {
            for line in [first, first + 1] {
                let (next, _) = step(self.lines[&line], Event::EvictEntry).unwrap();
                self.lines.insert(line, next);
            }
            self.blocks_sent += 1;
            for holder in self.filter(victim).holders().iter() {
                self.send_snoop(ctx, holder, Snoop::Inv.block_opcode(), first, 2);
            }
        } else {
            self.step(ctx, victim, Event::EvictEntry, None);
        }
    }

    fn send_snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        holder: Peer,
        opcode: Opcode,
        line: u64,
        lines: u8,
    ) {
        let snoop = Message {
            hpa: Hpa(line * 64),
            tag: line as u32,
            destination: PortId(holder.index() as u16),
            lines,
            ..crate::harness::snoop(opcode, line, lines)
        };
        let time = ctx.now().0 + self.rng.below(self.slowness);
        self.later
            .at(ctx, time, Later::Send(holder.index() as u16, snoop));
    }

    /// Applies an event of a line to the table and performs its actions. `message` is the message that
    /// caused the event, with its sender.
    fn step(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: u64,
        event: Event,
        message: Option<(u16, Message)>,
    ) {
        let state = *self.lines.entry(line).or_default();
        let (next, actions) =
            step(state, event).unwrap_or_else(|| panic!("{line}: {event:?} in {state:?}"));
        self.lines.insert(line, next);
        for action in actions.iter() {
            match action {
                Action::Snoop(kind, peers) => {
                    for holder in peers.iter() {
                        self.send_snoop(ctx, holder, kind.opcode(), line, 1);
                    }
                }
                Action::ReadMedium => {
                    let time = ctx.now().0 + self.rng.below(self.slowness);
                    self.later.at(ctx, time, Later::Medium(line));
                }
                Action::WriteMedium => {
                    self.memory.insert(line, message.unwrap().1.data);
                }
                Action::Respond(to, reply) => {
                    let to = to.index() as u16;
                    let direct = message.filter(|(from, message)| {
                        *from == to && message.channel() == Channel::M2sRwd
                    });
                    let (request, came) = match direct {
                        Some((_, message)) => (message, ctx.now().0),
                        None => self.asked[&(to, line)],
                    };
                    // Data come after the completion in the table's actions.
                    if direct.is_none() && (reply == S2m::MemData || actions.len() == 1) {
                        self.asked.remove(&(to, line));
                    }
                    self.reply(ctx, to, reply, &request, came);
                }
                Action::WriteLocal | Action::CompleteLocal => panic!("no local accesses"),
            }
        }
    }

    fn reply(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        to: u16,
        reply: S2m,
        request: &Message,
        came: u64,
    ) {
        let line = request.hpa.0 / 64;
        let mut time = ctx.now().0 + self.rng.below(self.slowness);
        if reply != S2m::MemData {
            time = time.max(self.last_ndr[usize::from(to)]);
            self.last_ndr[usize::from(to)] = time;
        }
        let data = match reply {
            S2m::MemData => self.memory.get(&line).copied().unwrap_or(0),
            _ => 0,
        };
        let mut message = Message {
            source: PortId(DEVICE + u16::from(line >= HDM_H)),
            destination: PortId(to),
            opcode: reply.opcode(),
            meta: MemMeta::NONE,
            cache: CacheMeta::NONE,
            hops: 0,
            data,
            ..*request
        };
        message.stages.add(LongStage::Coherence, time - came);
        self.later.at(ctx, time, Later::Send(to, message));
    }

    /// Value of a line in memory.
    pub fn value(&self, line: LineAddr) -> u16 {
        self.memory.get(&line.0).copied().unwrap_or(0)
    }
}
