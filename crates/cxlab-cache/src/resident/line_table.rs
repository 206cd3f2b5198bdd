//! A hash table with line addresses as keys: open addressing with linear probing, at most
//! three quarters full.
//!
//! The hash is fixed and the table is never iterated, so the same calls give the same results
//! on every machine.

use cxlab_engine::save_state;
use serde::{Deserialize, Serialize};

/// Marks an empty cell; line addresses are below 2^58.
const EMPTY: u64 = u64::MAX;

/// Fewest cells in a table.
const MIN_CELLS: usize = 16;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct TableCell {
    line: u64,
    value: u32,
}

const NOTHING: TableCell = TableCell {
    line: EMPTY,
    value: 0,
};

/// A map from line addresses to numbers.
pub(crate) struct LineTable {
    cells: Vec<TableCell>,
    len: usize,
}

save_state!(LineTable {
    values: cells, len;
});

impl LineTable {
    /// A table that can hold `lines` lines without growth.
    pub(crate) fn with_capacity(lines: usize) -> Self {
        let cells = (lines + lines / 3 + 1).next_power_of_two().max(MIN_CELLS);
        LineTable {
            cells: vec![NOTHING; cells],
            len: 0,
        }
    }

    /// The value of a line.
    #[inline]
    pub(crate) fn get(&self, line: u64) -> Option<u32> {
        let cell = self.cells[self.seek(line)];
        (cell.line == line).then_some(cell.value)
    }

    /// The value of a line, inserted as 0 if absent; the table may grow.
    #[inline]
    pub(crate) fn entry(&mut self, line: u64) -> &mut u32 {
        let mut at = self.seek(line);
        if self.cells[at].line != line {
            at = self.put(at, TableCell { line, value: 0 });
        }
        &mut self.cells[at].value
    }

    /// Inserts the value of an absent line. If the line is present, returns `false`
    /// and changes nothing.
    #[inline]
    pub(crate) fn insert(&mut self, line: u64, value: u32) -> bool {
        let at = self.seek(line);
        let absent = self.cells[at].line != line;
        if absent {
            self.put(at, TableCell { line, value });
        }
        absent
    }

    /// Fills the empty cell `at` that a search found, or another one if the table must grow.
    #[inline]
    fn put(&mut self, mut at: usize, cell: TableCell) -> usize {
        if (self.len + 1) * 4 > self.cells.len() * 3 {
            self.grow();
            at = self.seek(cell.line);
        }
        self.len += 1;
        self.cells[at] = cell;
        at
    }

    /// Removes a line, and moves back the lines that it had displaced.
    pub(crate) fn remove(&mut self, line: u64) {
        let mut hole = self.seek(line);
        if self.cells[hole].line != line {
            return;
        }
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell.line == EMPTY {
                break;
            }
            // A cell may fill the hole unless its home is after the hole.
            let home = self.home(cell.line);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = NOTHING;
        self.len -= 1;
    }

    /// Index of the line's cell, or of the empty cell where the line would be.
    #[inline]
    fn seek(&self, line: u64) -> usize {
        let mask = self.cells.len() - 1;
        let mut at = self.home(line);
        while self.cells[at].line != line && self.cells[at].line != EMPTY {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn home(&self, line: u64) -> usize {
        hash(line) as usize & (self.cells.len() - 1)
    }

    fn grow(&mut self) {
        let cells = vec![NOTHING; self.cells.len() * 2];
        for cell in std::mem::replace(&mut self.cells, cells) {
            if cell.line != EMPTY {
                let at = self.seek(cell.line);
                self.cells[at] = cell;
            }
        }
    }
}

/// Mixes all bits of a line's number into all bits: the finalizer of `MurmurHash3`
/// (Appleby, public domain).
#[inline]
pub(crate) fn hash(line: u64) -> u64 {
    let mut bits = line;
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_table_agrees_with_a_map(
            calls in prop::collection::vec((0u64..60, 0u32..3), 0..400),
            capacity in 0usize..40,
        ) {
            let mut table = LineTable::with_capacity(capacity);
            let mut map = BTreeMap::new();
            for (number, (line, call)) in calls.into_iter().enumerate() {
                let value = number as u32;
                if call == 0 {
                    table.remove(line);
                    map.remove(&line);
                } else if call == 1 {
                    *table.entry(line) = value;
                    map.insert(line, value);
                } else {
                    prop_assert_eq!(table.insert(line, value), !map.contains_key(&line));
                    map.entry(line).or_insert(value);
                }
                prop_assert_eq!(table.len, map.len());
                for line in 0..60 {
                    prop_assert_eq!(table.get(line), map.get(&line).copied());
                }
            }
        }
    }

    #[test]
    fn a_table_never_grows_below_its_capacity() {
        for capacity in [0, 1, 11, 12, 13, 96, 1000, 4096] {
            let mut table = LineTable::with_capacity(capacity);
            let cells = table.cells.len();
            (0..capacity as u64).for_each(|line| *table.entry(line) = 1);
            assert_eq!(table.cells.len(), cells, "{capacity}");
        }
    }
}
