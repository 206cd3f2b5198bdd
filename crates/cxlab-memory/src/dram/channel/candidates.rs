//! The candidates for the next command.

use serde::{Deserialize, Serialize};

use super::super::observer::CommandObserver;
use super::{Bank, CLOSED, Channel, NIL};

/// List of the accesses of queued requests.
pub(super) const QUEUED: usize = 0;
/// List of the accesses of requests whose row was opened for them.
pub(super) const OPENED: usize = 1;
/// List of the activates.
pub(super) const ACTIVATES: usize = 2;
/// List of the precharges.
const PRECHARGES: usize = 3;
/// Number of lists of candidates.
pub(super) const LISTS: usize = 4;

/// Kinds of commands, which are also the kinds of gates. Writes are 1.
pub(super) const READ: u8 = 0;
pub(super) const ACTIVATE: u8 = 2;
pub(super) const PRECHARGE: u8 = 3;

/// Cell of `Bank::place` for the activate that the oldest request needs. Cells 0 and 1 are for the
/// oldest queued read and write of the open row.
const CELL_ACTIVATE: usize = 2;
/// Cell of `Bank::place` for the precharge that the oldest request needs.
const CELL_PRECHARGE: usize = 3;
/// Cell of `Bank::place` for the access for which the row was opened.
const CELL_OPENED: usize = 4;
/// Cell of `Bank::place` for the precharge of an idle row.
const CELL_IDLE: usize = 5;
/// Number of cells of a bank.
pub(super) const CELLS: usize = 6;

/// Order of queued requests: after those whose row was opened for them.
pub(super) const LATER: u64 = 1 << 62;
/// Order of precharges of idle rows: last.
pub(super) const IDLE: u64 = 1 << 63;

/// A candidate: a command that a bank could be sent.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Candidate {
    /// The tick at which the bank is ready for the command.
    pub ready: u64,
    /// Priority among the ready candidates; the lowest goes first.
    pub order: u64,
    /// Index of the command's gate.
    pub gate: u16,
    pub bank: u16,
    pub entry: u16,
    pub kind: u8,
    pub cell: u8,
}

impl<O: CommandObserver> Channel<O> {
    /// The list of each bank (reads or writes) that is served now.
    #[inline]
    pub(super) fn current(&self) -> usize {
        usize::from(self.drain.on)
    }

    /// Recomputes the candidates of a bank after a change of its state or its requests.
    #[inline]
    pub(super) fn propose_all(&mut self, bank: usize) {
        self.propose(bank);
        if self.config.page.idle > 0 {
            self.propose_idle(bank);
        }
    }

    /// Switches between serving reads and serving writes.
    pub(super) fn turn(&mut self) {
        self.drain.on = !self.drain.on;
        self.plan = None;
        for list in [QUEUED, ACTIVATES, PRECHARGES] {
            // Precharges of idle rows stay.
            let mut index = 0;
            while let Some(candidate) = self.lists[list].candidates.get(index) {
                if candidate.entry == NIL {
                    index += 1;
                } else {
                    self.take_away(list, candidate.cell as usize, candidate.bank as usize);
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

    /// Recomputes the candidates of a bank's requests in the queue that is served now.
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

    /// Finds the oldest read and the oldest write of a bank's open row.
    #[inline]
    fn find_hits(&self, bank: &Bank, head: u16, found: &mut [u16; 4]) {
        let both = self.config.queue.is_some();
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

    /// Recomputes the candidate for the access for which a bank's row was opened.
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

    /// Recomputes the candidate for the precharge of an idle row. A queued access keeps
    /// the row open.
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

    /// Adds or replaces a candidate of a bank.
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
            (NIL, _) => IDLE | self.banks[bank].touched,
            (_, OPENED) => self.entries[entry as usize].order,
            _ => self.entries[entry as usize].order | LATER,
        };
        let here = self.banks[bank].place[cell];
        if let Some(candidate) = self.lists[list].candidates.get(usize::from(here))
            && (candidate.order, candidate.ready, candidate.kind) == (order, ready, kind)
        {
            return;
        }
        let candidate = Candidate {
            ready,
            order,
            gate: u16::from(kind) * self.config.gates() as u16 + gate,
            bank: bank as u16,
            entry,
            kind,
            cell: cell as u8,
        };
        let at = self.ready_at(&candidate);
        let floor = self.floor_of(list);
        if here == NIL {
            let list = &mut self.lists[list];
            self.banks[bank].place[cell] = list.candidates.len() as u16;
            list.candidates.push(candidate);
            list.add(at);
        } else {
            let list = &mut self.lists[list];
            let before = std::mem::replace(&mut list.candidates[here as usize], candidate);
            let before = before.ready.max(self.gates[usize::from(before.gate)]);
            list.remove(before);
            list.add(at);
            self.plan_without(before.max(floor));
        }
        self.plan_with(at.max(floor));
    }

    fn take_away(&mut self, list: usize, cell: usize, bank: usize) {
        let here = self.banks[bank].place[cell];
        self.banks[bank].place[cell] = NIL;
        let floor = self.floor_of(list);
        let list = &mut self.lists[list];
        let candidate = list.candidates.swap_remove(here as usize);
        let at = candidate.ready.max(self.gates[usize::from(candidate.gate)]);
        list.remove(at);
        if let Some(moved) = list.candidates.get(here as usize) {
            self.banks[moved.bank as usize].place[moved.cell as usize] = here;
        }
        self.plan_without(at.max(floor));
    }
}
