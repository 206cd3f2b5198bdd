//! Parameters of a DRAM cache.

use cxlab_cache::prefetch::{self, PrefetchPolicy};
use cxlab_cache::{Geometry, VictimPolicy, victim};
use cxlab_engine::catalog::{ParamError, in_part, in_range, refused};
use cxlab_engine::choice;
use cxlab_engine::units::{Bytes, LINE_BYTES, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::Medium;
use crate::nested::NestedMedium;

choice!(
    /// A victim policy of the catalog.
    PagePolicyChoice,
    victim::CATALOG,
    Box<dyn VictimPolicy>
);
choice!(
    /// A prefetcher of the catalog.
    PrefetchChoice,
    prefetch::CATALOG,
    Box<dyn PrefetchPolicy>
);

/// Most sectors in a page.
const MAX_SECTORS: u64 = 64;

/// The unit that a miss fetches.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum FetchUnit {
    /// All sectors of the page that are not valid.
    #[default]
    Page,
    /// The missed sectors. A write of whole sectors fetches nothing.
    Sector,
}

/// Parameters of a DRAM cache in front of a slow medium.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct DramCacheParams {
    /// Capacity of the cache. A multiple of `page`, at most the device's capacity. Default 16 MiB
    /// (CXL-SSD-Sim, Table I).
    pub size: Bytes,
    /// Unit of allocation and eviction. A power of two from 256 B to 64 KiB. Default 4 KiB
    /// (CXL-SSD-Sim, section II-C).
    pub page: Bytes,
    /// Unit of the valid and dirty bits. A power of two from 64 B to `page`, at least a 64th of it.
    /// Default: the smallest.
    pub sector: Option<Bytes>,
    /// Pages in a set; 1 is a direct-mapped cache, 0 is one set of all pages. Must divide the pages
    /// of the cache. Default 16 (MQSim-CXL's configuration).
    pub ways: u32,
    /// Victim policy. Default `lru`.
    pub policy: PagePolicyChoice,
    /// Memory of the cache: any medium, with capacity `size`. Default `fixed` with its defaults.
    pub dram: NestedMedium,
    /// The slow medium, with the device's capacity. Must be given.
    pub behind: Option<NestedMedium>,
    /// Time of the controller's look-up, which precedes any access; a hit takes the look-up and its
    /// access to the DRAM. Default 4 ns (*assumed*; with the 46 ns of the default DRAM it makes the
    /// 50 ns of CXL-SSD-Sim, section III-A).
    pub lookup: Picos,
    /// Most requests in the cache. 1 to 65536. Default 256 (*assumed*).
    #[schemars(range(min = 1, max = 65536))]
    pub queue: u32,
    /// Most outstanding fetches (miss status holding registers). 1 to 4096. Default 64 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub mshrs: u32,
    /// Most requests that one fetch serves. 1 to 65536. Default 64 (*assumed*: the lines of a page
    /// of 4 KiB).
    #[schemars(range(min = 1, max = 65536))]
    pub targets: u32,
    /// Whether misses to one page share a fetch. Otherwise each miss reads the slow medium by
    /// itself, as in MQSim-CXL without MSHRs. Default true.
    pub merge: bool,
    /// The unit that a miss fetches. Default `page`.
    pub fetch: FetchUnit,
    /// Whether the missed sectors are read first, by a separate request to the slow medium. Their
    /// requests proceed when those sectors arrive. Default false.
    pub critical_first: bool,
    /// Dirty pages that may wait for their write to the slow medium. While all entries are in use,
    /// no dirty page can be evicted. 1 to 4096. Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 4096))]
    pub write_buffer: u32,
    /// Prefetcher. Default `none`.
    pub prefetch: PrefetchChoice,
}

impl Default for DramCacheParams {
    fn default() -> Self {
        DramCacheParams {
            size: Bytes(16 << 20),
            page: Bytes(4096),
            sector: None,
            ways: 16,
            policy: PagePolicyChoice {
                kind: "lru".to_owned(),
                params: Map::new(),
            },
            dram: NestedMedium {
                kind: "fixed".to_owned(),
                params: Map::new(),
            },
            behind: None,
            lookup: Picos::from_nanos(4),
            queue: 256,
            mshrs: 64,
            targets: 64,
            merge: true,
            fetch: FetchUnit::Page,
            critical_first: false,
            write_buffer: 16,
            prefetch: PrefetchChoice {
                kind: "none".to_owned(),
                params: Map::new(),
            },
        }
    }
}

