//! Failure handling of a host: timeouts of its messages, late responses, and devices that are cut off. The
//! owner calls these methods, so a host pays nothing for them in a system without failures.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{LostMessages, Parcel};
use cxlab_protocol::Message;

/// A host in a system whose components can fail.
pub trait FailureHandling {
    /// Whether the host's workload has ended, with nothing in flight.
    fn is_done(&self) -> bool;

    /// When the first of the host's messages times out.
    fn first_timeout(&self, timeout: Picos) -> Option<SimTime>;

    /// Ends the messages that have timed out.
    fn time_out(&mut self, ctx: &mut Ctx<'_, Parcel>, timeout: Picos);

    /// Whether `message` is the response to a message that has timed out.
    fn is_late(&self, message: &Message) -> bool;

    /// Accepts the response to a message that has timed out: the response is counted and dropped.
    fn receive_late(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel);

    /// The root port towards each of `edge_ports` edge ports.
    fn routes(&self, edge_ports: usize) -> Vec<u16>;

    /// Changes the routes: from now on messages to the devices in `is_cut` are
    /// not sent ([`FailureHandling::take_cut_off`]).
    fn cut_off(&mut self, routes: &[u16], is_cut: &[bool]);

    /// Takes the tags of messages that were not sent. The owner calls [`FailureHandling::end_cut_off`] for each when
    /// the root port responds to it.
    fn take_cut_off(&mut self) -> Vec<u32>;

    /// Ends a message that was not sent: the root port responds to it.
    fn end_cut_off(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32);

    /// Drops the messages that wait for a port, and counts them.
    fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> LostMessages;
}
