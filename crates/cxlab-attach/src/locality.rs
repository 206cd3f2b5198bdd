//! How much memory a process uses, and how likely the last level cache has a line that is new to a window.
//!
//! The pages that were touched lately say how much memory is used at most. The lines that windows of a piece
//! of code saw in them say whether those are used in full ([`crate::density`]). Lines that several windows
//! saw are in the cache, whatever its size ([`crate::reuse`]), and the chance is that of the others.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::density::{Density, PAGE_LINES};
use crate::estimate::{PhaseId, chance};
use crate::reuse::{MIN_WINDOWS, Reuse, WindowTrace};
use crate::reuse_time::{PhaseReuse, Phases, ReuseTimes};

/// Number of samples of the touched pages whose maximum counts.
const SAMPLES: usize = 2;
/// Number of windows of a phase until which its time waits for a price, while too few lines were seen twice to decide
/// how many lines of a page are used (*assumed*: as many as [`crate::schedule`] has at first).
pub(crate) const FIRST_WINDOWS: usize = 8;
/// Like [`FIRST_WINDOWS`], if the program's speed contradicts the touched pages.
const DOUBTFUL_WINDOWS: usize = 32;
/// Fewest watched lines that decide instead of touched pages (*assumed*: those of two windows).
const MIN_WATCHED_LINES: f64 = 4.0;
/// Fewest watched lines of a phase that decide without lines of other phases (*assumed*: those of four windows).
const DECISIVE_LINES: f64 = 8.0;
/// Number of watched lines of a phase until which its time waits for a price (*assumed*: those of eight windows).
const AWAITED_LINES: f64 = 16.0;
/// Lines of a large page.
const LARGE_PAGE_LINES: u64 = 32_768;

/// Miss rate of a phase by watched lines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WatchedPhase {
    /// Part of the phase's lines that miss, with the number of watched lines behind it.
    pub beyond: PhaseReuse,
    /// Whether the watched lines suffice, so that time need not wait for more.
    pub enough: bool,
}

/// Memory use of a process: touched pages, lines of windows and watched lines.
#[derive(Clone, Default, Debug)]
pub struct Locality {
    /// Bytes of the pages that were touched, by the last samples.
    used: VecDeque<u64>,
    llc_bytes: u64,
    /// Part of the memory that is in large pages.
    huge_share: f64,
    /// Lines seen, by phase.
    density: BTreeMap<PhaseId, Density>,
    /// Lines of recent windows, of all phases.
    reuse: Reuse,
    /// Time until watched lines are touched again.
    pub(crate) times: ReuseTimes,
}

impl Locality {
    /// Adds a sample of the touched pages: their bytes, and the part of the memory that is in large pages. The
    /// last level cache has `llc_bytes`.
    pub fn add_sample(&mut self, bytes: u64, huge_share: f64, llc_bytes: u64) {
        if self.used.len() == SAMPLES {
            self.used.pop_front();
        }
        self.used.push_back(bytes);
        self.huge_share = huge_share;
        self.llc_bytes = llc_bytes;
        self.reuse.has_cache(llc_bytes / 64);
    }

    /// Whether the touched pages were sampled.
    pub fn is_known(&self) -> bool {
        !self.used.is_empty()
    }

    /// Adds the lines of window `number`, which is of that phase.
    pub fn add(&mut self, phase: PhaseId, number: u64, lines: BTreeSet<u64>) {
        self.reuse.add(number, lines.clone());
        self.times.is_of(number, phase);
        self.density.entry(phase).or_default().add(lines);
    }

    /// Drops all phases for which `is_known` returns false.
    pub fn retain(&mut self, is_known: impl Fn(PhaseId) -> bool) {
        self.density.retain(|phase, _| is_known(*phase));
        self.times.retain(is_known);
    }

    /// Lines of window `number` that are in the cache because another window touched them too.
    pub fn cached(&self, number: u64, trace: &WindowTrace) -> HashSet<u64> {
        self.reuse.shared(number, trace.lines().into_iter())
    }

    /// Largest number of bytes used, by the last samples.
    pub fn working_set(&self) -> u64 {
        self.used.iter().max().copied().unwrap_or(0)
    }

    /// Part of the memory that is in large pages.
    pub fn huge_share(&self) -> f64 {
        self.huge_share
    }

    /// Probability that a line misses if a program uses `bytes` in random order.
    pub fn chance_of(&self, bytes: u64) -> f64 {
        chance(bytes, self.llc_bytes)
    }

    /// Probability that a line misses, by the touched pages.
    pub fn chance_by_pages(&self) -> f64 {
        self.chance_of(self.working_set())
    }

