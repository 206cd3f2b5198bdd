//! A state of the network, and its encoding in a few words.

use cxlab_protocol::coherence::dcoh::{self, Operation, Peer, Phase};
use cxlab_protocol::coherence::fields::MetaValue;
use cxlab_protocol::coherence::message::{KeptCopy, M2s, S2m, Snoop};
use cxlab_protocol::coherence::requester::{self, Event, HeldSnoop, Line};

use super::{MAX_LINES, Model, Property};
use crate::checker::{
    Code, Codec, Data, MAX_AGENTS, System, Unpack, canonical, check, coded, coded_enum, peer,
    rename,
};

/// One requester's line, and the messages in flight for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    pub state: requester::LineState,
    pub copy: Data,
    pub arrived: Data,
    pub request: Option<M2s>,
    pub at_head: bool,
    pub write: Option<(MetaValue, Data)>,
    pub conflict: bool,
    pub response: Option<(KeptCopy, bool)>,
    pub snoop: Option<(Snoop, bool)>,
    pub completion: Option<S2m>,
    /// 0 none, 1 free to arrive, 2 behind a completion.
    pub ack: u8,
    pub data: Data,
    /// 0 none. Responses buffered for the block: 1 unanswered, 2, 5 and 6 answered `BIRspI`,
    /// `BIRspS` and `BIRspE`. Responses sent one by one: 3 unanswered, 4 answered.
    pub block: u8,
    /// The operation that the processor waits for.
    pub pending: Pending,
}

coded_enum! {
    /// A pending operation of the processor.
    #[derive(Default)]
    pub enum Pending {
        #[default]
        Nothing,
        Load,
        LoadShared,
        LoadOnce,
        Store,
        Flush,
        /// A read by the device's own agent.
        LocalRead,
        LocalWrite,
    }
}

impl Pending {
    pub(super) fn of(event: Event) -> Pending {
        match event {
            Event::Load => Pending::Load,
            Event::LoadShared => Pending::LoadShared,
            Event::LoadOnce => Pending::LoadOnce,
            Event::Store => Pending::Store,
            Event::Flush => Pending::Flush,
            _ => Pending::Nothing,
        }
    }

    pub(super) fn complete(&mut self, what: &[Pending]) -> Result<(), Property> {
        let exact = what.contains(&std::mem::take(self));
        check(exact, Property::ExactResponses)
    }
}

/// The DCOH's line and its medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Home {
    pub state: dcoh::LineState,
    pub medium: Data,
    pub read: Data,
    pub pending: Pending,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct World {
    pub wires: [[Wire; MAX_AGENTS]; MAX_LINES],
    pub home: [Home; MAX_LINES],
}

coded!(
    M2s,
    [
        M2s::MemRdData,
        M2s::MemRdShared,
        M2s::MemRdOwn,
        M2s::MemRdCur,
        M2s::MemInvOwn,
        M2s::MemInvFlush,
        M2s::MemClnEvct,
    ]
);
coded!(
    HeldSnoop,
    [
        HeldSnoop::Nothing,
        HeldSnoop::AwaitAck(Snoop::Inv),
        HeldSnoop::AwaitAck(Snoop::Data),
        HeldSnoop::AwaitAck(Snoop::Cur),
        HeldSnoop::Deferred(Snoop::Inv),
        HeldSnoop::Deferred(Snoop::Data),
        HeldSnoop::Deferred(Snoop::Cur),
    ]
);
coded!(S2m, [S2m::Cmp, S2m::CmpS, S2m::CmpE, S2m::CmpM]);
coded!(
    MetaValue,
    [MetaValue::Invalid, MetaValue::Shared, MetaValue::Any]
);
coded!(enum Line, Line::ALL);
coded!(enum KeptCopy, KeptCopy::ALL);
coded!(Phase, Phase::ALL, |phase| phase.index() as u64);

