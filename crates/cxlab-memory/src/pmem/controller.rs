//! Banks behind gem5's memory controller (`MemCtrl` with `NVMInterface`, version 24): writes are
//! posted, wait in a queue and are drained in batches.
//!
//! Each line is a burst. A read goes to its bank on arrival; opening another row takes the read
//! time, and the reads of a bank are served in turn. Then the data wait for the bus, and the oldest
//! read with data goes first. A write completes when it is queued. It merges with a queued write to
//! the same line, and reads of that line are served from the queue.
//!
//! The bus turns to writes when no read waits and the queued writes exceed the low mark. It also
//! turns when they exceed the high mark, after at least [`SWITCH`] reads or the last one. It turns
//! back in three cases: the queue is empty or [`SWITCH`] writes below the low mark; reads wait
//! after [`SWITCH`] writes; or reads wait and the banks hold as many writes as they may. A write
//! occupies its bank for the write time, after the accesses before it.
//!
//! Unlike gem5, lines of one row that wait for their bank together can be written together, as the
//! buffer of Optane does (`combine`). Left out: the command bus, the turnaround of the data bus
//! (two clocks, 1.7 ns), and the refresh of other media.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend, MemoryRequest, Statistic};
use cxlab_engine::catalog::{ParamError, in_range};
use cxlab_engine::save_state;
use cxlab_engine::units::{LINE_BYTES, SimTime};
use serde::{Deserialize, Serialize};

use super::{GRANULE, GRANULE_LINES, PmemParams, rows};
use crate::completion_queue::CompletionQueue;
use crate::split_requests::SplitRequests;

/// Bursts before the bus may turn (gem5's `min_reads_per_switch` and `min_writes_per_switch`).
const SWITCH: u32 = 16;

/// Resolved parameters of the controller.
#[derive(Clone, Copy)]
pub(super) struct ControllerParams {
    read_queue: usize,
    write_queue: usize,
    /// The high mark: the bus turns to writes when more than these wait. `low` is the low mark.
    high: usize,
    low: usize,
    pending_writes: usize,
    combine: bool,
}

impl ControllerParams {
    pub(super) fn new(params: &PmemParams) -> Result<Self, ParamError> {
        let read_queue = params.read_queue.unwrap_or(64);
        let write_queue = params.queue.unwrap_or(128);
        let above = params.drain_above.unwrap_or(85);
        let below = params.drain_below.unwrap_or(50);
        let pending = params.pending_writes.unwrap_or(128);
        in_range("read_queue", read_queue, 1..=65536)?;
        in_range("pending_writes", pending, 1..=65536)?;
        in_range("drain_above", above, 0..=99)?;
        in_range("drain_below", below, 0..=above)?;
        let part = |percent: u32| (u64::from(write_queue) * u64::from(percent) / 100) as usize;
        Ok(ControllerParams {
            read_queue: read_queue as usize,
            write_queue: write_queue as usize,
            high: part(above),
            low: part(below),
            pending_writes: pending as usize,
            combine: params.combine.unwrap_or(true),
        })
    }
}

