//! What a host asks of a device: a share of its requests, its constant stages, and the stations
//! where it may wait.

use cxlab_protocol::Channel;

/// The message classes of CXL.mem requests and answers, as the numbers of their tables here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A read request (M2S Req).
    Req = 0,
    /// A line to write (M2S RwD).
    Rwd = 1,
    /// A completion (S2M NDR).
    Ndr = 2,
    /// A line that was read (S2M DRS).
    Drs = 3,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, in the order of their numbers.
    pub const ALL: [Class; Class::COUNT] = [Class::Req, Class::Rwd, Class::Ndr, Class::Drs];

    /// The channel of the protocol.
    pub fn channel(self) -> Channel {
        match self {
            Class::Req => Channel::M2sReq,
            Class::Rwd => Channel::M2sRwd,
            Class::Ndr => Channel::S2mNdr,
            Class::Drs => Channel::S2mDrs,
        }
    }

    /// What a request travels as.
    pub fn request(write: bool) -> Class {
        if write { Class::Rwd } else { Class::Req }
    }

    /// What its answer travels as.
    pub fn answer(write: bool) -> Class {
        if write { Class::Ndr } else { Class::Drs }
    }
}

/// The constant stages of a request, in picoseconds: what it takes alone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stages {
    /// Processing in the requester.
    pub process: u64,
    /// A look into a private cache.
    pub cache: u64,
    /// Turning half-duplex buses round.
    pub switch_queue: u64,
    /// On wires: transmission and propagation.
    pub link: u64,
    /// In ports.
    pub port: u64,
    /// In switches.
    pub switch: u64,
    /// In the device's controller.
    pub device: u64,
    /// In the medium.
    pub media: u64,
}

impl Stages {
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

    /// Their sum: the latency without load.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, picos)| picos).sum()
    }
}

/// One station on a flow's way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visit {
    /// The station's number.
    pub station: u32,
    /// As what a message comes there.
    pub class: Class,
    /// The station that it comes from; `None` from the host itself.
    pub from: Option<u32>,
    /// The part of the flow that takes this way, above 0 and up to 1.
    pub share: f64,
}

/// What a host asks of one device, reads or writes.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// The host's number.
    pub host: u32,
    /// The device's number; `None` where the host's cache answers.
    pub device: Option<u32>,
    /// Whether it writes.
    pub write: bool,
    /// Messages of this flow for each request of the host.
    pub share: f64,
    /// Whether they are requests; write-backs only take a request's place.
    pub counts: bool,
    /// Whether it is answered when the medium has accepted it, and not when it is done.
    pub posted: bool,
    /// Links from host to device.
    pub hops: u32,
    /// The constant stages.
    pub stages: Stages,
    /// Where it may wait.
    pub visits: Vec<Visit>,
}
