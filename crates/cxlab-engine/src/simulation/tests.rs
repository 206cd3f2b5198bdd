//! Small systems on one thread and on several.

use std::collections::VecDeque;

use super::*;
use crate::component::{ComponentId, Ctx, KeptPayload, KeptPayloads, Payload};
use crate::rng::StreamRng;
use crate::state::{StateReader, StateWriter};
use crate::units::Picos;

#[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Ball(pub(super) u64);

impl Payload for Ball {
    fn fingerprint(&self) -> u64 {
        self.0
    }
}

/// Sends every ball on through a random port after a random time, and wakes itself. It keeps some balls
/// for a while, and replaces some of these by new ones.
struct Juggler {
    rng: StreamRng,
    ports: u64,
    latency: u64,
    seen: Vec<(u64, u64)>,
    kept: VecDeque<KeptPayload>,
    /// The kept balls while they are out of the queue.
    inside: Vec<Ball>,
}

impl Juggler {
    const THROW: u32 = 99;
}

impl Component for Juggler {
    type Payload = Ball;
    fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
        for ball in 0..3 {
            ctx.wake_at(SimTime(ball), ball as u32);
        }
    }
    fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, port: u16, ball: &Ball) {
        self.seen.push((ctx.now().0, ball.0 ^ u64::from(port)));
        ctx.count_work(1);
        if self.rng.below(3) == 0 {
            self.kept.push_back(ctx.keep());
            return ctx.wake_at(SimTime(ctx.now().0 + 130), Self::THROW);
        }
        let at = SimTime(ctx.now().0 + self.latency + self.rng.below(3) * 100);
        let port = self.rng.below(self.ports) as u16;
        ctx.send(port, at, Ball(ball.0.wrapping_mul(31) + 1));
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, token: u32) {
        let at = SimTime(ctx.now().0 + self.latency);
        if token != Self::THROW {
            return ctx.send(0, at, Ball(u64::from(token)));
        }
        let kept = self.kept.pop_front().expect("it keeps one");
        let port = self.rng.below(self.ports) as u16;
        if self.rng.below(4) == 0 {
            let ball = *ctx.kept(&kept);
            ctx.forget(kept);
            return ctx.send(port, at, Ball(ball.0 ^ 1));
        }
        let ball = ctx.send_kept(kept, port, at);
        ball.0 = ball.0.wrapping_mul(37) + 5;
    }
    fn hand_over(&mut self) -> Option<&mut dyn KeptPayloads<Ball>> {
        Some(self)
    }
}

impl KeptPayloads<Ball> for Juggler {
    fn take_kept(&mut self, take: &mut dyn FnMut(KeptPayload) -> Ball) {
        self.inside.extend(self.kept.drain(..).map(take));
    }
    fn restore_kept(&mut self, keep: &mut dyn FnMut(Ball) -> KeptPayload) {
        self.kept.extend(self.inside.drain(..).map(keep));
    }
}

crate::save_state!(Juggler {
    values: seen, inside;
    states: rng;
    built: ports, latency, kept;
});

#[test]
fn a_run_that_tries_numbers_of_threads_at_any_time_has_the_same_result() {
    let monitor = Monitor::default();
    let mut whole = jugglers(12, 1_000);
    let expected = whole.run(1, SimTime(4_000_000), &monitor);
    for seed in 0..4 {
        let mut simulation = jugglers(12, 1_000);
        // A clock that advances by a random time at each reading makes trials begin and end
        // anywhere, with either result.
        let (mut time, mut rng) = (Duration::ZERO, StreamRng::new(seed, "clock"));
        let clock = move || {
            time += Duration::from_micros(rng.below(8_000));
            time
        };
        simulation.pace = Some(Pace::with_clock(5, 12, Box::new(clock)));
        let watched = Monitor::default();
        let mut found = None;
        for until in [1_000_000, 2_500_000, 4_000_000] {
            found = Some(simulation.run(Threads::AUTO, SimTime(until), &watched));
        }
        let found = found.expect("it ran");
        assert_eq!(result(&found), result(&expected));
        assert!(watched.windows().count > 0, "it has tried several threads");
        assert_eq!(seen(&simulation), seen(&whole));
    }
}

