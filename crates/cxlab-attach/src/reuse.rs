//! Lines that a program uses again and again, which are in a cache although they are new to a window.
//!
//! A window is some hundred instructions, and a last level cache holds what thousands of windows touch. So a
//! line that two windows touch is used so often that it is in the cache: the stack, the upper pages of a
//! tree, the fields of an object. Two things follow for the lines that no other window touches.
//!
//! Of a large array that is used without order, two windows touch the same line by chance, once in as many
//! times as the windows' lines are a part of the array. [`Reuse::by_chance`] says how often, so that this
//! makes no program miss less.
//!
//! Where more windows show more and more lines that were touched before, still more would go on with that.
//! Of `n` windows, the part of a window's lines that no other touches is the miss ratio of a cache that holds
//! the distinct lines of `n` windows, if lines are used independently of each other. Miss ratios of programs
//! fall as a power of the cache's size (A. Hartstein et al., "Cache Miss Behavior: Is It √2?", Computing
//! Frontiers 2006). [`Reuse::beyond`] measures the exponent and goes on from there to the last level cache.
//!
//! Lines that are a power of two apart may all be in a few sets of a cache, which hold fewer of them than
//! windows have seen. Such lines miss although the program uses little memory ([`Reuse::with_crowd`]).

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::extrapolation::{extrapolate, touched};
use crate::model::{Step, Touch, Window, WindowUse};

/// Most windows in the history of a process (*assumed*: some thousand lines, a small part of a last level cache).
pub(crate) const WINDOWS: usize = 32;

/// Lines of a set of the last level cache (*assumed*).
pub const WAYS: u64 = 16;
/// Fewest windows from which the exponent of the miss ratio is computed.
pub(crate) const MIN_WINDOWS: usize = 8;
/// Least part of windows' lines touched by other windows too, for which more windows improve the estimate (*assumed*).
const MIN_SHARED_PART: f64 = 0.1;

/// Instructions of a window, so that it can be analysed again when more of its lines are known to be cached.
#[derive(Clone, Default, Debug)]
pub struct WindowTrace {
    steps: Vec<Step>,
    before: usize,
    /// Pool of each line that the window touched.
    pools: BTreeMap<u64, usize>,
}

/// Bytes that a breakpoint sees, and their number in a line.
const WORD: u64 = 8;
const WORDS: u64 = 64 / WORD;

/// A line that a window touched, but not towards its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeftLine {
    /// Last touched address in the line.
    pub address: u64,
    /// Words of the line in which a touch began, one bit each.
    words: u8,
}

impl LeftLine {
    /// Address of a word in which no touch began, of which `number` chooses one. `None` if there is none.
    pub fn beside(&self, number: u64) -> Option<u64> {
        let free = u64::from(self.words.count_zeros());
        let mut words = (0..WORDS).filter(|word| self.words >> word & 1 == 0);
        let word = words.nth(number.checked_rem(free)? as usize)?;
        Some(self.address / 64 * 64 + word * WORD)
    }
}

impl WindowTrace {
    /// A window of these instructions, the first `before` of which are its lead-in. `find` gives the pool of an address,
    /// or `None` if nothing is mapped there.
    pub fn new(
        steps: Vec<Step>,
        before: usize,
        find: &mut dyn FnMut(u64) -> Option<usize>,
    ) -> WindowTrace {
        let touches = steps.iter().flat_map(|step| &step.touches);
        let pool = |touch: &Touch| (touch.address / 64, find(touch.address).unwrap_or(0));
        WindowTrace {
            pools: touches.map(pool).collect(),
            steps,
            before,
        }
    }

    /// Whether the window has no instructions after its lead-in.
    pub fn is_empty(&self) -> bool {
        self.steps.len() <= self.before
    }

    /// The lines that the window touched.
    pub fn lines(&self) -> BTreeSet<u64> {
        self.pools.keys().copied().collect()
    }

    /// Lines that the window touched after its lead-in, and neither in the lead-in nor in its last eighth: a later
    /// touch is another use.
    pub fn left(&self) -> Vec<LeftLine> {
        let (before, rest) = self.steps.split_at(self.before.min(self.steps.len()));
        let (first, behind) = rest.split_at(rest.len() - rest.len() / 8);
        let [before, behind] = [before, behind].map(|steps| touched(steps).collect::<HashSet<_>>());
        let mut last: BTreeMap<u64, LeftLine> = BTreeMap::new();
        for touch in first.iter().flat_map(|step| &step.touches) {
            let line = last.entry(touch.address / 64).or_default();
            line.address = touch.address;
            line.words |= 1 << (touch.address / WORD % WORDS);
        }
        last.retain(|line, _| !before.contains(line) && !behind.contains(line));
        last.into_values().collect()
    }

