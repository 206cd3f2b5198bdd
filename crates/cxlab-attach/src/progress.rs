//! Counts what a thread executes natively, without a counter of instructions.
//!
//! A loop advances registers: counters and pointers. A window shows every register at every instruction, so it
//! shows which ones only ever go one way, and by how much in so many instructions ([`advances`]). When the thread
//! is looked at twice in that code, the difference of such a register says how many instructions lie between.
//!
//! A register of an inner loop may have begun anew between two looks. If that happens less often than there are
//! looks, it shows: the register went the wrong way. If it happens more often, the register goes the wrong way about
//! every second time. So a register counts where it went the right way in three of four of the last stretches, and
//! looks come as much more often, down to 1 ms, as that needs (`Tally`). Of several that count, the one that
//! went least far is taken: a pointer that jumps to another array goes too far. What cannot be counted is taken to be
//! executed at the pace of what was counted around it, and where nothing can, CPU time stands for it.
//!
//! Left out: counters in memory; loops that end within some milliseconds; the stack pointer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

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
/// And at most so many times what the same code did lately (*assumed*): farther is a jump, unless it is so for longer
/// than so many stretches, for then the code is another or goes on faster.
const JUMP: f64 = 8.0;
const JUMPS: u32 = 2;
/// CPU time of a stretch from which it says something.
const LEAST_NS: f64 = 200e3;
/// Time between looks where registers begin anew often; twice as long from level to level, up to the last, on which
/// nobody is looked at for this.
const SHORTEST: Duration = Duration::from_millis(1);
const LEVELS: u32 = 3;
/// Stretches that are remembered, and from which on they say something; of the former a fourth, and of fewer one,
/// may have been the wrong way. (Of a register that goes both ways alike, one in 26 looks so, and not for long.)
const REMEMBERED: usize = 16;
const FEW: usize = 8;
/// Looks in which no register comes to count, until none more are made for it, and then so many are left out.
const TRIES: u32 = 40;
const PAUSE: u32 = 200;
/// Part of the sums over what was counted that a further stretch leaves (*assumed*).
const KEPT: f64 = 0.75;

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

impl Counted {
    /// It went the right way, and not farther than any processor goes.
    fn is_right(&self, cpu_ns: f64) -> bool {
        self.instructions > 0.0 && self.instructions <= MOST_PER_NS * cpu_ns
    }
}

/// Instructions and CPU time of what was counted lately.
#[derive(Clone, Copy, Default, Debug)]
struct Pace {
    instructions: f64,
    cpu_ns: f64,
}

impl Pace {
    fn add(&mut self, instructions: f64, cpu_ns: f64) {
        self.instructions = KEPT * self.instructions + instructions;
        self.cpu_ns = KEPT * self.cpu_ns + cpu_ns;
    }

    /// Instructions in a nanosecond.
    fn per_ns(&self) -> Option<f64> {
        (self.cpu_ns > 0.0).then(|| self.instructions / self.cpu_ns)
    }
}

/// Which registers count in a piece of code, and how often it is looked at for that.
#[derive(Clone, Default, Debug)]
struct Tally {
    /// By register: whether it went the right way, in the last stretches.
    ways: BTreeMap<usize, VecDeque<bool>>,
    level: u32,
    tries: u32,
    pause: u32,
    /// Stretches in a row that went too far.
    jumps: u32,
    /// Of all that was counted, and of what was behind no hold.
    pace: Pace,
    plain: Pace,
}

/// Whether a register that went these ways counts.
fn counts(ways: &VecDeque<bool>) -> bool {
    let wrong = ways.iter().filter(|right| !**right).count();
    match ways.len() {
        ..FEW => false,
        FEW..REMEMBERED => wrong <= 1,
        _ => wrong <= REMEMBERED / 4,
    }
}

