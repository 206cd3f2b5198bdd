//! Zeroing and copying of pages, line by line through the home agent, several lines at once. Caches thus
//! invalidate their copies of the frame, and memory takes its time.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Hpa, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_os::Frame;
use serde::{Deserialize, Serialize};

use super::super::Processor;
use super::super::transactions::{Txn, TxnKind};

/// A page that is being zeroed or copied.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(in super::super) struct Job {
    /// The task that waits for the job.
    task: u32,
    /// First line of the source; `None` for zeros.
    from: Option<u64>,
    /// First line of the destination.
    to: u64,
    lines: u64,
    next: u64,
    open: u64,
}

impl Processor {
    /// Begins to zero or copy a frame.
    pub(super) fn fill(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        task: u32,
        from: Option<Frame>,
        to: Frame,
    ) {
        let Some(os) = &mut self.os else { return };
        let job = Job {
            task,
            from: from.map(|frame| frame.base.0 / LINE_BYTES),
            to: to.base.0 / LINE_BYTES,
            lines: to.size.bytes() / LINE_BYTES,
            next: 0,
            open: 0,
        };
        let id = os.jobs.insert(job);
        self.fill_on(ctx, id);
    }

    /// Begins as many lines as may be in flight.
    fn fill_on(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        loop {
            let Some(os) = &mut self.os else { return };
            let most = u64::from(os.params.copy_lines);
            let Some(job) = os.jobs.get_mut(id) else {
                return;
            };
            if job.open == most || job.next == job.lines {
                return;
            }
            let line = job.next;
            job.next += 1;
            job.open += 1;
            let (kind, line) = match job.from {
                Some(from) => (TxnKind::PageRead, from + line),
                None => (TxnKind::PageWrite, job.to + line),
            };
            self.page_line(ctx, id, kind, line);
        }
    }

    fn page_line(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, kind: TxnKind, line: u64) {
        let txn = self.home.txns.open(Txn::of_io(LineAddr(line), kind, id));
        self.arrive(ctx, txn);
    }

    fn job(&self, txn: &Txn) -> Option<Job> {
        self.os.as_ref()?.jobs.get(txn.request.tag).copied()
    }

    /// Writes a line of a copied page that has been read.
    pub(in super::super) fn page_read(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        let Some(job) = self.job(txn) else { return };
        let offset = txn.line.0 - job.from.unwrap_or(0);
        self.page_line(ctx, txn.request.tag, TxnKind::PageWrite, job.to + offset);
    }

    /// Sets the value of a line of the page.
    pub(in super::super) fn page_write(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        let Some(job) = self.job(txn) else { return };
        let to = Hpa(txn.line.0 * LINE_BYTES);
        match job.from {
            Some(from) => {
                let from = Hpa((from + txn.line.0 - job.to) * LINE_BYTES);
                self.hw_threads.image().copy(from, to, LINE_BYTES);
                let poison = self.hw_threads.is_poison(LineAddr(from.0 / LINE_BYTES));
                self.hw_threads.supplied(txn.line, poison);
            }
            None => {
                self.hw_threads.image().clear_line(to);
                self.hw_threads.supplied(txn.line, false);
            }
        }
        self.hw_threads.written(None, txn.line);
        self.changed(ctx, txn.line);
    }

    /// Completes a line of the page.
    pub(in super::super) fn page_written(&mut self, ctx: &mut Ctx<'_, Parcel>, txn: &Txn) {
        let Some(os) = &mut self.os else { return };
        let Some(job) = os.jobs.get_mut(txn.request.tag) else {
            return;
        };
        job.open -= 1;
        if job.open > 0 || job.next < job.lines {
            self.fill_on(ctx, txn.request.tag);
            return;
        }
        let task = job.task;
        os.jobs.remove(txn.request.tag);
        self.filled(ctx, task);
    }
}
