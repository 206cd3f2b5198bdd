//! Commands that could come next, and the choice among them.

use super::super::observer::Observer;
use super::{Bank, CLOSED, Channel, NEVER, NIL};

/// Lists of candidates: accesses of requests in the queues,
pub(super) const QUEUED: usize = 0;
/// accesses of requests whose row was opened for them,
pub(super) const OPENED: usize = 1;
const ACTIVATES: usize = 2;
const PRECHARGES: usize = 3;
pub(super) const LISTS: usize = 4;

/// Kinds of commands, and so of gates. Writes are 1.
pub(super) const READ: u8 = 0;
pub(super) const ACTIVATE: u8 = 2;
pub(super) const PRECHARGE: u8 = 3;

/// Where a bank keeps the places of its candidates: 0 the queue's oldest read of the open row, 1 its
/// oldest write of it, 2 and 3 what its oldest request needs first,
const CELL_ACTIVATE: usize = 2;
const CELL_PRECHARGE: usize = 3;
/// the access for which the row was opened,
const CELL_OPENED: usize = 4;
/// and the precharge of an idle row.
const CELL_IDLE: usize = 5;
pub(super) const CELLS: usize = 6;

/// Requests in the queues come after those whose row was opened for them.
const LATER: u64 = 1 << 62;
/// Refreshes come between the two.
const REFRESH: u64 = 1 << 61;
/// Rows that are closed because they are idle come last.
const IDLE: u64 = 1 << 63;

/// A command that a bank could be sent.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// When the bank is ready for it.
    pub ready: u64,
    /// The lower, the sooner among those that are ready.
    pub order: u64,
    /// Its gate.
    pub gate: u16,
    pub bank: u16,
    pub entry: u16,
    pub kind: u8,
    pub cell: u8,
}

/// Candidates of one sort, and the first of them as long as it is known.
#[derive(Default)]
pub(super) struct List {
    pub slots: Vec<Slot>,
    best: Option<Best>,
}

#[derive(Clone, Copy)]
struct Best {
    at: u64,
    order: u64,
    index: u16,
}

/// The command that comes next, if nothing better arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub at: u64,
    pub order: u64,
    pub what: What,
}

/// Which command it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Slot {
        list: u8,
        index: u16,
    },
    Refresh {
        rank: u16,
    },
    /// The second half of an activate.
    Second,
    Nothing,
}

impl<O: Observer> Channel<O> {
    /// The tick of the next command.
    #[inline]
    pub(super) fn planned(&mut self) -> u64 {
        if let Some(plan) = self.plan {
            return plan.at;
        }
        let plan = self.choose();
        self.plan = Some(plan);
        plan.at
    }

    fn choose(&mut self) -> Plan {
        let mut plan = Plan {
            at: NEVER,
            order: u64::MAX,
            what: What::Nothing,
        };
        for list in 0..LISTS {
            if self.lists[list].slots.is_empty() {
                continue;
            }
            let best = self.best(list);
            if (best.at, best.order) < (plan.at, plan.order) {
                plan = Plan {
                    at: best.at,
                    order: best.order,
                    what: What::Slot {
                        list: list as u8,
                        index: best.index,
                    },
                };
            }
        }
        if self.pending > 0 {
            self.choose_refresh(&mut plan);
        }
        if let Some((_, until)) = self.second {
            self.choose_second(until, &mut plan);
        }
        plan
    }

    /// The first of a list that is not empty. What was found stays true until a candidate or a
    /// gate changes, or until others become as ready as it.
    #[inline]
    fn best(&mut self, list: usize) -> Best {
        let floor = self.floor_of(list);
        match self.lists[list].best {
            Some(best) if best.at >= floor => best,
            _ => {
                let best = self.scan(list, floor);
                self.lists[list].best = Some(best);
                best
            }
        }
    }

    /// The second half of an activate takes a tick that nothing else wants, but goes before
    /// another activate and before it is too late; an access may take two ticks.
    fn choose_second(&self, until: u64, best: &mut Plan) {
        let at = self.bus[0].max(self.floor);
        let activate = match best.what {
            What::Slot { list, .. } => usize::from(list) == ACTIVATES,
            _ => false,
        };
        if at < best.at || activate || at + 1 >= until {
            *best = Plan {
                at,
                order: if at + 1 >= until || activate {
                    0
                } else {
                    u64::MAX
                },
                what: What::Second,
            };
        }
    }

    /// The list of each bank that is served now.
    #[inline]
    pub(super) fn current(&self) -> usize {
        usize::from(self.draining)
    }

    fn scan(&self, list: usize, floor: u64) -> Best {
        let turns = self.config.bank_queue.is_some();
        let mut best = Best {
            at: NEVER,
            order: u64::MAX,
            index: 0,
        };
        let gates = &self.gates[..];
        for (index, slot) in self.lists[list].slots.iter().enumerate() {
            let at = slot.ready.max(gates[usize::from(slot.gate)]).max(floor);
            if at > best.at {
                continue;
            }
            let order = if turns {
                self.order_of(slot)
            } else {
                slot.order
            };
            if at < best.at || order < best.order {
                best = Best {
                    at,
                    order,
                    index: index as u16,
                };
            }
        }
        best
    }

