//! Prefetchers: which pages a cache should fetch before they are requested.
//!
//! A prefetcher sees every access of the cache's owner and every page that is filled, and names
//! pages to fetch. The cache drops those that it has, those outside the device, and those for which
//! there is no room at once. Pages are numbered from the beginning of the device. A new prefetcher
//! needs a file, its `mod`, and a line in [`CATALOG`].

mod best_offset;
mod next_page;
mod stride;

#[cfg(test)]
mod tests;

use cxlab_engine::catalog::{Entry, read_params};
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most pages that one access may prefetch.
pub const MAX_DEGREE: u32 = 16;

/// The result of an access to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageAccessResult {
    /// The page was present, or in flight for an earlier request.
    Hit,
    /// The first use of a page that is present, or in flight, because of a prefetch.
    PrefetchHit,
    /// The page, or a part of it, had to be fetched.
    Miss,
}

/// The pages that an access should prefetch, at most [`MAX_DEGREE`].
#[derive(Clone, Copy, Default, Debug)]
pub struct PrefetchCandidates {
    pages: [u64; MAX_DEGREE as usize],
    len: usize,
}

impl PrefetchCandidates {
    /// Adds a page, unless the list is full.
    #[inline]
    pub fn push(&mut self, page: u64) {
        if let Some(place) = self.pages.get_mut(self.len) {
            *place = page;
            self.len += 1;
        }
    }

    /// Adds `degree` pages at distances of `step`, twice `step` and so on from `page`.
    #[inline]
    fn push_from(&mut self, page: u64, step: i64, degree: u32) {
        let mut next = page;
        for _ in 0..degree {
            let Some(page) = next.checked_add_signed(step) else {
                return;
            };
            self.push(page);
            next = page;
        }
    }

    /// The pages in the order in which they were added.
    pub fn as_slice(&self) -> &[u64] {
        &self.pages[..self.len]
    }
}

/// The state of a prefetcher for one cache.
pub trait Prefetcher: SaveState + Send {
    /// The owner of the cache accessed a page. Pages to prefetch are added to `wanted`.
    fn accessed(&mut self, page: u64, outcome: PageAccessResult, wanted: &mut PrefetchCandidates);
    /// A page was filled, on demand or because of a prefetch.
    fn filled(&mut self, _page: u64, _prefetched: bool) {}
}

/// A prefetcher's parameters, from which its state is built.
pub trait PrefetchPolicy: Send + Sync {
    /// A new state for one cache.
    fn state(&self) -> Box<dyn Prefetcher>;
}

/// Every prefetcher that a scenario can name.
pub static CATALOG: &[Entry<Box<dyn PrefetchPolicy>>] =
    &[NONE, next_page::ENTRY, stride::ENTRY, best_offset::ENTRY];

const NONE: Entry<Box<dyn PrefetchPolicy>> = Entry {
    name: "none",
    summary: "no prefetching",
    schema: <NoPrefetch as JsonSchema>::json_schema,
    build: |params| {
        let NoPrefetch {} = read_params(params)?;
        Ok(Box::new(NoPrefetch {}))
    },
};

/// Parameters of `none`: there are none.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NoPrefetch {}

impl PrefetchPolicy for NoPrefetch {
    fn state(&self) -> Box<dyn Prefetcher> {
        Box::new(NoPrefetch {})
    }
}

/// `none` has no state.
impl SaveState for NoPrefetch {
    fn save(&self, _: &mut StateWriter) {}

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Prefetcher for NoPrefetch {
    fn accessed(&mut self, _: u64, _: PageAccessResult, _: &mut PrefetchCandidates) {}
}