    /// Memory use of the window, extended as [`crate::extrapolation`] says. `find` gives the pool of an address in
    /// which the program has not been yet.
    pub fn analyse(&self, window: Window, find: &mut dyn FnMut(u64) -> Option<usize>) -> WindowUse {
        let mut pool = |address: u64| {
            let known = self.pools.get(&(address / 64)).copied();
            known.or_else(|| find(address))
        };
        extrapolate(window, self.steps.clone(), self.before, &mut pool)
    }
}

/// The lines of a process's recent windows, of all its code.
#[derive(Clone, Default, Debug)]
pub struct Reuse {
    /// The lines of each window, with its number.
    windows: VecDeque<(u64, BTreeSet<u64>)>,
    /// Exponent of the miss ratio, one standard error less than found; 0 while there are too few windows.
    exponent: f64,
    /// Number of distinct lines of the windows.
    distinct: f64,
    /// Part of the lines of windows that other windows touched too.
    shared: f64,
    /// Number of sets of the last level cache, and the lines that these hold too few of.
    sets: u64,
    crowd: Crowd,
}

/// Lines in sets of the last level cache that hold fewer lines than windows saw of them.
#[derive(Clone, Default, Debug)]
struct Crowd {
    sets: HashSet<u64>,
    /// Share of crowded lines among the distinct lines that are crowded or that only one window touched.
    part: f64,
    /// Probability that a crowded line misses, for uses in random order.
    misses: f64,
}

/// Numbers of lines by the number of windows that touched them.
#[derive(Clone)]
struct TouchCounts {
    windows: usize,
    lines: Vec<f64>,
}

impl TouchCounts {
    /// The counts without one window, given for each of its lines the number of windows that touched the line.
    fn without(&self, counts: impl Iterator<Item = usize>) -> TouchCounts {
        let mut rest = self.clone();
        rest.windows -= 1;
        for count in counts {
            rest.lines[count] -= 1.0;
            rest.lines[count - 1] += 1.0;
        }
        rest
    }

    /// By number of other windows: share of a window's lines that none of them touches.
    fn unseen(&self) -> Vec<f64> {
        let mut unseen = vec![0.0; self.windows];
        let mut all = 0.0;
        for (count, lines) in self.lines.iter().enumerate().skip(1) {
            let pairs = lines * count as f64;
            all += pairs;
            let mut none = 1.0;
            for (others, unseen) in unseen.iter_mut().enumerate() {
                *unseen += pairs * none;
                // The next window is one of those left, some of which touch the line.
                let left = (self.windows - 1).saturating_sub(others) as f64;
                none *= (1.0 - (count - 1) as f64 / left.max(1.0)).max(0.0);
            }
        }
        unseen
            .iter()
            .map(|part| part / f64::max(all, 1.0))
            .collect()
    }

    /// Exponent of the miss ratio as a power of the cache's size, from the second half of the windows. 0 if other windows
    /// touched every line.
    fn exponent(&self) -> f64 {
        let unseen = self.unseen();
        let (half, last) = (self.windows / 2, self.windows - 1);
        let size = |windows: usize| unseen[..=windows].iter().sum::<f64>();
        let falls = (unseen[half] / unseen[last]).ln() / (size(last) / size(half)).ln();
        if falls.is_finite() { falls } else { 0.0 }
    }
}

impl Reuse {
    /// Adds the lines of window `number`.
    pub fn add(&mut self, number: u64, lines: BTreeSet<u64>) {
        if self.windows.len() == WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back((number, lines));
        let counts = self.counts();
        self.crowd = self.crowd(&counts);
        self.distinct = counts.len() as f64;
        let all: usize = counts.values().sum();
        let shared: usize = counts.values().filter(|count| **count > 1).sum();
        self.shared = shared as f64 / all.max(1) as f64;
        self.exponent = match self.windows.len() >= MIN_WINDOWS {
            true => self.least_exponent(&counts),
            false => 0.0,
        };
    }

