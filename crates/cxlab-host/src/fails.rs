//! What a host does where components fail: its messages end after a time, answers come too late, and
//! devices are cut off. The owner calls, so nothing of it costs a host anything where nothing fails.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{Lost, Parcel};
use cxlab_protocol::Message;

/// A host in a system in which something fails.
pub trait Fails {
    /// Whether it has ended, with nothing under way.
    fn is_done(&self) -> bool;

    /// When the time of the first of its messages is over.
    fn first_timeout(&self, timeout: Picos) -> Option<SimTime>;

    /// Ends the messages whose time is over.
    fn time_out(&mut self, ctx: &mut Ctx<'_, Parcel>, timeout: Picos);

    /// Whether this is the answer to a message whose time was over.
    fn is_late(&self, message: &Message) -> bool;

    /// An answer arrives to a message whose time was over: it is counted and forgotten.
    fn receive_late(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel);

    /// The root port towards each of so many edge ports.
    fn ways(&self, edge_ports: usize) -> Vec<u16>;

    /// From now on messages for these devices, by number, are not sent: [`Fails::take_cut_off`].
    fn cut_off(&mut self, ways: &[u16], is_cut: &[bool]);

    /// Takes the tags of messages that were not sent; each is told by [`Fails::end_cut_off`] when the
    /// root port answers it.
    fn take_cut_off(&mut self) -> Vec<u32>;

    /// The root port answers a message that was not sent.
    fn end_cut_off(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32);

    /// Loses what waits for a port.
    fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> Lost;
}
