//! Promotion of hot pages and demotion of cold pages, as in TPP (Maruf and others, "TPP:
//! Transparent Page Placement for CXL-Enabled Tiered-Memory", ASPLOS 2023, sections 5.1 to 5.3).
//!
//! - Sampling: only pages of slow nodes are sampled. In each period, the next accesses to a number
//!   of bytes, in rotation, are made to fault (NUMA hint faults).
//! - Promotion: a hint fault on an inactive page makes the page active; one on an active
//!   page promotes the page to the node of the access. Promotion may use memory that
//!   allocation must leave free (down to the minimum watermark), so that it does not stall
//!   when the fast node is full.
//! - Demotion: while a fast node has less free memory than the demotion watermark, which is above
//!   those of allocation, cold pages at the end of its inactive list are moved to the nearest slow
//!   node with space. A page that was used since is made active instead.
//!
//! Left out: page types (file pages are demoted first in TPP), the rate limit of promotion of later
//! kernels, and swap of pages for which no slow node has space: they stay.

use std::collections::VecDeque;

use cxlab_engine::catalog::{Entry, ParamError, in_range, read_params};
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, Picos, SimTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lists::{PageList, PageLists};
use super::{Migration, MigrationPolicy, MigrationStats, PageMove};
use crate::address::Page;
use crate::frames::{FrameAllocator, NodeId, NodeKind, NodeSet};

pub(super) const ENTRY: Entry<Box<dyn MigrationPolicy>> = Entry {
    name: "tpp",
    summary: "pages of slow nodes go up at their second sampled access, cold pages of full fast nodes go down",
    schema: <Tpp as JsonSchema>::json_schema,
    build: |params| {
        let params: Tpp = read_params(params)?;
        params.check_numbers()?;
        Ok(Box::new(params))
    },
};

/// Parameters of TPP. Times and sizes of scans are those of Linux's NUMA balancing, made for runs
/// of minutes; shorter runs need smaller values.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, default)]
struct Tpp {
    /// Slow nodes, by number. Default: those without processor or accelerator.
    slow: Option<Vec<u16>>,
    /// Time from one scan to the next. More than 0.
    /// Default 1 s (`numa_balancing_scan_period_min_ms`).
    scan_period: Picos,
    /// Bytes of pages that a scan samples. Default 256 MiB (`numa_balancing_scan_size_mb`).
    scan_size: Bytes,
    /// Maximum time between the two hint faults that promote a page; a later fault counts as a
    /// first one. Default 2 s (*assumed*: two scans; TPP leaves it to the aging of the lists).
    window: Picos,
    /// Free memory below which a fast node demotes, in ten-thousandths of its capacity; at least
    /// the high watermark. 0 to 10000. Default 200 (TPP, section 5.2: 2 %).
    #[schemars(range(min = 0, max = 10_000))]
    demote_scale: u32,
}

impl Default for Tpp {
    fn default() -> Self {
        Tpp {
            slow: None,
            scan_period: Picos::from_nanos(1_000_000_000),
            scan_size: Bytes(256 << 20),
            window: Picos::from_nanos(2_000_000_000),
            demote_scale: 200,
        }
    }
}

impl Tpp {
    fn check_numbers(&self) -> Result<(), ParamError> {
        if self.scan_period == Picos::ZERO {
            return Err(ParamError::new("scan_period", "must be more than 0 ps"));
        }
        in_range("demote_scale", self.demote_scale, 0..=10_000)
    }

    fn slow_nodes(&self, frames: &FrameAllocator) -> NodeSet {
        match &self.slow {
            Some(slow) => slow.iter().map(|node| NodeId(*node)).collect(),
            None => {
                let memory = |node: &NodeId| {
                    frames
                        .spec(*node)
                        .is_some_and(|spec| spec.kind == NodeKind::Memory)
                };
                frames.nodes().iter().filter(memory).collect()
            }
        }
    }
}

impl MigrationPolicy for Tpp {
    fn check(&self, frames: &FrameAllocator) -> Result<(), ParamError> {
        let nodes = frames.nodes();
        let unknown = |node: &&u16| !nodes.contains(NodeId(**node));
        match self.slow.iter().flatten().find(unknown) {
            Some(node) => {
                let text = format!("node {node} is none of 0 to {}", nodes.len() - 1);
                Err(ParamError::new("slow", text))
            }
            None => Ok(()),
        }
    }

    fn state(&self, frames: &FrameAllocator) -> Box<dyn Migration> {
        let demote_below = |node: NodeId| {
            let capacity = frames.spec(node).map_or(0, |spec| spec.capacity.0);
            let scaled = u128::from(capacity) * u128::from(self.demote_scale) / 10_000;
            frames.watermarks(node).high.max(scaled as u64)
        };
        let slow = self.slow_nodes(frames);
        let nodes = frames.nodes();
        Box::new(TppState {
            params: self.clone(),
            slow,
            demote_below: nodes.iter().map(demote_below).collect(),
            lists: PageLists::new(nodes.len() as usize),
            cursor: None,
            next_scan: SimTime::ZERO + self.scan_period,
            promotions: VecDeque::new(),
            leaving: vec![0; nodes.len() as usize],
            stats: MigrationStats::default(),
        })
    }
}

/// Number of pages of a node that one call examines (Linux: `SWAP_CLUSTER_MAX`).
const CLUSTER: usize = 32;

struct TppState {
    params: Tpp,
    slow: NodeSet,
    /// Bytes of free memory below which each node demotes.
    demote_below: Vec<u64>,
    lists: PageLists,
    /// The last page that a scan examined.
    cursor: Option<Page>,
    next_scan: SimTime,
    promotions: VecDeque<(Page, NodeId)>,
    /// Bytes of each node whose demotion is in progress.
    leaving: Vec<u64>,
    stats: MigrationStats,
}

