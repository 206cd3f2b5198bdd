//! The operations of a device, and the data that it owes the host.

use cxlab_protocol::coherence::cache_agent::Event;
use cxlab_protocol::coherence::cache_message::Request;
use cxlab_protocol::coherence::message::Snoop;

use super::Property;
use crate::checker::{check, coded_enum};

coded_enum! {
    /// A pending operation of a device.
    #[derive(Default)]
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
}

impl Pending {
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

    /// Whether the operation needs this request. Evictions are needed by no operation.
    pub fn asks(self, request: Request) -> bool {
        let needed: &[Request] = match self {
            Pending::Nothing => &[
                Request::CleanEvict,
                Request::DirtyEvict,
                Request::CleanEvictNoData,
                // The store of a push completes before its eviction begins.
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

    /// The snoop that the operation requires of other holders.
    pub fn snoops(self) -> Snoop {
        match self {
            Pending::Load | Pending::LoadShared => Snoop::Data,
            Pending::LoadOnce => Snoop::Cur,
            _ => Snoop::Inv,
        }
    }

    pub fn complete(&mut self, what: &[Pending]) -> Result<(), Property> {
        let exact = what.contains(&std::mem::take(self));
        check(exact, Property::ExactResponses)
    }
}

coded_enum! {
    /// The data that the host pulls from a device.
    pub enum Pulled {
        /// Data of an eviction that a snoop overtook.
        Bogus,
        /// Data of a clean eviction.
        Victim,
        /// Data of a write or eviction that belong into the last-level cache.
        ForLlc,
        /// Data of a write or eviction that belong into memory.
        ForMemory,
        /// Data of a write that belong where the line is.
        ForEither,
        /// Data of a write to an address without memory.
        ForNothing,
    }
}

coded_enum! {
    /// The eviction that a device has requested.
    #[derive(Default)]
    pub enum Evicting {
        #[default]
        Nothing,
        Clean,
        Dirty,
        Push,
    }
}

impl Evicting {
    pub fn of(request: Request) -> Evicting {
        match request {
            Request::CleanEvict => Evicting::Clean,
            Request::DirtyEvict => Evicting::Dirty,
            Request::DirtyEvictPush => Evicting::Push,
            _ => Evicting::Nothing,
        }
    }

    /// The data of the eviction.
    pub fn pulled(self) -> Pulled {
        match self {
            Evicting::Push => Pulled::ForLlc,
            Evicting::Dirty => Pulled::ForMemory,
            Evicting::Clean | Evicting::Nothing => Pulled::Victim,
        }
    }
}

impl Pulled {
    /// The data of this write.
    pub fn of(write: Pending) -> Pulled {
        match write {
            Pending::WriteOwn | Pending::Push => Pulled::ForLlc,
            Pending::WriteThrough | Pending::WriteWeakly => Pulled::ForMemory,
            _ => Pulled::ForEither,
        }
    }
}
