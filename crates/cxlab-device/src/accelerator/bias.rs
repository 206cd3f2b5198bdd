//! The bias table of a Type 2 device: pages of its memory that the host may hold lines of.
//!
//! An entry covers a page. A host that touches a line of a page in device bias brings host bias to
//! all of it: the device knows no more of the page than that. The first access of the device then
//! asks the host to leave every line of the page, one request each as CQIDs are free. An access
//! goes on when its own line has been left, which is in order with the host's reads of that line;
//! the page is in device bias when all lines have been left. If the host has come back to one
//! meanwhile, the page stays in host bias, and the next access begins again. The device never makes
//! a read of the host wait for a flip: requests of the device may wait for those of the host (CXL
//! 3.1, section 3.3.3), so that would be a deadlock.
//!
//! Software may flip a page by itself, by a register, when it has flushed the host's caches of the page.
//!
//! With pages of one line there is no flip of others, and what the host writes back and drops is in
//! device bias at once.

use cxlab_engine::Ctx;
use cxlab_engine::save_state;
use cxlab_engine::units::{Bytes, LINE_BYTES, LineAddr};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::cache_agent::{Event, Line, LineState, step};
use serde::{Deserialize, Serialize};

use super::Accelerator;
use super::hmc::NONE;

/// Lines of a region of the table, which is made when a line of it is touched.
const REGION: u64 = 4096;

/// The most accesses of the device that take a CQID before one line of a page that flips to device
/// bias, while it waits for one.
pub const MOST_PASSED_FLIPS: u32 = 1;

/// A page that is on its way to device bias.
#[derive(Serialize, Deserialize)]
struct Flip {
    page: u64,
    /// A line of it, which names the page's place among host physical addresses.
    line: LineAddr,
    /// Lines that the host has yet to be asked for: a bit each.
    left: u64,
    /// Requests under way.
    open: u32,
    since: u64,
}

/// Counts since measurement began.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct BiasStats {
    /// Pages that went to device bias.
    pub(super) flips: u64,
    /// Flips after which the host held a line again.
    pub(super) lost: u64,
    /// Lines that the host was asked to leave.
    pub(super) lines: u64,
    /// Pages that went to host bias.
    pub(super) host: u64,
    /// Pages that software flipped, either way, and flips of software that were refused.
    pub(super) software: u64,
    pub(super) refused: u64,
    /// Time of the flips to device bias, lost ones too.
    pub(super) flip_ps: u64,
}

/// The table.
pub(super) struct BiasTable {
    /// Lines that the host may hold, as far as the device knows. Without a flip a page has all or
    /// none.
    held: Vec<Option<Box<[u64]>>>,
    /// Lines of a page: 1 to 64, a power of two.
    page_lines: u64,
    /// In the order in which they began.
    flips: Vec<Flip>,
    /// Accesses that have taken a CQID since a flip last took one, or since there was none to take.
    passed: u32,
    /// The most of them.
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

    /// The word of a line's page, the bits of the page in it, and the line's own.
    fn place(&self, number: u64) -> (u64, u64, u64) {
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
        let found = &mut region[(word % (REGION / 64)) as usize];
        *found = *found & !bits | if on { bits } else { 0 };
    }

    /// Whether the host may hold a line, as far as the device knows.
    pub(super) fn is_host(&self, number: u64) -> bool {
        let (word, _, line) = self.place(number);
        self.word(word) & line != 0
    }

    /// The host takes a line, and may hold it from now on.
    pub(super) fn host_takes(&mut self, number: u64) {
        let (word, page, line) = self.place(number);
        let flipping = self.flip_of(number).is_some();
        if self.word(word) & page == 0 && !flipping {
            self.stats.host += 1;
        }
        self.set(word, if flipping { line } else { page }, true);
    }

    /// The host has written a line and holds it no more. A page of several lines stays as it is.
    pub(super) fn host_drops(&mut self, number: u64) {
        if self.page_lines == 1 {
            let (word, _, line) = self.place(number);
            self.set(word, line, false);
        }
    }

    /// Software flips the page of a line: the host has no line of it, or may have all from now on.
    pub(super) fn flip_by_software(&mut self, number: u64, to_host: bool) {
        if self.flip_of(number).is_some() {
            self.stats.refused += 1;
            return;
        }
        let (word, page, _) = self.place(number);
        self.set(word, page, to_host);
        self.stats.software += 1;
    }

    fn flip_of(&self, number: u64) -> Option<usize> {
        let page = number / self.page_lines;
        self.flips.iter().position(|flip| flip.page == page)
    }

