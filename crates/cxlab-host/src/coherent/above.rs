//! The caches of another program above a port: snoops of them, and their responses.
//!
//! The cache of the port is inclusive: it has every line that the caches above have, in a state that allows at least
//! as much. A completed read lets them keep the line, and change it if the line is not shared. A completed write lets
//! them change it.
//!
//! Before a back-invalidation snoop or an eviction takes effect, the cache snoops the caches above. This snoop takes
//! the access time of the cache, so it follows every hit of the line that was served before it. Accesses to the line
//! then wait for the response, which says whether the line was changed above. The cache has the changed line then, and
//! continues as it would have done without caches above.
//!
//! A snoop that comes while a request of the line is outstanding waits until the line is stable, and so does the
//! acknowledgement of a conflict that comes after the completion. An acknowledgement that comes before the
//! completion (early conflict) concerns the copy held before. It waits for the response only if that is a shared copy,
//! whose upgrade is outstanding. So a response must never wait for a request of the same line.

use cxlab_cache::Slot;
use cxlab_engine::units::{LineAddr, SimTime};
use cxlab_engine::{Ctx, ReservedWake};
use cxlab_link::Parcel;
use cxlab_protocol::coherence::message::{S2m, Snoop};
use cxlab_protocol::coherence::requester::{Event, HeldSnoop, Line, step};
use serde::{Deserialize, Serialize};

use super::entries::{EntryKind, NONE, TransactionEntry};
use super::{CacheWay, CachingRequester, StallReason};
use crate::issuer::DueWake;

/// Wake-up token, plus the entry's number: a snoop of the caches above leaves the cache.
pub(super) const SNOOP: u32 = 1 << 28;
/// Wake-up token, plus the entry's number: the caches above respond.
const RESPONSE: u32 = 1 << 29;

/// A reason to snoop the caches above for a line.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(super) enum SnoopReason {
    /// A back-invalidation snoop.
    Snoop(Snoop),
    /// The acknowledgement of a conflict.
    Acknowledgement(Snoop),
    /// An eviction. The line stays in the cache until it is chosen again.
    Eviction,
}

impl SnoopReason {
    /// The snoop for which the line is wanted; an eviction takes it as one that invalidates does.
    const fn snoop(self) -> Snoop {
        match self {
            SnoopReason::Snoop(snoop) | SnoopReason::Acknowledgement(snoop) => snoop,
            SnoopReason::Eviction => Snoop::Inv,
        }
    }
}

/// A snoop of the caches above.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct CacheSnoop {
    /// Number of the snooped line.
    pub line: LineAddr,
    /// Whether they give up the line. Otherwise they may keep it, but change it no more.
    pub invalidate: bool,
    /// When the snoop leaves the cache for them.
    pub time: SimTime,
    entry: u32,
    wake: ReservedWake,
}

/// The state of a cache for the caches above it.
#[derive(Serialize, Deserialize)]
pub(super) struct CachesAbove {
    /// Entry of the line that an eviction wants, or [`NONE`].
    recalled: u32,
    /// By entry: whether the line was changed above, for responses that have not arrived.
    changed: Vec<bool>,
    /// Snoops that were not taken.
    snoops: Vec<CacheSnoop>,
}

impl CachesAbove {
    pub(super) fn new(entries: usize) -> CachesAbove {
        CachesAbove {
            recalled: NONE,
            changed: vec![false; entries],
            snoops: Vec::new(),
        }
    }
}

impl CacheWay {
    /// Whether caches above have more of a line in this state than a snoop leaves them.
    #[inline]
    pub(super) fn concerns_above(&self, line: Line, snoop: Snoop) -> bool {
        self.above && (snoop == Snoop::Inv || matches!(line, Line::E | Line::M))
    }
}

impl CachingRequester {
    /// Moves the snoops of the caches above since the last call to the end of `out`.
    pub fn drain_cache_snoops(&mut self, out: &mut Vec<CacheSnoop>) {
        if let Some(above) = &mut self.above {
            out.append(&mut above.snoops);
        }
    }