/// Times of the banks and the bus, in picoseconds.
#[derive(Clone, Copy)]
pub(super) struct BankTimes {
    pub read: u64,
    pub write: u64,
    /// From the start of a burst on the bus to the end of its data.
    pub row_hit: u64,
    pub line: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bank {
    /// The open row.
    row: u64,
    /// Time at which the bank has finished all its accesses.
    free: u64,
    /// The row of the last write, and the time at which that write begins.
    writes: u64,
    begins: u64,
}

/// A queued read of a line.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct QueuedRead {
    /// Time at which the bank has the data.
    ready: u64,
    /// Index of the request in `open`.
    request: u32,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct ControllerCounters {
    reads: u64,
    writes: u64,
    row_hits: u64,
    row_writes: u64,
    forwarded: u64,
    merged: u64,
    drains: u64,
}

pub(super) struct ControlledMemory {
    params: ControllerParams,
    times: BankTimes,
    banks: Vec<Bank>,
    reads: VecDeque<QueuedRead>,
    /// Lines of the queued writes, oldest first.
    writes: VecDeque<u64>,
    /// End times of the writes in the banks, soonest first.
    pending: VecDeque<u64>,
    open: SplitRequests,
    writing: bool,
    /// Bursts since the bus turned.
    burst_count: u32,
    bus_free: u64,
    /// Time of the last arrival or decision.
    now: u64,
    finished: CompletionQueue,
    counts: ControllerCounters,
}

save_state!(ControlledMemory {
    values: reads, writes, pending, open, writing, burst_count, bus_free, now, counts;
    sized: banks;
    states: finished;
    built: params, times;
});

impl ControlledMemory {
    pub(super) fn new(params: ControllerParams, times: BankTimes, banks: u32) -> Self {
        let bank = Bank {
            row: u64::MAX,
            free: 0,
            writes: u64::MAX,
            begins: 0,
        };
        ControlledMemory {
            banks: vec![bank; banks as usize],
            reads: VecDeque::with_capacity(params.read_queue),
            writes: VecDeque::with_capacity(params.write_queue),
            pending: VecDeque::with_capacity(params.pending_writes),
            open: SplitRequests::with_capacity(params.read_queue),
            writing: false,
            burst_count: 0,
            bus_free: 0,
            now: 0,
            finished: CompletionQueue::with_capacity(params.read_queue + params.write_queue),
            counts: ControllerCounters::default(),
            params,
            times,
        }
    }

    /// Makes all decisions up to `now`.
    fn run(&mut self, now: u64) {
        while let Some(at) = self.next_decision()
            && at <= now
        {
            self.now = at;
            self.drop_ended(at);
            match self.writing {
                true => self.write_step(at),
                false => self.read_step(at),
            }
        }
        self.drop_ended(now);
    }

    fn drop_ended(&mut self, now: u64) {
        while self.pending.front().is_some_and(|end| *end <= now) {
            self.pending.pop_front();
        }
    }

    /// Time of the next burst, or of the next turn of the bus.
    fn next_decision(&self) -> Option<u64> {
        let bus = self.bus_free.max(self.now);
        if !self.writing {
            let ready = self.reads.iter().map(|read| read.ready).min();
            let drain = self.writes.len() > self.params.low;
            return match ready {
                Some(ready) => Some(bus.max(ready)),
                None => drain.then_some(bus),
            };
        }
        // The banks hold as many writes as they may, and no read waits.
        let full = self.pending.len() >= self.params.pending_writes && self.reads.is_empty();
        let room = match full {
            true => self.pending.front().copied().unwrap_or(bus),
            false => bus,
        };
        Some(bus.max(room))
    }

    fn turn(&mut self, writing: bool) {
        self.writing = writing;
        self.burst_count = 0;
        self.counts.drains += u64::from(writing);
    }

    fn read_step(&mut self, at: u64) {
        let Some(index) = self.reads.iter().position(|read| read.ready <= at) else {
            return self.turn(true);
        };
        let Some(read) = self.reads.remove(index) else {
            unreachable!("its place was just found")
        };
        self.bus_free = at + self.times.line;
        self.burst_count += 1;
        self.line_done(read.request, at + self.times.row_hit);
        let enough = self.burst_count >= SWITCH || self.reads.is_empty();
        let blocked = self.pending.len() >= self.params.pending_writes;
        if self.writes.len() > self.params.high && enough && !blocked {
            self.turn(true);
        }
    }

    fn write_step(&mut self, at: u64) {
        let full = self.pending.len() >= self.params.pending_writes;
        if full && !self.reads.is_empty() {
            return self.turn(false);
        }
        let Some(line) = self.writes.pop_front() else {
            return self.turn(false);
        };
        self.bus_free = at + self.times.line;
        self.burst_count += 1;
        self.give_write(line / GRANULE_LINES, at + self.times.row_hit);
        let below = self.writes.len() + (SWITCH as usize) < self.params.low;
        let enough = !self.reads.is_empty() && self.burst_count >= SWITCH;
        if self.writes.is_empty() || below || enough {
            self.turn(false);
        }
    }

