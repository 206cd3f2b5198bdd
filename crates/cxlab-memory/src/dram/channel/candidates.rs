//! Commands that could come next, and the choice among them.

use super::super::observer::Observer;
use super::{CLOSED, Channel, NEVER, NIL};

/// The candidates of requests whose row was opened for them.
pub(super) const OPENED: usize = 2;

/// Kinds of commands, and so of gates. Writes are 1.
pub(super) const READ: u8 = 0;
pub(super) const ACTIVATE: u8 = 2;
pub(super) const PRECHARGE: u8 = 3;

/// The cell of a bank's row command; those of its accesses are 0 for reads and 1 for writes.
pub(super) const ROW: usize = 2;

/// Requests in the queues come after those whose row was opened for them.
const QUEUED: u64 = 1 << 62;
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
    pub gate: u32,
    pub bank: u16,
    pub entry: u16,
    pub kind: u8,
    pub cell: u8,
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

    fn choose(&self) -> Plan {
        let mut best = Plan {
            at: NEVER,
            order: u64::MAX,
            what: What::Nothing,
        };
        self.scan(OPENED, &mut best);
        self.scan(self.current(), &mut best);
        if self.pending > 0 {
            self.choose_refresh(&mut best);
        }
        if let Some((_, until)) = self.second {
            self.choose_second(until, &mut best);
        }
        best
    }

    /// The second half of an activate takes a tick that nothing else wants, but goes before
    /// another activate and before it is too late; an access may take two ticks.
    fn choose_second(&self, until: u64, best: &mut Plan) {
        let at = self.bus[0].max(self.floor);
        let activate = match best.what {
            What::Slot { list, index } => {
                self.slots[list as usize][index as usize].kind == ACTIVATE
            }
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

    /// The list from which requests in the queues are taken now.
    #[inline]
    fn current(&self) -> usize {
        usize::from(self.draining)
    }

    #[inline]
    fn scan(&self, list: usize, best: &mut Plan) {
        for (index, slot) in self.slots[list].iter().enumerate() {
            let at = self.earliest(slot);
            if at <= best.at {
                let order = self.order_of(slot);
                if at < best.at || order < best.order {
                    *best = Plan {
                        at,
                        order,
                        what: What::Slot {
                            list: list as u8,
                            index: index as u16,
                        },
                    };
                }
            }
        }
    }

    #[inline]
    fn earliest(&self, slot: &Slot) -> u64 {
        let bus = self.bus[usize::from(slot.kind < ACTIVATE)].max(self.floor);
        slot.ready.max(self.gates[slot.gate as usize]).max(bus)
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
        (turn as u64) << 48 | (slot.order & ((1 << 48) - 1)) | QUEUED
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
        for list in 0..2 {
            if self.banks[bank].head[list] != NIL || self.banks[bank].place[list] != [NIL; 3] {
                self.propose(bank, list);
            }
        }
        if self.config.page.idle > 0 {
            self.propose_idle(bank);
        }
    }

    /// Finds the candidates of the requests in one of a bank's lists.
    pub(super) fn propose(&mut self, index: usize, list: usize) {
        let bank = &self.banks[index];
        let head = bank.head[list];
        let mut found = [NIL; 3];
        let mut kind = PRECHARGE;
        if head != NIL && !bank.blocked {
            if bank.row == CLOSED {
                found[ROW] = head;
                kind = ACTIVATE;
            } else {
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
                let hits = found[0] != NIL || found[1] != NIL;
                if self.entries[head as usize].row != bank.row && bank.active == NIL {
                    if !hits || bank.hits >= self.config.yield_after.min(self.config.hit_cap) {
                        found[ROW] = head;
                    }
                    if bank.hits >= self.config.hit_cap {
                        (found[0], found[1]) = (NIL, NIL);
                    }
                }
            }
        }
        let (gate, ready) = (bank.gate, [bank.next_rd, bank.next_wr]);
        let row_ready = match kind {
            ACTIVATE => bank.next_act,
            _ => bank.next_pre,
        };
        for cell in 0..2 {
            self.put(
                list,
                cell,
                index,
                found[cell],
                cell as u8,
                ready[cell],
                gate,
            );
        }
        self.put(list, ROW, index, found[ROW], kind, row_ready, gate);
    }

    /// The access for which a bank's row was opened.
    pub(super) fn propose_opened(&mut self, index: usize) {
        let bank = &self.banks[index];
        let (number, gate, ready) = (bank.active, bank.gate, [bank.next_rd, bank.next_wr]);
        let write = number != NIL && self.entries[number as usize].write;
        for (cell, ready) in ready.into_iter().enumerate() {
            let entry = if cell == usize::from(write) {
                number
            } else {
                NIL
            };
            self.put(OPENED, cell, index, entry, cell as u8, ready, gate);
        }
    }

    /// The precharge of a row that was idle for too long; an access in a queue saves it.
    pub(super) fn propose_idle(&mut self, index: usize) {
        let bank = &mut self.banks[index];
        if bank.row == CLOSED || bank.active != NIL {
            bank.closing = false;
        }
        let wanted = |place: &[u16; 3]| place[0] != NIL || place[1] != NIL;
        if wanted(&bank.place[0]) || wanted(&bank.place[1]) {
            bank.closing = false;
        }
        let close = bank.closing && !bank.blocked;
        let (ready, gate, here) = (bank.next_pre, bank.gate, bank.place[OPENED][ROW]);
        if !close {
            self.put(OPENED, ROW, index, NIL, PRECHARGE, ready, gate);
            return;
        }
        let slot = self.slot(index, NIL, PRECHARGE, ROW, ready, gate, IDLE);
        if here == NIL {
            self.banks[index].place[OPENED][ROW] = self.slots[OPENED].len() as u16;
            self.slots[OPENED].push(slot);
        } else {
            self.slots[OPENED][here as usize] = slot;
        }
        self.plan = None;
    }

    #[allow(clippy::too_many_arguments)]
    fn slot(
        &self,
        bank: usize,
        entry: u16,
        kind: u8,
        cell: usize,
        ready: u64,
        gate: u16,
        order: u64,
    ) -> Slot {
        Slot {
            ready,
            order,
            gate: u32::from(kind) * self.config.gates() as u32 + u32::from(gate),
            bank: bank as u16,
            entry,
            kind,
            cell: cell as u8,
        }
    }

    /// Sets, replaces or (without an entry) removes a candidate of a bank.
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
        let here = self.banks[bank].place[list][cell];
        if entry == NIL {
            if here != NIL {
                self.take_away(list, cell, bank, here);
            }
            return;
        }
        let age = self.entries[entry as usize].order;
        let order = if list == OPENED { age } else { age | QUEUED };
        let slot = self.slot(bank, entry, kind, cell, ready, gate, order);
        if here == NIL {
            let index = self.slots[list].len() as u16;
            self.banks[bank].place[list][cell] = index;
            self.slots[list].push(slot);
            self.compare(list, index);
        } else {
            self.slots[list][here as usize] = slot;
            // What replaces a candidate may come later than what it replaces.
            self.plan = None;
        }
    }

    fn take_away(&mut self, list: usize, cell: usize, bank: usize, here: u16) {
        self.banks[bank].place[list][cell] = NIL;
        self.slots[list].swap_remove(here as usize);
        if let Some(moved) = self.slots[list].get(here as usize) {
            self.banks[moved.bank as usize].place[list][moved.cell as usize] = here;
        }
        self.plan = None;
    }

    /// A new candidate may be better than the plan.
    #[inline]
    fn compare(&mut self, list: usize, index: u16) {
        let Some(plan) = self.plan else { return };
        if list != OPENED && list != self.current() {
            return;
        }
        if self.second.is_some() {
            self.plan = None;
            return;
        }
        let slot = &self.slots[list][index as usize];
        let (at, order) = (self.earliest(slot), self.order_of(slot));
        if (at, order) < (plan.at, plan.order) {
            self.plan = Some(Plan {
                at,
                order,
                what: What::Slot {
                    list: list as u8,
                    index,
                },
            });
        }
    }
}
