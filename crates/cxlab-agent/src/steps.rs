//! Execution of a program on a hardware thread: the steps in a reorder window.
//!
//! Steps enter the window in program order and leave it in program order. A step begins when its
//! data are available, in the order in which the data became available, and steps complete in any
//! order. So no step begins that is farther than the window's size from the oldest incomplete
//! step. The rules of entry are those of the core that runs one program alone
//! (`cxlab_host::Core`). Computing before a step that needs no data delays later steps; computing
//! on data that are still outstanding does not. A fence enters when all earlier steps are
//! complete, a flush when all have begun.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::Hpa;
use cxlab_workload::thread::{Bases, ThreadOp};
use cxlab_workload::{Action, LOCAL_BASE, Program, Step, StepDependency};
use serde::{Deserialize, Serialize};

/// A program for one hardware thread.
pub struct ThreadProgram {
    /// The program to run.
    pub program: Box<dyn Program>,
    /// Random stream of the program.
    pub rng: StreamRng,
    /// Size of the window in steps, counted from the oldest incomplete step.
    pub window: u32,
    /// Maximum number of steps to take from the program; `None` for no limit.
    pub limit: Option<u64>,
    /// Base addresses of the memories, which the program itself addresses physically.
    pub bases: Bases,
    /// End of CXL memory within the program's addresses below [`LOCAL_BASE`]; the
    /// host's own memory follows.
    pub cxl_end: u64,
    /// Index of the program's first phase among the component's phases.
    pub first_phase: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
enum StepState {
    /// The step waits for the data of an earlier step.
    Waits,
    /// The step may begin.
    Ready,
    /// The step has begun.
    Begun,
    /// The step is complete, but an earlier step is not.
    Done,
}

pub(crate) enum NextStep {
    /// Begins this step, which has this number.
    Begin(u64, Step),
    /// Nothing can begin before this time.
    NotBefore(u64),
    /// Nothing can begin before a step completes.
    Waits,
    /// The program has ended.
    Ended,
}

/// The reorder window of one program.
pub(crate) struct StepWindow {
    program: Box<dyn Program>,
    rng: StreamRng,
    left: u64,
    bases: Bases,
    cxl_end: u64,
    first_phase: u8,
    /// Length of a cycle in picoseconds.
    cycle: u64,
    size: usize,
    /// The steps in the window, oldest first, and the number of the oldest.
    window: VecDeque<(Step, StepState)>,
    oldest: u64,
    /// Steps that may begin, by time and number.
    ready: BinaryHeap<Reverse<(u64, u64)>>,
    /// Number of steps in the window that have not begun.
    waiting: usize,
    /// Number of steps that wait for a step other than the previous one.
    far: usize,
    /// The next step to enter.
    held: Option<Step>,
    /// When the program began. The steps' `not_before` times count from here.
    begun: Option<u64>,
    /// When the last step entered, and when a step last completed.
    entered: u64,
    completed: u64,
    exhausted: bool,
    /// Whether the program reached its end, rather than its limit.
    finished: bool,
}

save_state!(StepWindow {
    values: left, window, oldest, ready, waiting, far, held, begun, entered, completed, exhausted, finished;
    states: program, rng;
    built: bases, cxl_end, first_phase, cycle, size;
});

impl StepWindow {
    pub(crate) fn new(hw_thread: ThreadProgram, cycle: u64) -> StepWindow {
        let size = hw_thread.window.max(1) as usize;
        StepWindow {
            program: hw_thread.program,
            rng: hw_thread.rng,
            left: hw_thread.limit.unwrap_or(u64::MAX),
            bases: hw_thread.bases,
            cxl_end: hw_thread.cxl_end,
            first_phase: hw_thread.first_phase,
            cycle,
            size,
            window: VecDeque::with_capacity(size),
            oldest: 0,
            ready: BinaryHeap::with_capacity(size),
            waiting: 0,
            far: 0,
            held: None,
            begun: None,
            entered: 0,
            completed: 0,
            exhausted: false,
            finished: false,
        }
    }

