//! Several media behind one controller: a device whose addresses are spread over channels.
//!
//! Modelled: any number and kinds of media, and an address map (interleaved, hashed, or consecutive
//! ranges). A request that crosses from one medium to another is split, and completes with its last
//! piece. A bounded number of pieces waits, in order, for media without room. The media work in
//! parallel and independently.
//!
//! Left out: the time to find the channel (part of a device's `process_time`), and any bus that the
//! channels would share.

mod map;
mod memory;
mod params;

#[cfg(test)]
mod tests;

use std::path::Path;

use cxlab_cache::MemoryBackend;
use cxlab_engine::catalog::{Entry, ParamError, in_part, read_params};
use cxlab_engine::units::{Bytes, Picos};
use schemars::JsonSchema;

use crate::nested::{files_within, notes_within};
use crate::{InputFile, Medium, MediumNote, MediumSite, RunContext};
use memory::Interleaved;
pub use params::{InterleavedParams, Spread};

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "interleaved",
    summary: "several media side by side: a device's addresses spread over channels",
    schema: <InterleavedParams as JsonSchema>::json_schema,
    build: |params| {
        let params: InterleavedParams = read_params(params)?;
        Ok(Box::new(params.resolve()?))
    },
};

impl Medium for params::ResolvedInterleave {
    fn load(&mut self, folder: &Path) -> Result<(), ParamError> {
        for (at, medium) in self.media.iter_mut().enumerate() {
            in_part(&format!("media[{}]", at % self.listed), medium.load(folder))?;
        }
        Ok(())
    }

    fn is_persistent(&self) -> Option<bool> {
        let mut kinds = self.media.iter().map(|medium| medium.is_persistent());
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)?
    }

    fn files(&self) -> Vec<InputFile> {
        let media = self.media.iter().enumerate();
        media
            .flat_map(|(at, medium)| files_within(&format!("media[{at}]"), medium.as_ref()))
            .collect()
    }

    fn latency_follows_load(&self) -> bool {
        self.media
            .iter()
            .any(|medium| medium.latency_follows_load())
    }

    fn runs_code(&self) -> bool {
        self.media.iter().any(|medium| medium.runs_code())
    }

    fn notes(&self, _outstanding: Option<u32>) -> Vec<MediumNote> {
        let listed = self.media.iter().take(self.listed).enumerate();
        listed
            .flat_map(|(at, medium)| notes_within(&format!("media[{at}]"), medium.as_ref()))
            .collect()
    }

    fn rehearse(&self, capacity: Bytes, context: &RunContext) -> Result<(), ParamError> {
        let parts = self.media.iter().zip(self.shares(capacity)).enumerate();
        for (at, (medium, capacity)) in parts {
            in_part(&format!("media[{at}]"), medium.rehearse(capacity, context))?;
        }
        Ok(())
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        self.check_capacity(capacity)
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        Box::new(Interleaved::new(self, site))
    }

    fn can_be_warmed(&self) -> bool {
        self.media.iter().all(|medium| medium.can_be_warmed())
    }

    fn keeps_state(&self) -> bool {
        self.media.iter().any(|medium| medium.keeps_state())
    }

    fn slowest(&self) -> Picos {
        let times = self.media.iter().map(|medium| medium.slowest());
        times.max().unwrap_or_default()
    }

    fn idle_read_ps(&self) -> Option<u64> {
        let mut times = self.media.iter().map(|medium| medium.idle_read_ps());
        let first = times.next()??;
        times.all(|time| time == Some(first)).then_some(first)
    }
}
