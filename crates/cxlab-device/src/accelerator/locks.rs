//! Lines of both caches that an atomic operation locks, and the requests that wait for the operation.
//!
//! Accesses of the device wait in order of arrival. A snoop, or a host's read of the attached memory, is served before
//! them ([`LineArbitration`]), so the host waits for one operation at most.

use std::collections::VecDeque;

use cxlab_agent::Access;
use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::line_arbitration::{LineArbitration, LineWinner};
use cxlab_protocol::{Channel, Message};
use serde::{Deserialize, Serialize};

use super::attached_memory::ReceivedMessage;
use super::hmc::LookupAttempt;
use super::{Accelerator, UNLOCK};

/// Requests that wait for one line.
#[derive(Serialize, Deserialize)]
struct LockQueue {
    line: LineAddr,
    /// The snoop or the read of the host; there is at most one for a line at a time.
    host: Option<ReceivedMessage>,
    /// Accesses of the device, and when they began.
    accesses: VecDeque<(Access, SimTime)>,
    /// Accesses served while `host` waited.
    overtaken: u32,
    /// Host messages served since the first of `accesses` became the first.
    host_turns: u32,
}

impl LockQueue {
    fn is_empty(&self) -> bool {
        self.host.is_none() && self.accesses.is_empty()
    }
}

/// The lines with waiting requests.
pub(super) struct LineLocks {
    arbitration: LineArbitration,
    queues: Vec<LockQueue>,
    /// Data of lines that a snoop took during their atomic operation, and the end of the operation.
    data: Vec<(u64, Message)>,
    wake: u64,
    /// Maximum number of device accesses that one host message waited for, beside the operation
    /// that was in progress when the message arrived.
    pub(super) most_overtaken: u32,
    /// Maximum number of host messages that one access waited for while it was the first of its line.
    pub(super) most_host_turns: u32,
}

save_state!(LineLocks {
    values: queues, data, wake, most_overtaken, most_host_turns;
    built: arbitration;
});

impl LineLocks {
    pub(super) fn new(arbitration: LineArbitration) -> LineLocks {
        LineLocks {
            arbitration,
            queues: Vec::new(),
            data: Vec::new(),
            wake: u64::MAX,
            most_overtaken: 0,
            most_host_turns: 0,
        }
    }

    /// Number of host messages that wait, and of data messages to the host that wait.
    pub(super) fn in_flight(&self) -> u64 {
        let waiting = self.queues.iter().filter(|queue| queue.host.is_some());
        (waiting.count() + self.data.len()) as u64
    }

    fn is_awaited(&self, line: LineAddr) -> bool {
        let mut queues = self.queues.iter();
        queues.any(|queue| queue.line == line && !queue.is_empty())
    }

    /// The queue of a line, which is created if necessary.
    fn queue(&mut self, line: LineAddr) -> &mut LockQueue {
        let known = self.queues.iter().position(|queue| queue.line == line);
        let usable = known.or_else(|| self.queues.iter().position(LockQueue::is_empty));
        let number = usable.unwrap_or_else(|| {
            self.queues.push(LockQueue {
                line,
                host: None,
                accesses: VecDeque::new(),
                overtaken: 0,
                host_turns: 0,
            });
            self.queues.len() - 1
        });
        let queue = &mut self.queues[number];
        queue.line = line;
        queue
    }

    /// Queues a read of the host until an access of the device has the line's data.
    pub(super) fn hold_back(&mut self, line: LineAddr, received: &ReceivedMessage) {
        let queue = self.queue(line);
        (queue.host, queue.overtaken) = (Some(*received), 0);
    }

    fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, time: u64) {
        if time < self.wake {
            self.wake = time;
            ctx.wake_at(SimTime(time), UNLOCK);
        }
    }
}

impl Accelerator {
    /// Time up to which an atomic operation locks a line.
    pub(super) fn locked_until(&self, line: LineAddr) -> u64 {
        match &self.attached_memory {
            Some(memory) if memory.owns(line) => memory.locked_until(line),
            _ => {
                let slot = self.cache.find(line);
                slot.map_or(0, |slot| self.cache[slot].locked_until_ps)
            }
        }
    }

