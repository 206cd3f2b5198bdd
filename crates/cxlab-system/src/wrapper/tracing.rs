//! Components of a run that is traced: each is wrapped, so that other runs pay nothing for it.
//!
//! A wrapper records each message that arrives while the trace's window is open, with the stages that the message has
//! by then, and the levels of its component's ports after each event. It changes nothing, so the run is the same.

use cxlab_engine::Ctx;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::SimTime;
use cxlab_link::{BufferId, LinkPort, Parcel};
use cxlab_protocol::{Channel, Message};

use super::{Inner, Kind};

/// Classes whose credits a trace shows: those of CXL.mem requests and responses.
pub(crate) const CLASSES: [(Channel, &str); 4] = [
    (Channel::M2sReq, "M2S Req"),
    (Channel::M2sRwd, "M2S RwD"),
    (Channel::S2mNdr, "S2M NDR"),
    (Channel::S2mDrs, "S2M DRS"),
];

/// Number of levels of a port: credits of each class on all virtual channels, and sent messages
/// whose credits have not come back.
pub(crate) const LEVELS: usize = CLASSES.len() + 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When the component handles the message: behind its constant time after the link, picoseconds.
    pub(crate) at_ps: u64,
    pub(crate) component: usize,
    pub(crate) port: u16,
    pub(crate) message: Message,
}

/// A level of a port that has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LevelChange {
    pub(crate) at_ps: u64,
    pub(crate) component: usize,
    pub(crate) port: u16,
    /// Position among the [`LEVELS`] of the port.
    pub(crate) level: usize,
    pub(crate) value: u32,
}

#[derive(Default, Debug)]
pub(crate) struct ComponentTrace {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) levels: Vec<LevelChange>,
}

/// A component that is traced.
pub struct Tracing<N> {
    node: N,
    component: usize,
    vcs: u8,
    /// First and last time of the window; closed where the last comes before the first.
    window: (SimTime, SimTime),
    /// Levels by port.
    levels: Vec<[u32; LEVELS]>,
    noted: ComponentTrace,
}

impl<N: Inner> Tracing<N> {
    /// Wraps a component with `ports` ports.
    pub(crate) fn new(node: N, component: usize, ports: usize, vcs: u8) -> Tracing<N> {
        Tracing {
            node,
            component,
            vcs,
            window: (SimTime::NEVER, SimTime::ZERO),
            levels: vec![[u32::MAX; LEVELS]; ports],
            noted: ComponentTrace::default(),
        }
    }

    pub(crate) fn node(&self) -> &N {
        &self.node
    }

    pub(crate) fn node_mut(&mut self) -> &mut N {
        &mut self.node
    }

    /// Records arrivals and levels from the first time to the last.
    pub(crate) fn open(&mut self, from: SimTime, to: SimTime) {
        self.window = (from, to);
    }

    pub(crate) fn take(&mut self) -> ComponentTrace {
        std::mem::take(&mut self.noted)
    }

    /// Whether the window is open at a time.
    fn is_open(&self, at: SimTime) -> bool {
        self.window.0 <= at && at <= self.window.1
    }

    pub(crate) fn start(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        self.node.start(ctx);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let now = ctx.now();
        if let Some(message) = parcel.message.filter(|_| self.is_open(now)) {
            self.noted.arrivals.push(Arrival {
                at_ps: now.0,
                component: self.component,
                port,
                message,
            });
        }
        self.node.receive(ctx, port, parcel);
        self.note_levels(now);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        self.node.wake(ctx, token);
        self.note_levels(ctx.now());
    }

    fn note_levels(&mut self, now: SimTime) {
        if !self.is_open(now) {
            return;
        }
        for (port, before) in self.levels.iter_mut().enumerate() {
            let port = port as u16;
            let levels = levels_of(self.node.port_mut(port), self.vcs);
            for (level, value) in levels.into_iter().enumerate() {
                if before[level] != value {
                    self.noted.levels.push(LevelChange {
                        at_ps: now.0,
                        component: self.component,
                        port,
                        level,
                        value,
                    });
                }
            }
            *before = levels;
        }
    }

    pub(crate) fn begin_measurement(&mut self, now: SimTime) {
        self.node.begin_measurement(now);
    }

    pub(crate) fn port_mut(&mut self, port: u16) -> &mut LinkPort {
        self.node.port_mut(port)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.node.in_flight()
    }

    pub(crate) fn kind(&mut self) -> Kind<'_> {
        self.node.kind()
    }
}

fn levels_of(port: &LinkPort, vcs: u8) -> [u32; LEVELS] {
    let mut levels = [port.unreturned(); LEVELS];
    for (level, (channel, _)) in levels.iter_mut().zip(CLASSES) {
        let credits = |vc| u32::from(port.credits(BufferId::of(channel, vc)));
        *level = (0..vcs).map(credits).sum();
    }
    levels
}

/// A traced run is not saved, and its records are no state of the system.
impl<N: SaveState> SaveState for Tracing<N> {
    fn save(&self, out: &mut StateWriter) {
        self.node.save(out);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.node.restore(from)
    }
}
