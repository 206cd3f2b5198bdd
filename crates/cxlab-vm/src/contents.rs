//! Contents of memory that guests share, and the copies in caches that no device keeps coherent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::SharedLine;

/// Bytes of a line.
const LINE: usize = 64;

/// The bytes of a memory that guests share, as words of 64 bits. QEMU maps the same bytes.
pub trait Words: Send {
    /// The words of the whole memory, by offset.
    fn words(&self) -> &[AtomicU64];
}

/// A line in a guest's caches.
#[derive(Clone, Copy)]
struct Copy {
    bytes: [u8; LINE],
    dirty: bool,
}

/// The memories that guests share, and the copies in caches of the memories that no device keeps coherent.
/// A coherent memory needs no copies: a load returns what was stored last.
#[derive(Default)]
pub struct Contents {
    memories: Vec<Box<dyn Words>>,
    /// By guest and line.
    copies: BTreeMap<(usize, SharedLine), Copy>,
    /// Bytes that any guest stored last. A coherent memory would have these bytes.
    latest: BTreeMap<SharedLine, [u8; LINE]>,
}

impl Contents {
    /// Memories by number.
    pub fn new(memories: Vec<Box<dyn Words>>) -> Contents {
        Contents {
            memories,
            copies: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// Whether a guest's caches have a copy of a line that is not coherent.
    pub fn has_copy(&self, guest: usize, line: SharedLine) -> bool {
        self.copies.contains_key(&(guest, line))
    }

    /// Whether the caches of a guest have changed their copy of a line.
    pub fn is_dirty(&self, guest: usize, line: SharedLine) -> bool {
        self.copies.get(&(guest, line)).is_some_and(|one| one.dirty)
    }

    /// Copies a line from memory to a guest's caches.
    pub fn fetch(&mut self, guest: usize, line: SharedLine) {
        let copy = Copy {
            bytes: self.stored(line),
            dirty: false,
        };
        self.copies.insert((guest, line), copy);
    }

    /// Writes a modified copy to memory, all its bytes.
    pub fn write_back(&mut self, guest: usize, line: SharedLine) {
        if let Some(copy) = self.copies.get_mut(&(guest, line))
            && copy.dirty
        {
            copy.dirty = false;
            let bytes = copy.bytes;
            self.store_line(line, &bytes);
        }
    }

    /// Drops a guest's copy.
    pub fn drop_copy(&mut self, guest: usize, line: SharedLine) {
        self.copies.remove(&(guest, line));
    }

    /// The value of `count` bytes as a guest loads them, and whether the value is stale.
    pub fn load(&self, guest: usize, line: SharedLine, offset: usize, count: usize) -> (u64, bool) {
        let copy = self.copies.get(&(guest, line));
        let bytes = copy.map_or_else(|| self.stored(line), |copy| copy.bytes);
        let seen = value(&bytes, offset, count);
        let mut latest = self.latest.get(&line).into_iter();
        (
            seen,
            latest.any(|latest| value(latest, offset, count) != seen),
        )
    }

    /// Stores bytes as a guest does: in its copy, or in a coherent memory.
    pub fn store(
        &mut self,
        guest: usize,
        line: SharedLine,
        (offset, count): (usize, usize),
        value: u64,
    ) {
        let new = value.to_le_bytes();
        let put = |bytes: &mut [u8; LINE]| {
            bytes[offset..offset + count].copy_from_slice(&new[..count]);
        };
        let mut stored = self.stored(line);
        if !line.coherent {
            put(self.latest.entry(line).or_insert(stored));
        }
        if let Some(copy) = self.copies.get_mut(&(guest, line)) {
            put(&mut copy.bytes);
            copy.dirty = true;
            return;
        }
        put(&mut stored);
        self.store_line(line, &stored);
    }

    fn place(&self, line: SharedLine) -> Option<&[AtomicU64]> {
        let first = line.offset as usize / 8;
        let words = self.memories.get(line.memory)?.words();
        words.get(first..first + LINE / 8)
    }

    fn stored(&self, line: SharedLine) -> [u8; LINE] {
        let mut bytes = [0; LINE];
        let words = self.place(line).unwrap_or_default().iter();
        for (word, to) in words.zip(bytes.chunks_mut(8)) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    fn store_line(&self, line: SharedLine, bytes: &[u8; LINE]) {
        let words = self.place(line).unwrap_or_default().iter();
        for (word, from) in words.zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }
}

fn value(bytes: &[u8; LINE], offset: usize, count: usize) -> u64 {
    let mut word = [0; 8];
    word[..count].copy_from_slice(&bytes[offset..offset + count]);
    u64::from_le_bytes(word)
}
