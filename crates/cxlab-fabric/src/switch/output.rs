//! An output of a switch: the messages that wait for its link, in queues that take turns.

use cxlab_engine::list::NONE;
use cxlab_engine::save_state;
use cxlab_engine::state::StateError;
use cxlab_engine::units::SimTime;
use cxlab_engine::{Ctx, KeptPayload};
use cxlab_link::{BufferId, LinkPort, Parcel};
use cxlab_protocol::Message;
use serde::{Deserialize, Serialize};

use super::params::Arbitration;

/// A message that waits in the switch.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct PendingMessage {
    /// The message itself, which the engine stores.
    #[serde(skip)]
    pub(super) kept: KeptPayload,
    /// The slot of the next message of the queue or, in a free slot, the next free slot.
    pub(super) next: u32,
    pub(super) arrived: SimTime,
    /// How long the message's buffer had been starved when the message arrived, in picoseconds.
    pub(super) starved: u64,
}

impl PendingMessage {
    /// The message, as it arrived.
    #[inline(always)]
    pub(super) fn message<'a>(&self, ctx: &'a Ctx<'_, Parcel>) -> &'a Message {
        match &ctx.kept(&self.kept).message {
            Some(message) => message,
            None => unreachable!("what waits is a message"),
        }
    }
}

/// Whether the list that starts at `head` is free of cycles and of slots marked in `used`.
/// Marks its slots there.
pub(super) fn claim_list(slab: &[PendingMessage], head: u32, used: &mut [bool]) -> bool {
    let mut slot = head;
    while slot != NONE {
        match used.get_mut(slot as usize) {
            Some(used @ false) => *used = true,
            _ => return false,
        }
        slot = slab[slot as usize].next;
    }
    true
}

/// Messages from one input, of one class and virtual channel, to one output, oldest first.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct OutputQueue {
    pub(super) input: u16,
    /// The queue with the next turn, or [`NO_QUEUE`] for the last one.
    pub(super) after: u16,
    /// [`BufferId::table_index`] of the buffer.
    pub(super) buffer_index: u16,
    /// The buffer at the far end of the output's link.
    pub(super) buffer: BufferId,
    /// Virtual channel of the output's link.
    pub(super) vc: u8,
    /// Slots of the oldest and of the newest message, or [`NONE`].
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// Stands for the number of a queue where there is none.
pub(super) const NO_QUEUE: u16 = u16::MAX;

/// An output port with the queues in front of it.
pub(super) struct OutputPort {
    /// The first and the last of the queues with messages, in the order of their turns.
    pub(super) first: u16,
    pub(super) last: u16,
    /// Time of the earliest wake-up that was requested, or `SimTime::NEVER`.
    pub(super) wake: SimTime,
    /// Approximate time of a cache line on the wire, in picoseconds.
    pub(super) line_time: u64,
    /// All queues that ever had a message.
    pub(super) queues: Vec<OutputQueue>,
    /// By input and [`BufferId::table_index`]: the queue's number plus one. Empty until a message waits. Few
    /// outputs of a large switch ever have a queue, and the tables of all outputs would grow with the
    /// square of the number of ports.
    pub(super) queue_of: Vec<u16>,
    /// Number of inputs of the switch.
    pub(super) inputs: u16,
    /// By [`BufferId::table_index`]: number of messages that wait.
    pub(super) waiting_for: Vec<u32>,
    pub(super) link: LinkPort,
}

save_state!(OutputPort {
    values: first, last, wake, queues;
    sized: waiting_for;
    states: link;
    built: line_time, queue_of, inputs;
} then find_queues);

/// A queue that may send, and the queue whose turn is before it.
#[derive(Clone, Copy)]
pub(super) struct QueueTurn {
    pub(super) queue: u16,
    before: u16,
}

impl OutputPort {
    /// Rebuilds the table of queue numbers after a restore.
    fn find_queues(&mut self) -> Result<(), StateError> {
        let buffers = self.waiting_for.len();
        self.queue_of.clear();
        if !self.queues.is_empty() {
            self.queue_of.resize(self.queue_table_len(), 0);
        }
        for (number, queue) in self.queues.iter().enumerate() {
            let index = usize::from(queue.input) * buffers + usize::from(queue.buffer_index);
            match self.queue_of.get_mut(index) {
                Some(entry @ 0) => *entry = number as u16 + 1,
                _ => return Err(StateError::of_length("queues", index, self.queue_of.len())),
            }
        }
        Ok(())
    }

