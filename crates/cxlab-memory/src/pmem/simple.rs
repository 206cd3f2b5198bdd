//! Banks with a read time, a write time, and a row buffer of 256 bytes.
//!
//! A request takes the bus in order of arrival, then its bank. A read of the row that its bank
//! opened last takes a row hit; another opens its row. A write goes through to the array; writes
//! to one row that wait for the bank together are written together.
//!
//! Where a write is done when it is queued, it waits until its bank is free and reads go first; a
//! read of lines that wait is served from the queue. A place in the queue is free again when the
//! write is in the medium. Left out: all other scheduling.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cxlab_engine::catalog::ParamError;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};
use serde::{Deserialize, Serialize};

use super::{GRANULE, GRANULE_LINES, PmemParams, WriteDone, within};
use crate::backend::{Completion, MemoryBackend, MemoryRequest, Statistic};
use crate::finished::Finished;

/// Resolved parameters of the simple mode.
pub(super) struct SimpleParams {
    pub(super) read_ps: u64,
    write_ps: u64,
    pub(super) row_hit_ps: u64,
    line_ps: u64,
    banks: u32,
    queue: u32,
    queued: bool,
}

impl SimpleParams {
    pub(super) fn new(params: &PmemParams) -> Result<Self, ParamError> {
        let banks = params.banks.unwrap_or(16);
        within("banks", banks.into(), 1, 65536)?;
        let bus = params.bus.unwrap_or(BytesPerSec(19_200_000_000));
        let read = params.read.unwrap_or(Picos::from_nanos(150));
        let row_hit = params.row_hit.unwrap_or(Picos(17_500).min(read));
        if row_hit > read {
            let message = format!("found {row_hit}; allowed: at most `read`, {read}");
            return Err(ParamError::new("row_hit", message));
        }
        Ok(SimpleParams {
            read_ps: read.0,
            write_ps: params.write.unwrap_or(Picos::from_nanos(500)).0,
            row_hit_ps: row_hit.0,
            line_ps: bus.time_for(Bytes(LINE_BYTES)).0,
            banks,
            queue: params.queue,
            queued: params.write_done == Some(WriteDone::Queued),
        })
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bank {
    free: u64,
    /// The row that the last access opens.
    row: u64,
    /// When that access begins, if it is a write.
    write_begins: Option<u64>,
}

/// Writes to a row that wait for its bank.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Waiting {
    row: u64,
    /// Which of its lines, and how many places of the queue they take.
    lines: u8,
    places: u32,
}

/// What waits for a bank.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Backlog {
    waiting: VecDeque<Waiting>,
    /// Places of the queue that the write under way gives back at `ends`.
    places: u32,
    ends: u64,
    /// Whether the bank has its event.
    armed: bool,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Counts {
    reads: u64,
    writes: u64,
    row_hits: u64,
    row_writes: u64,
}

pub(super) struct Simple {
    read_ps: u64,
    write_ps: u64,
    row_hit_ps: u64,
    line_ps: u64,
    banks: Vec<Bank>,
    bus_free: u64,
    queue: usize,
    held: usize,
    finished: Finished,
    counts: Counts,
    /// Where writes are done when they are queued; else empty.
    backlogs: Vec<Backlog>,
    /// When a bank may begin a write that waits, or has ended one.
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    answered: Finished,
}

save_state!(Simple {
    values: bus_free, held, counts, turns;
    sized: banks, backlogs;
    states: finished, answered;
    built: read_ps, write_ps, row_hit_ps, line_ps, queue;
});

impl Simple {
    pub(super) fn new(params: &SimpleParams) -> Self {
        let bank = Bank {
            free: 0,
            row: u64::MAX,
            write_begins: None,
        };
        Simple {
            read_ps: params.read_ps,
            write_ps: params.write_ps,
            row_hit_ps: params.row_hit_ps,
            line_ps: params.line_ps,
            banks: vec![bank; params.banks as usize],
            bus_free: 0,
            queue: params.queue as usize,
            held: 0,
            finished: Finished::with_capacity(params.queue as usize),
            counts: Counts::default(),
            backlogs: if params.queued {
                vec![Backlog::default(); params.banks as usize]
            } else {
                Vec::new()
            },
            turns: BinaryHeap::with_capacity(params.banks as usize),
            answered: Finished::with_capacity(params.queue as usize),
        }
    }

    /// Queues a write of lines of a row that is off the bus at `at`.
    fn queue_write(&mut self, at: u64, row: u64, lines: u8) {
        let index = (row % self.banks.len() as u64) as usize;
        let backlog = &mut self.backlogs[index];
        self.held += 1;
        if let Some(same) = backlog.waiting.iter_mut().find(|other| other.row == row) {
            same.lines |= lines;
            same.places += 1;
        } else {
            backlog.waiting.push_back(Waiting {
                row,
                lines,
                places: 1,
            });
        }
        if !backlog.armed {
            backlog.armed = true;
            let turn = at.max(self.banks[index].free);
            self.turns.push(Reverse((turn, index as u32)));
        }
    }

