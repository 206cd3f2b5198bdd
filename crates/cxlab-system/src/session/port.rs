//! An external port: the requests that it was given and that have not completed.

use std::borrow::Cow;
use std::collections::VecDeque;

use cxlab_engine::units::{Bytes, LINE_BYTES, SimTime};
use cxlab_host::{CacheSnoop, Failure, RequestRow};
use cxlab_plan::Plan;
use serde::{Deserialize, Serialize};

/// Name, limits and memory of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortInfo<'a> {
    /// Name of the host.
    pub name: &'a str,
    /// Size of the memory that the port reaches, from address 0 on.
    pub span: Bytes,
    /// Most requests that wait at the port.
    pub depth: u32,
    /// Most lines in flight.
    pub outstanding: u32,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum Outcome {
    /// Data came, or the write was done. The caches of a snooped program may change the line.
    Served,
    /// Data came, and other caches may have the line: those of a snooped program may keep it and not change it.
    Shared,
    /// The device had no decoder for the address.
    Denied,
    /// The data are corrupted.
    Poisoned,
    /// No path leads to the device.
    CutOff,
    /// No response came in time.
    TimedOut,
}

impl Outcome {
    fn of(row: &RequestRow, snooped: bool) -> Outcome {
        match row.failure {
            None if row.denied => Outcome::Denied,
            None if row.shared && snooped => Outcome::Shared,
            None => Outcome::Served,
            Some(Failure::Poisoned) => Outcome::Poisoned,
            Some(Failure::CutOff) => Outcome::CutOff,
            Some(Failure::TimedOut) => Outcome::TimedOut,
        }
    }
}

/// A request that has completed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Completion {
    /// As in the submission.
    pub id: u64,
    /// Number of the port.
    pub port: u32,
    /// When the request was issued: its first line, if it has several.
    pub issued: SimTime,
    /// When the request completed: its last line.
    pub completed: SimTime,
    /// How the request ended: the worst outcome of its lines.
    pub outcome: Outcome,
}

/// A snoop of the caches of a program.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Snoop {
    /// Number of the snoop at its port, which the answer names.
    pub id: u64,
    /// Number of the port.
    pub port: u32,
    /// First byte of the line, as in a submission.
    pub address: u64,
    /// Whether the caches give the line up. Otherwise they may keep it, but change it no more.
    pub invalidate: bool,
    /// When the snoop comes: after the requests that completed at this time or before.
    pub time: SimTime,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct PendingRequest {
    id: u64,
    /// Number of the first line, by the host's count.
    first: u64,
    issued: u64,
    lines: u8,
    outcome: Outcome,
}

pub(super) struct Port {
    /// Number of the host.
    pub(super) host: usize,
    /// When the host begins to issue.
    pub(super) begins: SimTime,
    pub(super) last: SimTime,
    /// Requests that have not completed, by slot; and the free slots.
    requests: Vec<PendingRequest>,
    free: Vec<u32>,
    /// The slot of the request of each line that was given to the host, by the host's count of lines from
    /// `first_line` on; [`DONE`] for a line that has completed.
    lines: VecDeque<u32>,
    first_line: u64,
    /// Whether the program has caches above the port.
    snooped: bool,
    /// Snoops that were not answered, by number, and the number of the next one.
    unanswered: Vec<(u64, CacheSnoop)>,
    next_snoop: u64,
}

/// Stands for the slot of a line that has completed.
const DONE: u32 = u32::MAX;

#[derive(Serialize, Deserialize)]
pub(super) struct SavedPort<'a> {
    last: SimTime,
    requests: Cow<'a, [PendingRequest]>,
    free: Cow<'a, [u32]>,
    lines: Cow<'a, VecDeque<u32>>,
    first_line: u64,
    unanswered: Cow<'a, [(u64, CacheSnoop)]>,
    next_snoop: u64,
}

