//! Access to the medium: reads and writes in the order of the table's actions.

use cxlab_engine::Ctx;
use cxlab_engine::units::SimTime;
use cxlab_link::Parcel;
use cxlab_memory::MemoryRequest;
use cxlab_protocol::LongStage;
use cxlab_protocol::coherence::dcoh::Event;

use super::lines::NONE;
use super::{CoherentDevice, MediumAccess};
use crate::waits::DeviceWait;

impl CoherentDevice {
    /// Issues queued accesses to the medium in order, as far as the medium accepts them.
    pub(super) fn fill_medium(&mut self, now: SimTime) {
        while let Some(MediumAccess { request, dpa }) = self.accesses.front().copied()
            && self.backend.can_accept(now, request == NONE)
        {
            self.accesses.pop_front();
            if request == NONE {
                self.stats.writes += 1;
                self.writes_queued -= 1;
                let id = self.write_numbers.pop().unwrap_or_else(|| {
                    self.next_write += 1;
                    self.next_write - 1
                });
                let write = true;
                if self
                    .backend
                    .enqueue(
                        now,
                        MemoryRequest {
                            id,
                            dpa,
                            lines: 1,
                            write,
                        },
                    )
                    .is_some()
                {
                    self.write_numbers.push(id);
                }
            } else {
                self.stats.reads += 1;
                let reader = self.contexts.get_mut(request);
                let waited = DeviceWait {
                    controller: 0,
                    medium: (now - reader.since).0,
                };
                waited.note(&mut reader.message);
                self.waits.count(waited);
                reader.since = now;
                let (id, write) = (request, false);
                if let Some(at) = self.backend.enqueue(
                    now,
                    MemoryRequest {
                        id,
                        dpa,
                        lines: 1,
                        write,
                    },
                ) {
                    self.ending.push_back((at, request));
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
