//! The interface of every component that issues requests through root ports: what its ledger and
//! its links provide is written here once, for all of them.

use cxlab_engine::Ctx;
use cxlab_engine::state::SaveState;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_link::{BufferId, LinkPort, LostMessages, Parcel};
use cxlab_protocol::Message;

use crate::ledger::RequestLedger;
use crate::root_ports::RootPorts;
use crate::stats::{RequestRow, RequesterStats};

/// Implements the accessors of [`RequestAgent`] with the fields that hold the root ports and the ledger.
#[macro_export]
macro_rules! request_agent_fields {
    ($($roots:ident).+, $($ledger:ident).+) => {
        #[inline(always)]
        fn ledger(&self) -> &$crate::RequestLedger {
            &self.$($ledger).+
        }

        #[inline(always)]
        fn ledger_mut(&mut self) -> &mut $crate::RequestLedger {
            &mut self.$($ledger).+
        }

        #[inline(always)]
        fn roots(&self) -> &$crate::RootPorts {
            &self.$($roots).+
        }

        #[inline(always)]
        fn roots_mut(&mut self) -> &mut $crate::RootPorts {
            &mut self.$($roots).+
        }
    };
}

/// A component that issues requests. Events are handled by methods of the component's own type,
/// which a trait object does not have.
pub trait RequestAgent: SaveState {
    /// Accounting of the requests.
    fn ledger(&self) -> &RequestLedger;

    /// Accounting of the requests, to be changed.
    fn ledger_mut(&mut self) -> &mut RequestLedger;

    /// Links, with the messages queued for them.
    fn roots(&self) -> &RootPorts;

    /// Links, with the messages queued for them, to be changed.
    fn roots_mut(&mut self) -> &mut RootPorts;

    /// Number of operations and transactions in flight. Unlike [`RequestAgent::requests_in_flight`] it
    /// counts transactions that are not requests, such as write-backs.
    fn in_flight(&self) -> u64;

    /// Whether the workload has ended and nothing is in flight.
    fn is_done(&self) -> bool;

    /// Starts the workload at the beginning of the run.
    fn start(&mut self, ctx: &mut Ctx<'_, Parcel>);

    /// Handles a message from the root port `port`.
    fn receive_message(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, message: &Message);

    /// Handles a wake-up by its token. Ports use their number.
    fn wake(&mut self, ctx: &mut Ctx<'_, Parcel>, token: u32)
    where
        Self: Sized;

    /// Issues what has become possible, after a parcel has arrived or messages have been discarded.
    #[inline(always)]
    fn issue_pending(&mut self, _ctx: &mut Ctx<'_, Parcel>) {}

    /// Whether a message leaves the link's receive buffer on arrival. The agent releases the buffer
    /// of any other message itself.
    #[inline(always)]
    fn leaves_buffer(_message: &Message) -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Resets the statistics that are neither in the ledger nor of a link, at the start of measurement.
    fn reset_statistics(&mut self, _now: SimTime) {}

    /// Ends measurement: simulates up to `now` what is simulated only on demand.
    fn end_measurement(&mut self, _now: SimTime) {}

    /// Failure handling, if the agent implements it.
    fn failure_handling(&mut self) -> Option<&mut dyn FailureHandling> {
        None
    }

    /// Handles a parcel that arrives from a link.
    #[inline(always)]
    fn receive(&mut self, ctx: &mut Ctx<'_, Parcel>, port: u16, parcel: &Parcel)
    where
        Self: Sized,
    {
        let link = &mut self.roots_mut().ports[port as usize];
        let credited = link.receive(parcel);
        if let Some(message) = &parcel.message {
            if Self::leaves_buffer(message) {
                link.release(ctx, BufferId::of(message.channel(), message.vc));
            }
            self.receive_message(ctx, port, message);
        }
        if credited {
            self.roots_mut().pump(ctx, port);
        }
        self.issue_pending(ctx);
    }

    /// Statistics of the requests.
    fn stats(&self) -> &RequesterStats {
        &self.ledger().stats
    }

    /// Number of requests in flight.
    fn requests_in_flight(&self) -> u64 {
        self.ledger().in_flight()
    }

    /// Sum of the ages, at `now`, of the requests in flight, in picoseconds.
    fn age_ps(&self, now: SimTime) -> u128 {
        self.ledger().age_ps(now)
    }

    /// Takes the rows logged since the last call.
    fn take_rows(&mut self) -> Vec<RequestRow> {
        self.ledger_mut().take_rows()
    }

    /// The ports, for link statistics.
    fn ports_mut(&mut self) -> &mut [LinkPort] {
        &mut self.roots_mut().ports
    }

    /// Resets all statistics at the start of measurement.
    fn begin_measurement(&mut self, now: SimTime) {
        self.ledger_mut().begin_measurement(now);
        self.roots_mut().begin_measurement(now);
        self.reset_statistics(now);
    }
}

/// An agent in a system whose components can fail: timeouts of its messages, late responses, and devices that
/// are cut off. The owner calls these methods, so an agent pays nothing for them in a system without failures.
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

    /// Records that the message with this tag was not sent.
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
