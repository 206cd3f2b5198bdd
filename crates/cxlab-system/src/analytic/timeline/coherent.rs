//! Coherence of HDM-DB memory that guests share: the tables of requester and DCOH, and the snoop
//! filter, driven for one request at a time.
//!
//! A request takes effect when it is issued, with all its snoops and write-backs. Its messages then
//! say how long it takes: each takes the constant stages of its path, the request itself
//! also waits for links, and the medium serves its read like any other. The caller issues no request
//! of a line while another of that line is outstanding, as a DCOH does (`cxlab_protocol::coherence`).
//!
//! Left out: links wait for no snoop, response to a snoop, or completion without data, and these
//! wait for no link. A host answers a snoop without a lookup time of its own. Lines that the victim policy
//! evicts as a block are snooped one by one, at one time.

use std::collections::BTreeMap;

use cxlab_cache::{SetRoom, TagArray};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Dpa, LINE_BYTES, LineAddr};
use cxlab_plan::{Plan, Problem};
use cxlab_protocol::coherence::dcoh::{self, Filter, LineState, Operation, Peer};
use cxlab_protocol::coherence::message::{M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Line};

use super::{ComingRequest, GuestLine, NOBODY, PlanMemory, travel};

/// The snoop filter of a device, and the states of its lines in guests.
pub(super) struct Home {
    filter: TagArray<Filter>,
    lookup_ps: u64,
    /// By guest and line: I (absent), S, E or M.
    held: BTreeMap<(usize, u64), Line>,
}

/// Counts of a guest's traffic with devices that keep their memory coherent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SnoopCounts {
    /// Back-invalidation snoops that the guest received.
    pub snoops: u64,
    /// Copies that it lost by them.
    pub invalidated: u64,
    /// Modified lines that it wrote back because of them.
    pub written_back: u64,
}

/// When a request completes.
#[derive(Clone, Copy)]
enum CompletionRule {
    /// Without the medium, at this time.
    At(u64),
    /// When the medium has read the line; the read arrives there at this time.
    Read(u64),
}

#[derive(Clone, Copy)]
enum Message {
    ToHome(Peer, M2s),
    Snoop(Peer, Snoop),
    Response(Peer, S2m),
}

/// A request, or the eviction of a filter entry, while it takes effect.
struct Operating {
    /// Number of the medium, and so of the home.
    medium: usize,
    line: LineAddr,
    /// The guest whose request it is; `None` for an eviction of the filter.
    origin: Option<Peer>,
    home: LineState,
    /// States of the line in guests, as far as messages have involved them.
    peers: BTreeMap<usize, requester::LineState>,
    /// Messages in flight with their times of arrival, in the order in which they were sent.
    flying: Vec<(u64, Message)>,
    /// Time of the last event so far.
    last_ps: u64,
    ends: Option<CompletionRule>,
}
impl Operating {
    fn send(&mut self, at: u64, message: Message) {
        self.flying.push((at, message));
    }
}

impl Home {
    /// The home of a device's lines, all invalid.
    ///
    /// # Errors
    /// A filter or victim policy that cannot be built. The plan has checked both.
    pub(super) fn new(plan: &Plan, device: usize, seed: u64) -> Result<Home, Vec<Problem>> {
        let number = plan.devices[device].memory().unwrap_or_default();
        let path = format!("devices[{number}].coherence");
        let coherence = &plan.scenario.devices[number].coherence;
        let refused = |error: &dyn std::fmt::Display| {
            Problem::new(format!("{path}.filter.lines"), error.to_string())
        };
        let geometry = coherence
            .filter
            .geometry()
            .map_err(|error| vec![refused(&error)])?;
        let refused = |error| vec![Problem::of_param(&format!("{path}.victim"), error)];
        let policy = coherence.victim.build().map_err(refused)?;
        let name = &plan.devices[device].name;
        let rng = StreamRng::new(seed, &format!("{name}/filter"));
        Ok(Home {
            filter: TagArray::new(geometry, policy.as_ref(), rng),
            lookup_ps: coherence.filter.lookup_time.0,
            held: BTreeMap::new(),
        })
    }

    fn held(&self, guest: usize, line: LineAddr) -> Line {
        self.held.get(&(guest, line.0)).copied().unwrap_or_default()
    }

    fn begin(&self, medium: usize, line: LineAddr, origin: Option<Peer>, at: u64) -> Operating {
        let filter = self.filter.find(line).map(|slot| self.filter[slot]);
        Operating {
            medium,
            line,
            origin,
            home: LineState::idle(filter.unwrap_or_default()),
            peers: BTreeMap::new(),
            flying: Vec::new(),
            last_ps: at,
            ends: None,
        }
    }

