//! The geometry of a tag array: number of lines, and which of them may hold which address.

use std::fmt;

use cxlab_engine::units::LineAddr;

use super::Slot;

/// Most lines in an array (*assumed*: 2^26 lines are 4 GiB of data and 2 GiB of tags).
const MAX_LINES: u64 = 1 << 26;

/// The sets and ways of a tag array. A line of data may be in any way of set `line mod sets`. An
/// array with one set is fully associative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    sets: u32,
    ways: u32,
    mask: Option<u32>,
    /// 2^64 divided by the ways, rounded up; 0 for one way.
    reciprocal: u64,
}

/// An invalid combination of lines and ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeometryError {
    lines: u64,
    ways: u64,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GeometryError { lines, ways } = self;
        write!(
            f,
            "found {lines} lines in sets of {ways}; allowed: 1 to {MAX_LINES} lines, a multiple of the lines of a set"
        )
    }
}

impl std::error::Error for GeometryError {}

impl Geometry {
    /// `lines` lines of 64 bytes in sets of `ways` ways.
    ///
    /// # Errors
    /// Zero lines or ways, more than 2^26 lines, or a number of lines that is no
    /// multiple of `ways`.
    pub fn set_associative(lines: u64, ways: u64) -> Result<Geometry, GeometryError> {
        if !(1..=MAX_LINES).contains(&lines) || ways == 0 || !lines.is_multiple_of(ways) {
            return Err(GeometryError { lines, ways });
        }
        let sets = (lines / ways) as u32;
        Ok(Geometry {
            sets,
            ways: ways as u32,
            mask: sets.is_power_of_two().then_some(sets - 1),
            reciprocal: (u64::MAX / ways).wrapping_add(1),
        })
    }

    /// `lines` lines of 64 bytes in one set, so that each may hold any address.
    ///
    /// # Errors
    /// Zero lines, or more than 2^26.
    pub fn fully_associative(lines: u64) -> Result<Geometry, GeometryError> {
        Geometry::set_associative(lines, lines)
    }

    /// Number of sets.
    pub fn sets(self) -> u32 {
        self.sets
    }

    /// Number of ways, that is lines in a set.
    pub fn ways(self) -> u32 {
        self.ways
    }

    /// Number of lines in all sets.
    pub fn lines(self) -> u32 {
        self.sets * self.ways
    }

    /// The set of a slot: division by multiplication, exact for numbers of 32 bits (Lemire, Kaser
    /// and Kurz 2019).
    #[inline]
    pub(super) fn set_of_slot(self, slot: Slot) -> u32 {
        if self.reciprocal == 0 {
            return slot.0;
        }
        ((u128::from(self.reciprocal) * u128::from(slot.0)) >> 64) as u32
    }

    /// The set that may hold a line of data.
    #[inline]
    pub fn set_of(self, line: LineAddr) -> u32 {
        match self.mask {
            Some(mask) => line.0 as u32 & mask,
            None => (line.0 % u64::from(self.sets)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_a_slot_is_the_quotient() {
        for ways in [1, 2, 3, 7, 16, 20, 1000, 65_535, 1 << 20] {
            let lines = ways * (MAX_LINES / ways);
            let geometry = Geometry::set_associative(lines, ways).unwrap();
            let near = (0..lines).step_by(ways as usize * 37);
            let slots = near.flat_map(|first| [first, first + ways - 1]);
            for slot in slots.filter(|slot| *slot < lines) {
                let set = geometry.set_of_slot(Slot(slot as u32));
                assert_eq!(u64::from(set), slot / ways, "{slot} / {ways}");
            }
        }
    }
}
