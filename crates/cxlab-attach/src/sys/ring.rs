//! Samples of a thread's events, in a ring that the kernel writes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use cxlab_perf::{Attr, Record, RecordError, read_format, ring};
use memmap2::{MmapOptions, MmapRaw};

use super::Tid;
use super::events::{open_event, read_event};

/// Bytes of a page of this processor.
const PAGE: usize = 4096;
/// Where the first page of the mapping (`struct perf_event_mmap_page`) has the counts of bytes written and read, and
/// the place and size of the ring.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
const DATA_AT: usize = 1040;
const DATA_BYTES: usize = 1048;

/// The ring of an event.
#[derive(Debug)]
pub struct Ring {
    event: OwnedFd,
    memory: MmapRaw,
    attr: Attr,
}

impl Ring {
    /// Opens an event of a thread with a ring of `pages` pages, a power of two.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` where this process may not open events, or not map so much memory, `ENOENT`
    /// where there is no such event.
    pub fn open(tid: Tid, attr: &Attr, pages: usize) -> io::Result<Ring> {
        let telling = Attr {
            read_format: read_format::LOST,
            ..*attr
        };
        let event = match open_event(&telling, tid) {
            // Linux before 6.0 does not tell how many were lost.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open_event(attr, tid)?,
            event => event?,
        };
        let mut options = MmapOptions::new();
        Ok(Ring {
            memory: options.len((1 + pages) * PAGE).map_raw(&event)?,
            event,
            attr: *attr,
        })
    }

    /// Number of samples lost since the ring was opened. A record reports them too, but only before the next sample. 0 if
    /// the kernel does not report them.
    pub fn lost(&self) -> u64 {
        let values: io::Result<[u64; 2]> = read_event(&self.event);
        values.map_or(0, |[_, lost]| lost)
    }

    /// A word of the first page, which the kernel or this process may change at any time.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the place is in the first page of the mapping, which `self` owns, and is aligned to eight bytes.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }

    /// Takes all records that have been written.
    ///
    /// # Errors
    /// [`RecordError`] if the bytes are no records of that event. All records written until now are then lost.
    pub fn take(&mut self, each: &mut dyn FnMut(Record<'_>)) -> Result<(), RecordError> {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let (at, size) = (
            self.word(DATA_AT).load(Ordering::Relaxed) as usize,
            self.word(DATA_BYTES).load(Ordering::Relaxed) as usize,
        );
        let fits = at
            .checked_add(size)
            .is_some_and(|end| end <= self.memory.len());
        let left = head.wrapping_sub(tail) as usize;
        let read = match fits && size > 0 && left <= size {
            true => {
                let written = self.copy(at, size, tail, left);
                ring::read(&written, (0, left as u64), &self.attr, each).map(drop)
            }
            false => Ok(()),
        };
        self.word(TAIL).store(head, Ordering::Release);
        read
    }

    /// The bytes between tail and head. The kernel writes only behind the head, and not before the tail.
    fn copy(&self, at: usize, size: usize, tail: u64, left: usize) -> Vec<u8> {
        let mut bytes = vec![0; left.max(1)];
        let from = (tail % size as u64) as usize;
        let first = left.min(size - from);
        // SAFETY: both parts are bytes of the mapping, and together as many as the vector has.
        unsafe {
            let ring = self.memory.as_mut_ptr().add(at);
            ring.add(from)
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), first);
            ring.copy_to_nonoverlapping(bytes.as_mut_ptr().add(first), left - first);
        }
        bytes
    }
}

/// An event that counts, of a thread.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Opens an event of a thread that is not sampled.
    pub fn open(tid: Tid, attr: &Attr) -> io::Result<Counter> {
        let attr = Attr {
            read_format: read_format::TIMES,
            ..*attr
        };
        open_event(&attr, tid).map(Counter)
    }

    /// Number of events since the counter was opened, extrapolated if the kernel multiplexed it.
    pub fn read(&self) -> io::Result<f64> {
        read_event(&self.0).map(in_turn)
    }
}

