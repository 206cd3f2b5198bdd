//! Storage for what events carry.

/// The place of no event: the first place is never taken. It is 0, so tables of places begin as zeroed
/// memory, and pages that are never used are never touched.
pub(super) const NIL: u32 = 0;

/// What an event carries, aligned so that a payload of a CXL system takes two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
pub(super) struct Item<T>(T);

/// Numbered places for what events carry. The slab allocates only when more places are in use
/// than ever before.
#[derive(Clone)]
pub(super) struct Slab<T> {
    items: Vec<Item<T>>,
    /// Places that are not in use.
    free: Vec<u32>,
}

impl<T: Copy + Default> Slab<T> {
    /// A slab with the first place alone, which always has the default value.
    pub(super) fn new() -> Self {
        Slab {
            items: vec![Item::default()],
            free: Vec::new(),
        }
    }

    /// Takes a free place. Its value is arbitrary.
    #[inline(always)]
    pub(super) fn take(&mut self) -> u32 {
        match self.free.pop() {
            Some(place) => place,
            None => self.grow(),
        }
    }

    /// Adds a place and takes it.
    #[cold]
    fn grow(&mut self) -> u32 {
        self.items.push(Item::default());
        self.items.len() as u32 - 1
    }

    /// Makes a place free again.
    #[inline(always)]
    pub(super) fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    /// The value at a place.
    #[inline(always)]
    pub(super) fn at(&self, place: u32) -> &T {
        &self.items[place as usize].0
    }

    /// The value at a place, to be changed.
    #[inline(always)]
    pub(super) fn at_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize].0
    }

    /// Number of places in use, without the first.
    pub(super) fn in_use(&self) -> usize {
        self.items.len() - 1 - self.free.len()
    }
}