    /// Whether every queue with messages has exactly one turn, and no other queue has one.
    pub(super) fn has_turns(&self) -> bool {
        let mut waiting: Vec<bool> = (self.queues.iter().map(|queue| queue.head != NONE)).collect();
        let (mut number, mut last) = (self.first, NO_QUEUE);
        while number != NO_QUEUE {
            match waiting.get_mut(usize::from(number)) {
                Some(waits @ true) => *waits = false,
                _ => return false,
            }
            (last, number) = (number, self.queues[usize::from(number)].after);
        }
        last == self.last && !waiting.contains(&true)
    }

    /// Number of entries of `queue_of`.
    fn queue_table_len(&self) -> usize {
        usize::from(self.inputs) * self.waiting_for.len()
    }

    /// Creates a queue, whose number is entered at `index` of `queue_of`; returns the number.
    #[cold]
    pub(super) fn begin_queue(&mut self, index: usize, queue: OutputQueue) -> u16 {
        if self.queue_of.is_empty() {
            self.queue_of = vec![0; self.queue_table_len()];
        }
        let number = self.queues.len() as u16;
        self.queues.push(queue);
        self.queue_of[index] = number + 1;
        number
    }

    /// The next turn among the queues whose class and virtual channel are not in `closed`.
    #[inline]
    pub(super) fn pick(
        &self,
        arbitration: Arbitration,
        slab: &[PendingMessage],
        ctx: &Ctx<'_, Parcel>,
        closed: u128,
    ) -> Option<QueueTurn> {
        if arbitration == Arbitration::RoundRobin && closed == 0 {
            return (self.first != NO_QUEUE).then_some(QueueTurn {
                queue: self.first,
                before: NO_QUEUE,
            });
        }
        self.search(arbitration, slab, ctx, closed)
    }

    /// Finds the next turn by a search through all turns.
    #[inline(never)]
    fn search(
        &self,
        arbitration: Arbitration,
        slab: &[PendingMessage],
        ctx: &Ctx<'_, Parcel>,
        closed: u128,
    ) -> Option<QueueTurn> {
        let mut before = NO_QUEUE;
        let mut number = self.first;
        let mut oldest = None;
        while number != NO_QUEUE {
            let queue = &self.queues[number as usize];
            if closed >> queue.buffer.0 & 1 == 0 {
                let turn = QueueTurn {
                    queue: number,
                    before,
                };
                if arbitration == Arbitration::RoundRobin {
                    return Some(turn);
                }
                let head = slab[queue.head as usize].message(ctx);
                let age = (head.issued_ps, head.source, head.tag);
                if oldest.is_none_or(|(other, _)| age < other) {
                    oldest = Some((age, turn));
                }
            }
            (before, number) = (number, queue.after);
        }
        oldest.map(|(_, turn)| turn)
    }

    /// Puts a queue's turn after all others.
    #[inline]
    pub(super) fn append_turn(&mut self, number: u16) {
        self.queues[number as usize].after = NO_QUEUE;
        let last = std::mem::replace(&mut self.last, number);
        match last {
            NO_QUEUE => self.first = number,
            last => self.queues[last as usize].after = number,
        }
    }

    /// Removes the turn of a queue.
    #[inline]
    pub(super) fn remove_turn(&mut self, turn: QueueTurn) {
        let after = self.queues[turn.queue as usize].after;
        match turn.before {
            NO_QUEUE => self.first = after,
            before => self.queues[before as usize].after = after,
        }
        if after == NO_QUEUE {
            self.last = turn.before;
        }
    }

    /// Approximate wait of a line sent now, in picoseconds: the reserved time of the wire, plus the time of
    /// unreturned lines. These wait here, are in flight, or are buffered at the far end.
    pub(super) fn congestion(&mut self, now: SimTime) -> u64 {
        let lines = u64::from(self.link.waiting) + u64::from(self.link.unreturned());
        self.link.transmitter.backlog_ps(now) + lines * self.line_time
    }

    /// Requests a wake-up at `time`, unless an earlier one is requested.
    #[inline]
    pub(super) fn wake_at(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u16, time: SimTime) {
        if time < self.wake {
            self.wake = time;
            ctx.wake_at(time, u32::from(number));
        }
    }
}
