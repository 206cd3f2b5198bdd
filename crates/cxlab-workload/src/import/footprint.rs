//! Counts the different lines that a trace accesses, in bounded memory.
//!
//! A map from pages to 64-bit masks counts exactly up to a maximum number of pages. Beyond it, the
//! sample is halved, as often as needed: pages whose hash has a 0 in the next highest bit stay, the
//! others are dropped. The count is then scaled up from one page in 2^k, and the result says so.

use cxlab_engine::units::LineAddr;

use crate::page_map::{PAGE_LINES, PageMap, spread};

/// Pages that are counted exactly: 16 GiB of touched memory, with at most 128 MiB for the map.
const MAX_PAGES: u64 = 1 << 22;

/// The number of different lines of a trace, exact or estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Footprint {
    /// An exact count.
    Exact {
        /// The number of different lines.
        lines: u64,
    },
    /// An estimate from a sample of pages.
    Sampled {
        /// The number of different lines in the sample, times `one_page_in`.
        lines: u64,
        /// The sample has one page in this many, chosen by hash.
        one_page_in: u64,
    },
}

impl Footprint {
    /// The number of lines, exact or estimated.
    pub fn lines(self) -> u64 {
        match self {
            Footprint::Exact { lines } | Footprint::Sampled { lines, .. } => lines,
        }
    }
}

/// Counts different lines, exactly or from a sample of pages.
pub(super) struct FootprintCounter {
    pages: PageMap,
    max_pages: u64,
    dropped_bits: u32,
}

impl FootprintCounter {
    pub fn new() -> Self {
        Self::with_max_pages(MAX_PAGES)
    }

    fn with_max_pages(max_pages: u64) -> Self {
        FootprintCounter {
            pages: PageMap::default(),
            max_pages,
            dropped_bits: 0,
        }
    }

    pub fn add(&mut self, line: LineAddr) {
        let page = line.0 / PAGE_LINES;
        if !sampled(page, self.dropped_bits) {
            return;
        }
        *self.pages.entry(page, 0) |= 1 << (line.0 % PAGE_LINES);
        while self.pages.len() > self.max_pages && self.dropped_bits < 32 {
            self.dropped_bits += 1;
            let bits = self.dropped_bits;
            self.pages.retain(|page| sampled(page, bits));
        }
    }

    pub fn footprint(&self) -> Footprint {
        let lines: u64 = self
            .pages
            .words()
            .map(|mask| u64::from(mask.count_ones()))
            .sum();
        match self.dropped_bits {
            0 => Footprint::Exact { lines },
            bits => Footprint::Sampled {
                lines: lines << bits,
                one_page_in: 1 << bits,
            },
        }
    }
}

/// Whether a page is in the sample: the highest `dropped_bits` bits of its hash are 0.
fn sampled(page: u64, dropped_bits: u32) -> bool {
    spread(page).leading_zeros() >= dropped_bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_footprint_is_estimated_and_labelled() {
        let mut counter = FootprintCounter::with_max_pages(4096);
        for line in (0..64 * 100_000).step_by(2) {
            counter.add(LineAddr(line));
        }
        let Footprint::Sampled { lines, one_page_in } = counter.footprint() else {
            panic!("exact")
        };
        assert!(one_page_in >= 32);
        assert!(lines.abs_diff(3_200_000) < 200_000, "{lines}");
    }
}