    pub(crate) fn next(&mut self, now: u64) -> NextStep {
        if self.begun.is_none() {
            self.begun = Some(now);
            self.entered = now;
        }
        let enters = self.enter(now);
        if let Some(Reverse((time, number))) = self.ready.peek().copied() {
            if time > now {
                return NextStep::NotBefore(time.min(enters.unwrap_or(u64::MAX)));
            }
            self.ready.pop();
            self.waiting -= 1;
            let (step, state) = &mut self.window[(number - self.oldest) as usize];
            *state = StepState::Begun;
            return NextStep::Begin(number, *step);
        }
        match enters {
            Some(time) => NextStep::NotBefore(time),
            None if self.exhausted && self.window.is_empty() => NextStep::Ended,
            None => NextStep::Waits,
        }
    }

    /// Takes steps into the window. Returns when the next step enters, if it depends on time alone.
    fn enter(&mut self, now: u64) -> Option<u64> {
        loop {
            if self.held.is_none() && !self.exhausted {
                if self.left > 0 {
                    self.left -= 1;
                    self.held = self.program.next_step(&mut self.rng);
                    self.finished = self.held.is_none();
                }
                self.exhausted = self.held.is_none();
            }
            let step = self.held?;
            let due = self.due(&step)?;
            if due > now {
                return Some(due);
            }
            self.held = None;
            self.entered = now;
            let number = self.oldest + self.window.len() as u64;
            let data = match (step.after, self.window.back()) {
                (StepDependency::Previous, Some((_, StepState::Done))) => Some(self.completed),
                (StepDependency::Previous, Some(_)) => None,
                (StepDependency::Back(back), _) if self.is_open(number, back) => {
                    self.far += 1;
                    None
                }
                _ => Some(now),
            };
            let state = match data {
                Some(_) => StepState::Ready,
                None => StepState::Waits,
            };
            self.window.push_back((step, state));
            self.waiting += 1;
            if let Some(data) = data {
                let computing = match step.after {
                    StepDependency::Previous => u64::from(step.cycles) * self.cycle,
                    StepDependency::Nothing | StepDependency::Back(_) | StepDependency::All => 0,
                };
                self.ready
                    .push(Reverse((now.max(data + computing), number)));
            }
        }
    }

    /// Whether the step `back` steps before step `number` is in the window and incomplete.
    fn is_open(&self, number: u64, back: u32) -> bool {
        let index = number
            .checked_sub(u64::from(back))
            .and_then(|number| number.checked_sub(self.oldest));
        let found = index.and_then(|index| self.window.get(index as usize));
        found.is_some_and(|(_, state)| *state != StepState::Done)
    }

    /// When a step may enter; `None` while it depends on another step.
    fn due(&self, step: &Step) -> Option<u64> {
        let computing = u64::from(step.cycles) * self.cycle;
        if self.window.len() == self.size || step.action == Action::Flush && self.waiting > 0 {
            return None;
        }
        let due = match step.after {
            StepDependency::Nothing | StepDependency::Back(_) => self.entered + computing,
            StepDependency::Previous => 0,
            StepDependency::All if !self.window.is_empty() => return None,
            StepDependency::All => self.entered.max(self.completed) + computing,
        };
        Some(due.max(self.begun.unwrap_or(0) + step.not_before.0))
    }

    /// Marks a step as complete, and makes steps that depend on it ready.
    pub(crate) fn complete(&mut self, number: u64, now: u64) {
        self.completed = now;
        let index = (number - self.oldest) as usize;
        self.window[index].1 = StepState::Done;
        if let Some((step, state @ StepState::Waits)) = self.window.get_mut(index + 1)
            && step.after == StepDependency::Previous
        {
            *state = StepState::Ready;
            let computing = u64::from(step.cycles) * self.cycle;
            self.ready.push(Reverse((now + computing, number + 1)));
        }
        if self.far > 0 {
            self.wake_far(number, now);
        }
        while let Some((_, StepState::Done)) = self.window.front() {
            self.window.pop_front();
            self.oldest += 1;
        }
    }

    /// Makes the steps ready that wait for step `number` and do not directly follow it.
    fn wake_far(&mut self, number: u64, now: u64) {
        let first = (number + 1 - self.oldest) as usize;
        for (index, (step, state)) in self.window.iter_mut().enumerate().skip(first) {
            let waiter = self.oldest + index as u64;
            if *state == StepState::Waits
                && let StepDependency::Back(back) = step.after
                && waiter - u64::from(back) == number
            {
                *state = StepState::Ready;
                self.far -= 1;
                self.ready.push(Reverse((now, waiter)));
            }
        }
    }

