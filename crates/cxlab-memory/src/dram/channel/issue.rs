//! Sending commands, and their consequences.

use super::super::observer::{CommandKind, CommandObserver};
use super::super::outstanding::OutstandingRequests;
use super::candidates::{ACTIVATE, OPENED, PRECHARGE, READ};
use super::choice::CommandChoice;
use super::queues::RowOutcome;
use super::{CLOSED, Channel, NIL};

impl<O: CommandObserver> Channel<O> {
    /// Sends the planned command.
    pub(super) fn issue(&mut self, outstanding: &mut OutstandingRequests) {
        let Some(at) = self.plan.take() else {
            unreachable!("a command is planned before it is sent")
        };
        if std::mem::take(&mut self.second.is_next) {
            self.floor = self.floor.max(at);
            self.activate_second(at);
            return;
        }
        let choice = self.choose(at).choice;
        // Commands of one tick on two buses are decided one after the other, never earlier than `floor`.
        self.floor = self.floor.max(at);
        match choice {
            CommandChoice::Nothing => unreachable!("nothing is never sent"),
            CommandChoice::Refresh { rank } => self.issue_refresh(rank as usize, at),
            CommandChoice::Candidate { list, index } => {
                let candidate = self.lists[list as usize].candidates[index as usize];
                let bank = candidate.bank as usize;
                if self.config.queue.is_some() {
                    self.moves.round_robin = self.config.queue_of(bank);
                }
                match candidate.kind {
                    ACTIVATE => self.activate(bank, candidate.entry, at, outstanding),
                    kind if kind < ACTIVATE => {
                        self.access(bank, candidate.entry, list as usize, at, outstanding);
                    }
                    _ => self.precharge(bank, candidate.entry, at),
                }
            }
        }
    }

    #[inline]
    fn occupy(&mut self, column: bool, until: u64) {
        if self.config.dual {
            self.bus.free[usize::from(column)] = until;
        } else {
            self.bus.free = [until; 2];
        }
    }

    fn activate(
        &mut self,
        index: usize,
        number: u16,
        at: u64,
        outstanding: &mut OutstandingRequests,
    ) {
        self.occupy(false, at + self.config.gaps.ticks.act);
        self.counters.activates += 1;
        let entry = &mut self.entries[number as usize];
        if entry.opening == RowOutcome::Hit {
            entry.opening = RowOutcome::Miss;
        }
        let (row, column, write) = (entry.row, entry.column, entry.write);
        let gaps = &self.config.gaps;
        let bank = &mut self.banks[index];
        bank.row = row;
        bank.hits = 0;
        bank.next_rd = at + gaps.act.rd;
        bank.next_wr = at + gaps.act.wr;
        bank.next_pre = at + gaps.act.pre;
        bank.next_act = at + gaps.act.act;
        let (rank, gate) = (bank.rank as usize, bank.gate as usize);
        let unit = &mut self.ranks[rank];
        unit.window[unit.oldest] = at + gaps.faw;
        unit.oldest = (unit.oldest + 1) & 3;
        if unit.open == 0 {
            unit.open_since = at;
        }
        unit.open += 1;
        unit.next_fine = unit.next_fine.max(at + gaps.act.ref_other);
        let window = unit.window[unit.oldest];
        let (same, second_within) = (at + gaps.act.act_l, gaps.ticks.second_within);
        self.raise_activate(rank, window.max(at + gaps.act.act_s));
        let own = &mut self.gates[2 * self.config.ranks * self.config.groups + gate];
        *own = (*own).max(same);
        self.report(CommandKind::Activate, index, row, column, at);
        if self.config.rfm > 0 {
            self.count_activate(index);
        }
        if second_within > 0 {
            self.second.owed = Some((index as u16, at + second_within));
        }
        if self.config.queue.is_none() {
            self.leave_bank(number, usize::from(write));
            self.waiting[usize::from(write)] -= 1;
            self.banks[index].active = number;
            self.propose_opened(index);
            self.refill(at, outstanding);
            self.choose_direction();
        }
        self.propose_all(index);
        self.plan = None;
    }

