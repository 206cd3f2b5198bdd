//! Random streams, keyed by the seed of the run and a name. Each component has its own, so adding a
//! component does not change the numbers that the others draw.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::state::{SaveState, StateError, StateReader, StateWriter};

/// A component's own stream of random numbers.
///
/// The key is FNV-1a over the name, mixed with the seed by SplitMix64, and expanded into the state of
/// Xoshiro256++ by its `seed_from_u64`. This derivation never changes, so a seed gives the same numbers
/// in every version and on every machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamRng(Xoshiro256PlusPlus);

impl StreamRng {
    /// The stream of the component with this name in a run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut key: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        StreamRng(Xoshiro256PlusPlus::seed_from_u64(mix(key ^ mix(seed))))
    }

    /// The stream of a part of the component that owns this stream.
    ///
    /// It depends on the name and on the next number of this stream, and draws no number. So parts may be
    /// added or removed without a change to the component or to other parts.
    pub fn substream(&self, name: &str) -> StreamRng {
        StreamRng::new(self.clone().next_u64(), name)
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to `n - 1`, uniform to within 2^-64 times `n`; 0 if `n` is 0. The method is Lemire's
    /// multiplication without rejection, so every draw takes exactly one number of the stream.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with this probability (0 to 1), to within 2^-53.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.0.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A uniform number in (0, 1], for drawing from a distribution by inversion.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

impl SaveState for StreamRng {
    fn save(&self, out: &mut StateWriter) {
        out.value("rng", &self.0);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.0 = from.value("rng")?;
        Ok(())
    }
}

/// Random yes-or-no decisions with numbers. The seed, a name and the number alone determine a decision,
/// so it is the same whenever and however often it is queried.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct BernoulliTrials {
    key: u64,
    probability: f64,
}

impl BernoulliTrials {
    /// Decisions that are yes with this probability, 0 to 1.
    pub fn new(seed: u64, name: &str, probability: f64) -> BernoulliTrials {
        BernoulliTrials {
            key: StreamRng::new(seed, name).next_u64(),
            probability,
        }
    }

    /// Whether the decision of this number is yes.
    pub fn succeeds(&self, number: u64) -> bool {
        let bits = mix(self.key ^ mix(number));
        ((bits >> 11) as f64) < self.probability * (1u64 << 53) as f64
    }
}

/// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_succeed_as_often_as_is_said_and_never_change() {
        for probability in [0.0, 0.001, 0.3, 1.0] {
            let trials = BernoulliTrials::new(7, "medium", probability);
            let drawn = (0..100_000).filter(|at| trials.succeeds(*at)).count();
            let expected = 100_000.0 * probability;
            let off = (drawn as f64 - expected).abs();
            assert!(
                off <= 4.0 * (expected * (1.0 - probability)).sqrt(),
                "{drawn}"
            );
            assert!((0..100).all(|number| trials.succeeds(number) == trials.succeeds(number)));
        }
        let [one, other] = ["a", "b"].map(|name| BernoulliTrials::new(7, name, 0.5));
        assert!((0..100).any(|number| one.succeeds(number) != other.succeeds(number)));
    }

    #[test]
    fn streams_are_fixed_for_ever_and_differ_by_name_and_seed() {
        let draw = |seed, name: &str| StreamRng::new(seed, name).next_u64();
        assert_ne!(draw(1, "host0"), draw(1, "host1"));
        assert_ne!(draw(1, "host0"), draw(2, "host0"));
        assert_eq!(draw(1, "host0"), draw(1, "host0"));
    }

    #[test]
    fn parts_have_streams_of_their_own_and_leave_the_owner_alone() {
        let owner = StreamRng::new(1, "host0/os");
        let draw = |name| owner.substream(name).next_u64();
        assert_ne!(draw("core0"), draw("core1"));
        assert_eq!(draw("core0"), draw("core0"));
        assert_ne!(
            draw("core0"),
            StreamRng::new(2, "host0/os").substream("core0").next_u64()
        );
        assert_eq!(owner, StreamRng::new(1, "host0/os"));
    }

    #[test]
    fn chance_meets_its_probability() {
        let mut rng = StreamRng::new(7, "chance");
        let hits = (0..100_000).filter(|_| rng.chance(0.25)).count();
        assert!((24_500..25_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!((0..1000).all(|_| !rng.chance(0.0)));
    }
}
