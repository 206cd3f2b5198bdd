//! A port: one end of a link, transmitter and receiver together.

use cxlab_engine::Ctx;
use cxlab_engine::units::{Picos, SimTime};
use cxlab_protocol::Message;

use crate::credit::{Buffer, Returns};
use crate::params::LinkParams;
use crate::parcel::Parcel;
use crate::transmitter::{Blocked, Transmitter};

/// What a port needs to know besides its link's parameters.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// The port's number in its component.
    pub port: u16,
    /// Constant time before the link in the sending component (a requester's processing), which
    /// every message spends and none can be passed in.
    pub egress: Picos,
    /// Constant time behind the link in the receiving component (switching time, a device's
    /// controller), likewise.
    pub ingress: Picos,
    /// Virtual channels of the link.
    pub vcs: u8,
    /// The run's seed, for error injection.
    pub seed: u64,
    /// A unique name of this direction, for error injection.
    pub name: &'a str,
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct LinkPort {
    /// What is sent when.
    pub transmitter: Transmitter,
    returns: Returns,
    port: u16,
    /// Everything between a message's departure and its handling by the receiver.
    fixed: u64,
    propagation: u32,
    ports: u32,
}

impl LinkPort {
    /// One end of a link with these parameters.
    pub fn new(params: &LinkParams, config: &PortConfig<'_>) -> Self {
        let capacity = params.credits.by_buffer(config.vcs);
        LinkPort {
            transmitter: Transmitter::new(params, capacity, config.seed, config.name),
            returns: Returns::new(&capacity),
            port: config.port,
            fixed: Self::min_latency(params, config.egress, config.ingress).0,
            propagation: params.propagation.0 as u32,
            ports: 2 * params.port_delay.0 as u32,
        }
    }

    /// The least time from this end to the handling by the far end: the wire's minimum latency.
    pub fn min_latency(params: &LinkParams, egress: Picos, ingress: Picos) -> Picos {
        Picos(params.crossing_ps()) + egress + ingress
    }

    /// Sends a message on its virtual channel if it can go now; credits ride along. The time
    /// until its arrival is noted in its stages.
    ///
    /// # Errors
    /// [`Blocked`] says what it waits for; nothing has changed then.
    #[inline]
    pub fn send(
        &mut self,
        ctx: &mut Ctx<'_, Parcel>,
        message: &mut Message,
    ) -> Result<(), Blocked> {
        let now = ctx.now();
        let buffer = Buffer::of(message.channel(), message.vc);
        let departure = self.transmitter.send(now, message.channel(), buffer)?;
        Transmitter::charge(message, now, departure);
        message.stages.link += self.propagation;
        message.stages.port += self.ports;
        let at = SimTime(departure.end.0 + self.fixed);
        ctx.send(
            self.port,
            at,
            Parcel {
                message: Some(*message),
                credits: self.returns.take(),
            },
        );
        Ok(())
    }

    /// Books a parcel's credits. True when there were any.
    #[inline]
    pub fn receive(&mut self, parcel: &Parcel) -> bool {
        let mut credited = false;
        for (buffer, count) in parcel.credits.entries {
            if count == 0 {
                break;
            }
            self.transmitter.credit(buffer, count);
            credited = true;
        }
        credited
    }

    /// A received message has left its buffer. Its credit waits for a ride, or goes alone when
    /// many wait.
    #[inline]
    pub fn release(&mut self, ctx: &mut Ctx<'_, Parcel>, buffer: Buffer) {
        if self.returns.free(buffer) {
            let credits = self.returns.take_first(buffer);
            let at = SimTime(ctx.now().0 + self.fixed);
            ctx.send(
                self.port,
                at,
                Parcel {
                    message: None,
                    credits,
                },
            );
        }
    }

    /// Credits that wait for a ride, for conservation checks.
    pub fn waiting_returns(&self, buffer: Buffer) -> u8 {
        self.returns.waiting(buffer)
    }
}
