//! A DRAM cache in front of a slow medium.
//!
//! The model has
//!
//! - pages with valid and dirty sectors in sets of ways, any victim policy of the catalog,
//!   write-back and write-allocate;
//! - DRAM timing of every access: a hit takes the look-up and its access, and competes in order
//!   with the writes of fills and the reads of evictions;
//! - a bounded number of fetches for missed pages; each serves a bounded number of requests as soon
//!   as their sectors arrive, straight from the fetched data;
//! - a bounded write-back buffer, which takes evicted dirty pages off the path of the miss; reads
//!   of the slow medium have priority over writes;
//! - in-order look-up: a request that cannot proceed stalls those behind it.
//!
//! A read of sectors that the write-back buffer holds is served from the buffer. Any other miss to
//! such a page waits until it is written, and then fetches. No data enter a frame before the
//! evicted page has been read out of it. A request completes when its data are read, or are written
//! into the DRAM or into the fetched data.
//!
//! Left out: data, tags kept in DRAM, and the size of the buffer for fetched data (a fetch has room
//! for its page).

mod cache;
mod fetch;
mod mask;
mod observer;
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
pub use cache::{DramCache, PowerFailureFlush};
pub use observer::{Movement, MovementObserver, NoObserver};
use params::ResolvedCache;
pub use params::{DramCacheParams, FetchUnit, PagePolicyChoice, PrefetchChoice};

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "dram-cache",
    summary: "pages of a slow medium cached in DRAM: policies, MSHRs, write-back, prefetching",
    schema: <DramCacheParams as JsonSchema>::json_schema,
    build: |params| {
        let params: DramCacheParams = read_params(params)?;
        Ok(Box::new(params.resolve()?))
    },
};

impl Medium for ResolvedCache {
    fn load(&mut self, folder: &Path) -> Result<(), ParamError> {
        in_part("dram", self.dram.load(folder))?;
        in_part("behind", self.behind.load(folder))
    }

    /// The content is as persistent as the medium behind the cache.
    fn is_persistent(&self) -> Option<bool> {
        self.behind.is_persistent()
    }

    fn files(&self) -> Vec<InputFile> {
        let mut files = files_within("dram", self.dram.as_ref());
        files.extend(files_within("behind", self.behind.as_ref()));
        files
    }

    fn latency_follows_load(&self) -> bool {
        self.dram.latency_follows_load() || self.behind.latency_follows_load()
    }

    fn runs_code(&self) -> bool {
        self.dram.runs_code() || self.behind.runs_code()
    }

    fn notes(&self, _outstanding: Option<u32>) -> Vec<MediumNote> {
        let mut notes = notes_within("dram", self.dram.as_ref());
        notes.extend(notes_within("behind", self.behind.as_ref()));
        notes
    }

    fn rehearse(&self, capacity: Bytes, context: &RunContext) -> Result<(), ParamError> {
        in_part("dram", self.dram.rehearse(self.size, context))?;
        in_part("behind", self.behind.rehearse(capacity, context))
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        self.check_capacity(capacity)
    }

    fn backend(&self, site: MediumSite) -> Box<dyn MemoryBackend> {
        match DramCache::resolved(self, site, NoObserver) {
            Ok(cache) => Box::new(cache),
            Err(error) => unreachable!("parameters are checked before they are used: {error}"),
        }
    }

    fn can_be_warmed(&self) -> bool {
        self.dram.can_be_warmed() && self.behind.can_be_warmed()
    }

    fn slowest(&self) -> Picos {
        self.behind.slowest()
    }

    fn idle_read_ps(&self) -> Option<u64> {
        None
    }
}
