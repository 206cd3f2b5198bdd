//! Guests that are scripts. Each writes its ring as the plugin does, in the order of a schedule.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;
use crate::memory::{GuestLineAddr, Ticket};
use crate::model::{Limits, Processors};
use crate::ring::{Record, RingWriter, WORDS, zeros};

/// The shared server takes 50 ns for each line, one after another, and a response takes 20 ns back.
const SERVICE_PS: u64 = 50_000;
const BACK_PS: u64 = 20_000;
/// Records of a script's ring: few, so that the ring is often full.
const ROOM: u64 = 8;

#[derive(Default)]
struct Server {
    now: u64,
    busy: u64,
    ends: Vec<u64>,
}

impl Memory for Server {
    fn pools(&self, _: usize) -> Vec<String> {
        vec!["local".to_owned(), "cxl".to_owned()]
    }
    fn pool_of(&self, place: GuestLineAddr) -> Option<usize> {
        Some(usize::from(place.is_cxl()))
    }
    fn issue(&mut self, at_ps: u64, _: GuestLineAddr, _: bool) -> Ticket {
        self.busy = self.busy.max(at_ps) + SERVICE_PS;
        self.ends.push(self.busy);
        self.ends.len() as Ticket - 1
    }
    fn next_ps(&self) -> Option<u64> {
        let later = self.ends.iter().filter(|end| **end > self.now);
        later.min().copied()
    }
    fn advance(&mut self, to_ps: u64) {
        self.now = self.now.max(to_ps);
    }
    /// The completion time is not known before the request is served.
    fn known(&self, ticket: Ticket) -> Option<u64> {
        let end = self.ends[ticket as usize];
        (end <= self.now).then_some(end + BACK_PS)
    }
    fn done(&mut self, ticket: Ticket) -> Option<u64> {
        let at = self.ends[ticket as usize] + BACK_PS;
        (at <= self.now).then_some(at)
    }
    fn finish(&mut self, ticket: Ticket) -> Result<u64, StuckBackend> {
        let end = self.ends[ticket as usize];
        self.now = self.now.max(end);
        Ok(end + BACK_PS)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Compute(u64),
    Load(u64),
    Store(u64),
    WriteBack(u64),
    ReadClock,
    Sleep(u64),
    Mark(u64),
    Die,
}

/// A processor of a guest that follows a script.
#[derive(Default)]
struct Fake<'a> {
    teller: RingWriter<'a>,
    lane: usize,
    script: Vec<Act>,
    next: usize,
    /// Whether the guest is in the middle of a sleep.
    asleep: bool,
    own_ps: u64,
    idle_ns: u64,
    head: u64,
    clock_ps: u64,
}

#[derive(PartialEq, Eq, Debug)]
enum Did {
    Something,
    /// The processor waits for the model.
    Nothing,
    /// The script has ended.
    Gone,
}

