//! How many threads a run uses: as many as make it faster, up to a limit.
//!
//! A run begins on one thread. Now and then it tries another number for a moment, keeps the number where
//! events were handled faster, and otherwise goes back and waits for longer before the next trial. A trial
//! takes about a sixty-fourth of the time so far, so that trials that fail cost a few percent at most, also
//! on a machine whose processors are busy with other programs.
//!
//! This is the only place of the engine where real time decides anything. It decides how fast a run is,
//! never what it computes: results are equal for every number of threads.

use std::time::{Duration, Instant};

/// How many threads a run may use. Its result does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// So many, whether that is fast or not: for tests of the executor, and for measuring it.
    Exactly(usize),
    /// As many as make the run faster, and neither more than that nor than the processors that the process
    /// may use.
    UpTo(usize),
}

impl Threads {
    /// As many as make the run faster.
    pub const AUTO: Threads = Threads::UpTo(usize::MAX);
}

impl From<usize> for Threads {
    fn from(exactly: usize) -> Threads {
        Threads::Exactly(exactly)
    }
}

/// The processors that this process may use: on Linux those of its affinity mask, and no more than its
/// control group's quota (versions 1 and 2) allows.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Real time that passes before the first trial.
const FIRST_TRIAL: Duration = Duration::from_millis(100);
/// Shortest trial: long enough for caches to fill and for some hundred windows.
const SHORTEST_TRIAL: Duration = Duration::from_millis(2);
/// A trial takes this part of the time so far.
const TRIAL_SHARE: u32 = 64;
/// A trial waits until the time so far is this many times what it costs, moving components there and back
/// included.
const WORTH: u32 = 40;
/// Moving one component to another division, before it has been measured (*assumed*).
const MOVING: Duration = Duration::from_micros(1);
/// How much faster, in percent, more threads must be to be kept.
const FASTER: f64 = 1.05;
/// Fewer threads are kept where they are as fast as this: they leave processors to others.
const AS_FAST: f64 = 0.98;
/// A number of threads whose rate falls to this part of what it was when it was chosen is tried against one
/// thread at once: other programs may have taken the processors.
const DEGRADED: f64 = 0.8;
/// More threads that are this much slower before caches have filled are not tried further.
const HOPELESS: f64 = 0.4;

/// Events handled, and the time that it took.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    events: u64,
    time: Duration,
}

impl Tally {
    /// Events per second.
    fn rate(self) -> f64 {
        self.events as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// What a run does at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// It runs on the chosen number of threads.
    Steady,
    /// It has begun to try another number; caches fill.
    Filling(usize),
    /// It measures how fast that number is.
    Measuring(usize),
}

/// A piece of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    /// On so many threads.
    pub threads: usize,
    /// For about so long; `None` without limit.
    pub time: Option<Duration>,
    /// Whether it measures a number that may turn out slower.
    pub trial: bool,
}

/// Chooses the number of threads of a run.
pub(super) struct Pace {
    clock: Box<dyn FnMut() -> Duration + Send + Sync>,
    /// The most threads that it chooses.
    most: usize,
    chosen: usize,
    phase: Phase,
    /// Of the phase so far.
    tally: Tally,
    /// Events per second on the chosen number, when it was measured last.
    rate: f64,
    /// The same when it was chosen.
    rate_chosen: f64,
    /// Time of the run so far.
    elapsed: Duration,
    /// What it took to move components to another division.
    moving: Duration,
    next_trial: Duration,
    /// Whether the next trial is of more threads.
    up: bool,
}

impl Pace {
    /// Chooses among one to `most` threads for a system of so many components.
    pub fn new(most: usize, components: usize) -> Pace {
        let began = Instant::now();
        Pace::with_clock(most, components, Box::new(move || began.elapsed()))
    }

