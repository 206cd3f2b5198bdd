//! The seam between a program and the core that runs it.
//!
//! Where an [`OpSource`] hands out lines for a requester to fetch, a [`Program`] hands out what a
//! processor executes: loads and stores of a few bytes, the computing between them, which of them
//! need an earlier one's data, write-backs and fences. The core in `cxlab-host` adds caches and
//! limits. A program knows no latency; it computes on its own copy of the data as it goes, so
//! that its addresses depend on real values.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Bytes, Hpa, SimTime};
use serde::{Deserialize, Serialize};

use crate::op::{OpKind, OpSource};

/// Where a host's own memory begins: above every address of CXL memory, of which a system has at
/// most 2^50 bytes.
pub const LOCAL_BASE: Hpa = Hpa(1 << 51);

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum Action {
    /// Loads from a line.
    Load,
    /// Stores to a line.
    Store,
    /// Writes a modified line back to memory and keeps it (CLWB).
    Flush,
}

/// What must have completed before a step may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum After {
    /// Nothing.
    Nothing,
    /// The step before it, whose data it needs.
    Previous,
    /// The step that comes so many before it, whose data its address or value needs; 1 is the one
    /// before it. It takes its turn with its computing done, and begins when the data are there. A
    /// step that is not there counts as complete.
    Back(u32),
    /// All steps before it (a fence).
    All,
}

/// One step of a program.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Step {
    /// The first byte accessed; an access lies within a line of 64 bytes.
    pub hpa: Hpa,
    /// What it does there.
    pub action: Action,
    /// What it waits for.
    pub after: After,
    /// Core cycles of computing before it, when its data have come.
    pub cycles: u32,
    /// Instructions from the step before it up to this one, which is what it takes of the window of
    /// a core; 0 for a further step of the same instruction. The cores of a processor count each step as one.
    pub instructions: u32,
    /// Earliest time; [`SimTime::ZERO`] when there is none.
    pub not_before: SimTime,
    /// The phase of the program that it belongs to: a place in [`Program::phases`].
    pub phase: u8,
    /// Whether an operation of the program (a query, an element of a vector) is done when this
    /// step has completed.
    pub ends: bool,
}

impl Step {
    /// A step that waits for nothing, in the first phase.
    pub fn new(hpa: Hpa, action: Action) -> Step {
        Step {
            hpa,
            action,
            after: After::Nothing,
            cycles: 0,
            instructions: 1,
            not_before: SimTime::ZERO,
            phase: 0,
            ends: false,
        }
    }
}

/// A phase of a program, which is measured by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Its name, in kebab case.
    pub name: String,
    /// Bytes that one operation of the phase moves, by the program's own count; 0 where it has
    /// none. (STREAM counts 16 bytes for an element copied.)
    pub bytes: Bytes,
}

/// A stream of steps for one core. A copy that is restored goes on as the original would have.
pub trait Program: SaveState + Send {
    /// The next step; `None` when the program has finished, and ever after.
    fn next_step(&mut self, rng: &mut StreamRng) -> Option<Step>;
    /// Its phases, in the order in which they are measured; at most 256.
    fn phases(&self) -> &[Phase];
    /// Checks the program's result against a computation made another way, once it has finished.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A source of lines as a program of loads and stores, one phase long.
pub struct Lines {
    source: Box<dyn OpSource>,
    phases: [Phase; 1],
}

save_state!(Lines {
    states: source;
    built: phases;
});

impl Lines {
    /// A program that accesses what the source hands out.
    pub fn new(source: Box<dyn OpSource>) -> Lines {
        let phase = Phase {
            name: "all".to_owned(),
            bytes: Bytes(64),
        };
        Lines {
            source,
            phases: [phase],
        }
    }
}

impl Program for Lines {
    fn next_step(&mut self, rng: &mut StreamRng) -> Option<Step> {
        let op = self.source.next_op(rng)?;
        let action = match op.kind {
            OpKind::Read => Action::Load,
            OpKind::Write => Action::Store,
        };
        Some(Step {
            after: match op.dependent {
                true => After::Previous,
                false => After::Nothing,
            },
            not_before: op.not_before,
            ends: true,
            ..Step::new(op.hpa, action)
        })
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }
}
