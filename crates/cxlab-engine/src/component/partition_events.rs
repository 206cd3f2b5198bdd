//! What the executor keeps for a partition and for each of its components.

use super::KeptPayload;
use super::Payload;
use super::ctx::NOWHERE;
use crate::prefetch::prefetch_to_write;
use crate::queue::{EventKey, EventQueue, Target, WheelQueue};
use crate::rng::mix;

/// One direction of a wire, with the receiver's index in its partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Picoseconds, as in [`Wire::min_latency`](super::Wire::min_latency).
    pub(crate) min_latency: u64,
    /// Index of the receiver in its partition.
    pub(crate) local: u32,
    /// The number of the receiver's block, among those of all partitions.
    pub(crate) block: u16,
    pub(crate) port: u16,
}

/// The content of a pending event between two runs.
#[derive(Clone, Copy)]
pub(crate) enum Body<P> {
    /// A payload and the port at which it arrives.
    Payload(u16, P),
    /// A wake-up with its token.
    Wake(u32),
}

/// An event for a component of another partition.
#[derive(Clone, Copy)]
pub(crate) struct CrossEvent<P> {
    pub(crate) key: EventKey,
    pub(crate) target: Target,
    pub(crate) payload: P,
}

/// Cross-partition events to one partition, until the end of the window.
pub(crate) struct Outgoing<P> {
    pub(crate) events: Vec<CrossEvent<P>>,
    /// The time of the earliest event, `u64::MAX` when there is none.
    pub(crate) earliest: u64,
}

impl<P> Default for Outgoing<P> {
    fn default() -> Self {
        Outgoing {
            events: Vec::new(),
            earliest: u64::MAX,
        }
    }
}

impl<P: Payload> Outgoing<P> {
    /// Distance, in events, at which memory of later events is prefetched for writing: the core of the
    /// receiving partition has read it last. Chosen by measurement (`docs/notebook/performance.md`).
    const PREFETCH_DISTANCE: usize = 8;

    /// Adds an event and returns a reference to its payload.
    fn write(&mut self, key: EventKey, target: Target, payload: P) -> &mut P {
        self.earliest = self.earliest.min(key.time);
        let index = self.events.len();
        self.events.push(CrossEvent {
            key,
            target,
            payload,
        });
        let spare = self.events.spare_capacity_mut();
        if let Some(later) = spare.get(Self::PREFETCH_DISTANCE) {
            prefetch_to_write(later);
        }
        &mut self.events[index].payload
    }
}

/// The event queue of a partition and its cross-partition events.
pub(crate) struct PartitionEvents<P: Payload> {
    pub(crate) queue: WheelQueue<P>,
    /// By receiving partition.
    pub(crate) outgoing: Vec<Outgoing<P>>,
    pub(crate) partition: u16,
    /// The block whose events are being handled, numbered among those of all partitions.
    pub(crate) block: u16,
    /// The partition's only block, whose events are in the timing wheel; [`NO_BLOCK`] with block-by-block execution.
    pub(crate) wheel_of: u16,
    pub(crate) blocks: Blocks,
    /// Units of work that are not in the monitor yet.
    pub(crate) work: u64,
}

/// Stands for no block in [`PartitionEvents::wheel_of`].
pub(crate) const NO_BLOCK: u16 = u16::MAX;

/// The blocks of a partition. Blocks are numbered through all partitions.
#[derive(Default)]
pub(crate) struct Blocks {
    /// The number of the partition's first block.
    pub(crate) first: u16,
    /// Number of components in each of the partition's blocks.
    pub(crate) counts: Vec<usize>,
    /// The block of each of the partition's components.
    pub(crate) of_local: Vec<u16>,
    /// The partition of every block of the simulation.
    pub(crate) partitions: Vec<u16>,
    /// The shortest latency of a wire between two of the partition's blocks, in picoseconds.
    pub(crate) span: u64,
}

