//! What a device wants, and what it owes the host.

use cxlab_protocol::coherence::cache_agent::Event;
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::message::Snoop;

use super::{Property, check};

/// An operation that is to be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pending {
    #[default]
    Nothing,
    Load,
    LoadShared,
    LoadOnce,
    Store,
    StoreLine,
    WriteOwn,
    WriteCurrent,
    WriteThrough,
    WriteWeakly,
    Push,
    Flush,
}

impl Pending {
    pub const ALL: [Pending; 12] = [
        Pending::Nothing,
        Pending::Load,
        Pending::LoadShared,
        Pending::LoadOnce,
        Pending::Store,
        Pending::StoreLine,
        Pending::WriteOwn,
        Pending::WriteCurrent,
        Pending::WriteThrough,
        Pending::WriteWeakly,
        Pending::Push,
        Pending::Flush,
    ];

    pub fn of(event: Event) -> Pending {
        match event {
            Event::Load => Pending::Load,
            Event::LoadShared => Pending::LoadShared,
            Event::LoadOnce => Pending::LoadOnce,
            Event::Store => Pending::Store,
            Event::StoreLine => Pending::StoreLine,
            Event::WriteOwn => Pending::WriteOwn,
            Event::WriteCurrent => Pending::WriteCurrent,
            Event::WriteThrough => Pending::WriteThrough,
            Event::WriteWeakly | Event::WriteWeaklyPart => Pending::WriteWeakly,
            Event::Push => Pending::Push,
            Event::Flush => Pending::Flush,
            _ => Pending::Nothing,
        }
    }

    /// Whether this is a request that the operation needs; evictions are needed by none.
    pub fn asks(self, request: Request) -> bool {
        let needed: &[Request] = match self {
            Pending::Nothing => &[
                Request::CleanEvict,
                Request::DirtyEvict,
                Request::CleanEvictNoData,
                // The store of a push is done before its eviction begins.
                Request::DirtyEvictPush,
            ],
            Pending::Load => &[Request::RdAny],
            Pending::LoadShared => &[Request::RdShared],
            Pending::LoadOnce => &[Request::RdCurr],
            Pending::Store => &[Request::RdOwn, Request::RdOwnNoData],
            Pending::StoreLine => &[Request::RdOwnNoData],
            Pending::WriteOwn | Pending::Push => &[Request::ItoMWr],
            Pending::WriteCurrent => &[Request::WrCur],
            Pending::WriteThrough => &[Request::WrInv],
            Pending::WriteWeakly => &[Request::WoWrInv, Request::WoWrInvF],
            Pending::Flush => &[Request::ClFlush],
        };
        needed.contains(&request)
    }

    /// What the operation asks of other holders.
    pub fn snoops(self) -> Snoop {
        match self {
            Pending::Load | Pending::LoadShared => Snoop::Data,
            Pending::LoadOnce => Snoop::Cur,
            _ => Snoop::Inv,
        }
    }

    pub fn complete(&mut self, what: &[Pending]) -> Result<(), Property> {
        check(
            what.contains(&std::mem::take(self)),
            Property::ExactResponses,
        )
    }
}

/// What is pulled from a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pulled {
    /// Of an eviction that a snoop overtook.
    Bogus,
    /// Of a clean eviction.
    Victim,
    /// Of a write or eviction that belongs into the last-level cache.
    ForLlc,
    /// Of a write or eviction that belongs into memory.
    ForMemory,
    /// Of a write that belongs where the line is.
    ForEither,
    /// Of a write where there is no memory.
    ForNothing,
}

/// The eviction that a device has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Evicting {
    #[default]
    Nothing,
    Clean,
    Dirty,
    Push,
}

impl Evicting {
    pub const ALL: [Evicting; 4] = [
        Evicting::Nothing,
        Evicting::Clean,
        Evicting::Dirty,
        Evicting::Push,
    ];

    pub fn of(request: Request) -> Evicting {
        match request {
            Request::CleanEvict => Evicting::Clean,
            Request::DirtyEvict => Evicting::Dirty,
            Request::DirtyEvictPush => Evicting::Push,
            _ => Evicting::Nothing,
        }
    }

    /// What its data are.
    pub fn pulled(self) -> Pulled {
        match self {
            Evicting::Push => Pulled::ForLlc,
            Evicting::Dirty => Pulled::ForMemory,
            Evicting::Clean | Evicting::Nothing => Pulled::Victim,
        }
    }
}

impl Pulled {
    pub const ALL: [Pulled; 6] = [
        Pulled::Bogus,
        Pulled::Victim,
        Pulled::ForLlc,
        Pulled::ForMemory,
        Pulled::ForEither,
        Pulled::ForNothing,
    ];

    /// What the data of this write are.
    pub fn of(write: Pending) -> Pulled {
        match write {
            Pending::WriteOwn | Pending::Push => Pulled::ForLlc,
            Pending::WriteThrough | Pending::WriteWeakly => Pulled::ForMemory,
            _ => Pulled::ForEither,
        }
    }
}
