//! Dynamic capacity: what a device begins and ends to serve while it runs (CXL 3.1, section
//! 9.13.3, *recollection*), and the shares of hosts in it.
//!
//! A device's decoders map all the capacity that a host may come to have; the extents that the
//! host does have come and go. An extent that is not there is a decoder that is disabled. What is
//! released is taken at once, without asking the host (Forced Release, Surprise Hot-Remove), or
//! after a time in which the host gives it up (Managed Hot-Remove): then what the host issued
//! before is served, and what it issues later is denied. A request that the medium has accepted is
//! served in any case.

use std::collections::BTreeMap;

use cxlab_agent::SharedShare;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Dpa, Picos, SimTime};
use cxlab_protocol::{DecoderTable, DeviceDecoder, Message, PortId};

use crate::qos::{Share, Telemetry};

/// What happens to an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityEvent {
    /// The device begins to serve it to the host.
    Add,
    /// The host is to give it up: from now on the device serves what the host has issued before.
    Leave,
    /// The device ends to serve it.
    Release,
    /// What lies there is scrubbed.
    Scrub,
}

/// A change of what a device serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapacityChange {
    /// What happens.
    pub event: CapacityEvent,
    /// To whose extent.
    pub host: PortId,
    /// The extent.
    pub decoder: DeviceDecoder,
}

/// What changes in a device while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// What it serves.
    Capacity(CapacityChange),
    /// The share of a host, where the device has telemetry.
    Share(Share),
    /// What this host has of the device is in viral, until the end of the run.
    Viral(PortId),
}

/// A change at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceChange {
    /// When, after the workloads begin; at 0 before the first request.
    pub at: Picos,
    /// What.
    pub what: Change,
}

/// An extent that its host is giving up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leaving {
    host: PortId,
    decoder: DeviceDecoder,
    /// What the host issued before is served.
    since: Picos,
}

/// The changes of a device that are still to come.
pub(crate) struct Timeline {
    /// In order of time, the next one last.
    changes: Vec<DeviceChange>,
    begun: SimTime,
    leaving: Vec<Leaving>,
    /// Hosts whose part of the device is in viral.
    viral: Vec<PortId>,
    /// How many were to come when a state was saved that is being restored.
    left: usize,
}

impl SaveState for Timeline {
    fn save(&self, out: &mut StateWriter) {
        let Timeline {
            changes,
            begun,
            leaving: _,
            viral: _,
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
    pub(crate) fn new(
        mut changes: Vec<DeviceChange>,
        decoders: &mut DecoderTable,
        telemetry: Option<&mut Telemetry>,
    ) -> Self {
        changes.reverse();
        let mut timeline = Timeline {
            changes,
            begun: SimTime::ZERO,
            leaving: Vec::new(),
            viral: Vec::new(),
            left: 0,
        };
        timeline.apply(SimTime::ZERO, decoders, None, telemetry);
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
    /// lines, and shares, are restored by themselves.
    pub(crate) fn catch_up(&mut self, decoders: &mut DecoderTable) -> Result<(), StateError> {
        let count = self.changes.len();
        if self.left > count {
            return Err(StateError::of_length("timeline", self.left, count));
        }
        while self.changes.len() > self.left
            && let Some(change) = self.changes.pop()
        {
            match change.what {
                Change::Capacity(capacity) => self.change(change.at, &capacity, decoders),
                Change::Share(_) => {}
                Change::Viral(host) => self.viral.push(host),
            }
        }
        Ok(())
    }

    /// Makes the changes that are due.
    pub(crate) fn apply(
        &mut self,
        now: SimTime,
        decoders: &mut DecoderTable,
        mut values: Option<&mut Values>,
        mut telemetry: Option<&mut Telemetry>,
    ) {
        while self.next().is_some_and(|next| next <= now)
            && let Some(change) = self.changes.pop()
        {
            match (change.what, &mut values, &mut telemetry) {
                (Change::Capacity(capacity), values, _) => {
                    self.change(change.at, &capacity, decoders);
                    if let (CapacityEvent::Scrub, Some(values)) = (capacity.event, values) {
                        values.scrub(&capacity.decoder);
                    }
                }
                (Change::Viral(host), ..) => self.viral.push(host),
                (Change::Share(share), _, Some(telemetry)) => telemetry.set_share(&share),
                (Change::Share(_), _, None) => {
                    unreachable!("the plan gives shares to devices with telemetry")
                }
            }
        }
    }

    /// Makes a change of what is served.
    fn change(&mut self, at: Picos, change: &CapacityChange, decoders: &mut DecoderTable) {
        let (host, decoder) = (change.host, change.decoder);
        let mut enable = |enabled| {
            let changed = decoders.set_enabled(host, &decoder, enabled);
            assert!(changed, "the plan checked {change:?}");
        };
        match change.event {
            CapacityEvent::Add => enable(true),
            CapacityEvent::Leave => {
                enable(false);
                self.leaving.push(Leaving {
                    host,
                    decoder,
                    since: at,
                });
            }
            CapacityEvent::Release => {
                let is_this = |one: &Leaving| one.host == host && one.decoder == decoder;
                match self.leaving.iter().position(is_this) {
                    Some(place) => drop(self.leaving.remove(place)),
                    None => enable(false),
                }
            }
            CapacityEvent::Scrub => {}
        }
    }

    /// Whether what a host has of the device is in viral.
    pub(crate) fn is_viral(&self, host: PortId) -> bool {
        self.viral.contains(&host)
    }

    /// Where a request's address lies in what its host is giving up, if the host issued the request
    /// before it was told to.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_leaving(&self, message: &Message) -> Option<Dpa> {
        let issued = SimTime(message.issued_ps);
        let before = |one: &&Leaving| one.host == message.source && issued < self.begun + one.since;
        let mut leaving = self.leaving.iter().filter(before);
        leaving.find_map(|one| one.decoder.decode(message.hpa))
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
        let write = request.writes();
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

    /// The lines of an extent hold nothing any more. Memory that comes and goes has no values besides.
    fn scrub(&mut self, extent: &DeviceDecoder) {
        if let Some(held) = &mut self.stand_ins {
            held.retain(|dpa, _| !(extent.first..extent.end()).contains(dpa));
        }
    }
}