    /// Whether an access must wait for a line that is locked until `locked`, or that earlier
    /// requests wait for. If so, the access is queued.
    #[inline]
    pub(super) fn waits_for_lock(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        access: &Access,
        begun: SimTime,
        locked: u64,
    ) -> bool {
        let line = access.line();
        let now = ctx.now().0;
        if locked <= now && (self.locks.queues.is_empty() || !self.locks.is_awaited(line)) {
            return false;
        }
        let queue = self.locks.queue(line);
        if queue.accesses.is_empty() {
            queue.host_turns = 0;
        }
        queue.accesses.push_back((*access, begun));
        self.locks.wake_at(ctx, locked.max(now));
        true
    }

    /// Wakes the queue of a line when the line's data have arrived and the line is unlocked.
    pub(super) fn wake_held_back(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr) {
        if self.locks.is_awaited(line) {
            let until = self.locked_until(line).max(ctx.now().0);
            self.locks.wake_at(ctx, until);
        }
    }

    /// Whether a host message must wait for a line that is locked until `locked`. If so, the message is queued.
    pub(super) fn host_waits(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        received: &ReceivedMessage,
        line: LineAddr,
        locked: u64,
    ) -> bool {
        if locked <= ctx.now().0 {
            return false;
        }
        let queue = self.locks.queue(line);
        debug_assert!(
            queue.host.is_none(),
            "the host asks once for a line at a time"
        );
        (queue.host, queue.overtaken) = (Some(*received), 0);
        self.locks.wake_at(ctx, locked);
        true
    }

    /// Sends data of a line after the atomic operation that locks the line.
    pub(super) fn send_unlocked(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        mut message: Message,
        locked: u64,
    ) {
        message.issued_ps = ctx.now().0.max(locked);
        if locked <= ctx.now().0 {
            return self.roots.send(ctx, message);
        }
        self.locks.data.push((locked, message));
        self.locks.wake_at(ctx, locked);
    }

    /// Serves the queues of lines whose atomic operations have ended.
    pub(super) fn unlock(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let now = ctx.now().0;
        if self.locks.wake <= now {
            self.locks.wake = u64::MAX;
        }
        while let Some(index) = self.locks.data.iter().position(|(time, _)| *time <= now) {
            let (_, message) = self.locks.data.remove(index);
            self.roots.send(ctx, message);
        }
        let mut unlocks = self.locks.data.iter().map(|(time, _)| *time).min();
        for number in 0..self.locks.queues.len() {
            if let Some(until) = self.take_turns(ctx, number) {
                unlocks = Some(unlocks.unwrap_or(u64::MAX).min(until));
            }
        }
        if let Some(unlocks) = unlocks {
            self.locks.wake_at(ctx, unlocks);
        }
    }

    /// Serves the requests of a queue until the line is locked again. Returns the end of the lock,
    /// or `None` if the queue is empty or the device's own access comes first.
    fn take_turns(&mut self, ctx: &mut Ctx<'_, Parcel>, number: usize) -> Option<u64> {
        loop {
            let LockQueue { line, host, .. } = self.locks.queues[number];
            let accesses = &self.locks.queues[number].accesses;
            let turn = self
                .locks
                .arbitration
                .next(host.is_some(), !accesses.is_empty())?;
            let attached_memory = self.attached_memory.as_ref();
            if attached_memory.is_some_and(|memory| memory.is_kept_from_host(line)) {
                return None;
            }
            let until = self.locked_until(line);
            if until > ctx.now().0 {
                return Some(until);
            }
            let queue = &mut self.locks.queues[number];
            match turn {
                LineWinner::Host => {
                    let overtaken = queue.overtaken;
                    let Some(received) = queue.host.take() else {
                        unreachable!("it is the turn of what waits")
                    };
                    self.locks.most_overtaken = self.locks.most_overtaken.max(overtaken);
                    if !queue.accesses.is_empty() {
                        queue.host_turns += 1;
                        self.locks.most_host_turns =
                            self.locks.most_host_turns.max(queue.host_turns);
                    }
                    match received.message.channel() {
                        Channel::H2dReq => self.snooped(ctx, &received.message),
                        _ => self.host_reads(ctx, &received),
                    }
                }
                LineWinner::Device => {
                    queue.overtaken += u32::from(queue.host.is_some());
                    queue.host_turns = 0;
                    let Some((access, begun)) = queue.accesses.pop_front() else {
                        unreachable!("it is the turn of what waits")
                    };
                    self.look_again(ctx, access, begun, LookupAttempt::InTurn);
                }
            }
        }
    }
}
