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
    /// Number of the stream's last use.
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
    pub(super) fn observe(&mut self, line: LineAddr) {
        self.uses += 1;
        let used = self.uses;
        let is_in_page = |stream: &&mut AccessStream| stream.last / PAGE == line.0 / PAGE;
        if let Some(stream) = self.streams.iter_mut().find(is_in_page) {
            stream.used = used;
            // Both lines are in one page, so the distance is small.
            let step = line.0 as i64 - stream.last as i64;
            let distance = step.unsigned_abs() as u32;
            // A core accesses lines out of order, so that some come late.
            let late = step.signum() == -stream.step && distance < stream.run;
            if distance == 0 || late {
                return;
            }
            if step.signum() == stream.step && distance <= stream.ahead + 1 {
                stream.ahead = stream.ahead.saturating_sub(distance);
                stream.run += distance;
            } else {
                (stream.step, stream.run) = if distance == 1 { (step, 2) } else { (0, 1) };
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
        let next_line = |stream: &AccessStream| {
            let line = stream
                .last
                .checked_add_signed(stream.step * i64::from(stream.ahead + 1))?;
            (line / PAGE == stream.last / PAGE).then_some(line)
        };
        let has_line = |stream: &&mut AccessStream| {
            let depth = if stream.run > 2 {
                depth
            } else {
                depth.min(PAIR)
            };
            stream.step != 0 && stream.ahead < depth && next_line(stream).is_some()
        };
        let stream = self
            .streams
            .iter_mut()
            .filter(has_line)
            .max_by_key(|stream| stream.used)?;
        let line = next_line(stream)?;
        stream.ahead += 1;
        Some(LineAddr(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(streams: &mut StreamTable, line: u64, depth: u32) -> Vec<u64> {
        streams.observe(LineAddr(line));
        std::iter::from_fn(|| streams.next(depth))
            .map(|line| line.0)
            .collect()
    }

    #[test]
    fn two_lines_in_a_row_ask_for_what_follows_once() {
        let mut streams = StreamTable::default();
        assert!(requested(&mut streams, 128, 4).is_empty());
        assert_eq!(requested(&mut streams, 129, 4), [130, 131, 132, 133]);
        assert!(
            requested(&mut streams, 129, 4).is_empty(),
            "the same line again"
        );
        assert_eq!(requested(&mut streams, 130, 4), [134]);
        assert!(requested(&mut streams, 900, 4).is_empty());
        // A line that the core accesses out of order is a step of two, and then one behind the last.
        assert_eq!(requested(&mut streams, 132, 4), [135, 136]);
        assert!(requested(&mut streams, 131, 4).is_empty());
        assert_eq!(requested(&mut streams, 133, 4), [137]);
    }

    #[test]
    fn a_pair_asks_for_few_lines_and_a_third_line_for_the_depth() {
        let mut streams = StreamTable::default();
        requested(&mut streams, 128, 16);
        let pair: Vec<u64> = (130..=136).collect();
        assert_eq!(requested(&mut streams, 129, 16), pair);
        let rest: Vec<u64> = (137..=146).collect();
        assert_eq!(requested(&mut streams, 130, 16), rest);
        // Elsewhere in the page it begins anew.
        assert!(requested(&mut streams, 187, 16).is_empty());
        assert_eq!(
            requested(&mut streams, 186, 16),
            [185, 184, 183, 182, 181, 180, 179]
        );
    }

    #[test]
    fn a_walk_ends_with_its_page_and_may_go_down() {
        let mut streams = StreamTable::default();
        requested(&mut streams, 66, 4);
        assert_eq!(requested(&mut streams, 65, 4), [64]);
        assert!(requested(&mut streams, 64, 4).is_empty());
        assert!(requested(&mut streams, 63, 4).is_empty());
    }

    #[test]
    fn lines_without_order_ask_for_nothing() {
        let mut streams = StreamTable::default();
        for line in [7, 900, 13, 77_000, 410, 9, 12_345, 77_002] {
            assert!(requested(&mut streams, line, 8).is_empty());
        }
    }

    #[test]
    fn arrays_in_step_are_streams_of_their_own() {
        let mut streams = StreamTable::default();
        for base in [1024, 2048, 4096] {
            requested(&mut streams, base, 2);
        }
        for base in [1024, 2048, 4096] {
            assert_eq!(requested(&mut streams, base + 1, 2), [base + 2, base + 3]);
        }
    }
}
