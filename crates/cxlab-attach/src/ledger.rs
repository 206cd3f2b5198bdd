//! Accounts of requested and charged delay, by thread. Delay is never clipped: later holds make up
//! for a hold that was too long or too short.
//!
//! A thread that stands still for cxlab's own sake (it is single-stepped, or its stop is handled)
//! is late by that time already. So this *taken* time pays for delay that the thread owes now or
//! later, and the thread is held for the rest. A thread that owes no delay is charged none; taken
//! time is then only reported.

use serde::{Deserialize, Serialize};

/// Account of one thread, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Ledger {
    /// Delay that the model requested.
    pub asked_ns: u64,
    /// Time that the thread was held to pay for the delay.
    pub held_ns: u64,
    /// Time that attaching itself took from the thread, while the thread stood
    /// still without being held.
    pub taken_ns: u64,
    /// Fraction of a nanosecond requested, in 2^-16 ns.
    #[serde(skip)]
    fraction: u32,
}

impl Ledger {
    /// Requests more delay. A negative delay or NaN counts as 0, and fractions are kept.
    pub fn ask(&mut self, nanos: f64) {
        if nanos.is_nan() || nanos <= 0.0 {
            return;
        }
        let sum = nanos * 65536.0 + f64::from(self.fraction);
        let whole = (sum / 65536.0) as u64;
        self.fraction = (sum - whole as f64 * 65536.0).clamp(0.0, 65535.0) as u32;
        self.asked_ns = self.asked_ns.saturating_add(whole);
    }

    /// Records a hold of the thread.
    pub fn hold(&mut self, nanos: u64) {
        self.held_ns = self.held_ns.saturating_add(nanos);
    }

    /// Records time that attaching itself took from the thread.
    pub fn take(&mut self, nanos: u64) {
        self.taken_ns = self.taken_ns.saturating_add(nanos);
    }

    /// Delay that is still to be charged. 0 if the thread is late by more than was requested.
    pub fn debt_ns(&self) -> u64 {
        let paid = self.held_ns.saturating_add(self.taken_ns);
        self.asked_ns.saturating_sub(paid)
    }

    /// Delay that the thread has paid: its whole held time, and as much of the taken time as the
    /// requested delay leaves to pay.
    pub fn charged_ns(&self) -> u64 {
        let open = self.asked_ns.saturating_sub(self.held_ns);
        self.held_ns.saturating_add(self.taken_ns.min(open))
    }
}

/// Sum of the accounts of all threads. Time taken from one thread does not pay for another.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Accounts {
    /// Delay that the model requested, in nanoseconds.
    pub asked_ns: u64,
    /// Delay that was paid, by held and by taken time.
    pub charged_ns: u64,
    /// Time that threads were held.
    pub held_ns: u64,
    /// Time that attaching itself took from threads.
    pub taken_ns: u64,
}

impl Accounts {
    /// Adds the account of a thread.
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
    use crate::knuth;

    #[test]
    fn parts_of_a_nanosecond_add_up() {
        let mut ledger = Ledger::default();
        (0..100_000).for_each(|_| ledger.ask(0.37));
        assert!(ledger.asked_ns.abs_diff(37_000) <= 2, "{ledger:?}");
    }

    /// Holds overshoot and undershoot at random. In the end only the last hold's error remains.
    #[test]
    fn charges_follow_what_is_asked() {
        let mut ledger = Ledger::default();
        let mut state = 12_345;
        for _ in 0..10_000 {
            knuth(&mut state);
            ledger.ask((state >> 44) as f64);
            let debt = ledger.debt_ns();
            if debt > 2_000_000 {
                // The hold lasts between 0.9 and 1.3 times the debt.
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

    /// A thread is late by the requested delay or by the taken time, whichever is more. So a higher
    /// latency never gives less delay.
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
