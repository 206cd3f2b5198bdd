//! Saving and restoring the state of a simulation.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Simulation;
use super::part::Partition;
use crate::component::{Body, Component};
use crate::queue::EventKey;
use crate::state::{SaveState, StateError, StateReader, StateWriter};
use crate::units::SimTime;

impl<C: Component + SaveState> Simulation<C>
where
    C::Payload: Serialize + DeserializeOwned,
{
    /// Writes the state between two runs: components, pending events and time. It does not depend on the
    /// number of threads.
    ///
    /// What cannot be saved is reported by [`StateWriter::finish`].
    pub fn save(&mut self, out: &mut StateWriter) {
        self.parts.iter_mut().for_each(Partition::take_kept);
        out.value("components", &(self.local_of.len() as u64));
        out.value("clock", &(self.started, self.events, self.end.0));
        for number in 0..self.local_of.len() {
            self.save_component(number, out);
        }
        save_pending(&self.parts, out);
        self.parts.iter_mut().for_each(Partition::restore_kept);
    }

    pub(super) fn save_component(&self, number: usize, out: &mut StateWriter) {
        out.enter(number);
        let slot = self.slot(number);
        out.value("record", &(slot.record.sequence, slot.record.digest));
        slot.component.save(out);
    }

    /// Fills this simulation with a saved state. It must be freshly built, from the same components and
    /// wires as the saved one.
    ///
    /// # Errors
    /// If the state is of another system.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let count: u64 = from.value("components")?;
        if count != self.local_of.len() as u64 {
            return Err(StateError::new(format!(
                "the state is of {count} components, this system has {}",
                self.local_of.len()
            )));
        }
        let end;
        (self.started, self.events, end) = from.value("clock")?;
        self.end = SimTime(end);
        for number in 0..self.local_of.len() {
            self.restore_component(number, from)?;
        }
        self.sent = self.sequences();
        self.parts.iter_mut().for_each(Partition::forget_pending);
        self.restore_pending(from)
    }

    pub(super) fn restore_component(
        &mut self,
        number: usize,
        from: &mut StateReader<'_>,
    ) -> Result<(), StateError> {
        let slot = self.slot_mut(number);
        (slot.record.sequence, slot.record.digest) = from.value("record")?;
        slot.component.restore(from)
    }

    /// Adds the saved pending events.
    pub(super) fn restore_pending(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for _ in 0..from.value::<u64>("pending")? {
            type Event<P> = (u64, u64, u32, u16, Option<P>, u32);
            let (time, order, id, port, payload, token): Event<C::Payload> = from.value("event")?;
            let ports = self.wires.get(id as usize).map_or(0, Vec::len);
            let known = (id as usize) < self.local_of.len();
            let fits = known && time >= self.end.0;
            if !fits || payload.is_some() && usize::from(port) >= ports {
                return Err(StateError::new(
                    "an event in the state does not fit this system",
                ));
            }
            let body = payload.map_or(Body::Wake(token), |payload| Body::Payload(port, payload));
            self.put_pending(EventKey { time, order }, id, body);
        }
        Ok(())
    }
}

/// All pending events of these partitions, in the order of events, which does not depend on the division.
pub(super) fn pending<C: Component>(
    parts: &[Partition<C>],
) -> Vec<(EventKey, u32, Body<C::Payload>)> {
    let mut pending = Vec::new();
    for part in parts {
        part.pending.queue.for_each(|key, target, carried| {
            let id = part.slots[target.component()].record.id;
            let body = match target.is_wake() {
                true => Body::Wake(target.port_or_token),
                false => Body::Payload(target.port_or_token as u16, *carried),
            };
            pending.push((key, id, body));
        });
    }
    pending.sort_unstable_by_key(|(key, ..)| *key);
    pending
}

pub(super) fn save_pending<C: Component>(parts: &[Partition<C>], out: &mut StateWriter)
where
    C::Payload: Serialize,
{
    let pending = pending(parts);
    out.value("pending", &(pending.len() as u64));
    for (key, id, body) in pending {
        let (port, payload, token) = match body {
            Body::Payload(port, payload) => (port, Some(payload), 0),
            Body::Wake(token) => (0, None, token),
        };
        out.value("event", &(key.time, key.order, id, port, payload, token));
    }
}
