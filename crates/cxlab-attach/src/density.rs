//! How many lines a program uses of the pages that it touches.
//!
//! The kernel marks touched pages, and a program may use one line of each or all 64. A window shows a few hundred
//! lines. If two windows touch the same page, they touch the same line of it by chance alone where the program uses all
//! lines of the page without order, and always where it uses one. So the number of pairs of lines in the same page,
//! over the number of pairs that are the same line, is the mean number of lines that the program uses of such a page.
//! (Two samples that catch the same animals tell their number in this way: Z. Schnabel, "The Estimation of the Total
//! Fish Population of a Lake", American Mathematical Monthly, 1938.)
//!
//! Pages that a program uses more often than others are seen twice more often. The number of pairs in
//! the same page says of how many pages that is true; all lines of the other pages count as used.
//! Pages that most windows touch, such as those of the stack, are in every cache and do not count.
//!
//! A walk in a fixed order comes by at the same lines again, so that two windows have many lines in common or
//! none: their pairs are in clumps, and there are as much fewer independent ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most windows in the history (*assumed*: some thousand lines).
const WINDOWS: usize = 32;
/// Fewest windows. A page that more than half of them touch does not count.
const MIN_WINDOWS: usize = 3;
/// Fewest pairs of equal lines. Fewer may be chance: in pages with 8 used lines, two pairs in the same page are equal
/// lines once in 64 times, and in fully used pages once in 4096 times.
const MIN_EQUAL: f64 = 2.0;
/// Largest excess of pairs in the same page over uniform use of pages, in standard deviations:
/// chance exceeds it once in some hundred programs.
const DEVIATIONS: f64 = 3.0;
/// Fewest pairs in the same page for which a small number of equal lines shows that most lines are used.
const MIN_PAIRS: f64 = 8.0;
/// Lines of a page of 4 KiB.
pub const PAGE_LINES: u64 = 64;

/// Lines that recent windows of a piece of code touched.
#[derive(Clone, Default, Debug)]
pub struct Density {
    windows: VecDeque<BTreeSet<u64>>,
}

impl Density {
    /// Adds the lines that a window touched.
    pub fn add(&mut self, lines: BTreeSet<u64>) {
        if self.windows.len() == WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back(lines);
    }

    /// Number of windows that are remembered.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Number of lines that a program uses in `pages` touched pages of `page_lines` lines. `None` if the windows do not
    /// show that fewer than all lines of the pages are used. If the
    /// program's speed shows it too (`doubtful`), one pair suffices.
    pub fn used(&self, pages: f64, page_lines: u64, doubtful: bool) -> Option<f64> {
        let pairs = self.pairs(page_lines)?;
        let (least, line) = match doubtful {
            true => (1.0, pairs.line),
            // Fewer by one standard deviation, so that chance makes no program fit a cache.
            false => (MIN_EQUAL, pairs.line - (pairs.line * pairs.clump).sqrt()),
        };
        if pairs.line < least || line <= 0.0 {
            return None;
        }
        let lines = (pairs.page / line).clamp(1.0, page_lines as f64);
        // If all pages are used alike, this many pairs are in the same page, or by chance so many more.
        let alike = pairs.all / pages.max(1.0);
        let deviation = ((alike + 1.0) * pairs.clump).sqrt();
        let seen = match pairs.page <= alike + DEVIATIONS * deviation {
            true => pages,
            false => (pairs.all / pairs.page).min(pages),
        };
        Some(seen * lines + (pages - seen) * page_lines as f64)
    }

    /// Whether the windows decide how many lines of a page are used: few, most, or none.
    pub fn is_decided(&self, page_lines: u64) -> bool {
        if self.windows.iter().all(BTreeSet::is_empty) {
            return true;
        }
        let pairs = self.pairs(page_lines);
        pairs.is_some_and(|pairs| pairs.line >= MIN_EQUAL || pairs.page >= MIN_PAIRS)
    }

    /// Pairs of lines of different windows. `None` if there are too few windows.
    fn pairs(&self, page_lines: u64) -> Option<Pairs> {
        if self.windows.len() < MIN_WINDOWS {
            return None;
        }
        let hot = self.hot();
        let is_cold = |line: &&u64| !hot.contains(&(*line / PAGE_LINES));
        // Cold lines of each window, and how many of them are in each page.
        let cold = self.windows.iter().map(|window| {
            let lines: BTreeSet<u64> = window.iter().filter(is_cold).copied().collect();
            let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
            for line in &lines {
                *pages.entry(line / page_lines).or_default() += 1;
            }
            (lines, pages)
        });
        let cold: Vec<(BTreeSet<u64>, BTreeMap<u64, u64>)> = cold.collect();
        let mut pairs = Pairs::default();
        let mut squares = 0.0;
        for (at, (lines, pages)) in cold.iter().enumerate() {
            for (other_lines, other_pages) in &cold[..at] {
                let in_both = pages
                    .iter()
                    .filter_map(|(page, count)| Some(count * other_pages.get(page)?));
                let page = in_both.sum::<u64>() as f64;
                pairs.all += (lines.len() * other_lines.len()) as f64;
                pairs.line += lines.intersection(other_lines).count() as f64;
                pairs.page += page;
                squares += page * page;
            }
        }
        // Of independent pairs, the mean of squares is the mean and its square.
        let mean = pairs.page / (cold.len() * (cold.len() - 1)) as f64 * 2.0;
        pairs.clump = (squares / pairs.page.max(1.0) - mean).max(1.0);
        Some(pairs)
    }

