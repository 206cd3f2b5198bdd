//! The choice among the candidates for the next command.

use serde::{Deserialize, Serialize};

use super::super::observer::CommandObserver;
use super::candidates::{ACTIVATE, ACTIVATES, Candidate, IDLE, LATER, LISTS, OPENED, QUEUED};
use super::refresh::RefreshUnit;
use super::{Channel, NEVER};

/// Order of refreshes: between requests whose row was opened for them and queued requests.
const REFRESH: u64 = 1 << 61;

/// The candidates of one kind.
#[derive(Serialize, Deserialize)]
pub(super) struct CandidateList {
    pub candidates: Vec<Candidate>,
    /// A lower bound on the ticks at which candidates' banks and gates are ready. If `known`, it is
    /// either their minimum, or already in the past of the scheduler with a candidate ready.
    first: u64,
    known: bool,
}

impl CandidateList {
    pub(super) fn new(capacity: usize) -> CandidateList {
        CandidateList {
            candidates: Vec::with_capacity(capacity),
            first: NEVER,
            known: true,
        }
    }

    /// A candidate that is ready at `at` was added.
    #[inline]
    pub(super) fn add(&mut self, at: u64) {
        self.first = self.first.min(at);
    }

    /// A candidate that was ready at `at` was removed.
    #[inline]
    pub(super) fn remove(&mut self, at: u64) {
        self.known &= at > self.first;
    }
}

/// The command that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextCommand {
    pub at: u64,
    pub order: u64,
    pub choice: CommandChoice,
}

/// The kind of the next command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandChoice {
    Candidate { list: u8, index: u16 },
    Refresh { rank: u16 },
    Nothing,
}

impl<O: CommandObserver> Channel<O> {
    /// The tick of the next command. The command itself is chosen when it is sent, because a better
    /// candidate for the same tick may arrive until then.
    #[inline]
    pub(super) fn planned(&mut self) -> u64 {
        if let Some(at) = self.plan {
            return at;
        }
        let mut at = self.soonest();
        if let Some((_, until)) = self.second.owed {
            let second = self.second_at(until, &self.choose(at));
            self.second.is_next = second.is_some();
            at = second.unwrap_or(at);
        }
        self.plan = Some(at);
        at
    }

    /// Updates the plan for a new candidate that can be sent at `at`.
    #[inline]
    pub(super) fn plan_with(&mut self, at: u64) {
        self.plan = match self.plan {
            Some(plan) if self.second.owed.is_none() => Some(plan.min(at)),
            _ => None,
        };
    }

    /// Updates the plan for a removed candidate that could be sent at `at`.
    #[inline]
    pub(super) fn plan_without(&mut self, at: u64) {
        if self.second.owed.is_some() || self.plan.is_some_and(|plan| at <= plan) {
            self.plan = None;
        }
    }

    /// The tick at which a candidate's bank and gate are ready.
    #[inline]
    pub(super) fn ready_at(&self, candidate: &Candidate) -> u64 {
        candidate.ready.max(self.gates[usize::from(candidate.gate)])
    }

    /// The tick at which the first candidate can be sent.
    #[inline]
    fn soonest(&mut self) -> u64 {
        let mut at = NEVER;
        for list in 0..LISTS {
            at = at.min(self.first_of(list));
        }
        if self.refreshes.pending > 0 {
            let floor = self.bus.free[0].max(self.floor);
            for rank in 0..self.ranks.len() {
                if self.ranks[rank].refresh.pending {
                    let step = self.refresh_step(rank);
                    self.ranks[rank].refresh.step = step;
                    at = at.min(step.0.max(floor));
                }
            }
        }
        at
    }

    /// The tick at which the first candidate of a list can be sent.
    #[inline]
    fn first_of(&mut self, list: usize) -> u64 {
        if self.lists[list].candidates.is_empty() {
            return NEVER;
        }
        let floor = self.floor_of(list);
        if !self.lists[list].known {
            self.find_first(list, floor);
        }
        self.lists[list].first.max(floor)
    }

    /// Computes the tick at which the first candidate of a list can be sent. Ticks up to `floor` are equivalent.
    fn find_first(&mut self, list: usize, floor: u64) {
        let mut first = NEVER;
        for candidate in &self.lists[list].candidates {
            first = first.min(self.ready_at(candidate));
            if first <= floor {
                break;
            }
        }
        self.lists[list].first = first;
        self.lists[list].known = true;
    }

    /// The next command, given the tick `at` at which the first candidate can be sent.
    #[inline]
    pub(super) fn choose(&self, at: u64) -> NextCommand {
        let mut plan = NextCommand {
            at,
            order: u64::MAX,
            choice: CommandChoice::Nothing,
        };
        if at != NEVER {
            for list in 0..LISTS {
                let one = &self.lists[list];
                if !one.candidates.is_empty() && one.first.max(self.floor_of(list)) <= at {
                    self.choose_slot(list, &mut plan);
                }
            }
            if self.refreshes.pending > 0 {
                self.choose_refresh(&mut plan);
            }
        }
        plan
    }

