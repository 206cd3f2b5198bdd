use proptest::prelude::*;

use super::*;

const SMALL: u64 = PageSize::Small.bytes();
const LARGE: u64 = PageSize::Large.bytes();

/// Frames for tables from 1 GiB on.
struct Spare(u64);

impl Spare {
    fn take(&mut self, count: usize) -> Vec<Hpa> {
        let from = self.0;
        self.0 += count as u64;
        (from..self.0)
            .map(|number| Hpa((1 << 30) + number * SMALL))
            .collect()
    }
}

fn frame(number: u64, size: PageSize) -> Frame {
    let base = Hpa((1 << 40) + number * LARGE);
    Frame { base, size }
}

fn map(table: &mut PageTable, spare: &mut Spare, at: u64, frame: Frame) -> Result<(), MapError> {
    let tables = spare.take(table.tables_missing(VirtAddr(at), frame.size));
    table.map(VirtAddr(at), frame, true, &tables)
}

fn new() -> (PageTable, Spare) {
    let mut spare = Spare(0);
    let root = spare.take(1)[0];
    (PageTable::new(root), spare)
}

/// A walk by the bytes of the tables alone.
fn walk_by_hand(table: &PageTable, address: u64) -> (Vec<Hpa>, Option<(u64, u64)>) {
    let mut at = table.root().0;
    let mut steps = Vec::new();
    for shift in [39, 30, 21, 12] {
        let step = Hpa(at + (address >> shift & 511) * 8);
        steps.push(step);
        let entry = table.read(step).unwrap();
        if entry & 1 == 0 {
            return (steps, None);
        }
        at = entry & 0x000f_ffff_ffff_f000;
        if shift == 12 || entry & 1 << 7 != 0 {
            return (steps, Some((at, 1 << shift)));
        }
    }
    unreachable!("the last level ends every walk")
}

#[test]
fn a_small_page_takes_four_reads_and_a_large_one_three() {
    let (mut table, mut spare) = new();
    let small = frame(1, PageSize::Small);
    let large = frame(2, PageSize::Large);
    map(&mut table, &mut spare, 0x7f00_1234_5000, small).unwrap();
    map(&mut table, &mut spare, 0x7f00_1240_0000, large).unwrap();
    let walk = table.walk(VirtAddr(0x7f00_1234_5678));
    assert_eq!(walk.steps().len(), 4);
    assert_eq!(walk.steps()[3].0 & 0xfff, 0x145 * 8);
    assert!(matches!(walk.leaf, WalkResult::Present(mapping) if mapping.frame == small));
    let walk = table.walk(VirtAddr(0x7f00_1255_5678));
    assert_eq!(walk.steps().len(), 3);
    assert!(matches!(walk.leaf, WalkResult::Present(mapping) if mapping.frame == large));
    // Root, one directory of pointers, one directory, one table of the small page.
    assert_eq!(table.table_count(), 4);
}

#[test]
fn an_unmapped_address_ends_where_the_path_ends() {
    let (mut table, mut spare) = new();
    assert_eq!(table.walk(VirtAddr(0x1000)).steps().len(), 1);
    map(&mut table, &mut spare, 0, frame(1, PageSize::Small)).unwrap();
    let steps = |at| table.walk(VirtAddr(at)).steps().len();
    let found = [SMALL, LARGE, 1 << 30, 1 << 39].map(steps);
    assert_eq!(found, [4, 3, 2, 1]);
}

#[test]
fn nothing_is_mapped_over_something_else() {
    let (mut table, mut spare) = new();
    map(&mut table, &mut spare, LARGE, frame(1, PageSize::Small)).unwrap();
    let over = map(&mut table, &mut spare, LARGE, frame(2, PageSize::Large));
    assert_eq!(over, Err(MapError::Occupied));
    map(&mut table, &mut spare, 0, frame(3, PageSize::Large)).unwrap();
    let within = map(&mut table, &mut spare, SMALL, frame(4, PageSize::Small));
    assert_eq!(within, Err(MapError::Occupied));
    let odd = table.map(VirtAddr(SMALL), frame(5, PageSize::Large), true, &[]);
    assert_eq!(odd, Err(MapError::Address));
    let high = table.map(VirtAddr(USER_END), frame(5, PageSize::Small), true, &[]);
    assert_eq!(high, Err(MapError::Address));
    let none = table.map(VirtAddr(1 << 40), frame(5, PageSize::Small), true, &[]);
    assert_eq!(none, Err(MapError::Tables(3)));
}

