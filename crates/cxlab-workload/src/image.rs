//! The bytes of the memory of one coherence domain, which its components share.
//!
//! Programs on several cores and accelerators work on the same data, so there is exactly one copy
//! of the data: an [`Image`]. A clone of an image refers to the same memory. Simulated caches hold
//! coherence states and no bytes: a component that may load or store a line under the protocol's
//! rules does so in the image.
//!
//! # Why this is deterministic
//! Components run on several threads of the machine, and the image is the only thing that they
//! share beside messages. The result does not depend on how the threads are scheduled, as long as a
//! component accesses a line only while the protocol permits it: many may read a line, or one may
//! write it (single writer, multiple readers). The permission moves between components only by
//! messages, which take at least one wire's latency, and the parallel executor delivers such a
//! message only after the barrier between two windows. All accesses of the old owner therefore
//! happen before the barrier, and all of the new owner after it: two accesses of which one is a
//! write are never unordered. The barrier orders them, so relaxed atomics are enough. Where a model
//! breaks the rule (a device that does DMA without coherence while a core writes the same line),
//! the simulated program has a race and must order the accesses itself.
//!
//! # Layout
//! Words of 8 B, little endian, are stored in pages of 4 KiB under a radix table of four levels
//! of 13 bits, which covers all 2^64 addresses. Pages and tables are allocated by `OnceLock` at
//! the first write to them; memory that was never written reads as zero. An image begins with
//! 128 KiB of tables, and the first page written takes 384 KiB of tables more. A further page
//! under the same last table, which covers 32 MiB, takes only its own 4 KiB. All is freed when
//! the last clone is dropped.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use cxlab_engine::prefetch;
use cxlab_engine::state::{SaveState, StateError, StateReader, StateWriter};
use cxlab_engine::units::Hpa;

const PAGE_BITS: u32 = 12;
const PAGE_BYTES: u64 = 1 << PAGE_BITS;
const WORDS: usize = 1 << (PAGE_BITS - 3);
const FAN_BITS: u32 = 13;
const FAN: usize = 1 << FAN_BITS;

type Page = [AtomicU64; WORDS];
type Table<T> = [OnceLock<Box<T>>; FAN];
type Root = Table<Table<Table<Table<Page>>>>;

/// The bytes of one coherence domain's memory, zero where nothing was written. A clone refers to
/// the same memory. The [module](self) says which component may access which line.
#[derive(Clone)]
pub struct Image(Arc<Root>);

impl Default for Image {
    fn default() -> Self {
        Image::new()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").finish_non_exhaustive()
    }
}

/// Index of the address's entry in the table `level` levels above the pages.
#[inline]
fn slot(addr: u64, level: u32) -> usize {
    (addr >> (PAGE_BITS + level * FAN_BITS)) as usize & (FAN - 1)
}

#[inline]
fn child<T, const N: usize>(table: &Table<[T; N]>, slot: usize) -> Option<&[T; N]> {
    table[slot].get().map(Box::as_ref)
}

/// The allocated entries of a table, each with its index.
fn entries<T>(table: &Table<T>) -> impl Iterator<Item = (u64, &T)> {
    (0..)
        .zip(table)
        .filter_map(|(place, slot)| Some((place, slot.get()?.as_ref())))
}

#[inline]
fn grown<T: Default, const N: usize>(table: &Table<[T; N]>, slot: usize) -> &[T; N] {
    table[slot].get_or_init(|| Box::new(array::from_fn(|_| T::default())))
}

