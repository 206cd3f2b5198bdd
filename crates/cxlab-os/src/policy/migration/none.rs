//! Pages stay where they are.

use cxlab_engine::catalog::Entry;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use schemars::JsonSchema;

use super::{Migration, MigrationPolicy};
use crate::frames::FrameAllocator;
use crate::policy::NoParams;

pub(super) const ENTRY: Entry<Box<dyn MigrationPolicy>> = Entry {
    name: "none",
    summary: "pages stay where they were placed",
    schema: <NoParams as JsonSchema>::json_schema,
    build: |params| {
        NoParams::check(params)?;
        Ok(Box::new(Stay))
    },
};

struct Stay;

impl MigrationPolicy for Stay {
    fn state(&self, _frames: &FrameAllocator) -> Box<dyn Migration> {
        Box::new(Stay)
    }
}

/// The policy has no state.
impl SaveState for Stay {
    fn save(&self, _: &mut StateWriter) {}

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Migration for Stay {}