    /// From when on the commands of a list may be sent.
    #[inline]
    fn floor_of(&self, list: usize) -> u64 {
        self.bus[usize::from(list <= OPENED)].max(self.floor)
    }

    /// The gates of a list have changed.
    #[inline]
    pub(super) fn reconsider(&mut self, kind: u8) {
        if kind < ACTIVATE {
            self.lists[QUEUED].best = None;
            self.lists[OPENED].best = None;
        } else {
            self.lists[usize::from(kind)].best = None;
        }
    }

    /// The banks' turns have changed.
    pub(super) fn reconsider_all(&mut self) {
        for list in &mut self.lists {
            list.best = None;
        }
    }

    /// Oldest first; with queues for the banks, the banks in turn and the oldest of each first.
    #[inline]
    fn order_of(&self, slot: &Slot) -> u64 {
        if self.config.bank_queue.is_none() || slot.order & IDLE != 0 {
            return slot.order;
        }
        let count = self.banks.len();
        let mut turn = usize::from(slot.bank) + count - self.round_robin - 1;
        if turn >= count {
            turn -= count;
        }
        (turn as u64) << 48 | (slot.order & ((1 << 48) - 1)) | LATER
    }

    /// A tick before which no queue gets room, if nothing arrives.
    pub(super) fn room(&self) -> u64 {
        let gaps = &self.config.gaps;
        let plan = self.plan.map_or(NEVER, |plan| plan.at);
        if self.pending > 0 || self.second.is_some() {
            return plan.min(self.next_move);
        }
        // With a queue for each bank, an access makes room; otherwise an activate does, too.
        let (activate, precharge) = match self.config.bank_queue {
            Some(_) => (gaps.act_rd.min(gaps.act_wr), gaps.pre_act),
            None => (0, gaps.pre_act),
        };
        // After the access of a request whose row was opened, its bank can be closed and opened.
        let reopened = gaps.rd_pre.min(gaps.wr_pre) + gaps.pre_act + activate;
        let after = [0, reopened, activate, activate + precharge];
        let lists = self.lists.iter().zip(after);
        let first = lists
            .filter_map(|(list, after)| Some(list.best?.at + after))
            .min();
        // Requests that wait for a refresh become candidates when it is sent.
        first
            .unwrap_or(plan)
            .max(plan)
            .min(self.next_move)
            .min(self.next_due.max(plan))
    }

    fn choose_refresh(&self, best: &mut Plan) {
        let order = match self.config.bank_queue {
            Some(_) => 0,
            None => REFRESH,
        };
        for rank in 0..self.ranks.len() {
            if !self.ranks[rank].refresh.pending {
                continue;
            }
            let at = self.refresh_step(rank).0.max(self.bus[0]).max(self.floor);
            if (at, order) < (best.at, best.order) {
                *best = Plan {
                    at,
                    order,
                    what: What::Refresh { rank: rank as u16 },
                };
            }
        }
    }

    /// Finds the candidates of a bank again: its state or its requests have changed.
    #[inline]
    pub(super) fn propose_all(&mut self, bank: usize) {
        self.propose(bank);
        if self.config.page.idle > 0 {
            self.propose_idle(bank);
        }
    }