/// All ones in the lowest `bytes` bytes; `bytes` is 1 to 8.
#[inline]
fn mask(bytes: u32) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// Saves every page that was ever written. The image to restore into must have no other pages.
impl SaveState for Image {
    fn save(&self, out: &mut StateWriter) {
        let pages = self.pages();
        out.value("pages", &pages.len());
        for first in pages {
            let words: Vec<u64> = words_of(first).map(|hpa| self.read(hpa, 8)).collect();
            out.value("page", &(first, words));
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        for _ in 0..from.value::<usize>("pages")? {
            let (first, words): (Hpa, Vec<u64>) = from.value("page")?;
            if words.len() != WORDS || first.0 % PAGE_BYTES != 0 {
                return Err(StateError::of_length("page", words.len(), WORDS));
            }
            for (hpa, word) in words_of(first).zip(words) {
                self.write(hpa, 8, word);
            }
        }
        Ok(())
    }
}

/// The addresses of the words of a page.
fn words_of(first: Hpa) -> impl Iterator<Item = Hpa> {
    (0..WORDS as u64).map(move |word| Hpa(first.0 + 8 * word))
}

impl Image {
    /// Makes a memory of zeros.
    pub fn new() -> Image {
        Image(Arc::new([const { OnceLock::new() }; FAN]))
    }

    #[inline]
    fn page(&self, addr: u64) -> Option<&Page> {
        let table = child(&self.0, slot(addr, 3))?;
        let table = child(table, slot(addr, 2))?;
        let table = child(table, slot(addr, 1))?;
        child(table, slot(addr, 0))
    }

    #[inline]
    fn page_to_write(&self, addr: u64) -> &Page {
        let table = grown(&self.0, slot(addr, 3));
        let table = grown(table, slot(addr, 2));
        let table = grown(table, slot(addr, 1));
        grown(table, slot(addr, 0))
    }

    /// The first address of every page of 4 KiB that was ever written, in ascending order.
    pub fn pages(&self) -> Vec<Hpa> {
        let mut pages = Vec::new();
        for (a, table) in entries(&self.0) {
            for (b, table) in entries(table) {
                for (c, table) in entries(table) {
                    let first = (a << FAN_BITS | b) << FAN_BITS | c;
                    let page = |(d, _): (u64, &Page)| Hpa((first << FAN_BITS | d) << PAGE_BITS);
                    pages.extend(entries(table).map(page));
                }
            }
        }
        pages
    }

    /// Sets a line of 64 B to zero. `hpa` is the line's first address.
    pub fn clear_line(&self, hpa: Hpa) {
        if let Some(page) = self.page(hpa.0) {
            let first = (hpa.0 % PAGE_BYTES / 8) as usize;
            page[first..first + 8]
                .iter()
                .for_each(|word| word.store(0, Relaxed));
        }
    }

    #[inline]
    fn word(&self, addr: u64) -> u64 {
        let word = |page: &Page| page[(addr % PAGE_BYTES / 8) as usize].load(Relaxed);
        self.page(addr).map_or(0, word)
    }

    /// Replaces the bits of `mask` in the word that holds the byte at `addr`.
    #[inline]
    fn set_word(&self, addr: u64, mask: u64, bits: u64) {
        let word = &self.page_to_write(addr)[(addr % PAGE_BYTES / 8) as usize];
        if mask == u64::MAX {
            return word.store(bits, Relaxed);
        }
        // The protocol lets no two components write the same line at a time, and a word is inside
        // one line: no other component writes between this load and this store.
        word.store((word.load(Relaxed) & !mask) | (bits & mask), Relaxed);
    }

    /// Reads the `size` bytes from `hpa` on as a little-endian number.
    ///
    /// # Panics
    /// If `size` is not 1 to 8.
    #[inline]
    pub fn read(&self, hpa: Hpa, size: u8) -> u64 {
        assert!((1..=8).contains(&size), "{size} bytes are no number");
        let (inside, bits) = (8 * (hpa.0 % 8) as u32, 8 * u32::from(size));
        let mut value = self.word(hpa.0) >> inside;
        if inside + bits > 64 {
            value |= self.word(hpa.0.wrapping_add(8)) << (64 - inside);
        }
        value & mask(u32::from(size))
    }

    /// Writes the lowest `size` bytes of `value` from `hpa` on, little endian.
    ///
    /// # Panics
    /// If `size` is not 1 to 8.
    #[inline]
    pub fn write(&self, hpa: Hpa, size: u8, value: u64) {
        assert!((1..=8).contains(&size), "{size} bytes are no number");
        let (inside, bits) = (8 * (hpa.0 % 8) as u32, 8 * u32::from(size));
        let mask = mask(u32::from(size));
        self.set_word(hpa.0, mask << inside, value << inside);
        if inside + bits > 64 {
            let over = 64 - inside;
            self.set_word(hpa.0.wrapping_add(8), mask >> over, value >> over);
        }
    }

