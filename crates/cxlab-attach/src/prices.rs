//! Prices of the threads' CPU time: each thread is charged the delay of its instructions, and the
//! fabric receives the demand of their lines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::estimate::{Estimate, PhaseId, demand};
use crate::fabric::{Demand, Fabric, PoolResponse, in_flight};
use crate::meter::MeteredMisses;
use crate::process::{Facts, MissRule, Process};
use crate::recorder::{self, Recorder};
use crate::recording::StackId;
use crate::share;
use crate::slowdown::PoolReport;
use crate::sys::Tid;
use crate::thread::{SpentTime, Thread};

/// Time between two requests to the fabric.
const FABRIC_INTERVAL: Duration = Duration::from_millis(100);
/// Most samples that wait for more windows (*assumed*: some tenths of a second of a thread's time).
const MOST_WAITING: usize = 128;
/// Reciprocal of the least share of time that a program is assumed to run, even if it is nearly always held.
const MOST_HELD: f64 = 1000.0;
/// Width of a slowdown's interval relative to its lower end, above which more first windows are taken (*assumed*).
const UNCERTAIN_WIDTH: f64 = 0.1;

/// CPU time in nanoseconds, by the method that determined its number of instructions.
#[derive(Clone, Copy, Default)]
pub(crate) struct TimeByMethod {
    /// Counted by registers, between two samples.
    pub(crate) counted_ns: f64,
    /// Derived from the pace at which registers counted the same code.
    pub(crate) paced_ns: f64,
    /// Derived from the model's time. This is user CPU time.
    pub(crate) priced_ns: f64,
}

/// CPU time in nanoseconds by the rule that decided the miss rate, except touched pages.
#[derive(Clone, Copy, Default)]
pub(crate) struct JudgedNs {
    /// By the rule [`MissRule::Lines`].
    pub(crate) lines: f64,
    /// By the rule [`MissRule::Reuse`].
    pub(crate) reuse: f64,
    /// By the rule [`MissRule::Time`].
    pub(crate) time: f64,
}

/// Sums over all priced time.
#[derive(Clone, Copy, Default)]
pub(crate) struct PricedSums {
    /// How the number of instructions was determined.
    pub(crate) by_method: TimeByMethod,
    /// Time that the model gives for the priced code with all memory being local.
    pub(crate) modelled_ns: f64,
    /// The requested delay with the least and the largest miss rate of the watched lines' interval.
    pub(crate) least_ns: f64,
    pub(crate) most_ns: f64,
    /// User CPU time that never got a price.
    pub(crate) unpriced_ns: f64,
    pub(crate) judged: JudgedNs,
}

/// CPU time of a thread in a phase, with its number of instructions if that is known.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum KnownTime {
    /// A number of instructions, and their CPU time.
    Counted(f64, SpentTime),
    /// CPU time without a known number of instructions.
    Spent(SpentTime),
    /// CPU time in other code, which no window has been in.
    Elsewhere(SpentTime),
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
    answers: Vec<PoolResponse>,
    /// Number of responses from the fabric.
    number: u64,
    /// Number of lines requested since the last request to the fabric, by pool.
    asked: Vec<Demand>,
    asked_at: Instant,
    /// Time held until the last request to the fabric, by thread.
    held_before: BTreeMap<Tid, u64>,
    pools: Vec<PoolSum>,
    pub(crate) priced: PricedSums,
    /// Recorder of the run, if it is recorded.
    pub(crate) recorder: Option<Recorder>,
    /// Whether an event counts the lines that are read.
    pub(crate) has_lines: bool,
}

