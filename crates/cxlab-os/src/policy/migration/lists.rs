//! Active and inactive pages of each node, most recent first, as in Linux's LRU lists.
//!
//! The lists are linked through one array, so that moving a page between them takes constant time.

use std::collections::BTreeMap;
use std::ops::Bound;

use cxlab_engine::list::{Link, Linked, List, NONE};
use cxlab_engine::save_state;
use cxlab_engine::slab::Slab;
use cxlab_engine::units::SimTime;
use serde::{Deserialize, Serialize};

use crate::address::Page;
use crate::frames::NodeId;

/// The list that a page is in.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum PageList {
    Active,
    Inactive,
    /// The page is in no list, because a move of it is wanted.
    Isolated,
}

/// State of a page.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(super) struct PageInfo {
    pub(super) page: Page,
    pub(super) node: NodeId,
    pub(super) list: PageList,
    /// Whether the page was used since the bit was last cleared.
    pub(super) referenced: bool,
    /// Whether the next access to the page faults.
    pub(super) sampled: bool,
    /// Time of the page's last hint fault.
    pub(super) hint: Option<SimTime>,
    link: Link,
}

impl Linked for PageInfo {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// All pages with frames.
pub(super) struct PageLists {
    infos: Slab<PageInfo>,
    by_page: BTreeMap<Page, u32>,
    /// Ends of the active and the inactive list, by node.
    ends: Vec<[List; 2]>,
}

save_state!(PageLists {
    values: infos, by_page;
    sized: ends;
});

impl PageLists {
    pub(super) fn new(nodes: usize) -> PageLists {
        PageLists {
            infos: Slab::default(),
            by_page: BTreeMap::new(),
            ends: vec![[List::EMPTY; 2]; nodes],
        }
    }

    pub(super) fn find(&self, page: Page) -> Option<u32> {
        self.by_page.get(&page).copied()
    }

    pub(super) fn info(&self, at: u32) -> &PageInfo {
        &self.infos[at]
    }

    pub(super) fn info_mut(&mut self, at: u32) -> &mut PageInfo {
        &mut self.infos[at]
    }

    /// Adds a page to the inactive list (Linux since 5.9).
    pub(super) fn insert(&mut self, page: Page, node: NodeId) {
        let at = self.infos.insert(PageInfo {
            page,
            node,
            list: PageList::Isolated,
            referenced: false,
            sampled: false,
            hint: None,
            link: Link::NONE,
        });
        self.by_page.insert(page, at);
        self.put(at, node, PageList::Inactive);
    }

    pub(super) fn remove(&mut self, page: Page) {
        if let Some(at) = self.by_page.remove(&page) {
            self.isolate(at);
            self.infos.release(at);
        }
    }

    /// The list, and the pages that it links; `None` for isolated pages.
    fn ends(&mut self, node: NodeId, list: PageList) -> Option<(&mut List, &mut [PageInfo])> {
        let [active, inactive] = self.ends.get_mut(node.index())?;
        let ends = match list {
            PageList::Active => active,
            PageList::Inactive => inactive,
            PageList::Isolated => return None,
        };
        Some((ends, self.infos.entries_mut()))
    }

    /// Removes a page from its list.
    pub(super) fn isolate(&mut self, at: u32) {
        let PageInfo { node, list, .. } = *self.info(at);
        if let Some((ends, infos)) = self.ends(node, list) {
            ends.remove(infos, at);
        }
        let info = self.info_mut(at);
        (info.list, info.link) = (PageList::Isolated, Link::NONE);
    }

    /// Moves a page to the head of a list.
    pub(super) fn put(&mut self, at: u32, node: NodeId, list: PageList) {
        self.isolate(at);
        if let Some((ends, infos)) = self.ends(node, list) {
            ends.push_front(infos, at);
            let info = self.info_mut(at);
            (info.node, info.list) = (node, list);
        }
    }

    /// The page at the end of a list, which was added longest ago.
    pub(super) fn last(&mut self, node: NodeId, list: PageList) -> Option<u32> {
        let last = self.ends(node, list)?.0.last;
        (last != NONE).then_some(last)
    }

    pub(super) fn len(&mut self, node: NodeId, list: PageList) -> u64 {
        self.ends(node, list).map_or(0, |(ends, _)| ends.len.into())
    }

    /// The next page after `behind`, in ascending order of process and address. After the last
    /// page comes the first.
    pub(super) fn next_page(&self, behind: Option<Page>) -> Option<(Page, u32)> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut later = self.by_page.range((from, Bound::Unbounded));
        let next = later.next().or_else(|| self.by_page.iter().next());
        next.map(|(page, at)| (*page, *at))
    }

    /// Number of pages.
    pub(super) fn count(&self) -> usize {
        self.by_page.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::{PageSize, Pasid, VirtAddr};

    fn page(number: u64) -> Page {
        Page::around(Pasid(0), VirtAddr(number << 12), PageSize::Small)
    }

    proptest! {
        /// Compares the linked lists with plain vectors.
        #[test]
        fn linked_lists_are_lists(
            steps in prop::collection::vec((0u64..20, 0u16..2, 0u8..4), 1..200),
        ) {
            let mut lists = PageLists::new(2);
            let mut plain: Vec<[Vec<u64>; 2]> = vec![Default::default(); 2];
            for (number, node, step) in steps {
                let known = lists.find(page(number));
                let forget = |plain: &mut Vec<[Vec<u64>; 2]>| {
                    plain.iter_mut().flatten().for_each(|list| list.retain(|other| *other != number));
                };
                match (known, step) {
                    (None, _) => {
                        lists.insert(page(number), NodeId(node));
                        plain[usize::from(node)][1].insert(0, number);
                    }
                    (Some(_), 0) => {
                        lists.remove(page(number));
                        forget(&mut plain);
                    }
                    (Some(at), 1) => {
                        lists.isolate(at);
                        forget(&mut plain);
                    }
                    (Some(at), step) => {
                        let list = if step == 2 { PageList::Active } else { PageList::Inactive };
                        lists.put(at, NodeId(node), list);
                        forget(&mut plain);
                        plain[usize::from(node)][usize::from(step == 3)].insert(0, number);
                    }
                }
                for node in 0..2u16 {
                    for (list, plain) in [PageList::Active, PageList::Inactive].into_iter().zip(&plain[usize::from(node)]) {
                        let last = lists.last(NodeId(node), list);
                        let last = last.map(|at| lists.info(at).page);
                        prop_assert_eq!(last, plain.last().map(|number| page(*number)));
                        prop_assert_eq!(lists.len(NodeId(node), list), plain.len() as u64);
                    }
                }
            }
        }
    }
}