    /// Lines, with the number of windows that touched each.
    fn counts(&self) -> BTreeMap<u64, usize> {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for line in self.windows.iter().flat_map(|(_, lines)| lines) {
            *counts.entry(*line).or_default() += 1;
        }
        counts
    }

    /// Sets the size of the last level cache, in lines.
    pub fn has_cache(&mut self, lines: u64) {
        self.sets = lines / WAYS;
    }

    fn crowd(&self, counts: &BTreeMap<u64, usize>) -> Crowd {
        if self.sets == 0 {
            return Crowd::default();
        }
        let mut in_set: BTreeMap<u64, u64> = BTreeMap::new();
        for line in counts.keys() {
            *in_set.entry(line % self.sets).or_default() += 1;
        }
        in_set.retain(|_, lines| *lines > WAYS);
        let crowded: u64 = in_set.values().sum();
        let held = WAYS * in_set.len() as u64;
        let is_alone = |(line, count): &(&u64, &usize)| {
            **count == 1 && !in_set.contains_key(&(*line % self.sets))
        };
        let alone = counts.iter().filter(is_alone).count();
        Crowd {
            part: crowded as f64 / (crowded as f64 + alone as f64).max(1.0),
            misses: 1.0 - held as f64 / (crowded as f64).max(1.0),
            sets: in_set.into_keys().collect(),
        }
    }

    /// Whether windows touched more lines of the line's cache set than the set holds.
    fn is_crowded(&self, line: u64) -> bool {
        !self.crowd.sets.is_empty() && self.crowd.sets.contains(&(line % self.sets))
    }

    /// Probability that a line misses which is not known to be cached, if it is `chance` for lines in uncrowded sets.
    pub fn with_crowd(&self, chance: f64) -> f64 {
        let crowded = self.crowd.misses.max(chance);
        self.crowd.part * crowded + (1.0 - self.crowd.part) * chance
    }

    /// The exponent less its standard error by the jackknife, which leaves out one window at a time.
    fn least_exponent(&self, counts: &BTreeMap<u64, usize>) -> f64 {
        let windows = self.windows.len();
        let mut lines = vec![0.0; windows + 1];
        counts.values().for_each(|count| lines[*count] += 1.0);
        let all = TouchCounts { windows, lines };
        let without = |(_, lines): &(u64, BTreeSet<u64>)| {
            let counts = lines.iter().map(|line| counts[line]);
            all.without(counts).exponent()
        };
        let others: Vec<f64> = self.windows.iter().map(without).collect();
        let mean = others.iter().sum::<f64>() / windows as f64;
        let squares: f64 = others.iter().map(|other| (other - mean).powi(2)).sum();
        let error = (squares * (windows - 1) as f64 / windows as f64).sqrt();
        (all.exponent() - error).max(0.0)
    }

    /// Largest share of the lines that no other window touched which are not in a cache of `lines` lines.
    pub fn beyond(&self, lines: f64) -> f64 {
        let times = (lines / self.distinct.max(1.0)).max(1.0);
        times.powf(-self.exponent)
    }

    /// Number of windows in the history.
    pub fn windows(&self) -> usize {
        self.windows.len()
    }

    /// Lines of window `number` that another window touched too and that are in uncrowded sets of the last level cache.
    pub fn shared(&self, number: u64, lines: impl Iterator<Item = u64>) -> HashSet<u64> {
        let others = || self.windows.iter().filter(|(other, _)| *other != number);
        lines
            .filter(|line| !self.is_crowded(*line))
            .filter(|line| others().any(|(_, other)| other.contains(line)))
            .collect()
    }

    /// Whether windows share so many lines that more windows improve the estimate.
    pub fn is_shared(&self) -> bool {
        self.shared > MIN_SHARED_PART
    }

