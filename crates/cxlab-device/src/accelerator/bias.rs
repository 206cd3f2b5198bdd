//! The bias table of a Type 2 device: pages of its memory of which the host may hold lines.
//!
//! An entry covers a page. A host access to one line of a page in device bias puts the whole page
//! into host bias, because the device tracks only pages. The next access of the device then recalls
//! every line of the page from the host, with one request for each line as CQIDs are free. An
//! access continues when its own line has been recalled, which is ordered with the host's reads of
//! that line. The page is in device bias when all lines have been recalled. If the host has taken a
//! line again meanwhile, the page stays in host bias, and the next access starts over. The device
//! never makes a read of the host wait for a flip: requests of the device may wait for those of the
//! host (CXL 3.1, section 3.3.3), so that would be a deadlock.
//!
//! Software may flip a page explicitly, by a register, after it has flushed the host's caches of the page.
//!
//! With pages of one line, a flip involves no other line, and a line that the host writes back and
//! drops is in device bias at once.

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_agent::{Event, Line, LineState, step};
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::hmc::NONE;

/// Lines in a region of the table (*assumed*). A region is allocated when one of its lines is accessed.
const REGION: u64 = 4096;

/// Maximum number of device accesses that allocate a CQID while one line of a page that flips to
/// device bias waits for a CQID.
pub const MOST_PASSED_FLIPS: u32 = 1;

/// A page that is flipping to device bias.
#[derive(Serialize, Deserialize)]
struct BiasFlip {
    page: u64,
    /// First line of the page, as a host physical address.
    line: LineAddr,
    /// Lines that have not been requested from the host yet, one bit each.
    left: u64,
    /// Requests in flight.
    open: u32,
    since: u64,
}

/// Counters since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct BiasStats {
    /// Pages that flipped to device bias.
    pub(super) flips: u64,
    /// Flips after which the host held a line again.
    pub(super) lost: u64,
    /// Lines that were requested from the host.
    pub(super) lines: u64,
    /// Pages that changed to host bias.
    pub(super) host: u64,
    /// Pages that software flipped, either way, and flips of software that were refused.
    pub(super) software: u64,
    pub(super) refused: u64,
    /// Total time of flips to device bias, including lost ones, in picoseconds.
    pub(super) flip_ps: u64,
}

/// The bias table and the flips in progress.
pub(super) struct BiasTable {
    /// Lines that the host may hold, as far as the device knows. Outside a flip, either all or none of a page.
    held: Vec<Option<Box<[u64]>>>,
    /// Lines in a page: 1 to 64, a power of two.
    page_lines: u64,
    /// Flips in progress, in the order of their start.
    flips: Vec<BiasFlip>,
    /// Accesses that have allocated a CQID since a flip last did, or since no flip needed one.
    passed: u32,
    /// Maximum of `passed`.
    pub(super) most_passed: u32,
    pub(super) stats: BiasStats,
}

save_state!(BiasTable {
    values: flips, passed, most_passed, stats;
    sized: held;
    built: page_lines;
});

impl BiasTable {
    pub(super) fn new(lines: u64, page: Bytes) -> BiasTable {
        BiasTable {
            held: (0..lines.div_ceil(REGION)).map(|_| None).collect(),
            page_lines: (page.0 / LINE_BYTES).clamp(1, 64),
            flips: Vec::new(),
            passed: 0,
            most_passed: 0,
            stats: BiasStats::default(),
        }
    }

    /// Index of a line's word, the bits of its page in the word, and the line's own bit.
    fn bits_of(&self, number: u64) -> (u64, u64, u64) {
        let first = number % 64 / self.page_lines * self.page_lines;
        let page = (u64::MAX >> (64 - self.page_lines)) << first;
        (number / 64, page, 1 << (number % 64))
    }

    fn word(&self, word: u64) -> u64 {
        let region = self.held[(word * 64 / REGION) as usize].as_ref();
        region.map_or(0, |bits| bits[(word % (REGION / 64)) as usize])
    }

    fn set(&mut self, word: u64, bits: u64, on: bool) {
        let region = &mut self.held[(word * 64 / REGION) as usize];
        if !on && region.is_none() {
            return;
        }
        let region = region.get_or_insert_with(|| vec![0; (REGION / 64) as usize].into());
        let word = &mut region[(word % (REGION / 64)) as usize];
        *word = *word & !bits | if on { bits } else { 0 };
    }

    /// Whether the host may hold a line, as far as the device knows.
    pub(super) fn is_host(&self, number: u64) -> bool {
        let (word, _, line) = self.bits_of(number);
        self.word(word) & line != 0
    }

    /// Records that the host may hold a line from now on.
    pub(super) fn host_takes(&mut self, number: u64) {
        let (word, page, line) = self.bits_of(number);
        let flipping = self.flip_of(number).is_some();
        if self.word(word) & page == 0 && !flipping {
            self.stats.host += 1;
        }
        self.set(word, if flipping { line } else { page }, true);
    }

    /// Records that the host has written back and dropped a line. A page of several lines stays in host bias.
    pub(super) fn host_drops(&mut self, number: u64) {
        if self.page_lines == 1 {
            let (word, _, line) = self.bits_of(number);
            self.set(word, line, false);
        }
    }

    /// Flips the page of a line for software: the host has no line of the page, or may have all from now on.
    pub(super) fn flip_by_software(&mut self, number: u64, to_host: bool) {
        if self.flip_of(number).is_some() {
            self.stats.refused += 1;
            return;
        }
        let (word, page, _) = self.bits_of(number);
        self.set(word, page, to_host);
        self.stats.software += 1;
    }

