//! Transition tables, `(state, event) -> (state, actions)`, as lists of rows.

/// A row of a table of states `S` in phases `P`, with events `E` and actions `A`.
pub struct Row<S, P: 'static, E: 'static, A: 'static> {
    /// Name of the row.
    pub name: &'static str,
    /// Phases that the row applies to.
    pub phases: &'static [P],
    /// Events that the row applies to.
    pub on: &'static [E],
    /// Condition that the state must meet too.
    pub when: When<S>,
    /// Next phase; `None` if it is unchanged.
    pub next: Option<P>,
    /// Actions, in order.
    pub actions: &'static [A],
}

/// A condition of a row.
pub struct When<S> {
    /// The condition in words; empty if it is always true.
    pub text: &'static str,
    /// Evaluates the condition for a state.
    pub holds: fn(S) -> bool,
}

impl<S, P: PartialEq, E: PartialEq, A> Row<S, P, E, A> {
    /// Whether the row applies to an event in a state of this phase.
    pub(super) fn applies(&self, phase: P, state: S, event: E) -> bool {
        self.on.contains(&event) && self.phases.contains(&phase) && (self.when.holds)(state)
    }
}

pub(super) const fn when<S>(text: &'static str, holds: fn(S) -> bool) -> When<S> {
    When { text, holds }
}

pub(super) const fn row<S, P, E, A>(
    name: &'static str,
    phases: &'static [P],
    on: &'static [E],
    when: When<S>,
    next: Option<P>,
    actions: &'static [A],
) -> Row<S, P, E, A> {
    Row {
        name,
        phases,
        on,
        when,
        next,
        actions,
    }
}