#[test]
fn a_panic_on_one_thread_ends_the_run_with_its_message() {
    struct Fails(u32);
    impl Component for Fails {
        type Payload = Ball;
        fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
            ctx.wake_at(SimTime(1), 0);
        }
        fn receive(&mut self, _: &mut Ctx<'_, Ball>, _: u16, _: &Ball) {}
        fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, token: u32) {
            assert!(token < 500 || self.0 != 3, "component 3 has had enough");
            ctx.wake_at(SimTime(ctx.now().0 + 10), token + 1);
        }
    }
    let wire = |number: usize| vec![Wire::new(ComponentId::from(number ^ 1), 0, Picos(100))];
    for threads in [2, 4] {
        let mut simulation =
            Simulation::new((0..4).map(Fails).collect(), (0..4).map(wire).collect());
        let run = std::panic::AssertUnwindSafe(|| {
            simulation.run(threads, SimTime(100_000), &Monitor::default());
        });
        let panic = std::panic::catch_unwind(run).expect_err("a component fails");
        let message = panic.downcast_ref::<&str>().copied();
        assert_eq!(message, Some("component 3 has had enough"));
    }
}

#[test]
fn a_restored_run_ends_as_the_run_that_was_never_saved() {
    let monitor = Monitor::default();
    let mut whole = jugglers(12, 1_000);
    let expected = whole.run(1, SimTime(400_000), &monitor);
    for (before, after) in [(1, 1), (1, 3), (3, 1)] {
        let mut first = jugglers(12, 1_000);
        first.run(before, SimTime(150_000), &monitor);
        let bytes = saved(&mut first);
        drop(first);
        let mut second = restored(12, 1_000, &bytes);
        let found = second.run(after, SimTime(400_000), &monitor);
        assert_eq!(result(&found), result(&expected));
        assert_eq!(seen(&second), seen(&whole));
    }
}

#[test]
fn the_saved_state_does_not_depend_on_threads_and_fits_no_other_system() {
    let monitor = Monitor::default();
    let states = [1, 4].map(|threads| {
        let mut simulation = jugglers(12, 1_000);
        simulation.run(threads, SimTime(100_000), &monitor);
        saved(&mut simulation)
    });
    assert_eq!(states[0], states[1]);
    let mut from = StateReader::open(&states[0]).expect("it was just written");
    let error = jugglers(11, 1_000).restore(&mut from);
    assert!(error.is_err_and(|error| error.to_string().contains("12 components")));
}

#[test]
fn ranks_run_as_one_process_does_and_the_first_gathers_all() {
    let monitor = Monitor::default();
    let mut whole = jugglers(12, 1_000);
    let halfway = whole.run(1, SimTime(150_000), &monitor);
    let expected = whole.run(1, SimTime(400_000), &monitor);
    for size in [1, 2, 4] {
        std::thread::scope(|scope| {
            for mut rank in LocalRank::several(size) {
                let (whole, monitor) = (&whole, &monitor);
                scope.spawn(move || {
                    let mut simulation = jugglers(12, 1_000);
                    let division = simulation.partition_for_ranks(size, &[]);
                    assert_eq!(division.parts, size);
                    let mut run = |until| {
                        simulation.run_ranked(&division, &mut rank, SimTime(until), monitor)
                    };
                    let found = run(150_000);
                    assert_eq!((found.events, found.end), (halfway.events, halfway.end));
                    let found = run(400_000);
                    assert_eq!((found.events, found.end), (expected.events, expected.end));
                    assert_eq!(found.stop, Stop::TimeLimit);
                    let digest = simulation.gather(&division, &mut rank).expect("it gathers");
                    if rank.rank() > 0 {
                        return;
                    }
                    assert_eq!(digest, expected.digest);
                    assert_eq!(seen(&simulation), seen(whole));
                    // The gathered simulation continues in one process.
                    let mut whole = jugglers(12, 1_000);
                    let expected = whole.run(1, SimTime(600_000), monitor);
                    let found = simulation.run(2, SimTime(600_000), monitor);
                    assert_eq!(found.digest, expected.digest);
                });
            }
        });
    }
}

fn jugglers(count: usize, latency: u64) -> Simulation<Juggler> {
    let components = (0..count)
        .map(|i| Juggler {
            rng: StreamRng::new(9, &format!("juggler{i}")),
            ports: 2,
            latency,
            seen: Vec::new(),
            kept: VecDeque::new(),
            inside: Vec::new(),
        })
        .collect();
    let wire = |to: usize, port: u16| Wire::new(ComponentId(to as u32), port, Picos(latency));
    let wires =
        (0..count).map(|i| vec![wire((i + 1) % count, 1), wire((i + count - 1) % count, 0)]);
    Simulation::new(components, wires.collect())
}

/// What must be equal of two runs.
fn result(outcome: &Outcome) -> (u64, u64, SimTime) {
    (outcome.digest, outcome.events, outcome.end)
}

type Seen = Vec<Vec<(u64, u64)>>;

