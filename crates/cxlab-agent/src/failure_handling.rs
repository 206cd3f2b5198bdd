//! Failure handling of an agent: timeouts of its messages, late responses, and devices that are cut off. The
//! owner calls these methods, so an agent pays nothing for them in a system without failures.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{BufferId, LostMessages, Parcel};
use cxlab_protocol::Message;

use crate::request_agent::RequestAgent;

/// An agent in a system whose components can fail.
pub trait FailureHandling: RequestAgent {
    /// Edge port of the first device; devices are numbered from there.
    fn first_device(&self) -> u16;

    /// When the first of the agent's messages times out.
    fn first_timeout(&self, timeout: Picos) -> Option<SimTime>;

    /// Ends the messages that have timed out.
    fn time_out(&mut self, ctx: &mut Ctx<'_, Parcel>, timeout: Picos);

    /// Whether `message` is the response to a message that has timed out.
    fn is_late(&self, message: &Message) -> bool;

    /// Puts the tag of a message that has timed out into use again, because the response has come.
    fn reuse_late(&mut self, tag: u32);

    /// Notes that the message with this tag was not sent.
    fn not_sent(&mut self, tag: u32);

    /// Ends a message that was not sent: the root port responds to it.
    fn end_cut_off(&mut self, ctx: &mut Ctx<'_, Parcel>, tag: u32);

    /// Accepts the response to a message that has timed out: the response is counted and dropped.
    fn receive_late(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel) {
        let link = &mut self.roots_mut().ports[port as usize];
        let credited = link.receive(parcel);
        if let Some(message) = &parcel.message {
            link.release(ctx, BufferId::of(message.channel(), message.vc));
            self.reuse_late(message.tag);
            let stats = &mut self.ledger_mut().stats;
            stats.late_ever += 1;
            stats.late_denied_ever += u64::from(message.lines == Message::DENIED);
        }
        if credited {
            self.roots_mut().pump(ctx, port);
        }
        self.issue_pending(ctx);
    }

    /// The root port towards each of `edge_ports` edge ports.
    fn routes(&self, edge_ports: usize) -> Vec<u16> {
        self.roots().routes(edge_ports)
    }

    /// Changes the routes: from now on messages to the devices in `is_cut` are
    /// not sent ([`FailureHandling::take_cut_off`]).
    fn cut_off(&mut self, routes: &[u16], is_cut: &[bool]) {
        let first = usize::from(self.first_device());
        self.roots_mut().cut_off(routes, first, is_cut);
    }

    /// Takes the tags of messages that were not sent. The owner calls [`FailureHandling::end_cut_off`] for each when
    /// the root port responds to it.
    fn take_cut_off(&mut self) -> Vec<u32> {
        let refused = self.roots_mut().take_refused();
        for message in &refused {
            self.not_sent(message.tag);
        }
        refused.iter().map(|message| message.tag).collect()
    }

    /// Drops the messages that wait for a port, and counts them.
    fn discard(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16) -> LostMessages {
        let mut all = LostMessages::default();
        loop {
            let lost = self.roots_mut().discard(port);
            if lost.messages == 0 {
                return all;
            }
            all += lost;
            self.issue_pending(ctx);
        }
    }
}
