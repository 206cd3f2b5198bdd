//! Banks with a read time, a write time, and a row buffer of 256 bytes, in order of arrival.
//!
//! A request takes the bus, then its bank. A read of the bank's open row takes the row-hit time;
//! any other read opens its row. A write goes through to the array; writes to one row that wait for
//! the bank together are written together. Left out: all scheduling, which `controller.rs` has.

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::{ParamError, in_range, refused};
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, BytesPerSec, LINE_BYTES, Picos, SimTime};
use serde::{Deserialize, Serialize};

use super::controller::{BankTimes, ControllerParams};
use super::{GRANULE, GRANULE_LINES, PmemParams, WriteDone, rows};
use crate::completion_queue::CompletionQueue;

/// The resolved parameters of the simple mode.
pub(super) struct SimpleParams {
    pub(super) times: BankTimes,
    pub(super) banks: u32,
    queue: u32,
    /// The controller, if writes complete when they are queued.
    pub(super) controller: Option<ControllerParams>,
}

impl SimpleParams {
    pub(super) fn new(params: &PmemParams) -> Result<Self, ParamError> {
        let banks = params.banks.unwrap_or(16);
        in_range("banks", banks, 1..=65536)?;
        let bus = params.bus.unwrap_or(BytesPerSec(19_200_000_000));
        let read = params.read.unwrap_or(Picos::from_nanos(150));
        let row_hit = params.row_hit.unwrap_or(Picos(17_500).min(read));
        if row_hit > read {
            let allowed = format!("at most `read`, {read}");
            return Err(refused("row_hit", row_hit, allowed));
        }
        Ok(SimpleParams {
            times: BankTimes {
                read: read.0,
                write: params.write.unwrap_or(Picos::from_nanos(500)).0,
                row_hit: row_hit.0,
                line: bus.time_for(Bytes(LINE_BYTES)).0,
            },
            banks,
            queue: params.queue.unwrap_or(256),
            controller: match params.write_done {
                Some(WriteDone::Queued) => Some(ControllerParams::new(params)?),
                _ => None,
            },
        })
    }
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bank {
    free: u64,
    /// The row that the last access opens.
    row: u64,
    /// Start of the last access, if that is a write.
    write_begins: Option<u64>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct SimpleCounters {
    reads: u64,
    writes: u64,
    row_hits: u64,
    row_writes: u64,
}

pub(super) struct SimpleMemory {
    times: BankTimes,
    banks: Vec<Bank>,
    bus_free: u64,
    queue: usize,
    held: usize,
    finished: CompletionQueue,
    counts: SimpleCounters,
}

save_state!(SimpleMemory {
    values: bus_free, held, counts;
    sized: banks;
    states: finished;
    built: times, queue;
});

impl SimpleMemory {
    pub(super) fn new(params: &SimpleParams) -> Self {
        let bank = Bank {
            free: 0,
            row: u64::MAX,
            write_begins: None,
        };
        SimpleMemory {
            times: params.times,
            banks: vec![bank; params.banks as usize],
            bus_free: 0,
            queue: params.queue as usize,
            held: 0,
            finished: CompletionQueue::with_capacity(params.queue as usize),
            counts: SimpleCounters::default(),
        }
    }

    /// Time at which an access to a row is done that leaves the bus at `at`.
    fn access(&mut self, at: u64, row: u64, write: bool) -> u64 {
        let bank = (row % self.banks.len() as u64) as usize;
        let bank = &mut self.banks[bank];
        if !write && bank.row == row {
            self.counts.row_hits += 1;
            return at.max(bank.free) + self.times.row_hit;
        }
        if write && bank.row == row && bank.write_begins.is_some_and(|begins| begins > at) {
            return bank.free;
        }
        let begins = at.max(bank.free);
        let takes = if write {
            self.times.write
        } else {
            self.times.read
        };
        self.counts.row_writes += u64::from(write);
        *bank = Bank {
            free: begins + takes,
            row,
            write_begins: write.then_some(begins),
        };
        bank.free
    }
}

impl MemoryBackend for SimpleMemory {
    fn can_accept(&mut self, _now: SimTime, _write: bool) -> bool {
        self.held < self.queue
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        let first = request.dpa.line().0;
        let end = first + u64::from(request.lines);
        let (mut line, mut done) = (first, now.0);
        while line < end {
            let row = line / GRANULE_LINES;
            let next = ((row + 1) * GRANULE_LINES).min(end);
            let at = now.0.max(self.bus_free);
            self.bus_free = at + self.times.line * (next - line);
            done = done.max(self.access(at, row, request.write));
            line = next;
        }
        let lines = u64::from(request.lines);
        if request.write {
            self.counts.writes += lines;
        } else {
            self.counts.reads += lines;
        }
        self.held += 1;
        self.finished.push(done, request.id);
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        self.finished.next().map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        let before = done.len();
        self.finished.drain(now.0, done);
        self.held -= done.len() - before;
    }

    fn granule(&self) -> u32 {
        GRANULE as u32
    }

    /// Only the open row of the bank changes.
    fn warm(&mut self, request: MemoryRequest) {
        for row in rows(&request) {
            let bank = (row % self.banks.len() as u64) as usize;
            self.banks[bank].row = row;
            self.banks[bank].write_begins = None;
        }
    }

    fn begin_measurement(&mut self, _now: SimTime) {
        self.counts = SimpleCounters::default();
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let counts = &self.counts;
        let values = [
            ("read_lines", counts.reads as f64),
            ("written_lines", counts.writes as f64),
            ("row_hits", counts.row_hits as f64),
            ("row_writes", counts.row_writes as f64),
        ];
        Statistic::append(out, "", &values);
    }
}
