use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::page_table::PageTable;

const SMALL: u64 = PageSize::Small.bytes();
const LARGE: u64 = PageSize::Large.bytes();

fn rng() -> StreamRng {
    StreamRng::new(1, "tlb")
}

fn params(entries: u32, ways: u32, large_entries: u32) -> TlbParams {
    TlbParams {
        entries,
        ways,
        large_entries,
        large_ways: large_entries.max(1),
        ..TlbParams::default()
    }
}

fn page(pasid: u32, number: u64, size: PageSize) -> Page {
    Page {
        pasid: Pasid(pasid),
        start: VirtAddr(number * size.bytes()),
        size,
    }
}

fn translation(frame: u64, size: PageSize) -> Translation {
    let base = Hpa(frame * LARGE);
    Translation {
        frame: Frame { base, size },
        writable: true,
    }
}

/// Inserts the translation of a page to a frame of the same size.
fn insert(tlb: &mut Tlb, page: Page, frame: u64) -> Option<Page> {
    tlb.insert(page, translation(frame, page.size))
}

#[test]
fn a_key_leads_back_to_its_page() {
    for pasid in [0, 1, Pasid::END - 1] {
        for size in PageSize::ALL {
            for number in [0, 1, (1 << 47) / size.bytes() - 1] {
                let page = page(pasid, number, size);
                assert_eq!(page_of(key(page)), page);
            }
        }
    }
}

#[test]
fn both_sizes_are_found_and_translate_their_whole_page() {
    for large_entries in [0, 4] {
        let mut tlb = Tlb::new(&params(8, 2, large_entries), rng()).unwrap();
        insert(&mut tlb, page(1, 5, PageSize::Small), 9);
        insert(&mut tlb, page(1, 7, PageSize::Large), 11);
        let small = tlb.lookup(Pasid(1), VirtAddr(5 * SMALL + 17)).unwrap();
        assert_eq!(small.apply(VirtAddr(5 * SMALL + 17)), Hpa(9 * LARGE + 17));
        let large = tlb.lookup(Pasid(1), VirtAddr(8 * LARGE - 1)).unwrap();
        assert_eq!(large.apply(VirtAddr(8 * LARGE - 1)), Hpa(12 * LARGE - 1));
        let other = tlb.lookup(Pasid(2), VirtAddr(5 * SMALL));
        assert_eq!(other, None, "another process");
        let stats = tlb.stats();
        let lookups = (stats.small_hits, stats.large_hits, stats.misses);
        assert_eq!(lookups, (1, 1, 1));
    }
}

#[test]
fn the_page_used_least_recently_leaves_its_set() {
    let mut tlb = Tlb::new(&params(4, 2, 0), rng()).unwrap();
    for number in [0, 2] {
        let left = insert(&mut tlb, page(0, number, PageSize::Small), 1);
        assert_eq!(left, None);
    }
    assert!(tlb.lookup(Pasid(0), VirtAddr(0)).is_some());
    let left = insert(&mut tlb, page(0, 4, PageSize::Small), 1);
    assert_eq!(left, Some(page(0, 2, PageSize::Small)));
    assert_eq!((tlb.len(), tlb.stats().evictions), (2, 1));
}

#[test]
fn a_shape_that_cannot_be_is_refused() {
    let error = |params| Tlb::new(&params, rng()).err().unwrap().field;
    assert_eq!(error(params(10, 4, 0)), "entries");
    let unknown = TlbParams {
        replacement: "best".into(),
        ..TlbParams::default()
    };
    assert_eq!(error(unknown), "replacement");
    let presets = [TlbParams::default, TlbParams::device, TlbParams::iommu];
    for preset in presets {
        assert!(Tlb::new(&preset(), rng()).is_ok());
    }
}

/// A page table with two pages of 4 KiB in one directory, and one in another.
fn table() -> PageTable {
    let mut table = PageTable::new(Hpa(0));
    let mut next = 0;
    for at in [0, SMALL, 1 << 30] {
        let missing = table.tables_missing(VirtAddr(at), PageSize::Small);
        let spare: Vec<Hpa> = (1..=missing as u64)
            .map(|n| Hpa((next + n) * SMALL))
            .collect();
        next += missing as u64;
        let frame = translation(8 + at, PageSize::Small).frame;
        table.map(VirtAddr(at), frame, true, &spare).unwrap();
    }
    table
}

