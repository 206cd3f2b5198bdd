//! Lines that prefetchers of a host read beyond the end of a sequential run, and that no operation uses.
//!
//! A requester has no caches that a prefetched line could be found in, so a prefetch of a line that the
//! workload reads anyway would change nothing but the moment of the read. What remains of a prefetcher is the
//! bandwidth that it takes: after the last line of a run it has read further ones, up to the end of an aligned
//! block. The core has the prefetcher itself (`hosts[].core.prefetch`).

use cxlab_engine::units::{Hpa, LINE_BYTES};
use cxlab_workload::{MemOp, OpKind};
use serde::{Deserialize, Serialize};

use crate::params::OverfetchParams;

/// The run that the workload reads, and the lines that are read beyond the end of the one before.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Overfetch {
    /// Fewest lines of a run that is read beyond its end.
    after: u64,
    /// Most lines that are read beyond the end of a run.
    beyond: u64,
    block_lines: u64,
    /// Number of lines of the run, and the line after its last.
    run: u64,
    run_end: u64,
    /// The lines that are still to be read: from `unread` to before `unread_end`.
    unread: u64,
    unread_end: u64,
}

impl Overfetch {
    pub(super) fn new(params: &OverfetchParams) -> Self {
        Overfetch {
            after: u64::from(params.after),
            beyond: u64::from(params.beyond),
            block_lines: params.within.0 / LINE_BYTES,
            run: 0,
            run_end: 0,
            unread: 0,
            unread_end: 0,
        }
    }

    /// Records an operation of the workload. An operation that does not continue the run ends it.
    pub(super) fn observe(&mut self, op: &MemOp) {
        let line = op.hpa.0 / LINE_BYTES;
        let lines = u64::from(op.lines.max(1));
        let read = op.kind != OpKind::Write;
        if read && self.run > 0 && line == self.run_end {
            self.run += lines;
            self.run_end += lines;
            return;
        }
        if self.run >= self.after {
            self.unread = self.run_end;
            let block_end = self.run_end.next_multiple_of(self.block_lines);
            self.unread_end = block_end.min(self.run_end + self.beyond);
        }
        self.run = if read { lines } else { 0 };
        self.run_end = line + lines;
    }

    /// The next line that is read in vain.
    pub(super) fn line(&mut self) -> Option<Hpa> {
        if self.unread == self.unread_end {
            return None;
        }
        let line = self.unread;
        self.unread += 1;
        Some(Hpa(line * LINE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use cxlab_engine::units::{Bytes, SimTime};

    use super::*;

    fn lines(overfetch: &mut Overfetch, kind: OpKind, line: u64, lines: u8) -> Vec<u64> {
        overfetch.observe(&MemOp {
            hpa: Hpa(line * LINE_BYTES),
            kind,
            lines,
            not_before: SimTime::ZERO,
            dependent: false,
            write_back: false,
        });
        std::iter::from_fn(|| overfetch.line())
            .map(|hpa| hpa.0 / LINE_BYTES)
            .collect()
    }

    fn overfetch(after: u32, beyond: u32, within: u64) -> Overfetch {
        Overfetch::new(&OverfetchParams {
            after,
            beyond,
            within: Bytes(within),
        })
    }

    #[test]
    fn a_run_is_read_beyond_its_end_but_not_beyond_its_block() {
        let mut streamer = overfetch(4, 3, 4096);
        let none: [u64; 0] = [];
        assert_eq!(lines(&mut streamer, OpKind::Read, 0, 4), none);
        assert_eq!(
            lines(&mut streamer, OpKind::Read, 4, 4),
            none,
            "the run goes on"
        );
        assert_eq!(lines(&mut streamer, OpKind::Read, 58, 4), [8, 9, 10]);
        assert_eq!(lines(&mut streamer, OpKind::Read, 96, 3), [62, 63]);
        assert_eq!(
            lines(&mut streamer, OpKind::Read, 120, 8),
            none,
            "a run of three"
        );
        assert_eq!(
            lines(&mut streamer, OpKind::Read, 7, 1),
            none,
            "a run that ends with its block"
        );
    }

    #[test]
    fn the_other_line_of_a_pair() {
        let mut pairs = overfetch(1, 1, 128);
        let none: [u64; 0] = [];
        assert_eq!(lines(&mut pairs, OpKind::Read, 4, 1), none);
        assert_eq!(lines(&mut pairs, OpKind::Read, 8, 1), [5]);
        assert_eq!(lines(&mut pairs, OpKind::Read, 9, 1), none, "it was used");
        assert_eq!(lines(&mut pairs, OpKind::Write, 40, 1), none);
        assert_eq!(
            lines(&mut pairs, OpKind::Read, 41, 1),
            none,
            "nothing is read for a write"
        );
    }
}
