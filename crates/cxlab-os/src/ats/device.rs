//! Table of a device's actions for one page.
//!
//! The owner keeps a [`DevicePageState`] for each page that is not settled. An event without a row has to
//! wait: the owner repeats it when the page has changed. Translations and invalidations may cross
//! in any order, so the device cannot know whether a completion was made before or after an earlier
//! invalidation. Therefore an invalidation, or a block, waits for the completion. The accesses that
//! requested the translation begin, and then the invalidation removes it. The specification allows
//! that: a device completes an invalidation when outstanding Translation Requests are retired
//! (section 10.3, *recollection, unverified*).

use serde::{Deserialize, Serialize};

use super::table::{self, row, when};

/// State of the device's translation of a page.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum DevicePagePhase {
    /// No translation, and no request.
    #[default]
    Empty,
    /// A Translation Request is outstanding.
    Asked,
    /// A Page Request is outstanding.
    Paging,
    /// The translation is cached.
    Cached,
    /// The page was invalidated; earlier accesses are still in flight.
    Draining,
}

/// Complete state of a page at a device.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct DevicePageState {
    /// State of the translation.
    pub phase: DevicePagePhase,
    /// Number of accesses in flight that use the translation.
    pub users: u8,
    /// Whether accesses wait for the page.
    pub waiting: bool,
    /// Whether the driver has blocked the page.
    pub blocked: bool,
}

/// An event of a page at a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// The device wants to access the page.
    Access,
    /// An access is complete: its data arrived, or its write is ordered.
    Done,
    /// Translation Completion with enough permission.
    Granted,
    /// Translation Completion without enough permission.
    NotPresent,
    /// Translation Completion with an error.
    Refused,
    /// PRG Response with success.
    PageReady,
    /// PRG Response without success.
    PageFailed,
    /// An Invalidate Request arrived.
    Invalidate,
    /// The cache needs the entry.
    Evict,
    /// The driver blocks the page.
    Block,
    /// The driver resumes the page.
    Resume,
}

impl Event {
    /// All events, in the order of their declaration.
    pub const ALL: [Event; 11] = [
        Event::Access,
        Event::Done,
        Event::Granted,
        Event::NotPresent,
        Event::Refused,
        Event::PageReady,
        Event::PageFailed,
        Event::Invalidate,
        Event::Evict,
        Event::Block,
        Event::Resume,
    ];
}

/// An action of the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Begin the access with the cached translation.
    Use,
    /// Queue the access until `Replay` or `Fail`.
    Wait,
    /// Send a Translation Request.
    Request,
    /// Send a Page Request.
    PageRequest,
    /// Put the translation of the completion into the cache.
    Fill,
    /// Remove the translation from the cache.
    Drop,
    /// Begin every waiting access, with the cached translation.
    Replay,
    /// End every waiting access with an error.
    Fail,
    /// Send an Invalidate Completion.
    Acknowledge,
    /// Tell the driver that no access will begin.
    AckBlock,
    /// Tell the driver that accesses begin again.
    AckResume,
}

/// A row of the table.
pub type Row = table::Row<DevicePageState, DevicePagePhase, Event, Action>;
type When = table::When<DevicePageState>;

const ALWAYS: When = when("", |_| true);
const OPEN: When = when("not blocked", |state| !state.blocked);
const BLOCKED: When = when("blocked", |state| state.blocked);
const UNUSED: When = when("no users", |state| state.users == 0);
const USED: When = when("users", |state| state.users > 0);
const MORE_USERS: When = when("more than one user", |state| state.users > 1);
const LAST_USER_WANTED: When = when("last user, waiters, not blocked", |state| {
    state.users == 1 && state.waiting && !state.blocked
});
const LAST_USER_UNWANTED: When = when("last user, no waiters or blocked", |state| {
    state.users == 1 && (!state.waiting || state.blocked)
});
const WAITING: When = when("waiters", |state| state.waiting);
const NONE_WAITING: When = when("no waiters", |state| !state.waiting);

use Action as A;
use DevicePagePhase as P;
use Event as E;

