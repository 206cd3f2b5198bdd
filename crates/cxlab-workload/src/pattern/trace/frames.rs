//! The frames that the pages of a trace have in memory: numbers from 0, in the order of first touch.

use crate::page_map::PageMap;

/// Pages of a group, 256 KiB. Traces touch neighbours, so that few groups have to be looked up (*assumed*).
const GROUP: u64 = 64;

/// A page without a frame.
const NONE: u32 = u32::MAX;

/// A map from pages to frames.
#[derive(Default)]
pub(super) struct Frames {
    /// The place in `frames` of each group.
    groups: PageMap,
    frames: Vec<[u32; GROUP as usize]>,
    len: u32,
}

impl Frames {
    /// The most pages that have frames.
    pub const MOST: u64 = NONE as u64;

    /// Gives a page the next frame, if it has none yet; false where `most` have one already.
    #[inline]
    pub fn add(&mut self, page: u64, most: u64) -> bool {
        let next = self.frames.len() as u64;
        let group = *self.groups.entry(page / GROUP, next);
        if group == next {
            self.frames.push([NONE; GROUP as usize]);
        }
        let frame = &mut self.frames[group as usize][(page % GROUP) as usize];
        if *frame == NONE {
            if u64::from(self.len) == most {
                return false;
            }
            *frame = self.len;
            self.len += 1;
        }
        true
    }

    /// The frame of a page.
    #[inline]
    pub fn get(&self, page: u64) -> Option<u64> {
        let group = self.groups.get(page / GROUP)?;
        let frame = self.frames[group as usize][(page % GROUP) as usize];
        (frame != NONE).then_some(u64::from(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_map::spread;

    #[test]
    fn pages_have_frames_in_the_order_of_first_touch() {
        let mut frames = Frames::default();
        let mut order = Vec::new();
        for index in 0..20_000 {
            let page = spread(index % 5_000) >> 44;
            assert!(frames.add(page, Frames::MOST));
            if !order.contains(&page) {
                order.push(page);
            }
        }
        for (frame, page) in order.iter().enumerate() {
            assert_eq!(frames.get(*page), Some(frame as u64));
        }
        let mut absent = (0..1 << 20).filter(|page| !order.contains(page));
        assert!(absent.all(|page| frames.get(page).is_none()));
        assert_eq!(frames.get(1 << 51), None);
    }

    #[test]
    fn no_more_pages_have_frames_than_are_allowed() {
        let mut frames = Frames::default();
        for page in 0..3 {
            assert_eq!(frames.add(page, 2), page < 2);
        }
        assert!(frames.add(0, 2), "it has its frame");
    }
}
