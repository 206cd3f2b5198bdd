//! Delay asked for and delay charged, by thread: nothing is clipped, and what was charged too much
//! or too little is made good by the next.
//!
//! A thread that stands still for cxlab's own sake (it is stepped, or its stop is answered) has been
//! late by that time already. So that time is paid toward what the thread owes, now or later, and it
//! is held for the rest. Asked for nothing, it is charged nothing: what was taken then shows apart.

use serde::{Deserialize, Serialize};

/// A thread's account, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Ledger {
    /// Delay that the model asked for.
    pub asked_ns: u64,
    /// Time that the thread was held to pay for it.
    pub held_ns: u64,
    /// Time that attaching itself took from the thread: it stood still and was not held.
    pub taken_ns: u64,
    /// Parts of a nanosecond asked for, in 2^-16 ns.
    #[serde(skip)]
    fraction: u32,
}

impl Ledger {
    /// Asks for more delay: not negative, and never forgotten.
    pub fn ask(&mut self, nanos: f64) {
        if nanos.is_nan() || nanos <= 0.0 {
            return;
        }
        let sum = nanos * 65536.0 + f64::from(self.fraction);
        let whole = (sum / 65536.0) as u64;
        self.fraction = (sum - whole as f64 * 65536.0).clamp(0.0, 65535.0) as u32;
        self.asked_ns = self.asked_ns.saturating_add(whole);
    }

    /// The thread was held for so long.
    pub fn hold(&mut self, nanos: u64) {
        self.held_ns = self.held_ns.saturating_add(nanos);
    }

    /// Attaching itself took so long from the thread.
    pub fn take(&mut self, nanos: u64) {
        self.taken_ns = self.taken_ns.saturating_add(nanos);
    }

    /// What is still to be charged; 0 where the thread has been late by more than was asked for.
    pub fn debt_ns(&self) -> u64 {
        let paid = self.held_ns.saturating_add(self.taken_ns);
        self.asked_ns.saturating_sub(paid)
    }

    /// What the thread has paid of what was asked for: all that it was held, and as much of what was
    /// taken from it as that leaves to pay.
    pub fn charged_ns(&self) -> u64 {
        let open = self.asked_ns.saturating_sub(self.held_ns);
        self.held_ns.saturating_add(self.taken_ns.min(open))
    }
}

/// The accounts of all threads together. What was taken from one does not pay for another.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Accounts {
    /// Delay that the model asked for, in nanoseconds.
    pub asked_ns: u64,
    /// What was paid of it: held and taken.
    pub charged_ns: u64,
    /// Time that threads were held.
    pub held_ns: u64,
    /// Time that attaching itself took from them.
    pub taken_ns: u64,
}

impl Accounts {
    /// Adds a thread's.
    pub fn add(&mut self, ledger: &Ledger) {
        self.asked_ns = self.asked_ns.saturating_add(ledger.asked_ns);
        self.charged_ns = self.charged_ns.saturating_add(ledger.charged_ns());
        self.held_ns = self.held_ns.saturating_add(ledger.held_ns);
        self.taken_ns = self.taken_ns.saturating_add(ledger.taken_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_nanosecond_add_up() {
        let mut ledger = Ledger::default();
        (0..100_000).for_each(|_| ledger.ask(0.37));
        assert!(ledger.asked_ns.abs_diff(37_000) <= 2, "{ledger:?}");
    }

    /// Holds overshoot and undershoot at random: in the end no more than the last one is off.
    #[test]
    fn charges_follow_what_is_asked() {
        let mut ledger = Ledger::default();
        let mut state = 12_345u64;
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ledger.ask((state >> 44) as f64);
            let debt = ledger.debt_ns();
            if debt > 2_000_000 {
                // Between 0.9 and 1.3 times what was wanted.
                ledger.hold(debt * (90 + (state >> 20) % 40) / 100);
            }
        }
        ledger.hold(ledger.debt_ns());
        let off = ledger.asked_ns.abs_diff(ledger.charged_ns()) as f64 / ledger.asked_ns as f64;
        assert!(off < 0.01, "{ledger:?}");
    }

    #[test]
    fn nothing_asked_is_nothing_owed() {
        let mut ledger = Ledger::default();
        for nanos in [0.0, -5.0, f64::NAN] {
            ledger.ask(nanos);
        }
        assert_eq!(ledger, Ledger::default());
        ledger.hold(100);
        assert_eq!(ledger.debt_ns(), 0);
        ledger.ask(250.0);
        assert_eq!(ledger.debt_ns(), 150);
    }

    #[test]
    fn what_attaching_took_is_paid_toward_what_is_owed_before_and_after() {
        let mut ledger = Ledger::default();
        ledger.take(1000);
        assert_eq!((ledger.debt_ns(), ledger.charged_ns()), (0, 0));
        ledger.ask(400.0);
        assert_eq!((ledger.debt_ns(), ledger.charged_ns()), (0, 400));
        ledger.ask(800.0);
        assert_eq!((ledger.debt_ns(), ledger.charged_ns()), (200, 1000));
        ledger.hold(200);
        assert_eq!((ledger.debt_ns(), ledger.charged_ns()), (0, 1200));
        ledger.ask(300.0);
        ledger.take(100);
        assert_eq!((ledger.debt_ns(), ledger.charged_ns()), (200, 1300));
    }

    /// Whatever was taken, a thread is late by what was asked for or by what was taken, whichever is more: so
    /// more latency is never less delay.
    #[test]
    fn a_thread_is_late_by_what_is_asked_or_taken() {
        let mut last = 0;
        for asked in (0..5000u32).step_by(100) {
            let mut ledger = Ledger::default();
            for _ in 0..4 {
                ledger.ask(f64::from(asked) / 4.0);
                ledger.take(500);
            }
            ledger.hold(ledger.debt_ns());
            let late = ledger.held_ns + ledger.taken_ns;
            assert_eq!(late, u64::from(asked).max(2000));
            assert_eq!(ledger.charged_ns(), u64::from(asked));
            assert!(late >= last);
            last = late;
        }
    }

    #[test]
    fn what_was_taken_from_one_thread_does_not_pay_for_another() {
        let (mut one, mut other) = (Ledger::default(), Ledger::default());
        one.take(500);
        other.ask(300.0);
        let mut all = Accounts::default();
        [one, other].iter().for_each(|ledger| all.add(ledger));
        assert_eq!((all.asked_ns, all.charged_ns, all.taken_ns), (300, 0, 500));
    }
}