#[test]
fn the_last_page_takes_its_tables_along() {
    let (mut table, mut spare) = new();
    map(&mut table, &mut spare, 0, frame(1, PageSize::Small)).unwrap();
    map(&mut table, &mut spare, SMALL, frame(2, PageSize::Small)).unwrap();
    let first = table.unmap(VirtAddr(0)).unwrap();
    assert_eq!(first.tables, [None; 3]);
    let last = table.unmap(VirtAddr(SMALL + 5)).unwrap();
    assert_eq!(last.mapping.frame, frame(2, PageSize::Small));
    assert_eq!(last.tables.iter().flatten().count(), 3);
    assert_eq!(table.table_count(), 1);
    assert_eq!(table.unmap(VirtAddr(SMALL)), None);
}

#[test]
fn bits_are_written_once_and_a_store_makes_dirty() {
    let (mut table, mut spare) = new();
    map(&mut table, &mut spare, 0, frame(1, PageSize::Small)).unwrap();
    let at = VirtAddr(123);
    let entry = |table: &PageTable| table.lookup(at).unwrap().entry;
    let written = table.mark(at, PageAccess::Read);
    assert_eq!(written, table.walk(at).steps().last().copied());
    assert!(entry(&table).is_accessed() && !entry(&table).is_dirty());
    assert_eq!(table.mark(at, PageAccess::Read), None);
    assert!(table.mark(at, PageAccess::Write).is_some());
    let load = table.mark(at, PageAccess::Read);
    assert_eq!(load, None, "a load does not make clean");
    assert!(entry(&table).is_dirty());
    assert!(table.clear_accessed(at) && !table.clear_accessed(at));
}

#[test]
fn a_page_that_moves_is_not_present_and_keeps_its_bits() {
    let (mut table, mut spare) = new();
    map(&mut table, &mut spare, 0, frame(1, PageSize::Large)).unwrap();
    let (at, target) = (VirtAddr(9), Hpa(LARGE));
    table.mark(at, PageAccess::Write);
    assert_eq!(table.resume(at, target), None, "it does not move yet");
    assert!(table.suspend(at).is_some());
    let walk = table.walk(at);
    assert!(matches!(walk.leaf, WalkResult::NotPresent(entry) if entry.is_moving()));
    assert_eq!(walk.steps().len(), 3);
    assert_eq!(table.mark(at, PageAccess::Read), None);
    let (moving, size) = (table.lookup(at).unwrap().frame, PageSize::Large);
    assert_eq!(moving, frame(1, size));
    assert!(table.resume(at, target).is_some());
    let WalkResult::Present(mapping) = table.walk(at).leaf else {
        panic!()
    };
    assert_eq!((mapping.frame.base, mapping.frame.size), (target, size));
    assert!(mapping.entry.is_dirty() && mapping.entry.is_writable());
}

#[test]
fn a_sampled_page_faults_once_and_a_move_ends_the_sample() {
    let (mut table, mut spare) = new();
    map(&mut table, &mut spare, 0, frame(1, PageSize::Small)).unwrap();
    let at = VirtAddr(0);
    let present = |table: &PageTable| matches!(table.walk(at).leaf, WalkResult::Present(_));
    assert!(table.sample(at).is_some() && !present(&table));
    assert_eq!(table.sample(at), None, "it is not present");
    assert!(table.end_sample(at).is_some() && present(&table));
    assert_eq!(table.end_sample(at), None);
    table.sample(at);
    assert!(table.suspend(at).is_some());
    assert_eq!(table.end_sample(at), None);
    assert!(table.resume(at, Hpa(SMALL)).is_some() && present(&table));
}

proptest! {
    #[test]
    fn walks_read_what_lies_in_memory(
        pages in prop::collection::vec((0u64..4, 0u64..3, 0u64..3, 0u64..3, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let (mut table, mut spare) = new();
        for (number, (a, b, c, d, large, unmap)) in pages.iter().enumerate() {
            let size = if *large { PageSize::Large } else { PageSize::Small };
            let at = VirtAddr(a << 39 | b << 30 | c << 21 | d << 12).page_start(size);
            if *unmap {
                table.unmap(at);
            } else {
                let _occupied = map(&mut table, &mut spare, at.0, frame(number as u64, size));
            }
            for (a, b, c, d, ..) in &pages {
                let address = a << 39 | b << 30 | c << 21 | d << 12 | 0x123;
                let walk = table.walk(VirtAddr(address));
                let (steps, found) = walk_by_hand(&table, address);
                prop_assert_eq!(walk.steps(), &steps[..]);
                let expected = match walk.leaf {
                    WalkResult::Present(page) => Some((page.frame.base.0, page.frame.size.bytes())),
                    WalkResult::NotPresent(_) => None,
                };
                prop_assert_eq!(found, expected);
            }
        }
    }
}
