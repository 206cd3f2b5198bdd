//! Prefetchers: which pages a cache should fetch before anyone asks.
//!
//! A prefetcher hears of every access of the cache's owner and of every page that comes in, and
//! names pages; the cache drops those that it has, that lie outside the device, and those for which
//! there is no room at once. Pages are numbered from the beginning of the device. Adding one is a
//! new file, its `mod`, and its line in [`CATALOG`].

mod best_offset;
mod next_page;
mod stride;

#[cfg(test)]
mod tests;

use cxlab_engine::catalog::{Entry, ParamError, read_params};
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most pages that one access asks for.
pub const MAX_DEGREE: u32 = 16;

/// What happened to a page that was accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was there.
    Hit,
    /// It was there, or on its way, because of a prefetch, and nobody had asked for it before.
    PrefetchHit,
    /// It was not.
    Miss,
}

/// Pages to fetch.
#[derive(Clone, Copy, Default, Debug)]
pub struct Candidates {
    pages: [u64; MAX_DEGREE as usize],
    len: usize,
}

impl Candidates {
    /// Names a page; one that is too many is dropped.
    #[inline]
    pub fn push(&mut self, page: u64) {
        if let Some(place) = self.pages.get_mut(self.len) {
            *place = page;
            self.len += 1;
        }
    }

    /// Names the pages that lie `step`, twice `step` and so on from `page`, `degree` of them.
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

    /// The pages that were named, in order.
    pub fn as_slice(&self) -> &[u64] {
        &self.pages[..self.len]
    }
}

/// A prefetcher at work.
pub trait Prefetcher: SaveState + Send {
    /// The owner of the cache asked for a page.
    fn accessed(&mut self, page: u64, outcome: Outcome, wanted: &mut Candidates);
    /// A page came in, because of a prefetch or not.
    fn filled(&mut self, _page: u64, _prefetched: bool) {}
}

/// A prefetcher with its parameters.
pub trait PrefetchPolicy: Send + Sync {
    /// What it remembers for one cache.
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

/// No parameters.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
struct NoPrefetch {}

impl PrefetchPolicy for NoPrefetch {
    fn state(&self) -> Box<dyn Prefetcher> {
        Box::new(NoPrefetch {})
    }
}

/// It has none.
impl SaveState for NoPrefetch {
    fn save(&self, _: &mut StateWriter) {}

    fn restore(&mut self, _: &mut StateReader<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Prefetcher for NoPrefetch {
    fn accessed(&mut self, _: u64, _: Outcome, _: &mut Candidates) {}
}

/// Refuses a number out of range.
fn within(field: &str, found: u32, least: u32, most: u32) -> Result<(), ParamError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let message = format!("found {found}; allowed: {least} to {most}");
    Err(ParamError::new(field, message))
}
