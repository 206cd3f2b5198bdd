//! The address map: which medium holds an address, and where in it.

use cxlab_engine::units::{Bytes, Dpa, LINE_BYTES};

use super::params::{MAX_MEDIA, Spread};

/// A device's address map.
#[derive(Clone, Debug)]
pub(super) struct InterleaveMap {
    spread: Spread,
    count: u64,
    /// Logarithm to base 2 of the lines in a granule.
    shift: u32,
    /// Number of bits of a medium's number, for `xor`.
    digit: u32,
    /// First line of each medium, for `ranges`.
    first: Vec<u64>,
}

/// The part of a request that one medium holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestPart {
    pub medium: usize,
    pub dpa: Dpa,
    pub lines: u16,
}

impl InterleaveMap {
    pub(super) fn new(spread: Spread, granularity: Bytes, shares: &[Bytes]) -> InterleaveMap {
        let count = shares.len() as u64;
        let ends = shares.iter().scan(0, |end, share| {
            let first = *end;
            *end += share.0 / LINE_BYTES;
            Some(first)
        });
        InterleaveMap {
            spread,
            count,
            shift: (granularity.0 / LINE_BYTES).ilog2(),
            digit: count.ilog2(),
            first: ends.collect(),
        }
    }

    /// The medium of a line, and the line's number there.
    #[inline]
    pub(super) fn place(&self, line: u64) -> (usize, u64) {
        if self.spread == Spread::Ranges {
            let medium = self.first.partition_point(|first| *first <= line) - 1;
            return (medium, line - self.first[medium]);
        }
        let granule = line >> self.shift;
        let medium = match self.spread {
            Spread::Xor => self.fold(granule),
            _ => granule % self.count,
        };
        let within = line & ((1 << self.shift) - 1);
        let line = (granule / self.count) << self.shift | within;
        (medium as usize, line)
    }

    /// Exclusive or of all digits of a granule's number.
    #[inline]
    fn fold(&self, granule: u64) -> u64 {
        let (mut rest, mut digits) = (granule, 0);
        while rest != 0 && self.digit > 0 {
            digits ^= rest;
            rest >>= self.digit;
        }
        digits & (self.count - 1)
    }

    /// Splits a request into one piece for each medium that it touches, in the order of the
    /// addresses. Each piece is contiguous in its medium, because each medium holds one granule
    /// of every stripe.
    #[inline]
    pub(super) fn split(&self, dpa: Dpa, lines: u16, mut piece: impl FnMut(RequestPart)) {
        let first = dpa.0 / LINE_BYTES;
        let last = first + u64::from(lines) - 1;
        let (medium, line) = self.place(first);
        // If one medium holds all of the request, an address inside a line keeps its offset.
        if first >> self.shift == last >> self.shift && self.place(last).0 == medium {
            let dpa = Dpa(line * LINE_BYTES + dpa.0 % LINE_BYTES);
            return piece(RequestPart { medium, dpa, lines });
        }
        let mut parts = [(u64::MAX, 0u16); MAX_MEDIA];
        let mut order = [0u8; MAX_MEDIA];
        let mut touched = 0;
        let mut line = first;
        while line <= last {
            let (medium, there) = self.place(line);
            let count = self.run(line, medium).min(last - line + 1);
            let part = &mut parts[medium];
            if part.1 == 0 {
                order[touched] = medium as u8;
                touched += 1;
            }
            *part = (part.0.min(there), part.1 + count as u16);
            line += count;
        }
        for medium in &order[..touched] {
            let (line, lines) = parts[usize::from(*medium)];
            piece(RequestPart {
                medium: usize::from(*medium),
                dpa: Dpa(line * LINE_BYTES),
                lines,
            });
        }
    }

    /// Lines from `line` to the end of its granule or range.
    #[inline]
    fn run(&self, line: u64, medium: usize) -> u64 {
        match self.spread {
            Spread::Ranges => (self.first.get(medium + 1)).map_or(u64::MAX, |next| next - line),
            _ => (1 << self.shift) - (line & ((1 << self.shift) - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(spread: Spread, count: u64, granularity: u64) -> InterleaveMap {
        InterleaveMap::new(
            spread,
            Bytes(granularity),
            &vec![Bytes(1 << 20); count as usize],
        )
    }

    #[test]
    fn granules_go_round_and_hashed_ones_stay_in_their_stripe() {
        let modulo = map(Spread::Modulo, 3, 128);
        let places: Vec<_> = (0..8).map(|line| modulo.place(line)).collect();
        let expected = [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
            (2, 0),
            (2, 1),
            (0, 2),
            (0, 3),
        ];
        assert_eq!(places, expected);
        let hashed = map(Spread::Xor, 4, 64);
        // A stride as long as the number of media reaches all of them.
        let stride: Vec<_> = (0..4).map(|step| hashed.place(step * 4).0).collect();
        assert_eq!(stride, [0, 1, 2, 3]);
    }

    #[test]
    fn ranges_follow_one_another() {
        let shares = [Bytes(128), Bytes(64), Bytes(256)];
        let ranges = InterleaveMap::new(Spread::Ranges, Bytes(64), &shares);
        let places: Vec<_> = (0..7).map(|line| ranges.place(line)).collect();
        assert_eq!(
            places,
            [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
        );
    }

    proptest! {
        #[test]
        fn no_two_lines_share_a_place(
            count in 1u64..17,
            shift in 0u32..4,
            spread in prop_oneof![Just(Spread::Modulo), Just(Spread::Xor), Just(Spread::Ranges)],
        ) {
            let count = if spread == Spread::Xor { count.next_power_of_two() } else { count };
            let share = 64 << shift << 3;
            let map = InterleaveMap::new(spread, Bytes(64 << shift), &vec![Bytes(share); count as usize]);
            let lines = count * share / LINE_BYTES;
            let mut places: Vec<_> = (0..lines).map(|line| map.place(line)).collect();
            places.sort_unstable();
            let each = share / LINE_BYTES;
            let all: Vec<_> = (0..count as usize).flat_map(|m| (0..each).map(move |l| (m, l))).collect();
            prop_assert_eq!(places, all);
        }

        #[test]
        fn pieces_cover_exactly_the_lines_of_a_request(
            count in 1u64..13,
            shift in 0u32..6,
            spread in prop_oneof![Just(Spread::Modulo), Just(Spread::Xor), Just(Spread::Ranges)],
            first in 0u64..4096,
            lines in 1u16..=1024,
        ) {
            let count = if spread == Spread::Xor { count.next_power_of_two() } else { count };
            let map = InterleaveMap::new(spread, Bytes(64 << shift), &vec![Bytes(1 << 16); count as usize]);
            let lines = lines.min(u16::try_from(count * 1024).unwrap_or(1024));
            let first = first.min(count * 1024 - u64::from(lines));
            let mut expected: Vec<_> =
                (first..first + u64::from(lines)).map(|line| map.place(line)).collect();
            let mut found = Vec::new();
            let mut media = Vec::new();
            map.split(Dpa(first * 64), lines, |piece| {
                media.push(piece.medium);
                let line = piece.dpa.0 / 64;
                found.extend((line..line + u64::from(piece.lines)).map(|line| (piece.medium, line)));
            });
            prop_assert_eq!(media[0], map.place(first).0);
            media.sort_unstable();
            media.dedup();
            expected.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, expected.clone());
            expected.dedup_by_key(|place| place.0);
            prop_assert_eq!(media.len(), expected.len());
        }
    }
}
