//! What the hardware threads of a core share: caches, memory and the program.

use std::sync::Arc;

use cxlab_agent::{AddressMap, RequestLedger, RootPorts};
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::{Message, Opcode, PortId};
use cxlab_workload::LOCAL_BASE;

use super::caches::CacheHierarchy;
use super::front_end::RunningProgram;
use super::memory_requests::{CoreRequest, MemoryRequests, RequestKind};
use super::params::CoreParams;
use super::stats::CoreStats;
use super::window::NIL;
use crate::local::LocalMemory;

/// Wake-up token of the host's own memory.
pub(super) const MEMORY: u32 = u32::MAX - 1;

/// Caches, memory and the program of a core.
pub(super) struct CoreShared {
    pub(super) params: CoreParams,
    pub(super) port_id: PortId,
    pub(super) roots: RootPorts,
    pub(super) map: Arc<AddressMap>,
    pub(super) local: Option<LocalMemory>,
    pub(super) caches: CacheHierarchy,
    pub(super) requests: MemoryRequests,
    pub(super) running: RunningProgram,
    /// Number of points of synchronization that each thread has passed.
    pub(super) points: Vec<u64>,
    /// Whether a thread has passed one since this was cleared.
    pub(super) moved: bool,
    pub(super) ledger: RequestLedger,
    pub(super) stats: CoreStats,
}

save_state!(CoreShared {
    values: points, stats;
    states: roots, local, caches, requests, running, ledger;
    built: params, port_id, map, moved;
});

impl CoreShared {
    /// Whether a thread has passed so many points of synchronization.
    pub(super) fn is_past(&self, point: Option<(u16, u64)>) -> bool {
        point.is_none_or(|(thread, count)| self.points[usize::from(thread)] >= count)
    }

    /// Writes evicted lines to memory as long as there are free requests.
    pub(super) fn write_evicted(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        while !self.requests.evicted.is_empty() && self.requests.may_write_back() {
            let Some(line) = self.requests.evicted.pop_front() else {
                return;
            };
            let tag = self.request(ctx, line, RequestKind::Evict, (0, NIL));
            self.ledger.stats.writebacks += 1;
            self.requests.writebacks.push(tag);
        }
    }

    /// Sends a request of a thread to memory, and returns its tag. The step at `index` waits for it.
    pub(super) fn request(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        line: LineAddr,
        kind: RequestKind,
        (thread, index): (u16, u32),
    ) -> u32 {
        let now = ctx.now();
        let Some(tag) = self.requests.free.pop() else {
            unreachable!("there are as many requests as misses and write-backs");
        };
        let hpa = Hpa(line.0 * 64);
        let write = kind != RequestKind::Fill;
        self.requests.list[tag as usize] = CoreRequest {
            line,
            issued: now.0,
            id: self.ledger.issued(),
            kind,
            thread,
            first: index,
            last: index,
            dirty: false,
            prefetch: false,
        };
        if index != NIL {
            self.requests.next[index as usize] = NIL;
        }
        if kind != RequestKind::Evict {
            self.ledger.enter(now);
        }
        if hpa >= LOCAL_BASE {
            let Some(local) = &mut self.local else {
                unreachable!("the plan checked that the host has memory of its own");
            };
            debug_assert!(hpa.0 - LOCAL_BASE.0 < local.capacity.0);
            local.send(ctx, MEMORY, tag, line.0, write, self.caches.lookup_ps);
            return tag;
        }
        let Some(device) = self.map.owner(hpa) else {
            panic!("{hpa:?} lies outside the memory that the plan gave the program");
        };
        self.roots.send(
            ctx,
            Message::new(
                if write { Opcode::MemWr } else { Opcode::MemRd },
                hpa,
                tag,
                self.port_id,
                device,
                now,
            ),
        );
        tag
    }
}
