//! Checks of media from shared libraries.

use cxlab_memory::{FaultList, RunContext};

use crate::plan::Plan;
use crate::problem::{Problem, Problems};

impl Plan {
    /// The context that all media of a run share.
    pub fn media_context(&self, faults: FaultList) -> RunContext {
        RunContext {
            folder: self.files.scenario_dir.clone(),
            faults,
        }
    }

    /// Checks that media from shared libraries can be built, by running their code.
    ///
    /// # Errors
    /// The media that fail.
    pub fn rehearse_media(&self) -> Result<(), Vec<Problem>> {
        let context = self.media_context(FaultList::default());
        let media = self.media.all(&self.scenario);
        let foreign = media.filter(|(_, medium, _)| medium.runs_code());
        let mut problems = Problems::default();
        for (place, medium, capacity) in foreign {
            problems.built(&place, medium.rehearse(capacity, &context));
        }
        problems.into_result(())
    }

    /// Turns a fault of a medium from a shared library into a problem of the scenario.
    ///
    /// # Errors
    /// The first fault.
    pub fn check_faults(&self, faults: &FaultList) -> Result<(), Vec<Problem>> {
        let what = faults.first().map(|(_, what)| what);
        let fault = what.map(|what| Problem::new("", format!("{what} (docs/guide/plugins.md)")));
        Problems::from_iter(fault).into_result(())
    }
}
