//! Failures as a run carries them out: the changes of each component, and of the routing.

use std::sync::Arc;

use cxlab_engine::units::Picos;
use cxlab_fabric::routing::RoutingTables;
use cxlab_scenario::{EventParams, FailureParams, Scenario};

/// The reaction of a component to a failure or a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureChange {
    /// The link of this port fails.
    Down(u16),
    /// The link of this port is trained again.
    Up(u16),
    /// The component itself fails.
    Dead,
    /// The component is repaired, with empty buffers and caches.
    Alive,
    /// A switch routes messages from endpoints by the routing state of this number.
    Route(usize),
    /// The devices that a host knows to be unreachable, by device number.
    CutOff(Arc<[bool]>),
}

/// Routing tables, and the virtual channels reserved for them.
#[derive(Clone, Debug)]
pub struct RoutingState {
    /// Routing tables of the fabric as it is known at the time.
    pub tables: Arc<RoutingTables>,
    /// The virtual channels of the tables on links between switches, as a bit mask. The first
    /// channel of the tables is the lowest bit.
    pub channels: u8,
}

impl RoutingState {
    /// The channel of the tables that follows `vc`.
    pub fn channel_after(&self, vc: u8) -> u8 {
        let later = u32::from(self.channels) >> (vc + 1);
        vc + 1 + later.trailing_zeros() as u8
    }
}

/// A change of the routing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutingChange {
    /// `reconfiguration_time` after the first failure or repair that caused the change.
    pub due: Picos,
    /// When the change comes into force: later than `due` if it waits for virtual channels to drain.
    pub at: Picos,
    /// Whether the new state takes channels of the state that it replaces, so that messages in flight are discarded.
    pub overlaps: bool,
}

/// All failures and repairs of a run, resolved.
pub struct Failures {
    /// How hosts and the fabric handle failures.
    pub params: FailureParams,
    /// The routing states in the order in which they come into force; the first is that of the whole fabric.
    pub states: Vec<RoutingState>,
    /// Number of different tables among the routing states.
    pub fabrics: usize,
    /// Number of virtual channels that all routing states use.
    pub virtual_channels: u8,
    /// Failures and repairs, in order of time.
    pub times: Vec<Picos>,
    /// Changes of the routing, in order of time.
    pub routing: Vec<RoutingChange>,
    /// By component (hosts, devices, switches): its changes in order of time.
    pub timelines: Vec<Vec<(Picos, FailureChange)>>,
}

/// Whether a scenario has failures, as events or at random times.
pub(crate) fn has_any(scenario: &Scenario) -> bool {
    let at_random = scenario.failures.as_ref();
    let at_random = at_random.is_some_and(|params| params.random.is_some());
    at_random || scenario.events.iter().any(EventParams::is_failure)
}
