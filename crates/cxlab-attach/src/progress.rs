//! Counts what a thread executes natively, without a counter of instructions.
//!
//! A loop advances registers: counters and pointers. A window shows every register at every instruction, so it
//! shows which ones only ever go one way, and by how much in so many instructions ([`advances`]). When the thread
//! is looked at twice in that code, the difference of such a register says how many instructions lie between.
//!
//! A register of an inner loop may have begun anew between two looks, any number of times. Then it went the wrong
//! way, or too little of the right one: less than half of what was executed, whatever the loop's length. How much
//! is too little is known from short stretches between two looks ([`Pace`]): four must agree. A pointer
//! that jumps from one array to the next goes too far, which shows the same way. What cannot be counted between two
//! looks is taken to be executed at the pace of what could, and where nothing can, CPU time stands for it.
//!
//! Left out: counters in memory; loops that end within a short stretch; the stack pointer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// General registers, without the stack pointer.
pub const GENERAL: usize = 15;
/// Their values.
pub type Values = [u64; GENERAL];

/// Where a thread is: its next instruction, and the registers before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Address of the instruction.
    pub code: u64,
    /// Its registers.
    pub values: Values,
}

/// Changes of a register that only goes one way, from which on this is no chance (of 8 values without order one in
/// 20,160 goes one way), and those that are enough where all are equal.
const MANY: u32 = 8;
const EQUAL: u32 = 3;
/// Windows of a piece of code that count, the last ones, and by how much they may differ in what a register goes
/// in an instruction (*assumed*).
const RECENT: usize = 4;
const ALIKE: f64 = 2.0;
/// Steps of a register between two looks, from which on one more or less says little.
const STEPS: f64 = 16.0;
/// Instructions in a nanosecond at most: eight a cycle at 5 GHz (*assumed*).
const MOST_PER_NS: f64 = 40.0;
/// Short stretches that must agree, of so many in which the register never went the wrong way, and within which
/// factor (*assumed*). Others may be slower: neighbours and the hypervisor take their time from some.
const AGREEING: usize = 4;
const AMONG: usize = 8;
const AGREED: f64 = 2.0;
/// CPU time of a stretch from which it says something, and up to which it is short.
const LEAST_NS: f64 = 200e3;
const SHORT_NS: f64 = 3e6;
/// Of the pace at which short stretches are executed: a register that began anew went at most half of what was
/// executed; a stretch behind a hold takes longer.
const SLOWEST: f64 = 0.55;
const FASTEST: f64 = 1.5;
/// The same for code whose registers have not begun anew between so many looks in a row: then they begin anew
/// seldom, and go the wrong way when they do.
const SLOWEST_STEADY: f64 = 0.05;
const STEADY: u32 = 4;
/// Odd stretches in a row after which the pace is measured again.
const ODD: u32 = 3;
/// Short stretches that a piece of code is tried with, until it is tried less often.
const TRIES: u32 = 24;
const SELDOM: u32 = 16;
/// Part that a stretch has in the mean pace (*assumed*).
const WEIGHT: f64 = 0.25;

/// A register that only goes one way in a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Advance {
    /// Which.
    pub register: usize,
    /// Whether it grows.
    pub up: bool,
    /// How far it went, in so many changes and so many instructions.
    pub by: u64,
    /// Changes.
    pub changes: u32,
    /// Instructions.
    pub instructions: u64,
    /// The instructions at which it has that meaning.
    pub at: BTreeSet<u64>,
}

/// What one instruction has seen of a register.
#[derive(Clone, Copy, Default)]
struct Visits {
    last: Option<u64>,
    /// Positions and values of the first change and of the last.
    first: Option<(usize, u64)>,
    end: (usize, u64),
    up: bool,
    changes: u32,
    step: u64,
    unequal: bool,
    both_ways: bool,
}

impl Visits {
    fn see(&mut self, at: usize, value: u64) {
        let Some(last) = self.last.replace(value) else {
            return;
        };
        let step = value.wrapping_sub(last);
        if step == 0 {
            return;
        }
        let up = (step as i64) > 0;
        if self.changes == 0 {
            (self.up, self.step, self.first) = (up, step, Some((at, value)));
        }
        self.both_ways |= up != self.up;
        self.unequal |= step != self.step;
        self.changes += 1;
        self.end = (at, value);
    }

