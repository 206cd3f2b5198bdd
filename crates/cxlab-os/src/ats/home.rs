//! Table of the actions of operating system, driver and IOMMU for one page that devices may use.
//!
//! The owner keeps a [`HomePageState`] for each page that is not settled. An event without a row has to
//! wait. A page request during a move is held until the page is present again. Translation requests
//! are served from the page table at any time, so they never wait for a move.

use serde::{Deserialize, Serialize};

use super::table::{self, row, when};

/// Progress of a fault or a move of the page.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub enum HomePagePhase {
    /// The page is present, or was never touched.
    #[default]
    Stable,
    /// A page fault is being handled.
    Faulting,
    /// The driver was told to block the devices.
    Blocking,
    /// The page is not present, and Invalidate Requests are outstanding.
    Invalidating,
    /// The data are being copied to the new frame.
    Copying,
    /// The page is present again, and the driver was told to resume the devices.
    Resuming,
}

/// Complete state of a page at the host.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Debug,
)]
pub struct HomePageState {
    /// Progress of a fault or a move.
    pub phase: HomePagePhase,
    /// Number of devices that take part in the move.
    pub devices: u8,
    /// Number of devices whose response is missing.
    pub missing: u8,
}

/// An event of a page at the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// A Translation Request came.
    TranslationRequest,
    /// A Page Request came.
    PageRequest,
    /// The page fault was handled, with success or not.
    Faulted,
    /// The page must move; this number of devices may hold its translation.
    Move(u8),
    /// A device is blocked.
    Blocked,
    /// An Invalidate Completion came.
    Invalidated,
    /// The copy is complete.
    Copied,
    /// A device has resumed its accesses.
    Resumed,
}

/// An action of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Walk the page table and send a Translation Completion.
    Walk,
    /// Hold the Page Request until `AnswerHeld`.
    Hold,
    /// Handle a page fault for the requesting device: first touch at its node.
    Fault,
    /// Send a PRG Response to every held Page Request.
    AnswerHeld,
    /// Send a PRG Response with success to the Page Request of the event.
    Answer,
    /// Have the driver block every device that takes part.
    Block,
    /// Make the page table entry not present.
    Suspend,
    /// Invalidate the page in the IOMMU's caches and in the TLBs of the processors.
    FlushIommu,
    /// Send an Invalidate Request to every device that takes part.
    Invalidate,
    /// Copy the page to the new frame.
    Copy,
    /// Make the entry present at the new frame; the old frame is free.
    Install,
    /// Have the driver resume every device.
    Resume,
}

/// A row of the table; the number of devices in its [`Event::Move`] has no meaning.
pub type Row = table::Row<HomePageState, HomePagePhase, Event, Action>;
type When = table::When<HomePageState>;

const ALL_PHASES: &[HomePagePhase] = &[
    HomePagePhase::Stable,
    HomePagePhase::Faulting,
    HomePagePhase::Blocking,
    HomePagePhase::Invalidating,
    HomePagePhase::Copying,
    HomePagePhase::Resuming,
];

const ALWAYS: When = when("", |_| true);
const ALONE: When = when("no devices", |state| state.devices == 0);
const SHARED: When = when("devices", |state| state.devices > 0);
const LAST: When = when("last answer", |state| state.missing == 1);
const MORE: When = when("more answers missing", |state| state.missing > 1);

use Action as A;
use Event as E;
use HomePagePhase as P;

