//! Numbered entries whose numbers are reused.

use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// Entries by number. The number of a released entry is given to a later one, the last released
/// first. The slab allocates only when more entries are in use than ever before.
///
/// ```
/// use cxlab_engine::slab::Slab;
///
/// let mut slab = Slab::default();
/// assert_eq!((slab.insert('a'), slab.insert('b')), (0, 1));
/// assert_eq!(slab.remove(0), 'a');
/// assert_eq!((slab.insert('c'), slab.insert('d')), (0, 2));
/// assert_eq!((slab[1], slab.len()), ('b', 3));
/// ```
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::with_capacity(0)
    }
}

impl<T> Slab<T> {
    /// An empty slab with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Slab {
            entries: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
        }
    }

    /// Adds an entry and returns its number.
    #[inline]
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Takes a number into use. The entry is what the number's last user left, or `fresh` if there
    /// was none.
    #[inline]
    pub fn reuse(&mut self, fresh: impl FnOnce() -> T) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(fresh());
            self.entries.len() as u32 - 1
        })
    }

    /// Releases a number that is in use. Its entry keeps its value until the number is reused.
    #[inline]
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Releases a number that is in use, and returns its entry.
    #[inline]
    pub fn remove(&mut self, number: u32) -> T
    where
        T: Copy,
    {
        self.free.push(number);
        self.entries[number as usize]
    }

    /// The entry of a number; `None` for numbers that were never in use.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        self.entries.get(number as usize)
    }

    /// The entry of a number, to be changed; `None` for numbers that were never in use.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.entries.get_mut(number as usize)
    }

    /// The entries of all numbers that were ever in use, by number, as a [`List`](crate::list::List)
    /// links them.
    #[inline]
    pub fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }

    /// Number of entries in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether no entry is in use.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.free.clear();
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.entries[number as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize]
    }
}
