//! The ring that the kernel writes records of an event to, and that one reader empties.
//!
//! The kernel adds records at the *head* and a reader takes them at the *tail*. Both are counts of all bytes ever
//! written and read; the place in the ring is their remainder by its size. A record may go over the end of the
//! ring. Where there is no room, the kernel drops records, and says later how many.

use crate::attr::Attr;
use crate::bytes::{Bytes, RecordError};
use crate::record::{HEADER, Record};

/// Reads all records between `tail` and `head`, oldest first, and returns the new tail, which is `head`.
///
/// # Errors
/// [`RecordError`] if the bytes are no records of that event, or are more than the ring has.
pub fn read(
    ring: &[u8],
    (tail, head): (u64, u64),
    attr: &Attr,
    each: &mut dyn FnMut(Record<'_>),
) -> Result<u64, RecordError> {
    let size = ring.len() as u64;
    let mut left = head.wrapping_sub(tail);
    if left > size {
        return Err(RecordError::new(format!(
            "found {left} bytes to read in a ring of {size}"
        )));
    }
    let mut at = tail;
    let mut whole = Vec::new();
    while left > 0 {
        let mut header = [0; HEADER];
        if left < HEADER as u64 {
            return Err(RecordError::new(format!("found {left} bytes of a record")));
        }
        copy(ring, at, &mut header);
        let mut rest = Bytes(&header);
        let (kind, misc, bytes) = (rest.u32()?, rest.u16()?, u64::from(rest.u16()?));
        if bytes < HEADER as u64 || bytes > left {
            return Err(RecordError::new(format!(
                "found a record of {bytes} bytes; allowed: {HEADER} to {left}"
            )));
        }
        whole.resize(bytes as usize - HEADER, 0);
        copy(ring, at.wrapping_add(HEADER as u64), &mut whole);
        each(Record::parse(attr, kind, misc, &whole)?);
        at = at.wrapping_add(bytes);
        left -= bytes;
    }
    Ok(at)
}

/// Copies bytes that may go over the end of the ring.
fn copy(ring: &[u8], at: u64, to: &mut [u8]) {
    let from = (at % ring.len() as u64) as usize;
    let first = to.len().min(ring.len() - from);
    to[..first].copy_from_slice(&ring[from..from + first]);
    let rest = to.len() - first;
    to[first..].copy_from_slice(&ring[..rest]);
}

/// A ring that a program writes as the kernel does. Records that do not fit are dropped and counted.
#[derive(Clone, Debug)]
pub struct Written {
    ring: Vec<u8>,
    head: u64,
    tail: u64,
    lost: u64,
    attr: Attr,
}

impl Written {
    /// An empty ring of `bytes` bytes for records of an event with attributes `attr`.
    pub fn new(bytes: usize, attr: Attr) -> Written {
        Written {
            ring: vec![0; bytes],
            head: 0,
            tail: 0,
            lost: 0,
            attr,
        }
    }

    /// Adds a record. Returns whether there was room for it.
    pub fn push(&mut self, record: &Record<'_>, time: u64) -> bool {
        if self.lost > 0 && self.put(&Record::Lost(self.lost), time) {
            self.lost = 0;
        }
        let written = self.lost == 0 && self.put(record, time);
        self.lost += u64::from(!written);
        written
    }

    fn put(&mut self, record: &Record<'_>, time: u64) -> bool {
        let bytes = crate::encode::record(&self.attr, record, time);
        let room = self.ring.len() as u64 - (self.head - self.tail);
        if bytes.len() as u64 > room {
            return false;
        }
        for byte in bytes {
            let at = (self.head % self.ring.len() as u64) as usize;
            self.ring[at] = byte;
            self.head += 1;
        }
        true
    }

    /// Takes all records.
    ///
    /// # Errors
    /// As [`read`] has them.
    pub fn take(&mut self, each: &mut dyn FnMut(Record<'_>)) -> Result<(), RecordError> {
        self.tail = read(&self.ring, (self.tail, self.head), &self.attr, each)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{Format, flag};
    use crate::record::{Calls, Mode, Sample};
    use proptest::prelude::*;

    fn attr() -> Attr {
        let fields = [Format::Ip, Format::Tid, Format::Addr, Format::Callchain];
        Attr {
            sample_type: Format::bits(&fields),
            flags: flag::ID_ALL,
            ..Attr::default()
        }
    }

    fn sample(address: u64, calls: &[u8]) -> Sample<'_> {
        Sample {
            mode: Mode::User,
            ip: 1,
            pid: 2,
            tid: 3,
            address: Some(address),
            calls: Calls(calls),
            ..Sample::default()
        }
    }

    proptest! {
        /// Records of many lengths go round a small ring. Each is read in order, or said to be lost.
        #[test]
        fn what_is_written_is_read_or_lost(
            lengths in prop::collection::vec((0usize..20, any::<bool>()), 1..400),
            words in 32usize..200,
        ) {
            let mut ring = Written::new(8 * words, attr());
            let calls: Vec<u8> = (0..20u64).flat_map(u64::to_le_bytes).collect();
            let (mut next, mut seen, mut lost) = (0, 0, 0);
            let mut hear = |record: Record<'_>| match record {
                Record::Sample(sample) => {
                    // Lost ones are between those that were read.
                    assert!(sample.address >= Some(seen));
                    assert_eq!(sample.address, Some(seen + lost));
                    seen += 1;
                }
                Record::Lost(events) => lost += events,
                other => panic!("{other:?}"),
            };
            for (length, take) in lengths {
                let sample = sample(next, &calls[..8 * length]);
                ring.push(&Record::Sample(sample), 0);
                next += 1;
                if take {
                    ring.take(&mut hear).unwrap();
                }
            }
            ring.take(&mut hear).unwrap();
            // What was lost last is said with the next record.
            prop_assert_eq!(seen + lost + ring.lost, next);
        }

        /// No bytes make the reader panic, or read on for ever.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 8..200), tail: u64, more in 0u64..300) {
            let mut records = 0;
            let _ = read(&bytes, (tail, tail.wrapping_add(more)), &attr(), &mut |_| records += 1);
            prop_assert!(records <= bytes.len());
        }
    }
}
