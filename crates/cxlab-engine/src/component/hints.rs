//! What a component may tell the executor beside its model.

use super::KeptPayload;

/// Hints of a component to the executor ([`Component::hints`](super::Component::hints)): what to
/// prefetch into the processor's caches, and how events compare in cost.
///
/// Hints affect speed alone. A result must not depend on whether, when or how often the engine calls
/// these methods. They are dispatched statically.
pub trait ExecutionHints<P> {
    /// First prefetch stage. `payload` will arrive at `port` a few events from now: the component may
    /// [`prefetch`](crate::prefetch()) the part of its state that handling it will read.
    #[inline]
    fn prefetch(&self, port: u16, payload: &P) {
        let _ = (port, payload);
    }

    /// Second prefetch stage. The lines requested by `prefetch` are now cached, so pointers in them may be
    /// followed. Returns the port through which the component will send, where it is known, so that the
    /// engine prefetches the route of this port.
    #[inline]
    fn prefetch_next(&self, port: u16, payload: &P) -> Option<u16> {
        let _ = (port, payload);
        None
    }

    /// The mean time that one event of the component takes, in any unit that all components of the
    /// simulation share. The engine weights components by it when it divides them among threads.
    fn event_cost(&self) -> u64 {
        1
    }
}

/// The hints of a component without hints.
pub(super) struct NoHints;

impl<P> ExecutionHints<P> for NoHints {}

/// Moves the payloads that a component [keeps](crate::Ctx::keep) out of the event queue
/// and back ([`Component::hand_over`](super::Component::hand_over)).
///
/// A [`KeptPayload`] is a place in the queue of one thread. Before the component moves to another thread and
/// before its state is saved, the engine calls [`take_kept`](KeptPayloads::take_kept), and afterwards
/// [`restore_kept`](KeptPayloads::restore_kept). A component that keeps payloads and does not hand them over is
/// found by an assertion when components move.
pub trait KeptPayloads<P> {
    /// Exchanges each kept payload for its value with `take` and stores the values in the component.
    fn take_kept(&mut self, take: &mut dyn FnMut(KeptPayload) -> P);

    /// The component continues, perhaps on another thread or from a restored state. The values that it
    /// stored in `take_kept` may be kept in the queue again with `keep`.
    fn restore_kept(&mut self, keep: &mut dyn FnMut(P) -> KeptPayload);
}
