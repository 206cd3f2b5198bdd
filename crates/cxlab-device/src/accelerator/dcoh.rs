//! The coherency engine (DCOH) of a Type 2 device with HDM-DB memory.
//!
//! The table [`cxlab_protocol::coherence::dcoh`] decides what happens to a line, with the host
//! as the only holder. This module adds the timing and the bounded resources. The directory has
//! a bit for each line of the memory, so it never evicts. A line that the host may hold is
//! recalled by `BISnpInv`. Requests of the host for the line wait until the host has responded,
//! which the specification allows (CXL 3.1, section 3.3.11). The access that the line was
//! recalled for precedes such a request, so that a host with continuous requests cannot keep the
//! device from the line.
//!
//! A modified line of the cache in front of the medium is transferred to a host that requests
//! ownership without a write-back (`Cmp-M`).

use cxlab_engine::units::LineAddr;
use cxlab_protocol::coherence::dcoh::{Actions, Event, Filter, LineState, Peer, Phase, step};
use serde::{Deserialize, Serialize};

use super::bias::BiasTable;

/// The host, the only possible holder of lines of the memory.
pub(super) const HOST: Peer = match Peer::new(0) {
    Some(host) => host,
    None => unreachable!(),
};

/// A line with an outstanding operation.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct BusyLine {
    line: LineAddr,
    state: LineState,
    /// CQID of the entry that waits for the response to the snoop.
    entry: u32,
}

/// State of the engine beside the directory.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Dcoh {
    busy: Vec<BusyLine>,
    pub(super) stats: AcceleratorDcohStats,
}

/// Counters since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct AcceleratorDcohStats {
    /// `BISnpInv` messages sent.
    pub(super) snoops: u64,
    /// `BIConflict` messages of the host.
    pub(super) conflicts: u64,
    /// Modified lines transferred to the host without a write-back.
    pub(super) passed_modified: u64,
}

impl Dcoh {
    fn phase(&self, line: LineAddr) -> Phase {
        let busy = self.busy.iter().find(|busy| busy.line == line);
        busy.map_or(Phase::Idle, |busy| busy.state.phase)
    }

    /// Whether a line has been snooped and the host has not responded.
    pub(super) fn is_snooping(&self, line: LineAddr) -> bool {
        matches!(self.phase(line), Phase::Snooping(_))
    }

    pub(super) fn is_reading(&self, line: LineAddr) -> bool {
        matches!(self.phase(line), Phase::Reading(_))
    }

    /// The CQID of the entry that waits for the response to the snoop of a line.
    pub(super) fn entry_of(&self, line: LineAddr) -> Option<u32> {
        let busy = self.busy.iter().find(|busy| busy.line == line)?;
        Some(busy.entry)
    }

    /// Applies an event to a line, whose number in the memory is `number`, and returns the actions of the table.
    ///
    /// # Panics
    /// If the table has no row for the event: a message violated the protocol, which is a
    /// bug of the simulator.
    pub(super) fn step(
        &mut self,
        bias: &mut BiasTable,
        (line, number): (LineAddr, u64),
        entry: u32,
        event: Event,
    ) -> Actions {
        let index = self.busy.iter().position(|busy| busy.line == line);
        let state = match index {
            Some(index) => self.busy[index].state,
            None if bias.is_host(number) => LineState::idle(Filter::Any(HOST)),
            None => LineState::idle(Filter::Invalid),
        };
        let Some((next, actions)) = step(state, event) else {
            panic!("{event:?} in {state:?} breaks the coherence of HDM-DB memory")
        };
        match (index, next.is_busy()) {
            (Some(index), true) => self.busy[index].state = next,
            (Some(index), false) => {
                self.busy.swap_remove(index);
            }
            (None, true) => self.busy.push(BusyLine {
                line,
                state: next,
                entry,
            }),
            (None, false) => {}
        }
        match next.filter {
            Filter::Invalid => bias.left(number),
            Filter::Any(_) | Filter::Shared(_) => bias.host_takes(number),
        }
        actions
    }
}
