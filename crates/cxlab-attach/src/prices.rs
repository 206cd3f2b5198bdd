//! Prices of the threads' CPU time: each thread is charged the delay of its instructions, and the
//! fabric receives the demand of their lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::estimate::{Estimate, PhaseId, demand};
use crate::fabric::{Answer, Demand, Fabric, under_way};
use crate::meter::Missed;
use crate::process::{Facts, Judged, Process};
use crate::recorder::{Priced, Recorder};
use crate::recording::StackId;
use crate::slowdown::PoolReport;
use crate::sys::Tid;
use crate::thread::{Look, Spent, Thread};

/// Time between two requests to the fabric.
const ASK: Duration = Duration::from_millis(100);
/// Most samples that wait for more windows (*assumed*: some tenths of a second of a thread's time).
const MOST_WAITING: usize = 128;
/// Reciprocal of the least share of time that a program is assumed to run, even if it
/// is nearly always held.
const MOST_HELD: f64 = 1000.0;
/// Width of a slowdown's interval, as a part of its lower end, from which on the first windows are more
/// in number (*assumed*).
const UNCERTAIN: f64 = 0.1;

/// CPU time in nanoseconds, by the method that determined its number of instructions.
#[derive(Clone, Copy, Default)]
pub(crate) struct Told {
    /// Counted by registers, between two samples.
    pub(crate) counted_ns: f64,
    /// Derived from the pace at which registers counted the same code.
    pub(crate) paced_ns: f64,
    /// Derived from the model's time. This is user CPU time.
    pub(crate) priced_ns: f64,
}

/// What is known of a thread's time in a piece of code.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Used {
    /// A number of instructions, and their CPU time in nanoseconds.
    Counted {
        instructions: f64,
        cpu_ns: f64,
        lines: f64,
    },
    /// CPU time without a known number of instructions.
    Spent(Spent),
    /// CPU time in other code, which no window has been in.
    Elsewhere(Spent),
}

/// Use of a pool so far.
#[derive(Clone, Copy, Default)]
struct PoolSum {
    waits: f64,
    misses: f64,
    write_backs: f64,
    /// Sum of the latencies of all waits, in nanoseconds.
    waited_ns: f64,
}

pub(crate) struct Prices<'a> {
    pub(crate) fabric: &'a mut dyn Fabric,
    pub(crate) facts: Facts,
    answers: Vec<Answer>,
    /// Number of responses from the fabric.
    number: u64,
    /// Number of lines requested since the last request to the fabric, by pool.
    asked: Vec<Demand>,
    asked_at: Instant,
    /// Time held until the last request to the fabric, by thread.
    held_before: BTreeMap<Tid, u64>,
    pools: Vec<PoolSum>,
    pub(crate) told: Told,
    /// Time that the model gives for the priced code with all memory being local.
    pub(crate) modelled_ns: f64,
    /// The delay that was asked for, with as few and as many misses as watched lines allow.
    pub(crate) least_ns: f64,
    pub(crate) most_ns: f64,
    /// User CPU time that never got a price.
    pub(crate) unpriced_ns: f64,
    /// CPU time in which lines, when they were touched again, or time itself decided how many lines miss.
    pub(crate) by_lines_ns: f64,
    pub(crate) by_reuse_ns: f64,
    pub(crate) by_time_ns: f64,
    /// What is kept of the run, if that is wanted.
    pub(crate) recorder: Option<Recorder>,
    /// Whether an event counts the lines that are read.
    pub(crate) has_lines: bool,
}

/// Whether more windows may soon say which lines are in the cache, in the code of a sample that has no price
/// yet or in code `phase`.
fn any_undecided(thread: &Thread, process: &Process, phase: PhaseId) -> bool {
    let open = thread.open.iter().filter_map(|look| process.code_of(look));
    let phases: BTreeSet<PhaseId> = open.chain([phase]).collect();
    phases.into_iter().any(|phase| process.is_undecided(phase))
}

