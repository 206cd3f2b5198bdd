//! TLBs and address translation caches (ATC): translations by page, of both sizes.
//!
//! A lookup searches for the page of 4 KiB and for the page of 2 MiB, in one array or in two. The
//! owner of the cache decides what a hit and a miss cost; the latencies here are parameters only.
//! Left out: global pages, and two levels (an owner uses two caches).
//!
//! Invariant: after an invalidation no lookup finds a translation of its range.

mod walk_cache;

#[cfg(test)]
mod tests;

use cxlab_cache::{Geometry, TagArray, victim};
use cxlab_engine::catalog::ParamError;
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, LineAddr, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use walk_cache::{WalkCache, WalkCacheParams, WalkCacheStats};

use crate::address::{Page, PageAccess, PageSize, Pasid, VirtAddr};
use crate::frames::Frame;
use crate::page_table::MappedPage;

/// Parameters of a TLB or an ATC. Defaults are those of a second-level TLB of a server core (Intel
/// Golden Cove, optimisation manual, 2.1.5: 2048 entries, 16 ways, both sizes; 7 cycles of delay).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct TlbParams {
    /// Number of entries for pages of 4 KiB, and for pages of 2 MiB if these have none of their
    /// own. 1 to 1048576. Default 2048.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub entries: u32,
    /// Number of ways in a set; equal to the entries for a fully associative cache. Default 16.
    pub ways: u32,
    /// Number of entries for pages of 2 MiB alone; 0 if both sizes share the entries. Default 0.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub large_entries: u32,
    /// Number of ways in a set of `large_entries`. Default 4; no effect without `large_entries`.
    pub large_ways: u32,
    /// Victim policy of a full set: a policy without parameters. Default `lru`.
    pub replacement: String,
    /// Time of a lookup, hit or miss. Default 2 ns (7 cycles at 3.5 GHz).
    pub latency: Picos,
}

impl Default for TlbParams {
    fn default() -> Self {
        TlbParams {
            entries: 2048,
            ways: 16,
            large_entries: 0,
            large_ways: 4,
            replacement: "lru".to_owned(),
            latency: Picos::from_nanos(2),
        }
    }
}

impl TlbParams {
    /// Parameters of a device's ATC: 64 entries, fully associative, a lookup of one cycle at 400
    /// MHz (*assumed*: no vendor publishes one; Cohet names none).
    pub fn device() -> TlbParams {
        TlbParams {
            entries: 64,
            ways: 64,
            latency: Picos(2_500),
            ..TlbParams::default()
        }
    }

    /// Parameters of an IOMMU's IOTLB: 512 entries in 8 ways (*assumed*).
    pub fn iommu() -> TlbParams {
        TlbParams {
            entries: 512,
            ways: 8,
            latency: Picos::from_nanos(5),
            ..TlbParams::default()
        }
    }
}

/// The frame of a page, and its write permission.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Translation {
    /// Frame of the page.
    pub frame: Frame,
    /// Whether the page has write permission.
    pub writable: bool,
}

impl Translation {
    /// Physical address of a virtual address in the page.
    #[inline]
    pub fn apply(self, address: VirtAddr) -> Hpa {
        Hpa(self.frame.base.0 + address.offset_in(self.frame.size))
    }

    /// Whether the permissions of the page allow an access.
    #[inline]
    pub fn allows(self, access: PageAccess) -> bool {
        self.writable || access == PageAccess::Read
    }
}

impl From<MappedPage> for Translation {
    fn from(mapping: MappedPage) -> Translation {
        Translation {
            frame: mapping.frame,
            writable: mapping.entry.is_writable(),
        }
    }
}

/// Counters of a TLB.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct TlbStats {
    /// Lookups that found a translation of 4 KiB.
    pub small_hits: u64,
    /// Lookups that found a translation of 2 MiB.
    pub large_hits: u64,
    /// Lookups that found no translation.
    pub misses: u64,
    /// Translations that were inserted.
    pub fills: u64,
    /// Translations that were evicted to make space.
    pub evictions: u64,
    /// Translations that were invalidated.
    pub invalidated: u64,
}

/// Key of a page in the tag array: bits of the page number, the page size, the process. Below 2^57;
/// consecutive pages map to consecutive sets.
#[inline]
fn key(page: Page) -> LineAddr {
    let number = page.start.0 >> page.size.bits();
    let size = (page.size == PageSize::Large) as u64;
    LineAddr(number | size << 36 | u64::from(page.pasid.0 & (Pasid::END - 1)) << 37)
}

/// The page of a key.
fn page_of(key: LineAddr) -> Page {
    let size = if key.0 >> 36 & 1 == 1 {
        PageSize::Large
    } else {
        PageSize::Small
    };
    let number = key.0 & ((1 << 36) - 1);
    Page {
        pasid: Pasid((key.0 >> 37) as u32),
        start: VirtAddr(number << size.bits()),
        size,
    }
}

/// The translations that an invalidation covers.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum InvalidationScope {
    /// All translations in a range of a process.
    Range {
        /// The process that the range belongs to.
        pasid: Pasid,
        /// First address of the range.
        start: VirtAddr,
        /// Length of the range in bytes.
        length: u64,
    },
    /// All translations of a process.
    Process(Pasid),
    /// All translations of all processes.
    All,
}

impl InvalidationScope {
    /// The scope of a single page.
    pub const fn page(page: Page) -> InvalidationScope {
        InvalidationScope::Range {
            pasid: page.pasid,
            start: page.start,
            length: page.size.bytes(),
        }
    }

    /// Whether the scope covers any part of the page.
    #[inline]
    pub fn concerns(self, page: Page) -> bool {
        self.touches(page.pasid, page.start.0, page.end())
    }