    fn activate_second(&mut self, at: u64) {
        self.occupy(false, at + self.config.gaps.ticks.act);
        if let Some((bank, _)) = self.second.owed.take() {
            let row = self.banks[bank as usize].row;
            self.report(CommandKind::ActivateSecond, bank as usize, row, 0, at);
        }
        self.plan = None;
    }

    /// Forbids activates in the rank before `tick`.
    #[inline]
    pub(super) fn raise_activate(&mut self, rank: usize, tick: u64) {
        let groups = self.config.groups;
        let first = 2 * self.config.gates() + rank * groups;
        for gate in &mut self.gates[first..first + groups] {
            *gate = (*gate).max(tick);
        }
        self.reconsider(ACTIVATE);
    }

    fn precharge(&mut self, index: usize, number: u16, at: u64) {
        self.occupy(false, at + self.config.gaps.ticks.row);
        if number != NIL {
            self.entries[number as usize].opening = RowOutcome::Conflict;
        }
        self.report(CommandKind::Precharge, index, 0, 0, at);
        self.close(index, at, at + self.config.gaps.pre_act);
        self.after_precharge(self.banks[index].rank as usize, at);
        self.plan = None;
    }

    /// Closes a bank's row at `at`; it can be opened again at `next`.
    pub(super) fn close(&mut self, index: usize, at: u64, next: u64) {
        self.counters.precharges += 1;
        let bank = &mut self.banks[index];
        bank.row = CLOSED;
        bank.closing = false;
        bank.next_act = bank.next_act.max(next);
        let rank = &mut self.ranks[bank.rank as usize];
        rank.open -= 1;
        if rank.open == 0 {
            self.counters.open += at.saturating_sub(rank.open_since);
        }
        self.propose_all(index);
    }

    /// Delays the next precharge of the rank by tPPD.
    pub(super) fn after_precharge(&mut self, rank: usize, at: u64) {
        let next = at + self.config.gaps.pre_pre;
        if self.config.gaps.pre_pre > 1 {
            let groups = self.config.groups;
            let first = 3 * self.config.gates() + rank * groups;
            for gate in &mut self.gates[first..first + groups] {
                *gate = (*gate).max(next);
            }
            self.reconsider(PRECHARGE);
        }
    }

    fn access(
        &mut self,
        index: usize,
        number: u16,
        list: usize,
        at: u64,
        outstanding: &mut OutstandingRequests,
    ) {
        let entry = self.entries[number as usize];
        let mut at = at;
        let wck_post = self.config.gaps.wck_post;
        if wck_post > 0 && at >= self.bus.wck_until {
            self.report(CommandKind::Cas, index, 0, 0, at);
            at += self.config.gaps.ticks.cas;
        }
        self.occupy(true, at + self.config.gaps.ticks.col);
        let gaps = &self.config.gaps;
        self.counters.busy += gaps.burst;
        match entry.opening {
            RowOutcome::Hit => self.counters.hits += 1,
            RowOutcome::Miss => self.counters.misses += 1,
            RowOutcome::Conflict => self.counters.conflicts += 1,
        }
        let bank = &mut self.banks[index];
        bank.hits += 1;
        bank.touched = at;
        let (done, precharge) = if entry.write {
            self.counters.writes += 1;
            (at + gaps.write_done, at + gaps.wr.pre)
        } else {
            self.counters.reads += 1;
            (at + gaps.read_done, at + gaps.rd.pre)
        };
        bank.next_pre = bank.next_pre.max(precharge);
        if wck_post > 0 {
            self.bus.wck_until = self.bus.wck_until.max(done + wck_post);
        }
        let (rank, gate) = (bank.rank as usize, bank.gate as usize);
        self.raise_columns(rank, gate, at, entry.write);

        // The request leaves the channel.
        if !entry.write || self.config.written {
            outstanding.done(entry.request, self.config.time(done));
        }
        if list == OPENED {
            self.banks[index].active = NIL;
            self.propose_opened(index);
        } else {
            self.leave_bank(number, self.current());
            if self.config.queue.is_none() {
                self.waiting[usize::from(entry.write)] -= 1;
            } else {
                self.leave_queue(index);
                self.moves.next = self.moves.next.min(at.max(self.moves.last + 1));
            }
        }
        self.release(number);

        let automatic = self.closes(index);
        let kind = match (entry.write, automatic) {
            (false, false) => CommandKind::Read,
            (false, true) => CommandKind::ReadPrecharge,
            (true, false) => CommandKind::Write,
            (true, true) => CommandKind::WritePrecharge,
        };
        self.report(kind, index, entry.row, entry.column, at);
        if automatic {
            let start = self.banks[index].next_pre;
            self.close(index, start, start + self.config.gaps.pre_act);
        } else {
            if self.config.page.idle > 0 {
                self.idle
                    .push_back((at + self.config.page.idle, index as u16));
            }
            self.propose_all(index);
        }
        self.refill(at, outstanding);
        if self.config.queue.is_none() {
            self.choose_direction();
        }
        self.plan = None;
    }