    /// Takes the response to a snoop of the caches above: they have given up or shared the line, and it was `changed`
    /// since they got it. Each snoop has one response. The caller must pass the wake-up, at `time`, to the simulation.
    pub fn answer_cache_snoop(
        &mut self,
        snoop: &CacheSnoop,
        changed: bool,
        time: SimTime,
    ) -> DueWake {
        if let Some(above) = &mut self.above {
            above.changed[snoop.entry as usize] = changed;
        }
        DueWake {
            wake: snoop.wake,
            at: time,
            token: RESPONSE + snoop.entry,
        }
    }

    /// Handles the wake-up of a snoop of the caches above, or of its response.
    pub(super) fn wake_above(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32) {
        if token >= RESPONSE {
            self.answered(ctx, token - RESPONSE);
            return;
        }
        let number = token - SNOOP;
        let entry = self.entries.get(number);
        let (Some(above), Some(snoop_reason)) = (&mut self.above, entry.snoop_reason) else {
            unreachable!("the caches above are snooped for a reason")
        };
        above.snoops.push(CacheSnoop {
            line: entry.line,
            invalidate: snoop_reason.snoop() == Snoop::Inv,
            time: ctx.now(),
            entry: number,
            wake: ctx.reserve_wake(),
        });
    }

    /// Lets a back-invalidation snoop of a line wait, if the caches above have the line or may get it before the
    /// snoop is answered. `number` is the entry that has the line's state, `indices` are those of the snoop and of the
    /// line in it.
    pub(super) fn holds_snoop(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        slot: Option<Slot>,
        number: Option<u32>,
        kind: Snoop,
        indices: (u32, u8),
    ) -> bool {
        let (Some(_), Some(slot)) = (&self.above, slot) else {
            return false;
        };
        let number = match number {
            None if self.cache[slot].concerns_above(self.cache[slot].line, kind) => {
                self.open_snoop_entry(slot, EntryKind::Snoop, SnoopReason::Snoop(kind))
            }
            None => return false,
            Some(number) => {
                let entry = self.entries.get(number);
                let waits = entry.snoop_reason.is_some() || awaits_data(entry.state.line);
                if entry.slot.is_none() || !waits {
                    return false;
                }
                number
            }
        };
        let entry = self.entries.get_mut(number);
        entry.snoop_reason = Some(SnoopReason::Snoop(kind));
        (entry.snoop, entry.snoop_index) = indices;
        self.proceed(ctx, number);
        true
    }

    /// Whether the acknowledgement of a conflict waits for the line to be stable, and for the caches above.
    pub(super) fn holds_acknowledgement(&mut self, number: u32) -> bool {
        let entry = self.entries.get_mut(number);
        let line = entry.state.line;
        let waits = line.is_stable() || line == Line::SmA || awaits_data(line);
        let HeldSnoop::AwaitAck(snoop) = entry.state.held else {
            return false;
        };
        if self.above.is_none() || entry.slot.is_none() || !waits {
            return false;
        }
        entry.snoop_reason = Some(SnoopReason::Acknowledgement(snoop));
        self.coherence.early_conflicts += u64::from(line == Line::SmA);
        true
    }

    /// Snoops the caches above for a line that is to be evicted. The access waits for their response.
    pub(super) fn recall(&mut self, ctx: &mut Ctx<'_, Parcel>, slot: Slot) -> StallReason {
        let recalled = self.above.as_ref().map_or(NONE, |above| above.recalled);
        if recalled != NONE {
            return StallReason::Above;
        }
        if self.entries.room(EntryKind::Evict) == 0 {
            return StallReason::Evictions;
        }
        let number = self.open_snoop_entry(slot, EntryKind::Evict, SnoopReason::Eviction);
        if let Some(above) = &mut self.above {
            above.recalled = number;
        }
        self.proceed(ctx, number);
        StallReason::Above
    }