impl Port {
    pub(super) fn new(plan: &Plan, host: usize, begun: SimTime) -> Port {
        Port {
            host,
            begins: begun + plan.hosts[host].joins,
            last: begun,
            requests: Vec::new(),
            free: Vec::new(),
            lines: VecDeque::new(),
            first_line: 0,
            snooped: plan.scenario.hosts[plan.hosts[host].group].snooped,
            unanswered: Vec::new(),
            next_snoop: 0,
        }
    }

    /// Whether the port has ever been given a request.
    pub(super) fn was_used(&self) -> bool {
        self.first_line > 0 || !self.lines.is_empty()
    }

    /// Records a request of `lines` lines, which follow the last line in the host's count.
    pub(super) fn enter(&mut self, id: u64, lines: u8) {
        let request = PendingRequest {
            id,
            first: self.first_line + self.lines.len() as u64,
            issued: u64::MAX,
            lines,
            outcome: Outcome::Served,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.requests[slot as usize] = request;
                slot
            }
            None => {
                self.requests.push(request);
                self.requests.len() as u32 - 1
            }
        };
        for _ in 0..lines {
            self.lines.push_back(slot);
        }
    }

    /// Notes a line that has completed. Returns the completion of its request and the number of the request's first
    /// line, if it was the last line.
    ///
    /// # Panics
    /// If the line was never submitted, or completes a second time.
    pub(super) fn leave(&mut self, port: u32, row: &RequestRow) -> Option<(Completion, u64)> {
        let at = (row.id - self.first_line) as usize;
        let slot = std::mem::replace(&mut self.lines[at], DONE);
        assert!(slot != DONE, "a line completes once");
        while self.lines.front() == Some(&DONE) {
            self.lines.pop_front();
            self.first_line += 1;
        }
        let request = &mut self.requests[slot as usize];
        request.lines -= 1;
        request.issued = request.issued.min(row.issued_ps);
        request.outcome = request.outcome.max(Outcome::of(row, self.snooped));
        if request.lines > 0 {
            return None;
        }
        self.free.push(slot);
        let completion = Completion {
            id: request.id,
            port,
            issued: SimTime(request.issued),
            completed: SimTime(row.completed_ps),
            outcome: request.outcome,
        };
        Some((completion, request.first))
    }

    /// Whether the program has caches above the port.
    pub(super) fn is_snooped(&self) -> bool {
        self.snooped
    }

    /// Notes a snoop of the program's caches.
    pub(super) fn ask(&mut self, port: u32, snoop: CacheSnoop) -> Snoop {
        let id = self.next_snoop;
        self.next_snoop += 1;
        self.unanswered.push((id, snoop));
        Snoop {
            id,
            port,
            address: snoop.line.0 * LINE_BYTES,
            invalidate: snoop.invalidate,
            time: snoop.time,
        }
    }

    /// Removes and returns the unanswered snoop with this number, if there is one.
    pub(super) fn answer(&mut self, id: u64) -> Option<CacheSnoop> {
        let at = self.unanswered.iter().position(|(known, _)| *known == id)?;
        Some(self.unanswered.swap_remove(at).1)
    }

    /// Number of snoops that were not answered.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    pub(super) fn saved(&self) -> SavedPort<'_> {
        SavedPort {
            last: self.last,
            requests: Cow::Borrowed(&self.requests),
            free: Cow::Borrowed(&self.free),
            lines: Cow::Borrowed(&self.lines),
            first_line: self.first_line,
            unanswered: Cow::Borrowed(&self.unanswered),
            next_snoop: self.next_snoop,
        }
    }

    pub(super) fn fill(&mut self, saved: SavedPort<'_>) {
        self.last = saved.last;
        self.requests = saved.requests.into_owned();
        self.free = saved.free.into_owned();
        self.lines = saved.lines.into_owned();
        self.first_line = saved.first_line;
        self.unanswered = saved.unanswered.into_owned();
        self.next_snoop = saved.next_snoop;
    }
}