    /// The operation of a step, and the step's phase among those of the component.
    pub(crate) fn operation(&self, step: &Step) -> (ThreadOp, u8) {
        let Hpa(hpa) = step.hpa;
        let local = hpa.checked_sub(match hpa >= LOCAL_BASE.0 {
            true => LOCAL_BASE.0,
            false => self.cxl_end,
        });
        let addr = match local {
            Some(offset) => self.bases.local + offset,
            None => self.bases.cxl + hpa,
        };
        // The step accesses one 8-byte word of the line; the program itself has the values.
        let (addr, size) = (addr & !7, 8);
        let op = match step.action {
            Action::Load => ThreadOp::Load { addr, size },
            Action::Store => ThreadOp::Store {
                addr,
                size,
                value: 0,
            },
            Action::Flush => ThreadOp::WriteBack { addr },
        };
        (op, self.first_phase + step.phase)
    }

    /// Checks the result of the program if it reached its end and all steps are complete.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.finished && self.window.is_empty() {
            true => self.program.check(),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cxlab_engine::units::{Bytes, SimTime};
    use cxlab_workload::Phase;

    use super::*;

    /// A program whose steps are given as a list.
    struct ListedSteps {
        steps: std::vec::IntoIter<Step>,
        phases: [Phase; 1],
    }

    cxlab_engine::cannot_save!(ListedSteps, "a list of a test");

    impl Program for ListedSteps {
        fn next_step(&mut self, _: &mut StreamRng) -> Option<Step> {
            self.steps.next()
        }

        fn phases(&self) -> &[Phase] {
            &self.phases
        }

        fn check(&self) -> Result<(), String> {
            Err("checked".to_owned())
        }
    }

    fn load(after: StepDependency, cycles: u32) -> Step {
        Step {
            after,
            cycles,
            ..Step::new(Hpa(0), Action::Load)
        }
    }

    /// The window of a hardware thread with this size and limit, and a cycle of 10 ps.
    fn steps(list: Vec<Step>, window: u32, limit: Option<u64>) -> StepWindow {
        let phase = Phase {
            name: "all".to_owned(),
            bytes: Bytes(64),
        };
        let hw_thread = ThreadProgram {
            program: Box::new(ListedSteps {
                steps: list.into_iter(),
                phases: [phase],
            }),
            rng: StreamRng::new(1, "steps"),
            window,
            limit,
            bases: Bases::PHYSICAL,
            cxl_end: 1024,
            first_phase: 3,
        };
        StepWindow::new(hw_thread, 10)
    }

    /// Numbers of the steps that begin at `now`, and what the program then waits for.
    fn begins(steps: &mut StepWindow, now: u64) -> (Vec<u64>, &'static str, u64) {
        let mut begun = Vec::new();
        loop {
            match steps.next(now) {
                NextStep::Begin(number, _) => begun.push(number),
                NextStep::NotBefore(time) => return (begun, "time", time),
                NextStep::Waits => return (begun, "data", 0),
                NextStep::Ended => return (begun, "end", 0),
            }
        }
    }

    #[test]
    fn no_step_begins_further_than_the_window_from_the_oldest_that_is_not_complete() {
        let mut steps = steps(vec![load(StepDependency::Nothing, 0); 5], 3, None);
        assert_eq!(begins(&mut steps, 0), (vec![0, 1, 2], "data", 0));
        steps.complete(1, 5);
        steps.complete(2, 6);
        assert_eq!(begins(&mut steps, 6), (vec![], "data", 0), "0 is not out");
        steps.complete(0, 7);
        assert_eq!(begins(&mut steps, 7), (vec![3, 4], "data", 0));
        steps.complete(4, 8);
        assert!(steps.check().is_ok(), "3 is under way");
        steps.complete(3, 9);
        assert_eq!(begins(&mut steps, 9), (vec![], "end", 0));
        assert_eq!(steps.check().unwrap_err(), "checked");
    }

