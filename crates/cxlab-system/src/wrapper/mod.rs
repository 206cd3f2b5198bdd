//! Wrappers of components, for phases and features of scenarios that few systems have.
//!
//! A wrapper handles the events of the component inside it and passes on what it does not change, so that
//! systems without wrappers have no branch for them.

pub(crate) mod enumeration;
pub(crate) mod failures;
mod tokens;
pub(crate) mod tracing;

use cxlab_device::MemoryDevice;
use cxlab_engine::Component;
use cxlab_engine::units::SimTime;
use cxlab_fabric::switch::Switch;
use cxlab_link::{LinkPort, Parcel};

use crate::host::Host;

/// A component that a wrapper can contain.
pub trait Inner: Component<Payload = Parcel> {
    fn kind(&mut self) -> Kind<'_>;

    /// Resets statistics, as measurement begins.
    fn begin_measurement(&mut self, now: SimTime);

    fn port_mut(&mut self, port: u16) -> &mut LinkPort;

    /// Requests and messages inside the component.
    fn in_flight(&self) -> u64;
}

/// The kinds of components that wrappers treat differently.
pub enum Kind<'a> {
    /// A host with its issuing component.
    Host(&'a mut Host),
    /// A Type 3 device whose memory the hosts keep coherent.
    Device(&'a mut MemoryDevice),
    Switch(&'a mut Switch),
    Other,
}
