//! Where the time of a transaction was spent.

use cxlab_engine::units::Picos;
use serde::{Deserialize, Serialize};

/// A stage whose time has no bound by parameters: a wait, or the time in a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LongStage {
    /// At outputs of switches and at half-duplex links, until the first byte leaves, apart from
    /// [`LongStage::Credits`].
    SwitchQueue,
    /// At any output while the receiver's buffer is full: the transmitter has no credit.
    Credits,
    /// In the requester, until the first byte leaves, apart from [`LongStage::Credits`].
    HostQueue,
    /// In the device outside of its medium: a request waits for a context, and a response for the wire,
    /// apart from [`LongStage::Credits`].
    DeviceQueue,
    /// In front of a medium that accepts nothing more.
    MediaQueue,
    /// The medium: from acceptance by the memory backend to its data, waiting for banks included.
    Media,
    /// In the coherence agent of a device or a host: waiting for the line, for an entry of the snoop
    /// filter and for the answers to snoops.
    Coherence,
}

impl LongStage {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// Stages in which a transaction waits for a place or a wire come first.
    const QUEUES: usize = 5;
}

/// Where a transaction's time went, in picoseconds. It travels with the messages of the
/// transaction; the requester checks at completion that the stages sum to the latency.
///
/// The public stages are sums of configured constants over at most a few hundred hops and stay
/// far under 2^32 ps (4.29 ms). The others can be longer: each has 32 bits, and a byte apart for what is
/// beyond them, so that what a switch looks at lies together. A longer stage stays at
/// [`LatencyStages::LONGEST`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct LatencyStages {
    /// On the wires: serialization (flit or packet) and propagation, retries included.
    pub link: u32,
    /// Port delays (PHY and link layer of transmitter and receiver).
    pub port: u32,
    /// Switching time.
    pub switch: u32,
    low: [u32; LongStage::COUNT],
    /// The device's controller.
    pub device: u32,
    high: [u8; LongStage::COUNT],
}

impl LatencyStages {
    /// The longest time that a stage can hold: 1.09 s.
    pub const LONGEST: Picos = Picos((1 << (u32::BITS + u8::BITS)) - 1);

    /// Adds some picoseconds to a stage.
    #[inline(always)]
    pub fn add(&mut self, stage: LongStage, picos: u64) {
        let low = &mut self.low[stage as usize];
        let (sum, carry) = low.overflowing_add(picos as u32);
        *low = sum;
        if carry || picos > u64::from(u32::MAX) {
            self.carry(stage, (picos >> u32::BITS) + u64::from(carry));
        }
    }

    #[cold]
    #[inline(never)]
    fn carry(&mut self, stage: LongStage, more: u64) {
        let at = stage as usize;
        match u8::try_from(u64::from(self.high[at]) + more) {
            Ok(sum) => self.high[at] = sum,
            Err(_) => (self.high[at], self.low[at]) = (u8::MAX, u32::MAX),
        }
    }

    /// The time of a stage, in picoseconds.
    #[inline]
    pub fn of(&self, stage: LongStage) -> u64 {
        let at = stage as usize;
        u64::from(self.low[at]) | u64::from(self.high[at]) << u32::BITS
    }

    /// The times of all stages that may be long, by [`LongStage`], in picoseconds.
    #[inline]
    pub fn long(&self) -> [u64; LongStage::COUNT] {
        // Nearly always nothing is beyond 32 bits, and then all are widened at once.
        let mut long = self.low.map(u64::from);
        if self.high != [0; LongStage::COUNT] {
            for (sum, high) in long.iter_mut().zip(self.high) {
                *sum |= u64::from(high) << u32::BITS;
            }
        }
        long
    }

    /// The sum of all waits for a place or a wire, in picoseconds.
    #[inline]
    pub fn queue(&self) -> u64 {
        self.long()[..LongStage::QUEUES].iter().sum()
    }

    /// [`LatencyStages::queue`] without multiples of 2^32 ps in one stage, for digests. It looks at
    /// what a switch looks at.
    #[inline]
    pub fn queue_digest(&self) -> u64 {
        let lows = &self.low[..LongStage::QUEUES];
        lows.iter().map(|low| u64::from(*low)).sum()
    }

    /// The sum of all stages.
    #[inline]
    pub fn total(&self) -> Picos {
        let long: u64 = self.long().iter().sum();
        Picos(
            long + u64::from(self.link)
                + u64::from(self.port)
                + u64::from(self.switch)
                + u64::from(self.device),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_beyond_32_bits_is_exact_and_disturbs_no_other() {
        let mut stages = LatencyStages::default();
        let spans = [1, u64::from(u32::MAX), 5 << 32, (1 << 32) + 7, 0];
        for span in spans {
            stages.add(LongStage::Credits, span);
            stages.add(LongStage::Media, 3);
        }
        let sum: u64 = spans.iter().sum();
        assert_eq!(stages.of(LongStage::Credits), sum);
        assert_eq!(stages.queue(), sum);
        assert_eq!(stages.of(LongStage::Media), 15);
        assert_eq!(stages.total(), Picos(sum + 15));
    }

    #[test]
    fn a_stage_that_cannot_be_held_stays_at_the_longest() {
        let mut stages = LatencyStages::default();
        for span in [1 << 40, 5, 1 << 32] {
            stages.add(LongStage::HostQueue, span);
            assert_eq!(stages.total(), LatencyStages::LONGEST);
        }
    }
}