    /// Stores the new states of guests and snoop filter.
    fn end(&mut self, done: &Operating) {
        assert!(!done.home.is_busy(), "an operation is left in the home");
        let line = done.line;
        for (guest, state) in &done.peers {
            assert!(state.is_settled(), "a request is left in guest {guest}");
            match state.line {
                Line::I => self.held.remove(&(*guest, line.0)),
                held => self.held.insert((*guest, line.0), held),
            };
        }
        match (self.filter.find(line), done.home.filter) {
            (None, Filter::Invalid) => {}
            (Some(slot), Filter::Invalid) => {
                self.filter.remove(slot);
            }
            (found, filter) => {
                let slot = found.unwrap_or_else(|| self.filter.insert(line, filter));
                self.filter[slot] = filter;
                self.filter.set_owner(slot, filter.holders().0);
                self.filter.touch(slot);
            }
        }
    }
}

impl PlanMemory {
    /// State of a line of coherent memory in a guest's caches: I, S, E or M.
    pub fn held(&self, line: GuestLine) -> Line {
        let place = self.locate(line);
        let held = place.and_then(|(pool, dpa)| {
            let home = self.homes[self.pools[pool].medium].as_ref()?;
            Some(home.held(line.guest, LineAddr(dpa / LINE_BYTES)))
        });
        held.unwrap_or_default()
    }

    /// Snoops that a guest received so far.
    pub fn snoop_counts(&self, guest: usize) -> SnoopCounts {
        self.snoops[guest]
    }

    /// Makes a guest's caches load, store, evict or flush a line of coherent memory. Returns the
    /// number of the request that this takes. A hit and the eviction of a clean copy take none.
    pub fn demand(&mut self, at_ps: u64, line: GuestLine, event: requester::Event) -> Option<u32> {
        let (pool, dpa) = self.locate(line)?;
        let medium = self.pools[pool].medium;
        let peer = Peer::new(line.guest)?;
        let home = self.homes[medium].as_ref()?;
        let mut operating = home.begin(medium, LineAddr(dpa / LINE_BYTES), Some(peer), at_ps);
        self.step_guest(&mut operating, at_ps, peer, event);
        let sent = !operating.flying.is_empty();
        self.deliver(&mut operating);
        if !sent {
            return None;
        }
        let ticket = self.ticket(pool, false);
        match operating.ends {
            Some(CompletionRule::Read(at)) => self.media[medium].come(ComingRequest {
                at,
                ticket,
                dpa: Dpa(dpa % self.pools[pool].capacity),
                write: false,
            }),
            Some(CompletionRule::At(at)) => self.requests[ticket as usize].2 = at,
            None => unreachable!("a request that never ends: {event:?}"),
        }
        Some(ticket)
    }

    /// Delivers all messages in the order of their times, and stores the result.
    fn deliver(&mut self, operating: &mut Operating) {
        let first = |flying: &[(u64, Message)]| {
            let times = flying.iter().enumerate().map(|(at, one)| (one.0, at));
            times.min().map(|(_, at)| at)
        };
        while let Some(next) = first(&operating.flying) {
            let (at, message) = operating.flying.remove(next);
            operating.last_ps = operating.last_ps.max(at);
            match message {
                Message::ToHome(peer, message) => self.step_home(operating, at, peer, message),
                Message::Snoop(peer, snoop) => {
                    self.step_guest(operating, at, peer, requester::Event::BiSnp(snoop));
                }
                Message::Response(peer, response) => {
                    self.step_guest(operating, at, peer, requester::Event::Response(response));
                }
            }
        }
        if let Some(home) = self.homes[operating.medium].as_mut() {
            home.end(operating);
        }
    }

    /// Applies an event to a guest's table.
    fn step_guest(
        &mut self,
        operating: &mut Operating,
        at: u64,
        peer: Peer,
        event: requester::Event,
    ) {
        let known = operating.peers.get(&peer.index()).copied();
        let before = known.unwrap_or_else(|| {
            let home = self.homes[operating.medium].as_ref();
            let held = home.map(|home| home.held(peer.index(), operating.line));
            requester::LineState::stable(held.unwrap_or_default())
        });
        let Some((next, actions)) = requester::step(before, event) else {
            unreachable!("no row for {event:?} in {before:?}")
        };
        operating.peers.insert(peer.index(), next);
        let counts = &mut self.snoops[peer.index()];
        let had_copy = matches!(before.line, Line::S | Line::E | Line::M);
        if let requester::Event::BiSnp(_) = event {
            counts.snoops += 1;
            counts.written_back += u64::from(before.line == Line::M);
            counts.invalidated += u64::from(had_copy && matches!(next.line, Line::I | Line::MiA));
        }
        for action in actions.iter() {
            if let requester::Action::Send(message) = action {
                let data = usize::from(matches!(message, M2s::MemWr(_)));
                // Only the request itself waits for links.
                let request = operating.origin == Some(peer) && known.is_none();
                let arrival = self.arrival(operating.medium, peer, data, at, request);
                operating.send(arrival, Message::ToHome(peer, message));
            }
        }
        let answered = matches!(event, requester::Event::Response(_)) && next.is_settled();
        if answered && operating.origin == Some(peer) {
            operating.ends.get_or_insert(CompletionRule::At(at));
        }
    }

