//! A peer with an unbounded cache that follows the requester's table. Operations are random, at
//! random times, and all messages that the peer sends or receives have random delays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cxlab_engine::Ctx;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::Hpa;
use cxlab_link::{LinkPort, Parcel};
use cxlab_protocol::coherence::block::{BlockResponse, BlockResponses, BlockSnoop};
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{Action, Event, Line, LineState, step};
use cxlab_protocol::{Channel, LongStage, Message};
use cxlab_testkit::{Endpoint, Schedule};

use crate::harness::{PORT, check_response, message, peer_id};

/// Global knowledge of all peers: the history of each line.
#[derive(Default)]
pub struct Oracle {
    /// Values that stores left in each line, starting with 0.
    pub history: BTreeMap<u64, Vec<u16>>,
    pub stores: u16,
    /// Total time of all requests in the stage `coherence`.
    pub coherence: u64,
}

impl Oracle {
    pub fn last(&self, line: u64) -> u16 {
        self.history[&line].last().copied().unwrap()
    }
}

#[derive(Clone, Copy, Default)]
struct Copied {
    state: LineState,
    /// Value of the copy, and value that arrived.
    data: u16,
    arrived: u16,
    /// The snoop that the line owes a response to, and the line's place in the block.
    snoop: Option<(usize, u8)>,
    /// Length of the line's history when a load that does not cache was issued.
    since: usize,
}

struct Job {
    message: Message,
    lines: BlockSnoop,
}

enum Later {
    Send(Message),
    Take(Message),
    Operate,
}

pub struct Cache {
    number: usize,
    endpoint: Endpoint,
    rng: StreamRng,
    slowness: u64,
    operations: u64,
    addresses: Vec<u64>,
    /// Whether some operations continue with the following lines, and the rest of such a burst: the
    /// operation, the index of the next line, and the number of lines left.
    bursts: bool,
    burst: (Event, usize, u64),
    copies: BTreeMap<u64, Copied>,
    jobs: Vec<Job>,
    later: Schedule<Later>,
    last_ndr: u64,
    oracle: Arc<Mutex<Oracle>>,
    pub requests: u64,
    pub answered: u64,
    pub conflicts: u64,
}

const LATER: u32 = 1;

impl Cache {
    pub fn new(
        number: usize,
        link: LinkPort,
        seed: u64,
        operations: u64,
        (addresses, bursts): (Vec<u64>, bool),
        oracle: Arc<Mutex<Oracle>>,
    ) -> Self {
        let mut rng = StreamRng::new(seed, &format!("cache{number}"));
        Cache {
            number,
            endpoint: Endpoint::new(link),
            slowness: [1, 5_000, 60_000][rng.below(3) as usize],
            rng,
            operations,
            copies: addresses
                .iter()
                .map(|line| (*line, Copied::default()))
                .collect(),
            addresses,
            bursts,
            burst: (Event::Load, 0, 0),
            jobs: vec![],
            later: Schedule::new(LATER),
            last_ndr: 0,
            oracle,
            requests: 0,
            answered: 0,
            conflicts: 0,
        }
    }

    /// Whether the holder may load from, and store to, its copy of a line.
    pub fn rights(&self, line: u64) -> (bool, bool) {
        match self.copies[&line].state.line {
            Line::S | Line::SmA | Line::MsA => (true, false),
            Line::E | Line::M | Line::MeA => (true, true),
            _ => (false, false),
        }
    }

    pub fn line(&self, line: u64) -> (Line, u16) {
        (self.copies[&line].state.line, self.copies[&line].data)
    }

    pub fn is_idle(&self) -> bool {
        self.operations == 0
            && self.later.is_empty()
            && self.endpoint.outbox.is_empty()
            && self.copies.values().all(|copy| copy.state.is_settled())
    }

