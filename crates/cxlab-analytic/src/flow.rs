//! A flow of requests from a host to a device: its share of the host's requests, its constant
//! stages, and the stations where it may wait.

use cxlab_protocol::Channel;

/// The message classes of CXL.mem requests and responses. The values index tables by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageClass {
    /// A read request (M2S Req).
    Req = 0,
    /// A write request with its data (M2S RwD).
    Rwd = 1,
    /// A completion (S2M NDR).
    Ndr = 2,
    /// A response with the data of a read (S2M DRS).
    Drs = 3,
}

impl MessageClass {
    /// The number of classes.
    pub const COUNT: usize = 4;
    /// All classes, in the order of their values.
    pub const ALL: [MessageClass; MessageClass::COUNT] = [
        MessageClass::Req,
        MessageClass::Rwd,
        MessageClass::Ndr,
        MessageClass::Drs,
    ];

    /// The CXL.mem channel that carries the class.
    pub fn channel(self) -> Channel {
        match self {
            MessageClass::Req => Channel::M2sReq,
            MessageClass::Rwd => Channel::M2sRwd,
            MessageClass::Ndr => Channel::S2mNdr,
            MessageClass::Drs => Channel::S2mDrs,
        }
    }

    /// The class of a request.
    pub fn request(write: bool) -> MessageClass {
        match write {
            true => MessageClass::Rwd,
            false => MessageClass::Req,
        }
    }

    /// The class of the response to a request.
    pub fn response(write: bool) -> MessageClass {
        match write {
            true => MessageClass::Ndr,
            false => MessageClass::Drs,
        }
    }
}

/// The constant stages of a request, in picoseconds: its latency without load.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ConstantStages {
    /// Processing in the requester.
    pub process: u64,
    /// Lookup in the private cache.
    pub cache: u64,
    /// Turnarounds of half-duplex buses.
    pub switch_queue: u64,
    /// Transmission and propagation on wires.
    pub link: u64,
    /// Processing in ports.
    pub port: u64,
    /// Processing in switches.
    pub switch: u64,
    /// Processing in the device's controller.
    pub device: u64,
    /// The medium's own latency.
    pub media: u64,
}

impl ConstantStages {
    /// The stages by the names that reports give them.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("process", self.process),
            ("cache", self.cache),
            ("switch_queue", self.switch_queue),
            ("link", self.link),
            ("port", self.port),
            ("switch", self.switch),
            ("device", self.device),
            ("media", self.media),
        ]
    }

    /// The sum of all stages in picoseconds: the latency without load.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, picos)| picos).sum()
    }
}

/// A station on the route of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visit {
    /// The station's index in the network.
    pub station: u32,
    /// The class of the flow's messages at this station.
    pub class: MessageClass,
    /// The previous station on the route; `None` if messages come from the host itself.
    pub from: Option<u32>,
    /// The part of the flow that takes this route, above 0 and up to 1.
    pub share: f64,
}

/// The reads, or the writes, of one host to one device.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// The host's index in the network.
    pub host: u32,
    /// The device's number; `None` if the host's private cache completes the request.
    pub device: Option<u32>,
    /// `true` for writes.
    pub write: bool,
    /// Messages of this flow for each request of the host.
    pub share: f64,
    /// Whether the messages are requests. Write-backs are not: they only occupy one of the
    /// host's outstanding requests.
    pub counts: bool,
    /// Whether the device completes the write when the medium accepts it, before the medium
    /// has written it.
    pub posted: bool,
    /// The number of links between host and device.
    pub hops: u32,
    /// The constant stages.
    pub stages: ConstantStages,
    /// The stations where the flow may wait.
    pub visits: Vec<Visit>,
}
