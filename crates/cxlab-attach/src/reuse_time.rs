//! How long it takes until a program uses a line again, and which lines are in the last level cache therefore.
//!
//! A breakpoint of the processor on a line that a window touched tells when the program touches it next (E. Berg
//! and E. Hagersten, "StatCache: A Probabilistic Approach to Efficient and Accurate Data Locality Analysis",
//! ISPASS 2004; Q. Wang, X. Liu and M. Chabbi, "Featherlight Reuse-Distance Measurement", HPCA 2019). Of
//! these times follows how many different lines a program touches in a time: each of its touches counts once
//! that is the last one of its line, so that the lines grow by the rate of touches, times the part of lines
//! that are not touched again until then (D. Eklov and E. Hagersten, "StatStack: Efficient Modeling of LRU
//! Caches", ISPASS 2010). The time in which they are as many as the cache holds is the
//! [`horizon`](ReuseTimes::horizon): a line that is not touched again until then has left the cache.
//!
//! A watch may end before its line is touched again. What is known until then counts (E. Kaplan and P. Meier,
//! "Nonparametric Estimation from Incomplete Observations", Journal of the American Statistical Association,
//! volume 53, 1958).
//!
//! A breakpoint sees eight bytes, of 64. So a line has two of them, one on bytes that were touched and one on others.
//! A line that is next touched elsewhere seems to be used later than it is, so that too few lines are in the
//! cache, and never too many.

use std::collections::{BTreeMap, VecDeque};

use crate::estimate::PhaseId;

/// Most watched lines in the history of all phases (*assumed*).
const MAX_WATCHED_LINES: usize = 256;

/// Touches assumed in an interval without any: Jeffreys' prior of a rate ("Theory of Probability", 1939).
const PRIOR_TOUCHES: f64 = 0.5;

/// Time constant with which a phase's CPU time decays, in nanoseconds of the process's CPU time (*assumed*: some times
/// the time to fill a cache).
const DECAY_NS: f64 = 50e6;

/// Number of a watched line.
pub type WatchId = u64;

/// A watched line.
#[derive(Clone, Copy, Debug)]
struct WatchedLine {
    window: u64,
    /// Phase of the window. `None` until it is known.
    phase: Option<PhaseId>,
    /// CPU time of the thread from the touch to the next touch, or until now, in nanoseconds.
    ns: f64,
    /// Whether the program touched the line again after that time.
    again: bool,
}

/// Rate at which a phase touches lines.
#[derive(Clone, Copy, Default, Debug)]
pub struct TouchRate {
    /// Lines new to windows per nanosecond of the phase's CPU time. `None` until it is known.
    pub per_ns: Option<f64>,
    /// Decaying CPU time that the process spent in the phase, in nanoseconds.
    pub lately_ns: f64,
}

/// The phases of a process.
#[derive(Clone, Default, Debug)]
pub struct Phases(BTreeMap<PhaseId, TouchRate>);

impl Phases {
    /// Sets the number of lines that a phase touches per nanosecond.
    pub fn touches(&mut self, phase: PhaseId, per_ns: f64) {
        self.0.entry(phase).or_default().per_ns = Some(per_ns);
    }

    /// Adds CPU time of a phase, in nanoseconds.
    pub fn ran(&mut self, phase: PhaseId, ns: f64) {
        let kept = (-ns / DECAY_NS).exp();
        for one in self.0.values_mut() {
            one.lately_ns *= kept;
        }
        self.0.entry(phase).or_default().lately_ns += ns;
    }

    /// Forgets the phases that are not known any more.
    pub fn retain(&mut self, is_known: impl Fn(PhaseId) -> bool) {
        self.0.retain(|phase, _| is_known(*phase));
    }
}

/// Watched lines of a process.
#[derive(Clone, Default, Debug)]
pub struct ReuseTimes {
    watched: VecDeque<WatchedLine>,
    /// Number of the first one that is remembered.
    first: WatchId,
}

/// Share of a phase's lines that have left the cache, estimated from watched lines.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PhaseReuse {
    /// Share of lines that have left the cache before they are touched again.
    pub part: f64,
    /// Number of watched lines for which this is known.
    pub known: f64,
    /// Effective number of independent lines. If a program accesses its memory in order, the
    /// lines of a window are touched again together.
    pub independent: f64,
}