    /// Takes an entry for a settled line that the caches above have.
    fn open_snoop_entry(&mut self, slot: Slot, kind: EntryKind, snoop_reason: SnoopReason) -> u32 {
        let number = self.entries.take(TransactionEntry {
            slot: Some(slot),
            snoop_reason: Some(snoop_reason),
            ..self.entry(self.cache.line(slot), self.cache[slot], kind)
        });
        self.cache[slot].entry = number;
        self.cache.pin(slot);
        number
    }

    /// Continues the snoop that an entry has a reason for: it waits, or the caches above are snooped, or it ends.
    pub(super) fn proceed(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let entry = self.entries.get_mut(number);
        let (line, Some(snoop_reason), Some(slot)) =
            (entry.state.line, entry.snoop_reason, entry.slot)
        else {
            unreachable!("only a line in the cache is snooped")
        };
        if entry.asked || awaits_data(line) {
            return;
        }
        if self.cache[slot].concerns_above(line, snoop_reason.snoop()) {
            entry.asked = true;
            ctx.wake_at(SimTime(ctx.now().0 + self.cache_ps), SNOOP + number);
            return;
        }
        self.end_snoop(ctx, number, snoop_reason);
    }

    /// Ends a snoop that waits for nothing any more.
    fn end_snoop(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32, snoop_reason: SnoopReason) {
        let entry = self.entries.get_mut(number);
        entry.snoop_reason = None;
        let event = match snoop_reason {
            SnoopReason::Snoop(snoop) => Event::BiSnp(snoop),
            SnoopReason::Acknowledgement(_) => Event::Response(S2m::BiConflictAck),
            SnoopReason::Eviction => {
                self.settle(ctx, number, None);
                return;
            }
        };
        let Some((next, actions)) = step(entry.state, event) else {
            panic!("{event:?} has no row in {:?}", entry.state)
        };
        entry.state = next;
        self.perform(ctx, number, &actions, None);
        self.settle(ctx, number, None);
    }

    /// Handles the response of the caches above: the cache has the line as they left it.
    fn answered(&mut self, ctx: &mut Ctx<'_, Parcel>, number: u32) {
        let entry = self.entries.get_mut(number);
        let (Some(above), Some(slot), Some(snoop_reason)) =
            (&mut self.above, entry.slot, entry.snoop_reason)
        else {
            unreachable!("a response follows a snoop")
        };
        entry.asked = false;
        let changed = std::mem::take(&mut above.changed[number as usize]);
        if above.recalled == number {
            above.recalled = NONE;
        }
        let changed_silently = changed && entry.state.line == Line::E;
        if changed_silently {
            entry.state.line = Line::M;
        }
        if snoop_reason.snoop() == Snoop::Inv {
            self.cache[slot].above = false;
        }
        if changed_silently {
            self.take_effect(ctx.now(), slot, u64::MAX, true);
        }
        self.end_snoop(ctx, number, snoop_reason);
    }

    /// Takes a line back that the caches above give up with its data. If a snoop has taken the line first, the data
    /// came with the response, and nothing remains to be done.
    pub(super) fn take_back(&mut self, ctx: &mut Ctx<'_, Parcel>, access: u32, line: LineAddr) {
        if let Some(slot) = self.cache.find(line) {
            let way = &mut self.cache[slot];
            let state = match way.entry {
                NONE => {
                    way.above &= !matches!(way.line, Line::E | Line::M);
                    &mut way.line
                }
                number => &mut self.entries.get_mut(number).state.line,
            };
            if *state == Line::E {
                *state = Line::M;
                let id = self.accesses.get(access).id;
                self.take_effect(ctx.now(), slot, id, true);
            }
        }
        self.hit(ctx, access);
    }
}

/// Whether a line in this state stays where it is, but cannot be given away before a response comes.
const fn awaits_data(line: Line) -> bool {
    matches!(line, Line::SD | Line::ED | Line::MD | Line::MsA | Line::MeA)
}
