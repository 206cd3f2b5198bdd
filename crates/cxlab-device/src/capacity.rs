//! Dynamic capacity: extents that a device starts and stops serving while it runs (CXL 3.1, section
//! 9.13.3, *recollection*), and changes of the hosts' shares.
//!
//! The decoders of a device map all capacity that a host may ever have; extents are added and released during the run.
//! An absent extent is a disabled decoder. An extent is released in one of two ways. Either it is removed at once,
//! without the host's consent (Forced Release, Surprise Hot-Remove). Or the host is first given time to vacate it
//! (Managed Hot-Remove): requests that the host issued before are served, and later ones are denied. A request that the
//! medium has accepted is always served.

use std::collections::BTreeMap;

use cxlab_agent::DeviceSharedMemory;
use cxlab_engine::save_state;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::{Dpa, Picos, SimTime};
use cxlab_protocol::{DecoderTable, DeviceDecoder, Message, PortId};

use crate::qos::{HostShare, Telemetry};

/// An event in the life of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapacityEvent {
    /// The device begins to serve the extent to the host.
    Add,
    /// The host must vacate the extent: the device serves only requests that were issued before.
    Leave,
    /// The device stops serving the extent.
    Release,
    /// The data of the extent are erased.
    Scrub,
}

/// An event of one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapacityChange {
    /// The kind of event.
    pub event: CapacityEvent,
    /// The host that has the extent.
    pub host: PortId,
    /// The decoder that maps the extent.
    pub decoder: DeviceDecoder,
}

/// A change in a device while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceChangeKind {
    /// Changes the capacity that the device serves.
    Capacity(CapacityChange),
    /// Changes the share of a host; only for devices with telemetry.
    Share(HostShare),
    /// Puts this host's part of the device into viral until the end of the run.
    Viral(PortId),
}

/// A change and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceChange {
    /// Time of the change, from the begin of the workloads; 0 is before the first request.
    pub at: Picos,
    /// The change to make.
    pub kind: DeviceChangeKind,
}

/// An extent that its host is vacating.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LeavingExtent {
    host: PortId,
    decoder: DeviceDecoder,
    /// Requests that the host issued before this time are served.
    since: Picos,
}

/// The changes of a device that are still to come, and the effects of earlier ones.
pub(crate) struct ChangeTimeline {
    /// In order of time, the next change last.
    changes: Vec<DeviceChange>,
    begun: SimTime,
    leaving: Vec<LeavingExtent>,
    /// Hosts whose part of the device is in viral.
    viral: Vec<PortId>,
    /// During a restore: number of changes still to come when the state was saved.
    left: usize,
}

impl SaveState for ChangeTimeline {
    fn save(&self, out: &mut StateWriter) {
        let ChangeTimeline {
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

impl ChangeTimeline {
    /// A timeline of changes in order of time. Those at time 0 are made immediately.
    pub(crate) fn new(
        mut changes: Vec<DeviceChange>,
        decoders: &mut DecoderTable,
        telemetry: Option<&mut Telemetry>,
    ) -> Self {
        changes.reverse();
        let mut timeline = ChangeTimeline {
            changes,
            begun: SimTime::ZERO,
            leaving: Vec::new(),
            viral: Vec::new(),
            left: 0,
        };
        timeline.apply(SimTime::ZERO, decoders, None, telemetry);
        timeline
    }

    /// Sets the begin of the workloads, from which the times of changes count.
    pub(crate) fn begin(&mut self, now: SimTime) {
        self.begun = now;
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        self.changes.last().map(|change| self.begun + change.at)
    }

    /// After a restore, repeats the changes that were made before the state was saved. Values of
    /// lines, and shares, are restored separately.
    pub(crate) fn catch_up(&mut self, decoders: &mut DecoderTable) -> Result<(), StateError> {
        let count = self.changes.len();
        if self.left > count {
            return Err(StateError::of_length("timeline", self.left, count));
        }
        while self.changes.len() > self.left
            && let Some(change) = self.changes.pop()
        {
            match change.kind {
                DeviceChangeKind::Capacity(capacity) => self.change(change.at, &capacity, decoders),
                DeviceChangeKind::Share(_) => {}
                DeviceChangeKind::Viral(host) => self.viral.push(host),
            }
        }
        Ok(())
    }

    /// Makes the changes that are due.
    pub(crate) fn apply(
        &mut self,
        now: SimTime,
        decoders: &mut DecoderTable,
        mut values: Option<&mut LineValues>,
        mut telemetry: Option<&mut Telemetry>,
    ) {
        while self.next().is_some_and(|next| next <= now)
            && let Some(change) = self.changes.pop()
        {
            match (change.kind, &mut values, &mut telemetry) {
                (DeviceChangeKind::Capacity(capacity), values, _) => {
                    self.change(change.at, &capacity, decoders);
                    if let (CapacityEvent::Scrub, Some(values)) = (capacity.event, values) {
                        values.scrub(&capacity.decoder);
                    }
                }
                (DeviceChangeKind::Viral(host), ..) => self.viral.push(host),
                (DeviceChangeKind::Share(share), _, Some(telemetry)) => telemetry.set_share(&share),
                (DeviceChangeKind::Share(_), _, None) => {
                    unreachable!("the plan gives shares to devices with telemetry")
                }
            }
        }
    }

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
                self.leaving.push(LeavingExtent {
                    host,
                    decoder,
                    since: at,
                });
            }
            CapacityEvent::Release => {
                let is_this =
                    |extent: &LeavingExtent| extent.host == host && extent.decoder == decoder;
                match self.leaving.iter().position(is_this) {
                    Some(index) => drop(self.leaving.remove(index)),
                    None => enable(false),
                }
            }
            CapacityEvent::Scrub => {}
        }
    }

    pub(crate) fn is_viral(&self, host: PortId) -> bool {
        self.viral.contains(&host)
    }

    /// Decodes a request's address in the extents that its host is vacating, if the host issued the
    /// request before the notice.
    #[cold]
    #[inline(never)]
    pub(crate) fn decode_leaving(&self, message: &Message) -> Option<Dpa> {
        let issued = SimTime(message.issued_ps);
        let before = |extent: &&LeavingExtent| {
            extent.host == message.source && issued < self.begun + extent.since
        };
        let mut leaving = self.leaving.iter().filter(before);
        leaving.find_map(|extent| extent.decoder.decode(message.hpa))
    }
}

/// Contents of a device's lines: data of memory that hosts share, and for checkers stand-ins for
/// data, 0 before any store and after a scrub. A request accesses them when the medium accepts it.
pub(crate) struct LineValues {
    stand_ins: Option<BTreeMap<Dpa, u16>>,
    shared: Option<DeviceSharedMemory>,
}

save_state!(LineValues {
    values: stand_ins;
    states: shared;
});

impl LineValues {
    /// Contents with or without stand-ins; `None` if neither stand-ins nor shared memory are present.
    pub(crate) fn new(stand_ins: bool, shared: Option<DeviceSharedMemory>) -> Option<LineValues> {
        let stand_ins = stand_ins.then(BTreeMap::new);
        (stand_ins.is_some() || shared.is_some()).then_some(LineValues { stand_ins, shared })
    }

    /// Performs a request: a write stores its value, a read puts the line's value into the message.
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

    /// Erases the values of an extent. Shared memory is never dynamic capacity, so it needs no erasure.
    fn scrub(&mut self, extent: &DeviceDecoder) {
        if let Some(held) = &mut self.stand_ins {
            held.retain(|dpa, _| !(extent.first..extent.end()).contains(dpa));
        }
    }
}