impl<'a> Prices<'a> {
    pub(crate) fn new(fabric: &'a mut dyn Fabric, facts: Facts) -> Prices<'a> {
        let pools = fabric.pools().len();
        let none = vec![Demand::default(); pools];
        let answers = fabric.answer(&none, facts.overlap.stream);
        Prices {
            fabric,
            facts,
            answers,
            number: 0,
            asked: none,
            asked_at: Instant::now(),
            held_before: BTreeMap::new(),
            pools: vec![PoolSum::default(); pools],
            told: Told::default(),
            modelled_ns: 0.0,
            least_ns: 0.0,
            most_ns: 0.0,
            unpriced_ns: 0.0,
            by_lines_ns: 0.0,
            by_reuse_ns: 0.0,
            by_time_ns: 0.0,
            recorder: None,
            has_lines: false,
        }
    }

    /// Whether watched lines are so few that they leave a wide interval for the slowdown of a program that
    /// used `cpu_ns` of CPU time.
    pub(crate) fn is_uncertain(&self, cpu_ns: f64) -> bool {
        self.most_ns - self.least_ns > UNCERTAIN * (cpu_ns + self.least_ns)
    }

    /// A sample found a thread in known code, so the intervals before its open samples get a price.
    /// They wait while the pace of that code will soon be known.
    pub(crate) fn seen(&mut self, thread: &mut Thread, process: &mut Process, phase: PhaseId) {
        let progress = process.progress(phase);
        let waits = progress.is_some_and(|progress| progress.is_undecided());
        // An estimate shows whether pages are doubtful, and more windows come soon.
        let known = !waits
            && process
                .estimate(phase, &self.facts, &*self.fabric)
                .is_some();
        let short = thread.open.len() < MOST_WAITING;
        let open = !self.has_lines && known && short;
        let waits = waits || open && any_undecided(thread, process, phase);
        if !waits {
            self.settle(thread, process, Some(phase));
        }
    }

    /// No further sample of this thread follows, so pending time is priced without one.
    pub(crate) fn end(&mut self, thread: &mut Thread, process: &mut Process) {
        self.settle(thread, process, None);
        // Half of the time after the last sample belongs to that sample's code.
        let rest = std::mem::take(&mut thread.stretch);
        let last = thread.priced.take();
        if rest == Spent::default() {
            return;
        }
        let of = last.and_then(|look| process.code_of(&look));
        let stack = last.map_or(0, |look| look.stack);
        if let Some(phase) = of {
            self.price(thread, process, (phase, stack), Used::Spent(rest.half()));
        }
        let left = match of {
            Some(_) => rest.half(),
            None => rest,
        };
        self.elsewhere(thread, process, stack, left);
    }

    /// Prices time in code that no window was or will be in, as the last window's code.
    fn elsewhere(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        stack: StackId,
        spent: Spent,
    ) {
        match process.last_phase() {
            Some(phase) => self.price(thread, process, (phase, stack), Used::Elsewhere(spent)),
            None => self.unpriced_ns += spent.user_ns,
        }
    }

    /// Prices the intervals before open samples. A sample in code without a window counts for the
    /// next known code, at the end for `last`.
    fn settle(&mut self, thread: &mut Thread, process: &mut Process, last: Option<PhaseId>) {
        let open = std::mem::take(&mut thread.open);
        let code_of = |look: &Look| process.code_of(look);
        let known: Vec<Option<PhaseId>> = open.iter().map(code_of).collect();
        let mut behind = last;
        let mut codes: Vec<Option<PhaseId>> = known
            .iter()
            .rev()
            .map(|known| {
                behind = known.or(behind);
                behind
            })
            .collect();
        codes.reverse();
        let mut before = thread.priced.map(|look| (look.place, code_of(&look)));
        let mut stack_before = thread.priced.map(|look| look.stack);
        for ((look, own), code) in open.iter().zip(known).zip(codes) {
            let from = before.replace((look.place, own));
            let from_code = from.map_or(code, |(_, from)| from.or(code));
            let from_stack = stack_before.replace(look.stack).unwrap_or(look.stack);
            if from_code == code {
                let counted = look.counted.or_else(|| {
                    // Both samples are in that code.
                    let (from, phase) =
                        from.filter(|(_, known)| known.is_some() && *known == own)?;
                    let progress = process.progress(phase?)?;
                    progress.count_late(&from, &look.place, look.spent.cpu_ns)
                });
                let used = match counted {
                    Some(instructions) => Used::Counted {
                        instructions,
                        cpu_ns: look.spent.cpu_ns,
                        lines: look.spent.lines,
                    },
                    None => Used::Spent(look.spent),
                };
                self.price_of(thread, process, (code, look.stack), used);
            } else {
                for of in [(from_code, from_stack), (code, look.stack)] {
                    self.price_of(thread, process, of, Used::Spent(look.spent.half()));
                }
            }
        }
        thread.priced = open.last().copied().or(thread.priced);
    }

    /// Prices time in code that may not be known.
    fn price_of(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        (code, stack): (Option<PhaseId>, StackId),
        used: Used,
    ) {
        match (code, used) {
            (Some(phase), used) => self.price(thread, process, (phase, stack), used),
            (None, Used::Spent(spent) | Used::Elsewhere(spent)) => {
                self.elsewhere(thread, process, stack, spent);
            }
            (None, Used::Counted { cpu_ns, .. }) => self.unpriced_ns += cpu_ns,
        }
    }

    /// Charges a thread the delay of its time in that code. If the number or pace of instructions
    /// is known, the delay is that of the instructions.
    fn price(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        (phase, stack): (PhaseId, StackId),
        used: Used,
    ) {
        let pid = process.pid;
        let pace = process.progress(phase).and_then(|one| one.pace());
        let told = &mut self.told;
        let (told, ns, instructions) = match (used, pace) {
            (
                Used::Counted {
                    instructions,
                    cpu_ns,
                    ..
                },
                _,
            ) => (&mut told.counted_ns, cpu_ns, Some(instructions)),
            // The pace of that code includes the kernel's work for it.
            (Used::Spent(spent), Some(pace)) => {
                (&mut told.paced_ns, spent.cpu_ns, Some(spent.cpu_ns * pace))
            }
            (Used::Spent(spent) | Used::Elsewhere(spent), _) => {
                (&mut told.priced_ns, spent.user_ns, None)
            }
        };
        let lines = match used {
            Used::Counted { lines, .. } => lines,
            Used::Spent(spent) | Used::Elsewhere(spent) => spent.lines,
        };
        if self.has_lines {
            process.count(phase, lines, ns);
        }
        let Some(known) = process.estimate(phase, &self.facts, &*self.fabric) else {
            self.unpriced_ns += ns;
            return;
        };
        *told += ns;
        match known.judged {
            Judged::Pages | Judged::Counted => {}
            Judged::Lines => self.by_lines_ns += ns,
            Judged::Reuse => self.by_reuse_ns += ns,
            Judged::Time => self.by_time_ns += ns,
        }
        thread.computed_ns += ns as u64;
        let [delay, least, most] = known.delay(&self.answers, self.number);
        let estimate = &known.estimate;
        // The model's rates are by CPU time, so the instructions are converted to the CPU time
        // that the model gives.
        let user_of = |estimate: &Estimate| match instructions {
            Some(instructions) => instructions * estimate.instruction_ns(),
            None => ns,
        };
        // Where lines are counted, the time holds as many as that.
        let modelled_ns = user_of(estimate);
        let reads: f64 = estimate.rates.iter().map(|rate| rate.reads).sum();
        let user_ns = match self.has_lines {
            true if reads > 0.0 => lines / reads,
            true => 0.0,
            false => modelled_ns,
        };
        thread.ledger.ask(user_ns * delay);
        let [few, many] = match &known.bounds {
            Some(bounds) => bounds.each_ref().map(user_of),
            None => [user_ns; 2],
        };
        self.least_ns += (few * least).min(user_ns * delay);
        self.most_ns += (many * most).max(user_ns * delay);
        if let Some(recorder) = &mut self.recorder {
            let priced = Priced {
                instructions: modelled_ns / estimate.instruction_ns(),
                cpu_ns: ns,
                delay_ns: user_ns * delay,
                estimate,
                machine: known.machine,
                stack,
            };
            recorder.priced(pid, phase, &priced);
        }
        self.modelled_ns += modelled_ns * estimate.model_ns();
        for (pool, rate) in estimate.rates.iter().enumerate() {
            let latency = match pool {
                0 => known.machine.local_ns,
                _ => self.answers[pool].latency_ns,
            };
            let sum = &mut self.pools[pool];
            sum.waits += user_ns * rate.waits;
            sum.misses += user_ns * rate.reads;
            sum.write_backs += user_ns * rate.writes;
            sum.waited_ns += user_ns * rate.waits * latency;
        }
        let more = demand(&estimate.rates, user_ns, 1.0);
        for (asked, more) in self.asked.iter_mut().zip(more) {
            asked.reads_per_ns += more.reads_per_ns;
            asked.writes_per_ns += more.writes_per_ns;
        }
    }

    /// Charges a thread the delay of CPU time of which its events say what it missed.
    pub(crate) fn metered(&mut self, thread: &mut Thread, cpu_ns: f64, missed: &Missed) {
        let local_ns = self.facts.local_ns;
        let (mut delay_ns, mut stretch) = (0.0, 1.0_f64);
        for (pool, answer) in self.answers.iter().enumerate() {
            let waits = missed.waits[pool];
            let lines = missed.lines[pool];
            let latency = match pool {
                0 => local_ns,
                _ => answer.latency_ns.max(local_ns),
            };
            delay_ns += waits * (latency - local_ns);
            if pool > 0 && lines > 0.0 {
                stretch = stretch.max(answer.stretch);
            }
            let sum = &mut self.pools[pool];
            sum.waits += waits;
            sum.misses += lines;
            sum.waited_ns += waits * latency;
            self.asked[pool].reads_per_ns += lines;
        }
        let delay_ns = delay_ns.max((stretch - 1.0) * cpu_ns);
        thread.ledger.ask(delay_ns);
        thread.computed_ns += cpu_ns as u64;
        self.least_ns += delay_ns;
        self.most_ns += delay_ns;
    }

    /// Gives the fabric the demand since the last request. Latencies are those at the present load.
    /// Bandwidth limits are computed for the time without holds, because holds would hide them.
    pub(crate) fn ask_fabric(&mut self, threads: &mut BTreeMap<Tid, Thread>) {
        let passed = self.asked_at.elapsed();
        if passed < ASK {
            return;
        }
        let real = passed.as_nanos() as f64;
        let held: BTreeMap<Tid, u64> = threads
            .iter()
            .map(|(tid, thread)| (*tid, thread.ledger.held_ns))
            .collect();
        let before = |tid: &Tid| self.held_before.get(tid).copied().unwrap_or(0);
        let longest = held.iter().map(|(tid, now)| now - before(tid)).max();
        // A hold that ends now may have begun before the last request, and time that is priced now
        // may have passed before it.
        let running = (real - longest.unwrap_or(0) as f64).max(real / MOST_HELD);
        let computed = threads.values_mut();
        let computed = computed.map(|thread| std::mem::take(&mut thread.computed_ns));
        let running = running.max(computed.max().unwrap_or(0) as f64);
        let reads = self.facts.overlap.stream * threads.len().max(1) as f64;
        if let Some(recorder) = &mut self.recorder {
            recorder.asked(threads.len(), running);
        }
        let lines = under_way(&self.asked, reads);
        let per = |asked: &Demand, time: f64| Demand {
            reads_per_ns: asked.reads_per_ns / time,
            writes_per_ns: asked.writes_per_ns / time,
        };
        let mut at = |time| {
            let asked: Vec<Demand> = self.asked.iter().map(|asked| per(asked, time)).collect();
            self.fabric.answer(&asked, lines)
        };
        let undelayed = at(running);
        self.answers = at(real.max(running));
        for (answer, undelayed) in self.answers.iter_mut().zip(undelayed) {
            answer.stretch = undelayed.stretch;
        }
        self.number += 1;
        self.held_before = held;
        self.asked.fill(Demand::default());
        self.asked_at = Instant::now();
    }

    /// Use of each pool.
    pub(crate) fn pools(&self) -> Vec<PoolReport> {
        let all: f64 = self.pools.iter().map(|pool| pool.misses).sum();
        let pools = self.fabric.pools().into_iter().zip(&self.pools);
        pools
            .map(|(name, sum)| PoolReport {
                name,
                share: if all > 0.0 { sum.misses / all } else { 0.0 },
                misses: sum.misses,
                write_backs: sum.write_backs,
                waits: sum.waits,
                latency_ns: (sum.waits > 0.0).then(|| sum.waited_ns / sum.waits),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::{Curve, Lines};
    use crate::model::{Overlap, Step};
    use crate::placement::Placement;
    use crate::progress::{GENERAL, Place};
    use crate::reuse::WindowTrace;
    use crate::sys;

    struct Two;

    impl Fabric for Two {
        fn pools(&self) -> Vec<String> {
            ["local", "far"].map(str::to_owned).to_vec()
        }

        fn pool_of(&self, _offset: u64) -> usize {
            1
        }

        fn answer(&mut self, _demand: &[Demand], _under_way: f64) -> Vec<Answer> {
            let answer = |latency_ns| Answer {
                latency_ns,
                stretch: 1.0,
            };
            [90.0, 290.0].map(answer).to_vec()
        }
    }

    fn facts() -> Facts {
        let lines = |bytes| Lines {
            bytes,
            alone_ns: 90.0,
            apart_ns: 9.0,
            stream_ns: 5.0,
        };
        let curve = Curve(vec![lines(4 << 20), lines(256 << 20)]);
        Facts {
            small: curve.clone(),
            large: curve,
            mark_ns: 0.0,
            watched_fault_ns: 0.0,
            memory_ns: 90.0,
            local_ns: 90.0,
            llc_bytes: 1,
            overlap: Overlap::default(),
            own: false,
        }
    }

    /// A place in a loop of four instructions, whose counter is in the first register.
    fn at(code: u64, executed: u64) -> Place {
        let mut values = [0; GENERAL];
        values[0] = executed / 4;
        let code = code + executed % 4;
        Place { code, values }
    }

    /// A window of such a loop, which does not wait for memory.
    fn window(followed: &mut Followed<'_>, code: u64) -> PhaseId {
        let places: Vec<Place> = (0..100).map(|executed| at(code, executed)).collect();
        add(followed, code, &places)
    }

    fn add(followed: &mut Followed<'_>, code: u64, places: &[Place]) -> PhaseId {
        let step = Step {
            code,
            ..Step::default()
        };
        let trace = WindowTrace::new(vec![step; 100], 0, &mut |_| None);
        let prices = &followed.prices;
        let (facts, fabric) = (&prices.facts, &*prices.fabric);
        followed.process.add(trace, places, facts, fabric).unwrap()
    }

    const ONE: u64 = 0x1000;
    const OTHER: u64 = 0x2000;

    /// The interval is from 1.1 to 1.15, then to 1.25. Without a delay there is none.
    #[test]
    fn a_slowdown_is_uncertain_if_its_interval_is_wide() {
        let mut fabric = Two;
        let mut prices = Prices::new(&mut fabric, facts());
        assert!(!prices.is_uncertain(1e9));
        (prices.least_ns, prices.most_ns) = (0.1e9, 0.15e9);
        assert!(!prices.is_uncertain(1e9));
        prices.most_ns = 0.25e9;
        assert!(prices.is_uncertain(1e9));
    }

    struct Followed<'a> {
        prices: Prices<'a>,
        thread: Thread,
        process: Process,
    }

    impl<'a> Followed<'a> {
        fn new(fabric: &'a mut Two) -> Followed<'a> {
            let own = sys::own();
            let prices = Prices::new(fabric, facts());
            let mut process = Process::new(own, Placement::Cxl);
            process.look(&prices.facts);
            Followed {
                prices,
                thread: Thread::new(own, own),
                process,
            }
        }

        /// Samples the thread after another millisecond of CPU time.
        fn look(&mut self, place: Place) {
            let cpu_ns = 1e6;
            self.thread.stretch.add(Spent {
                cpu_ns,
                user_ns: cpu_ns,
                lines: 0.0,
            });
            let phase = self.process.at(place.code);
            let before = self.thread.last_look();
            let before = before.filter(|look| self.process.code_of(look) == phase);
            let progress = phase.and_then(|phase| self.process.progress(phase));
            let counted = before.zip(progress);
            let counted = counted
                .and_then(|(before, progress)| progress.count(&before.place, &place, cpu_ns, true));
            self.thread.looked(place, phase, counted, 0);
            if let Some(phase) = phase {
                let (thread, process) = (&mut self.thread, &mut self.process);
                self.prices.seen(thread, process, phase);
            }
        }

        fn told_ms(&self) -> [f64; 3] {
            let told = self.prices.told;
            [told.counted_ns, told.paced_ns, told.priced_ns].map(|ns| ns / 1e6)
        }
    }

    /// Where an event counts lines, as many are charged as it counted, whatever windows say of the cache.
    #[test]
    fn counted_lines_are_the_misses() {
        let mut fabric = Two;
        let mut followed = Followed::new(&mut fabric);
        followed.prices.has_lines = true;
        let memory = crate::placement::Region {
            start: 0,
            end: 1 << 20,
        };
        followed.process.layout.update(&[memory]);
        // A chain through CXL memory, a load in ten instructions.
        let load = |at: u64| Step {
            code: ONE,
            ..Step::load(at * 6400, &[1], &[1])
        };
        let compute = Step {
            code: ONE,
            ..Step::default()
        };
        let steps = (0..100).flat_map(|at| [vec![load(at)], vec![compute.clone(); 9]].concat());
        let trace = WindowTrace::new(steps.collect(), 0, &mut |_| Some(1));
        let (facts, fabric) = (&followed.prices.facts, &*followed.prices.fabric);
        followed.process.add(trace, &[], facts, fabric).unwrap();
        for number in 1..=20 {
            followed.thread.stretch.lines = 9_000.0 + 500.0 * f64::from(number % 3);
            followed.look(at(ONE, 0));
        }
        let counted: f64 = (1..=20)
            .map(|number| 9_000.0 + 500.0 * f64::from(number % 3))
            .sum();
        let [local, far] = [0, 1].map(|pool| followed.prices.pools()[pool].misses);
        assert!(
            (far / counted - 1.0).abs() < 1e-9 && local == 0.0,
            "{far} {counted}"
        );
        // Each waits for 200 ns more.
        let asked = followed.thread.ledger.asked_ns as f64;
        assert!((asked / (200.0 * counted) - 1.0).abs() < 0.02, "{asked}");
    }

    /// Five intervals pass before the window, at another pace, and eight until the counter is
    /// known to count. Then all of them are counted, and only the time before the first sample is
    /// priced by the pace.
    #[test]
    fn what_passed_before_a_window_is_counted_behind_it() {
        let mut fabric = Two;
        let mut followed = Followed::new(&mut fabric);
        let mut executed = 0;
        for _ in 0..6 {
            followed.look(at(ONE, executed));
            executed += 400_000;
        }
        assert_eq!(followed.told_ms(), [0.0; 3]);
        window(&mut followed, ONE);
        for number in 0..8 {
            assert_eq!(followed.told_ms(), [0.0; 3], "{number}");
            executed += 1_600_000;
            followed.look(at(ONE, executed));
        }
        let [counted, paced, priced] = followed.told_ms();
        assert_eq!((counted, priced), (13.0, 0.0));
        assert_eq!(paced, 1.0);
        // 0.25 ns an instruction, and one millisecond at the pace of the eight intervals.
        let modelled = (executed as f64 + 1.65e6) * 0.25;
        let found = followed.prices.modelled_ns;
        assert!((found / modelled - 1.0).abs() < 0.01, "{found} {modelled}");
        assert!(followed.thread.open.is_empty());
    }

    /// A thread goes from one piece of code to another, through code without a window. Half of the
    /// first interval belongs to the first, and the rest to the other.
    #[test]
    fn what_passed_between_two_pieces_of_code_is_shared() {
        let mut fabric = Two;
        let mut followed = Followed::new(&mut fabric);
        // Their windows show no register that counts, so the model's time gives
        // the number of instructions.
        for code in [ONE, OTHER] {
            add(&mut followed, code, &[]);
        }
        followed.look(at(ONE, 0));
        assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0]);
        followed.look(at(0x9000, 0));
        assert_eq!(followed.told_ms(), [0.0, 0.0, 1.0]);
        assert_eq!(followed.thread.waits_ns(), 1e6);
        followed.look(at(OTHER, 0));
        assert_eq!(followed.told_ms(), [0.0, 0.0, 3.0]);
        followed.look(at(0x9000, 0));
        let (thread, process) = (&mut followed.thread, &mut followed.process);
        followed.prices.end(thread, process);
        assert_eq!(followed.told_ms(), [0.0, 0.0, 4.0]);
        assert_eq!(followed.prices.unpriced_ns, 0.0);
    }
}