/// Every row, in the order of `docs/explain/cohet-os.md`.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    row("miss", &[P::Empty], &[E::Access], OPEN, Some(P::Asked), &[A::Wait, A::Request]),
    row("miss_blocked", &[P::Empty], &[E::Access], BLOCKED, None, &[A::Wait]),
    row("hit", &[P::Cached], &[E::Access], OPEN, None, &[A::Use]),
    row("hit_blocked", &[P::Cached], &[E::Access], BLOCKED, None, &[A::Wait]),
    row("wait", &[P::Asked, P::Paging, P::Draining], &[E::Access], ALWAYS, None, &[A::Wait]),
    row("done", &[P::Cached], &[E::Done], USED, None, &[]),
    row("done_draining", &[P::Draining], &[E::Done], MORE_USERS, None, &[]),
    row("drained", &[P::Draining], &[E::Done], LAST_USER_UNWANTED, Some(P::Empty), &[A::Acknowledge]),
    row("drained_wanted", &[P::Draining], &[E::Done], LAST_USER_WANTED, Some(P::Asked), &[A::Acknowledge, A::Request]),
    row("granted", &[P::Asked], &[E::Granted], OPEN, Some(P::Cached), &[A::Fill, A::Replay]),
    row("not_present", &[P::Asked], &[E::NotPresent], ALWAYS, Some(P::Paging), &[A::PageRequest]),
    row("refused", &[P::Asked], &[E::Refused], ALWAYS, Some(P::Empty), &[A::Fail]),
    row("page_ready", &[P::Paging], &[E::PageReady], OPEN, Some(P::Asked), &[A::Request]),
    row("page_ready_blocked", &[P::Paging], &[E::PageReady], BLOCKED, Some(P::Empty), &[]),
    row("page_failed", &[P::Paging], &[E::PageFailed], ALWAYS, Some(P::Empty), &[A::Fail]),
    row("invalidate_absent", &[P::Empty, P::Paging], &[E::Invalidate], ALWAYS, None, &[A::Acknowledge]),
    row("invalidate_unused", &[P::Cached], &[E::Invalidate], UNUSED, Some(P::Empty), &[A::Drop, A::Acknowledge]),
    row("invalidate_used", &[P::Cached], &[E::Invalidate], USED, Some(P::Draining), &[A::Drop]),
    row("evict", &[P::Cached], &[E::Evict], UNUSED, Some(P::Empty), &[A::Drop]),
    row("block", &[P::Empty, P::Paging, P::Cached, P::Draining], &[E::Block], OPEN, None, &[A::AckBlock]),
    row("resume_miss", &[P::Empty], &[E::Resume], WAITING, Some(P::Asked), &[A::AckResume, A::Request]),
    row("resume_hit", &[P::Cached], &[E::Resume], WAITING, None, &[A::AckResume, A::Replay]),
    row("resume_unwanted", &[P::Empty, P::Cached], &[E::Resume], NONE_WAITING, None, &[A::AckResume]),
    row("resume", &[P::Paging, P::Draining], &[E::Resume], ALWAYS, None, &[A::AckResume]),
];

/// The row for an event, and the state after it; `None` if no row applies. `Replay` counts no
/// users: the owner steps each replayed access with [`Event::Access`], which is a hit.
pub fn step(state: DevicePageState, event: Event) -> Option<(&'static Row, DevicePageState)> {
    let applies = |row: &&Row| row.applies(state.phase, state, event);
    let row = ROWS.iter().find(applies)?;
    let mut next = state;
    next.phase = row.next.unwrap_or(state.phase);
    match event {
        Event::Block => next.blocked = true,
        Event::Resume => next.blocked = false,
        Event::Done => next.users -= 1,
        _ => {}
    }
    for action in row.actions {
        match action {
            Action::Use => next.users += 1,
            Action::Wait => next.waiting = true,
            Action::Replay | Action::Fail => next.waiting = false,
            _ => {}
        }
    }
    Some((row, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> impl Iterator<Item = DevicePageState> {
        let phases = [P::Empty, P::Asked, P::Paging, P::Cached, P::Draining];
        phases.into_iter().flat_map(|phase| {
            (0..12u8).map(move |bits| DevicePageState {
                phase,
                users: bits / 4,
                waiting: bits & 1 == 1,
                blocked: bits & 2 == 2,
            })
        })
    }

    #[test]
    fn no_two_rows_apply_and_every_row_applies_somewhere() {
        let mut used = vec![false; ROWS.len()];
        for state in states() {
            for event in Event::ALL {
                let applies = |(_, row): &(usize, &Row)| row.applies(state.phase, state, event);
                let mut rows = ROWS.iter().enumerate().filter(applies);
                if let Some((number, first)) = rows.next() {
                    used[number] = true;
                    let second = rows.next().map(|(_, row)| row.name);
                    assert_eq!(second, None, "beside {} in {state:?}", first.name);
                }
            }
        }
        assert!(used.into_iter().all(|used| used));
    }

    #[test]
    fn every_invalidation_is_acknowledged_at_once_or_when_the_last_user_is_done() {
        for state in states() {
            let Some((row, next)) = step(state, Event::Invalidate) else {
                assert!([P::Draining, P::Asked].contains(&state.phase), "{state:?}");
                continue;
            };
            let at_once = row.actions.contains(&Action::Acknowledge);
            assert_eq!(at_once, next.phase != P::Draining, "{}", row.name);
            assert_ne!(next.phase, P::Cached);
        }
    }

    #[test]
    fn nothing_begins_while_the_page_is_blocked() {
        for state in states().filter(|state| state.blocked) {
            let others = Event::ALL.into_iter().filter(|one| *one != E::Resume);
            for (row, _) in others.filter_map(|event| step(state, event)) {
                let begins = [A::Use, A::Request, A::Replay];
                let begun = row.actions.iter().any(|action| begins.contains(action));
                assert!(!begun, "{}", row.name);
            }
        }
    }
}
