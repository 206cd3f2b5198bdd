//! Conversions between sectors, lines and frames of pages.

use cxlab_cache::{MemoryRequest, Slot};
use cxlab_engine::units::{Dpa, LINE_BYTES};

use super::DramCache;
use crate::page_cache::mask::{runs, span};
use crate::page_cache::observer::{Movement, MovementObserver};

impl<O: MovementObserver> DramCache<O> {
    /// The sectors of a page that lines touch, and the sectors that they cover completely.
    pub(super) fn sectors(&self, line: u64, lines: u64) -> (u64, u64) {
        // Sizes of pages and sectors are powers of two.
        let (rest, shift) = (self.shape.sector_lines - 1, self.shape.sector_lines.ilog2());
        let first = line & (self.shape.page_lines - 1);
        let end = first + lines;
        let (low, high) = (first >> shift, (end + rest) >> shift);
        let (inner, top) = ((first + rest) >> shift, end >> shift);
        let covered = top.saturating_sub(inner);
        (span(low, high - low), span(inner.min(63), covered))
    }

    /// The mask of all sectors of a page.
    pub(super) fn all(&self) -> u64 {
        span(0, self.shape.page_lines / self.shape.sector_lines)
    }

    /// A set of sectors, extended to whole granules of the slow medium.
    pub(super) fn rounded(&self, set: u64) -> u64 {
        let size = self.granule_sectors;
        if size == 1 {
            return set;
        }
        let mut out = 0;
        let mut rest = set;
        while rest != 0 {
            let first = u64::from(rest.trailing_zeros()) / size * size;
            let granule = span(first, size);
            out |= granule;
            rest &= !granule;
        }
        out
    }

    /// The first line and the number of lines of a run of sectors of a page.
    pub(super) fn lines_of(&self, page: u64, (first, count): (u64, u64)) -> (u64, u64) {
        let size = self.shape.sector_lines;
        (page * self.shape.page_lines + first * size, count * size)
    }

    /// A request to the DRAM for lines of a page.
    pub(super) fn in_dram(
        &self,
        slot: Slot,
        line: u64,
        lines: u64,
        write: bool,
        id: u32,
    ) -> MemoryRequest {
        let line = slot.index() as u64 * self.shape.page_lines + line % self.shape.page_lines;
        MemoryRequest {
            id,
            dpa: Dpa(line * LINE_BYTES),
            lines: lines as u16,
            write,
        }
    }

    /// Reports each run of a set of sectors to the observer.
    pub(super) fn report(&mut self, movement: Movement, page: u64, set: u64) {
        for run in runs(set) {
            let (line, lines) = self.lines_of(page, run);
            self.observer.moved(movement, line, lines);
        }
    }
}