    /// Probability that a line misses, by the lines that windows of the phase touched. `None` if these lines do not
    /// contradict the touched pages. Fewer lines suffice if the program's speed contradicts the pages (`doubtful`).
    pub fn chance_by_lines(&self, phase: PhaseId, doubtful: bool) -> Option<f64> {
        let page_lines = self.page_lines();
        let pages = self.working_set() as f64 / (64 * page_lines) as f64;
        let density = self.density.get(&phase)?;
        let lines = density.used(pages, page_lines, doubtful)?;
        let chance = self.chance_of((64.0 * lines) as u64);
        Some(chance.min(self.chance_by_pages()))
    }

    /// Probability that a line misses which no other window touched, if a line misses with probability `chance`. By
    /// chance, other windows touched some of the missing lines, so the probability of the remaining lines is larger. It
    /// is bounded by the reuse between windows for a cache of that size, except for lines in crowded sets. The part by
    /// `watched` lines, if there is one, replaces this estimate.
    pub fn chance_of_unshared(&self, chance: f64, watched: Option<f64>) -> f64 {
        let cache = self.llc_bytes as f64 / 64.0;
        // The size of the memory in use follows from the probability.
        let lines = cache / (1.0 - chance).max(f64::EPSILON);
        let unshared = chance / (1.0 - self.reuse.by_chance(lines)).max(f64::EPSILON);
        let chance = unshared.min(self.reuse.beyond(cache));
        self.reuse.with_crowd(watched.unwrap_or(chance))
    }

    /// Miss rate of a phase by its watched lines, together with those of all phases while its own are few. `None` if
    /// all are too few. `threads` threads run at once, and touch lines at the rates of `phases`.
    pub fn watched(&self, phase: PhaseId, phases: &Phases, threads: usize) -> Option<WatchedPhase> {
        let horizon = self.horizon(phases, threads)?;
        let all = self.times.beyond(None, horizon)?;
        let own = self.times.beyond(Some(phase), horizon);
        let own = own.unwrap_or_default();
        let weight = (own.known / DECISIVE_LINES).min(1.0);
        (all.known >= MIN_WATCHED_LINES).then_some(WatchedPhase {
            beyond: PhaseReuse {
                part: weight * own.part + (1.0 - weight) * all.part,
                ..if weight < 1.0 { all } else { own }
            },
            enough: own.known >= AWAITED_LINES,
        })
    }

    /// CPU time of a thread in which the program fills the cache, in nanoseconds. `None` if no lines were watched.
    pub fn horizon(&self, phases: &Phases, threads: usize) -> Option<f64> {
        let lines = self.llc_bytes as f64 / (64.0 * threads.max(1) as f64);
        self.times.horizon(phases, lines)
    }

    /// Whether more windows may soon decide which lines of a phase are in the cache, and the miss rate depends on it.
    /// `doubtful` is set if the program's speed contradicts the touched pages.
    pub fn is_undecided(&self, phase: PhaseId, doubtful: bool) -> bool {
        let most = match doubtful {
            true => DOUBTFUL_WINDOWS,
            false => FIRST_WINDOWS,
        };
        let undecided = |density: &Density| {
            let windows = density.windows();
            let more = self.reuse.windows() < MIN_WINDOWS && self.reuse.is_shared();
            let more = more || self.times.is_known();
            windows < most && (more || !density.is_decided(self.page_lines()))
        };
        self.chance_by_pages() > 0.0
            && self.density.get(&phase).is_some_and(undecided)
            && !(doubtful && self.chance_by_lines(phase, true).is_some())
    }

    /// Lines of the pages that are used.
    fn page_lines(&self) -> u64 {
        match self.huge_share > 0.5 {
            true => LARGE_PAGE_LINES,
            false => PAGE_LINES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few lines of a phase share the decision with those of others, and enough of them decide alone.
    #[test]
    fn watched_lines_of_a_phase_count_by_their_number() {
        const FEW: PhaseId = 1;
        const MANY: PhaseId = 2;
        let mut locality = Locality::default();
        locality.add_sample(64 << 20, 0.0, 8 << 20);
        let mut phases = Phases::default();
        phases.touches(FEW, 0.1);
        phases.touches(MANY, 0.1);
        assert_eq!(locality.watched(FEW, &phases, 1), None);
        let mut watch = |window: u64, phase, number, again| {
            for _ in 0..number {
                let id = locality.times.begin(window);
                locality.times.is_of(window, phase);
                let ns = if again { 10.0 } else { 1e9 };
                locality.times.record(id, ns, again);
            }
        };
        watch(1, FEW, 4, false);
        watch(2, MANY, 12, true);
        let few = locality.watched(FEW, &phases, 1).unwrap();
        // Its own part is 1, and that of all is 4 of 16.
        assert!((few.beyond.part - 0.625).abs() < 1e-9, "{few:?}");
        assert_eq!((few.beyond.known, few.enough), (16.0, false));
        let many = locality.watched(MANY, &phases, 1).unwrap();
        assert_eq!((many.beyond.part, many.beyond.known), (0.0, 12.0));
    }
}
