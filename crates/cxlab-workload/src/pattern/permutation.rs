//! A random order of the numbers below n that needs only a few words of memory, however large n is.
//!
//! A counter over the next power of two is mapped by a keyed bijection of as many bits: an added
//! key, odd multipliers and right shifts, each of which is invertible. Results that are not below n
//! are skipped. Each lap yields every number exactly once, and every lap has the same order, so the
//! order is one cycle through all n numbers. A number takes fewer than two trials on average.

use cxlab_engine::rng::StreamRng;
use serde::{Deserialize, Serialize};

/// An endless walk along one random cycle through all numbers below n.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(super) struct Cycle {
    n: u64,
    mask: u64,
    shift: u32,
    counter: u64,
    added: u64,
    odd: [u64; 3],
}

impl Cycle {
    /// Makes a cycle through the numbers below `n` (at least 1), in an order drawn from `rng`.
    pub fn new(n: u64, rng: &mut StreamRng) -> Cycle {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let mask = if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        };
        let mut odd = || rng.next_u64() | 1;
        let odd = [odd(), odd(), odd()];
        let (shift, added) = (bits.div_ceil(2).max(1), rng.next_u64());
        Cycle {
            n: n.max(1),
            mask,
            shift,
            counter: 0,
            added,
            odd,
        }
    }

    /// The next number of the cycle.
    #[inline]
    pub fn next(&mut self) -> u64 {
        loop {
            let x = self.scatter(self.counter);
            self.counter = (self.counter + 1) & self.mask;
            if x < self.n {
                return x;
            }
        }
    }

    /// The position of a number below n in a random order of all of
    /// them. Independent of [`Cycle::next`].
    #[inline]
    pub fn place(&self, number: u64) -> u64 {
        // Repeating the bijection leads back to `number`, which is below n, so the loop ends.
        let mut x = self.scatter(number);
        while x >= self.n {
            x = self.scatter(x);
        }
        x
    }

    /// Applies the bijection on the masked bits.
    #[inline]
    fn scatter(&self, counter: u64) -> u64 {
        let mut x = counter.wrapping_add(self.added) & self.mask;
        for odd in self.odd {
            x = x.wrapping_mul(odd) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_a_lap_and_laps_repeat() {
        for n in (1..300).chain([1023, 1024, 1025, 65_537]) {
            let mut cycle = Cycle::new(n, &mut StreamRng::new(n, "cycle"));
            let first: Vec<u64> = (0..n).map(|_| cycle.next()).collect();
            let second: Vec<u64> = (0..n).map(|_| cycle.next()).collect();
            assert_eq!(first, second, "{n}");
            let mut sorted = first;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n), "{n}");
        }
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        for n in (1..300).chain([1023, 1024, 1025, 65_537]) {
            let cycle = Cycle::new(n, &mut StreamRng::new(n, "cycle"));
            let mut places: Vec<u64> = (0..n).map(|number| cycle.place(number)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..n), "{n}");
        }
    }

    #[test]
    fn neighbours_in_the_cycle_are_not_neighbours_in_memory() {
        let mut cycle = Cycle::new(1 << 30, &mut StreamRng::new(3, "cycle"));
        let order: Vec<u64> = (0..10_000).map(|_| cycle.next()).collect();
        let near = order
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) < 64)
            .count();
        let even = order.iter().filter(|line| **line % 2 == 0).count();
        assert!(near < 5, "{near}");
        assert!((4_700..5_300).contains(&even), "{even}");
    }

    #[test]
    fn the_largest_footprints_are_walked_too() {
        let mut cycle = Cycle::new(u64::MAX, &mut StreamRng::new(3, "cycle"));
        assert!((0..100).all(|_| cycle.next() < u64::MAX));
    }
}