    fn goes_one_way(&self) -> bool {
        let enough = match self.unequal {
            true => MANY,
            false => EQUAL,
        };
        !self.both_ways && self.changes >= enough
    }

    fn span(&self) -> usize {
        self.first.map_or(0, |(at, _)| self.end.0 - at)
    }
}

/// How far a register went that way; negative for the other way.
fn gone(up: bool, from: u64, to: u64) -> i64 {
    match up {
        true => to.wrapping_sub(from) as i64,
        false => from.wrapping_sub(to) as i64,
    }
}

/// Registers that only go one way in these instructions, one after the other.
pub fn advances(steps: &[Place]) -> Vec<Advance> {
    let mut numbers = BTreeMap::new();
    let mut codes = Vec::new();
    let number = |step: &Place| {
        *numbers.entry(step.code).or_insert_with(|| {
            codes.push(step.code);
            codes.len() - 1
        })
    };
    let sequence: Vec<usize> = steps.iter().map(number).collect();
    let of = |register| advance(steps, &sequence, &codes, register);
    (0..GENERAL).filter_map(of).collect()
}

/// Of one register. The instruction that has seen it go one way for longest says what it means; others at which it
/// lies between what that one saw before and behind have it with the same meaning.
fn advance(steps: &[Place], sequence: &[usize], codes: &[u64], register: usize) -> Option<Advance> {
    let mut visits = vec![Visits::default(); codes.len()];
    for (at, (step, number)) in steps.iter().zip(sequence).enumerate() {
        visits[*number].see(at, step.values[register]);
    }
    let one_way = visits
        .iter()
        .enumerate()
        .filter(|(_, found)| found.goes_one_way());
    let (anchor, found) = one_way.max_by_key(|(number, found)| {
        (
            found.span(),
            found.changes,
            std::cmp::Reverse(codes[*number]),
        )
    })?;
    let (first_at, first) = found.first?;
    let mut between = vec![None; codes.len()];
    let mut from: Option<usize> = None;
    for (at, number) in sequence.iter().enumerate() {
        if *number != anchor {
            continue;
        }
        if let Some(from) = from {
            let value = |at: usize| steps[at].values[register];
            let most = gone(found.up, value(from), value(at));
            for other in from + 1..at {
                let far = gone(found.up, value(from), value(other));
                let fits = (0..=most).contains(&far);
                let so_far = &mut between[sequence[other]];
                *so_far = Some(so_far.unwrap_or(true) && fits);
            }
        }
        from = Some(at);
    }
    between[anchor] = Some(true);
    let at = codes.iter().zip(between);
    Some(Advance {
        register,
        up: found.up,
        by: gone(found.up, first, found.end.1).unsigned_abs(),
        changes: found.changes - 1,
        instructions: (found.end.0 - first_at) as u64,
        at: at
            .filter_map(|(code, fits)| (fits == Some(true)).then_some(*code))
            .collect(),
    })
}

/// What a register says of the stretch between two looks.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Counted {
    register: usize,
    /// Instructions; negative where it went the wrong way.
    instructions: f64,
}

/// How fast a piece of code is executed, in instructions per nanosecond of CPU time.
#[derive(Clone, Default, Debug)]
struct Pace {
    /// By register: the last short stretches.
    short: BTreeMap<usize, VecDeque<f64>>,
    tries: u32,
    /// Looks that were not followed by a short stretch although the pace is not known.
    passed: u32,
    /// That of short stretches that agree.
    known: Option<f64>,
    /// The mean of what was counted lately, and of that the part that was behind no hold.
    mean: Option<f64>,
    plain: Option<f64>,
    /// Stretches in a row that were counted, and that were odd.
    steady: u32,
    odd: u32,
}

impl Pace {
    /// A short stretch.
    fn measure(&mut self, counted: &[Counted], cpu_ns: f64) {
        self.tries = self.tries.saturating_add(1);
        for one in counted {
            let pace = one.instructions / cpu_ns;
            let last = self.short.entry(one.register).or_default();
            if pace <= 0.0 || pace > MOST_PER_NS {
                last.clear();
                continue;
            }
            if last.len() == AMONG {
                last.pop_front();
            }
            last.push_back(pace);
        }
        self.known = self.short.values().filter_map(agreed).reduce(f64::max);
        if self.mean.is_none() {
            self.mean = self.known;
        }
    }

