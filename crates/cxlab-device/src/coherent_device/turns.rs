//! A log of who waited for what and when its turn came, for checkers.

use cxlab_engine::units::LineAddr;
use cxlab_protocol::{Message, PortId};
use serde::{Deserialize, Serialize};

use super::CoherentDevice;

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
pub enum WaitsFor {
    /// Its line, from its arrival on.
    Line(LineAddr),
    /// An entry of a set of the snoop filter, from when it needs one.
    Entry(usize),
}

/// A request begins to wait, or its turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Turn {
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// Its requester, and its tag there.
    pub request: (PortId, u32),
    /// Whether its turn has come.
    pub has_come: bool,
}

impl CoherentDevice {
    /// The turns of requests so far, in order. None where values are not kept.
    pub fn turns(&self) -> &[Turn] {
        self.turns.as_deref().unwrap_or_default()
    }

    pub(super) fn log_turn(&mut self, waits_for: WaitsFor, message: &Message, has_come: bool) {
        if let Some(turns) = &mut self.turns {
            turns.push(Turn {
                waits_for,
                request: (message.source, message.tag),
                has_come,
            });
        }
    }

    /// The same of the request whose turn it is on a line.
    pub(super) fn log_entry(&mut self, number: u32, has_come: bool) {
        if self.turns.is_some() {
            let busy = self.lines.get(number);
            let waits_for = WaitsFor::Entry(self.set_of(busy.line));
            let message = self.contexts.get(busy.asker).message;
            self.log_turn(waits_for, &message, has_come);
        }
    }
}
