//! Tests of the link, by subject.

mod credits;
mod order;
mod retry;
mod schedule;

use cxlab_engine::units::{BytesPerSec, Picos, SimTime};
use cxlab_protocol::flit::FlitFormat;
use cxlab_protocol::{Channel, WireSpace};

use crate::params::{FlitErrorRate, LinkParams, PacketHeader, Transmission};
use crate::timeline::Departure;
use crate::transmitter::{Blocked, Transmitter};

/// A link with a given rate, with flits or (without a format) packets.
fn params(bytes_per_second: u64, format: Option<FlitFormat>) -> LinkParams {
    LinkParams {
        bandwidth: Some(BytesPerSec(bytes_per_second)),
        transmission: format.map_or(Transmission::Packet, |_| Transmission::Flit),
        flit: format,
        ..LinkParams::default()
    }
}

/// A transmitter whose receiver never fills.
struct FreeTransmitter(Transmitter);

impl FreeTransmitter {
    fn new(params: &LinkParams) -> Self {
        FreeTransmitter(Transmitter::new(params, 1, "test"))
    }

    fn send(&mut self, now: u64, channel: Channel) -> Result<(u64, u64), Blocked> {
        self.send_with(now, channel, false)
    }

    /// Sends a message, with byte enables after its line if `trailer`.
    fn send_with(
        &mut self,
        now: u64,
        channel: Channel,
        trailer: bool,
    ) -> Result<(u64, u64), Blocked> {
        let wire_space = || WireSpace::Slots { trailer };
        let sent = match channel.is_mem() {
            true => self.0.send_mem(SimTime(now), channel, wire_space),
            false => self.0.send(SimTime(now), channel, wire_space),
        };
        match sent {
            Ok(Departure { start, end }) => Ok((start.0, end.0)),
            Err(time) => Err(Blocked::Until(time)),
        }
    }

    /// Waits until the message can be sent. Returns the time of sending, the start and the end.
    fn wait(&mut self, mut now: u64, channel: Channel) -> (u64, u64, u64) {
        loop {
            match self.send(now, channel) {
                Ok((start, end)) => return (now, start, end),
                Err(Blocked::Until(time)) => {
                    assert!(time.0 > now, "blocked until {} at {now}", time.0);
                    now = time.0;
                }
                Err(Blocked::Credits) => panic!("credits are at hand"),
            }
        }
    }
}