save_state!(TppState {
    values: cursor, next_scan, promotions, leaving, stats;
    states: lists;
    built: params, slow, demote_below;
});

impl TppState {
    fn promotion(&mut self, frames: &FrameAllocator) -> Option<PageMove> {
        while let Some((page, to)) = self.promotions.pop_front() {
            // The page may have been unmapped meanwhile, or be moving already.
            let Some(at) = self.lists.find(page) else {
                continue;
            };
            let info = self.lists.info(at);
            let from = info.node;
            if info.list != PageList::Active || from == to {
                continue;
            }
            self.lists.isolate(at);
            let keep = frames.watermarks(to).min;
            return Some(PageMove {
                page,
                from,
                to,
                keep,
                promotion: true,
            });
        }
        None
    }

    fn demotion(&mut self, from: NodeId, frames: &FrameAllocator) -> Option<PageMove> {
        let free = frames.free_bytes(from) + self.leaving[from.index()];
        if self.slow.contains(from) || free >= self.demote_below[from.index()] {
            return None;
        }
        for _ in 0..CLUSTER {
            self.balance(from);
            let at = self.lists.last(from, PageList::Inactive)?;
            let info = self.lists.info_mut(at);
            if std::mem::take(&mut info.referenced) {
                self.lists.put(at, from, PageList::Active);
                continue;
            }
            let page = info.page;
            let room = |to: &&NodeId| {
                self.slow.contains(**to)
                    && frames.free_bytes(**to) >= frames.watermarks(**to).low + page.size.bytes()
            };
            let to = *frames.zonelist(from).iter().find(room)?;
            self.lists.isolate(at);
            self.leaving[from.index()] += page.size.bytes();
            let keep = frames.watermarks(to).low;
            return Some(PageMove {
                page,
                from,
                to,
                keep,
                promotion: false,
            });
        }
        None
    }

    /// Makes the oldest active page inactive if the inactive list is shorter than the active one
    /// (Linux: `inactive_is_low` with a ratio of 1; its ratio grows with memory).
    fn balance(&mut self, node: NodeId) {
        if self.lists.len(node, PageList::Inactive) < self.lists.len(node, PageList::Active)
            && let Some(at) = self.lists.last(node, PageList::Active)
        {
            self.lists.info_mut(at).referenced = false;
            self.lists.put(at, node, PageList::Inactive);
        }
    }
}

impl Migration for TppState {
    fn placed(&mut self, page: Page, node: NodeId) {
        self.lists.insert(page, node);
    }

    fn released(&mut self, page: Page) {
        self.lists.remove(page);
    }

    fn accessed(&mut self, page: Page) {
        let Some(at) = self.lists.find(page) else {
            return;
        };
        let info = self.lists.info_mut(at);
        // Linux's mark_page_accessed: a second reference activates the page.
        if std::mem::replace(&mut info.referenced, true) && info.list == PageList::Inactive {
            info.referenced = false;
            let node = info.node;
            self.lists.put(at, node, PageList::Active);
        }
    }

    fn next_scan(&self) -> SimTime {
        self.next_scan
    }

    fn scan(&mut self, now: SimTime) -> Vec<Page> {
        self.next_scan = now + self.params.scan_period;
        let mut sampled = Vec::new();
        let mut left = self.params.scan_size.0;
        for _ in 0..self.lists.count() {
            let Some((page, at)) = self.lists.next_page(self.cursor) else {
                break;
            };
            let info = self.lists.info_mut(at);
            let wanted = self.slow.contains(info.node) && info.list != PageList::Isolated;
            if wanted && !info.sampled {
                if page.size.bytes() > left {
                    break;
                }
                left -= page.size.bytes();
                info.sampled = true;
                sampled.push(page);
            }
            self.cursor = Some(page);
        }
        self.stats.sampled += sampled.len() as u64;
        sampled
    }

    fn hint_fault(&mut self, now: SimTime, page: Page, by: NodeId) {
        let Some(at) = self.lists.find(page) else {
            return;
        };
        let window = self.params.window;
        let info = self.lists.info_mut(at);
        if !std::mem::take(&mut info.sampled) {
            return;
        }
        self.stats.hint_faults += 1;
        let last = info.hint.replace(now);
        let recent = last.is_some_and(|last| now.since(last) <= window);
        let (list, node) = (info.list, info.node);
        match list {
            PageList::Isolated => {}
            PageList::Active if recent && !self.slow.contains(by) => {
                info.hint = None;
                self.promotions.push_back((page, by));
            }
            PageList::Active | PageList::Inactive => self.lists.put(at, node, PageList::Active),
        }
    }

    fn wanted(&mut self, frames: &FrameAllocator) -> Option<PageMove> {
        if let Some(promotion) = self.promotion(frames) {
            return Some(promotion);
        }
        frames
            .nodes()
            .iter()
            .find_map(|node| self.demotion(node, frames))
    }

    fn ended(&mut self, moved: PageMove, done: bool) {
        if !moved.promotion {
            self.leaving[moved.from.index()] -= moved.page.size.bytes();
        }
        match (done, moved.promotion) {
            (false, _) => self.stats.refused += 1,
            (true, true) => self.stats.promoted += 1,
            (true, false) => self.stats.demoted += 1,
        }
        let Some(at) = self.lists.find(moved.page) else {
            return;
        };
        let node = if done { moved.to } else { moved.from };
        let active = moved.promotion == done;
        let list = if active {
            PageList::Active
        } else {
            PageList::Inactive
        };
        self.lists.put(at, node, list);
    }

    fn stats(&self) -> MigrationStats {
        self.stats
    }
}
