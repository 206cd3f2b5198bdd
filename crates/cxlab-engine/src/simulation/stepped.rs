//! A simulation that another program advances step by step, and whose components get work between two steps.

use super::part::MONITOR_INTERVAL;
use super::{Outcome, Simulation, Stop};
use crate::component::{Body, Component, ReservedWake};
use crate::queue::EventKey;
use crate::units::SimTime;

impl<C: Component> Simulation<C> {
    /// Handles all events before `until` on the calling thread. Events at `until` or later stay pending.
    ///
    /// The result is that of [`Simulation::run`], without the cost of an [`Outcome`] for each
    /// step. Nothing is allocated once the queue has grown to the largest number of pending events, except
    /// when components are arranged anew, which happens at growing intervals.
    pub fn run_before(&mut self, until: SimTime) {
        self.begin();
        loop {
            self.divide(1);
            let done = self.parts[0].advance(until.0, MONITOR_INTERVAL);
            self.settle();
            if done < MONITOR_INTERVAL {
                break;
            }
        }
        if self.next_event().is_some() {
            self.end = self.end.max(until);
        }
    }

    /// The time that the simulation has reached: that of the last event while none is pending, and the end of
    /// the last run otherwise.
    pub fn end(&self) -> SimTime {
        self.end
    }

    /// The result of all runs so far.
    pub fn outcome_so_far(&mut self) -> Outcome {
        let stop = match self.next_event() {
            Some(_) => Stop::TimeLimit,
            None => Stop::Exhausted,
        };
        self.outcome(stop)
    }

    /// Whether the components were started ([`Component::start`]), which the next run does otherwise.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Gives a wake-up that the component `number` has [reserved](crate::Ctx::reserve_wake) its time and its
    /// token, between two runs.
    ///
    /// # Panics
    /// If there is no component with this number, or if an event at `at` may already have been handled.
    pub fn wake_reserved(&mut self, number: usize, wake: ReservedWake, at: SimTime, token: u32) {
        let slot = self.slot(number);
        assert!(at.0 >= self.parts[0].last, "a wake-up in the past");
        let key = EventKey {
            time: at.0,
            order: wake.0,
        };
        let id = slot.record.id;
        self.put_pending(key, id, Body::Wake(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{ComponentId, Ctx, Wire};
    use crate::simulation::Monitor;
    use crate::simulation::tests::Ball;
    use crate::units::Picos;

    /// Throws a ball at each of its times. It knows all times, or learns each from outside.
    struct Thrower {
        times: Vec<u64>,
        outside: bool,
        reserved: Option<ReservedWake>,
        caught: Vec<(u64, u64)>,
    }

    impl Thrower {
        fn next(&mut self, ctx: &mut Ctx<'_, Ball>) {
            if self.outside {
                self.reserved = Some(ctx.reserve_wake());
            } else if let Some(time) = self.times.pop() {
                ctx.wake_at(SimTime(time), 3);
            }
        }
    }

    impl Component for Thrower {
        type Payload = Ball;

        fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
            self.next(ctx);
        }

        fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, _port: u16, ball: &Ball) {
            self.caught.push((ctx.now().0, ball.0));
            if ball.0 > 0 {
                ctx.send(0, ctx.now() + Picos(70), Ball(ball.0 - 1));
            }
        }

        fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, token: u32) {
            self.next(ctx);
            ctx.send(0, ctx.now() + Picos(50), Ball(u64::from(token)));
        }
    }

    fn pair(outside: bool) -> Simulation<Thrower> {
        let thrower = |times: &[u64]| Thrower {
            times: times.iter().rev().copied().collect(),
            outside: outside && !times.is_empty(),
            reserved: None,
            caught: Vec::new(),
        };
        let wire = |peer| Wire::new(ComponentId(peer), 0, Picos(50));
        let throwers = vec![thrower(&[10, 100, 120, 5_000_000]), thrower(&[])];
        Simulation::new(throwers, vec![vec![wire(1)], vec![wire(0)]])
    }

    #[test]
    fn a_time_that_becomes_known_late_gives_the_order_of_one_that_was_known_at_once() {
        let mut known = pair(false);
        let expected = known.run(1, SimTime(6_000_000), &Monitor::default());
        for early in [0, 1, 60, 1_000_000] {
            let mut told = pair(true);
            let mut thrown = 0;
            while let Some(time) = told.component_mut(0).times.pop() {
                told.run_before(SimTime((thrown + 1).max(time.saturating_sub(early))));
                thrown = time;
                let thrower = told.component_mut(0);
                thrower.outside = !thrower.times.is_empty();
                let wake = thrower.reserved.take().expect("a reserved wake-up");
                told.wake_reserved(0, wake, SimTime(time), 3);
            }
            told.run_before(SimTime(6_000_000));
            for (told, known) in told.components().zip(known.components()) {
                assert_eq!(told.caught, known.caught);
            }
            let outcome = told.run(1, SimTime(6_000_000), &Monitor::default());
            assert_eq!(outcome.digest, expected.digest, "told {early} ps before");
        }
    }
}