fn seen(simulation: &Simulation<Juggler>) -> Seen {
    let all = simulation.components().map(|one| one.seen.clone());
    all.collect()
}

fn saved(simulation: &mut Simulation<Juggler>) -> Vec<u8> {
    let mut out = StateWriter::default();
    simulation.save(&mut out);
    out.finish().expect("nothing refused")
}

/// A system with a state that was saved of one like it.
fn restored(count: usize, latency: u64, state: &[u8]) -> Simulation<Juggler> {
    let mut simulation = jugglers(count, latency);
    let mut from = StateReader::open(state).expect("it was just written");
    simulation.restore(&mut from).expect("the same system");
    from.finish().expect("all of it was read");
    simulation
}

fn run(threads: usize, latency: u64, pauses: &[u64]) -> (Outcome, Seen) {
    let mut simulation = jugglers(17, latency);
    let monitor = Monitor::default();
    let mut outcome = None;
    for until in pauses {
        outcome = Some(simulation.run(threads, SimTime(*until), &monitor));
    }
    (outcome.unwrap(), seen(&simulation))
}

#[test]
fn every_number_of_threads_gives_the_same_events() {
    // Less simulated time for windows of 1 ps, since each takes a barrier, with more threads than
    // many machines have processors.
    for (latency, end) in [(1, 8_000), (40, 60_000), (700, 60_000)] {
        let (expected, seen) = run(1, latency, &[end]);
        assert!(expected.events > 1000);
        assert_eq!(expected.stop, Stop::TimeLimit);
        for threads in [2, 3, 5, 8] {
            let (outcome, same) = run(threads, latency, &[end]);
            assert_eq!(
                (outcome.digest, outcome.events),
                (expected.digest, expected.events)
            );
            assert_eq!(same, seen);
            assert_eq!(outcome.partitions, threads);
        }
    }
}

#[test]
fn a_run_in_pieces_is_the_run_in_one() {
    let (expected, seen) = run(1, 40, &[60_000]);
    let (outcome, same) = run(1, 40, &[1, 777, 30_000, 30_000, 60_000]);
    assert_eq!((outcome.digest, same), (expected.digest, seen));
    let (outcome, _) = run(3, 40, &[5_000, 60_000]);
    assert_eq!(outcome.digest, expected.digest);
}

/// A system that is executed block by block after the first check of its division, or never with `in_blocks` false.
fn crowd(threads: usize, in_blocks: bool, pauses: &[u64]) -> (Simulation<Juggler>, Outcome) {
    let mut simulation = jugglers(1500, 700);
    let monitor = Monitor::default();
    let mut outcome = simulation.run(threads, SimTime(1), &monitor);
    for until in pauses {
        if !in_blocks {
            simulation.next_balance_check = u64::MAX;
        }
        outcome = simulation.run(threads, SimTime(*until), &monitor);
    }
    for part in &simulation.parts {
        assert_eq!(part.pending.queue.blocks() > 1, in_blocks);
    }
    (simulation, outcome)
}

#[test]
fn blocks_change_nothing_but_the_order_in_memory() {
    const END: u64 = 100_000;
    let (mut whole, expected) = crowd(1, false, &[END]);
    for threads in [1, 2] {
        for pauses in [&[END][..], &[40_000, 40_001, 59_999, END]] {
            // On several threads the division is checked between two pieces of a run.
            let pauses: Vec<u64> = [30_000].iter().chain(pauses).copied().collect();
            let (mut found, outcome) = crowd(threads, true, &pauses);
            assert_eq!(result(&outcome), result(&expected));
            assert_eq!(seen(&found), seen(&whole));
            assert!(saved(&mut found) == saved(&mut whole), "the same state");
        }
    }
    // A state that was saved with blocks continues as one without.
    let (mut from_blocks, _) = crowd(1, true, &[90_000]);
    let mut restored = restored(1500, 700, &saved(&mut from_blocks));
    let monitor = Monitor::default();
    for simulation in [&mut from_blocks, &mut restored] {
        let outcome = simulation.run(1, SimTime(END), &monitor);
        assert_eq!(outcome.digest, expected.digest);
    }
}