/// Whether more windows may soon decide which lines are in the cache, in code `phase` or that of a sample without price.
fn any_undecided(thread: &Thread, process: &Process, phase: PhaseId) -> bool {
    let open = thread.open.iter().filter_map(|sample| sample.code);
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
            priced: PricedSums::default(),
            recorder: None,
            has_lines: false,
        }
    }

    /// Whether the slowdown of a program that used `cpu_ns` of CPU time has a wide interval, for lack of watched lines.
    pub(crate) fn is_uncertain(&self, cpu_ns: f64) -> bool {
        let PricedSums {
            least_ns, most_ns, ..
        } = self.priced;
        most_ns - least_ns > UNCERTAIN_WIDTH * (cpu_ns + least_ns)
    }

    /// Largest delay that the program may owe so far, in nanoseconds. `open_ns` of CPU time without price counts as
    /// delay of the same length, if any pool adds latency.
    pub(crate) fn most_owed_ns(&self, open_ns: f64) -> f64 {
        let adds =
            |answer: &PoolResponse| answer.latency_ns > self.facts.local_ns || answer.stretch > 1.0;
        let any = self.answers.iter().skip(1).any(adds);
        self.priced.most_ns + if any { open_ns } else { 0.0 }
    }

    /// Prices the intervals before a thread's open samples, after a sample in known code. The intervals wait while the
    /// pace of that code will soon be known, or while code without a window may get one.
    pub(crate) fn seen(&mut self, thread: &mut Thread, process: &mut Process, phase: PhaseId) {
        let progress = process.progress(phase);
        let waits = progress.is_some_and(|progress| progress.is_undecided());
        // An estimate shows whether pages are doubtful, and more windows come soon.
        let mut estimate = || {
            process
                .estimate(phase, &self.facts, &*self.fabric)
                .is_some()
        };
        let known = !waits && estimate();
        let may = !self.has_lines && known && any_undecided(thread, process, phase);
        let may = may || thread.is_unknown();
        let waits = waits || may && thread.open.len() < MOST_WAITING;
        if !waits {
            self.settle(thread, process, Some(phase));
        }
    }

    /// Prices all pending time of a thread that is not sampled any more.
    pub(crate) fn end(&mut self, thread: &mut Thread, process: &mut Process) {
        self.settle(thread, process, None);
        // Half of the time after the last sample belongs to that sample's code.
        let rest = std::mem::take(&mut thread.stretch);
        let last = thread.priced.take();
        if rest == SpentTime::default() {
            return;
        }
        let of = last.and_then(|sample| sample.code);
        let stack = last.map_or(0, |sample| sample.stack);
        if let Some(phase) = of {
            self.price(
                thread,
                process,
                (phase, stack),
                KnownTime::Spent(rest.half()),
            );
        }
        let left = match of {
            Some(_) => rest.half(),
            None => rest,
        };
        self.elsewhere(thread, process, stack, left);
    }

    /// Prices time in code that never gets a window, as the last window's code.
    fn elsewhere(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        stack: StackId,
        spent: SpentTime,
    ) {
        match process.last_phase() {
            Some(phase) => self.price(thread, process, (phase, stack), KnownTime::Elsewhere(spent)),
            None => self.priced.unpriced_ns += spent.user_ns,
        }
    }

    /// Prices the intervals before open samples. A sample in code without a window counts for the
    /// next known code, at the end for `last`.
    fn settle(&mut self, thread: &mut Thread, process: &mut Process, last: Option<PhaseId>) {
        let open = std::mem::take(&mut thread.open);
        let mut codes: Vec<Option<PhaseId>> = open.iter().map(|sample| sample.code).collect();
        let mut behind = last;
        for code in codes.iter_mut().rev() {
            *code = code.or(behind);
            behind = *code;
        }
        let mut before = thread.priced.map(|sample| (sample.place, sample.code));
        let mut stack_before = thread.priced.map(|sample| sample.stack);
        for (sample, code) in open.iter().zip(codes) {
            let own = sample.code;
            let from = before.replace((sample.place, own));
            let from_code = from.map_or(code, |(_, from)| from.or(code));
            let from_stack = stack_before.replace(sample.stack).unwrap_or(sample.stack);
            if from_code == code {
                let counted = sample.counted.or_else(|| {
                    // Both samples are in that code.
                    let (from, phase) =
                        from.filter(|(_, known)| known.is_some() && *known == own)?;
                    let progress = process.progress(phase?)?;
                    progress.count_late(&from, &sample.place, sample.spent.cpu_ns)
                });
                let used = match counted {
                    Some(instructions) => KnownTime::Counted(instructions, sample.spent),
                    None => KnownTime::Spent(sample.spent),
                };
                self.price_of(thread, process, (code, sample.stack), used);
            } else {
                for of in [(from_code, from_stack), (code, sample.stack)] {
                    self.price_of(thread, process, of, KnownTime::Spent(sample.spent.half()));
                }
            }
        }
        thread.priced = open.last().copied().or(thread.priced);
    }

    /// Prices time in code that is known or unknown.
    fn price_of(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        (code, stack): (Option<PhaseId>, StackId),
        used: KnownTime,
    ) {
        match (code, used) {
            (Some(phase), used) => self.price(thread, process, (phase, stack), used),
            (None, KnownTime::Spent(spent) | KnownTime::Elsewhere(spent)) => {
                self.elsewhere(thread, process, stack, spent);
            }
            (None, KnownTime::Counted(_, spent)) => self.priced.unpriced_ns += spent.cpu_ns,
        }
    }

    /// Charges a thread the delay of its time in a phase: that of the instructions, if their number or pace is known.
    fn price(
        &mut self,
        thread: &mut Thread,
        process: &mut Process,
        (phase, stack): (PhaseId, StackId),
        used: KnownTime,
    ) {
        let pid = process.pid;
        let pace = process.progress(phase).and_then(|one| one.pace());
        let sums = &mut self.priced;
        let times = &mut sums.by_method;
        let (KnownTime::Counted(_, spent) | KnownTime::Spent(spent) | KnownTime::Elsewhere(spent)) =
            used;
        let (cpu_ns, lines) = (spent.cpu_ns, spent.lines);
        let (sum_ns, ns, instructions) = match (used, pace) {
            (KnownTime::Counted(instructions, _), _) => {
                (&mut times.counted_ns, cpu_ns, Some(instructions))
            }
            // The pace of that code includes the kernel's work for it.
            (KnownTime::Spent(_), Some(pace)) => (&mut times.paced_ns, cpu_ns, Some(cpu_ns * pace)),
            _ => (&mut times.priced_ns, spent.user_ns, None),
        };
        if self.has_lines {
            process.count(phase, lines, ns);
        }
        let Some(known) = process.estimate(phase, &self.facts, &*self.fabric) else {
            sums.unpriced_ns += ns;
            return;
        };
        *sum_ns += ns;
        match known.judged {
            MissRule::Pages | MissRule::Counted => {}
            MissRule::Lines => sums.judged.lines += ns,
            MissRule::Reuse => sums.judged.reuse += ns,
            MissRule::Time => sums.judged.time += ns,
        }
        thread.computed_ns += ns as u64;
        let [delay, least, most] = known.delay(&self.answers, self.number);
        let estimate = &known.estimate;
        // The model's rates are by CPU time, so the instructions are converted to the CPU time that the model gives.
        let user_of = |estimate: &Estimate| match instructions {
            Some(instructions) => instructions * estimate.instruction_ns(),
            None => ns,
        };
        // If lines are counted, the time contains exactly the counted ones.
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
        sums.least_ns += (few * least).min(user_ns * delay);
        sums.most_ns += (many * most).max(user_ns * delay);
        sums.modelled_ns += modelled_ns * estimate.model_ns();
        if let Some(recorder) = &mut self.recorder {
            let priced = recorder::PricedTime {
                instructions: modelled_ns / estimate.instruction_ns(),
                cpu_ns: ns,
                delay_ns: user_ns * delay,
                estimate,
                machine: known.machine,
                stack,
            };
            recorder.priced(pid, phase, &priced);
        }
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

    /// Charges a thread the delay of CPU time in which its events counted misses.
    pub(crate) fn metered(&mut self, thread: &mut Thread, cpu_ns: f64, missed: &MeteredMisses) {
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
        self.priced.least_ns += delay_ns;
        self.priced.most_ns += delay_ns;
    }

    /// Updates the fabric's response for the demand since the last request. Latencies are those at the present load.
    /// Bandwidth limits are computed for the time without holds, because holds would hide them.
    pub(crate) fn ask_fabric(&mut self, threads: &mut BTreeMap<Tid, Thread>) {
        let passed = self.asked_at.elapsed();
        if passed < FABRIC_INTERVAL {
            return;
        }
        let real = passed.as_nanos() as f64;
        let held = threads.iter();
        let held: BTreeMap<Tid, u64> = held.map(|(tid, one)| (*tid, one.ledger.held_ns)).collect();
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
        let lines = in_flight(&self.asked, reads);
        let mut at = |time| {
            let asked: Vec<Demand> = self.asked.iter().map(|asked| asked.over(time)).collect();
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
        let report = |(name, sum): (String, &PoolSum)| PoolReport {
            name,
            share: share(sum.misses, all),
            misses: sum.misses,
            write_backs: sum.write_backs,
            waits: sum.waits,
            latency_ns: (sum.waits > 0.0).then(|| sum.waited_ns / sum.waits),
        };
        let pools = self.fabric.pools().into_iter().zip(&self.pools);
        pools.map(report).collect()
    }
}

#[cfg(test)]
mod tests;