    /// When a message of a guest is processed by the home.
    fn arrival(&mut self, medium: usize, peer: Peer, data: usize, at: u64, waits: bool) -> u64 {
        let lookup = self.homes[medium].as_ref().map_or(0, |home| home.lookup_ps);
        let Some(pool) = self.pool_at(medium, peer) else {
            return at;
        };
        let leg = &self.pools[pool].there[data];
        let arrival = match waits {
            true => travel(&mut self.busy, leg, at),
            false => at + leg.constant_ps,
        };
        arrival + lookup
    }

    /// Constant time of a message without data from the home to a guest.
    fn back_ps(&self, medium: usize, peer: Peer) -> u64 {
        let pool = self.pool_at(medium, peer);
        pool.map_or(0, |pool| self.pools[pool].back[1].constant_ps)
    }

    fn pool_at(&self, medium: usize, peer: Peer) -> Option<usize> {
        let mut pools = self.guests.get(peer.index())?.pools.clone();
        pools.find(|pool| self.pools[*pool].medium == medium)
    }

    /// Applies a message to the home's table.
    fn step_home(&mut self, operating: &mut Operating, at: u64, peer: Peer, message: M2s) {
        let mut at = at;
        if Operation::of(message).is_some_and(Operation::allocates) {
            at = self.make_room(operating, at);
        }
        let event = dcoh::Event::Message(peer, message);
        let Some((next, actions)) = dcoh::step(operating.home, event) else {
            unreachable!("no row for {event:?} in {:?}", operating.home)
        };
        operating.home = next;
        self.perform(operating, at, &actions);
    }

    /// Frees an entry of the filter for a line, if it needs one and none is free. Returns the time
    /// at which the line has an entry.
    fn make_room(&mut self, operating: &Operating, at: u64) -> u64 {
        let (medium, line) = (operating.medium, operating.line);
        let mut free = at;
        loop {
            let Some(home) = self.homes[medium].as_mut() else {
                return free;
            };
            let room = match home.filter.find(line) {
                Some(_) => SetRoom::Free,
                None => home.filter.room(line),
            };
            let SetRoom::Evict(block) = room else {
                return free;
            };
            for victim in block.iter() {
                let Some(home) = self.homes[medium].as_ref() else {
                    return free;
                };
                let mut evicting = home.begin(medium, victim, None, at);
                let event = dcoh::Event::EvictEntry;
                let Some((next, actions)) = dcoh::step(evicting.home, event) else {
                    unreachable!("a victim has holders")
                };
                evicting.home = next;
                self.perform(&mut evicting, at, &actions);
                self.deliver(&mut evicting);
                free = free.max(evicting.last_ps);
            }
        }
    }

    fn perform(&mut self, operating: &mut Operating, at: u64, actions: &dcoh::Actions) {
        for action in actions.iter() {
            match action {
                dcoh::Action::Snoop(snoop, peers) => {
                    for peer in peers.iter() {
                        let arrival = at + self.back_ps(operating.medium, peer);
                        operating.send(arrival, Message::Snoop(peer, snoop));
                    }
                }
                dcoh::Action::ReadMedium => self.read_medium(operating, at),
                dcoh::Action::WriteMedium => self.media[operating.medium].come(ComingRequest {
                    at,
                    ticket: NOBODY,
                    dpa: Dpa(operating.line.0 * LINE_BYTES),
                    write: true,
                }),
                dcoh::Action::Respond(peer, response) => {
                    let arrival = at + self.back_ps(operating.medium, peer);
                    operating.send(arrival, Message::Response(peer, response));
                }
                dcoh::Action::WriteLocal | dcoh::Action::CompleteLocal => {
                    unreachable!("a Type 3 device has no agent of its own")
                }
            }
        }
    }

    /// The medium's read takes effect at once. The request ends when the read does.
    fn read_medium(&mut self, operating: &mut Operating, at: u64) {
        operating.ends = Some(CompletionRule::Read(at));
        let Some((next, actions)) = dcoh::step(operating.home, dcoh::Event::MediumData) else {
            unreachable!("no row for data in {:?}", operating.home)
        };
        operating.home = next;
        for action in actions.iter() {
            if let dcoh::Action::Respond(peer, response) = action {
                self.step_guest(operating, at, peer, requester::Event::Response(response));
            }
        }
    }
}