    /// The same with another clock, which never goes back.
    pub fn with_clock(
        most: usize,
        components: usize,
        clock: Box<dyn FnMut() -> Duration + Send + Sync>,
    ) -> Pace {
        let moving = MOVING * components as u32;
        Pace {
            clock,
            most,
            chosen: 1,
            phase: Phase::Steady,
            tally: Tally::default(),
            rate: 0.0,
            rate_chosen: 0.0,
            elapsed: Duration::ZERO,
            moving,
            next_trial: FIRST_TRIAL.max(2 * moving * WORTH),
            up: true,
        }
    }

    /// The time that the clock shows.
    pub fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// The number of threads that was found fastest.
    #[cfg(test)]
    pub fn chosen(&self) -> usize {
        self.chosen
    }

    /// What to do next. `helps` is asked before more threads are tried, with their number and the seconds
    /// that an event takes, whether the system has enough to do at a time for them.
    pub fn next(&mut self, helps: impl FnOnce(usize, f64) -> bool) -> Slice {
        if self.phase == Phase::Steady && self.most > 1 && self.elapsed >= self.next_trial {
            if self.tally.time >= SHORTEST_TRIAL / 2 || self.rate == 0.0 {
                self.measured();
            }
            let candidate = self.candidate();
            if candidate < self.chosen || helps(candidate, 1.0 / self.rate.max(1.0)) {
                self.enter(Phase::Filling(candidate));
            } else {
                self.refuse();
            }
        }
        let left = |span: Duration| span.saturating_sub(self.tally.time).max(SHORTEST_TRIAL / 8);
        let (threads, time) = match self.phase {
            Phase::Steady if self.most == 1 => (1, None),
            Phase::Steady => {
                let trial = self.next_trial.saturating_sub(self.elapsed);
                (self.chosen, Some(left(self.steady()).min(trial)))
            }
            Phase::Filling(threads) | Phase::Measuring(threads) => {
                (threads, Some(left(self.trial() / 2)))
            }
        };
        Slice {
            threads,
            time,
            trial: self.phase != Phase::Steady,
        }
    }

