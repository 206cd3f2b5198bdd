//! The pages of a traced program: where each is stored, and which were touched lately.

use std::collections::{BTreeMap, HashMap};

use cxlab_attach::placement::{Layout, MemoryPlace, PAGE, Placement, Region};

/// Size of an assumed mapping, in bytes. Memory that was mapped from the beginning is found when it is touched.
const PART: u64 = 2 << 20;

/// Pages of a program, numbered in the order of their first touch.
pub(super) struct Pages<'a> {
    /// The pool of an offset in CXL memory.
    pool_of: &'a dyn Fn(u64) -> usize,
    /// Mapped ranges: first address, and first address behind the range.
    regions: BTreeMap<u64, u64>,
    layout: Layout,
    /// Number by page of the program, while its place does not change.
    numbers: HashMap<u64, u32>,
    /// Pool by page of the program, when the page was used last.
    pools: HashMap<u64, usize>,
    /// Number by page of the program and place.
    known: HashMap<(u64, Option<u64>), u32>,
    /// By number: address of the page in CXL memory; `None` for the host's own.
    places: Vec<Option<u64>>,
    /// By number: the sampling point before which the page was touched last.
    touched: Vec<u32>,
    /// Number of sampling points so far.
    points: u32,
    /// Pages touched since the last sampling point.
    lately: u64,
}

impl<'a> Pages<'a> {
    pub(super) fn new(placement: Placement, pool_of: &'a dyn Fn(u64) -> usize) -> Pages<'a> {
        Pages {
            pool_of,
            regions: BTreeMap::new(),
            layout: Layout::new(placement),
            numbers: HashMap::new(),
            pools: HashMap::new(),
            known: HashMap::new(),
            places: Vec::new(),
            touched: Vec::new(),
            points: 0,
            lately: 0,
        }
    }

    /// Maps a range of addresses, in whole pages.
    pub(super) fn map(&mut self, start: u64, end: u64) {
        let (start, end) = (start / PAGE * PAGE, end.div_ceil(PAGE) * PAGE);
        if start < end {
            self.cut(start, end);
            self.regions.insert(start, end);
            self.place_again();
        }
    }

    /// Unmaps a range of addresses, in whole pages.
    pub(super) fn unmap(&mut self, start: u64, end: u64) {
        self.cut(start / PAGE * PAGE, end.div_ceil(PAGE) * PAGE);
        self.place_again();
    }

    /// Removes a range from the mapped ranges.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some((from, to)) = self
            .regions
            .range(..end)
            .next_back()
            .map(|(from, to)| (*from, *to))
            .filter(|(_, to)| *to > start)
        {
            self.regions.remove(&from);
            if to > end {
                self.regions.insert(end, to);
            }
            if from < start {
                self.regions.insert(from, start);
            }
        }
    }

    fn place_again(&mut self) {
        let regions: Vec<Region> = self
            .regions
            .iter()
            .map(|(start, end)| Region {
                start: *start,
                end: *end,
            })
            .collect();
        self.layout.update(&regions);
        self.numbers.clear();
    }

    /// The place of an address in CXL memory. Memory whose mapping was not reported was there from the beginning.
    fn place(&mut self, address: u64) -> Option<u64> {
        if self.layout.place(address).is_none() {
            let before = self.regions.range(..=address).next_back();
            let behind = self.regions.range(address..).next();
            let start = before.map_or(0, |(_, end)| *end).max(address / PART * PART);
            let end = behind
                .map_or(u64::MAX, |(start, _)| *start)
                .min((address / PART + 1).saturating_mul(PART));
            self.map(start, end);
        }
        match self.layout.place(address) {
            Some(MemoryPlace::Cxl(offset)) => Some(offset),
            Some(MemoryPlace::Local) | None => None,
        }
    }

    /// Touches the page of an address, and returns its number.
    pub(super) fn touch(&mut self, address: u64) -> u32 {
        let page = address / PAGE;
        let number = match self.numbers.get(&page) {
            Some(number) => *number,
            None => self.number(page),
        };
        let last = &mut self.touched[number as usize];
        if *last != self.points {
            *last = self.points;
            self.lately += 1;
        }
        number
    }

    fn number(&mut self, page: u64) -> u32 {
        let place = self.place(page * PAGE);
        let next = self.places.len() as u32;
        let number = *self.known.entry((page, place)).or_insert(next);
        if number == next {
            self.places.push(place);
            self.touched.push(u32::MAX);
        }
        self.numbers.insert(page, number);
        self.pools.insert(page, place.map_or(0, self.pool_of));
        number
    }

    /// The pool of the page with this number.
    pub(super) fn pool(&self, number: u32) -> usize {
        self.places[number as usize].map_or(0, self.pool_of)
    }

    /// The pool of an address, if it is mapped.
    pub(super) fn pool_at(&self, address: u64) -> Option<usize> {
        self.layout.place(address).map(|place| match place {
            MemoryPlace::Cxl(offset) => (self.pool_of)(offset),
            MemoryPlace::Local => 0,
        })
    }

    /// The pool of an address when its page was used last; 0 if it never was.
    pub(super) fn last_pool(&self, address: u64) -> usize {
        self.pools.get(&(address / PAGE)).copied().unwrap_or(0)
    }

    /// Begins a sampling interval. Returns the bytes of the pages touched in the last one.
    pub(super) fn sample(&mut self) -> u64 {
        self.points += 1;
        std::mem::take(&mut self.lately) * PAGE
    }

    /// By number: address of the page in CXL memory; `None` for the host's own.
    pub(super) fn into_places(self) -> Vec<Option<u64>> {
        self.places
    }
}
