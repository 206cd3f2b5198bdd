//! A DRAM cache in front of a slow medium.
//!
//! Modelled: pages with valid and dirty sectors in sets of ways, any victim policy of the catalog,
//! write-back and write-allocate. Every access is timed by the DRAM: a hit takes the look-up and
//! its access, and the writes of fills and the reads of evictions compete with it, in order. Pages
//! that are missed are fetched by a bounded number of fetches, each of which serves a bounded
//! number of requests as its sectors come, straight from what was fetched. Dirty pages that leave
//! go through a bounded buffer, out of the way of the miss; reads of the slow medium go before
//! writes. A request that cannot go on holds back those behind it.
//!
//! A page in the write-back buffer: a read of sectors that it holds is served from it; any other
//! miss waits until it is written, and then fetches. A frame takes nothing in before the page that
//! leaves has been read out of it. A request is answered when its data is read, or written into
//! the DRAM or into what was fetched.
//!
//! Left out: data, tags kept in DRAM, and the size of the buffer for what was fetched (a fetch has
//! room for its page).

mod cache;
mod fetch;
mod mask;
mod observer;
mod params;

#[cfg(test)]
mod tests;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::units::{Bytes, Picos};
use schemars::JsonSchema;

use crate::backend::MemoryBackend;
use crate::nested::{files_within, within};
use crate::{InputFile, Medium, RunContext, Site};
pub use cache::{DramCache, PowerFail};
pub use observer::{Movement, Observer, Silent};
pub use params::{DramCacheParams, FetchUnit, PagePolicyChoice, PrefetchChoice};

pub(crate) const ENTRY: Entry<Box<dyn Medium>> = Entry {
    name: "dram-cache",
    summary: "pages of a slow medium cached in DRAM: policies, MSHRs, write-back, prefetching",
    schema: <DramCacheParams as JsonSchema>::json_schema,
    build: |params| {
        let params: DramCacheParams = read_params(params)?;
        params.resolve()?;
        Ok(Box::new(params))
    },
};

impl Medium for DramCacheParams {
    /// What the cache holds is of the medium behind it.
    fn is_persistent(&self) -> Option<bool> {
        let behind = self.resolve().map(|resolved| resolved.behind);
        behind.map_or(Some(false), |behind| behind.is_persistent())
    }

    fn files(&self) -> Vec<InputFile> {
        let Ok(resolved) = self.resolve() else {
            return Vec::new();
        };
        let mut files = files_within("dram", resolved.dram.as_ref());
        files.extend(files_within("behind", resolved.behind.as_ref()));
        files
    }

    fn rehearse(&self, capacity: Bytes, context: &RunContext) -> Result<(), ParamError> {
        let resolved = self.resolve()?;
        let dram = resolved.dram.rehearse(resolved.size, context);
        dram.map_err(|error| within("dram", error))?;
        let behind = resolved.behind.rehearse(capacity, context);
        behind.map_err(|error| within("behind", error))
    }

    fn check(&self, capacity: Bytes) -> Result<(), ParamError> {
        self.resolve()?.check(capacity)
    }

    fn backend(&self, site: Site) -> Box<dyn MemoryBackend> {
        match DramCache::new(self, site, Silent) {
            Ok(cache) => Box::new(cache),
            Err(error) => unreachable!("parameters are checked before they are used: {error}"),
        }
    }

    fn can_be_warmed(&self) -> bool {
        let parts = self
            .resolve()
            .map(|resolved| [resolved.dram, resolved.behind]);
        parts.is_ok_and(|parts| parts.iter().all(|part| part.can_be_warmed()))
    }

    fn slowest(&self) -> Picos {
        let behind = self.resolve().map(|resolved| resolved.behind.slowest());
        behind.unwrap_or_default()
    }

    fn idle_read_ps(&self) -> Option<u64> {
        None
    }
}
