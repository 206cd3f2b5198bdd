//! Log of when requests wait for a line or an entry, and when they are served, for checkers.

use cxlab_engine::units::LineAddr;
use cxlab_protocol::{Message, PortId};
use serde::{Deserialize, Serialize};

use super::CoherentDevice;

/// The resource that a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum WaitsFor {
    /// The request's line, from its arrival on.
    Line(LineAddr),
    /// An entry of a set of the snoop filter, from when the request needs one.
    Entry(usize),
}

/// Log entry: a request begins to wait for a resource, or gets it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct WaitLogEntry {
    /// The resource that the request waits for.
    pub waits_for: WaitsFor,
    /// Edge port of the requester, and the request's tag there.
    pub request: (PortId, u32),
    /// False when the wait begins, true when the request gets the resource.
    pub is_granted: bool,
}

impl CoherentDevice {
    /// The log so far, in order of time. Empty if values are not kept.
    pub fn wait_log(&self) -> &[WaitLogEntry] {
        self.turns.as_deref().unwrap_or_default()
    }

    pub(super) fn log_wait(&mut self, waits_for: WaitsFor, message: &Message, is_granted: bool) {
        if let Some(turns) = &mut self.turns {
            turns.push(WaitLogEntry {
                waits_for,
                request: (message.source, message.tag),
                is_granted,
            });
        }
    }

    /// Logs that the current request of a line begins to wait for an entry, or gets it.
    pub(super) fn log_entry(&mut self, number: u32, is_granted: bool) {
        if self.turns.is_some() {
            let busy = self.lines.get(number);
            let waits_for = WaitsFor::Entry(self.set_of(busy.line));
            let message = self.contexts.get(busy.current_request).message;
            self.log_wait(waits_for, &message, is_granted);
        }
    }
}