    /// A bank's event: it ends its write, and begins the next unless a read has come before.
    fn turn(&mut self, now: u64, index: u32) {
        let bank = &mut self.banks[index as usize];
        let backlog = &mut self.backlogs[index as usize];
        if backlog.ends <= now {
            self.held -= backlog.places as usize;
            backlog.places = 0;
        }
        if bank.free <= now
            && let Some(next) = backlog.waiting.pop_front()
        {
            self.counts.row_writes += 1;
            *bank = Bank {
                free: now + self.write_ps,
                row: next.row,
                write_begins: None,
            };
            (backlog.places, backlog.ends) = (next.places, bank.free);
        }
        backlog.armed = backlog.places > 0 || !backlog.waiting.is_empty();
        if backlog.armed {
            self.turns.push(Reverse((bank.free.max(now + 1), index)));
        }
    }

    /// Whether lines of a row wait to be written.
    fn waits(&self, row: u64, lines: u8) -> bool {
        let index = (row % self.banks.len() as u64) as usize;
        self.backlogs.get(index).is_some_and(|backlog| {
            let mut waiting = backlog.waiting.iter();
            waiting.any(|other| other.row == row && other.lines & lines == lines)
        })
    }

    /// When an access to a row that comes off the bus at `at` is done.
    fn access(&mut self, at: u64, row: u64, write: bool) -> u64 {
        let bank = (row % self.banks.len() as u64) as usize;
        let bank = &mut self.banks[bank];
        if !write && bank.row == row {
            self.counts.row_hits += 1;
            return at.max(bank.free) + self.row_hit_ps;
        }
        if write && bank.row == row && bank.write_begins.is_some_and(|begins| begins > at) {
            return bank.free;
        }
        let begins = at.max(bank.free);
        let takes = if write { self.write_ps } else { self.read_ps };
        self.counts.row_writes += u64::from(write);
        *bank = Bank {
            free: begins + takes,
            row,
            write_begins: write.then_some(begins),
        };
        bank.free
    }
}

impl MemoryBackend for Simple {
    fn can_accept(&mut self, _now: SimTime, _write: bool) -> bool {
        self.held < self.queue
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let first = request.dpa.line().0;
        let end = first + u64::from(request.lines);
        let queued = request.write && !self.backlogs.is_empty();
        let (mut line, mut done) = (first, now.0);
        while line < end {
            let row = line / GRANULE_LINES;
            let next = ((row + 1) * GRANULE_LINES).min(end);
            let at = now.0.max(self.bus_free);
            self.bus_free = at + self.line_ps * (next - line);
            let (low, high) = (line % GRANULE_LINES, (next - 1) % GRANULE_LINES);
            let lines = (low..=high).fold(0, |mask, bit| mask | 1 << bit);
            if queued {
                self.queue_write(self.bus_free, row, lines);
                done = done.max(self.bus_free);
            } else if !request.write && self.waits(row, lines) {
                done = done.max(at + self.row_hit_ps);
            } else {
                done = done.max(self.access(at, row, request.write));
            }
            line = next;
        }
        let lines = u64::from(request.lines);
        if request.write {
            self.counts.writes += lines;
        } else {
            self.counts.reads += lines;
        }
        if queued {
            self.answered.push(done, request.id);
        } else {
            self.held += 1;
            self.finished.push(done, request.id);
        }
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let turn = self.turns.peek().map(|Reverse((at, _))| *at);
        let next = [self.finished.next(), self.answered.next(), turn];
        next.into_iter().flatten().min().map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        while let Some(Reverse((at, index))) = self.turns.peek().copied()
            && at <= now.0
        {
            self.turns.pop();
            self.turn(at, index);
        }
        let before = done.len();
        self.finished.drain(now.0, done);
        self.held -= done.len() - before;
        self.answered.drain(now.0, done);
    }

    fn granule(&self) -> u32 {
        GRANULE as u32
    }

    fn begin_measurement(&mut self, _now: SimTime) {
        self.counts = Counts::default();
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let Counts {
            reads,
            writes,
            row_hits,
            row_writes,
        } = self.counts;
        for (name, value) in [
            ("read_lines", reads),
            ("written_lines", writes),
            ("row_hits", row_hits),
            ("row_writes", row_writes),
        ] {
            out.push(Statistic {
                name: name.to_owned(),
                value: value as f64,
            });
        }
    }
}