    /// Whether the scope covers any address from `from` up to `to` of a process.
    fn touches(self, of: Pasid, from: u64, to: u64) -> bool {
        match self {
            InvalidationScope::All => true,
            InvalidationScope::Process(pasid) => pasid == of,
            InvalidationScope::Range {
                pasid,
                start,
                length,
            } => pasid == of && from < start.0.saturating_add(length) && start.0 < to,
        }
    }
}

/// A TLB or an ATC.
pub struct Tlb {
    shared: TagArray<Translation>,
    large: Option<TagArray<Translation>>,
    large_present: u64,
    stats: TlbStats,
}

save_state!(Tlb {
    values: large_present, stats;
    states: shared, large;
});

/// A tag array, or the error in its parameters.
fn array<T: Copy + Default>(
    field: &str,
    entries: u32,
    ways: u32,
    replacement: &str,
    rng: StreamRng,
) -> Result<TagArray<T>, ParamError> {
    let geometry = Geometry::set_associative(entries.into(), ways.into())
        .map_err(|error| ParamError::new(field, error.to_string()))?;
    let policy = victim::build(replacement).ok_or_else(|| {
        let text = format!("`{replacement}` is no victim policy without parameters");
        ParamError::new("replacement", text)
    })?;
    Ok(TagArray::new(geometry, policy.as_ref(), rng))
}

impl Tlb {
    /// An empty cache. Only random replacement uses `rng`.
    ///
    /// # Errors
    /// A number of entries that is no multiple of the ways, or an unknown replacement policy.
    pub fn new(params: &TlbParams, rng: StreamRng) -> Result<Tlb, ParamError> {
        let TlbParams {
            entries,
            ways,
            large_entries,
            large_ways,
            replacement,
            ..
        } = params;
        let shared = array(
            "entries",
            *entries,
            *ways,
            replacement,
            rng.substream("entries"),
        )?;
        let large = (*large_entries > 0)
            .then(|| {
                array(
                    "large_entries",
                    *large_entries,
                    *large_ways,
                    replacement,
                    rng.substream("large_entries"),
                )
            })
            .transpose()?;
        Ok(Tlb {
            shared,
            large,
            large_present: 0,
            stats: TlbStats::default(),
        })
    }

    /// Counters of the cache.
    pub fn stats(&self) -> TlbStats {
        self.stats
    }

    /// Number of translations in the cache.
    pub fn len(&self) -> u32 {
        self.shared.len() + self.large.as_ref().map_or(0, TagArray::len)
    }

    /// Whether the cache contains no translation.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn array(&mut self, size: PageSize) -> &mut TagArray<Translation> {
        match (&mut self.large, size) {
            (Some(large), PageSize::Large) => large,
            _ => &mut self.shared,
        }
    }

    /// Looks up the translation of an address.
    pub fn lookup(&mut self, pasid: Pasid, address: VirtAddr) -> Option<Translation> {
        let found = self.find(Page::around(pasid, address, PageSize::Small));
        if found.is_some() {
            self.stats.small_hits += 1;
            return found;
        }
        let large = self.large_present > 0;
        let found = large
            .then(|| self.find(Page::around(pasid, address, PageSize::Large)))
            .flatten();
        match found {
            Some(_) => self.stats.large_hits += 1,
            None => self.stats.misses += 1,
        }
        found
    }

    #[inline]
    fn find(&mut self, page: Page) -> Option<Translation> {
        let array = self.array(page.size);
        let slot = array.access(key(page))?;
        Some(array[slot])
    }

    /// Inserts the translation of a page, and returns the page that was evicted for it. An existing
    /// translation of the page is replaced.
    pub fn insert(&mut self, page: Page, translation: Translation) -> Option<Page> {
        self.stats.fills += 1;
        let array = self.array(page.size);
        if let Some(slot) = array.find(key(page)) {
            array[slot] = translation;
            array.touch(slot);
            return None;
        }
        let evicted = array.fill(key(page), translation)?.evicted;
        let left = evicted.map(|(key, _)| page_of(key));
        self.stats.evictions += u64::from(left.is_some());
        self.large_present += u64::from(page.size == PageSize::Large);
        self.large_present -= u64::from(left.is_some_and(|page| page.size == PageSize::Large));
        left
    }

    /// Removes every translation that the scope covers, and returns their number.
    pub fn invalidate(&mut self, scope: InvalidationScope) -> u64 {
        let mut dropped = 0;
        if let InvalidationScope::Range {
            pasid,
            start,
            length,
        } = scope
            && length <= PageSize::Small.bytes() - start.offset_in(PageSize::Small)
        {
            // A single small page needs no search of all entries.
            for size in PageSize::ALL {
                dropped += self.drop_page(Page::around(pasid, start, size));
            }
        } else {
            for array in std::iter::once(&mut self.shared).chain(&mut self.large) {
                let concerned =
                    |(_, key, _): &(_, LineAddr, &Translation)| scope.concerns(page_of(*key));
                let slots: Vec<_> = array
                    .iter()
                    .filter(concerned)
                    .map(|(slot, ..)| slot)
                    .collect();
                for slot in slots {
                    let (key, _) = array.remove(slot);
                    self.large_present -= u64::from(page_of(key).size == PageSize::Large);
                    dropped += 1;
                }
            }
        }
        self.stats.invalidated += dropped;
        dropped
    }

    fn drop_page(&mut self, page: Page) -> u64 {
        let array = self.array(page.size);
        let Some(slot) = array.find(key(page)) else {
            return 0;
        };
        array.remove(slot);
        self.large_present -= u64::from(page.size == PageSize::Large);
        1
    }
}