impl PhaseReuse {
    /// The 95 % interval of the share, after E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
    /// Inference", Journal of the American Statistical Association, volume 22, 1927.
    pub fn interval(&self) -> [f64; 2] {
        const DEVIATIONS: f64 = 1.96;
        let squares = DEVIATIONS * DEVIATIONS;
        let (part, number) = (self.part, self.independent);
        let middle = part + squares / (2.0 * number);
        let spread = part * (1.0 - part) / number + squares / (4.0 * number * number);
        [-1.0, 1.0].map(|side| {
            let bound = (middle + side * DEVIATIONS * spread.sqrt()) / (1.0 + squares / number);
            bound.clamp(0.0, 1.0)
        })
    }
}

impl ReuseTimes {
    /// Adds a watched line of window `window`.
    pub fn begin(&mut self, window: u64) -> WatchId {
        if self.watched.len() == MAX_WATCHED_LINES {
            self.watched.pop_front();
            self.first += 1;
        }
        self.watched.push_back(WatchedLine {
            window,
            phase: None,
            ns: 0.0,
            again: false,
        });
        self.first + self.watched.len() as u64 - 1
    }

    /// Sets the phase of a window's lines.
    pub fn is_of(&mut self, window: u64, phase: PhaseId) {
        let of = self.watched.iter_mut().rev();
        of.take_while(|one| one.window >= window)
            .filter(|one| one.window == window)
            .for_each(|one| one.phase = Some(phase));
    }

    /// Records that a line was watched for `ns` of CPU time, until it was touched `again` or until now. Returns whether
    /// this invalidates estimates.
    pub fn record(&mut self, id: WatchId, ns: f64, again: bool) -> bool {
        let at = id.checked_sub(self.first).map(|at| at as usize);
        let Some(one) = at.and_then(|at| self.watched.get_mut(at)) else {
            return false;
        };
        let changes = again || ns > 2.0 * one.ns;
        if changes {
            (one.ns, one.again) = (ns, again);
        }
        changes
    }

    /// Whether lines can be watched here.
    pub fn is_known(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Forgets the phases that are not known any more.
    pub fn retain(&mut self, is_known: impl Fn(PhaseId) -> bool) {
        for one in &mut self.watched {
            one.phase = one.phase.filter(|phase| is_known(*phase));
        }
    }

    /// CPU time in which the program touches as many lines as a cache holds, in nanoseconds. The watched lines of a phase
    /// represent all lines that it touched lately, so phases that have ended fill no cache. One additional line counts as
    /// never touched again, which bounds the estimate with few lines. `None` without watched lines.
    pub fn horizon(&self, phases: &Phases, lines: f64) -> Option<f64> {
        let of = |one: &WatchedLine| {
            let phase = one.phase?;
            let touching = phases.0.get(&phase)?;
            Some((phase, touching.per_ns?, touching.lately_ns))
        };
        // Number of watched lines of each phase, and CPU time lately.
        let mut by_phase: BTreeMap<PhaseId, (f64, f64)> = BTreeMap::new();
        for (phase, _, lately_ns) in self.watched.iter().filter_map(of) {
            let (lines, time_ns) = by_phase.entry(phase).or_default();
            *lines += 1.0;
            *time_ns = lately_ns;
        }
        let time_ns: f64 = by_phase.values().map(|(_, ns)| ns).sum();
        let all: f64 = by_phase.values().map(|(lines, _)| lines).sum();
        // Lines that a watched one stands for in a nanosecond of that time. If no time is known, all lines stand for
        // as much of it.
        let weighted = |one| {
            let (phase, per_ns, lately_ns) = of(one)?;
            let share = match time_ns > 0.0 {
                true => lately_ns / time_ns / by_phase[&phase].0,
                false => 1.0 / all,
            };
            Some((per_ns * share, one))
        };
        let known: Vec<(f64, &WatchedLine)> = self.watched.iter().filter_map(weighted).collect();
        let mean: f64 = known.iter().map(|(weight, _)| weight).sum();
        if mean <= 0.0 {
            return None;
        }
        let squares: f64 = known.iter().map(|(weight, _)| weight * weight).sum();
        let (mut at, mut found) = (0.0, 0.0);
        let mut left = 1.0;
        let never = WatchedLine {
            window: 0,
            phase: None,
            ns: f64::INFINITY,
            again: false,
        };
        let known = known.into_iter().chain([(squares / mean, &never)]);
        for (ns, part) in survival(known.collect()) {
            let more = mean * left * (ns - at);
            if found + more >= lines {
                break;
            }
            (at, found, left) = (ns, found + more, part);
        }
        Some(at + (lines - found) / (mean * left))
    }

    /// Share of the watched lines of a phase, or of all phases, that are not touched again until the `horizon`, if any.
    pub fn beyond(&self, phase: Option<PhaseId>, horizon: f64) -> Option<PhaseReuse> {
        let is_of = |one: &&WatchedLine| phase.is_none_or(|phase| one.phase == Some(phase));
        let of = || self.watched.iter().filter(is_of);
        // By window: number of lines with a known result, and number of them not touched again until the horizon.
        let mut windows: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for one in of().filter(|one| one.again || one.ns >= horizon) {
            let (lines, beyond) = windows.entry(one.window).or_default();
            *lines += 1.0;
            *beyond += f64::from(one.ns >= horizon);
        }
        let known: f64 = windows.values().map(|(lines, _)| lines).sum();
        let until = survival(of().map(|one| (1.0, one)).collect());
        let before = until.into_iter().take_while(|(ns, _)| *ns < horizon);
        let (last, part) = before.last().unwrap_or((0.0, 1.0));
        let part = part * rest(of(), last, horizon);
        (known > 0.0).then(|| PhaseReuse {
            part,
            known,
            independent: independent(part, windows.into_values().collect()),
        })
    }
}

/// Share of the lines not touched again until `last`, the time of the last touch, that are not touched until the `horizon`
/// either. The share is 1 if any line was watched for that long. Otherwise `PRIOR_TOUCHES` touches are assumed in the
/// time for which lines were watched.
fn rest<'a>(watched: impl Iterator<Item = &'a WatchedLine>, last: f64, horizon: f64) -> f64 {
    let (longest, longer) = watched.fold((0.0_f64, 0.0), |(longest, longer), one| {
        (longest.max(one.ns), longer + (one.ns - last).max(0.0))
    });
    match longest < horizon && longer > 0.0 {
        true => (-PRIOR_TOUCHES * (horizon - last) / longer).exp(),
        false => 1.0,
    }
}