    /// Passes a write of a row to its bank.
    fn give_write(&mut self, row: u64, at: u64) {
        let index = (row % self.banks.len() as u64) as usize;
        let bank = &mut self.banks[index];
        if self.params.combine && bank.writes == row && bank.begins > at {
            return;
        }
        let begins = at.max(bank.free);
        *bank = Bank {
            row,
            free: begins + self.times.write,
            writes: row,
            begins,
        };
        self.counts.row_writes += 1;
        let end = bank.free;
        let place = self.pending.partition_point(|other| *other <= end);
        self.pending.insert(place, end);
    }

    /// Starts a read in the bank of a line, and returns the time at which the bank has the data.
    fn ask(&mut self, now: u64, line: u64) -> u64 {
        let row = line / GRANULE_LINES;
        let index = (row % self.banks.len() as u64) as usize;
        let bank = &mut self.banks[index];
        if bank.row == row {
            self.counts.row_hits += 1;
        } else {
            bank.row = row;
            bank.free = bank.free.max(now) + self.times.read;
            bank.writes = u64::MAX;
        }
        bank.free.max(now)
    }

    fn line_done(&mut self, request: u32, at: u64) {
        if let Some((at, id)) = self.open.finish(request, 1, at) {
            self.finished.push(at, id);
        }
    }

    fn read(&mut self, now: u64, id: u32, lines: std::ops::Range<u64>) {
        self.counts.reads += lines.end - lines.start;
        let request = self.open.begin(id, (lines.end - lines.start) as u32);
        for line in lines {
            if self.writes.contains(&line) {
                self.counts.forwarded += 1;
                self.line_done(request, now);
            } else {
                let ready = self.ask(now, line);
                self.reads.push_back(QueuedRead { ready, request });
            }
        }
    }

    fn write(&mut self, now: u64, id: u32, lines: std::ops::Range<u64>) {
        self.counts.writes += lines.end - lines.start;
        for line in lines {
            match self.writes.contains(&line) {
                true => self.counts.merged += 1,
                false => self.writes.push_back(line),
            }
        }
        self.finished.push(now, id);
    }
}

impl MemoryBackend for ControlledMemory {
    fn can_accept(&mut self, now: SimTime, write: bool) -> bool {
        self.run(now.0);
        match write {
            true => self.writes.len() < self.params.write_queue,
            false => self.reads.len() < self.params.read_queue,
        }
    }

    fn enqueue(&mut self, now: SimTime, request: MemoryRequest) -> Option<SimTime> {
        self.run(now.0);
        self.now = now.0;
        let first = request.dpa.0 / LINE_BYTES;
        let lines = first..first + u64::from(request.lines);
        match request.write {
            true => self.write(now.0, request.id, lines),
            false => self.read(now.0, request.id, lines),
        }
        None
    }

    fn next_event(&self) -> Option<SimTime> {
        let next = [self.finished.next(), self.next_decision()];
        next.into_iter().flatten().min().map(SimTime)
    }

    fn advance(&mut self, now: SimTime, done: &mut Vec<Completion>) {
        self.run(now.0);
        self.finished.drain(now.0, done);
    }

    fn granule(&self) -> u32 {
        GRANULE as u32
    }

    /// Only the open row of the bank changes; the queue of writes stays.
    fn warm(&mut self, request: MemoryRequest) {
        for row in rows(&request) {
            let bank = (row % self.banks.len() as u64) as usize;
            self.banks[bank].row = row;
        }
    }

    fn begin_measurement(&mut self, now: SimTime) {
        self.run(now.0);
        self.counts = ControllerCounters::default();
    }

    fn statistics(&self, _now: SimTime, out: &mut Vec<Statistic>) {
        let counts = &self.counts;
        let values = [
            ("read_lines", counts.reads as f64),
            ("written_lines", counts.writes as f64),
            ("row_hits", counts.row_hits as f64),
            ("row_writes", counts.row_writes as f64),
            ("forwarded_reads", counts.forwarded as f64),
            ("merged_writes", counts.merged as f64),
            ("drains", counts.drains as f64),
        ];
        Statistic::append(out, "", &values);
    }
}