    /// Whether the access just sent closes its row.
    fn closes(&self, index: usize) -> bool {
        let page = &self.config.page;
        let bank = &self.banks[index];
        if bank.active != NIL {
            return false;
        }
        if bank.hits >= page.hits {
            return true;
        }
        page.auto && !self.is_wanted(index)
    }

    /// Raises the gates after an access at `at`: for the same bank group, the same rank, and other
    /// ranks on the same data bus.
    #[inline]
    fn raise_columns(&mut self, rank: usize, own: usize, at: u64, write: bool) {
        let gaps = &self.config.gaps;
        // Distances to a read and to a write.
        let (group, same, other) = if write {
            (
                [gaps.wr.rd_l, gaps.wr.wr_l],
                [gaps.wr.rd_s, gaps.wr.wr_s],
                [gaps.wr.rd_rank, gaps.wr.wr_rank],
            )
        } else {
            (
                [gaps.rd.rd_l, gaps.rd.wr_l],
                [gaps.rd.rd_s, gaps.rd.wr],
                [gaps.rd.rd_rank, gaps.rd.wr_rank],
            )
        };
        let (groups, all) = (self.config.groups, self.config.gates());
        let per_bus = self.config.ranks / self.config.pseudo_channels;
        let first = rank / per_bus * per_bus;
        for kind in [READ as usize, READ as usize + 1] {
            for one in first..first + per_bus {
                let next = at + if one == rank { same[kind] } else { other[kind] };
                let from = kind * all + one * groups;
                for gate in &mut self.gates[from..from + groups] {
                    *gate = (*gate).max(next);
                }
            }
            let gate = &mut self.gates[kind * all + own];
            *gate = (*gate).max(at + group[kind]);
        }
        if !write && self.config.stacks > 1 {
            self.raise_other_stacks(rank, own, at);
        }
        self.reconsider(READ);
    }

    /// Raises the gates of other stack IDs of the rank for reads after a read.
    fn raise_other_stacks(&mut self, rank: usize, own: usize, at: u64) {
        let first = rank * self.config.groups;
        let length = self.config.groups / self.config.stacks;
        let stack = (own - first) / length;
        let next = at + self.config.gaps.rd.rd_stack;
        let gates = &mut self.gates[first..first + self.config.groups];
        for (group, gate) in gates.iter_mut().enumerate() {
            if group / length != stack {
                *gate = (*gate).max(next);
            }
        }
    }

    /// Marks the row with the oldest access for closing, unless it was accessed again.
    pub(super) fn close_idle(&mut self) {
        let Some((tick, index)) = self.idle.pop_front() else {
            return;
        };
        let index = index as usize;
        let bank = &mut self.banks[index];
        if bank.row != CLOSED && bank.touched + self.config.page.idle == tick {
            bank.closing = true;
            self.floor = self.floor.max(tick);
            self.propose_idle(index);
        }
    }
}
