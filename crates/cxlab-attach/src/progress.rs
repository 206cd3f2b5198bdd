//! Counts the instructions that a thread executes natively, without a hardware counter.
//!
//! A loop advances registers: counters and pointers. A window shows all registers at every instruction. So it shows
//! which registers only move in one direction, and by how much in how many instructions ([`advances`]). Between two
//! samples of a thread in that code, the difference of such a register gives the number of instructions.
//!
//! A register of an inner loop may have restarted between two samples. If it restarts less often than samples are
//! taken, the register moves in the wrong direction now and then. If it restarts more often, that happens in about
//! every second interval. So a register counts if it moved in the right direction in three of four of the last
//! intervals. Samples are taken more often, down to 1 ms apart, as far as that needs (`Tally`).
//!
//! Of several counting registers, the one with the smallest count is used, because a pointer that
//! jumps to another array moves too far. Code that cannot be counted gets the pace of the code
//! counted around it. Without any counted code, CPU time stands for it.
//!
//! Left out: counters in memory; loops that end within some milliseconds; the stack pointer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Number of general registers, without the stack pointer.
pub const GENERAL_REGISTERS: usize = 15;
/// Values of the general registers.
pub type Values = [u64; GENERAL_REGISTERS];

/// Place of a thread: its next instruction, and the registers before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadPlace {
    /// Address of the instruction.
    pub code: u64,
    /// Values of the general registers before the instruction.
    pub values: Values,
}

/// Fewest changes of a register in one direction, if its steps vary and if they are equal. (One in 20,160 sequences of 8
/// random values is monotonic.)
const MIN_VARYING: u32 = 8;
const MIN_EQUAL: u32 = 3;
/// Number of most recent windows of a phase that count, and largest ratio between a register's distances per instruction
/// in them (*assumed*).
const RECENT_WINDOWS: usize = 4;
const MAX_PACE_RATIO: f64 = 2.0;
/// Fewest steps of a register between two samples for a count. With more steps, an error of one step matters little.
const MIN_STEPS: f64 = 16.0;
/// Most instructions in a nanosecond: eight a cycle at 5 GHz (*assumed*).
const MOST_PER_NS: f64 = 40.0;
/// Most instructions as a multiple of the recent pace of the same code (*assumed*). A larger number
/// is a jump. After `MAX_JUMPS` jumps in a row, the code is other code or runs faster.
const JUMP_FACTOR: f64 = 8.0;
const MAX_JUMPS: u32 = 2;
/// Least CPU time of an interval that is counted, in nanoseconds.
const LEAST_NS: f64 = 200e3;
/// Time between samples at level 0. Each level doubles it. At the last level, no samples are taken for counting.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
const LEVELS: u32 = 3;
/// Number of intervals in the history of a register, and fewest that decide. A fourth of `MAX_INTERVALS` intervals may
/// have the wrong direction, and one of fewer. (A register with random directions passes in one of 26 cases.)
const MAX_INTERVALS: usize = 16;
const MIN_INTERVALS: usize = 8;
/// Samples without a counting register after which sampling pauses, and the number of samples that
/// the pause leaves out.
const SAMPLES_BEFORE_PAUSE: u32 = 40;
const PAUSE_SAMPLES: u32 = 200;
/// Factor on the counted sums at each further interval (*assumed*).
const DECAY: f64 = 0.75;

/// A register that only moves in one direction in a window.
#[derive(Clone, PartialEq, Debug)]
pub struct Advance {
    /// Index of the register.
    pub register: usize,
    /// Whether the register increases; otherwise it decreases.
    pub up: bool,
    /// Distance that it moved, in `changes` changes and `instructions` instructions.
    pub by: u64,
    /// Number of changes.
    pub changes: u32,
    /// Number of instructions.
    pub instructions: u64,
    /// Addresses of the instructions at which the register counts.
    pub at: BTreeSet<u64>,
}

/// Values of a register at the visits of one instruction.
#[derive(Clone, Copy, Default)]
struct Visits {
    last: Option<u64>,
    /// Positions and values of the first and of the last change.
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
        let enough = if self.unequal { MIN_VARYING } else { MIN_EQUAL };
        !self.both_ways && self.changes >= enough
    }

    fn span(&self) -> usize {
        self.first.map_or(0, |(at, _)| self.end.0 - at)
    }
}

/// Distance that a register moved in that direction. Negative for the opposite direction.
fn gone(up: bool, from: u64, to: u64) -> i64 {
    match up {
        true => to.wrapping_sub(from) as i64,
        false => from.wrapping_sub(to) as i64,
    }
}

