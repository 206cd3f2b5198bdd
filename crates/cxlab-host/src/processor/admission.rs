//! Admission to the directory: transactions whose line has no entry wait for an entry of its
//! set, in order of arrival.
//!
//! When a transaction is over, those that wait for the set are served before those that wait for the line.
//! A line in constant demand therefore does not keep its entry from other lines.

use std::collections::VecDeque;

use cxlab_agent::{OvertakingCounter, WaitTicket};
use cxlab_cache::SetRoom;
use cxlab_engine::Ctx;
use cxlab_link::Parcel;
use serde::{Deserialize, Serialize};

use super::Processor;
use super::tokens::NONE;
use super::transactions::TxnKind;

/// Transactions that wait for entries of one set.
#[derive(Serialize, Deserialize)]
struct SetQueue {
    set: u32,
    waiting: VecDeque<(u32, WaitTicket)>,
    /// Counts how often waiting transactions are overtaken.
    turns: OvertakingCounter,
    /// Number of the set's entries that are being recalled from devices.
    recalls: u32,
    /// Whether the set waits for an entry of the write buffer.
    writes: bool,
}

/// The sets with waiting transactions or recalls.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct WaitingSets {
    queues: Vec<SetQueue>,
    /// Largest number of times that a transaction was overtaken.
    most_overtaken: u64,
}

impl WaitingSets {
    fn queue(&mut self, set: u32) -> &mut SetQueue {
        let known = self.queues.iter().position(|queue| queue.set == set);
        let index = known.unwrap_or_else(|| {
            self.queues.push(SetQueue {
                set,
                waiting: VecDeque::new(),
                turns: OvertakingCounter::default(),
                recalls: 0,
                writes: false,
            });
            self.queues.len() - 1
        });
        &mut self.queues[index]
    }

    /// Number of transactions that wait for an entry of a set, and of its entries that are being recalled.
    fn state(&self, set: u32) -> (usize, usize) {
        let mut queues = self.queues.iter();
        let found = queues.find(|queue| queue.set == set);
        found.map_or((0, 0), |queue| {
            (queue.waiting.len(), queue.recalls as usize)
        })
    }

    fn first(&self, set: u32) -> Option<u32> {
        let queue = self.queues.iter().find(|queue| queue.set == set)?;
        queue.waiting.front().map(|(id, _)| *id)
    }

    /// Records that a transaction has received an entry of the set.
    fn given(&mut self, set: u32) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.set == set) {
            queue.turns.take();
        }
    }

    /// Removes the first transaction that waits for the set.
    fn served(&mut self, set: u32) {
        let queue = self.queue(set);
        if let Some((_, ticket)) = queue.waiting.pop_front() {
            queue.turns.serve(ticket);
            let overtaken = queue.turns.most_overtaken();
            self.most_overtaken = self.most_overtaken.max(overtaken);
        }
    }

    /// Largest number of times that a transaction was overtaken by later ones.
    pub(super) fn most_overtaken(&self) -> u64 {
        self.most_overtaken
    }

    /// Records that a set waits for an entry of the write buffer. Returns false if it waited already.
    pub(super) fn waits_for_write(&mut self, set: u32) -> bool {
        !std::mem::replace(&mut self.queue(set).writes, true)
    }

    /// Records that a set does not wait for an entry of the write buffer any more.
    pub(super) fn write_waited(&mut self, set: u32) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.set == set) {
            queue.writes = false;
        }
    }

    fn tidy(&mut self) {
        self.queues
            .retain(|queue| !queue.waiting.is_empty() || queue.recalls > 0);
    }
}

impl Processor {
    /// Gives a transaction its line, or queues it.
    pub(super) fn admit(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) {
        if self.finds_line(ctx, id) {
            return;
        }
        let set = self.home.llc.set_of(self.home.txns[id].line);
        if self.home.admission.state(set).0 > 0 || !self.enter(ctx, id, set) {
            let queue = self.home.admission.queue(set);
            let ticket = queue.turns.wait(queue.waiting.len());
            queue.waiting.push_back((id, ticket));
        } else {
            self.home.admission.given(set);
        }
    }

    /// Whether a transaction's line has an entry. The transaction then takes it, or queues
    /// behind those that have it.
    fn finds_line(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32) -> bool {
        let Some(slot) = self.home.llc.find(self.home.txns[id].line) else {
            return false;
        };
        match self.home.llc[slot].txn {
            NONE => {
                self.home.llc.touch(slot);
                self.take(ctx, id, slot);
            }
            first => self.home.txns.queue_behind(first, id),
        }
        true
    }

    /// Gives a transaction whose line has no entry a new one, if possible. Returns whether it received one.
    fn enter(&mut self, ctx: &mut Ctx<'_, Parcel>, id: u32, set: u32) -> bool {
        let line = self.home.txns[id].line;
        // The new line may evict others from the last-level cache at any time until
        // its transaction is over.
        let victims = self.home.llc.is_victim_cache();
        if victims && !self.may_evict(set) {
            return false;
        }
        if let SetRoom::Evict(block) = self.home.llc.room(line)
            && let Some(slot) = self.home.llc.find(block.victim)
        {
            let (waiting, recalls) = self.home.admission.state(set);
            let writes = !victims && !self.is_recalled(slot) && self.eviction_writes(slot);
            if recalls >= waiting.max(1) || writes && !self.may_evict(set) {
                return false;
            }
            if self.evict(ctx, slot) {
                self.home.admission.queue(set).recalls += 1;
            }
        }
        // Otherwise the victim is being recalled, or every way of the set is busy.
        let free = self.home.llc.room(line) == SetRoom::Free;
        if free {
            let slot = self.home.llc.enter(line);
            self.take(ctx, id, slot);
        }
        free
    }

    /// Gives entries of a set to the transactions that wait for it, as far as there are any.
    pub(super) fn serve_set(&mut self, ctx: &mut Ctx<'_, Parcel>, set: u32) {
        while let Some(id) = self.home.admission.first(set) {
            let found = self.finds_line(ctx, id);
            if !found && !self.enter(ctx, id, set) {
                return;
            }
            let line = self.home.txns[id].line;
            self.home.admission.served(set);
            if !found {
                self.home.admission.given(set);
            }
            // Transactions of the same line keep their order in the line's own queue.
            let mut index = 0;
            while let Some((other, _)) = self.home.admission.queue(set).waiting.get(index).copied()
            {
                if self.home.txns[other].line == line {
                    self.home.admission.queue(set).waiting.remove(index);
                    self.home.txns.queue_behind(id, other);
                } else {
                    index += 1;
                }
            }
        }
        self.home.admission.tidy();
    }

    /// Retries the transactions that found every way of their set busy.
    pub(super) fn admit_stalled(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let mut index = 0;
        while let Some(queue) = self.home.admission.queues.get(index) {
            let set = queue.set;
            self.serve_set(ctx, set);
            let queue = self.home.admission.queues.get(index);
            index += usize::from(queue.is_some_and(|queue| queue.set == set));
        }
    }

    /// Records that the recall of an entry from devices is over.
    pub(super) fn recalled(&mut self, kind: TxnKind, set: u32) {
        if kind == TxnKind::Recall {
            self.home.admission.queue(set).recalls -= 1;
            self.home.admission.tidy();
        }
    }
}
