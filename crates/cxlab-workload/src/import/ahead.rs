//! Reads a trace's records in a separate thread, ahead of their use: reading and decompressing a
//! record takes about as long as many uses of it.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use cxlab_engine::units::{LineAddr, SimTime};

use super::Records;
use crate::error::TraceError;
use crate::op::OpKind;
use crate::trace::Record;

/// Records in a batch, which the reading thread hands over at once:
/// 64 KB without times (*assumed*).
const BATCH: usize = 8192;
/// Most batches that are read and not yet used (*assumed*).
const WAITING: usize = 4;

/// The records of a trace as a stream, read ahead by a thread; the same records
/// as those of [`Records`].
pub(crate) struct RecordsAhead {
    batches: Receiver<Batch>,
    used: Sender<Columns>,
    batch: Batch,
    at: usize,
    has_time: bool,
    thread: Option<JoinHandle<()>>,
}

/// Records in columns. They take a third of the memory that an array of [`Record`]s would.
#[derive(Default)]
struct Columns {
    /// Twice the line number, plus 1 for a write.
    lines: Vec<u64>,
    /// Times in picoseconds; empty in a trace without times.
    times: Vec<u64>,
}

impl Columns {
    #[inline]
    fn push(&mut self, record: Record, has_time: bool) {
        let write = u64::from(record.kind == OpKind::Write);
        self.lines.push(record.line.0 << 1 | write);
        if has_time {
            self.times.push(record.time.0);
        }
    }

    #[inline]
    fn hand_out(&self, from: usize, count: usize, mut take: impl FnMut(Record)) {
        let lines = &self.lines[from..from + count];
        let mut times = self.times.get(from..).unwrap_or_default().iter();
        for line in lines {
            take(Record {
                line: LineAddr(line >> 1),
                kind: match line & 1 {
                    0 => OpKind::Read,
                    _ => OpKind::Write,
                },
                time: SimTime(times.next().copied().unwrap_or_default()),
            });
        }
    }
}

/// Consecutive records, and in the last batch how the trace ended.
#[derive(Default)]
struct Batch {
    records: Columns,
    end: Option<Result<(), TraceError>>,
}

impl RecordsAhead {
    /// Starts a thread that reads the remaining records of `records`.
    pub fn new(records: Records) -> RecordsAhead {
        let (full, batches) = sync_channel(WAITING);
        let (used, empty) = channel();
        let has_time = records.has_time();
        let thread = std::thread::spawn(move || read(records, &full, &empty));
        RecordsAhead {
            batches,
            used,
            batch: Batch::default(),
            at: 0,
            has_time,
            thread: Some(thread),
        }
    }

    /// Hands out records as [`Records::each`] does.
    #[inline]
    pub fn each(
        &mut self,
        count: usize,
        mut take: impl FnMut(Record),
    ) -> Result<usize, TraceError> {
        let mut taken = 0;
        while taken < count {
            let records = &self.batch.records;
            let some = (records.lines.len() - self.at).min(count - taken);
            records.hand_out(self.at, some, &mut take);
            (taken, self.at) = (taken + some, self.at + some);
            if taken < count && !self.next_batch()? {
                break;
            }
        }
        Ok(taken)
    }

    /// Whether the records have times, as [`Records::has_time`] says.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// Takes the next batch from the reading thread; false when the trace has ended.
    fn next_batch(&mut self) -> Result<bool, TraceError> {
        match &self.batch.end {
            Some(Ok(())) => return Ok(false),
            Some(Err(error)) => return Err(error.clone()),
            None => {}
        }
        let Ok(next) = self.batches.recv() else {
            match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => unreachable!("the last batch says that it is the last"),
            }
        };
        let used = std::mem::replace(&mut self.batch, next).records;
        // Sending fails when the thread has read the whole trace; it needs no empty batch then.
        let _ = self.used.send(used);
        self.at = 0;
        Ok(true)
    }
}

/// The reading thread: sends batches until the trace ends or the receiver is dropped.
fn read(mut records: Records, full: &SyncSender<Batch>, empty: &Receiver<Columns>) {
    let has_time = records.has_time();
    loop {
        let mut batch = empty.try_recv().unwrap_or_default();
        batch.lines.clear();
        batch.times.clear();
        batch.lines.reserve(BATCH);
        let read = records.each(BATCH, |record| batch.push(record, has_time));
        let end = match read {
            Ok(BATCH) => None,
            Ok(_) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        let last = end.is_some();
        let batch = Batch {
            records: batch,
            end,
        };
        if full.send(batch).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::PathBuf;

    use super::*;

    /// Writes a text trace of `records` records and the lines of `rest`, and returns its path.
    fn trace(name: &str, records: usize, rest: &str) -> PathBuf {
        let mut rows = String::new();
        for record in 0..records as u64 {
            let kind = if record % 3 == 0 { 'W' } else { 'R' };
            let (address, time) = ((record * record) << 6, record / 2);
            writeln!(rows, "{address:#x} {kind} {time}").unwrap();
        }
        rows += rest;
        let path = std::env::temp_dir().join(format!("cxlab-ahead-{name}-{}", std::process::id()));
        std::fs::write(&path, rows).unwrap();
        path
    }

    #[test]
    fn records_are_those_of_the_trace_in_pieces_of_any_size() {
        let path = trace("pieces", 2 * BATCH + 100, "");
        let mut own = Records::open(&path, None).unwrap();
        let mut ahead = RecordsAhead::new(Records::open(&path, None).unwrap());
        for piece in [1, 7, BATCH - 1, BATCH + 1, 1000, 1000] {
            let (mut expected, mut found) = (Vec::new(), Vec::new());
            let read = own.each(piece, |record| expected.push(record)).unwrap();
            assert_eq!(ahead.each(piece, |record| found.push(record)), Ok(read));
            assert_eq!(found, expected);
        }
        assert_eq!(ahead.each(1, |_| ()), Ok(0), "nothing is left");
        assert!(ahead.has_time());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_fault_comes_behind_the_records_before_it_and_stays() {
        let path = trace("fault", BATCH + 3, "neither\n");
        let mut ahead = RecordsAhead::new(Records::open(&path, None).unwrap());
        let mut found = 0;
        let fault = ahead.each(2 * BATCH, |_| found += 1).unwrap_err();
        assert_eq!(found, BATCH + 3);
        assert!(fault.to_string().contains("8196"), "{fault}");
        assert_eq!(ahead.each(1, |_| ()), Err(fault));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_stream_that_is_left_early_ends_its_thread() {
        let path = trace("early", 8 * BATCH, "");
        let mut ahead = RecordsAhead::new(Records::open(&path, None).unwrap());
        assert_eq!(ahead.each(1, |_| ()), Ok(1));
        let thread = ahead.thread.take().unwrap();
        drop(ahead);
        thread.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
