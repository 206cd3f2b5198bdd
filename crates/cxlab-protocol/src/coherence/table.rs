//! The form of the transition tables: named rows, and an index from state and condition to row.

use super::filter::{Others, Update};

/// Numbers the phases of a line: `Idle`, then each listed kind with every operation. `Snooping` must be the first kind.
macro_rules! phases {
    ($($kind:ident)*) => {
        impl Phase {
            /// Number of phases.
            pub(super) const COUNT: usize = 1 + [$(Kind::$kind),*].len() * Operation::ALL.len();

            /// All phases, in the order of their numbers.
            pub const ALL: [Phase; Phase::COUNT] = {
                let mut all = [Phase::Idle; Phase::COUNT];
                let mut i = 0;
                while i < Operation::ALL.len() {
                    $(
                        let phase = Phase::$kind(Operation::ALL[i]);
                        all[phase.index()] = phase;
                    )*
                    i += 1;
                }
                all
            };

            /// Position of the phase in [`Phase::ALL`].
            #[inline]
            pub const fn index(self) -> usize {
                let (kind, operation) = match self {
                    Phase::Idle => return 0,
                    $(Phase::$kind(operation) => (Kind::$kind, operation),)*
                };
                1 + kind as usize * Operation::ALL.len() + operation as usize
            }

            /// The positions of the first and the last phase that a row applies to.
            pub(super) const fn range(when: RowPhases<Phase>) -> (usize, usize) {
                match when {
                    RowPhases::In(phase) => (phase.index(), phase.index()),
                    RowPhases::Snooping => (1, Operation::ALL.len()),
                    RowPhases::Always => (0, Phase::COUNT - 1),
                }
            }
        }

        enum Kind {
            $($kind,)*
        }
    };
}

/// Defines `ROWS`, the table of an agent that caches lines: `name: state, conditions => next state,
/// actions`. A column for the fate of a snoop follows the next state where the table has one.
macro_rules! cache_rows {
    ($($name:ident: $from:ident, $on:expr => $to:ident $(($outcome:ident))?, $actions:expr;)*) => {
        /// All rows, in the order of `docs/reference/coherence-tables.md`.
        pub const ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            from: Line::$from,
            on: $on,
            to: Line::$to,
            $(snoop: SnoopOutcome::$outcome,)?
            actions: $actions,
        },)*];
    };
}

/// Defines `ROWS`, the table of a home of lines: `name: phase, conditions, other holders => next
/// phase, update, actions`.
macro_rules! home_rows {
    (@when (Idle)) => { RowPhases::In(Phase::Idle) };
    (@when (Snooping)) => { RowPhases::Snooping };
    (@when (Always)) => { RowPhases::Always };
    (@when (($phase:ident $operation:ident))) => { RowPhases::In(Phase::$phase(Operation::$operation)) };
    (@to (Same)) => { None };
    (@to (Idle)) => { Some(Phase::Idle) };
    (@to (($phase:ident $operation:ident))) => { Some(Phase::$phase(Operation::$operation)) };
    ($($name:ident: $when:tt, $on:expr, $others:expr => $to:tt, $update:ident, $actions:expr;)*) => {
        /// All rows, in the order of `docs/reference/coherence-tables.md`.
        pub const ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            when: home_rows!(@when ($when)),
            on: $on,
            others: $others,
            to: home_rows!(@to ($to)),
            update: Update::$update,
            actions: $actions,
        },)*];
    };
}

/// Defines `row_of`, which finds the row for a state, condition and view in an index that is computed
/// at compile time. The computation also proves that no two rows claim the same combination, and
/// that no row has more actions than `most`.
macro_rules! index {
    ($states:expr, $views:expr, |$row:ident, $on:ident| {
        states: $states_of_row:expr,
        views: $seen:expr,
        most: $most:expr,
    }) => {
        const NO_ROW: u8 = u8::MAX;

        static INDEX: [[[u8; $views]; RowCondition::ALL.len()]; $states] = {
            let mut index = [[[NO_ROW; $views]; RowCondition::ALL.len()]; $states];
            let mut r = 0;
            while r < ROWS.len() {
                let $row = &ROWS[r];
                let ((mut state, last), views) = ($states_of_row, $seen);
                while state <= last {
                    let mut i = 0;
                    while i < $row.on.len() {
                        let $on = $row.on[i];
                        assert!($row.actions.len() <= $most);
                        let mut view = 0;
                        while view < views.len() {
                            let cell = &mut index[state][$on as usize][views[view] as usize];
                            assert!(*cell == NO_ROW);
                            *cell = r as u8;
                            view += 1;
                        }
                        i += 1;
                    }
                    state += 1;
                }
                r += 1;
            }
            index
        };

        /// The number of the row for a state, a condition and a view of the other holders.
        #[inline]
        pub(super) fn row_of(state: usize, on: RowCondition, view: usize) -> Option<usize> {
            let row = INDEX[state][on as usize][view];
            (row != NO_ROW).then_some(usize::from(row))
        }
    };
}

pub(super) use {cache_rows, home_rows, index, phases};

/// The phases of a line that a row of a home's table applies to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowPhases<P> {
    /// This phase alone.
    In(P),
    /// Every phase in which responses to snoops are outstanding.
    Snooping,
    /// Every phase, including `Idle`.
    Always,
}

/// One row of the transition table of a home of lines, with phases `P`, conditions `C` and actions `A`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HomeRow<P, C: 'static, A: 'static> {
    /// Name of the row.
    pub name: &'static str,
    /// The phases that the row applies to.
    pub when: RowPhases<P>,
    /// The conditions that the row applies to.
    pub on: &'static [C],
    /// The views of the other holders that the row applies to.
    pub others: &'static [Others],
    /// The phase after the step; `None` if it does not change.
    pub to: Option<P>,
    /// The change of the record of holders.
    pub update: Update,
    /// The actions, in order.
    pub actions: &'static [A],
}

/// Sets of views of the other holders.
pub(super) mod views {
    use super::Others::{self, Owner, Sharers};

    pub const ALONE: &[Others] = &[Others::None];
    pub const NO_OWNER: &[Others] = &[Others::None, Sharers];
    pub const NO_SHARERS: &[Others] = &[Others::None, Owner];
    pub const OWNER: &[Others] = &[Owner];
    pub const SHARERS: &[Others] = &[Sharers];
    pub const HELD: &[Others] = &[Sharers, Owner];
    pub const ANY: &[Others] = &[Others::None, Sharers, Owner];
}
