//! A deterministic discrete-event engine. It knows components, wires and time, and nothing of CXL.
//!
//! A model is a set of [components](Component) that send each other [payloads](Payload) through
//! [wires](Wire). A [`Simulation`] owns the components and handles their events in the order of time, on
//! one thread or on several. The result does not depend on the number of threads, not in a single bit.
//!
//! This page is a tutorial, followed by [the contracts](#the-contracts) and
//! [a list of the modules](#modules-and-features).
//!
//! # A first component
//! A component is a type with three methods. The engine calls [`start`](Component::start) at time zero,
//! [`wake`](Component::wake) when a wake-up is due, and [`receive`](Component::receive) when a payload arrives. Time is
//! counted in picoseconds: [`SimTime`](units::SimTime) is a point in time, [`Picos`](units::Picos) a span.
//!
//! This clock ticks every 10 ns. [`Simulation::run`] stops at the time limit of 1 us: an event at the limit
//! or later stays pending.
//!
//! ```
//! use cxlab_engine::units::{Picos, SimTime};
//! use cxlab_engine::{Component, Ctx, Monitor, Payload, Simulation, Stop};
//!
//! /// What components send each other. A single clock sends nothing.
//! #[derive(Clone, Copy, Default)]
//! struct Nothing;
//!
//! impl Payload for Nothing {
//!     fn fingerprint(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! struct Clock {
//!     period: Picos,
//!     ticks: u64,
//! }
//!
//! impl Component for Clock {
//!     type Payload = Nothing;
//!
//!     fn start(&mut self, ctx: &mut Ctx<'_, Nothing>) {
//!         ctx.wake_at(ctx.now() + self.period, 0);
//!     }
//!
//!     fn receive(&mut self, _: &mut Ctx<'_, Nothing>, _port: u16, _: &Nothing) {}
//!
//!     fn wake(&mut self, ctx: &mut Ctx<'_, Nothing>, _token: u32) {
//!         self.ticks += 1;
//!         ctx.wake_at(ctx.now() + self.period, 0);
//!     }
//! }
//!
//! let clock = Clock { period: Picos::from_nanos(10), ticks: 0 };
//! // One component, with an empty list of wires.
//! let mut simulation = Simulation::new(vec![clock], vec![vec![]]);
//! let outcome = simulation.run(1, SimTime(1_000_000), &Monitor::default());
//!
//! assert_eq!(outcome.stop, Stop::TimeLimit);
//! assert_eq!(simulation.component(0).ticks, 99, "the tick at 1 us is pending");
//! ```
//!
//! # Two components and a wire
//! Components have ports, numbered from 0. A wire connects two ports and has two directions. Each component lists its
//! own direction: the peer, the port there, and the shortest time that a payload takes, of at least 1 ps.
//!
//! All components of a simulation have one type, so two kinds of components are two variants of an enum. Here a client
//! sends ten requests, one after the other, to a server over a wire of 5 ns. The server responds 20 ns after a request
//! arrives: the sender chooses the time of arrival. The client measures the time to each response.
//!
//! ```
//! use cxlab_engine::probe::LatencyProbe;
//! use cxlab_engine::units::{Picos, SimTime};
//! use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Stop, Wire};
//!
//! #[derive(Clone, Copy, Default)]
//! struct Message {
//!     sent: SimTime,
//! }
//!
//! impl Payload for Message {
//!     fn fingerprint(&self) -> u64 {
//!         self.sent.0
//!     }
//! }
//!
//! const LATENCY: Picos = Picos::from_nanos(5);
//! const SERVICE: Picos = Picos::from_nanos(20);
//!
//! enum Node {
//!     Client { round_trips: LatencyProbe },
//!     Server,
//! }
//!
//! impl Component for Node {
//!     type Payload = Message;
//!
//!     fn start(&mut self, ctx: &mut Ctx<'_, Message>) {
//!         if let Node::Client { .. } = self {
//!             ctx.send(0, ctx.now() + LATENCY, Message { sent: ctx.now() });
//!         }
//!     }
//!
//!     fn receive(&mut self, ctx: &mut Ctx<'_, Message>, port: u16, message: &Message) {
//!         match self {
//!             Node::Server => ctx.send(port, ctx.now() + SERVICE + LATENCY, *message),
//!             Node::Client { round_trips } => {
//!                 round_trips.record(ctx.now() - message.sent);
//!                 if round_trips.count() < 10 {
//!                     ctx.send(port, ctx.now() + LATENCY, Message { sent: ctx.now() });
//!                 }
//!             }
//!         }
//!     }
//!
//!     fn wake(&mut self, _: &mut Ctx<'_, Message>, _token: u32) {}
//! }
//!
//! let wire_to = |peer| Wire { peer: ComponentId(peer), peer_port: 0, min_latency: LATENCY };
//! let client = Node::Client { round_trips: LatencyProbe::default() };
//! let wires = vec![vec![wire_to(1)], vec![wire_to(0)]];
//! let mut simulation = Simulation::new(vec![client, Node::Server], wires);
//! let outcome = simulation.run(1, SimTime::NEVER, &Monitor::default());
//!
//! // No event is left after ten round trips of 5 + 20 + 5 ns, of two events each.
//! assert_eq!((outcome.stop, outcome.end), (Stop::Exhausted, SimTime(300_000)));
//! assert_eq!(outcome.events, 20);
//! let Node::Client { round_trips } = simulation.component(0) else { unreachable!() };
//! assert_eq!((round_trips.count(), round_trips.mean_ns()), (10, 30.0));
//! ```
//!
//! # Statistics
//! A component measures with [probes](probe) that it owns, as the client does above. After the run, or between two
//! runs, [`Simulation::component`] gives access to them. Probes count in integers, so results can be compared exactly:
//! [`LatencyProbe`](probe::LatencyProbe) measures spans of time, [`WaitProbe`](probe::WaitProbe) waits at one place,
//! and [`LevelIntegral`](probe::LevelIntegral) a level such as the length of a queue.
//!
//! ```
//! use cxlab_engine::probe::LevelIntegral;
//!
//! let mut length = LevelIntegral::default();
//! length.set(10_000, 2); // Two jobs from 10 ns on,
//! length.set(40_000, 1); // and one from 40 ns on.
//! assert_eq!(length.at(50_000) as f64 / 50_000.0, 1.4, "the mean over 50 ns");
//! ```
//!
//! # Random numbers
//! Each component draws from streams of its own: [`StreamRng::new`](rng::StreamRng::new) takes the seed of the run and
//! a name. A stream depends on these two alone, so a new component does not change the numbers of the others.
//! [`StreamRng::substream`](rng::StreamRng::substream) makes streams for the parts of a component.
//!
//! ```
//! use cxlab_engine::rng::StreamRng;
//!
//! let draws = |seed, name: &str| {
//!     let mut rng = StreamRng::new(seed, name);
//!     [rng.below(100), rng.below(100), rng.below(100)]
//! };
//! assert_eq!(draws(1, "client0"), draws(1, "client0"), "the same on every machine, in every run");
//! assert_ne!(draws(1, "client0"), draws(1, "client1"));
//! assert_ne!(draws(1, "client0"), draws(2, "client0"));
//! ```
//!
//! # Several threads
//! The first argument of [`Simulation::run`] is the number of threads, or a limit
//! ([`Threads::UpTo`]) below which the engine finds the fastest number. The engine divides the components
//! among the threads. Models need no code for this: a component is [`Send`] and shares nothing.
//!
//! The [digest](Outcome::digest) of a run is a hash of all events in the order of each component. Equal
//! digests say that two runs did the same.
//!
//! The model is a ring of stations. Each station forwards every ball that it receives to a random neighbour
//! after a random time.
//!
//! ```
//! use cxlab_engine::rng::StreamRng;
//! use cxlab_engine::units::{Picos, SimTime};
//! use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Wire};
//!
//! #[derive(Clone, Copy, Default)]
//! struct Ball(u64);
//! # impl Payload for Ball { fn fingerprint(&self) -> u64 { self.0 } }
//!
//! const LATENCY: Picos = Picos::from_nanos(100);
//!
//! struct Station {
//!     rng: StreamRng,
//!     balls: u64,
//! }
//!
//! impl Component for Station {
//!     type Payload = Ball;
//!
//!     fn start(&mut self, ctx: &mut Ctx<'_, Ball>) {
//!         ctx.send(0, ctx.now() + LATENCY, Ball(0));
//!     }
//!
//!     fn receive(&mut self, ctx: &mut Ctx<'_, Ball>, _port: u16, ball: &Ball) {
//!         self.balls += 1;
//!         let at = ctx.now() + LATENCY + Picos(self.rng.below(50_000));
//!         ctx.send(self.rng.below(2) as u16, at, Ball(ball.0 + 1));
//!     }
//! #   fn wake(&mut self, _: &mut Ctx<'_, Ball>, _: u32) {}
//! }
//!
//! let run = |threads: usize| {
//!     let station = |number| Station {
//!         rng: StreamRng::new(1, &format!("station{number}")),
//!         balls: 0,
//!     };
//!     let wire = |peer: usize, peer_port| Wire::new(ComponentId::from(peer % 12), peer_port, LATENCY);
//!     // Port 0 leads to port 1 of the next station, and port 1 to port 0 of the previous one.
//!     let wires = (0..12).map(|number| vec![wire(number + 1, 1), wire(number + 11, 0)]);
//!     let mut simulation = Simulation::new((0..12).map(station).collect(), wires.collect());
//!     let outcome = simulation.run(threads, SimTime(20_000_000), &Monitor::default());
//!     let balls: Vec<u64> = simulation.components().map(|station| station.balls).collect();
//!     (outcome.digest, outcome.events, balls)
//! };
//! let expected = run(1);
//! assert_eq!(run(2), expected);
//! assert_eq!(run(4), expected);
//! ```
//!
//! Threads are worth their barriers where a [window](Simulation#windows-of-the-threaded-executor) has many
//! events. [`Monitor::windows`] says what speed-up a model allows.
//!
//! # Saving and restoring
//! [`Simulation::save`] writes the state between two runs: components, pending events and time. A state
//! does not contain what the program builds from parameters. So [`Simulation::restore`] fills a
//! simulation that was freshly built by the same code. Components implement
//! [`SaveState`](state::SaveState), most simply by [`save_state!`], and payloads the traits of `serde`.
//!
//! ```
//! use cxlab_engine::save_state;
//! use cxlab_engine::state::{StateError, StateReader, StateWriter};
//! # use cxlab_engine::rng::StreamRng;
//! # use cxlab_engine::units::{Picos, SimTime};
//! # use cxlab_engine::{Component, Ctx, Monitor, Payload, Simulation};
//!
//! #[derive(Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
//! struct Ball(u64);
//! # impl Payload for Ball { fn fingerprint(&self) -> u64 { self.0 } }
//!
//! /// Wakes at random times.
//! struct Station {
//!     mean: u64,
//!     wake_ups: u64,
//!     rng: StreamRng,
//! }
//!
//! // Each field has a class: a value that is written, a part with a state of its own, or built.
//! save_state!(Station {
//!     values: wake_ups;
//!     states: rng;
//!     built: mean;
//! });
//! # impl Component for Station {
//! #     type Payload = Ball;
//! #     fn start(&mut self, ctx: &mut Ctx<'_, Ball>) { self.wake(ctx, 0); }
//! #     fn receive(&mut self, _: &mut Ctx<'_, Ball>, _: u16, _: &Ball) {}
//! #     fn wake(&mut self, ctx: &mut Ctx<'_, Ball>, _: u32) {
//! #         self.wake_ups += 1;
//! #         ctx.wake_at(ctx.now() + Picos(self.rng.below(2 * self.mean)), 0);
//! #     }
//! # }
//!
//! let build = || {
//!     let station = Station { mean: 10_000, wake_ups: 0, rng: StreamRng::new(1, "station") };
//!     Simulation::new(vec![station], vec![vec![]])
//! };
//! let (middle, end) = (SimTime(1_000_000), SimTime(2_000_000));
//! let monitor = Monitor::default();
//! let whole = build().run(1, end, &monitor);
//!
//! let mut first = build();
//! first.run(1, middle, &monitor);
//! let mut out = StateWriter::default();
//! first.save(&mut out);
//! let bytes = out.finish().expect("all components can be saved");
//!
//! let mut second = build();
//! let mut from = StateReader::open(&bytes)?;
//! second.restore(&mut from)?;
//! from.finish()?;
//! assert_eq!(second.run(1, end, &monitor).digest, whole.digest);
//! # Ok::<(), StateError>(())
//! ```
//!
//! # Progress and interruption
//! Another thread sees a run through its [`Monitor`]: events, simulated time, and the units of work that
//! components report by [`Ctx::count_work`]. [`Monitor::interrupt`] ends the run soon, between two events.
//! The simulation stays valid: statistics can be read, and the next run continues.
//!
//! ```
//! # use cxlab_engine::units::SimTime;
//! # use cxlab_engine::{Component, Ctx, Payload};
//! use cxlab_engine::{Monitor, Simulation, Stop};
//! # #[derive(Clone, Copy, Default)]
//! # struct Nothing;
//! # impl Payload for Nothing { fn fingerprint(&self) -> u64 { 0 } }
//!
//! /// Never stops by itself.
//! struct Endless;
//! # impl Component for Endless {
//! #     type Payload = Nothing;
//! #     fn start(&mut self, ctx: &mut Ctx<'_, Nothing>) { self.wake(ctx, 0); }
//! #     fn receive(&mut self, _: &mut Ctx<'_, Nothing>, _: u16, _: &Nothing) {}
//! #     fn wake(&mut self, ctx: &mut Ctx<'_, Nothing>, _: u32) {
//! #         ctx.count_work(1);
//! #         ctx.wake_at(SimTime(ctx.now().0 + 1), 0);
//! #     }
//! # }
//!
//! let mut simulation = Simulation::new(vec![Endless], vec![vec![]]);
//! let monitor = Monitor::default();
//! let outcome = std::thread::scope(|scope| {
//!     scope.spawn(|| {
//!         while monitor.work() < 10_000 {
//!             std::thread::yield_now();
//!         }
//!         monitor.interrupt();
//!     });
//!     simulation.run(1, SimTime::NEVER, &monitor)
//! });
//! assert_eq!(outcome.stop, Stop::Interrupted);
//! assert!(outcome.events >= 10_000);
//! ```
//!
//! # The contracts
//! Each of these is documented and tested where it belongs:
//! - A component handles its events in the order of time, then of source, then of the sequence number of
//!   the source: [`Component`](Component#order-of-events).
//! - A wire takes at least 1 ps in each direction: [`Wire`](Wire#latency).
//! - A payload never arrives before the latency of its wire has passed: [`Ctx`](Ctx#time).
//! - In a window of one lookahead, no partition can affect another:
//!   [`Simulation`](Simulation#windows-of-the-threaded-executor).
//! - Runs on any number of threads are equal bit by bit, also in pieces: [`Simulation::run`].
//!
//! # Modules and features
//! - [`units`]: points and spans of time, sizes, rates and addresses as types.
//! - [`rng`]: random streams by seed and name.
//! - [`probe`]: latency distributions, waits and levels.
//! - [`state`]: saving and restoring.
//! - [`queue`]: the event queue by itself.
//! - [`slab`] and [`list`]: numbered entries whose numbers are reused, and linked lists of entries.
//! - [`partition()`]: how components are divided among threads; [`Ranks`] runs the parts in processes.
//! - `catalog`, with the feature `schema`: lists of named entries that a configuration chooses from, and
//!   JSON Schemas of quantities. The feature is off by default.
//!
//! The folder `examples` has whole models beside their formulas: `mm1.rs`, a queue, and `token_ring.rs`, a
//! ring of stations on several threads.

#[cfg(feature = "schema")]
pub mod catalog;
mod component;
pub mod list;
mod partition;
mod prefetch;
pub mod probe;
pub mod queue;
pub mod rng;
mod simulation;
pub mod slab;
pub mod state;
pub mod units;

pub use component::{
    Component, ComponentId, Ctx, ExecutionHints, KeptPayload, KeptPayloads, Payload, ReservedWake,
    Wire,
};
pub use partition::{Partitioning, partition};
pub use prefetch::{CACHE_LINE, prefetch, prefetch_first};
pub use simulation::{
    GatherError, LocalRank, Monitor, Outcome, Ranks, Simulation, Stop, Threads, Windows,
    processors, share,
};
