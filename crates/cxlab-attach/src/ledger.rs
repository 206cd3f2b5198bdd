//! Delay asked for and delay charged, by thread: nothing is clipped, and what was charged too much
//! or too little is made good by the next.

use serde::{Deserialize, Serialize};

/// A thread's account, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Ledger {
    /// Delay that the model asked for.
    pub asked_ns: u64,
    /// Time that the thread was held.
    pub charged_ns: u64,
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
    pub fn charge(&mut self, nanos: u64) {
        self.charged_ns = self.charged_ns.saturating_add(nanos);
    }

    /// What is still to be charged; 0 where more was charged than asked for.
    pub fn debt_ns(&self) -> u64 {
        self.asked_ns.saturating_sub(self.charged_ns)
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Ledger) {
        self.asked_ns = self.asked_ns.saturating_add(other.asked_ns);
        self.charged_ns = self.charged_ns.saturating_add(other.charged_ns);
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
                ledger.charge(debt * (90 + (state >> 20) % 40) / 100);
            }
        }
        ledger.charge(ledger.debt_ns());
        let off = ledger.asked_ns.abs_diff(ledger.charged_ns) as f64 / ledger.asked_ns as f64;
        assert!(off < 0.01, "{ledger:?}");
    }

    #[test]
    fn nothing_asked_is_nothing_owed() {
        let mut ledger = Ledger::default();
        for nanos in [0.0, -5.0, f64::NAN] {
            ledger.ask(nanos);
        }
        assert_eq!(ledger, Ledger::default());
        ledger.charge(100);
        assert_eq!(ledger.debt_ns(), 0);
        ledger.ask(250.0);
        assert_eq!(ledger.debt_ns(), 150);
    }
}