    /// What the slice was: so many events in so much time, after components had been moved for so long.
    pub fn done(&mut self, events: u64, time: Duration, moving: Duration) {
        self.elapsed += time + moving;
        self.tally.events += events;
        self.tally.time += time;
        if self.phase != Phase::Steady && moving > SHORTEST_TRIAL / 64 {
            self.moving = moving;
        }
        let rate = self.tally.rate();
        match self.phase {
            Phase::Steady if self.tally.time >= self.steady() => {
                self.measured();
                if self.chosen > 1 && self.rate < self.rate_chosen * DEGRADED {
                    self.up = false;
                    self.next_trial = self.elapsed;
                }
            }
            Phase::Filling(threads) if self.tally.time >= self.trial() / 2 => {
                match threads > self.chosen && rate < self.rate * HOPELESS {
                    true => self.refuse(),
                    false => self.enter(Phase::Measuring(threads)),
                }
            }
            Phase::Measuring(threads) if self.tally.time >= self.trial() / 2 => {
                let wanted = match threads > self.chosen {
                    true => FASTER,
                    false => AS_FAST,
                };
                match rate > self.rate * wanted {
                    true => self.choose(threads, rate),
                    false => self.refuse(),
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.tally = Tally::default();
    }

    /// Takes the rate of the chosen number from what was done since it was taken last.
    fn measured(&mut self) {
        if self.tally.events > 0 {
            self.rate = self.tally.rate();
            self.tally = Tally::default();
        }
    }

    /// How long a trial takes, both halves together.
    fn trial(&self) -> Duration {
        SHORTEST_TRIAL.max(self.elapsed / TRIAL_SHARE)
    }

    /// For how long the rate of the chosen number is measured at a time.
    fn steady(&self) -> Duration {
        (2 * SHORTEST_TRIAL).max(self.elapsed / 16)
    }

    /// The number to try next.
    fn candidate(&self) -> usize {
        if self.chosen > 1 && self.rate < self.rate_chosen * DEGRADED {
            return 1;
        }
        match self.up && self.chosen < self.most || self.chosen == 1 {
            true => (2 * self.chosen).min(self.most),
            false => self.chosen / 2,
        }
    }

    fn choose(&mut self, threads: usize, rate: f64) {
        self.up = threads > self.chosen;
        self.chosen = threads;
        (self.rate, self.rate_chosen) = (rate, rate);
        // The next step in the same direction may help too.
        self.next_trial = match self.up && threads < self.most {
            true => self.elapsed + self.elapsed / 8 + 2 * self.moving * WORTH / 8,
            false => self.later(),
        };
        self.enter(Phase::Steady);
    }

    fn refuse(&mut self) {
        self.up = !self.up;
        if self.chosen > 1 {
            self.rate_chosen = self.rate;
        }
        self.next_trial = self.later();
        self.enter(Phase::Steady);
    }

    /// When the time so far has doubled, and is worth another trial.
    fn later(&self) -> Duration {
        let cost = self.trial() + 2 * self.moving;
        (2 * self.elapsed).max(cost * WORTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs events on a machine that handles `rate(threads, time)` of them in a second; returns the time that
    /// it takes, and the number of threads in the end.
    fn run(most: usize, events: f64, rate: impl Fn(usize, f64) -> f64) -> (f64, usize) {
        let mut pace = Pace::with_clock(most, 100, Box::new(|| Duration::ZERO));
        let (mut left, mut time, mut before) = (events, 0.0, 1);
        while left > 0.0 {
            let slice = pace.next(|_, _| true);
            let moving = if slice.threads == before { 0.0 } else { 100e-6 };
            before = slice.threads;
            let rate = rate(slice.threads, time);
            // A barrier may wait for a thread that has no processor for some milliseconds.
            let longest = slice.time.map_or(f64::INFINITY, |time| time.as_secs_f64());
            let took = (left / rate).min(longest);
            left -= took * rate;
            time += took + moving;
            let span = |seconds| Duration::from_secs_f64(seconds);
            pace.done((took * rate) as u64, span(took), span(moving));
        }
        (time, pace.chosen())
    }

    #[test]
    fn threads_that_hurt_cost_less_than_five_percent() {
        let alone = 1e6;
        for slower in [0.97, 0.5, 0.1, 0.01] {
            for seconds in [0.05, 0.11, 0.25, 1.0, 10.0, 100.0] {
                let rate = |threads, _| alone * if threads == 1 { 1.0 } else { slower };
                let (time, chosen) = run(16, alone * seconds, rate);
                assert!(
                    time < seconds * 1.05,
                    "{slower}: {time} s, {seconds} s alone"
                );
                assert_eq!(chosen, 1);
            }
        }
    }

    #[test]
    fn as_many_threads_are_chosen_as_make_a_run_faster() {
        let alone = 1e6;
        // Eight threads are best on sixteen processors.
        let gain = |threads| [1.0, 1.8, 3.0, 4.5, 3.5][usize::ilog2(threads) as usize];
        let (time, chosen) = run(16, alone * 20.0, |threads, _| alone * gain(threads));
        assert_eq!(chosen, 8);
        assert!(time < 1.15 * 20.0 / 4.5, "{time}");
        let (time, chosen) = run(2, alone * 20.0, |threads, _| alone * gain(threads));
        assert_eq!(chosen, 2);
        assert!(time < 1.05 * 20.0 / 1.8, "{time}");
        assert_eq!(run(1, alone, |_, _| alone), (1.0, 1));
    }

    #[test]
    fn a_machine_that_becomes_busy_is_noticed() {
        let alone = 1e6;
        let rate = |threads, time| match threads {
            1 => alone,
            _ if time < 2.0 => alone * 1.7,
            _ => alone * 0.02,
        };
        let (time, chosen) = run(2, alone * 10.0, rate);
        assert_eq!(chosen, 1);
        assert!(time < 10.0, "{time}");
    }
}
