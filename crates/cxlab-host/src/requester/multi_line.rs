//! Operations of several lines: their lines are issued one after the other, and the operation completes with
//! the last of them.

use cxlab_engine::units::{Hpa, Picos, SimTime};
use cxlab_workload::{MemOp, OpKind};
use serde::{Deserialize, Serialize};

use super::Requester;

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct MultiLineOp {
    issued: u64,
    /// The line to be issued next.
    next: Hpa,
    write: bool,
    /// Number of lines that are not issued, and of those that are not completed.
    unissued: u8,
    left: u8,
    /// Whether none of its lines was denied or failed.
    served: bool,
}

impl Requester {
    /// The next line of the current operation with several lines: address, whether the line is written, and
    /// the operation's number.
    #[inline]
    pub(super) fn next_of_whole(&mut self) -> Option<(Hpa, bool, u32)> {
        let number = self.current;
        if number == 0 {
            return None;
        }
        let whole = &mut self.wholes[number as usize - 1];
        let next = (whole.next, whole.write, number);
        whole.next = Hpa(whole.next.0 + 64);
        whole.unissued -= 1;
        if whole.unissued == 0 {
            self.current = 0;
        }
        Some(next)
    }

    /// Begins an operation of several lines with its first line. The next operation follows after the
    /// intervals of all these lines.
    #[inline(never)]
    pub(super) fn begin_whole(&mut self, now: SimTime, op: MemOp) -> u32 {
        let unissued = op.lines - 1;
        let whole = MultiLineOp {
            issued: now.0,
            next: Hpa((op.hpa.0 & !63) + 64),
            write: op.kind == OpKind::Write,
            unissued,
            left: op.lines,
            served: true,
        };
        self.current = match self.free_wholes.pop() {
            Some(number) => {
                self.wholes[number as usize] = whole;
                number + 1
            }
            None => {
                self.wholes.push(whole);
                self.wholes.len() as u32
            }
        };
        let more = u64::from(unissued);
        self.issuer.count_lines(more);
        self.issuer.hold_up(now, more * self.issuer.interval());
        self.current
    }

    /// Drops the lines that were not issued when the workload ends, so that nothing waits for them.
    pub(super) fn drop_unissued(&mut self) {
        let number = std::mem::take(&mut self.current);
        if number > 0 {
            let whole = &mut self.wholes[number as usize - 1];
            whole.left -= std::mem::take(&mut whole.unissued);
        }
    }

    /// Counts a completed line of an operation of several lines.
    #[inline(never)]
    pub(super) fn part_done(&mut self, now: SimTime, number: u32, served: bool) {
        let whole = &mut self.wholes[number as usize - 1];
        whole.left -= 1;
        whole.served &= served;
        if whole.left > 0 {
            return;
        }
        let latency = Picos(now.0 - whole.issued);
        self.free_wholes.push(number - 1);
        if whole.served {
            self.ledger
                .stats
                .whole_latency
                .get_or_insert_default()
                .record(latency);
        }
    }
}