impl Wire {
    /// The fields of the encoding.
    fn code(&mut self, codec: &mut impl Codec) {
        codec.field(&mut self.state.line);
        codec.field(&mut self.state.held);
        codec.field(&mut self.copy);
        codec.field(&mut self.arrived);
        codec.field(&mut self.request);
        codec.field(&mut self.at_head);
        codec.field(&mut self.write);
        codec.field(&mut self.conflict);
        codec.field(&mut self.response);
        codec.field(&mut self.snoop);
        codec.field(&mut self.completion);
        codec.counter(&mut self.ack, 3);
        codec.field(&mut self.data);
        codec.counter(&mut self.block, 7);
        codec.field(&mut self.pending);
    }

    fn encode(mut self) -> u64 {
        if self == Wire::default() {
            return 0;
        }
        let mut word = Code::default();
        self.code(&mut word);
        word.0
    }

    fn decode(word: u64) -> Wire {
        let mut wire = Wire::default();
        if word != 0 {
            wire.code(&mut Unpack::new(word));
        }
        wire
    }

    /// All values for the line.
    pub(super) fn values(&mut self) -> impl Iterator<Item = &mut Data> {
        let written = self.write.as_mut().map(|(_, data)| data);
        [&mut self.copy, &mut self.arrived, &mut self.data]
            .into_iter()
            .chain(written)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.state.is_settled()
            && self.request.is_none()
            && self.write.is_none()
            && !self.conflict
            && self.response.is_none()
            && self.snoop.is_none()
            && self.completion.is_none()
            && self.ack == 0
            && self.data == Data::None
            && self.block == 0
    }

    pub(super) fn is_loading_once(&self) -> bool {
        matches!(self.state.line, Line::IcAD | Line::IcA | Line::IcD)
    }

    pub(super) fn has_copy(&self) -> bool {
        matches!(
            self.state.line,
            Line::S | Line::E | Line::M | Line::SmA | Line::MsA | Line::MeA
        )
    }
}

impl Home {
    /// The fields of the encoding.
    fn code(&mut self, codec: &mut impl Codec) {
        codec.field(&mut self.state.filter);
        codec.field(&mut self.state.waiting);
        codec.field(&mut self.state.phase);
        codec.field(&mut self.state.requester);
        codec.field(&mut self.medium);
        codec.field(&mut self.read);
        codec.field(&mut self.pending);
    }

    /// Encodes the state, with requester `a` renamed to `names[a]`.
    fn encode(mut self, names: &[u8; MAX_AGENTS]) -> u64 {
        let state = &mut self.state;
        let asked = !matches!(
            state.phase,
            Phase::Idle
                | Phase::Snooping(
                    Operation::EvictEntry | Operation::LocalRead | Operation::LocalWrite,
                )
                | Phase::Reading(Operation::LocalRead)
        );
        rename(
            &mut state.filter,
            &mut state.waiting,
            &mut state.requester,
            |holder| peer(names[holder.index()].into()),
        );
        if !asked {
            state.requester = Peer::default();
        }
        let mut word = Code::default();
        self.code(&mut word);
        word.0
    }

    fn decode(word: u64) -> Home {
        let mut home = Home::default();
        home.code(&mut Unpack::new(word));
        home
    }
}

pub const WORDS: usize = MAX_LINES * (MAX_AGENTS + 1);

impl Model {
    /// The smallest encoding among the states that differ only by the names of requesters and lines.
    pub(super) fn code(&self, world: &World) -> [u64; WORDS] {
        let wires = world.wires.map(|wires| wires.map(Wire::encode));
        canonical(
            (self.config.agents, self.config.lines),
            self.config.reduced,
            |l, a, _| wires[l][a],
            |l, names| world.home[l].encode(names),
        )
    }

    pub(super) fn world(&self, code: &[u64]) -> World {
        let mut world = self.start();
        for (l, words) in code.chunks(self.config.agents + 1).enumerate() {
            let (home, wires) = words.split_last().unwrap();
            for (wire, word) in world.wires[l].iter_mut().zip(wires) {
                *wire = Wire::decode(*word);
            }
            world.home[l] = Home::decode(*home);
        }
        world
    }
}