    /// Prefetches the word at `hpa` into the caches of the machine that runs the simulator.
    #[inline]
    pub fn prefetch(&self, hpa: Hpa) {
        if let Some(page) = self.page(hpa.0) {
            prefetch(&page[(hpa.0 % PAGE_BYTES / 8) as usize]);
        }
    }

    /// Replaces a number by the result of `change`, unless that is `None`. Returns the old number.
    ///
    /// # Panics
    /// If `size` is not 1 to 8.
    #[inline]
    pub fn update(&self, hpa: Hpa, size: u8, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let old = self.read(hpa, size);
        if let Some(new) = change(old) {
            self.write(hpa, size, new);
        }
        old
    }

    /// Adds `operand` to a number, with wrap-around at its size. Returns the old number.
    ///
    /// # Panics
    /// If `size` is not 1 to 8.
    #[inline]
    pub fn fetch_add(&self, hpa: Hpa, size: u8, operand: u64) -> u64 {
        self.update(hpa, size, |old| Some(old.wrapping_add(operand)))
    }

    /// Replaces a number by `new` if it equals `compare`. Returns the old number.
    ///
    /// # Panics
    /// If `size` is not 1 to 8.
    #[inline]
    pub fn compare_exchange(&self, hpa: Hpa, size: u8, compare: u64, new: u64) -> u64 {
        self.update(hpa, size, |old| (old == compare).then_some(new))
    }

    /// Reads `bytes.len()` bytes from `hpa` on; the range may cross lines and pages.
    pub fn read_bytes(&self, hpa: Hpa, bytes: &mut [u8]) {
        let mut addr = hpa.0;
        for chunk in chunks_mut(addr, bytes) {
            let value = self.read(Hpa(addr), chunk.len() as u8);
            chunk.copy_from_slice(&value.to_le_bytes()[..chunk.len()]);
            addr = addr.wrapping_add(chunk.len() as u64);
        }
    }