/// Number of events in the time in which the event was open, extrapolated from the time in which it was counted.
fn in_turn([count, open_ns, counted_ns]: [u64; 3]) -> f64 {
    match counted_ns {
        0 => 0.0,
        _ => count as f64 * (open_ns as f64 / counted_ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use cxlab_perf::{Format, Mode, kind};

    use super::*;
    use crate::sys::{self, Block};

    /// Page faults, each of which is a sample with the address that was touched.
    fn faults(fields: &[Format]) -> Attr {
        Attr {
            sample_period: 1,
            sample_type: Format::bits(fields),
            ..Attr::of_user(kind::SOFTWARE, 2)
        }
    }

    const FIELDS: [Format; 4] = [Format::Ip, Format::Tid, Format::Time, Format::Addr];

    /// Opens a ring of this thread. `None` where the kernel refuses.
    fn ring(attr: &Attr, pages: usize) -> Option<Ring> {
        match Ring::open(0, attr, pages) {
            Ok(ring) => Some(ring),
            Err(error) => {
                println!("skipped: events are refused here ({error})");
                None
            }
        }
    }

    /// Touches each page of a block, and returns their addresses.
    fn touch(pages: usize) -> (Block, Vec<u64>) {
        let mut block = Block::new(pages * PAGE, false).expect("there is memory");
        let words = block.words();
        let mut addresses = Vec::new();
        for page in 0..pages {
            let word = &mut words[page * PAGE / 8];
            *word = black_box(1);
            addresses.push(std::ptr::from_mut(word) as u64);
        }
        (block, addresses)
    }

    /// Every touched page, in order, as often as the ring goes round.
    #[test]
    fn a_ring_has_every_touch_in_order() {
        let Some(mut ring) = ring(&faults(&FIELDS), 1) else {
            return;
        };
        let mut round = 0;
        for _ in 0..20 {
            let (_block, addresses) = touch(64);
            let (mut found, mut times) = (Vec::new(), Vec::new());
            ring.take(&mut |record| match record {
                Record::Sample(sample) => {
                    assert_eq!(sample.mode, Mode::User);
                    assert_eq!(sample.pid, sys::own());
                    found.extend(sample.address);
                    times.extend(sample.time);
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
            // Other memory of this process, its vectors for example, is touched for the first time too.
            found.retain(|address| addresses.contains(address));
            assert_eq!(found, addresses);
            assert!(times.is_sorted());
            round += 64 * 40;
        }
        assert!(round > 4 * PAGE);
    }

    /// What does not fit is said to be lost, and nothing else is.
    #[test]
    fn what_does_not_fit_is_told() {
        let Some(mut ring) = ring(&faults(&FIELDS), 1) else {
            return;
        };
        let (_block, addresses) = touch(300);
        let mut found = 0;
        let mut hear = |record: Record<'_>| match record {
            Record::Sample(sample) => {
                let address = sample.address.unwrap_or(0);
                found += usize::from(addresses.contains(&address));
                0
            }
            Record::Lost(records) => records as usize,
            other => panic!("{other:?}"),
        };
        let mut lost = 0;
        ring.take(&mut |record| lost += hear(record)).unwrap();
        // The next record is behind the number of those that were lost.
        let (_more, _) = touch(1);
        ring.take(&mut |record| lost += hear(record)).unwrap();
        assert!(found > 50 && lost > 50, "{found} {lost}");
        let told = ring.lost();
        assert!(told == 0 || told == lost as u64, "{told} {lost}");
        let all = found + lost;
        assert!(
            (addresses.len()..addresses.len() + 20).contains(&all),
            "{found} {lost}"
        );
    }

    /// Another thread's events are its own.
    #[test]
    fn events_of_other_threads_are_not_seen() {
        let Some(mut ring) = ring(&faults(&FIELDS), 8) else {
            return;
        };
        let (_block, own) = touch(32);
        let other = std::thread::spawn(|| touch(32).1).join().unwrap();
        let mut found = Vec::new();
        ring.take(&mut |record| {
            if let Record::Sample(sample) = record {
                found.extend(sample.address);
            }
        })
        .unwrap();
        assert!(own.iter().all(|address| found.contains(address)));
        assert!(!other.iter().any(|address| found.contains(address)));
    }

    #[test]
    fn a_counter_counts_every_touch() {
        let counter = match Counter::open(0, &faults(&[])) {
            Ok(counter) => counter,
            Err(error) => {
                println!("skipped: events are refused here ({error})");
                return;
            }
        };
        let before = counter.read().unwrap();
        let (_block, _) = touch(500);
        let counted = counter.read().unwrap() - before;
        assert!((500.0..520.0).contains(&counted), "{counted}");
    }

    #[test]
    fn events_counted_in_turn_stand_for_the_other_time() {
        assert_eq!(in_turn([100, 1000, 1000]), 100.0);
        assert_eq!(in_turn([100, 1000, 250]), 400.0);
        // It has not been counted yet.
        assert_eq!(in_turn([0, 1000, 0]), 0.0);
    }
}