/// Registers that only move in one direction in these consecutive instructions.
pub fn advances(steps: &[ThreadPlace]) -> Vec<Advance> {
    let mut numbers = BTreeMap::new();
    let mut codes = Vec::new();
    let number = |step: &ThreadPlace| {
        *numbers.entry(step.code).or_insert_with(|| {
            codes.push(step.code);
            codes.len() - 1
        })
    };
    let sequence: Vec<usize> = steps.iter().map(number).collect();
    let of = |register| advance(steps, &sequence, &codes, register);
    (0..GENERAL_REGISTERS).filter_map(of).collect()
}

/// The advance of one register. The instruction that saw it move in one direction for longest
/// defines its meaning. The register has the same meaning at other instructions where its value is
/// between the values before and after at that instruction.
fn advance(
    steps: &[ThreadPlace],
    sequence: &[usize],
    codes: &[u64],
    register: usize,
) -> Option<Advance> {
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

/// Count of the interval between two samples by one register.
#[derive(Clone, Copy, PartialEq, Debug)]
struct CountedInterval {
    register: usize,
    /// Number of instructions. Negative if the register moved in the wrong direction.
    instructions: f64,
}

impl CountedInterval {
    /// Whether the register moved in the right direction, and not farther than any processor executes.
    fn is_right(&self, cpu_ns: f64) -> bool {
        self.instructions > 0.0 && self.instructions <= MOST_PER_NS * cpu_ns
    }
}

/// Instructions and CPU time of recently counted intervals.
#[derive(Clone, Copy, Default, Debug)]
struct Pace {
    instructions: f64,
    cpu_ns: f64,
}

impl Pace {
    fn add(&mut self, instructions: f64, cpu_ns: f64) {
        self.instructions = DECAY * self.instructions + instructions;
        self.cpu_ns = DECAY * self.cpu_ns + cpu_ns;
    }

    /// Instructions in a nanosecond.
    fn per_ns(&self) -> Option<f64> {
        (self.cpu_ns > 0.0).then(|| self.instructions / self.cpu_ns)
    }
}

/// Which registers count in a piece of code, and how often that code is sampled for counting.
#[derive(Clone, Default, Debug)]
struct Tally {
    /// By register: whether it moved in the right direction, in the last intervals.
    ways: BTreeMap<usize, VecDeque<bool>>,
    level: u32,
    tries: u32,
    pause: u32,
    /// Number of consecutive intervals that went too far.
    jumps: u32,
    /// Pace of all counted intervals, and of those without a hold shortly before.
    pace: Pace,
    plain: Pace,
}

/// Whether a register with these directions counts.
fn counts(ways: &VecDeque<bool>) -> bool {
    let wrong = ways.iter().filter(|right| !**right).count();
    match ways.len() {
        ..MIN_INTERVALS => false,
        MIN_INTERVALS..MAX_INTERVALS => wrong <= 1,
        _ => wrong <= MAX_INTERVALS / 4,
    }
}

impl Tally {
    /// Records an interval and returns its number of instructions, or `None` if that is unknown.
    fn take(&mut self, counted: &[CountedInterval], cpu_ns: f64, plain: bool) -> Option<f64> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        for one in counted {
            let ways = self.ways.entry(one.register).or_default();
            if ways.len() == MAX_INTERVALS {
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

    /// Smallest count among the counting registers.
    fn least(&self, counted: &[CountedInterval], cpu_ns: f64) -> Option<f64> {
        let known = |one: &&CountedInterval| self.ways.get(&one.register).is_some_and(counts);
        let found = counted.iter().filter(|one| one.is_right(cpu_ns));
        let found = found.filter(known).map(|one| one.instructions);
        found.reduce(f64::min)
    }

    /// Whether an interval has far more instructions than the recent pace gives. If that persists
    /// it was no jump, and the earlier counts are discarded.
    fn is_jump(&mut self, instructions: f64, cpu_ns: f64) -> bool {
        let far = self.is_far(instructions, cpu_ns);
        self.jumps = if far { self.jumps + 1 } else { 0 };
        if self.jumps > MAX_JUMPS {
            (self.jumps, self.pace, self.plain) = (0, Pace::default(), Pace::default());
            return false;
        }
        far
    }

    /// Whether the number of instructions far exceeds the recent pace.
    fn is_far(&self, instructions: f64, cpu_ns: f64) -> bool {
        let pace = self.pace.per_ns();
        pace.is_some_and(|pace| instructions > JUMP_FACTOR * pace * cpu_ns)
    }

    /// Adapts how often samples are taken to the last intervals.
    fn change_level(&mut self) {
        let all = self.ways.values();
        let clean =
            |ways: &VecDeque<bool>| ways.len() == MAX_INTERVALS && ways.iter().all(|right| *right);
        if all.clone().any(clean) && self.level < LEVELS {
            self.level += 1;
            // Half of the history is kept, so `MIN_INTERVALS` further right intervals lead to the next level.
            self.ways
                .values_mut()
                .for_each(|ways| ways.truncate(MIN_INTERVALS));
        }
        if self.ways.values().any(counts) {
            self.tries = 0;
            return;
        }
        self.tries += 1;
        let wrong = |ways: &VecDeque<bool>| ways.len() >= MIN_INTERVALS;
        if self.level > 0 && self.ways.values().any(wrong) {
            self.level -= 1;
            self.tries = 0;
            self.ways.clear();
        } else if self.tries >= SAMPLES_BEFORE_PAUSE {
            *self = Tally {
                pause: PAUSE_SAMPLES,
                ..Tally::default()
            };
        }
    }
}

/// Registers that count instructions in a piece of code.
#[derive(Clone, Default, Debug)]
pub struct Progress {
    recent: VecDeque<Vec<Advance>>,
    tally: Tally,
}

impl Progress {
    /// Adds a window of the code. A window without a counting register was too short and is ignored.
    pub fn add(&mut self, advances: Vec<Advance>) {
        if advances.is_empty() {
            return;
        }
        if self.recent.len() == RECENT_WINDOWS {
            self.recent.pop_front();
        }
        self.recent.push_back(advances);
    }

    /// Time until a thread in this code is to be sampled again for counting. `None` if the
    /// next regular sample suffices.
    pub fn again(&self) -> Option<Duration> {
        let tally = &self.tally;
        let worth = self.may_count() && tally.pause == 0 && tally.level < LEVELS;
        worth.then(|| SHORTEST_INTERVAL * (1 << tally.level))
    }

    /// Whether the pace is unknown but may soon be known.
    pub fn is_undecided(&self) -> bool {
        self.may_count() && self.tally.pause == 0 && self.pace().is_none()
    }

    fn may_count(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Number of instructions between two samples of the same code, which took `cpu_ns` of CPU
    /// time. `None` if they cannot be counted. `plain` says that no hold was shortly before.
    pub fn count(
        &mut self,
        from: &ThreadPlace,
        to: &ThreadPlace,
        cpu_ns: f64,
        plain: bool,
    ) -> Option<f64> {
        if cpu_ns < LEAST_NS || !self.may_count() {
            return None;
        }
        let counted = self.counted(from, to);
        self.tally.take(&counted, cpu_ns, plain)
    }

    /// Like [`Progress::count`], for an interval before the counting registers or the code were known. The tally
    /// does not change for it.
    pub fn count_late(&self, from: &ThreadPlace, to: &ThreadPlace, cpu_ns: f64) -> Option<f64> {
        if !self.may_count() {
            return None;
        }
        let counted = self.counted(from, to);
        let least = self.tally.least(&counted, cpu_ns);
        least.filter(|instructions| !self.tally.is_far(*instructions, cpu_ns))
    }

    /// Recently counted instructions in a nanosecond of CPU time. `None` if no interval was counted.
    pub fn pace(&self) -> Option<f64> {
        self.tally.pace.per_ns()
    }

    /// How much more CPU time these instructions took than at the recent pace without holds, in
    /// nanoseconds. Negative for less, and 0 if that pace is unknown.
    pub fn longer_ns(&self, instructions: f64, cpu_ns: f64) -> f64 {
        let plain = self.tally.plain.per_ns();
        plain.map_or(0.0, |pace| cpu_ns - instructions / pace)
    }

    fn counted(&self, from: &ThreadPlace, to: &ThreadPlace) -> Vec<CountedInterval> {
        let of = |register| self.counted_by(register, from, to);
        (0..GENERAL_REGISTERS).filter_map(of).collect()
    }

    fn counted_by(
        &self,
        register: usize,
        from: &ThreadPlace,
        to: &ThreadPlace,
    ) -> Option<CountedInterval> {
        let seen = || {
            let all = self.recent.iter().flatten();
            all.filter(|one| one.register == register)
        };
        let up = seen().next()?.up;
        let holds = |place: &ThreadPlace| seen().any(|one| one.at.contains(&place.code));
        if seen().any(|one| one.up != up) || !holds(from) || !holds(to) {
            return None;
        }
        let rate = |one: &Advance| one.by as f64 / one.instructions as f64;
        let least = seen().map(rate).fold(f64::INFINITY, f64::min);
        let most = seen().map(rate).fold(0.0, f64::max);
        if most > MAX_PACE_RATIO * least {
            return None;
        }
        let sum = |of: fn(&Advance) -> f64| seen().map(of).sum::<f64>();
        let by = sum(|one| one.by as f64);
        let way = way(up, from.values[register], to.values[register])?;
        if way.abs() < MIN_STEPS * by / sum(|one| f64::from(one.changes)) {
            return None;
        }
        Some(CountedInterval {
            register,
            instructions: way * sum(|one| one.instructions as f64) / by,
        })
    }
}

/// Distance that a register moved. A 32-bit register may have wrapped around. `None` if it did not move.
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
mod tests;