#[test]
fn neighbours_share_a_block_and_short_wires_are_not_cut() {
    // 64 switches in a ring of long wires, each with three endpoints on short ones.
    let wire = |to: usize, port: usize, latency: u64| {
        Wire::new(ComponentId(to as u32), port as u16, Picos(latency))
    };
    let switch = |number: usize| 192 + number % 64;
    let mut wires: Vec<Vec<Wire>> = (0..192)
        .map(|at| vec![wire(switch(at), at / 64, 10)])
        .collect();
    wires.extend((0..64).map(|at| {
        let own = (0..3).map(|port| wire(at + 64 * port, 0, 10));
        let ring = [wire(switch(at + 1), 4, 500), wire(switch(at + 63), 3, 500)];
        own.chain(ring).collect()
    }));
    let found = BlockArrangement::in_blocks(&wires, (0..256).collect());
    assert_eq!(found.span, 500);
    let mut block_of = vec![0; 256];
    for (block, members) in found.blocks.iter().enumerate() {
        let size: usize = members.iter().map(|number| 1 + wires[*number].len()).sum();
        let last = block + 1 == found.blocks.len();
        assert!(size <= 128 && (size > 100 || last), "{size}");
        members.iter().for_each(|number| block_of[*number] = block);
    }
    assert!((0..192).all(|at| block_of[at] == block_of[switch(at)]));
    let mut all: Vec<usize> = found.blocks.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..256), "each once");
    // Number of events in a window of 500 ps.
    let enough = 8 * found.blocks.len() as u64;
    assert!(found.is_faster(enough + 1, 500) && !found.is_faster(enough - 1, 500));
    assert!(!found.is_faster(0, 0));
    // A small partition stays one block.
    let few = BlockArrangement::in_blocks(&wires, (192..256).step_by(2).collect());
    assert_eq!((few.blocks.len(), few.span), (1, u64::MAX));
    assert!(!few.is_faster(1 << 40, 1));
}

#[test]
fn the_next_event_is_the_first_that_a_run_handles() {
    let monitor = Monitor::default();
    let mut simulation = jugglers(5, 1_000);
    assert_eq!(simulation.next_event(), None, "nothing has begun");
    let mut before = simulation.run(1, SimTime(0), &monitor).events;
    for threads in [1, 2, 3, 1, 2] {
        let next = simulation.next_event().expect("balls are in the air");
        assert_eq!(simulation.run(threads, next, &monitor).events, before);
        let behind = SimTime(next.0 + 1);
        let after = simulation.run(threads, behind, &monitor).events;
        assert!(after > before, "{after} events after {next:?}");
        before = after;
    }
}

#[test]
fn an_interrupted_run_says_so_and_can_go_on() {
    for threads in [1, 2] {
        let mut simulation = jugglers(8, 40);
        let monitor = Monitor::default();
        monitor.interrupt();
        let outcome = simulation.run(threads, SimTime::NEVER, &monitor);
        assert_eq!(outcome.stop, Stop::Interrupted);
        let outcome = simulation.run(threads, SimTime(10_000_000), &Monitor::default());
        assert_eq!(outcome.stop, Stop::TimeLimit);
    }
}

/// Notes the times at which it starts, and wakes `after` picoseconds later.
struct Alarm {
    after: u64,
    noted: Vec<u64>,
}

impl Component for Alarm {
    type Payload = Ball;
    fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
        self.noted.push(ctx.now().0);
        ctx.wake_at(SimTime(ctx.now().0 + self.after), 0);
    }
    fn receive(&mut self, _: &mut Ctx<'_, Ball>, _: u16, _: &Ball) {}
    fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, _: u32) {
        self.noted.push(ctx.now().0);
    }
}

#[test]
fn all_start_again_at_the_time_that_was_reached() {
    for threads in [1, 2] {
        let alarms = [5, 70].map(|after| Alarm {
            after,
            noted: Vec::new(),
        });
        let wire = |peer: usize| Wire::new(ComponentId::from(peer), 0, Picos(1));
        let wires = vec![vec![wire(1)], vec![wire(0)]];
        let mut simulation = Simulation::new(alarms.into(), wires);
        let monitor = Monitor::default();
        let first = simulation.run(threads, SimTime::NEVER, &monitor);
        assert_eq!((first.stop, first.end), (Stop::Exhausted, SimTime(70)));
        simulation.restart();
        let second = simulation.run(threads, SimTime::NEVER, &monitor);
        assert_eq!((second.end, second.partitions), (SimTime(140), threads));
        let noted = simulation.components().map(|alarm| alarm.noted.clone());
        let noted: Vec<Vec<u64>> = noted.collect();
        assert_eq!(noted, [[0, 5, 70, 75], [0, 70, 70, 140]]);
    }
}

#[test]
#[should_panic(expected = "faster than the wire")]
fn nothing_outruns_its_wire() {
    let mut simulation = jugglers(2, 100);
    simulation.for_each_mut(|juggler| juggler.latency = 50);
    simulation.run(1, SimTime::NEVER, &Monitor::default());
}