    /// A request for a line is on its way: the flip of its page begins, or goes on.
    pub(super) fn asked(&mut self, number: u64, line: LineAddr, now: u64) {
        let (word, page, bit) = self.place(number);
        let held = self.word(word) & page;
        let at = self.flip_of(number).unwrap_or_else(|| {
            self.flips.push(Flip {
                page: number / self.page_lines,
                line: LineAddr(line.0 - number % self.page_lines),
                left: held,
                open: 0,
                since: now,
            });
            self.flips.len() - 1
        });
        let flip = &mut self.flips[at];
        flip.left &= !bit;
        flip.open += 1;
        self.stats.lines += 1;
        self.passed = 0;
    }

    /// An access takes a CQID.
    pub(super) fn pass(&mut self) {
        if self.flips.iter().any(|flip| flip.left != 0) {
            self.passed += 1;
            self.most_passed = self.most_passed.max(self.passed);
        }
    }

    /// Whether the next CQID is a flip's.
    pub(super) fn has_turn(&self) -> bool {
        self.passed > 0
    }

    /// The host has left a line.
    pub(super) fn left(&mut self, number: u64) {
        let (word, _, line) = self.place(number);
        self.set(word, line, false);
    }

    /// What waited for a line that the host has left has gone on. A flip whose last line that was is
    /// over.
    pub(super) fn settled(&mut self, number: u64, now: u64) {
        let (word, page, _) = self.place(number);
        let Some(at) = self.flip_of(number) else {
            return;
        };
        let flip = &mut self.flips[at];
        flip.open -= 1;
        if flip.open > 0 || flip.left != 0 {
            return;
        }
        self.stats.flip_ps += now - flip.since;
        self.flips.remove(at);
        if self.word(word) & page == 0 {
            self.stats.flips += 1;
        } else {
            self.stats.lost += 1;
            self.set(word, page, true);
        }
    }

    /// The next line that a flip has to ask for.
    fn next(&self, flip: usize) -> Option<LineAddr> {
        let flip = self.flips.get(flip)?;
        let bit = u64::from(flip.left.trailing_zeros());
        (flip.left != 0).then_some(LineAddr(flip.line.0 + bit % self.page_lines))
    }
}

impl Accelerator {
    /// Asks the host for further lines of the pages that are on their way to device bias: as long as
    /// half of the CQIDs are free for others, and for one line behind each access that takes a CQID.
    pub(super) fn go_on_flipping(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        let mut flip = 0;
        while let Some(own) = &mut self.own
            && flip < own.bias.flips.len()
        {
            let Some(line) = own.bias.next(flip) else {
                flip += 1;
                continue;
            };
            let turn = own.bias.has_turn();
            if !turn && self.free.len() <= self.entries.len() / 2 && !self.is_idle() {
                return;
            }
            if !self.ask_for_line(ctx, line, turn) {
                return;
            }
        }
        // No line is left to ask for.
        if let Some(own) = &mut self.own {
            own.bias.passed = 0;
        }
    }

    /// Asks for a line where it is a flip's turn.
    pub(super) fn flip_in_turn(&mut self, ctx: &mut Ctx<'_, Parcel>) {
        if self.own.as_ref().is_some_and(|own| own.bias.has_turn()) {
            self.go_on_flipping(ctx);
        }
    }

    /// Whether nothing is under way that would give a CQID back.
    fn is_idle(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    /// Asks the host to leave a line that no access waits for; false without a free CQID, or where
    /// accesses wait for one and it is not the flip's turn.
    fn ask_for_line(&mut self, ctx: &mut Ctx<'_, Parcel>, line: LineAddr, turn: bool) -> bool {
        debug_assert_eq!(self.leaving(line), NONE, "a line is asked for once");
        let Some((next, actions)) = step(LineState::stable(Line::I), Event::Flush) else {
            return false;
        };
        let before = self.queues.serving;
        self.queues.serving |= turn;
        let room = self.make_room(ctx, line, None, next.line);
        self.queues.serving = before;
        let Some(id) = room else {
            return false;
        };
        self.entries[id as usize].state = next;
        self.entries[id as usize].flip = true;
        self.flip_asks(ctx, line);
        for action in actions.iter() {
            self.act(ctx, id, action, None);
        }
        true
    }

    /// What waited for a line of the device's own memory has gone on.
    pub(super) fn flip_settles(&mut self, ctx: &Ctx<'_, Parcel>, line: LineAddr) {
        if let Some(own) = &mut self.own {
            let number = own.number(line);
            own.bias.settled(number, ctx.now().0);
        }
    }

    /// A request for a line of the device's own memory is on its way.
    pub(super) fn flip_asks(&mut self, ctx: &Ctx<'_, Parcel>, line: LineAddr) {
        if let Some(own) = &mut self.own {
            let number = own.number(line);
            own.bias.asked(number, line, ctx.now().0);
        }
    }
}
