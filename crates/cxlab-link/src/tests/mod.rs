//! What the link promises, by subject.

mod credits;
mod retry;
mod schedule;

use cxlab_engine::units::{BytesPerSec, Picos, SimTime};
use cxlab_protocol::Channel;
use cxlab_protocol::flit::FlitFormat;

use crate::credit::{BUFFERS, Buffer};
use crate::params::{FlitErrorRate, LinkParams, PacketHeader, Transmission};
use crate::transmitter::{Blocked, Departure, Transmitter};

/// A link of one rate, with flits or (without a format) packets.
fn params(bytes_per_second: u64, format: Option<FlitFormat>) -> LinkParams {
    LinkParams {
        bandwidth: Some(BytesPerSec(bytes_per_second)),
        transmission: if format.is_some() {
            Transmission::Flit
        } else {
            Transmission::Packet
        },
        flit: format,
        ..LinkParams::default()
    }
}

/// Sends on a virtual channel, if the transmitter takes it.
fn send(link: &mut Transmitter, now: u64, channel: Channel, vc: u8) -> Result<Departure, Blocked> {
    link.send(SimTime(now), channel, Buffer::of(channel, vc))
}

/// Its transmitter, to a receiver that seems never to fill: credits come back at once.
struct Free(Transmitter);

impl Free {
    fn new(params: &LinkParams) -> Self {
        Free(Transmitter::new(params, [255; BUFFERS], 1, "test"))
    }

    fn send(&mut self, now: u64, channel: Channel) -> Result<(u64, u64), Blocked> {
        let Departure { start, end } = send(&mut self.0, now, channel, 0)?;
        self.0.credit(Buffer::of(channel, 0).0, 1);
        Ok((start.0, end.0))
    }

    /// Waits as long as it takes; the time of sending comes first.
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
