//! Numbered entries for objects in flight; numbers are reused.

use serde::{Deserialize, Serialize};

/// Entries by number. The number of a removed entry is given to a later one.
#[derive(Serialize, Deserialize)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds an entry and returns its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Removes an entry and returns it; `None` if there is none of that number.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(entry)
    }

    /// The entry of that number.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// The entry of that number, mutably.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// All entries with their numbers, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = (0..).zip(&self.entries);
        entries.filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether the slab holds no entry at present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn numbers_are_used_again_and_never_twice_at_once() {
        let mut slab = Slab::default();
        assert_eq!((slab.insert('a'), slab.insert('b')), (0, 1));
        assert_eq!((slab.remove(0), slab.remove(0)), (Some('a'), None));
        assert_eq!((slab.insert('c'), slab.insert('d')), (0, 2));
        assert_eq!(slab.get(1), Some(&'b'));
        assert_eq!(slab.get(3), None);
        let all: Vec<_> = slab.iter().map(|(id, value)| (id, *value)).collect();
        assert_eq!(all, [(0, 'c'), (1, 'b'), (2, 'd')]);
        assert_eq!(slab.len(), 3);
    }
}
