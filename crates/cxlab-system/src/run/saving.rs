//! Checkpoints of a run.

use cxlab_engine::state::Refusal;
use cxlab_engine::units::SimTime;
use cxlab_plan::Plan;
use cxlab_plan::windows::WindowEnd;

use super::{RunError, Runner};
use crate::batches::Batches;
use crate::checkpoint::{self, Checkpoint, Checkpoints, Writer};
use crate::system::{RecordOptions, System};

impl Checkpoint {
    /// Checks that the checkpoint can be restored completely into a system of this plan and seed.
    ///
    /// # Errors
    /// Mistakes in the checkpoint or in the plan's workloads.
    pub fn inspect(&self, plan: &Plan, seed: u64) -> Result<(), RunError> {
        let record = RecordOptions {
            states: true,
            ..RecordOptions::default()
        };
        let mut system = System::build(plan, seed, record)?;
        let restored = self.restore(plan, seed, &mut system.simulation);
        restored.map(drop).map_err(RunError::Checkpoint)
    }
}

impl<'p> Runner<'p, '_> {
    /// Continues from a checkpoint if there is one, and prepares the writer of checkpoints.
    pub(super) fn take_up(
        &mut self,
        checkpoints: Checkpoints<'p>,
        warmup: WindowEnd,
        window: WindowEnd,
    ) -> Result<(), RunError> {
        if let Some(checkpoint) = &checkpoints.restore {
            let simulation = &mut self.system.simulation;
            let restored = checkpoint.restore(self.plan, self.options.seed, simulation);
            (self.position, self.batches) = restored.map_err(RunError::Checkpoint)?;
            if self.ranked.as_ref().is_some_and(|own| own.ranks.rank() > 0) {
                self.batches.iter_mut().for_each(Batches::forget);
            }
            self.now = self.position.now;
            self.options.monitor.set_untimed_work(self.completed());
            self.check_windows(warmup, window)?;
        }
        if checkpoints.write.is_some() || self.ranked.is_some() {
            // Before a long run, not after it.
            let refusals = checkpoint::refusals(&mut self.system.simulation);
            if !refusals.is_empty() {
                return Err(self.not_saved(&refusals));
            }
        }
        if let Some(write) = checkpoints.write {
            let completed = self.completed();
            let writer = Writer::new(write, checkpoints.not_written, self.now, completed);
            self.writer = Some(writer.map_err(RunError::Checkpoint)?);
        }
        Ok(())
    }

    /// Time up to which the run is simulated before the next check for a checkpoint.
    pub(super) fn slice(&mut self) -> SimTime {
        if self.writer.is_none() {
            return SimTime::NEVER;
        }
        let completed = self.completed();
        let now = self.now;
        let slice =
            (self.writer.as_mut()).map_or(SimTime::NEVER, |writer| writer.slice(now, completed));
        self.agreed(slice)
    }

    pub(super) fn write_if_due(&mut self) -> Result<(), RunError> {
        if self.writer.is_none() {
            return Ok(());
        }
        let completed = self.completed();
        let now = self.now;
        let due = (self.writer.as_mut()).is_some_and(|writer| writer.is_due(now, completed));
        match self.agreed(due) {
            true => self.write_checkpoint(),
            false => Ok(()),
        }
    }

    /// Position and state of the run, as bytes of a checkpoint.
    fn saved(&mut self) -> Result<Vec<u8>, RunError> {
        self.position.now = self.now;
        let simulation = &mut self.system.simulation;
        let batches = match self.ranked {
            Some(_) => self.gathered.as_ref(),
            None => self.batches.as_ref(),
        };
        let position = (&self.position, batches);
        let saved = checkpoint::save(self.plan, self.options.seed, position, simulation);
        saved.map_err(|refusals| self.not_saved(&refusals))
    }

    pub(super) fn not_saved(&self, refusals: &[Refusal]) -> RunError {
        RunError::Problems(checkpoint::problems(self.plan, &self.system, refusals))
    }

    /// Writes a checkpoint; rank 0 writes for all ranks.
    pub(super) fn write_checkpoint(&mut self) -> Result<(), RunError> {
        let completed = self.completed();
        let bytes = match self.gather()? {
            true => Some(self.saved()?),
            false => None,
        };
        match &mut self.writer {
            Some(writer) => {
                let written = writer.write(bytes.as_deref(), self.now, completed);
                written.map_err(RunError::Checkpoint)
            }
            None => Ok(()),
        }
    }
}
