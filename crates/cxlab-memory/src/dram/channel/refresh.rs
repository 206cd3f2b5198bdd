//! Refresh: a refresh of each rank is due at regular times, and is sent as soon as its banks allow.
//! Banks that wait for a refresh take no new requests, but an access for which a row was just
//! opened still goes first. Refreshes are not postponed or pulled in. Refresh management (RFM) is
//! due when a bank was activated often enough, and is handled in the same way.

use serde::{Deserialize, Serialize};

use super::super::observer::{CommandKind, CommandObserver};
use super::{CLOSED, Channel, Config, NEVER, NIL, Refresh};

/// The refresh state of a rank.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct RefreshUnit {
    pub due: u64,
    pub pending: bool,
    /// The bank that comes next, if banks are refreshed one by one.
    cursor: usize,
    /// The bank for which refresh management is pending; `None` if a refresh is.
    managed: Option<usize>,
    /// The next command that a pending refresh needs, and the tick at which its banks allow it.
    pub step: (u64, CommandKind),
}

impl RefreshUnit {
    pub(super) fn new(config: &Config, rank: usize) -> RefreshUnit {
        let interval = interval(config);
        let due = match config.refresh {
            Refresh::Off => NEVER,
            _ if config.stagger => interval * (rank as u64 + 1) / config.ranks as u64,
            _ => interval,
        };
        RefreshUnit {
            due: due.max(1),
            pending: false,
            cursor: 0,
            managed: None,
            step: (NEVER, CommandKind::RefreshAll),
        }
    }
}

/// Number of refreshes of a rank until each of its rows was refreshed once.
fn round(config: &Config) -> u64 {
    match config.refresh {
        Refresh::Off | Refresh::AllBank => 1,
        Refresh::PerBank => config.rank_banks() as u64,
        // Same-bank refresh belongs to fine granularity: each bank twice in tREFI.
        Refresh::SameBank => 2 * config.banks as u64,
    }
}

fn interval(config: &Config) -> u64 {
    (config.gaps.refi / round(config)).max(1)
}

impl<O: CommandObserver> Channel<O> {
    pub(super) fn first_due(&self) -> u64 {
        let due = |rank: &super::Rank| match rank.refresh.pending {
            true => NEVER,
            false => rank.refresh.due,
        };
        self.ranks.iter().map(due).min().unwrap_or(NEVER)
    }