impl<'a> Fake<'a> {
    fn new(words: &'a [AtomicU64], lane: usize, script: Vec<Act>) -> Fake<'a> {
        Fake {
            teller: RingWriter::new(words),
            lane,
            script,
            ..Fake::default()
        }
    }

    fn publish(&self) {
        self.teller.publish(self.lane, self.head, self.own_ps);
    }

    fn post(&mut self, what: u64) {
        let record = Record {
            at_ps: self.own_ps + self.idle_ns * 1000,
            what,
        };
        self.teller.write(self.lane, self.head, record);
        self.head += 1;
    }

    /// Executes the next act. `tells` says whether it publishes its time where it need not.
    fn act(&mut self, tells: bool) -> Did {
        let Some(act) = self.script.get(self.next).copied() else {
            return Did::Gone;
        };
        let left = self.head - self.teller.tail(self.lane);
        let posts = |line: u64, kind: u64| (line * 64) | kind | 1 << 63;
        match act {
            Act::Die => {
                self.next = self.script.len();
                return Did::Gone;
            }
            Act::Load(_) | Act::Store(_) | Act::WriteBack(_) if left >= ROOM => {
                self.publish();
                return Did::Nothing;
            }
            Act::Compute(ps) => self.own_ps += ps,
            Act::Load(line) => self.post(posts(line, 0)),
            Act::Store(line) => self.post(posts(line, 1)),
            Act::WriteBack(line) => self.post(posts(line, 2)),
            Act::Mark(number) => {
                self.post((number * 64) | 3);
                self.script[self.next] = Act::ReadClock;
                return Did::Something;
            }
            Act::ReadClock => {
                self.publish();
                if left > 0 {
                    return Did::Nothing;
                }
                let now = self.own_ps + self.teller.charged_ps(self.lane) + self.idle_ns * 1000;
                assert!(now >= self.clock_ps, "a clock went back");
                self.clock_ps = now;
            }
            Act::Sleep(ns) => {
                self.publish();
                self.asleep = !self.asleep;
                if self.asleep {
                    self.idle_ns += ns;
                    self.teller.idle_ns(self.idle_ns);
                    return Did::Something;
                }
            }
        }
        self.next += 1;
        if tells {
            self.publish();
        }
        Did::Something
    }
}

/// The next random number (xorshift).
pub(super) fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Results of guests with a processor each.
#[derive(PartialEq, Eq, Debug)]
struct Became {
    charged_ps: Vec<u64>,
    pools: Vec<Vec<PoolCounts>>,
    marks: Vec<(usize, u64, u64)>,
    skew: GuestSkew,
}

const PROCESSORS: Processors = Processors {
    count: 1,
    limits: Limits {
        misses: 4,
        writebacks: 2,
    },
};

/// Runs scripts in an order drawn from a seed, until all have ended. Panics on a deadlock.
fn run(scripts: &[Vec<Act>], window_ps: u64, seed: u64) -> Became {
    let words: Vec<_> = scripts.iter().map(|_| zeros(WORDS)).collect();
    let rings = words
        .iter()
        .map(|words| (ModelWords::new(words).unwrap(), 1));
    let model = Model::new(Server::default(), &vec![PROCESSORS; scripts.len()]);
    let mut pace = Pace::new(model, rings, window_ps);
    let fakes = words.iter().zip(scripts);
    let fakes = fakes.map(|(words, script)| Fake::new(words, 0, script.clone()));
    let mut fakes: Vec<Fake<'_>> = fakes.collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut marks = Vec::new();
    let mut gone = vec![false; fakes.len()];
    let mut still = 0;
    // Each returns whether something went on.
    let mut model = |pace: &mut Pace<'_, Server>| {
        let mut on_mark = |guest, number, now: GuestMark| {
            marks.push((guest, number, now.busy_ps + now.idle_ns * 1000));
        };
        pace.step(&mut on_mark).unwrap()
    };
    let mut act = |pace: &mut Pace<'_, Server>, guest: usize, tells: bool| {
        let did = match gone[guest] {
            true => Did::Nothing,
            false => fakes[guest].act(tells),
        };
        if did == Did::Gone {
            gone[guest] = true;
            pace.end(guest);
        }
        did != Did::Nothing
    };
    while still < 4 * scripts.len() + 4 {
        let drawn = draw(&mut state);
        // The model acts as often as a guest, or rarely.
        let often = 1 + (drawn >> 50) % 8;
        let mut went = (drawn >> 20).is_multiple_of(often) && model(&mut pace);
        let guest = (drawn >> 8) as usize % scripts.len();
        went |= act(&mut pace, guest, drawn & 1 == 1);
        if !went {
            // Random draws are no proof, so the model and each guest try once more, and none may be able to act.
            went = model(&mut pace);
            for guest in 0..scripts.len() {
                went |= act(&mut pace, guest, false);
            }
        }
        still = if went { 0 } else { still + 1 };
    }
    assert!(gone.iter().all(|gone| *gone), "nobody can go on: {gone:?}");
    marks.sort_unstable();
    let guests = || 0..scripts.len();
    Became {
        charged_ps: guests().map(|one| pace.model.charged_ps(one)).collect(),
        pools: guests()
            .map(|one| pace.model.counts(one).to_vec())
            .collect(),
        marks,
        skew: pace.skew(),
    }
}

/// A program: it begins, executes `acts`, reads the clock, and ends.
fn program(acts: impl IntoIterator<Item = Act>) -> Vec<Act> {
    let mut script = vec![Act::Mark(BEGIN)];
    script.extend(acts);
    script.extend([Act::ReadClock, Act::Mark(END)]);
    script
}

fn chase(steps: u64) -> Vec<Act> {
    program((0..steps).map(|step| Act::Load(step * 1000)))
}

#[test]
fn guests_that_meet_slow_one_another_as_the_server_they_share_says() {
    let alone = run(&[chase(500)], 0, 1);
    assert_eq!(alone.charged_ps, [500 * (SERVICE_PS + BACK_PS)]);
    let both = run(&[chase(500), chase(500)], 0, 1);
    // 100 ns for each load in turn, less what the first did not wait at the beginning.
    for charged in &both.charged_ps {
        let off = charged.abs_diff(500 * 2 * SERVICE_PS);
        assert!(off <= 2 * SERVICE_PS, "{both:?}");
    }
}

#[test]
fn what_a_guest_does_later_does_not_slow_what_another_did_before() {
    // The second guest computes for long before its first request. QEMU runs it first.
    let computes = [Act::Compute(1_000_000_000)].into_iter();
    let late = program(computes.chain((0..50).map(Act::Load)));
    for seed in 0..20 {
        let both = run(&[chase(100), late.clone()], 0, seed);
        assert_eq!(both.charged_ps[0], 100 * (SERVICE_PS + BACK_PS));
        assert_eq!((both.skew.late_events, both.skew.max_late_ps), (0, 0));
    }
}

#[test]
fn programs_begin_together_at_the_time_that_the_farthest_has_reached() {
    let mut short = chase(10);
    let mut long = chase(100);
    short.extend(chase(10));
    long.extend(chase(10));
    let both = run(&[short, long], 0, 3);
    let begins = both.marks.iter().filter(|(_, number, _)| *number == BEGIN);
    let begins: Vec<u64> = begins.map(|(.., at)| *at).collect();
    let [first, second, third, fourth] = begins[..] else {
        panic!("{both:?}")
    };
    assert_eq!((first, third), (0, 0));
    assert_eq!(second, fourth);
    assert!(second >= 100 * (SERVICE_PS + BACK_PS));
}