    /// Requests are taken from the other queue from now on.
    pub(super) fn turn(&mut self) {
        self.draining = !self.draining;
        self.plan = None;
        for list in [QUEUED, ACTIVATES, PRECHARGES] {
            // Precharges of idle rows stay.
            let mut index = 0;
            while let Some(slot) = self.lists[list].slots.get(index) {
                if slot.entry == NIL {
                    index += 1;
                } else {
                    self.take_away(list, slot.cell as usize, slot.bank as usize);
                }
            }
        }
        let list = self.current();
        for word in 0..self.occupied[list].len() {
            let mut bits = self.occupied[list][word];
            while bits != 0 {
                self.propose(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Finds the candidates of the requests that a bank has in the queue that is served now.
    pub(super) fn propose(&mut self, index: usize) {
        let list = self.current();
        let bank = &self.banks[index];
        let head = bank.head[list];
        let mut found = [NIL; 4];
        if head != NIL && !bank.blocked {
            if bank.row == CLOSED {
                found[CELL_ACTIVATE] = head;
            } else {
                self.find_hits(bank, head, &mut found);
                if self.entries[head as usize].row != bank.row && bank.active == NIL {
                    let hits = found[0] != NIL || found[1] != NIL;
                    if !hits || bank.hits >= self.config.yield_after.min(self.config.hit_cap) {
                        found[CELL_PRECHARGE] = head;
                    }
                    if bank.hits >= self.config.hit_cap {
                        (found[0], found[1]) = (NIL, NIL);
                    }
                }
            }
        }
        let (gate, place) = (bank.gate, bank.place);
        let ready = [bank.next_rd, bank.next_wr, bank.next_act, bank.next_pre];
        for cell in 0..4 {
            let list = [QUEUED, QUEUED, ACTIVATES, PRECHARGES][cell];
            if found[cell] != NIL {
                self.put(
                    list,
                    cell,
                    index,
                    found[cell],
                    cell as u8,
                    ready[cell],
                    gate,
                );
            } else if place[cell] != NIL {
                self.take_away(list, cell, index);
            }
        }
    }

    /// The oldest read and the oldest write of a bank's open row.
    #[inline]
    fn find_hits(&self, bank: &Bank, head: u16, found: &mut [u16; 4]) {
        let both = self.config.bank_queue.is_some();
        let mut next = head;
        while next != NIL {
            let entry = &self.entries[next as usize];
            if entry.row == bank.row {
                let cell = usize::from(entry.write);
                if found[cell] == NIL {
                    found[cell] = next;
                }
                if !both || (found[0] != NIL && found[1] != NIL) {
                    break;
                }
            }
            next = entry.next;
        }
    }

    /// The access for which a bank's row was opened.
    pub(super) fn propose_opened(&mut self, index: usize) {
        let bank = &self.banks[index];
        let (number, gate) = (bank.active, bank.gate);
        if number == NIL {
            if bank.place[CELL_OPENED] != NIL {
                self.take_away(OPENED, CELL_OPENED, index);
            }
            return;
        }
        let (kind, ready) = match self.entries[number as usize].write {
            false => (READ, bank.next_rd),
            true => (READ + 1, bank.next_wr),
        };
        self.put(OPENED, CELL_OPENED, index, number, kind, ready, gate);
    }

    /// The precharge of a row that was idle for too long; an access in a queue saves it.
    pub(super) fn propose_idle(&mut self, index: usize) {
        let bank = &self.banks[index];
        let keep = bank.row == CLOSED || bank.active != NIL || self.is_wanted(index);
        if keep {
            self.banks[index].closing = false;
        }
        let bank = &self.banks[index];
        if bank.closing && !bank.blocked {
            let (ready, gate) = (bank.next_pre, bank.gate);
            self.put(PRECHARGES, CELL_IDLE, index, NIL, PRECHARGE, ready, gate);
        } else if bank.place[CELL_IDLE] != NIL {
            self.take_away(PRECHARGES, CELL_IDLE, index);
        }
    }

    /// Whether a queued request hits a bank's open row.
    pub(super) fn is_wanted(&self, index: usize) -> bool {
        let bank = &self.banks[index];
        bank.head.into_iter().any(|head| {
            let mut found = [NIL; 4];
            self.find_hits(bank, head, &mut found);
            found != [NIL; 4]
        })
    }

    /// Sets or replaces a candidate of a bank.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn put(
        &mut self,
        list: usize,
        cell: usize,
        bank: usize,
        entry: u16,
        kind: u8,
        ready: u64,
        gate: u16,
    ) {
        let order = match (entry, list) {
            (NIL, _) => IDLE,
            (_, OPENED) => self.entries[entry as usize].order,
            _ => self.entries[entry as usize].order | LATER,
        };
        let slot = Slot {
            ready,
            order,
            gate: u16::from(kind) * self.config.gates() as u16 + gate,
            bank: bank as u16,
            entry,
            kind,
            cell: cell as u8,
        };
        self.plan = None;
        let here = self.banks[bank].place[cell];
        let index = if here == NIL {
            let index = self.lists[list].slots.len() as u16;
            self.banks[bank].place[cell] = index;
            self.lists[list].slots.push(slot);
            index
        } else {
            self.lists[list].slots[here as usize] = slot;
            here
        };
        let Some(best) = self.lists[list].best else {
            return;
        };
        if best.index == index {
            // What replaces a candidate may come later than what it replaces.
            self.lists[list].best = None;
            return;
        }
        let at = slot.ready.max(self.gates[usize::from(slot.gate)]);
        let at = at.max(self.floor_of(list));
        let order = self.order_of(&slot);
        if (at, order) < (best.at, best.order) {
            self.lists[list].best = Some(Best { at, order, index });
        }
    }

    fn take_away(&mut self, list: usize, cell: usize, bank: usize) {
        let here = self.banks[bank].place[cell];
        self.banks[bank].place[cell] = NIL;
        let List { slots, best } = &mut self.lists[list];
        slots.swap_remove(here as usize);
        if let Some(moved) = slots.get(here as usize) {
            self.banks[moved.bank as usize].place[moved.cell as usize] = here;
        }
        if let Some(first) = best {
            if first.index == here {
                *best = None;
            } else if usize::from(first.index) == slots.len() {
                first.index = here;
            }
        }
        self.plan = None;
    }
}