/// Every row, in the order of `docs/explain/cohet-os.md`.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    row("translate", ALL_PHASES, &[E::TranslationRequest], ALWAYS, None, &[A::Walk]),
    row("fault", &[P::Stable], &[E::PageRequest], ALWAYS, Some(P::Faulting), &[A::Hold, A::Fault]),
    row("hold", &[P::Faulting, P::Blocking, P::Invalidating, P::Copying], &[E::PageRequest], ALWAYS, None, &[A::Hold]),
    row("answer", &[P::Resuming], &[E::PageRequest], ALWAYS, None, &[A::Answer]),
    row("faulted", &[P::Faulting], &[E::Faulted], ALWAYS, Some(P::Stable), &[A::AnswerHeld]),
    row("move_alone", &[P::Stable], &[E::Move(0)], ALONE, Some(P::Copying), &[A::Suspend, A::FlushIommu, A::Copy]),
    row("move", &[P::Stable], &[E::Move(0)], SHARED, Some(P::Blocking), &[A::Block]),
    row("blocked_one", &[P::Blocking], &[E::Blocked], MORE, None, &[]),
    row("blocked", &[P::Blocking], &[E::Blocked], LAST, Some(P::Invalidating), &[A::Suspend, A::FlushIommu, A::Invalidate]),
    row("invalidated_one", &[P::Invalidating], &[E::Invalidated], MORE, None, &[]),
    row("invalidated", &[P::Invalidating], &[E::Invalidated], LAST, Some(P::Copying), &[A::Copy]),
    row("copied_alone", &[P::Copying], &[E::Copied], ALONE, Some(P::Stable), &[A::Install, A::AnswerHeld]),
    row("copied", &[P::Copying], &[E::Copied], SHARED, Some(P::Resuming), &[A::Install, A::AnswerHeld, A::Resume]),
    row("resumed_one", &[P::Resuming], &[E::Resumed], MORE, None, &[]),
    row("resumed", &[P::Resuming], &[E::Resumed], LAST, Some(P::Stable), &[]),
];

/// The row for an event, and the state after it; `None` if no row applies.
pub fn step(state: HomePageState, event: Event) -> Option<(&'static Row, HomePageState)> {
    let mut now = state;
    let mut kind = event;
    if let Event::Move(devices) = event {
        kind = Event::Move(0);
        now.devices = devices;
    }
    let row = ROWS.iter().find(|row| row.applies(now.phase, now, kind))?;
    now.phase = row.next.unwrap_or(now.phase);
    if matches!(event, Event::Blocked | Event::Invalidated | Event::Resumed) {
        now.missing -= 1;
    }
    for action in row.actions {
        if matches!(action, Action::Block | Action::Invalidate | Action::Resume) {
            now.missing = now.devices;
        }
    }
    if now.phase == HomePagePhase::Stable {
        now.devices = 0;
    }
    Some((row, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_passes_its_phases_in_order_for_any_number_of_devices() {
        for devices in 0..4u8 {
            let mut state = HomePageState::default();
            let mut actions: Vec<Action> = Vec::new();
            let mut events = vec![Event::Move(devices)];
            for answer in [E::Blocked, E::Invalidated, E::Copied, E::Resumed] {
                let times = if answer == E::Copied { 1 } else { devices };
                events.extend(std::iter::repeat_n(answer, times.into()));
            }
            for event in events {
                let (row, next) = step(state, event).unwrap();
                actions.extend(row.actions);
                state = next;
            }
            assert_eq!(state, HomePageState::default());
            let place = |action| actions.iter().position(|other| *other == action);
            let order = [
                A::Block,
                A::Suspend,
                A::FlushIommu,
                A::Invalidate,
                A::Copy,
                A::Install,
                A::Resume,
            ];
            let places: Vec<usize> = order.into_iter().filter_map(place).collect();
            assert_eq!(places.len(), if devices == 0 { 4 } else { 7 });
            assert!(places.is_sorted());
        }
    }

    #[test]
    fn no_two_rows_apply() {
        for &phase in ALL_PHASES {
            for devices in 0..3 {
                for missing in 0..=devices {
                    for row in ROWS {
                        let state = HomePageState {
                            phase,
                            devices,
                            missing,
                        };
                        let same = |other: &&Row| other.applies(phase, state, row.on[0]);
                        assert!(ROWS.iter().filter(same).count() <= 1, "{}", row.name);
                    }
                }
            }
        }
    }
}
