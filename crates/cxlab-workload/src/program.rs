//! The interface between a program and the core that runs it.
//!
//! An [`OpSource`] hands out lines for a requester to fetch. A [`Program`] hands out what a
//! processor executes: loads and stores of a few bytes, computing between them, dependencies on
//! earlier loads, write-backs and fences. The core in `cxlab-host` adds caches and limits. A
//! program knows no latency. It computes on its own copy of the data, so that its addresses
//! depend on real values.

use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Bytes, Hpa, SimTime};
use serde::{Deserialize, Serialize};

use crate::op::{OpKind, OpSource};

/// First address of a host's own memory. It is above every address of CXL memory, of which a system
/// has at most 2^50 bytes.
pub const LOCAL_BASE: Hpa = Hpa(1 << 51);

/// Most threads of a program on a core.
pub const MOST_THREADS: usize = 256;

/// The kind of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum Action {
    /// Loads from a line.
    Load,
    /// Stores to a line.
    Store,
    /// Writes a modified line back to memory and keeps it cached (CLWB).
    Flush,
}

/// The steps that must have completed before a step may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Debug)]
pub enum StepDependency {
    /// No step: it may begin at once.
    Nothing,
    /// The preceding step, whose data this step needs.
    Previous,
    /// The step that many positions earlier, whose data this step's address or value needs; 1 is
    /// the preceding step. This step enters the core's window when its own computing is done, and
    /// begins when the data arrive. A step that does not exist counts as complete.
    Back(u32),
    /// All earlier steps (a fence).
    All,
}

/// One step of a program: a memory access, its dependencies, and the computing before it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Step {
    /// The first byte accessed; the access does not cross a 64-byte line.
    pub hpa: Hpa,
    /// What the step does at that address.
    pub action: Action,
    /// The earlier steps that must have completed.
    pub after: StepDependency,
    /// Core cycles of computing before the step. With [`StepDependency::Previous`] and [`StepDependency::All`],
    /// computing starts when the earlier steps have completed.
    pub cycles: u32,
    /// Instructions after the preceding step up to and including this one. The step occupies as
    /// many entries of a core's window; 0 for a further step of the same instruction. The cores of
    /// a processor count each step as one instruction.
    pub instructions: u32,
    /// Earliest time at which the step may begin; [`SimTime::ZERO`] for no limit.
    pub not_before: SimTime,
    /// The program's phase that the step belongs to, as an index into [`Program::phases`].
    pub phase: u8,
    /// Whether the step's completion completes an operation of the program (a query, an
    /// element of a vector).
    pub ends: bool,
}

impl Step {
    /// Makes a step of the first phase that depends on no other step and computes nothing.
    pub fn new(hpa: Hpa, action: Action) -> Step {
        Step {
            hpa,
            action,
            after: StepDependency::Nothing,
            cycles: 0,
            instructions: 1,
            not_before: SimTime::ZERO,
            phase: 0,
            ends: false,
        }
    }
}

/// A point of a thread at which all its earlier steps have completed, and where it may wait for another
/// thread of its program: a lock, a barrier, the end of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct SyncPoint {
    /// Core cycles of computing before the point, after all earlier steps.
    pub cycles: u64,
    /// Instructions after the preceding step.
    pub instructions: u64,
    /// The thread goes on when that thread has passed so many points of its own; `None`: at once.
    pub after: Option<(u16, u64)>,
}

/// What a thread of a program does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadStep {
    /// A memory access.
    Step(Step),
    /// A point at which threads wait for one another.
    Sync(SyncPoint),
}

/// A phase of a program. Each phase is measured by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// The phase's name, in kebab case.
    pub name: String,
    /// Bytes that one operation of the phase moves, by the program's own count; 0 where the program
    /// has no such count. (STREAM counts 16 bytes for an element copied.)
    pub bytes: Bytes,
}

/// A stream of steps for one core. A program restored from a checkpoint continues as the
/// saved program would have.
pub trait Program: SaveState + Send {
    /// Returns the next step; `None` when the program has finished, and at every later call.
    fn next_step(&mut self, rng: &mut StreamRng) -> Option<Step>;
    /// Number of the program's threads, which a core runs at once; 1 to [`MOST_THREADS`]. The cores of a
    /// processor run programs of one thread.
    fn threads(&self) -> usize {
        1
    }
    /// Returns what a thread does next; `None` when that thread has finished, and at every later call.
    /// A program of one thread has no points of synchronization.
    fn next_of(&mut self, thread: usize, rng: &mut StreamRng) -> Option<ThreadStep> {
        let _ = thread;
        self.next_step(rng).map(ThreadStep::Step)
    }
    /// The program's phases in the order of measurement; at most 256.
    fn phases(&self) -> &[Phase];
    /// Checks the result of a finished program against a computation made in another way.
    ///
    /// # Errors
    /// Describes the difference.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A program of one phase that loads and stores the lines of an [`OpSource`].
pub struct Lines {
    source: Box<dyn OpSource>,
    phases: [Phase; 1],
}

save_state!(Lines {
    states: source;
    built: phases;
});

impl Lines {
    /// Makes a program that accesses the lines that `source` hands out.
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
                true => StepDependency::Previous,
                false => StepDependency::Nothing,
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
