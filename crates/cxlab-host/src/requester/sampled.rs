//! A requester in a sampled run: it stops issuing, takes operations from its source without spending time,
//! and starts to issue again.

use cxlab_engine::units::{Hpa, LINE_BYTES};
use cxlab_protocol::PortId;
use cxlab_workload::{MemOp, OpKind};

use super::Requester;

/// An access to a line that reaches a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarmAccess {
    /// Edge port of the device.
    pub device: PortId,
    /// Address of the line.
    pub hpa: Hpa,
    /// True for a write, false for a read.
    pub write: bool,
}

/// Number of operations taken from a source at a time (*assumed*).
const OPERATIONS: usize = 64;
/// Number of operations ahead of its use at which a set of the private cache is prefetched (*assumed*).
const AHEAD: usize = 8;

/// Working memory of [`Requester::warm`], which is reused so that nothing is allocated.
#[derive(Default, Debug)]
pub struct WarmBuffer {
    ops: Vec<MemOp>,
    /// Accesses that reached devices, in order.
    pub accesses: Vec<WarmAccess>,
}

impl Requester {
    /// Stops issuing, except for the remaining lines of an operation of several lines.
    pub fn park(&mut self) {
        self.issuer.park();
    }

    /// Allows [`Requester::warm`] to take operations again.
    pub fn resume(&mut self) {
        self.issuer.resume();
    }

    /// Makes the workload begin with the next operation when the simulation continues.
    pub fn begin_here(&mut self) {
        self.issuer.begin_here();
    }

    /// Takes operations from the source, of `lines` lines in total or a few more, and applies them to the
    /// private cache. If `devices`, `buffer` receives the accesses that reach devices, in order. Returns
    /// the number of lines, which is smaller than `lines` only if the source has ended.
    pub fn warm(&mut self, lines: u64, devices: bool, buffer: &mut WarmBuffer) -> u64 {
        let WarmBuffer { ops, accesses } = buffer;
        accesses.clear();
        let mut taken = 0;
        while taken < lines {
            ops.clear();
            let count = usize::try_from(lines - taken).unwrap_or(usize::MAX);
            self.issuer.take(count.min(OPERATIONS), ops);
            if ops.is_empty() {
                break;
            }
            for (at, op) in ops.iter().enumerate() {
                if let (Some(cache), Some(later)) = (&self.cache, ops.get(at + AHEAD)) {
                    cache.prefetch(later.hpa.line());
                }
                let (first, write) = (op.hpa.0 & !(LINE_BYTES - 1), op.kind == OpKind::Write);
                for line in 0..u64::from(op.lines) {
                    let hpa = Hpa(first + line * LINE_BYTES);
                    match devices {
                        true => self.warm_line(hpa, write, accesses),
                        false => self.warm_cache(hpa, write),
                    }
                }
                taken += u64::from(op.lines);
            }
        }
        taken
    }

    /// Applies one line: a miss in the cache reads the line and then writes back the
    /// dirty line that it evicts.
    #[inline]
    fn warm_line(&mut self, hpa: Hpa, write: bool, out: &mut Vec<WarmAccess>) {
        let Some(cache) = &mut self.cache else {
            return self.warm_device(hpa, write, out);
        };
        let access = cache.access(hpa.line(), write);
        if access.hit {
            return;
        }
        self.warm_device(hpa, false, out);
        if let Some(line) = access.evicted {
            self.warm_device(Hpa(line.0 * LINE_BYTES), true, out);
        }
    }

    /// Applies one line to the private cache alone.
    #[inline]
    fn warm_cache(&mut self, hpa: Hpa, write: bool) {
        if let Some(cache) = &mut self.cache {
            cache.access(hpa.line(), write);
        }
    }

    #[inline]
    fn warm_device(&self, hpa: Hpa, write: bool, out: &mut Vec<WarmAccess>) {
        let Some(device) = self.map.owner(hpa) else {
            panic!("{hpa:?} lies outside the memory that the plan gave the workload");
        };
        out.push(WarmAccess { device, hpa, write });
    }
}
