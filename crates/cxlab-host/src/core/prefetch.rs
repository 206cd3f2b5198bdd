//! The stream prefetcher of a core. After accesses to two neighbouring lines, up or down, it requests the
//! lines that follow before the program does. Those are [`PAIR`] at most, and as many as its depth from the third line in
//! a row on.
//!
//! The prefetcher tracks several streams at once, each within a page of 4 KiB, because the physical
//! address of the next page is unknown to it. It has no notion of time: the core requests lines as long as
//! there is room for them.

use cxlab_engine::save_state;
use cxlab_engine::units::LineAddr;
use serde::{Deserialize, Serialize};

/// Number of streams tracked at once (*assumed*: one forward or backward stream in each of 32 pages, as the
/// L2 streamer of Intel's Optimization Reference Manual).
const STREAMS: usize = 32;
/// Most lines requested behind two in a row. A core of an AMD EPYC (family 25, model 17) was *measured* to have 4 to 7.
/// Why it is 7 of these is in docs/notebook/validation.md.
const PAIR: u32 = 7;
/// Number of lines in a page.
const PAGE: u64 = 64;

/// A stream of accesses within a page.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct AccessStream {
    last: u64,
    /// Direction, 1 or -1; 0 before the second line.
    step: i64,
    /// Number of lines in a row up to `last`.
    run: u32,
    /// Number of lines after `last` that have been requested.
    ahead: u32,
    used: u64,
}

/// The streams that a core's prefetcher tracks.
#[derive(Default)]
pub(super) struct StreamTable {
    streams: Vec<AccessStream>,
    uses: u64,
}

save_state!(StreamTable {
    values: streams, uses;
});

impl StreamTable {
    /// Records an access of the program to `line`, which updates the stream of its page.
    pub(super) fn note(&mut self, line: LineAddr) {
        self.uses += 1;
        let used = self.uses;
        let here = |stream: &&mut AccessStream| stream.last / PAGE == line.0 / PAGE;
        if let Some(stream) = self.streams.iter_mut().find(here) {
            stream.used = used;
            // Both lines are in one page, so the distance is small.
            let step = line.0 as i64 - stream.last as i64;
            let far = step.unsigned_abs() as u32;
            // A core accesses lines out of order, so that some come late.
            let late = step.signum() == -stream.step && far < stream.run;
            if far == 0 || late {
                return;
            }
            if step.signum() == stream.step && far <= stream.ahead + 1 {
                stream.ahead = stream.ahead.saturating_sub(far);
                stream.run += far;
            } else {
                (stream.step, stream.run) = if far == 1 { (step, 2) } else { (0, 1) };
                stream.ahead = 0;
            }
            stream.last = line.0;
            return;
        }
        let fresh = AccessStream {
            last: line.0,
            step: 0,
            run: 1,
            ahead: 0,
            used,
        };
        if self.streams.len() < STREAMS {
            self.streams.push(fresh);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = fresh;
        }
    }

    /// The next line to prefetch, at most `depth` lines ahead, in the most recently
    /// used stream that has one.
    pub(super) fn next(&mut self, depth: u32) -> Option<LineAddr> {
        let next = |stream: &AccessStream| {
            let line = stream
                .last
                .checked_add_signed(stream.step * i64::from(stream.ahead + 1))?;
            (line / PAGE == stream.last / PAGE).then_some(line)
        };
        let runs = |stream: &&mut AccessStream| {
            let depth = if stream.run > 2 {
                depth
            } else {
                depth.min(PAIR)
            };
            stream.step != 0 && stream.ahead < depth && next(stream).is_some()
        };
        let stream = self
            .streams
            .iter_mut()
            .filter(runs)
            .max_by_key(|stream| stream.used)?;
        let line = next(stream)?;
        stream.ahead += 1;
        Some(LineAddr(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(streams: &mut StreamTable, line: u64, depth: u32) -> Vec<u64> {
        streams.note(LineAddr(line));
        std::iter::from_fn(|| streams.next(depth))
            .map(|line| line.0)
            .collect()
    }

    #[test]
    fn two_lines_in_a_row_ask_for_what_follows_once() {
        let mut one = StreamTable::default();
        assert!(asked(&mut one, 128, 4).is_empty());
        assert_eq!(asked(&mut one, 129, 4), [130, 131, 132, 133]);
        assert!(asked(&mut one, 129, 4).is_empty(), "the same line again");
        assert_eq!(asked(&mut one, 130, 4), [134]);
        assert!(asked(&mut one, 900, 4).is_empty());
        // A line that the core accesses out of order is a step of two, and then one behind the last.
        assert_eq!(asked(&mut one, 132, 4), [135, 136]);
        assert!(asked(&mut one, 131, 4).is_empty());
        assert_eq!(asked(&mut one, 133, 4), [137]);
    }

    #[test]
    fn a_pair_asks_for_few_lines_and_a_third_line_for_the_depth() {
        let mut one = StreamTable::default();
        asked(&mut one, 128, 16);
        let pair: Vec<u64> = (130..=136).collect();
        assert_eq!(asked(&mut one, 129, 16), pair);
        let rest: Vec<u64> = (137..=146).collect();
        assert_eq!(asked(&mut one, 130, 16), rest);
        // Elsewhere in the page it begins anew.
        assert!(asked(&mut one, 187, 16).is_empty());
        assert_eq!(
            asked(&mut one, 186, 16),
            [185, 184, 183, 182, 181, 180, 179]
        );
    }

    #[test]
    fn a_walk_ends_with_its_page_and_may_go_down() {
        let mut one = StreamTable::default();
        asked(&mut one, 66, 4);
        assert_eq!(asked(&mut one, 65, 4), [64]);
        assert!(asked(&mut one, 64, 4).is_empty());
        assert!(asked(&mut one, 63, 4).is_empty());
    }

    #[test]
    fn lines_without_order_ask_for_nothing() {
        let mut one = StreamTable::default();
        for line in [7, 900, 13, 77_000, 410, 9, 12_345, 77_002] {
            assert!(asked(&mut one, line, 8).is_empty());
        }
    }

    #[test]
    fn arrays_in_step_are_streams_of_their_own() {
        let mut one = StreamTable::default();
        for base in [1024, 2048, 4096] {
            asked(&mut one, base, 2);
        }
        for base in [1024, 2048, 4096] {
            assert_eq!(asked(&mut one, base + 1, 2), [base + 2, base + 3]);
        }
    }
}