    /// Instructions of a stretch, if they can be counted: the register counts that is nearest to the pace.
    fn accept(&mut self, counted: &[Counted], cpu_ns: f64, plain: bool) -> Option<f64> {
        let known = self.known?;
        let backwards = counted.iter().any(|one| one.instructions < 0.0);
        let ratio = |one: &&Counted| one.instructions / cpu_ns / known;
        let forwards = counted.iter().filter(|one| one.instructions > 0.0);
        let off = |one: &&Counted| ratio(one).ln().abs();
        let best = forwards.min_by(|one, other| off(one).total_cmp(&off(other)));
        let slowest = match backwards || self.steady < STEADY {
            true => SLOWEST,
            false => SLOWEST_STEADY,
        };
        match best {
            Some(one) if (slowest..=FASTEST).contains(&ratio(&one)) => {
                (self.steady, self.odd) = (self.steady + 1, 0);
                let pace = one.instructions / cpu_ns;
                toward(&mut self.mean, pace);
                if plain {
                    toward(&mut self.plain, pace);
                }
                Some(one.instructions)
            }
            Some(_) if !backwards => {
                (self.steady, self.odd) = (0, self.odd + 1);
                if self.odd == ODD {
                    *self = Pace {
                        mean: self.mean,
                        plain: self.plain,
                        ..Pace::default()
                    };
                }
                None
            }
            _ => {
                self.steady = 0;
                None
            }
        }
    }
}

/// A mean of what was lately.
fn toward(mean: &mut Option<f64>, value: f64) {
    let last = mean.unwrap_or(value);
    *mean = Some(last + WEIGHT * (value - last));
}

/// The middle one of the fastest of short stretches, if these agree.
fn agreed(last: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = last.iter().copied().collect();
    sorted.sort_unstable_by(|one, other| other.total_cmp(one));
    let (most, least) = (sorted.first()?, sorted.get(AGREEING - 1)?);
    (*most <= AGREED * least).then(|| sorted[AGREEING / 2])
}

/// What counts in a piece of code.
#[derive(Clone, Default, Debug)]
pub struct Progress {
    recent: VecDeque<Vec<Advance>>,
    pace: Pace,
}

impl Progress {
    /// A further window of the code.
    pub fn add(&mut self, advances: Vec<Advance>) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(advances);
    }

    /// Whether a short stretch is worth a stop now: the code has registers that count and no known pace.
    pub fn wants_stretch(&mut self) -> bool {
        if self.pace.known.is_some() || self.recent.iter().all(Vec::is_empty) {
            return false;
        }
        self.pace.passed += 1;
        self.pace.tries < TRIES || self.pace.passed.is_multiple_of(SELDOM)
    }

    /// Whether the pace is not known and may soon be.
    pub fn is_undecided(&self) -> bool {
        let counts = self.recent.iter().any(|advances| !advances.is_empty());
        counts && self.pace.mean.is_none() && self.pace.tries < TRIES
    }

    /// Instructions between two looks at the same code, which took so much CPU time; `None` where they cannot be
    /// counted. A stretch that is not `plain` (it was behind a hold) says nothing of the pace.
    pub fn count(&mut self, from: &Place, to: &Place, cpu_ns: f64, plain: bool) -> Option<f64> {
        if cpu_ns < LEAST_NS {
            return None;
        }
        let counted = self.counted(from, to);
        if plain && cpu_ns <= SHORT_NS && self.pace.known.is_none() && !counted.is_empty() {
            self.pace.measure(&counted, cpu_ns);
        }
        self.pace.accept(&counted, cpu_ns, plain)
    }

    /// Instructions in a nanosecond of CPU time, as counted lately; `None` where they never were.
    pub fn pace(&self) -> Option<f64> {
        self.pace.mean
    }

    /// How much more CPU time so many instructions took than they take lately where no hold was before; negative for
    /// less. 0 where that is not known.
    pub fn longer_ns(&self, instructions: f64, cpu_ns: f64) -> f64 {
        let plain = self.pace.plain;
        plain.map_or(0.0, |pace| cpu_ns - instructions / pace)
    }

    fn counted(&self, from: &Place, to: &Place) -> Vec<Counted> {
        let of = |register| self.counted_by(register, from, to);
        (0..GENERAL).filter_map(of).collect()
    }

    fn counted_by(&self, register: usize, from: &Place, to: &Place) -> Option<Counted> {
        let seen = || {
            let all = self.recent.iter().flatten();
            all.filter(|one| one.register == register)
        };
        let up = seen().next()?.up;
        let holds = |place: &Place| seen().any(|one| one.at.contains(&place.code));
        if seen().any(|one| one.up != up) || !holds(from) || !holds(to) {
            return None;
        }
        let rate = |one: &Advance| one.by as f64 / one.instructions as f64;
        let least = seen().map(rate).fold(f64::INFINITY, f64::min);
        let most = seen().map(rate).fold(0.0, f64::max);
        if most > ALIKE * least {
            return None;
        }
        let sum = |of: fn(&Advance) -> f64| seen().map(of).sum::<f64>();
        let by = sum(|one| one.by as f64);
        let way = way(up, from.values[register], to.values[register])?;
        if way.abs() < STEPS * by / sum(|one| f64::from(one.changes)) {
            return None;
        }
        Some(Counted {
            register,
            instructions: way * sum(|one| one.instructions as f64) / by,
        })
    }
}

