//! A stream prefetcher: after two consecutive misses, upwards or downwards, it requests the next lines.
//!
//! QEMU executes one instruction after another, so a guest has at most one load in flight. A real
//! core that walks through an array keeps memory busy mostly by its prefetcher. This is the
//! simplest prefetcher: it knows lines, not pages, and runs ahead as far as MSHRs are free.

use crate::memory::GuestLineAddr;

/// Number of streams that the prefetcher tracks (*assumed*: as in second-level prefetchers of current cores).
const STREAMS: usize = 16;
/// Consecutive lines before the next lines are requested.
const TRAINING_LINES: u32 = 2;

/// A stream of consecutive lines.
#[derive(Clone, Copy, Debug)]
struct Stream {
    last: GuestLineAddr,
    /// Direction, 1 or -1. 0 before the second line.
    step: i64,
    /// Number of consecutive lines seen.
    run: u32,
    /// Number of lines after `last` that were requested.
    ahead: u32,
    /// Number of the last use.
    used: u64,
}

/// The streams of a processor.
#[derive(Clone, Default, Debug)]
pub struct Prefetcher {
    streams: Vec<Stream>,
    uses: u64,
    current: Option<usize>,
}

impl Prefetcher {
    /// Records a line that missed the private caches.
    pub fn note(&mut self, line: GuestLineAddr) {
        self.uses += 1;
        let used = self.uses;
        let continues = |stream: &Stream| {
            let fits = |step: &i64| stream.step == 0 || stream.step == *step;
            let mut steps = [1, -1].into_iter().filter(fits);
            steps.find(|step| stream.last.neighbour(*step) == line)
        };
        let mut streams = self.streams.iter().enumerate();
        if let Some((at, step)) = streams.find_map(|(at, one)| Some((at, continues(one)?))) {
            let stream = &mut self.streams[at];
            stream.step = step;
            stream.last = line;
            stream.run = stream.run.saturating_add(1);
            stream.ahead = stream.ahead.saturating_sub(1);
            stream.used = used;
            self.current = Some(at);
            return;
        }
        let fresh = Stream {
            last: line,
            step: 0,
            run: 1,
            ahead: 0,
            used,
        };
        self.current = None;
        if self.streams.len() < STREAMS {
            self.streams.push(fresh);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = fresh;
        }
    }

    /// The next line of the stream that the last noted line continued, at most `depth` lines ahead.
    pub fn next(&mut self, depth: u32) -> Option<GuestLineAddr> {
        let stream = &mut self.streams[self.current?];
        if stream.run < TRAINING_LINES || stream.ahead >= depth {
            return None;
        }
        stream.ahead += 1;
        Some(stream.last.neighbour(stream.step * i64::from(stream.ahead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(prefetcher: &mut Prefetcher, line: u64, depth: u32) -> Vec<u64> {
        prefetcher.note(GuestLineAddr::local(line * 64));
        std::iter::from_fn(|| prefetcher.next(depth))
            .map(|place| place.address() / 64)
            .collect()
    }

    #[test]
    fn two_lines_in_a_row_ask_for_what_follows_once() {
        let mut one = Prefetcher::default();
        assert!(asked(&mut one, 100, 4).is_empty());
        assert_eq!(asked(&mut one, 101, 4), [102, 103, 104, 105]);
        assert_eq!(asked(&mut one, 102, 4), [106]);
        assert!(asked(&mut one, 500, 4).is_empty());
        assert_eq!(asked(&mut one, 103, 4), [107]);
    }

    #[test]
    fn a_walk_down_is_followed_down() {
        let mut one = Prefetcher::default();
        asked(&mut one, 100, 2);
        assert_eq!(asked(&mut one, 99, 2), [98, 97]);
    }

    #[test]
    fn lines_without_order_ask_for_nothing() {
        let mut one = Prefetcher::default();
        for line in [7, 900, 13, 77_000, 410, 12_345] {
            assert!(asked(&mut one, line, 8).is_empty());
        }
    }

    #[test]
    fn three_arrays_in_step_are_three_streams() {
        let mut one = Prefetcher::default();
        for base in [1000, 2000, 3000] {
            asked(&mut one, base, 2);
        }
        for base in [1000, 2000, 3000] {
            assert_eq!(asked(&mut one, base + 1, 2), [base + 2, base + 3]);
        }
    }
}
