//! How long requests wait in a device before its medium takes them, and for what.

use cxlab_engine::probe::WaitProbe;
use cxlab_engine::units::SimTime;
use cxlab_protocol::{LongStage, Message};
use serde::{Deserialize, Serialize};

/// How long a request waited in a device, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DeviceWait {
    /// For the controller: a context.
    pub(crate) controller: u64,
    /// For the medium, which accepted nothing more.
    pub(crate) medium: u64,
}

impl DeviceWait {
    /// Notes it in a message.
    #[inline]
    pub(crate) fn note(self, message: &mut Message) {
        message.stages.add(LongStage::DeviceQueue, self.controller);
        message.stages.add(LongStage::MediaQueue, self.medium);
    }
}

/// The waits of a device since measurement began. A request that is taken at once is not counted.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct DeviceWaits {
    /// All waits.
    pub all: WaitProbe,
    /// The sum of what of them was for the medium, in picoseconds.
    pub medium_ps: u128,
    /// Since when the medium has accepted nothing for the request that is next.
    refusing: Option<u64>,
    refused: u64,
}

impl DeviceWaits {
    /// For how long the medium has refused requests up to `now`, in picoseconds.
    pub(crate) fn refused_ps(&self, now: SimTime) -> u64 {
        self.refused + self.refusing.map_or(0, |since| now.0 - since)
    }

    /// The medium refuses the request that is next.
    pub(crate) fn refuse(&mut self, now: SimTime) {
        self.refusing.get_or_insert(now.0);
    }

    /// The medium does not hold requests back any more.
    #[inline]
    pub(crate) fn end_refusal(&mut self, now: SimTime) {
        if self.refusing.is_some() {
            self.refused = self.refused_ps(now);
            self.refusing = None;
        }
    }

    /// What a request has waited for since it came, when the medium had refused requests for `before`.
    #[inline]
    pub(crate) fn waited(&self, now: SimTime, since: SimTime, before: u64) -> DeviceWait {
        let wait = (now - since).0;
        if wait == 0 {
            return DeviceWait::default();
        }
        let medium = self.refused_ps(now).saturating_sub(before).min(wait);
        DeviceWait {
            controller: wait - medium,
            medium,
        }
    }

    /// Counts a wait that has ended, if there was one.
    #[inline]
    pub(crate) fn count(&mut self, waited: DeviceWait) {
        if waited != DeviceWait::default() {
            self.all.record(waited.controller + waited.medium);
            self.medium_ps += u128::from(waited.medium);
        }
    }

    /// Adds those of another window.
    pub fn merge(&mut self, other: &DeviceWaits) {
        self.all.merge(&other.all);
        self.medium_ps += other.medium_ps;
    }

    /// Measurement begins.
    pub(crate) fn reset(&mut self) {
        self.all = WaitProbe::default();
        self.medium_ps = 0;
    }
}
