//! What a requester does in a sampled run: it stops to issue, takes operations from its source without time,
//! and begins to issue again.

use cxlab_engine::units::{Hpa, LINE_BYTES};
use cxlab_protocol::PortId;
use cxlab_workload::{MemOp, OpKind};

use super::Requester;

/// An access of a line that reaches a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WarmAccess {
    /// The edge port of the device.
    pub device: PortId,
    /// The line's address.
    pub hpa: Hpa,
    /// Whether it writes.
    pub write: bool,
}

/// Operations taken from a source at a time (*assumed*).
const OPERATIONS: usize = 64;
/// How many operations before its own a set of the private cache is fetched (*assumed*).
const AHEAD: usize = 8;

/// What [`Requester::warm`] works in, so that nothing is allocated.
#[derive(Default, Debug)]
pub struct WarmBuffer {
    ops: Vec<MemOp>,
    /// What reached devices, in order.
    pub accesses: Vec<WarmAccess>,
}

impl Requester {
    /// Nothing more is issued, but for the lines that are left of an operation of several.
    pub fn park(&mut self) {
        self.issuer.park();
    }

    /// Operations may be taken again, by [`Requester::warm`].
    pub fn resume(&mut self) {
        self.issuer.resume();
    }

    /// The requester will begin again, with the operation that is next, when the simulation starts again.
    pub fn begin_here(&mut self) {
        self.issuer.begin_here();
    }

    /// Takes operations of so many lines from the source, or of a few more, and applies them to the private
    /// cache; `buffer` has then what reaches devices, in order, where `devices` keep what does. Returns the
    /// number of lines, which is smaller where the source has ended.
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

    /// One line: what misses the cache is read, and then what it pushes out is written.
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

    /// One line, in the private cache alone.
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