/// The numbers that the running cache needs.
#[derive(Clone, Copy)]
pub(super) struct CacheShape {
    pub(super) geometry: Geometry,
    pub(super) page_lines: u64,
    pub(super) sector_lines: u64,
    pub(super) lookup_ps: u64,
    pub(super) queue: usize,
    pub(super) mshrs: usize,
    pub(super) targets: u32,
    pub(super) write_buffer: usize,
    pub(super) merge: bool,
    pub(super) by_sector: bool,
    pub(super) critical_first: bool,
}

/// The checked parameters of a cache.
pub(super) struct ResolvedCache {
    pub(super) shape: CacheShape,
    pub(super) size: Bytes,
    pub(super) page: Bytes,
    pub(super) policy: Box<dyn VictimPolicy>,
    pub(super) dram: Box<dyn Medium>,
    pub(super) behind: Box<dyn Medium>,
    pub(super) prefetch: Box<dyn PrefetchPolicy>,
}

impl DramCacheParams {
    pub(super) fn resolve(&self) -> Result<ResolvedCache, ParamError> {
        let page = self.page.0;
        if !page.is_power_of_two() || !(256..=65536).contains(&page) {
            let allowed = "a power of two, 256 B to 64 KiB";
            return Err(refused("page", self.page, allowed));
        }
        let least = (page / MAX_SECTORS).max(LINE_BYTES);
        let sector = self.sector.map_or(least, |sector| sector.0);
        if !sector.is_power_of_two() || !(least..=page).contains(&sector) {
            let (found, least, page) = (Bytes(sector), Bytes(least), self.page);
            let message = format!(
                "found {found}; allowed with pages of {page}: a power of two, {least} to {page}"
            );
            return Err(ParamError::new("sector", message));
        }
        if self.size.0 == 0 || !self.size.0.is_multiple_of(page) {
            let allowed = format!("a multiple of `page`, {}", self.page);
            return Err(refused("size", self.size, allowed));
        }
        let pages = self.size.0 / page;
        let ways = match self.ways {
            0 => pages,
            ways => u64::from(ways),
        };
        let geometry = Geometry::set_associative(pages, ways)
            .map_err(|error| ParamError::new("ways", error.to_string()))?;
        for (field, found, most) in [
            ("queue", self.queue, 65536),
            ("mshrs", self.mshrs, 4096),
            ("targets", self.targets, 65536),
            ("write_buffer", self.write_buffer, 4096),
        ] {
            in_range(field, found, 1..=most)?;
        }
        if self.mshrs == 1 && self.prefetch.kind != "none" {
            let message = "found 1; allowed with a prefetcher: 2 to 4096, one is kept for misses";
            return Err(ParamError::new("mshrs", message));
        }
        let behind = self
            .behind
            .as_ref()
            .ok_or_else(|| refused("behind", "nothing", "a medium such as { kind = \"pmem\" }"))?;
        Ok(ResolvedCache {
            shape: CacheShape {
                geometry,
                page_lines: page / LINE_BYTES,
                sector_lines: sector / LINE_BYTES,
                lookup_ps: self.lookup.0,
                queue: self.queue as usize,
                mshrs: self.mshrs as usize,
                targets: self.targets,
                write_buffer: self.write_buffer as usize,
                merge: self.merge,
                by_sector: self.fetch == FetchUnit::Sector,
                critical_first: self.critical_first,
            },
            size: self.size,
            page: self.page,
            policy: in_part("policy", self.policy.build())?,
            dram: in_part("dram", self.dram.build())?,
            behind: in_part("behind", behind.build())?,
            prefetch: in_part("prefetch", self.prefetch.build())?,
        })
    }
}

impl ResolvedCache {
    pub(super) fn check_capacity(&self, capacity: Bytes) -> Result<(), ParamError> {
        if self.size > capacity {
            let allowed = format!("at most the device's capacity, {capacity}");
            return Err(refused("size", self.size, allowed));
        }
        if !capacity.0.is_multiple_of(self.page.0) {
            let allowed = format!("what divides the device's capacity, {capacity}");
            return Err(refused("page", self.page, allowed));
        }
        in_part("dram", self.dram.check(self.size))?;
        in_part("behind", self.behind.check(capacity))
    }
}