    /// Starts a refresh that is due: its banks take no more requests.
    pub(super) fn refresh_due(&mut self, until: u64) {
        let now = self.refreshes.next_due;
        if !O::ON && self.live.all == 0 && self.skip_idle(until) {
            return;
        }
        self.floor = self.floor.max(now);
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].refresh.due == now && !self.ranks[rank].refresh.pending {
                self.ranks[rank].refresh.pending = true;
                self.refreshes.pending += 1;
                self.block(rank, true);
            }
        }
        self.plan = None;
        self.refreshes.next_due = self.first_due();
    }

    /// Skips rounds of refreshes while the channel is idle: all but two are only counted.
    fn skip_idle(&mut self, until: u64) -> bool {
        let quiet = self.refreshes.pending == 0 && self.ranks.iter().all(|rank| rank.open == 0);
        let per_round = round(&self.config);
        let length = interval(&self.config) * per_round;
        let rounds = (until.saturating_sub(self.refreshes.next_due) / length).saturating_sub(2);
        if !quiet || rounds == 0 {
            return false;
        }
        for rank in &mut self.ranks {
            rank.refresh.due += rounds * length;
        }
        let count = rounds * per_round * self.ranks.len() as u64;
        match self.config.refresh {
            Refresh::AllBank => self.counters.refreshes += count,
            _ => self.counters.fine_refreshes += count,
        }
        self.refreshes.next_due = self.first_due();
        true
    }

    /// The banks of a rank's next refresh: first bank, distance and number.
    fn affected(&self, rank: usize) -> (usize, usize, usize) {
        let config = &self.config;
        let first = rank * config.rank_banks();
        let unit = &self.ranks[rank].refresh;
        let cursor = unit.managed.unwrap_or(unit.cursor);
        match config.refresh {
            Refresh::Off | Refresh::AllBank => (first, 1, config.rank_banks()),
            // Consecutive refreshes go to banks of different groups.
            Refresh::PerBank => {
                let bank = cursor % config.groups * config.banks + cursor / config.groups;
                (first + bank, 1, 1)
            }
            Refresh::SameBank => (first + cursor, config.banks, config.groups),
        }
    }

    fn block(&mut self, rank: usize, blocked: bool) {
        let (first, distance, count) = self.affected(rank);
        let list = self.current();
        for index in (first..).step_by(distance).take(count) {
            self.banks[index].blocked = blocked;
            if self.banks[index].head[list] != NIL {
                self.propose(index);
            }
            if self.config.page.idle > 0 {
                self.propose_idle(index);
            }
        }
    }

    /// The next command that a pending refresh needs, and the tick at which its banks allow it.
    pub(super) fn refresh_step(&self, rank: usize) -> (u64, CommandKind) {
        let (first, distance, count) = self.affected(rank);
        let (mut open, mut precharge, mut ready) = (false, 0, 0);
        for bank in self.banks[first..].iter().step_by(distance).take(count) {
            if bank.active != NIL {
                return (NEVER, CommandKind::RefreshAll);
            }
            // A row that is closed by an access counts as open until then.
            precharge = precharge.max(bank.next_pre);
            ready = ready.max(bank.next_act);
            open |= bank.row != CLOSED;
        }
        if open {
            let gate = 3 * self.config.gates() + rank * self.config.groups;
            let kind = match self.config.refresh {
                Refresh::PerBank => CommandKind::Precharge,
                Refresh::SameBank => CommandKind::PrechargeSame,
                _ => CommandKind::PrechargeAll,
            };
            return (precharge.max(self.gates[gate]), kind);
        }
        let ready = ready + self.config.gaps.ref_after_act;
        let managed = self.ranks[rank].refresh.managed.is_some();
        let (of_all, of_bank, of_same) = match managed {
            true => (
                CommandKind::ManageAll,
                CommandKind::ManageBank,
                CommandKind::ManageSame,
            ),
            false => (
                CommandKind::RefreshAll,
                CommandKind::RefreshBank,
                CommandKind::RefreshSame,
            ),
        };
        match self.config.refresh {
            Refresh::PerBank => (ready.max(self.ranks[rank].next_fine), of_bank),
            Refresh::SameBank => (ready.max(self.ranks[rank].next_fine), of_same),
            _ => (ready, of_all),
        }
    }

    /// Counts an activate of a bank, and starts refresh management after enough of them.
    pub(super) fn count_activate(&mut self, index: usize) {
        let bank = &mut self.banks[index];
        bank.activates += 1;
        let rank = usize::from(bank.rank);
        if bank.activates >= self.config.rfm && !self.ranks[rank].refresh.pending {
            self.manage(rank, index);
        }
    }

    fn manage(&mut self, rank: usize, index: usize) {
        let within = index % self.config.rank_banks();
        let (group, bank) = (within / self.config.banks, within % self.config.banks);
        let unit = &mut self.ranks[rank].refresh;
        unit.pending = true;
        unit.managed = Some(match self.config.refresh {
            Refresh::PerBank => bank * self.config.groups + group,
            _ => bank,
        });
        self.refreshes.pending += 1;
        self.block(rank, true);
        self.plan = None;
    }

    /// Sends the next command of a pending refresh.
    pub(super) fn issue_refresh(&mut self, rank: usize, at: u64) {
        let kind = self.ranks[rank].refresh.step.1;
        let (first, distance, count) = self.affected(rank);
        let gaps = self.config.gaps;
        self.bus.free[0] = at + gaps.ticks.row;
        if !self.config.dual {
            self.bus.free[1] = self.bus.free[0];
        }
        self.report(kind, first, 0, 0, at);
        let affected = (first..).step_by(distance).take(count);
        if matches!(
            kind,
            CommandKind::Precharge | CommandKind::PrechargeSame | CommandKind::PrechargeAll
        ) {
            let next = match kind {
                CommandKind::Precharge => gaps.pre_act,
                _ => gaps.pre_all_act,
            };
            for index in affected {
                if self.banks[index].row != CLOSED {
                    self.close(index, at, at + next);
                }
            }
            self.after_precharge(rank, at);
            self.plan = None;
            return;
        }
        let managed = self.ranks[rank].refresh.managed.is_some();
        let all = matches!(kind, CommandKind::RefreshAll | CommandKind::ManageAll);
        let (same, other) = match all {
            true => (gaps.refresh.act, 0),
            false => (gaps.refresh.same_act, gaps.refresh.other_act),
        };
        for index in affected {
            let bank = &mut self.banks[index];
            bank.next_act = bank.next_act.max(at + same);
            bank.activates = bank.activates.saturating_sub(self.config.rfm);
        }
        match (managed, all) {
            (true, _) => self.counters.managements += 1,
            (false, true) => self.counters.refreshes += 1,
            (false, false) => self.counters.fine_refreshes += 1,
        }
        if !all {
            self.ranks[rank].next_fine = at + gaps.refresh.pbr;
            self.raise_activate(rank, at + other);
        }
        self.block(rank, false);
        let (interval, banks) = (interval(&self.config), self.config.rank_banks());
        let unit = &mut self.ranks[rank].refresh;
        unit.pending = false;
        if unit.managed.take().is_none() {
            unit.due += interval;
            unit.cursor = match self.config.refresh {
                Refresh::PerBank => (unit.cursor + 1) % banks,
                Refresh::SameBank => (unit.cursor + 1) % self.config.banks,
                _ => 0,
            };
        }
        self.refreshes.pending -= 1;
        self.refreshes.next_due = self.first_due();
        self.plan = None;
        if self.config.rfm > 0 {
            self.manage_next(rank);
        }
    }

    /// Starts refresh management of a bank that was activated often enough while another command was pending.
    fn manage_next(&mut self, rank: usize) {
        let first = rank * self.config.rank_banks();
        let banks = &self.banks[first..first + self.config.rank_banks()];
        let next = banks
            .iter()
            .position(|bank| bank.activates >= self.config.rfm);
        if let Some(within) = next {
            self.manage(rank, first + within);
        }
    }
}