    /// Writes `bytes` from `hpa` on; the range may cross lines and pages.
    pub fn write_bytes(&self, hpa: Hpa, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(to_word(hpa.0, bytes.len()));
        let mut addr = hpa.0;
        for chunk in std::iter::once(head).chain(rest.chunks(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            if !chunk.is_empty() {
                self.write(Hpa(addr), chunk.len() as u8, u64::from_le_bytes(word));
            }
            addr = addr.wrapping_add(chunk.len() as u64);
        }
    }

    /// Copies `bytes` bytes between two ranges that do not overlap.
    pub fn copy(&self, from: Hpa, to: Hpa, bytes: u64) {
        let mut buffer = [0; 64];
        let mut done = 0;
        while done < bytes {
            let part = &mut buffer[..(bytes - done).min(64) as usize];
            self.read_bytes(Hpa(from.0.wrapping_add(done)), part);
            self.write_bytes(Hpa(to.0.wrapping_add(done)), part);
            done += part.len() as u64;
        }
    }
}

/// Bytes from `addr` to the next word boundary, at most `len`; 0 when `addr` is on a boundary.
fn to_word(addr: u64, len: usize) -> usize {
    (addr.wrapping_neg() as usize % 8).min(len)
}

/// Splits a range at word boundaries, so that each part is inside one word.
fn chunks_mut(addr: u64, bytes: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    let (head, rest) = bytes.split_at_mut(to_word(addr, bytes.len()));
    let head = Some(head).filter(|head| !head.is_empty());
    head.into_iter().chain(rest.chunks_mut(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_never_written_is_zero_and_a_clone_is_the_same_memory() {
        let image = Image::new();
        assert_eq!(image.read(Hpa(u64::MAX), 8), 0);
        image.clone().write(Hpa(1 << 51), 8, 7);
        assert_eq!(image.read(Hpa(1 << 51), 8), 7);
        assert_eq!(image.read(Hpa(0), 8), 0);
    }

    #[test]
    fn the_pages_that_were_written_are_known_and_can_be_cleared() {
        let image = Image::new();
        assert_eq!(image.pages(), []);
        for addr in [u64::MAX - 7, 1 << 51, 4096 + 8, 4096, 0] {
            image.write(Hpa(addr), 8, 7);
        }
        let last = u64::MAX - 4095;
        assert_eq!(image.pages(), [0, 4096, 1 << 51, last].map(Hpa));
        image.clear_line(Hpa(4096));
        image.clear_line(Hpa(1 << 30));
        assert_eq!(image.read(Hpa(4096 + 8), 8), 0);
        assert_eq!(image.read(Hpa(0), 8), 7);
    }

    #[test]
    fn atomics_return_the_old_value_and_wrap_at_their_size() {
        let image = Image::new();
        image.write(Hpa(6), 2, 0xffff);
        assert_eq!(image.fetch_add(Hpa(6), 2, 2), 0xffff);
        assert_eq!(image.read(Hpa(6), 4), 1);
        assert_eq!(image.compare_exchange(Hpa(6), 2, 2, 9), 1);
        assert_eq!(image.compare_exchange(Hpa(6), 2, 1, 9), 1);
        assert_eq!(image.read(Hpa(6), 2), 9);
    }

    #[test]
    fn writers_of_different_lines_do_not_disturb_one_another() {
        let image = Image::new();
        std::thread::scope(|scope| {
            for writer in 0..4u64 {
                let image = image.clone();
                scope.spawn(move || {
                    for line in (writer..4096).step_by(4) {
                        image.write_bytes(Hpa(64 * line), &[writer as u8 + 1; 64]);
                    }
                });
            }
        });
        for byte in 0..64 * 4096 {
            assert_eq!(image.read(Hpa(byte), 1), byte / 64 % 4 + 1);
        }
    }

    #[derive(Clone, Debug)]
    enum Access {
        Number(u64, u8, u64),
        Bytes(u64, Vec<u8>),
        Copy(u64, u64),
    }

    /// Addresses near the edges of words, pages and tables.
    fn address() -> impl Strategy<Value = u64> {
        let edge = prop::sample::select(vec![64, PAGE_BYTES, 32 << 20, 1 << 51]);
        (edge, 0..40u64).prop_map(|(edge, at)| edge - 20 + at)
    }

    fn access() -> impl Strategy<Value = Access> {
        prop_oneof![
            (address(), 1..=8u8, any::<u64>())
                .prop_map(|(at, size, v)| Access::Number(at, size, v)),
            (address(), prop::collection::vec(any::<u8>(), 0..40))
                .prop_map(|(at, v)| Access::Bytes(at, v)),
            (address(), 0..200u64).prop_map(|(at, len)| Access::Copy(at, len)),
        ]
    }

    proptest! {
        #[test]
        fn an_image_holds_what_a_map_of_bytes_holds(accesses in prop::collection::vec(access(), 1..60)) {
            let image = Image::new();
            let mut bytes: BTreeMap<u64, u8> = BTreeMap::new();
            let mut put = |at: u64, values: &[u8]| {
                for (byte, value) in (at..).zip(values) {
                    bytes.insert(byte, *value);
                }
            };
            for access in accesses {
                match access {
                    Access::Number(at, size, value) => {
                        image.write(Hpa(at), size, value);
                        put(at, &value.to_le_bytes()[..usize::from(size)]);
                    }
                    Access::Bytes(at, values) => {
                        image.write_bytes(Hpa(at), &values);
                        put(at, &values);
                    }
                    Access::Copy(from, len) => {
                        let mut values = vec![0; len as usize];
                        image.read_bytes(Hpa(from), &mut values);
                        image.copy(Hpa(from), Hpa(1 << 40), len);
                        put(1 << 40, &values);
                    }
                }
            }
            for (&at, &value) in &bytes {
                prop_assert_eq!(image.read(Hpa(at), 1), u64::from(value));
                let eight = (at..at + 8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*bytes.get(&byte).unwrap_or(&0)));
                prop_assert_eq!(image.read(Hpa(at), 8), eight);
            }
        }
    }
}