    fn flip_of(&self, number: u64) -> Option<usize> {
        let page = number / self.page_lines;
        self.flips.iter().position(|flip| flip.page == page)
    }

    /// Records that a line has been requested from the host: the flip of its page begins or continues.
    pub(super) fn requested(&mut self, number: u64, line: LineAddr, now: u64) {
        let (word, page, bit) = self.bits_of(number);
        let held = self.word(word) & page;
        let index = self.flip_of(number).unwrap_or_else(|| {
            self.flips.push(BiasFlip {
                page: number / self.page_lines,
                line: LineAddr(line.0 - number % self.page_lines),
                left: held,
                open: 0,
                since: now,
            });
            self.flips.len() - 1
        });
        let flip = &mut self.flips[index];
        flip.left &= !bit;
        flip.open += 1;
        self.stats.lines += 1;
        self.passed = 0;
    }

    /// Counts an access that allocates a CQID.
    pub(super) fn pass(&mut self) {
        if self.flips.iter().any(|flip| flip.left != 0) {
            self.passed += 1;
            self.most_passed = self.most_passed.max(self.passed);
        }
    }

    /// Whether the next CQID belongs to a flip.
    pub(super) fn has_turn(&self) -> bool {
        self.passed > 0
    }

    /// Records that the host has given up a line.
    pub(super) fn left(&mut self, number: u64) {
        let (word, _, line) = self.bits_of(number);
        self.set(word, line, false);
    }

    /// Records that the accesses which waited for a recalled line have continued. The flip of the
    /// page is complete when no request and no line is left.
    pub(super) fn settled(&mut self, number: u64, now: u64) {
        let (word, page, _) = self.bits_of(number);
        let Some(index) = self.flip_of(number) else {
            return;
        };
        let flip = &mut self.flips[index];
        flip.open -= 1;
        if flip.open > 0 || flip.left != 0 {
            return;
        }
        self.stats.flip_ps += now - flip.since;
        self.flips.remove(index);
        if self.word(word) & page == 0 {
            self.stats.flips += 1;
        } else {
            self.stats.lost += 1;
            self.set(word, page, true);
        }
    }

    /// The next line that a flip has to request.
    fn next(&self, flip: usize) -> Option<LineAddr> {
        let flip = self.flips.get(flip)?;
        let bit = u64::from(flip.left.trailing_zeros());
        (flip.left != 0).then_some(LineAddr(flip.line.0 + bit % self.page_lines))
    }
}

impl Accelerator {
    /// Requests further lines of the pages that flip to device bias: while half of the CQIDs are
    /// free for other purposes, and one line after each access that allocates a CQID.
    pub(super) fn go_on_flipping(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let mut flip = 0;
        while let Some(attached_memory) = &mut self.attached_memory
            && flip < attached_memory.bias.flips.len()
        {
            let Some(line) = attached_memory.bias.next(flip) else {
                flip += 1;
                continue;
            };
            let turn = attached_memory.bias.has_turn();
            if !turn
                && self.transactions.free.len() <= self.transactions.entries.len() / 2
                && !self.is_idle()
            {
                return;
            }
            if !self.request_line(ctx, line, turn) {
                return;
            }
        }
        // All lines have been requested.
        if let Some(attached_memory) = &mut self.attached_memory {
            attached_memory.bias.passed = 0;
        }
    }

    /// Requests lines for flips if the next CQID belongs to a flip.
    pub(super) fn flip_in_turn(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self
            .attached_memory
            .as_ref()
            .is_some_and(|attached_memory| attached_memory.bias.has_turn())
        {
            self.go_on_flipping(ctx);
        }
    }

    /// Whether no transaction is in flight that would free a CQID.
    fn is_idle(&self) -> bool {
        self.transactions.free.len() == self.transactions.entries.len()
    }

    /// Requests a line that no access waits for from the host. False without a free CQID, or if
    /// accesses wait for a CQID and the next one does not belong to a flip.
    fn request_line(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, turn: bool) -> bool {
        debug_assert_eq!(self.leaving(line), NONE, "a line is asked for once");
        let Some((next, actions)) = step(LineState::stable(Line::I), Event::Flush) else {
            return false;
        };
        let before = self.queues.serving;
        self.queues.serving |= turn;
        let id = self.make_room(ctx, line, None, next.line);
        self.queues.serving = before;
        let Some(id) = id else {
            return false;
        };
        self.transactions.entries[id as usize].state = next;
        self.transactions.entries[id as usize].flip = true;
        self.flip_asks(ctx, line);
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
        true
    }

    /// Records that the accesses which waited for a line of the attached memory have continued.
    pub(super) fn flip_settles(&mut self, ctx: &Ctx<'_, Parcel>, line: LineAddr) {
        if let Some(attached_memory) = &mut self.attached_memory {
            let number = attached_memory.number(line);
            attached_memory.bias.settled(number, ctx.now().0);
        }
    }

    /// Records that a line of the attached memory has been requested from the host.
    pub(super) fn flip_asks(&mut self, ctx: &Ctx<'_, Parcel>, line: LineAddr) {
        if let Some(attached_memory) = &mut self.attached_memory {
            let number = attached_memory.number(line);
            attached_memory.bias.requested(number, line, ctx.now().0);
        }
    }
}
