//! A state of the CXL.cache network, and its encoding in a few words.

use cxlab_protocol::coherence::cache_agent::{self, Line};
use cxlab_protocol::coherence::cache_home::{
    self, CORES, CollectedData, Forward, Operation, Peer, Phase,
};
use cxlab_protocol::coherence::cache_message::{HostResponse, Request, SnoopResponse};
use cxlab_protocol::coherence::fields::GoState;
use cxlab_protocol::coherence::message::Snoop;

use super::operation::{Evicting, Pending, Pulled};
use super::{MAX_DEVICES, MAX_LINES, Model};
use crate::checker::{
    Code, Codec, Data, MAX_AGENTS, System, Unpack, canonical, coded, peer, rename,
};

/// One device's line, and the messages in flight for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    pub state: cache_agent::LineState,
    pub copy: Data,
    pub arrived: Data,
    /// The message on D2H Req.
    pub request: Option<Request>,
    /// The message on D2H Rsp.
    pub answer: Option<SnoopResponse>,
    /// The data on D2H Data for a snoop.
    pub forwarded: Data,
    /// The data on D2H Data for a pull.
    pub pulled: Option<(Pulled, Data)>,
    /// The message on H2D Req.
    pub snoop: Option<Snoop>,
    /// The snoop was sent after the message on H2D Rsp.
    pub behind: bool,
    /// The message on H2D Rsp.
    pub response: Option<HostResponse>,
    /// The data on H2D Data.
    pub data: Data,
    pub pending: Pending,
    pub evicting: Evicting,
    /// The cores had the line when the device's `WrCur` was served.
    pub hit: bool,
    /// A read-modify-write locks the line.
    pub kept: bool,
    /// The snoop has arrived and waits for the locked line.
    pub parked: bool,
    /// Position of the request in the home's queue, from 1; 0 before the request has arrived.
    pub place: u8,
    /// Number of other requests that the home has begun since the request arrived.
    pub passed: u8,
}

/// The home's line, its buffer and the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Home {
    pub state: cache_home::LineState,
    pub buffer: Data,
    pub memory: Data,
}

/// The host's cores, as one cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cores {
    /// State of the line: I, S, E or M.
    pub line: Line,
    pub copy: Data,
    pub snoop: Option<Snoop>,
    /// Pending operation: `Nothing`, `Load` or `Store`.
    pub pending: Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct World {
    pub wires: [[Wire; MAX_DEVICES]; MAX_LINES],
    pub home: [Home; MAX_LINES],
    pub cores: [Cores; MAX_LINES],
    /// By device: 1 while `CacheFlushed` is in flight, 2 while its `GO` is.
    pub flushed: [u8; MAX_DEVICES],
}

coded!(
    HostResponse,
    [
        HostResponse::Go(GoState::Invalid),
        HostResponse::Go(GoState::Shared),
        HostResponse::Go(GoState::Exclusive),
        HostResponse::Go(GoState::Modified),
        HostResponse::WritePull,
        HostResponse::GoWritePull,
        HostResponse::GoWritePullDrop,
        HostResponse::FastGoWritePull,
        HostResponse::ExtCmp,
        HostResponse::Go(GoState::Error),
        HostResponse::GoErrWritePull,
    ]
);
coded!(enum Line, Line::ALL);
coded!(enum Request, Request::ALL);
coded!(enum SnoopResponse, SnoopResponse::ALL);
coded!(Phase, Phase::ALL, |phase| phase.index() as u64);
coded!(
    enum CollectedData,
    [
        CollectedData::Nothing,
        CollectedData::CoresClean,
        CollectedData::CoresDirty,
        CollectedData::DeviceDirty,
    ]
);
coded!(
    enum Forward,
    [Forward::Nothing, Forward::AwaitData, Forward::AwaitResponse]
);

impl Wire {
    /// The fields of the encoding, with whether the device is flushed.
    fn code(&mut self, flushed: &mut u8, codec: &mut impl Codec) {
        codec.field(&mut self.state.line);
        codec.field(&mut self.state.owes);
        codec.field(&mut self.copy);
        codec.field(&mut self.arrived);
        codec.field(&mut self.request);
        codec.field(&mut self.answer);
        codec.field(&mut self.forwarded);
        codec.field(&mut self.pulled);
        codec.field(&mut self.snoop);
        codec.field(&mut self.behind);
        codec.field(&mut self.response);
        codec.field(&mut self.data);
        codec.field(&mut self.pending);
        codec.field(&mut self.evicting);
        codec.field(&mut self.hit);
        codec.counter(flushed, 3);
        codec.field(&mut self.kept);
        codec.field(&mut self.parked);
        codec.counter(&mut self.place, 3);
        codec.counter(&mut self.passed, 3);
    }

    fn encode(mut self, mut flushed: u8) -> u64 {
        let mut word = Code::default();
        self.code(&mut flushed, &mut word);
        word.0
    }