impl Tally {
    /// Takes down a stretch, and says of how many instructions it was, where that is known.
    fn take(&mut self, counted: &[Counted], cpu_ns: f64, plain: bool) -> Option<f64> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        for one in counted {
            let ways = self.ways.entry(one.register).or_default();
            if ways.len() == REMEMBERED {
                ways.pop_front();
            }
            ways.push_back(one.is_right(cpu_ns));
        }
        let least = self.least(counted, cpu_ns);
        let least = least.filter(|instructions| !self.is_jump(*instructions, cpu_ns));
        if let Some(instructions) = least {
            self.pace.add(instructions, cpu_ns);
            if plain {
                self.plain.add(instructions, cpu_ns);
            }
        }
        self.change_level();
        least
    }

    /// What the register says that counts and went least far.
    fn least(&self, counted: &[Counted], cpu_ns: f64) -> Option<f64> {
        let known = |one: &&Counted| self.ways.get(&one.register).is_some_and(counts);
        let found = counted.iter().filter(|one| one.is_right(cpu_ns));
        let found = found.filter(known).map(|one| one.instructions);
        found.reduce(f64::min)
    }

    /// Whether a stretch went too far for what was counted lately. Where that goes on, it was no jump, and what was
    /// counted before says nothing any more.
    fn is_jump(&mut self, instructions: f64, cpu_ns: f64) -> bool {
        let far = self.is_far(instructions, cpu_ns);
        self.jumps = if far { self.jumps + 1 } else { 0 };
        if self.jumps > JUMPS {
            (self.jumps, self.pace, self.plain) = (0, Pace::default(), Pace::default());
            return false;
        }
        far
    }

    /// Whether that is much more than was counted lately.
    fn is_far(&self, instructions: f64, cpu_ns: f64) -> bool {
        let pace = self.pace.per_ns();
        pace.is_some_and(|pace| instructions > JUMP * pace * cpu_ns)
    }

    /// Looks more or less often, where the last ones say so.
    fn change_level(&mut self) {
        let all = self.ways.values();
        let clean =
            |ways: &VecDeque<bool>| ways.len() == REMEMBERED && ways.iter().all(|right| *right);
        if all.clone().any(clean) && self.level < LEVELS {
            self.level += 1;
            // Where it does not go wrong now either, the next level is half as far.
            self.ways.values_mut().for_each(|ways| ways.truncate(FEW));
        }
        if self.ways.values().any(counts) {
            self.tries = 0;
            return;
        }
        self.tries += 1;
        let wrong = |ways: &VecDeque<bool>| ways.len() >= FEW;
        if self.level > 0 && self.ways.values().any(wrong) {
            self.level -= 1;
            self.tries = 0;
            self.ways.clear();
        } else if self.tries >= TRIES {
            *self = Tally {
                pause: PAUSE,
                ..Tally::default()
            };
        }
    }
}

/// What counts in a piece of code.
#[derive(Clone, Default, Debug)]
pub struct Progress {
    recent: VecDeque<Vec<Advance>>,
    tally: Tally,
}

