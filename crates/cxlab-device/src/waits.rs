//! How long requests wait in a device before the medium accepts them, and for which resource.

use cxlab_engine::probe::WaitProbe;
use cxlab_engine::units::SimTime;
use cxlab_protocol::{LongStage, Message};
use serde::{Deserialize, Serialize};

/// Waiting time of one request in a device, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DeviceWait {
    /// Time in which the request waited for a context of the controller.
    pub(crate) controller: u64,
    /// Time in which the request waited for a medium that accepted no request.
    pub(crate) medium: u64,
}

impl DeviceWait {
    /// Adds the wait to the latency stages of a message.
    #[inline]
    pub(crate) fn add_to_stages(self, message: &mut Message) {
        message.stages.add(LongStage::DeviceQueue, self.controller);
        message.stages.add(LongStage::MediaQueue, self.medium);
    }
}

/// Waits in a device since measurement began. A request that is accepted at once is not counted.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct DeviceWaits {
    /// Waits of all requests, for context and medium together.
    pub all: WaitProbe,
    /// Total time of these waits spent on the medium, in picoseconds.
    pub medium_ps: u128,
    /// Time since which the medium has refused the next request.
    refusing: Option<u64>,
    /// Sum of the times in which the medium refused requests and which have ended, in picoseconds.
    refused_ps: u64,
}

impl DeviceWaits {
    /// Total time, up to `now`, in which the medium refused requests, in picoseconds.
    pub(crate) fn refused_ps(&self, now: SimTime) -> u64 {
        self.refused_ps + self.refusing.map_or(0, |since| now.0 - since)
    }

    pub(crate) fn refuse(&mut self, now: SimTime) {
        self.refusing.get_or_insert(now.0);
    }

    #[inline]
    pub(crate) fn end_refusal(&mut self, now: SimTime) {
        if self.refusing.is_some() {
            self.refused_ps = self.refused_ps(now);
            self.refusing = None;
        }
    }

    /// The wait of a request that arrived at `since`, when `before` was the total time of refusals.
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

    /// Counts a wait that has ended, unless it has length zero.
    #[inline]
    pub(crate) fn count(&mut self, waited: DeviceWait) {
        if waited != DeviceWait::default() {
            self.all.record(waited.controller + waited.medium);
            self.medium_ps += u128::from(waited.medium);
        }
    }

    /// Adds the waits of another window.
    pub fn merge(&mut self, other: &DeviceWaits) {
        self.all.merge(&other.all);
        self.medium_ps += other.medium_ps;
    }

    pub(crate) fn reset(&mut self) {
        self.all = WaitProbe::default();
        self.medium_ps = 0;
    }
}