    fn decode(word: u64) -> (Wire, u8) {
        let (mut wire, mut flushed) = (Wire::default(), 0);
        wire.code(&mut flushed, &mut Unpack::new(word));
        (wire, flushed)
    }

    pub fn is_quiet(&self) -> bool {
        let rest = Wire {
            state: cache_agent::LineState::stable(Line::I),
            copy: Data::None,
            ..*self
        };
        self.state.is_settled() && rest == Wire::default()
    }

    pub fn is_loading_once(&self) -> bool {
        matches!(self.state.line, Line::IcD | Line::IsDI)
    }

    pub fn has_copy(&self) -> bool {
        matches!(
            self.state.line,
            Line::S | Line::E | Line::M | Line::SmA | Line::MiA | Line::EiA
        )
    }

    /// Whether the home has answered an eviction of an exclusive line, so that the copy is not used any more.
    pub fn is_evicted(&self) -> bool {
        self.state.line == Line::EiA && self.response.is_some()
    }

    /// Whether a snoop of the line is outstanding at the device.
    pub fn is_snooped(&self) -> bool {
        self.snoop.is_some()
            || self.answer.is_some()
            || self.forwarded != Data::None
            || self.state.owes.is_some()
    }

    /// Whether data are pulled and have not arrived.
    pub fn is_pulled(&self) -> bool {
        self.pulled.is_some() || self.response.is_some_and(HostResponse::pulls)
    }

    /// All values for the line, to be made old.
    pub fn values(&mut self) -> impl Iterator<Item = &mut Data> {
        let pulled = self.pulled.as_mut().map(|(_, data)| data);
        [
            &mut self.copy,
            &mut self.arrived,
            &mut self.forwarded,
            &mut self.data,
        ]
        .into_iter()
        .chain(pulled)
    }
}

/// The number of the cores in an encoded set of holders.
const CORES_NUMBER: usize = MAX_DEVICES;

/// The fields of the encoding of the home and of the cores.
fn code_home(home: &mut Home, cores: &mut Cores, codec: &mut impl Codec) {
    codec.field(&mut home.state.filter);
    codec.field(&mut home.state.waiting);
    codec.field(&mut home.state.phase);
    codec.field(&mut home.state.requester);
    codec.field(&mut home.state.collected);
    codec.field(&mut home.state.forward);
    codec.field(&mut home.buffer);
    codec.field(&mut home.memory);
    codec.field(&mut cores.line);
    codec.field(&mut cores.copy);
    codec.field(&mut cores.snoop);
    codec.field(&mut cores.pending);
}

/// Encodes a home and the cores, with device `a` renamed to `names[a]`.
fn encode_home(mut home: Home, mut cores: Cores, names: &[u8; MAX_AGENTS]) -> u64 {
    let state = &mut home.state;
    let evicts = Phase::Snooping(Operation::EvictEntry);
    let asked = ![Phase::Idle, evicts].contains(&state.phase);
    let name = |holder| match holder {
        CORES => peer(CORES_NUMBER),
        device => peer(names[device.index()].into()),
    };
    rename_holders(state, name);
    if !asked {
        state.requester = Peer::default();
    }
    let mut word = Code::default();
    code_home(&mut home, &mut cores, &mut word);
    word.0
}

fn decode_home(word: u64) -> (Home, Cores) {
    let (mut home, mut cores) = (Home::default(), Cores::default());
    code_home(&mut home, &mut cores, &mut Unpack::new(word));
    let state = &mut home.state;
    let name = |holder: Peer| match holder.index() {
        CORES_NUMBER => CORES,
        _ => holder,
    };
    rename_holders(state, name);
    (home, cores)
}

fn rename_holders(state: &mut cache_home::LineState, name: impl Fn(Peer) -> Peer) {
    let cache_home::LineState {
        filter,
        waiting,
        requester,
        ..
    } = state;
    rename(filter, waiting, requester, name);
}

pub const WORDS: usize = MAX_LINES * (MAX_DEVICES + 1);

impl Model {
    /// The smallest encoding among the states that differ only by the names of devices and lines.
    pub(super) fn code(&self, world: &World) -> [u64; WORDS] {
        canonical(
            (self.config.devices, self.config.lines),
            self.config.reduced,
            |from, a, l| {
                let flushed = if l == 0 { world.flushed[a] } else { 0 };
                world.wires[from][a].encode(flushed)
            },
            |l, names| encode_home(world.home[l], world.cores[l], names),
        )
    }

    pub(super) fn world(&self, code: &[u64]) -> World {
        let mut world = self.start();
        for (l, words) in code.chunks(self.config.devices + 1).enumerate() {
            let (home, wires) = words.split_last().unwrap();
            for (a, word) in wires.iter().enumerate() {
                let flushed;
                (world.wires[l][a], flushed) = Wire::decode(*word);
                if l == 0 {
                    world.flushed[a] = flushed;
                }
            }
            (world.home[l], world.cores[l]) = decode_home(*home);
        }
        world
    }
}
