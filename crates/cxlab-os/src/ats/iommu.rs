//! The IOMMU: an IOTLB, and a page-walk cache, over the page tables that devices use.
//!
//! The result of a translation is determined when it is requested, and lists the physical reads
//! that the owner has to time, one after the other. So an invalidation finds either all of a walk
//! in the caches or nothing of it. Left out: accessed and dirty bits, which the owner sets
//! (`AddressSpace::touch`); two-stage translation, fault recording, interrupt remapping.

use cxlab_engine::catalog::{ParamError, in_range};
use cxlab_engine::rng::StreamRng;
use cxlab_engine::save_state;
use cxlab_engine::units::{Hpa, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TranslationCompletion;
use crate::address::{Page, PageAccess, Pasid, VirtAddr};
use crate::page_table::{LEVELS, PageTable, WalkResult};
use crate::tlb::{InvalidationScope, Tlb, TlbParams, TlbStats, Translation};
use crate::tlb::{WalkCache, WalkCacheParams, WalkCacheStats};

/// Parameters of an IOMMU.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
pub struct IommuParams {
    /// Parameters of the IOTLB. Default 512 entries in 8 ways, 5 ns (*assumed*).
    pub iotlb: TlbParams,
    /// Parameters of the page-walk cache.
    pub walk_cache: WalkCacheParams,
    /// Maximum number of concurrent walks. 1 to 256. Default 16 (*assumed*).
    #[schemars(range(min = 1, max = 256))]
    pub walkers: u32,
    /// Time from a request to the first read of its walk, plus the time from the last read to the
    /// completion. Default 20 ns (*assumed*).
    pub overhead: Picos,
}

impl Default for IommuParams {
    fn default() -> Self {
        IommuParams {
            iotlb: TlbParams::iommu(),
            walk_cache: WalkCacheParams::default(),
            walkers: 16,
            overhead: Picos::from_nanos(20),
        }
    }
}

fn below(field: &str, error: ParamError) -> ParamError {
    ParamError::new(format!("{field}.{}", error.field), error.message)
}

/// Result of a translation request, with the reads of its walk.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct IommuWalk {
    reads: [Hpa; LEVELS],
    count: u8,
    /// Content of the Translation Completion.
    pub completion: TranslationCompletion,
}

impl IommuWalk {
    /// Addresses of the page table entries to read, 8 bytes each, each after the one before. Empty
    /// for an IOTLB hit.
    pub fn reads(&self) -> &[Hpa] {
        &self.reads[..usize::from(self.count)]
    }
}

/// The translation caches of an IOMMU.
pub struct Iommu {
    iotlb: Tlb,
    walk_cache: WalkCache,
}

save_state!(Iommu {
    states: iotlb, walk_cache;
});

impl Iommu {
    /// An IOMMU with empty caches.
    ///
    /// # Errors
    /// Caches that cannot be built.
    pub fn new(params: &IommuParams, rng: StreamRng) -> Result<Iommu, ParamError> {
        in_range("walkers", params.walkers, 1..=256)?;
        Ok(Iommu {
            iotlb: Tlb::new(&params.iotlb, rng.substream("iotlb"))
                .map_err(|error| below("iotlb", error))?,
            walk_cache: WalkCache::new(&params.walk_cache, rng.substream("walk_cache"))
                .map_err(|error| below("walk_cache", error))?,
        })
    }

    /// Serves a translation request. `table` is that of the process; `None` if the process is
    /// unknown. Entries that are not present are never cached.
    pub fn translate(
        &mut self,
        pasid: Pasid,
        address: VirtAddr,
        access: PageAccess,
        table: Option<&PageTable>,
    ) -> IommuWalk {
        let mut walked = IommuWalk {
            reads: [Hpa::default(); LEVELS],
            count: 0,
            completion: TranslationCompletion::Refused,
        };
        let Some(table) = table else {
            return walked;
        };
        // A cached translation without write permission may be older than the page table's.
        let known = self.iotlb.lookup(pasid, address);
        if let Some(known) = known.filter(|known| known.allows(access)) {
            walked.completion = TranslationCompletion::Granted(known);
            return walked;
        }
        let walk = table.walk(address);
        let skipped = self.walk_cache.walk(pasid, address, &walk);
        for step in &walk.steps()[skipped..] {
            walked.reads[usize::from(walked.count)] = *step;
            walked.count += 1;
        }
        walked.completion = match walk.leaf {
            WalkResult::NotPresent(_) => TranslationCompletion::NotPresent,
            WalkResult::Present(mapping) => {
                let translation = Translation::from(mapping);
                let page = Page::around(pasid, address, mapping.frame.size);
                self.iotlb.insert(page, translation);
                TranslationCompletion::Granted(translation)
            }
        };
        walked
    }

