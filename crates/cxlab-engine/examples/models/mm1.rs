//! An M/M/1 queue: Poisson arrivals, exponential service times, one server, first come first served.
//!
//! Two components: a source of jobs and a server with its queue. The server measures the number of jobs
//! in the system and the time that each job spends there. [`simulate`] reads both in batches, so that the
//! means have statistical errors.

use std::collections::VecDeque;

use cxlab_engine::probe::LevelIntegral;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Payload, Simulation, Wire};

/// Mean service time: 1 us.
const SERVICE: Picos = Picos::from_nanos(1_000);
/// Latency of the wire from the source to the server. It delays all jobs equally and changes no mean.
const WIRE: Picos = Picos::from_nanos(1);
/// Simulated time of a batch: 25,000 mean service times. At a load of 0.9, the number in system is
/// correlated over some 400 of them, 1 / (1 - sqrt(0.9))^2, so batches are nearly independent.
const BATCH: Picos = Picos::from_nanos(25_000_000);
/// Batches that are measured, after one as warm-up.
const BATCHES: usize = 30;
/// Student's t for a two-sided interval of 99 % with 29 degrees of freedom.
const STUDENT: f64 = 2.756;

/// A job on its way. It carries nothing: the server notes when it arrives.
#[derive(Clone, Copy, Default)]
pub struct Job;

impl Payload for Job {
    fn fingerprint(&self) -> u64 {
        0
    }
}

/// The components of the model.
pub enum Node {
    /// The source of the jobs.
    Source(Source),
    /// The queue and its server.
    Server(Server),
}

/// Sends jobs at exponentially distributed distances.
pub struct Source {
    rng: StreamRng,
    /// Mean time between two jobs.
    distance: Picos,
}

/// Serves jobs one after the other.
pub struct Server {
    rng: StreamRng,
    /// When each job in the system arrived; the first one is in service.
    jobs: VecDeque<SimTime>,
    in_system: LevelIntegral,
    /// Jobs that have left, and the sum of their times in the system in picoseconds.
    served: u64,
    time_in_system: u128,
}

/// A draw from the exponential distribution. `libm` gives the same number on every machine.
fn exponential(rng: &mut StreamRng, mean: Picos) -> Picos {
    Picos((-libm::log(rng.unit()) * mean.0 as f64) as u64)
}

impl Source {
    fn plan_next(&mut self, ctx: &mut Ctx<'_, Job>) {
        let next = ctx.now() + exponential(&mut self.rng, self.distance);
        ctx.wake_at(next, 0);
    }
}

impl Server {
    fn serve(&mut self, ctx: &mut Ctx<'_, Job>) {
        let done = ctx.now() + exponential(&mut self.rng, SERVICE);
        ctx.wake_at(done, 0);
    }

    /// A job arrives. It is served at once if the server is idle.
    fn enter(&mut self, ctx: &mut Ctx<'_, Job>) {
        self.jobs.push_back(ctx.now());
        self.in_system.set(ctx.now().0, self.jobs.len() as u64);
        if self.jobs.len() == 1 {
            self.serve(ctx);
        }
    }

    /// The job in service is done and leaves.
    fn leave(&mut self, ctx: &mut Ctx<'_, Job>) {
        let arrived = self.jobs.pop_front().expect("a job is in service");
        self.in_system.set(ctx.now().0, self.jobs.len() as u64);
        self.served += 1;
        self.time_in_system += u128::from((ctx.now() - arrived).0);
        if !self.jobs.is_empty() {
            self.serve(ctx);
        }
    }
}

impl Component for Node {
    type Payload = Job;

    fn start(&mut self, ctx: &mut Ctx<'_, Job>) {
        if let Node::Source(source) = self {
            source.plan_next(ctx);
        }
    }

    fn receive(&mut self, ctx: &mut Ctx<'_, Job>, _port: u16, _: &Job) {
        if let Node::Server(server) = self {
            server.enter(ctx);
        }
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Job>, _token: u32) {
        match self {
            Node::Source(source) => {
                ctx.send(0, ctx.now() + WIRE, Job);
                source.plan_next(ctx);
            }
            Node::Server(server) => server.leave(ctx),
        }
    }
}

/// A mean with the half width of its confidence interval of 99 %.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub mean: f64,
    pub error: f64,
}

impl Estimate {
    /// The mean of independent values, such as those of batches.
    fn of(values: &[f64]) -> Estimate {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        Estimate {
            mean,
            error: STUDENT * deviation / count.sqrt(),
        }
    }

    /// Whether a value is in the confidence interval.
    pub fn agrees_with(&self, value: f64) -> bool {
        (self.mean - value).abs() <= self.error
    }
}

/// What a simulation of the queue has measured, beside the formulas.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Arrival rate times mean service time, between 0 and 1.
    pub load: f64,
    /// Mean number of jobs in the system.
    pub number_in_system: Estimate,
    /// Mean time of a job in the system, in microseconds.
    pub time_in_system: Estimate,
}

impl Comparison {
    /// Mean number in system by the formula: load / (1 - load).
    pub fn expected_number(&self) -> f64 {
        self.load / (1.0 - self.load)
    }

    /// Mean time in system by the formula, in microseconds: service time / (1 - load).
    pub fn expected_time(&self) -> f64 {
        SERVICE.as_nanos_f64() / 1e3 / (1.0 - self.load)
    }

    /// Whether both means agree with the formulas within their statistical error.
    pub fn agrees(&self) -> bool {
        self.number_in_system.agrees_with(self.expected_number())
            && self.time_in_system.agrees_with(self.expected_time())
    }
}

/// The counters of the server: integral of the number in system, jobs served, sum of their times.
fn read(simulation: &Simulation<Node>, now: SimTime) -> (u128, u64, u128) {
    match simulation.component(1) {
        Node::Server(server) => {
            let integral = server.in_system.at(now.0);
            (integral, server.served, server.time_in_system)
        }
        Node::Source(_) => unreachable!("component 1 is the server"),
    }
}

/// Simulates the queue at a load from 0 to 1, with the random streams of a seed.
pub fn simulate(load: f64, seed: u64) -> Comparison {
    let source = Source {
        rng: StreamRng::new(seed, "source"),
        distance: Picos((SERVICE.0 as f64 / load) as u64),
    };
    let server = Server {
        rng: StreamRng::new(seed, "server"),
        jobs: VecDeque::new(),
        in_system: LevelIntegral::default(),
        served: 0,
        time_in_system: 0,
    };
    let wire = |peer| Wire::new(ComponentId(peer), 0, WIRE);
    let nodes = vec![Node::Source(source), Node::Server(server)];
    let mut simulation = Simulation::new(nodes, vec![vec![wire(1)], vec![wire(0)]]);
    let monitor = Monitor::default();
    let mut now = SimTime::ZERO + BATCH;
    simulation.run(1, now, &monitor);
    let mut before = read(&simulation, now);
    let (mut numbers, mut times) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        now += BATCH;
        simulation.run(1, now, &monitor);
        let after = read(&simulation, now);
        numbers.push((after.0 - before.0) as f64 / BATCH.0 as f64);
        times.push((after.2 - before.2) as f64 / 1e6 / (after.1 - before.1) as f64);
        before = after;
    }
    Comparison {
        load,
        number_in_system: Estimate::of(&numbers),
        time_in_system: Estimate::of(&times),
    }
}
