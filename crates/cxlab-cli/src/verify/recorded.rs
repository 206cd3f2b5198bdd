//! A recorded run as a program: what the first caches of its threads lacked, in order, which access needs whose
//! data, and where threads wait for one another.

use std::sync::Arc;

use cxlab_attach::placement::PAGE;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Hpa};
use cxlab_workload::{
    Action, LOCAL_BASE, Phase, Program, SourceContext, Step, StepDependency, SyncPoint, ThreadStep,
    Workload, WorkloadError, WorkloadForm,
};
use serde::{Deserialize, Serialize};

/// An access that missed the first cache, or a line that the first cache wrote back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    /// Number of the page.
    pub(super) page: u32,
    /// Number of instructions since the previous access.
    pub(super) instructions: u32,
    /// Distance to the earlier access on whose data this access depends, or 0 for none.
    pub(super) back: u32,
    /// Number of the line in the page.
    pub(super) line: u8,
    pub(super) store: bool,
}

/// Recorded accesses of a thread.
#[derive(Default, Debug)]
pub(super) struct RecordedThread {
    pub(super) accesses: Vec<Access>,
    /// Points of synchronization, each with the number of accesses before it.
    pub(super) syncs: Vec<(usize, SyncPoint)>,
    pub(super) instructions: u64,
}

/// A recorded execution.
#[derive(Default, Debug)]
pub(super) struct RecordedExecution {
    /// The threads in the order in which they began, at least one.
    pub(super) threads: Vec<RecordedThread>,
    /// Address of each page in CXL memory. `None` for a page in the host's own memory.
    pub(super) pages: Vec<Option<u64>>,
}

impl RecordedExecution {
    /// Bytes of local memory that hold all pages, wherever they are placed.
    pub(super) fn bytes(&self) -> u64 {
        self.highest() + (self.pages.len() as u64).max(1) * PAGE
    }

    /// First address behind all pages in CXL memory.
    fn highest(&self) -> u64 {
        let last = self.pages.iter().flatten().max();
        last.map_or(0, |last| last + PAGE)
    }

    /// Address of a page in local memory. Pages of CXL memory keep their distances and thus their cache sets.
    fn local(&self, page: u32, highest: u64) -> u64 {
        let place = self.pages[page as usize];
        LOCAL_BASE.0 + place.unwrap_or(highest + u64::from(page) * PAGE)
    }
}

/// A recorded run as a scenario's workload.
pub(super) struct ReplayedWorkload {
    pub(super) recorded: Arc<RecordedExecution>,
    /// Whether pages are stored as placed. Otherwise all are in the host's own memory.
    pub(super) placed: bool,
}

impl Workload for ReplayedWorkload {
    fn form(&self) -> WorkloadForm {
        WorkloadForm::Program("external")
    }

    fn program(&self, context: &SourceContext) -> Result<Box<dyn Program>, WorkloadError> {
        Ok(Box::new(Replay {
            recorded: Arc::clone(&self.recorded),
            placed: self.placed,
            span: context.span.0,
            highest: self.recorded.highest(),
            next: vec![Position::default(); self.recorded.threads.len()],
            phases: [Phase {
                name: "all".to_owned(),
                bytes: Bytes(0),
            }],
        }))
    }
}

/// Number of accesses and synchronization points that a thread has executed.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Position {
    accesses: usize,
    syncs: usize,
}

struct Replay {
    recorded: Arc<RecordedExecution>,
    placed: bool,
    /// Bytes of CXL memory.
    span: u64,
    highest: u64,
    /// Position of each thread.
    next: Vec<Position>,
    phases: [Phase; 1],
}

save_state!(Replay {
    values: next;
    built: recorded, placed, span, highest, phases;
});

impl Replay {
    fn access(&mut self, thread: usize) -> Option<Step> {
        let recorded = &self.recorded.threads[thread];
        let access = recorded.accesses.get(self.next[thread].accesses)?;
        self.next[thread].accesses += 1;
        let place = self.recorded.pages[access.page as usize];
        let page = match place.filter(|_| self.placed && self.span > 0) {
            Some(offset) => offset % self.span,
            None => self.recorded.local(access.page, self.highest),
        };
        let action = match access.store {
            true => Action::Store,
            false => Action::Load,
        };
        Some(Step {
            after: match access.back {
                0 => StepDependency::Nothing,
                back => StepDependency::Back(back),
            },
            cycles: access.instructions,
            instructions: access.instructions,
            ..Step::new(Hpa(page + u64::from(access.line) * 64), action)
        })
    }
}

impl Program for Replay {
    fn next_step(&mut self, _rng: &mut StreamRng) -> Option<Step> {
        self.access(0)
    }

    fn threads(&self) -> usize {
        self.next.len()
    }

    fn next_of(&mut self, thread: usize, _rng: &mut StreamRng) -> Option<ThreadStep> {
        let next = &mut self.next[thread];
        let syncs = &self.recorded.threads[thread].syncs;
        if let Some((before, sync)) = syncs.get(next.syncs)
            && *before == next.accesses
        {
            next.syncs += 1;
            return Some(ThreadStep::Sync(*sync));
        }
        self.access(thread).map(ThreadStep::Step)
    }

    fn phases(&self) -> &[Phase] {
        &self.phases
    }
}