    /// Share of lines that another window touches by chance, if a program uses `lines` lines in random order.
    pub fn by_chance(&self, lines: f64) -> f64 {
        let all: usize = self.windows.iter().map(|(_, lines)| lines.len()).sum();
        let others = all as f64 * (1.0 - 1.0 / self.windows.len().max(1) as f64);
        1.0 - (-others / lines.max(1.0)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::tests::number;
    use crate::locality::Locality;
    use crate::model::Overlap;

    const CACHE: u64 = 4096;

    /// A cache that drops the line used least recently.
    #[derive(Default)]
    struct Lru {
        used: BTreeMap<u64, u64>,
        order: BTreeMap<u64, u64>,
        now: u64,
    }

    impl Lru {
        fn misses(&mut self, line: u64) -> bool {
            self.now += 1;
            let before = self.used.insert(line, self.now);
            before.and_then(|before| self.order.remove(&before));
            self.order.insert(self.now, line);
            if self.used.len() as u64 > CACHE
                && let Some((_, oldest)) = self.order.pop_first()
            {
                self.used.remove(&oldest);
            }
            before.is_none()
        }
    }

    /// Windows of 80 uses, some thousand uses apart, of which the first 20 only show what was touched before,
    /// of a program that uses `lines` lines. Returns the part of new lines that misses a cache, and the estimate.
    fn parts(windows: u64, lines: u64, mut next: impl FnMut(&mut u64) -> u64) -> (f64, f64) {
        let (mut lru, mut state) = (Lru::default(), 3);
        for _ in 0..20 * CACHE {
            lru.misses(next(&mut state));
        }
        let mut locality = Locality::default();
        locality.add_sample(lines * 64, 0.0, CACHE * 64);
        let (mut new, mut missed) = (0, 0);
        let mut traces = Vec::new();
        // Far more windows tell the truth than the program is seen in.
        for at in 0..400 {
            let (mut known, mut steps) = (HashSet::new(), Vec::new());
            for step in 0..80 {
                let line = next(&mut state);
                let misses = lru.misses(line);
                if known.insert(line) && step >= 20 {
                    new += 1;
                    missed += u32::from(misses);
                }
                steps.push(Step::load(line * 64, &[1], &[1]));
            }
            if at % (400 / windows) == 0 && (traces.len() as u64) < windows {
                let trace = WindowTrace::new(steps, 20, &mut |_| Some(0));
                locality.add(1, at + 1, trace.lines());
                traces.push((at + 1, trace));
            }
            for _ in 0..1000 {
                lru.misses(next(&mut state));
            }
        }
        let chance = locality.chance_of_unshared(locality.chance_by_pages(), None);
        let (mut seen, mut counted) = (0, 0.0);
        for (number, trace) in &traces {
            let cached = locality.cached(*number, trace);
            let before = touched(&trace.steps[..20]).collect();
            let fresh = &trace.lines() - &before;
            seen += fresh.len();
            let unshared = fresh.iter().filter(|line| !cached.contains(line)).count();
            counted += chance * unshared as f64;
        }
        (f64::from(missed) / f64::from(new), counted / seen as f64)
    }

    #[test]
    fn uses_without_order_miss_as_the_cache_says() {
        for (lines, windows) in [(5000, 8), (16_384, 16), (16_384, 32), (131_072, 32)] {
            let (truth, found) = parts(windows, lines, |state| number(state) % lines);
            assert!((found - truth).abs() < 0.03, "{lines}: {truth} {found}");
        }
    }

    /// A third of the uses is of some lines of a stack.
    #[test]
    fn lines_in_use_all_the_time_are_in_the_cache() {
        let (truth, found) = parts(8, 65_536, |state| match number(state).is_multiple_of(3) {
            true => (1 << 40) + number(state) % 12,
            false => number(state) % 65_536,
        });
        // By pages alone 94 % of the lines that are new to a window would miss.
        assert!(truth < 0.88, "{truth}");
        assert!((found - truth).abs() < 0.03, "{truth} {found}");
    }

    /// Paths through a tree, each node of which has eight below it: 37,449 nodes of a line each. By the
    /// touched pages, nine of ten lines would miss.
    #[test]
    fn the_upper_nodes_of_a_tree_miss_less() {
        let levels = |state: &mut u64, at: u64| (at << 40) + number(state) % 8u64.pow(at as u32);
        for windows in [8, 16, 32] {
            let mut at = 0;
            let (truth, found) = parts(windows, 37_449, |state| {
                at = (at + 1) % 6;
                levels(state, at)
            });
            let by_pages = 1.0 - CACHE as f64 / 37_449.0;
            let most = 0.5 * (truth + by_pages);
            assert!(found < most, "{windows}: {truth} {found}");
            assert!(found > 0.8 * truth, "{windows}: {truth} {found}");
        }
    }

    /// Of 64 lines in the same set, a cache holds 16. Others are used all the time.
    #[test]
    fn lines_of_the_same_set_miss() {
        let mut locality = Locality::default();
        locality.add_sample(CACHE * 32, 0.0, CACHE * 64);
        let mut state = 1;
        let far = CACHE / WAYS;
        let mut last = None;
        for at in 0..10 {
            let mut step = |line: u64| Step::load(line * 64, &[1], &[1]);
            let mut steps: Vec<Step> = (0..8).map(&mut step).collect();
            steps.extend((0..40).map(|_| step(number(&mut state) % 64 * far)));
            let trace = WindowTrace::new(steps, 0, &mut |_| Some(0));
            locality.add(1, at, trace.lines());
            last = Some(trace);
        }
        assert_eq!(locality.chance_by_pages(), 0.0);
        let chance = locality.chance_of_unshared(0.0, None);
        assert!((chance - 0.75).abs() < 0.01, "{chance}");
        let cached = locality.cached(9, &last.unwrap());
        assert_eq!(cached, (1..8).collect());
    }

    #[test]
    fn few_windows_and_windows_without_lines_say_nothing() {
        let mut reuse = Reuse::default();
        assert_eq!((reuse.beyond(1e6), reuse.by_chance(1e6)), (1.0, 0.0));
        assert!(!reuse.is_shared());
        for number in 0..40 {
            reuse.add(number, BTreeSet::new());
            assert_eq!((reuse.beyond(1e6), reuse.by_chance(1e6)), (1.0, 0.0));
        }
        assert_eq!(reuse.windows(), WINDOWS);
        // All lines are the same: nothing is left that only one window touched.
        for number in 0..40 {
            reuse.add(number, BTreeSet::from([1, 2]));
        }
        assert_eq!(reuse.beyond(1e6), 1.0);
        let shared = reuse.shared(39, 1..=3);
        assert_eq!(shared, HashSet::from([1, 2]));
    }

    /// Of lines 0 to 99, in order, 0 to 9 only show what was touched before, and the walk returns to 20 at the end.
    #[test]
    fn a_window_has_left_its_lines_but_for_the_last() {
        let lines = (0..99u64).chain([20]);
        let steps = lines.map(|line| Step::load(line * 64 + 8, &[1], &[1]));
        let trace = WindowTrace::new(steps.collect(), 10, &mut |_| Some(0));
        let expected = (10..89u64).filter(|line| *line != 20);
        let expected: Vec<u64> = expected.map(|line| line * 64 + 8).collect();
        let left: Vec<u64> = trace.left().iter().map(|left| left.address).collect();
        assert_eq!(left, expected);
        let short = WindowTrace::new(vec![Step::load(64, &[1], &[1])], 10, &mut |_| Some(0));
        assert!(short.left().is_empty());
    }

    #[test]
    fn bytes_beside_those_of_a_line_were_not_touched() {
        let walk = |words: u64| {
            let touches = (0..words).map(|word| 640 + word * 8);
            let touches = touches.chain([6400; 8]);
            let steps = touches.map(|address| Step::load(address, &[1], &[1]));
            WindowTrace::new(steps.collect(), 0, &mut |_| Some(0)).left()
        };
        let beside = |words, number| walk(words)[0].beside(number);
        let all: Vec<_> = (0..6).map(|number| beside(5, number)).collect();
        assert_eq!(all, [680, 688, 696, 680, 688, 696].map(Some));
        assert_eq!((beside(7, 5), beside(8, 5)), (Some(696), None));
    }

    /// Another window touched every second line of a walk: only the others miss, in each repetition.
    #[test]
    fn cached_lines_of_a_window_never_miss() {
        let steps = (0..100u64).map(|at| Step::load(at * 100 * 64, &[1], &[1]).at(4 * at));
        let trace = WindowTrace::new(steps.collect(), 0, &mut |_| Some(0));
        let cached = (0..50).map(|at| at * 200).collect();
        let reads = |cached| {
            let window = Window::new(1, Overlap::default()).with_cached(cached);
            let used = trace.analyse(window, &mut |_| Some(0));
            used.pools[0].reads / used.instructions as f64
        };
        assert!((reads(HashSet::new()) - 1.0).abs() < 0.01);
        assert!((reads(cached) - 0.5).abs() < 0.01);
    }
}
