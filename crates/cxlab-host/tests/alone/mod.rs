//! A core with memory of its own and no link.

use std::sync::Arc;

use cxlab_engine::rng::StreamRng;
use cxlab_engine::units::{Bytes, Picos};
use cxlab_engine::{Component, Ctx, Simulation};
use cxlab_host::{AddressMap, Core, CoreConfig, CoreParams, LocalConfig, RequestAgent};
use cxlab_link::Parcel;
use cxlab_memory::fixed::FixedParams;
use cxlab_memory::{Medium, MediumSite};
use cxlab_protocol::PortId;
use cxlab_workload::{LOCAL_BASE, Program};

/// One way to the memory controller, in picoseconds.
pub const WAY: u64 = 5_000;

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
