//! Operations of several lines: their lines are issued one after the other, and the operation completes with
//! the last of them.

use cxlab_engine::units::{Hpa, Picos, SimTime};
use cxlab_workload::{MemOp, OpKind};
use serde::{Deserialize, Serialize};

use super::Requester;

/// An operation of several lines in flight.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct MultiLineOp {
    /// When the first line was issued, in picoseconds.
    issued_ps: u64,
    /// The line to be issued next.
    next_line: Hpa,
    write: bool,
    /// Number of lines that are not issued.
    unissued: u8,
    /// Number of lines that are not completed, including those that are not issued.
    incomplete: u8,
    /// Whether none of the operation's lines was denied or failed.
    served: bool,
}

impl Requester {
    /// The next line of the current operation with several lines: address, whether the line is written, and
    /// the operation's number.
    #[inline]
    pub(super) fn next_line(&mut self) -> Option<(Hpa, bool, u32)> {
        let number = self.current_multi_line;
        if number == 0 {
            return None;
        }
        let op = &mut self.multi_line_ops[number as usize - 1];
        let line = op.next_line;
        op.next_line = Hpa(line.0 + 64);
        op.unissued -= 1;
        if op.unissued == 0 {
            self.current_multi_line = 0;
        }
        Some((line, op.write, number))
    }

    /// Begins an operation of several lines with its first line. The next operation follows after the
    /// intervals of all these lines.
    #[inline(never)]
    pub(super) fn begin_multi_line(&mut self, now: SimTime, op: MemOp) -> u32 {
        let unissued = op.lines - 1;
        let multi_line_op = MultiLineOp {
            issued_ps: now.0,
            next_line: Hpa((op.hpa.0 & !63) + 64),
            write: op.kind == OpKind::Write,
            unissued,
            incomplete: op.lines,
            served: true,
        };
        self.current_multi_line = match self.free_multi_line_ops.pop() {
            Some(index) => {
                self.multi_line_ops[index as usize] = multi_line_op;
                index + 1
            }
            None => {
                self.multi_line_ops.push(multi_line_op);
                self.multi_line_ops.len() as u32
            }
        };
        let later_lines = u64::from(unissued);
        self.issuer.count_lines(later_lines);
        self.issuer.delay(now, later_lines * self.issuer.interval());
        self.current_multi_line
    }

    /// Drops the lines that were not issued when the workload ends, so that nothing waits for them.
    pub(super) fn drop_unissued(&mut self) {
        let number = std::mem::take(&mut self.current_multi_line);
        if number > 0 {
            let op = &mut self.multi_line_ops[number as usize - 1];
            op.incomplete -= std::mem::take(&mut op.unissued);
        }
    }

    /// Counts a line of an operation of several lines that has completed. `served` is false for a line that was
    /// denied or failed: then the latency of the operation is not recorded.
    #[inline(never)]
    pub(super) fn line_done(&mut self, now: SimTime, number: u32, served: bool) {
        let op = &mut self.multi_line_ops[number as usize - 1];
        op.incomplete -= 1;
        op.served &= served;
        if op.incomplete > 0 {
            return;
        }
        let latency = Picos(now.0 - op.issued_ps);
        self.free_multi_line_ops.push(number - 1);
        if op.served {
            self.ledger
                .stats
                .multi_line_latency
                .get_or_insert_default()
                .record(latency);
        }
    }
}