    pub fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.later.at(ctx, 1, Later::Operate);
    }

    pub fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, parcel: &Parcel) {
        self.endpoint.credits(ctx, PORT, parcel);
        let Some(message) = parcel.message else {
            return;
        };
        check_response(ctx.now(), &message);
        assert_eq!(message.destination, peer_id(self.number));
        let mut time = ctx.now().0 + self.rng.below(self.slowness);
        if message.channel() == Channel::S2mNdr {
            time = time.max(self.last_ndr);
            self.last_ndr = time;
        }
        self.later.at(ctx, time, Later::Take(message));
    }

    pub fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token == PORT {
            return self.endpoint.wake(ctx, PORT);
        }
        while let Some(what) = self.later.next(ctx.now()) {
            match what {
                Later::Send(mut message) => {
                    message
                        .stages
                        .add(LongStage::SwitchQueue, ctx.now().0 - message.issued_ps);
                    self.endpoint.send(ctx, PORT, message);
                }
                Later::Take(message) => {
                    self.endpoint.release(ctx, &message);
                    self.take(ctx, &message);
                }
                Later::Operate => self.operate(ctx),
            }
        }
    }

    /// Tries one operation, and schedules the next.
    fn operate(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.operations -= 1;
        let (mut event, mut place, left) = self.burst;
        if left == 0 {
            place = self.rng.below(self.addresses.len() as u64) as usize;
            event = match self.rng.below(10) {
                0..3 => Event::Load,
                3..6 => Event::Store,
                6 => Event::LoadShared,
                7 => Event::Evict,
                8 => [Event::LoadOnce, Event::Flush][self.rng.below(2) as usize],
                _ => Event::EvictSilently,
            };
            if self.bursts && self.rng.below(4) > 0 {
                // Four lines of a block.
                place &= !3;
                event = match event {
                    Event::EvictSilently => Event::LoadOnce,
                    other => other,
                };
                self.burst.2 = 4;
            }
        }
        let line = self.addresses[place];
        let left = self.burst.2.saturating_sub(1);
        self.burst = (event, (place + 1) % self.addresses.len(), left);
        if event == Event::LoadOnce {
            let history = self.oracle.lock().unwrap().history[&line].len();
            let copy = self.copies.get_mut(&line).unwrap();
            if copy.state == LineState::stable(Line::I) {
                copy.since = history;
            }
        }
        self.step(ctx, line, event);
        if self.operations > 0 {
            let span = if left > 0 { 1_000 } else { 20_000 };
            let time = ctx.now().0 + 1 + self.rng.below(span);
            self.later.at(ctx, time, Later::Operate);
        }
    }

    fn take(&mut self, ctx: &mut Ctx<'_, Parcel>, message: &Message) {
        let line = message.hpa.0 / 64;
        let Some((kind, _)) = Snoop::from_opcode(message.opcode) else {
            assert_eq!(
                u64::from(message.tag),
                line,
                "the request's tag and address"
            );
            let response = S2m::from_opcode(message.opcode).unwrap();
            self.answered += u64::from(response != S2m::BiConflictAck);
            if message.channel() == Channel::S2mNdr {
                self.oracle.lock().unwrap().coherence += message.stages.of(LongStage::Coherence);
            }
            if response == S2m::MemData {
                self.copies.get_mut(&line).unwrap().arrived = message.data;
            }
            assert!(self.step(ctx, line, Event::Response(response)));
            return;
        };
        let lines = BlockSnoop::new(kind, message.lines).unwrap();
        self.jobs.push(Job {
            message: *message,
            lines,
        });
        let job = self.jobs.len() - 1;
        for place in 0..message.lines {
            let line = line + u64::from(place);
            let copy = self.copies.get_mut(&line).unwrap();
            assert_eq!(copy.snoop, None, "one snoop a line");
            copy.snoop = Some((job, place));
            assert!(self.step(ctx, line, Event::BiSnp(kind)));
        }
    }

    /// Applies an event to a line; false if the table has no row for it.
    fn step(&mut self, ctx: &mut Ctx<'_, Parcel>, line: u64, event: Event) -> bool {
        let copy = self.copies.get_mut(&line).unwrap();
        let Some((next, actions)) = step(copy.state, event) else {
            assert!(event.is_local(), "{event:?} in {:?}", copy.state);
            return false;
        };
        copy.state = next;
        for action in actions.iter() {
            let copy = self.copies.get_mut(&line).unwrap();
            let mut oracle = self.oracle.lock().unwrap();
            let last = oracle.last(line);
            match action {
                Action::Fill => copy.data = copy.arrived,
                Action::Drop => copy.data = u16::MAX,
                Action::CompleteLoad => assert_eq!(copy.data, last, "load of {line}"),
                Action::CompleteLoadOnce => {
                    let seen = &oracle.history[&line][copy.since - 1..];
                    assert!(seen.contains(&copy.arrived), "load once of {line}");
                }
                Action::CompleteStore => {
                    assert_eq!(copy.data, last, "a store goes to the last value");
                    oracle.stores += 1;
                    copy.data = oracle.stores;
                    oracle.history.get_mut(&line).unwrap().push(copy.data);
                }
                Action::CompleteFlush => {}
                Action::Send(what) => {
                    drop(oracle);
                    self.send(ctx, line, what);
                }
            }
        }
        true
    }

    fn send(&mut self, ctx: &mut Ctx<'_, Parcel>, line: u64, what: M2s) {
        match what {
            M2s::BiRsp(kept) => {
                let copy = self.copies.get_mut(&line).unwrap();
                let (job, place) = copy.snoop.take().unwrap();
                let answers = self.jobs[job].lines.respond(place, kept);
                return self.answer(ctx, job, &answers);
            }
            M2s::BiConflict => {
                self.conflicts += 1;
                let (job, _) = self.copies[&line].snoop.unwrap();
                let answers = self.jobs[job].lines.conflict();
                self.answer(ctx, job, &answers);
            }
            _ => {
                let reads = matches!(
                    what,
                    M2s::MemRdData | M2s::MemRdShared | M2s::MemRdOwn | M2s::MemRdCur
                );
                self.requests += 1 + u64::from(reads);
            }
        }
        let message = Message {
            data: match what {
                M2s::MemWr(_) => self.copies[&line].data,
                _ => 0,
            },
            ..message(what, line)
        };
        self.later(ctx, message);
    }

    fn later(&mut self, ctx: &mut Ctx<'_, Parcel>, message: Message) {
        let message = Message {
            source: peer_id(self.number),
            issued_ps: ctx.now().0,
            ..message
        };
        let time = ctx.now().0 + self.rng.below(self.slowness);
        self.later.at(ctx, time, Later::Send(message));
    }

    fn answer(&mut self, ctx: &mut Ctx<'_, Parcel>, job: usize, answers: &BlockResponses) {
        let snoop = self.jobs[job].message;
        for answer in answers.iter() {
            let (place, kept, lines) = match answer {
                BlockResponse::Line(place, kept) => (u64::from(place), kept, 1),
                BlockResponse::Block(kept) => (0, kept, snoop.lines),
            };
            let opcode = match lines {
                1 => kept.opcode(),
                _ => kept.block_opcode(),
            };
            let response = Message {
                hpa: Hpa(snoop.hpa.0 + 64 * place),
                tag: snoop.tag,
                opcode,
                lines,
                ..message(M2s::BiRsp(KeptCopy::Invalid), 0)
            };
            self.later(ctx, response);
        }
    }
}
