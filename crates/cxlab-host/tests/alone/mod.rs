//! A core with memory of its own and no link.

use std::sync::Arc;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_engine::{Component, Ctx, Simulation};
use cxlab_host::{AddressMap, CacheLevel, Core, CoreConfig, CoreParams, LocalConfig, RequestAgent};
use cxlab_link::Parcel;
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, MediumSite};
use cxlab_protocol::PortId;
use cxlab_workload::{LOCAL_BASE, Phase, Program, Step, ThreadStep};

/// One way to the memory controller, in picoseconds.
pub const WAY: u64 = 5_000;
pub const CYCLE: u64 = 500;
pub const MEDIUM: u64 = 50_000;

pub struct Alone(pub Core);

impl Component for Alone {
    type Payload = Parcel;
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.0.start(ctx);
    }
    fn receive(&mut self, _ctx: &mut Ctx<'_, Parcel>, _port: u16, _parcel: &Parcel) {
        unreachable!("it has no link");
    }
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.0.wake(ctx, token);
    }
}

/// A program that is a list of steps for each thread.
pub struct Script {
    threads: Vec<std::vec::IntoIter<ThreadStep>>,
    phases: Vec<Phase>,
    result: Result<(), String>,
}

cxlab_engine::cannot_save!(Script, "a list of a test");

impl Script {
    /// `result` is the program's check.
    pub fn new(threads: Vec<Vec<ThreadStep>>, phases: &[&str], result: Result<(), String>) -> Self {
        let phase = |name: &&str| Phase {
            name: (*name).to_owned(),
            bytes: Bytes(8),
        };
        Script {
            threads: threads.into_iter().map(Vec::into_iter).collect(),
            phases: phases.iter().map(phase).collect(),
            result,
        }
    }
}

impl Program for Script {
    fn next_step(&mut self, _rng: &mut StreamRng) -> Option<Step> {
        match self.threads[0].next()? {
            ThreadStep::Step(step) => Some(step),
            ThreadStep::Sync(_) => panic!("a program of one thread"),
        }
    }
    fn threads(&self) -> usize {
        self.threads.len()
    }
    fn next_of(&mut self, thread: usize, _rng: &mut StreamRng) -> Option<ThreadStep> {
        self.threads[thread].next()
    }
    fn phases(&self) -> &[Phase] {
        &self.phases
    }
    fn check(&self) -> Result<(), String> {
        self.result.clone()
    }
}

pub fn params(caches: Vec<CacheLevel>) -> CoreParams {
    CoreParams {
        cycle: Picos(CYCLE),
        width: 2,
        window: 64,
        caches,
        misses: 8,
        prefetch: 0,
        writebacks: 8,
        process_time: Picos(0),
    }
}

/// A medium of `MEDIUM` with banks that are busy for `bank_cycle`.
pub fn medium(bank_cycle: u64) -> FixedParams {
    FixedParams {
        latency: Picos(MEDIUM),
        bank_cycle: Picos(bank_cycle),
        ..FixedParams::default()
    }
}

/// A core that runs a program, at most `limit` steps of it.
pub fn alone(
    params: CoreParams,
    medium: FixedParams,
    program: Box<dyn Program>,
    limit: Option<u64>,
) -> Simulation<Alone> {
    let capacity = Bytes(1 << 30);
    let core = Core::new(CoreConfig {
        params,
        number: 0,
        port_id: PortId(0),
        ports: Vec::new(),
        port_to: Vec::new(),
        first_device: 1,
        map: Arc::new(AddressMap::new(Vec::new())),
        local: Some(LocalConfig {
            base: LOCAL_BASE,
            backend: medium.backend(MediumSite::alone(capacity, 1)),
            capacity,
            latency: Picos(WAY),
        }),
        program,
        rng: StreamRng::new(1, "core"),
        limit,
        log: false,
    });
    Simulation::new(vec![Alone(core)], vec![Vec::new()])
}
