//! Access to the medium: reads and writes in the order of the table's actions.

use std::collections::VecDeque;

use cxlab_cache::{Completion, MemoryBackend};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Dpa, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::LongStage;
use cxlab_protocol::coherence::dcoh::Event;
use serde::{Deserialize, Serialize};

use super::CoherentDevice;
use super::lines::NONE;
use crate::controller::line_request;
use crate::waits::DeviceWait;

/// The next access of the medium: a read for a request, or a write if `request` is `NONE`.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct MediumAccess {
    pub(super) request: u32,
    pub(super) dpa: Dpa,
}

/// The medium, with the accesses that it has not accepted or completed.
pub(super) struct MediumQueue {
    pub(super) backend: Box<dyn MemoryBackend>,
    pub(super) accesses: VecDeque<MediumAccess>,
    /// Writes that the medium has not accepted.
    pub(super) writes_queued: u32,
    /// Free numbers of writes in the medium, above those of requests, and the next unused one.
    pub(super) write_numbers: Vec<u32>,
    next_write: u32,
    pub(super) first_write: u32,
    /// Reads whose completion time is known.
    pub(super) ending: VecDeque<(SimTime, u32)>,
    pub(super) wake: SimTime,
    pub(super) done: Vec<Completion>,
}

save_state!(MediumQueue {
    values: accesses, writes_queued, write_numbers, next_write, ending, wake;
    states: backend;
    built: first_write, done;
});

impl MediumQueue {
    /// The medium without accesses. Numbers below `contexts` are those of requests.
    pub(super) fn new(backend: Box<dyn MemoryBackend>, contexts: u32) -> MediumQueue {
        MediumQueue {
            backend,
            accesses: VecDeque::with_capacity(256),
            writes_queued: 0,
            write_numbers: Vec::new(),
            next_write: contexts,
            first_write: contexts,
            ending: VecDeque::with_capacity(256),
            wake: SimTime::NEVER,
            done: Vec::with_capacity(16),
        }
    }

    pub(super) fn writing(&self) -> u32 {
        self.next_write - self.first_write - self.write_numbers.len() as u32
    }
}

impl CoherentDevice {
    /// Issues queued accesses to the medium in order, as far as the medium accepts them.
    pub(super) fn fill_medium(&mut self, now: SimTime) {
        while let Some(MediumAccess { request, dpa }) = self.medium.accesses.front().copied()
            && self.medium.backend.can_accept(now, request == NONE)
        {
            self.medium.accesses.pop_front();
            if request == NONE {
                self.stats.writes += 1;
                self.medium.writes_queued -= 1;
                let id = self.medium.write_numbers.pop().unwrap_or_else(|| {
                    self.medium.next_write += 1;
                    self.medium.next_write - 1
                });
                let write = line_request(id, dpa, true);
                if self.medium.backend.enqueue(now, write).is_some() {
                    self.medium.write_numbers.push(id);
                }
            } else {
                self.stats.reads += 1;
                let reader = self.contexts.get_mut(request);
                let waited = DeviceWait {
                    controller: 0,
                    medium: (now - reader.since).0,
                };
                waited.add_to_stages(&mut reader.message);
                self.waits.count(waited);
                reader.since = now;
                let read = line_request(request, dpa, false);
                if let Some(done) = self.medium.backend.enqueue(now, read) {
                    self.medium.ending.push_back((done, request));
                }
            }
        }
    }

    /// Handles the end of the medium's read for a request.
    pub(super) fn medium_read(&mut self, ctx: &mut Ctx<'_, Parcel>, request: u32) {
        let reader = self.contexts.get_mut(request);
        let inside = ctx.now() - reader.since;
        reader.message.stages.add(LongStage::Media, inside.0);
        reader.since = ctx.now();
        let number = reader.line;
        self.step(ctx, number, Event::MediumData);
        self.settle(ctx, number);
    }
}
