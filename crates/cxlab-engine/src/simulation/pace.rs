//! Chooses the number of threads of a run: as many as make it faster, up to a limit.
//!
//! A run begins on one thread. From time to time it tries another number of threads. It keeps that number
//! where events are handled faster; otherwise it returns to the previous number and waits for longer
//! before the next trial. A trial takes about a sixty-fourth of the time so far. So failed trials cost a
//! few percent at most, also on a machine whose processors are busy with other programs.
//!
//! This is the only place in the engine where real time has an effect. It affects how fast a run is,
//! never its result, which is equal for every number of threads.

use std::time::Duration;

use web_time::Instant;

/// The number of threads that a run may use. The result of the run does not depend on it.
///
/// A plain number of threads converts to [`Threads::Exactly`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// This number of threads, whether it is fast or not: for tests and measurements of the executor. A
    /// simulation uses at most one thread for each component.
    Exactly(usize),
    /// The number of threads that makes the run fastest: at most this number, and at most the
    /// [`processors`] that the process may use.
    UpTo(usize),
}

impl Threads {
    /// The number of threads that makes the run fastest, without a limit but the processors.
    pub const AUTO: Threads = Threads::UpTo(usize::MAX);
}

impl From<usize> for Threads {
    fn from(exactly: usize) -> Threads {
        Threads::Exactly(exactly)
    }
}

/// The number of processors that this process may use: on Linux those of its affinity mask, but no more
/// than the quota of its control group (versions 1 and 2) allows.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Real time before the first trial (*assumed*).
const FIRST_TRIAL: Duration = Duration::from_millis(100);
/// Duration of the shortest trial (*assumed*): long enough for caches to fill and for some hundred windows.
const SHORTEST_TRIAL: Duration = Duration::from_millis(2);
/// A trial takes the time so far divided by this number (*assumed*).
const TRIAL_SHARE: u32 = 64;
/// A trial begins when the time so far is this multiple of its cost (*assumed*), which includes moving
/// components there and back.
const WORTH: u32 = 40;
/// Time to move one component to another division, before it has been measured (*assumed*).
const MOVING: Duration = Duration::from_micros(1);
/// More threads are kept if they handle events at least this many times as fast (*assumed*).
const FASTER: f64 = 1.05;
/// Fewer threads are kept if they handle events at least this many times as fast (*assumed*): they leave
/// processors to others.
const AS_FAST: f64 = 0.98;
/// When the rate of the chosen number of threads falls below this fraction (*assumed*) of its rate when it
/// was chosen, one thread is tried immediately: other programs may have taken the processors.
const DEGRADED: f64 = 0.8;
/// A trial of more threads ends early when their rate, while caches fill, is below this fraction of
/// the present rate (*assumed*).
const HOPELESS: f64 = 0.4;

/// Events handled, and the real time that they took.
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

/// What a run does at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Runs on the chosen number of threads.
    Steady,
    /// First half of a trial of another number of threads: caches fill.
    Filling(usize),
    /// Second half of the trial: the rate is measured.
    Measuring(usize),
}

/// A piece of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    /// Number of threads.
    pub threads: usize,
    /// Approximate real time of the slice; `None` without limit.
    pub time: Option<Duration>,
    /// Whether the slice is of a trial of another number of threads.
    pub trial: bool,
}

/// Chooses the number of threads of a run.
pub(super) struct Pace {
    clock: Box<dyn FnMut() -> Duration + Send + Sync>,
    /// The largest number of threads that may be chosen.
    most: usize,
    chosen: usize,
    phase: Phase,
    /// Events and time of the present phase.
    tally: Tally,
    /// Events per second on the chosen number of threads, as measured last.
    rate: f64,
    /// Events per second on the chosen number of threads when it was chosen.
    rate_chosen: f64,
    /// Real time of the run so far.
    elapsed: Duration,
    /// Real time to move the components to another division.
    moving: Duration,
    /// Time of the run at which the next trial begins.
    next_trial: Duration,
    /// Whether the next trial is of more threads.
    up: bool,
}

impl Pace {
    /// Chooses among one to `most` threads for a system of `components` components.
    pub fn new(most: usize, components: usize) -> Pace {
        let began = Instant::now();
        Pace::with_clock(most, components, Box::new(move || began.elapsed()))
    }

    /// Like [`Pace::new`], with another clock, which must be monotonic.
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

    /// The time of the clock.
    pub fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// The number of threads that is the fastest so far.
    #[cfg(test)]
    pub fn chosen(&self) -> usize {
        self.chosen
    }

    /// The next slice. Before a trial of more threads, `helps` is called with their number and the
    /// seconds that an event takes: whether the system has enough events at a time for them.
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

    /// Records a slice: its events, its time, and the time before it to move components.
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

    /// Updates the rate of the chosen number of threads, and begins a new tally.
    fn measured(&mut self) {
        if self.tally.events > 0 {
            self.rate = self.tally.rate();
            self.tally = Tally::default();
        }
    }

    /// Duration of both halves of a trial.
    fn trial(&self) -> Duration {
        SHORTEST_TRIAL.max(self.elapsed / TRIAL_SHARE)
    }

    /// Duration of one measurement of the rate of the chosen number of threads.
    fn steady(&self) -> Duration {
        (2 * SHORTEST_TRIAL).max(self.elapsed / 16)
    }

    /// The number of threads of the next trial.
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

    /// When the next trial begins: the time so far has doubled, and the cost of a trial is small beside it.
    fn later(&self) -> Duration {
        let cost = self.trial() + 2 * self.moving;
        (2 * self.elapsed).max(cost * WORTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs events on a machine that handles `rate(threads, time)` events per second. Returns the time
    /// that the run takes, and the number of threads that was chosen last.
    fn run(most: usize, events: f64, rate: impl Fn(usize, f64) -> f64) -> (f64, usize) {
        let mut pace = Pace::with_clock(most, 100, Box::new(|| Duration::ZERO));
        let (mut left, mut time, mut before) = (events, 0.0, 1);
        while left > 0.0 {
            let slice = pace.next(|_, _| true);
            let moving = if slice.threads == before { 0.0 } else { 100e-6 };
            before = slice.threads;
            let rate = rate(slice.threads, time);
            // A slice without a time limit runs to the end.
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
