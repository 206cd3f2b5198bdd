//! What the threads of a kernel may use: memory, buffers, registers and phases.

use std::ops::Range;

use cxlab_workload::thread::{Bases, SCRATCH_SPAN, ThreadContext, ThreadOp, scratch};

/// Where addresses of a process end.
const USER_END: u64 = 1 << 47;

/// The memory of a host's threads, and the number of its accelerators.
#[derive(Clone)]
pub(super) struct Limits {
    pub(super) memory: Vec<Range<u64>>,
    accelerators: u16,
}

impl Limits {
    pub(super) fn new(ctx: &ThreadContext) -> Limits {
        let Bases { cxl, local } = ctx.bases;
        let memory = match ctx.bases == Bases::PHYSICAL {
            true => vec![cxl..cxl + ctx.span.0, local..local + ctx.local.0],
            // An operating system says what is mapped.
            false => std::iter::once(0..USER_END).collect(),
        };
        Limits {
            memory,
            accelerators: ctx.accelerators as u16,
        }
    }
}

/// Refuses bytes that are outside of all ranges.
pub(super) fn inside(allowed: &[Range<u64>], addr: u64, bytes: u64) -> Result<(), String> {
    let end = addr.checked_add(bytes);
    let fits = |range: &Range<u64>| addr >= range.start && end.is_some_and(|end| end <= range.end);
    if allowed.iter().any(fits) {
        return Ok(());
    }
    let list = allowed.iter().filter(|range| !range.is_empty());
    let list = list.map(|range| format!("{:#x} to {:#x}", range.start, range.end));
    let list: Vec<String> = list.collect();
    Err(format!(
        "found {bytes} B from {addr:#x}; allowed: within {}",
        list.join(", ")
    ))
}

/// The place of a thread, with what it may use there.
pub(super) struct Reach {
    /// The accelerator that the thread runs on; `None` for a core.
    pub(super) accelerator: Option<u16>,
    /// Number of phases of the kernel.
    pub(super) phases: usize,
    pub(super) limits: Limits,
}

impl Reach {
    /// Refuses bytes that the thread cannot access.
    pub(super) fn reaches(&self, addr: u64, bytes: u64) -> Result<(), String> {
        if bytes == 0 {
            return Err("found 0 bytes; allowed: 1 and more".to_owned());
        }
        let mut allowed = self.limits.memory.clone();
        allowed.extend(self.own());
        inside(&allowed, addr, bytes)
    }

    /// The buffers of the accelerator.
    fn own(&self) -> Option<Range<u64>> {
        let first = scratch(self.accelerator?);
        Some(first..first + SCRATCH_SPAN)
    }

    /// Refuses an operation that cannot be executed here.
    pub(super) fn allowed(&self, op: ThreadOp) -> Result<(), String> {
        use ThreadOp as Op;
        if let Some(fault) = op.fault() {
            return Err(format!("found {fault}"));
        }
        match op {
            Op::Load { addr, size }
            | Op::Store { addr, size, .. }
            | Op::Atomic { addr, size, .. }
            | Op::Await { addr, size, .. } => self.reaches(addr, size.into()),
            Op::Flush { addr }
            | Op::WriteBack { addr }
            | Op::Demote { addr }
            | Op::Prefetch { addr } => inside(&self.limits.memory, addr, 1),
            Op::Dma {
                host_addr,
                device_addr,
                bytes,
                ..
            } => {
                let Some(own) = self.own() else {
                    return Err("found on a core; allowed: on elements of accelerators".to_owned());
                };
                inside(&self.limits.memory, host_addr, bytes)?;
                inside(&[own], device_addr, bytes)
            }
            Op::MmioAwait { .. } | Op::Interrupt { .. } if self.accelerator.is_none() => {
                Err("found on a core; allowed: on elements of accelerators".to_owned())
            }
            Op::WaitInterrupt { .. } | Op::Map { .. } | Op::Unmap { .. }
                if self.accelerator.is_some() =>
            {
                Err("found on an accelerator; allowed: on cores".to_owned())
            }
            Op::MmioRead { device, .. } | Op::MmioWrite { device, .. } => {
                let there = match self.accelerator {
                    Some(own) => device == own,
                    None => device < self.limits.accelerators,
                };
                match there {
                    true => Ok(()),
                    false => Err(format!(
                        "found accelerator {device}; allowed: one of the host's, and an element's \
                         own"
                    )),
                }
            }
            Op::Mark { phase } if usize::from(phase) >= self.phases => Err(format!(
                "found phase {phase}; allowed: below {}, as many as the kernel names",
                self.phases
            )),
            _ => Ok(()),
        }
    }
}
