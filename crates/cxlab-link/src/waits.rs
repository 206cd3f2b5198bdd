//! How long messages wait in front of a transmitter, and how much of that time the receiver's buffer is full.
//!
//! A buffer is *starved* from the time at which the transmitter has room for a message of the buffer but no
//! credit, until a credit comes. The part of a message's wait in which its buffer is starved is a wait for
//! credits. The rest is a wait for the wire, which other messages use.

use cxlab_engine::probe::WaitProbe;
use cxlab_protocol::{LongStage, Message};
use serde::{Deserialize, Serialize};

/// How long a message waited, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaitTimes {
    /// Wait for the wire.
    pub queue: u64,
    /// Wait for a credit.
    pub credits: u64,
}

impl WaitTimes {
    /// Adds the wait to the stages of a message that waited for the wire in `stage`.
    #[inline]
    pub fn add_to_stages(self, stage: LongStage, message: &mut Message) {
        message.stages.add(stage, self.queue);
        message.stages.add(LongStage::Credits, self.credits);
    }
}

/// How long a buffer was starved, in picoseconds.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
struct StarvedBuffer {
    buffer: u8,
    /// Start of the current starvation, in picoseconds, possibly in the future. `None` if the buffer is not starved.
    since: Option<u64>,
    /// Sum of the starvations that have ended, in picoseconds.
    total: u64,
}

impl StarvedBuffer {
    /// How long the buffer has been starved up to `now`, in picoseconds.
    fn total_until(&self, now: u64) -> u64 {
        let current = self.since.map_or(0, |since| now.saturating_sub(since));
        self.total + current
    }
}

/// Waits in front of a transmitter since measurement began. A message that is sent at once is not counted.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct PortWaits {
    /// Duration of every wait, for the wire and for credits.
    pub all: WaitProbe,
    /// Sum of the waits for credits, in picoseconds.
    pub credits_ps: u128,
    /// Buffers that were ever starved. There are few.
    starved: Vec<StarvedBuffer>,
}

impl PortWaits {
    /// How long the buffer has been starved up to `now`, in picoseconds.
    pub(crate) fn starved_ps(&self, buffer: u8, now: u64) -> u64 {
        let found = self.starved.iter().find(|starved| starved.buffer == buffer);
        found.map_or(0, |starved| starved.total_until(now))
    }

    /// Records that the buffer has no credit although the wire has room from `since` on. Returns true if
    /// the buffer was not starved before.
    pub(crate) fn begin_starvation(&mut self, buffer: u8, since: u64) -> bool {
        let mut known = self.starved.iter_mut();
        match known.find(|starved| starved.buffer == buffer) {
            Some(known) => known.since.replace(known.since.unwrap_or(since)).is_none(),
            None => {
                self.starved.push(StarvedBuffer {
                    buffer,
                    since: Some(since),
                    total: 0,
                });
                true
            }
        }
    }

    /// Ends the starvation, at `now`, of the buffers that have a credit. Returns their number.
    pub(crate) fn end_starvation(&mut self, now: u64, has_credit: impl Fn(u8) -> bool) -> u8 {
        let mut ended = 0;
        for starved in &mut self.starved {
            if starved.since.is_some() && has_credit(starved.buffer) {
                starved.total = starved.total_until(now);
                starved.since = None;
                ended += 1;
            }
        }
        ended
    }

    /// Counts a wait that has ended.
    pub(crate) fn count(&mut self, waited: WaitTimes) {
        self.all.record(waited.queue + waited.credits);
        self.credits_ps += u128::from(waited.credits);
    }

    /// Adds the waits of another measurement window.
    pub fn merge(&mut self, other: &PortWaits) {
        self.all.merge(&other.all);
        self.credits_ps += other.credits_ps;
    }

    /// Resets the statistics at the start of measurement.
    pub(crate) fn reset(&mut self) {
        self.all = WaitProbe::default();
        self.credits_ps = 0;
    }
}