/// How far a register went; one of 32 bits may have gone through zero. `None` where it stayed.
fn way(up: bool, from: u64, to: u64) -> Option<f64> {
    let whole = gone(up, from, to);
    let half = i64::from(whole as i32);
    let is_half = from.max(to) >> 32 == 0;
    match whole {
        0 => None,
        _ if whole < 0 && is_half && half > 0 => Some(half as f64),
        _ => Some(whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program known instruction by instruction: it writes registers, and the places that it passes are kept
    /// where somebody steps it.
    #[derive(Default)]
    struct Program {
        values: Values,
        executed: u64,
        stepped: Option<Vec<Place>>,
        /// Instructions at which it is looked at, and what was seen there.
        looks: VecDeque<u64>,
        seen: Vec<(u64, Place)>,
    }

    impl Program {
        fn at(&mut self, code: u64) {
            let place = Place {
                code,
                values: self.values,
            };
            if let Some(steps) = self.stepped.as_mut().filter(|steps| steps.len() < WINDOW) {
                steps.push(place);
            }
            if self.looks.front() == Some(&self.executed) {
                self.looks.pop_front();
                self.seen.push((self.executed, place));
            }
            self.executed += 1;
        }
    }

    /// Rows of cells: register 0 points to the cell, 1 counts down the row's, 2 counts rows, 3 is without order.
    /// Four instructions a cell, three a row.
    fn rows(program: &mut Program, rows: u64, cells: u64) {
        program.values[2] = 0;
        for _ in 0..rows {
            program.values[0] = 0x1000;
            program.at(100);
            program.values[1] = cells;
            program.at(101);
            for _ in 0..cells {
                program.at(200);
                program.values[3] = program.values[3].wrapping_mul(0x5851_f42d_4c95_7f2d) + 1;
                program.at(201);
                program.values[0] += 64;
                program.at(202);
                program.values[1] -= 1;
                program.at(203);
            }
            program.values[2] += 1;
            program.at(102);
        }
    }

    /// Instructions of a window.
    const WINDOW: usize = 4000;

    fn window(run: impl Fn(&mut Program)) -> Vec<Place> {
        let mut program = Program {
            stepped: Some(Vec::new()),
            ..Program::default()
        };
        run(&mut program);
        program.stepped.unwrap()
    }

    /// Looks at a program each so many instructions.
    fn looked(every: u64, run: impl Fn(&mut Program)) -> Vec<(u64, Place)> {
        let mut program = Program {
            looks: (1..).map(|at| at * every).take(4000).collect(),
            ..Program::default()
        };
        run(&mut program);
        program.seen
    }

    fn registers(found: &[Advance]) -> Vec<usize> {
        found.iter().map(|one| one.register).collect()
    }

    #[test]
    fn a_loop_shows_its_pointer_and_its_counter_and_nothing_else() {
        let steps = window(|program| rows(program, 1, 200));
        let found = advances(&steps);
        assert_eq!(registers(&found), [0, 1]);
        assert!(found[0].up && !found[1].up);
        for (one, step) in found.iter().zip([64, 1]) {
            assert_eq!(one.by * 4, step * one.instructions, "{one:?}");
            assert!(
                [200, 201, 202, 203]
                    .iter()
                    .all(|code| one.at.contains(code)),
                "{one:?}"
            );
        }
    }

    #[test]
    fn where_inner_loops_begin_anew_the_outer_one_counts() {
        let steps = window(|program| rows(program, 40, 5));
        let found = advances(&steps);
        // At the instructions of the inner loop, too.
        let outer = found.iter().find(|one| one.register == 2).unwrap();
        assert_eq!(outer.instructions, outer.by * 23);
        assert!(outer.at.contains(&201) && outer.at.contains(&100));
        // The inner ones go both ways everywhere.
        assert_eq!(registers(&found), [2]);
    }

    /// A register that a part of the loop uses for something else counts where it does not.
    #[test]
    fn a_register_counts_only_where_it_has_its_meaning() {
        let steps = window(|program| {
            for turn in 0..100u64 {
                program.values[5] = turn * 8;
                program.at(1);
                program.at(2);
                program.values[5] = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                program.at(3);
            }
        });
        let found = advances(&steps);
        assert_eq!(registers(&found), [5]);
        assert_eq!(found[0].at, BTreeSet::from([1, 2]));
    }

    #[test]
    fn values_without_order_and_few_changes_count_nothing() {
        let mut state = 1u64;
        for _ in 0..100 {
            let steps: Vec<Place> = (0..400)
                .map(|at| {
                    let mut values = [0; GENERAL];
                    for value in &mut values {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        *value = state >> 20;
                    }
                    Place {
                        code: at % 4,
                        values,
                    }
                })
                .collect();
            assert_eq!(advances(&steps), []);
        }
        assert_eq!(advances(&window(|program| rows(program, 1, 3))), []);
    }

    /// Time of an instruction, in nanoseconds.
    const EACH_NS: f64 = 100.0;

    /// Feeds looks to what counts, and compares with what was executed.
    fn counts(progress: &mut Progress, seen: &[(u64, Place)], slower: f64) -> (f64, f64, f64) {
        let (mut counted, mut of, mut all) = (0.0, 0.0, 0.0);
        for pair in seen.windows(2) {
            let executed = (pair[1].0 - pair[0].0) as f64;
            all += executed;
            let plain = slower == 1.0;
            if let Some(found) =
                progress.count(&pair[0].1, &pair[1].1, executed * EACH_NS * slower, plain)
            {
                counted += found;
                of += executed;
            }
        }
        (counted, of, all)
    }

    fn paced(run: impl Fn(&mut Program) + Copy) -> Progress {
        let mut progress = Progress::default();
        progress.add(advances(&window(run)));
        assert!(progress.wants_stretch() && progress.pace().is_none());
        let seen = looked(10_001, run);
        counts(&mut progress, &seen[..5], 1.0);
        assert!(!progress.wants_stretch());
        assert!((progress.pace().unwrap() * EACH_NS - 1.0).abs() < 1e-3);
        progress
    }

    #[test]
    fn a_long_loop_is_counted_to_the_instruction_whatever_its_cpu_time() {
        let run = |program: &mut Program| rows(program, 1, 300_000);
        let mut progress = paced(run);
        let seen = looked(100_019, run);
        for slower in [1.0, 1.2, 1.7] {
            let (counted, of, all) = counts(&mut progress, &seen, slower);
            assert_eq!(of, all);
            assert!(
                (counted / of - 1.0).abs() < 1e-4,
                "{slower}: {counted} {of}"
            );
        }
        // Behind long holds, for code that never begins anew.
        let (counted, of, all) = counts(&mut progress, &seen, 4.0);
        assert_eq!(of, all);
        assert!((counted / of - 1.0).abs() < 1e-4);
    }

    /// Rows of every length against looks each ten million instructions: what is counted is right, however often
    /// the row begins anew, for such stretches are not counted at all.
    #[test]
    fn what_began_anew_between_two_looks_is_not_counted_wrongly() {
        for cells in [3_000, 7_000, 13_000, 24_000, 26_000, 40_000, 90_000] {
            let mut progress = paced(|program| rows(program, 1, 100_000));
            let seen = looked(100_019, move |program| {
                rows(program, 1_600_000 / 4 / cells, cells)
            });
            let (counted, of, all) = counts(&mut progress, &seen, 1.0);
            assert!(
                counted <= of * 1.0001 && counted >= of * 0.9999,
                "{cells}: {counted} {of}"
            );
            // A row of 3.6 looks is counted in most of them.
            assert!(cells < 90_000 || of > 0.5 * all, "{cells}: {of} of {all}");
        }
    }

    /// Rows that end within a short stretch: four of these never agree, and nothing is counted.
    #[test]
    fn rows_that_are_short_have_no_pace() {
        let run = |program: &mut Program| rows(program, 4000, 211);
        let mut progress = Progress::default();
        progress.add(advances(&window(|program| rows(program, 1, 500))));
        let (_, of, _) = counts(&mut progress, &looked(10_003, run), 1.0);
        assert_eq!((of, progress.pace()), (0.0, None));
    }

    /// The pointer goes on in another array far above: it disagrees with the counter, which is right.
    #[test]
    fn of_two_registers_that_disagree_the_one_that_keeps_the_pace_counts() {
        let run = |program: &mut Program| {
            for turn in 0..250_000u64 {
                program.values[0] = turn * 8 + if turn > 120_000 { 1 << 40 } else { 0 };
                program.at(1);
                program.values[4] = turn;
                program.at(2);
            }
        };
        let mut progress = Progress::default();
        progress.add(advances(&window(|program| {
            for turn in 0..500 {
                program.values[0] = turn * 8;
                program.at(1);
                program.values[4] = turn;
                program.at(2);
            }
        })));
        counts(&mut progress, &looked(10_000, run)[..5], 1.0);
        let (counted, of, all) = counts(&mut progress, &looked(100_000, run), 1.0);
        assert_eq!(of, all);
        assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
    }

    #[test]
    fn a_counter_of_32_bits_may_go_through_zero() {
        assert_eq!(way(false, 5, 0xffff_fff0), Some(21.0));
        assert_eq!(way(true, 0xffff_fff0, 4), Some(20.0));
        assert_eq!(way(true, 900, 100), Some(-800.0));
        assert_eq!(way(true, u64::MAX - 4, 5), Some(10.0));
        assert_eq!(way(true, 1 << 40, (1 << 40) + 3), Some(3.0));
        assert_eq!(way(true, 0, 3 << 30), Some((3u64 << 30) as f64));
        assert_eq!(way(true, 7, 7), None);
    }

    /// Code that really is executed faster from now on is counted again once short stretches say so.
    #[test]
    fn another_pace_is_measured_again() {
        let run = |program: &mut Program| rows(program, 1, 300_000);
        let mut progress = paced(run);
        let seen = looked(100_019, run);
        let faster = counts(&mut progress, &seen[..4], 0.4);
        assert_eq!(faster.1, 0.0);
        assert!(progress.wants_stretch());
        let short = looked(10_001, run);
        for pair in short[..5].windows(2) {
            progress.count(&pair[0].1, &pair[1].1, 0.4e6, true);
        }
        assert!(!progress.wants_stretch());
        let (counted, of, all) = counts(&mut progress, &seen, 0.4);
        // The sum over all but what is not plain: all of it.
        assert_eq!(of, all);
        assert!((counted / of - 1.0).abs() < 1e-4);
    }

    /// Loops that share code: at an instruction that no window has seen, nothing is counted.
    #[test]
    fn nothing_is_counted_at_unknown_code() {
        let run = |program: &mut Program| rows(program, 1, 100_000);
        let mut progress = paced(run);
        let seen = looked(100_019, run);
        let mut from = seen[0].1;
        assert!(progress.count(&from, &seen[1].1, 1e7, true).is_some());
        from.code = 999;
        assert_eq!(progress.count(&from, &seen[1].1, 1e7, true), None);
    }
}