    /// Removes the translations that the scope covers, before an Invalidate Request is
    /// sent to any device.
    pub fn invalidate(&mut self, scope: InvalidationScope) {
        self.iotlb.invalidate(scope);
        self.walk_cache.invalidate(scope);
    }

    /// Counters of the IOTLB and the page-walk cache.
    pub fn stats(&self) -> (TlbStats, WalkCacheStats) {
        (self.iotlb.stats(), self.walk_cache.stats())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageSize;
    use crate::frames::Frame;

    const SMALL: u64 = PageSize::Small.bytes();

    fn table() -> PageTable {
        let mut table = PageTable::new(Hpa(0));
        let spare = [1, 2, 3].map(|number| Hpa(number * SMALL));
        let frame = |number: u64| Frame {
            base: Hpa((16 + number) * SMALL),
            size: PageSize::Small,
        };
        table.map(VirtAddr(0), frame(0), true, &spare).unwrap();
        table.map(VirtAddr(SMALL), frame(1), false, &[]).unwrap();
        table
    }

    fn iommu() -> Iommu {
        Iommu::new(&IommuParams::default(), StreamRng::new(1, "iommu")).unwrap()
    }

    #[test]
    fn a_walk_is_four_reads_then_one_then_none() {
        let (mut iommu, table) = (iommu(), table());
        let mut reads = |at| {
            let walked = iommu.translate(Pasid(1), VirtAddr(at), PageAccess::Read, Some(&table));
            walked.reads().to_vec()
        };
        assert_eq!(reads(0), table.walk(VirtAddr(0)).steps());
        assert_eq!(reads(SMALL), table.walk(VirtAddr(SMALL)).steps()[3..]);
        assert_eq!(reads(SMALL + 9), []);
    }

    #[test]
    fn a_page_that_was_moved_is_found_at_its_new_place_after_the_flush() {
        let (mut iommu, mut table) = (iommu(), table());
        let at = VirtAddr(5);
        let base = |walked: IommuWalk| match walked.completion {
            TranslationCompletion::Granted(translation) => Some(translation.frame.base),
            _ => None,
        };
        iommu.translate(Pasid(1), at, PageAccess::Read, Some(&table));
        table.suspend(at);
        let page = Page::around(Pasid(1), at, PageSize::Small);
        iommu.invalidate(InvalidationScope::page(page));
        let moving = iommu.translate(Pasid(1), at, PageAccess::Read, Some(&table));
        assert_eq!(moving.completion, TranslationCompletion::NotPresent);
        table.resume(at, Hpa(99 * SMALL));
        let moved = iommu.translate(Pasid(1), at, PageAccess::Read, Some(&table));
        let new = Some(Hpa(99 * SMALL));
        assert_eq!(base(moved), new, "what was not present was not cached");
    }

    #[test]
    fn a_write_is_walked_again_when_the_cached_translation_forbids_it() {
        let (mut iommu, mut table) = (iommu(), table());
        let at = VirtAddr(SMALL);
        iommu.translate(Pasid(1), at, PageAccess::Read, Some(&table));
        let page = table.unmap(at).unwrap().mapping;
        table.map(at, page.frame, true, &[]).unwrap();
        let write = iommu.translate(Pasid(1), at, PageAccess::Write, Some(&table));
        assert!(matches!(write.completion, TranslationCompletion::Granted(t) if t.writable));
        assert_eq!(write.reads().len(), 1);
        let unknown = iommu.translate(Pasid(2), at, PageAccess::Read, None);
        assert_eq!(unknown.completion, TranslationCompletion::Refused);
    }
}
