//! A token ring: stations in a circle pass one token on. The station that has the token sends one frame and
//! then gives the token to its neighbour, so frames never collide.
//!
//! All stations always have a frame to send. The time between two frames is the time to send one, which
//! depends on its random length, and the time of the token to the next station. So frames are a renewal
//! process, whose count has a mean and a variance in closed form.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, BytesPerSec, Picos, SimTime};
use cxlab_engine::{Component, ComponentId, Ctx, Monitor, Outcome, Payload, Simulation, Wire};

/// Stations in the ring.
pub const STATIONS: usize = 16;
/// Time of the token from a station to the next: 200 m of fibre at 5 ns/m.
const HOP: Picos = Picos::from_nanos(1_000);
/// Data rate of the ring: 10 Gb/s.
const RATE: BytesPerSec = BytesPerSec(1_250_000_000);
/// Shortest and longest frame of Ethernet, IEEE 802.3; lengths are uniform between them.
const FRAME: (u64, u64) = (64, 1_518);
/// Ports of a station to the next and to the previous one.
const NEXT: u16 = 0;
const PREVIOUS: u16 = 1;

/// The token. It counts the stations that it has visited.
#[derive(Clone, Copy, Default)]
pub struct Token {
    visits: u64,
}

impl Payload for Token {
    fn fingerprint(&self) -> u64 {
        self.visits
    }
}

/// A station of the ring.
pub struct Station {
    rng: StreamRng,
    /// The token, while the station sends its frame.
    token: Option<Token>,
    has_token_first: bool,
    frames: u64,
}

impl Station {
    /// Sends a frame of random length; the station wakes when it is sent.
    fn send_frame(&mut self, ctx: &mut Ctx<'_, Token>, token: Token) {
        self.token = Some(token);
        let length = FRAME.0 + self.rng.below(FRAME.1 - FRAME.0 + 1);
        ctx.wake_at(ctx.now() + RATE.time_for(Bytes(length)), 0);
    }
}

impl Component for Station {
    type Payload = Token;

    fn start(&mut self, ctx: &mut Ctx<'_, Token>) {
        if self.has_token_first {
            self.send_frame(ctx, Token::default());
        }
    }

    fn receive(&mut self, ctx: &mut Ctx<'_, Token>, port: u16, token: &Token) {
        assert_eq!(port, PREVIOUS, "the token goes one way round");
        self.send_frame(ctx, *token);
    }

    fn wake(&mut self, ctx: &mut Ctx<'_, Token>, _: u32) {
        let token = self.token.take().expect("only the token's owner sends");
        self.frames += 1;
        ctx.count_work(1);
        let visits = token.visits + 1;
        ctx.send(NEXT, ctx.now() + HOP, Token { visits });
    }
}

/// What a run of the ring has come to.
#[derive(Clone, Debug)]
pub struct Found {
    pub outcome: Outcome,
    /// Frames that each station has sent.
    pub frames: Vec<u64>,
}

impl Found {
    /// Frames that all stations have sent.
    pub fn total(&self) -> u64 {
        self.frames.iter().sum()
    }

    /// Whether the number of frames is within three standard deviations of the formula.
    pub fn agrees(&self, until: SimTime) -> bool {
        let (mean, deviation) = expected(until);
        (self.total() as f64 - mean).abs() <= 3.0 * deviation
    }
}

/// Frames until a time by renewal theory: mean `t / m` and standard deviation `sqrt(t * v / m^3)`,
/// where `m` and `v` are the mean and the variance of the time between two frames (Feller, *An Introduction
/// to Probability Theory and Its Applications*, volume 2, chapter XI).
pub fn expected(until: SimTime) -> (f64, f64) {
    let time = until.0 as f64;
    let picos_per_byte = 1e12 / RATE.0 as f64;
    let lengths = (FRAME.1 - FRAME.0 + 1) as f64;
    let mean = HOP.0 as f64 + (FRAME.0 + FRAME.1) as f64 / 2.0 * picos_per_byte;
    let variance = (lengths * lengths - 1.0) / 12.0 * picos_per_byte * picos_per_byte;
    (time / mean, (time * variance / mean.powi(3)).sqrt())
}

/// Runs the ring on so many threads, with the random streams of a seed.
pub fn simulate(threads: usize, until: SimTime, seed: u64) -> Found {
    let stations = (0..STATIONS).map(|number| Station {
        rng: StreamRng::new(seed, &format!("station{number}")),
        token: None,
        has_token_first: number == 0,
        frames: 0,
    });
    let wire =
        |peer: usize, peer_port| Wire::new(ComponentId::from(peer % STATIONS), peer_port, HOP);
    let wires = (0..STATIONS).map(|number| {
        vec![
            wire(number + 1, PREVIOUS),
            wire(number + STATIONS - 1, NEXT),
        ]
    });
    let mut simulation = Simulation::new(stations.collect(), wires.collect());
    let outcome = simulation.run(threads, until, &Monitor::default());
    Found {
        outcome,
        frames: simulation.components().map(|one| one.frames).collect(),
    }
}
