//! Dynamic capacity: what a device begins and ends to serve while it runs (CXL 3.1, section
//! 9.13.3, *recollection*).
//!
//! A device's decoders map all the capacity that a host may come to have; the extents that the
//! host does have come and go. An extent that is not there is a decoder that is disabled. What is
//! released is taken at once, without asking the host (Forced Release); a request that the medium
//! has accepted by then is served.

use std::collections::BTreeMap;

use cxlab_agent::SharedShare;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Dpa, Picos, SimTime};
use cxlab_protocol::{Channel, DecoderTable, DeviceDecoder, Message, PortId};

/// What happens to an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityEvent {
    /// The device begins to serve it to the host.
    Add,
    /// The device ends to.
    Release,
}

/// A change of what a device serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapacityChange {
    /// When, after the workloads begin; at 0 before the first request.
    pub at: Picos,
    /// What happens.
    pub event: CapacityEvent,
    /// To whose extent.
    pub host: PortId,
    /// The extent.
    pub decoder: DeviceDecoder,
}

/// The changes of a device that are still to come.
pub(crate) struct Timeline {
    /// In order of time, the next one last.
    changes: Vec<CapacityChange>,
    begun: SimTime,
    /// How many were to come when a state was saved that is being restored.
    left: usize,
}

impl SaveState for Timeline {
    fn save(&self, out: &mut StateWriter) {
        let Timeline {
            changes,
            begun,
            left: _,
        } = self;
        out.value("timeline", &(begun, changes.len()));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        (self.begun, self.left) = from.value("timeline")?;
        Ok(())
    }
}

impl Timeline {
    /// Changes in order of time; those at 0 are made now.
    pub(crate) fn new(mut changes: Vec<CapacityChange>, decoders: &mut DecoderTable) -> Self {
        changes.reverse();
        let mut timeline = Timeline {
            changes,
            begun: SimTime::ZERO,
            left: 0,
        };
        timeline.apply(SimTime::ZERO, decoders, None);
        timeline
    }

    /// The workloads begin.
    pub(crate) fn begin(&mut self, now: SimTime) {
        self.begun = now;
    }

    /// When the next change is.
    pub(crate) fn next(&self) -> Option<SimTime> {
        self.changes.last().map(|change| self.begun + change.at)
    }

    /// After a restore, makes the changes that were made before the state was saved; the values of
    /// lines are restored by themselves.
    pub(crate) fn catch_up(&mut self, decoders: &mut DecoderTable) -> Result<(), StateError> {
        let count = self.changes.len();
        if self.left > count {
            return Err(StateError::of_length("timeline", self.left, count));
        }
        for change in self.changes.drain(self.left..).rev() {
            let enabled = change.event == CapacityEvent::Add;
            decoders.set_enabled(change.host, &change.decoder, enabled);
        }
        Ok(())
    }

    /// Makes the changes that are due. Lines that no host has any more are scrubbed before anybody
    /// can have them again.
    pub(crate) fn apply(
        &mut self,
        now: SimTime,
        decoders: &mut DecoderTable,
        mut values: Option<&mut Values>,
    ) {
        while self.next().is_some_and(|next| next <= now)
            && let Some(change) = self.changes.pop()
        {
            let enabled = change.event == CapacityEvent::Add;
            let changed = decoders.set_enabled(change.host, &change.decoder, enabled);
            assert!(changed, "the plan checked {change:?}");
            if let (false, Some(values)) = (enabled, &mut values) {
                values.scrub(|dpa| decoders.is_mapped(dpa));
            }
        }
    }
}

/// What the lines of a device hold: the bytes of memory that hosts share; and for checkers stand-ins
/// for their data, 0 before any store and after a scrub. A request meets them when the medium accepts it.
pub(crate) struct Values {
    stand_ins: Option<BTreeMap<Dpa, u16>>,
    shared: Option<SharedShare>,
}

save_state!(Values {
    values: stand_ins;
    states: shared;
});

impl Values {
    /// Values with stand-ins or without; `None` where there is nothing to hold.
    pub(crate) fn new(stand_ins: bool, shared: Option<SharedShare>) -> Option<Values> {
        let stand_ins = stand_ins.then(BTreeMap::new);
        (stand_ins.is_some() || shared.is_some()).then_some(Values { stand_ins, shared })
    }

    /// A request for a line: what it stores is kept, what it loads is put into it.
    pub(crate) fn access(&mut self, dpa: Dpa, request: &mut Message) {
        let write = request.channel() == Channel::M2sRwd;
        if let Some(shared) = &self.shared {
            shared.access(dpa, write, request);
        }
        match &mut self.stand_ins {
            Some(held) if write => {
                held.insert(dpa, request.data);
            }
            Some(held) => request.data = held.get(&dpa).copied().unwrap_or(0),
            None => {}
        }
    }

    /// Lines that no host has any more hold nothing. Memory that comes and goes has no values besides.
    fn scrub(&mut self, is_mapped: impl Fn(Dpa) -> bool) {
        if let Some(held) = &mut self.stand_ins {
            held.retain(|dpa, _| is_mapped(*dpa));
        }
    }
}