#[test]
fn a_walk_begins_below_the_deepest_entry_that_is_cached() {
    let table = table();
    let mut cache = WalkCache::new(&WalkCacheParams::default(), rng()).unwrap();
    for (pasid, at, skipped, why) in [
        (3, 0, 0, "nothing is cached"),
        (3, SMALL, 3, "the same last table"),
        (3, 1 << 30, 1, "only the root's entry is the same"),
        (3, 1 << 30, 3, "all entries are the same"),
        (3, 1 << 40, 0, "a walk that ends at the root"),
        (4, 0, 0, "another process"),
    ] {
        let walk = table.walk(VirtAddr(at));
        let found = cache.walk(Pasid(pasid), VirtAddr(at), &walk);
        assert_eq!(found, skipped, "{why}");
    }
    assert_eq!(cache.stats().hits, [1, 0, 2]);
}

#[test]
fn an_invalidated_walk_is_read_again() {
    let table = table();
    let mut cache = WalkCache::new(&WalkCacheParams::default(), rng()).unwrap();
    let at = VirtAddr(1 << 30);
    let steps = |cache: &mut WalkCache, at| cache.walk(Pasid(3), at, &table.walk(at));
    steps(&mut cache, at);
    steps(&mut cache, VirtAddr(0));
    let within = InvalidationScope::Range {
        pasid: Pasid(3),
        start: VirtAddr((1 << 30) + 5 * SMALL),
        length: SMALL,
    };
    assert_eq!(cache.invalidate(within), 3);
    let other = steps(&mut cache, VirtAddr(0));
    assert_eq!(other, 3, "other branches keep their lower entries");
    assert_eq!(steps(&mut cache, at), 0);
    assert_eq!(cache.invalidate(InvalidationScope::Process(Pasid(9))), 0);
    assert!(cache.invalidate(InvalidationScope::All) > 0);
    assert_eq!(steps(&mut cache, at), 0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u32, u64, PageSize, u64),
    Lookup(u32, u64),
    Invalidate(u32, u64, u64),
    Process(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![Just(PageSize::Small), Just(PageSize::Large)];
    let at = 0..4 * LARGE;
    prop_oneof![
        4 => (0u32..3, at.clone(), size, 1u64..99).prop_map(|(p, a, s, f)| Step::Insert(p, a, s, f)),
        4 => (0u32..3, at.clone()).prop_map(|(p, a)| Step::Lookup(p, a)),
        1 => (0u32..3, at, prop_oneof![Just(SMALL), 1..LARGE]).prop_map(|(p, a, l)| Step::Invalidate(p, a, l)),
        1 => (0u32..3).prop_map(Step::Process),
    ]
}

proptest! {
    /// Compares the TLB with a map of all translations that were inserted and not invalidated.
    #[test]
    fn a_translation_is_the_last_that_came_in_and_never_an_invalidated_one(
        separate in any::<bool>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut tlb = Tlb::new(&params(16, 4, if separate { 4 } else { 0 }), rng()).unwrap();
        let mut live: BTreeMap<Page, Translation> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(pasid, at, size, frame) => {
                    let page = Page::around(Pasid(pasid), VirtAddr(at), size);
                    live.insert(page, translation(frame, size));
                    if let Some(left) = insert(&mut tlb, page, frame) {
                        prop_assert!(live.remove(&left).is_some());
                    }
                }
                Step::Lookup(pasid, at) => {
                    let of = |size| live.get(&Page::around(Pasid(pasid), VirtAddr(at), size)).copied();
                    let expected = of(PageSize::Small).or(of(PageSize::Large));
                    prop_assert_eq!(tlb.lookup(Pasid(pasid), VirtAddr(at)), expected);
                }
                Step::Invalidate(pasid, at, length) => {
                    let start = VirtAddr(at);
                    let scope = InvalidationScope::Range { pasid: Pasid(pasid), start, length };
                    let before = live.len();
                    live.retain(|page, _| {
                        page.pasid.0 != pasid || page.end() <= at || at + length <= page.start.0
                    });
                    prop_assert_eq!(tlb.invalidate(scope), (before - live.len()) as u64);
                }
                Step::Process(pasid) => {
                    live.retain(|page, _| page.pasid.0 != pasid);
                    tlb.invalidate(InvalidationScope::Process(Pasid(pasid)));
                }
            }
            prop_assert_eq!(tlb.len() as usize, live.len());
        }
    }
}