impl Progress {
    /// A further window of the code. One in which nothing counts was too short, and says nothing.
    pub fn add(&mut self, advances: Vec<Advance>) {
        if advances.is_empty() {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(advances);
    }

    /// When a thread in this code is to be looked at again for what counts; `None` where the next look that comes
    /// anyway will do.
    pub fn again(&self) -> Option<Duration> {
        let tally = &self.tally;
        let worth = self.may_count() && tally.pause == 0 && tally.level < LEVELS;
        worth.then(|| SHORTEST * (1 << tally.level))
    }

    /// Whether the pace is not known and may soon be.
    pub fn is_undecided(&self) -> bool {
        self.may_count() && self.tally.pause == 0 && self.pace().is_none()
    }

    fn may_count(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Instructions between two looks at the same code, which took so much CPU time; `None` where they cannot be
    /// counted. `plain` where no hold was shortly before.
    pub fn count(&mut self, from: &Place, to: &Place, cpu_ns: f64, plain: bool) -> Option<f64> {
        if cpu_ns < LEAST_NS || !self.may_count() {
            return None;
        }
        let counted = self.counted(from, to);
        self.tally.take(&counted, cpu_ns, plain)
    }

    /// The same for a stretch that passed before it was known what counts, or which code it was: nothing is learnt of it.
    pub fn count_late(&self, from: &Place, to: &Place, cpu_ns: f64) -> Option<f64> {
        if !self.may_count() {
            return None;
        }
        let counted = self.counted(from, to);
        let least = self.tally.least(&counted, cpu_ns);
        least.filter(|instructions| !self.tally.is_far(*instructions, cpu_ns))
    }

    /// Instructions in a nanosecond of CPU time, as counted lately; `None` where they were not.
    pub fn pace(&self) -> Option<f64> {
        self.tally.pace.per_ns()
    }

    /// How much more CPU time so many instructions took than they take lately where no hold was before; negative for
    /// less. 0 where that is not known.
    pub fn longer_ns(&self, instructions: f64, cpu_ns: f64) -> f64 {
        let plain = self.tally.plain.per_ns();
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
    fn fed(progress: &mut Progress, seen: &[(u64, Place)], slower: f64) -> (f64, f64, f64) {
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

    /// What counts in the code of `rows`, whose windows hold nothing but the row.
    fn known() -> Progress {
        let mut progress = Progress::default();
        progress.add(advances(&window(|program| rows(program, 1, 1000))));
        assert!(progress.is_undecided() && progress.again() == Some(SHORTEST));
        progress
    }

    #[test]
    fn a_long_loop_is_counted_to_the_instruction_whatever_its_cpu_time() {
        let run = |program: &mut Program| rows(program, 1, 1_000_000);
        let mut progress = known();
        // Looks each millisecond, until they may come more seldom.
        let short = looked(10_019, run);
        let (counted, of, _) = fed(&mut progress, &short[..60], 1.0);
        assert_eq!((progress.again(), progress.is_undecided()), (None, false));
        assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
        let seen = looked(100_019, run);
        for slower in [1.0, 1.7, 0.4, 5.0] {
            let (counted, of, all) = fed(&mut progress, &seen, slower);
            assert_eq!(of, all);
            assert!(
                (counted / of - 1.0).abs() < 1e-4,
                "{slower}: {counted} {of}"
            );
        }
    }

    /// Looks as often as it wants to be looked at, with 100 ns an instruction.
    fn followed(progress: &mut Progress, run: impl Fn(&mut Program)) -> (f64, f64, f64) {
        // All that could be asked for: each half millisecond.
        let seen = looked(5_000, run);
        let (mut counted, mut of, mut all, mut at) = (0.0, 0.0, 0.0, 0);
        loop {
            let step = progress
                .again()
                .map_or(20, |wait| 2 * wait.as_millis() as usize);
            if at + step >= seen.len() {
                return (counted, of, all);
            }
            let executed = (seen[at + step].0 - seen[at].0) as f64;
            all += executed;
            if let Some(found) =
                progress.count(&seen[at].1, &seen[at + step].1, executed * EACH_NS, true)
            {
                counted += found;
                of += executed;
            }
            at += step;
        }
    }

    /// Rows of every length against the looks: what is counted is right, however often the row begins anew, and
    /// from rows of 5 ms on most of it is counted.
    #[test]
    fn what_began_anew_between_two_looks_is_not_counted_wrongly() {
        for cells in [12_700, 15_000, 20_011, 26_000, 40_000, 90_000, 400_000] {
            let run = move |program: &mut Program| rows(program, 4_000_000 / cells, cells);
            let (counted, of, all) = followed(&mut known(), run);
            assert!((counted / of - 1.0).abs() < 1e-3, "{cells}: {counted} {of}");
            assert!(of > 0.6 * all, "{cells}: {of} of {all}");
        }
    }

    /// Rows that end within two looks go both ways, and nothing much is counted of them.
    #[test]
    fn rows_that_are_short_do_not_count() {
        for cells in [211, 499, 1_009, 1_511] {
            let run = move |program: &mut Program| rows(program, 4_000_000 / cells, cells);
            let mut progress = known();
            let (_, of, all) = followed(&mut progress, run);
            assert!(of < 0.03 * all, "{cells}: {of} of {all}");
        }
    }

    /// The pointer goes on in another array far above: it disagrees with the counter, which is right.
    #[test]
    fn of_two_registers_that_disagree_the_one_that_went_less_far_counts() {
        let run = |program: &mut Program| {
            for turn in 0..1_000_000u64 {
                program.values[0] = turn * 8 + if turn > 500_000 { 1 << 20 } else { 0 };
                program.at(1);
                program.values[4] = turn;
                program.at(2);
            }
        };
        let mut progress = Progress::default();
        progress.add(advances(&window(run)));
        let (counted, of, all) = followed(&mut progress, run);
        assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
        assert!(of > 0.9 * all, "{of} of {all}");
    }

    /// A pointer alone that jumps as far as no code goes: that stretch is not counted.
    #[test]
    fn what_goes_too_far_is_not_counted() {
        let run = |program: &mut Program| {
            for turn in 0..1_000_000u64 {
                program.values[0] = turn * 8 + if turn > 500_000 { 1 << 40 } else { 0 };
                program.at(1);
                program.at(2);
            }
        };
        let mut progress = Progress::default();
        progress.add(advances(&window(run)));
        let (counted, of, all) = followed(&mut progress, run);
        assert!((counted / of - 1.0).abs() < 1e-4, "{counted} {of}");
        assert!(of > 0.8 * all && of < all, "{of} of {all}");
    }

    /// Two loops that are taken for one piece of code, of which the second goes on thirty times as fast: after two
    /// stretches it is counted too.
    #[test]
    fn code_that_goes_on_much_faster_is_counted() {
        let mut progress = known();
        let seen = looked(10_019, |program| rows(program, 1, 400_000));
        fed(&mut progress, &seen[..40], 1.0);
        let (counted, of, all) = fed(&mut progress, &seen[40..140], 1.0 / 30.0 * 8.0);
        assert!(of == all && (counted / of - 1.0).abs() < 1e-3);
        let slow = seen[..40].windows(2);
        slow.for_each(|pair| {
            progress.count(&pair[0].1, &pair[1].1, 100.0 * 10_019.0 * EACH_NS, true);
        });
        let (counted, of, all) = fed(&mut progress, &seen[..40], 1.0);
        assert!((counted / of - 1.0).abs() < 1e-3, "{counted} {of}");
        assert_eq!((all - of).round(), 2.0 * 10_019.0);
    }

    /// Code that takes longer behind a hold: by how much is known from where there was none, to the turn of the loop
    /// in which a look was.
    #[test]
    fn what_holds_slow_down_is_known() {
        let mut progress = known();
        let seen = looked(10_019, |program| rows(program, 1, 200_000));
        let is = |progress: &Progress, slower: f64, more: f64| {
            let found = progress.longer_ns(10_019.0, 10_019.0 * EACH_NS * slower);
            (found - 10_019.0 * EACH_NS * more).abs() <= 4.0 * EACH_NS
        };
        fed(&mut progress, &seen[..40], 1.0);
        assert!(is(&progress, 1.0, 0.0) && is(&progress, 1.3, 0.3) && is(&progress, 0.9, -0.1));
        fed(&mut progress, &seen[40..], 1.5);
        assert!(is(&progress, 1.0, 0.0) && is(&progress, 1.3, 0.3));
        assert!(progress.pace().unwrap() < 0.7 / EACH_NS);
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

    /// Loops that share code: at an instruction that no window has seen, nothing is counted.
    #[test]
    fn nothing_is_counted_at_unknown_code() {
        let mut progress = known();
        let seen = looked(10_019, |program| rows(program, 1, 200_000));
        fed(&mut progress, &seen[..40], 1.0);
        let mut from = seen[0].1;
        assert!(progress.count(&from, &seen[1].1, 1e6, true).is_some());
        from.code = 999;
        assert_eq!(progress.count(&from, &seen[1].1, 1e6, true), None);
    }
}