    /// Pages of 4 KiB that more than half of the windows touch.
    fn hot(&self) -> BTreeSet<u64> {
        let mut windows: BTreeMap<u64, usize> = BTreeMap::new();
        for window in &self.windows {
            let pages: BTreeSet<u64> = window.iter().map(|line| line / PAGE_LINES).collect();
            for page in pages {
                *windows.entry(page).or_default() += 1;
            }
        }
        let most = self.windows.len() / 2;
        windows.retain(|_, count| *count > most);
        windows.into_keys().collect()
    }
}

/// Numbers of pairs of lines that two different windows touched.
#[derive(Default)]
struct Pairs {
    all: f64,
    /// Pairs of lines in the same page.
    page: f64,
    /// Pairs of equal lines.
    line: f64,
    /// Mean number of pairs in the same page that come together, at least 1.
    clump: f64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{GOLDEN, drawn};

    /// The next random number of those behind a state.
    pub(crate) fn number(state: &mut u64) -> u64 {
        *state = state.wrapping_add(GOLDEN);
        drawn(*state)
    }

    const PAGES: f64 = 16_384.0;

    /// Windows of 100 lines without order in 16,384 pages, of which the program uses so many lines.
    /// Three lines of the stack are in each window, and some of a small table.
    fn density(windows: usize, used: u64) -> Density {
        let mut density = Density::default();
        let mut state = 1;
        for _ in 0..windows {
            let line = |_| {
                let page = number(&mut state) % 16_384;
                page * 64 + (page * 7 + number(&mut state) % used) % 64
            };
            let mut lines: BTreeSet<u64> = (0..100).map(line).collect();
            lines.extend([1 << 40, (1 << 40) + 1, (1 << 40) + 9]);
            lines.extend((0..20).map(|_| (1 << 41) + number(&mut state) % 64));
            density.add(lines);
        }
        density
    }

    #[test]
    fn sparse_pages_are_told_from_full_ones() {
        let sparse = density(8, 1);
        let found = sparse.used(PAGES, 64, false).unwrap() / PAGES;
        assert!((1.0..1.6).contains(&found), "{found}");
        assert!(sparse.is_decided(64));
        assert_eq!(sparse.used(PAGES, 64, true), Some(PAGES));
        for windows in [2, 4, 8, 32] {
            let found = density(windows, 64).used(PAGES, 64, false);
            assert!(found.is_none_or(|found| found > 32.0 * PAGES), "{found:?}");
        }
        assert!(density(32, 64).is_decided(64) && !density(2, 64).is_decided(64));
        let some = density(32, 8).used(PAGES, 64, false).unwrap() / PAGES;
        assert!((8.0..12.0).contains(&some), "{some}");
    }

    /// As many lines in large pages: 64 MiB are 32 of them.
    #[test]
    fn lines_of_large_pages_are_found_too() {
        let lines = density(16, 1).used(32.0, 32_768, false).unwrap();
        assert!((lines / PAGES - 1.0).abs() < 0.5, "{lines}");
    }

    /// Half of the accesses use one line of each of 1,000 pages, and the others all lines of 16,384: what
    /// the pages that are seen twice say is not true of the others.
    #[test]
    fn pages_that_are_used_more_often_do_not_stand_for_the_others() {
        let mut density = Density::default();
        let mut state = 5;
        for _ in 0..8 {
            let index = |state: &mut u64| (1 << 30) + number(state) % 1000 * 64;
            let data = |state: &mut u64| number(state) % (16_384 * 64);
            let mut lines: BTreeSet<u64> = (0..50).map(|_| index(&mut state)).collect();
            lines.extend((0..50).map(|_| data(&mut state)));
            density.add(lines);
        }
        let found = density.used(17_384.0, 64, false).unwrap();
        assert!(found > 0.6 * 64.0 * 17_384.0, "{found}");
    }

    /// A walk in one order over a line of each of 16,384 pages: two windows saw it at the same place.
    #[test]
    fn windows_at_the_same_place_are_one_sign() {
        let mut density = Density::default();
        let mut state = 9;
        for at in 0..12 {
            let first = match at {
                3 => 0,
                7 => 40,
                _ => number(&mut state) % 16_384,
            };
            let page = |step: u64| (first + step) * 7919 % 16_384;
            density.add((0..75).map(|step| page(step) * 64).collect());
        }
        // It is enough where the program's speed says so too.
        assert_eq!(density.used(PAGES, 64, true), Some(PAGES));
        let found = density.used(PAGES, 64, false);
        assert!(found.is_none_or(|found| found > PAGES), "{found:?}");
    }

    #[test]
    fn a_stream_uses_all_lines() {
        let mut density = Density::default();
        for pass in [0, 1000, 2000, 0, 1000, 2000] {
            density.add((pass..pass + 200).collect());
        }
        let found = density.used(48.0, 64, false);
        assert!(found.is_none_or(|found| found > 32.0 * 48.0), "{found:?}");
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        assert_eq!(Density::default().used(PAGES, 64, false), None);
    }
}