    #[test]
    fn a_step_that_needs_data_computes_when_they_are_there_and_holds_up_nobody() {
        let list = vec![
            load(StepDependency::Nothing, 0),
            load(StepDependency::Previous, 4),
            load(StepDependency::Nothing, 0),
        ];
        let mut steps = steps(list, 8, None);
        assert_eq!(begins(&mut steps, 0), (vec![0, 2], "data", 0));
        steps.complete(0, 100);
        assert_eq!(begins(&mut steps, 100), (vec![], "time", 140));
        assert_eq!(begins(&mut steps, 140), (vec![1], "data", 0));
    }

    #[test]
    fn a_step_may_need_the_data_of_one_farther_back() {
        let far = |back, cycles| load(StepDependency::Back(back), cycles);
        let list = vec![far(9, 0), far(1, 0), far(2, 3), far(1, 0), far(4, 0)];
        let mut steps = steps(list, 8, None);
        // A step that does not exist is not waited for; the computing before a step
        // comes first, in order.
        assert_eq!(begins(&mut steps, 0), (vec![0], "time", 30));
        assert_eq!(begins(&mut steps, 30), (vec![], "data", 0));
        steps.complete(0, 50);
        assert_eq!(begins(&mut steps, 50), (vec![1, 2, 4], "data", 0));
        steps.complete(1, 60);
        assert_eq!(begins(&mut steps, 60), (vec![], "data", 0));
        steps.complete(2, 70);
        assert_eq!(begins(&mut steps, 70), (vec![3], "data", 0));
    }

    #[test]
    fn computing_without_data_and_times_hold_up_what_is_behind() {
        let mut second = load(StepDependency::Nothing, 2);
        let mut third = load(StepDependency::Nothing, 0);
        third.not_before = SimTime(90);
        let mut held = steps(
            vec![load(StepDependency::Nothing, 0), second, third],
            8,
            None,
        );
        assert_eq!(begins(&mut held, 0), (vec![0], "time", 20));
        assert_eq!(begins(&mut held, 20), (vec![1], "time", 90));
        assert_eq!(begins(&mut held, 90), (vec![2], "data", 0));
        // A fence waits for all earlier steps, and then computes.
        second.after = StepDependency::All;
        let mut fenced = steps(
            vec![load(StepDependency::Nothing, 0), second, third],
            8,
            None,
        );
        assert_eq!(begins(&mut fenced, 0), (vec![0], "data", 0));
        fenced.complete(0, 50);
        assert_eq!(begins(&mut fenced, 50), (vec![], "time", 70));
    }

    #[test]
    fn a_flush_waits_until_all_before_it_has_begun() {
        let flush = Step::new(Hpa(0), Action::Flush);
        let list = vec![
            load(StepDependency::Nothing, 0),
            load(StepDependency::Previous, 0),
            flush,
        ];
        let mut steps = steps(list, 8, None);
        assert_eq!(begins(&mut steps, 0), (vec![0], "data", 0));
        steps.complete(0, 10);
        assert_eq!(begins(&mut steps, 10), (vec![1, 2], "data", 0));
    }

    #[test]
    fn a_limit_ends_a_program_early_and_its_result_is_not_checked() {
        let mut steps = steps(vec![load(StepDependency::Nothing, 0); 5], 8, Some(2));
        assert_eq!(begins(&mut steps, 0), (vec![0, 1], "data", 0));
        steps.complete(0, 1);
        steps.complete(1, 1);
        assert_eq!(begins(&mut steps, 1), (vec![], "end", 0));
        assert!(steps.check().is_ok());
    }

    #[test]
    fn addresses_of_one_span_are_cxl_memory_and_then_the_hosts_own() {
        let hw_thread = steps(Vec::new(), 1, None);
        for (hpa, addr) in [
            (0, 0),
            (960, 960),
            (1024, LOCAL_BASE.0),
            (1091, LOCAL_BASE.0 + 64),
            (LOCAL_BASE.0 + 128, LOCAL_BASE.0 + 128),
        ] {
            let (op, phase) = hw_thread.operation(&Step::new(Hpa(hpa), Action::Load));
            assert_eq!((op, phase), (ThreadOp::Load { addr, size: 8 }, 3));
        }
    }
}