    /// Chooses the ready candidate of a list with the highest priority, if that goes before the command chosen so far.
    #[inline]
    fn choose_slot(&self, list: usize, plan: &mut NextCommand) {
        match self.config.queue {
            Some(_) => self.choose_least(list, plan, |candidate| self.turn_of(candidate)),
            None => self.choose_least(list, plan, |candidate| candidate.order),
        }
    }

    /// Free of branches, because readiness and priority of candidates cannot be predicted.
    #[inline(always)]
    fn choose_least(
        &self,
        list: usize,
        plan: &mut NextCommand,
        order_of: impl Fn(&Candidate) -> u64,
    ) {
        let at = plan.at;
        let gates = &self.gates[..];
        let (mut least, mut found) = (plan.order, usize::MAX);
        for (index, candidate) in self.lists[list].candidates.iter().enumerate() {
            let late = (candidate.ready > at) | (gates[usize::from(candidate.gate)] > at);
            let order = order_of(candidate) | 0u64.wrapping_sub(u64::from(late));
            found = if order < least { index } else { found };
            least = least.min(order);
        }
        if found != usize::MAX {
            plan.order = least;
            plan.choice = CommandChoice::Candidate {
                list: list as u8,
                index: found as u16,
            };
        }
    }

    /// Priority with queues for banks or ranks: queues in turn, the oldest request of each first.
    #[inline(always)]
    fn turn_of(&self, candidate: &Candidate) -> u64 {
        let first = self.moves.round_robin as u64 + 1;
        let queue = u64::from(candidate.bank) >> self.config.queue_shift;
        let wrapped = if queue < first {
            queue + self.queues.len() as u64
        } else {
            queue
        };
        let turn = (wrapped - first) << 48 | (candidate.order & (LATER - 1));
        if candidate.order & IDLE != 0 {
            candidate.order
        } else {
            turn
        }
    }

    fn choose_refresh(&self, plan: &mut NextCommand) {
        let order = match self.config.queue {
            Some(_) => 0,
            None => REFRESH,
        };
        if order > plan.order || self.bus.free[0].max(self.floor) > plan.at {
            return;
        }
        let ready = |unit: &RefreshUnit| unit.pending && unit.step.0 <= plan.at;
        if let Some(rank) = self.ranks.iter().position(|rank| ready(&rank.refresh)) {
            plan.order = order;
            plan.choice = CommandChoice::Refresh { rank: rank as u16 };
        }
    }

    /// The tick of the second half of an activate, given the command that would come next without
    /// it. The second half goes at a tick that no other command wants, but before another activate
    /// and before its deadline. An access may need a CAS command before it.
    fn second_at(&self, until: u64, plan: &NextCommand) -> Option<u64> {
        let at = self.bus.free[0].max(self.floor);
        let activate = match plan.choice {
            CommandChoice::Candidate { list, .. } => usize::from(list) == ACTIVATES,
            _ => false,
        };
        let longest = self.config.gaps.ticks.cas + self.config.gaps.ticks.col;
        (at < plan.at || activate || at + longest > until).then_some(at)
    }

    /// The tick from which the commands of a list may be sent.
    #[inline]
    pub(super) fn floor_of(&self, list: usize) -> u64 {
        self.bus.free[usize::from(list <= OPENED)].max(self.floor)
    }

    /// Marks lists for recomputation after a change of the gates of a kind of command.
    #[inline]
    pub(super) fn reconsider(&mut self, kind: u8) {
        if kind < ACTIVATE {
            self.lists[QUEUED].known = false;
            self.lists[OPENED].known = false;
        } else {
            self.lists[usize::from(kind)].known = false;
        }
    }

    /// A lower bound on the tick at which a queue gets room, if nothing arrives. Valid only after [`Channel::run`].
    pub(super) fn room(&self) -> u64 {
        let gaps = &self.config.gaps;
        let plan = self.plan.unwrap_or(NEVER);
        if self.refreshes.pending > 0 || self.second.owed.is_some() {
            return plan.min(self.moves.next);
        }
        // With a queue for each bank or rank, only an access makes room; otherwise an activate does too.
        let (activate, precharge) = match self.config.queue {
            Some(_) => (gaps.act.rd.min(gaps.act.wr), gaps.pre_act),
            None => (0, gaps.pre_act),
        };
        // After the access for which its row was opened, a bank can be closed and opened again.
        let reopened = gaps.rd.pre.min(gaps.wr.pre) + gaps.pre_act + activate;
        let after = [0, reopened, activate, activate + precharge];
        let mut first = NEVER;
        for (list, after) in after.into_iter().enumerate() {
            if !self.lists[list].candidates.is_empty() {
                let at = self.lists[list].first.max(self.floor_of(list));
                first = first.min(at + after);
            }
        }
        let first = if first == NEVER { plan } else { first };
        // Requests that wait for a refresh become candidates when the refresh is sent.
        first
            .max(plan)
            .min(self.moves.next)
            .min(self.refreshes.next_due.max(plan))
    }
}