#[test]
fn a_guest_that_sleeps_without_a_timer_holds_up_nobody() {
    let (one, other) = (zeros(WORDS), zeros(WORDS));
    let rings = [&one, &other].map(|words| (ModelWords::new(words).unwrap(), 1));
    let mut pace = Pace::new(Model::new(Server::default(), &[PROCESSORS; 2]), rings, 0);
    let mut awake = Fake::new(&one, 0, chase(100));
    let mut sleeper = Fake::new(&other, 0, vec![Act::Mark(BEGIN), Act::ReadClock]);
    let mut go = |awake: &mut Fake<'_>, sleeper: &mut Fake<'_>| {
        for _ in 0..10_000 {
            awake.act(true);
            sleeper.act(true);
            pace.step(&mut |_, _, _| {}).unwrap();
        }
        awake.next < awake.script.len()
    };
    assert!(
        go(&mut awake, &mut sleeper),
        "it waits for what the other may do"
    );
    sleeper.teller.asleep(true);
    assert!(!go(&mut awake, &mut sleeper));
}

/// A processor that waits inside QEMU for another of its guest publishes no time.
#[test]
fn a_guest_with_several_processors_is_as_far_as_the_farthest() {
    let (one, other) = (zeros(WORDS), zeros(WORDS));
    let rings =
        [(&one, 1), (&other, 2)].map(|(words, count)| (ModelWords::new(words).unwrap(), count));
    let two = Processors {
        count: 2,
        ..PROCESSORS
    };
    let model = Model::new(Server::default(), &[PROCESSORS, two]);
    let mut pace = Pace::new(model, rings, 0);
    let load = [Act::Compute(500_000), Act::Load(0), Act::ReadClock];
    let mut single = Fake::new(&one, 0, program(load));
    // The first processor computes and has no record. The second of its guest stays at 0.
    let computes = [Act::Compute(400_000), Act::Compute(400_000)];
    let mut first = Fake::new(&other, 0, program(computes));
    let mut go = |first: &mut Fake<'_>, until: usize| {
        for _ in 0..1000 {
            single.act(true);
            if first.next < until {
                first.act(true);
            }
            pace.step(&mut |_, _, _| {}).unwrap();
        }
        single.next == single.script.len()
    };
    assert!(
        !go(&mut first, 2),
        "at 400 ns it may still ask before 500 ns"
    );
    assert!(go(&mut first, 3), "at 800 ns it may not");
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..200_000u64).prop_map(Act::Compute),
        4 => (0..40u64).prop_map(Act::Load),
        3 => (0..40u64).prop_map(Act::Store),
        2 => (0..40u64).prop_map(Act::WriteBack),
        1 => Just(Act::ReadClock),
        1 => (1..300u64).prop_map(Act::Sleep),
    ]
}

/// Up to three programs, one after the other.
fn script() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(prop::collection::vec(act(), 0..60), 1..4)
        .prop_map(|programs| programs.into_iter().flat_map(program).collect())
}

fn scripts() -> impl Strategy<Value = Vec<Vec<Act>>> {
    prop::collection::vec(script(), 1..5)
}

proptest! {
    /// Without a window no event is late, and the scripts alone determine the results, however QEMU runs.
    #[test]
    fn in_exact_order_the_results_do_not_depend_on_who_runs_when(scripts in scripts()) {
        let first = run(&scripts, 0, 1);
        prop_assert_eq!((first.skew.late_events, first.skew.max_late_ps), (0, 0));
        for seed in 2..6 {
            prop_assert_eq!(&run(&scripts, 0, seed), &first);
        }
    }

    /// `run` panics on a deadlock, also if guests die in the middle of a program.
    #[test]
    fn nobody_is_later_than_the_window_and_nobody_waits_for_ever(
        scripts in scripts(),
        deaths in prop::collection::vec(prop::option::of(0..200usize), 4),
        window_ps in prop_oneof![Just(0), 1..2_000_000u64],
        seed in any::<u64>(),
    ) {
        let mut scripts = scripts;
        for (script, death) in scripts.iter_mut().zip(deaths) {
            if let Some(at) = death.filter(|at| *at < script.len()) {
                script[at] = Act::Die;
            }
        }
        let became = run(&scripts, window_ps, seed);
        prop_assert!(became.skew.max_late_ps < window_ps.max(1), "{:?}", became.skew);
    }
}

/// Shows that the bound above is not vacuous.
#[test]
fn with_a_window_some_are_late() {
    let scripts = [chase(300), chase(300), chase(300)];
    let late = |seed| run(&scripts, 1_000_000, seed).skew.max_late_ps;
    let late: Vec<u64> = (0..10).map(late).collect();
    assert!(late.iter().any(|late| *late > 0), "{late:?}");
    assert!(late.iter().all(|late| *late < 1_000_000), "{late:?}");
}