/// Effective number of independent lines: their number divided by the design effect of windows as clusters (L. Kish,
/// "Survey Sampling", 1965). `windows` has the number of lines and of those beyond the horizon. If all windows agree,
/// each window counts as one line.
fn independent(part: f64, windows: Vec<(f64, f64)>) -> f64 {
    let known: f64 = windows.iter().map(|(lines, _)| lines).sum();
    let apart = |(lines, beyond): &(f64, f64)| (beyond - part * lines).powi(2);
    let spread: f64 = windows.iter().map(apart).sum();
    let variance = part * (1.0 - part);
    match variance > 0.0 {
        true => (variance * known * known / spread).clamp(windows.len() as f64, known),
        false => windows.len() as f64,
    }
}

/// Survival function of weighted lines (Kaplan and Meier): times of repeated touches in order, each with the share of
/// lines not touched again until then.
fn survival(mut watched: Vec<(f64, &WatchedLine)>) -> Vec<(f64, f64)> {
    watched.sort_by(|(_, one), (_, other)| one.ns.total_cmp(&other.ns));
    let mut at_risk: f64 = watched.iter().map(|(weight, _)| weight).sum();
    let mut part = 1.0;
    let mut until = Vec::new();
    for (weight, one) in watched {
        if one.again && at_risk > 0.0 {
            part *= (1.0 - weight / at_risk).max(0.0);
            until.push((one.ns, part));
        }
        at_risk -= weight;
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASE: PhaseId = 3;

    /// Lines of one phase, that were watched for so long and touched again or not.
    fn times(lines: &[(f64, bool)]) -> ReuseTimes {
        let mut times = ReuseTimes::default();
        for (window, line) in lines.iter().enumerate() {
            watch(&mut times, window as u64, PHASE, *line);
        }
        times
    }

    /// A line of a window of that phase was watched for so long, and touched again or not.
    fn watch(times: &mut ReuseTimes, window: u64, phase: PhaseId, (ns, again): (f64, bool)) {
        let id = times.begin(window);
        times.is_of(window, phase);
        times.record(id, ns, again);
    }

    fn phases(rates: &[(PhaseId, f64)]) -> Phases {
        let mut phases = Phases::default();
        for (phase, per_ns) in rates {
            phases.touches(*phase, *per_ns);
        }
        phases
    }

    /// Part of the lines of a phase that have left the cache.
    fn beyond(times: &ReuseTimes, phase: PhaseId, horizon: f64) -> f64 {
        times.beyond(Some(phase), horizon).unwrap().part
    }

    fn horizon(times: &ReuseTimes, lines: f64) -> f64 {
        times.horizon(&phases(&[(PHASE, 0.1)]), lines).unwrap()
    }

    /// A walk round: each line is touched again after all others.
    #[test]
    fn a_walk_in_a_fixed_order_fits_the_cache_or_misses_always() {
        // 10,000 lines, one each 10 ns.
        let walk = times(&[(100_000.0, true); 12]);
        let found = horizon(&walk, 5_000.0);
        assert!((found - 50_000.0).abs() < 1e-6, "{found}");
        let small = walk.beyond(Some(PHASE), horizon(&walk, 5_000.0)).unwrap();
        assert_eq!((small.part, small.known), (1.0, 12.0));
        // A cache that holds all of them is full when 12 lines in 13 were touched again: one line more counts.
        let large = horizon(&walk, 20_000.0);
        assert!((large - 1_400_000.0).abs() < 1e-3, "{large}");
        assert_eq!(beyond(&walk, PHASE, large), 0.0);
    }

    /// Half of the touches are of few lines, and half of lines that are never touched again.
    #[test]
    fn lines_that_are_not_touched_again_fill_the_cache() {
        let mut lines = vec![(1_000.0, true); 10];
        lines.extend([(1e6, false); 10]);
        let times = times(&lines);
        // 0.1 lines in a ns for 1,000 ns, and 11 of 21 times as many from there on: one line more counts.
        let found = horizon(&times, 1_200.0);
        assert!((found - 22_000.0).abs() < 1e-6, "{found}");
        assert_eq!(beyond(&times, PHASE, found), 0.5);
        // In a smaller cache nothing is found again.
        assert_eq!(beyond(&times, PHASE, horizon(&times, 50.0)), 1.0);
    }

    /// Of a loop that ended, the last lines are not touched again, and nobody watched them for long.
    #[test]
    fn lines_watched_for_less_than_the_horizon_say_little_of_it() {
        let mut lines = vec![(1_000.0, true); 22];
        lines.extend([(2_000.0, false); 2]);
        let part = |lines: &[_], horizon| beyond(&times(lines), PHASE, horizon);
        let near = part(&lines, 3_000.0);
        assert!((near - (-0.5_f64).exp() / 12.0).abs() < 1e-9, "{near}");
        assert!(part(&lines, 100_000.0) < 1e-9);
        // One that was watched until then speaks for all.
        lines.push((100_000.0, false));
        assert!((part(&lines, 100_000.0) - 3.0 / 25.0).abs() < 1e-9);
    }

    /// Uses without order: times are exponential, and the part that misses is that of the memory which the cache
    /// does not hold.
    #[test]
    fn uses_without_order_miss_by_size() {
        const LINES: f64 = 40_000.0;
        let mean_ns = LINES / 0.1;
        let quantile = |at: u32| -mean_ns * (1.0 - (f64::from(at) + 0.5) / 200.0).ln();
        let exact: Vec<(f64, bool)> = (0..200).map(|at| (quantile(at), true)).collect();
        // As many watches end early, at times that have nothing to do with the lines'.
        let ended = (0..200).map(|at| {
            let (line, ends) = (quantile(at), mean_ns * f64::from(at * 37 % 200) / 100.0);
            (line.min(ends), line <= ends)
        });
        let ended: Vec<(f64, bool)> = ended.collect();
        for lines in [exact, ended] {
            let times = times(&lines);
            for held in [0.25, 0.5, 0.75] {
                let part = beyond(&times, PHASE, horizon(&times, held * LINES));
                assert!((part - (1.0 - held)).abs() < 0.04, "{held}: {part}");
            }
        }
    }

    /// Of a part of which `number` lines are known, the interval has 95 % of all samples, for each such part.
    #[test]
    fn the_interval_has_the_part_that_lines_were_drawn_from() {
        let of = |hits: f64, number: f64| PhaseReuse {
            part: hits / number,
            known: number,
            independent: number,
        };
        for number in [8.0, 30.0] {
            let mut sum = 0.0;
            let parts: Vec<f64> = (1..100).map(|one| f64::from(one) / 100.0).collect();
            for part in &parts {
                // The binomial distribution, from one number of hits to the next.
                let mut chance = (1.0 - part).powf(number);
                for hits in 0..=number as u32 {
                    let hits = f64::from(hits);
                    let [least, most] = of(hits, number).interval();
                    sum += f64::from((least..=most).contains(part)) * chance;
                    chance *= (number - hits) / (hits + 1.0) * part / (1.0 - part);
                }
            }
            let mean = sum / parts.len() as f64;
            assert!((0.94..0.97).contains(&mean), "{number}: {mean}");
        }
        let [least, most] = of(0.0, 20.0).interval();
        assert_eq!(least, 0.0);
        assert!((most - 0.161).abs() < 0.001, "{most}");
    }

    /// Eight windows with four lines each.
    #[test]
    fn lines_that_are_touched_again_together_count_as_one() {
        let of = |beyond: [f64; 8]| {
            let part = beyond.iter().sum::<f64>() / 32.0;
            independent(part, beyond.map(|beyond| (4.0, beyond)).to_vec())
        };
        assert_eq!(of([0.0, 4.0, 0.0, 4.0, 0.0, 4.0, 0.0, 4.0]), 8.0);
        assert_eq!(of([2.0; 8]), 32.0);
        assert_eq!((of([0.0; 8]), of([4.0; 8])), (8.0, 8.0));
        // As four lines of each that are drawn alone: their numbers have the variance 4 / 4.
        assert_eq!(of([1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 3.0]), 32.0);
        // Pairs that are alike.
        let pairs = of([0.0, 2.0, 2.0, 4.0, 0.0, 2.0, 2.0, 4.0]);
        assert!((pairs - 16.0).abs() < 1e-9, "{pairs}");
    }

    #[test]
    fn phases_count_by_their_rates() {
        let mut times = times(&[(1e6, false); 4]);
        for window in 4..8 {
            watch(&mut times, window, PHASE + 1, (10.0, true));
        }
        // The second touches no lines to speak of.
        let rates = phases(&[(PHASE, 0.2), (PHASE + 1, 0.0)]);
        let found = times.horizon(&rates, 1_000.0).unwrap();
        assert!((found - 10_000.0).abs() < 1e-6, "{found}");
        assert_eq!(beyond(&times, PHASE, found), 1.0);
        assert_eq!(beyond(&times, PHASE + 1, found), 0.0);
    }

    /// A program fills its memory, and then walks round through a part of it. What it did before says nothing of
    /// the time in which the walk fills a cache.
    #[test]
    fn a_phase_that_has_ended_fills_no_cache() {
        let mut times = times(&[(1e6, false); 4]);
        for window in 4..10 {
            watch(&mut times, window, PHASE + 1, (5e6, true));
        }
        let mut phases = phases(&[(PHASE, 0.2), (PHASE + 1, 0.01)]);
        phases.ran(PHASE, 50e6);
        let walk = |phases: &Phases| {
            let horizon = times.horizon(phases, 100_000.0).unwrap();
            beyond(&times, PHASE + 1, horizon)
        };
        assert_eq!(walk(&phases), 1.0);
        for _ in 0..200 {
            phases.ran(PHASE + 1, 1e6);
        }
        // 50,000 lines a round, and one line in seven that is not touched again.
        assert_eq!(walk(&phases), 0.0);
        // In turn, each for as long, both count.
        for at in 0..200 {
            phases.ran(PHASE + at % 2, 1e6);
        }
        assert_eq!(walk(&phases), 1.0);
        phases.retain(|phase| phase != PHASE);
        assert_eq!(walk(&phases), 0.0);
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        let mut times = ReuseTimes::default();
        assert_eq!(times.horizon(&Phases::default(), 10.0), None);
        assert_eq!(times.beyond(Some(PHASE), 10.0), None);
        assert!(!times.record(7, 1.0, true));
        let id = times.begin(1);
        assert!(times.record(id, 5.0, false) && !times.record(id, 8.0, false));
        assert!(times.record(id, 11.0, false) && times.record(id, 12.0, true));
        // Its phase is not known, and a watch that has just begun says nothing.
        assert_eq!(times.beyond(Some(PHASE), 10.0), None);
        times.is_of(1, PHASE);
        assert_eq!(beyond(&times, PHASE, 10.0), 1.0);
        times.retain(|_| false);
        assert_eq!(times.beyond(Some(PHASE), 10.0), None);
        for window in 0..1000 {
            times.begin(window);
        }
        assert!(!times.record(id, 20.0, true));
        assert_eq!(times.watched.len(), MAX_WATCHED_LINES);
    }
}
