//! Breakdown of a transaction's latency into stages.

use cxlab_engine::units::Picos;
use serde::{Deserialize, Serialize};

/// A stage whose time has no bound by parameters: a wait, or the time in a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LongStage {
    /// Waiting at outputs of switches and at half-duplex links until the first byte leaves,
    /// except for [`LongStage::Credits`].
    SwitchQueue,
    /// Waiting at any output for a credit, while the receiver's buffer is full.
    Credits,
    /// Waiting in the requester until the first byte leaves, except for [`LongStage::Credits`].
    HostQueue,
    /// Waiting in the device outside its medium, except for [`LongStage::Credits`]: a request for a
    /// context, a response for the wire.
    DeviceQueue,
    /// Waiting for a medium that accepts no further request.
    MediaQueue,
    /// In the medium: from acceptance by the memory backend to its data, including waits for banks.
    Media,
    /// In the coherence agent of a device or a host: waiting for the line, for a snoop filter entry
    /// and for responses to snoops.
    Coherence,
}

impl LongStage {
    /// Number of long stages.
    pub const COUNT: usize = 7;
    /// Number of stages in which a transaction waits for a buffer or a wire. They come first in the enum.
    const QUEUES: usize = 5;
}

/// Latency breakdown of a transaction, in picoseconds. It travels with the messages of the
/// transaction; the requester checks at completion that the stages sum to the latency.
///
/// The public stages are sums of configured constants over at most a few hundred hops and stay far
/// under 2^32 ps (4.29 ms). A [`LongStage`] can be longer: it has 32 bits in `low` and 8 more in
/// `high`. These are stored apart, so that the fields that a switch accesses are adjacent. A longer
/// stage stays at [`LatencyStages::LONGEST`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[repr(C)]
pub struct LatencyStages {
    /// Time on the wires: serialization of flits or packets, and propagation, retries included.
    pub link: u32,
    /// Port delays: PHY and link layer of transmitter and receiver.
    pub port: u32,
    /// Switching delays of the switches crossed.
    pub switch: u32,
    low: [u32; LongStage::COUNT],
    /// Delay of the device's controller.
    pub device: u32,
    high: [u8; LongStage::COUNT],
}

impl LatencyStages {
    /// The longest time that a long stage can hold: 2^40 - 1 ps, or 1.0995 s.
    pub const LONGEST: Picos = Picos((1 << (u32::BITS + u8::BITS)) - 1);

    /// Adds `picos` picoseconds to a stage.
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

    /// The times of all long stages, indexed by [`LongStage`], in picoseconds.
    #[inline]
    pub fn long(&self) -> [u64; LongStage::COUNT] {
        // In nearly all messages no stage exceeds 32 bits. All stages are then widened at once.
        let mut long = self.low.map(u64::from);
        if self.high != [0; LongStage::COUNT] {
            for (sum, high) in long.iter_mut().zip(self.high) {
                *sum |= u64::from(high) << u32::BITS;
            }
        }
        long
    }

    /// Sum of all waits for a buffer or a wire, in picoseconds.
    #[inline]
    pub fn queue(&self) -> u64 {
        self.long()[..LongStage::QUEUES].iter().sum()
    }

    /// [`LatencyStages::queue`] without the multiples of 2^32 ps of each stage, for digests. It
    /// reads only fields that a switch reads.
    #[inline]
    pub fn queue_digest(&self) -> u64 {
        let lows = &self.low[..LongStage::QUEUES];
        lows.iter().map(|low| u64::from(*low)).sum()
    }

    /// Sum of all stages.
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
