//! Frame numbers of a trace's pages in memory: from 0, in the order of first access.

use crate::page_map::PageMap;

/// Pages of a group, which is 256 KiB. Traces access neighbouring pages, so that few groups have to
/// be looked up (*assumed*).
const GROUP: u64 = 64;

/// Marks a page without a frame.
const NONE: u32 = u32::MAX;

/// A map from page numbers to frame numbers.
#[derive(Default)]
pub(super) struct Frames {
    /// The index into `frames` of each group of pages.
    groups: PageMap,
    frames: Vec<[u32; GROUP as usize]>,
    len: u32,
}

impl Frames {
    /// The largest number of pages that can have frames.
    pub const MOST: u64 = NONE as u64;

    /// Assigns the next frame to a page that has none; returns false if `most`
    /// pages have frames already.
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

    /// The frame of a page; `None` if it has none.
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
