//! Where events keep what they carry.

/// No event: nothing is kept in the first place. So memory of slots that are never used is never touched.
pub(super) const NIL: u32 = 0;

/// What an event carries. That of a CXL system lies in two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
pub(super) struct Item<T>(T);

/// Places for what events carry. Nothing is allocated once there are as many as events were ever pending.
#[derive(Clone)]
pub(super) struct Slab<T> {
    items: Vec<Item<T>>,
    /// Places that are not in use.
    free: Vec<u32>,
}

impl<T: Copy + Default> Slab<T> {
    /// With the first place alone, which stays the default.
    pub(super) fn new() -> Self {
        Slab {
            items: vec![Item::default()],
            free: Vec::new(),
        }
    }

    /// A place, which holds anything as yet.
    #[inline(always)]
    pub(super) fn take(&mut self) -> u32 {
        match self.free.pop() {
            Some(place) => place,
            None => self.grow(),
        }
    }

    /// Makes a place for one more than ever before.
    #[cold]
    fn grow(&mut self) -> u32 {
        self.items.push(Item::default());
        self.items.len() as u32 - 1
    }

    /// A place is not in use any more.
    #[inline(always)]
    pub(super) fn release(&mut self, place: u32) {
        self.free.push(place);
    }

    /// What lies at a place.
    #[inline(always)]
    pub(super) fn at(&self, place: u32) -> &T {
        &self.items[place as usize].0
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn at_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize].0
    }

    /// Places in use.
    pub(super) fn in_use(&self) -> usize {
        self.items.len() - 1 - self.free.len()
    }
}