impl<P: Payload> PartitionEvents<P> {
    /// Adds an event for one of the partition's components, in any of its blocks.
    #[inline]
    pub(crate) fn arrive(&mut self, key: EventKey, target: Target) -> &mut P {
        let block = self.blocks.of_local[target.component()];
        let block = usize::from(block - self.blocks.first);
        self.queue.push_to(block, key, target)
    }

    /// Removes a kept payload from the queue and returns it.
    pub(crate) fn take(&mut self, kept: KeptPayload) -> P {
        let payload = *self.queue.carried(kept.0);
        self.queue.release(kept.0);
        payload
    }

    /// Stores a payload in the queue without an event.
    pub(crate) fn keep(&mut self, payload: P) -> KeptPayload {
        KeptPayload(self.queue.hold(payload))
    }

    /// Begins the events of one of the partition's blocks.
    pub(crate) fn begin_block(&mut self, block: usize) {
        self.block = self.blocks.first + block as u16;
    }

    /// Adds an event for a component of `block`.
    #[inline(always)]
    pub(super) fn push(&mut self, block: u16, key: EventKey, target: Target) -> &mut P {
        if block == self.wheel_of {
            self.queue.push(key, target)
        } else {
            self.push_elsewhere(block, key, target)
        }
    }

    /// Adds an event that does not go into this partition's timing wheel: for another partition, or for a
    /// block of this one.
    #[inline(never)]
    fn push_elsewhere(&mut self, block: u16, key: EventKey, target: Target) -> &mut P {
        let local_block = usize::from(block.wrapping_sub(self.blocks.first));
        if local_block < self.queue.blocks() {
            return self.queue.push_to(local_block, key, target);
        }
        self.cross(block, NOWHERE, key, target)
    }

    /// Makes a new event for `block` of the payload at `place`: into this partition's timing wheel or elsewhere.
    #[inline(always)]
    pub(super) fn pass_on(
        &mut self,
        block: u16,
        place: u32,
        key: EventKey,
        target: Target,
    ) -> &mut P {
        if block == self.wheel_of {
            self.queue.pass_on(place, key, target)
        } else {
            self.pass_on_elsewhere(block, place, key, target)
        }
    }

    /// Makes a new event of the payload at `place`, for another partition or for a block of this one.
    #[inline(never)]
    fn pass_on_elsewhere(
        &mut self,
        block: u16,
        place: u32,
        key: EventKey,
        target: Target,
    ) -> &mut P {
        let local_block = usize::from(block.wrapping_sub(self.blocks.first));
        if local_block < self.queue.blocks() {
            return self.queue.pass_to(local_block, place, key, target);
        }
        self.queue.release(place);
        self.cross(block, place, key, target)
    }

    /// Makes a cross-partition event with a copy of the payload at `place`.
    #[inline(never)]
    fn cross(&mut self, block: u16, place: u32, key: EventKey, target: Target) -> &mut P {
        let to = self.blocks.partitions[usize::from(block)];
        let payload = *self.queue.carried(place);
        self.outgoing[usize::from(to)].write(key, target, payload)
    }
}

/// What the engine keeps for each component.
#[derive(Clone, Debug)]
pub(crate) struct ComponentRecord {
    /// The component's number, the source of its events.
    pub(crate) id: u32,
    /// Index of the component in its partition.
    pub(crate) local: u32,
    /// The sequence number of the component's next event.
    pub(crate) sequence: u64,
    /// Hash of all events that the component has handled, in their order.
    pub(crate) digest: u64,
}

impl ComponentRecord {
    /// Adds an event to the digest. `content` identifies the payload and its port, or the token of a wake-up.
    #[inline]
    pub(crate) fn absorb(&mut self, key: EventKey, content: u64) {
        let word = key.time ^ key.order.rotate_left(17) ^ content.rotate_left(34);
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// Combines the digests of components, in the order of their numbers, into the digest of the run.
pub(crate) fn combine_digests(digests: impl Iterator<Item = u64>) -> u64 {
    digests.fold(0, |run, digest| mix(run.rotate_left(1) ^ digest))
}
